//! x86-64: the edges of a thread whose short calls may leave no records, by the convention of [`stub`](super).
//! Async-signal-safe.
//!
//! As long as the slot has no open calls, the code makes the records of [`stub`](super). Then it does the work of
//! `open_calls::edge` for an entry, and for the exit of a call that is shorter than the threshold. For any other
//! edge it leaves slot and frames unchanged and calls that function.

use core::mem::offset_of;

use super::{OTHER_WAY, full, place, slot_access};
use crate::recorder::EXIT;
use crate::ring::layout::{BUSY, CHUNK, FRAMES, Frame, NO_HIGH, OpenCalls, Slot};
use crate::site::slot_access::SlotAccess;

/// Bytes of a frame as a shift.
const SHIFT: u32 = size_of::<Frame>().trailing_zeros();
const FRAMES_AT: usize = offset_of!(OpenCalls, frames);
/// From the start of a frame to a field of the frame before it.
const AROUND: usize = FRAMES_AT - size_of::<Frame>();

const _: () = assert!(size_of::<Frame>() == 1 << SHIFT);

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
                "shl rdx, 32",
                "or rdx, rax",
                "mov eax, dword ptr [r9 + {depth}]",
                "test r11b, {exit}",
                "jne 8f",

                // an entry: the frame behind the innermost one
                "add eax, 1",
                "cmp eax, {frames}",
                "jae 3f",
                "shl eax, {shift}",
                "add rax, r9",
                "mov qword ptr [rax + {frame_ticks}], rdx",
                "mov dword ptr [rax + {frame_cpu}], ecx",
                "lea edx, [r11 - {other_way}]",
                "mov dword ptr [rax + {frame_word}], edx",
                "xor edx, edx",
                "mov qword ptr [rax + {frame_short_calls}], rdx",
                "mov qword ptr [rax + {frame_short_ticks}], rdx",
                "add dword ptr [r9 + {depth}], 1",
                "mov dword ptr [r10 + {cpu}], ecx",
                "ret",

                // an exit: of the innermost call, which is not published, and short
                "8:",
                "cmp eax, dword ptr [r9 + {published}]",
                "jbe 3f",
                "shl eax, {shift}",
                "add rax, r9",
                "sub r11d, {exit_bits}",
                "cmp r11d, dword ptr [rax + {frame_word}]",
                "lea r11d, [r11 + {exit_bits}]",
                "jne 3f",
                "sub rdx, qword ptr [rax + {frame_ticks}]",
                "jb 2f",
                "cmp rdx, qword ptr [r9 + {threshold}]",
                "jae 2f",
                "add qword ptr [rax + {around_short_ticks}], rdx",
                "mov rdx, qword ptr [rax + {frame_short_calls}]",
                "add rdx, 1",
                "add qword ptr [rax + {around_short_calls}], rdx",
                "add qword ptr [r9 + {summarised}], 1",
                "sub dword ptr [r9 + {depth}], 1",
                "mov dword ptr [r10 + {cpu}], ecx",
                "ret",

                // anything else: slot and frames are unchanged, and Rust gets the stamp
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
                depth = const offset_of!(OpenCalls, depth),
                published = const offset_of!(OpenCalls, published),
                threshold = const offset_of!(OpenCalls, threshold),
                summarised = const offset_of!(OpenCalls, summarised),
                frames = const FRAMES,
                shift = const SHIFT,
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
