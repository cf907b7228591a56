//! The physical limit: two clock reads and two 8-byte stores, with the cursor in a register. The work is
//! written out once more, because the cursor goes through every function as an argument and back as a result.

#[cfg(not(target_arch = "x86_64"))]
compile_error!("the floor is written for x86-64");

mod floor;

use std::cell::RefCell;
use std::hint::black_box;
use std::process::ExitCode;

use peer_harness::work::{self, Body, CHAINS, FIB, LEAVES, STEPS, Scratch, Slot};
use peer_harness::{Peer, Result, untraced};

use floor::{ENTRY, EXIT, RDTSC, RDTSCP, Ring, chain, fib, leaf, record};

thread_local! {
    static RING: RefCell<Ring> = RefCell::new(Ring::new());
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
    let ring = RING.with(|ring| ring.borrow_mut().base());
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
        Body::Chain => {
            sum = 1;
            for _ in 0..CHAINS {
                (sum, at) = chain::<CLOCK>(sum, black_box(STEPS), ring, at);
            }
        }
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
