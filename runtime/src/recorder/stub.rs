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

mod outline;
mod reach;
mod untimed;

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use super::{Bits, record_slowly, writer};
use crate::clock::Kind;
use crate::primitive::Alone;
use crate::ring::layout::{CHUNK, Slot};
use crate::site::unit::Host;

pub(crate) use reach::{REACH, Reach};
#[cfg(test)]
pub(super) use untimed::stub_untimed;
pub(crate) use untimed::{call_untimed, entrance_untimed};

/// Set in a site's word where [`OTHER`] is to be looked at: the way that has no time to is rdtsc with the
/// thread's rseq area. The bit is 0 in every function record.
pub(super) const OTHER_WAY: u32 = 1;

/// Where records with [`OTHER_WAY`] are made.
static OTHER: Alone<AtomicPtr<()>> = Alone(AtomicPtr::new(slowly as *mut ()));

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
    let other = other_way().unwrap_or(slowly as *mut ());
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
        Kind::Tscp => by_rdtscp as *mut (),
        Kind::TscPid => by_rdpid as *mut (),
        Kind::TscRseq | Kind::Counter | Kind::Monotonic => return None,
    };
    REACH.is_fixed().then_some(way)
}

/// Where a guest's records go that it can't make itself.
pub(crate) fn entrance() -> *mut () {
    stub as *mut ()
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
            "call {stub}",
            stub = sym stub,
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
        $(#[$about:meta])*
        $name:ident: $first:expr, $stamp:expr, [$($store_word:literal),+], $last:literal
        $(, $($operand:ident = $kind:ident $value:expr),+)?
    ) => {
        $(#[$about])*
        ///
        /// # Safety
        /// By `call` alone, or by a jump from there: it has no calling convention that the compiler knows.
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $name() {
            naked_asm!(
                ".balign 64",
                ".cfi_startproc",
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
                $($($operand = $kind $value,)+)?
            )
        }
    };
}

way! {
    /// The way of all records at first.
    stub: "test r11b, {other_way}\njne 3f",
    rdtsc_and_rseq!(),
    ["mov dword ptr [rdx], r11d"],
    "3:\njmp qword ptr [rip + {other}]",
    other = sym OTHER,
    reach_rseq = const offset_of!(Reach, rseq)
}
way! {
    /// From there, as the next one.
    by_rdtscp: "",
    "rdtscp",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    ""
}
way! {
    by_rdpid: "",
    "rdtsc\nrdpid rcx",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    ""
}

/// With a clock that no stub reads, or where thread storage is found by a call.
///
/// # Safety
/// As `stub`, which jumps to it.
#[unsafe(naked)]
unsafe extern "C" fn slowly() {
    naked_asm!(
        ".cfi_startproc",
        "lea r9, [rip + {record_slowly}]",
        "jmp {outline}",
        ".cfi_endproc",
        record_slowly = sym record_slowly,
        outline = sym outline::outline,
    )
}
