//! x86-64: the record without a clock read, by the convention of [`stub`](super). Async-signal-safe.
//!
//! It does what `writer::write_untimed` does. No clock hides its instructions, so what counts is the way
//! from one record's stores to the next one's loads of the same places: the cursor's and the CPU's, of
//! which neither waits for the other. Which clock the timed records have makes no difference to it.

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::reach::{self, REACH, Reach};
use super::{OTHER_WAY, full};
use crate::primitive::Alone;
use crate::recorder::{record_untimed, writer};
use crate::ring::layout::{CHUNK, Slot};
use crate::site::unit::Host;

/// Where records with [`OTHER_WAY`] are made: nowhere, until it is known.
static OTHER: Alone<AtomicPtr<()>> = Alone(AtomicPtr::new(core::ptr::null_mut()));

/// What the words of a copy's sites hold that records for itself, and of its guests': the way with no time to
/// lose is any clock's.
pub(super) fn prepare() -> u32 {
    OTHER.0.store(address!("untimed_slowly"), Ordering::Relaxed);
    if REACH.is_fixed() { 0 } else { OTHER_WAY }
}

/// Chooses the way for a copy whose records are `host`'s and can't be made by its own code.
pub(super) fn prepare_guest(host: &'static Host) {
    // Release: whoever sees the way sees where it leads.
    OTHER.0.store((host.record_untimed)(), Ordering::Release);
}

/// Where a guest's untimed records go.
pub(crate) fn entrance_untimed() -> *mut () {
    address!("untimed")
}

/// Records one edge without a time of its own: `word` is id << 4 for an entry, `| EXIT` for an exit.
/// Async-signal-safe.
#[inline(always)]
pub(crate) fn call_untimed(word: u32) {
    // SAFETY: the code loses what is listed here (and less) and nothing else, does not unwind, and
    // touches only the recorder's memory.
    unsafe {
        asm!(
            "call {reach}.untimed",
            reach = sym REACH,
            // The upper half is stored, as the ticks since the record before.
            in("r11") u64::from(word),
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
}

/// The record: its slot in r10, the word in r11, and what is stored by the instructions given. Ends with
/// `ret`, or at 3 to 6.
macro_rules! place {
    ($word:literal) => {
        concat!(
            // In this order: a handler that comes after the first moves the cursor.
            "mov rdx, qword ptr [r10 + {cursor}]\n",
            "mov ecx, dword ptr [r10 + {cpu}]\n",
            // Busy, or without a record yet.
            "test ecx, ecx\n",
            "js 6f\n",
            "mov dword ptr [r10 + {cpu}], {busy}\n",
            "cmp rdx, qword ptr [r10 + {cursor}]\n",
            "jne 4f\n",
            "cmp dword ptr [r10 + {last_high}], {no_high}\n",
            "je 5f\n",
            $word,
            // What `writer::commit` does; a store is a Release on x86. 16 bits: zero at the chunk's end.
            "add dx, 8\n",
            "je 3f\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

// By `call_untimed` alone: it has no calling convention that the compiler knows.
code!(
    "untimed",
    [
        "test r11b, {other_way}",
        "jne 2f",
        reach::slot!(),
        place!("mov qword ptr [rdx], r11\n"),
        "2:",
        "jmp qword ptr [rip + {other}]",

        "3:",
        full!(),

        // a handler has recorded since the CPU was loaded, perhaps on another one
        "4:",
        "mov ecx, {no_cpu}",
        "5:",
        "mov dword ptr [r10 + {cpu}], ecx",
        "mov r9, qword ptr [rip + {reach} + {reach_record_interrupted}]",
        "jmp qword ptr [rip + {reach} + {reach_outline}]",
        "6:",
        "mov r9, qword ptr [rip + {reach} + {reach_record_untimed}]",
        "jmp qword ptr [rip + {reach} + {reach_outline}]",
    ],
    other = sym OTHER,
    reach_slot = const offset_of!(Reach, slot),
    reach_outline = const offset_of!(Reach, outline),
    reach_record_interrupted = const offset_of!(Reach, record_interrupted),
    reach_record_untimed = const offset_of!(Reach, record_untimed),
    other_way = const OTHER_WAY,
    cpu = const offset_of!(Slot, cpu),
    cursor = const offset_of!(Slot, cursor),
    last_high = const offset_of!(Slot, last_high),
    busy = const writer::BUSY as i32,
    no_cpu = const writer::NO_CPU as i32,
    no_high = const writer::NO_HIGH as i32,
    chunk = const CHUNK,
);

// With thread storage that is found by a call. By a jump from "untimed".
code!(
    "untimed_slowly",
    ["lea r9, [rip + {record_untimed}]", "jmp {reach}.outline"],
    record_untimed = sym record_untimed,
);
