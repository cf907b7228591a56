//! Each thread has its own timer, which interrupts it ten thousand times a second at any instruction, also inside the
//! recorder. The handler calls traced functions.

use std::cell::Cell;
use std::ptr;
use std::thread::Builder;

use fdr::traced;
use fdr_tests::support::course::Course;
use fdr_tests::support::truth::{HANDLED, MADE, PHASE, STOP, WRONG};

use crate::page::{Entry, Page};
use crate::walk;

const SIGNAL: i32 = libc::SIGALRM;
/// From one signal to the next.
const EVERY_NS: i64 = 100_000;

thread_local!(static TRUTH: Cell<*const Entry> = const { Cell::new(ptr::null()) });

#[traced]
fn inner() {
    std::hint::black_box(());
}

#[traced]
fn outer() {
    inner();
}

/// Four records, unless the recorder is in the middle of one.
extern "C" fn on_timer(_: i32) {
    outer();
    // SAFETY: set before the thread's timer was, to an entry of the page, which is never unmapped.
    if let Some(truth) = unsafe { TRUTH.get().as_ref() } {
        truth.count(HANDLED);
    }
}

fn install() {
    // SAFETY: zeros are a valid `sigaction`, it lives until the call returns, and the handler does only
    // what a handler may.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = on_timer as *const () as usize;
        new.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(SIGNAL, &raw const new, ptr::null_mut()), 0);
    }
}

/// A timer whose signals come to the calling thread.
fn start() -> libc::timer_t {
    // SAFETY: zeros are valid for these structures, which live until the calls return.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = SIGNAL;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = ptr::null_mut();
        let made = libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer);
        assert_eq!(made, 0);
        let every = libc::timespec {
            tv_sec: 0,
            tv_nsec: EVERY_NS,
        };
        let times = libc::itimerspec {
            it_interval: every,
            it_value: every,
        };
        let set = libc::timer_settime(timer, 0, &raw const times, ptr::null_mut());
        assert_eq!(set, 0);
        timer
    }
}

/// No signal comes from here on: what was handled is final.
fn end(timer: libc::timer_t) {
    // SAFETY: the timer is the calling thread's; the set is initialised before it is used.
    unsafe {
        libc::timer_delete(timer);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut());
    }
}

/// Runs until each thread has handled `signals` signals.
pub(crate) fn run(page: Page, seed: u64, threads: u64, signals: u64) {
    install();
    let spawn = |_| {
        let number = walk::next_number(page).expect("room in the page");
        let truth = &page[number];
        let course = Course::new(seed.wrapping_add(number as u64), u64::MAX);
        let body = move || {
            TRUTH.set(truth);
            let timer = start();
            // A stop of its own: the others go on.
            let stop: &'static Entry = Box::leak(Box::new(Entry::new()));
            let mut each = || {
                if truth.get(HANDLED) >= signals {
                    stop.set(STOP, 1);
                }
            };
            walk::run(course, truth, stop, &mut each);
            end(timer);
        };
        let builder = Builder::new().name(format!("n{number}"));
        builder.spawn(body).expect("a thread")
    };
    let running: Vec<_> = (0..threads).map(spawn).collect();
    page[0].set(PHASE, 1);
    // Dumps meanwhile: they are looked at as well. Before the first record there is nothing to dump.
    while page[1].get(MADE) == 0 {
        std::thread::yield_now();
    }
    for _ in 0..3 {
        if fdr::is_enabled() && fdr::dump().is_err() {
            page[0].count_shared(WRONG);
        }
    }
    for thread in running {
        thread.join().expect("its end");
    }
    page[0].set(PHASE, 2);
}
