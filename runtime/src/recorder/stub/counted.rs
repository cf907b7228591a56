//! x86-64: the calls of a function whose calls are only counted, by the convention of [`stub`](super).
//! Async-signal-safe. This code must never read a clock, nor write anything but the count.
//!
//! An entry adds 1 to the row of its function in the thread's totals. It does so by one instruction, so a signal
//! handler may do the same at any moment. It returns 0 in r11d, so the call has no exit. If the function has no row
//! yet, Rust code takes over. Only functions whose id is in the table of rows are counted in this way.

use core::mem::offset_of;

use super::open_calls::{ROW_SIZE, ROWS_AT};
use super::slot_access;
use crate::ring::layout::{OpenCallsFields, Row, Slot, Totals};
use crate::site::slot_access::SlotAccess;

// Entered by a jump from "stub", and from the codes that stand before others.
code!(
    "counted",
    [
        slot_access::slot!(),
        "mov r9, qword ptr [r10 + {open_calls}]",
        "test r9, r9",
        "je 3f",
        "mov eax, r11d",
        "shr eax, 4",
        "mov r9, qword ptr [r9 + {totals}]",
        "mov eax, dword ptr [r9 + 4*rax + {index}]",
        "test eax, eax",
        "je 3f",
        "imul rax, rax, {row_size}",
        "add qword ptr [r9 + rax + {untimed}], 1",
        "xor r11d, r11d",
        "ret",
        "3:",
        "xor ecx, ecx",
        "mov r9, qword ptr [rip + {access} + {access_record_at}]",
        "jmp qword ptr [rip + {access} + {access_outline}]",
    ],
    access_slot = const offset_of!(SlotAccess, slot),
    access_record_at = const offset_of!(SlotAccess, record_at),
    access_outline = const offset_of!(SlotAccess, outline),
    open_calls = const offset_of!(Slot, open_calls),
    totals = const offset_of!(OpenCallsFields, totals),
    index = const offset_of!(Totals, index),
    row_size = const ROW_SIZE,
    untimed = const ROWS_AT + offset_of!(Row, untimed),
);
