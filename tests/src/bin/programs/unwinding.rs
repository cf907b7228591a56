//! Calls that end without a return, in every way: a panic unwinds them, a jump leaves them, another thread continues on
//! their stack, or their thread or process ends. Each way runs a known number of calls, and says how many.

use std::panic::{self, AssertUnwindSafe};
use std::thread;

use fdr::traced;
use fdr_tests::programs::threads;
use fdr_tests::support::facts;

#[traced]
#[inline(never)]
fn leaf(number: u64) -> u64 {
    std::hint::black_box(number) + 1
}

#[traced]
#[inline(never)]
fn outer(body: &mut dyn FnMut()) {
    body();
    leaf(1);
}

/// Panics `depth` calls down.
#[traced]
#[inline(never)]
fn throw(depth: u64) {
    assert!(depth > 0, "this panic is wanted");
    throw(depth - 1);
    leaf(depth);
}

/// Each call of `throw` is left by the unwinding.
fn panics() {
    panic::set_hook(Box::new(|_| ()));
    for _ in 0..10 {
        outer(&mut || {
            let caught = panic::catch_unwind(AssertUnwindSafe(|| throw(9)));
            assert!(caught.is_err());
        });
    }
}

#[traced]
#[inline(never)]
fn deep(depth: u64) -> u64 {
    if depth == 0 {
        return leaf(0);
    }
    deep(depth - 1) + 1
}

/// Not in musl, which has no `getcontext`.
#[cfg(target_env = "gnu")]
mod contexts;

/// The thread ends within traced calls.
fn thread_exit() {
    let ends = threads::spawn("ends", || {
        outer(&mut || {
            // SAFETY: the frames that are left own nothing.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        });
    });
    // Its result never comes: it is the kernel that says when it is gone.
    use std::os::unix::thread::JoinHandleExt;
    // SAFETY: the thread was not joined.
    let joined = unsafe {
        libc::pthread_join(
            ends.into_pthread_t() as libc::pthread_t,
            std::ptr::null_mut(),
        )
    };
    assert_eq!(joined, 0);
    leaf(1);
}

pub(crate) fn main(words: &[&str]) {
    let times = words.get(1).map_or(10, |times| facts::number(times));
    match words[0] {
        "panics" => panics(),
        #[cfg(target_env = "gnu")]
        "jumps" | "jumps-at-top" | "cut" | "cut-at-first" | "wanders" => {
            contexts::run(words[0], times);
        }
        "deep" => {
            // A frame of an unoptimised build is large.
            let deep = thread::Builder::new()
                .stack_size(1 << 30)
                .spawn(move || deep(times));
            println!("depth {}", deep.expect("a thread").join().expect("it ends"));
        }
        "open" => {
            let deep = thread::Builder::new().stack_size(1 << 30).spawn(move || {
                open(times);
            });
            deep.expect("a thread").join().expect("it ends");
        }
        "thread-exit" => thread_exit(),
        "exit" => outer(&mut || std::process::exit(0)),
        "_exit" => outer(&mut || {
            fdr::dump().expect("a dump");
            // SAFETY: ends the process, whatever is open.
            unsafe { libc::_exit(0) };
        }),
        "abort" => outer(&mut || std::process::abort()),
        other => panic!("no such way: {other:?}"),
    }
    leaf(9);
}

/// Dumps with `depth` calls open.
#[traced]
#[inline(never)]
fn open(depth: u64) {
    if depth > 1 {
        open(depth - 1);
    } else {
        fdr::dump().expect("a dump");
    }
    std::hint::black_box(depth);
}
