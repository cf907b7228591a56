//! How fast the library writes and reads a format, without a tool around it: for `cargo xtask bench
//! formats`. Each measurement is a process of its own, and prints `key=value` words.
//!
//! ```text
//! cargo run --release -p fdr-cli --example measure_formats -- targets        one line each: its name, its extension
//! cargo run --release -p fdr-cli --example measure_formats -- write TARGET OUT TRACE
//! cargo run --release -p fdr-cli --example measure_formats -- read TRACE
//! ```
//!
//! Writing takes events from memory, reading gives them to a sink that counts; both on one thread.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use fdr_formats::model::{Call, Clock, CpuId, Edge, Mark, Thread, Ticks, TraceInfo};
use fdr_formats::registry::{self, open_path};
use fdr_formats::source::drive;
use fdr_formats::writer::{Kind, Output};
use fdr_formats::{Diagnostic, Sink};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: measure_formats targets | write TARGET OUT TRACE | read TRACE";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["targets"] => {
            for target in registry::targets() {
                println!("{} {}", target.name, target.extension);
            }
        }
        ["write", target, out, trace] => write(target, Path::new(out), Path::new(trace))?,
        ["read", trace] => read(Path::new(trace))?,
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

/// What happened, in order, in memory.
enum Step {
    Thread(Thread),
    Calls(Vec<Call>),
    Cpu(Ticks, CpuId),
}

#[derive(Default)]
struct Kept {
    steps: Vec<Step>,
    calls: u64,
}

impl Sink for Kept {
    fn thread(&mut self, thread: &Thread) {
        self.steps.push(Step::Thread(thread.clone()));
    }

    fn calls(&mut self, calls: &[Call]) {
        self.calls += entries(calls);
        self.steps.push(Step::Calls(calls.to_vec()));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Cpu { time, cpu } = *mark {
            self.steps.push(Step::Cpu(time, cpu));
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

fn entries(calls: &[Call]) -> u64 {
    calls.iter().filter(|call| call.edge == Edge::Entry).count() as u64
}

fn write(target: &str, out: &Path, trace: &Path) -> Result<()> {
    let target = registry::target(target).ok_or_else(|| format!("{target} is no target"))?;
    let source = open_path(trace)?;
    let mut kept = Kept::default();
    drive(&*source, &mut kept, &|_| {})?;
    let info = TraceInfo {
        // An anchor as every recorder's trace has one.
        clock: Clock {
            anchor: Some((Ticks(0), 1_700_000_000_000_000_000)),
            ..source.info().clock.clone()
        },
        ..source.info().clone()
    };

    let since = Instant::now();
    let output = if target.kind == Kind::Folder {
        fs::create_dir(out)?;
        Output::Folder(out.to_owned())
    } else {
        let mut options = fs::OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(true);
        Output::File(options.open(out)?)
    };
    let mut writer = (target.create)(output, &info)?;
    for step in &kept.steps {
        match step {
            Step::Thread(thread) => writer.thread(thread),
            Step::Calls(calls) => writer.calls(calls),
            Step::Cpu(time, cpu) => writer.mark(&Mark::Cpu {
                time: *time,
                cpu: *cpu,
            }),
        }
    }
    let losses = writer.finish()?;
    let seconds = since.elapsed().as_secs_f64();
    eprintln!("losses: {losses}");
    let (calls, bytes) = (kept.calls, size(out)?);
    println!("calls={calls} seconds={seconds:.6} bytes={bytes}");
    Ok(())
}

/// Bytes of a file, or of a folder's files.
fn size(path: &Path) -> Result<u64> {
    if !path.is_dir() {
        return Ok(fs::metadata(path)?.len());
    }
    let mut sum = 0;
    for entry in fs::read_dir(path)? {
        sum += entry?.metadata()?.len();
    }
    Ok(sum)
}

/// Counts and forgets.
#[derive(Default)]
struct Count(u64);

impl Sink for Count {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        self.0 += entries(calls);
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        eprintln!("{diagnostic}");
    }
}

fn read(trace: &Path) -> Result<()> {
    let since = Instant::now();
    let source = open_path(trace)?;
    let mut count = Count::default();
    drive(&*source, &mut count, &|_| {})?;
    let seconds = since.elapsed().as_secs_f64();
    println!(
        "calls={} seconds={seconds:.6} bytes={}",
        count.0,
        size(trace)?
    );
    Ok(())
}
