//! Rights that a program gives away: users, roots, namespaces, and system calls.

use std::env;
use std::fs;
use std::io;

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
    ("calls-refused", || filtered(Answer::Error, true)),
    ("calls-refused-to-the-only-thread", || {
        filtered(Answer::Error, false)
    }),
    ("calls-refused-to-all", || filtered_all(Answer::Error)),
    ("calls-kill-the-thread", || {
        filtered(Answer::KillThread, true)
    }),
    ("calls-kill-the-process", || {
        filtered(Answer::KillProcess, true)
    }),
    ("calls-kill-the-only-thread", || {
        filtered(Answer::KillThread, false)
    }),
    ("calls-kill-the-only-process", || {
        filtered(Answer::KillProcess, false)
    }),
    ("ends-kill-the-thread", || {
        filtered_end(Answer::KillThread, true)
    }),
    ("ends-kill-the-process", || {
        filtered_end(Answer::KillProcess, true)
    }),
    ("ends-kill-the-only-thread", || {
        filtered_end(Answer::KillThread, false)
    }),
    ("ends-kill-the-only-process", || {
        filtered_end(Answer::KillProcess, false)
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

/// What a filter does with a call that it does not allow.
#[derive(Clone, Copy)]
enum Answer {
    Error,
    KillThread,
    KillProcess,
}

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

/// These calls are not allowed any more.
fn forbid(calls: &[libc::c_long], answer: Answer, flags: libc::c_ulong) -> i64 {
    let answer = match answer {
        Answer::Error => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        Answer::KillThread => libc::SECCOMP_RET_KILL_THREAD,
        Answer::KillProcess => libc::SECCOMP_RET_KILL_PROCESS,
    };
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf,
        k,
    };
    let mut filter = vec![step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for &call in calls {
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        filter.push(step(equal, 1, call as u32));
        filter.push(step(libc::BPF_RET | libc::BPF_K, 0, answer));
    }
    let allow = libc::SECCOMP_RET_ALLOW;
    filter.push(step(libc::BPF_RET | libc::BPF_K, 0, allow));
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: the program and its filter are valid for reading.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        let mode = libc::SECCOMP_SET_MODE_FILTER;
        libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program)
    }
}

/// The filter is for this thread alone. `crowded`: the program has had other threads before.
fn filtered(answer: Answer, crowded: bool) {
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
fn filtered_end(answer: Answer, crowded: bool) {
    match crowded {
        true => say(crowd(1000)),
        false => say(work(1000)),
    }
    print_result("seccomp", forbid(&NAMES, answer, 0));
    say(work(10));
}

/// The filter is for all threads, those among them that the program does not know.
fn filtered_all(answer: Answer) {
    say(crowd(1000));
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC;
    print_result("seccomp", forbid(&FILES, answer, flags));
    say(crowd(20_000));
}
