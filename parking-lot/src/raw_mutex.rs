//! The raw locks that one thread holds: those of `parking_lot`. They know their holder while recording is on.

use std::time::{Duration, Instant};

use fdr::sync::raw::{Claim, Origin, TypeName, TypeOf, Watch, is_on};
use parking_lot::lock_api::{self, RawMutexFair, RawMutexTimed};

use crate::raw::{self, Wait, fair, plain, take, timed};

/// [`parking_lot::RawMutex`], whose waits are recorded with the thread that held the lock.
pub type RawMutex = WatchedRawMutex<parking_lot::RawMutex>;

/// [`parking_lot::RawFairMutex`]: a [`RawMutex`] that is always given to the thread that waits longest.
pub type RawFairMutex = WatchedRawMutex<parking_lot::RawFairMutex>;

/// A raw lock of `parking_lot`, whose waits are recorded with the thread that held the lock.
pub struct WatchedRawMutex<R> {
    watch: Watch,
    of: TypeOf,
    /// With its value, because a condition waits by a guard.
    pub(crate) inner: lock_api::Mutex<R, ()>,
}

/// The only right to such a lock.
pub(crate) struct Whole;

impl<R: Timed> WatchedRawMutex<R> {
    pub(crate) const fn new(origin: Origin, of: TypeName) -> WatchedRawMutex<R> {
        WatchedRawMutex {
            watch: Watch::new(origin),
            of: TypeOf::new(of),
            inner: lock_api::Mutex::new(()),
        }
    }

    #[inline(always)]
    fn raw(&self) -> &R {
        // SAFETY: only the functions of this file use it, as those of a raw lock. The only guard is the one in the wait
        // of a condition, and the caller of that wait holds the lock.
        unsafe { self.inner.raw() }
    }

    /// Takes the lock by the function of `parking_lot` for this wait.
    #[inline(always)]
    fn take_raw(&self, wait: Wait) -> bool {
        take!(self.raw(), wait: try_lock, lock, try_lock_for, try_lock_until)
    }

    /// Takes the lock, and waits for it.
    #[inline(always)]
    fn take(&self, _: Whole, wait: Wait) -> bool {
        match is_on() {
            true => self.take_watched(wait.deadline()),
            false => self.take_raw(wait),
        }
    }

    /// Takes the lock if that is possible at once.
    #[inline(always)]
    fn try_to_take(&self, _: Whole) -> bool {
        let is_taken = self.take_raw(Wait::No);
        self.begins(is_taken && is_on());
        is_taken
    }

    /// Waits for the lock, at most until the deadline. True: the thread has it.
    #[cold]
    #[inline(never)]
    fn take_watched(&self, deadline: Option<Instant>) -> bool {
        let of = || self.of.name();
        let take = |wait| self.take_raw(wait);
        let claim = Claim::Alone(&self.watch);
        raw::take_watched(claim, of, deadline, take, |is_taken| {
            self.begins(is_taken);
        })
    }

    /// The calling thread has the lock now, if that is true.
    #[inline(always)]
    pub(crate) fn begins(&self, is_taken: bool) {
        if is_taken {
            self.watch.hold();
        }
    }

    /// The calling thread is about to give the lock back.
    #[inline(always)]
    pub(crate) fn ends(&self, _: Whole) {
        self.watch.release();
    }
}

// SAFETY: the lock is that of `parking_lot`. The recording does not change which thread gets it.
unsafe impl<R: Timed> lock_api::RawMutex for WatchedRawMutex<R> {
    const INIT: Self = WatchedRawMutex::new(Origin::named("RawMutex"), || "RawMutex");

    type GuardMarker = R::GuardMarker;

    plain! { lock, try_lock, unlock: Whole; }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw().is_locked()
    }
}

// SAFETY: as above.
unsafe impl<R: Timed> RawMutexFair for WatchedRawMutex<R> {
    fair! { unlock_fair, bump: Whole; }
}

// SAFETY: as above.
unsafe impl<R: Timed> RawMutexTimed for WatchedRawMutex<R> {
    type Duration = Duration;
    type Instant = Instant;

    timed! { try_lock_for, try_lock_until: Whole; }
}

/// The traits that both raw locks of `parking_lot` implement.
pub trait Timed: RawMutexFair + RawMutexTimed<Duration = Duration, Instant = Instant> {}

impl<R: RawMutexFair + RawMutexTimed<Duration = Duration, Instant = Instant>> Timed for R {}
