//! `fdr slow`: the slowest calls, and where they spent the time that a usual call does not take.

mod arguments;
mod cause;
pub(in crate::commands) mod document;
mod events;
mod json;
mod noise;
mod overlaps;
mod samples;
mod show;
#[cfg(test)]
mod shown_tests;
pub(in crate::commands) mod slow_call;
mod slowest;
mod states;
#[cfg(test)]
mod states_tests;
mod tasks;
#[cfg(test)]
mod tests;
mod tree;
mod usual;
mod words;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::filter::Filter;
use fdr_formats::registry;
use fdr_formats::{Clock, FunctionId, Source, Ticks};
use foldhash::{HashMap, HashMapExt};

use self::arguments::OfCall;
use self::cause::{Cause, Compared, Explained, Meanwhile, Parts};
use self::events::Events;
use self::noise::Noise;
use self::overlaps::{OverlapPass, Stretch, Stretches};
use self::samples::Samples;
use self::slow_call::SlowCall;
use self::slowest::{Frames, SlowestPass};
use self::states::{Around, CallStates};
use self::tree::{TreePass, Trees, Wait};
use self::usual::Usual;
use self::words::{name_of_thread, percent, sentence, thread_name};
use super::{Headings, Status, Traces};
use crate::outputs::conversion::{self, Job};
use crate::place::{self, Shape};
use crate::report::function_rows::Row;
use crate::report::rows::Report;
use crate::selection::of_calls::{ChosenCalls, OfCalls};
use crate::selection::{self, Filtering, Selection};
use crate::symbols::Symbols;
use crate::ui;
use crate::{away, memory, stacks, trace};

const HELP: &str = "\
A call is slow if it took over ten times the p50 and over five times the p90 of
its function. Functions with fewer than 20 calls have no usual call. With
--filter, the slowest calls of these functions are shown, slow or not.
A slow call inside of another slow call is not shown by itself. At most two
calls of a function are shown, unless you say which calls, or how many. A last
line counts the others. --over shows those that took so long, slow or not. A
call of at least half of its thread's time, such as main, then hides no calls
inside, if its function has fewer than 20 calls.

The excess of a call is its time less the p50 of its function. The path below a
call follows the excess inwards, for as long as one function has half of it or
more. The usual time of a function on the path is its mean in usual calls: those
up to the p90. If fewer than five of these have records, the time is estimated
from the p50 of the function.

If the call waited for a lock, a condition or a channel of fdr::sync for half of
its time, the trace knows for what, and who held it.

In a trace that knows its threads' states, a line says how long the call's
thread ran, was preempted and waited. The state with most of the excess stands
in the sentence: the thread computed, was preempted by the thread that had its
CPU, or by another process, or waited. There, an excess below 1 ms is no
finding; and below 20 ms neither if the thread was preempted, or waited in a
function whose usual calls wait: the system does that to any call now and then.

arguments: those that the trace has of the call, and of calls on its path; of a
span its fields.

events: of up to four names the first event inside of the call, those of higher
levels before others, with the time since the call began.

If several threads make outermost calls of a function, as the threads of a pool
do, and the slow call has more calls of it than usual, the sentence says that
the thread may have run other work. rayon does so while a call waits for its own
jobs. The trace does not say for whom a job was.

meanwhile: what another thread was in for at least half of the call, and no
thread is as long during usual calls. It is a hint, and no proof. A call that is
open lasts until the trace was written.

Examples:
  fdr slow app.fdr                      the slowest calls of all functions
  fdr slow -f app::handle app.fdr       of this function
  fdr slow --over 50ms app.fdr          of those that took longer
  fdr slow --tasks --by route app.fdr   the slowest tasks, each with its route
  fdr slow --save slow.fdr app.fdr      all threads during the slowest call
  fdr slow --json app.fdr | jq -r '.calls[].sentence'";

/// Calls that are shown unless the user says otherwise: in all, and of one function.
const SHOWN: usize = 5;
const SHOWN_OF_EACH: usize = 2;
/// Calls of a function from which it has a usual call.
const ENOUGH_CALLS: u64 = 20;
/// A slow call takes so many times the p50, so many times the p90, and so many ns at least.
const TIMES_P50: u64 = 10;
const TIMES_P90: u64 = 5;
const LEAST_NS: u64 = 10_000;

/// Show the slowest calls, and where their time went
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Show at most N calls [default: 5]
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one, hide_default_value = true)]
    limit: Option<NonZeroUsize>,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Write the stretch of the first call as a trace of its own, with all threads and their states
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "save")]
    force: bool,
    /// Show the slowest tasks: how long they were polled and waited, and for what
    #[arg(long, conflicts_with_all = ["state", "save"])]
    tasks: bool,
    /// Show the value of this field of the events and arguments inside of each task
    #[arg(long, value_name = "FIELD", requires = "tasks")]
    by: Option<String>,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    calls: OfCalls,
}

/// What is asked of a trace.
struct Asked<'a> {
    /// The functions whose calls are shown.
    filter: Option<&'a Filter>,
    /// The shortest call that is shown, ns.
    over: Option<u64>,
    /// Calls that `--state` leaves. `None`: all.
    chosen: Option<&'a ChosenCalls>,
    /// Calls that are shown: in all, and of one function.
    most: usize,
    of_each: usize,
    /// What is usual may be that of the whole run.
    may_be_whole: bool,
}

impl<'a> Asked<'a> {
    fn of(options: &'a Options, chosen: &'a ChosenCalls) -> Asked<'a> {
        let over = options.calls.over_ns();
        let most = options.limit.map(NonZeroUsize::get);
        let all = options.selection.filter().is_some() || over.is_some() || most.is_some();
        let most = most.unwrap_or(SHOWN);
        Asked {
            filter: options.selection.filter(),
            over,
            chosen: Some(chosen),
            most,
            of_each: if all { most } else { SHOWN_OF_EACH },
            may_be_whole: options.selection.is_of_whole_trace(),
        }
    }

    /// Whether the user says which calls are shown, slow or not.
    fn is_chosen(&self) -> bool {
        self.over.is_some() || self.filter.is_some()
    }

    /// The ns from which a call of a function is shown. `None`: no call is.
    fn threshold(&self, row: &Row, usual: Option<&Usual>) -> Option<u64> {
        let is_chosen = self.filter.is_none_or(|filter| filter.matches(&row.name));
        if !is_chosen || row.untimed {
            return None;
        }
        if self.is_chosen() {
            return Some(self.over.unwrap_or(0));
        }
        let usual = usual.filter(|usual| usual.calls >= ENOUGH_CALLS)?;
        let p50 = usual.p50.saturating_mul(TIMES_P50);
        Some(LEAST_NS.max(p50).max(usual.p90.saturating_mul(TIMES_P90)))
    }
}

/// A slow call, and what was found of it.
struct Finding {
    call: SlowCall,
    /// Calls of the function that are slow. `None`: the user said which calls are shown.
    slow_calls: Option<u64>,
    usual: Usual,
    explained: Explained,
    meanwhile: Option<Meanwhile>,
    /// The longest wait inside, if it took a half of the call.
    wait: Option<Wait>,
    /// What the thread did, if the trace knows states.
    states: Option<CallStates>,
    /// Its arguments, and those of calls on its path.
    arguments: Vec<OfCall>,
    /// Events inside.
    events: Events,
    /// Where it was while it ran, if the trace has samples of that.
    samples: Option<Samples>,
}

/// What was found in a trace.
struct Findings {
    list: Vec<Finding>,
    /// The trace's first record, from which times count.
    begin: Option<Ticks>,
    /// What is usual is that of the whole run, not of the records alone.
    is_whole_run: bool,
    /// Calls of each function that the bounds on their number leave out, the most first.
    not_shown: Vec<(FunctionId, u64)>,
    /// Calls that were to be shown at most.
    most: usize,
    /// The user said which calls are shown, slow or not.
    is_chosen: bool,
    /// The trace knows of waits for locks, conditions or channels.
    has_waits: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let mut headings = None;
    options.traces.each(|trace, several| {
        if several && options.save.is_some() {
            anyhow::bail!("--save: name one trace");
        }
        let headings = headings.get_or_insert_with(|| Headings::new(several && !options.json));
        one(options, trace, headings)
    })
}

fn one(options: &Options, trace: &Path, headings: &mut Headings) -> anyhow::Result<Status> {
    let whole = options.selection.open(trace, Filtering::Shown)?;
    let source = &*whole;
    if trace::is_timeless(source.info()) {
        anyhow::bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    if let Some(output) = &options.save {
        place::check_is_not(output, trace)?;
        place::check(output, Shape::File, options.force)?;
    }
    memory::grows("the slowest calls");
    let chosen = options.calls.of(source.info());
    let chosen = chosen.with_context(|| ui::path(trace))?;
    let info = source.info();
    if options.tasks {
        let by = options.by.as_deref();
        let found = tasks::find(&Asked::of(options, &chosen), by, trace, source)?;
        ui::print(|out| {
            if options.json {
                let file = trace.to_string_lossy();
                return tasks::show::write_json(out, &file, info, &found, by);
            }
            out.write_all(headings.next(trace).as_bytes())?;
            tasks::show::write(out, info, &found, by)
        })?;
        return Ok(Status::Done);
    }
    let found = find(&Asked::of(options, &chosen), trace, source)?;
    ui::print(|out| {
        out.write_all(headings.next(trace).as_bytes())?;
        match options.json {
            true => json::write(out, &trace.to_string_lossy(), info, &found),
            false => show::write(out, info, &found),
        }
    })?;
    if let Some(output) = &options.save {
        match found.list.first() {
            Some(slowest) => save(options, trace, whole, &slowest.call, output)?,
            None => ui::complain("--save: nothing stands out, so nothing is written"),
        }
    }
    Ok(Status::Done)
}

/// Writes the stretch of a call as a trace.
fn save(
    options: &Options,
    trace: &Path,
    source: Box<dyn Source>,
    call: &SlowCall,
    output: &Path,
) -> anyhow::Result<()> {
    let Some(to) = registry::target("xray") else {
        return Ok(());
    };
    let job = Job {
        trace,
        to,
        force: options.force,
        quiet: true,
        jobs: ui::jobs(),
    };
    let stretch = selection::between(source, call.start, call.end);
    let done = conversion::write(&*stretch, &job, output)?;
    conversion::tell(&ui::path(output), to, &done, Some(place::size(output)));
    Ok(())
}

fn find(asked: &Asked<'_>, trace: &Path, source: &dyn Source) -> anyhow::Result<Findings> {
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
    let states = away::states_of(source.info()).filter(|_| !asked.is_chosen());
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

/// The ticks of a duration.
fn ticks(clock: &Clock, ns: u64) -> u64 {
    selection::first_tick(i128::from(ns), clock).0
}

fn usual_of(row: &Row) -> Option<(FunctionId, Usual)> {
    let usual = Usual {
        calls: row.calls,
        p50: row.p50_ns?,
        p90: row.p90_ns?,
        p99: row.p99_ns?,
        total: row.total_ns,
    };
    Some((FunctionId(row.id), usual))
}

/// Looks at the slow calls of each function, and at what other threads did.
fn explain(
    trace: &Path,
    source: &dyn Source,
    slow: Vec<SlowCall>,
    usual: &HashMap<FunctionId, Usual>,
    duration_ns: u64,
) -> anyhow::Result<Vec<Finding>> {
    let about = |error| trace::about(trace, error);
    let clock = &source.info().clock;
    let stretch = |thread, start, end| Stretch { thread, start, end };
    let states = away::states_of(source.info());
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
            let around = Around {
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
