//! Many threads of each kind: short ones (`crowd short COUNT AT_ONCE`), those whose destructors call traced functions
//! (`crowd destructors`), and those that Rust did not make (`crowd foreign`). The program itself counts every call.

use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::programs::threads::{self, wait_for_input};
use fdr_tests::support::facts;

static CALLS: AtomicU64 = AtomicU64::new(0);

#[traced]
fn work() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn last_work() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

fn short(count: u64, at_once: u64) {
    for first in (0..count).step_by(at_once as usize) {
        let work = |number| move || (0..1 + number % 5).for_each(|_| work());
        let numbers = first..(first + at_once).min(count);
        let threads: Vec<_> = numbers.map(|number| thread::spawn(work(number))).collect();
        for thread in threads {
            thread.join().expect("its end");
        }
    }
}

struct Late;

impl Drop for Late {
    fn drop(&mut self) {
        last_work();
    }
}

/// The C library runs this at a thread's end. `value` is the number of rounds to come.
extern "C" fn at_end(value: *mut libc::c_void) {
    last_work();
    let rounds = value as usize - 1;
    if rounds > 0 {
        // SAFETY: the key was made before any thread began, and is never deleted.
        unsafe {
            libc::pthread_setspecific(KEY.load(Ordering::Acquire) as u32, rounds as *const _)
        };
    }
}

static KEY: AtomicU64 = AtomicU64::new(0);

fn make_key() {
    let mut key = 0;
    // SAFETY: `key` is valid for writing; the destructor has the right ABI.
    let made = unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) };
    assert_eq!(made, 0);
    KEY.store(u64::from(key), Ordering::Release);
}

/// Rust's destructors, and the C library's in all of its four rounds.
fn destructors() {
    thread_local!(static LATE: RefCell<Option<Late>> = const { RefCell::new(None) });
    make_key();
    for number in 0..20 {
        let run = move || {
            LATE.with_borrow_mut(|late| *late = Some(Late));
            let rounds = 1 + number % 4;
            // SAFETY: as in `at_end`.
            unsafe {
                libc::pthread_setspecific(KEY.load(Ordering::Acquire) as u32, rounds as *const _)
            };
            // The last of them make their first record in a destructor.
            if number < 15 {
                work();
            }
        };
        threads::run(&format!("late-{number}"), run);
    }
}

extern "C" fn foreign_body(_: *mut libc::c_void) -> *mut libc::c_void {
    (0..100).for_each(|_| work());
    std::ptr::null_mut()
}

fn foreign() {
    let threads = [(); 4].map(|()| {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: the thread's body has the right ABI and needs no argument.
        let made = unsafe {
            libc::pthread_create(
                thread.as_mut_ptr(),
                std::ptr::null(),
                foreign_body,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(made, 0);
        // SAFETY: it is written where a thread was made.
        unsafe { thread.assume_init() }
    });
    for thread in threads {
        // SAFETY: made above, and joined once.
        let joined = unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        assert_eq!(joined, 0);
    }
}

pub(crate) fn main(words: &[&str]) {
    match words {
        ["short", count, at_once] => short(facts::number(count), facts::number(at_once)),
        ["destructors"] => destructors(),
        ["foreign"] => foreign(),
        other => panic!("no such kind: {other:?}"),
    }
    println!("calls {}", CALLS.load(Ordering::Relaxed));
    print!("{}", facts::of_statistics(&fdr::statistics()));
    wait_for_input("waiting");
}
