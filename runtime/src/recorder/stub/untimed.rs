//! x86-64: the record without a clock read, by the convention of [`stub`](super). Async-signal-safe.
//!
//! The code does the work of `writer::write_untimed`. It reads no clock, so no clock read hides its
//! instructions. Its cost is the time from the stores of one record to the loads of the next one, of the cursor
//! and of the CPU. Neither load waits for the other. The clock of the timed records makes no difference.

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_utils::CachePadded;

use super::slot_access::{self, SLOT_ACCESS};
use super::{OTHER_WAY, full};
use crate::recorder::record_untimed;
use crate::ring::layout::{BUSY, CHUNK, NO_CPU, NO_HIGH, Slot};
use crate::site::COUNTED;
use crate::site::slot_access::SlotAccess;
use crate::site::unit::Host;

/// The code for records with [`OTHER_WAY`]. It is null until the clock is known.
static OTHER: CachePadded<AtomicPtr<()>> = CachePadded::new(AtomicPtr::new(core::ptr::null_mut()));

/// Returns the bits in the words of a copy's untimed sites and of its guests'. The copy records for itself. The
/// bit does not depend on the clock.
pub(super) fn prepare(keeps: bool) -> u32 {
    let other = match keeps && super::other_way().is_some() {
        true => address!("untimed_of_open_calls"),
        false => address!("untimed_slowly"),
    };
    OTHER.store(other, Ordering::Relaxed);
    match SLOT_ACCESS.is_fixed() && !keeps {
        true => 0,
        false => OTHER_WAY,
    }
}

/// Chooses the code for a guest of `host` whose own code can't make the records.
pub(super) fn prepare_guest(host: &'static Host) {
    // Release: a thread that sees this pointer also sees the code's data.
    OTHER.store((host.record_untimed)(), Ordering::Release);
}

/// The function for a guest's untimed records.
pub(crate) fn entrance_untimed() -> *mut () {
    address!("untimed")
}

/// Records an entry without a time of its own, as [`call_entry`](super::call_entry) does with one.
#[inline(always)]
pub(crate) fn call_untimed_entry(word: u32) -> u32 {
    let exit: u64;
    // SAFETY: as in `call_untimed`.
    unsafe {
        asm!(
            "call {access}.untimed",
            access = sym SLOT_ACCESS,
            inout("r11") u64::from(word) => exit,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
    exit as u32
}

/// Records one edge without a time of its own. `word` is id << 4 for an entry, `| EXIT` for an exit.
/// Async-signal-safe.
#[inline(always)]
pub(crate) fn call_untimed(word: u32) {
    // SAFETY: the code loses at most the registers that are listed here. It does not unwind, and it touches
    // only the recorder's memory.
    unsafe {
        asm!(
            "call {access}.untimed",
            access = sym SLOT_ACCESS,
            // The upper half is stored as well. It holds the ticks since the last record, which are 0.
            in("r11") u64::from(word),
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
}

/// Makes the record. The slot is in r10, the word in r11. The given instructions store the record. The code
/// ends with `ret`, or at labels 3 to 6.
macro_rules! place {
    ($word:literal) => {
        concat!(
            // The cursor is loaded first. A handler that interrupts after this load moves the cursor, and the
            // code notices that.
            "mov rdx, qword ptr [r10 + {cursor}]\n",
            "mov ecx, dword ptr [r10 + {cpu}]\n",
            // The slot is busy or has no record yet.
            "test ecx, ecx\n",
            "js 6f\n",
            "mov dword ptr [r10 + {cpu}], {busy}\n",
            "cmp rdx, qword ptr [r10 + {cursor}]\n",
            "jne 4f\n",
            "cmp dword ptr [r10 + {last_high}], {no_high}\n",
            "je 5f\n",
            $word,
            // This does the work of `chunk_writer::commit`, because a store is a Release on x86. The 16-bit sum is
            // zero at the chunk's end.
            "add dx, 8\n",
            "je 3f\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

// Only `call_untimed` enters this code. The compiler knows no calling convention of it.
code!(
    "untimed",
    [
        "test r11b, {other_way}",
        "jne 2f",
        slot_access::slot!(),
        place!("mov qword ptr [rdx], r11\n"),
        "2:",
        "jmp qword ptr [rip + {other}]",
        // As in "stub".
        ".reloc ., R_X86_64_NONE, {access}.at_load",

        "3:",
        full!(),

        // a handler has recorded since the CPU was loaded, perhaps on another CPU
        "4:",
        "mov ecx, {no_cpu}",
        "5:",
        "mov dword ptr [r10 + {cpu}], ecx",
        "mov r9, qword ptr [rip + {access} + {access_record_interrupted}]",
        "jmp qword ptr [rip + {access} + {access_outline}]",
        "6:",
        "mov r9, qword ptr [rip + {access} + {access_record_untimed}]",
        "jmp qword ptr [rip + {access} + {access_outline}]",
    ],
    other = sym OTHER,
    access_slot = const offset_of!(SlotAccess, slot),
    access_outline = const offset_of!(SlotAccess, outline),
    access_record_interrupted = const offset_of!(SlotAccess, record_interrupted),
    access_record_untimed = const offset_of!(SlotAccess, record_untimed),
    other_way = const OTHER_WAY,
    cpu = const offset_of!(Slot, cpu),
    cursor = const offset_of!(Slot, cursor),
    last_high = const offset_of!(Slot, last_high),
    busy = const BUSY as i32,
    no_cpu = const NO_CPU as i32,
    no_high = const NO_HIGH as i32,
    chunk = const CHUNK,
);

// Where calls may be summarised. If the slot has open calls, each record needs a time, and the timed code makes it.
// Entered by a jump from "untimed".
code!(
    "untimed_of_open_calls",
    [
        "test r11b, {counted}",
        "jne {access}.counted",
        slot_access::slot!(),
        "cmp qword ptr [r10 + {open_calls}], 0",
        "je {access}.untimed_slowly",
        "jmp qword ptr [rip + {timed}]",
    ],
    counted = const COUNTED,
    timed = sym super::OTHER,
    access_slot = const offset_of!(SlotAccess, slot),
    open_calls = const offset_of!(Slot, open_calls),
);

// For thread storage that a call finds. Entered by a jump from "untimed".
code!(
    "untimed_slowly",
    ["lea r9, [rip + {record_untimed}]", "jmp {access}.outline"],
    record_untimed = sym record_untimed,
);
