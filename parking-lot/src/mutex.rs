//! The locks that one thread has: plain, fair, and with a count for the thread that has it already.

use std::time::{Duration, Instant};

use parking_lot::RawThreadId;
use parking_lot::lock_api::{self, GetThreadId};

#[cfg(feature = "arc_lock")]
use crate::wrapper::arc_methods;
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
    Mutex = Mutex<RawMutex>, RawMutex
}

lock! {
    /// [`parking_lot::FairMutex`], whose waits are recorded as those of a [`Mutex`]. The thread that waits longest gets
    /// it next.
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::FairMutex;
    ///
    /// let turns = FairMutex::named("turns", 0);
    /// *turns.lock() += 1;
    /// assert_eq!(turns.into_inner(), 1);
    /// ```
    FairMutex = Mutex<RawFairMutex>, RawFairMutex
}

lock! {
    /// [`parking_lot::ReentrantMutex`], whose waits are recorded as those of a [`Mutex`]. Its thread may take it again.
    ///
    /// # Examples
    /// ```
    /// use fdr_parking_lot::ReentrantMutex;
    ///
    /// let lock = ReentrantMutex::new(7);
    /// let (one, other) = (lock.lock(), lock.lock());
    /// assert_eq!(*one, *other);
    /// ```
    ReentrantMutex = ReentrantMutex<RawMutex, RawThreadId>, RawMutex, RawThreadId::INIT
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

/// As [`Mutex::new`].
#[track_caller]
pub const fn const_mutex<T>(value: T) -> Mutex<T> {
    Mutex::new(value)
}

/// As [`FairMutex::new`].
#[track_caller]
pub const fn const_fair_mutex<T>(value: T) -> FairMutex<T> {
    FairMutex::new(value)
}

/// As [`ReentrantMutex::new`].
#[track_caller]
pub const fn const_reentrant_mutex<T>(value: T) -> ReentrantMutex<T> {
    ReentrantMutex::new(value)
}

macro_rules! all_methods {
    ($Lock:ident, $Guard:ident, $ArcGuard:ident<$($Raw:ty),+>) => {
        methods! { $Lock:
            /// Waits for the lock.
            lock() -> $Guard<'_, T>;
            /// Takes the lock if no other thread holds it.
            try_lock() -> Option<$Guard<'_, T>>;
            /// Waits for the lock, for a time at most.
            try_lock_for(timeout: Duration) -> Option<$Guard<'_, T>>;
            /// Waits for the lock, until a moment at most.
            try_lock_until(timeout: Instant) -> Option<$Guard<'_, T>>;
            /// Whether a thread holds the lock.
            is_locked() -> bool;
        }

        #[cfg(feature = "arc_lock")]
        arc_methods! { $Lock:
            /// Waits for the lock.
            lock_arc() -> $ArcGuard<$($Raw,)+ T>;
            /// Takes the lock if no other thread holds it.
            try_lock_arc() -> Option<$ArcGuard<$($Raw,)+ T>>;
            /// Waits for the lock, for a time at most.
            try_lock_arc_for(timeout: Duration) -> Option<$ArcGuard<$($Raw,)+ T>>;
            /// Waits for the lock, until a moment at most.
            try_lock_arc_until(timeout: Instant) -> Option<$ArcGuard<$($Raw,)+ T>>;
        }
    };
}

all_methods!(Mutex, MutexGuard, ArcMutexGuard<RawMutex>);
all_methods!(FairMutex, FairMutexGuard, ArcMutexGuard<RawFairMutex>);
all_methods!(ReentrantMutex, ReentrantMutexGuard, ArcReentrantMutexGuard<RawMutex, RawThreadId>);

methods! { ReentrantMutex:
    /// Whether the calling thread holds the lock.
    is_owned_by_current_thread() -> bool;
}
