//! Runs traced calls one instruction at a time: after every instruction, those of the recorder
//! included, the processor raises SIGTRAP, and its handler makes traced calls of its own. So a signal
//! lands on every instruction of a record, for certain and not by chance. Which traps make calls is
//! drawn from a seed. x86-64 alone has the flag.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering};

use fdr::traced;
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

#[cfg(target_arch = "x86_64")]
fn stepping(body: impl FnOnce()) {
    use std::arch::asm;

    // SAFETY: the trap flag does nothing but raise SIGTRAP, which has a handler; the stack is as it
    // was after each block.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

#[cfg(not(target_arch = "x86_64"))]
fn stepping(body: impl FnOnce()) {
    body();
}

fn main() {
    let number = |at: usize| env::args().nth(at).and_then(|text| text.parse().ok());
    let (seed, rounds) = (number(1).unwrap_or(1), number(2).unwrap_or(1_u64));
    STATE.store(seed, Ordering::Relaxed);
    // SAFETY: zeros are a valid `sigaction`; the handler does only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_trap as extern "C" fn(i32) as usize;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()),
            0
        );
    }
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
