//! Threads of unusual kinds and in great numbers: a hundred thousand short threads; threads that C made and that end by
//! `pthread_exit` or are cancelled; threads of a program that has used up its thread keys. There are also traced calls
//! before and after `main`. The program itself counts every call.

use std::ffi::c_void;
use std::fs;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::programs::threads::use_up_keys;
use fdr_tests::support::facts;

static CALLS: AtomicU64 = AtomicU64::new(0);

#[traced]
#[inline(never)]
fn work() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn early_work() {
    std::hint::black_box(1);
}

#[traced]
fn late_work() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn last_work() {
    std::hint::black_box(1);
}

unsafe extern "C-unwind" {
    fn pthread_exit(value: *mut c_void) -> !;
    fn pthread_testcancel();
}

unsafe extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> i32;
}

/// Run before `main` and after everything.
extern "C" fn before_main() {
    early_work();
}

extern "C" fn after_all() {
    last_work();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE: extern "C" fn() = before_main;

#[used]
#[unsafe(link_section = ".fini_array")]
static AFTER: extern "C" fn() = after_all;

/// Ends by `pthread_exit`.
extern "C-unwind" fn exits(_: *mut c_void) -> *mut c_void {
    work();
    // SAFETY: no frame of this thread has anything to drop.
    unsafe { pthread_exit(null_mut()) }
}

/// Is cancelled, at the place that says so and nowhere else: not while it records.
extern "C-unwind" fn cancelled(_: *mut c_void) -> *mut c_void {
    // SAFETY: cancels this very thread, which ends at the call below; no frame has anything to drop.
    unsafe {
        pthread_cancel(libc::pthread_self());
        work();
        CALLS.fetch_add(1 << 32, Ordering::Relaxed);
        loop {
            pthread_testcancel();
        }
    }
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

fn create(start: Start) -> libc::pthread_t {
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the two types differ in what may unwind through, which the C library does anyway.
    let start =
        unsafe { std::mem::transmute::<Start, extern "C" fn(*mut c_void) -> *mut c_void>(start) };
    // SAFETY: valid pointers, and a function that lives as long as the program.
    let result =
        unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), start, null_mut()) };
    assert_eq!(result, 0);
    // SAFETY: it is written where a thread was made.
    unsafe { thread.assume_init() }
}

fn join(thread: libc::pthread_t) {
    // SAFETY: a thread of ours that was not joined yet.
    assert_eq!(unsafe { libc::pthread_join(thread, null_mut()) }, 0);
}

fn foreign() {
    for _ in 0..100 {
        let threads = [create(exits), create(cancelled), create(exits)];
        threads.into_iter().for_each(join);
    }
    let reached = CALLS.load(Ordering::Relaxed) >> 32;
    CALLS.fetch_and(u64::from(u32::MAX), Ordering::Relaxed);
    println!("reached {reached}");
}

/// What the process has: mappings, descriptors, memory in KiB.
fn has() -> [u64; 3] {
    let maps = fs::read_to_string("/proc/self/maps").expect("its mappings");
    let status = fs::read_to_string("/proc/self/status").expect("its status");
    let number = |key: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(key))
            .expect(key);
        let number = line.split_whitespace().nth(1).expect("a number");
        number.parse::<u64>().expect("a number")
    };
    let open = fs::read_dir("/proc/self/fd")
        .expect("its descriptors")
        .count();
    [maps.lines().count() as u64, open as u64, number("VmRSS:")]
}

fn short(count: u64) {
    let some = |count: u64| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(move || {
                    for _ in 0..count / 4 {
                        thread::spawn(work).join().expect("it ends");
                    }
                });
            }
        });
    };
    some(2000);
    let first = has();
    some(count - 2000);
    let last = has();
    let words = |numbers: [u64; 3]| numbers.map(|number| number.to_string()).join(" ");
    println!("first {}\nlast {}", words(first), words(last));
}

/// Uses up the keys, and then turns recording on.
fn keys() {
    println!("keys {}", use_up_keys());
    fdr::enable().expect("it can be recorded");
    for _ in 0..400 {
        let threads: Vec<_> = (0..2).map(|_| create(exits)).collect();
        threads.into_iter().for_each(join);
    }
}

extern "C" fn at_exit() {
    late_work();
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    match arguments[1].as_str() {
        "foreign" => foreign(),
        "short" => short(arguments[2].parse().expect("a number")),
        "keys" => keys(),
        "around" => {
            work();
            // SAFETY: a function that may run at exit.
            assert_eq!(unsafe { libc::atexit(at_exit) }, 0);
        }
        other => panic!("no such way: {other:?}"),
    }
    println!("calls {}", CALLS.load(Ordering::Relaxed));
    print!("{}", facts::of_statistics(&fdr::statistics()));
}
