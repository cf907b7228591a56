//! A program whose main thread ends before the process does, in the way that its argument names. The process ends with
//! its last thread. Ten calls on each thread. Must not use the standard library's `main`: it does not let
//! `pthread_exit` pass.
#![no_main]

use std::ffi::{CStr, c_char, c_void};
use std::thread;
use std::time::Duration;

use fdr::traced;
use fdr_tests::programs::threads::spawn;

#[traced]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

fn ten() {
    println!("{}", (0..10).map(work).sum::<u64>());
}

/// The thread goes, and the process with it if it is the last one.
fn pthread_exit() -> ! {
    unsafe extern "C-unwind" {
        fn pthread_exit(value: *mut c_void) -> !;
    }
    // SAFETY: no frame between here and the thread's beginning has anything to drop.
    unsafe { pthread_exit(std::ptr::null_mut()) }
}

/// The same behind the C library's back; of the main thread, the number is the process's exit status.
fn system_call(status: i32) {
    // SAFETY: nothing refers to the thread's stack any more.
    unsafe { libc::syscall(libc::SYS_exit, status) };
}

extern "C" fn at_exit() {
    println!("at exit");
}

/// A worker that outlives the main thread.
fn worker(last: fn()) {
    let worker = move || {
        thread::sleep(Duration::from_millis(30));
        ten();
        last();
    };
    drop(spawn("worker", worker));
}

// SAFETY: no other function has this name.
#[unsafe(no_mangle)]
extern "C-unwind" fn main(_: i32, arguments: *const *const c_char) -> i32 {
    // SAFETY: the kernel gives a NUL-terminated list; each test gives one argument.
    let way = unsafe { CStr::from_ptr(*arguments.add(1)) };
    // SAFETY: a function of the C ABI.
    unsafe { libc::atexit(at_exit) };
    match way.to_str().expect("a way") {
        "main-pthread-exit" => {
            ten();
            pthread_exit();
        }
        "main-system-call" => {
            ten();
            system_call(3);
        }
        "nothing-recorded-system-call" => system_call(4),
        "worker-returns" => {
            ten();
            worker(|| {});
            pthread_exit();
        }
        "worker-system-call" => {
            ten();
            worker(|| system_call(0));
            pthread_exit();
        }
        "worker-returns-after-system-call" => {
            worker(|| {});
            system_call(0);
        }
        "enabled-by-worker" => {
            worker(|| {
                fdr::enable().expect("recording");
                ten();
            });
            system_call(0);
        }
        "nothing-recorded" => pthread_exit(),
        other => panic!("no such way: {other:?}"),
    }
    unreachable!("the main thread is gone")
}
