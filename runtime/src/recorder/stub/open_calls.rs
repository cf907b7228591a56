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
    BUSY, CHUNK, FRAMES, Frame, NO_HIGH, OpenCalls, Row, Slot, TOTALS_IDS, Totals,
};
use crate::ring::open_calls::SHORT_CALL_ENDS;
use crate::site::slot_access::SlotAccess;

/// Bytes of a row.
pub(super) const ROW_SIZE: usize = size_of::<Row>();
/// From the start of totals to the row before their first one.
pub(super) const ROWS_AT: usize = size_of::<Totals>() - size_of::<Row>();
const FRAMES_AT: usize = offset_of!(OpenCalls, frames);
/// From the start of a frame to a field of the frame before it.
const AROUND: usize = FRAMES_AT - size_of::<Frame>();

const _: () = assert!(size_of::<Frame>() == 40);

/// In the word of counts: a call whose entry is in the ring.
const PUBLISHED_CALL: u64 = 1 << 8 | 1;
/// Longer calls are counted by Rust, because this code has no class for the longest ones.
const LONG: i32 = i32::MAX;

/// Counts a call that ends in the row of its function, or jumps if there is none. The call's ticks are in rdx,
/// its frame is in `$frame`, the function's record in r11, the open calls in r9. `$row`, rcx and r9 are lost, and
/// rdx in the end. `$frame` has the calls around it from the start, and may be rcx.
macro_rules! count {
    ($frame:literal, $row:literal, $row32:literal, $none:literal, $around:expr) => {
        concat!(
            "mov ",
            $row32,
            ", r11d\n",
            "shr ",
            $row32,
            ", 4\n",
            "cmp ",
            $row32,
            ", {ids}\n",
            "jae ",
            $none,
            "\n",
            "mov r9, qword ptr [r9 + {totals}]\n",
            "mov ",
            $row32,
            ", dword ptr [r9 + 4*",
            $row,
            " + {index}]\n",
            "test ",
            $row32,
            ", ",
            $row32,
            "\n",
            "je ",
            $none,
            "\n",
            "imul ",
            $row,
            ", ",
            $row,
            ", {row_size}\n",
            "lea ",
            $row,
            ", [r9 + ",
            $row,
            " + {rows}]\n",
            "add qword ptr [",
            $row,
            " + {row_calls}], 1\n",
            "add qword ptr [",
            $row,
            " + {row_total}], rdx\n",
            "mov r9, rdx\n",
            "sub r9, qword ptr [",
            $frame,
            " + {frame_inside}]\n",
            "add qword ptr [",
            $row,
            " + {row_own}], r9\n",
            "cmp rdx, qword ptr [",
            $row,
            " + {row_longest}]\n",
            "jbe 12f\n",
            "mov qword ptr [",
            $row,
            " + {row_longest}], rdx\n",
            "12:\n",
            "add qword ptr [",
            $frame,
            " + {around_inside}], rdx\n",
            $around,
            // the class of its length, as `lengths::class` computes it
            "mov r9, ",
            $row,
            "\n",
            "shr rdx, 4\n",
            "add rdx, 8\n",
            "bsr rcx, rdx\n",
            "sub ecx, 3\n",
            "shr rdx, cl\n",
            "lea rdx, [rdx + 8*rcx]\n",
            "add qword ptr [r9 + 8*rdx + {row_lengths}], 1",
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
                "shl rdx, 32",
                "or rdx, rax",
                "movzx eax, byte ptr [r9 + {open}]",
                "test r11b, {exit}",
                "jne 8f",

                // an entry: the frame behind the innermost one
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
                "cmp al, byte ptr [r9 + {open} + 1]",
                "jbe 3f",
                "lea eax, [rax + 4*rax]",
                "lea rax, [r9 + 8*rax]",
                "sub r11d, {exit_bits}",
                "cmp r11d, dword ptr [rax + {frame_word}]",
                "lea r11d, [r11 + {exit_bits}]",
                "jne 3f",
                "sub rdx, qword ptr [rax + {frame_ticks}]",
                "jb 2f",
                "cmp rdx, qword ptr [r9 + {threshold}]",
                "jae 2f",
                "push rcx",
                "push r9",
                ".cfi_adjust_cfa_offset 16",
                count!("rax", "rcx", "ecx", "9f", concat!(
                    // this one step ends the call
                    "mov r9, qword ptr [rsp]\n",
                    "add qword ptr [r9 + {open}], {short_call_ends}\n",
                    "add qword ptr [rax + {around_short_ticks}], rdx\n",
                    "mov r9, qword ptr [rax + {frame_short_calls}]\n",
                    "add r9, 1\n",
                    "add qword ptr [rax + {around_short_calls}], r9\n",
                )),
                "pop r9",
                "pop rcx",
                ".cfi_adjust_cfa_offset -16",
                "mov dword ptr [r10 + {cpu}], ecx",
                "ret",
                "9:",
                ".cfi_adjust_cfa_offset 16",
                "pop r9",
                "pop rcx",
                ".cfi_adjust_cfa_offset -16",
                "jmp 2f",

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
                "shl rdx, 32",
                "or rdx, rax",
                "sub rdx, qword ptr [rcx + {frame_ticks}]",
                "jb 28f",
                "cmp rdx, {long}",
                "ja 28f",
                "push rax",
                "push r9",
                ".cfi_adjust_cfa_offset 16",
                count!("rcx", "rax", "eax", "27f", ""),
                "pop r9",
                "pop rax",
                ".cfi_adjust_cfa_offset -16",
                publish!("{left}"),

                // anything else: slot and frames are unchanged, and Rust gets the stamp
                "27:",
                ".cfi_adjust_cfa_offset 24",
                "pop r9",
                "pop rax",
                ".cfi_adjust_cfa_offset -16",
                "28:",
                "add rdx, qword ptr [rcx + {frame_ticks}]",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "jmp 3f",
                "29:",
                ".cfi_adjust_cfa_offset 8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                "jmp 5f",
                "2:",
                "add rdx, qword ptr [rax + {frame_ticks}]",
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
                open = const offset_of!(OpenCalls, open),
                last_cpu = const offset_of!(OpenCalls, cpu),
                entered = const PUBLISHED_CALL,
                left = const -(PUBLISHED_CALL as i64),
                short_call_ends = const SHORT_CALL_ENDS,
                long = const LONG,
                threshold = const offset_of!(OpenCalls, threshold),
                frames = const FRAMES,
                totals = const offset_of!(OpenCalls, totals),
                ids = const TOTALS_IDS,
                index = const offset_of!(Totals, index),
                rows = const ROWS_AT,
                row_size = const ROW_SIZE,
                row_calls = const offset_of!(Row, calls),
                row_total = const offset_of!(Row, total),
                row_own = const offset_of!(Row, own),
                row_longest = const offset_of!(Row, longest),
                // The first class has the number 8 here.
                row_lengths = const offset_of!(Row, lengths) as isize - 64,
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
