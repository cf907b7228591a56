//! Turns spans into entries and exits in order of time, for formats whose record is a whole call. Such a record is
//! written when its call has ended. So a parent stands behind all of its children. Some programs write the records in
//! another order.
//!
//! The file is read in two passes. Each pass gives all items of a thread in the order of the file. A thread's items are
//! cut into runs of [`RUN`]. The first pass ([`Planner`]) notes each item that begins before the end of an earlier run,
//! with the run in which it begins. These calls were open between two runs. The second pass ([`EdgeSorter`]) sorts one
//! run at a time, with the noted items, and keeps the open calls. Memory is one run per thread and the noted items,
//! which are few per run if calls nest.
//!
//! Edges of the same time have this order. An item that stands earlier in the file comes first. Exits of inner calls
//! come before exits of outer ones. Of two calls that begin together, the longer one is the parent. If they also end
//! together, the earlier one is the parent. A call without length ends before the longer calls of the same time that
//! are behind it in the file begin.
//!
//! [`lanes`] separates calls that do not nest.

mod lanes;
mod order;

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

pub(crate) use self::lanes::LaneCounter;
use self::lanes::{Lanes, MAX_LANES, NestingCheck};
use self::order::sort;
use crate::error::{Diagnostic, Error};
use crate::model::{Call, CpuId, Edge, FunctionId, Mark, Thread, Ticks};
use crate::runs::Runs;
use crate::sink::Sink;
use crate::spans::flags;

/// Items of a thread that are sorted at a time.
const RUN: usize = if cfg!(test) { 8 } else { 1024 };

/// The content of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ItemContent {
    /// A call.
    Span {
        /// Which function.
        function: FunctionId,
        /// See [`flags`].
        flags: u8,
        /// The CPU at its entry.
        cpu: Option<CpuId>,
        /// The CPU at its exit, if it changed.
        exit_cpu: Option<CpuId>,
        /// It has arguments, which [`Details`] gives.
        arguments: bool,
    },
    /// A mark, which [`Details`] gives; its time is `start`.
    Mark,
    /// Like [`ItemContent::Mark`], but before an entry of the same time.
    MarkBefore,
    /// The thread runs on this CPU from `start` on. The item comes before an entry of the same time.
    Cpu(CpuId),
}

impl ItemContent {
    /// Among items that begin together, a lower rank comes first.
    fn rank(self) -> u8 {
        u8::from(!matches!(
            self,
            ItemContent::Cpu(_) | ItemContent::MarkBefore
        ))
    }
}

/// A record of the file that is a call or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its entry.
    pub(crate) start: Ticks,
    /// Its exit. A time before the entry counts as the entry's time.
    pub(crate) end: Ticks,
    /// The kind of the item.
    pub(crate) what: ItemContent,
    /// The byte offset of its record, for [`Details`] and diagnostics.
    pub(crate) offset: u64,
}

/// Gives the details of an item.
pub(crate) trait Details {
    /// Pushes the arguments of a span, or the mark of the item.
    ///
    /// # Errors
    /// If the file can't be read.
    fn push(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error>;
}

/// An item with its number in its thread.
#[derive(Clone, Copy, Debug)]
struct Numbered {
    item: Item,
    number: u64,
}

/// The first pass. Threads are numbered from 0 by the caller.
#[derive(Debug, Default)]
pub(crate) struct Planner {
    threads: Vec<Runs<Ticks, Numbered>>,
    counts: Vec<u64>,
    latest: Vec<Ticks>,
    nesting: Vec<NestingCheck>,
    may_overlap: bool,
}

/// The result of the first pass.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    threads: Vec<Runs<Ticks, Numbered>>,
    may_overlap: bool,
    /// By thread: where its lanes begin among the threads of the trace, and how many they are.
    lanes: Vec<(usize, usize)>,
}

impl Plan {
    /// Whether calls may overlap. Then a [`LaneCounter`] must see the items before the second pass.
    pub(crate) fn may_overlap(&self) -> bool {
        self.may_overlap
    }

    /// Adds the lanes to the threads of the trace.
    pub(crate) fn add_lanes(&mut self, counts: &[usize], threads: &mut Vec<Thread>) {
        self.lanes = lanes::name(counts, threads);
    }
}

impl Planner {
    /// The next item of a thread.
    pub(crate) fn add(&mut self, thread: usize, item: &Item) {
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Runs::default);
            self.counts.resize(thread + 1, 0);
            self.latest.resize(thread + 1, Ticks(0));
            self.nesting.resize_with(thread + 1, NestingCheck::default);
        }
        if !self.may_overlap && matches!(item.what, ItemContent::Span { .. }) {
            let end = item.end.max(item.start);
            self.may_overlap = !self.nesting[thread].nests(item.start, end);
        }
        let runs = &mut self.threads[thread];
        let number = self.counts[thread];
        let numbered = Numbered {
            item: *item,
            number,
        };
        runs.note(item.start, numbered);
        // A run reaches to its latest start, not to its latest end: one call that ends late, or never, would draw
        // all later items into its run. An item with a length may be around items that begin with it, so it counts
        // one tick later.
        let after = item.start.0 + u64::from(item.end > item.start);
        let latest = &mut self.latest[thread];
        *latest = Ticks(after).max(*latest);
        self.counts[thread] = number + 1;
        if (number + 1) % (RUN as u64) == 0 {
            runs.ends.push(*latest);
        }
    }

    /// The plan.
    pub(crate) fn finish(mut self) -> Plan {
        self.threads.iter_mut().for_each(Runs::finish);
        Plan {
            threads: self.threads,
            may_overlap: self.may_overlap,
            lanes: Vec::new(),
        }
    }
}

/// An open call. The greatest is the one that ends first.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: Ticks,
    /// The number of its entry in the thread. Of calls that end together, the innermost ends first.
    entered: u64,
    number: u64,
    function: FunctionId,
    flags: u8,
    exit_cpu: Option<CpuId>,
}

impl Open {
    fn key(&self) -> (Reverse<Ticks>, u64) {
        (Reverse(self.end), self.entered)
    }
}

impl PartialEq for Open {
    fn eq(&self, other: &Open) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Open {}

impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Open) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Open {
    fn cmp(&self, other: &Open) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// One thread in the second pass.
#[derive(Debug, Default)]
struct ThreadState {
    run: usize,
    number: u64,
    /// The number of early items that have been taken.
    early_items: usize,
    items: Vec<Numbered>,
    open: BinaryHeap<Open>,
    entered: u64,
    cpu: Option<CpuId>,
    lanes: Lanes,
}

/// The second pass.
pub(crate) struct EdgeSorter<'a> {
    plan: &'a Plan,
    threads: &'a [Thread],
    states: Vec<ThreadState>,
    calls: Vec<Call>,
    /// The lanes that are left for all threads.
    spare: usize,
}

impl<'a> EdgeSorter<'a> {
    /// `threads` are the threads in the order of their numbers, as the sink gets them.
    pub(crate) fn new(plan: &'a Plan, threads: &'a [Thread]) -> EdgeSorter<'a> {
        let mut states = Vec::new();
        states.resize_with(plan.threads.len(), ThreadState::default);
        EdgeSorter {
            plan,
            threads,
            states,
            calls: Vec::new(),
            spare: MAX_LANES,
        }
    }

    /// The next item of a thread, as in the first pass.
    ///
    /// # Errors
    /// The errors of `details`.
    pub(crate) fn add(
        &mut self,
        thread: usize,
        item: &Item,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        let Some((state, runs)) = self
            .states
            .get_mut(thread)
            .zip(self.plan.threads.get(thread))
        else {
            return Ok(());
        };
        let number = state.number;
        state.number += 1;
        if !runs.is_early(item.start, state.run) {
            let item = *item;
            state.items.push(Numbered { item, number });
        }
        if state.number % (RUN as u64) == 0 {
            self.run(thread, false, sink, details)?;
        }
        Ok(())
    }

    /// Ends all threads.
    ///
    /// # Errors
    /// The errors of `details`.
    pub(crate) fn finish(
        mut self,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        for thread in 0..self.states.len() {
            self.run(thread, true, sink, details)?;
            let state = &self.states[thread];
            if state.lanes.late > 0 {
                let name = self.threads.get(thread).map_or(0, |thread| thread.id.0);
                let what = format!(
                    "{} calls of thread {name} overlap others, and no lane is left for them, this one \
                     first: they share one",
                    state.lanes.late
                );
                sink.diagnostic(Diagnostic {
                    offset: state.lanes.first_late,
                    what,
                });
            }
        }
        Ok(())
    }

    /// Gives the edges of a thread up to the end of its current run.
    fn run(
        &mut self,
        thread: usize,
        last: bool,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        let (state, runs) = (&mut self.states[thread], &self.plan.threads[thread]);
        let run = if last { usize::MAX } else { state.run };
        state.items.extend(runs.take(&mut state.early_items, run));
        sort(&mut state.items);
        if let Some(thread) = self.threads.get(thread) {
            sink.thread(thread);
        }
        let (first_lane, lanes) = self.plan.lanes.get(thread).copied().unwrap_or_default();
        let mut edges = Edges {
            open: &mut state.open,
            calls: &mut self.calls,
            cpu: &mut state.cpu,
            sink,
        };
        for numbered in &state.items {
            let &Numbered { item, number } = numbered;
            edges.close(item.start, |open| {
                // An earlier record is over. A later record is around this one if this one has no
                // length.
                open.end < item.start || open.number < number || item.end > open.end
            });
            match item.what {
                ItemContent::Mark | ItemContent::MarkBefore => {
                    edges.hand_over();
                    details.push(&item, edges.sink)?;
                }
                ItemContent::Cpu(cpu) => edges.on(Some(cpu), item.start),
                ItemContent::Span { .. } => {
                    let around = edges.open.peek();
                    if around.is_some_and(|open| open.end < item.end) {
                        let spare = &mut self.spare;
                        state.lanes.take(numbered, || {
                            let is_left = *spare > 0;
                            *spare -= usize::from(is_left);
                            is_left
                        });
                        continue;
                    }
                    state.entered += 1;
                    edges.enter(numbered, state.entered, details)?;
                }
            }
        }
        // Later items begin at the run's end or after it.
        let end = runs.ends.get(state.run).filter(|_| !last);
        edges.close(end.copied().unwrap_or(Ticks(u64::MAX)), |open| {
            last || end.is_some_and(|&end| open.end < end)
        });
        edges.hand_over();
        state.items.clear();
        state.run += 1;
        let threads = self.threads.get(first_lane..first_lane + lanes);
        let threads = threads.unwrap_or(&[]);
        state.lanes.give(threads, &mut self.calls, sink, details)
    }
}

/// The edges of one thread on their way to the sink.
struct Edges<'a> {
    open: &'a mut BinaryHeap<Open>,
    calls: &'a mut Vec<Call>,
    cpu: &'a mut Option<CpuId>,
    sink: &'a mut dyn Sink,
}

impl Edges<'_> {
    /// Begins a call. `entered`: its number among those of its thread.
    fn enter(
        &mut self,
        numbered: &Numbered,
        entered: u64,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        let &Numbered { item, number } = numbered;
        let ItemContent::Span {
            function,
            flags,
            cpu,
            exit_cpu,
            arguments,
        } = item.what
        else {
            return Ok(());
        };
        self.on(cpu, item.start);
        self.open.push(Open {
            end: item.end.max(item.start),
            entered,
            number,
            function,
            flags,
            exit_cpu,
        });
        self.calls.push(Call {
            time: item.start,
            function,
            edge: Edge::Entry,
            synthetic: flags & flags::ENTRY_SYNTHETIC != 0,
            has_arguments: arguments,
        });
        if arguments {
            self.hand_over();
            details.push(&item, self.sink)?;
        }
        Ok(())
    }

    /// Ends the calls that end at `time` or before, as long as `over` says so.
    fn close(&mut self, time: Ticks, over: impl Fn(&Open) -> bool) {
        while let Some(open) = self.open.peek() {
            if open.end > time || !over(open) {
                return;
            }
            let Some(open) = self.open.pop() else { return };
            self.on(open.exit_cpu, open.end);
            let tail = open.flags & flags::TAIL_EXIT != 0;
            self.calls.push(Call {
                time: open.end,
                function: open.function,
                edge: if tail { Edge::TailExit } else { Edge::Exit },
                synthetic: open.flags & flags::EXIT_SYNTHETIC != 0,
                has_arguments: false,
            });
        }
    }

    fn on(&mut self, cpu: Option<CpuId>, time: Ticks) {
        let Some(cpu) = cpu.filter(|&cpu| *self.cpu != Some(cpu)) else {
            return;
        };
        *self.cpu = Some(cpu);
        self.hand_over();
        self.sink.mark(&Mark::Cpu { time, cpu });
    }

    fn hand_over(&mut self) {
        if !self.calls.is_empty() {
            self.sink.calls(self.calls);
            self.calls.clear();
        }
    }
}

#[cfg(test)]
mod tests;
