//! x86-64: the common record by hand, behind a calling convention of its own. Async-signal-safe.
//!
//! It does what `writer::write` does, for a record that is like the last one, and hands everything
//! else to that function with the slot as it found it. Two things make it worth its assembly, both
//! measured with `cargo xtask bench`: a traced function saves no registers for the call, so it costs
//! next to nothing while recording is off and stays small; and between two clock reads that wait for
//! earlier instructions, each instruction less is seen.
//!
//! The convention: the word comes in r11d; rax, rcx, rdx, r9, r10 and the flags are lost, everything
//! else is kept, vector registers and r11 included.

use core::arch::{asm, naked_asm};
use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering};

use super::{CLOCK, record_at, record_slowly, tls, writer};
use crate::clock::{Kind, RSEQ_OFFSET};
use crate::ring::layout::{CHUNK, Slot};

/// 1 where the CPU has XSAVE, which the uncommon path saves vector registers with.
static HAS_XSAVE: AtomicU32 = AtomicU32::new(0);

/// Bytes of XSAVE's standard format up to the upper 16 vector registers (Intel SDM volume 1, 13.4),
/// rounded up to its alignment.
const VECTORS: usize = 2688 + 64;
/// What is saved: x87, SSE, AVX, and the three parts of AVX-512; XSAVE leaves out what the CPU lacks.
const COMPONENTS: u32 = 0b1110_0111;

/// Set in a word where the clock is not rdtsc with the thread's rseq area: the way that has no time to
/// look it up. The bit is 0 in every function record.
pub(super) const OTHER_CLOCK: u32 = 1;

const _: () = assert!(
    CHUNK == 1 << 16,
    "16 bits of the cursor are its place in the chunk"
);

/// What a site's word must hold besides id and action.
pub(crate) fn clock_bit() -> u32 {
    let rdtsc = CLOCK.load(Ordering::Relaxed) == Kind::TscRseq as u32;
    if rdtsc { 0 } else { OTHER_CLOCK }
}

/// Looks what the CPU has. Called before the first site is turned on.
pub(crate) fn prepare() {
    let has = std::arch::is_x86_feature_detected!("xsave");
    HAS_XSAVE.store(u32::from(has), Ordering::Relaxed);
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

/// # Safety
/// By `call` alone: it has no calling convention that the compiler knows.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn stub() {
    naked_asm!(
        ".balign 64",
        ".cfi_startproc",
        concat!("mov r10, qword ptr [rip + ", tls::slot!(), "@gottpoff]"),
        "mov r10, qword ptr fs:[r10]",
        "test r11b, {other_clock}",
        "jne 3f",
        "rdtsc",
        "mov rcx, qword ptr [rip + {rseq_offset}]",
        "mov ecx, dword ptr fs:[rcx + 4]",
        place!("mov dword ptr [rdx], r11d"),

        "3:",
        "mov eax, dword ptr [rip + {clock}]",
        "cmp eax, {tscp}",
        "jne 22f",
        "rdtscp",
        "23:",
        place!("lea eax, [r11 - {other_clock}]", "mov dword ptr [rdx], eax"),
        "22:",
        "cmp eax, {pid}",
        "jne 7f",
        "rdtsc",
        "rdpid rcx",
        "jmp 23b",

        // the chunk is full: the next record opens another
        "4:",
        "add rdx, {chunk}",
        "mov qword ptr [r10 + {cursor}], rdx",
        "mov dword ptr [r10 + {cpu}], {no_cpu}",
        "ret",

        // an uncommon record: the slot as it was, and the writer with the stamp
        "5:",
        "mov dword ptr [r10 + {cpu}], ecx",
        "6:",
        "lea r9, [rip + {record_at}]",
        "shl rdx, 32",
        "or rdx, rax",
        "jmp 8f",
        "7:",
        "lea r9, [rip + {record_slowly}]",

        // r9(slot, word, ticks, cpu), with every register kept that the convention keeps
        "8:",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push r8",
        "push r11",
        "sub rsp, {vectors}",
        "and rsp, -64",
        "mov rdi, r10",
        "mov esi, r11d",
        "mov r8, rdx",
        "xor eax, eax",
        "mov qword ptr [rsp + 512], rax",
        "mov qword ptr [rsp + 520], rax",
        "mov qword ptr [rsp + 528], rax",
        "mov qword ptr [rsp + 536], rax",
        "mov qword ptr [rsp + 544], rax",
        "mov qword ptr [rsp + 552], rax",
        "mov qword ptr [rsp + 560], rax",
        "mov qword ptr [rsp + 568], rax",
        "cmp dword ptr [rip + {has_xsave}], 0",
        "je 9f",
        "mov eax, {components}",
        "xor edx, edx",
        "xsave64 [rsp]",
        "mov rdx, r8",
        "call r9",
        "mov eax, {components}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "jmp 24f",
        "9:",
        "fxsave64 [rsp]",
        "mov rdx, r8",
        "call r9",
        "fxrstor64 [rsp]",
        "24:",
        "lea rsp, [rbp - 32]",
        "pop r11",
        "pop r8",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        clock = sym CLOCK,
        other_clock = const OTHER_CLOCK,
        tscp = const Kind::Tscp as u32,
        pid = const Kind::TscPid as u32,
        rseq_offset = sym RSEQ_OFFSET,
        cpu = const offset_of!(Slot, cpu),
        cursor = const offset_of!(Slot, cursor),
        last_low = const offset_of!(Slot, last_low),
        last_high = const offset_of!(Slot, last_high),
        busy = const writer::BUSY as i32,
        no_cpu = const writer::NO_CPU as i32,
        chunk = const CHUNK,
        record_at = sym record_at,
        record_slowly = sym record_slowly,
        vectors = const VECTORS,
        components = const COMPONENTS,
        has_xsave = sym HAS_XSAVE,
    )
}
