//! x86-64: the numbers by which a copy's code finds the slots. They are its own slots, or its host's if the
//! copy is a guest (see `site::unit`). All threads share the offset of the slot pointer from the thread
//! pointer, wherever the code is linked. Async-signal-safe. Code that uses the offset must never be chosen if
//! the offset is not fixed.

use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering};

use crate::clock::{Kind, RSEQ_OFFSET};
use crate::recorder::tls::NO_SUCH_CPU_AT;
use crate::recorder::{record_at, record_interrupted, record_untimed};
use crate::site::slot_access::SlotAccess;

/// The numbers of this copy. A guest has copied them from its host.
pub(crate) static SLOT_ACCESS: SlotAccess = SlotAccess {
    slot: AtomicIsize::new(0),
    outline: AtomicPtr::new(core::ptr::null_mut()),
    record_at: AtomicPtr::new(core::ptr::null_mut()),
    record_interrupted: AtomicPtr::new(core::ptr::null_mut()),
    record_untimed: AtomicPtr::new(core::ptr::null_mut()),
    rseq: AtomicIsize::new(0),
    nearest: AtomicIsize::new(0),
    kind: AtomicU32::new(Kind::Monotonic as u32),
    keeps: AtomicU32::new(0),
};

impl SlotAccess {
    /// Sets the numbers for this copy's own slots: the offset, if it is fixed, the clock, and whether calls may
    /// be summarised.
    pub(super) fn describe(&self, kind: Kind, slot: Option<isize>, keeps: bool) {
        self.outline.store(address!("outline"), Ordering::Relaxed);
        self.record_at
            .store(record_at as *mut (), Ordering::Relaxed);
        self.record_interrupted
            .store(record_interrupted as *mut (), Ordering::Relaxed);
        self.record_untimed
            .store(record_untimed as *mut (), Ordering::Relaxed);
        self.rseq
            .store(RSEQ_OFFSET.load(Ordering::Relaxed), Ordering::Relaxed);
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.keeps.store(u32::from(keeps), Ordering::Relaxed);
        self.slot.store(slot.unwrap_or(0), Ordering::Relaxed);
        let nearest = match self.is_nearest() {
            true => self.rseq.load(Ordering::Relaxed),
            false => slot.unwrap_or(0) + NO_SUCH_CPU_AT as isize - 4,
        };
        self.nearest.store(nearest, Ordering::Relaxed);
    }

    /// Whether "stub" itself makes the common records.
    pub(super) fn is_nearest(&self) -> bool {
        self.is_fixed() && self.kind() == Kind::TscRseq && !self.keeps()
    }

    /// Copies the numbers of the host, which are complete.
    pub(super) fn follow(&self, host: &SlotAccess) {
        for (to, from) in [
            (&self.slot, &host.slot),
            (&self.rseq, &host.rseq),
            (&self.nearest, &host.nearest),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in [
            (&self.outline, &host.outline),
            (&self.record_at, &host.record_at),
            (&self.record_interrupted, &host.record_interrupted),
            (&self.record_untimed, &host.record_untimed),
        ] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for (to, from) in [(&self.kind, &host.kind), (&self.keeps, &host.keeps)] {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    /// Whether calls may be summarised.
    pub(super) fn keeps(&self) -> bool {
        self.keeps.load(Ordering::Relaxed) != 0
    }

    /// Whether the offset is fixed. Otherwise code asks for the slot.
    pub(super) fn is_fixed(&self) -> bool {
        self.slot.load(Ordering::Relaxed) != 0
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::from_raw(self.kind.load(Ordering::Relaxed))
    }
}

/// Loads the calling thread's slot into r10, by [`SLOT_ACCESS`]. rax is lost.
macro_rules! slot {
    () => {
        "mov rax, qword ptr [rip + {access} + {access_slot}]\nmov r10, qword ptr fs:[rax]"
    };
}
pub(super) use slot;
