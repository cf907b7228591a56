//! Records of our klasses that describe the trace, a thread or a function, and marks. Pure: this file
//! must never decide when one is written.

use super::escape::escape;
use super::klass::{self, KLASSES, known};
use super::names::label_of;
use super::record::{Builder, Header, MAPPING, SYSTEM};
use crate::bytes::ByteOrder;
use crate::model::{Function, FunctionId, Thread, TraceInfo};
use crate::spans::Span;
use crate::text;

/// Bytes of a text of ours; longer ones are cut. Three of them are shorter than the longest record.
const MAX_TEXT: usize = 16 << 20;
/// Version of HawkTracer whose records these are.
const HAWKTRACER: [u8; 3] = [0, 11, 0];

/// A name or the like, escaped.
fn text(bytes: &[u8]) -> String {
    let text = escape(bytes);
    if text.len() <= MAX_TEXT {
        return text;
    }
    // A byte becomes three at most.
    escape(&bytes[..bytes.len().min(MAX_TEXT / 3)])
}

/// Appends records to some bytes.
pub(super) struct Encoder {
    pub(super) order: ByteOrder,
    /// Number of the record before.
    pub(super) number: u64,
}

impl Encoder {
    /// Begins a record.
    #[inline]
    pub(super) fn begin<'a>(&mut self, out: &'a mut Vec<u8>, klass: u32, time: u64) -> Builder<'a> {
        self.number += 1;
        let header = Header {
            klass,
            time,
            number: self.number,
        };
        Builder::new(out, self.order, header)
    }

    /// A call, as far as all its klasses have the same fields.
    #[inline]
    pub(super) fn call<'a>(
        &mut self,
        out: &'a mut Vec<u8>,
        klass: u32,
        thread: u32,
        span: &Span,
    ) -> Builder<'a> {
        // Once for all fields, so that they are stores and nothing else.
        out.reserve(64);
        self.begin(out, klass, span.start.0)
            .u64(span.end.since(span.start).0)
            .u32(thread)
            .u64(span.function.0.into())
    }

    /// Announces all klasses but those of calls with arguments, as HawkTracer begins its streams.
    pub(super) fn klasses(&mut self, out: &mut Vec<u8>) {
        let mut announcer = klass::Announcer {
            out,
            order: self.order,
            number: &mut self.number,
        };
        KLASSES.iter().for_each(|klass| announcer.announce(klass));
        let [major, minor, patch] = HAWKTRACER;
        let _ = self.begin(out, SYSTEM, 0).u8(major).u8(minor).u8(patch);
    }

    /// Announces calls with so many arguments.
    pub(super) fn call_klass(&mut self, out: &mut Vec<u8>, flagged: bool, arguments: usize) {
        let mut announcer = klass::Announcer {
            out,
            order: self.order,
            number: &mut self.number,
        };
        announcer.announce_call(flagged, arguments);
    }

    /// What the trace says of itself.
    pub(super) fn trace(&mut self, out: &mut Vec<u8>, info: &TraceInfo) {
        let clock = &info.clock;
        let bits = [
            (info.process.is_some(), known::PROCESS),
            (info.dump.is_some(), known::DUMP),
            (clock.error_ppm.is_some(), known::CLOCK_ERROR),
            (clock.anchor.is_some(), known::ANCHOR),
            (clock.constant, known::CONSTANT),
            (clock.nonstop, known::NONSTOP),
            (info.start.is_some(), known::START),
            (info.end.is_some(), known::END),
        ];
        let bits = bits.iter().filter(|(set, _)| *set).map(|&(_, bit)| bit);
        let (tick, unix) = clock.anchor.unwrap_or_default();
        let (start, end) = (info.start.unwrap_or_default(), info.end.unwrap_or_default());
        let _ = self
            .begin(out, klass::TRACE, 0)
            .u32(bits.sum::<u64>() as u32)
            .text(&text(info.program.as_bytes()))
            .text(&text(info.reason.as_bytes()))
            .u64(info.process.unwrap_or_default())
            .u64(info.dump.unwrap_or_default())
            .u64(info.missing.threads)
            .u64(info.missing.overwritten)
            .u64(info.missing.dropped)
            .text(&text(clock.name.as_bytes()))
            .u64(clock.error_ppm.unwrap_or_default().to_bits())
            .u64(clock.nanos(tick).0)
            .u64(unix)
            .u64(clock.nanos(start).0)
            .u64(clock.nanos(end).0);
    }

    /// A thread, which has this number in the file.
    pub(super) fn thread(&mut self, out: &mut Vec<u8>, number: u32, thread: &Thread) {
        let counts = thread.counts.unwrap_or_default();
        let mut bits = if thread.process.is_some() {
            known::PROCESS
        } else {
            0
        };
        if thread.counts.is_some() {
            bits |= known::COUNTS;
        }
        let _ = self
            .begin(out, klass::THREAD, 0)
            .u32(number)
            .u64(thread.id.0)
            .u32(bits as u32)
            .u64(thread.process.unwrap_or_default())
            .text(&text(thread.name.as_bytes()))
            .u64(counts.recorded)
            .u64(counts.readable)
            .u64(counts.overwritten)
            .u64(counts.dropped)
            .u64(counts.synthetic_entries)
            .u64(counts.synthetic_exits);
    }

    /// A function that is in the trace's table.
    pub(super) fn function(&mut self, out: &mut Vec<u8>, function: &Function) {
        let mut label = label_of(function);
        label.truncate(text::cut(&label, MAX_TEXT).len());
        let named = label != function.name;
        let name = if named {
            text(function.name.as_bytes())
        } else {
            String::new()
        };
        let bits = known::LISTED | if named { known::NAMED } else { 0 };
        let _ = self
            .begin(out, klass::FUNCTION, 0)
            .u64(function.id.0.into())
            .u32(function.id.0)
            .u32(bits as u32)
            .text(&name)
            .text(&text(function.file.as_bytes()))
            .u32(function.line);
        self.mapping(out, function.id, &label);
    }

    /// A function that the trace's table has no entry for.
    pub(super) fn unlisted(&mut self, out: &mut Vec<u8>, id: FunctionId) {
        let record = self.begin(out, klass::FUNCTION, 0);
        let record = record.u64(id.0.into()).u32(id.0).u32(0);
        let _ = record.text("").text("").u32(0);
        self.mapping(out, id, &id.to_string());
    }

    fn mapping(&mut self, out: &mut Vec<u8>, id: FunctionId, label: &str) {
        let _ = self.begin(out, MAPPING, 0).u64(id.0.into()).text(label);
    }
}

/// Whether a text of a trace or a function is longer than what is written of it.
pub(super) fn is_cut(name: &str) -> bool {
    name.len() > MAX_TEXT / 3 && escape(name.as_bytes()).len() > MAX_TEXT
}
