//! The slow calls of a trace, and what was found of each.

use std::path::Path;

use fdr_formats::{FunctionId, Source, Ticks};
use foldhash::{HashMap, HashMapExt};

use super::arguments::CallNotes;
use super::cause::{self, Cause, Compared, ConcurrentCall, Explanation, Parts};
use super::events::Events;
use super::noise::Noise;
use super::overlaps::{OverlapPass, Stretch, Stretches};
use super::query::{Query, ticks};
use super::samples::Samples;
use super::slow_call::SlowCall;
use super::slowest::{self, Frames, SlowestPass};
use super::states::{CallStates, PreemptionContext};
use super::tree::{TreePass, Trees, Wait};
use super::usual::{Usual, usual_of};
use crate::report::rows::Report;
use crate::symbols::Symbols;
use crate::{off_cpu, selection, stacks, trace};

/// A slow call, and what was found of it.
pub(crate) struct Finding {
    pub(crate) call: SlowCall,
    /// Calls of the function that are slow. `None`: the user said which calls are shown.
    pub(crate) slow_calls: Option<u64>,
    pub(crate) usual: Usual,
    pub(crate) explained: Explanation,
    pub(crate) meanwhile: Option<ConcurrentCall>,
    /// The longest wait inside, if it took a half of the call.
    pub(crate) wait: Option<Wait>,
    /// What the thread did, if the trace knows states.
    pub(crate) states: Option<CallStates>,
    /// Its arguments, and those of calls on its path.
    pub(crate) arguments: Vec<CallNotes>,
    /// Events inside.
    pub(crate) events: Events,
    /// Where it was while it ran, if the trace has samples of that.
    pub(crate) samples: Option<Samples>,
}

/// What was found in a trace.
pub(crate) struct Findings {
    pub(crate) list: Vec<Finding>,
    /// The trace's first record, from which times count.
    pub(crate) begin: Option<Ticks>,
    /// What is usual is that of the whole run, not of the records alone.
    pub(crate) is_whole_run: bool,
    /// Calls of each function that the bounds on their number leave out, the most first.
    pub(crate) not_shown: Vec<(FunctionId, u64)>,
    /// Calls that were to be shown at most.
    pub(crate) most: usize,
    /// The user said which calls are shown, slow or not.
    pub(crate) is_chosen: bool,
    /// The trace knows of waits for locks, conditions or channels.
    pub(crate) has_waits: bool,
}

pub(crate) fn find(
    asked: &Query<'_>,
    trace: &Path,
    source: &dyn Source,
) -> anyhow::Result<Findings> {
    let report = Report::of_all(trace, source)?;
    let clock = &source.info().clock;
    let (rows, is_whole_run) = match &report.whole {
        Some(whole) if asked.may_be_whole => (&whole.rows, true),
        _ => (&report.rows, false),
    };
    let usual: HashMap<FunctionId, Usual> = rows.iter().filter_map(usual_of).collect();
    let mut thresholds = HashMap::new();
    for row in rows {
        let id = FunctionId(row.id);
        if let Some(least) = asked.threshold(row, usual.get(&id)) {
            thresholds.insert(id, ticks(clock, least));
        }
    }
    if let Some(filter) = asked.filter.filter(|_| thresholds.is_empty()) {
        let called: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        selection::complain_of_none("--filter", filter, &called, "called function");
    }
    let about = |error| trace::about(trace, error);
    let states = off_cpu::states_of(source.info()).filter(|_| !asked.is_chosen());
    let noise = states
        .as_deref()
        .map(|states| Noise::new(states, clock, &usual, &report.rows));
    let frames = Frames::new(&usual, &report.threads, clock);
    let pass = || SlowestPass::new(&thresholds, asked, noise.as_ref(), &frames);
    let found = SlowestPass::gather(stacks::run(source, pass).map_err(about)?);
    let p50 = |function| {
        usual
            .get(&function)
            .map_or(0, |usual| ticks(clock, usual.p50))
    };
    let chosen = slowest::choose(found.calls, asked.most, asked.of_each, p50);
    let not_shown = slowest::not_shown(found.outermost, &chosen);
    let mut list = explain(trace, source, chosen, &usual, report.duration_ns)?;
    for finding in list.iter_mut().filter(|_| !asked.is_chosen()) {
        finding.slow_calls = found.slow.get(&finding.call.function).copied();
    }
    Ok(Findings {
        list,
        begin: selection::begin(source)?,
        is_whole_run,
        not_shown,
        most: asked.most,
        is_chosen: asked.is_chosen(),
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
    let clock = &source.info().clock;
    let stretch = |thread, start, end| Stretch { thread, start, end };
    let states = off_cpu::states_of(source.info());
    let states = states.as_deref();
    let mut functions: Vec<FunctionId> = slow.iter().map(|call| call.function).collect();
    functions.sort_unstable();
    functions.dedup();
    let mut trees: HashMap<FunctionId, Trees> = HashMap::new();
    for function in functions {
        let of = slow.iter().filter(|call| call.function == function);
        let of = of
            .map(|call| (stretch(call.thread, call.start, call.end), *call))
            .collect();
        let most = usual
            .get(&function)
            .map_or(0, |usual| ticks(clock, usual.p90));
        let pass = || TreePass::new(function, &of, most).with_states(states);
        let workers = stacks::run(source, pass).map_err(about)?;
        trees.insert(function, TreePass::gather(function, workers));
    }
    let of_slow = slow
        .iter()
        .map(|call| stretch(call.thread, call.start, call.end));
    let samples = trees.values().flat_map(|trees| &trees.sample);
    let of_usual = samples.map(|&(thread, start, end)| stretch(thread, start, end));
    let stretches = Stretches::new(of_slow.chain(of_usual).collect());
    let passes = stacks::run(source, || OverlapPass::new(&stretches, states)).map_err(about)?;
    let (seen, waits_for_it) = OverlapPass::gather(passes);
    let always = |function: FunctionId| {
        let total = usual.get(&function).map_or(0, |usual| usual.total);
        (total as f64 / duration_ns.max(1) as f64).min(1.0)
    };
    let place = |thread, start: Ticks, end: Ticks| {
        let place = stretches.place(&stretch(thread, start, end))?;
        Some((place, end.since(start).0))
    };
    let mut symbols = Symbols::new(&source.info().schedule.modules);
    let mut list = Vec::new();
    for call in slow {
        let Some(trees) = trees.get(&call.function) else {
            continue;
        };
        let Some((_, tree)) = trees.slow.iter().find(|(slow, _)| *slow == call) else {
            continue;
        };
        let jobs = trees.jobs();
        let parts = Parts {
            tree: &trees.usual,
            jobs: &jobs,
            calls: trees.usual_calls,
            of: usual,
            scale: clock.nanos(Ticks(call.total)).0 as f64 / call.total.max(1) as f64,
        };
        let sample = trees.sample.iter();
        let sample: Vec<(usize, u64)> = sample
            .filter_map(|&(thread, start, end)| place(thread, start, end))
            .collect();
        let mut explained = cause::explain(tree, &parts);
        let usual = usual.get(&call.function).copied().unwrap_or_default();
        if explained.path.len() == 1 {
            // What is usual for the function itself is its p50, which all commands show.
            explained.path[0].usual = usual.p50 as f64;
        }
        let slow = place(call.thread, call.start, call.end);
        let states = states.map(|states| {
            let around = PreemptionContext {
                states,
                schedule: &source.info().schedule,
                place: slow.map(|(place, _)| place),
                seen: &seen,
            };
            CallStates::new(&call, tree, &explained, parts.scale, &around)
        });
        let slow = slow.filter(|_| explained.cause != Cause::None);
        let meanwhile = slow.and_then(|slow| {
            let compared = Compared {
                slow,
                usual: &sample,
                own: &explained.path,
                always: &always,
                waits_for_it: &waits_for_it,
            };
            cause::meanwhile(&seen, &compared)
        });
        let samples = Samples::of(&call, &source.info().schedule, &mut symbols);
        list.push(Finding {
            call,
            slow_calls: None,
            usual,
            meanwhile,
            wait: tree.wait.filter(|wait| wait.waited >= call.total / 2),
            states,
            arguments: cause::arguments(tree, &explained),
            events: tree.events.clone(),
            explained,
            samples,
        });
    }
    Ok(list)
}
