//! What the page knows of a trace: the calls of each thread at several resolutions, gaps, events, and places from which
//! the trace can be read again. It is made in one pass over the trace, while pictures of what is known already are drawn.
//! Must never match calls by itself, nor hold a lock while the trace is read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fdr_formats::source::{Complaints, Part, Position};
use fdr_formats::{Diagnostic, Error, Sink, Source, Thread, ThreadId};

use super::counters::Counters;
use super::cpus::Cpus;
use super::filler::Filler;
use super::pyramid::Pyramid;
use super::tasks::OfThread;
use crate::ui;

/// Bytes of the trace from one place to the next from which it can be read.
const STRETCH: u64 = 256 << 10;
/// Parts that a worker decodes before it looks where work is due.
const TURN: usize = 16;
/// A call that is open at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) function: u32,
    pub(super) is_measured: bool,
}

/// A place from which a lane can be read.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) position: Position,
    /// The time of the last record before.
    pub(super) time: u64,
    pub(super) open: Box<[Frame]>,
    pub(super) cpu: Option<u32>,
}

/// What stands beside the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sign {
    /// So many records are missing up to that time.
    Gap { until: u64, records: u64 },
    /// The clock began anew.
    Break,
    /// An event.
    Event { name: u32 },
}

/// One thread.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) pyramid: Pyramid,
    /// In order of time, as far as the thread's records are.
    pub(super) places: Vec<Place>,
    pub(super) signs: Vec<(u64, Sign)>,
    pub(super) cpus: Cpus,
    pub(super) counters: Counters,
    pub(super) tasks: OfThread,
    /// Signs that were too many to keep.
    pub(super) more_signs: u64,
    /// Calls that are open at the end of what was read.
    pub(super) open: Vec<Frame>,
    /// Its first and last entry or exit.
    pub(super) first: Option<u64>,
    pub(super) last: u64,
    /// The first and the last of its notes.
    pub(super) noted: Option<(u64, u64)>,
    pub(super) calls: u64,
    pub(super) is_done: bool,
}

/// All of a trace.
pub(super) struct Index {
    /// As in [`fdr_formats::TraceInfo::threads`].
    lines: Vec<Mutex<Line>>,
    by_id: HashMap<ThreadId, usize>,
    /// The thread of a lane that can be read from places.
    of_lane: Mutex<HashMap<usize, usize>>,
    /// Bytes that were read, and all.
    done: AtomicU64,
    bytes: u64,
    is_done: AtomicBool,
    trouble: Mutex<Trouble>,
}

/// What went wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) more: u64,
    /// Why reading ended.
    pub(super) error: Option<String>,
}

impl Index {
    /// An empty one, for so many items in all.
    pub(super) fn new(source: &dyn Source, most: usize) -> Index {
        let threads = &source.info().threads;
        let of_lane: Vec<u64> = (0..source.lanes())
            .map(|lane| source.lane_bytes(lane))
            .collect();
        let bytes: u64 = of_lane.iter().sum();
        let is_lane_a_thread = of_lane.len() == threads.len();
        let line = |(nth, _): (usize, &Thread)| {
            let share = match is_lane_a_thread {
                true => of_lane[nth] as f64 / bytes.max(1) as f64,
                false => 1.0 / threads.len() as f64,
            };
            let most = (most as f64 * share) as usize;
            Mutex::new(Line {
                pyramid: Pyramid::new(most.max(10_000)),
                places: Vec::new(),
                signs: Vec::new(),
                cpus: Cpus::new(threads.len()),
                counters: Counters::new(threads.len()),
                tasks: OfThread::new(threads.len()),
                more_signs: 0,
                open: Vec::new(),
                first: None,
                last: 0,
                noted: None,
                calls: 0,
                is_done: false,
            })
        };
        let diagnostics = source.diagnostics().to_vec();
        Index {
            lines: threads.iter().enumerate().map(line).collect(),
            by_id: threads
                .iter()
                .enumerate()
                .map(|(nth, thread)| (thread.id, nth))
                .collect(),
            of_lane: Mutex::default(),
            done: AtomicU64::new(0),
            bytes: bytes.max(1),
            is_done: AtomicBool::new(false),
            trouble: Mutex::new(Trouble {
                diagnostics,
                ..Trouble::default()
            }),
        }
    }

    /// The place of a thread.
    pub(super) fn thread_of(&self, id: ThreadId) -> Option<usize> {
        self.by_id.get(&id).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A thread, for a moment.
    pub(super) fn line(&self, thread: usize) -> Option<MutexGuard<'_, Line>> {
        let line = self.lines.get(thread)?;
        Some(line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How much of the trace was read; 1 is all.
    pub(super) fn progress(&self) -> f64 {
        // Relaxed: a number for people.
        let share = self.done.load(Ordering::Relaxed) as f64 / self.bytes as f64;
        match self.is_done() {
            true => 1.0,
            false => share.min(0.999),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    pub(super) fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of a lane, if the lane was read and can be read again from places within.
    pub(super) fn thread_of_lane(&self, lane: usize) -> Option<usize> {
        let of_lane = self.of_lane.lock().unwrap_or_else(PoisonError::into_inner);
        of_lane.get(&lane).copied()
    }

    /// The lane of such a thread.
    pub(super) fn lane_of_thread(&self, thread: usize) -> Option<usize> {
        let of_lane = self.of_lane.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes = of_lane.iter();
        lanes.find(|(_, of)| **of == thread).map(|(lane, _)| *lane)
    }

    /// First and last tick of the trace: of its calls, or else of its notes.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let join = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        let lines = || (0..self.len()).filter_map(|nth| self.line(nth));
        let calls = lines().filter_map(|line| Some((line.first?, line.last)));
        let noted = || lines().filter_map(|line| line.noted).reduce(join);
        calls.reduce(join).or_else(noted)
    }

    /// Reads the whole trace.
    pub(super) fn build(&self, source: &dyn Source) {
        let jobs = (0..source.lanes()).map(|lane| Job::new(self, source, lane));
        let jobs = Mutex::new(jobs.collect::<Vec<_>>());
        let work = || {
            loop {
                // The one that is behind the others, so that the picture grows evenly.
                let job = {
                    let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                    let share = |job: &Job<'_>| job.read as f64 / job.bytes.max(1) as f64;
                    let least = (0..jobs.len())
                        .min_by(|&one, &other| share(&jobs[one]).total_cmp(&share(&jobs[other])));
                    least.map(|nth| jobs.swap_remove(nth))
                };
                let Some(mut job) = job else { return };
                match job.turn(self, source) {
                    Ok(true) => jobs
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(job),
                    Ok(false) => {}
                    Err(error) => self.trouble().error = Some(error.to_string()),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..ui::jobs() {
                scope.spawn(work);
            }
            work();
        });
        for nth in 0..self.len() {
            if let Some(mut line) = self.line(nth) {
                line.is_done = true;
            }
        }
        self.is_done.store(true, Ordering::Release);
    }
}

/// The reading of a lane.
struct Job<'a> {
    lane: usize,
    bytes: u64,
    read: u64,
    at: Position,
    /// Where parts may end, in order, the next one last.
    cuts: Option<Vec<Position>>,
    complaints: Complaints,
    filler: Filler<'a>,
}

impl<'a> Job<'a> {
    fn new(index: &'a Index, source: &dyn Source, lane: usize) -> Job<'a> {
        Job {
            lane,
            bytes: source.lane_bytes(lane),
            read: 0,
            at: Position::default(),
            cuts: None,
            complaints: Complaints::default(),
            filler: Filler::new(index, source),
        }
    }

    /// Reads on for a while. Returns whether there is more.
    fn turn(&mut self, index: &Index, source: &dyn Source) -> Result<bool, Error> {
        if self.cuts.is_none() {
            let mut cuts = source.cuts(self.lane, STRETCH)?;
            cuts.reverse();
            self.filler.has_places = !cuts.is_empty();
            self.cuts = Some(cuts);
        }
        let read = AtomicU64::new(0);
        let progress = |bytes: u64| {
            // Relaxed: both are numbers for people.
            read.fetch_add(bytes, Ordering::Relaxed);
            index.done.fetch_add(bytes, Ordering::Relaxed);
        };
        let mut more = true;
        for _ in 0..TURN {
            if !more {
                break;
            }
            self.filler.put_place(self.at);
            let to = self.cuts.as_mut().and_then(Vec::pop);
            let part = Part {
                lane: self.lane,
                from: self.at,
                to,
            };
            self.at =
                source.decode_part(&part, &mut self.filler, &mut self.complaints, &progress)?;
            more = to.is_some();
        }
        self.read += read.into_inner();
        if !more {
            if let Some(rest) = self.complaints.rest() {
                self.filler.diagnostic(rest);
            }
            self.filler.finish_all();
            if let (true, Some(thread)) = (self.filler.has_places, self.filler.only_thread()) {
                let of_lane = index.of_lane.lock();
                let mut of_lane = of_lane.unwrap_or_else(PoisonError::into_inner);
                of_lane.insert(self.lane, thread);
            }
        }
        Ok(more)
    }
}
