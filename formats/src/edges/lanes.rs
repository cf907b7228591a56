//! Lanes for calls that overlap others of their thread without nesting, as asynchronous work does. A file of
//! complete events states when each call begins and ends. So such a call is no damage: it goes to a further
//! lane of its thread. For everything after the reader, this lane is a thread.
//!
//! A call leaves its thread's stack if it outlasts the innermost call that is open when it begins. It goes to
//! the first lane that is free at that moment. A lane holds one call at a time, because the file does not say
//! which call on the lane would be its caller.
//!
//! The number of lanes must be known before the events are given. A writer of calls that nest writes each
//! call when it ends. [`NestingCheck`] recognises such files in the first pass. For other files,
//! [`LaneCounter`] counts the lanes in a pass of its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::{Details, EdgeSorter, Edges, Item, Numbered, Plan};
use crate::error::Error;
use crate::model::{Call, CpuId, Thread, ThreadId, Ticks};
use crate::sink::Sink;

/// The maximum number of lanes in a file, besides its threads and the last lane of each thread. The last lane
/// takes the calls for which no other lane is free. On the last lane, time goes back from call to call, and a
/// diagnostic reports this. So calls and totals are exact even then.
pub(super) const MAX_LANES: usize = if cfg!(test) { 4 } else { 4096 };
/// The most calls of a thread that [`NestingCheck`] keeps.
const MAX_COMPLETED: usize = if cfg!(test) { 16 } else { 4096 };
/// Lanes get the highest free numbers from here down: every format can hold them.
const HIGHEST: u64 = i32::MAX as u64;

/// Recognises calls that nest and stand in the order of their ends. Of calls that begin together, the outer
/// one may come first.
#[derive(Debug, Default)]
pub(super) struct NestingCheck {
    /// Beginning and end of the calls that may still get a parent. If there are very many in a row, one entry
    /// stands for two calls and the time between them.
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
    /// The CPU of the last call of each lane.
    cpus: Vec<Option<CpuId>>,
    /// Lanes with a call, with the end of the call; then lanes without a call.
    busy: BinaryHeap<Reverse<(Ticks, usize)>>,
    free: BinaryHeap<Reverse<usize>>,
    /// The last lane, which takes the calls for which no other lane is free.
    last: Option<usize>,
    /// Calls on it: how many, and the place of the first.
    pub(super) late: u64,
    pub(super) first_late: u64,
    /// The calls of the current run, each with its lane.
    items: Vec<(usize, Numbered)>,
}

impl Lanes {
    /// Puts a call on a lane; calls come in the order of their beginnings. `may_add`: one of the lanes that
    /// are left for all threads may be taken.
    pub(super) fn take(&mut self, numbered: &Numbered, may_add: impl FnOnce() -> bool) {
        let item = &numbered.item;
        while let Some(&Reverse((end, lane))) = self.busy.peek() {
            if end > item.start {
                break;
            }
            self.busy.pop();
            self.free.push(Reverse(lane));
        }
        let free = self.free.pop().map(|Reverse(lane)| lane);
        let lane = free.or_else(|| (self.last.is_none() && may_add()).then(|| self.begin()));
        if let Some(lane) = lane {
            self.busy.push(Reverse((item.end, lane)));
            self.items.push((lane, *numbered));
            return;
        }
        let last = self.last.unwrap_or_else(|| self.begin());
        self.last = Some(last);
        if self.late == 0 {
            self.first_late = item.offset;
        }
        self.late += 1;
        self.items.push((last, *numbered));
    }

    /// A further lane.
    fn begin(&mut self) -> usize {
        self.cpus.push(None);
        self.cpus.len() - 1
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
                cpu: &mut self.cpus[lane],
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

/// Counts the lanes of all threads: a pass over the same items as the first.
pub(crate) struct LaneCounter<'a>(EdgeSorter<'a>);

impl<'a> LaneCounter<'a> {
    pub(crate) fn new(plan: &'a Plan) -> LaneCounter<'a> {
        LaneCounter(EdgeSorter::new(plan, &[]))
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
        Ok(states.map(|state| state.lanes.cpus.len()).collect())
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

/// Adds the lanes to the list of threads. Returns the place of the first lane of each thread, and the number
/// of its lanes.
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
