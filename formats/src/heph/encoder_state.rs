//! The state of the encoder: the functions, threads, counters and the clock's scale that the trace has stated so far.
//! It makes the packets for new events, at the end of a buffer.

use std::borrow::Cow;
use std::sync::Arc;

use super::event_parts::{FactPlaces, Parts};
use super::fact_encoder::{function_fact, thread_fact, trace_fact};
use super::facts;
use super::record::{self, EVENT_SIZE, EventPosition, MAX_EVENT, MAX_PAYLOAD, number_size};
use super::rows;
use super::tables::{Functions, ThreadState, Threads, Untimed};
use crate::escaped::escape;
use crate::model::{Function, Nanos, Thread, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::Losses;
use crate::spans::{NO_ROW, Span};

/// The most arguments of one call. No real call has more.
const MAX_ARGUMENTS: usize = 1 << 20;
/// The most numbers of a counter that one `fdr:lost` leaves out.
const MAX_SKIPPED: u64 = 1 << 30;
/// The most marks in front of a thread's first event that wait for its time.
const MAX_WAITING: usize = 64;
const NANOS_PER_SECOND: u64 = 1_000_000_000;
/// The unit of Heph's own converter, in ns.
const MICROSECOND: u64 = 1000;
/// Arguments stand in the call's own event if at least this many bytes are left for its name.
const MIN_NAME: usize = 24;
const ID_SIZE: usize = number_size("function_id");
const CPU_SIZE: usize = number_size("cpu");
const EXIT_CPU_SIZE: usize = number_size("exit_cpu");
const FLAGS_SIZE: usize = number_size("flags");
const ARGUMENT_SIZE: usize = number_size("argument");

/// The notes on trouble of another program's reader.
const CROWDED: &str = "events that begin in the same microsecond as another one of their thread: each is \
                       on a substream of its own, because Heph's convert_trace would not end";
const ESCAPED: &str = "texts with quotation marks, backslashes or control characters: \
                       escaped (%22), because Heph's convert_trace prints them as they are";
const ARRAYS: &str =
    "payloads that are no text, written as arrays: Heph's convert_trace stops at them";

/// See above.
pub(super) struct EncoderState {
    /// The facts of the trace, without functions and threads, which are in the tables. No other part holds this
    /// reference.
    info: Arc<TraceInfo>,
    pub(super) functions: Functions,
    #[cfg(feature = "read")]
    names: crate::note_values::NoteNames,
    pub(super) threads: Threads,
    pub(super) losses: Losses,
    /// Events on the stream of facts.
    facts: FactPlaces,
    /// Time of the latest event, in ns.
    latest: u64,
    scale: Scale,
    /// The ns of the epoch behind a whole microsecond.
    epoch_rest: u64,
    /// The number of events that are on rows.
    crowded: u64,
    threads_with_rows: u32,
}

impl EncoderState {
    pub(super) fn new(info: &TraceInfo) -> EncoderState {
        let start = info.start.unwrap_or_default();
        let info = info.without_lists();
        let scale = Scale::new(info.clock.frequency);
        let mut state = EncoderState {
            info,
            functions: Functions::default(),
            #[cfg(feature = "read")]
            names: crate::note_values::NoteNames::default(),
            threads: Threads::default(),
            losses: Losses::default(),
            facts: FactPlaces::default(),
            latest: 0,
            scale,
            epoch_rest: 0,
            crowded: 0,
            threads_with_rows: 0,
        };
        state.latest = state.nanos(start);
        state.epoch_rest = state.epoch().unwrap_or_default() % MICROSECOND;
        state
    }

    /// A tick in ns since tick 0.
    #[inline]
    pub(super) fn nanos(&mut self, tick: Ticks) -> u64 {
        let Nanos(nanos) = self.scale.nanos(tick);
        if nanos == u64::MAX && self.info.clock.frequency != NANOS_PER_SECOND {
            self.losses.add("times over 2^64 ns: cut", 1);
        }
        nanos
    }

    /// The first packets: epoch and trace.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        let anchored = self.info.clock.anchor.is_some();
        let epoch = self.epoch();
        let what = "epochs before 1970: left out, other readers see no wall-clock time";
        self.losses
            .add(what, u64::from(anchored && epoch.is_none()));
        self.head(out);
    }

    /// Unix time at tick 0.
    fn epoch(&self) -> Option<u64> {
        let (tick, unix) = self.info.clock.anchor?;
        unix.checked_sub(self.info.clock.checked_nanos(tick)?)
    }

    fn head(&mut self, out: &mut Vec<u8>) {
        if let Some(epoch) = self.epoch() {
            out.extend(record::epoch(epoch));
        }
        trace_fact(&self.info, self.latest, &mut self.facts, out);
    }

    /// The moment of the trace's end is known now. The facts of the trace are repeated with it.
    pub(super) fn ends(&mut self, end: Ticks, out: &mut Vec<u8>) {
        if let Some(info) = Arc::get_mut(&mut self.info) {
            info.end = Some(end);
        }
        trace_fact(&self.info, self.latest, &mut self.facts, out);
    }

    /// The moment of the trace's end, in the time of spans.
    pub(super) fn end(&mut self) -> Option<Ticks> {
        let end = self.info.end?;
        Some(Ticks(self.nanos(end)))
    }

    /// A function that may be called from here on; or a name of notes, where notes are written.
    pub(super) fn function(&mut self, function: &Function, out: &mut Vec<u8>) {
        #[cfg(feature = "read")]
        let is_new = self.names.add(function);
        if !function.is_called() {
            #[cfg(feature = "read")]
            if is_new {
                self.functions.declared.push(function.clone());
                function_fact(function, self.latest, &mut self.facts, out);
            }
            return;
        }
        if !self.functions.declare(function) {
            let what = "functions whose number was described before: the first description holds";
            return self.losses.add(what, 1);
        }
        function_fact(function, self.latest, &mut self.facts, out);
    }

    /// The next events are this thread's; returns its index.
    pub(super) fn thread(&mut self, thread: &Thread, out: &mut Vec<u8>) -> usize {
        let (index, news) = self.threads.merge(thread, &mut self.losses);
        if let Some(state) = self.threads.states.get(index).filter(|_| news) {
            thread_fact(state, self.latest, &mut self.facts, out);
        }
        index
    }

    /// Everything stated so far, for a new reader. The numbers of these facts end where the trace's own
    /// facts end.
    pub(super) fn restart(&mut self) -> Vec<u8> {
        for state in &mut self.threads.states {
            // The counts are of records that the previous reader got.
            state.thread.counts = None;
        }
        let before = self.facts;
        let _ = self.all_facts();
        let count = self.facts.counter.wrapping_sub(before.counter);
        self.facts = before;
        self.facts.counter = before.counter.wrapping_sub(count);
        let out = self.all_facts();
        debug_assert_eq!(self.facts.counter, before.counter, "each has its number");
        out
    }

    fn all_facts(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        self.head(&mut out);
        for function in &self.functions.declared {
            function_fact(function, self.latest, &mut self.facts, &mut out);
        }
        for state in &self.threads.states {
            thread_fact(state, self.latest, &mut self.facts, &mut out);
        }
        out
    }

    /// A thread's next event has a time. Marks that wait for a time get the tick before.
    #[inline]
    pub(super) fn arrive(&mut self, index: usize, time: Ticks, out: &mut Vec<u8>) {
        if self.threads.states[index].last.replace(time).is_none() {
            // At least the ticks of a ns, because one tick may be rounded away.
            let nano = self.info.clock.frequency.div_ceil(NANOS_PER_SECOND);
            self.settle(index, Ticks(time.0.saturating_sub(nano)), out);
        }
    }

    /// The time of a thread's last event.
    pub(super) fn reach(&mut self, index: usize, time: Ticks) {
        self.threads.states[index].last = Some(time);
    }

    fn settle(&mut self, index: usize, time: Ticks, out: &mut Vec<u8>) {
        for mark in std::mem::take(&mut self.threads.states[index].waiting) {
            self.untimed(index, time, mark, out);
        }
    }

    /// Writes the marks that still wait, because no event comes any more.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        for index in 0..self.threads.states.len() {
            self.settle(index, self.info.start.unwrap_or_default(), out);
        }
    }

    /// An event of a thread begins at that time, in ns. Returns its row.
    #[inline]
    pub(super) fn starts(&mut self, index: usize, time: u64) -> u32 {
        let microsecond = self.microsecond(time);
        let row = self.threads.states[index].rows.event(microsecond);
        self.crowded += u64::from(row > 0);
        row
    }

    /// The microsecond of a time, as Heph's own converter counts them.
    #[inline]
    fn microsecond(&self, time: u64) -> u64 {
        // The sum itself may not fit.
        time / MICROSECOND + (time % MICROSECOND + self.epoch_rest) / MICROSECOND
    }

    /// A call that has ended. Its times are in ns. If its attributes do not fit one packet, its arguments are in
    /// further ones, and its name is shortened.
    pub(super) fn span(&mut self, index: usize, span: &Span, out: &mut Vec<u8>) {
        let row = match span.row {
            NO_ROW => {
                self.crowded += 1;
                let microsecond = self.microsecond(span.start.0);
                self.threads.states[index].rows.missing(microsecond)
            }
            row => row,
        };
        let place = self.place(index, (span.start.0, span.end.0), row, 0, out);
        let label = self.functions.label(span.function);
        let whole = attributes_size(span, label.numbered) + label.description.len();
        let elided = attributes_size(span, true) + MIN_NAME;
        let further = EVENT_SIZE + whole.min(elided) > MAX_EVENT && !span.arguments.is_empty();
        let mut flags = span.flags;
        let mut size = EVENT_SIZE + attributes_size(span, label.numbered);
        if further {
            size -= ARGUMENT_SIZE * span.arguments.len();
            size += if flags == 0 { FLAGS_SIZE } else { 0 };
            flags |= facts::FURTHER;
        }
        let numbered = label.numbered || size + label.description.len() > MAX_EVENT;
        size += if numbered != label.numbered {
            ID_SIZE
        } else {
            0
        };
        let description = label.within(MAX_EVENT - size);
        let mut parts = Parts::begin(out, place, description, &mut self.facts);
        if numbered {
            parts.number("function_id", span.function.0.into());
        }
        parts.optional("cpu", span.cpu.map(|cpu| cpu.0.into()));
        parts.optional("exit_cpu", span.exit_cpu.map(|cpu| cpu.0.into()));
        parts.count("flags", flags.into());
        if further {
            parts.go_on();
        }
        let most = span.arguments.len().min(MAX_ARGUMENTS);
        for &value in &span.arguments[..most] {
            parts.number("argument", value);
        }
        parts.end();
        let more = (span.arguments.len() - most) as u64;
        self.losses
            .add("arguments of a call after the 1,048,576th: left out", more);
    }

    /// The place of the next event of a thread, with its beginning and end. `skipped`: numbers of its stream to
    /// leave out.
    fn place(
        &mut self,
        index: usize,
        (start, end): (u64, u64),
        row: u32,
        skipped: u32,
        out: &mut Vec<u8>,
    ) -> EventPosition {
        if row > 0 && self.threads.states[index].rows.first.is_none() {
            self.begin_rows(index, out);
        }
        let Threads {
            states, counters, ..
        } = &mut self.threads;
        let state = &states[index];
        let next = &mut counters[state.counter];
        let counter = next.wrapping_add(skipped);
        *next = counter.wrapping_add(1);
        self.latest = end;
        EventPosition {
            stream: state.stream,
            counter,
            substream: state.substream(row),
            start,
            end,
        }
    }

    /// A thread has rows from here on.
    #[cold]
    fn begin_rows(&mut self, index: usize, out: &mut Vec<u8>) {
        let state = &mut self.threads.states[index];
        state.rows.first = Some(rows::first(self.threads_with_rows));
        self.threads_with_rows += 1;
        thread_fact(state, self.latest, &mut self.facts, out);
    }

    /// A mark without a time. It gets the time of the thread's last event, or stands in front of all
    /// events.
    pub(super) fn mark(&mut self, index: usize, mark: Untimed, out: &mut Vec<u8>) {
        let ThreadState { last, waiting, .. } = &mut self.threads.states[index];
        match *last {
            Some(time) => self.untimed(index, time, mark, out),
            None if waiting.len() < MAX_WAITING => waiting.push(mark),
            None => {
                self.arrive(index, Ticks(0), out);
                self.untimed(index, Ticks(0), mark, out);
            }
        }
    }

    fn untimed(&mut self, index: usize, time: Ticks, mark: Untimed, out: &mut Vec<u8>) {
        let time = self.nanos(time);
        let row = self.starts(index, time);
        match mark {
            Untimed::Wall { seconds, micros } => {
                let place = self.place(index, (time, time), row, 0, out);
                let mut parts = Parts::begin(out, place, facts::WALL, &mut self.facts);
                parts.number("seconds", seconds);
                parts.number("micros", micros.into());
                parts.end();
            }
            Untimed::Lost { records } => {
                let skipped = Some(records / 2);
                let skipped = skipped.filter(|&events| (1..=MAX_SKIPPED).contains(&events));
                let skip = skipped.unwrap_or(0) as u32;
                let place = self.place(index, (time, time), row, skip, out);
                let mut parts = Parts::begin(out, place, facts::LOST, &mut self.facts);
                parts.number("records", records);
                parts.optional("skipped", skipped);
                parts.end();
            }
        }
    }

    /// A custom or typed event, with its number.
    pub(super) fn payload(
        &mut self,
        index: usize,
        time: Ticks,
        number: Option<(&str, u64)>,
        data: &[u8],
        typed: bool,
        out: &mut Vec<u8>,
    ) {
        let most = data.len().min(MAX_PAYLOAD);
        self.losses
            .add("payloads over 16 MiB: cut", u64::from(most < data.len()));
        let data = &data[..most];
        self.arrive(index, time, out);
        let time = self.nanos(time);
        let row = self.starts(index, time);
        let place = self.place(index, (time, time), row, 0, out);
        let description = if typed { facts::TYPED } else { facts::CUSTOM };
        let mut parts = Parts::begin(out, place, description, &mut self.facts);
        if let Some((name, number)) = number {
            parts.number(name, number);
        }
        match std::str::from_utf8(data) {
            Ok(text) => {
                let text = match parts.escapes([text].into_iter()) {
                    true => escape(data).into(),
                    false => Cow::Borrowed(text),
                };
                if text.len() > parts.text_room("text") {
                    parts.number("bytes", text.len() as u64);
                }
                parts.text("text", &text);
            }
            Err(_) => {
                parts.number("bytes", data.len() as u64);
                let mut words = Vec::new();
                for bytes in data.chunks(8) {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    words.push(u64::from_be_bytes(word));
                }
                parts.numbers("data", &words);
                self.losses.note(ARRAYS, 1);
            }
        }
        parts.end();
    }

    /// Writes a note.
    #[cfg(feature = "read")]
    pub(super) fn note(
        &mut self,
        index: usize,
        time: Ticks,
        kind: crate::notes::NoteKind,
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        use super::notes;
        use crate::note_values::{body_alone, in_nanos, split};
        self.arrive(index, time, out);
        let time = self.nanos(time);
        let row = self.starts(index, time);
        let body = in_nanos(kind, body, self.info.clock.frequency);
        let mut note = split(kind, &body);
        self.facts.escaped += notes::escape_texts(&mut note);
        let mut place = self.place(index, (time, time), row, 0, out);
        match (notes::task(&note), place.substream) {
            (Some(task), 0) => place.substream = task,
            // A reader would take the note for one of the stream without a substream.
            (Some(task), own) if own == task => note = body_alone(kind, &body),
            _ => {}
        }
        let description = notes::description(&note.class, &self.names);
        let mut parts = Parts::begin(out, place, &description, &mut self.facts);
        notes::put(&mut parts, &note, &self.names);
        parts.end();
    }

    /// The notes for other readers.
    pub(super) fn notes(&mut self) {
        self.losses.note(CROWDED, self.crowded);
        self.losses.note(ESCAPED, self.facts.escaped);
    }
}

/// Bytes of the attributes of a call.
#[inline]
fn attributes_size(span: &Span, numbered: bool) -> usize {
    let size = |there: bool, size: usize| if there { size } else { 0 };
    size(numbered, ID_SIZE)
        + size(span.cpu.is_some(), CPU_SIZE)
        + size(span.exit_cpu.is_some(), EXIT_CPU_SIZE)
        + size(span.flags != 0, FLAGS_SIZE)
        + ARGUMENT_SIZE * span.arguments.len()
}
