//! Dies of a crash of a chosen kind, at a chosen place, while other threads record.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs;
use std::hint::black_box;
use std::os::unix::thread::JoinHandleExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use fdr_tests::programs::faults::{illegal, overflow, read_from, write_to};
use fdr_tests::programs::page::{Entry, Page};
use fdr_tests::programs::region;
use fdr_tests::support::course::Course;
use fdr_tests::support::random::Random;
use fdr_tests::support::truth::{CRASHED, CRASHED_AT, LINK, MADE, crash};

use crate::walk;

/// After this many records, a signal has surely arrived.
const AGAIN: u64 = 100_000;
/// Threads that record beside the one that crashes.
const OTHERS: usize = 3;
/// Records that the crashing thread makes before, at most.
const MAX: u64 = 40_000;

/// The system's allocator behind a lock. A crash in the allocator happens while the lock is held for ever. So a handler
/// that allocates never ends.
struct Allocator;

static CRASH_IN_MALLOC: AtomicU64 = AtomicU64::new(0);
/// The thread that is to crash there, and no other.
static THREAD: AtomicI32 = AtomicI32::new(0);
static LOCKED: AtomicBool = AtomicBool::new(false);

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: the system's allocator does all of it; what comes before changes no memory.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        enter();
        // SAFETY: as the caller vouches.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        enter();
        // SAFETY: as the caller vouches.
        unsafe { System.dealloc(place, layout) }
    }
}

fn enter() {
    while LOCKED.load(Ordering::Acquire) {
        std::hint::spin_loop();
    }
    let kind = CRASH_IN_MALLOC.load(Ordering::Acquire);
    if kind > 0 && THREAD.load(Ordering::Acquire) == thread_id() {
        CRASH_IN_MALLOC.store(0, Ordering::Release);
        LOCKED.store(true, Ordering::Release);
        now(kind - 1);
        // The standard library let the program go on, see `from_outside`.
        LOCKED.store(false, Ordering::Release);
    }
}

fn thread_id() -> i32 {
    // SAFETY: a plain system call.
    unsafe { libc::gettid() }
}

struct Twice;

impl Drop for Twice {
    fn drop(&mut self) {
        panic!("wanted, while another one unwinds");
    }
}

/// The crash itself.
fn now(kind: u64) {
    match kind {
        crash::WRITE => write_to(16),
        crash::READ => read_from(usize::MAX - 4095),
        crash::ABORT => std::process::abort(),
        crash::OVERFLOW => {
            black_box(overflow(0));
        }
        crash::TWICE => {
            let _trap = Twice;
            panic!("wanted");
        }
        crash::ILLEGAL => illegal(),
        // SAFETY: the process is to die of it.
        _ => unsafe {
            libc::raise(crash::signal(kind));
        },
    }
}

/// A core of a process that was to crash is of no use, and takes seconds.
fn no_core() {
    let none = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
}

/// Notes how far each thread is, and the time; what was noted last is that of the thread that crashes.
fn crashes(page: Page, number: usize) {
    let truth = &page[number];
    for other in page.iter().take(number).skip(1) {
        other.set(CRASHED, other.get(MADE));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = now.map_or(0, |since| since.as_micros() as u64);
    truth.set(CRASHED_AT, us);
    truth.set(CRASHED, truth.get(MADE));
}

/// A thread crashes after some records; `place` says where.
pub(crate) fn run(page: Page, seed: u64, kind: u64, place: u64) {
    no_core();
    // The default hook prints a backtrace for a panic in a panic: that takes longer than all the rest.
    std::panic::set_hook(Box::new(|_| ()));
    let mut random = Random::new(seed);
    let before = 1 + random.below(MAX);
    // The recorder looks for its time to take the crash's signals at the main thread's first record.
    let first = walk::next_number(page).expect("room in the page");
    let course = Course::new(seed.wrapping_add(first as u64), 1);
    walk::run(course, &page[first], &page[0], &mut || ());
    // Under its second name the ring stays when the recorder removes it.
    fs::hard_link(region::ring_here().expect("a ring"), LINK).expect("a link");
    for _ in 0..OTHERS {
        let number = walk::next_number(page).expect("room in the page");
        drop(walk::spawn(page, seed, number, u64::MAX, || ()));
    }
    let number = walk::next_number(page).expect("room in the page");
    let truth: &'static Entry = &page[number];
    let mut left = before;
    let each = move || {
        left -= u64::from(left > 0);
        if left > 0 {
            return;
        }
        if place != crash::IN_RECORDER && truth.get(CRASHED) == 0 {
            crashes(page, number);
        }
        match place {
            crash::IN_CODE => now(kind),
            crash::IN_MALLOC => {
                THREAD.store(thread_id(), Ordering::Release);
                CRASH_IN_MALLOC.store(1 + kind, Ordering::Release);
                drop(black_box(Box::new(1)));
            }
            // The thread's next record is the crash.
            crash::IN_COMMIT => region::protect(LINK.as_ref(), libc::PROT_READ),
            crash::UNREADABLE => region::protect(LINK.as_ref(), libc::PROT_NONE),
            _ => {}
        }
    };
    let victim = walk::spawn(page, seed, number, u64::MAX, each);
    if place == crash::IN_RECORDER {
        from_outside(
            &victim,
            (page, number),
            crash::signal(kind),
            before,
            random.below(2_000),
        );
    }
    let _ = victim.join();
    loop {
        thread::park();
    }
}

/// Sends the signal after `before` records, and `spins` later. If a SIGSEGV was sent and is no fault, the standard
/// library's handler lets the program continue, so the signal is sent again.
fn from_outside(
    victim: &JoinHandle<()>,
    (page, number): (Page, usize),
    signal: i32,
    before: u64,
    spins: u64,
) {
    let truth = &page[number];
    let mut enough = before;
    loop {
        while truth.get(MADE) < enough {
            thread::yield_now();
        }
        (0..spins).for_each(|_| std::hint::spin_loop());
        if enough == before {
            crashes(page, number);
        }
        enough = truth.get(MADE) + AGAIN;
        // SAFETY: the thread was not joined yet, so its handle is valid.
        unsafe { libc::pthread_kill(victim.as_pthread_t() as libc::pthread_t, signal) };
    }
}
