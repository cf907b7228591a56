//! The CPU's number from the thread's rseq area, a word that the kernel updates whenever it moves the
//! thread. glibc registers the area for every thread from version 2.35 on and says where it is, as an
//! offset from the thread pointer; older versions and musl don't, so it is looked for at run time.
//! Must never register an area of its own: only one is possible per thread.

use core::arch::asm;
use core::sync::atomic::{AtomicIsize, Ordering};

use crate::primitive::OwnCacheLines;

/// Offset of the area from the thread pointer, bytes. 0, where the thread control block itself
/// begins and no area can be, until [`find`] has found it.
pub(crate) static OFFSET: OwnCacheLines<AtomicIsize> = OwnCacheLines(AtomicIsize::new(0));

/// Up to which byte of the area is used: `cpu_id`, a u32 at offset 4 (`struct rseq` of linux/rseq.h).
const NEEDED_BYTES: u32 = 8;

/// Looks for the area; whether it is there. Idempotent. Not async-signal-safe.
pub(super) fn find() -> bool {
    if found() {
        return true;
    }
    // SAFETY: both names are C strings, and no handle is needed to search what the program has loaded.
    let (offset, size) = unsafe {
        (
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>(),
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>(),
        )
    };
    if offset.is_null() || size.is_null() {
        return false;
    }
    // SAFETY: glibc defines the two as `const ptrdiff_t` and `const unsigned int`, set before main.
    let (offset, size) = unsafe { (*offset, *size) };
    if size < NEEDED_BYTES || offset == 0 {
        return false;
    }
    // Relaxed: the number is self-contained, and what it leads to has been there since the start.
    OFFSET.0.store(offset, Ordering::Relaxed);
    // Negative values say that the kernel refused the registration.
    let refused = (cpu() as i32) < 0;
    if refused {
        OFFSET.0.store(0, Ordering::Relaxed);
    }
    !refused
}

/// Whether [`find`] has found the area. Async-signal-safe.
#[inline(always)]
pub(super) fn found() -> bool {
    OFFSET.0.load(Ordering::Relaxed) != 0
}

/// The number of the CPU. Before [`find`] has succeeded the number is arbitrary, but reading it is
/// harmless. Async-signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn cpu() -> u32 {
    let offset = OFFSET.0.load(Ordering::Relaxed);
    let cpu;
    // SAFETY: glibc reserves the area in every thread's control block, registered or not; with an
    // offset of 0 the load is of the control block's first word, which every C library has.
    unsafe {
        asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset,
            options(readonly, nostack, preserves_flags));
    }
    cpu
}

/// As on x86-64; the thread pointer is in `tpidr_el0`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn cpu() -> u32 {
    let offset = OFFSET.0.load(Ordering::Relaxed);
    let cpu;
    // SAFETY: glibc reserves the area next to every thread's control block, registered or not; with
    // an offset of 0 the load is within the two words at the thread pointer that the ABI reserves.
    unsafe {
        asm!("mrs {1}, tpidr_el0", "add {1}, {1}, {2}", "ldr {0:w}, [{1}, #4]",
            out(reg) cpu, out(reg) _, in(reg) offset,
            options(readonly, nostack, preserves_flags));
    }
    cpu
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn names_the_cpu_that_the_thread_is_pinned_to() {
        if !find() {
            return; // An older glibc, musl, or the tunable that turns it off.
        }
        let thread = std::thread::spawn(|| {
            for core in core_affinity::get_core_ids().unwrap() {
                assert!(core_affinity::set_for_current(core));
                assert_eq!(cpu() as usize, core.id);
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn is_not_found_where_glibc_was_told_not_to_register() {
        const CHILD: &str = "RSEQ_TEST_CHILD";
        if std::env::var_os(CHILD).is_some() {
            println!("found: {}", find());
            return;
        }
        let name = "clock::rseq::tests::is_not_found_where_glibc_was_told_not_to_register";
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .env("GLIBC_TUNABLES", "glibc.pthread.rseq=0")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("found: false"), "{text}");
    }
}
