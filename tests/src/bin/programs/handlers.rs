//! Signal handlers of the program's own beside the recorder's, and ones that call traced functions.
//! Every function counts its own calls; handlers do nothing that a handler may not.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fdr::traced;
use fdr_tests::programs::signals::{alarm_every, handle, handle_with_state, pass_on};
use fdr_tests::programs::threads::wait_for_input;
use fdr_tests::support::facts;

static HANDLED: AtomicU64 = AtomicU64::new(0);
static WORKED: AtomicU64 = AtomicU64::new(0);
static NEXT: AtomicUsize = AtomicUsize::new(0);

#[traced]
fn work() {
    WORKED.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn inner() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

#[traced]
fn outer() {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    inner();
}

extern "C" fn on_timer(_: i32) {
    outer();
}

/// The program's own handler of the dump signal.
extern "C" fn on_dump_signal(_: i32) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// The same, for a program that calls the handler which it found.
extern "C" fn on_dump_signal_then_next(
    signal: i32,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let next = NEXT.load(Ordering::Acquire);
    // SAFETY: sigaction gave this address as that of a handler with three arguments.
    let has_next = unsafe { pass_on(next, signal, info, context) };
    assert!(has_next, "there was a handler");
}

fn raise(signal: i32) {
    // SAFETY: raises a signal in the calling thread, before it returns.
    assert_eq!(unsafe { libc::raise(signal) }, 0);
}

/// A timer interrupts the main thread ten thousand times a second, in the midst of records or between
/// them, until a thousand signals were handled.
fn timer() {
    handle(libc::SIGALRM, on_timer, libc::SA_RESTART);
    alarm_every(100);
    let start = Instant::now();
    while HANDLED.load(Ordering::Relaxed) < 1000 && start.elapsed() < Duration::from_secs(30) {
        (0..1000).for_each(|_| work());
    }
    alarm_every(0);
}

/// Signals in the middle of first records, as often as possible: many threads make their first call while a signal is
/// on its way to each.
fn first_records() {
    handle(libc::SIGUSR1, on_timer, libc::SA_RESTART);
    for _ in 0..200 {
        let thread = std::thread::spawn(|| {
            (0..10).for_each(|_| work());
        });
        use std::os::unix::thread::JoinHandleExt;
        for _ in 0..3 {
            // SAFETY: the thread was not joined yet, so its handle is valid.
            unsafe { libc::pthread_kill(thread.as_pthread_t() as libc::pthread_t, libc::SIGUSR1) };
        }
        thread.join().expect("it ends");
    }
}

pub(crate) fn main(words: &[&str]) {
    match words[0] {
        "timer" => timer(),
        "first-records" => first_records(),
        "before" => {
            handle(libc::SIGUSR2, on_dump_signal, libc::SA_RESTART);
            fdr::enable().expect("it can be recorded");
            work();
            raise(libc::SIGUSR2);
        }
        "after" => {
            work();
            handle(libc::SIGUSR2, on_dump_signal, libc::SA_RESTART);
            raise(libc::SIGUSR2);
        }
        "after-and-next" => {
            work();
            let chained = on_dump_signal_then_next;
            let next = handle_with_state(libc::SIGUSR2, chained, libc::SA_RESTART);
            NEXT.store(next, Ordering::Release);
            raise(libc::SIGUSR2);
        }
        other => panic!("no such way: {other:?}"),
    }
    println!("worked {}", WORKED.load(Ordering::Relaxed));
    println!("handled {}", HANDLED.load(Ordering::Relaxed));
    print!("{}", facts::of_statistics(&fdr::statistics()));
    if words.get(1) == Some(&"wait") {
        wait_for_input("waiting");
    }
}
