//! Writes events of any format as an HTDUMP stream. A call is written when it ends, so before its parent, as HawkTracer
//! does. A mark is written when it comes. Memory is the functions, the threads and the open calls.

use std::io::Write;
use std::sync::Arc;

use super::encoder_state::EncoderState;
use super::klass;
use super::record::{Builder, MAX_RECORD};
use crate::bytes::ByteOrder;
use crate::error::{Diagnostic, Error};
use crate::escaped::escape;
use crate::model::{Call, ClockFaults, Edge, Function, Mark, Nanos, Thread, Ticks, TraceInfo};
use crate::number_map::NumberMap;
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::spans::Spans;
use crate::thread_numbers::{RENUMBERED, ThreadNumbers};
use crate::writer::Writer;

/// The most bytes of a record without its one long text.
const REST: usize = 64;

/// A thread that the file already describes.
#[derive(Debug)]
struct ThreadState {
    /// Its number in the file.
    number: u32,
    thread: Thread,
    /// The time of its last event, in ns.
    last: u64,
    /// A call was entered at that time.
    inside: bool,
}

impl ThreadState {
    /// A time in ns. It is never before the last one, because a reader sorts by time.
    #[inline]
    fn reach(&mut self, ticks: Ticks, scale: &mut Scale, losses: &mut Losses) -> u64 {
        let Nanos(nanos) = scale.nanos(ticks);
        if nanos < self.last {
            let what = "times before that of the thread's last event: moved up to that";
            losses.add(what, 1);
        } else if nanos > self.last {
            (self.last, self.inside) = (nanos, false);
        }
        if nanos == u64::MAX && ticks.0 != u64::MAX {
            let what = "times of 2^64 ns and more: moved there";
            losses.add(what, 1);
        }
        self.last
    }
}

/// A sink that writes an HTDUMP stream.
pub struct HtdumpWriter<W: Write> {
    scale: Scale,
    states: Vec<ThreadState>,
    state_of: NumberMap,
    numbers: ThreadNumbers,
    now: Option<usize>,
    spans: Spans,
    /// An argument of an open call may follow.
    arguments: bool,
    output: EncoderState<W>,
    /// The facts of the trace, without functions and threads, which have events of their own. No other part holds this
    /// reference.
    info: Arc<TraceInfo>,
}

impl<W: Write> HtdumpWriter<W> {
    /// Begins a stream; `info` gives clock, functions and program. Nothing is written until there are
    /// enough bytes, or [`Writer::flush`] is called.
    #[must_use]
    pub fn new(out: W, order: ByteOrder, info: &TraceInfo) -> HtdumpWriter<W> {
        let mut output = EncoderState::new(out, order, info);
        let what = "what is known to be wrong with the clock: left out";
        let faults = info.clock.faults != ClockFaults::default();
        output.losses.add(what, faults.into());
        output.losses.add_untimed(&info.functions);
        HtdumpWriter {
            scale: Scale::new(info.clock.frequency),
            states: Vec::new(),
            state_of: NumberMap::default(),
            numbers: ThreadNumbers::default(),
            now: None,
            spans: Spans::default(),
            arguments: false,
            output,
            info: info.without_lists(),
        }
    }

    /// Begins a mark of the current thread. A mark without a time has the time of the previous event.
    fn begin(&mut self, klass: u32, time: Option<Ticks>) -> Option<Builder<'_>> {
        let state = self.now.and_then(|now| self.states.get_mut(now))?;
        if let Some(time) = time {
            state.reach(time, &mut self.scale, &mut self.output.losses);
        }
        let EncoderState { encoder, out, .. } = &mut self.output;
        let record = encoder
            .begin(&mut out.bytes, klass, state.last)
            .u32(state.number);
        Some(match klass {
            klass::CPU => record,
            _ => record.u8(state.inside.into()),
        })
    }

    fn argument(&mut self, after_call: bool, value: u64) {
        self.arguments = after_call && self.spans.argument(value);
        if !self.arguments && self.now.is_some() {
            let what = "arguments that no entry stands before: left out";
            self.output.losses.add(what, 1);
        }
    }

    #[cfg(feature = "read")]
    fn note(&mut self, time: Ticks, kind: crate::notes::NoteKind, body: &[u8]) {
        use crate::note_values::{body_alone, in_nanos, split};
        let body = in_nanos(kind, body, self.info.clock.frequency);
        let mut note = split(kind, &body);
        let klass = self.output.note_klass(&note.class).or_else(|| {
            let what = "notes of more kinds than a file describes (4,096): written as bytes";
            self.output.losses.note(what, 1);
            note = body_alone(kind, &body);
            self.output.note_klass(&note.class)
        });
        let Some(klass) = klass else { return };
        if let Some(record) = self.begin(klass, Some(time)) {
            super::notes::put(record, &note);
        }
    }

    fn payload(&mut self, data: &[u8]) -> Option<String> {
        let text = escape(data);
        if text.len() <= MAX_RECORD - REST {
            return Some(text);
        }
        let what = "custom and typed events of 64 MiB and more, escaped: left out";
        self.output.losses.add(what, 1);
        None
    }
}

impl<W: Write> Sink for HtdumpWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        self.spans.thread(thread.id);
        self.arguments = false;
        let at = match self.state_of.get(thread.id.0) {
            Some(at) => {
                self.now = Some(at);
                if !renew(&mut self.states[at].thread, thread) {
                    return;
                }
                at
            }
            None => {
                let number = self.numbers.begin(thread.id);
                self.states.push(ThreadState {
                    number,
                    thread: thread.clone(),
                    last: 0,
                    inside: false,
                });
                self.states.len() - 1
            }
        };
        self.state_of.insert(thread.id.0, at);
        self.now = Some(at);
        let state = &self.states[at];
        self.output.note_cut(&thread.name);
        let EncoderState { encoder, out, .. } = &mut self.output;
        encoder.thread(&mut out.bytes, state.number, &state.thread);
        self.output.out.settle();
    }

    fn calls(&mut self, calls: &[Call]) {
        let Some(state) = self.now.and_then(|now| self.states.get_mut(now)) else {
            return;
        };
        let (number, output) = (state.number, &mut self.output);
        for call in calls {
            let time = Ticks(state.reach(call.time, &mut self.scale, &mut output.losses));
            state.inside |= call.edge == Edge::Entry;
            let call = Call { time, ..*call };
            self.spans
                .call(&call, &mut |span| output.span(number, span));
        }
        self.arguments = true;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let after_call = std::mem::take(&mut self.arguments);
        match *mark {
            Mark::Argument { value } => self.argument(after_call, value),
            Mark::Cpu { time, cpu } => {
                let record = self.begin(klass::CPU, Some(time));
                let _ = record.map(|record| record.u32(cpu.0));
            }
            Mark::Wall { seconds, micros } => {
                let record = self.begin(klass::WALL, None);
                let _ = record.map(|record| record.u64(seconds).u32(micros));
            }
            Mark::Lost { records } => {
                self.spans.lost();
                let record = self.begin(klass::LOST, None);
                let _ = record.map(|record| record.u64(records));
            }
            Mark::Break { .. } => {
                // As `Mark::missing` reads it.
                let record = self.begin(klass::LOST, None);
                let _ = record.map(|record| record.u64(0));
            }
            #[cfg(feature = "read")]
            Mark::Note { time, kind, body } => self.note(time, kind, body),
            Mark::Custom { time, cpu, data } => {
                let Some(payload) = self.payload(data) else {
                    return;
                };
                let known = u32::from(cpu.is_some()) * klass::known::CPU as u32;
                let cpu = cpu.map_or(0, |cpu| cpu.0);
                let record = self.begin(klass::CUSTOM, Some(time));
                let _ = record.map(|record| record.u32(known).u32(cpu).text(&payload));
            }
            Mark::Typed { time, kind, data } => {
                let Some(payload) = self.payload(data) else {
                    return;
                };
                let record = self.begin(klass::TYPED, Some(time));
                let _ = record.map(|record| record.u32(kind.into()).text(&payload));
            }
            _ => self.output.losses.add_left_out(mark),
        }
        self.output.out.settle();
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

/// Takes the facts of `new`. Returns whether any is new.
fn renew(old: &mut Thread, new: &Thread) -> bool {
    let (name, process, counts) = (old.name.clone(), old.process, old.counts);
    if !new.name.is_empty() {
        old.name.clone_from(&new.name);
    }
    old.process = new.process.or(old.process);
    old.counts = new.counts.or(old.counts);
    old.name != name || (old.process, old.counts) != (process, counts)
}

impl<W: Write + Send> Writer for HtdumpWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        self.output.losses.add_untimed(more);
        self.output.functions(more);
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.output.out.flush()
    }

    fn restart(&mut self) -> Option<Vec<u8>> {
        let mut bytes = self.output.preamble.clone();
        for state in &mut self.states {
            // The counts are of records that the previous reader got.
            state.thread.counts = None;
            let encoder = &mut self.output.encoder;
            encoder.thread(&mut bytes, state.number, &state.thread);
        }
        Some(bytes)
    }

    fn end(&mut self, end: Ticks) {
        if let Some(info) = Arc::get_mut(&mut self.info) {
            info.end = Some(end);
        }
        let EncoderState { encoder, out, .. } = &mut self.output;
        encoder.trace(&mut out.bytes, &self.info);
        self.output.out.settle();
    }

    fn finish(mut self: Box<Self>) -> Result<Losses, Error> {
        let Self {
            spans,
            output,
            state_of,
            states,
            numbers,
            info,
            scale,
            ..
        } = &mut *self;
        let end = info.end.map(|end| Ticks(scale.nanos(end).0));
        spans.finish(end, &mut |thread, span| {
            let state = state_of.get(thread.0).and_then(|at| states.get(at));
            if let Some(state) = state {
                output.span(state.number, span);
            }
        });
        spans.losses(&mut output.losses);
        output.losses.note(RENUMBERED, numbers.renumbered);
        output.out.flush()?;
        Ok(std::mem::take(&mut output.losses))
    }
}
