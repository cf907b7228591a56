//! The bytes of a stream on their way out: calls with their klasses and labels, and what a reader needs
//! that joins late. Errors are kept; what comes after one is dropped.

use std::collections::HashSet;
use std::io::{self, Write};

use super::klass::{MAX_ARGUMENTS, of_call};
use super::record::{CALL, endianness};
use super::tables::{Encoder, is_cut};
use crate::bytes::ByteOrder;
use crate::model::{Function, FunctionId, TraceInfo};
use crate::sink::Losses;
use crate::spans::Span;
use crate::writer::tell_kept;

/// Bytes that are handed over at a time.
const CHUNK: usize = 128 * 1024;

/// The bytes on their way out.
pub(super) struct Stream<W: Write> {
    out: W,
    pub(super) buffer: Vec<u8>,
    pub(super) encoder: Encoder,
    /// All klasses and functions so far, for a reader that joins late.
    pub(super) preamble: Vec<u8>,
    mapped: Mapped,
    /// Klasses of calls that were announced.
    announced: HashSet<u32>,
    pub(super) losses: Losses,
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

impl<W: Write> Stream<W> {
    /// Begins one: byte order, klasses, what the trace says of itself, and its functions.
    pub(super) fn new(out: W, order: ByteOrder, info: &TraceInfo) -> Stream<W> {
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
        stream
    }

    /// Counts a name that is cut.
    pub(super) fn note_cut(&mut self, text: &str) {
        let what = "names longer than 16 MiB, escaped: cut";
        self.losses.add(what, u64::from(is_cut(text)));
    }

    /// Writes what late readers need as well.
    fn lasting(&mut self, from: usize) {
        if self.failed.is_some() {
            return;
        }
        self.buffer.extend_from_slice(&self.preamble[from..]);
        self.hand_over();
    }

    /// Functions, before their first call.
    pub(super) fn functions(&mut self, functions: &[Function]) {
        for function in functions {
            let from = self.preamble.len();
            self.encoder.function(&mut self.preamble, function);
            self.note_cut(&function.name);
            self.note_cut(&function.file);
            self.mapped.insert(function.id);
            self.lasting(from);
        }
    }

    /// Gives the buffer to the output where it holds enough.
    #[inline]
    pub(super) fn hand_over(&mut self) {
        if self.buffer.len() >= CHUNK {
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

    /// A call that has ended.
    pub(super) fn span(&mut self, thread: u32, span: &Span) {
        if !self.mapped.contains(span.function) {
            self.unlisted(span.function);
        }
        if span.flags == 0 && span.arguments.is_empty() {
            let buffer = &mut self.buffer;
            self.encoder.call(buffer, CALL, thread, span);
        } else {
            self.detailed(thread, span);
        }
        self.hand_over();
    }

    /// A call with flags or arguments.
    fn detailed(&mut self, thread: u32, span: &Span) {
        let (flagged, count) = (span.flags != 0, span.arguments.len().min(MAX_ARGUMENTS));
        let klass = of_call(flagged, count);
        if !self.announced.contains(&klass) {
            self.announce(klass, flagged, count);
        }
        let mut record = self.encoder.call(&mut self.buffer, klass, thread, span);
        if flagged {
            record = record.u32(span.flags.into());
        }
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
    fn announce(&mut self, klass: u32, flagged: bool, arguments: usize) {
        let from = self.preamble.len();
        self.encoder
            .call_klass(&mut self.preamble, flagged, arguments);
        self.announced.insert(klass);
        self.lasting(from);
    }

    /// Gives all that there is to the output.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.write();
        tell_kept(&mut self.failed)?;
        self.out.flush()
    }
}
