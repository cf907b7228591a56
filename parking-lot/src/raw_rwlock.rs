//! The raw lock that many threads may read at once: that of `parking_lot`. It knows its writer while recording is on,
//! and its reader if there is one alone. An upgradable reader is a reader.

use std::time::{Duration, Instant};

use fdr::sync::raw::{SharedLock, TypeName, is_on};
use parking_lot::lock_api;
use parking_lot::lock_api::{
    RawRwLock as _, RawRwLockRecursive as _, RawRwLockRecursiveTimed as _, RawRwLockTimed as _,
    RawRwLockUpgrade as _, RawRwLockUpgradeTimed as _,
};

use crate::readers;

/// [`parking_lot::RawRwLock`], whose waits are recorded with the thread that held the lock: the writer, or the reader
/// if it was the only one.
pub struct RawRwLock {
    lock: SharedLock,
    raw: parking_lot::RawRwLock,
}

/// How a reader takes the lock.
#[derive(Clone, Copy)]
enum Reading {
    Plain,
    Recursive,
    Upgradable,
}

impl RawRwLock {
    #[track_caller]
    pub(crate) const fn here(of: TypeName) -> RawRwLock {
        RawRwLock::of(SharedLock::here(of))
    }

    pub(crate) const fn named(name: &'static str, of: TypeName) -> RawRwLock {
        RawRwLock::of(SharedLock::named(name, of))
    }

    const fn of(lock: SharedLock) -> RawRwLock {
        RawRwLock {
            lock,
            raw: parking_lot::RawRwLock::INIT,
        }
    }

    /// The calling thread has taken the lock to read.
    #[inline(always)]
    fn begins_to_read(&self, is_taken: bool) -> bool {
        if is_taken && is_on() {
            readers::begin(&self.lock);
        }
        is_taken
    }

    /// The calling thread is about to give the lock back that it reads.
    #[inline(always)]
    fn ends_to_read(&self) {
        if self.lock.has_readers() {
            readers::end(&self.lock);
        }
    }

    /// The calling thread has the lock alone.
    #[inline(always)]
    fn begins_to_write(&self, is_taken: bool) -> bool {
        if is_taken && is_on() {
            self.lock.hold();
        }
        is_taken
    }

    fn try_to_read(&self, how: Reading) -> bool {
        match how {
            Reading::Plain => self.raw.try_lock_shared(),
            Reading::Recursive => self.raw.try_lock_shared_recursive(),
            Reading::Upgradable => self.raw.try_lock_upgradable(),
        }
    }

    fn wait_to_read(&self, how: Reading, deadline: Option<Instant>) -> bool {
        match (how, deadline) {
            (Reading::Plain, None) => self.raw.lock_shared(),
            (Reading::Recursive, None) => self.raw.lock_shared_recursive(),
            (Reading::Upgradable, None) => self.raw.lock_upgradable(),
            (Reading::Plain, Some(deadline)) => return self.raw.try_lock_shared_until(deadline),
            (Reading::Recursive, Some(deadline)) => {
                return self.raw.try_lock_shared_recursive_until(deadline);
            }
            (Reading::Upgradable, Some(deadline)) => {
                return self.raw.try_lock_upgradable_until(deadline);
            }
        }
        true
    }

    /// Waits until the thread may read, at most until the deadline. True: it may.
    #[cold]
    #[inline(never)]
    fn read_watched(&self, how: Reading, deadline: Option<Instant>) -> bool {
        let is_taken = self.try_to_read(how)
            || self.lock.wait_to_read(
                deadline,
                || self.try_to_read(how),
                || self.wait_to_read(how, deadline),
            );
        if is_taken {
            readers::begin(&self.lock);
        }
        is_taken
    }

    /// Waits until the thread may write, at most until the deadline. True: it may.
    #[cold]
    #[inline(never)]
    fn write_watched(&self, deadline: Option<Instant>) -> bool {
        if self.raw.try_lock_exclusive() {
            self.lock.hold();
            return true;
        }
        let block = || match deadline {
            Some(deadline) => self.raw.try_lock_exclusive_until(deadline),
            None => {
                self.raw.lock_exclusive();
                true
            }
        };
        let take = || self.raw.try_lock_exclusive();
        self.lock.wait_to_write(deadline, take, block)
    }

    /// Waits until an upgradable reader may write, at most until the deadline. True: it may. False: it reads.
    ///
    /// # Safety
    /// The calling thread is the upgradable reader.
    #[cold]
    #[inline(never)]
    unsafe fn upgrade_watched(&self, deadline: Option<Instant>) -> bool {
        readers::end(&self.lock);
        // SAFETY: the caller is the upgradable reader.
        let take = || unsafe { self.raw.try_upgrade() };
        if take() {
            self.lock.hold();
            return true;
        }
        let block = || match deadline {
            // SAFETY: it still is.
            Some(deadline) => unsafe { self.raw.try_upgrade_until(deadline) },
            None => {
                // SAFETY: it still is.
                unsafe { self.raw.upgrade() };
                true
            }
        };
        let is_taken = self.lock.wait_to_write(deadline, take, block);
        if !is_taken {
            readers::begin(&self.lock);
        }
        is_taken
    }
}

// SAFETY: the lock is that of `parking_lot`. Whatever is recorded changes nothing about who gets it.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock::named("RawRwLock", || "RawRwLock");

    type GuardMarker = <parking_lot::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    #[inline]
    fn lock_shared(&self) {
        match is_on() {
            true => _ = self.read_watched(Reading::Plain, None),
            false => self.raw.lock_shared(),
        }
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.begins_to_read(self.raw.try_lock_shared())
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.ends_to_read();
        // SAFETY: the caller reads.
        unsafe { self.raw.unlock_shared() };
    }

    #[inline]
    fn lock_exclusive(&self) {
        match is_on() {
            true => _ = self.write_watched(None),
            false => self.raw.lock_exclusive(),
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.begins_to_write(self.raw.try_lock_exclusive())
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.lock.release();
        // SAFETY: the caller writes.
        unsafe { self.raw.unlock_exclusive() };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.raw.is_locked()
    }

    #[inline]
    fn is_locked_exclusive(&self) -> bool {
        self.raw.is_locked_exclusive()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    #[inline]
    unsafe fn unlock_shared_fair(&self) {
        self.ends_to_read();
        // SAFETY: the caller reads.
        unsafe { self.raw.unlock_shared_fair() };
    }

    #[inline]
    unsafe fn unlock_exclusive_fair(&self) {
        self.lock.release();
        // SAFETY: the caller writes.
        unsafe { self.raw.unlock_exclusive_fair() };
    }

    #[inline]
    unsafe fn bump_shared(&self) {
        if is_on() {
            // SAFETY: the caller reads.
            unsafe { self.unlock_shared_fair() };
            self.read_watched(Reading::Plain, None);
        } else {
            // SAFETY: the caller reads.
            unsafe { self.raw.bump_shared() };
        }
    }

    #[inline]
    unsafe fn bump_exclusive(&self) {
        if is_on() {
            // SAFETY: the caller writes.
            unsafe { self.unlock_exclusive_fair() };
            self.write_watched(None);
        } else {
            // SAFETY: the caller writes.
            unsafe { self.raw.bump_exclusive() };
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade(&self) {
        self.lock.release();
        self.begins_to_read(true);
        // SAFETY: the caller writes.
        unsafe { self.raw.downgrade() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    #[inline]
    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Plain, Instant::now().checked_add(timeout)),
            false => self.raw.try_lock_shared_for(timeout),
        }
    }

    #[inline]
    fn try_lock_shared_until(&self, timeout: Instant) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Plain, Some(timeout)),
            false => self.raw.try_lock_shared_until(timeout),
        }
    }

    #[inline]
    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        match is_on() {
            true => self.write_watched(Instant::now().checked_add(timeout)),
            false => self.raw.try_lock_exclusive_for(timeout),
        }
    }

    #[inline]
    fn try_lock_exclusive_until(&self, timeout: Instant) -> bool {
        match is_on() {
            true => self.write_watched(Some(timeout)),
            false => self.raw.try_lock_exclusive_until(timeout),
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    #[inline]
    fn lock_shared_recursive(&self) {
        match is_on() {
            true => _ = self.read_watched(Reading::Recursive, None),
            false => self.raw.lock_shared_recursive(),
        }
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.begins_to_read(self.raw.try_lock_shared_recursive())
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    #[inline]
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Recursive, Instant::now().checked_add(timeout)),
            false => self.raw.try_lock_shared_recursive_for(timeout),
        }
    }

    #[inline]
    fn try_lock_shared_recursive_until(&self, timeout: Instant) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Recursive, Some(timeout)),
            false => self.raw.try_lock_shared_recursive_until(timeout),
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    #[inline]
    fn lock_upgradable(&self) {
        match is_on() {
            true => _ = self.read_watched(Reading::Upgradable, None),
            false => self.raw.lock_upgradable(),
        }
    }

    #[inline]
    fn try_lock_upgradable(&self) -> bool {
        self.begins_to_read(self.raw.try_lock_upgradable())
    }

    #[inline]
    unsafe fn unlock_upgradable(&self) {
        self.ends_to_read();
        // SAFETY: the caller is the upgradable reader.
        unsafe { self.raw.unlock_upgradable() };
    }

    #[inline]
    unsafe fn upgrade(&self) {
        if is_on() {
            // SAFETY: the caller is the upgradable reader.
            unsafe { self.upgrade_watched(None) };
        } else {
            self.ends_to_read();
            // SAFETY: the caller is the upgradable reader.
            unsafe { self.raw.upgrade() };
        }
    }

    #[inline]
    unsafe fn try_upgrade(&self) -> bool {
        // SAFETY: the caller is the upgradable reader.
        let is_taken = unsafe { self.raw.try_upgrade() };
        if is_taken {
            self.ends_to_read();
        }
        self.begins_to_write(is_taken)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    #[inline]
    unsafe fn unlock_upgradable_fair(&self) {
        self.ends_to_read();
        // SAFETY: the caller is the upgradable reader.
        unsafe { self.raw.unlock_upgradable_fair() };
    }

    #[inline]
    unsafe fn bump_upgradable(&self) {
        if is_on() {
            // SAFETY: the caller is the upgradable reader.
            unsafe { self.unlock_upgradable_fair() };
            self.read_watched(Reading::Upgradable, None);
        } else {
            // SAFETY: the caller is the upgradable reader.
            unsafe { self.raw.bump_upgradable() };
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller is the upgradable reader, and stays a reader.
        unsafe { self.raw.downgrade_upgradable() };
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        self.lock.release();
        self.begins_to_read(true);
        // SAFETY: the caller writes.
        unsafe { self.raw.downgrade_to_upgradable() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    #[inline]
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Upgradable, Instant::now().checked_add(timeout)),
            false => self.raw.try_lock_upgradable_for(timeout),
        }
    }

    #[inline]
    fn try_lock_upgradable_until(&self, timeout: Instant) -> bool {
        match is_on() {
            true => self.read_watched(Reading::Upgradable, Some(timeout)),
            false => self.raw.try_lock_upgradable_until(timeout),
        }
    }

    #[inline]
    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        match Instant::now().checked_add(timeout) {
            // SAFETY: the caller is the upgradable reader.
            Some(deadline) => unsafe { self.try_upgrade_until(deadline) },
            None => {
                // SAFETY: the caller is the upgradable reader.
                unsafe { self.upgrade() };
                true
            }
        }
    }

    #[inline]
    unsafe fn try_upgrade_until(&self, timeout: Instant) -> bool {
        if is_on() {
            // SAFETY: the caller is the upgradable reader.
            return unsafe { self.upgrade_watched(Some(timeout)) };
        }
        // SAFETY: the caller is the upgradable reader.
        let is_taken = unsafe { self.raw.try_upgrade_until(timeout) };
        if is_taken {
            self.ends_to_read();
        }
        is_taken
    }
}
