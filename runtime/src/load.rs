//! The recorder's entrance for the loader. The loader calls it before `main`, and `dlopen` calls it for a
//! library. So a program calls nothing itself. This file must never do more than call `shell::start`, or `off` on a
//! system without a recorder.
#![allow(unsafe_code)]

#[cfg(not(target_os = "linux"))]
use crate::off::functions::print_no_recorder as start;
#[cfg(target_os = "linux")]
use crate::shell::start::at_load as start;

#[used]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
#[cfg_attr(
    target_vendor = "apple",
    unsafe(link_section = "__DATA,__mod_init_func")
)]
#[cfg_attr(
    not(any(windows, target_vendor = "apple")),
    unsafe(link_section = ".init_array")
)]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    start();
}

// A linker takes from an archive only the objects that others name. Nothing names the entry above where the
// archive is a `staticlib` and another language's linker reads it. So the code of each record names this
// symbol, and this symbol names the entry. Its name is like those in `recorder::stub`.
#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
core::arch::global_asm!(
    ".pushsection .text.fdr.at_load,\"ax\",@progbits",
    ".hidden {access}.at_load",
    ".globl {access}.at_load",
    "{access}.at_load:",
    ".reloc ., R_X86_64_NONE, {entry}",
    ".byte 0",
    ".popsection",
    access = sym crate::recorder::SLOT_ACCESS,
    entry = sym AT_LOAD,
);
