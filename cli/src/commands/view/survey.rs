//! A survey of all calls of some functions: how many there are, how long they took, and the rank of one call among
//! them. It takes one pass over the trace.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use fdr_formats::calls::EndedCall;
use fdr_formats::{FunctionId, ThreadId, Ticks};
use serde_json::{Value, json};

use super::call_key::CallKey;
use super::filler::item_of;
use super::server::WaitingPeer;
use super::viewed::{MarkedRange, ViewedTrace};
use crate::stacks::{self, Pass};
use crate::trace;

/// Calls that are named as the slowest.
const SLOWEST: usize = 10;
/// Buckets of a factor of ten: each is a fifth to a quarter wider than the one before.
const PER_DECADE: f64 = 12.0;

/// A call, as the page has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct SurveyCall {
    start: u64,
    thread: ThreadId,
    depth: usize,
    end: u64,
    function: FunctionId,
    flags: u32,
}

/// A worker's share.
struct SurveyPass<'a> {
    functions: &'a HashSet<FunctionId>,
    end: Option<Ticks>,
    /// The call whose rank is wanted, and its ticks. Without such a call: a place before all calls.
    at: (u64, ThreadId, usize),
    ticks: u64,
    thread: ThreadId,
    calls: u64,
    measured: u64,
    before: u64,
    longer: u64,
    equal: u64,
    counts: Vec<u64>,
    /// Ticks of the shortest and the longest call.
    span: Option<(u64, u64)>,
    nanos: f64,
    previous: Option<SurveyCall>,
    next: Option<SurveyCall>,
    slowest: BinaryHeap<Reverse<(u64, Reverse<SurveyCall>)>>,
    /// The ticks that are marked: only calls within are among the slowest.
    within: (u64, u64),
}

/// The bucket of a duration.
fn bucket(ns: f64) -> usize {
    if ns < 1.0 {
        0
    } else {
        1 + (ns.log10() * PER_DECADE).floor() as usize
    }
}

/// From when to when a bucket is, in ns.
fn bounds(bucket: usize) -> (u64, u64) {
    let from = |nth: usize| 10_f64.powf(nth as f64 / PER_DECADE).ceil() as u64;
    match bucket {
        0 => (0, 1),
        nth => (from(nth - 1), from(nth)),
    }
}

impl Pass for SurveyPass<'_> {
    type Data = ();

    fn thread(&mut self, thread: ThreadId) {
        self.thread = thread;
    }

    fn ended(&mut self, ended: &EndedCall<()>, _: bool) {
        if !self.functions.contains(&ended.call.function) {
            return;
        }
        self.calls += 1;
        let item = item_of(ended, self.end);
        let seen = SurveyCall {
            start: item.start,
            thread: self.thread,
            depth: ended.depth,
            end: item.end,
            function: ended.call.function,
            flags: item.flags(),
        };
        let place = (seen.start, seen.thread, seen.depth);
        if place < self.at {
            self.before += 1;
            self.previous = self.previous.max(Some(seen));
        } else if place > self.at {
            self.next = match self.next {
                Some(next) => Some(next.min(seen)),
                None => Some(seen),
            };
        }
        if ended.clipped || ended.untimed {
            return;
        }
        let ticks = ended.total();
        self.measured += 1;
        let (shortest, longest) = self.span.unwrap_or((ticks, ticks));
        self.span = Some((shortest.min(ticks), longest.max(ticks)));
        self.longer += u64::from(ticks > self.ticks);
        self.equal += u64::from(ticks == self.ticks);
        let bucket = bucket(ticks as f64 * self.nanos);
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] += 1;
        if ended.call.start.0 < self.within.0 || ended.end.0 > self.within.1 {
            return;
        }
        self.slowest.push(Reverse((ticks, Reverse(seen))));
        if self.slowest.len() > SLOWEST {
            self.slowest.pop();
        }
    }
}

/// Surveys the calls of functions. `at`: the call whose rank is wanted. The slowest calls are those within the
/// marked stretch.
///
/// # Errors
/// If the trace can't be read.
pub(super) fn of_functions(
    viewed: &ViewedTrace,
    functions: &HashSet<FunctionId>,
    at: Option<CallKey>,
    marked: &MarkedRange,
    asker: WaitingPeer<'_>,
) -> anyhow::Result<Value> {
    viewed.wait();
    let _alone = viewed.alone(asker)?;
    let info = viewed.info();
    let id = |meant: CallKey| info.threads.get(meant.thread).map(|thread| thread.id);
    let place = at.and_then(|meant| Some((meant.start, id(meant)?, meant.depth)));
    let (from, to) = viewed.ticks_of(marked);
    let make = || SurveyPass {
        functions,
        end: info.end,
        at: place.unwrap_or_default(),
        ticks: at.map_or(0, |meant| meant.end.saturating_sub(meant.start)),
        thread: ThreadId::default(),
        calls: 0,
        measured: 0,
        before: 0,
        longer: 0,
        equal: 0,
        counts: Vec::new(),
        span: None,
        nanos: 1e9 / info.clock.frequency as f64,
        previous: None,
        next: None,
        slowest: BinaryHeap::new(),
        within: (
            from.map_or(0, |from| from.0),
            to.map_or(u64::MAX, |to| to.0),
        ),
    };
    let passes = stacks::run(&*viewed.source, make);
    let passes = passes.map_err(|error| trace::about(&viewed.path, error))?;
    Ok(survey(viewed, &passes))
}

/// The shares of all workers together.
fn survey(viewed: &ViewedTrace, passes: &[SurveyPass<'_>]) -> Value {
    let info = viewed.info();
    let sum = |of: fn(&SurveyPass<'_>) -> u64| passes.iter().map(of).sum::<u64>();
    let mut slowest: Vec<_> = passes.iter().flat_map(|pass| pass.slowest.iter()).collect();
    slowest.sort();
    let row = |call: SurveyCall| row(viewed, &call);
    let previous = passes.iter().filter_map(|pass| pass.previous).max();
    let next = passes.iter().filter_map(|pass| pass.next).min();
    let slowest = slowest.iter().take(SLOWEST);
    let spans = || passes.iter().filter_map(|pass| pass.span);
    let nanos = |ticks| info.clock.nanos(Ticks(ticks)).0;
    let slowest = slowest.filter_map(|Reverse((_, Reverse(call)))| row(*call));
    json!({
        "calls": sum(|pass| pass.calls),
        "measured": sum(|pass| pass.measured),
        "before": sum(|pass| pass.before),
        "longer": sum(|pass| pass.longer),
        "equal": sum(|pass| pass.equal),
        "shortest_ns": spans().map(|(shortest, _)| shortest).min().map(nanos),
        "longest_ns": spans().map(|(_, longest)| longest).max().map(nanos),
        "buckets": buckets(passes),
        "previous": previous.and_then(row),
        "next": next.and_then(row),
        "slowest": slowest.collect::<Value>(),
    })
}

/// The buckets from the first one with a call: from, to, calls.
fn buckets(passes: &[SurveyPass<'_>]) -> Vec<(u64, u64, u64)> {
    let mut counts: Vec<u64> = Vec::new();
    for pass in passes {
        counts.resize(counts.len().max(pass.counts.len()), 0);
        counts
            .iter_mut()
            .zip(&pass.counts)
            .for_each(|(sum, more)| *sum += more);
    }
    let first = counts.iter().position(|&count| count > 0).unwrap_or(0);
    let buckets = counts.iter().enumerate().skip(first);
    let buckets = buckets.map(|(nth, &count)| {
        let (from, to) = bounds(nth);
        (from, to, count)
    });
    buckets.collect()
}

/// A call as the page gets it. `None`: of a thread that the trace does not list.
fn row(viewed: &ViewedTrace, call: &SurveyCall) -> Option<Value> {
    let mut threads = viewed.info().threads.iter();
    let thread = threads.position(|thread| thread.id == call.thread)?;
    Some(json!({
        "thread": thread,
        "depth": call.depth,
        "start": viewed.relative(call.start),
        "end": viewed.relative(call.end),
        "function": call.function.0,
        "flags": call.flags,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_within_its_bucket() {
        for ns in [0_u64, 1, 2, 9, 10, 11, 99, 100, 12_345, 999_999_937] {
            let (from, to) = bounds(bucket(ns as f64));
            assert!(from <= ns && ns < to.max(from + 1), "{ns}: {from} to {to}");
        }
    }
}
