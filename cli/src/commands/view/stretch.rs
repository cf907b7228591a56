//! A stretch of time of a trace as a source: each thread is read from the last place before the stretch, where its open
//! calls are known, and no further than the stretch. So figures of a short stretch of a large trace take little time. A
//! selection around it cuts it exactly. Must never give other calls of the stretch than the trace itself.

use std::ops::ControlFlow;
use std::sync::Arc;

use fdr_formats::source::{Complaints, Part, Record};
use fdr_formats::{Call, CpuId, Error, FunctionId, Mark, Sink, Source, Ticks, TraceInfo};

use super::index::{Frame, Index, Place};

/// The stretch.
pub(super) struct Stretch {
    source: Arc<dyn Source>,
    index: Arc<Index>,
    from: u64,
    to: u64,
}

impl Stretch {
    pub(super) fn new(source: Arc<dyn Source>, index: Arc<Index>, from: u64, to: u64) -> Stretch {
        Stretch {
            source,
            index,
            from,
            to,
        }
    }
}

/// The entry of a call that was open.
pub(super) fn entry(frame: &Frame) -> Call {
    Call {
        synthetic: !frame.is_measured,
        ..Call::entry(Ticks(frame.start), FunctionId(frame.function))
    }
}

/// Reads a thread from the last place before `from` to the first place behind `to`.
///
/// # Errors
/// If the file can't be read.
pub(super) fn read(
    source: &dyn Source,
    index: &Index,
    thread: usize,
    lane: usize,
    (from, to): (u64, u64),
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let Some(known) = source.info().threads.get(thread) else {
        return Ok(());
    };
    let (first, ends): (Option<Place>, Vec<_>) = match index.line(thread) {
        Some(line) => {
            let behind = line.places.partition_point(|place| place.time < from);
            let first = behind.saturating_sub(1);
            let next = line.places.get(first + 1..).unwrap_or(&[]);
            let most = next.partition_point(|place| place.time <= to);
            let ends = next.iter().take(most + 1).map(|place| place.position);
            (line.places.get(first).cloned(), ends.collect())
        }
        None => return Ok(()),
    };
    let Some(first) = first else { return Ok(()) };
    sink.thread(known);
    if let Some(cpu) = first.cpu {
        let time = Ticks(first.time);
        sink.mark(&Mark::Cpu {
            time,
            cpu: CpuId(cpu),
        });
    }
    let entries: Vec<Call> = first.open.iter().map(entry).collect();
    sink.calls(&entries);
    let last = match index.line(thread) {
        Some(line) => line.places.last().map(|place| place.position),
        None => None,
    };
    let goes_to_end = ends.is_empty() || ends.last() == last.as_ref();
    let parts = ends.into_iter().map(Some);
    let mut at = first.position;
    // Behind the last place the thread goes on to its end.
    for to in parts.chain(goes_to_end.then_some(None)) {
        let mut complaints = Complaints::default();
        let part = Part { lane, from: at, to };
        at = source.decode_part(&part, sink, &mut complaints, &|_| {})?;
    }
    Ok(())
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
        match self.index.thread_of_lane(lane) {
            Some(thread) => {
                let stretch = (self.from, self.to);
                read(&*self.source, &self.index, thread, lane, stretch, sink)
            }
            None => self.source.decode(lane, sink, progress),
        }
    }

    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error> {
        self.source.records(visit)
    }
}
