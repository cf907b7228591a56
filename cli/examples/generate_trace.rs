//! Writes a trace of any size, always the same for the same arguments: for measuring readers.
//!
//! ```text
//! cargo run --release -p fdr-cli --example generate_trace -- OUT RECORDS THREADS [FUNCTIONS]
//! ```
//!
//! Every thread calls as programs do: functions nest, some recurse, leaves are short and many,
//! callers long and few, once in a while a call takes a thousand times as long, and threads
//! wander between CPUs. All calls end within the trace.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::OpenOptions;

use fdr_formats::model::Counts;
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{
    Call, Clock, CpuId, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};

const BATCH: usize = 4096;
const MAX_DEPTH: usize = 40;
/// 3 GHz.
const FREQUENCY: u64 = 3_000_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments
        .next()
        .ok_or("usage: generate_trace OUT RECORDS THREADS [FUNCTIONS]")?;
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |text| text.parse());
    let (records, threads) = (number(1_000_000)?, number(4)?.max(1));
    let functions = u32::try_from(number(40)?.max(1))?;

    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&out)?;
    let per_thread = records / threads / 2 * 2;
    let info = info(functions, threads, per_thread);
    let mut writer = XrayWriter::new(file, Version::V3, &info)?;
    for thread in &info.threads {
        writer.thread(thread);
        Program::new(thread.id.0, functions).run(per_thread, &mut writer);
    }
    let losses = writer.finish()?;
    eprintln!(
        "{out}: {} records in {threads} threads; {losses:?}",
        per_thread * threads
    );
    Ok(())
}

fn info(functions: u32, threads: u64, per_thread: u64) -> TraceInfo {
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("demo::module_{}::Worker::step_{id}", id % 7),
        file: format!("src/module_{}.rs", id % 7),
        line: 10 + id,
        untimed: false,
        kind: Default::default(),
    };
    let counts = Counts {
        recorded: per_thread,
        readable: per_thread,
        ..Counts::default()
    };
    let thread = |nth| Thread {
        id: ThreadId(1000 + nth),
        name: format!("worker-{nth}"),
        counts: Some(counts),
        ..Thread::default()
    };
    TraceInfo {
        clock: Clock {
            frequency: FREQUENCY,
            name: "generated".into(),
            ..Clock::default()
        },
        functions: (1..=functions).map(function).collect(),
        threads: (0..threads).map(thread).collect(),
        program: "generated".into(),
        process: Some(1000),
        reason: "exit".into(),
        ..TraceInfo::default()
    }
}

/// A thread of an invented program.
struct Program {
    random: u64,
    functions: u32,
    time: u64,
    open: Vec<u32>,
}

impl Program {
    fn new(seed: u64, functions: u32) -> Program {
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Program {
            random,
            functions,
            time: 1_000_000,
            open: Vec::new(),
        }
    }

    fn run(&mut self, records: u64, sink: &mut dyn Sink) {
        let mut left = records;
        while left > 0 {
            let cpu = CpuId((self.next() % 8) as u32);
            sink.mark(&Mark::Cpu {
                time: Ticks(self.time),
                cpu,
            });
            let size = left.min(BATCH as u64);
            let batch: Vec<Call> = (0..size).map(|nth| self.step(left - nth)).collect();
            sink.calls(&batch);
            left -= size;
        }
    }

    /// One record, of `left` that remain.
    fn step(&mut self, left: u64) -> Call {
        let random = self.next();
        let must_leave = self.open.len() as u64 >= left || self.open.len() >= MAX_DEPTH;
        // Deep calls rather end than call on: leaves are short and many.
        let leaves = random % 64 < 24 + self.open.len() as u64;
        let edge = if self.open.is_empty() || !(must_leave || leaves) {
            Edge::Entry
        } else {
            Edge::Exit
        };
        self.time += match random >> 52 {
            0 => 1_000_000 + (random >> 8) % 1_000_000,
            _ => 40 + (random >> 8) % 200 * (1 + (random >> 20) % 5),
        };
        let function = match (edge, self.open.last()) {
            (Edge::Entry, Some(&caller)) => self.callee(caller, random >> 32),
            (Edge::Entry, None) => 1 + (random >> 32) as u32 % self.functions.min(4),
            (_, last) => *last.unwrap_or(&1),
        };
        match edge {
            Edge::Entry => self.open.push(function),
            _ => drop(self.open.pop()),
        }
        let (time, function) = (Ticks(self.time), FunctionId(function));
        Call {
            time,
            function,
            edge,
            synthetic: false,
            has_arguments: false,
        }
    }

    /// Each function calls a few others, the deeper the fewer, as programs do: there are some ten
    /// thousand paths. One call in sixteen is recursive near the outermost ones.
    fn callee(&self, caller: u32, random: u64) -> u32 {
        let depth = self.open.len();
        let choices = (6 >> (depth / 2)).max(1);
        match random % 16 {
            0 if depth < 4 => caller,
            choice => {
                let choice = choice as u32 % choices;
                1 + caller.wrapping_mul(5).wrapping_add(choice) % self.functions
            }
        }
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}
