//! The physical limit of an entry and an exit record: two clock reads and two 8-byte stores in inline assembly. The
//! cursor is in a register.
//!
//! | bits | record |
//! | --- | --- |
//! | 0..32 | function id << 4, action << 1 |
//! | 32..64 | low half of the TSC |

use std::arch::asm;
use std::hint::black_box;

use peer_harness::work::MULTIPLIER;

/// Clock: rdtsc, which does not wait for anything.
pub(crate) const RDTSC: u8 = 0;
/// Clock: rdtscp, which waits for the loads before it and also tells the CPU.
pub(crate) const RDTSCP: u8 = 1;

/// What records of one function hold besides the time.
pub(crate) const ENTRY: u64 = 1234 << 4;
pub(crate) const EXIT: u64 = ENTRY | 1 << 1;

/// 1 MiB: it stays in the second-level cache of most machines. A power of two.
pub(crate) const RECORDS: usize = 1 << 17;

/// The memory that the records go to, round and round.
pub(crate) struct Ring {
    records: Vec<u64>,
}

impl Ring {
    /// All pages are touched, so that none faults while time is taken.
    pub(crate) fn new() -> Ring {
        Ring {
            records: vec![u64::MAX; RECORDS],
        }
    }

    pub(crate) fn base(&mut self) -> *mut u64 {
        self.records.as_mut_ptr()
    }
}

/// Stores one record at `at`, which is below [`RECORDS`], and returns the place after it.
#[inline(always)]
pub(crate) fn record<const CLOCK: u8>(ring: *mut u64, at: usize, tag: u64) -> usize {
    let (low, high): (u64, u64);
    // SAFETY: both instructions write the named registers only, and touch neither memory nor flags.
    unsafe {
        if CLOCK == RDTSCP {
            asm!("rdtscp", out("rax") low, out("rdx") high, out("rcx") _,
                options(nostack, nomem, preserves_flags));
        } else {
            asm!("rdtsc", out("rax") low, out("rdx") high, options(nostack, nomem, preserves_flags));
        }
    }
    let _ = high;
    // SAFETY: `at` is below RECORDS: it starts at 0 and is masked below; `ring` holds RECORDS records.
    unsafe { ring.add(at).write_volatile(low << 32 | tag) };
    (at + 1) & (RECORDS - 1)
}

/// Twin of `untraced::leaf`.
#[inline(never)]
pub(crate) fn leaf<const CLOCK: u8>(x: u64, ring: *mut u64, at: usize) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    let result = black_box(x.wrapping_mul(MULTIPLIER));
    (result, record::<CLOCK>(ring, at, EXIT))
}

/// Twin of `untraced::fib`.
#[inline(never)]
pub(crate) fn fib<const CLOCK: u8>(n: u32, ring: *mut u64, at: usize) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    if n < 2 {
        return (u64::from(n), record::<CLOCK>(ring, at, EXIT));
    }
    let (first, at) = fib::<CLOCK>(n - 1, ring, at);
    let first = black_box(first);
    let (second, at) = fib::<CLOCK>(n - 2, ring, at);
    let result = first.wrapping_add(black_box(second));
    (result, record::<CLOCK>(ring, at, EXIT))
}

/// Twin of `untraced::chain`.
#[inline(never)]
pub(crate) fn chain<const CLOCK: u8>(
    x: u64,
    steps: u32,
    ring: *mut u64,
    at: usize,
) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    let result = (0..steps).fold(x, |y, _| y.wrapping_mul(MULTIPLIER) ^ 1);
    (result, record::<CLOCK>(ring, at, EXIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_leaves_an_entry_and_an_exit() {
        let mut ring = Ring::new();
        let base = ring.base();
        let (_, at) = leaf::<RDTSCP>(1, base, 0);
        let (_, at) = chain::<RDTSC>(1, 4, base, at);
        let (two, at) = fib::<RDTSC>(3, base, at);
        assert_eq!((two, at), (2, 2 + 2 + 2 * 5));
        let tags: Vec<u64> = ring.records[..at]
            .iter()
            .map(|record| record & 0xFFFF_FFFF)
            .collect();
        let (e, x) = (1234 << 4, 1234 << 4 | 2);
        assert_eq!(tags, [e, x, e, x, e, e, e, x, e, x, x, e, x, x]);
        assert_eq!(ring.records[at], u64::MAX);
    }

    #[test]
    fn the_ring_goes_round() {
        let mut ring = Ring::new();
        let (_, at) = leaf::<RDTSC>(1, ring.base(), RECORDS - 1);
        assert_eq!(at, 1);
    }
}
