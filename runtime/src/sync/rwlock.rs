//! The lock of the standard library that many threads may read at once. While recording is on, it knows its writer, and
//! its reader if there is only one.

use core::any::type_name;
use core::fmt;
use std::sync::{self, LockResult, TryLockResult};

use super::watch::{Claim, Held, Origin, Shared, SharedWatch, is_on};
use super::{attempt_result, map_attempt, with_poison, without_poison};

/// [`std::sync::RwLock`], whose waits are recorded with the thread that held the lock: the writer, or the reader if
/// there was only one. The default name is made as for a [`Mutex`](super::Mutex).
///
/// # Examples
/// ```
/// use fdr::sync::RwLock;
///
/// let routes = RwLock::named("routes", vec!["/"]);
/// routes.write().unwrap().push("/status");
/// assert_eq!(routes.read().unwrap().len(), 2);
/// ```
pub struct RwLock<T: ?Sized> {
    watch: SharedWatch,
    inner: sync::RwLock<T>,
}

/// The right to read the value of a [`RwLock`], which ends when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    // Before the guard, as in `MutexGuard`.
    _held: Shared<'a>,
    inner: sync::RwLockReadGuard<'a, T>,
}

/// The right to write the value of a [`RwLock`], which ends when it is dropped.
#[must_use = "if unused the RwLock will immediately unlock"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    // Before the guard, as in `MutexGuard`.
    _held: Held<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

impl<T> RwLock<T> {
    #[inline]
    const fn with_origin(origin: Origin, value: T) -> RwLock<T> {
        RwLock {
            watch: SharedWatch::new(origin),
            inner: sync::RwLock::new(value),
        }
    }
}

lock_of_std!(RwLock);
guard_of_std!(RwLockReadGuard);
guard_of_std!(mut RwLockWriteGuard);

impl<T: ?Sized> RwLock<T> {
    /// Waits until the thread may read, as [`std::sync::RwLock::read`].
    ///
    /// # Errors
    /// If the lock is poisoned: a thread panicked while it wrote.
    ///
    /// # Panics
    /// Perhaps, if the thread holds the lock already.
    #[inline]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let (is_poisoned, inner, _held) = match is_on() {
            true => self.read_watched(),
            false => {
                let (is_poisoned, inner) = without_poison(self.inner.read());
                (is_poisoned, inner, self.watch.shared_unrecorded())
            }
        };
        with_poison(is_poisoned, RwLockReadGuard { _held, inner })
    }

    /// Takes the lock for reading if that is possible at once, as [`std::sync::RwLock::try_read`].
    ///
    /// # Errors
    /// If that is not possible, or the lock is poisoned.
    #[inline]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        map_attempt(self.inner.try_read(), |inner| RwLockReadGuard {
            _held: self.watch.shared(),
            inner,
        })
    }

    /// Waits until the thread may write, as [`std::sync::RwLock::write`].
    ///
    /// # Errors
    /// If the lock is poisoned: a thread panicked while it wrote.
    ///
    /// # Panics
    /// Perhaps, if the thread holds the lock already.
    #[inline]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let (is_poisoned, inner) = match is_on() {
            true => self.write_watched(),
            false => without_poison(self.inner.write()),
        };
        let _held = self.watch.held_without_store();
        with_poison(is_poisoned, RwLockWriteGuard { _held, inner })
    }

    /// Takes the lock for writing if no thread holds it, as [`std::sync::RwLock::try_write`].
    ///
    /// # Errors
    /// If a thread holds the lock, or it is poisoned.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        map_attempt(self.inner.try_write(), |inner| RwLockWriteGuard {
            _held: self.watch.held(),
            inner,
        })
    }

    #[cold]
    #[inline(never)]
    fn read_watched(&self) -> (bool, sync::RwLockReadGuard<'_, T>, Shared<'_>) {
        let attempt = || attempt_result(self.inner.try_read());
        let block = |_| self.inner.read();
        let of = type_name::<RwLock<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => Claim::Read(&self.watch).wait(of, None, attempt, block, |_| {}),
        };
        let (is_poisoned, inner) = without_poison(result);
        (is_poisoned, inner, self.watch.shared())
    }

    #[cold]
    #[inline(never)]
    fn write_watched(&self) -> (bool, sync::RwLockWriteGuard<'_, T>) {
        let attempt = || attempt_result(self.inner.try_write());
        let block = |_| self.inner.write();
        let hold = |_: &_| self.watch.hold();
        let of = type_name::<RwLock<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => Claim::Write(&self.watch).wait(of, None, attempt, block, hold),
        };
        self.watch.hold();
        without_poison(result)
    }
}
