//! x86-64: the common record by hand, behind a calling convention of its own. Async-signal-safe.
//!
//! It does what `writer::write` does, for a record that is like the last one, and hands everything
//! else to that function with the slot as it found it. Two things make it worth its assembly, both
//! measured with `cargo xtask bench`: a traced function saves no registers for the call, so it costs
//! next to nothing while recording is off and stays small; and between two clock reads that wait for
//! earlier instructions, each instruction less is seen.
//!
//! The convention: the word comes in r11d; rax, rcx, rdx, r9, r10 and the flags are lost, everything
//! else is kept, vector registers and r11 included. It is the same code for executables and libraries, and
//! for copies whose records are another one's: `reach` says where their slots are. `untimed` has the records
//! without a clock read; `outline` is the way from all of them into Rust.

/// Code with a symbol of its own, `REACH`'s with the name behind it: no other copy of the crate in the program
/// has that. It is no function to the compiler: no other copy of it is made, and nothing comes before it. (Naked
/// functions would be the same, and are of Rust 1.88.)
macro_rules! code {
    ($name:expr, [$($line:expr),+ $(,)?], $($operand:ident = $kind:ident $value:expr),+ $(,)?) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.fdr.", $name, ",\"ax\",@progbits"),
            concat!(".hidden {reach}.", $name),
            concat!(".globl {reach}.", $name),
            concat!(".type {reach}.", $name, ", @function"),
            ".balign 64",
            concat!("{reach}.", $name, ":"),
            ".cfi_startproc",
            $($line,)+
            ".cfi_endproc",
            concat!(".size {reach}.", $name, ", . - {reach}.", $name),
            ".popsection",
            reach = sym crate::recorder::stub::REACH,
            $($operand = $kind $value,)+
        );
    };
}

/// Where such code is.
macro_rules! address {
    ($name:literal) => {{
        let address: *mut ();
        // SAFETY: it only says where something is that is linked with it.
        unsafe {
            core::arch::asm!(
                concat!("lea {address}, [rip + {reach}.", $name, "]"),
                address = out(reg) address,
                reach = sym crate::recorder::stub::REACH,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

mod outline;
mod reach;
mod untimed;

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{Bits, record_slowly, writer};
use crate::clock::Kind;
use crate::primitive::Alone;
use crate::ring::layout::{CHUNK, Slot};
use crate::site::unit::Host;

pub(crate) use reach::{REACH, Reach};
pub(crate) use untimed::{call_untimed, entrance_untimed};

/// Set in a site's word where [`OTHER`] is to be looked at: the way that has no time to is rdtsc with the
/// thread's rseq area. The bit is 0 in every function record.
pub(super) const OTHER_WAY: u32 = 1;

/// Where records with [`OTHER_WAY`] are made: nowhere, until it is known.
static OTHER: Alone<AtomicPtr<()>> = Alone(AtomicPtr::new(core::ptr::null_mut()));

const _: () = assert!(
    CHUNK == 1 << 16,
    "16 bits of the cursor are its place in the chunk"
);

/// Chooses the ways for a copy that records for itself, with this clock. Returns what the words of its
/// sites, and of its guests', must hold besides id and action. Called before the first site is turned on.
/// `slot`: what [`fixed_offset`](super::fixed_offset) has given.
pub(crate) fn prepare(kind: Kind, slot: Option<isize>) -> Bits {
    outline::prepare();
    REACH.describe(kind, slot);
    let other = other_way().unwrap_or_else(|| address!("slowly"));
    OTHER.0.store(other, Ordering::Relaxed);
    let is_nearest = REACH.is_fixed() && kind == Kind::TscRseq;
    Bits {
        timed: if is_nearest { 0 } else { OTHER_WAY },
        untimed: untimed::prepare(),
        guests: 0,
    }
}

/// This copy's code for [`REACH`]'s clock, where there is some that [`OTHER`] can lead to.
fn other_way() -> Option<*mut ()> {
    let way = match REACH.kind() {
        Kind::Tscp => address!("by_rdtscp"),
        Kind::TscPid => address!("by_rdpid"),
        Kind::TscRseq | Kind::Counter | Kind::Monotonic => return None,
    };
    REACH.is_fixed().then_some(way)
}

/// Where a guest's records go that it can't make itself.
pub(crate) fn entrance() -> *mut () {
    address!("stub")
}

/// Chooses the ways for a copy whose records are `host`'s: into the host's slots by its own code, where
/// they can be reached, otherwise by the host's.
pub(crate) fn prepare_guest(host: &'static Host) {
    REACH.follow(host.reach);
    let other = other_way().unwrap_or_else(|| (host.record)());
    // Release: whoever sees the way sees where it leads.
    OTHER.0.store(other, Ordering::Release);
    untimed::prepare_guest(host);
}

/// Records one edge: `word` is id << 4 for an entry, `| EXIT` for an exit. Async-signal-safe.
#[inline(always)]
pub(crate) fn call(word: u32) {
    // SAFETY: `stub` loses what is listed here and nothing else, does not unwind, and touches only the
    // recorder's memory.
    unsafe {
        asm!(
            "call {reach}.stub",
            reach = sym REACH,
            in("r11") word,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
}

/// Ticks in edx:eax, the CPU of the thread's rseq area in ecx.
macro_rules! rdtsc_and_rseq {
    () => {
        concat!(
            "rdtsc\n",
            "mov rcx, qword ptr [rip + {reach} + {reach_rseq}]\n",
            "mov ecx, dword ptr fs:[rcx + 4]",
        )
    };
}

/// Makes the record: ticks in edx:eax, CPU in ecx, slot in r10, the word stored by the instructions
/// given (its place is in rdx; eax is free). Ends with `ret`, or at 4 to 6.
macro_rules! place {
    ($($store_word:literal),+) => {
        concat!(
            "cmp ecx, dword ptr [r10 + {cpu}]\n",
            "jne 6f\n",
            "mov dword ptr [r10 + {cpu}], {busy}\n",
            "cmp edx, dword ptr [r10 + {last_high}]\n",
            "jne 5f\n",
            "mov r9d, eax\n",
            "sub r9d, dword ptr [r10 + {last_low}]\n",
            "jb 5f\n",
            "mov rdx, qword ptr [r10 + {cursor}]\n",
            "mov dword ptr [r10 + {last_low}], eax\n",
            $($store_word, "\n",)+
            "mov dword ptr [rdx + 4], r9d\n",
            // What `writer::commit` does; a store is a Release on x86. 16 bits: zero at the chunk's end.
            "add dx, 8\n",
            "je 4f\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

/// The chunk is full: the next record finds an upper half that no clock has, and opens another.
macro_rules! full {
    () => {
        concat!(
            "add rdx, {chunk}\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {last_high}], {no_high}\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

use full;

/// One way: what comes first, how time and CPU are read, how the word is stored, what comes last.
macro_rules! way {
    (
        $name:literal: $first:expr, $stamp:expr, [$($store_word:literal),+], $last:literal
        $(, $($operand:ident = $kind:ident $value:expr),+)?
    ) => {
        code!(
            $name,
            [
                $first,
                reach::slot!(),
                $stamp,
                place!($($store_word),+),
                "4:",
                full!(),
                // an uncommon record: the slot as it was, and the writer with the stamp
                "5:",
                "mov dword ptr [r10 + {cpu}], ecx",
                "6:",
                "mov r9, qword ptr [rip + {reach} + {reach_record_at}]",
                "shl rdx, 32",
                "or rdx, rax",
                "jmp qword ptr [rip + {reach} + {reach_outline}]",
                $last,
            ],
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
                $($($operand = $kind $value,)+)?
        );
    };
}

// The way of all records at first. By `call` alone, as the others by a jump from there: it has no calling
// convention that the compiler knows.
way! {
    "stub": "test r11b, {other_way}\njne 3f",
    rdtsc_and_rseq!(),
    ["mov dword ptr [rdx], r11d"],
    "3:\njmp qword ptr [rip + {other}]",
    other = sym OTHER,
    reach_rseq = const offset_of!(Reach, rseq)
}
// From there, as the next one.
way! {
    "by_rdtscp": "",
    "rdtscp",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    ""
}
way! {
    "by_rdpid": "",
    "rdtsc\nrdpid rcx",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    ""
}

// With a clock that no stub reads, or where thread storage is found by a call. By a jump from "stub".
code!(
    "slowly",
    ["lea r9, [rip + {record_slowly}]", "jmp {reach}.outline"],
    record_slowly = sym record_slowly,
);
