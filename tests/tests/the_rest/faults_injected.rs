//! Every system call that the recorder makes for a trace fails once: the program must not notice, and
//! nothing half-made may be left. The calls are those of a run that went well; strace has them fail. What
//! only interrupts a call, or takes a part of what is written, must not even cost the trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::faults_support::{Row, steadfast};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::verify;
use fdr_tests::support::wait::until;

/// A call, and what it fails with.
const FAILURES: [(&str, &[&str]); 19] = [
    ("openat", &["EMFILE", "EACCES", "EINTR"]),
    ("pwritev", &["ENOSPC", "EIO", "EINTR"]),
    ("madvise", &["EFAULT", "EINVAL", "ENOMEM"]),
    ("write", &["ENOSPC", "EINTR"]),
    ("pwrite64", &["EIO", "EINTR"]),
    ("rename", &["EROFS", "EIO"]),
    ("renameat2", &["EROFS", "EIO"]),
    ("unlink", &["EPERM"]),
    ("unlinkat", &["EPERM"]),
    ("mkdir", &["EACCES"]),
    ("mkdirat", &["EACCES"]),
    ("mmap", &["ENOMEM", "EAGAIN"]),
    ("clone", &["EAGAIN", "EPERM"]),
    ("clone3", &["EAGAIN", "EPERM"]),
    ("close_range", &["ENOSYS", "EPERM"]),
    ("flock", &["ENOLCK", "EIO", "EINTR"]),
    ("fcntl", &["EMFILE"]),
    ("fchmod", &["EPERM", "EIO"]),
    ("lseek", &["EIO"]),
];

/// What a call can fail with, and the trace is there all the same.
const HARMLESS: [&str; 1] = ["EINTR"];

/// The most calls of one kind that fail in a thread. Each fails in a run of its own.
const MAX: usize = 5;

const PLACES: &str =
    "FDR=1 FDR_OUT=traces/ FDR_DIR=traces FDR_PANIC=1 FDR_BUFFER=128K FDR_MEMORY=512K";
/// What is recorded how, what the program does, and how many traces that makes. The program itself makes no threads,
/// because the system call that makes a thread does not show whether the recorder makes it.
const RUNS: [(&str, &str, usize); 4] = [
    ("", "work dump caught exit", 3),
    ("", "work abort", 1),
    ("FDR_FORMAT=heph", "work exit", 1),
    ("FDR_MODE=stream", "work exit", 1),
];

/// Whether a call, as strace prints it, is the recorder's and not the loader's or the program's.
fn is_ours(call: &str) -> bool {
    let named = |name: &str| call.starts_with(name);
    if ["openat(", "mkdir(", "mkdirat(", "unlink(", "unlinkat("]
        .iter()
        .any(|name| named(name))
    {
        return call.contains("/traces/");
    }
    if named("mmap(") {
        return call.contains("MAP_NORESERVE") || call.contains("MAP_SHARED");
    }
    if named("write(") {
        return !named("write(1,") && !named("write(2,") || named("write(2, \"fdr: ");
    }
    if named("madvise(") {
        return call.contains("MADV_POPULATE_WRITE") || call.contains("0x17");
    }
    if named("fcntl(") {
        return call.contains("F_DUPFD_CLOEXEC");
    }
    // Nothing else in the program, nor in what starts it, makes these.
    [
        "pwritev(",
        "pwrite64(",
        "rename(",
        "renameat2(",
        "clone(",
        "clone3(",
        "close_range(",
        "flock(",
        "fchmod(",
        "lseek(",
    ]
    .iter()
    .any(|name| named(name))
}

/// The numbers of the recorder's calls of each kind, as strace counts: in each thread.
fn ours(log: &str) -> BTreeMap<&'static str, BTreeSet<usize>> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut ours: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut others: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        let known = FAILURES.iter().find(|(name, _)| {
            call.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('('))
        });
        let Some((name, _)) = known else { continue };
        let count = counts.entry((thread, name)).or_default();
        *count += 1;
        let whose = if is_ours(call) {
            &mut ours
        } else {
            &mut others
        };
        whose.entry(name).or_default().insert(*count);
    }
    for (name, numbers) in &others {
        if let Some(ours) = ours.get_mut(name) {
            for number in numbers {
                ours.remove(number);
                // The thread that asked for a trace says why there is none. Then its later writes are one more.
                if *name == "write" {
                    ours.remove(&(number + 1));
                }
            }
        }
    }
    ours
}

/// At most [`MAX`] of them, from the whole length.
fn some(numbers: &BTreeSet<usize>) -> Vec<usize> {
    let step = numbers.len().div_ceil(MAX).max(1);
    let last = numbers.last().copied();
    let some = numbers.iter().copied().step_by(step);
    some.chain(last)
        .collect::<BTreeSet<usize>>()
        .into_iter()
        .collect()
}

#[test]
fn any_call_may_fail() {
    let Some(_) = fdr_tests::reader("strace", "system calls that fail") else {
        return;
    };
    for (how, steps, traces) in RUNS {
        let run = Run {
            variables: format!("{PLACES} {how}"),
            steps,
            traces,
        };
        let calls = run.calls();
        let mut tried = 0;
        for (name, errors) in FAILURES {
            // Which calls there are depends on the machine's architecture and C library.
            for number in calls.get(name).map(some).unwrap_or_default() {
                let failed = errors.iter().filter(|error| run.fails(name, error, number));
                tried += failed.count();
            }
        }
        // Calls of a thread that stands in for another one often have the number of a call of the program.
        assert!(tried >= 20, "{how} {steps}: {tried} calls, of {calls:?}");
    }
}

/// The rename of each trace takes as long as on a disk that hangs. Calls of all threads go on meanwhile, slow ones and
/// short ones, whether they fill their rings or not.
#[test]
fn a_disk_that_hangs_holds_up_no_call() {
    let Some(_) = fdr_tests::reader("strace", "a disk that hangs") else {
        return;
    };
    for keep in ["10s", "0"] {
        let folder = Folder::new("fault-hangs");
        let hang =
            ["rename", "renameat2"].map(|name| format!("inject={name}:delay_enter=10000000"));
        let program = Program::new("strace", &folder)
            .args(&["-f", "-qq", "-o", "calls", "-e", "trace=rename,renameat2"])
            .args(&["-e", &hang[0], "-e", &hang[1]])
            .args(&[env!("CARGO_BIN_EXE_programs"), "triggered"])
            .set("FDR=1 FDR_OUT=out/ FDR_DIR=rings/ FDR_BUFFER=128K")
            .env("FDR_KEEP", keep)
            .env("FDR_TRIGGER", "programs::triggered::handle>50ms /0");
        let mut program = program.start();
        let traces = |named: bool| {
            let names = fs::read_dir(folder.join("out")).into_iter().flatten();
            let mut names = names.map(|entry| entry.expect("an entry").path());
            names.any(|path| path.extension().is_some_and(|end| end == "fdr") == named)
        };
        program.tell("slow 100");
        assert_eq!(program.line(), "done");
        until("a trace without its name", || traces(false).then_some(()));
        for line in ["quick 20000", "slow 60", "many 4 300"] {
            program.tell(line);
            assert_eq!(program.line(), "done");
        }
        assert!(!traces(true), "the disk did not hang");
        let _ = program.end().ok();
        assert!(traces(true) && !traces(false));
        for entry in fs::read_dir(folder.join("out")).expect("a folder") {
            verify(&entry.expect("an entry").path());
        }
    }
}

struct Run {
    variables: String,
    steps: &'static str,
    traces: usize,
}

impl Run {
    fn row(&self, injection: &str) -> Row {
        steadfast(&self.variables, "mkdir traces", self.steps).with_injection(injection)
    }

    /// The recorder's calls where nothing fails.
    fn calls(&self) -> BTreeMap<&'static str, BTreeSet<usize>> {
        let kinds: Vec<&str> = FAILURES.iter().map(|(name, _)| *name).collect();
        let folder = Folder::new("fault-calls");
        let log = folder.join("calls");
        let (kinds, to) = (kinds.join(","), log.display());
        let watch = format!("strace -f -qq -s 16 -e trace={kinds} -o {to}");
        let left = self.row(&watch).check_in(&folder, &[]);
        let warnings = left.warnings + left.lost;
        assert_eq!((warnings, left.traces.len()), (0, self.traces), "{left:?}");
        ours(&fs::read_to_string(&log).expect("the calls"))
    }

    /// One call fails; false where it was not made this time, as the threads happened to go.
    fn fails(&self, name: &str, error: &str, number: usize) -> bool {
        let folder = Folder::new("fault-call");
        let log = folder.join("calls");
        let inject = format!(
            "strace -f -qq -e trace={name} -e inject={name}:error={error}:when={number} -o {}",
            log.display()
        );
        let row = match name.starts_with("unlink") {
            true => self.row(&inject).with_leftovers(),
            false => self.row(&inject),
        };
        let left = row.check_in(&folder, &[]);
        if HARMLESS.contains(&error) {
            let found = (left.warnings + left.lost, left.traces.len());
            assert_eq!(found, (0, self.traces), "{row:?}: {left:?}");
        }
        let calls = fs::read_to_string(&log).expect("the calls");
        calls.contains("(INJECTED)")
    }
}
