//! Traces that are small and hostile: each makes one thing many that a reader may keep. They are made by
//! code, always the same. Nothing in here may hold a trace in memory.

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::Path;

use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{
    Call, CpuId, Edge, Function, FunctionId, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo,
};
use fdr_tests::support::random::Random;

/// A trace: its name, how many functions have names of that length, and its events.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    functions: u32,
    name_bytes: usize,
    events: fn(&mut dyn Sink),
}

const fn shape(name: &'static str, events: fn(&mut dyn Sink)) -> Shape {
    Shape {
        name,
        functions: 0,
        name_bytes: 0,
        events,
    }
}

/// Every shape. Of XRay each is about a megabyte.
pub(crate) const SHAPES: [Shape; 12] = [
    shape("functions", functions),
    shape("entries", entries),
    shape("deep", deep),
    shape("paths", paths),
    shape("chain", chain),
    shape("threads", threads),
    shape("turns", turns),
    shape("strangers", strangers),
    shape("arguments", arguments),
    shape("gaps", gaps),
    shape("durations", durations),
    Shape {
        functions: 600,
        name_bytes: 2000,
        ..shape("names", names)
    },
];

fn edge(time: u64, function: u32, edge: Edge) -> Call {
    Call {
        time: Ticks(time),
        function: FunctionId(function),
        edge,
        synthetic: false,
        has_arguments: false,
    }
}

fn thread(id: u64) -> Thread {
    Thread {
        id: ThreadId(id),
        ..Thread::default()
    }
}

fn pair(sink: &mut dyn Sink, time: u64, function: u32) {
    sink.calls(&[
        edge(time, function, Edge::Entry),
        edge(time + 5, function, Edge::Exit),
    ]);
}

/// Each call is of another function.
fn functions(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    (1..60_000).for_each(|nth| pair(sink, 1000 + 10 * u64::from(nth), nth));
}

/// The same, but the calls have no exits.
fn entries(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    (1..120_000).for_each(|nth| sink.calls(&[edge(u64::from(nth), nth, Edge::Entry)]));
}

/// A recursion.
fn deep(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    for nth in 0..120_000_u64 {
        let side = match nth < 60_000 {
            true => Edge::Entry,
            false => Edge::Exit,
        };
        sink.calls(&[edge(1000 + nth, 1, side)]);
    }
}

/// Each path of calls is another one.
fn paths(sink: &mut dyn Sink) {
    let mut random = Random::new(7);
    let mut open = Vec::new();
    sink.thread(&thread(1));
    for nth in 0..120_000 {
        let call = match open.pop() {
            Some(function) if random.below(100) < 2 + open.len() as u64 => {
                edge(nth, function, Edge::Exit)
            }
            back => {
                open.extend(back);
                open.push(1 + random.below(1000) as u32);
                edge(nth, open[open.len() - 1], Edge::Entry)
            }
        };
        sink.calls(&[call]);
    }
}

/// Down, a step up and down again, always deeper and by other functions.
fn chain(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    for nth in 0..30_000_u32 {
        let (time, function) = (u64::from(nth) * 10, nth % 900 + 1);
        sink.calls(&[edge(time, function, Edge::Entry)]);
        pair(sink, time + 1, nth % 901 + 1000);
    }
}

/// Each call is of another thread.
fn threads(sink: &mut dyn Sink) {
    for nth in 0..10_000 {
        sink.thread(&thread(1 + nth));
        pair(sink, 1000 + nth, 1);
    }
}

/// Threads in turns, each in the midst of calls.
fn turns(sink: &mut dyn Sink) {
    for nth in 0..8000_u64 {
        sink.thread(&thread(1 + nth % 2000));
        sink.calls(&[edge(1000 + nth, 1 + (nth % 7) as u32, Edge::Entry)]);
    }
}

/// Exits of functions that are not open, among many that are.
fn strangers(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    for nth in 0..60_000_u32 {
        sink.calls(&[
            edge(u64::from(nth), nth % 5 + 1, Edge::Entry),
            edge(u64::from(nth), nth + 10, Edge::Exit),
        ]);
    }
}

/// Calls with many arguments, and other events.
fn arguments(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    for nth in 0..200 {
        let mut entry = edge(1000 * nth, 1, Edge::Entry);
        entry.has_arguments = true;
        sink.calls(&[entry]);
        for value in 0..200 {
            sink.mark(&Mark::Argument { value });
        }
        sink.mark(&Mark::Custom {
            time: Ticks(1000 * nth + 1),
            cpu: None,
            data: &[7; 1000],
        });
        sink.mark(&Mark::Cpu {
            time: Ticks(1000 * nth + 2),
            cpu: CpuId(nth as u32 % 60_000),
        });
    }
}

/// Records are missing everywhere, in the midst of calls.
fn gaps(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    for nth in 0..15_000_u32 {
        sink.calls(&[edge(u64::from(nth), nth % 3000 + 1, Edge::Entry)]);
        sink.mark(&Mark::Lost { records: 3 });
    }
}

/// Calls of each function with so many different durations that its histogram has all cells.
fn durations(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    let mut time = 0_u64;
    for nth in 0..55_000_u64 {
        let function = 1 + (nth % 50) as u32;
        let ticks = 1 << (nth / 50 % 40);
        sink.calls(&[
            edge(time, function, Edge::Entry),
            edge(time + ticks, function, Edge::Exit),
        ]);
        time += ticks + 1;
    }
}

/// Functions with long names, one in the other.
fn names(sink: &mut dyn Sink) {
    sink.thread(&thread(1));
    (1..=600_u32).for_each(|nth| sink.calls(&[edge(u64::from(nth), nth, Edge::Entry)]));
    for nth in 0..2000 {
        pair(sink, 1000 + 10 * nth, 1 + (nth % 600) as u32);
    }
}

/// Writes a shape, so that it can be read from that path.
pub(crate) fn write(shape: Shape, target: &Target, path: &Path) {
    let functions = (1..=shape.functions).map(|id| Function {
        id: FunctionId(id),
        name: format!("{id:0width$}", width = shape.name_bytes),
        ..Function::default()
    });
    let info = TraceInfo {
        functions: functions.collect(),
        ..TraceInfo::default()
    };
    let output = if target.kind == Kind::Folder {
        fs::create_dir(path).expect("a folder");
        Output::Folder(path.to_owned())
    } else {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create_new(true);
        Output::File(options.open(path).expect("a file"))
    };
    let mut writer = (target.create)(output, &info).expect("a writer");
    (shape.events)(&mut *writer);
    writer.finish().expect("a trace");
}

/// The shape of that name.
pub(crate) fn shape_called(name: &str) -> Shape {
    let known = SHAPES.iter().find(|shape| shape.name == name);
    *known.expect("a shape")
}

/// Writes an XRay file of version 3 without names of functions. Each thread has records 3 ticks apart; each record is a
/// function and an action.
pub(crate) fn raw<I: Iterator<Item = (u32, u32)>>(
    path: &Path,
    threads: u32,
    records: impl Fn(u32) -> I,
) {
    let mut out = BufWriter::new(File::create(path).expect("a file"));
    let mut put = |bytes: &[u8]| out.write_all(bytes).expect("room");
    // Version, kind, both clock bits, a tick for each nanosecond.
    put(&[3, 0, 1, 0, 3, 0, 0, 0]);
    put(&1_000_000_000_u64.to_le_bytes());
    put(&[0; 16]);
    let metadata = |kind: u8, body: &[u8]| {
        let mut record = [0; 16];
        record[0] = kind << 1 | 1;
        record[1..=body.len()].copy_from_slice(body);
        record
    };
    for thread in 1..=threads {
        let bytes = 8 * records(thread).count() as u64 + 64;
        put(&metadata(7, &bytes.to_le_bytes()));
        put(&metadata(0, &thread.to_le_bytes()));
        put(&metadata(4, &[0; 12]));
        put(&metadata(9, &thread.to_le_bytes()));
        put(&metadata(2, &[0, 0, 1, 0, 0, 0, 0, 0, 0, 0]));
        for (function, action) in records(thread) {
            put(&(function << 4 | action << 1).to_le_bytes());
            put(&3_u32.to_le_bytes());
        }
    }
}

/// Writes a ring file of one thread. Its table has `functions` functions with ids from 1 on.
pub(crate) fn ring(path: &Path, functions: u32) {
    let ids: Vec<u32> = (1..=functions).collect();
    name(path, &ids);
}

/// The same with functions of those numbers.
pub(crate) fn name(path: &Path, ids: &[u32]) {
    const GOLDEN: &[u8] = include_bytes!("../../../golden/ring/by_hand.fdr-ring");
    let mut table = Vec::new();
    for id in ids {
        // Bytes of the entry, number, line, lengths of name and file, name, padding.
        table.extend([24, *id, 1, 1].map(u32::to_le_bytes).concat());
        table.extend(*b"f\0\0\0\0\0\0\0");
    }
    let mut bytes = GOLDEN.to_vec();
    let start = bytes.len() as u64;
    bytes[40..48].copy_from_slice(&start.to_le_bytes());
    bytes[48..56].copy_from_slice(&(table.len() as u64).to_le_bytes());
    bytes.extend(table);
    fs::write(path, bytes).expect("a ring");
}
