//! The physical limit: two clock reads and two 8-byte stores, with the cursor in a register. It must never
//! check, branch or call more than that. The work is written out once more, because the cursor goes through
//! every function as an argument and back as a result.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the floor is written for x86-64");

use std::arch::asm;
use std::cell::RefCell;
use std::hint::black_box;
use std::process::ExitCode;

use peer_harness::work::{self, Body, FIB, LEAVES, MULTIPLIER, Scratch, Slot};
use peer_harness::{Peer, Result, untraced};

const RDTSC: u8 = 0;
const RDTSCP: u8 = 1;

const ENTRY: u64 = 1234 << 4;
const EXIT: u64 = ENTRY | 1 << 1;

/// 1 MiB: it stays in the second-level cache of most machines. A power of two.
const RECORDS: usize = 1 << 17;

thread_local! {
    /// All pages are touched, so that none faults while time is taken.
    static RING: RefCell<Vec<u64>> = RefCell::new(vec![u64::MAX; RECORDS]);
}

/// Stores one record at `at` and returns the place after it.
#[inline(always)]
fn record<const CLOCK: u8>(ring: *mut u64, at: usize, tag: u64) -> usize {
    let low: u64;
    // SAFETY: both instructions write the named registers only, and touch neither memory nor flags.
    unsafe {
        if CLOCK == RDTSCP {
            asm!("rdtscp", out("rax") low, out("rdx") _, out("rcx") _,
                options(nostack, nomem, preserves_flags));
        } else {
            asm!("rdtsc", out("rax") low, out("rdx") _, options(nostack, nomem, preserves_flags));
        }
    }
    // SAFETY: `at` is below RECORDS: it starts at 0 and is masked below; the ring holds RECORDS records.
    unsafe { ring.add(at).write_volatile(low << 32 | tag) };
    (at + 1) & (RECORDS - 1)
}

#[inline(never)]
fn leaf<const CLOCK: u8>(x: u64, ring: *mut u64, at: usize) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    let result = black_box(x.wrapping_mul(MULTIPLIER));
    (result, record::<CLOCK>(ring, at, EXIT))
}

#[inline(never)]
fn fib<const CLOCK: u8>(n: u32, ring: *mut u64, at: usize) -> (u64, usize) {
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

#[inline(never)]
fn document<const CLOCK: u8>(
    text: &[u8],
    table: &mut [Slot],
    ring: *mut u64,
    at: usize,
) -> (u64, usize) {
    let mut at = record::<CLOCK>(ring, at, ENTRY);
    let mut sum = 0_u64;
    for text in text.split(|&byte| byte == b'\n') {
        let (part, next) = line::<CLOCK>(text, table, ring, at);
        (sum, at) = (sum.wrapping_add(part), next);
    }
    (sum, record::<CLOCK>(ring, at, EXIT))
}

#[inline(never)]
fn line<const CLOCK: u8>(
    text: &[u8],
    table: &mut [Slot],
    ring: *mut u64,
    at: usize,
) -> (u64, usize) {
    let mut at = record::<CLOCK>(ring, at, ENTRY);
    let mut sum = 0_u64;
    for word in text.split(|&byte| byte == b' ') {
        let (key, next) = stem::<CLOCK>(word, ring, at);
        let (part, next) = insert::<CLOCK>(key, table, ring, next);
        (sum, at) = (sum.wrapping_add(part), next);
    }
    (sum, record::<CLOCK>(ring, at, EXIT))
}

#[inline(never)]
fn stem<const CLOCK: u8>(word: &[u8], ring: *mut u64, at: usize) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    let key = work::key_of(word);
    (key, record::<CLOCK>(ring, at, EXIT))
}

#[inline(never)]
fn insert<const CLOCK: u8>(
    key: u64,
    table: &mut [Slot],
    ring: *mut u64,
    at: usize,
) -> (u64, usize) {
    let at = record::<CLOCK>(ring, at, ENTRY);
    let result = work::count(key, table);
    (result, record::<CLOCK>(ring, at, EXIT))
}

fn batch<const CLOCK: u8>(body: Body, scratch: &mut Scratch) -> u64 {
    let ring = RING.with(|ring| ring.borrow_mut().as_mut_ptr());
    let mut at = 0;
    let mut sum = 0_u64;
    match body {
        Body::Leaf => {
            for x in 0..LEAVES {
                let (result, next) = leaf::<CLOCK>(x, ring, at);
                (sum, at) = (sum ^ result, next);
            }
        }
        Body::Fib => sum = fib::<CLOCK>(black_box(FIB), ring, at).0,
        Body::Mix => {
            let Scratch { text, table } = scratch;
            for text in text.split(|&byte| byte == 0) {
                let (result, next) = document::<CLOCK>(text, table, ring, at);
                (sum, at) = (sum.wrapping_add(result), next);
            }
        }
    }
    sum
}

struct Floor;

impl Peer for Floor {}

fn start(mode: &str) -> Result<Floor> {
    match mode {
        "rdtsc" | "rdtscp" => Ok(Floor),
        _ => Err(format!("unknown mode {mode}: rdtsc or rdtscp")),
    }
}

fn main() -> ExitCode {
    let rdtsc = std::env::args().nth(1).is_some_and(|mode| mode == "rdtsc");
    let traced = if rdtsc {
        batch::<RDTSC>
    } else {
        batch::<RDTSCP>
    };
    peer_harness::main([untraced::batch, traced], start)
}
