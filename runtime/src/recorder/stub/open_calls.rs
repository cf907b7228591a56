//! x86-64: the edges of a thread whose short calls may leave no records, by the convention of [`stub`](super).
//! Async-signal-safe.
//!
//! As long as the slot has no open calls, the code makes the records of [`stub`](super). Then it does the work of
//! `open_calls::edge` for an entry, and for the exit of a call that is shorter than the threshold. For any other
//! edge it leaves slot and frames unchanged and calls that function.

use core::mem::offset_of;

use super::{OTHER_WAY, full, place, slot_access};
use crate::recorder::EXIT;
use crate::ring::layout::{
    BUSY, CHUNK, FRAMES, Frame, NO_HIGH, OpenCallsFields, Row, Slot, TOTALS_IDS, Totals,
};
use crate::ring::open_calls::SHORT_CALL_ENDS;
use crate::site::slot_access::SlotAccess;

/// Bytes of a row.
pub(super) const ROW_SIZE: usize = size_of::<Row>();
/// From the start of totals to the row before their first one.
pub(super) const ROWS_AT: usize = size_of::<Totals>() - size_of::<Row>();
const FRAMES_AT: usize = offset_of!(OpenCallsFields, frames);
/// From the start of a frame to a field of the frame before it.
const AROUND: usize = FRAMES_AT - size_of::<Frame>();

const _: () = assert!(size_of::<Frame>() == 40);

/// In the word of counts: a call whose entry is in the ring.
const PUBLISHED_CALL: u64 = 1 << 8 | 1;
/// The classes of short lengths, for each 16 ticks (`fdr_formats::lengths`). The next record's clock waits for a class,
/// and it takes longer to compute.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut at = 0;
    while at < classes.len() {
        classes[at] = fdr_formats::lengths::class(16 * at as u64) as u8;
        at += 1;
    }
    classes
};

/// Finds the row of a function in totals, or jumps. The function's record is in r11, the open calls in r9. The row comes
/// in r9, and rdx is lost.
macro_rules! row {
    ($none:literal) => {
        concat!(
            "mov edx, r11d\n",
            "shr edx, 4\n",
            "cmp edx, {ids}\n",
            "jae ",
            $none,
            "\n",
            "mov r9, qword ptr [r9 + {totals}]\n",
            "mov edx, dword ptr [r9 + 4*rdx + {index}]\n",
            "test edx, edx\n",
            "je ",
            $none,
            "\n",
            "imul rdx, rdx, {row_size}\n",
            "lea r9, [r9 + rdx + {rows}]",
        )
    };
}

/// Counts a call that ends in the row in r9. The call's ticks are in rax, its frame in rcx. rdx is lost. [`length`] is the
/// last step.
macro_rules! count {
    () => {
        concat!(
            "add qword ptr [r9 + {row_calls}], 1\n",
            "add qword ptr [r9 + {row_total}], rax\n",
            "mov rdx, rax\n",
            "sub rdx, qword ptr [rcx + {frame_inside}]\n",
            "add qword ptr [r9 + {row_own}], rdx\n",
            "cmp rax, qword ptr [r9 + {row_longest}]\n",
            "jbe 12f\n",
            "mov qword ptr [r9 + {row_longest}], rax\n",
            "12:",
        )
    };
}

/// Counts a length. The ticks are in rax, the row in r9. rax and rdx are lost. [`longer`] must follow.
macro_rules! length {
    () => {
        concat!(
            "shr rax, 4\n",
            "cmp rax, {known_classes}\n",
            "jae 14f\n",
            "lea rdx, [rip + {classes}]\n",
            "movzx eax, byte ptr [rdx + rax]\n",
            "15:\n",
            "add qword ptr [r9 + 8*rax + {row_lengths}], 1",
        )
    };
}

/// The part of [`length`] for calls whose class is not in [`CLASSES`]. rcx is lost.
macro_rules! longer {
    () => {
        concat!(
            "14:\n",
            "add rax, 8\n",
            "bsr rcx, rax\n",
            "sub ecx, 3\n",
            "shr rax, cl\n",
            "lea rax, [rax + 8*rcx - 8]\n",
            "jmp 15b",
        )
    };
}

/// Makes the record of an edge that is like the last one, and ends. The lower half of the ticks is in eax, the CPU
/// on the stack. The open calls change by `$change`. The code before has compared both halves.
macro_rules! publish {
    ($change:literal) => {
        concat!(
            "mov ecx, eax\n",
            "sub ecx, dword ptr [r10 + {last_low}]\n",
            "mov dword ptr [r10 + {last_low}], eax\n",
            "mov rdx, qword ptr [r10 + {cursor}]\n",
            "lea eax, [r11 - {other_way}]\n",
            "mov dword ptr [rdx], eax\n",
            "mov dword ptr [rdx + 4], ecx\n",
            "add qword ptr [r9 + {open}], ",
            $change,
            "\n",
            "pop rcx\n",
            ".cfi_adjust_cfa_offset -8\n",
            "mov dword ptr [r9 + {last_cpu}], ecx\n",
            // as in `stub`
            "add dx, 8\n",
            "je 4b\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

macro_rules! way {
    ($name:literal: $($stamp:literal),+ $(; $($operand:ident = $kind:ident $value:expr),+)?) => {
        code!(
            $name,
            [
                slot_access::slot!(),
                $($stamp,)+
                // Each call leaves its records, as in `stub`, if there are no open calls.
                place!(
                    "mov r9, qword ptr [r10 + {open_calls}]\ntest r9, r9\njne 7f\n",
                    "lea eax, [r11 - {other_way}]",
                    "mov dword ptr [rdx], eax"
                ),
                "4:",
                full!(),

                // the ticks in rdx, the open calls in r9
                "7:",
                "mov dword ptr [r10 + {cpu}], {busy}",
                "cmp qword ptr [r9 + {threshold}], 0",
                "je 20f",
                "test r11b, {exit}",
                "jne 8f",

                // an entry: the frame behind the innermost one
                "shl rdx, 32",
                "or rdx, rax",
                "movzx eax, byte ptr [r9 + {open}]",
                "add eax, 1",
                "cmp eax, {frames}",
                "jae 3f",
                "lea eax, [rax + 4*rax]",
                "lea rax, [r9 + 8*rax]",
                "mov qword ptr [rax + {frame_ticks}], rdx",
                "mov dword ptr [rax + {frame_cpu}], ecx",
                "lea edx, [r11 - {other_way}]",
                "mov dword ptr [rax + {frame_word}], edx",
                "xor edx, edx",
                "mov qword ptr [rax + {frame_short_calls}], rdx",
                "mov qword ptr [rax + {frame_short_ticks}], rdx",
                "mov qword ptr [rax + {frame_inside}], rdx",
                "add qword ptr [r9 + {open}], 1",
                "mov dword ptr [r10 + {cpu}], ecx",
                "ret",

                // an exit: of the innermost call, which is not published, and short
                "8:",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "movzx ecx, byte ptr [r9 + {open}]",
                "cmp cl, byte ptr [r9 + {open} + 1]",
                "jbe 29f",
                "lea ecx, [rcx + 4*rcx]",
                "lea rcx, [r9 + 8*rcx]",
                "sub r11d, {exit_bits}",
                "cmp r11d, dword ptr [rcx + {frame_word}]",
                "lea r11d, [r11 + {exit_bits}]",
                "jne 29f",
                "sub eax, dword ptr [rcx + {frame_ticks}]",
                "sbb edx, dword ptr [rcx + {frame_ticks} + 4]",
                "jne 10f",
                "cmp rax, qword ptr [r9 + {threshold}]",
                "jae 10f",
                "push r9",
                ".cfi_adjust_cfa_offset 8",
                row!("9f"),
                count!(),
                "pop rdx",
                ".cfi_adjust_cfa_offset -8",
                // this one step ends the call
                "add qword ptr [rdx + {open}], {short_call_ends}",
                "mov rdx, qword ptr [rdx + {beside}]",
                "add rdx, rax",
                "add qword ptr [rcx + {around_inside}], rdx",
                "add qword ptr [rcx + {around_short_ticks}], rdx",
                "mov rdx, qword ptr [rcx + {frame_short_calls}]",
                "add rdx, 1",
                "add qword ptr [rcx + {around_short_calls}], rdx",
                length!(),
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "mov dword ptr [r10 + {cpu}], ecx",
                "ret",
                ".cfi_adjust_cfa_offset 8",
                longer!(),
                "9:",
                ".cfi_adjust_cfa_offset 8",
                "pop r9",
                ".cfi_adjust_cfa_offset -8",
                "xor edx, edx",
                "10:",
                "add eax, dword ptr [rcx + {frame_ticks}]",
                "adc edx, dword ptr [rcx + {frame_ticks} + 4]",
                "jmp 29f",
                ".cfi_adjust_cfa_offset -8",

                // Without a threshold each edge is published. All calls have their entries.
                "20:",
                "cmp edx, dword ptr [r10 + {last_high}]",
                "jne 5f",
                "cmp eax, dword ptr [r10 + {last_low}]",
                "jb 5f",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                "movzx ecx, byte ptr [r9 + {open}]",
                "cmp cl, byte ptr [r9 + {open} + 1]",
                "jne 29f",
                "test r11b, {exit}",
                "jne 24f",

                // an entry
                "add ecx, 1",
                "cmp ecx, {frames}",
                "jae 29f",
                "lea ecx, [rcx + 4*rcx]",
                "lea rcx, [r9 + 8*rcx]",
                "shl rdx, 32",
                "or rdx, rax",
                "mov qword ptr [rcx + {frame_ticks}], rdx",
                "lea edx, [r11 - {other_way}]",
                "mov dword ptr [rcx + {frame_word}], edx",
                "mov rdx, qword ptr [rsp]",
                "mov dword ptr [rcx + {frame_cpu}], edx",
                "xor edx, edx",
                "mov qword ptr [rcx + {frame_short_calls}], rdx",
                "mov qword ptr [rcx + {frame_short_ticks}], rdx",
                "mov qword ptr [rcx + {frame_inside}], rdx",
                publish!("{entered}"),

                // an exit: of the innermost call
                "24:",
                ".cfi_adjust_cfa_offset 8",
                "test ecx, ecx",
                "je 29f",
                "lea ecx, [rcx + 4*rcx]",
                "lea rcx, [r9 + 8*rcx]",
                "sub r11d, {exit_bits}",
                "cmp r11d, dword ptr [rcx + {frame_word}]",
                "lea r11d, [r11 + {exit_bits}]",
                "jne 29f",
                "cmp qword ptr [rcx + {frame_short_calls}], 0",
                "jne 29f",
                "push rax",
                "push r9",
                ".cfi_adjust_cfa_offset 16",
                "sub eax, dword ptr [rcx + {frame_ticks}]",
                "sbb edx, dword ptr [rcx + {frame_ticks} + 4]",
                "jne 27f",
                row!("27f"),
                count!(),
                "add qword ptr [rcx + {around_inside}], rax",
                length!(),
                "pop r9",
                "pop rax",
                ".cfi_adjust_cfa_offset -16",
                publish!("{left}"),
                ".cfi_adjust_cfa_offset 24",
                longer!(),

                // anything else: slot and frames are unchanged, and Rust gets the stamp
                "27:",
                "pop r9",
                "pop rax",
                ".cfi_adjust_cfa_offset -16",
                "mov edx, dword ptr [r10 + {last_high}]",
                "29:",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "jmp 5f",
                "3:",
                "mov dword ptr [r10 + {cpu}], ecx",
                "mov r9, qword ptr [rip + {access} + {access_record_at}]",
                "jmp qword ptr [rip + {access} + {access_outline}]",
                "5:",
                "mov dword ptr [r10 + {cpu}], ecx",
                "6:",
                "mov r9, qword ptr [rip + {access} + {access_record_at}]",
                "shl rdx, 32",
                "or rdx, rax",
                "jmp qword ptr [rip + {access} + {access_outline}]",
            ],
                access_slot = const offset_of!(SlotAccess, slot),
                access_record_at = const offset_of!(SlotAccess, record_at),
                access_outline = const offset_of!(SlotAccess, outline),
                other_way = const OTHER_WAY,
                exit = const EXIT,
                exit_bits = const EXIT | OTHER_WAY,
                cpu = const offset_of!(Slot, cpu),
                cursor = const offset_of!(Slot, cursor),
                last_low = const offset_of!(Slot, last_low),
                last_high = const offset_of!(Slot, last_high),
                open_calls = const offset_of!(Slot, open_calls),
                busy = const BUSY as i32,
                no_high = const NO_HIGH as i32,
                chunk = const CHUNK,
                open = const offset_of!(OpenCallsFields, open),
                last_cpu = const offset_of!(OpenCallsFields, cpu),
                entered = const PUBLISHED_CALL,
                left = const -(PUBLISHED_CALL as i64),
                short_call_ends = const SHORT_CALL_ENDS,
                classes = sym CLASSES,
                known_classes = const CLASSES.len(),
                threshold = const offset_of!(OpenCallsFields, threshold),
                beside = const offset_of!(OpenCallsFields, beside),
                frames = const FRAMES,
                totals = const offset_of!(OpenCallsFields, totals),
                ids = const TOTALS_IDS,
                index = const offset_of!(Totals, index),
                rows = const ROWS_AT,
                row_size = const ROW_SIZE,
                row_calls = const offset_of!(Row, calls),
                row_total = const offset_of!(Row, total),
                row_own = const offset_of!(Row, own),
                row_longest = const offset_of!(Row, longest),
                row_lengths = const offset_of!(Row, lengths),
                frame_inside = const FRAMES_AT + offset_of!(Frame, inside),
                around_inside = const AROUND + offset_of!(Frame, inside),
                frame_word = const FRAMES_AT + offset_of!(Frame, word),
                frame_cpu = const FRAMES_AT + offset_of!(Frame, cpu),
                frame_ticks = const FRAMES_AT + offset_of!(Frame, ticks),
                frame_short_calls = const FRAMES_AT + offset_of!(Frame, short_calls),
                frame_short_ticks = const FRAMES_AT + offset_of!(Frame, short_ticks),
                around_short_calls = const AROUND + offset_of!(Frame, short_calls),
                around_short_ticks = const AROUND + offset_of!(Frame, short_ticks),
                $($($operand = $kind $value,)+)?
        );
    };
}

// Entered by a jump from "stub", if calls may be summarised.
way! { "open_calls_by_rdtscp": "rdtscp" }
way! { "open_calls_by_rdpid": "rdtsc", "rdpid rcx" }
way! {
    "open_calls_by_rseq":
        "rdtsc",
        "mov rcx, qword ptr [rip + {access} + {access_rseq}]",
        "mov ecx, dword ptr fs:[rcx + 4]";
    access_rseq = const offset_of!(SlotAccess, rseq)
}
