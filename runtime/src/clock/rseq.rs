//! The CPU's number from the thread's rseq area. The kernel updates this word whenever it moves the thread.
//! glibc registers the area for every thread since version 2.35, and says at which offset from the thread
//! pointer it is. Older versions and musl do not, so the area is looked for at run time. This file must never
//! register an area of its own, because a thread can have only one.

use core::arch::asm;
use core::sync::atomic::{AtomicIsize, Ordering};

use crossbeam_utils::CachePadded;

/// Offset of the area from the thread pointer, in bytes. 0 until [`find`] has found it, because the thread
/// control block itself begins there.
pub(crate) static OFFSET: CachePadded<AtomicIsize> = CachePadded::new(AtomicIsize::new(0));

/// The area is used up to this byte: `cpu_id` is a u32 at offset 4 (`struct rseq` of linux/rseq.h).
const NEEDED_BYTES: u32 = 8;

/// Looks for the area. Returns whether it exists. May be called again. Not async-signal-safe.
pub(super) fn find() -> bool {
    if found() {
        return true;
    }
    // SAFETY: both names are C strings. No handle is needed to search the loaded objects.
    let (offset, size) = unsafe {
        (
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>(),
            libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_size".as_ptr()).cast::<u32>(),
        )
    };
    if offset.is_null() || size.is_null() {
        return false;
    }
    // SAFETY: glibc defines the two as `const ptrdiff_t` and `const unsigned int`, and sets them before main.
    let (offset, size) = unsafe { (*offset, *size) };
    if size < NEEDED_BYTES || offset == 0 {
        return false;
    }
    // Relaxed: the number needs nothing else, and the area exists since the start.
    OFFSET.store(offset, Ordering::Relaxed);
    // A negative value says that the kernel refused the registration.
    let refused = (cpu() as i32) < 0;
    if refused {
        OFFSET.store(0, Ordering::Relaxed);
    }
    !refused
}

/// Whether [`find`] has found the area. Async-signal-safe.
#[inline(always)]
pub(super) fn found() -> bool {
    OFFSET.load(Ordering::Relaxed) != 0
}

/// The number of the CPU. Before [`find`] has succeeded the number is arbitrary, but reading it does no harm.
/// Async-signal-safe.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn cpu() -> u32 {
    let offset = OFFSET.load(Ordering::Relaxed);
    let cpu;
    // SAFETY: glibc reserves the area in every thread's control block, even if it is not registered. With an
    // offset of 0 this loads the first word of the control block, which every C library has.
    unsafe {
        asm!("mov {0:e}, fs:[{1} + 4]", out(reg) cpu, in(reg) offset,
            options(readonly, nostack, preserves_flags));
    }
    cpu
}

/// The same as on x86-64. The thread pointer is in `tpidr_el0`.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
pub(super) fn cpu() -> u32 {
    let offset = OFFSET.load(Ordering::Relaxed);
    let cpu;
    // SAFETY: glibc reserves the area next to every thread's control block, even if it is not registered. With
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
    fn rseq_names_the_pinned_cpu() {
        if !find() {
            return; // An older glibc, musl, or the tunable that turns it off.
        }
        let thread = std::thread::spawn(|| {
            for core in core_affinity::get_core_ids().unwrap() {
                assert!(core_affinity::set_for_current(core));
                assert_eq!(super::cpu() as usize, core.id);
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn rseq_can_be_switched_off_in_glibc() {
        const CHILD: &str = "RSEQ_TEST_CHILD";
        if std::env::var_os(CHILD).is_some() {
            println!("found: {}", find());
            return;
        }
        let name = "clock::rseq::tests::rseq_can_be_switched_off_in_glibc";
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
