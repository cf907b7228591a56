//! The reading side: a trace that is open, indexed and ready to push its events into a sink.
//!
//! A source is divided into *lanes*: parts that can be decoded independently and at the same time. In XRay
//! a lane is a thread with all of its blocks. In formats that mix their threads, the whole file is one
//! lane. Some sources can also divide a lane: see [`crate::pieces`].
//!
//! A source must never hold its file, and its memory must never grow with the events. It keeps the threads,
//! blocks and functions of the trace, each listed once. It also keeps one window of the file for each lane
//! that is being decoded.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Diagnostic, Error};
use crate::model::{FunctionId, ThreadId, Ticks, TraceInfo};
use crate::sink::Sink;

/// A trace that was opened and indexed.
pub trait Source: Send + Sync {
    /// What the trace says of itself.
    fn info(&self) -> &TraceInfo;

    /// The source that this one is made around, if it is: what is not told otherwise is that one's.
    fn inner(&self) -> Option<&dyn Source> {
        None
    }

    /// What was wrong at opening; the rest comes to the sink.
    fn diagnostics(&self) -> &[Diagnostic] {
        self.inner().map_or(&[], |inner| inner.diagnostics())
    }

    /// How many parts can be decoded independently: one, where threads stand among each other.
    fn lanes(&self) -> usize {
        self.inner().map_or(1, |inner| inner.lanes())
    }

    /// Bytes of that lane in the file, for a progress bar and for sharing the work fairly.
    fn lane_bytes(&self, lane: usize) -> u64 {
        self.inner().map_or(0, |inner| inner.lane_bytes(lane))
    }

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

    /// Where the lane may be divided into parts of about `bytes` that can be decoded at the same
    /// time, in order. These are guesses: [`Source::decode_part`] finds out whether they are right.
    /// Empty, as here, for a lane that can't be divided.
    ///
    /// # Errors
    /// Only where the file can't be read.
    fn cuts(&self, lane: usize, bytes: u64) -> Result<Vec<Position>, Error> {
        let inner = self.inner();
        inner.map_or(Ok(Vec::new()), |inner| inner.cuts(lane, bytes))
    }

    /// Pushes the events of a part of a lane into the sink. Returns where it stopped: at the part's
    /// end, or at the next place behind it where that can be done.
    ///
    /// # Errors
    /// Where the file can't be read; and, of kind [`std::io::ErrorKind::Unsupported`], where a lane that has no
    /// cuts is asked for less than all of it.
    fn decode_part(
        &self,
        part: &Part,
        sink: &mut dyn Sink,
        complaints: &mut Complaints,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<Position, Error> {
        if let Some(inner) = self.inner() {
            return inner.decode_part(part, sink, complaints, progress);
        }
        if part.from != Position::default() || part.to.is_some() {
            let what = "this lane has no cuts: it is decoded as a whole";
            return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, what).into());
        }
        self.decode(part.lane, sink, progress)?;
        Ok(Position::default())
    }

    /// Visits every on-disk unit in the order of the file, until the visitor breaks.
    ///
    /// # Errors
    /// Only where the file can't be read.
    fn records(&self, visit: &mut dyn FnMut(&Record<'_>) -> ControlFlow<()>) -> Result<(), Error>;
}

/// A place between two records of a lane, and what a source must know to go on there. The default is
/// the lane's beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Which of the lane's blocks.
    pub(crate) block: usize,
    /// Byte offset in the file of the next record; 0: the block begins.
    pub(crate) offset: u64,
    /// The time of the record before.
    pub(crate) now: Option<u64>,
    /// What is added to the ticks of the file.
    pub(crate) shift: i64,
    /// So many function records to come were not measured.
    pub(crate) synthetic: u32,
    /// What follows can be decoded without the three above.
    pub(crate) free: bool,
}

impl Position {
    /// Whether a part that was decoded from `cut` on, without knowing what comes before it, goes on
    /// here.
    #[must_use]
    pub fn confirms(&self, cut: &Position) -> bool {
        self.free && (self.block, self.offset) == (cut.block, cut.offset)
    }

    /// Whether this is at or behind the other place.
    pub(crate) fn reaches(&self, other: &Position) -> bool {
        (self.block, self.offset) >= (other.block, other.offset)
    }
}

/// A part of a lane.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Which lane.
    pub lane: usize,
    /// Where it begins.
    pub from: Position,
    /// Where it ends. `None`: with the lane.
    pub to: Option<Position>,
}

/// Problems of a lane: the first hundred are told one by one, the rest is only counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Complaints {
    count: u64,
    /// Byte offset of the last one that was told.
    last: u64,
}

impl Complaints {
    const MOST: u64 = 100;

    /// Counts a problem at that byte; returns whether it is to be told.
    pub fn add(&mut self, offset: u64) -> bool {
        self.count += 1;
        let tell = self.count <= Self::MOST;
        if tell {
            self.last = offset;
        }
        tell
    }

    /// Those of the part that follows: `told` were told there. Gives them on, as far as they are to
    /// be told here.
    pub fn join(&mut self, part: &Complaints, told: Vec<Diagnostic>, sink: &mut dyn Sink) {
        let silent = part.count.saturating_sub(told.len() as u64);
        for diagnostic in told {
            if self.add(diagnostic.offset) {
                sink.diagnostic(diagnostic);
            }
        }
        self.count += silent;
    }

    /// How many were not told, in words; at the lane's end.
    #[must_use]
    pub fn rest(&self) -> Option<Diagnostic> {
        let more = self
            .count
            .checked_sub(Self::MOST)
            .filter(|&more| more > 0)?;
        let what = format!("{more} more problems of this thread are not listed");
        Some(Diagnostic {
            offset: self.last,
            what,
        })
    }
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
    /// The function that was entered or left, where the record is of one call and the list knows it.
    pub function: Option<FunctionId>,
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
