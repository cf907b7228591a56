//! Entries with times become the events of their threads. The file holds the entries of a thread in the
//! order of its events. Each entry names its parent: the call in which it happened. When an entry comes,
//! the open calls that are not its ancestors have ended. The order needs no times, so calls that last 0 ns
//! keep their order.
//!
//! [`ThreadBatches`] collects the events by thread for the sink, because the threads are mixed in the file.
//! Memory is the open calls of all threads and one batch of calls a thread.

use std::collections::HashMap;

use super::facts::{self, flags};
use super::index::{Index, when};
use super::names;
use super::notes;
use super::record::{Decoded, Entry, Value};
use super::scan::{self, Flow, Frame};
use crate::bytes::ReadAt;
use crate::error::{DiagnosticList, Error};
use crate::model::{Call, CpuId, Edge, FunctionId, Mark, Thread, ThreadId, Ticks};
use crate::sink::Sink;

/// The number of bytes between two reports of progress.
const STEP: u64 = 1 << 20;

/// Decodes the whole file.
pub(super) fn decode(
    bytes: &dyn ReadAt,
    index: &Index,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    let threads = &index.info.threads;
    let mut decoder = Decoder {
        index,
        batches: ThreadBatches::new(threads, sink),
        stacks: threads.iter().map(|_| Stack::default()).collect(),
        arguments: Vec::new(),
        diagnostics: DiagnosticList::default(),
        done: 0,
        progress,
    };
    scan::each(bytes, &index.layout, &mut |frame: &Frame<'_>| {
        decoder.frame(frame);
        Flow::On
    })?;
    decoder.finish();
    progress(index.layout.size - decoder.done);
    Ok(())
}

/// A call that is open.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// Place of its entry.
    index: u64,
    function: FunctionId,
    flags: u8,
    /// `None`: not known.
    end: Option<Ticks>,
    exit_cpu: Option<CpuId>,
}

#[derive(Debug, Default)]
struct Stack {
    open: Vec<Open>,
    cpu: Option<CpuId>,
}

struct Decoder<'a> {
    index: &'a Index,
    batches: ThreadBatches<'a>,
    stacks: Vec<Stack>,
    arguments: Vec<(u32, u64)>,
    diagnostics: DiagnosticList,
    /// Bytes whose progress was reported.
    done: u64,
    progress: &'a (dyn Fn(u64) + Sync),
}

/// The attributes of a call's entry.
#[derive(Debug, Default)]
struct EntryAttributes {
    cpu: Option<CpuId>,
    exit_cpu: Option<CpuId>,
    flags: u8,
    end: Option<Ticks>,
    foreign: bool,
}

impl Decoder<'_> {
    fn frame(&mut self, frame: &Frame<'_>) {
        if let Some(decoded) = frame.content.as_ref().filter(|_| frame.index > 0) {
            self.entry(frame, decoded);
        }
        if frame.offset >= self.done + STEP {
            (self.progress)(frame.offset - self.done);
            self.done = frame.offset;
        }
    }

    fn entry(&mut self, frame: &Frame<'_>, decoded: &Decoded<'_>) {
        let entry = &decoded.entry;
        if entry.metadata.target == facts::TARGET {
            match entry.metadata.name {
                facts::TRACE | facts::FUNCTION | facts::THREAD => return,
                facts::CUSTOM | facts::TYPED | facts::LOST | facts::WALL => {
                    return self.mark(frame, entry);
                }
                _ => {}
            }
        }
        if notes::is_note(entry) {
            return self.mark(frame, entry);
        }
        let when = when(entry);
        let placed = when.and_then(|(thread, start)| Some((self.batches.place(thread)?, start)));
        if let Some((place, start)) = placed {
            self.leave(frame, place, entry.parent, start);
            let attributes = self.split_attributes(entry, start);
            let function = self.index.names.function(decoded);
            self.call(frame, place, start, function, &attributes);
            if attributes.foreign {
                self.foreign(entry, place, start);
            }
        }
    }

    /// A call that begins, or a lone exit. Its arguments are in `self.arguments`.
    fn call(
        &mut self,
        frame: &Frame<'_>,
        place: usize,
        start: Ticks,
        function: FunctionId,
        attributes: &EntryAttributes,
    ) {
        self.edge_cpu(place, start, attributes.cpu);
        if attributes.flags & flags::LONE_EXIT != 0 {
            self.batches
                .call(place, exit(start, function, attributes.flags));
        } else {
            let call = Call {
                time: start,
                function,
                edge: Edge::Entry,
                synthetic: attributes.flags & flags::SYNTHETIC_ENTRY != 0,
                has_arguments: !self.arguments.is_empty()
                    || attributes.flags & flags::NO_ARGUMENTS != 0,
            };
            self.batches.call(place, call);
            self.stacks[place].open.push(Open {
                index: frame.index,
                function,
                flags: attributes.flags,
                end: attributes.end,
                exit_cpu: attributes.exit_cpu,
            });
        }
        for &(_, value) in &self.arguments {
            self.batches.mark(place, &Mark::Argument { value });
        }
    }

    /// Splits the attributes; arguments go to `self.arguments`, in order.
    fn split_attributes(&mut self, entry: &Entry<'_>, start: Ticks) -> EntryAttributes {
        self.arguments.clear();
        let mut attributes = EntryAttributes {
            foreign: entry.message.is_some(),
            ..EntryAttributes::default()
        };
        for &(name, value) in &entry.attributes {
            match (name, value) {
                ("tid" | "start_ns" | "function", Value::U64(_)) => {}
                ("cpu", Value::U64(value)) => attributes.cpu = cpu(value),
                ("exit_cpu", Value::U64(value)) => attributes.exit_cpu = cpu(value),
                ("flags", Value::U64(value)) => attributes.flags = value as u8,
                ("duration_ns", Value::U64(value)) => {
                    attributes.end = start.0.checked_add(value).map(Ticks)
                }
                ("duration_ns", Value::I64(value)) => {
                    attributes.end = start.0.checked_add_signed(value).map(Ticks);
                }
                (name, Value::U64(value)) => {
                    let number = facts::argument(name).unwrap_or(u32::MAX);
                    self.arguments.push((number, value));
                }
                _ => attributes.foreign = true,
            }
        }
        // In the order of bytes, `arg10` comes before `arg2`. The sort is stable.
        self.arguments.sort_by_key(|&(number, _)| number);
        attributes
    }

    /// Text, and attributes that this project's calls do not have.
    fn foreign(&mut self, entry: &Entry<'_>, place: usize, time: Ticks) {
        let text = names::describe(entry, |name| {
            matches!(
                name,
                "tid" | "start_ns" | "function" | "cpu" | "exit_cpu" | "flags" | "duration_ns"
            )
        });
        let (cpu, data) = (None, text.as_bytes());
        if !data.is_empty() {
            self.batches.mark(place, &Mark::Custom { time, cpu, data });
        }
    }

    /// Ends each open call of the thread, except the ancestors of an entry.
    fn leave(&mut self, frame: &Frame<'_>, place: usize, parent: u32, time: Ticks) {
        let parent = u64::from(parent);
        if parent >= frame.index {
            // The fault was reported before; the times must do.
            let has_ended = |open: &Open| open.end.is_some_and(|end| end <= time);
            while self.stacks[place].open.last().is_some_and(has_ended) {
                self.close(place);
            }
            return;
        }
        let is_inside = |open: &Open| open.index > parent;
        while self.stacks[place].open.last().is_some_and(is_inside) {
            self.close(place);
        }
        let top = self.stacks[place].open.last().map_or(0, |open| open.index);
        if top != parent && self.index.holes == 0 {
            let what = format!(
                "the parent of entry {}, {parent}, is no open call of the same thread: ignored",
                frame.index
            );
            self.diagnostics.add(frame.offset, what);
        }
    }

    /// Ends the innermost open call.
    fn close(&mut self, place: usize) {
        let Some(open) = self.stacks[place].open.pop() else {
            return;
        };
        if let Some(end) = open.end {
            self.edge_cpu(place, end, open.exit_cpu);
            self.batches
                .call(place, exit(end, open.function, open.flags));
        }
    }

    /// The CPU at an edge, if it differs from the previous one.
    fn edge_cpu(&mut self, place: usize, time: Ticks, cpu: Option<CpuId>) {
        let known = &mut self.stacks[place].cpu;
        if let Some(cpu) = cpu.filter(|&cpu| *known != Some(cpu)) {
            *known = Some(cpu);
            self.batches.mark(place, &Mark::Cpu { time, cpu });
        }
    }

    fn mark(&mut self, frame: &Frame<'_>, entry: &Entry<'_>) {
        let Some(place) =
            facts::unsigned(entry, "tid").and_then(|thread| self.batches.place(ThreadId(thread)))
        else {
            let what = "an event without `tid`: left out";
            self.diagnostics.add(frame.offset, what);
            return;
        };
        let number = |name| facts::unsigned(entry, name);
        let time = Ticks(number("start_ns").unwrap_or_default());
        self.leave(frame, place, entry.parent, time);
        if notes::is_note(entry) {
            return self.note(place, time, entry);
        }
        let data = match entry.attribute("data") {
            Some(Value::Bytes(data)) => data,
            _ => &[],
        };
        let mark = match entry.metadata.name {
            facts::CUSTOM => Mark::Custom {
                time,
                cpu: number("cpu").and_then(cpu),
                data,
            },
            facts::TYPED => Mark::Typed {
                time,
                kind: number("type")
                    .and_then(|kind| u16::try_from(kind).ok())
                    .unwrap_or_default(),
                data,
            },
            facts::LOST => Mark::missing(number("records").unwrap_or_default(), time),
            _ => Mark::Wall {
                seconds: number("seconds").unwrap_or_default(),
                micros: number("micros")
                    .and_then(|micros| u32::try_from(micros).ok())
                    .filter(|&micros| micros < 1_000_000)
                    .unwrap_or_default(),
            },
        };
        self.batches.mark(place, &mark);
    }

    /// Decodes a note. A damaged note becomes an event with its raw content.
    fn note(&mut self, place: usize, time: Ticks, entry: &Entry<'_>) {
        if let Some((kind, body)) = notes::note(entry) {
            let body = &body;
            self.batches.mark(place, &Mark::Note { time, kind, body });
        } else {
            self.foreign(entry, place, time);
        }
    }

    fn finish(&mut self) {
        for place in 0..self.stacks.len() {
            while !self.stacks[place].open.is_empty() {
                self.close(place);
            }
        }
        self.batches.finish();
        for diagnostic in std::mem::take(&mut self.diagnostics).finish() {
            self.batches.sink().diagnostic(diagnostic);
        }
    }
}

fn exit(time: Ticks, function: FunctionId, flags: u8) -> Call {
    let tail = flags & flags::TAIL_EXIT != 0;
    Call {
        time,
        function,
        edge: if tail { Edge::TailExit } else { Edge::Exit },
        synthetic: flags & flags::SYNTHETIC_EXIT != 0,
        has_arguments: false,
    }
}

fn cpu(value: u64) -> Option<CpuId> {
    u32::try_from(value).ok().map(CpuId)
}

/// Calls of a thread that are kept before they are handed over.
const BATCH: usize = 512;

/// The threads of a trace on their way into a sink.
pub(super) struct ThreadBatches<'a> {
    sink: &'a mut dyn Sink,
    threads: &'a [Thread],
    place_of: HashMap<ThreadId, usize>,
    batches: Vec<Batch>,
    /// The thread that the sink got last.
    now: Option<usize>,
}

#[derive(Debug, Default)]
struct Batch {
    calls: Vec<Call>,
    reported: bool,
}

impl<'a> ThreadBatches<'a> {
    /// Begins with empty batches; `threads` are all threads.
    pub(super) fn new(threads: &'a [Thread], sink: &'a mut dyn Sink) -> ThreadBatches<'a> {
        let ids = threads.iter().map(|thread| thread.id);
        ThreadBatches {
            sink,
            threads,
            place_of: ids.zip(0..).collect(),
            batches: threads.iter().map(|_| Batch::default()).collect(),
            now: None,
        }
    }

    /// The sink itself, for events that belong to no thread.
    pub(super) fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    /// The place of a thread.
    pub(super) fn place(&self, thread: ThreadId) -> Option<usize> {
        self.place_of.get(&thread).copied()
    }

    /// A call of a thread.
    pub(super) fn call(&mut self, place: usize, call: Call) {
        let Some(batch) = self.batches.get_mut(place) else {
            return;
        };
        batch.calls.push(call);
        if batch.calls.len() >= BATCH {
            self.hand_over(place);
        }
    }

    /// An event that is no call. The thread's earlier calls come first.
    pub(super) fn mark(&mut self, place: usize, mark: &Mark<'_>) {
        self.hand_over(place);
        self.turn(place);
        self.sink.mark(mark);
    }

    /// Hands over all batches. Threads without events are named too.
    pub(super) fn finish(&mut self) {
        for place in 0..self.batches.len() {
            self.hand_over(place);
            if !self.batches[place].reported {
                self.turn(place);
            }
        }
    }

    fn hand_over(&mut self, place: usize) {
        let Some(batch) = self.batches.get_mut(place) else {
            return;
        };
        if batch.calls.is_empty() {
            return;
        }
        let mut calls = std::mem::take(&mut batch.calls);
        self.turn(place);
        self.sink.calls(&calls);
        calls.clear();
        self.batches[place].calls = calls;
    }

    fn turn(&mut self, place: usize) {
        if self.now == Some(place) {
            return;
        }
        if let (Some(thread), Some(batch)) = (self.threads.get(place), self.batches.get_mut(place))
        {
            self.now = Some(place);
            batch.reported = true;
            self.sink.thread(thread);
        }
    }
}
