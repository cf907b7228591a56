//! The reading side: a trace that is open, indexed and ready to push its events into a sink.
//!
//! A source is divided into *lanes*: parts that can be decoded independently and at the same time. In XRay
//! a lane is a thread with all of its blocks. In formats that mix their threads, the whole file is one
//! lane.
//!
//! A source must never hold its file, and its memory must never grow with the events. It keeps the threads,
//! blocks and functions of the trace, each listed once. It also keeps one window of the file for each lane
//! that is being decoded.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Diagnostic, Error};
use crate::model::{Edge, FunctionId, NoteKind, ThreadId, Ticks, TraceInfo};
use crate::sink::Sink;

/// A trace that was opened and indexed.
pub trait Source: Send + Sync {
    /// The facts that the trace states about itself.
    fn info(&self) -> &TraceInfo;

    /// The source inside this one, if this one wraps another. Default methods ask the inner source.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    /// The problems found at opening. The sink gets all later ones.
    fn diagnostics(&self) -> &[Diagnostic] {
        self.inner().map_or(&[], |inner| inner.diagnostics())
    }

    /// The number of parts that can be decoded independently: one, if the file mixes its threads.
    fn lanes(&self) -> usize {
        self.inner().map_or(1, |inner| inner.lanes())
    }

    /// Bytes of that lane in the file, for a progress bar and for sharing the work fairly.
    fn lane_bytes(&self, lane: usize) -> u64 {
        self.inner().map_or(0, |inner| inner.lane_bytes(lane))
    }

    /// Pushes the events of one lane into the sink. `progress` gets the bytes that are done.
    ///
    /// # Errors
    /// Only if the file can't be read. A fault in the trace is a diagnostic.
    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error>;

    /// Visits every on-disk unit in the order of the file, until the visitor breaks.
    ///
    /// # Errors
    /// Only if the file can't be read.
    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error>;
}

/// Makes `$Source` a source with one lane, for formats that mix the threads. `$size` is the bytes of the lane, `$decode`
/// pushes its events, and `$list` gives its units. The type has a field `index` with the facts of the trace.
macro_rules! one_lane {
    (
        $Source:ty, $this:ident:
        size: $size:expr,
        decode($sink:ident, $progress:ident): $decode:expr,
        records($visit:ident): $list:expr $(,)?
    ) => {
        impl $crate::source::Source for $Source {
            fn info(&self) -> &$crate::model::TraceInfo {
                &self.index.info
            }

            fn diagnostics(&self) -> &[$crate::error::Diagnostic] {
                &self.index.diagnostics
            }

            fn lane_bytes(&self, lane: usize) -> u64 {
                let $this = self;
                if lane == 0 { $size } else { 0 }
            }

            fn decode(
                &self,
                lane: usize,
                $sink: &mut dyn $crate::sink::Sink,
                $progress: &(dyn Fn(u64) + Sync),
            ) -> Result<(), $crate::error::Error> {
                let $this = self;
                if lane == 0 { $decode } else { Ok(()) }
            }

            fn records(
                &self,
                $visit: &mut dyn FnMut(&$crate::source::Record<'_>) -> std::ops::ControlFlow<()>,
            ) -> Result<(), $crate::error::Error> {
                let $this = self;
                $list
            }
        }
    };
}

pub(crate) use one_lane;

/// One on-disk unit, for people: what `fdr replay --records` prints.
#[derive(Clone, Debug, Default)]
pub struct Record<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// Bytes, payload included.
    pub size: u64,
    /// The thread, if the place in the file has one.
    pub thread: Option<ThreadId>,
    /// The time after this record, if it has one.
    pub time: Option<Ticks>,
    /// The function that was entered or left, if the record is of one call and the list knows the function. For a note,
    /// the name by which `--filter` chooses it: its own name, or the function of an argument.
    pub function: Option<FunctionId>,
    /// Which side of a call the record is, if the format has a record for each.
    pub edge: Option<Edge>,
    /// The note that the record is: its kind and its body.
    pub note: Option<(NoteKind, &'a [u8])>,
    /// The record's name in its format: `NewCPUId`, `Entry`.
    pub kind: &'a str,
    /// Its fields, in words.
    pub detail: &'a str,
}

/// The callback that gets the records of a listing.
pub(crate) type Visit<'a> = &'a mut dyn FnMut(&Record<'_>) -> ControlFlow<()>;

/// Gives records to a visitor, each with the words that were put into `detail` for it.
pub(crate) struct Listing<'a> {
    visit: Visit<'a>,
    pub(crate) detail: String,
}

/// Why a listing stops before the end.
pub(crate) enum Stop {
    /// The visitor has seen enough.
    Enough,
    /// The file can't be read.
    Failed(Error),
}

impl<E: Into<Error>> From<E> for Stop {
    fn from(error: E) -> Stop {
        Stop::Failed(error.into())
    }
}

impl<'a> Listing<'a> {
    /// Lists by `list`, as far as the visitor wants.
    ///
    /// # Errors
    /// If the file can't be read.
    pub(crate) fn run(
        visit: Visit<'a>,
        list: impl FnOnce(Listing<'a>) -> Result<(), Stop>,
    ) -> Result<(), Error> {
        let detail = String::new();
        match list(Listing { visit, detail }) {
            Ok(()) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    /// The next record, but for its detail.
    pub(crate) fn emit(&mut self, record: Record<'_>) -> Result<(), Stop> {
        let detail = &self.detail;
        let flow = (self.visit)(&Record { detail, ..record });
        self.detail.clear();
        match flow {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Enough),
        }
    }
}

/// Decodes every lane, one after the other, into one sink.
///
/// # Errors
/// If the file can't be read.
pub fn drive(
    source: &dyn Source,
    sink: &mut dyn Sink,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), Error> {
    for lane in 0..source.lanes() {
        source.decode(lane, sink, progress)?;
    }
    Ok(())
}

/// Decodes the lanes on `jobs` threads, the largest lane first. Each worker has a sink of its own, which
/// `make` creates. A lane goes to one sink only. Returns the workers' sinks.
///
/// # Errors
/// An error of a worker. The other workers finish their lane, and begin no more.
pub fn drive_parallel<S, F>(
    source: &dyn Source,
    jobs: usize,
    make: F,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Vec<S>, Error>
where
    S: Sink + Send,
    F: Fn() -> S + Sync,
{
    let mut order: Vec<usize> = (0..source.lanes()).collect();
    order.sort_by_key(|&lane| std::cmp::Reverse(source.lane_bytes(lane)));
    let next = AtomicUsize::new(0);
    let work = || -> Result<S, Error> {
        let mut sink = make();
        // Relaxed: the counter hands out lanes and publishes nothing.
        while let Some(&lane) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = source.decode(lane, &mut sink, progress) {
                next.store(order.len(), Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(sink)
    };
    let jobs = jobs.clamp(1, order.len().max(1));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (1..jobs).map(|_| scope.spawn(work)).collect();
        let mut sinks = vec![work()?];
        for worker in workers {
            match worker.join() {
                Ok(sink) => sinks.push(sink?),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(sinks)
    })
}
