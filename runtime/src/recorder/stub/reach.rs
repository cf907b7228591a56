//! x86-64: where a copy's records go: into its own slots, or into its host's where it is a guest (see
//! `site::unit`). Wherever the code is linked, the slot is found at an offset from the thread pointer that
//! all threads share. Async-signal-safe. No way that uses it may be chosen where the offset is not fixed.

use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering};

use crate::clock::{Kind, RSEQ_OFFSET};
use crate::recorder::{record_at, record_interrupted, record_untimed};

/// How records into a copy's slots are made, by its own code and by its guests'. Constant once the copy is
/// a host.
// Aligned: no line is shared with what is written.
#[repr(C, align(128))]
pub(crate) struct Reach {
    /// Of the pointer to the thread's slot, from the thread pointer, bytes; 0 where it is not fixed.
    pub(super) slot: AtomicIsize,
    /// Into Rust: a register convention of its own, see `outline`.
    pub(super) outline: AtomicPtr<()>,
    /// What the copy does with records that are not common, by that convention.
    pub(super) record_at: AtomicPtr<()>,
    pub(super) record_interrupted: AtomicPtr<()>,
    pub(super) record_untimed: AtomicPtr<()>,
    /// Of the thread's rseq area, from the thread pointer, bytes.
    pub(super) rseq: AtomicIsize,
    /// The clock, a `Kind` as a number.
    kind: AtomicU32,
}

/// Of this copy; of its host where it is a guest.
pub(crate) static REACH: Reach = Reach {
    slot: AtomicIsize::new(0),
    outline: AtomicPtr::new(core::ptr::null_mut()),
    record_at: AtomicPtr::new(core::ptr::null_mut()),
    record_interrupted: AtomicPtr::new(core::ptr::null_mut()),
    record_untimed: AtomicPtr::new(core::ptr::null_mut()),
    rseq: AtomicIsize::new(0),
    kind: AtomicU32::new(Kind::Monotonic as u32),
};

impl Reach {
    /// Says how this copy's slots are reached: at that offset, if it is fixed, with this clock.
    pub(super) fn describe(&self, kind: Kind, slot: Option<isize>) {
        self.outline.store(address!("outline"), Ordering::Relaxed);
        self.record_at
            .store(record_at as *mut (), Ordering::Relaxed);
        self.record_interrupted
            .store(record_interrupted as *mut (), Ordering::Relaxed);
        self.record_untimed
            .store(record_untimed as *mut (), Ordering::Relaxed);
        self.rseq
            .store(RSEQ_OFFSET.0.load(Ordering::Relaxed), Ordering::Relaxed);
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.slot.store(slot.unwrap_or(0), Ordering::Relaxed);
    }

    /// Reaches what the host reaches, whose description is complete.
    pub(super) fn follow(&self, host: &Reach) {
        for (to, from) in [(&self.slot, &host.slot), (&self.rseq, &host.rseq)] {
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
        let kind = host.kind.load(Ordering::Relaxed);
        self.kind.store(kind, Ordering::Relaxed);
    }

    /// Where it is not, the slot must be asked for.
    pub(super) fn is_fixed(&self) -> bool {
        self.slot.load(Ordering::Relaxed) != 0
    }

    pub(super) fn kind(&self) -> Kind {
        Kind::from_raw(self.kind.load(Ordering::Relaxed))
    }
}

/// The calling thread's slot in r10, by [`REACH`]; rax is lost.
macro_rules! slot {
    () => {
        "mov rax, qword ptr [rip + {reach} + {reach_slot}]\nmov r10, qword ptr fs:[rax]"
    };
}
pub(super) use slot;
