//! Runs a program that closes every descriptor, copies others over it, and opens it again. Meanwhile the recorder
//! dumps, streams and grows its rings, and the program forks. The runs are on several file systems, and some begin with
//! the descriptors 0, 1 or 2 closed. Each file of the program must contain only bytes that the program wrote, its
//! output must reach its own descriptors, and each trace must be whole.

mod file_system;

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fdr_tests::support::random::Random;
use fdr_tests::support::tally::Tally as Counts;
use fdr_tests::support::truth::descriptors::{
    DUMPS, END, FILES, FIRST_FILE, FIRST_KIND, FROM_ZERO, LEAVES, MAX, ROUNDS, SURE, TIMES,
    WRONG_FILE, byte, end, line, name, round,
};
use fdr_tests::support::truth::{PHASE, STOP, Truth};

use crate::child::{Child as Process, command};
use crate::plan::{Failure, Plan, Tally, Try, Verdict, lock};
use file_system::Places;

/// Rounds of a process.
const PROCESS: u64 = 25;
const LIMIT: Duration = Duration::from_secs(60);
/// The beginnings of the program's lines that do not belong to a round: those of its panics.
const OTHERS: [&str; 3] = ["thread '", "wanted", "note: "];

pub(crate) fn run(plan: &Plan) -> Tally {
    let places = Places::new(&plan.disk);
    let rounds = plan.tries.clamp(1, PROCESS);
    plan.each(2, rounds, |attempt, tally| {
        let mut random = attempt.random();
        let how = ProcessPlan::new(&mut random);
        let place = places.any(&mut random, tally);
        let in_memory = random.below(2) == 0;
        attempt.within(in_memory, |kept| {
            let folder = place.map_or(kept.path().to_owned(), |place| place.folder(attempt.index));
            let case = format!("{how:?}\n  in {}", folder.display());
            let verdict = process(attempt, rounds, &how, &folder, tally);
            if let Some(place) = place {
                place.leave(&folder, kept, verdict.is_ok());
            }
            verdict.map_err(|failure| failure.with(&case))
        })
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

fn start(
    attempt: &Try<'_>,
    rounds: u64,
    how: &ProcessPlan,
    folder: &Path,
) -> Result<Command, String> {
    let mut program = command(&attempt.plan.programs.join("torture_victim"), folder);
    let seed = attempt.seed >> 1;
    for word in ["descriptors".to_owned(), "page".to_owned()]
        .into_iter()
        .chain([seed, rounds, how.word()].map(|number| number.to_string()))
    {
        program.arg(word);
    }
    program.env("RUST_BACKTRACE", "0");
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
    let file = |name: &str| File::create(folder.join(name)).map_err(|error| error.to_string());
    match how.leaves {
        true => program.stdout(Stdio::piped()).stderr(Stdio::piped()),
        false => program.stdout(file("stdout")?).stderr(file("stderr")?),
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
    Ok(program)
}

fn process(
    attempt: &Try<'_>,
    rounds: u64,
    how: &ProcessPlan,
    folder: &Path,
    tally: &Mutex<Tally>,
) -> Verdict {
    fs::create_dir(folder.join("traces")).map_err(|error| error.to_string())?;
    let truth = Truth::create(&folder.join("page")).map_err(|error| error.to_string())?;
    let receiver = (how.to == OutputKind::Socket).then(|| Receiver::new(folder));
    let receiver = receiver.transpose()?;
    let mut child = Process::spawn(&mut start(attempt, rounds, how, folder)?)?;
    let outputs = how.leaves.then(|| Outputs::read(&mut child, folder));
    if let Some(outputs) = &outputs {
        child.until("the end of its outputs", LIMIT, || outputs.have_ended())?;
        truth.set(0, STOP, 1);
    }
    let status = child.end(LIMIT)?;
    let mut wrong = files(&truth, folder);
    if let Ok(text) = fs::read_to_string(folder.join(WRONG_FILE)) {
        wrong.push(format!("it says: {text}"));
    }
    let died = status.signal().unwrap_or(0);
    let done = truth.get(0, PHASE);
    if wrong.is_empty() && (died != how.signal() || done != rounds) {
        wrong.push(format!("{status} after {done} of {rounds} rounds"));
    }
    let received = receiver.map(Receiver::end).unwrap_or_default();
    wrong.extend(prints(how, done, folder).err());
    let (count, bad) = traces(how, folder, received)?;
    wrong.extend(bad);
    let mut tally = lock(tally);
    tally.count("traces that were looked at", count);
    if !how.recorded {
        tally.count("rounds without the recorder", done);
    }
    for (kind, name) in round::NAMES.into_iter().enumerate() {
        tally.count(name, truth.get(FIRST_KIND + kind, TIMES));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(Failure::Wrong(wrong.join("\n  "))),
    }
}

/// What is wrong with its files.
fn files(truth: &Truth, folder: &Path) -> Vec<String> {
    let mut wrong = Vec::new();
    for file in 0..FILES {
        let entry = FIRST_FILE + file as usize;
        let (sure, most) = (truth.get(entry, SURE), truth.get(entry, MAX));
        let path = folder.join(name(file));
        let Ok(bytes) = fs::read(&path) else {
            if most > 0 {
                wrong.push(format!("file {file} is gone"));
            }
            continue;
        };
        let length = bytes.len() as u64;
        if length < sure || length > most.max(sure) {
            wrong.push(format!("file {file} has {length} bytes of {sure}"));
        }
        let mut offsets = (0..length).zip(&bytes);
        if let Some((place, _)) = offsets.find(|(offset, found)| **found != byte(file, *offset)) {
            let found = bytes[place as usize..].iter().take(32).copied();
            let found: Vec<u8> = found.collect();
            wrong.push(format!(
                "file {file} has \"{}\" at {place}",
                found.escape_ascii()
            ));
        }
    }
    wrong
}

/// What it printed is in its outputs, and in order; beside it there are only the recorder's lines.
fn prints(how: &ProcessPlan, done: u64, folder: &Path) -> Result<(), String> {
    if how.from_zero {
        return Ok(());
    }
    let rounds = if how.leaves { 1 } else { done };
    let all: Vec<String> = (0..rounds).map(line).collect();
    for (number, output) in [(1, "stdout"), (2, "stderr")] {
        let text = fs::read(folder.join(output)).map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.split_inclusive('\n');
        let is_other =
            |line: &str| line.is_empty() || OTHERS.iter().any(|other| line.starts_with(other));
        let (ours, own): (Vec<&str>, Vec<&str>) = lines
            .filter(|line| !is_other(line.trim_end()))
            .partition(|line| line.starts_with("fdr: ") && number == 2);
        if how.closed >> number & 1 == 1 {
            if !text.is_empty() {
                return Err(format!("{output} was closed and has {text:?}"));
            }
        } else if own != all {
            return Err(format!(
                "{output} has {own:?}, {} lines of {}",
                own.len(),
                all.len()
            ));
        }
        for line in ours {
            announced(line, folder)?;
        }
    }
    Ok(())
}

/// A trace that the recorder says it wrote is there.
fn announced(line: &str, folder: &Path) -> Result<(), String> {
    let path = line.split_once("fdr: wrote ").map(|(_, rest)| rest);
    let path = path.and_then(|rest| rest.split(": ").next());
    let path = path.filter(|path| !path.starts_with("unix:"));
    match path {
        Some(path) if !folder.join(path).exists() => Err(format!("no such trace: {line:?}")),
        _ => Ok(()),
    }
}

/// How many traces were looked at, and what is wrong with them.
fn traces(
    how: &ProcessPlan,
    folder: &Path,
    received: Vec<PathBuf>,
) -> Result<(u64, Vec<String>), String> {
    let is_orderly = [end::RETURN, end::EXIT].contains(&how.end);
    let (mut wrong, mut traces) = (Vec::new(), Vec::new());
    // Another end may come in the midst of what is sent.
    traces.extend(received.into_iter().filter(|_| is_orderly));
    let entries = fs::read_dir(folder.join("traces")).map_err(|error| error.to_string())?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let name = path.to_string_lossy().into_owned();
        if name.ends_with(".tmp") && is_orderly {
            wrong.push(format!("{name} is left"));
        } else if name.ends_with(".fdr") && (how.to == OutputKind::Traces || is_orderly) {
            traces.push(path);
        }
    }
    for path in &traces {
        let result = panic::catch_unwind(|| whole(path));
        wrong.extend(
            result
                .unwrap_or_else(|_| Err("does not read".into()))
                .err()
                .map(|why| format!("{}: {why}", path.display())),
        );
    }
    Ok((traces.len() as u64, wrong))
}

/// It reads without a complaint, and has as many records as it says.
fn whole(path: &Path) -> Result<(), String> {
    for (thread, known) in Counts::read(path).threads {
        let Some(counts) = known.counts else {
            continue;
        };
        let sum = counts.readable + counts.overwritten + counts.dropped + counts.summarised;
        if counts.recorded != sum || counts.readable != known.measured.iter().sum::<u64>() {
            return Err(format!("thread {thread}: {known:?}"));
        }
    }
    Ok(())
}

/// The pipes that a program leaves, read to their ends.
struct Outputs(Vec<JoinHandle<()>>);

impl Outputs {
    fn read(child: &mut Process, folder: &Path) -> Outputs {
        let (stdout, stderr) = child.outputs();
        let keep = |mut from: Box<dyn Read + Send>, name: &str| {
            let path = folder.join(name);
            thread::spawn(move || {
                let mut bytes = Vec::new();
                let _ = from.read_to_end(&mut bytes);
                let _ = fs::write(path, bytes);
            })
        };
        let stdout = stdout.map(|from| keep(Box::new(from), "stdout"));
        let stderr = stderr.map(|from| keep(Box::new(from), "stderr"));
        Outputs(stdout.into_iter().chain(stderr).collect())
    }

    fn have_ended(&self) -> bool {
        self.0.iter().all(JoinHandle::is_finished)
    }
}

/// Receives the data of a socket: a stream, and the dumps of children.
struct Receiver {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<PathBuf>>,
}

impl Receiver {
    fn new(folder: &Path) -> Result<Receiver, String> {
        let failed = |error: io::Error| format!("a socket: {error}");
        let listener = UnixListener::bind(folder.join("socket")).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (folder, is_over) = (folder.to_owned(), Arc::new(AtomicBool::new(false)));
        let over = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                // What came before the end is still there.
                let ends = over.load(Ordering::Acquire);
                match listener.accept() {
                    Ok((stream, _)) => {
                        let path = folder.join(format!("received.{}", all.len()));
                        all.push((
                            thread::spawn({
                                let path = path.clone();
                                move || keep(stream, &path)
                            }),
                            path,
                        ));
                    }
                    Err(_) if ends => break,
                    Err(_) => thread::sleep(Duration::from_millis(1)),
                }
            }
            let ended = all.into_iter().map(|(thread, path)| (thread.join(), path));
            ended.map(|(_, path)| path).collect()
        });
        Ok(Receiver { is_over, thread })
    }

    /// What came.
    fn end(self) -> Vec<PathBuf> {
        self.is_over.store(true, Ordering::Release);
        self.thread.join().unwrap_or_default()
    }
}

/// Reads it to its end.
fn keep(mut from: UnixStream, to: &Path) -> io::Result<u64> {
    from.set_nonblocking(false)?;
    io::copy(&mut from, &mut File::create(to)?)
}
