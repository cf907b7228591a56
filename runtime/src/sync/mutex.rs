//! The mutual exclusion lock of the standard library, which knows its holder while recording is on.

use core::any::type_name;
use core::fmt;
use std::sync::{self, LockResult, TryLockResult};

use super::watch::{Claim, Held, Origin, Watch, is_on};
use super::{attempt_result, map_attempt, with_poison, without_poison};

/// [`std::sync::Mutex`], whose waits are recorded with the thread that held the lock, and the function that this thread
/// was in.
///
/// Its name in a trace is its type, and the file and line of the call of [`Mutex::new`]. [`Mutex::named`] gives
/// another one.
///
/// # Examples
/// ```
/// use fdr::sync::Mutex;
///
/// static HITS: Mutex<u32> = Mutex::new(0);
/// static QUEUE: Mutex<Vec<u32>> = Mutex::named("queue", Vec::new());
///
/// *HITS.lock().unwrap() += 1;
/// QUEUE.lock().unwrap().push(7);
/// assert_eq!(*HITS.lock().unwrap(), 1);
/// ```
pub struct Mutex<T: ?Sized> {
    watch: Watch,
    inner: sync::Mutex<T>,
}

/// The right to use the value of a [`Mutex`], which ends when it is dropped.
#[must_use = "if unused the Mutex will immediately unlock"]
pub struct MutexGuard<'a, T: ?Sized> {
    // Before the guard, because fields are dropped in this order: the holder's word must be cleared before the next
    // holder writes it.
    pub(super) held: Held<'a>,
    pub(super) inner: sync::MutexGuard<'a, T>,
}

impl<T> Mutex<T> {
    #[inline]
    const fn with_origin(origin: Origin, value: T) -> Mutex<T> {
        Mutex {
            watch: Watch::new(origin),
            inner: sync::Mutex::new(value),
        }
    }
}

lock_of_std!(Mutex);
guard_of_std!(mut MutexGuard);

impl<T: ?Sized> Mutex<T> {
    /// Waits for the lock, as [`std::sync::Mutex::lock`].
    ///
    /// # Errors
    /// If the lock is poisoned: a thread panicked while it held the lock.
    ///
    /// # Panics
    /// Perhaps, if the thread holds the lock already.
    #[inline]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let (is_poisoned, inner) = match is_on() {
            true => self.lock_watched(),
            false => without_poison(self.inner.lock()),
        };
        let held = self.watch.held_without_store();
        with_poison(is_poisoned, MutexGuard { held, inner })
    }

    /// Takes the lock if no thread holds it, as [`std::sync::Mutex::try_lock`].
    ///
    /// # Errors
    /// If a thread holds the lock, or it is poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        map_attempt(self.inner.try_lock(), |inner| MutexGuard {
            held: self.watch.held(),
            inner,
        })
    }

    #[cold]
    #[inline(never)]
    fn lock_watched(&self) -> (bool, sync::MutexGuard<'_, T>) {
        let attempt = || attempt_result(self.inner.try_lock());
        let block = |_| self.inner.lock();
        let hold = |_: &_| self.watch.hold();
        let of = type_name::<Mutex<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => Claim::Alone(&self.watch).wait(of, None, attempt, block, hold),
        };
        self.watch.hold();
        without_poison(result)
    }
}
