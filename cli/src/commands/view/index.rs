//! The page's index of a trace: the calls of each thread at several resolutions, gaps, events, and places from which a
//! thread can be decoded again. It is made in one pass over the trace, while pictures of what is known already are
//! drawn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fdr_formats::{Diagnostic, Source, Thread, ThreadId};

use super::counters::Counters;
use super::cpus::Cpus;
use super::pyramid::Pyramid;
use super::thread_tasks::ThreadTasks;
use super::waits::Waits;

/// A call that is open at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) function: u32,
    pub(super) is_measured: bool,
}

/// A place between two records of a thread, from which its calls can be followed.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    /// Entries and exits before.
    pub(super) number: u64,
    /// The time of the last record before.
    pub(super) time: u64,
    pub(super) open: Box<[Frame]>,
    pub(super) cpu: Option<u32>,
}

/// What stands beside the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sign {
    /// `records` records are missing from the sign's time up to `until`.
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
    pub(super) places: Vec<Checkpoint>,
    pub(super) signs: Vec<(u64, Sign)>,
    pub(super) cpus: Cpus,
    pub(super) counters: Counters,
    pub(super) tasks: ThreadTasks,
    pub(super) waits: Waits,
    /// Signs that were too many to keep.
    pub(super) more_signs: u64,
    /// Calls that are open at the end of the part that was read.
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
    /// Each lane is the thread of that number.
    is_lane_a_thread: bool,
    /// Bytes that were read, and all.
    done: AtomicU64,
    bytes: u64,
    is_done: AtomicBool,
    trouble: Mutex<ReadProblems>,
}

/// What went wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadProblems {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) more: u64,
    /// Why reading ended.
    pub(super) error: Option<String>,
}

impl Index {
    /// An empty index for at most `most` items in all.
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
                places: vec![Checkpoint::default()],
                signs: Vec::new(),
                cpus: Cpus::new(threads.len()),
                counters: Counters::new(threads.len()),
                tasks: ThreadTasks::new(threads.len()),
                waits: Waits::default(),
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
            is_lane_a_thread,
            done: AtomicU64::new(0),
            bytes: bytes.max(1),
            is_done: AtomicBool::new(false),
            trouble: Mutex::new(ReadProblems {
                diagnostics,
                ..ReadProblems::default()
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

    /// Each thread, for a moment.
    pub(super) fn lines(&self) -> impl Iterator<Item = MutexGuard<'_, Line>> {
        (0..self.len()).filter_map(|nth| self.line(nth))
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

    pub(super) fn trouble(&self) -> MutexGuard<'_, ReadProblems> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a thread was read, and can be read again without other threads: it is the lane of its number.
    pub(super) fn can_read_again(&self, thread: usize) -> bool {
        self.is_lane_a_thread && self.line(thread).is_some_and(|line| line.is_done)
    }

    /// First and last tick of the trace's calls. If it has no calls, first and last tick of its notes.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let join = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        let lines = || self.lines();
        let calls = lines().filter_map(|line| Some((line.first?, line.last)));
        let noted = || lines().filter_map(|line| line.noted).reduce(join);
        calls.reduce(join).or_else(noted)
    }

    /// Adds to the number of bytes that were read.
    pub(super) fn advance(&self, bytes: u64) {
        // Relaxed: a number for people.
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The whole trace was read.
    pub(super) fn finish(&self) {
        for nth in 0..self.len() {
            if let Some(mut line) = self.line(nth) {
                line.is_done = true;
            }
        }
        self.is_done.store(true, Ordering::Release);
    }
}
