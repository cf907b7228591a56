//! Writes events of any format as an HTDUMP stream. A call is written when it ends, before its parent,
//! as HawkTracer does it; marks where they come. Memory is the functions, the threads and the calls that
//! are open. Must never write what a real parser stops at: see `klass`.

use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

use super::escape::escape;
use super::klass::{self, MAX_ARGUMENTS, OWN_CALL};
use super::record::{CALL, endianness};
use super::tables::{Encoder, is_cut, nanos};
use super::walk::MAX_RECORD;
use crate::bytes::ByteOrder;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Clock, Function, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spans::{Span, Spans};
use crate::writer::Writer;

/// Bytes that are handed over at a time.
const CHUNK: usize = 128 * 1024;
/// Bytes of a record beside its one long text, at most.
const REST: usize = 64;

/// A thread that was told of.
#[derive(Debug)]
struct Lane {
    /// Its number in the file.
    number: u32,
    thread: Thread,
    /// The time of its last event, in ns.
    last: u64,
}

/// A sink that writes an HTDUMP stream.
pub struct HtdumpWriter<W: Write> {
    clock: Clock,
    lanes: Vec<Lane>,
    lane_of: HashMap<ThreadId, usize>,
    /// Numbers of threads that are taken.
    numbers: HashSet<u32>,
    now: Option<usize>,
    spans: Spans,
    /// An argument may follow, of a call that is open.
    arguments: bool,
    stream: Stream<W>,
}

/// The bytes on their way out.
struct Stream<W: Write> {
    out: W,
    buffer: Vec<u8>,
    encoder: Encoder,
    /// All klasses and functions so far, for a reader that joins late.
    preamble: Vec<u8>,
    mapped: Mapped,
    /// Klasses of calls that were announced, by number of arguments.
    announced: HashSet<usize>,
    losses: Losses,
    failed: Option<io::Error>,
}

/// Functions that have a mapping. Looked at for each call, so those with low numbers are not hashed.
#[derive(Debug, Default)]
struct Mapped {
    low: Vec<bool>,
    high: HashSet<FunctionId>,
}

impl Mapped {
    const LOW: usize = 1 << 16;

    fn insert(&mut self, id: FunctionId) {
        let at = id.0 as usize;
        if at >= Self::LOW {
            self.high.insert(id);
            return;
        }
        if at >= self.low.len() {
            self.low.resize(at + 1, false);
        }
        self.low[at] = true;
    }

    #[inline]
    fn contains(&self, id: FunctionId) -> bool {
        match self.low.get(id.0 as usize) {
            Some(&is_mapped) => is_mapped,
            None => self.high.contains(&id),
        }
    }
}

impl<W: Write> HtdumpWriter<W> {
    /// Begins a stream; `info` gives clock, functions and program. Nothing is written before there is
    /// some amount of it, or [`Writer::flush`].
    #[must_use]
    pub fn new(out: W, order: ByteOrder, info: &TraceInfo) -> HtdumpWriter<W> {
        let mut stream = Stream {
            out,
            buffer: Vec::with_capacity(2 * CHUNK),
            encoder: Encoder { order, number: 0 },
            preamble: endianness(order).to_vec(),
            mapped: Mapped::default(),
            announced: HashSet::new(),
            losses: Losses::default(),
            failed: None,
        };
        stream.encoder.klasses(&mut stream.preamble);
        stream.encoder.trace(&mut stream.preamble, info);
        for text in [&info.program, &info.reason, &info.clock.name] {
            stream.note_cut(text);
        }
        stream.buffer.extend_from_slice(&stream.preamble);
        stream.functions(&info.functions);
        HtdumpWriter {
            clock: info.clock.clone(),
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            numbers: HashSet::new(),
            now: None,
            spans: Spans::default(),
            arguments: false,
            stream,
        }
    }

    /// The number of a thread in the file: its own, where that has 32 bits and is not taken.
    fn number(&mut self, thread: ThreadId) -> u32 {
        let own = u32::try_from(thread.0).ok();
        if let Some(own) = own.filter(|&own| self.numbers.insert(own)) {
            return own;
        }
        let mut number = u32::MAX;
        while !self.numbers.insert(number) {
            number -= 1;
        }
        number
    }

    /// A time of the thread at hand in ns: never before the last one, because a reader sorts by time.
    #[inline]
    fn time(&mut self, ticks: Ticks) -> u64 {
        let nanos = nanos(&self.clock, ticks);
        let Some(lane) = self.now.and_then(|now| self.lanes.get_mut(now)) else {
            return nanos;
        };
        if nanos < lane.last {
            let what = "times before that of the thread's last event: moved up to that";
            self.stream.losses.add(what, 1);
        } else {
            lane.last = nanos;
        }
        if nanos == u64::MAX && ticks.0 != u64::MAX {
            let what = "times of 2^64 ns and more: moved there";
            self.stream.losses.add(what, 1);
        }
        lane.last
    }

    fn payload(&mut self, data: &[u8]) -> Option<String> {
        let text = escape(data);
        if text.len() <= MAX_RECORD - REST {
            return Some(text);
        }
        let what = "custom and typed events of 64 MiB and more, escaped: left out";
        self.stream.losses.add(what, 1);
        None
    }
}

impl<W: Write> Stream<W> {
    fn note_cut(&mut self, text: &str) {
        let what = "names longer than 16 MiB, escaped: cut";
        self.losses.add(what, u64::from(is_cut(text)));
    }

    /// Writes what late readers need as well.
    fn lasting(&mut self, from: usize) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.extend_from_slice(&self.preamble[from..]);
        self.hand_over(CHUNK);
    }

    fn functions(&mut self, functions: &[Function]) {
        for function in functions {
            let from = self.preamble.len();
            self.encoder.function(&mut self.preamble, function);
            self.note_cut(&function.name);
            self.note_cut(&function.file);
            self.mapped.insert(function.id);
            self.lasting(from);
        }
    }

    /// Gives the buffer to the output where it holds that much.
    #[inline]
    fn hand_over(&mut self, limit: usize) {
        if self.buffer.len() >= limit {
            self.write();
        }
    }

    #[cold]
    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
    }

    fn span(&mut self, thread: u32, span: &Span) {
        if !self.mapped.contains(span.function) {
            self.unlisted(span.function);
        }
        if span.flags == 0 && span.arguments.is_empty() {
            let buffer = &mut self.buffer;
            self.encoder.call(buffer, CALL, thread, span);
        } else {
            self.detailed(thread, span);
        }
        self.hand_over(CHUNK);
    }

    /// A call with flags or arguments.
    fn detailed(&mut self, thread: u32, span: &Span) {
        let count = span.arguments.len().min(MAX_ARGUMENTS);
        if !self.announced.contains(&count) {
            self.announce(count);
        }
        let klass = OWN_CALL + count as u32;
        let record = self.encoder.call(&mut self.buffer, klass, thread, span);
        let record = record.u32(span.flags.into());
        let arguments = span.arguments.iter().take(count);
        let _ = arguments.fold(record, |record, &value| record.u64(value));
        let what = "arguments after the 253rd of a call: left out";
        self.losses.add(what, (span.arguments.len() - count) as u64);
    }

    #[cold]
    fn unlisted(&mut self, function: FunctionId) {
        let from = self.preamble.len();
        self.encoder.unlisted(&mut self.preamble, function);
        self.mapped.insert(function);
        self.lasting(from);
    }

    #[cold]
    fn announce(&mut self, arguments: usize) {
        let from = self.preamble.len();
        self.encoder.call_klass(&mut self.preamble, arguments);
        self.announced.insert(arguments);
        self.lasting(from);
    }

    fn mark(&mut self, thread: u32, time: u64, mark: &Mark<'_>, payload: &str) {
        let klass = match mark {
            Mark::Cpu { .. } => klass::CPU,
            Mark::Wall { .. } => klass::WALL,
            Mark::Lost { .. } => klass::LOST,
            Mark::Custom { .. } => klass::CUSTOM,
            Mark::Typed { .. } => klass::TYPED,
            Mark::Argument { .. } => return,
        };
        let record = self
            .encoder
            .begin(&mut self.buffer, klass, time)
            .u32(thread);
        let _ = match *mark {
            Mark::Cpu { cpu, .. } => record.u32(cpu.0),
            Mark::Wall { seconds, micros } => record.u64(seconds).u32(micros),
            Mark::Lost { records } => record.u64(records),
            Mark::Custom { cpu, .. } => record
                .u32(u32::from(cpu.is_some()) * klass::known::CPU as u32)
                .u32(cpu.map_or(0, |cpu| cpu.0))
                .text(payload),
            Mark::Typed { kind, .. } => record.u32(kind.into()).text(payload),
            Mark::Argument { .. } => record,
        };
        self.hand_over(CHUNK);
    }

    fn flush(&mut self) -> io::Result<()> {
        self.write();
        match self.failed.take() {
            // An error stays one; `io::Error` can't be cloned.
            Some(error) => {
                let again = io::Error::new(error.kind(), error.to_string());
                self.failed = Some(again);
                Err(error)
            }
            None => self.out.flush(),
        }
    }
}

impl<W: Write> Sink for HtdumpWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        self.spans.thread(thread.id);
        self.arguments = false;
        let at = match self.lane_of.get(&thread.id) {
            Some(&at) => {
                self.now = Some(at);
                if !renew(&mut self.lanes[at].thread, thread) {
                    return;
                }
                at
            }
            None => {
                let number = self.number(thread.id);
                self.lanes.push(Lane {
                    number,
                    thread: thread.clone(),
                    last: 0,
                });
                self.lanes.len() - 1
            }
        };
        self.lane_of.insert(thread.id, at);
        self.now = Some(at);
        let lane = &self.lanes[at];
        self.stream.note_cut(&thread.name);
        let Stream {
            encoder, buffer, ..
        } = &mut self.stream;
        encoder.thread(buffer, lane.number, &lane.thread);
        self.stream.hand_over(CHUNK);
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(lane) = self.now.and_then(|now| self.lanes.get(now)) else {
            return;
        };
        let number = lane.number;
        for call in calls {
            let time = Ticks(self.time(call.time));
            let stream = &mut self.stream;
            let call = Call { time, ..*call };
            self.spans
                .call(&call, &mut |span| stream.span(number, span));
        }
        self.arguments = true;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let after_call = std::mem::take(&mut self.arguments);
        let Some(lane) = self.now.and_then(|now| self.lanes.get(now)) else {
            return;
        };
        let (number, mut time) = (lane.number, lane.last);
        match *mark {
            Mark::Argument { value } => {
                self.arguments = after_call && self.spans.argument(value);
                if !self.arguments {
                    let what = "arguments that no entry stands before: left out";
                    self.stream.losses.add(what, 1);
                }
                return;
            }
            Mark::Cpu { time: at, .. }
            | Mark::Custom { time: at, .. }
            | Mark::Typed { time: at, .. } => time = self.time(at),
            Mark::Wall { .. } | Mark::Lost { .. } => {}
        }
        let payload = match mark {
            Mark::Custom { data, .. } | Mark::Typed { data, .. } => self.payload(data),
            _ => Some(String::new()),
        };
        if let Some(payload) = payload {
            self.stream.mark(number, time, mark, &payload);
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// Takes over what `new` says. Returns whether that is news.
fn renew(old: &mut Thread, new: &Thread) -> bool {
    let before = old.clone();
    if !new.name.is_empty() {
        old.name.clone_from(&new.name);
    }
    old.process = new.process.or(old.process);
    old.counts = new.counts.or(old.counts);
    *old != before
}

impl<W: Write + Send> Writer for HtdumpWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        self.stream.functions(more);
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(self.stream.flush()?)
    }

    fn restart(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.stream.preamble.clone();
        for lane in &self.lanes {
            let encoder = &mut self.stream.encoder;
            encoder.thread(&mut bytes, lane.number, &lane.thread);
        }
        Some(bytes)
    }

    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        let Self {
            spans,
            stream,
            lane_of,
            lanes,
            ..
        } = &mut *self;
        spans.finish(|thread, span| {
            let lane = lane_of.get(&thread).and_then(|&at| lanes.get(at));
            if let Some(lane) = lane {
                stream.span(lane.number, span);
            }
        });
        spans.losses(&mut stream.losses);
        stream.flush()?;
        Ok(std::mem::take(&mut stream.losses))
    }
}
