//! The exclusive locks: `Mutex`, `FairMutex` and `ReentrantMutex`. The thread that holds a `ReentrantMutex` may lock it
//! again.

use std::time::{Duration, Instant};

use parking_lot::RawThreadId;
use parking_lot::lock_api::{self, GetThreadId};

use crate::wrapper::{lock, methods};
use crate::{RawFairMutex, RawMutex};

lock! {
    /// [`parking_lot::Mutex`], whose waits are recorded with the thread that held the lock, and the function that this
    /// thread was in.
    ///
    /// Its name in a trace is its type, and the file and line of the call of [`Mutex::new`]. [`Mutex::named`] gives
    /// another one.
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::Mutex;
    ///
    /// static HITS: Mutex<u32> = Mutex::new(0);
    ///
    /// *HITS.lock() += 1;
    /// assert_eq!(*HITS.lock(), 1);
    /// ```
    Mutex, const_mutex = Mutex<RawMutex>
}

lock! {
    /// [`parking_lot::FairMutex`], whose waits are recorded as those of a [`Mutex`]. The lock goes to the thread that
    /// has waited longest.
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::FairMutex;
    ///
    /// let turns = FairMutex::named("turns", 0);
    /// *turns.lock() += 1;
    /// assert_eq!(turns.into_inner(), 1);
    /// ```
    FairMutex, const_fair_mutex = Mutex<RawFairMutex>
}

lock! {
    /// [`parking_lot::ReentrantMutex`], whose waits are recorded as those of a [`Mutex`]. The thread that holds it may
    /// take it again.
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::ReentrantMutex;
    ///
    /// let lock = ReentrantMutex::new(7);
    /// let (one, other) = (lock.lock(), lock.lock());
    /// assert_eq!(*one, *other);
    /// ```
    ReentrantMutex, const_reentrant_mutex = ReentrantMutex<RawMutex, RawThreadId>, RawThreadId::INIT
}

/// A right to use the value of a [`Mutex`], which ends when it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// A right to use a part of the value of a [`Mutex`].
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// A right to use the value of a [`FairMutex`], which ends when it is dropped.
pub type FairMutexGuard<'a, T> = lock_api::MutexGuard<'a, RawFairMutex, T>;

/// A right to use a part of the value of a [`FairMutex`].
pub type MappedFairMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawFairMutex, T>;

/// A right to read the value of a [`ReentrantMutex`], which ends when it is dropped.
pub type ReentrantMutexGuard<'a, T> = lock_api::ReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// A right to read a part of the value of a [`ReentrantMutex`].
pub type MappedReentrantMutexGuard<'a, T> =
    lock_api::MappedReentrantMutexGuard<'a, RawMutex, RawThreadId, T>;

/// The guards of a lock in an [`Arc`](std::sync::Arc), which keep it alive.
#[cfg(feature = "arc_lock")]
pub use parking_lot::lock_api::{ArcMutexGuard, ArcReentrantMutexGuard};

macro_rules! mutex_methods {
    ($($Lock:ident: $Guard:ty, $ArcGuard:ty;)+) => {
        $(
            methods! { $Lock: $Guard, $ArcGuard:
                /// Waits for the lock.
                lock, lock_arc;
                /// Takes the lock if no other thread holds it.
                try_lock, try_lock_arc;
                /// Waits for the lock, for a time at most.
                try_lock_for, try_lock_arc_for, timeout: Duration;
                /// Waits for the lock, until a moment at most.
                try_lock_until, try_lock_arc_until, timeout: Instant;
            }
        )+
    };
}

mutex_methods! {
    Mutex: MutexGuard<'_, T>, ArcMutexGuard<RawMutex, T>;
    FairMutex: FairMutexGuard<'_, T>, ArcMutexGuard<RawFairMutex, T>;
    ReentrantMutex: ReentrantMutexGuard<'_, T>, ArcReentrantMutexGuard<RawMutex, RawThreadId, T>;
}

impl<T: ?Sized> ReentrantMutex<T> {
    /// Whether the calling thread holds the lock.
    #[inline]
    pub fn is_owned_by_current_thread(&self) -> bool {
        self.0.is_owned_by_current_thread()
    }
}
