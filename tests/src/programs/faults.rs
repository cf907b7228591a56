//! Faults that a program dies of.

use std::hint::black_box;

/// Writes to an address that nothing has.
pub fn write_to(address: usize) {
    // SAFETY: this is unsound on purpose: the process dies of it, or its handler mends it.
    unsafe { black_box(std::ptr::without_provenance_mut::<u64>(address)).write_volatile(1) };
}

/// Reads from an address that nothing has.
pub fn read_from(address: usize) {
    // SAFETY: as above.
    black_box(unsafe { black_box(std::ptr::without_provenance::<u64>(address)).read_volatile() });
}

/// An instruction that is none.
pub fn illegal() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the process is to die of it.
    unsafe {
        std::arch::asm!("ud2");
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: as above.
    unsafe {
        libc::raise(libc::SIGILL);
    }
}

/// Calls without an end, each with a frame of its own.
pub fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    if depth == u64::MAX {
        return 0;
    }
    overflow(black_box(depth + 1)) + frame[7]
}
