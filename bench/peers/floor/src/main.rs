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

/// Where the next record goes.
#[derive(Clone, Copy)]
struct Cursor {
    ring: *mut u64,
    at: usize,
}

impl Cursor {
    #[inline(always)]
    fn record<const CLOCK: u8>(self, tag: u64) -> Cursor {
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
        unsafe { self.ring.add(self.at).write_volatile(low << 32 | tag) };
        Cursor {
            at: (self.at + 1) & (RECORDS - 1),
            ..self
        }
    }
}

#[inline(never)]
fn leaf<const CLOCK: u8>(x: u64, to: Cursor) -> (u64, Cursor) {
    let to = to.record::<CLOCK>(ENTRY);
    let result = black_box(x.wrapping_mul(MULTIPLIER));
    (result, to.record::<CLOCK>(EXIT))
}

#[inline(never)]
fn fib<const CLOCK: u8>(n: u32, to: Cursor) -> (u64, Cursor) {
    let to = to.record::<CLOCK>(ENTRY);
    if n < 2 {
        return (u64::from(n), to.record::<CLOCK>(EXIT));
    }
    let (first, to) = fib::<CLOCK>(n - 1, to);
    let first = black_box(first);
    let (second, to) = fib::<CLOCK>(n - 2, to);
    let result = first.wrapping_add(black_box(second));
    (result, to.record::<CLOCK>(EXIT))
}

#[inline(never)]
fn document<const CLOCK: u8>(text: &[u8], table: &mut [Slot], to: Cursor) -> (u64, Cursor) {
    let mut to = to.record::<CLOCK>(ENTRY);
    let mut sum = 0_u64;
    for text in text.split(|&byte| byte == b'\n') {
        let (part, next) = line::<CLOCK>(text, table, to);
        (sum, to) = (sum.wrapping_add(part), next);
    }
    (sum, to.record::<CLOCK>(EXIT))
}

#[inline(never)]
fn line<const CLOCK: u8>(text: &[u8], table: &mut [Slot], to: Cursor) -> (u64, Cursor) {
    let mut to = to.record::<CLOCK>(ENTRY);
    let mut sum = 0_u64;
    for word in text.split(|&byte| byte == b' ') {
        let (key, next) = stem::<CLOCK>(word, to);
        let (part, next) = insert::<CLOCK>(key, table, next);
        (sum, to) = (sum.wrapping_add(part), next);
    }
    (sum, to.record::<CLOCK>(EXIT))
}

#[inline(never)]
fn stem<const CLOCK: u8>(word: &[u8], to: Cursor) -> (u64, Cursor) {
    let to = to.record::<CLOCK>(ENTRY);
    let key = work::key_of(word);
    (key, to.record::<CLOCK>(EXIT))
}

#[inline(never)]
fn insert<const CLOCK: u8>(key: u64, table: &mut [Slot], to: Cursor) -> (u64, Cursor) {
    let to = to.record::<CLOCK>(ENTRY);
    let result = work::count(key, table);
    (result, to.record::<CLOCK>(EXIT))
}

fn batch<const CLOCK: u8>(body: Body, scratch: &mut Scratch) -> u64 {
    let ring = RING.with(|ring| ring.borrow_mut().as_mut_ptr());
    let mut to = Cursor { ring, at: 0 };
    let mut sum = 0_u64;
    match body {
        Body::Leaf => {
            for x in 0..LEAVES {
                let (result, next) = leaf::<CLOCK>(x, to);
                (sum, to) = (sum ^ result, next);
            }
        }
        Body::Fib => sum = fib::<CLOCK>(black_box(FIB), to).0,
        Body::Mix => {
            let Scratch { text, table } = scratch;
            for text in text.split(|&byte| byte == 0) {
                let (result, next) = document::<CLOCK>(text, table, to);
                (sum, to) = (sum.wrapping_add(result), next);
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
