//! Lanes for calls that overlap others of their thread without nesting, as asynchronous work does. A file
//! of complete events states when each call begins and ends. So such a call is no damage: its thread gets a
//! further lane, which is a thread of its own for everybody behind the reader.
//!
//! A call leaves its thread's stack if it outlasts the innermost call that is open when it begins. It goes to
//! the first lane that is free at that moment. A lane holds one call at a time, because nothing says what a
//! call on it would be called by.
//!
//! The number of lanes must be known before the events are given. A writer of calls that nest writes each
//! call when it ends. [`NestingCheck`] recognises such files in the first pass. For other files,
//! [`LaneCounter`] counts the lanes in a pass of its own.

use std::collections::{BinaryHeap, HashSet};

use super::{Details, EdgeSorter, Edges, Item, Numbered, Plan};
use crate::error::Error;
use crate::model::{Call, CpuId, Thread, ThreadId, Ticks};
use crate::sink::Sink;

/// The most lanes of a file beside its threads. Calls beyond them stay on their thread, and a diagnostic
/// tells it.
const MAX_LANES: usize = if cfg!(test) { 4 } else { 1024 };
/// The most calls of a thread that [`NestingCheck`] keeps.
const MAX_COMPLETED: usize = if cfg!(test) { 16 } else { 4096 };
/// Lanes get the highest free numbers from here down: every format can hold them.
const HIGHEST: u64 = i32::MAX as u64;

/// Recognises calls that nest and stand in the order of their ends. Of calls that begin together, the outer
/// one may come first.
#[derive(Debug, Default)]
pub(super) struct NestingCheck {
    /// Beginning and end of the calls that may still get a parent. In a long row of them, some stand for
    /// two, and for the time between.
    completed: Vec<(Ticks, Ticks)>,
}

impl NestingCheck {
    /// The next call of the thread. Returns false if it may overlap an earlier one.
    pub(super) fn nests(&mut self, start: Ticks, end: Ticks) -> bool {
        while let Some(&(from, to)) = self.completed.last() {
            if from < start {
                if to > start {
                    return false;
                }
                break;
            }
            if to > end {
                // An outer call that begins with this one.
                return from == start;
            }
            self.completed.pop();
        }
        if self.completed.len() == MAX_COMPLETED {
            self.compact();
        }
        self.completed.push((start, end));
        true
    }

    /// Joins pairs of the older half.
    fn compact(&mut self) {
        let half = MAX_COMPLETED / 2;
        for pair in 0..half / 2 {
            let (from, to) = (self.completed[2 * pair].0, self.completed[2 * pair + 1].1);
            self.completed[pair] = (from, to);
        }
        self.completed.drain(half / 2..half);
    }
}

/// The lanes of a thread in the second pass.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// When each lane is free again, and the CPU of its last call.
    lanes: Vec<(Ticks, Option<CpuId>)>,
    /// The calls of the current run, each with its lane.
    items: Vec<(usize, Numbered)>,
}

impl Lanes {
    /// Puts a call on a lane. False: no lane is free, and `may_add` allows no further one.
    pub(super) fn take(
        &mut self,
        numbered: &Numbered,
        may_add: impl FnOnce(usize) -> bool,
    ) -> bool {
        let item = &numbered.item;
        let free = self.lanes.iter().position(|&(end, _)| end <= item.start);
        let lane = free.unwrap_or(self.lanes.len());
        if free.is_none() {
            if !may_add(lane) {
                return false;
            }
            self.lanes.push((Ticks(0), None));
        }
        self.lanes[lane].0 = item.end;
        self.items.push((lane, *numbered));
        true
    }

    /// Gives the calls of the current run to a sink, lane by lane. `threads` are the lanes.
    ///
    /// # Errors
    /// The errors of `details`.
    pub(super) fn give(
        &mut self,
        threads: &[Thread],
        calls: &mut Vec<Call>,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        self.items.sort_by_key(|&(lane, _)| lane);
        for items in self.items.chunk_by(|a, b| a.0 == b.0) {
            let (lane, _) = items[0];
            let Some(thread) = threads.get(lane) else {
                break;
            };
            sink.thread(thread);
            let mut edges = Edges {
                open: &mut BinaryHeap::new(),
                calls,
                cpu: &mut self.lanes[lane].1,
                sink,
            };
            for (_, numbered) in items {
                edges.enter(numbered, 0, details)?;
                edges.close(Ticks(u64::MAX), |_| true);
            }
            edges.hand_over();
        }
        self.items.clear();
        Ok(())
    }
}

/// Takes one of the spare lanes, if one is left.
pub(super) fn spend(spare: &mut usize) -> bool {
    let is_left = *spare > 0;
    *spare -= usize::from(is_left);
    is_left
}

/// Counts the lanes of all threads: a pass over the same items as the first.
pub(crate) struct LaneCounter<'a>(EdgeSorter<'a>);

impl<'a> LaneCounter<'a> {
    pub(crate) fn new(plan: &'a Plan) -> LaneCounter<'a> {
        let mut sorter = EdgeSorter::new(plan, &[]);
        sorter.spare = MAX_LANES;
        LaneCounter(sorter)
    }

    /// The next item of a thread, as in the first pass.
    ///
    /// # Errors
    /// None in fact: nothing is read.
    pub(crate) fn add(&mut self, thread: usize, item: &Item) -> Result<(), Error> {
        self.0.add(thread, item, &mut Nothing, &mut Nothing)
    }

    /// The number of lanes of each thread.
    ///
    /// # Errors
    /// None in fact: nothing is read.
    pub(crate) fn finish(mut self) -> Result<Vec<usize>, Error> {
        for thread in 0..self.0.states.len() {
            self.0.run(thread, true, &mut Nothing, &mut Nothing)?;
        }
        let states = self.0.states.iter();
        Ok(states.map(|state| state.lanes.lanes.len()).collect())
    }
}

/// Neither details nor a receiver.
struct Nothing;

impl Details for Nothing {
    fn push(&mut self, _: &Item, _: &mut dyn Sink) -> Result<(), Error> {
        Ok(())
    }
}

impl Sink for Nothing {
    fn calls(&mut self, _: &[Call]) {}
}

/// Adds the lanes to the threads. Returns where those of each thread begin, and how many they are.
pub(super) fn name(counts: &[usize], threads: &mut Vec<Thread>) -> Vec<(usize, usize)> {
    let taken: HashSet<ThreadId> = threads.iter().map(|thread| thread.id).collect();
    let free = (0..=HIGHEST).rev().map(ThreadId);
    let free = free.filter(|id| !taken.contains(id));
    let mut ids: Vec<ThreadId> = free.take(counts.iter().sum()).collect();
    ids.sort_unstable();
    let mut ids = ids.into_iter();
    let mut lanes = Vec::new();
    for (at, &count) in counts.iter().enumerate() {
        lanes.push((threads.len(), count));
        let Some(of) = threads.get(at).cloned() else {
            continue;
        };
        let name = match &of.name[..] {
            "" => format!("thread {}", of.id),
            name => name.to_owned(),
        };
        threads.extend((1..=count).zip(&mut ids).map(|(lane, id)| Thread {
            id,
            process: of.process,
            name: format!("{name}, overlap {lane}"),
            ..Thread::default()
        }));
    }
    lanes
}
