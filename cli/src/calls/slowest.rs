//! The slowest calls of each function: the first pass of `fdr slow`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fdr_formats::calls::EndedCall;
use fdr_formats::{Clock, FunctionId, ThreadId};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::idle::{IdleFunction, IdleRule};
use super::noise::Noise;
use super::query::{ENOUGH_CALLS, Query, ticks};
use super::slow_call::SlowCall;
use super::usual::Usual;
use crate::report::rows::ThreadRow;
use crate::selection::call_options::ChosenCalls;
use crate::stacks::Pass;

/// A call of a function with few calls, such as `main`, hides no slow calls inside it if it takes at least this part of
/// its thread's time.
const MIN_SPAN_PART: f64 = 0.5;

/// Calls of a function.
#[derive(Debug, Default)]
struct FunctionCalls {
    slowest: BinaryHeap<Reverse<SlowCall>>,
    /// How many there are, kept or not.
    count: u64,
    /// The ticks of all these calls. For idle calls, `waiting` has the ticks in which the threads surely waited.
    total: u64,
    waiting: u64,
}

impl FunctionCalls {
    fn keep(&mut self, call: SlowCall, most: usize) {
        self.slowest.push(Reverse(call));
        if self.slowest.len() > most {
            self.slowest.pop();
        }
    }

    fn join(&mut self, more: FunctionCalls, most: usize) {
        self.count += more.count;
        self.total = self.total.saturating_add(more.total);
        self.waiting = self.waiting.saturating_add(more.waiting);
        for Reverse(call) in more.slowest {
            self.keep(call, most);
        }
    }
}

/// Calls by function.
#[derive(Debug, Default)]
struct ByFunction(HashMap<FunctionId, FunctionCalls>);

impl ByFunction {
    fn add(&mut self, call: SlowCall, waiting: u64, most: usize) {
        let kept = self.0.entry(call.function).or_default();
        kept.count += 1;
        kept.total = kept.total.saturating_add(call.total);
        kept.waiting = kept.waiting.saturating_add(waiting);
        kept.keep(call, most);
    }

    fn join(&mut self, mut more: ByFunction, most: usize) {
        if self.0.len() < more.0.len() {
            std::mem::swap(&mut self.0, &mut more.0);
        }
        for (function, more) in more.0 {
            self.0.entry(function).or_default().join(more, most);
        }
    }

    /// The sums of idle calls, those with the most time first.
    fn into_idle(self) -> Vec<IdleFunction> {
        let idle = self.0.into_iter().map(|(function, calls)| IdleFunction {
            function,
            calls: calls.count,
            total: calls.total,
            waiting: calls.waiting,
        });
        let mut idle: Vec<IdleFunction> = idle.collect();
        idle.sort_unstable_by_key(|idle| (Reverse(idle.total), idle.function));
        idle
    }
}

/// Slow calls that are inside of no other slow call that has ended.
#[derive(Debug, Default)]
struct Outermost {
    calls: ByFunction,
    /// Calls that are idle unless a call around them is other work.
    idle: ByFunction,
}

impl Outermost {
    fn join(&mut self, more: Outermost, most: usize) {
        self.calls.join(more.calls, most);
        self.idle.join(more.idle, most);
    }
}

/// The slow calls of a thread so far. Element N has the calls inside N open calls.
type ByDepth = Vec<Outermost>;

/// What the pass found.
#[derive(Debug, Default)]
pub(crate) struct Slowest {
    /// The slowest calls of each function, among the calls that are not hidden by another slow call.
    pub(crate) calls: Vec<SlowCall>,
    /// How many calls of each function would be shown by themselves.
    pub(crate) outermost: HashMap<FunctionId, u64>,
    /// Slow calls of each function, also those inside of other ones.
    pub(crate) slow: HashMap<FunctionId, u64>,
    /// Idle calls, which are in none of these.
    pub(crate) idle: Vec<IdleFunction>,
}

/// The pass.
pub(crate) struct SlowestPass<'a> {
    /// The ticks from which a call of the function is slow. Other functions are left out.
    thresholds: &'a HashMap<FunctionId, u64>,
    /// Calls that are kept of each function.
    most: usize,
    /// Calls that `--state` leaves. `None`: all.
    chosen: Option<&'a ChosenCalls>,
    /// Calls that do not exceed it are left out. `None`: all are kept.
    noise: Option<&'a Noise<'a>>,
    /// Tells idle calls from others. `None`: they are slow calls as well.
    idle: Option<&'a IdleRule<'a>>,
    /// Which calls hide no calls inside of them.
    frames: &'a SpanningCalls,
    by_depth: ByDepth,
    /// The calls of threads that continue in a later part of the trace.
    others: HashMap<ThreadId, ByDepth>,
    /// Slow calls of each function.
    counts: HashMap<FunctionId, u64>,
    thread: ThreadId,
}

/// The data by which a call that spans its thread, such as `main`, is distinguished from a slow call.
#[derive(Debug, Default)]
pub(crate) struct SpanningCalls {
    /// Functions that have too few calls for a usual one.
    rare: HashSet<FunctionId>,
    /// The ticks from the first to the last record of each thread.
    spans: HashMap<ThreadId, u64>,
}

impl SpanningCalls {
    pub(crate) fn new(
        usual: &HashMap<FunctionId, Usual>,
        threads: &[ThreadRow],
        clock: &Clock,
    ) -> SpanningCalls {
        let rare = usual.iter().filter(|(_, usual)| usual.calls < ENOUGH_CALLS);
        let span = |row: &ThreadRow| (ThreadId(row.id), ticks(clock, row.duration_ns));
        SpanningCalls {
            rare: rare.map(|(function, _)| *function).collect(),
            spans: threads.iter().map(span).collect(),
        }
    }

    fn has(&self, call: &SlowCall) -> bool {
        self.rare.contains(&call.function) && self.is_span(call.thread, call.total)
    }

    /// Whether a call of so many ticks takes most of its thread's time, as the loop of a worker does.
    fn is_span(&self, thread: ThreadId, total: u64) -> bool {
        let span = self.spans.get(&thread).copied().unwrap_or(u64::MAX);
        total as f64 >= MIN_SPAN_PART * span as f64
    }
}

impl<'a> SlowestPass<'a> {
    pub(crate) fn new(
        thresholds: &'a HashMap<FunctionId, u64>,
        query: &Query<'a>,
        noise: Option<&'a Noise<'a>>,
        idle: Option<&'a IdleRule<'a>>,
        frames: &'a SpanningCalls,
    ) -> SlowestPass<'a> {
        SlowestPass {
            thresholds,
            most: query.of_each,
            chosen: query.chosen,
            noise,
            idle,
            frames,
            by_depth: ByDepth::new(),
            others: HashMap::new(),
            counts: HashMap::new(),
            thread: ThreadId::default(),
        }
    }

    /// What all workers found together.
    pub(crate) fn gather(workers: Vec<SlowestPass<'_>>) -> Slowest {
        let mut found = Slowest::default();
        let mut idle = ByFunction::default();
        for worker in workers {
            let threads = worker.others.into_values().chain([worker.by_depth]);
            for outermost in threads.flatten() {
                for (function, kept) in outermost.calls.0 {
                    let calls = kept.slowest.into_iter().map(|Reverse(call)| call);
                    found.calls.extend(calls);
                    *found.outermost.entry(function).or_default() += kept.count;
                }
                idle.join(outermost.idle, worker.most);
            }
            for (function, count) in worker.counts {
                *found.slow.entry(function).or_default() += count;
            }
        }
        found.idle = idle.into_idle();
        found
    }

    /// Drops the calls inside of a call of that depth.
    fn drop_inside(&mut self, depth: usize) {
        for inside in self.by_depth.drain(self.by_depth.len().min(depth + 1)..) {
            count(&mut self.counts, &inside.idle);
        }
    }

    /// Whether idle calls inside of a call are still idle: it is the loop of its thread, or waits for work itself.
    fn is_loop(&self, ended: &EndedCall<()>) -> bool {
        let waits = |rule: &IdleRule<'_>| rule.names(ended.call.function);
        self.idle.is_some_and(waits) || self.frames.is_span(self.thread, ended.total())
    }

    /// The call, if it is slow.
    fn slow(&self, ended: &EndedCall<()>, is_open: bool) -> Option<SlowCall> {
        let function = ended.call.function;
        let threshold = self.thresholds.get(&function)?;
        let is_known = match is_open {
            true => ended.call.is_measured(),
            false => !ended.clipped,
        };
        let total = ended.total();
        if !is_known || total < *threshold || ended.untimed {
            return None;
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
        let is_left = self.chosen.is_none_or(has)
            && self.noise.is_none_or(|noise| noise.is_exceeded_by(&call));
        is_left.then_some(call)
    }
}

impl Pass for SlowestPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        if self.thread == thread {
            return;
        }
        let before = std::mem::take(&mut self.by_depth);
        if !before.is_empty() {
            self.others.insert(self.thread, before);
        }
        self.thread = thread;
        self.by_depth = self.others.remove(&thread).unwrap_or_default();
    }

    /// A slow call explains the slow calls inside of it. They are dropped here, where no bound has left any of them out.
    fn ended(&mut self, ended: &EndedCall<()>, is_open: bool) {
        let slow = self.slow(ended, is_open);
        let waiting = slow.and_then(|call| self.idle?.waiting(&call));
        if let Some(call) = &slow {
            if waiting.is_none() {
                *self.counts.entry(call.function).or_default() += 1;
            }
            if !self.frames.has(call) {
                self.drop_inside(ended.depth);
            }
        }
        let has_inside = self.by_depth.len() > ended.depth + 1;
        if slow.is_none() && !has_inside {
            return;
        }
        if self.by_depth.len() <= ended.depth {
            self.by_depth
                .resize_with(ended.depth + 1, Outermost::default);
        }
        let inside = self.by_depth.split_off(ended.depth + 1);
        let is_loop = self.is_loop(ended);
        for mut inside in inside {
            if !is_loop {
                let idle = std::mem::take(&mut inside.idle);
                count(&mut self.counts, &idle);
                inside.calls.join(idle, self.most);
            }
            self.by_depth[ended.depth].join(inside, self.most);
        }
        let here = &mut self.by_depth[ended.depth];
        match (slow, waiting) {
            (Some(call), None) => here.calls.add(call, 0, self.most),
            (Some(call), Some(waiting)) => here.idle.add(call, waiting, self.most),
            (None, _) => {}
        }
    }
}

fn count(counts: &mut HashMap<FunctionId, u64>, calls: &ByFunction) {
    for (&function, calls) in &calls.0 {
        *counts.entry(function).or_default() += calls.count;
    }
}

/// The slowest come first: those with the largest excess over what is usual. At most `most` calls, and `of_each` of a
/// function.
pub(crate) fn choose(
    mut calls: Vec<SlowCall>,
    most: usize,
    of_each: usize,
    usual: impl Fn(FunctionId) -> u64,
) -> Vec<SlowCall> {
    calls.sort_unstable_by_key(|call| (call.thread, call.start, Reverse(call.total)));
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

/// How many calls of each function are not among the chosen ones, the most first.
pub(crate) fn hidden_calls(
    mut outermost: HashMap<FunctionId, u64>,
    chosen: &[SlowCall],
) -> Vec<(FunctionId, u64)> {
    for call in chosen {
        if let Some(count) = outermost.get_mut(&call.function) {
            *count = count.saturating_sub(1);
        }
    }
    let left = outermost.into_iter().filter(|(_, count)| *count > 0);
    let mut left: Vec<(FunctionId, u64)> = left.collect();
    left.sort_unstable_by_key(|&(function, count)| (Reverse(count), function));
    left
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn the_largest_excess_comes_first() {
        let call = SlowCall::of_test;
        let (outer, other) = (call(1, 7, 100, 1100), call(2, 8, 150, 1090));
        let later = call(3, 7, 2000, 2950);
        let all = vec![later, outer, other];
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
