//! Writes an HTDUMP file with HawkTracer's own library, through its Rust crate: `write FILE`. Counts its own calls, and
//! prints them, one line `name<TAB>calls` for each function.
//!
//! The macros of the crate need the names of their static keys at hand, hence the glob import.
#![allow(non_upper_case_globals)]

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use rust_hawktracer::*;

static FIB: AtomicU64 = AtomicU64::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
static STEP: AtomicU64 = AtomicU64::new(0);

#[hawktracer(fib)]
fn fib(n: u32) -> u64 {
    FIB.fetch_add(1, Relaxed);
    if n < 2 {
        u64::from(n)
    } else {
        fib(n - 1) + fib(n - 2)
    }
}

#[hawktracer(work)]
fn work(rounds: u32) -> u64 {
    WORK.fetch_add(1, Relaxed);
    let mut sum = 0;
    for round in 0..rounds {
        scoped_tracepoint!(step);
        STEP.fetch_add(1, Relaxed);
        sum += fib(round % 7);
    }
    sum
}

fn main() {
    let file: PathBuf = std::env::args_os().nth(1).expect("write FILE").into();
    let instance = HawktracerInstance::new();
    let listener = instance.create_listener(HawktracerListenerType::ToFile {
        file_path: file,
        buffer_size: 4096,
    });
    // The library numbers threads at their first call, without a lock: one after the other.
    static FIRST: Mutex<()> = Mutex::new(());
    let first = || {
        let _one = FIRST.lock();
        work(0)
    };
    first();
    let threads: Vec<_> = (1..4)
        .map(|nth| thread::spawn(move || first() + work(100 * nth)))
        .collect();
    let mut sum = work(50);
    for thread in threads {
        sum += thread.join().expect("no panic");
    }
    drop(listener);
    drop(instance);
    for (name, count) in [("fib", &FIB), ("work", &WORK), ("step", &STEP)] {
        println!("{name}\t{}", count.load(Relaxed));
    }
    eprintln!("sum {sum}");
}
