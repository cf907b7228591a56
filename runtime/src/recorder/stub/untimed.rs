//! x86-64: the record without a clock read, by the convention of [`stub`](super). Async-signal-safe.
//!
//! It does what `writer::write_untimed` does. No clock hides its instructions, so what counts is the way
//! from one record's stores to the next one's loads of the same places: the cursor's and the CPU's, of
//! which neither waits for the other. Which clock the timed records have makes no difference to it.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::{OTHER_WAY, outline};
use crate::recorder::{record_interrupted, record_untimed, tls, writer};
use crate::ring::layout::{CHUNK, Slot};

/// How records with [`OTHER_WAY`] are made.
static WAY: AtomicU32 = AtomicU32::new(SLOWLY);
/// As without the bit: for guests' records, whose words have it always.
const SHORT: u32 = 0;
/// By another copy of the recorder: its stub.
const GUEST: u32 = 1;
/// By `record_untimed`: in a library, whose thread storage is found by a call.
const SLOWLY: u32 = 2;

/// The host's [`stub_untimed`] where this copy is a guest.
static HOST: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Chooses the way for a copy that records for itself, and returns what the words of its sites hold.
pub(super) fn prepare(executable: bool) -> u32 {
    let (way, bit) = if executable {
        (SHORT, 0)
    } else {
        (SLOWLY, OTHER_WAY)
    };
    WAY.store(way, Ordering::Relaxed);
    bit
}

/// Chooses the way for a copy whose records another one makes, at its [`entrance_untimed`].
pub(super) fn prepare_guest(host: *mut ()) {
    HOST.store(host, Ordering::Relaxed);
    // Release: whoever sees the way sees where it leads.
    WAY.store(GUEST, Ordering::Release);
}

/// Where a guest's untimed records go.
pub(crate) fn entrance_untimed() -> *mut () {
    stub_untimed as *mut ()
}

/// Records one edge without a time of its own: `word` is id << 4 for an entry, `| EXIT` for an exit.
/// Async-signal-safe.
#[inline(always)]
pub(crate) fn call_untimed(word: u32) {
    // SAFETY: `stub_untimed` loses what is listed here (and less) and nothing else, does not unwind, and
    // touches only the recorder's memory.
    unsafe {
        asm!(
            "call {stub}",
            stub = sym stub_untimed,
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

/// The record: the word in r11, and what is stored in {word}. Ends with `ret`, or at 4 to 6.
macro_rules! place {
    ($word:literal) => {
        concat!(
            tls::place!(), "\n",
            "mov r10, qword ptr fs:[rax]\n",
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

/// # Safety
/// By `call_untimed` alone: it has no calling convention that the compiler knows.
#[unsafe(naked)]
pub(in crate::recorder) unsafe extern "C" fn stub_untimed() {
    naked_asm!(
        ".balign 64",
        ".cfi_startproc",
        "test r11b, {other_way}",
        "jne 2f",
        place!("mov qword ptr [rdx], r11\n"),

        "2:",
        "mov eax, dword ptr [rip + {way}]",
        "cmp eax, {guest}",
        "je 7f",
        "cmp eax, {slowly}",
        "je 6f",
        place!("lea rax, [r11 - {other_way}]\nmov qword ptr [rdx], rax\n"),
        "7:",
        "jmp qword ptr [rip + {host}]",

        // the chunk is full: as in `stub`
        "3:",
        "add rdx, {chunk}",
        "mov qword ptr [r10 + {cursor}], rdx",
        "mov dword ptr [r10 + {last_high}], {no_high}",
        "mov dword ptr [r10 + {cpu}], ecx",
        "ret",

        // a handler has recorded since the CPU was loaded, perhaps on another one
        "4:",
        "mov ecx, {no_cpu}",
        "5:",
        "mov dword ptr [r10 + {cpu}], ecx",
        "lea r9, [rip + {record_interrupted}]",
        "jmp {outline}",
        "6:",
        "lea r9, [rip + {record_untimed}]",
        "jmp {outline}",
        ".cfi_endproc",
        way = sym WAY,
        host = sym HOST,
        other_way = const OTHER_WAY,
        guest = const GUEST,
        slowly = const SLOWLY,
        cpu = const offset_of!(Slot, cpu),
        cursor = const offset_of!(Slot, cursor),
        last_high = const offset_of!(Slot, last_high),
        busy = const writer::BUSY as i32,
        no_cpu = const writer::NO_CPU as i32,
        no_high = const writer::NO_HIGH as i32,
        chunk = const CHUNK,
        record_interrupted = sym record_interrupted,
        record_untimed = sym record_untimed,
        outline = sym outline::outline,
    )
}
