//! Runs traced calls one instruction at a time, with a handler that makes traced calls of its own after
//! each: a signal on every instruction of a record. After which ones it makes calls is drawn from a seed.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};

use fdr::traced;
use fdr_tests::programs::stepping::{on_each_step, stepping};
use fdr_tests::support::facts;

static STEPPED: AtomicU64 = AtomicU64::new(0);
static HANDLED: AtomicU64 = AtomicU64::new(0);
static TRAPS: AtomicU64 = AtomicU64::new(0);
static STATE: AtomicU64 = AtomicU64::new(0);

#[traced]
#[inline(never)]
fn step() {
    STEPPED.fetch_add(1, Ordering::Relaxed);
}

#[traced]
#[inline(never)]
fn handle() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Like `support::random`, in what a handler may do.
fn draw() -> u64 {
    let state = STATE.load(Ordering::Relaxed);
    let next = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1);
    STATE.store(next, Ordering::Relaxed);
    next >> 33
}

extern "C" fn on_trap(_: i32) {
    TRAPS.fetch_add(1, Ordering::Relaxed);
    for _ in 0..[0, 0, 1, 0, 1, 3][draw() as usize % 6] {
        handle();
    }
}

fn main() {
    let number = |at: usize| env::args().nth(at).and_then(|text| text.parse().ok());
    let (seed, rounds) = (number(1).unwrap_or(1), number(2).unwrap_or(1_u64));
    STATE.store(seed, Ordering::Relaxed);
    on_each_step(on_trap);
    step();
    for _ in 0..rounds {
        // To just before the end of a chunk of 64 KiB, where most can go wrong.
        let until = draw() % 4100;
        (0..until).for_each(|_| step());
        stepping(|| (0..8).for_each(|_| step()));
    }
    println!("traps {}", TRAPS.load(Ordering::Relaxed));
    println!("stepped {}", STEPPED.load(Ordering::Relaxed));
    println!("handled {}", HANDLED.load(Ordering::Relaxed));
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
