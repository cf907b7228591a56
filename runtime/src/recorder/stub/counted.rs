//! x86-64: the calls of a function whose calls are only counted, by the convention of [`stub`](super).
//! Async-signal-safe. This code must never read a clock, nor write anything but the count.
//!
//! An entry adds 1 to the row of its function in the thread's totals, by one instruction, so a signal handler may
//! do the same at any moment. An exit does nothing. Rust gets the call if the function has no row yet.

use core::mem::offset_of;

use super::open_calls::{ROW_SHIFT, ROWS_AT};
use super::slot_access;
use crate::recorder::EXIT;
use crate::ring::layout::{OpenCalls, Row, Slot, TOTALS_IDS, Totals};
use crate::site::slot_access::SlotAccess;

// Entered by a jump from the code of `open_calls`.
code!(
    "counted",
    [
        "test r11b, {exit}",
        "jne 2f",
        slot_access::slot!(),
        "mov r9, qword ptr [r10 + {open_calls}]",
        "test r9, r9",
        "je 3f",
        "mov eax, r11d",
        "shr eax, 4",
        "cmp eax, {ids}",
        "jae 3f",
        "mov r9, qword ptr [r9 + {totals}]",
        "mov eax, dword ptr [r9 + 4*rax + {index}]",
        "test eax, eax",
        "je 3f",
        "shl rax, {row_shift}",
        "add qword ptr [r9 + rax + {untimed}], 1",
        "2:",
        "ret",
        "3:",
        "xor ecx, ecx",
        "mov r9, qword ptr [rip + {access} + {access_record_at}]",
        "jmp qword ptr [rip + {access} + {access_outline}]",
    ],
    access_slot = const offset_of!(SlotAccess, slot),
    access_record_at = const offset_of!(SlotAccess, record_at),
    access_outline = const offset_of!(SlotAccess, outline),
    exit = const EXIT,
    open_calls = const offset_of!(Slot, open_calls),
    totals = const offset_of!(OpenCalls, totals),
    ids = const TOTALS_IDS,
    index = const offset_of!(Totals, index),
    row_shift = const ROW_SHIFT,
    untimed = const ROWS_AT + offset_of!(Row, untimed),
);
