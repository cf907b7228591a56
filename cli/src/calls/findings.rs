//! The slow calls of a trace, and what was found of each.

use std::path::Path;

use fdr_formats::states::States;
use fdr_formats::{Error, FunctionId, Source, Ticks, TraceInfo};
use foldhash::{HashMap, HashMapExt};

use super::cause::{self, Cause, Compared, ConcurrentCall, Explanation, Parts};
use super::cpu_time::CpuTime;
use super::finding::Finding;
use super::idle::{IdleFunction, IdleRule};
use super::noise::Noise;
use super::overlaps::{OverlapPass, Presences, Stretch, Stretches, WaitTicks};
use super::query::{Query, ticks};
use super::same_cause;
use super::samples::Samples;
use super::slow_call::SlowCall;
use super::slowest::{self, SlowestPass, SpanningCalls};
use super::states::{CallStates, PreemptionContext};
use super::tree::{TreePass, Trees};
use super::usual::{Usual, usual_of};
use crate::report::rows::Report;
use crate::stacks::Together;
use crate::symbols::Symbols;
use crate::{off_cpu, selection, stacks, trace};

/// What was found in a trace.
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    /// The trace's first record, from which times count.
    pub(crate) begin: Option<Ticks>,
    /// Whether the usual values come from the whole run, not only from the records.
    pub(crate) is_whole_run: bool,
    /// Calls of each function that the bounds on their number leave out, the most first.
    pub(crate) hidden_calls: Vec<(FunctionId, u64)>,
    /// Functions whose slow calls are not shown, because the thread waits for work in them.
    pub(crate) idle: Vec<IdleFunction>,
    /// The CPU time in traced calls and outside of them, if it is known, and nothing of the trace is left out.
    pub(crate) cpu_time: Option<CpuTime>,
    /// The most entries that may be shown.
    pub(crate) most: usize,
    /// The user chose the calls by options, so they may not be slow.
    pub(crate) is_chosen: bool,
    /// The trace knows of waits for locks, conditions or channels.
    pub(crate) has_waits: bool,
}

/// Finds the slow calls of a trace, whose [`Report::of_all`] is known. Reports the damage of the trace.
pub(crate) fn find(
    query: &Query<'_>,
    trace: &Path,
    source: &dyn Source,
    report: &Report,
) -> anyhow::Result<Findings> {
    let clock = &source.info().clock;
    let (rows, is_whole_run) = match &report.whole {
        Some(whole) if query.may_be_whole => (&whole.rows, true),
        _ => (&report.rows, false),
    };
    let usual: HashMap<FunctionId, Usual> = rows.iter().filter_map(usual_of).collect();
    let mut thresholds = HashMap::new();
    for row in rows {
        let id = FunctionId(row.id);
        if let Some(least) = query.threshold(row, usual.get(&id)) {
            thresholds.insert(id, ticks(clock, least));
        }
    }
    if let Some(filter) = query.filter.filter(|_| thresholds.is_empty()) {
        let called: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        selection::complain_of_none("--filter", filter, &called, "called function");
    }
    let about = |error| trace::about(trace, error);
    let states = off_cpu::states_of(source.info()).filter(|_| !query.is_chosen());
    let noise = states
        .as_deref()
        .map(|states| Noise::new(states, clock, &usual, &report.rows));
    let idle = match query.sets_idle_aside() {
        true => {
            let has_locks = report.waits.has_holders();
            let rule = IdleRule::new(source, rows, states.as_deref(), has_locks);
            Some(rule.map_err(about)?)
        }
        false => None,
    };
    let frames = SpanningCalls::new(&usual, &report.threads, clock);
    let pass = || SlowestPass::new(&thresholds, query, noise.as_ref(), idle.as_ref(), &frames);
    let found = SlowestPass::gather(stacks::run(source, pass).map_err(about)?);
    let p50 = |function| {
        usual
            .get(&function)
            .map_or(0, |usual| ticks(clock, usual.p50))
    };
    let chosen = slowest::choose(found.calls, query.most, query.of_each, p50);
    let mut list = explain(trace, source, chosen.clone(), &usual, report.duration_ns)?;
    let mut shown = chosen;
    if let Some(most) = query.causes {
        (list, shown) = same_cause::merge(list, most, &found.outermost);
    }
    for finding in list.iter_mut().filter(|_| !query.is_chosen()) {
        finding.slow_calls = found.slow.get(&finding.call.function).copied();
    }
    let cpu_time = match states.as_deref().filter(|_| query.may_be_whole) {
        Some(states) => CpuTime::of_trace(trace, source, states, report)?,
        None => None,
    };
    Ok(Findings {
        list,
        begin: selection::begin(source)?,
        is_whole_run,
        hidden_calls: slowest::hidden_calls(found.outermost, &shown),
        idle: found.idle,
        cpu_time,
        most: query.causes.unwrap_or(query.most),
        is_chosen: query.is_chosen(),
        has_waits: !report.waits.is_empty(),
    })
}

/// Looks at the slow calls of each function, and at what other threads did.
pub(crate) fn explain(
    trace: &Path,
    source: &dyn Source,
    slow: Vec<SlowCall>,
    usual: &HashMap<FunctionId, Usual>,
    duration_ns: u64,
) -> anyhow::Result<Vec<Finding>> {
    let about = |error| trace::about(trace, error);
    let states = off_cpu::states_of(source.info());
    let states = states.as_deref();
    let trees = trees_by_function(source, &slow, usual, states).map_err(about)?;
    let stretches = stretches(&slow, &trees);
    let passes = stacks::run(source, || OverlapPass::new(&stretches, states)).map_err(about)?;
    let (presences, waits_for_it) = OverlapPass::gather(passes);
    let explainer = Explainer {
        info: source.info(),
        usual,
        duration_ns,
        states,
        trees,
        stretches,
        presences,
        waits_for_it,
    };
    let mut symbols = Symbols::new(&source.info().schedule.modules);
    let findings = slow
        .into_iter()
        .filter_map(|call| explainer.finding(call, &mut symbols));
    Ok(findings.collect())
}

/// How many functions a pass over the trace looks at.
const TOGETHER: usize = 4;

/// The trees of the slow calls of each function.
fn trees_by_function(
    source: &dyn Source,
    slow: &[SlowCall],
    usual: &HashMap<FunctionId, Usual>,
    states: Option<&States>,
) -> Result<HashMap<FunctionId, Trees>, Error> {
    let mut functions: Vec<FunctionId> = slow.iter().map(|call| call.function).collect();
    functions.sort_unstable();
    functions.dedup();
    let calls: HashMap<Stretch, SlowCall> =
        slow.iter().map(|call| (stretch(call), *call)).collect();
    let mut trees = HashMap::new();
    for functions in functions.chunks(TOGETHER) {
        let of_function = |at: usize| {
            // What further passes find is not used.
            let function = functions.get(at).copied().unwrap_or_default();
            let most = usual
                .get(&function)
                .map_or(0, |usual| ticks(&source.info().clock, usual.p90));
            TreePass::new(function, &calls, most).with_states(states)
        };
        let pass = || Together::<_, TOGETHER>(std::array::from_fn(of_function));
        let mut by_function = [const { Vec::new() }; TOGETHER];
        for worker in stacks::run(source, pass)? {
            for (passes, pass) in by_function.iter_mut().zip(worker.0) {
                passes.push(pass);
            }
        }
        for (&function, passes) in functions.iter().zip(by_function) {
            trees.insert(function, TreePass::gather(function, passes));
        }
    }
    Ok(trees)
}

fn stretch(call: &SlowCall) -> Stretch {
    Stretch {
        thread: call.thread,
        start: call.start,
        end: call.end,
    }
}

/// The times of the slow calls, and of the usual calls that they are compared with.
fn stretches(slow: &[SlowCall], trees: &HashMap<FunctionId, Trees>) -> Stretches {
    let samples = trees.values().flat_map(|trees| &trees.sample);
    let usual = samples.map(|&(thread, start, end)| Stretch { thread, start, end });
    Stretches::new(slow.iter().map(stretch).chain(usual).collect())
}

/// The results of all passes. They explain each slow call.
struct Explainer<'a> {
    info: &'a TraceInfo,
    usual: &'a HashMap<FunctionId, Usual>,
    duration_ns: u64,
    states: Option<&'a States>,
    trees: HashMap<FunctionId, Trees>,
    stretches: Stretches,
    /// What the threads did in the stretches.
    presences: Presences,
    waits_for_it: WaitTicks,
}

impl Explainer<'_> {
    /// `None`: the passes did not meet the call.
    fn finding(&self, call: SlowCall, symbols: &mut Symbols<'_>) -> Option<Finding> {
        let trees = self.trees.get(&call.function)?;
        let (_, tree) = trees.slow.iter().find(|(slow, _)| *slow == call)?;
        let jobs = trees.jobs();
        let scale = self.info.clock.nanos(Ticks(call.total)).0 as f64 / call.total.max(1) as f64;
        let parts = Parts {
            tree: &trees.usual,
            jobs: &jobs,
            calls: trees.usual_calls,
            of: self.usual,
            scale,
        };
        let mut explained = cause::explain(tree, &parts);
        let usual = self.usual.get(&call.function).copied().unwrap_or_default();
        if explained.path.len() == 1 {
            // The usual time of the function itself is its p50, as in all commands.
            explained.path[0].usual = usual.p50 as f64;
        }
        let schedule = &self.info.schedule;
        let place = self.place(&stretch(&call));
        let states = self.states.map(|states| {
            let around = PreemptionContext {
                states,
                schedule,
                place: place.map(|(place, _)| place),
                presences: &self.presences,
            };
            CallStates::new(&call, tree, &explained, scale, &around)
        });
        Some(Finding {
            call,
            slow_calls: None,
            same_cause: None,
            usual,
            meanwhile: place.and_then(|slow| self.meanwhile(slow, trees, &explained)),
            wait: tree.wait.filter(|wait| wait.waited >= call.total / 2),
            states,
            arguments: cause::arguments(tree, &explained),
            events: tree.events.clone(),
            samples: Samples::in_call(&call, schedule, symbols),
            explained,
        })
    }

    /// What another thread did during the slow call. `None`: no other thread did anything unusual, or the call
    /// has no excess.
    fn meanwhile(
        &self,
        slow: (usize, u64),
        trees: &Trees,
        explained: &Explanation,
    ) -> Option<ConcurrentCall> {
        if explained.cause == Cause::None {
            return None;
        }
        let samples = trees.sample.iter();
        let usual: Vec<(usize, u64)> = samples
            .filter_map(|&(thread, start, end)| self.place(&Stretch { thread, start, end }))
            .collect();
        let always = |function: FunctionId| {
            let total = self.usual.get(&function).map_or(0, |usual| usual.total);
            (total as f64 / self.duration_ns.max(1) as f64).min(1.0)
        };
        let compared = Compared {
            slow,
            usual: &usual,
            own: &explained.path,
            always: &always,
            waits_for_it: &self.waits_for_it,
        };
        cause::meanwhile(&self.presences, &compared)
    }

    /// The place of a stretch among all, and its length.
    fn place(&self, stretch: &Stretch) -> Option<(usize, u64)> {
        let place = self.stretches.place(stretch)?;
        Some((place, stretch.end.since(stretch.start).0))
    }
}
