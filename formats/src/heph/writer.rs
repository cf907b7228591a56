//! Writes events of any format as a Heph trace. A call is one event, written when it has ended. A thread is
//! a stream. Times are ns from tick 0 of the source's clock; the epoch packet in front states that tick in
//! Unix time. Our own events hold what the document has no packet for (see `facts`). Memory is the open
//! calls, the functions and the threads.
//!
//! An event that does not fit `MAX_EVENT` bytes goes on in events `fdr:more`, directly behind it. These
//! are on the stream of facts, and each has a microsecond of its own. Heph's own converter may not end if
//! events of a substream share a microsecond; `rows` has the rest. Must never cut a character between two packets, because that
//! converter wants each text to be UTF-8.

use std::io::{self, Write};

use super::encoder_state::EncoderState;
use super::facts::{self, FACTS};
use super::record::{EventPacket, Place, number_size, text_size};
use super::tables::Untimed;
use crate::error::{Diagnostic, Error};
use crate::escaped::{escape, plain};
use crate::model::{Call, Edge, Function, Mark, Thread, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spans::Spans;
use crate::text::cut;
use crate::writer::{Writer, tell_kept};

/// Bytes that are collected before they are written.
const BUFFER: usize = 64 * 1024;

/// Where packets go.
struct Out<W: Write> {
    out: W,
    buffer: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> Out<W> {
    /// Writes the collected bytes, if they are many.
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
        Ok(tell_kept(&mut self.failed)?)
    }
}

/// A sink that writes a Heph trace, front to back.
pub struct HephWriter<W: Write> {
    out: Out<W>,
    state: EncoderState,
    spans: Spans,
    /// The thread of the next events.
    now: Option<usize>,
}

impl<W: Write> HephWriter<W> {
    /// Begins with the epoch, and with the facts in `info` about trace, clock and functions.
    pub fn new(out: W, info: &TraceInfo) -> HephWriter<W> {
        let buffer = Vec::with_capacity(BUFFER);
        let mut out = Out {
            out,
            buffer,
            failed: None,
        };
        let mut state = EncoderState::new(info);
        state.begin(&mut out.buffer);
        for function in &info.functions {
            state.function(function, &mut out.buffer);
            out.settle();
        }
        HephWriter {
            out,
            state,
            spans: Spans::default(),
            now: None,
        }
    }

    /// Ends the open calls; returns the losses.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        let Self {
            out, state, spans, ..
        } = &mut self;
        let end = state.end();
        spans.finish(end, &mut |thread, span| {
            if let Some(index) = state.threads.of(thread) {
                state.span(index, span, &mut out.buffer);
                out.settle();
            }
        });
        state.finish(&mut out.buffer);
        spans.losses(&mut state.losses);
        state.notes();
        self.out.flush()?;
        Ok(self.state.losses)
    }
}

impl<W: Write> Sink for HephWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        self.spans.thread(thread.id);
        self.now = Some(self.state.thread(thread, &mut self.out.buffer));
        self.out.settle();
    }

    fn calls(&mut self, calls: &[Call]) {
        let Self {
            out,
            state,
            spans,
            now: Some(index),
        } = self
        else {
            return;
        };
        if let Some(call) = calls.first() {
            state.arrive(*index, call.time, &mut out.buffer);
        }
        for call in calls {
            // Times are in ns already. Calls that begin in the same ns are held, so that their parent
            // comes first.
            let time = Ticks(state.nanos(call.time));
            let row = match call.edge {
                Edge::Entry => state.starts(*index, spans.begin(time).0),
                Edge::Exit | Edge::TailExit => 0,
            };
            spans.call_in_row(&Call { time, ..*call }, row, &mut |span| {
                state.span(*index, span, &mut out.buffer);
                out.settle();
            });
        }
        if let Some(call) = calls.last() {
            state.reach(*index, call.time);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some(index) = self.now else { return };
        match *mark {
            Mark::Cpu { cpu, .. } => self.spans.cpu(cpu),
            Mark::Argument { value } => {
                let what = "arguments without a call that was kept: left out";
                let kept = self.spans.argument(value);
                self.state.losses.add(what, u64::from(!kept));
            }
            Mark::Wall { seconds, micros } => {
                let mark = Untimed::Wall { seconds, micros };
                self.state.mark(index, mark, &mut self.out.buffer);
            }
            Mark::Lost { records } => {
                self.spans.lost();
                let mark = Untimed::Lost { records };
                self.state.mark(index, mark, &mut self.out.buffer);
            }
            Mark::Break { .. } => {
                // As `Mark::missing` reads it.
                let mark = Untimed::Lost { records: 0 };
                self.state.mark(index, mark, &mut self.out.buffer);
            }
            #[cfg(feature = "read")]
            Mark::Note { time, kind, body } => {
                self.state
                    .note(index, time, kind, body, &mut self.out.buffer);
            }
            Mark::Custom { time, cpu, data } => {
                let cpu = cpu.map(|cpu| ("cpu", cpu.0.into()));
                self.state
                    .payload(index, time, cpu, data, false, &mut self.out.buffer);
            }
            Mark::Typed { time, kind, data } => {
                let kind = Some(("kind", kind.into()));
                self.state
                    .payload(index, time, kind, data, true, &mut self.out.buffer);
            }
            _ => self.state.losses.add_left_out(mark),
        }
        self.out.settle();
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl<W: Write + Send> Writer for HephWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        for function in more {
            self.state.function(function, &mut self.out.buffer);
            self.out.settle();
        }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.flush()
    }

    /// The epoch, the trace, and all functions and threads so far.
    fn restart(&mut self) -> Option<Vec<u8>> {
        Some(self.state.restart())
    }

    fn end(&mut self, end: Ticks) {
        self.state.ends(end, &mut self.out.buffer);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        HephWriter::finish(*self)
    }
}

/// Nanoseconds from one fact to the next.
const TIME_STEP: u64 = 1000;
/// A text goes on in the next packet if fewer bytes than this are left.
const LEAST_TEXT: usize = 16;

/// The times of the events on the stream of facts.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FactPlaces {
    /// Number of the next one.
    pub(super) counter: u32,
    /// The next event is not before this time, in ns.
    free: u64,
    /// Texts that were escaped.
    pub(super) escaped: u64,
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

/// An event and its `fdr:more` events, under construction. Its methods are calls, because ordinary calls of the
/// program do not use it.
pub(super) struct Parts<'a> {
    packet: EventPacket<'a>,
    /// The name of the event for `fdr:more` events.
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

    /// Begins an `fdr:more` event, which takes the next attributes.
    #[inline(never)]
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

    #[inline(never)]
    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.make_room(number_size(name));
        self.packet.number(name, value);
    }

    #[inline(never)]
    pub(super) fn signed(&mut self, name: &str, value: i64) {
        self.make_room(number_size(name));
        self.packet.signed(name, value);
    }

    #[inline(never)]
    pub(super) fn float(&mut self, name: &str, value: f64) {
        self.make_room(number_size(name));
        self.packet.float(name, value);
    }

    /// A number, if there is one.
    pub(super) fn optional(&mut self, name: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.number(name, value);
        }
    }

    /// A number that is not 0.
    pub(super) fn count(&mut self, name: &str, value: u64) {
        self.optional(name, (value > 0).then_some(value));
    }

    /// A text of any length: as many attributes of the name as it needs; one attribute if it is empty.
    #[inline(never)]
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

    /// Some texts that say something. If one of them would break JSON, all are escaped.
    pub(super) fn names(&mut self, names: &[(&str, &str)]) {
        let escapes = self.escapes(names.iter().map(|&(_, value)| value));
        for &(name, value) in names.iter().filter(|(_, value)| !value.is_empty()) {
            match escapes {
                true => self.text(name, &escape(value.as_bytes())),
                false => self.text(name, value),
            }
        }
    }

    /// Says whether the texts that follow are escaped: one of them would break JSON.
    pub(super) fn escapes<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> bool {
        let escaped = texts.filter(|text| !text.chars().all(plain)).count() as u64;
        if escaped > 0 {
            self.places.escaped += escaped;
            self.number(facts::ESCAPED, 1);
        }
        escaped > 0
    }

    /// An array of any length. It goes into the current packet, however long the packet becomes.
    pub(super) fn numbers(&mut self, name: &str, values: &[u64]) {
        self.packet.numbers(name, values);
    }

    /// Bytes of a text of this name that the current packet can take.
    pub(super) fn text_room(&self, name: &str) -> usize {
        self.packet.text_room(name)
    }

    pub(super) fn end(self) {
        self.packet.end();
    }
}
