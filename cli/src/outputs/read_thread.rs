//! Reads a trace in one thread and hands its events over in another thread. Their order and their portions stay the
//! same, so the writer's file is the same.

use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use fdr_formats::{Call, Diagnostic, Error, Mark, Sink, Source, Thread, source};

use crate::tally::Tally;

/// Calls of a batch, or other things of one, at least: less than a second-level cache.
const CALLS: usize = 8 * 1024;
/// Bytes of payloads of a batch, at least.
const DATA: usize = 256 * 1024;
/// Batches that wait.
const WAITING: usize = 8;

/// Gives the events of a source to a sink, as [`source::drive`] does, but without the diagnostics. Returns the
/// tally.
///
/// # Errors
/// Where the trace can't be read.
pub(super) fn drive(
    source: &dyn Source,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Tally, Error> {
    let (full, filled) = sync_channel(WAITING);
    let (empty, emptied) = channel();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> Result<Tally, Error> {
            let mut reader = Reader {
                tally: Tally::default(),
                batch: Batch::default(),
                full,
                emptied,
            };
            let driven = source::drive(source, &mut reader, progress);
            reader.send();
            driven.map(|()| reader.tally)
        });
        replay(filled, &empty, sink);
        match reader.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Takes batches as long as any come. It owns the receiver, so that a reader never waits for a sink that is
/// gone.
fn replay(filled: Receiver<Batch>, empty: &Sender<Batch>, sink: &mut dyn Sink) {
    for mut batch in filled {
        batch.replay(sink);
        // The reader may have ended.
        let _ = empty.send(batch);
    }
}

/// Some events.
#[derive(Default)]
struct Batch {
    steps: Vec<Step>,
    calls: Vec<Call>,
    data: Vec<u8>,
}

/// What a sink is given at once.
enum Step {
    Thread(Thread),
    /// The number of calls to take from the batch.
    Calls(usize),
    /// A mark, and how many bytes of the batch's data are its payload.
    Mark(Mark<'static>, usize),
}

impl Batch {
    fn is_full(&self) -> bool {
        self.calls.len() >= CALLS || self.steps.len() >= CALLS || self.data.len() >= DATA
    }

    fn replay(&mut self, sink: &mut dyn Sink) {
        let (mut calls, mut data) = (&self.calls[..], &self.data[..]);
        for step in &self.steps {
            match step {
                Step::Thread(thread) => sink.thread(thread),
                Step::Calls(count) => {
                    let (these, rest) = calls.split_at(*count);
                    calls = rest;
                    sink.calls(these);
                }
                Step::Mark(mark, count) => {
                    let (these, rest) = data.split_at(*count);
                    data = rest;
                    sink.mark(&with(*mark, these));
                }
            }
        }
        self.steps.clear();
        self.calls.clear();
        self.data.clear();
        // One payload may have been large.
        self.data.shrink_to(2 * DATA);
    }
}

/// Puts batches together, and counts what is in them.
struct Reader {
    tally: Tally,
    batch: Batch,
    full: SyncSender<Batch>,
    emptied: Receiver<Batch>,
}

impl Reader {
    fn add(&mut self, step: Step) {
        self.batch.steps.push(step);
        if self.batch.is_full() {
            self.send();
        }
    }

    fn send(&mut self) {
        let next = self.emptied.try_recv().unwrap_or_default();
        // A sink that panicked takes no more.
        let _ = self.full.send(std::mem::replace(&mut self.batch, next));
    }
}

impl Sink for Reader {
    fn thread(&mut self, thread: &Thread) {
        self.tally.thread(thread);
        self.add(Step::Thread(thread.clone()));
    }

    fn calls(&mut self, calls: &[Call]) {
        self.tally.calls(calls);
        self.batch.calls.extend_from_slice(calls);
        self.add(Step::Calls(calls.len()));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.tally.mark(mark);
        let (mark, data) = without(mark);
        self.batch.data.extend_from_slice(data);
        self.add(Step::Mark(mark, data.len()));
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

/// A mark without its payload, and that.
fn without<'a>(mark: &Mark<'a>) -> (Mark<'static>, &'a [u8]) {
    const NONE: &[u8] = &[];
    match *mark {
        Mark::Cpu { time, cpu } => (Mark::Cpu { time, cpu }, NONE),
        Mark::Wall { seconds, micros } => (Mark::Wall { seconds, micros }, NONE),
        Mark::Argument { value } => (Mark::Argument { value }, NONE),
        Mark::Lost { records } => (Mark::Lost { records }, NONE),
        Mark::Break { time } => (Mark::Break { time }, NONE),
        Mark::ShortCalls { time, calls, ticks } => (Mark::ShortCalls { time, calls, ticks }, NONE),
        Mark::Threshold { ticks } => (Mark::Threshold { ticks }, NONE),
        Mark::Note { time, kind, body } => {
            let mark = Mark::Note {
                time,
                kind,
                body: NONE,
            };
            (mark, body)
        }
        Mark::Custom { time, cpu, data } => {
            let mark = Mark::Custom {
                time,
                cpu,
                data: NONE,
            };
            (mark, data)
        }
        Mark::Typed { time, kind, data } => {
            let mark = Mark::Typed {
                time,
                kind,
                data: NONE,
            };
            (mark, data)
        }
    }
}

/// And with it.
fn with<'a>(mark: Mark<'a>, payload: &'a [u8]) -> Mark<'a> {
    match mark {
        Mark::Custom { time, cpu, .. } => Mark::Custom {
            time,
            cpu,
            data: payload,
        },
        Mark::Note { time, kind, .. } => Mark::Note {
            time,
            kind,
            body: payload,
        },
        Mark::Typed { time, kind, .. } => Mark::Typed {
            time,
            kind,
            data: payload,
        },
        other => other,
    }
}
