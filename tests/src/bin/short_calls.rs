//! Makes many more short calls than the rings hold, with some long ones between them, and says how many it made.
//! Tests record it with `FDR_KEEP`.
//!
//! ```text
//! short_calls THREADS MILLISECONDS [abort]   -> lines: calls N, long N
//! ```
//! With `abort` it crashes then. With `late` many short-lived threads follow before that, one after another. With
//! `in-turn` there is one thread at a time. With `brief` threads of about a millisecond come before, one after another,
//! which make short calls only. With `fork` its only thread forks in the midst of a call, and both processes
//! go on: lines PROCESS calls N.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static CALLS: AtomicU64 = AtomicU64::new(0);
static LONG: AtomicU64 = AtomicU64::new(0);

#[fdr::traced]
fn tiny(number: u64) -> u64 {
    black_box(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[fdr::traced]
fn small(number: u64) -> u64 {
    (0..4).fold(number, |sum, more| sum ^ tiny(more))
}

/// Lasts a millisecond, and its calls are short.
#[fdr::traced]
fn long(number: u64, calls: &mut u64) -> u64 {
    let begin = Instant::now();
    let mut sum = number;
    while begin.elapsed() < Duration::from_millis(1) {
        sum ^= small(sum);
        *calls += 5;
    }
    sum
}

#[fdr::traced]
fn thread(time: Duration) -> u64 {
    let (begin, mut sum, mut calls, mut longs) = (Instant::now(), 0, 1, 0);
    while begin.elapsed() < time {
        for _ in 0..1000 {
            sum ^= small(sum);
        }
        calls += 5000;
        sum ^= long(sum, &mut calls);
        calls += 1;
        longs += 1;
    }
    CALLS.fetch_add(calls, Ordering::Relaxed);
    LONG.fetch_add(longs, Ordering::Relaxed);
    sum
}

/// Makes short calls for about a millisecond, outside of all others.
fn brief() -> u64 {
    let sum = (0..50_000).fold(0, |sum, _| sum ^ small(sum));
    CALLS.fetch_add(250_000, Ordering::Relaxed);
    sum
}

/// The child's calls are its own, but that it leaves the function that its parent entered.
#[fdr::traced]
fn forks(time: Duration) {
    let _ = black_box(thread(time));
    // SAFETY: this process has one thread of its own; the recorder's hooks know the others.
    if unsafe { libc::fork() } == 0 {
        CALLS.store(0, Ordering::Relaxed);
    } else {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }
    let _ = black_box(thread(time));
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let threads: u64 = number(0).unwrap_or(1);
    let time = Duration::from_millis(number(1).unwrap_or(1000));
    let is = |word: &str| words.iter().any(|other| other == word);
    if is("fork") {
        forks(time);
        let process = std::process::id();
        println!("{process} calls {}", CALLS.load(Ordering::Relaxed));
        // SAFETY: a plain system call; a child has none.
        unsafe { libc::wait(std::ptr::null_mut()) };
        return;
    }
    let begin = Instant::now();
    while is("brief") && begin.elapsed() < time {
        let _ = black_box(std::thread::spawn(brief).join());
    }
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let running = scope.spawn(|| black_box(thread(time)));
            if is("in-turn") {
                let _ = running.join();
            }
        }
    });
    for _ in 0..if is("late") { 100 } else { 0 } {
        let short = std::thread::spawn(|| {
            let sum = (0..100).fold(0, |sum, _| sum ^ small(sum));
            CALLS.fetch_add(500, Ordering::Relaxed);
            black_box(sum)
        });
        let _ = short.join();
        // Now and then functions are timed for a moment. The threads last longer than that, even on a busy machine.
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("calls {}", CALLS.load(Ordering::Relaxed));
    println!("long {}", LONG.load(Ordering::Relaxed));
    if is("abort") {
        std::process::abort();
    }
}
