//! Makes the faults that sanitizers look for, to show that these are on: a race between two threads, and a read behind
//! the end of a vector.

use std::cell::UnsafeCell;
use std::thread;

struct Shared(UnsafeCell<u64>);

// SAFETY: this is the fault: it is not so.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(0));

fn add() {
    for _ in 0..1000 {
        // SAFETY: unsound on purpose: another thread does the same, which is the data race to find.
        unsafe { *SHARED.0.get() += 1 };
    }
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["race"] => {
            let other = thread::spawn(add);
            add();
            other.join().expect("its end");
        }
        ["overflow"] => {
            let words = vec![1_u64; std::hint::black_box(4)];
            let end = std::hint::black_box(words.len());
            // SAFETY: none: it is behind the end.
            let word = unsafe { words.as_ptr().add(end).read_volatile() };
            std::hint::black_box(word);
        }
        other => panic!("no such fault: {other:?}"),
    }
    println!("nobody saw it");
}
