//! A stretch of time of a trace as a source. The index has places at which the open calls of a thread are known. Each
//! thread is decoded from the last such place before the stretch to the end of the stretch. Calls before and behind are
//! only counted, which is quick. A selection around this source cuts the stretch exactly.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use fdr_formats::packed::Packed;
use fdr_formats::source::Record;
use fdr_formats::{
    Call, CpuId, Error, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks, TraceInfo,
};

use super::index::{Frame, Index};

/// The stretch.
pub(super) struct Stretch {
    pub(super) source: Arc<dyn Source>,
    pub(super) index: Arc<Index>,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The entry of a call that was open.
pub(super) fn entry(frame: &Frame) -> Call {
    Call {
        synthetic: !frame.is_measured,
        ..Call::entry(Ticks(frame.start), FunctionId(frame.function))
    }
}

/// Gives on what a thread does between two places.
struct ThreadRange<'a> {
    sink: &'a mut dyn Sink,
    thread: ThreadId,
    is_thread: bool,
    /// Entries and exits of the thread so far.
    number: u64,
    /// The entries and exits before both places.
    places: Range<u64>,
}

impl Sink for ThreadRange<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.is_thread = thread.id == self.thread;
    }

    fn calls(&mut self, calls: &[Call]) {
        if !self.is_thread {
            return;
        }
        let count = |place: u64| place.saturating_sub(self.number).min(calls.len() as u64) as usize;
        let (from, to) = (count(self.places.start), count(self.places.end));
        self.number += calls.len() as u64;
        if let Some(between @ [_, ..]) = calls.get(from..to) {
            self.sink.calls(between);
        }
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        let next = self.number + packed.len() as u64;
        if next > self.places.start && self.number < self.places.end {
            return packed.unpack(|calls| self.calls(calls));
        }
        if self.is_thread {
            self.number = next;
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.is_thread && self.places.contains(&self.number) {
            self.sink.mark(mark);
        }
    }
}

/// Follows a thread from the last place before `from` to the first place behind `to`.
///
/// # Errors
/// If the file can't be read.
pub(super) fn read(
    source: &dyn Source,
    index: &Index,
    thread: usize,
    (from, to): (u64, u64),
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let Some(known) = source.info().threads.get(thread) else {
        return Ok(());
    };
    let (first, end) = match index.line(thread) {
        Some(line) => {
            let first = line.places.partition_point(|place| place.time < from);
            let first = line.places.get(first.saturating_sub(1));
            let end = line.places.partition_point(|place| place.time <= to);
            // Behind the last place the thread goes on to its end.
            let end = line.places.get(end).map_or(u64::MAX, |place| place.number);
            (first.cloned().unwrap_or_default(), end)
        }
        None => return Ok(()),
    };
    sink.thread(known);
    if let Some(cpu) = first.cpu {
        let (time, cpu) = (Ticks(first.time), CpuId(cpu));
        sink.mark(&Mark::Cpu { time, cpu });
    }
    let entries: Vec<Call> = first.open.iter().map(entry).collect();
    sink.calls(&entries);
    let mut between = ThreadRange {
        sink,
        thread: known.id,
        is_thread: false,
        number: 0,
        places: first.number..end,
    };
    source.decode(thread, &mut between, &|_| {})
}

impl Source for Stretch {
    fn info(&self) -> &TraceInfo {
        self.source.info()
    }

    fn inner(&self) -> Option<&dyn Source> {
        Some(&*self.source)
    }

    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let is_all = (self.from, self.to) == (0, u64::MAX);
        match !is_all && self.index.can_read_again(lane) {
            true => read(&*self.source, &self.index, lane, (self.from, self.to), sink),
            false => self.source.decode(lane, sink, progress),
        }
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.source.records(visit)
    }
}
