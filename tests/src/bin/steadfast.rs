//! Does what its arguments say, one step after the other. It prints the same with and without the recorder, and after
//! every trouble of the recorder's. Some steps take away what a recorder needs.

use std::fs::{self, File};
use std::io::{self, Write};
use std::panic;
use std::process;
use std::thread;
use std::time::Duration;

use fdr::traced;

#[traced]
fn work(number: u64) -> u64 {
    std::hint::black_box(number) * 7
}

#[traced]
fn fail(number: u64) -> u64 {
    assert!(number < 3, "this panic is wanted");
    work(number)
}

/// Panics while another panic unwinds.
struct Trap;

impl Drop for Trap {
    fn drop(&mut self) {
        fail(4);
    }
}

fn calls(count: u64) -> u64 {
    (0..count).map(work).sum()
}

/// Twelve threads, of which none ends before the last one has begun. So each needs a ring of its own.
fn threads() -> u64 {
    let barrier = std::sync::Barrier::new(12);
    let body = || {
        barrier.wait();
        calls(1000)
    };
    thread::scope(|scope| {
        let all: Vec<_> = (0..12).map(|_| scope.spawn(body)).collect();
        all.into_iter()
            .map(|thread| thread.join().expect("a sum"))
            .sum()
    })
}

/// Takes the last byte of the disk.
fn fill() {
    let mut rest = File::create("rest").expect("a file");
    for size in [1 << 16, 1 << 12, 1] {
        while rest.write_all(&vec![0; size]).is_ok() {}
    }
}

/// Takes the last descriptor.
fn starve() {
    while let Ok(file) = File::open("/dev/null") {
        std::mem::forget(file);
    }
}

/// Gives back what [`fill`] took.
fn shrink() {
    fs::remove_file("rest").expect("the file");
}

/// Closes what it does not know, as daemons do.
fn shut() {
    // SAFETY: users of these descriptors must bear that they are closed. The test wants exactly this.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// Calls in a thread of their own.
fn calls_in_thread(count: u64) -> u64 {
    let thread = thread::spawn(move || calls(count));
    thread.join().expect("a sum")
}

/// Removes the folders in which rings and traces are.
fn lose() {
    for folder in ["traces", "rings"] {
        let _ = fs::remove_dir_all(folder);
    }
}

/// A signal that does nothing by itself, and asks for a dump where `FDR_SIGNAL=WINCH`.
fn signal() {
    // SAFETY: a plain system call on this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGWINCH) };
    // For the dump to be made before the next step, more often than not. Nothing depends on it.
    thread::sleep(Duration::from_millis(20));
}

/// A child that works, and ends without the parent's end.
fn fork() {
    let _ = io::stdout().flush();
    // SAFETY: the only thread besides the recorder's; the child does nothing that needs another one.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let sum = calls(100);
        process::exit(if sum == 34_650 { 7 } else { 1 });
    }
    let mut status = 0;
    // SAFETY: the child just made, and a place for its status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("child {status:#x}");
}

fn main() {
    for step in std::env::args().skip(1) {
        match step.as_str() {
            "work" => println!("{}", calls(10)),
            "much" => println!("{}", calls(200_000)),
            "threads" => println!("{}", threads()),
            "fill" => fill(),
            "starve" => starve(),
            "shrink" => shrink(),
            "shut" => shut(),
            "brief" => println!("{}", calls_in_thread(10)),
            "next" => println!("{}", calls_in_thread(200_000)),
            "lose" => lose(),
            "signal" => signal(),
            "fork" => fork(),
            "dump" => {
                let _ = fdr::dump();
            }
            "caught" => println!("{}", panic::catch_unwind(|| fail(3)).is_err()),
            "panic" => println!("{}", fail(3)),
            "silent" => panic::set_hook(Box::new(|_| ())),
            "twice" => {
                let _trap = Trap;
                fail(3);
            }
            "abort" => process::abort(),
            // SAFETY: it is not: the crash is what is wanted.
            "crash" => unsafe { std::ptr::without_provenance_mut::<u8>(16).write_volatile(1) },
            "exit" => process::exit(42),
            "exit-in-thread" => {
                thread::spawn(|| process::exit(41));
                loop {
                    thread::park();
                }
            }
            other => panic!("no such step: {other:?}"),
        }
    }
}
