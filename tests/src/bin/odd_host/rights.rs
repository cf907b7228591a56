//! Rights that a program gives away: users, roots, namespaces, and system calls.

use std::env;
use std::fs;
use std::io;

use fdr_tests::programs::system_calls::forbid;

use crate::{NamedAction, crowd, print_result, request_dump, say, work};

pub(crate) const WAYS: &[NamedAction] = &[
    ("other-user", other_user),
    ("other-root", other_root),
    ("namespace-of-mounts", || unshared(libc::CLONE_NEWNS)),
    ("namespace-of-users", || unshared(libc::CLONE_NEWUSER)),
    ("namespace-of-nets", || unshared(libc::CLONE_NEWNET)),
    ("memory-of-its-own", || unshared(libc::CLONE_VM)),
    ("threads-of-its-own", || unshared(libc::CLONE_THREAD)),
    ("descriptors-of-its-own", || {
        unshared(libc::CLONE_FILES | libc::CLONE_FS)
    }),
    ("namespace-of-processes", processes),
    ("no-new-rights", || controlled(libc::PR_SET_NO_NEW_PRIVS, 1)),
    ("not-dumpable", || controlled(libc::PR_SET_DUMPABLE, 0)),
    ("nothing-executable", || controlled(libc::PR_SET_MDWE, 1)),
    ("no-time-stamps", no_time_stamps),
    ("calls-refused", || filtered(ERROR, true)),
    ("calls-refused-to-the-only-thread", || {
        filtered(ERROR, false)
    }),
    ("calls-refused-to-all", || filtered_all(ERROR)),
    ("calls-kill-the-thread", || {
        filtered(libc::SECCOMP_RET_KILL_THREAD, true)
    }),
    ("calls-kill-the-process", || {
        filtered(libc::SECCOMP_RET_KILL_PROCESS, true)
    }),
    ("calls-kill-the-only-thread", || {
        filtered(libc::SECCOMP_RET_KILL_THREAD, false)
    }),
    ("calls-kill-the-only-process", || {
        filtered(libc::SECCOMP_RET_KILL_PROCESS, false)
    }),
    ("ends-kill-the-thread", || {
        filtered_end(libc::SECCOMP_RET_KILL_THREAD, true)
    }),
    ("ends-kill-the-process", || {
        filtered_end(libc::SECCOMP_RET_KILL_PROCESS, true)
    }),
    ("ends-kill-the-only-thread", || {
        filtered_end(libc::SECCOMP_RET_KILL_THREAD, false)
    }),
    ("ends-kill-the-only-process", || {
        filtered_end(libc::SECCOMP_RET_KILL_PROCESS, false)
    }),
];

fn other_user() {
    say(work(1000));
    // SAFETY: plain system calls on this process.
    unsafe {
        print_result("setresgid", libc::setresgid(65534, 65534, 65534));
        print_result("setresuid", libc::setresuid(65534, 65534, 65534));
    }
    request_dump();
    say(crowd(20_000));
}

fn other_root() {
    say(work(1000));
    fs::create_dir("root").expect("a folder");
    // SAFETY: the paths end with NUL.
    unsafe {
        print_result("chroot", libc::chroot(c"root".as_ptr()));
        print_result("chdir", libc::chdir(c"/".as_ptr()));
    }
    request_dump();
    say(crowd(20_000));
    say(env::current_dir().is_ok());
}

/// The program has made no thread yet.
fn unshared(flags: i32) {
    work(10);
    // SAFETY: a plain system call on this process.
    print_result("unshare", unsafe { libc::unshare(flags) });
    say(work(1000));
    say(crowd(1000));
}

fn processes() {
    work(10);
    // SAFETY: a plain system call on this process.
    print_result("unshare", unsafe { libc::unshare(libc::CLONE_NEWPID) });
    // SAFETY: the only thread of the program; the child ends below.
    let child = unsafe { libc::fork() };
    if child == 0 {
        work(100);
        // SAFETY: ends the process.
        unsafe { libc::exit(7) }
    }
    let mut status = 0;
    // SAFETY: a place for the status.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    say(format_args!("{status:#x}"));
    say(work(100));
}

fn controlled(option: i32, value: u64) {
    work(10);
    // SAFETY: a plain system call on this process.
    print_result("prctl", unsafe { libc::prctl(option, value, 0, 0, 0) });
    request_dump();
    say(crowd(20_000));
}

/// From now on the instruction that reads the processor's clock is a fault.
fn no_time_stamps() {
    work(10);
    // SAFETY: a plain system call on this thread.
    print_result("prctl", unsafe {
        libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV)
    });
    say(work(10));
}

/// A filter's answer to a call that it does not allow.
const ERROR: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// Calls by which files get their names, and lose them.
const NAMES: [libc::c_long; 5] = [
    libc::SYS_openat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
];
/// These, and those that change how long files are and how much space they have.
const FILES: [libc::c_long; 8] = [
    libc::SYS_openat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_pwritev,
];

/// The filter is for this thread alone. `crowded`: the program has had other threads before.
fn filtered(answer: u32, crowded: bool) {
    match crowded {
        true => say(crowd(1000)),
        false => say(work(1000)),
    }
    // Names and places are loaded while that may be done.
    let _ = io::Error::last_os_error().to_string();
    print_result("seccomp", forbid(&FILES, answer, 0));
    say(work(20_000));
    if crowded {
        say(crowd(20_000));
    }
}

/// From now on the program only ends.
fn filtered_end(answer: u32, crowded: bool) {
    match crowded {
        true => say(crowd(1000)),
        false => say(work(1000)),
    }
    print_result("seccomp", forbid(&NAMES, answer, 0));
    say(work(10));
}

/// The filter is for all threads, those among them that the program does not know.
fn filtered_all(answer: u32) {
    say(crowd(1000));
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    print_result("seccomp", forbid(&FILES, answer, flags));
    say(crowd(20_000));
}
