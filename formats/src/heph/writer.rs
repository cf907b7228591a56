//! Writes events of any format as a Heph trace: each call one event, when it has ended; a thread is a
//! stream. Times are ns from tick 0 of the source's clock, which the epoch in front says in Unix time.
//! What the document has no room for goes as events of our own (see `facts`). Memory is the open
//! calls, the functions and the threads.

use std::io::{self, Write};

use super::book::Book;
use super::tables::Untimed;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Edge, Function, Mark, Thread, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spans::Spans;
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
        Ok(tell_kept(&mut self.failed)?)
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
