//! A program that `fdr ctl` controls. It obeys each line of its input, and then prints `done`. If it was started with
//! `load`, its threads make calls without end. With `load auto`, they also call functions that are traced only because
//! of a scope.
//!
//! | line | what it does |
//! | --- | --- |
//! | `call N` | calls `exactly` N times on the main thread |
//! | `crash` | reads an address that it does not have |
//! | `fork`, `fork enable` | makes a child that records one call, `enable`: and has a dumper; says its number. It waits until this program ends |

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fdr::traced;

static CALLS: AtomicU64 = AtomicU64::new(0);

mod near {
    #[fdr::traced]
    pub(super) fn leaf(number: u64) -> u64 {
        std::hint::black_box(number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[fdr::traced]
    pub(super) fn tree(number: u64) -> u64 {
        (0..4).fold(number, |sum, more| sum ^ leaf(more)) ^ super::far::leaf(number)
    }
}

mod far {
    #[fdr::traced]
    pub(super) fn leaf(number: u64) -> u64 {
        std::hint::black_box(number).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    #[fdr::traced]
    pub(super) fn tree(number: u64) -> u64 {
        super::near::tree(number) ^ leaf(number)
    }
}

/// Calls that one call of `far::tree` makes, itself among them.
const CALLS_OF_A_TREE: u64 = 8;

#[traced]
fn exactly(number: u64) -> u64 {
    black_box(number) ^ 1
}

/// As `cargo fdr` marks functions.
#[traced(auto)]
fn unnamed(number: u64) -> u64 {
    black_box(number) ^ 2
}

fn load(stop: &AtomicBool, unnamed_calls: u64) {
    let mut trees = 0;
    while !stop.load(Ordering::Relaxed) {
        black_box(far::tree(trees));
        (0..unnamed_calls).for_each(|number| {
            black_box(unnamed(number));
        });
        trees += 1;
    }
    CALLS.fetch_add(trees * (CALLS_OF_A_TREE + unnamed_calls), Ordering::Relaxed);
}

/// Returns in the parent only.
fn fork(enables: bool) -> i32 {
    // SAFETY: the child calls what the tests of forks call there.
    match unsafe { libc::fork() } {
        0 => {
            // SAFETY: a plain system call on this process.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            black_box(exactly(1));
            if enables {
                let _ = fdr::enable();
            }
            loop {
                // SAFETY: as above.
                unsafe { libc::pause() };
            }
        }
        child => child,
    }
}

fn obey(line: &str) {
    let words: Vec<&str> = line.split(' ').collect();
    match words[..] {
        ["call", count] => {
            let count = count.parse().expect("a number");
            (0..count).for_each(|number| {
                black_box(exactly(number));
            });
            CALLS.fetch_add(count, Ordering::Relaxed);
        }
        ["crash"] => {
            let nowhere = black_box(0x10) as *const u8;
            // SAFETY: none. The process ends here.
            black_box(unsafe { nowhere.read_volatile() });
        }
        ["fork"] => println!("{}", fork(false)),
        ["fork", "enable"] => println!("{}", fork(true)),
        _ => panic!("{line}: no such line"),
    }
}

pub(crate) fn main(words: &[&str]) {
    let (threads, unnamed_calls) = match words {
        ["load", "auto"] => (2, 8),
        ["load"] => (2, 0),
        _ => (0, 0),
    };
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| load(stop, unnamed_calls));
        }
        println!("ready");
        for line in io::stdin().lines() {
            obey(&line.expect("a line"));
            println!("done");
        }
        stop.store(true, Ordering::Relaxed);
    });
    println!("calls {}", CALLS.load(Ordering::Relaxed));
}
