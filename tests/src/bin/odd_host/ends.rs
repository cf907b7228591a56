//! Ways to end.

use std::panic;
use std::process;
use std::thread;
use std::time::Duration;

use fdr::traced;

use crate::{NamedAction, crowd, leaf, request_dump, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("exit-handler", || at_exit(works)),
    ("exit-handler-that-leaves", || at_exit(leaves)),
    ("exit-handler-with-a-thread", || at_exit(spawns)),
    ("exit-in-a-thread", exit_in_thread),
    ("exit-beside-threads", exit_beside),
    ("exit-during-dumps", exit_during_dumps),
    ("quick-exit", quick_exit),
    ("exit-at-once", at_once),
    ("abort", || {
        work(10);
        process::abort()
    }),
    ("panic", || fails(work(10))),
    ("panic-in-a-thread", panic_in_thread),
    ("panics-that-are-caught", caught),
    ("panic-in-a-drop", in_a_drop),
    ("panic-in-a-panic", twice),
    ("fault", fault),
    ("stack-overflow", overflow),
    ("killed", killed),
    ("main-thread-leaves", main_leaves),
];

#[traced]
fn fails(number: u64) {
    leaf(number);
    panic!("wanted\nsecond line");
}

fn at_exit(handler: extern "C" fn()) {
    // SAFETY: the handler may run at the end.
    unsafe { libc::atexit(handler) };
    work(100);
    say("main returns");
}

extern "C" fn works() {
    say(work(100));
}

extern "C" fn leaves() {
    say(work(10));
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(6) }
}

extern "C" fn spawns() {
    say(thread::spawn(|| work(100)).join().expect("a sum"));
}

fn exit_in_thread() {
    thread::spawn(|| {
        work(10);
        process::exit(3)
    });
    loop {
        work(10);
    }
}

fn exit_beside() {
    for _ in 0..8 {
        thread::spawn(|| {
            loop {
                work(10);
            }
        });
    }
    thread::sleep(Duration::from_millis(30));
    process::exit(3)
}

fn exit_during_dumps() {
    for _ in 0..4 {
        thread::spawn(|| {
            loop {
                request_dump();
                work(10);
            }
        });
    }
    thread::sleep(Duration::from_millis(30));
    say("main returns");
}

fn quick_exit() {
    unsafe extern "C" {
        fn quick_exit(status: i32) -> !;
    }
    work(10);
    // SAFETY: ends the process.
    unsafe { quick_exit(4) }
}

fn at_once() {
    say(work(10));
    // SAFETY: ends the process.
    unsafe { libc::_exit(4) }
}

fn panic_in_thread() {
    say(thread::spawn(|| fails(1)).join().is_err());
}

fn caught() {
    panic::set_hook(Box::new(|_| ()));
    let each = |number| panic::catch_unwind(|| fails(number)).is_err();
    say((0..1000).filter(|&number| each(number)).count());
}

/// Panics when it goes.
struct Bomb;

impl Drop for Bomb {
    #[traced]
    fn drop(&mut self) {
        leaf(1);
        panic!("in a drop");
    }
}

fn in_a_drop() {
    let ended = panic::catch_unwind(|| {
        let _bomb = Bomb;
        work(1);
    });
    say(ended.is_err());
}

fn twice() {
    let _ended = panic::catch_unwind(|| {
        let _bomb = Bomb;
        fails(1);
    });
    say("it does not come here");
}

fn fault() {
    say(crowd(10));
    // SAFETY: it is not: the fault is what is wanted.
    unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) };
}

#[traced]
fn endless(depth: u64) -> u64 {
    let bytes = std::hint::black_box([depth; 64]);
    if bytes[0] == u64::MAX {
        return 0;
    }
    endless(depth + 1) + bytes[3]
}

fn overflow() {
    say(endless(0));
}

fn killed() {
    say(work(1000));
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
}

/// The main thread ends first, the last one ends the process.
fn main_leaves() {
    thread::spawn(|| {
        thread::sleep(Duration::from_millis(20));
        say(work(100));
    });
    work(10);
    // SAFETY: ends this thread alone; nothing of its stack is used by others.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}
