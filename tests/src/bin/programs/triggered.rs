//! A program whose calls can be slow. It does what the lines of its input say, and says `done` after each. Tests record
//! it with `FDR_TRIGGER`.
//!
//! | line | what it does |
//! | --- | --- |
//! | `slow MS`, `nested MS` | one call of `handle` that takes MS ms; for `nested`, inside calls of `outer` and `handle` |
//! | `quick N` | N short calls of `handle` and `step` |
//! | `many THREADS CALLS` | CALLS calls of `handle` in each of THREADS threads, each of 100 µs |
//! | `hang`, `release` | a thread calls `handle` and does not return before `release` |
//! | `deep N` | N calls of `deep`, one inside the other, and inside them a call of `handle` that takes 100 ms |
//! | `handled MS` | `handle` in a handler of a signal, which interrupts `step` |
//! | `task MS`, `dropped MS`, `pending MS` | a task of `request`, which is polled twice with MS ms between; it ends, is dropped before the second poll, or waits on |
//! | `untimed` | a call of a function without times |
//! | `panic` | a panic in `handle`, which is caught |
//! | `grow MIB` | takes MIB more MiB of memory |
//! | `fork MS` | a child calls `handle`, which takes MS ms, and ends; prints the child's process id |

use fdr_tests::programs::children::{fork, wait_for};
use fdr_tests::programs::threads::spawn;
use std::future::poll_fn;
use std::hint::black_box;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

static RELEASED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());

#[fdr::traced]
#[inline(never)]
fn handle(takes: Duration) -> u64 {
    let sum = step(1);
    if !takes.is_zero() {
        thread::sleep(takes);
    }
    sum ^ step(2)
}

#[fdr::traced]
fn outer(takes: Duration) -> u64 {
    handle(Duration::ZERO) ^ handle(takes) ^ handle(Duration::ZERO)
}

#[fdr::traced]
#[inline(never)]
fn step(number: u64) -> u64 {
    black_box(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[fdr::traced(untimed)]
#[inline(never)]
fn untimed(number: u64) -> u64 {
    black_box(number) + 1
}

#[fdr::traced]
fn deep(levels: u64) -> u64 {
    match levels {
        0 => handle(Duration::from_millis(100)),
        _ => deep(levels - 1) + 1,
    }
}

/// Waits for as many polls as it is told.
#[fdr::traced(args(number))]
async fn request(number: u64, mut polls: u32) -> u64 {
    poll_fn(|_| {
        polls -= 1;
        match polls {
            0 => Poll::Ready(step(number)),
            _ => Poll::Pending,
        }
    })
    .await
}

/// Polls a task of `request` twice, with that pause between. Returns the task if it has not ended.
fn task(pause: Duration, polls: u32) -> Option<Pin<Box<dyn Future<Output = u64>>>> {
    let mut task: Pin<Box<dyn Future<Output = u64>>> =
        Box::pin(request(pause.as_millis() as u64, polls));
    let mut context = Context::from_waker(Waker::noop());
    let _ = task.as_mut().poll(&mut context);
    thread::sleep(pause);
    if polls > 3 {
        return None;
    }
    let is_over = task.as_mut().poll(&mut context).is_ready();
    (!is_over).then_some(task)
}

#[fdr::traced]
fn hang() {
    wait();
}

#[fdr::traced]
fn fails() {
    std::panic::panic_any("on purpose");
}

fn wait() {
    let mut released = RELEASED.0.lock().expect("it");
    while !*released {
        released = RELEASED.1.wait(released).expect("it");
    }
}

extern "C" fn on_signal(_: libc::c_int) {
    handle(Duration::from_millis(100));
}

fn child(takes: Duration) {
    let child = fork(|| {
        handle(takes);
    });
    wait_for(child);
    println!("{child}");
}

pub(crate) fn main(_: &[&str]) {
    let mut hanging: Vec<JoinHandle<()>> = Vec::new();
    let mut grown: Vec<Vec<u8>> = Vec::new();
    let mut pending = Vec::new();
    for line in io::stdin().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
        let first = number(1).unwrap_or(0);
        let takes = Duration::from_millis(first);
        match words[0] {
            "slow" => drop(black_box(handle(takes))),
            "nested" => drop(black_box(outer(takes))),
            "quick" => (0..first).for_each(|more| {
                black_box(handle(Duration::ZERO) ^ step(more));
            }),
            "many" => thread::scope(|scope| {
                for _ in 0..first {
                    scope.spawn(|| {
                        for _ in 0..number(2).unwrap_or(0) {
                            handle(Duration::from_micros(100));
                        }
                    });
                }
            }),
            "hang" => {
                hanging.push(spawn("hanging", hang));
            }
            "release" => {
                *RELEASED.0.lock().expect("it") = true;
                RELEASED.1.notify_all();
                hanging
                    .drain(..)
                    .for_each(|thread| thread.join().expect("it ends"));
            }
            "deep" => drop(black_box(deep(first))),
            "task" => drop(task(takes, 2)),
            "dropped" => drop(task(takes, 4)),
            "pending" => pending.extend(task(takes, 3)),
            "untimed" => drop(black_box(untimed(first))),
            "handled" => {
                let handler = on_signal as extern "C" fn(libc::c_int);
                // SAFETY: the handler only calls traced functions and sleeps.
                unsafe {
                    libc::signal(libc::SIGUSR1, handler as libc::sighandler_t);
                    libc::raise(libc::SIGUSR1);
                }
            }
            "panic" => drop(catch_unwind(AssertUnwindSafe(fails))),
            "grow" => grown.push(vec![1; (first as usize) << 20]),
            "fork" => child(takes),
            other => panic!("{other}: no such line"),
        }
        println!("done");
    }
    black_box(grown);
}
