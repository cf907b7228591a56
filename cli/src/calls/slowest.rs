//! The slowest calls of each function: the first pass of `fdr slow`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fdr_formats::calls::EndedCall;
use fdr_formats::{Clock, FunctionId, ThreadId};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::noise::Noise;
use super::query::{ENOUGH_CALLS, Query, ticks};
use super::slow_call::SlowCall;
use super::usual::Usual;
use crate::report::rows::ThreadRow;
use crate::selection::call_options::ChosenCalls;
use crate::stacks::Pass;

/// A call of a function with few calls, such as `main`, hides no slow calls inside it if it takes at least this part of
/// its thread's time.
const FRAME: f64 = 0.5;

/// Calls of a function.
#[derive(Debug, Default)]
struct FunctionCalls {
    slowest: BinaryHeap<Reverse<SlowCall>>,
    /// How many there are, kept or not.
    count: u64,
}

impl FunctionCalls {
    fn add(&mut self, call: SlowCall, most: usize) {
        self.slowest.push(Reverse(call));
        if self.slowest.len() > most {
            self.slowest.pop();
        }
    }
}

/// Slow calls that are inside of no other slow call that has ended.
#[derive(Debug, Default)]
struct Outermost(HashMap<FunctionId, FunctionCalls>);

impl Outermost {
    fn add(&mut self, call: SlowCall, most: usize) {
        let kept = self.0.entry(call.function).or_default();
        kept.count += 1;
        kept.add(call, most);
    }

    fn join(&mut self, mut more: Outermost, most: usize) {
        if self.0.len() < more.0.len() {
            std::mem::swap(&mut self.0, &mut more.0);
        }
        for (function, more) in more.0 {
            let kept = self.0.entry(function).or_default();
            kept.count += more.count;
            for Reverse(call) in more.slowest {
                kept.add(call, most);
            }
        }
    }
}

/// The calls of a thread up to here: at place N those that N open calls are around.
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
    /// Which calls hide no calls inside of them.
    frames: &'a Frames,
    by_depth: ByDepth,
    /// The calls of threads that continue in a later part of the trace.
    others: HashMap<ThreadId, ByDepth>,
    /// Slow calls of each function.
    counts: HashMap<FunctionId, u64>,
    thread: ThreadId,
}

/// The data by which a call that spans its thread, such as `main`, is distinguished from a slow call.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// Functions that have too few calls for a usual one.
    rare: HashSet<FunctionId>,
    /// The ticks from the first to the last record of each thread.
    spans: HashMap<ThreadId, u64>,
}

impl Frames {
    pub(crate) fn new(
        usual: &HashMap<FunctionId, Usual>,
        threads: &[ThreadRow],
        clock: &Clock,
    ) -> Frames {
        let rare = usual.iter().filter(|(_, usual)| usual.calls < ENOUGH_CALLS);
        let span = |row: &ThreadRow| (ThreadId(row.id), ticks(clock, row.duration_ns));
        Frames {
            rare: rare.map(|(function, _)| *function).collect(),
            spans: threads.iter().map(span).collect(),
        }
    }

    fn has(&self, call: &SlowCall) -> bool {
        let span = self.spans.get(&call.thread).copied().unwrap_or(u64::MAX);
        self.rare.contains(&call.function) && call.total as f64 >= FRAME * span as f64
    }
}

impl<'a> SlowestPass<'a> {
    pub(crate) fn new(
        thresholds: &'a HashMap<FunctionId, u64>,
        query: &Query<'a>,
        noise: Option<&'a Noise<'a>>,
        frames: &'a Frames,
    ) -> SlowestPass<'a> {
        SlowestPass {
            thresholds,
            most: query.of_each,
            chosen: query.chosen,
            noise,
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
        for worker in workers {
            let threads = worker.others.into_values().chain([worker.by_depth]);
            for (function, kept) in threads.flatten().flat_map(|outermost| outermost.0) {
                let calls = kept.slowest.into_iter().map(|Reverse(call)| call);
                found.calls.extend(calls);
                *found.outermost.entry(function).or_default() += kept.count;
            }
            for (function, count) in worker.counts {
                *found.slow.entry(function).or_default() += count;
            }
        }
        found
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

    fn entered(&mut self, _: FunctionId, (): ()) {}

    /// A slow call explains the slow calls inside of it. They are dropped here, where no bound has left any of them out.
    fn ended(&mut self, ended: &EndedCall<()>, is_open: bool) {
        let slow = self.slow(ended, is_open);
        if let Some(call) = &slow {
            *self.counts.entry(call.function).or_default() += 1;
            if !self.frames.has(call) {
                self.by_depth.truncate(ended.depth + 1);
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
        let here = &mut self.by_depth[ended.depth];
        for inside in inside {
            here.join(inside, self.most);
        }
        if let Some(call) = slow {
            here.add(call, self.most);
        }
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
    use fdr_formats::Ticks;

    use super::*;

    #[test]
    fn the_largest_excess_comes_first() {
        let call = |function, thread, start, end| SlowCall {
            total: end - start,
            function: FunctionId(function),
            thread: ThreadId(thread),
            start: Ticks(start),
            end: Ticks(end),
            is_open: false,
        };
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
