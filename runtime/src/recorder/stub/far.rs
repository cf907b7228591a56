//! x86-64: the common record by code that is linked elsewhere than the executable: in a library, or in a
//! copy of the recorder whose records are another copy's (a guest's, see `site::unit`). The slot is
//! found at an offset from the thread pointer that all threads share. Async-signal-safe. Must never be
//! chosen where the offset is not fixed.

use core::arch::naked_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32, Ordering};

use super::untimed::untimed_far;
use super::{OTHER_WAY, full, outline, place, rdtsc_and_rseq};
use crate::clock::{Kind, RSEQ_OFFSET};
use crate::recorder::{record_at, record_interrupted, record_untimed, tls, writer};
use crate::ring::layout::{CHUNK, Slot};

/// How records into a copy's slots are made from elsewhere. Constant once the copy is a host.
#[repr(C)]
pub(crate) struct Reach {
    /// Of the pointer to the thread's slot, from the thread pointer, bytes; 0 where it is not fixed.
    pub(super) slot: AtomicIsize,
    /// Into Rust: a register convention of its own, see `outline`.
    pub(super) outline: AtomicPtr<()>,
    /// What the copy does with records that are not common, by that convention.
    record_at: AtomicPtr<()>,
    pub(super) record_interrupted: AtomicPtr<()>,
    pub(super) record_untimed: AtomicPtr<()>,
    /// Of the thread's rseq area, from the thread pointer, bytes.
    rseq: AtomicIsize,
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
    /// Says how this copy's slots are reached, with this clock.
    pub(super) fn describe(&self, kind: Kind) {
        let slot = tls::fixed_offset().unwrap_or(0);
        self.outline
            .store(outline::outline as *mut (), Ordering::Relaxed);
        self.record_at
            .store(record_at as *mut (), Ordering::Relaxed);
        self.record_interrupted
            .store(record_interrupted as *mut (), Ordering::Relaxed);
        self.record_untimed
            .store(record_untimed as *mut (), Ordering::Relaxed);
        self.rseq
            .store(RSEQ_OFFSET.0.load(Ordering::Relaxed), Ordering::Relaxed);
        self.kind.store(kind as u32, Ordering::Relaxed);
        self.slot.store(slot, Ordering::Relaxed);
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
        RSEQ_OFFSET
            .0
            .store(self.rseq.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Where it is not, the slot must be asked for.
    pub(super) fn is_fixed(&self) -> bool {
        self.slot.load(Ordering::Relaxed) != 0
    }

    /// Code for records with a time; `None` where only the copy itself can make them.
    pub(super) fn way(&self) -> Option<*mut ()> {
        let way = match Kind::from_raw(self.kind.load(Ordering::Relaxed)) {
            Kind::Tscp => by_rdtscp as *mut (),
            Kind::TscPid => by_rdpid as *mut (),
            Kind::TscRseq => by_rseq as *mut (),
            Kind::Counter | Kind::Monotonic => return None,
        };
        self.is_fixed().then_some(way)
    }

    /// The same for records without.
    pub(super) fn untimed_way(&self) -> Option<*mut ()> {
        self.is_fixed().then_some(untimed_far as *mut ())
    }
}

/// The calling thread's slot in r10, by [`REACH`]; rax is lost.
macro_rules! slot {
    () => {
        "mov rax, qword ptr [rip + {reach} + {reach_slot}]\nmov r10, qword ptr fs:[rax]"
    };
}
pub(super) use slot;

macro_rules! ways {
    ($($name:ident: $stamp:expr, $($operand:ident = sym $symbol:path)?;)+) => {$(
        /// # Safety
        /// As `stub`, which jumps to it.
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            naked_asm!(
                ".balign 64",
                ".cfi_startproc",
                slot!(),
                $stamp,
                place!("lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"),
                "4:",
                full!(),
                "5:",
                "mov dword ptr [r10 + {cpu}], ecx",
                "6:",
                "mov r9, qword ptr [rip + {reach} + {reach_record_at}]",
                "shl rdx, 32",
                "or rdx, rax",
                "jmp qword ptr [rip + {reach} + {reach_outline}]",
                ".cfi_endproc",
                reach = sym REACH,
                reach_slot = const offset_of!(Reach, slot),
                reach_record_at = const offset_of!(Reach, record_at),
                reach_outline = const offset_of!(Reach, outline),
                other_way = const OTHER_WAY,
                cpu = const offset_of!(Slot, cpu),
                cursor = const offset_of!(Slot, cursor),
                last_low = const offset_of!(Slot, last_low),
                last_high = const offset_of!(Slot, last_high),
                busy = const writer::BUSY as i32,
                no_high = const writer::NO_HIGH as i32,
                chunk = const CHUNK,
                $($operand = sym $symbol,)?
            )
        }
    )+};
}

ways! {
    by_rdtscp: "rdtscp",;
    by_rdpid: "rdtsc\nrdpid rcx",;
    by_rseq: rdtsc_and_rseq!(), rseq_offset = sym RSEQ_OFFSET;
}
