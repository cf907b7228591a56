//! Turns spans into entries and exits in order of time, for formats whose record is a whole call. Such a
//! record is written when its call has ended. So a parent stands behind all of its children. Some programs
//! write another order.
//!
//! The file is read in two passes. Each pass gives all items of a thread in the order of the file. A
//! thread's items are cut into runs of [`RUN`]. The first pass ([`Planner`]) notes each item that begins
//! before the end of an earlier run, with the run in which it begins. These calls were open between two
//! runs. The second pass ([`EdgeSorter`]) sorts one run at a time, with the noted items, and keeps the open
//! calls. Memory is one run per thread and the noted items, which are few per run if calls nest. It must
//! never be all the events. This file must never read the trace: the formats do.
//!
//! Edges of the same time have this order. An item that stands earlier in the file comes first. Exits of
//! inner calls come before exits of outer ones. Of two calls that begin together, the longer one is the
//! parent. If they also end together, the earlier one is the parent.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::error::{Diagnostic, Error};
use crate::model::{Call, CpuId, Edge, FunctionId, Mark, Thread, Ticks};
use crate::runs::Runs;
use crate::sink::Sink;
use crate::spans::flags;

/// Items of a thread that are sorted at a time.
const RUN: usize = if cfg!(test) { 8 } else { 1024 };

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// A call.
    Span {
        /// Which function.
        function: FunctionId,
        /// See [`flags`].
        flags: u8,
        /// The CPU at its entry.
        cpu: Option<CpuId>,
        /// The CPU at its exit, where it changed.
        exit_cpu: Option<CpuId>,
        /// It has arguments, which [`Details`] gives.
        arguments: bool,
    },
    /// A mark, which [`Details`] gives; its time is `start`.
    Mark,
    /// As [`What::Mark`], but before an entry of the same time.
    MarkBefore,
    /// The thread runs on this CPU from `start` on: before an entry of the same time.
    Cpu(CpuId),
}

impl What {
    /// Of items that begin together, those of a lower rank come first.
    fn rank(self) -> u8 {
        u8::from(!matches!(self, What::Cpu(_) | What::MarkBefore))
    }
}

/// A record of the file that is a call or a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Its entry.
    pub(crate) start: Ticks,
    /// Its exit; what is before the entry counts as the entry's time.
    pub(crate) end: Ticks,
    /// What it is.
    pub(crate) what: What,
    /// Where its record is, for [`Details`] and diagnostics: byte offset.
    pub(crate) offset: u64,
}

/// Gives what an item has beside its edges.
pub(crate) trait Details {
    /// Pushes the arguments of a span that has some, or the mark that the item is.
    ///
    /// # Errors
    /// Where the file can't be read.
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
}

/// What the first pass found out.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    threads: Vec<Runs<Ticks, Numbered>>,
}

impl Planner {
    /// The next item of a thread.
    pub(crate) fn add(&mut self, thread: usize, item: &Item) {
        if thread >= self.threads.len() {
            self.threads.resize_with(thread + 1, Runs::default);
            self.counts.resize(thread + 1, 0);
            self.latest.resize(thread + 1, Ticks(0));
        }
        let runs = &mut self.threads[thread];
        let number = self.counts[thread];
        let numbered = Numbered {
            item: *item,
            number,
        };
        runs.note(item.start, numbered);
        // Not its end: one call that ends late (or never, where it is damaged) would draw all that
        // comes behind it into its run. Of what begins together, only the longer is around another.
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
        }
    }
}

/// A call that has not ended. The greatest is the one that ends first.
#[derive(Clone, Copy, Debug)]
struct Open {
    end: Ticks,
    /// Counts the entries of its thread: of those that end together the innermost ends first.
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
struct Lane {
    run: usize,
    number: u64,
    /// How many of the early items have been taken.
    taken: usize,
    items: Vec<Numbered>,
    open: BinaryHeap<Open>,
    entered: u64,
    cpu: Option<CpuId>,
    /// Calls that outlast the one around them: how many, and where the first is.
    overlaps: u64,
    first_overlap: u64,
}

/// The second pass.
pub(crate) struct EdgeSorter<'a> {
    plan: &'a Plan,
    threads: &'a [Thread],
    lanes: Vec<Lane>,
    calls: Vec<Call>,
}

impl<'a> EdgeSorter<'a> {
    /// `threads` are those that the sink is told, by number.
    pub(crate) fn new(plan: &'a Plan, threads: &'a [Thread]) -> EdgeSorter<'a> {
        let mut lanes = Vec::new();
        lanes.resize_with(plan.threads.len(), Lane::default);
        EdgeSorter {
            plan,
            threads,
            lanes,
            calls: Vec::new(),
        }
    }

    /// The next item of a thread, as it was in the first pass.
    ///
    /// # Errors
    /// Those of `details`.
    pub(crate) fn add(
        &mut self,
        thread: usize,
        item: &Item,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        let Some((lane, runs)) = self
            .lanes
            .get_mut(thread)
            .zip(self.plan.threads.get(thread))
        else {
            return Ok(());
        };
        let number = lane.number;
        lane.number += 1;
        if !runs.is_early(item.start, lane.run) {
            let item = *item;
            lane.items.push(Numbered { item, number });
        }
        if lane.number % (RUN as u64) == 0 {
            self.run(thread, false, sink, details)?;
        }
        Ok(())
    }

    /// Ends all threads.
    ///
    /// # Errors
    /// Those of `details`.
    pub(crate) fn finish(
        mut self,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        for thread in 0..self.lanes.len() {
            self.run(thread, true, sink, details)?;
            let lane = &self.lanes[thread];
            if lane.overlaps > 0 {
                let name = self.threads.get(thread).map_or(0, |thread| thread.id.0);
                let what = format!(
                    "{} calls of thread {name} outlast the call around them, this one first; their \
                     times are given as they are",
                    lane.overlaps
                );
                sink.diagnostic(Diagnostic {
                    offset: lane.first_overlap,
                    what,
                });
            }
        }
        Ok(())
    }

    /// Gives what a thread did up to the end of its current run.
    fn run(
        &mut self,
        thread: usize,
        last: bool,
        sink: &mut dyn Sink,
        details: &mut dyn Details,
    ) -> Result<(), Error> {
        let (lane, runs) = (&mut self.lanes[thread], &self.plan.threads[thread]);
        let run = if last { usize::MAX } else { lane.run };
        lane.items.extend(runs.take(&mut lane.taken, run));
        lane.items
            .sort_unstable_by_key(|&Numbered { item, number }| {
                let end = Reverse(item.end.max(item.start));
                (item.start, item.what.rank(), end, number)
            });
        if let Some(thread) = self.threads.get(thread) {
            sink.thread(thread);
        }
        let mut edges = Edges {
            open: &mut lane.open,
            calls: &mut self.calls,
            cpu: &mut lane.cpu,
            sink,
        };
        for &Numbered { item, number } in &lane.items {
            edges.close(item.start, |open| {
                // An earlier record is over; a later one is around this one, if that has no length.
                open.end < item.start || open.number < number || item.end > open.end
            });
            match item.what {
                What::Mark | What::MarkBefore => {
                    edges.hand_over();
                    details.push(&item, edges.sink)?;
                }
                What::Cpu(cpu) => edges.on(Some(cpu), item.start),
                What::Span {
                    function,
                    flags,
                    cpu,
                    exit_cpu,
                    arguments,
                } => {
                    edges.on(cpu, item.start);
                    let end = item.end.max(item.start);
                    if edges.open.peek().is_some_and(|open| open.end < end) {
                        if lane.overlaps == 0 {
                            lane.first_overlap = item.offset;
                        }
                        lane.overlaps += 1;
                    }
                    lane.entered += 1;
                    edges.open.push(Open {
                        end,
                        entered: lane.entered,
                        number,
                        function,
                        flags,
                        exit_cpu,
                    });
                    edges.calls.push(Call {
                        time: item.start,
                        function,
                        edge: Edge::Entry,
                        synthetic: flags & flags::ENTRY_SYNTHETIC != 0,
                        has_arguments: arguments,
                    });
                    if arguments {
                        edges.hand_over();
                        details.push(&item, edges.sink)?;
                    }
                }
            }
        }
        // Later items begin at the run's end or after it.
        let end = runs.ends.get(lane.run).filter(|_| !last);
        edges.close(end.copied().unwrap_or(Ticks(u64::MAX)), |open| {
            last || end.is_some_and(|&end| open.end < end)
        });
        edges.hand_over();
        lane.items.clear();
        lane.run += 1;
        Ok(())
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
