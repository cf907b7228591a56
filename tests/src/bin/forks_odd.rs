//! Children made in odd ways and at odd moments: in a signal handler on every instruction of a record,
//! behind the C library's back, while the recorder comes up; a daemon; a program that executes itself.
//! The parent makes calls of `work`; children tell in a shared page how many records they made.

#[path = "forks/children.rs"]
mod children;

use std::env;
use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use children::{Reports, fork, leave, wait_for};
use fdr::traced;

/// Calls of this process.
static CALLS: AtomicU64 = AtomicU64::new(0);

#[traced]
#[inline(never)]
fn work() {
    CALLS.fetch_add(1, Ordering::Relaxed);
}

fn calls(count: u64) {
    (0..count).for_each(|_| work());
}

fn records() -> u64 {
    2 * CALLS.load(Ordering::Relaxed)
}

fn anew() {
    CALLS.store(0, Ordering::Relaxed);
}

/// Signals that came while single-stepping; whether the next one may fork; the children.
static TRAPS: AtomicU64 = AtomicU64::new(0);
static MAY_FORK: AtomicBool = AtomicBool::new(false);
static LAST: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Forks now and then. The child makes calls in the handler, and goes on where its parent goes on.
extern "C" fn on_trap(_: i32) {
    let trap = TRAPS.fetch_add(1, Ordering::Relaxed);
    // 37: every place in a call has its turn.
    if trap.is_multiple_of(37) && MAY_FORK.load(Ordering::Relaxed) {
        fork_here(trap);
    }
}

/// The step of a first record at which a handler records, and the later one at which another one forks.
static RECORD_AT: AtomicU64 = AtomicU64::new(0);
static FORK_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_first(_: i32) {
    let trap = TRAPS.fetch_add(1, Ordering::Relaxed);
    if !MAY_FORK.load(Ordering::Relaxed) {
        return;
    }
    if trap == RECORD_AT.load(Ordering::Relaxed) {
        work();
    } else if trap == FORK_AT.load(Ordering::Relaxed) {
        fork_here(1);
    }
}

/// In a handler.
fn fork_here(trap: u64) {
    // SAFETY: the child does what a handler may do, and goes on with the code that was interrupted.
    match unsafe { libc::fork() } {
        0 => {
            MAY_FORK.store(false, Ordering::Relaxed);
            anew();
            calls(trap % 5);
        }
        -1 => {
            FAILED.fetch_add(1, Ordering::Relaxed);
        }
        child => {
            let mut status = 0;
            // SAFETY: a child of this process, and a place for its status.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            if waited != child || status != children::WELL << 8 {
                FAILED.fetch_add(1, Ordering::Relaxed);
            }
            LAST.store(child as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn stepping(body: impl FnOnce()) {
    use std::arch::asm;

    // SAFETY: the trap flag does nothing but raise SIGTRAP, which has a handler; the stack is as it was
    // after each block.
    unsafe { asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
    body();
    // SAFETY: as above.
    unsafe { asm!("pushfq", "and qword ptr [rsp], -0x101", "popfq") };
}

#[cfg(not(target_arch = "x86_64"))]
fn stepping(body: impl FnOnce()) {
    body();
}

fn on_each_step(handler: extern "C" fn(i32)) {
    // SAFETY: zeros are a valid `sigaction`; the handlers do only what a handler may.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        let installed = libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut());
        assert_eq!(installed, 0);
    }
}

/// In each thread's first record one handler records, and one a few instructions later forks. The child
/// goes on in the handler, and in the record.
fn first(reports: Reports) {
    on_each_step(on_first);
    let parent = process::id();
    for at in 0..250_u64 {
        RECORD_AT.store(at / 2, Ordering::Relaxed);
        FORK_AT.store(at / 2 + 1 + at % 2, Ordering::Relaxed);
        let thread = thread::spawn(move || {
            TRAPS.store(0, Ordering::Relaxed);
            MAY_FORK.store(true, Ordering::Relaxed);
            stepping(work);
            MAY_FORK.store(false, Ordering::Relaxed);
            if process::id() != parent {
                calls(2);
                reports.report(records());
                leave();
            }
        });
        thread.join().expect("it ends");
    }
    println!("failed {}", FAILED.load(Ordering::Relaxed));
}

/// Forks on every kind of instruction of a record: in the midst of common ones, of a chunk's last and
/// first one, and of a thread's first one.
fn handler(reports: Reports) {
    on_each_step(on_trap);
    let round = |before: u64| {
        calls(before);
        let parent = process::id();
        MAY_FORK.store(true, Ordering::Relaxed);
        stepping(|| (0..4).for_each(|_| work()));
        MAY_FORK.store(false, Ordering::Relaxed);
        if process::id() != parent {
            calls(2);
            reports.report(records());
            leave();
        }
    };
    // A chunk of 64 KiB has room for 4093 calls and a half.
    for before in [0, 10, 4076, 0, 0] {
        round(before);
    }
    thread::scope(|scope| {
        for _ in 0..3 {
            let thread = scope.spawn(|| round(0));
            thread.join().expect("it ends");
        }
    });
    println!("traps {}", TRAPS.load(Ordering::Relaxed));
    println!("failed {}", FAILED.load(Ordering::Relaxed));
}

/// A child of which the C library does not know.
fn raw(reports: Reports) {
    // SAFETY: the child does nothing but system calls and traced calls.
    let child = unsafe { libc::syscall(libc::SYS_fork) };
    if child == 0 {
        anew();
        calls(20_000);
        reports.report(records());
        leave();
    }
    wait_for(child as libc::pid_t);
}

/// A child that runs in its parent's memory, until it is another program; and one that makes the first
/// record of a thread that has none.
fn shared() {
    let child = || {
        let list = [c"true".as_ptr(), std::ptr::null()];
        // SAFETY: the child makes traced calls, which may be made anywhere, and leaves. Its parent goes on
        // in the same frame, which the child does not return from.
        #[allow(deprecated)]
        let child = unsafe { libc::vfork() };
        if child == 0 {
            work();
            // SAFETY: a list of C strings that ends with null.
            unsafe {
                libc::execvp(list[0], list.as_ptr());
                libc::_exit(1);
            }
        }
        let mut status = 0;
        // SAFETY: a child of this process.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    };
    child();
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            child();
            calls(5);
        });
        thread.join().expect("it ends");
    });
}

/// A daemon by the book, with records all along.
fn daemon(reports: Reports) {
    // SAFETY: makes the daemon's end known to this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
    wait_for(fork(|| {
        anew();
        calls(3);
        // SAFETY: plain system calls.
        unsafe { libc::setsid() };
        fork(|| {
            anew();
            // SAFETY: as above.
            unsafe {
                libc::umask(0o777);
                libc::chdir(c"/".as_ptr());
                (0..1024).for_each(|fd| {
                    libc::close(fd);
                });
                for _ in 0..3 {
                    libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
                }
            }
            calls(7);
            let thread = thread::spawn(|| calls(4));
            thread.join().expect("it ends");
            reports.report(records());
        });
        reports.report(records());
    }));
    let mut status = 0;
    // SAFETY: waits for the daemon, which is ours now.
    assert!(unsafe { libc::wait(&raw mut status) } > 0);
    assert_eq!(status, children::WELL << 8);
}

/// Forks while another thread brings the recorder up. Each time in a process of its own: it comes up once.
fn installing(reports: Reports) {
    for nth in 0..30 {
        wait_for(fork(|| {
            let enables = thread::spawn(|| drop(fdr::enable()));
            (0..nth * nth * 160).for_each(|_| std::hint::spin_loop());
            wait_for(fork(|| {
                fdr::enable().expect("it can be recorded");
                anew();
                calls(5);
                reports.report(records());
            }));
            enables.join().expect("it ends");
            calls(1);
        }));
    }
}

/// The same process, another image of the program.
fn exec() {
    let this = env::current_exe().expect("this program");
    let this = std::ffi::CString::new(this.into_os_string().into_encoded_bytes()).expect("a path");
    let list = [this.as_ptr(), c"nothing".as_ptr(), std::ptr::null()];
    // SAFETY: a list of C strings that ends with null.
    unsafe { libc::execv(this.as_ptr(), list.as_ptr()) };
}

fn main() {
    let reports = Reports::new();
    let way = env::args().nth(1).unwrap_or_default();
    calls(10);
    match way.as_str() {
        "nothing" => {}
        "handler" => handler(reports),
        "first" => first(reports),
        "raw" => raw(reports),
        "shared" => shared(),
        "daemon" => daemon(reports),
        "installing" => installing(reports),
        "exec" => exec(),
        other => panic!("no such way: {other:?}"),
    }
    calls(10);
    println!("pid {}", process::id());
    println!("records {}", records());
    let open = fs::read_dir("/proc/self/fd").expect("its descriptors");
    println!("open {}", open.count());
    reports.print();
}
