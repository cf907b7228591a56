//! Calls Rust from the stubs, for uncommon records. The call keeps every register that the convention of the
//! stubs keeps. Async-signal-safe. A common record must never pass through this code.

use core::sync::atomic::{AtomicU32, Ordering};

/// 1 if the CPU has XSAVE, which saves vector registers.
static HAS_XSAVE: AtomicU32 = AtomicU32::new(0);

/// Bytes of XSAVE's standard format up to the upper 16 vector registers (Intel SDM volume 1, 13.4),
/// rounded up to its alignment.
const VECTORS: usize = 2688 + 64;
/// The saved parts: x87, SSE, AVX, and the three parts of AVX-512. XSAVE leaves out parts that the CPU lacks.
const COMPONENTS: u32 = 0b1110_0111;

/// Finds out which instructions the CPU has. It is called before the first site is on.
pub(super) fn prepare() {
    // CPUID leaf 1, ECX bit 27: the system has enabled XSAVE.
    // Newer compilers take CPUID for safe, because each x86-64 processor has it.
    #[allow(unused_unsafe)]
    // SAFETY: the processor has CPUID and its leaf 1.
    let has = unsafe { core::arch::x86_64::__cpuid_count(1, 0) }.ecx >> 27 & 1 == 1;
    HAS_XSAVE.store(u32::from(has), Ordering::Relaxed);
}

// Calls r9(r10, r11d, rdx, ecx, &r11). The arguments are slot, word, ticks, CPU, and the place where r11 is saved
// during the call. Returns to the caller of the stub. Only the stubs jump to it, with their stack unchanged.
code!(
    "outline",
    [
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
        "lea r8, [rbp - 32]",
        "call r9",
        "mov eax, {components}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "jmp 24f",
        "9:",
        "fxsave64 [rsp]",
        "mov rdx, r8",
        "lea r8, [rbp - 32]",
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
    ],
    vectors = const VECTORS,
    components = const COMPONENTS,
    has_xsave = sym HAS_XSAVE,
);
