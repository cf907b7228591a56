//! The lock of the standard library that many threads may read at once. While recording is on, it knows its writer, and
//! its reader if there is only one.

use core::any::type_name;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{self, LockResult, TryLockResult};

use super::watch::{Held, Origin, Shared, SharedWatch, is_on};
use super::{as_attempt, attempt_result, map, with_poison, without_poison};

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
    /// A new lock. Its name is its type, and the place of this call.
    #[inline]
    #[track_caller]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock {
            watch: SharedWatch::new(Origin::here()),
            inner: sync::RwLock::new(value),
        }
    }

    /// A new lock with that name.
    #[inline]
    pub const fn named(name: &'static str, value: T) -> RwLock<T> {
        RwLock {
            watch: SharedWatch::new(Origin::named(name)),
            inner: sync::RwLock::new(value),
        }
    }

    /// The value, as [`std::sync::RwLock::into_inner`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

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
        let inner = attempt_result(self.inner.try_read());
        let guard = |inner| RwLockReadGuard {
            _held: self.watch.shared(),
            inner,
        };
        as_attempt(inner.map(|inner| map(inner, guard)))
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
        let _held = self.watch.held_so();
        with_poison(is_poisoned, RwLockWriteGuard { _held, inner })
    }

    /// Takes the lock for writing if no thread holds it, as [`std::sync::RwLock::try_write`].
    ///
    /// # Errors
    /// If a thread holds the lock, or it is poisoned.
    #[inline]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        let inner = attempt_result(self.inner.try_write());
        let guard = |inner| RwLockWriteGuard {
            _held: self.watch.held(),
            inner,
        };
        as_attempt(inner.map(|inner| map(inner, guard)))
    }

    /// Whether a thread panicked while it wrote.
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
    fn read_watched(&self) -> (bool, sync::RwLockReadGuard<'_, T>, Shared<'_>) {
        let attempt = || attempt_result(self.inner.try_read());
        let block = || self.inner.read();
        let of = type_name::<RwLock<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => self.watch.wait_to_read(of, None, attempt, block),
        };
        let (is_poisoned, inner) = without_poison(result);
        (is_poisoned, inner, self.watch.shared())
    }

    #[cold]
    #[inline(never)]
    fn write_watched(&self) -> (bool, sync::RwLockWriteGuard<'_, T>) {
        let attempt = || attempt_result(self.inner.try_write());
        let block = || self.inner.write();
        let hold = |_: &_| self.watch.hold();
        let of = type_name::<RwLock<T>>;
        let result = match attempt() {
            Some(result) => result,
            None => self.watch.wait(of, None, attempt, block, hold),
        };
        self.watch.hold();
        without_poison(result)
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

macro_rules! guard {
    ($($guard:ident)+) => {
        $(
            impl<T: ?Sized> Deref for $guard<'_, T> {
                type Target = T;

                #[inline]
                fn deref(&self) -> &T {
                    &self.inner
                }
            }

            impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.inner.fmt(f)
                }
            }

            impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.inner.fmt(f)
                }
            }
        )+
    };
}

guard!(RwLockReadGuard RwLockWriteGuard);

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
