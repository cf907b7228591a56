//! Events of many threads, which lie mixed in the file, given to a sink in batches. Holds a batch of
//! calls for each thread, and nothing else.

use std::collections::HashMap;

use crate::model::{Call, Mark, Thread, ThreadId};
use crate::sink::Sink;

/// Calls of a thread that are held before they are handed over.
const BATCH: usize = 512;

/// The threads of a trace on their way into a sink.
pub(super) struct Lanes<'a> {
    sink: &'a mut dyn Sink,
    threads: &'a [Thread],
    place_of: HashMap<ThreadId, usize>,
    batches: Vec<Batch>,
    /// The thread that the sink was told last.
    now: Option<usize>,
}

#[derive(Debug, Default)]
struct Batch {
    calls: Vec<Call>,
    told: bool,
}

impl<'a> Lanes<'a> {
    /// Nothing so far; `threads` are all that there are.
    pub(super) fn new(threads: &'a [Thread], sink: &'a mut dyn Sink) -> Lanes<'a> {
        let ids = threads.iter().map(|thread| thread.id);
        Lanes {
            sink,
            threads,
            place_of: ids.zip(0..).collect(),
            batches: threads.iter().map(|_| Batch::default()).collect(),
            now: None,
        }
    }

    /// The sink itself, for what belongs to no thread.
    pub(super) fn sink(&mut self) -> &mut dyn Sink {
        self.sink
    }

    /// Which one a thread is.
    pub(super) fn place(&self, thread: ThreadId) -> Option<usize> {
        self.place_of.get(&thread).copied()
    }

    /// A call of a thread.
    #[inline]
    pub(super) fn call(&mut self, place: usize, call: Call) {
        let Some(batch) = self.batches.get_mut(place) else {
            return;
        };
        batch.calls.push(call);
        if batch.calls.len() >= BATCH {
            self.hand_over(place);
        }
    }

    /// What is no call, after the calls of the thread that came so far.
    pub(super) fn mark(&mut self, place: usize, mark: &Mark<'_>) {
        self.hand_over(place);
        self.turn(place);
        self.sink.mark(mark);
    }

    /// Hands over what is held, and names threads without events too.
    pub(super) fn finish(&mut self) {
        for place in 0..self.batches.len() {
            self.hand_over(place);
            if !self.batches[place].told {
                self.turn(place);
            }
        }
    }

    fn hand_over(&mut self, place: usize) {
        let Some(batch) = self.batches.get_mut(place) else {
            return;
        };
        if batch.calls.is_empty() {
            return;
        }
        let mut calls = std::mem::take(&mut batch.calls);
        self.turn(place);
        self.sink.calls(&calls);
        calls.clear();
        self.batches[place].calls = calls;
    }

    fn turn(&mut self, place: usize) {
        if self.now == Some(place) {
            return;
        }
        if let (Some(thread), Some(batch)) = (self.threads.get(place), self.batches.get_mut(place))
        {
            self.now = Some(place);
            batch.told = true;
            self.sink.thread(thread);
        }
    }
}
