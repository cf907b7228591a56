//! A program that works on four threads until its input ends. Its output depends on the work alone: recording, signals
//! and dumps change nothing in it. A signal must never interrupt its reading.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fdr::traced;

#[traced]
fn mix(state: u64) -> u64 {
    (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

#[traced]
fn step(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    for _ in 0..3 {
        mixed = mix(mixed);
    }
    mixed
}

#[traced]
fn fib(n: u32) -> u64 {
    if n < 2 {
        u64::from(n)
    } else {
        fib(n - 1) + fib(n - 2)
    }
}

/// The part whose result is printed. Then the same work goes on until `stop` is set.
fn work(seed: u64, begun: &Barrier, stop: &AtomicBool) -> u64 {
    let result = (0..1000).fold(seed, |state, _| step(state)) ^ fib(10);
    begun.wait();
    while !stop.load(Ordering::Relaxed) {
        std::hint::black_box((0..100).fold(seed, |state, _| step(state)) ^ fib(8));
    }
    result
}

/// Waits for the end of the input by a system call that a signal may not interrupt (EINTR).
fn wait_for_end() {
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte of room, and the descriptor is the process's own.
        match unsafe { libc::read(0, (&raw mut byte).cast(), 1) } {
            0 => return,
            1 => {}
            _ => panic!("interrupted: {}", std::io::Error::last_os_error()),
        }
    }
}

pub(crate) fn main(_: &[&str]) {
    let stop = &AtomicBool::new(false);
    let begun = &Barrier::new(5);
    thread::scope(|scope| {
        let spawn = |number: u64| {
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            let run = move || work(number, begun, stop);
            builder.spawn_scoped(scope, run).expect("a thread")
        };
        let workers: Vec<_> = (0..4).map(spawn).collect();
        // A signal from here on finds records.
        begun.wait();
        println!("ready");
        wait_for_end();
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            println!("{:016x}", worker.join().expect("a result"));
        }
    });
}
