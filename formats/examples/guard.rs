//! Work for `cargo xtask guard`, which counts its instructions: a made trace is written by every
//! format's writer and read by every format's reader, and copied as the recorder copies its own into a
//! dump, once with some calls and once with twice as many. Must do the same in every run: no clock, no number that is not its own.
//!
//! ```text
//! guard FOLDER     in the workspace's folder; FOLDER is empty -> one line per stretch of work:
//!                  what is done, format, calls
//! ```
#![forbid(unsafe_code)]

use std::error::Error;
use std::fs::{self, File};
use std::path::Path;

use fdr_formats::bytes::ByteOrder;
use fdr_formats::packed::Packed;
use fdr_formats::registry::{FORMATS, open_path};
use fdr_formats::source::drive;
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::xray::record::{Action, Layout, Record, encode_function, encode_metadata};
use fdr_formats::xray::{DumpWriter, Version};
use fdr_formats::{
    Call, Clock, CpuId, Diagnostic, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId,
    Ticks, TraceInfo,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// In the shorter trace.
const CALLS: u64 = 16_000;
const THREADS: u64 = 2;
const FUNCTIONS: u32 = 40;
const BATCH: usize = 512;
const MAX_DEPTH: usize = 12;

/// A ring that a killed program left. It is small, so it is read more than once.
const RING: &str = "tests/golden/ring/killed.fdr-ring";
const RING_READINGS: u64 = 20;

/// How the recorder lays out records.
const RECORDED: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).ok_or("usage: guard FOLDER")?;
    let traces = [trace(CALLS), trace(2 * CALLS)];
    for format in FORMATS {
        let Some(target) = format.targets.first() else {
            continue;
        };
        for (trace, calls) in traces.iter().zip([CALLS, 2 * CALLS]) {
            let out = Path::new(&folder).join(format!("{}-{calls}", target.name));
            let output = begin(target, &out)?;
            stretch("write", format.name, calls);
            write(target, output, trace)?;
            stretch("read", format.name, calls);
            let read = read(&out)?;
            stretch("check", format.name, calls);
            let mut quick = PackedCounter::default();
            drive(&*open_path(&out)?, &mut quick, &|_| {})?;
            if [read, quick.calls] != [calls; 2] {
                return Err(format!("{}: {calls} calls written, {read} read", target.name).into());
            }
            if quick.packed {
                stretch("read-packed", format.name, calls);
                drive(&*open_path(&out)?, &mut quick, &|_| {})?;
                stretch("check", format.name, calls);
            }
        }
    }
    for (trace, calls) in traces.iter().zip([CALLS, 2 * CALLS]) {
        let chunks: Vec<_> = trace.batches.iter().map(|calls| chunks(calls)).collect();
        let file = File::create_new(Path::new(&folder).join(format!("dump-{calls}")))?;
        stretch("dump", "xray", calls);
        dump(file, &trace.info, &chunks)?;
        stretch("check", "xray", calls);
    }
    let calls = read(Path::new(RING))?;
    for readings in [RING_READINGS, 2 * RING_READINGS] {
        stretch("read", "ring", readings * calls);
        for _ in 0..readings {
            read(Path::new(RING))?;
        }
    }
    stretch("end", "-", 0);
    Ok(())
}

/// Ends one stretch of work and begins the next: callgrind writes down its counts at each call.
#[inline(never)]
fn stretch(what: &str, format: &str, calls: u64) {
    println!("{what} {format} {calls}");
}

struct Trace {
    info: TraceInfo,
    /// For each thread, its calls in batches.
    batches: Vec<Vec<Vec<Call>>>,
}

fn trace(calls: u64) -> Trace {
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("demo::module_{}::Worker::step_{id}", id % 7),
        file: format!("src/module_{}.rs", id % 7),
        line: 10 + id,
        untimed: false,
        kind: Default::default(),
    };
    let thread = |nth| Thread {
        id: ThreadId(1000 + nth),
        process: Some(1000),
        name: format!("worker-{nth}"),
        counts: None,
        totals: Vec::new(),
        early_calls: Vec::new(),
    };
    let info = TraceInfo {
        clock: Clock {
            frequency: 3_000_000_000,
            name: "made".into(),
            anchor: Some((Ticks(0), 1_700_000_000_000_000_000)),
            ..Clock::default()
        },
        functions: (1..=FUNCTIONS).map(function).collect(),
        threads: (0..THREADS).map(thread).collect(),
        program: "made".into(),
        process: Some(1000),
        ..TraceInfo::default()
    };
    let batches = (0..THREADS).map(|seed| thread_calls(seed, 2 * calls / THREADS));
    let batches = batches.collect();
    Trace { info, batches }
}

/// Nested calls, all of which end; steps of time as of short functions.
fn thread_calls(seed: u64, edges: u64) -> Vec<Vec<Call>> {
    let mut random = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut open, mut time) = (Vec::new(), 1_000_000);
    let mut step = |left: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        time += 40 + (random >> 8) % 200;
        let full = open.len() >= MAX_DEPTH || open.len() as u64 >= left;
        let (edge, function) = match open.pop() {
            Some(function) if full || random % 8 < 4 => (Edge::Exit, function),
            caller => {
                open.extend(caller);
                open.push(1 + (random >> 32) as u32 % FUNCTIONS);
                (Edge::Entry, open[open.len() - 1])
            }
        };
        Call {
            time: Ticks(time),
            function: FunctionId(function),
            edge,
            synthetic: false,
            has_arguments: false,
        }
    };
    let calls: Vec<Call> = (0..edges).map(|nth| step(edges - nth)).collect();
    calls.chunks(BATCH).map(<[Call]>::to_vec).collect()
}

fn begin(target: &Target, out: &Path) -> Result<Output> {
    if target.kind == Kind::Folder {
        fs::create_dir(out)?;
        return Ok(Output::Folder(out.to_owned()));
    }
    let mut options = File::options();
    let options = options.read(true).write(true).create_new(true);
    Ok(Output::File(options.open(out)?))
}

fn write(target: &Target, output: Output, trace: &Trace) -> Result<()> {
    let mut writer = (target.create)(output, &trace.info)?;
    for (thread, batches) in trace.info.threads.iter().zip(&trace.batches) {
        writer.thread(thread);
        for (nth, batch) in batches.iter().enumerate() {
            writer.mark(&Mark::Cpu {
                time: batch[0].time,
                cpu: CpuId(nth as u32 % 4),
            });
            writer.calls(batch);
        }
    }
    writer.finish()?;
    Ok(())
}

/// A thread's calls as the recorder's chunks have them, a batch in each.
fn chunks(batches: &[Vec<Call>]) -> Vec<Vec<u8>> {
    let chunk = |calls: &Vec<Call>| {
        let mut time = calls[0].time;
        let heads = [
            Record::NewBuffer { thread: 1 },
            Record::WallTime {
                seconds: 1_700_000_000,
                micros: 0,
            },
            Record::NewCpu {
                cpu: 0,
                tsc: time.0,
            },
        ];
        let heads = heads
            .iter()
            .flat_map(|head| encode_metadata(head, RECORDED));
        let records = calls.iter().flat_map(|call| {
            let action = match call.edge {
                Edge::Entry => Action::Entry,
                Edge::Exit | Edge::TailExit => Action::Exit,
            };
            let delta = (call.time.0 - time.0) as u32;
            time = call.time;
            encode_function(call.function.0, action, delta, RECORDED.order)
        });
        heads.chain(records).collect()
    };
    batches.iter().map(chunk).collect()
}

fn dump(file: File, info: &TraceInfo, threads: &[Vec<Vec<u8>>]) -> Result<()> {
    let mut writer = DumpWriter::new(file, Version::V3, info)?;
    for (thread, chunks) in info.threads.iter().zip(threads) {
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        let block = writer.thread(thread, &chunks)?;
        if block.discarded_bytes > 0 {
            return Err("a made chunk is none".into());
        }
    }
    writer.finish()?;
    Ok(())
}

fn read(trace: &Path) -> Result<u64> {
    let mut count = Count(0);
    drive(&*open_path(trace)?, &mut count, &|_| {})?;
    Ok(count.0)
}

fn entries(calls: impl Iterator<Item = Call>) -> u64 {
    calls.filter(|call| call.edge == Edge::Entry).count() as u64
}

/// Counts calls and forgets them; as writers do, it takes them one by one.
struct Count(u64);

impl Sink for Count {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        self.0 += entries(calls.iter().copied());
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// The same; as reports do, it takes them packed where the reader has them so.
#[derive(Default)]
struct PackedCounter {
    calls: u64,
    packed: bool,
}

impl Sink for PackedCounter {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        self.calls += entries(calls.iter().copied());
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        self.packed = true;
        self.calls += packed.calls().filter(|call| call.left() == 0).count() as u64;
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, _: Diagnostic) {}
}
