//! Signals where they hurt: on every instruction of a child's first record, in the midst of dumps, beside
//! an `exit` in other threads. Every function counts its own calls.

use std::process;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::counted_functions;
use fdr_tests::programs::calls::repeat;
use fdr_tests::programs::children::{Reports, fork, leave, wait_for};
use fdr_tests::programs::signals::{alarm_every, errno, handle, handle_with_state, set_errno};
use fdr_tests::programs::stepping::{end_steps, stepping};
use fdr_tests::support::facts;

static TRAPS: AtomicU64 = AtomicU64::new(0);
static WRONG: AtomicU64 = AtomicU64::new(0);

/// What errno is set to: no call of the system's gives it.
const MARK: i32 = 4242;

counted_functions!(work: traced);

fn ten() {
    repeat(10, work);
}

/// A traced call must leave errno as it finds it.
fn watched_work() {
    set_errno(MARK);
    work();
    if errno() != MARK {
        WRONG.fetch_add(1, Ordering::Relaxed);
    }
}

extern "C" fn on_trap(_: i32) {
    if TRAPS.fetch_add(1, Ordering::Relaxed).is_multiple_of(3) {
        work();
    }
}

extern "C" fn on_alarm(_: i32) {
    watched_work();
}

extern "C" fn exits(_: i32) {
    // SAFETY: not what a handler should do, but what programs do.
    unsafe { libc::exit(3) }
}

/// Children whose first records are made one instruction at a time, with a handler that records.
fn first_records(reports: Reports) {
    handle(libc::SIGTRAP, on_trap, libc::SA_RESTART);
    for threads in [false, true, false] {
        let child = || {
            CALLS.anew();
            stepping(|| repeat(3, work));
            if threads {
                let several = || (0..4).for_each(|_| drop(thread::spawn(ten).join()));
                several();
            }
            ten();
            reports.report(CALLS.records());
            if TRAPS.load(Ordering::Relaxed) < 500 {
                process::exit(1);
            }
            leave();
        };
        wait_for(fork(child));
    }
}

/// The instruction of the next thread's first record at which a handler records.
static AT: AtomicU64 = AtomicU64::new(0);

/// Records at one instruction. The thread takes no further steps.
extern "C" fn on_one_trap(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    if TRAPS.fetch_add(1, Ordering::Relaxed) == AT.load(Ordering::Relaxed) {
        work();
        // SAFETY: the handler of a step, and the state that it was given.
        unsafe { end_steps(context) };
    }
}

/// One thread after the other, each with a handler that makes its first records at another instruction of the thread's
/// own first record.
fn first_of_threads() {
    handle_with_state(libc::SIGTRAP, on_one_trap, libc::SA_RESTART);
    for at in 0..400 {
        TRAPS.store(0, Ordering::Relaxed);
        AT.store(at, Ordering::Relaxed);
        let thread = thread::spawn(|| stepping(work));
        thread.join().expect("no panic");
    }
    print!("{}", facts::of_statistics(&fdr::statistics()));
}

/// A child whose threads and handlers all make the first record at once.
fn races(reports: Reports) {
    for _ in 0..30 {
        let child = || {
            CALLS.anew();
            handle(libc::SIGALRM, on_alarm, libc::SA_RESTART);
            let barrier = Barrier::new(4);
            thread::scope(|scope| {
                let threads = [(); 4].map(|()| {
                    scope.spawn(|| {
                        barrier.wait();
                        ten();
                    })
                });
                alarm_every(50);
                // The scope waits for what threads do, not for their ends: a handler may run in between.
                for thread in threads {
                    thread.join().expect("no panic");
                }
            });
            alarm_every(0);
            reports.report(CALLS.records());
            leave();
        };
        wait_for(fork(child));
    }
}

/// errno through first records, full chunks, signals that dump, and handlers.
fn keeps_errno() {
    handle(libc::SIGALRM, on_alarm, libc::SA_RESTART);
    alarm_every(200);
    let many = || repeat(30_000, watched_work);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(many);
        }
        for _ in 0..20 {
            set_errno(MARK);
            // SAFETY: raises a signal in the calling thread, before it returns.
            let raised = unsafe { libc::raise(libc::SIGUSR2) };
            if raised != 0 || errno() != MARK {
                WRONG.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    alarm_every(0);
    let child = fork(|| {
        let before = WRONG.load(Ordering::Relaxed);
        repeat(20_000, watched_work);
        set_errno(MARK);
        // SAFETY: as above.
        let raised = unsafe { libc::raise(libc::SIGUSR2) };
        if raised != 0 || errno() != MARK || WRONG.load(Ordering::Relaxed) != before {
            process::exit(1);
        }
    });
    wait_for(child);
}

/// `exit` in a handler that comes while a dump is written, sooner or later.
fn exit_in_dump(after: i64) {
    handle(libc::SIGALRM, exits, libc::SA_RESTART);
    repeat(100_000, work);
    alarm_every(after);
    loop {
        let _ = fdr::dump();
    }
}

/// At which step a signal is raised whose handler calls `exit`.
static EXIT_AT: AtomicU64 = AtomicU64::new(u64::MAX);

extern "C" fn on_step(_: i32) {
    if TRAPS.fetch_add(1, Ordering::Relaxed) == EXIT_AT.load(Ordering::Relaxed) {
        // SAFETY: comes at once, or when the thread no longer holds it back.
        unsafe { libc::raise(libc::SIGALRM) };
    }
}

/// `exit` in a handler that interrupts a call of the recorder. That call allocates nothing, because a handler that
/// interrupts an allocation must never call `exit`, with or without the recorder.
fn exit_in_call(step: i64) {
    handle(libc::SIGALRM, exits, libc::SA_RESTART);
    handle(libc::SIGTRAP, on_step, libc::SA_RESTART);
    EXIT_AT.store(step.unsigned_abs(), Ordering::Relaxed);
    stepping(fdr::disable);
    println!("traps {}", TRAPS.load(Ordering::Relaxed));
}

/// `exit` in two threads at once, beside a dump and recording threads.
fn two_exits() {
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        scope.spawn(|| {
            barrier.wait();
            loop {
                work();
            }
        });
        scope.spawn(|| {
            barrier.wait();
            let _ = fdr::dump();
        });
        for _ in 0..2 {
            scope.spawn(|| {
                ten();
                barrier.wait();
                process::exit(5);
            });
        }
    });
}

unsafe extern "C" {
    fn quick_exit(status: i32) -> !;
}

pub(crate) fn main(words: &[&str]) {
    let reports = Reports::new();
    ten();
    let number = words.get(1).and_then(|text| text.parse().ok());
    match words[0] {
        "first-records" => first_records(reports),
        "first-of-threads" => first_of_threads(),
        "races" => races(reports),
        "errno" => keeps_errno(),
        "exit-in-dump" => exit_in_dump(number.unwrap_or(1)),
        "exit-in-call" => exit_in_call(number.unwrap_or(i64::MAX)),
        "two-exits" => two_exits(),
        // SAFETY: ends the process.
        "quick-exit" => unsafe { quick_exit(6) },
        other => panic!("no such way: {other:?}"),
    }
    println!("wrong {}", WRONG.load(Ordering::Relaxed));
    println!("records {}", CALLS.records());
    reports.print();
}
