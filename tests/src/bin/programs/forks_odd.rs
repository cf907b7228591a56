//! Children that are made in unusual ways and at unusual moments: in a signal handler at every instruction of a record,
//! by a system call that the C library does not notice, and while the recorder starts. Others are a daemon, and a
//! program that executes itself. The parent calls `work`. Each child writes into a shared page how many records it
//! made.

use std::env;
use std::fs;
use std::process;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use fdr::traced;
use fdr_tests::counted_functions;
use fdr_tests::programs::calls::repeat;
use fdr_tests::programs::children::{self, Reports, fork, leave, wait_for};
use fdr_tests::programs::stepping::{end_steps, on_each_step_with_state, stepping};

counted_functions!(work: traced, work_untimed: traced(untimed));

/// Signals that came while single-stepping; whether the next one may fork; the children.
static TRAPS: AtomicU64 = AtomicU64::new(0);
static MAY_FORK: AtomicBool = AtomicBool::new(false);
static LAST: AtomicU64 = AtomicU64::new(0);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Forks now and then. The child makes calls in the handler. Then it continues at the same instruction as its parent.
extern "C" fn on_trap(_: i32, _: *mut libc::siginfo_t, state: *mut libc::c_void) {
    let trap = TRAPS.fetch_add(1, Ordering::Relaxed);
    // A prime: every place in a call has its turn. The rings of 256 dead children stay, so there are fewer.
    if trap.is_multiple_of(151) && MAY_FORK.load(Ordering::Relaxed) {
        fork_here(trap, state);
    }
}

/// The step of a first record at which a handler records, and the later one at which another one forks.
static RECORD_AT: AtomicU64 = AtomicU64::new(0);
static FORK_AT: AtomicU64 = AtomicU64::new(0);

extern "C" fn on_first(_: i32, _: *mut libc::siginfo_t, state: *mut libc::c_void) {
    let trap = TRAPS.fetch_add(1, Ordering::Relaxed);
    if !MAY_FORK.load(Ordering::Relaxed) {
        return;
    }
    if trap == RECORD_AT.load(Ordering::Relaxed) {
        work();
    } else if trap == FORK_AT.load(Ordering::Relaxed) {
        fork_here(1, state);
        // SAFETY: this is the handler, and `state` is what the kernel gave it.
        unsafe { end_steps(state) };
    }
}

/// In a handler. The child's own steps show nothing: each of them costs a signal, and a first record in a child takes
/// many thousands.
fn fork_here(trap: u64, state: *mut libc::c_void) {
    // SAFETY: the child does what a handler may do, and goes on with the code that was interrupted.
    match unsafe { libc::fork() } {
        0 => {
            MAY_FORK.store(false, Ordering::Relaxed);
            // SAFETY: as in `on_first`.
            unsafe { end_steps(state) };
            CALLS.anew();
            repeat(trap % 5, work);
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

/// In each thread's first record one handler records, and one a few instructions later forks. The child
/// goes on in the handler, and in the record.
fn first(reports: Reports) {
    on_each_step_with_state(on_first);
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
                repeat(2, work);
                reports.report(CALLS.records());
                leave();
            }
        });
        thread.join().expect("it ends");
    }
    println!("failed {}", FAILED.load(Ordering::Relaxed));
}

/// Forks on every kind of instruction of a record: in common records, in a chunk's last and first record, and in a
/// thread's first record.
fn handler(reports: Reports, work: fn()) {
    on_each_step_with_state(on_trap);
    let round = |before: u64| {
        repeat(before, work);
        let parent = process::id();
        MAY_FORK.store(true, Ordering::Relaxed);
        stepping(|| repeat(4, work));
        MAY_FORK.store(false, Ordering::Relaxed);
        if process::id() != parent {
            repeat(2, work);
            reports.report(CALLS.records());
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
    let child = children::fork_unnoticed();
    if child == 0 {
        CALLS.anew();
        repeat(20_000, work);
        reports.report(CALLS.records());
        leave();
    }
    wait_for(child);
}

/// A child that runs in its parent's memory until it executes another program. Another such child makes the first
/// record of its thread.
fn shared() {
    let child = || {
        let list = [c"true".as_ptr(), std::ptr::null()];
        // SAFETY: the child makes traced calls, which may be made anywhere, and leaves. Its parent continues in the
        // same frame, from which the child does not return.
        #[allow(deprecated, reason = "programs use it")]
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
            repeat(5, work);
        });
        thread.join().expect("it ends");
    });
}

/// A daemon by the book, with records all along.
fn daemon(reports: Reports) {
    // SAFETY: makes the daemon's end known to this process.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }, 0);
    wait_for(fork(|| {
        CALLS.anew();
        repeat(3, work);
        // SAFETY: plain system calls.
        unsafe { libc::setsid() };
        fork(|| {
            CALLS.anew();
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
            repeat(7, work);
            let thread = thread::spawn(|| repeat(4, work));
            thread.join().expect("it ends");
            reports.report(CALLS.records());
        });
        reports.report(CALLS.records());
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
                CALLS.anew();
                repeat(5, work);
                reports.report(CALLS.records());
            }));
            enables.join().expect("it ends");
            repeat(1, work);
        }));
    }
}

/// The same process, another image of the program.
fn exec() {
    let this = env::current_exe().expect("this program");
    let this = std::ffi::CString::new(this.into_os_string().into_encoded_bytes()).expect("a path");
    let list = [
        this.as_ptr(),
        c"forks_odd".as_ptr(),
        c"nothing".as_ptr(),
        std::ptr::null(),
    ];
    // SAFETY: a list of C strings that ends with null.
    unsafe { libc::execv(this.as_ptr(), list.as_ptr()) };
}

pub(crate) fn main(words: &[&str]) {
    let reports = Reports::new();
    repeat(10, work);
    match words {
        ["nothing"] => {}
        ["handler"] => handler(reports, work),
        ["handler-untimed"] => handler(reports, work_untimed),
        ["first"] => first(reports),
        ["raw"] => raw(reports),
        ["shared"] => shared(),
        ["daemon"] => daemon(reports),
        ["installing"] => installing(reports),
        ["exec"] => exec(),
        other => panic!("no such way: {other:?}"),
    }
    repeat(10, work);
    println!("pid {}", process::id());
    println!("records {}", CALLS.records());
    let open = fs::read_dir("/proc/self/fd").expect("its descriptors");
    println!("open {}", open.count());
    reports.print();
}
