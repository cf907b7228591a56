//! The system calls of the recorder's handlers, as strace sees them between a signal and its end. Each must be on a
//! list of safe calls: none waits for a lock, none changes the heap. Another thread, or the interrupted code, could be
//! in the middle of that.

use std::collections::BTreeSet;
use std::fs;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;

/// What a handler may call, by number and name: the calls of signal-safety(7), and kernel calls that keep no state in
/// the C library. Those tell process and time, work on files, or pass the signal on.
const SAFE: &[&str] = &[
    "clock_gettime",
    "close",
    "close_range",
    "exit",
    "faccessat",
    "fallocate",
    "fchmod",
    "flock",
    "fstat",
    "ftruncate",
    "getpid",
    "gettid",
    "linkat",
    "lseek",
    "mprotect",
    "newfstatat",
    "openat",
    "ppoll",
    "prctl",
    "pwrite64",
    "pwritev",
    "renameat2",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_tgsigqueueinfo",
    "sched_yield",
    "sigaltstack",
    "statx",
    "tgkill",
    "unlinkat",
    "write",
    "writev",
];

/// Calls that are safe with certain arguments only. A futex call may wake threads. It may wait only for the end of a
/// thread that stands in for the caller. No call that makes memory is in this list.
const SAFE_SO: &[(&str, &str)] = &[
    ("futex", "FUTEX_WAKE"),
    ("futex", "FUTEX_WAIT, 1, NULL"),
    ("clone", "CLONE_CHILD_CLEARTID"),
];

/// One call that a handler made.
struct Call {
    name: String,
    line: String,
}

impl Call {
    fn is_safe(&self) -> bool {
        SAFE.contains(&self.name.as_str())
            || SAFE_SO
                .iter()
                .any(|(name, words)| self.name == *name && self.line.contains(words))
    }
}

/// The threads that a thread makes to stand in for it.
fn stand_ins<'a>(log: &'a str, thread: &str) -> BTreeSet<&'a str> {
    let made = |line: &'a str| {
        let (id, rest) = line.split_once(' ')?;
        let is_clone = id == thread && rest.contains("clone");
        rest.rsplit_once(" = ").filter(|_| is_clone)
    };
    log.lines().filter_map(made).map(|(_, id)| id).collect()
}

/// The calls from the signal's arrival to the end of the handler or of the process. They are those of the thread that
/// got the signal, and of the threads that stand in for it.
fn calls_of_handler(log: &str, signal: &str) -> Vec<Call> {
    let arrival = format!("--- {signal} ");
    let mut thread = None;
    let mut others = BTreeSet::new();
    let mut calls = Vec::new();
    for line in log.lines() {
        let Some((id, rest)) = line.split_once(' ') else {
            continue;
        };
        let rest = rest.trim_start();
        if thread.is_none() && rest.starts_with(&arrival) {
            thread = Some(id);
            others = stand_ins(log, id);
        } else if thread == Some(id) || others.contains(id) {
            if rest.starts_with("rt_sigreturn") || rest.starts_with("+++") {
                if others.contains(id) {
                    continue;
                }
                return calls;
            }
            // The second half of a call whose line was interrupted by another thread's, or a signal within the
            // handler.
            if rest.starts_with('<') || rest.starts_with("---") {
                continue;
            }
            let name = rest.split('(').next().unwrap_or_default().to_owned();
            calls.push(Call {
                name,
                line: rest.to_owned(),
            });
        }
    }
    panic!("{signal}: no whole handler in\n{log}");
}

/// What the program does under strace; `None` and a skip where that can't be.
fn traced(way: &str, folder: &Folder) -> Option<String> {
    let strace = fdr_tests::reader("strace", "the system calls of signal handlers")?;
    let output = Folder::new("syscalls-strace");
    let calls = output.join("calls");
    let command = [
        "-f",
        "-o",
        calls.to_str().expect("UTF-8"),
        env!("CARGO_BIN_EXE_no_alloc"),
        way,
    ];
    let outcome = Program::new(strace, folder)
        .args(&command)
        .set("FDR=1 FDR_OUT=trace.fdr")
        .run();
    if outcome.stderr.to_lowercase().contains("ptrace") {
        fdr_tests::skip("the system calls of signal handlers: strace may not trace");
        return None;
    }
    Some(fs::read_to_string(&calls).expect("strace's file"))
}

fn assert_safe(way: &str, signal: &str, must: &[&str]) {
    let folder = Folder::new("syscalls");
    let Some(log) = traced(way, &folder) else {
        return;
    };
    let calls = calls_of_handler(&log, signal);
    for call in &calls {
        assert!(call.is_safe(), "{way}: {}", call.line);
    }
    // The expected calls must be there. Otherwise an empty list would pass the test.
    for name in must {
        let made = calls.iter().any(|call| call.name == *name);
        assert!(made, "{way}: no {name} in {}", calls.len());
    }
}

#[test]
fn the_dump_signals_handler_only_wakes() {
    assert_safe("dump-signal", "SIGUSR2", &["futex"]);
}

#[test]
fn the_crash_handler_makes_safe_calls() {
    assert_safe("crash", "SIGSEGV", &["openat", "pwrite64", "renameat2"]);
    assert_safe("abort", "SIGABRT", &["openat", "pwrite64", "renameat2"]);
}

#[test]
fn a_log_is_read_by_thread() {
    let log = "7 write(1, \"x\", 1) = 1\n\
               8 --- SIGUSR2 {si_signo=SIGUSR2} ---\n\
               7 brk(NULL) = 0x55\n\
               8 futex(0x7f, FUTEX_WAKE_PRIVATE, 1 <unfinished ...>\n\
               7 mmap(NULL, 4096) = 0x7f\n\
               8 <... futex resumed>) = 1\n\
               8 brk(0x56) = 0x56\n\
               8 rt_sigreturn({mask=[]}) = 0\n\
               8 mmap(NULL, 4096) = 0x7f\n";
    let calls = calls_of_handler(log, "SIGUSR2");
    let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
    assert_eq!(names, ["futex", "brk"]);
    assert!(calls[0].is_safe() && !calls[1].is_safe());
    let waits =
        "8 --- SIGUSR2 {} ---\n8 futex(0x7f, FUTEX_WAIT_PRIVATE, 1, NULL) = 0\n8 +++ exited +++\n";
    assert!(!calls_of_handler(waits, "SIGUSR2")[0].is_safe());
}
