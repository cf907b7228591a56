//! Every system call that the recorder makes for a trace fails once: the program must not notice, and
//! nothing half-made may be left. The calls are those of a run that went well; strace has them fail. What
//! only interrupts a call, or takes a part of what is written, must not even cost the trace.

mod faults_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use faults_support::Row;
use fdr_tests::support::folder::Folder;

/// A call, and what it fails with.
const FAILURES: [(&str, &[&str]); 14] = [
    ("openat", &["EMFILE", "EACCES", "EINTR"]),
    ("fallocate", &["ENOSPC", "EOPNOTSUPP", "EINTR"]),
    ("write", &["ENOSPC", "EINTR"]),
    ("pwrite64", &["EIO", "EINTR"]),
    ("rename", &["EROFS"]),
    ("renameat2", &["EROFS"]),
    ("unlink", &["EPERM"]),
    ("unlinkat", &["EPERM"]),
    ("mkdir", &["EACCES"]),
    ("mmap", &["ENOMEM"]),
    ("clone3", &["EAGAIN"]),
    ("fcntl", &["EMFILE"]),
    ("fchmod", &["EPERM"]),
    ("lseek", &["EIO"]),
];

/// What a call can fail with, and the trace is there all the same.
const HARMLESS: [&str; 2] = ["EINTR", "EOPNOTSUPP"];

/// At most so many of one thread's calls of a kind fail, each in a run of its own.
const MOST: usize = 8;

const PLACES: &str =
    "FDR=1 FDR_OUT=traces/ FDR_DIR=traces FDR_PANIC=1 FDR_BUFFER=128K FDR_MEMORY=512K";
/// What the program does, and how many traces that makes.
const STEPS: [(&str, usize); 2] = [("work dump caught exit", 3), ("work abort", 1)];

/// Whether a call, as strace prints it, is the recorder's and not the loader's or the program's.
fn is_ours(call: &str) -> bool {
    let named = |name: &str| call.starts_with(name);
    if ["openat(", "mkdir(", "unlink(", "unlinkat("]
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
    if named("fcntl(") {
        return call.contains("F_DUPFD_CLOEXEC");
    }
    // Nothing else in the program, nor in what starts it, makes these.
    [
        "fallocate(",
        "pwrite64(",
        "rename(",
        "renameat2(",
        "clone3(",
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
            numbers.iter().for_each(|number| {
                ours.remove(number);
            });
        }
    }
    ours
}

/// At most [`MOST`] of them, from the whole length.
fn some(numbers: &BTreeSet<usize>) -> Vec<usize> {
    let step = numbers.len().div_ceil(MOST).max(1);
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
    for (steps, traces) in STEPS {
        let calls = calls_of(steps, traces);
        let mut tried = 0;
        for (name, errors) in FAILURES {
            // Which calls there are depends on the machine's architecture and C library.
            let numbers = calls.get(name).map(some).unwrap_or_default();
            for (number, error) in numbers
                .iter()
                .flat_map(|number| errors.iter().map(move |error| (number, error)))
            {
                fails(steps, traces, name, error, *number);
                tried += 1;
            }
        }
        assert!(tried >= 20, "{steps}: {tried} calls, of {calls:?}");
    }
}

/// The recorder's calls in a run that goes well.
fn calls_of(steps: &str, traces: usize) -> BTreeMap<&'static str, BTreeSet<usize>> {
    let kinds: Vec<&str> = FAILURES.iter().map(|(name, _)| *name).collect();
    let folder = Folder::new("fault-calls");
    let log = folder.join("calls");
    let (kinds, to) = (kinds.join(","), log.display());
    let watch = format!("strace -f -qq -s 16 -e trace={kinds} -o {to}");
    let row = Row::new(PLACES, "mkdir traces", steps).with_injection(&watch);
    let left = row.check_in(&folder, &[]);
    assert_eq!((left.said, left.traces.len()), (0, traces), "{left:?}");
    ours(&fs::read_to_string(&log).expect("the calls"))
}

/// A run in which one call fails.
fn fails(steps: &str, traces: usize, name: &str, error: &str, number: usize) {
    let inject = format!(
        "strace -f -qq -e trace=none -e inject={name}:error={error}:when={number} -o /dev/null"
    );
    let row = Row::new(PLACES, "mkdir traces", steps).with_injection(&inject);
    let row = if name.starts_with("unlink") {
        row.with_leftovers()
    } else {
        row
    };
    let left = row.check(&[]);
    if HARMLESS.contains(&error) {
        assert_eq!(
            (left.said, left.traces.len()),
            (0, traces),
            "{inject}: {left:?}"
        );
    }
}
