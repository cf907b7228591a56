//! Runs a program that closes every descriptor, copies others over it, and opens it again. Meanwhile the recorder
//! dumps, streams and grows its rings, and the program forks. The runs are on several file systems, and some begin with
//! the descriptors 0, 1 or 2 closed. Each file of the program must contain only bytes that the program wrote, its
//! output must reach its own descriptors, and each trace must be whole.

mod file_system;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::random::Random;
use fdr_tests::support::trace::Trace;
use fdr_tests::support::truth::descriptors::{
    DUMPS, END, FILES, FIRST_FILE, FIRST_KIND, FROM_ZERO, LEAVES, MAX, ROUNDS, SURE, TIMES,
    WRONG_FILE, byte, end, line, name, round,
};
use fdr_tests::support::truth::{PHASE, STOP, Truth};
use fdr_tests::support::wait::until;

use crate::plan::{Plan, Tally, Try};
use file_system::{CopyOfFailure, FileSystem};

/// Rounds of a process.
const PROCESS: u64 = 25;
/// The beginnings of the program's lines that do not belong to a round: those of its panics.
const OTHERS: [&str; 3] = ["thread '", "wanted", "note: "];

pub(crate) fn run(plan: &Plan) -> Tally {
    let file_system = FileSystem::mount(&plan.folder);
    let rounds = plan.tries.clamp(1, PROCESS);
    plan.each(2, rounds, |attempt| {
        let mut random = attempt.random();
        let how = ProcessPlan::new(&mut random);
        // One of four tries is on a file system of its own kind.
        let mounted = file_system.as_ref().filter(|_| random.below(4) == 0);
        let in_memory = random.below(2) == 0;
        if let Some(mounted) = mounted {
            attempt.count("programs on a file system without fallocate", 1);
            let folder = mounted.folder();
            let _copy = CopyOfFailure(&folder, &plan.folder);
            process(attempt, rounds, &how, &folder);
        } else {
            process(attempt, rounds, &how, &attempt.folder(in_memory));
        }
    })
}

/// Where the records go.
#[derive(Clone, Copy, Debug, PartialEq)]
enum OutputKind {
    Traces,
    File,
    Socket,
}

/// One process.
#[derive(Debug)]
struct ProcessPlan {
    to: OutputKind,
    /// Which of the numbers 0, 1 and 2 are closed when it starts.
    closed: u64,
    from_zero: bool,
    leaves: bool,
    /// Without the recorder all is right, too: what is found is not the program's own doing.
    recorded: bool,
    /// Whether the kernel refuses `fallocate`.
    refused: bool,
    end: u64,
    kinds: u64,
    keep: &'static str,
    buffer: &'static str,
    format: &'static str,
}

impl ProcessPlan {
    fn new(random: &mut Random) -> ProcessPlan {
        let to = [
            OutputKind::Traces,
            OutputKind::Traces,
            OutputKind::File,
            OutputKind::Socket,
        ][random.below(4) as usize];
        let closed = match random.below(2) {
            0 => 0,
            _ => random.below(8),
        };
        let from_zero = random.below(2) == 0;
        let recorded = random.below(8) > 0;
        let mut kinds = (1 << round::KINDS) - 1;
        if !recorded {
            kinds &= !(1 << round::SIGNAL);
        }
        if from_zero {
            // A panic prints to number 2, which is one of its files.
            kinds &= !(1 << round::PANIC);
        }
        ProcessPlan {
            to,
            closed,
            from_zero,
            leaves: !from_zero && closed == 0 && random.below(2) == 0,
            recorded,
            refused: random.below(4) == 0,
            end: random.below(end::ENDS),
            kinds,
            keep: ["0", "10s"][random.below(2) as usize],
            buffer: ["128K", "128K", "128K", "1M"][random.below(4) as usize],
            format: match to {
                OutputKind::Traces => ["xray", "xray", "heph", "htdump"][random.below(4) as usize],
                _ => "htdump",
            },
        }
    }

    fn variables(&self) -> String {
        let Self {
            keep,
            buffer,
            format,
            ..
        } = self;
        let log = if self.from_zero { "quiet" } else { "warn" };
        let common = format!("FDR=1 FDR_BUFFER={buffer} FDR_MEMORY=16M FDR_LOG={log}");
        let to = match self.to {
            OutputKind::Traces => {
                let triggers = "every;100ms,panic;/0,signal,exit,*::slow>1ms;/0";
                return format!(
                    "{common} FDR_KEEP={keep} FDR_FORMAT={format} FDR_OUT=traces/ FDR_OUT_MOST=1000 FDR_TRIGGER={triggers}"
                );
            }
            OutputKind::File => "traces/stream.fdr",
            OutputKind::Socket => "unix:socket",
        };
        format!("{common} FDR_MODE=stream FDR_FORMAT={format} FDR_OUT={to} FDR_DIR=traces")
    }

    /// For the program.
    fn word(&self) -> u64 {
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        bit(self.from_zero, FROM_ZERO)
            | bit(self.leaves, LEAVES)
            | bit(self.recorded && self.to == OutputKind::Traces, DUMPS)
            | self.end << END
            | self.kinds << ROUNDS
    }

    /// What it dies of.
    fn signal(&self) -> i32 {
        match self.end {
            end::FAULT => libc::SIGSEGV,
            end::ABORT => libc::SIGABRT,
            _ => 0,
        }
    }
}

fn command(attempt: &Try<'_>, rounds: u64, how: &ProcessPlan, folder: &Folder) -> Command {
    let numbers = [attempt.seed >> 1, rounds, how.word()];
    let program = Program::new(attempt.program("torture_victim"), folder)
        .args(&["descriptors", "page"])
        .args(&numbers.map(|number| number.to_string()))
        .env("RUST_BACKTRACE", "0");
    let mut program = program.into_command();
    // `fdr::enable` turns nothing on then.
    let variables = match how.recorded {
        true => how.variables(),
        false => "FDR=off".to_owned(),
    };
    for variable in variables.split(' ') {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        program.env(name, value.replace(';', " "));
    }
    program.stdin(Stdio::null());
    let file = |name: &str| File::create(folder.join(name)).expect("a file");
    match how.leaves {
        true => program.stdout(Stdio::piped()).stderr(Stdio::piped()),
        false => program.stdout(file("stdout")).stderr(file("stderr")),
    };
    let (closed, refused) = (how.closed, how.refused);
    // SAFETY: only system calls.
    unsafe {
        program.pre_exec(move || {
            for number in 0..3 {
                if closed >> number & 1 == 1 {
                    libc::close(number);
                }
            }
            if refused {
                file_system::refuse()
            } else {
                Ok(())
            }
        });
    }
    program
}

fn process(attempt: &Try<'_>, rounds: u64, how: &ProcessPlan, folder: &Folder) {
    fs::create_dir(folder.join("traces")).expect("a folder");
    let truth = Truth::create(&folder.join("page")).expect("a page");
    let receiver = (how.to == OutputKind::Socket).then(|| Receiver::new(folder));
    let mut child = command(attempt, rounds, how, folder).spawn();
    let child = child.as_mut().expect("a process");
    if how.leaves {
        let outputs = read_outputs(child, folder);
        until("the end of its outputs", || {
            outputs.iter().all(JoinHandle::is_finished).then_some(())
        });
        truth.set(0, STOP, 1);
    }
    let status = until("its end", || child.try_wait().expect("its state"));
    let case = format!("{how:?}: {status}");
    let done = truth.get(0, PHASE);
    let wrong = fs::read_to_string(folder.join(WRONG_FILE));
    assert!(wrong.is_err(), "{case}: it says {wrong:?}");
    check_files(&truth, folder);
    assert_eq!(status.signal().unwrap_or(0), how.signal(), "{case}");
    assert_eq!(done, rounds, "{case}: rounds that it has done");
    let received = receiver.map(Receiver::end).unwrap_or_default();
    check_outputs(how, done, folder);
    let count = check_traces(how, folder, received);
    attempt.count("traces that were looked at", count);
    if !how.recorded {
        attempt.count("rounds without the recorder", done);
    }
    for (kind, name) in round::NAMES.into_iter().enumerate() {
        attempt.count(name, truth.get(FIRST_KIND + kind, TIMES));
    }
}

/// Each of its files has its own bytes, and no other.
fn check_files(truth: &Truth, folder: &Folder) {
    for file in 0..FILES {
        let entry = FIRST_FILE + file as usize;
        let (sure, most) = (truth.get(entry, SURE), truth.get(entry, MAX));
        let Ok(bytes) = fs::read(folder.join(&name(file))) else {
            assert_eq!(most, 0, "file {file} is gone");
            continue;
        };
        let length = bytes.len() as u64;
        let range = sure..=most.max(sure);
        assert!(
            range.contains(&length),
            "file {file}: {length}, not {range:?}"
        );
        let mut offsets = (0..length).zip(&bytes);
        let other = offsets.find(|(offset, found)| **found != byte(file, *offset));
        if let Some((place, _)) = other {
            let found = &bytes[place as usize..(place as usize + 32).min(bytes.len())];
            panic!("file {file} has \"{}\" at {place}", found.escape_ascii());
        }
    }
}

/// What it printed is in its outputs, and in order; beside it there are only the recorder's lines.
fn check_outputs(how: &ProcessPlan, done: u64, folder: &Folder) {
    if how.from_zero {
        return;
    }
    let rounds = if how.leaves { 1 } else { done };
    let all: Vec<String> = (0..rounds).map(line).collect();
    for (number, output) in [(1, "stdout"), (2, "stderr")] {
        let text = fs::read(folder.join(output)).expect("an output");
        let text = String::from_utf8_lossy(&text);
        let lines = text.split_inclusive('\n');
        let is_other =
            |line: &str| line.is_empty() || OTHERS.iter().any(|other| line.starts_with(other));
        let (ours, own): (Vec<&str>, Vec<&str>) = lines
            .filter(|line| !is_other(line.trim_end()))
            .partition(|line| line.starts_with("fdr: ") && number == 2);
        if how.closed >> number & 1 == 1 {
            assert_eq!(text, "", "{output} was closed");
        } else {
            assert_eq!(own, all, "{output}");
        }
        for line in ours {
            check_announced(line, folder);
        }
    }
}

/// A trace that the recorder says it wrote is there.
fn check_announced(line: &str, folder: &Folder) {
    let path = line.split_once("fdr: wrote ").map(|(_, rest)| rest);
    let path = path.and_then(|rest| rest.split(": ").next());
    if let Some(path) = path.filter(|path| !path.starts_with("unix:")) {
        assert!(folder.join(path).exists(), "no such trace: {line:?}");
    }
}

/// Each trace reads without a complaint. Returns how many there are.
fn check_traces(how: &ProcessPlan, folder: &Folder, received: Vec<PathBuf>) -> u64 {
    let is_orderly = [end::RETURN, end::EXIT].contains(&how.end);
    // Another end may come in the midst of what is sent.
    let mut traces = if is_orderly { received } else { Vec::new() };
    let entries = fs::read_dir(folder.join("traces")).expect("a folder");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        let name = path.to_string_lossy();
        assert!(!name.ends_with(".tmp") || !is_orderly, "{name} is left");
        if name.ends_with(".fdr") && (how.to == OutputKind::Traces || is_orderly) {
            traces.push(path);
        }
    }
    for path in &traces {
        check_counts(path);
    }
    traces.len() as u64
}

/// It reads without a complaint, and has as many records as it says.
fn check_counts(path: &Path) {
    for lane in Trace::read(path).threads {
        let Some(counts) = lane.thread.counts else {
            continue;
        };
        let sum = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
        let readable = lane.edges.len() as u64;
        let case = format!("{}: {counts:?}", path.display());
        assert_eq!(
            (counts.recorded, counts.readable),
            (sum, readable),
            "{case}"
        );
    }
}

/// Reads the pipes that a program leaves to their ends.
fn read_outputs(child: &mut Child, folder: &Folder) -> [JoinHandle<()>; 2] {
    let keep = |mut from: Box<dyn Read + Send>, name: &str| {
        let path = folder.join(name);
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            let _ = fs::write(path, bytes);
        })
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    [
        keep(Box::new(stdout.expect("a pipe")), "stdout"),
        keep(Box::new(stderr.expect("a pipe")), "stderr"),
    ]
}

/// A socket in a folder whose path may be longer than that of a socket.
fn bind_in(folder: &Path, name: &str) -> io::Result<UnixListener> {
    let folder = File::open(folder)?;
    UnixListener::bind(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

/// Receives the data of a socket: a stream, and the dumps of children.
struct Receiver {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<PathBuf>>,
}

impl Receiver {
    fn new(folder: &Folder) -> Receiver {
        let listener = bind_in(folder.path(), "socket").expect("a socket");
        listener.set_nonblocking(true).expect("a socket");
        let (folder, is_over) = (folder.path().to_owned(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                // What came before the end is still there.
                let ends = over.load(Ordering::Acquire);
                match listener.accept() {
                    Ok((stream, _)) => {
                        let path = folder.join(format!("received.{}", all.len()));
                        let to = path.clone();
                        all.push((thread::spawn(move || keep(stream, &to)), path));
                    }
                    Err(_) if ends => break,
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
            let ended = all.into_iter().map(|(thread, path)| (thread.join(), path));
            ended.map(|(_, path)| path).collect()
        });
        Receiver { is_over, thread }
    }

    /// What came.
    fn end(self) -> Vec<PathBuf> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().expect("what came")
    }
}

/// Reads it to its end.
fn keep(mut from: UnixStream, to: &Path) -> io::Result<u64> {
    from.set_nonblocking(false)?;
    io::copy(&mut from, &mut File::create(to)?)
}
