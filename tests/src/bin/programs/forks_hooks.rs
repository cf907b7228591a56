//! Forks whose hooks do unusual things: they record in the child before the recorder knows of the child, or they fork
//! again. Other children are made by system calls without the C library, during a fork, and in namespaces where they
//! have their parent's number. The hooks are registered before the recorder's own. Each child writes into a shared
//! page how many records it made.

use std::process;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::thread;

use core_affinity::CoreId;
use fdr::traced;
use fdr_tests::counted_functions;
use fdr_tests::programs::calls::repeat;
use fdr_tests::programs::children::{self, Reports, fork, leave, wait_for};

/// What the hooks do.
static RECORDS: AtomicBool = AtomicBool::new(false);
static FORKS: AtomicBool = AtomicBool::new(false);
static WAITS: AtomicBool = AtomicBool::new(false);

/// The child that a hook forked.
static HOOKS_CHILD: AtomicI32 = AtomicI32::new(0);

counted_functions!(work: traced);

extern "C" fn before() {
    while WAITS.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

extern "C" fn in_child() {
    if RECORDS.load(Ordering::Relaxed) {
        CALLS.anew();
        repeat(5, work);
    }
    if FORKS.swap(false, Ordering::Relaxed) {
        // SAFETY: a fork like any other.
        match unsafe { libc::fork() } {
            // Its own hook made a new beginning.
            0 => repeat(2, work),
            child => HOOKS_CHILD.store(child, Ordering::Relaxed),
        }
    }
}

/// The signals that the thread holds back, as the kernel counts them.
fn mask() -> u64 {
    let mut set = 0_u64;
    // SAFETY: nothing is changed, and the kernel's set has this size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            std::ptr::null::<u64>(),
            &raw mut set,
            size_of::<u64>(),
        )
    };
    assert_eq!(result, 0);
    set
}

/// A child records before the recorder's hook comes; and, if `forks`, has a child before that.
fn hooks(reports: Reports, forks: bool) {
    RECORDS.store(true, Ordering::Relaxed);
    FORKS.store(forks, Ordering::Relaxed);
    wait_for(fork(|| {
        if mask() != 0 {
            process::exit(1);
        }
        repeat(3, work);
        thread::spawn(|| repeat(1, work)).join().expect("it ends");
        reports.report(CALLS.records());
        let child = HOOKS_CHILD.load(Ordering::Relaxed);
        if child != 0 {
            wait_for(child);
        }
    }));
}

/// A thread makes a child by a system call while another one is in a fork, with signals held back.
fn beside(reports: Reports) {
    WAITS.store(true, Ordering::Release);
    let begun = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: a set that is filled in.
            unsafe {
                let mut all: libc::sigset_t = std::mem::zeroed();
                libc::sigfillset(&raw mut all);
                libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
            }
            begun.store(true, Ordering::Release);
            wait_for(fork(|| {
                CALLS.anew();
                repeat(4, work);
                reports.report(CALLS.records());
            }));
        });
        while !begun.load(Ordering::Acquire) {
            thread::yield_now();
        }
        wait_until_held();
        let child = children::fork_unnoticed();
        if child == 0 {
            CALLS.anew();
            let filtered = fdr::set_filter("programs::forks_hooks::*");
            if mask() != 0 || filtered != Ok(1) {
                process::exit(1);
            }
            repeat(6, work);
            if mask() != 0 {
                process::exit(2);
            }
            reports.report(CALLS.records());
            leave();
        }
        // Lets the other thread continue, whatever its state is.
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        unsafe { libc::waitpid(child as i32, &raw mut status, 0) };
        WAITS.store(false, Ordering::Release);
        assert_eq!(status, children::WELL << 8);
    });
}

/// Waits until the forking thread is in its hook and holds the recorder's lock. Threads of their own ask for the
/// lock, because such a thread may block.
fn wait_until_held() {
    let (sender, receiver) = std::sync::mpsc::channel();
    // While the forking thread holds the lock, the other thread gets no answer.
    loop {
        let sender = sender.clone();
        thread::spawn(move || sender.send(fdr::statistics().functions));
        let patience = std::time::Duration::from_millis(50);
        if receiver.recv_timeout(patience).is_err() {
            return;
        }
    }
}

/// Keeps the thread on one CPU. From another CPU number the recorder would notice the child.
fn stay() {
    // SAFETY: it has no arguments.
    let cpu = unsafe { libc::sched_getcpu() };
    let core = CoreId { id: cpu as usize };
    assert!(core_affinity::set_for_current(core));
    repeat(1, work);
}

/// The dump signal in a child that neither the C library nor the recorder knows of.
fn signal(reports: Reports) {
    stay();
    let child = children::fork_unnoticed();
    if child == 0 {
        CALLS.anew();
        // SAFETY: comes before the call returns.
        unsafe { libc::raise(libc::SIGUSR2) };
        repeat(3, work);
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGUSR2) };
        reports.report(CALLS.records());
        leave();
    }
    wait_for(child);
}

/// A process in a namespace of its own, by the system call.
fn in_namespaces(flags: i32, child: impl FnOnce()) -> bool {
    let flags = flags | libc::SIGCHLD;
    // SAFETY: like a fork, with a copy of the memory; the child goes on where its parent is.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        -1 => false,
        0 => {
            child();
            process::exit(children::WELL)
        }
        child => {
            wait_for(child as libc::pid_t);
            true
        }
    }
}

const CRASHES: i32 = libc::CLONE_NEWPID | libc::SIGCHLD;

/// Two generations that both are process 1.
fn namespaces(reports: Reports) {
    let made = in_namespaces(libc::CLONE_NEWUSER | libc::CLONE_NEWPID, || {
        assert_eq!(process::id(), 1);
        CALLS.anew();
        // Noticed here.
        let _ = fdr::statistics();
        repeat(3, work);
        // A child that the recorder does not notice, and that crashes. The records in the ring are not its own. SAFETY:
        // as in `in_namespaces`.
        let child = unsafe { libc::syscall(libc::SYS_clone, CRASHES, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: comes before the call returns.
            unsafe { libc::raise(libc::SIGABRT) };
            leave();
        }
        let mut status = 0;
        // SAFETY: a child of this process, and a place for its status.
        unsafe { libc::waitpid(child as i32, &raw mut status, 0) };
        // A namespace's first process outlives a signal that it sends itself.
        assert_eq!(status, children::WELL << 8);
        assert!(in_namespaces(libc::CLONE_NEWPID, || {
            assert_eq!(process::id(), 1);
            CALLS.anew();
            if !fdr::statistics().threads.is_empty() {
                process::exit(1);
            }
            repeat(5, work);
        }));
        reports.report(CALLS.records());
    });
    println!("made {made}");
}

/// Each generation has a ring, and is a child of the one before. Each tells how many MiB of addresses are
/// inaccessible: they must not run out.
fn generations(reports: Reports, left: u64) {
    CALLS.anew();
    repeat(2, work);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("its mappings");
    let hole = |line: &&str| line.contains("---p 00000000 00:00 0");
    let bytes: u64 = maps.lines().filter(hole).filter_map(length).sum();
    reports.report(bytes >> 20);
    if left > 0 {
        wait_for(fork(|| generations(reports, left - 1)));
    }
}

fn length(line: &str) -> Option<u64> {
    let (from, rest) = line.split_once('-')?;
    let (to, _) = rest.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(to)? - number(from)?)
}

pub(crate) fn main(words: &[&str]) {
    let reports = Reports::new();
    // SAFETY: functions of the right type that don't unwind. Before the recorder's: in a child it comes
    // first, before a fork last.
    let hooked = unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
    assert_eq!(hooked, 0);
    fdr::enable().expect("recording");
    repeat(10, work);
    match words {
        ["records"] => hooks(reports, false),
        ["forks"] => hooks(reports, true),
        ["beside"] => beside(reports),
        ["signal"] => signal(reports),
        ["namespaces"] => namespaces(reports),
        ["generations"] => generations(reports, 8),
        other => panic!("no such way: {other:?}"),
    }
    println!("pid {}", process::id());
    println!("records {}", CALLS.records());
    reports.print();
}
