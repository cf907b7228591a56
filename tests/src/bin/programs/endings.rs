//! Ends in the way that its argument says, after a known number of calls on the thread `main` (ten of
//! `work`). What it prints never depends on the recorder, except for paths of dumps that it asks for.

use std::env;
use std::panic;
use std::process;
use std::sync::Barrier;
use std::thread;

use fdr::traced;
use fdr_tests::programs::threads::spawn;

#[traced]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

#[traced]
fn fail(number: u64) -> u64 {
    assert!(number < 3, "this panic is wanted");
    work(number)
}

fn ten() -> u64 {
    (0..10).map(work).sum()
}

/// Panics in a thread, which is caught, and works on.
fn caught() {
    let result = spawn("thrower", || (0..5).map(fail).sum::<u64>()).join();
    println!("caught {}", result.is_err());
    println!("{}", ten());
}

struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        fail(4);
    }
}

/// A panic while another one unwinds: the process aborts.
fn twice() {
    let _trap = Trap;
    fail(3);
}

fn dump(times: u32) {
    for _ in 0..times {
        match fdr::dump() {
            Ok(dump) => println!("dumped {} {}", dump.records, dump.path.display()),
            Err(error) => println!("error {error}"),
        }
    }
}

/// Dumps from two threads and by signal, all at once.
fn at_once() {
    let barrier = Barrier::new(3);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                barrier.wait();
                dump(5);
            });
        }
        barrier.wait();
        for _ in 0..5 {
            // SAFETY: a plain system call on this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
            ten();
        }
    });
}

fn exit_from_a_thread() -> ! {
    spawn("other", || {
        ten();
        process::exit(41)
    });
    loop {
        thread::park();
    }
}

pub(crate) fn main(words: &[&str]) {
    if words == ["idle"] {
        return;
    }
    println!("{}", ten());
    match words {
        ["return"] => {}
        ["exit"] => process::exit(42),
        ["exit-from-a-thread"] => exit_from_a_thread(),
        ["panic"] => {
            fail(3);
        }
        // A place of the standard library, whose path is that of another machine.
        ["panic-in-std"] => drop("ab".repeat(usize::MAX)),
        ["caught"] => caught(),
        ["twice"] => twice(),
        ["abort"] => process::abort(),
        ["dump"] => dump(1),
        ["dump-3"] => dump(3),
        ["at-once"] => at_once(),
        // From here on, each inexact result of floating-point numbers is a SIGFPE.
        #[cfg(target_arch = "x86_64")]
        ["inexact"] => {
            let state = 0x0F80_u32;
            // SAFETY: the state is a valid one. This program computes with no such numbers.
            unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state) };
            fdr::dump().expect("a dump");
        }
        ["silent"] => panic::set_hook(Box::new(|_| ())),
        ["elsewhere"] => {
            env::set_current_dir("/").expect("the root");
            dump(1);
        }
        other => panic!("no such way: {other:?}"),
    }
}
