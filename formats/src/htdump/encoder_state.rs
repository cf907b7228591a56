//! The encoder of a stream: calls with their klasses and labels, and the records that a late reader needs.
//! It keeps its first error and drops all later records.
//!
//! The records that describe the trace, a thread or a function, and the marks, are encoded here too. Their functions
//! are pure.

use std::io::Write;

use super::klass::{self, KLASSES, MAX_ARGUMENTS, TRACE_BITS, TRACE_NAMES, known, of_call};
use super::names::label_of;
use super::record::{CALL, Encoder, MAPPING, SYSTEM, endianness};
use crate::bytes::ByteOrder;
use crate::escaped::escape;
use crate::facts::{Value, of_counts};
#[cfg(feature = "read")]
use crate::model::FunctionKind;
use crate::model::{Function, FunctionId, Thread, TraceInfo};
use crate::number_map::NumberMap;
use crate::sink::Losses;
use crate::spans::Span;
use crate::text;
use crate::writer::BufferedOutput;

/// The bytes on their way out.
pub(super) struct EncoderState<W: Write> {
    pub(super) out: BufferedOutput<W>,
    pub(super) encoder: Encoder,
    /// All klasses and functions so far, for a late reader.
    pub(super) preamble: Vec<u8>,
    /// Functions that have a mapping.
    mapped: NumberMap,
    /// The announced klasses of calls.
    announced: NumberMap,
    #[cfg(feature = "read")]
    notes: super::notes::Klasses,
    pub(super) losses: Losses,
}

impl<W: Write> EncoderState<W> {
    /// Begins a stream: byte order, klasses, the facts of the trace, and its functions.
    pub(super) fn new(out: W, order: ByteOrder, info: &TraceInfo) -> EncoderState<W> {
        let mut state = EncoderState {
            out: BufferedOutput::new(out),
            encoder: Encoder { order, number: 0 },
            preamble: endianness(order).to_vec(),
            mapped: NumberMap::default(),
            announced: NumberMap::default(),
            #[cfg(feature = "read")]
            notes: super::notes::Klasses::default(),
            losses: Losses::default(),
        };
        state.encoder.klasses(&mut state.preamble);
        state.encoder.trace(&mut state.preamble, info);
        for text in [&info.program, &info.reason, &info.clock.name] {
            state.note_cut(text);
        }
        state.out.bytes.extend_from_slice(&state.preamble);
        state.functions(&info.functions);
        state
    }

    /// Counts a name that is cut.
    pub(super) fn note_cut(&mut self, text: &str) {
        let what = "names longer than 16 MiB, escaped: cut";
        self.losses.add(what, u64::from(is_cut(text)));
    }

    /// Writes bytes that late readers need as well.
    fn lasting(&mut self, from: usize) {
        self.out.bytes.extend_from_slice(&self.preamble[from..]);
        self.out.settle();
    }

    /// Functions, before their first call; and names of notes, where notes are written.
    pub(super) fn functions(&mut self, functions: &[Function]) {
        for function in functions {
            #[cfg(feature = "read")]
            self.notes.names.add(function);
            if !function.is_called() {
                self.name(function);
                continue;
            }
            let from = self.preamble.len();
            self.encoder.function(&mut self.preamble, function);
            self.note_cut(&function.name);
            self.note_cut(&function.file);
            self.mapped.insert(function.id.0.into(), 0);
            self.lasting(from);
        }
    }

    #[cfg(not(feature = "read"))]
    fn name(&mut self, _: &Function) {}

    /// A name that only notes use.
    #[cfg(feature = "read")]
    fn name(&mut self, function: &Function) {
        let from = self.preamble.len();
        self.encoder.name(&mut self.preamble, function);
        self.note_cut(&function.name);
        self.note_cut(&function.file);
        self.lasting(from);
    }

    /// The klass of a note. A new one is announced. `None`: there are too many.
    #[cfg(feature = "read")]
    pub(super) fn note_klass(&mut self, class: &crate::note_class::NoteClass) -> Option<u32> {
        let (klass, is_new) = self.notes.klass(class)?;
        if is_new {
            let from = self.preamble.len();
            let (encoder, out) = (&mut self.encoder, &mut self.preamble);
            self.notes.announce(klass, class, encoder, out);
            self.lasting(from);
        }
        Some(klass)
    }

    /// A call that has ended.
    pub(super) fn span(&mut self, thread: u32, span: &Span) {
        if self.mapped.get(span.function.0.into()).is_none() {
            self.unlisted(span.function);
        }
        let (flagged, count) = (span.flags != 0, span.arguments.len().min(MAX_ARGUMENTS));
        let klass = match (flagged, count) {
            (false, 0) => CALL,
            _ => of_call(flagged, count),
        };
        if klass != CALL && self.announced.get(klass.into()).is_none() {
            self.announce(klass, flagged, count);
        }
        let record = self
            .encoder
            .begin(&mut self.out.bytes, klass, span.start.0)
            .u64(span.end.since(span.start).0)
            .u32(thread);
        let mut record = record.u64(span.function.0.into());
        if flagged {
            record = record.u32(span.flags.into());
        }
        let arguments = span.arguments.iter().take(count);
        let _ = arguments.fold(record, |record, &value| record.u64(value));
        let what = "arguments after the 253rd of a call: left out";
        self.losses.add(what, (span.arguments.len() - count) as u64);
        self.out.settle();
    }

    #[cold]
    fn unlisted(&mut self, function: FunctionId) {
        let from = self.preamble.len();
        self.encoder.unlisted(&mut self.preamble, function);
        self.mapped.insert(function.0.into(), 0);
        self.lasting(from);
    }

    #[cold]
    fn announce(&mut self, klass: u32, flagged: bool, arguments: usize) {
        let from = self.preamble.len();
        self.encoder
            .call_klass(&mut self.preamble, flagged, arguments);
        self.announced.insert(klass.into(), 0);
        self.lasting(from);
    }
}

/// The most bytes of our own texts; longer ones are cut. Three of them are shorter than the longest
/// record.
const MAX_TEXT: usize = 16 << 20;
/// Version of HawkTracer whose records these are.
const HAWKTRACER: [u8; 3] = [0, 11, 0];

/// A name or the like, escaped.
fn text(bytes: &[u8]) -> String {
    let text = escape(bytes);
    if text.len() <= MAX_TEXT {
        return text;
    }
    // A byte becomes at most three.
    escape(&bytes[..bytes.len().min(MAX_TEXT / 3)])
}

impl Encoder {
    /// Announces all klasses but those of calls with arguments, as HawkTracer begins its streams.
    pub(super) fn klasses(&mut self, out: &mut Vec<u8>) {
        KLASSES.iter().for_each(|klass| self.announce(out, klass));
        let [major, minor, patch] = HAWKTRACER;
        let _ = self.begin(out, SYSTEM, 0).u8(major).u8(minor).u8(patch);
    }

    /// The facts of the trace.
    pub(super) fn trace(&mut self, out: &mut Vec<u8>, info: &TraceInfo) {
        let stated = TRACE_BITS
            .iter()
            .filter(|(fact, _)| fact.get(info).is_some());
        let bits = stated.fold(0, |bits, (_, bit)| bits | bit);
        let mut record = self.begin(out, klass::TRACE, 0).u32(bits as u32);
        for (fact, _) in TRACE_NAMES {
            record = match fact.get(info) {
                Some(Value::Text(value)) => record.text(&text(value.as_bytes())),
                Some(Value::Number(number)) => record.u64(number),
                Some(Value::Float(number)) => record.u64(number.to_bits()),
                _ if fact.is_text() => record.text(""),
                _ => record.u64(0),
            };
        }
    }

    /// A thread, with its number in the file.
    pub(super) fn thread(&mut self, out: &mut Vec<u8>, number: u32, thread: &Thread) {
        let mut bits = if thread.process.is_some() {
            known::PROCESS
        } else {
            0
        };
        if thread.counts.is_some() {
            bits |= known::COUNTS;
        }
        let mut record = self
            .begin(out, klass::THREAD, 0)
            .u32(number)
            .u64(thread.id.0)
            .u32(bits as u32)
            .u64(thread.process.unwrap_or_default())
            .text(&text(thread.name.as_bytes()));
        for (_, count) in of_counts(&thread.counts.unwrap_or_default()) {
            record = record.u64(count);
        }
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

    /// A name that only notes use.
    #[cfg(feature = "read")]
    fn name(&mut self, out: &mut Vec<u8>, function: &Function) {
        let what = match function.kind {
            FunctionKind::Calls => 0,
            FunctionKind::Event => known::EVENT,
            FunctionKind::Name => known::NAME,
        };
        let _ = self
            .begin(out, klass::FUNCTION, 0)
            .u64(function.id.0.into())
            .u32(function.id.0)
            .u32((known::LISTED | known::NAMED | what) as u32)
            .text(&text(function.name.as_bytes()))
            .text(&text(function.file.as_bytes()))
            .u32(function.line);
    }

    /// A function that the trace's table does not have.
    pub(super) fn unlisted(&mut self, out: &mut Vec<u8>, id: FunctionId) {
        let record = self.begin(out, klass::FUNCTION, 0);
        let record = record.u64(id.0.into()).u32(id.0).u32(0);
        let _ = record.text("").text("").u32(0);
        self.mapping(out, id, &format!("{id}"));
    }

    fn mapping(&mut self, out: &mut Vec<u8>, id: FunctionId, label: &str) {
        let _ = self.begin(out, MAPPING, 0).u64(id.0.into()).text(label);
    }
}

/// Whether a text of a trace or a function is longer than the part that is written.
pub(super) fn is_cut(name: &str) -> bool {
    name.len() > MAX_TEXT / 3 && escape(name.as_bytes()).len() > MAX_TEXT
}
