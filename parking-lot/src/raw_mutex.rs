//! The raw locks that one thread has: those of `parking_lot`, which know their holder while recording is on.

use std::time::{Duration, Instant};

use fdr::sync::raw::{Lock, TypeName, is_on};
use parking_lot::lock_api;
use parking_lot::lock_api::{RawMutex as _, RawMutexFair as _, RawMutexTimed as _};

/// [`parking_lot::RawMutex`], whose waits are recorded with the thread that held the lock.
pub struct RawMutex {
    lock: Lock,
    /// With its value, because a condition waits by a guard.
    pub(crate) inner: parking_lot::Mutex<()>,
}

impl RawMutex {
    #[track_caller]
    pub(crate) const fn here(of: TypeName) -> RawMutex {
        RawMutex::of(Lock::here(of))
    }

    pub(crate) const fn named(name: &'static str, of: TypeName) -> RawMutex {
        RawMutex::of(Lock::named(name, of))
    }

    const fn of(lock: Lock) -> RawMutex {
        RawMutex {
            lock,
            inner: parking_lot::const_mutex(()),
        }
    }

    #[inline(always)]
    fn raw(&self) -> &parking_lot::RawMutex {
        // SAFETY: only the functions of this file use it, as those of a raw lock, and no guard of it is anywhere but in
        // the wait of a condition, whose caller holds the lock.
        unsafe { self.inner.raw() }
    }

    /// Until this is followed by [`RawMutex::has_again`], no thread is known to hold the lock.
    #[inline(always)]
    pub(crate) fn gives_back(&self) {
        self.lock.release();
    }

    /// The calling thread has the lock again.
    #[inline(always)]
    pub(crate) fn has_again(&self) {
        if is_on() {
            self.lock.hold();
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_watched(&self) {
        match self.raw().try_lock() {
            true => self.lock.hold(),
            false => {
                let block = || {
                    self.raw().lock();
                    true
                };
                self.lock.wait(None, || self.raw().try_lock(), block);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn try_lock_watched(&self, deadline: Option<Instant>) -> bool {
        if self.raw().try_lock() {
            self.lock.hold();
            return true;
        }
        let Some(deadline) = deadline else {
            self.lock_watched();
            return true;
        };
        let block = || self.raw().try_lock_until(deadline);
        let take = || self.raw().try_lock();
        self.lock.wait(Some(deadline), take, block)
    }

    #[cold]
    #[inline(never)]
    fn bump_watched(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.unlock_fair() };
        self.lock_watched();
    }
}

// SAFETY: the lock is that of `parking_lot`. Whatever is recorded changes nothing about who gets it.
unsafe impl lock_api::RawMutex for RawMutex {
    const INIT: RawMutex = RawMutex::named("RawMutex", || "RawMutex");

    type GuardMarker = <parking_lot::RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        match is_on() {
            true => self.lock_watched(),
            false => self.raw().lock(),
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        let is_taken = self.raw().try_lock();
        if is_taken {
            self.has_again();
        }
        is_taken
    }

    #[inline]
    unsafe fn unlock(&self) {
        self.lock.release();
        // SAFETY: the caller holds the lock.
        unsafe { self.raw().unlock() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw().is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        self.lock.release();
        // SAFETY: the caller holds the lock.
        unsafe { self.raw().unlock_fair() };
    }

    #[inline]
    unsafe fn bump(&self) {
        match is_on() {
            true => self.bump_watched(),
            // SAFETY: the caller holds the lock.
            false => unsafe { self.raw().bump() },
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        match is_on() {
            true => self.try_lock_watched(Instant::now().checked_add(timeout)),
            false => self.raw().try_lock_for(timeout),
        }
    }

    #[inline]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        match is_on() {
            true => self.try_lock_watched(Some(timeout)),
            false => self.raw().try_lock_until(timeout),
        }
    }
}

/// [`parking_lot::RawFairMutex`]: a [`RawMutex`] that is always given to the thread that waits longest.
pub struct RawFairMutex(RawMutex);

impl RawFairMutex {
    #[track_caller]
    pub(crate) const fn here(of: TypeName) -> RawFairMutex {
        RawFairMutex(RawMutex::here(of))
    }

    pub(crate) const fn named(name: &'static str, of: TypeName) -> RawFairMutex {
        RawFairMutex(RawMutex::named(name, of))
    }
}

// SAFETY: it is a `RawMutex`.
unsafe impl lock_api::RawMutex for RawFairMutex {
    const INIT: RawFairMutex = RawFairMutex(RawMutex::INIT);

    type GuardMarker = <RawMutex as lock_api::RawMutex>::GuardMarker;

    #[inline]
    fn lock(&self) {
        self.0.lock();
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock_fair() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawFairMutex {
    #[inline]
    unsafe fn unlock_fair(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock_fair() };
    }

    #[inline]
    unsafe fn bump(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.bump() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawFairMutex {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.0.try_lock_for(timeout)
    }

    #[inline]
    fn try_lock_until(&self, timeout: Instant) -> bool {
        self.0.try_lock_until(timeout)
    }
}
