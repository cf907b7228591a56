//! Signals that end the process: of the kernel's action, of the program's own, and in children.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fdr_tests::programs::signals::{handle_with_state, pass_on};

use crate::{NamedAction, crowd, print_result, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("interrupted", || ends_by(libc::SIGINT)),
    ("terminated", || ends_by(libc::SIGTERM)),
    ("terminated-in-a-wait", ends_in_a_wait),
    ("terminated-in-another-thread", ends_in_another_thread),
    ("terminated-in-allocations", ends_in_allocations),
    ("terminated-twice-at-once", ends_twice),
    ("terminated-while-it-exits", ends_while_it_exits),
    ("interrupt-handled", || handles(libc::SIGINT, false)),
    ("terminate-handled", || handles(libc::SIGTERM, false)),
    ("terminate-handled-and-passed-on", || {
        handles(libc::SIGTERM, true)
    }),
    ("interrupt-ignored", ignores),
    ("terminate-ignored-in-a-program", executed_ignores),
    ("terminate-of-children", children),
    ("terminate-of-a-vfork", vforked),
    ("terminate-of-programs", programs),
    ("terminate-of-the-first-process", first_process),
];

fn kill(process: i32, signal: i32) {
    // SAFETY: a plain system call.
    unsafe { libc::kill(process, signal) };
}

fn me() -> i32 {
    // SAFETY: as above.
    unsafe { libc::getpid() }
}

fn ends_by(signal: i32) {
    say(work(1000));
    kill(me(), signal);
    say("never said");
}

/// Sends the signal from a child, as a shell does, in a moment.
fn kill_soon(signal: i32) {
    let line = format!("sleep 0.05; kill -{signal} {}", me());
    let sender = Command::new("sh").args(["-c", &line]).spawn();
    drop(sender.expect("a shell"));
}

/// A wait that a handler would cut short.
fn ends_in_a_wait() {
    say(work(1000));
    kill_soon(libc::SIGTERM);
    // SAFETY: a plain system call.
    let left = unsafe { libc::sleep(60) };
    say(format_args!("never said: {left}"));
}

fn ends_in_another_thread() {
    let busy = thread::spawn(|| {
        loop {
            work(100);
        }
    });
    say(crowd(1000));
    kill_soon(libc::SIGTERM);
    drop(busy.join());
}

/// Allocations interrupted at any place: the handler must not need the same lock.
fn ends_in_allocations() {
    let all: Vec<_> = (1..40)
        .map(|seed: usize| {
            thread::spawn(move || {
                let mut allocations = vec![Vec::<u8>::new(); 64];
                for number in seed.. {
                    let place = number % allocations.len();
                    allocations[place] = vec![1; number * 997 % 9000 + 1];
                    work(1);
                }
            })
        })
        .collect();
    kill_soon(libc::SIGTERM);
    all.into_iter().for_each(|thread| drop(thread.join()));
}

fn ends_twice() {
    let signals = [(); 3].map(|()| {
        thread::spawn(|| {
            work(100);
            kill(me(), libc::SIGTERM);
            thread::sleep(Duration::from_secs(60));
        })
    });
    signals.into_iter().for_each(|thread| drop(thread.join()));
}

extern "C" fn terminate() {
    kill(me(), libc::SIGTERM);
}

fn ends_while_it_exits() {
    work(1000);
    // SAFETY: the function may be called at any time.
    unsafe { libc::atexit(terminate) };
    std::process::exit(3);
}

static HANDLED: AtomicI32 = AtomicI32::new(0);
static FORMER: AtomicUsize = AtomicUsize::new(0);

/// Calls the handler that was there before, as libraries for signals do.
extern "C" fn handler(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
    let former = FORMER.load(Ordering::Relaxed);
    // SAFETY: the recorder's handler is of this type, and no other code has installed one.
    unsafe { pass_on(former, signal, info, context) };
}

fn handles(signal: i32, passes_on: bool) {
    say(work(1000));
    let former = handle_with_state(signal, handler, 0);
    if passes_on {
        FORMER.store(former, Ordering::Relaxed);
    }
    for _ in 0..3 {
        kill(me(), signal);
        work(10);
    }
    say(HANDLED.load(Ordering::Relaxed));
    say(crowd(1000));
}

fn ignores() {
    work(10);
    // SAFETY: a plain call.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
    kill(me(), libc::SIGINT);
    say(crowd(1000));
}

/// Whether this is the program that [`run_again`] runs. Then it gets the signal.
fn is_again() -> bool {
    let is_again = std::env::var_os("AGAIN").is_some();
    if is_again {
        work(10);
        kill(me(), libc::SIGTERM);
        say(crowd(1000));
    }
    is_again
}

/// Runs this way in a process of its own.
fn run_again() {
    let again = std::env::current_exe().expect("this program");
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let mut again = Command::new(again);
    match again.args(arguments).env("AGAIN", "1").status() {
        Ok(status) => say(format_args!("{:?}", status.code())),
        Err(error) => say(error),
    }
}

/// What a shell runs in the background ignores SIGINT from its start.
fn executed_ignores() {
    if !is_again() {
        work(10);
        // SAFETY: the recorder of the next program finds it ignored.
        unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        run_again();
    }
}

/// The first process of a container gets such signals only if it handles them.
fn first_process() {
    if !is_again() {
        work(10);
        // SAFETY: a plain system call.
        print_result("unshare", unsafe { libc::unshare(libc::CLONE_NEWPID) });
        run_again();
    }
}

fn wait(child: i32) {
    let mut status = 0;
    // SAFETY: `status` is valid for writing.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    say(format_args!(
        "{:?} {:?}",
        libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
    ));
}

/// Children of a fork: one that records, and one that does not.
fn children() {
    work(100);
    for count in [1000, 0] {
        // SAFETY: the child makes calls of this program alone.
        let child = unsafe { libc::fork() };
        if child == 0 {
            work(count);
            kill(me(), libc::SIGTERM);
            // SAFETY: the child ends here.
            unsafe { libc::_exit(9) };
        }
        wait(child);
    }
    say(crowd(1000));
}

/// A child that shares the memory of its parent. The parent continues.
fn vforked() {
    work(100);
    // SAFETY: the child makes system calls alone.
    #[allow(deprecated, reason = "older programs call it")]
    let child = unsafe { libc::vfork() };
    if child == 0 {
        // SAFETY: as above.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGTERM);
            libc::_exit(9);
        }
    }
    wait(child);
    say(crowd(1000));
}

/// Other programs have the kernel's action.
fn programs() {
    work(100);
    let mut program = Command::new("sleep");
    let program = program.arg("60").env_remove("FDR").stdin(Stdio::null());
    let mut child = program.spawn().expect("sleep runs");
    kill(child.id() as i32, libc::SIGTERM);
    say(format_args!(
        "{:?}",
        child.wait().expect("it ends").signal()
    ));
    say(crowd(1000));
}
