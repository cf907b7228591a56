//! Layout of what this project writes: the head of a packet, and each event. Little-endian, aligned to 8 bits. Pure.
//! `metadata` must describe exactly this layout, because readers go by the metadata. Our own reader does so too.
//!
//! A packet. Source: CTF 1.8.3, sections 5 and 8, and this project's choice of fields.
//!
//! | offset | size | field | unit |
//! | --- | --- | --- | --- |
//! | 0 | 4 | magic `0xC1FC1FC1` | |
//! | 4 | 16 | UUID of the trace | |
//! | 20 | 4 | stream class: 0 threads, 1 facts, 2 [`super::states`] | |
//! | 24 | 8 | stream instance: the thread's number; 0 for others | |
//! | 32 | 8 | time of the first event, or of the change of CPU | ns |
//! | 40 | 8 | time of the last event | ns |
//! | 48 | 8 | size of head and events | bits |
//! | 56 | 8 | size of the packet | bits |
//! | 64 | 8 | number of the packet in its file, from 0 | |
//! | 72 | 8 | function records of the thread lost so far | |
//! | 80 | 4 | CPU, `0xFFFFFFFF` where it is not known | |
//! | 84 | 1 | 1: the thread was seen on that CPU when the packet began | |
//!
//! Each event begins with its class (u8) and its time (u64, ns). In events of threads, i32 process, i32
//! thread and name (zero-terminated) follow. Then come the fields:
//!
//! | stream | class | name | fields |
//! | --- | --- | --- | --- |
//! | 0 | 0, 1 | `lttng_ust_cyg_profile:func_entry`, `…:func_exit` | u32 function, u32 its caller or 0, u8 flags |
//! | 0 | 2 | `fdr:arguments` | u32 count, count u64 |
//! | 0 | 3 | `fdr:custom` | i64 CPU or -1, u32 size, size bytes |
//! | 0 | 4 | `fdr:typed` | u16 type, u32 size, size bytes |
//! | 0 | 5 | `fdr:lost` | u64 function records |
//! | 0 | 6 | `fdr:wall` | u64 seconds, u32 microseconds |
//! | 0 | 7 | `fdr:head` | none: the packet's head says a CPU or losses that no other event follows |
//! | 1 | 0 | `fdr:trace` | see [`trace`] |
//! | 1 | 1 | `fdr:function` | u32 id, u32 line, text name, text file |
//! | 1 | 2 | `fdr:thread` | u64 id, u8 flags (bit 0: process, bit 1: counts), u64 process, text name, 6 u64 counts |
//!
//! A text is u32 bytes, then UTF-8. `note_classes` has further classes, which only traces with notes have.

use crate::facts::{Fact, Names, Value, of_counts};
use crate::identity::Part;
use crate::model::{Function, Thread, TraceInfo};
use crate::note_class::NoteClass;
use crate::text::cut;

/// First four bytes of a packet.
pub(super) const MAGIC: u32 = 0xC1FC_1FC1;
/// Bytes in front of a packet's first event.
pub(super) const HEAD_SIZE: usize = 85;
/// The CPU if it is unknown. Trace Compass gives this number the same meaning.
pub(super) const NO_CPU: u32 = u32::MAX;
/// Stream classes.
pub(super) const THREADS: u32 = 0;
/// See [`THREADS`].
pub(super) const FACTS: u32 = 1;

/// Event classes of threads.
pub(super) const ENTRY: u8 = 0;
pub(super) const EXIT: u8 = 1;
pub(super) const ARGUMENTS: u8 = 2;
pub(super) const CUSTOM: u8 = 3;
pub(super) const TYPED: u8 = 4;
pub(super) const LOST: u8 = 5;
pub(super) const WALL: u8 = 6;
pub(super) const HEAD: u8 = 7;
pub(super) const TASK: u8 = 8;
pub(super) const THREAD_STATE: u8 = 9;
pub(super) const NOTE: u8 = 10;
/// The exit of a poll whose task is known.
pub(super) const POLL_EXIT: u8 = 11;

/// Event classes of facts.
pub(super) const TRACE: u8 = 0;
pub(super) const FUNCTION: u8 = 1;
pub(super) const THREAD: u8 = 2;
pub(super) const CLASS: u8 = 3;
pub(super) const NAME: u8 = 4;

/// The bits of a call's flags.
pub(super) mod flags {
    /// The edge was not measured.
    pub(in super::super) const SYNTHETIC: u8 = 1;
    /// The function was left by a tail call.
    pub(in super::super) const TAIL_EXIT: u8 = 2;
    /// Arguments follow.
    pub(in super::super) const ARGUMENTS: u8 = 4;
}

/// The bits of `known` in `fdr:trace` and `fdr:thread`.
pub(super) mod known {
    pub(in super::super) const PROCESS: u8 = 1;
    pub(in super::super) const DUMP: u8 = 2;
    pub(in super::super) const ANCHOR: u8 = 4;
    pub(in super::super) const ERROR: u8 = 8;
    pub(in super::super) const END: u8 = 16;
    /// In `fdr:thread`.
    pub(in super::super) const COUNTS: u8 = 2;
}

/// The longest name that an event of a thread carries: the longest that the system keeps.
pub(super) const COMM_SIZE: usize = 15;

/// The head of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) uuid: [u8; 16],
    pub(super) stream: u32,
    pub(super) instance: u64,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Bytes, head included. There is no padding, so both sizes are this one.
    pub(super) size: u64,
    pub(super) sequence: u64,
    pub(super) discarded: u64,
    pub(super) cpu: u32,
    pub(super) cpu_seen: bool,
}

/// A packet's head.
pub(super) fn head(head: &Head) -> [u8; HEAD_SIZE] {
    let mut bytes = [0; HEAD_SIZE];
    let bits = head.size.saturating_mul(8);
    put(&mut bytes, 0, MAGIC.to_le_bytes());
    put(&mut bytes, 4, head.uuid);
    put(&mut bytes, 20, head.stream.to_le_bytes());
    put(&mut bytes, 24, head.instance.to_le_bytes());
    let numbers = [
        head.begin,
        head.end,
        bits,
        bits,
        head.sequence,
        head.discarded,
    ];
    for (at, number) in (32..).step_by(8).zip(numbers) {
        put(&mut bytes, at, number.to_le_bytes());
    }
    put(&mut bytes, 80, head.cpu.to_le_bytes());
    put(&mut bytes, 84, [u8::from(head.cpu_seen)]);
    bytes
}

/// Every place is a constant below the array's end.
fn put<const N: usize, const M: usize>(bytes: &mut [u8; N], at: usize, field: [u8; M]) {
    bytes[at..at + M].copy_from_slice(&field);
}

/// Writes the events of one thread, which share their context.
#[derive(Clone, Debug)]
pub(super) struct Template {
    context: Vec<u8>,
}

impl Template {
    /// `comm` is cut to [`COMM_SIZE`] bytes and holds no zero byte.
    pub(super) fn new(process: i32, thread: i32, comm: &str) -> Template {
        let comm = &comm.as_bytes()[..comm.len().min(COMM_SIZE)];
        let mut context = [process.to_le_bytes(), thread.to_le_bytes()].concat();
        context.extend_from_slice(comm);
        context.push(0);
        Template { context }
    }

    /// An edge of a call, of that class.
    pub(super) fn call(
        &self,
        class: u8,
        time: u64,
        function: u32,
        caller: u32,
        flags: u8,
        out: &mut Vec<u8>,
    ) {
        self.begin(class, time, out);
        out.extend(function.to_le_bytes());
        out.extend(caller.to_le_bytes());
        out.push(flags);
    }

    /// The exit of a poll of that task.
    pub(super) fn poll_exit(
        &self,
        time: u64,
        function: u32,
        caller: u32,
        flags: u8,
        task: u64,
        out: &mut Vec<u8>,
    ) {
        self.call(POLL_EXIT, time, function, caller, flags, out);
        out.extend(task.to_le_bytes());
    }

    fn begin(&self, class: u8, time: u64, out: &mut Vec<u8>) {
        out.push(class);
        out.extend(time.to_le_bytes());
        out.extend_from_slice(&self.context);
    }

    pub(super) fn arguments(&self, time: u64, values: &[u64], out: &mut Vec<u8>) {
        self.begin(ARGUMENTS, time, out);
        out.extend(length(values.len()));
        out.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }

    pub(super) fn custom(&self, time: u64, cpu: Option<u32>, data: &[u8], out: &mut Vec<u8>) {
        self.begin(CUSTOM, time, out);
        out.extend(cpu.map_or(-1, i64::from).to_le_bytes());
        out.extend(length(data.len()));
        out.extend_from_slice(data);
    }

    pub(super) fn typed(&self, time: u64, kind: u16, data: &[u8], out: &mut Vec<u8>) {
        self.begin(TYPED, time, out);
        out.extend(kind.to_le_bytes());
        out.extend(length(data.len()));
        out.extend_from_slice(data);
    }

    pub(super) fn lost(&self, time: u64, records: u64, out: &mut Vec<u8>) {
        self.begin(LOST, time, out);
        out.extend(records.to_le_bytes());
    }

    pub(super) fn wall(&self, time: u64, seconds: u64, micros: u32, out: &mut Vec<u8>) {
        self.begin(WALL, time, out);
        out.extend(seconds.to_le_bytes());
        out.extend(micros.to_le_bytes());
    }

    pub(super) fn head(&self, time: u64, out: &mut Vec<u8>) {
        self.begin(HEAD, time, out);
    }

    /// A note of that class, see `note_classes`.
    pub(super) fn note(&self, time: u64, class: u8, fields: &[u8], out: &mut Vec<u8>) {
        self.begin(class, time, out);
        out.extend_from_slice(fields);
    }
}

/// Callers cut texts to a length that fits.
fn length(count: usize) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()
}

pub(super) fn text(text: &str, out: &mut Vec<u8>) {
    out.extend(length(text.len()));
    out.extend_from_slice(text.as_bytes());
}

/// A text without characters that would need an escape, cut to this many bytes.
pub(super) fn plain(text: &str, most: usize) -> String {
    let text = cut(text, most);
    let plain = |char: char| match char {
        '"' | '\\' => '_',
        char if char.is_control() => '_',
        char => char,
    };
    text.chars().map(plain).collect()
}

fn fact(class: u8, time: u64, out: &mut Vec<u8>) {
    out.push(class);
    out.extend(time.to_le_bytes());
}

/// The facts of `fdr:trace`, in their order. Texts come first, and `known` stands behind them.
pub(super) const TRACE_NAMES: &Names = &[
    (Fact::Program, "program"),
    (Fact::Reason, "reason"),
    (Fact::ClockName, "clock_name"),
    (Fact::Process, "process"),
    (Fact::Dump, "dump"),
    (Fact::MissingThreads, "retired_threads"),
    (Fact::MissingOverwritten, "retired_records"),
    (Fact::MissingDropped, "unplaced_records"),
    (Fact::Frequency, "frequency"),
    (Fact::ErrorPpm, "error_ppm"),
    (Fact::Constant, "constant"),
    (Fact::Nonstop, "nonstop"),
    (Fact::AnchorTime, "anchor_time"),
    (Fact::AnchorUnix, "anchor_unix"),
    (Fact::End, "end_time"),
    (Fact::Identity(Part::Host), "host"),
    (Fact::Identity(Part::Boot), "boot_id"),
    (Fact::Identity(Part::Build), "build_id"),
    (Fact::Identity(Part::Version), "program_version"),
    (Fact::Identity(Part::Tags), "tags"),
];

/// The facts that `known` has a bit for.
pub(super) const TRACE_BITS: &[(Fact, u8)] = &[
    (Fact::Process, known::PROCESS),
    (Fact::Dump, known::DUMP),
    (Fact::AnchorTime, known::ANCHOR),
    (Fact::AnchorUnix, known::ANCHOR),
    (Fact::ErrorPpm, known::ERROR),
    (Fact::End, known::END),
];

/// `fdr:trace`. The anchor and the end are in ns of this trace's clock. Each number has 64 bits, a flag
/// has 8.
pub(super) fn trace(
    time: u64,
    info: &TraceInfo,
    anchor: Option<(u64, u64)>,
    end: Option<u64>,
    out: &mut Vec<u8>,
) {
    let value = |fact: Fact| match fact {
        Fact::AnchorTime => anchor.map(|(here, _)| Value::Number(here)),
        Fact::AnchorUnix => anchor.map(|(_, unix)| Value::Number(unix)),
        Fact::End => end.map(Value::Number),
        _ => fact.get(info),
    };
    let stated = TRACE_BITS.iter().filter(|(fact, _)| value(*fact).is_some());
    let mut bits = Some(stated.fold(0, |bits, (_, bit)| bits | bit));
    fact(TRACE, time, out);
    for &(fact, _) in TRACE_NAMES {
        if !fact.is_text() {
            out.extend(bits.take());
        }
        match value(fact) {
            Some(Value::Text(value)) => text(value, out),
            Some(Value::Number(number)) => out.extend(number.to_le_bytes()),
            Some(Value::Float(number)) => out.extend(number.to_le_bytes()),
            _ if fact.is_text() => text("", out),
            value if fact.is_flag() => out.push(u8::from(value.is_some())),
            _ => out.extend([0; 8]),
        }
    }
}

/// `fdr:function`; or `fdr:name` for a name without calls.
pub(super) fn function(time: u64, function: &Function, out: &mut Vec<u8>) {
    let is_called = function.is_called();
    fact(if is_called { FUNCTION } else { NAME }, time, out);
    out.extend(function.id.0.to_le_bytes());
    out.extend(function.line.to_le_bytes());
    if !is_called {
        out.push(function.kind as u8);
    }
    text(&function.name, out);
    text(&function.file, out);
}

/// `fdr:class`.
pub(super) fn class(time: u64, id: u8, class: &NoteClass, out: &mut Vec<u8>) {
    fact(CLASS, time, out);
    out.push(id);
    out.extend(class.event.to_le_bytes());
    out.extend(length(class.fields.len()));
    out.extend(class.fields.iter().flat_map(|field| field.to_le_bytes()));
}

/// `fdr:thread`.
pub(super) fn thread(time: u64, thread: &Thread, out: &mut Vec<u8>) {
    fact(THREAD, time, out);
    out.extend(thread.id.0.to_le_bytes());
    let process = u8::from(thread.process.is_some()) * known::PROCESS;
    let counts = u8::from(thread.counts.is_some()) * known::COUNTS;
    out.push(process | counts);
    out.extend(thread.process.unwrap_or_default().to_le_bytes());
    text(&thread.name, out);
    for (_, count) in of_counts(&thread.counts.unwrap_or_default()) {
        out.extend(count.to_le_bytes());
    }
}
