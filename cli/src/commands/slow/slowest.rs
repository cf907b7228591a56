//! The slowest calls of each function: the first pass of `fdr slow`. Must never keep more than the calls that are asked
//! for, of each function.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fdr_formats::calls::Ended;
use fdr_formats::{FunctionId, ThreadId, Ticks};
use foldhash::{HashMap, HashMapExt};

use super::Asked;
use super::noise::Noise;
use crate::selection::of_calls::ChosenCalls;
use crate::stacks::Pass;

/// A call that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::commands) struct SlowCall {
    /// Ticks.
    pub(in crate::commands) total: u64,
    pub(in crate::commands) function: FunctionId,
    pub(in crate::commands) thread: ThreadId,
    pub(in crate::commands) start: Ticks,
    pub(in crate::commands) end: Ticks,
    /// It had not returned when the trace was written.
    pub(in crate::commands) is_open: bool,
}

/// The pass.
pub(super) struct SlowestPass<'a> {
    /// The ticks from which a call of the function is slow. Other functions are left out.
    thresholds: &'a HashMap<FunctionId, u64>,
    /// Calls that are kept of each function.
    most: usize,
    /// Calls that `--state` leaves. `None`: all.
    chosen: Option<&'a ChosenCalls>,
    /// Calls that do not exceed it are left out. `None`: all are kept.
    noise: Option<&'a Noise<'a>>,
    kept: HashMap<FunctionId, BinaryHeap<Reverse<SlowCall>>>,
    /// Slow calls of each function.
    counts: HashMap<FunctionId, u64>,
    thread: ThreadId,
}

impl<'a> SlowestPass<'a> {
    pub(super) fn new(
        thresholds: &'a HashMap<FunctionId, u64>,
        asked: &Asked<'a>,
        noise: Option<&'a Noise<'a>>,
    ) -> SlowestPass<'a> {
        SlowestPass {
            thresholds,
            most: asked.of_each,
            chosen: asked.chosen,
            noise,
            kept: HashMap::new(),
            counts: HashMap::new(),
            thread: ThreadId::default(),
        }
    }

    /// The calls that all workers kept, and how many slow calls each function has.
    pub(super) fn gather(
        workers: Vec<SlowestPass<'_>>,
    ) -> (Vec<SlowCall>, HashMap<FunctionId, u64>) {
        let (mut calls, mut counts) = (Vec::new(), HashMap::new());
        for worker in workers {
            let kept = worker.kept.into_values().flatten();
            calls.extend(kept.map(|Reverse(call)| call));
            for (function, count) in worker.counts {
                *counts.entry(function).or_default() += count;
            }
        }
        (calls, counts)
    }
}

impl Pass for SlowestPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn entered(&mut self, _: FunctionId, (): ()) {}

    fn ended(&mut self, ended: &Ended<()>, is_open: bool) {
        let function = ended.call.function;
        let Some(threshold) = self.thresholds.get(&function) else {
            return;
        };
        let is_known = match is_open {
            true => ended.call.is_measured(),
            false => !ended.clipped,
        };
        let total = ended.total();
        if !is_known || total < *threshold || ended.untimed {
            return;
        }
        let call = SlowCall {
            total,
            function,
            thread: self.thread,
            start: ended.call.start,
            end: ended.end,
            is_open,
        };
        let has = |chosen: &ChosenCalls| chosen.has(call.thread, call.start, call.end, total);
        if !self.chosen.is_none_or(has) {
            return;
        }
        if !self.noise.is_none_or(|noise| noise.is_exceeded_by(&call)) {
            return;
        }
        *self.counts.entry(function).or_default() += 1;
        let kept = self.kept.entry(function).or_default();
        kept.push(Reverse(call));
        if kept.len() > self.most {
            kept.pop();
        }
    }
}

/// Leaves out calls inside of other ones of the same thread, because the outer call explains the inner one. Then the
/// slowest come first: those with the largest excess over what is usual. At most `most` calls, and `of_each` of a function.
pub(super) fn choose(
    mut calls: Vec<SlowCall>,
    most: usize,
    of_each: usize,
    usual: impl Fn(FunctionId) -> u64,
) -> Vec<SlowCall> {
    calls.sort_unstable_by_key(|call| (call.thread, call.start, Reverse(call.total)));
    let mut around: Option<SlowCall> = None;
    calls.retain(|call| {
        let is_inside = around.is_some_and(|around| {
            around.thread == call.thread && around.start <= call.start && call.end <= around.end
        });
        if !is_inside {
            around = Some(*call);
        }
        !is_inside
    });
    calls.sort_by_key(|call| Reverse(call.total.saturating_sub(usual(call.function))));
    let mut counts: HashMap<FunctionId, usize> = HashMap::new();
    calls.retain(|call| {
        let count = counts.entry(call.function).or_default();
        *count += 1;
        *count <= of_each
    });
    calls.truncate(most);
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outermost_slow_call_is_kept_and_the_largest_excess_comes_first() {
        let call = |function, thread, start, end| SlowCall {
            total: end - start,
            function: FunctionId(function),
            thread: ThreadId(thread),
            start: Ticks(start),
            end: Ticks(end),
            is_open: false,
        };
        let (outer, inner) = (call(1, 7, 100, 1100), call(2, 7, 150, 1090));
        let (other, later) = (call(2, 8, 150, 1090), call(3, 7, 2000, 2950));
        let all = vec![inner, later, outer, other];
        let usual = |function| match function {
            FunctionId(1) => 200,
            _ => 0,
        };
        assert_eq!(choose(all.clone(), 9, 9, usual), [later, other, outer]);
        assert_eq!(choose(all.clone(), 1, 9, usual), [later]);
        let again = call(3, 9, 0, 500);
        let all = [all, vec![again]].concat();
        assert_eq!(choose(all, 9, 1, usual), [later, other, outer]);
    }
}
