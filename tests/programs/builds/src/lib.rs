//! Traced functions of several kinds, each of which counts its own calls. The counts are what a trace must say. A
//! function that counts must never do so where no record is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fdr::traced;

static COUNTS: [(&str, AtomicU64); 7] = {
    const NONE: AtomicU64 = AtomicU64::new(0);
    [
        ("builds::walk", NONE),
        ("builds::leaf", NONE),
        ("builds::generic", NONE),
        ("builds::Sum::sum", NONE),
        ("<builds::Sum as builds::Shape>::edges", NONE),
        ("builds::leaves_early", NONE),
        ("builds::inner::builds_exported", NONE),
    ]
};

fn count(function: usize) {
    COUNTS[function].1.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn walk(depth: u32, seed: &mut u32) -> u32 {
    count(0);
    *seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    let mut sum = leaf(*seed);
    if depth > 0 {
        for _ in 0..1 + (*seed >> 16) % 3 {
            sum = sum.wrapping_add(walk(depth - 1, seed));
        }
    }
    sum
}

#[traced(untimed)]
fn leaf(number: u32) -> u32 {
    count(1);
    number.rotate_left(3)
}

#[traced]
fn generic<T: Into<u64>>(number: T) -> u64 {
    count(2);
    number.into()
}

struct Sum([u32; 4]);

#[traced]
impl Sum {
    fn sum(&self) -> u32 {
        count(3);
        let mut sum = 0_u32;
        for part in self.0 {
            sum = sum.wrapping_add(part);
        }
        sum
    }
}

trait Shape {
    fn edges(&self) -> usize;
}

impl Shape for Sum {
    #[traced]
    fn edges(&self) -> usize {
        count(4);
        self.0.len()
    }
}

#[traced]
fn leaves_early(number: u32) -> Option<u32> {
    count(5);
    let rest = number.checked_sub(10)?;
    Some(rest * 2)
}

mod inner {
    /// C calls it by its name.
    #[fdr::traced]
    #[unsafe(no_mangle)]
    pub(super) extern "C" fn builds_exported(number: u32) -> u32 {
        super::count(6);
        number + 1
    }
}

/// Calls all of them, on this thread and on two others.
pub fn work(rounds: u32) -> u64 {
    let round = |seed: u32| {
        let mut seed = seed;
        let mut sum = u64::from(walk(6, &mut seed));
        sum += generic(seed) + generic(seed as u8);
        let shape: &dyn Shape = &Sum([seed; 4]);
        sum += u64::from(Sum([seed; 4]).sum()) + shape.edges() as u64;
        sum += u64::from(leaves_early(seed % 20).unwrap_or(0));
        sum + u64::from(inner::builds_exported(seed >> 1))
    };
    let rounds = || (1..=rounds).map(round).fold(0_u64, u64::wrapping_add);
    thread::scope(|scope| {
        let threads = [scope.spawn(rounds), scope.spawn(rounds)];
        let sums = threads.map(|thread| thread.join().expect("its sum"));
        rounds().wrapping_add(sums[0]).wrapping_add(sums[1])
    })
}

/// A call that a panic ends. Where panics abort, it ends the program.
pub fn panic() {
    #[traced]
    fn panics() {
        panic!("as it was told to");
    }
    let _ = std::panic::catch_unwind(panics);
}

/// Prints a line `NAME COUNT` for each function.
pub fn print_counts() {
    for (name, count) in &COUNTS {
        println!("{name} {}", count.load(Ordering::Relaxed));
    }
}
