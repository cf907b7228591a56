//! Writes events of any format as a Heph trace. A call is one event, written when it has ended. A thread is
//! a stream. Times are ns from tick 0 of the source's clock; the epoch packet in front states that tick in
//! Unix time. Our own events hold what the document has no packet for (see `facts`). Memory is the open
//! calls, the functions and the threads.
//!
//! An event that does not fit `MAX_EVENT` bytes goes on in events `fdr:more`, directly behind it. These
//! are on the stream of facts, and each has a microsecond of its own. Heph's own converter may not end if
//! events of a stream share a microsecond. Must never cut a character between two packets, because that
//! converter wants each text to be UTF-8.

use std::io::{self, Write};

use super::encoder_state::Book;
use super::facts::{self, FACTS};
use super::record::{EventPacket, Place, number_size, text_size};
use super::tables::Untimed;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Edge, Function, Mark, Thread, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spans::Spans;
use crate::text::cut;
use crate::writer::Writer;

/// Bytes that are collected before they are written.
const BUFFER: usize = 64 * 1024;

/// Where packets go.
struct Out<W: Write> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> Out<W> {
    /// Writes what was collected, if that is much.
    #[inline]
    fn settle(&mut self) {
        if self.buffer.len() >= BUFFER {
            self.write();
        }
    }

    #[cold]
    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.buffer).err();
        }
        self.buffer.clear();
        // After a large payload.
        self.buffer.shrink_to(4 * BUFFER);
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.write();
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        match &self.failed {
            None => Ok(()),
            Some(error) => Err(io::Error::new(error.kind(), error.to_string()).into()),
        }
    }
}

/// A sink that writes a Heph trace, front to back.
pub struct HephWriter<W: Write> {
    out: Out<W>,
    book: Book,
    spans: Spans,
    /// The thread that events belong to.
    now: Option<usize>,
}

impl<W: Write> HephWriter<W> {
    /// Begins with the epoch, and with what `info` says of trace, clock and functions.
    pub fn new(out: W, info: &TraceInfo) -> HephWriter<W> {
        let buffer = Vec::with_capacity(BUFFER);
        let mut out = Out {
            out,
            buffer,
            failed: None,
        };
        let mut book = Book::new(info);
        book.begin(&mut out.buffer);
        for function in &info.functions {
            book.function(function, &mut out.buffer);
            out.settle();
        }
        HephWriter {
            out,
            book,
            spans: Spans::default(),
            now: None,
        }
    }

    /// Ends the open calls; returns what the format could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        let Self {
            out, book, spans, ..
        } = &mut self;
        let end = book.end();
        spans.finish(end, |thread, span| {
            if let Some(lane) = book.threads.of(thread) {
                book.span(lane, span, &mut out.buffer);
                out.settle();
            }
        });
        book.finish(&mut out.buffer);
        spans.losses(&mut book.losses);
        book.notes();
        self.out.flush()?;
        Ok(self.book.losses)
    }
}

impl<W: Write> Sink for HephWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        self.spans.thread(thread.id);
        self.now = Some(self.book.thread(thread, &mut self.out.buffer));
        self.out.settle();
    }

    fn calls(&mut self, calls: &[Call]) {
        let Self {
            out,
            book,
            spans,
            now: Some(lane),
        } = self
        else {
            return;
        };
        if let Some(call) = calls.first() {
            book.arrive(*lane, call.time, &mut out.buffer);
        }
        for call in calls {
            // In ns already: what begins in the same one is held, so that its parent comes first.
            let time = Ticks(book.nanos(call.time));
            if call.edge == Edge::Entry && !call.synthetic {
                book.starts(*lane, time.0);
            }
            spans.call(&Call { time, ..*call }, &mut |span| {
                book.span(*lane, span, &mut out.buffer);
                out.settle();
            });
        }
        if let Some(call) = calls.last() {
            book.reach(*lane, call.time);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(lane) = self.now else { return };
        match *mark {
            Mark::Cpu { cpu, .. } => self.spans.cpu(cpu),
            Mark::Argument { value } => {
                let what = "arguments without a call that was kept: left out";
                let kept = self.spans.argument(value);
                self.book.losses.add(what, u64::from(!kept));
            }
            Mark::Wall { seconds, micros } => {
                let mark = Untimed::Wall { seconds, micros };
                self.book.mark(lane, mark, &mut self.out.buffer);
            }
            Mark::Lost { records } => {
                self.spans.lost();
                let mark = Untimed::Lost { records };
                self.book.mark(lane, mark, &mut self.out.buffer);
            }
            Mark::Break { .. } => {
                // As `Mark::missing` reads it.
                let mark = Untimed::Lost { records: 0 };
                self.book.mark(lane, mark, &mut self.out.buffer);
            }
            Mark::Custom { time, cpu, data } => {
                let cpu = cpu.map(|cpu| ("cpu", cpu.0.into()));
                self.book
                    .payload(lane, time, cpu, data, false, &mut self.out.buffer);
            }
            Mark::Typed { time, kind, data } => {
                let kind = Some(("kind", kind.into()));
                self.book
                    .payload(lane, time, kind, data, true, &mut self.out.buffer);
            }
        }
        self.out.settle();
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl<W: Write + Send> Writer for HephWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        for function in more {
            self.book.function(function, &mut self.out.buffer);
            self.out.settle();
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    /// The epoch, the trace, and all functions and threads so far.
    fn restart(&mut self) -> Option<Vec<u8>> {
        Some(self.book.restart())
    }

    fn end(&mut self, end: Ticks) {
        self.book.ends(end, &mut self.out.buffer);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        HephWriter::finish(*self)
    }
}

/// Nanoseconds from one fact to the next.
const TIME_STEP: u64 = 1000;
/// A text goes on in the next packet rather than be cut to fewer bytes than this.
const LEAST_TEXT: usize = 16;

/// Where the events on the stream of facts stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FactPlaces {
    /// Number of the next one.
    pub(super) counter: u32,
    /// The next one is not before this time, in ns.
    free: u64,
}

impl FactPlaces {
    /// The place of the next fact, not before `earliest`.
    pub(super) fn next(&mut self, earliest: u64) -> Place {
        let (counter, time) = (self.counter, self.free.max(earliest));
        self.counter = counter.wrapping_add(1);
        self.free = time.saturating_add(TIME_STEP);
        Place {
            stream: FACTS,
            counter,
            substream: 0,
            start: time,
            end: time,
        }
    }
}

/// An event and the further ones that it needs, under construction.
pub(super) struct Parts<'a> {
    packet: EventPacket<'a>,
    /// The event, as the further ones name it.
    event: u64,
    time: u64,
    places: &'a mut FactPlaces,
}

impl<'a> Parts<'a> {
    /// Begins an event with that description.
    pub(super) fn begin(
        out: &'a mut Vec<u8>,
        place: Place,
        description: &str,
        places: &'a mut FactPlaces,
    ) -> Parts<'a> {
        Parts {
            packet: EventPacket::begin(out, place, description),
            event: facts::event_key(place.stream, place.counter),
            time: place.end,
            places,
        }
    }

    /// Begins a fact: an event on the stream of facts.
    pub(super) fn fact(
        out: &'a mut Vec<u8>,
        earliest: u64,
        description: &str,
        places: &'a mut FactPlaces,
    ) -> Parts<'a> {
        let place = places.next(earliest);
        Parts::begin(out, place, description, places)
    }

    /// Begins a further event: what follows stands in it.
    pub(super) fn go_on(&mut self) {
        let place = self.places.next(self.time);
        self.packet.next(place, facts::MORE);
        self.packet.number("of", self.event);
    }

    fn make_room(&mut self, size: usize) {
        if self.packet.room() < size {
            self.go_on();
        }
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.make_room(number_size(name));
        self.packet.number(name, value);
    }

    pub(super) fn signed(&mut self, name: &str, value: i64) {
        self.make_room(number_size(name));
        self.packet.signed(name, value);
    }

    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.make_room(number_size(name));
        self.packet.float(name, value);
    }

    /// A number, where there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, name: &str, value: u64) {
        self.optional(name, (value > 0).then_some(value));
    }

    /// A text of any length: as many attributes of the name as it needs, one of them where it is empty.
    pub(super) fn text(&mut self, name: &str, value: &str) {
        let mut rest = value;
        loop {
            self.make_room(text_size(name, rest.len().min(LEAST_TEXT)));
            let room = self.packet.text_room(name);
            let (part, behind) = rest.split_at(cut(rest, room).len());
            self.packet.text(name, part);
            rest = behind;
            if rest.is_empty() {
                return;
            }
        }
    }

    /// A text that says something.
    pub(super) fn name(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            self.text(name, value);
        }
    }

    /// An array of any length; it goes into the packet at hand, however long that becomes.
    pub(super) fn numbers(&mut self, name: &str, values: &[u64]) {
        self.packet.numbers(name, values);
    }

    /// Bytes of a text of this name that the packet at hand takes.
    pub(super) fn text_room(&self, name: &str) -> usize {
        self.packet.text_room(name)
    }

    pub(super) fn end(self) {
        self.packet.end();
    }
}
