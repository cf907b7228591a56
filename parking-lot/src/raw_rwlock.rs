//! The raw lock that many threads may read at once: that of `parking_lot`. While recording is on, it knows its
//! writer, or its reader if there is only one. An upgradable reader counts as a reader.

use std::time::{Duration, Instant};

use fdr::sync::raw::{Claim, Origin, SharedWatch, TypeName, TypeOf, is_on};
use parking_lot::lock_api::{
    self, RawRwLock as _, RawRwLockDowngrade, RawRwLockFair, RawRwLockRecursive,
    RawRwLockRecursiveTimed, RawRwLockTimed, RawRwLockUpgrade, RawRwLockUpgradeDowngrade,
    RawRwLockUpgradeFair, RawRwLockUpgradeTimed,
};

use crate::raw::{self, Wait, fair, plain, take, timed};
use crate::readers;

/// [`parking_lot::RawRwLock`], whose waits are recorded with the thread that held the lock: the writer, or the reader
/// if there was only one.
pub struct RawRwLock {
    watch: SharedWatch,
    of: TypeOf,
    raw: parking_lot::RawRwLock,
}

/// The right with which a thread takes the lock.
#[derive(Clone, Copy, PartialEq)]
enum Right {
    Read,
    ReadRecursive,
    ReadUpgradable,
    Write,
    /// To write. Only a function whose caller is the upgradable reader may ask for it.
    Upgrade,
}

use Right::{Read, ReadRecursive, ReadUpgradable, Upgrade, Write};

impl Right {
    /// Whether no other thread may have the lock.
    const fn is_alone(self) -> bool {
        matches!(self, Write | Upgrade)
    }
}

impl RawRwLock {
    pub(crate) const fn new(origin: Origin, of: TypeName) -> RawRwLock {
        RawRwLock {
            watch: SharedWatch::new(origin),
            of: TypeOf::new(of),
            raw: parking_lot::RawRwLock::INIT,
        }
    }

    #[inline(always)]
    fn raw(&self) -> &parking_lot::RawRwLock {
        &self.raw
    }

    /// Takes the lock by the function of `parking_lot` for this wait.
    #[inline(always)]
    fn take_raw(&self, right: Right, wait: Wait) -> bool {
        let raw = self.raw();
        match right {
            Read => take!(raw, wait: try_lock_shared, lock_shared,
                try_lock_shared_for, try_lock_shared_until),
            ReadRecursive => take!(raw, wait: try_lock_shared_recursive, lock_shared_recursive,
                try_lock_shared_recursive_for, try_lock_shared_recursive_until),
            ReadUpgradable => take!(raw, wait: try_lock_upgradable, lock_upgradable,
                try_lock_upgradable_for, try_lock_upgradable_until),
            Write => take!(raw, wait: try_lock_exclusive, lock_exclusive,
                try_lock_exclusive_for, try_lock_exclusive_until),
            // SAFETY: the functions that ask for this are unsafe, and their caller is the upgradable reader.
            Upgrade => unsafe {
                take!(raw, wait: try_upgrade, upgrade, try_upgrade_for, try_upgrade_until)
            },
        }
    }

    /// Takes the lock, and waits for it.
    #[inline(always)]
    fn take(&self, right: Right, wait: Wait) -> bool {
        if is_on() {
            return self.take_watched(right, wait.deadline());
        }
        let is_taken = self.take_raw(right, wait);
        if is_taken && right == Upgrade {
            self.ends(ReadUpgradable);
        }
        is_taken
    }

    /// Takes the lock if that is possible at once.
    #[inline(always)]
    fn try_to_take(&self, right: Right) -> bool {
        let is_taken = self.take_raw(right, Wait::No);
        if is_taken && right == Upgrade {
            self.ends(ReadUpgradable);
        }
        self.begins(is_taken && is_on(), right);
        is_taken
    }

    /// Waits for the lock, at most until the deadline. True: the thread has it. An upgradable reader that waits to write
    /// is no reader meanwhile, but is one again if the deadline comes first.
    #[cold]
    #[inline(never)]
    fn take_watched(&self, right: Right, deadline: Option<Instant>) -> bool {
        if right == Upgrade {
            readers::end(&self.watch);
        }
        let claim = match right.is_alone() {
            true => Claim::Write(&self.watch),
            false => Claim::Read(&self.watch),
        };
        let of = || self.of.name();
        let take = |wait| self.take_raw(right, wait);
        let is_taken = raw::take_watched(claim, of, deadline, take, |is_taken| {
            self.begins(is_taken, right);
        });
        self.begins(!is_taken && right == Upgrade, ReadUpgradable);
        is_taken
    }

    /// The calling thread has the lock now, if that is true.
    #[inline(always)]
    fn begins(&self, is_taken: bool, right: Right) {
        if is_taken && right.is_alone() {
            // A reader may have given its lock back on another thread.
            self.watch.remove_all();
            self.watch.hold();
        } else if is_taken {
            readers::begin(&self.watch);
        }
    }

    /// The calling thread is about to give the lock back.
    #[inline(always)]
    fn ends(&self, right: Right) {
        if right.is_alone() {
            self.watch.release();
        } else if self.watch.has_readers() {
            readers::end(&self.watch);
        }
    }

    /// The calling thread writes, and is about to be a reader.
    #[inline(always)]
    fn reads_on(&self) {
        self.ends(Write);
        self.begins(is_on(), Read);
    }
}

// SAFETY: the lock is that of `parking_lot`. The recording does not change which thread gets it.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock::new(Origin::named("RawRwLock"), || "RawRwLock");

    type GuardMarker = <parking_lot::RawRwLock as lock_api::RawRwLock>::GuardMarker;

    plain! {
        lock_shared, try_lock_shared, unlock_shared: Read;
        lock_exclusive, try_lock_exclusive, unlock_exclusive: Write;
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
unsafe impl RawRwLockRecursive for RawRwLock {
    plain! { lock_shared_recursive, try_lock_shared_recursive: ReadRecursive; }
}

// SAFETY: as above.
unsafe impl RawRwLockUpgrade for RawRwLock {
    plain! {
        lock_upgradable, try_lock_upgradable, unlock_upgradable: ReadUpgradable;
        [unsafe] upgrade, try_upgrade: Upgrade;
    }
}

// SAFETY: as above.
unsafe impl RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    timed! {
        try_lock_shared_for, try_lock_shared_until: Read;
        try_lock_exclusive_for, try_lock_exclusive_until: Write;
    }
}

// SAFETY: as above.
unsafe impl RawRwLockRecursiveTimed for RawRwLock {
    timed! { try_lock_shared_recursive_for, try_lock_shared_recursive_until: ReadRecursive; }
}

// SAFETY: as above.
unsafe impl RawRwLockUpgradeTimed for RawRwLock {
    timed! {
        try_lock_upgradable_for, try_lock_upgradable_until: ReadUpgradable;
        [unsafe] try_upgrade_for, try_upgrade_until: Upgrade;
    }
}

// SAFETY: as above.
unsafe impl RawRwLockFair for RawRwLock {
    fair! {
        unlock_shared_fair, bump_shared: Read;
        unlock_exclusive_fair, bump_exclusive: Write;
    }
}

// SAFETY: as above.
unsafe impl RawRwLockUpgradeFair for RawRwLock {
    fair! { unlock_upgradable_fair, bump_upgradable: ReadUpgradable; }
}

// SAFETY: as above.
unsafe impl RawRwLockDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade(&self) {
        self.reads_on();
        // SAFETY: the caller writes.
        unsafe { self.raw.downgrade() };
    }
}

// SAFETY: as above.
unsafe impl RawRwLockUpgradeDowngrade for RawRwLock {
    #[inline]
    unsafe fn downgrade_upgradable(&self) {
        // SAFETY: the caller is the upgradable reader, and stays a reader.
        unsafe { self.raw.downgrade_upgradable() };
    }

    #[inline]
    unsafe fn downgrade_to_upgradable(&self) {
        self.reads_on();
        // SAFETY: the caller writes.
        unsafe { self.raw.downgrade_to_upgradable() };
    }
}
