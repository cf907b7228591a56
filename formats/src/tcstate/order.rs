//! Turns intervals into entries and exits in order of time. Intervals come in the order of their ends.
//!
//! The first pass ([`Planner`]) cuts the intervals into runs. It notes each interval that was open between two runs:
//! such an interval stands in a later run than the one in which it begins. The second pass ([`Orderer`]) sorts one run
//! at a time, with the noted intervals. Memory is one run and the notes. A run has at most one note for each key, and
//! is several times as long as there are keys.
//!
//! Events of one time have this order: the thread comes to a CPU, leaves frames (the innermost first), and
//! enters frames (the outermost first).

use std::cmp::Reverse;

use crate::runs::Runs;

/// Intervals in a run, at least.
const MIN_RUN: u64 = if cfg!(test) { 4 } else { 1 << 16 };
/// In addition, this many intervals for each key.
const RUN_PER_KEY: u64 = if cfg!(test) { 0 } else { 4 };

/// The content of an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntervalContent {
    /// A string was at this level of the call stack, counted from 1.
    Frame { level: u32, string: u32 },
    /// The thread ran on this CPU.
    Cpu(u32),
}

/// An interval with a meaning for a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) thread: u32,
    pub(super) what: IntervalContent,
}

/// The cut of the intervals into runs: each run ends directly behind the end of its last interval.
pub(super) type Plan = Runs<i64, Item>;

/// The first pass.
#[derive(Debug)]
pub(super) struct Planner {
    plan: Plan,
    run: u64,
    count: u64,
    last: i64,
}

impl Planner {
    /// For a history with this many keys.
    pub(super) fn new(keys: u32) -> Planner {
        Planner {
            plan: Plan::default(),
            run: MIN_RUN.max(RUN_PER_KEY * u64::from(keys)),
            count: 0,
            last: i64::MIN,
        }
    }

    /// The next item. It does not end before the previous one.
    pub(super) fn add(&mut self, item: &Item) {
        // Intervals with the same end stay together.
        if self.count >= self.run && item.end > self.last {
            self.plan.ends.push(self.last + 1);
            self.count = 0;
        }
        (self.last, self.count) = (item.end, self.count + 1);
        self.plan.note(item.start, *item);
    }

    pub(super) fn finish(mut self) -> Plan {
        self.plan.finish();
        self.plan
    }
}

/// A change of a thread's state, in the order in which changes of one time come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Change {
    Cpu(u32),
    /// This level and all levels inside it are left.
    Leave(Reverse<u32>),
    Enter {
        level: u32,
        string: u32,
    },
}

/// A change with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Edge {
    pub(super) time: i64,
    pub(super) change: Change,
}

fn begin(item: &Item) -> Edge {
    let change = match item.what {
        IntervalContent::Frame { level, string } => Change::Enter { level, string },
        IntervalContent::Cpu(cpu) => Change::Cpu(cpu),
    };
    let time = item.start;
    Edge { time, change }
}

/// The second pass.
pub(super) struct Orderer<'a> {
    plan: &'a Plan,
    run: usize,
    early_items: usize,
    /// The end of the history. An interval that ends there is not left.
    end: i64,
    /// Of each thread.
    changes: Vec<Vec<Edge>>,
    /// Changes directly after the run's end. They belong to the next run.
    later: Vec<(u32, Edge)>,
}

impl<'a> Orderer<'a> {
    /// For this many threads; `end` is the end of the history.
    pub(super) fn new(plan: &'a Plan, threads: usize, end: i64) -> Orderer<'a> {
        Orderer {
            plan,
            run: 0,
            early_items: 0,
            end,
            changes: vec![Vec::new(); threads],
            later: Vec::new(),
        }
    }

    /// The next item, as in the first pass. `out` gets the changes of a whole run, thread after thread,
    /// each thread's in order of time.
    pub(super) fn add(&mut self, item: &Item, out: &mut impl FnMut(usize, &[Edge])) {
        let end = self.plan.ends.get(self.run);
        if end.is_some_and(|&end| item.end >= end) {
            self.hand_over(out);
        }
        let changes = &mut self.changes[item.thread as usize];
        if !self.plan.is_early(item.start, self.run) {
            changes.push(begin(item));
        }
        let IntervalContent::Frame { level, .. } = item.what else {
            return;
        };
        if item.end < self.end {
            let leave = Edge {
                time: item.end + 1,
                change: Change::Leave(Reverse(level)),
            };
            match self.plan.ends.get(self.run) {
                Some(&end) if leave.time >= end => self.later.push((item.thread, leave)),
                _ => changes.push(leave),
            }
        }
    }

    fn hand_over(&mut self, out: &mut impl FnMut(usize, &[Edge])) {
        for item in self.plan.take(&mut self.early_items, self.run) {
            self.changes[item.thread as usize].push(begin(&item));
        }
        for (thread, changes) in self.changes.iter_mut().enumerate() {
            if !changes.is_empty() {
                changes.sort_unstable();
                out(thread, changes);
                changes.clear();
            }
        }
        for (thread, change) in self.later.drain(..) {
            self.changes[thread as usize].push(change);
        }
        self.run += 1;
    }

    /// There are no more items.
    pub(super) fn finish(&mut self, out: &mut impl FnMut(usize, &[Edge])) {
        self.hand_over(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_give_what_one_sort_gives() {
        // Frames of two threads: long outer ones, and inner ones that follow each other.
        let mut items = Vec::new();
        for thread in 0..2 {
            for nth in 0..100i64 {
                let (start, string) = (nth * 10 + i64::from(thread), nth as u32);
                let frame = |level, end| Item {
                    start,
                    end,
                    thread,
                    what: IntervalContent::Frame { level, string },
                };
                items.push(frame(3, start + 9));
                if nth % 10 == 0 {
                    items.push(frame(2, start + 99));
                }
                if nth % 50 == 0 {
                    items.push(frame(1, start + 499));
                    let what = IntervalContent::Cpu(nth as u32);
                    items.push(Item {
                        what,
                        ..frame(0, start + 700)
                    });
                }
            }
        }
        let end = items.iter().map(|item| item.end).max().expect("items");
        items.sort_by_key(|item| (item.end, item.start));
        // By thread, time and kind. Levels are left from the innermost, and entered from the outermost.
        let mut wanted = Vec::new();
        for item in &items {
            let (order, change) = match item.what {
                IntervalContent::Cpu(cpu) => ((0, 0), Change::Cpu(cpu)),
                IntervalContent::Frame { level, string } => {
                    if item.end < end {
                        let order = (1, -i64::from(level));
                        let change = Change::Leave(Reverse(level));
                        wanted.push((item.thread, item.end + 1, order, change));
                    }
                    ((2, level.into()), Change::Enter { level, string })
                }
            };
            wanted.push((item.thread, item.start, order, change));
        }
        wanted.sort_by_key(|&(thread, time, order, _)| (thread, time, order));
        let mut planner = Planner::new(9);
        items.iter().for_each(|item| planner.add(item));
        let plan = planner.finish();
        assert!(plan.ends.len() > 20 && !plan.early.is_empty());
        let (mut found, mut pieces) = (Vec::new(), 0);
        let mut out = |thread: usize, edges: &[Edge]| {
            found.extend(edges.iter().map(|edge| (thread as u32, *edge)));
            pieces += 1;
        };
        let mut orderer = Orderer::new(&plan, 2, end);
        items.iter().for_each(|item| orderer.add(item, &mut out));
        orderer.finish(&mut out);
        assert!(pieces > 20);
        // Thread after thread within a run, because only each thread's own order counts.
        found.sort_by_key(|(thread, _)| *thread);
        let wanted = wanted.into_iter();
        let wanted: Vec<(u32, Edge)> = wanted
            .map(|(thread, time, _, change)| (thread, Edge { time, change }))
            .collect();
        assert_eq!(found, wanted);
    }
}
