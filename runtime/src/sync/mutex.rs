//! The mutual exclusion lock of the standard library, which knows its holder while recording is on.

use core::any::type_name;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, TryLockResult};

use super::watch::{Held, Origin, Watch, is_on};
use super::{as_attempt, attempt_result, map, with_poison, without_poison};

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
///
/// *HITS.lock().unwrap() += 1;
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
    /// A new lock. Its name is its type, and the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex {
            watch: Watch::new(Origin::here()),
            inner: sync::Mutex::new(value),
        }
    }

    /// A new lock with that name.
    ///
    /// # Examples
    /// ```
    /// static QUEUE: fdr::sync::Mutex<Vec<u32>> = fdr::sync::Mutex::named("queue", Vec::new());
    /// ```
    #[inline]
    pub const fn named(name: &'static str, value: T) -> Mutex<T> {
        Mutex {
            watch: Watch::new(Origin::named(name)),
            inner: sync::Mutex::new(value),
        }
    }

    /// The value, as [`std::sync::Mutex::into_inner`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

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
        let held = self.watch.held_so();
        with_poison(is_poisoned, MutexGuard { held, inner })
    }

    /// Takes the lock if no thread holds it, as [`std::sync::Mutex::try_lock`].
    ///
    /// # Errors
    /// If a thread holds the lock, or it is poisoned.
    #[inline]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        let inner = attempt_result(self.inner.try_lock());
        let guard = |inner| MutexGuard {
            held: self.watch.held(),
            inner,
        };
        as_attempt(inner.map(|inner| map(inner, guard)))
    }

    /// Whether a thread panicked while it held the lock.
    #[inline]
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }

    /// From now on the lock is not poisoned.
    #[inline]
    pub fn clear_poison(&self) {
        self.inner.clear_poison();
    }

    /// The value, without a lock, because no other thread has it.
    ///
    /// # Errors
    /// If the lock is poisoned.
    #[inline]
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }

    #[cold]
    #[inline(never)]
    fn lock_watched(&self) -> (bool, sync::MutexGuard<'_, T>) {
        let attempt = || attempt_result(self.inner.try_lock());
        let block = || self.inner.lock();
        let hold = |_: &_| self.watch.hold();
        let of = type_name::<Mutex<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => self.watch.wait(of, None, attempt, block, hold),
        };
        self.watch.hold();
        without_poison(result)
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
