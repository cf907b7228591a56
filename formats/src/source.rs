//! The reading side: a trace that is open, indexed and ready to push its events into a sink.
//!
//! A source is divided into *lanes*, parts that can be decoded independently and at the same time.
//! For XRay a lane is a thread (all of its blocks); for formats that interleave their threads the
//! whole file is one lane.
//!
//! No source ever holds its file, and memory does not grow with the events. What a source keeps is
//! proportional to the threads, blocks and functions of the trace (names included), each listed
//! once; beside that, one window of the file for every lane that is being decoded.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Diagnostic, Error};
use crate::model::{ThreadId, Ticks, TraceInfo};
use crate::sink::Sink;

/// A trace that was opened and indexed.
pub trait Source: Send + Sync {
    /// What the trace says of itself.
    fn info(&self) -> &TraceInfo;

    /// What was wrong at opening; the rest comes to the sink.
    fn diagnostics(&self) -> &[Diagnostic];

    /// How many parts can be decoded independently.
    fn lanes(&self) -> usize;

    /// Bytes of that lane in the file, for a progress bar and for sharing the work fairly.
    fn lane_bytes(&self, lane: usize) -> u64;

    /// Pushes the events of one lane into the sink. `progress` is told bytes as they are done.
    ///
    /// # Errors
    /// Only where the file can't be read. What is wrong in the trace is a diagnostic.
    fn decode(
        &self,
        lane: usize,
        sink: &mut dyn Sink,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error>;

    /// Visits every on-disk unit in the order of the file, until the visitor breaks.
    ///
    /// # Errors
    /// Only where the file can't be read.
    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error>;
}

/// One on-disk unit, for people: what `fdr records` prints.
#[derive(Clone, Debug)]
pub struct Record<'a> {
    /// Byte offset in the file.
    pub offset: u64,
    /// Bytes, payload included.
    pub size: u64,
    /// The thread, where the place in the file has one.
    pub thread: Option<ThreadId>,
    /// The time after this record, where it has one.
    pub time: Option<Ticks>,
    /// The record's name in its format: `NewCPUId`, `Entry`.
    pub kind: &'a str,
    /// Its fields, in words.
    pub detail: &'a str,
}

/// Decodes every lane, one after the other, into one sink.
///
/// # Errors
/// Where the file can't be read.
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

/// Decodes the lanes on `jobs` threads, the largest first, each worker into one sink of its own
/// that `make` gives. A lane is never divided between two sinks. Returns the workers' sinks.
///
/// # Errors
/// An error that a worker met. The others end the lane that they are at, and begin no more.
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
        // Relaxed: the counter hands out lanes, it publishes nothing.
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
