//! Makes top-level calls with calls inside, and says how many. Tests record it with `FDR_SAMPLE`.
//!
//! ```text
//! sampled THREADS CALLS
//! ```
//! Each thread makes so many top-level calls. Inside each there are two timed calls and an untimed one, and a panic that
//! is caught.

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[fdr::traced]
fn request(number: u64) -> u64 {
    let sum = (0..2).fold(number, |sum, more| sum ^ step(more));
    let caught = catch_unwind(AssertUnwindSafe(|| fails(sum)));
    sum ^ count(u64::from(caught.is_err()))
}

/// Another top-level call, which the compiler may put into the frame of its caller.
#[fdr::traced]
#[inline(always)]
fn other(number: u64) -> u64 {
    step(number)
}

#[fdr::traced]
#[inline(always)]
fn step(number: u64) -> u64 {
    black_box(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[fdr::traced(untimed)]
#[inline(never)]
fn count(number: u64) -> u64 {
    black_box(number) + 1
}

#[fdr::traced]
fn fails(number: u64) -> u64 {
    if black_box(true) {
        std::panic::resume_unwind(Box::new(number));
    }
    number
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok());
    let (threads, calls): (u64, u64) = (number(0).unwrap_or(1), number(1).unwrap_or(100));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                for call in 0..calls {
                    black_box(if call % 2 == 0 {
                        request(call)
                    } else {
                        other(call)
                    });
                }
            });
        }
    });
}
