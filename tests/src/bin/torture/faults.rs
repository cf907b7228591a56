//! Random combinations of faults around a program: a full disk, a folder that can't be written or goes away, limits on
//! files and descriptors, signals, children. The program's output must be that of a run without the recorder, with the
//! same faults. It must end in the same way.

use std::path::Path;

use fdr_tests::support::faults::{self, Row, UNSHARE};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::random::Random;

use crate::decoded_trace::decode_trace;
use crate::plan::{Plan, Tally, Try};

/// What the program `steadfast` does, up to four of them, before it ends.
const STEPS: [&str; 8] = [
    "work", "much", "threads", "signal", "dump", "caught", "fork", "lose",
];
const ENDS: [&str; 8] = [
    "",
    "exit",
    "exit-in-thread",
    "panic",
    "twice",
    "abort",
    "crash",
    "silent",
];
const OUTS: [&str; 9] = [
    "",
    "traces/",
    "%n.fdr",
    "file/%n.fdr",
    "/proc/%n.fdr",
    "/dev/full",
    "/dev/null",
    "a/b/%n.fdr",
    "rings/",
];
const DIRS: [&str; 5] = ["", "rings/", "file/x", "/proc", "/dev/null"];
const SMALL: &str = "mount -t tmpfs -o size=64K none small";

pub(crate) fn run(plan: &Plan) -> Tally {
    let folder = Folder::within(&plan.folder, "fdr-torture-may");
    let may_mount = faults::may("full disks", &folder, &format!("mkdir small; {SMALL}"));
    plan.each(2, 1, |attempt| process(attempt, may_mount))
}

fn any<'a>(random: &mut Random, values: &[&'a str]) -> &'a str {
    values[random.below(values.len() as u64) as usize]
}

/// What is done before the program is run: a script, and the command that runs the program.
fn trouble(random: &mut Random, end: &str) -> (String, String) {
    let mut before = "mkdir small; : > file".to_owned();
    match random.below(4) {
        0 => {
            let kib = 4 << random.below(13);
            before += &format!("; mount -t tmpfs -o size={kib}K none small && cd small");
            if random.below(2) == 0 {
                before += "; head -c 64M /dev/zero > rest 2> /dev/null; true";
            }
        }
        1 => before += "; mount -t tmpfs -o ro none small && cd small",
        2 => before += "; cd small && rmdir ../small",
        _ => {}
    }
    let mut limits = "prlimit --core=0".to_owned();
    if random.below(2) == 0 {
        let most = 1 << random.below(19);
        limits += &format!(" --fsize={}", random.below(most) * 512);
    }
    if random.below(3) == 0 {
        // The recorder has two descriptors of its own. So a program that needs all descriptors up to its limit, as for
        // the names in a backtrace, differs with the recorder. Any program needs a fourth, for its libraries, before it
        // begins.
        let least = if end == "twice" { 7 } else { 4 };
        limits += &format!(" --nofile={}", least + random.below(8));
    }
    (before, limits)
}

/// The recorder's variables.
fn variables(random: &mut Random) -> String {
    let sizes = [
        "128K FDR_MEMORY=384K",
        "1M FDR_MEMORY=64M",
        "4M FDR_MEMORY=1G",
    ];
    let buffer = any(random, &sizes);
    let mut variables = format!("FDR=1 FDR_SIGNAL=WINCH FDR_BUFFER={buffer}");
    for (name, values) in [
        ("FDR_OUT", &OUTS[..]),
        ("FDR_DIR", &DIRS),
        ("FDR_KEEP", &["", "0", "20ms"]),
        ("FDR_BUDGET", &["", "", "0.0001%"]),
    ] {
        let value = any(random, values);
        if !value.is_empty() {
            variables += &format!(" {name}={value}");
        }
    }
    variables
}

fn process(attempt: &Try<'_>, may_mount: bool) {
    let mut random = attempt.random();
    let folder = attempt.folder(random.below(2) == 0);
    let end = match any(&mut random, &ENDS) {
        // A fault that is sent once more, as the recorder does, is one of the emulator's own.
        "crash" if attempt.plan.is_emulated() => "abort",
        end => end,
    };
    let mut steps = "work".to_owned();
    for _ in 0..random.below(4) {
        steps = format!("{steps} {}", any(&mut random, &STEPS));
    }
    let (mut before, limits) = trouble(&mut random, end);
    if before.contains("mount") && !may_mount {
        attempt.count("tries without the file system that they were to have", 1);
        "true".clone_into(&mut before);
    }
    let around = if may_mount { UNSHARE } else { &[] };
    let steps = format!("{steps} {end}");
    let program = attempt.program("steadfast");
    let row = Row::new(&program, &variables(&mut random), &before, steps.trim());
    let row = row.with_prefix(&limits).with_check(check_trace);
    let left = row.check_in(&folder, around);
    let (warnings, traces) = (left.warnings, left.traces.len());
    attempt.count(&format!("programs with {warnings} lines of warning"), 1);
    attempt.count("traces that were looked at", traces as u64);
}

fn check_trace(path: &Path) {
    decode_trace(path);
}
