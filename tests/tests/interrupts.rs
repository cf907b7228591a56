//! Signals end the tool while it makes files and folders. Each output is complete under its name, or is not there.
//! Nothing is left under another name, in the output's folder or in the one for temporary files. In some runs strace
//! sends the signal within a system call: the first, second, … call of each kind. In other runs the test sends the
//! signal and then a second one, after one of many delays.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::Duration;

use fdr_formats::registry::target;
use fdr_formats::writer::Output;
use fdr_formats::{Call, Edge, Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo, Writer};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::{reader, tool};

/// The interrupted commands: the words, and the input. `IN` is the trace, `OUT` the output.
const COMMANDS: [(&str, &str); 8] = [
    ("convert IN --to ctf -o OUT", ""),
    ("convert IN --to tcstate -o OUT", ""),
    ("convert IN --to et -o OUT", ""),
    ("pack IN -o OUT", ""),
    ("unpack IN.zst -o OUT", ""),
    // An archive, by way of a file in the folder for temporary files; and read from a folder there.
    ("unpack IN.ctf.tar.zst -o OUT", ""),
    ("report IN.ctf.tar.zst", ""),
    ("listen - -o OUT", "IN"),
];

/// The system calls within which the signal comes. They make, name, write and close files, or begin and end threads
/// and signal handling.
const CALLS: [&str; 16] = [
    "openat",
    "mkdir",
    "rename",
    "renameat2",
    "link",
    "linkat",
    "unlink",
    "unlinkat",
    "write",
    "pwrite64",
    "close",
    "fchmod",
    "chmod",
    "rt_sigaction",
    "clone3",
    "futex",
];

/// Makes a trace of `calls` calls on each of three threads, and the other inputs of the commands from it.
fn traces(folder: &Folder, calls: u64) -> PathBuf {
    let trace = folder.join("t.fdr");
    let xray = target("xray").expect("a format");
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    let file = options.open(&trace).expect("a file");
    let functions = (1..=3).map(|id| Function {
        id: FunctionId(id),
        name: format!("app::f{id}"),
        file: "src/app.rs".into(),
        line: id,
        untimed: false,
        kind: Default::default(),
    });
    let info = TraceInfo {
        functions: functions.collect(),
        program: "app".into(),
        ..TraceInfo::default()
    };
    let mut writer = (xray.create)(Output::File(file), &info).expect("a writer");
    for thread in 1..=3 {
        write_thread(&mut *writer, thread, calls);
    }
    writer.finish().expect("a trace");
    let tool = |words: &[&str]| {
        let _ = Program::new(fdr_tests::tool(), folder)
            .args(words)
            .run()
            .ok();
    };
    tool(&["pack", "-q", "t.fdr"]);
    tool(&["convert", "-q", "t.fdr", "--to", "ctf", "-o", "t.fdr.ctf"]);
    tool(&["pack", "-q", "t.fdr.ctf"]);
    trace
}

fn write_thread(writer: &mut dyn Writer, thread: u64, calls: u64) {
    writer.thread(&Thread {
        id: ThreadId(thread),
        ..Thread::default()
    });
    let edge = |time, function, edge| Call {
        time: Ticks(time),
        function: FunctionId(function),
        edge,
        synthetic: false,
        has_arguments: false,
    };
    for nth in 0..calls {
        let (time, function) = (1000 + 100 * nth, 1 + (nth % 3) as u32);
        writer.calls(&[
            edge(time, function, Edge::Entry),
            edge(time + 50, function, Edge::Exit),
        ]);
    }
}

/// One run of a command, in folders of its own.
struct Run {
    output: Folder,
    temporary: Folder,
    /// What it says.
    messages: Folder,
}

impl Run {
    fn new() -> Run {
        Run {
            output: Folder::new("interrupts-output"),
            temporary: Folder::new("interrupts-temporary"),
            messages: Folder::new("interrupts-said"),
        }
    }

    /// The command, whose words follow those of `around`.
    fn command(&self, around: &[String], (words, fed): (&str, &str), trace: &Path) -> Command {
        let tool = tool();
        let mut all = around.to_vec();
        all.push(tool.to_str().expect("UTF-8").to_owned());
        let trace = trace.to_str().expect("UTF-8");
        let output = self.output.join("out");
        let output = output.to_str().expect("UTF-8");
        let named = |word: &str| word.replace("IN", trace).replace("OUT", output);
        all.extend(words.split(' ').map(named));
        let mut command = Program::new(&all[0], &self.messages).into_command();
        command.args(&all[1..]).env("TMPDIR", self.temporary.path());
        let stderr = File::create(self.messages.join("stderr")).expect("a file");
        command.stdout(Stdio::null()).stderr(stderr);
        match fed {
            "" => command.stdin(Stdio::null()),
            _ => command.stdin(File::open(trace).expect("the trace")),
        };
        command
    }

    /// The command must leave its output or nothing. It must have ended by itself or by the signal.
    fn check(&self, case: &str, ended: ExitStatus) {
        let names = |folder: &Folder| -> Vec<String> {
            let entries = fs::read_dir(folder.path()).expect("a folder");
            let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
            entries
                .map(|entry| name(entry.expect("an entry")))
                .collect()
        };
        let left = names(&self.output);
        assert!(left.is_empty() || left == ["out"], "{case}: {left:?}");
        let left = names(&self.temporary);
        assert!(left.is_empty(), "{case}: {left:?}");
        // `listen` says that it was ended early.
        let code = ended
            .code()
            .is_some_and(|code| code == 0 || (code == 1 && case.starts_with("listen")));
        let signal = ended
            .signal()
            .is_some_and(|signal| [1, 2, 15].contains(&signal));
        assert!(code || signal, "{case}: {ended:?}: {}", self.stderr_text());
    }

    fn stderr_text(&self) -> String {
        fs::read_to_string(self.messages.join("stderr")).expect("what it said")
    }
}

/// The signal of a terminal's ^C. SIGTERM instead, if the tests run with SIGINT ignored.
fn signal() -> (&'static str, i32) {
    let status = fs::read_to_string("/proc/self/status").expect("status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("a number");
    match mask & 1 << 1 {
        0 => ("INT", 2),
        _ => ("TERM", 15),
    }
}

/// How many calls of each kind a thread of the command makes.
fn calls(log: &str) -> BTreeMap<&'static str, usize> {
    let mut counts: BTreeMap<(&str, &'static str), usize> = BTreeMap::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let is = |name: &&&str| {
            let rest = call.trim_start().strip_prefix(**name);
            rest.is_some_and(|rest| rest.starts_with('('))
        };
        if let Some(name) = CALLS.iter().find(is) {
            *counts.entry((thread, name)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::new();
    for ((_, name), count) in counts {
        let known = most.entry(name).or_insert(0);
        *known = count.max(*known);
    }
    most
}

/// About `most` numbers from 1 to `count`: the last ones, for what is made is made late, and some of the others.
fn some(count: usize, most: usize) -> BTreeSet<usize> {
    let step = count.div_ceil(most / 2).max(1);
    let last = count.saturating_sub(most / 2).max(1)..=count;
    last.chain((1..=count).step_by(step)).collect()
}

#[test]
fn signals_within_calls_leave_nothing() {
    signals_within_calls(2);
}

#[test]
fn signals_at_some_moments_leave_nothing() {
    signals_at_moments(5);
}

/// The same with more calls of each kind, and at more moments.
mod the_rest {
    #[test]
    fn a_signal_within_any_call_leaves_nothing() {
        super::signals_within_calls(8);
    }

    #[test]
    fn signals_at_any_time_leave_nothing() {
        super::signals_at_moments(1);
    }
}

/// Interrupts each command in about `most` calls of each kind.
fn signals_within_calls(most: usize) {
    let Some(_) = reader("strace", "signals within system calls") else {
        return;
    };
    let folder = Folder::new("interrupts-calls");
    let trace = traces(&folder, 20);
    let log = folder.join("log");
    let (signal, number_of_signal) = signal();
    let watch = |calls: &str| -> Vec<String> {
        let (calls, log) = (format!("trace={calls}"), log.to_str().expect("UTF-8"));
        let words = ["strace", "-f", "-qq", "-o", log, "-e", &calls];
        words.map(str::to_owned).to_vec()
    };
    for known in COMMANDS {
        let run = Run::new();
        let ended = run
            .command(&watch(&CALLS.join(",")), known, &trace)
            .status();
        assert!(ended.expect("strace runs").success(), "{known:?}");
        let counts = calls(&fs::read_to_string(&log).expect("the calls"));
        let mut ended_by_signal = 0;
        for (name, count) in counts {
            for number in some(count, most) {
                let inject = format!("inject={name}:signal={signal}:when={number}");
                let around = [watch(name), vec!["-e".to_owned(), inject]].concat();
                let once = || {
                    let run = Run::new();
                    let ended = run.command(&around, known, &trace).status();
                    (run, ended.expect("strace runs"))
                };
                let (mut run, mut ended) = once();
                // It may lose a thread that ends under it, and gives up.
                for _ in 0..3 {
                    if ended.code() == Some(1) && run.stderr_text().contains("strace: ") {
                        (run, ended) = once();
                    }
                }
                run.check(&format!("{} {name} {number}", known.0), ended);
                ended_by_signal += usize::from(ended.signal() == Some(number_of_signal));
            }
        }
        assert!(
            ended_by_signal >= most.min(6),
            "{known:?}: {ended_by_signal}"
        );
    }
}

/// Ends each command after every `step`th of 24 delays.
fn signals_at_moments(step: usize) {
    let folder = Folder::new("interrupts-delays");
    let trace = traces(&folder, 60_000);
    let signals = ["INT", "TERM", "HUP"];
    for (at, known) in COMMANDS.into_iter().enumerate() {
        for nth in (0..24_u64).step_by(step) {
            let run = Run::new();
            let mut child = run.command(&[], known, &trace).spawn().expect("fdr runs");
            // Not a bound on anything: each delay is another moment of the command's.
            thread::sleep(Duration::from_micros(nth * nth * 200));
            let first = signals[(at + nth as usize) % 3];
            // Every third time another one follows at once. It may have ended by itself.
            let second = (nth % 3 == 0).then_some("INT");
            for signal in [first].into_iter().chain(second) {
                let mut kill = Command::new("kill");
                kill.args(["-s", signal, &child.id().to_string()]);
                kill.stderr(Stdio::null()).status().expect("kill runs");
            }
            let ended = child.wait().expect("its end");
            run.check(&format!("{} {first} {nth}", known.0), ended);
        }
    }
}

#[test]
fn a_stream_that_is_ended_twice_is_kept() {
    let folder = Folder::new("interrupts-listen");
    let trace = traces(&folder, 20);
    let run = Run::new();
    let mut child = run.command(&[], ("listen - -o OUT", "IN"), &trace);
    // More comes, and never ends.
    child.stdin(Stdio::piped());
    let mut child = child.spawn().expect("fdr runs");
    let mut input = child.stdin.take().expect("a pipe");
    let bytes = fs::read(&trace).expect("the trace");
    std::io::Write::write_all(&mut input, &bytes[..200]).expect("sent");
    let came = || {
        let mut entries = fs::read_dir(run.output.path()).expect("a folder");
        let sizes = entries
            .next()
            .map(|entry| entry.and_then(|entry| entry.metadata()));
        matches!(sizes, Some(Ok(known)) if known.len() == 200)
    };
    while !came() {
        thread::sleep(Duration::from_millis(1));
    }
    for _ in 0..2 {
        let mut kill = Command::new("kill");
        kill.args(["-s", signal().0, &child.id().to_string()]);
        kill.stderr(Stdio::null()).status().expect("kill runs");
    }
    let ended = child.wait().expect("its end");
    run.check("listen twice", ended);
    assert_eq!(
        fs::read(run.output.join("out")).expect("what came"),
        &bytes[..200]
    );
}
