//! x86-64: the common record in assembly, with a calling convention of its own. Async-signal-safe.
//!
//! The assembly does the work of `writer::write` for a record that is like the last one. For any other record
//! it leaves the slot unchanged and calls that function. There are two reasons for assembly, both measured with
//! `cargo xtask bench`.
//! - A traced function saves no registers for the call. So it stays small, and costs next to nothing while
//!   recording is off.
//! - The two clock reads of a call wait for earlier instructions. So each instruction between them takes time.
//!
//! The convention: the word comes in r11d. rax, rcx, rdx, r9, r10 and the flags are lost. All other registers are kept,
//! the vector registers included. An entry leaves the word of the exit in r11d: its own word, or 0 if the call has no
//! exit. Executables, libraries and guests use the same code. `slot_access` says where the slots are. `untimed` has the
//! records without a clock read. `outline` calls Rust.

/// Code with a symbol of its own. Its name is the symbol of `SLOT_ACCESS` with `$name` behind it, which no
/// other copy of the crate in the program has. The compiler does not know the code as a function. So the
/// compiler neither copies the code nor puts instructions before it. (Naked functions would do the same, but
/// need Rust 1.88.)
macro_rules! code {
    ($name:expr, [$($line:expr),+ $(,)?], $($operand:ident = $kind:ident $value:expr),+ $(,)?) => {
        core::arch::global_asm!(
            concat!(".pushsection .text.fdr.", $name, ",\"ax\",@progbits"),
            concat!(".hidden {access}.", $name),
            concat!(".globl {access}.", $name),
            concat!(".type {access}.", $name, ", @function"),
            ".balign 64",
            concat!("{access}.", $name, ":"),
            ".cfi_startproc",
            $($line,)+
            ".cfi_endproc",
            concat!(".size {access}.", $name, ", . - {access}.", $name),
            ".popsection",
            access = sym crate::recorder::stub::SLOT_ACCESS,
            $($operand = $kind $value,)+
        );
    };
}

/// The address of such code.
macro_rules! address {
    ($name:literal) => {{
        let address: *mut ();
        // SAFETY: the instruction only computes an address of code that is linked with it.
        unsafe {
            core::arch::asm!(
                concat!("lea {address}, [rip + {access}.", $name, "]"),
                address = out(reg) address,
                access = sym crate::recorder::stub::SLOT_ACCESS,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        address
    }};
}

mod counted;
mod open_calls;
mod outline;
mod slot_access;
mod untimed;

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, Ordering};

use crossbeam_utils::CachePadded;

use super::{Bits, record_slowly};
use crate::clock::Kind;
use crate::ring::layout::{BUSY, CHUNK, NO_HIGH, Slot};
use crate::site::COUNTED;
use crate::site::slot_access::SlotAccess;
use crate::site::unit::Host;

pub(crate) use slot_access::SLOT_ACCESS;
pub(crate) use untimed::{call_untimed, call_untimed_entry, entrance_untimed};

/// Set in a site's word if the record goes through [`OTHER`]. The way without this load is rdtsc with the
/// thread's rseq area, because that way is the fastest. The bit is 0 in every function record.
///
/// With [`COUNTED`] the bit has the opposite meaning: if both bits are set, `stub` counts the call at once. So `stub`
/// decides by one test of both bits. The parity of the result is even if none or both are set, and odd if one is set.
pub(super) const OTHER_WAY: u32 = 1;

/// The code for records with [`OTHER_WAY`]. It is null until the clock is known. It has cache lines of its own, so
/// writes to its neighbours do not slow records down.
static OTHER: CachePadded<AtomicPtr<()>> = CachePadded::new(AtomicPtr::new(core::ptr::null_mut()));

const _: () = {
    let word = CachePadded::new(0x1234_u64);
    // SAFETY: the word is at the beginning, where the assembly expects it. Otherwise this does not compile.
    let first = unsafe { *(&raw const word).cast::<u64>() };
    assert!(first == 0x1234, "assembly reads a padded word at offset 0");
};

const _: () = assert!(
    CHUNK == 1 << 16,
    "16 bits of the cursor are its place in the chunk"
);

/// Chooses the code for a copy that records for itself, with this clock. Returns the bits that the words of its
/// sites and of its guests' sites need besides id and action. It is called before the first site is on. `slot`
/// is the result of [`fixed_offset`](super::fixed_offset). `keeps`: calls may be summarised, see `open_calls`.
pub(crate) fn prepare(kind: Kind, slot: Option<isize>, keeps: bool) -> Bits {
    outline::prepare();
    SLOT_ACCESS.describe(kind, slot, keeps);
    OTHER.store(
        other_way().unwrap_or_else(|| address!("slowly")),
        Ordering::Relaxed,
    );
    let is_nearest = SLOT_ACCESS.is_nearest();
    // If the common records take another way than the nearest, then none takes the nearest.
    let watched = match SLOT_ACCESS.is_fixed() && !is_nearest {
        true => 0,
        false => COUNTED,
    };
    Bits {
        timed: if is_nearest { 0 } else { OTHER_WAY },
        untimed: untimed::prepare(keeps),
        counted: if SLOT_ACCESS.is_fixed() { OTHER_WAY } else { 0 },
        guests: 0,
        watched,
    }
}

/// This copy's code for the clock of [`SLOT_ACCESS`]. `None` if [`OTHER`] has no code for that clock.
fn other_way() -> Option<*mut ()> {
    let way = match (SLOT_ACCESS.kind(), SLOT_ACCESS.keeps()) {
        (Kind::Tscp, false) => address!("by_rdtscp"),
        (Kind::Tscp, true) => address!("open_calls_by_rdtscp"),
        (Kind::TscPid, false) => address!("by_rdpid"),
        (Kind::TscPid, true) => address!("open_calls_by_rdpid"),
        // Without open calls this code does what "stub" does.
        (Kind::TscRseq, true) => address!("open_calls_by_rseq"),
        (Kind::TscRseq | Kind::Counter | Kind::Monotonic, _) => return None,
    };
    SLOT_ACCESS.is_fixed().then_some(way)
}

/// The function for a guest's records that the guest can't make itself.
pub(crate) fn entrance() -> *mut () {
    address!("stub")
}

/// Chooses the code for a guest of `host`. The guest's own code writes into the host's slots if it can find
/// them. Otherwise the host's code does.
pub(crate) fn prepare_guest(host: &'static Host) {
    SLOT_ACCESS.follow(host.slot_access);
    let other = other_way().unwrap_or_else(|| (host.record)());
    // Release: a thread that sees this pointer also sees the code's data.
    OTHER.store(other, Ordering::Release);
    untimed::prepare_guest(host);
}

/// Records an entry, whose word is id << 4. Returns the word for the exit, which [`call`] gets with `| EXIT`, or 0 if
/// the call has no exit. Async-signal-safe.
#[inline(always)]
pub(crate) fn call_entry(mut word: u32) -> u32 {
    // SAFETY: as in `call`.
    unsafe {
        asm!(
            "call {access}.stub",
            access = sym SLOT_ACCESS,
            inout("r11") word,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
    word
}

/// Records one edge: `word` is id << 4 for an entry, `| EXIT` for an exit. Async-signal-safe.
#[inline(always)]
pub(crate) fn call(word: u32) {
    // SAFETY: `stub` loses only the registers that are listed here. It does not unwind, and it touches only the
    // recorder's memory.
    unsafe {
        asm!(
            "call {access}.stub",
            access = sym SLOT_ACCESS,
            in("r11") word,
            out("rax") _,
            out("rcx") _,
            out("rdx") _,
            out("r9") _,
            out("r10") _,
        );
    }
}

/// Puts the ticks into edx:eax and the CPU of the thread's rseq area into ecx. If other code makes the common records,
/// there is no CPU in ecx.
macro_rules! rdtsc_and_rseq {
    () => {
        concat!(
            "rdtsc\n",
            "mov rcx, qword ptr [rip + {access} + {access_nearest}]\n",
            "mov ecx, dword ptr fs:[rcx + 4]",
        )
    };
}

/// Makes the record. Ticks are in edx:eax, the CPU in ecx, the slot in r10. The first instructions given stand
/// before the slot is busy, and may change r9. The others store the word. They find its address in rdx and may
/// change eax. The code ends with `ret`, or at labels 4 to 6.
macro_rules! place {
    ($before:literal, $($store_word:literal),+) => {
        concat!(
            "cmp ecx, dword ptr [r10 + {cpu}]\n",
            "jne 6f\n",
            $before,
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
            // This does the work of `chunk_writer::commit`, because a store is a Release on x86. The 16-bit sum is
            // zero at the chunk's end.
            "add dx, 8\n",
            "je 4f\n",
            "mov qword ptr [r10 + {cursor}], rdx\n",
            "mov dword ptr [r10 + {cpu}], ecx\n",
            "ret",
        )
    };
}

/// The chunk is full. No clock reaches the upper half that is stored here, so the next record is uncommon and
/// opens a chunk.
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

use {full, place};

/// The code of one clock: first instructions, reading of time and CPU, store of the word, last instructions.
macro_rules! way {
    (
        $name:literal: $first:expr, $stamp:expr, [$($store_word:literal),+], $last:literal
        $(, $($operand:ident = $kind:ident $value:expr),+)?
    ) => {
        code!(
            $name,
            [
                $first,
                slot_access::slot!(),
                $stamp,
                place!("", $($store_word),+),
                "4:",
                full!(),
                // an uncommon record: the slot is unchanged, and the writer gets the stamp
                "5:",
                "mov dword ptr [r10 + {cpu}], ecx",
                "6:",
                "mov r9, qword ptr [rip + {access} + {access_record_at}]",
                "shl rdx, 32",
                "or rdx, rax",
                "jmp qword ptr [rip + {access} + {access_outline}]",
                $last,
            ],
                access_slot = const offset_of!(SlotAccess, slot),
                access_record_at = const offset_of!(SlotAccess, record_at),
                access_outline = const offset_of!(SlotAccess, outline),
                cpu = const offset_of!(Slot, cpu),
                cursor = const offset_of!(Slot, cursor),
                last_low = const offset_of!(Slot, last_low),
                last_high = const offset_of!(Slot, last_high),
                busy = const BUSY as i32,
                no_high = const NO_HIGH as i32,
                chunk = const CHUNK,
                $($($operand = $kind $value,)+)?
        );
    };
}

// Every record begins here. Only `call` enters this code, and the others are entered by a jump from here. The
// compiler knows no calling convention of theirs.
way! {
    "stub": "test r11b, {choice}\njnp 3f\njne {access}.counted",
    rdtsc_and_rseq!(),
    ["mov dword ptr [rdx], r11d"],
    // The relocation changes nothing. Because of it, a linker that takes this code takes the entry in `load`, too.
    "3:\njmp qword ptr [rip + {other}]\n.reloc ., R_X86_64_NONE, {access}.at_load",
    choice = const COUNTED | OTHER_WAY,
    other = sym OTHER,
    access_nearest = const offset_of!(SlotAccess, nearest)
}
// Entered from the code above, as the next one is.
way! {
    "by_rdtscp": "",
    "rdtscp",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    "",
    other_way = const OTHER_WAY
}
way! {
    "by_rdpid": "",
    "rdtsc\nrdpid rcx",
    ["lea eax, [r11 - {other_way}]", "mov dword ptr [rdx], eax"],
    "",
    other_way = const OTHER_WAY
}

// For a clock that no stub reads, and for thread storage that a call finds. Entered by a jump from "stub".
code!(
    "slowly",
    ["lea r9, [rip + {record_slowly}]", "jmp {access}.outline"],
    record_slowly = sym record_slowly,
);
