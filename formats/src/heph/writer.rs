//! Writes events of any format as a Heph trace. A call is one event, written when it has ended. A thread is
//! a stream. Times are ns from tick 0 of the source's clock; the epoch packet in front states that tick in
//! Unix time. Our own events hold what the document has no packet for (see `facts`). Memory is the open
//! calls, the functions and the threads.

use std::io::Write;

use super::encoder_state::EncoderState;
use super::tables::Untimed;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Edge, Function, Mark, Thread, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spans::Spans;
use crate::writer::{BufferedOutput, Writer};

/// A sink that writes a Heph trace, front to back.
pub struct HephWriter<W: Write> {
    out: BufferedOutput<W>,
    state: EncoderState,
    spans: Spans,
    /// The thread of the next events.
    now: Option<usize>,
}

impl<W: Write> HephWriter<W> {
    /// Begins with the epoch, and with the facts in `info` about trace, clock and functions.
    pub fn new(out: W, info: &TraceInfo) -> HephWriter<W> {
        let mut out = BufferedOutput::new(out);
        let mut state = EncoderState::new(info);
        state.begin(&mut out.bytes);
        for function in &info.functions {
            state.function(function, &mut out.bytes);
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
            if let Some(index) = state.threads.position(thread) {
                state.span(index, span, &mut out.bytes);
                out.settle();
            }
        });
        state.finish(&mut out.bytes);
        spans.losses(&mut state.losses);
        state.notes();
        self.out.flush()?;
        Ok(self.state.losses)
    }
}

impl<W: Write> Sink for HephWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        self.spans.thread(thread.id);
        self.now = Some(self.state.thread(thread, &mut self.out.bytes));
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
            state.arrive(*index, call.time, &mut out.bytes);
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
                state.span(*index, span, &mut out.bytes);
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
                self.state.mark(index, mark, &mut self.out.bytes);
            }
            Mark::Lost { records } => {
                self.spans.lost();
                let mark = Untimed::Lost { records };
                self.state.mark(index, mark, &mut self.out.bytes);
            }
            Mark::Break { .. } => {
                // As `Mark::missing` reads it.
                let mark = Untimed::Lost { records: 0 };
                self.state.mark(index, mark, &mut self.out.bytes);
            }
            #[cfg(feature = "read")]
            Mark::Note { time, kind, body } => {
                self.state
                    .note(index, time, kind, body, &mut self.out.bytes);
            }
            Mark::Custom { time, cpu, data } => {
                let cpu = cpu.map(|cpu| ("cpu", cpu.0.into()));
                self.state
                    .payload(index, time, cpu, data, false, &mut self.out.bytes);
            }
            Mark::Typed { time, kind, data } => {
                let kind = Some(("kind", kind.into()));
                self.state
                    .payload(index, time, kind, data, true, &mut self.out.bytes);
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
            self.state.function(function, &mut self.out.bytes);
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
        self.state.ends(end, &mut self.out.bytes);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        HephWriter::finish(*self)
    }
}
