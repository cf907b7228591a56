//! The lock that many threads may read at once, one of them with the right to write later.

use std::time::{Duration, Instant};

use parking_lot::lock_api;

use crate::RawRwLock;
use crate::wrapper::{lock, methods};

lock! {
    /// [`parking_lot::RwLock`], whose waits are recorded with the thread that held the lock: the writer, or the reader
    /// if there was only one. The default name is made as for a [`Mutex`](crate::Mutex).
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::{RwLock, RwLockUpgradableReadGuard};
    ///
    /// let routes = RwLock::named("routes", vec!["/"]);
    /// let seen = routes.upgradable_read();
    /// if !seen.contains(&"/status") {
    ///     RwLockUpgradableReadGuard::upgrade(seen).push("/status");
    /// }
    /// assert_eq!(routes.read().len(), 2);
    /// ```
    RwLock, const_rwlock = RwLock<RawRwLock>
}

/// A right to read the value of a [`RwLock`], which ends when it is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// A right to write the value of a [`RwLock`], which ends when it is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A right to read the value of a [`RwLock`], and to wait for the right to write it.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A right to read a part of the value of a [`RwLock`].
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// A right to write a part of the value of a [`RwLock`].
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// The guards of a lock in an [`Arc`](std::sync::Arc), which keep it alive.
#[cfg(feature = "arc_lock")]
pub use parking_lot::lock_api::{
    ArcRwLockReadGuard, ArcRwLockUpgradableReadGuard, ArcRwLockWriteGuard,
};

methods! { RwLock: RwLockReadGuard<'_, T>, ArcRwLockReadGuard<RawRwLock, T>:
    /// Waits until the thread may read. A thread that reads already may wait for ever.
    read, read_arc;
    /// Takes the lock for reading if that is possible at once.
    try_read, try_read_arc;
    /// Waits until the thread may read, for a time at most.
    try_read_for, try_read_arc_for, timeout: Duration;
    /// Waits until the thread may read, until a moment at most.
    try_read_until, try_read_arc_until, timeout: Instant;
}

methods! { RwLock: RwLockReadGuard<'_, T>, ArcRwLockReadGuard<RawRwLock, T>:
    /// As [`RwLock::read`], for a thread that reads already: it does not wait for writers that wait.
    read_recursive, read_arc_recursive;
    /// As [`RwLock::try_read`], for a thread that reads already.
    try_read_recursive, try_read_recursive_arc;
    /// As [`RwLock::try_read_for`], for a thread that reads already.
    try_read_recursive_for, try_read_arc_recursive_for, timeout: Duration;
    /// As [`RwLock::try_read_until`], for a thread that reads already.
    try_read_recursive_until, try_read_arc_recursive_until, timeout: Instant;
}

methods! { RwLock: RwLockWriteGuard<'_, T>, ArcRwLockWriteGuard<RawRwLock, T>:
    /// Waits until the thread may write.
    write, write_arc;
    /// Takes the lock for writing if no thread holds it.
    try_write, try_write_arc;
    /// Waits until the thread may write, for a time at most.
    try_write_for, try_write_arc_for, timeout: Duration;
    /// Waits until the thread may write, until a moment at most.
    try_write_until, try_write_arc_until, timeout: Instant;
}

methods! { RwLock: RwLockUpgradableReadGuard<'_, T>, ArcRwLockUpgradableReadGuard<RawRwLock, T>:
    /// Waits until the thread may read as the one reader that may write later.
    upgradable_read, upgradable_read_arc;
    /// Takes the lock as the one reader that may write later, if that is possible at once.
    try_upgradable_read, try_upgradable_read_arc;
    /// As [`RwLock::upgradable_read`], for a time at most.
    try_upgradable_read_for, try_upgradable_read_arc_for, timeout: Duration;
    /// As [`RwLock::upgradable_read`], until a moment at most.
    try_upgradable_read_until, try_upgradable_read_arc_until, timeout: Instant;
}

impl<T: ?Sized> RwLock<T> {
    /// Whether a thread holds the lock for writing.
    #[inline]
    pub fn is_locked_exclusive(&self) -> bool {
        self.0.is_locked_exclusive()
    }
}
