//! `fdr slow`: the slowest calls, and where they spent the time that a usual call does not take.

#[cfg(test)]
mod idle_tests;
mod show;
#[cfg(test)]
mod shown_tests;
#[cfg(test)]
mod states_tests;
pub(super) mod tasks;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::Source;
use fdr_formats::registry;
use serde_json::Value;

use super::{Series, Status, Traces};
use crate::calls::findings::find;
use crate::calls::json;
use crate::calls::query::{DEFAULT_CALLS, DEFAULT_CALLS_OF_EACH, Query};
use crate::calls::slow_call::SlowCall;
use crate::output_file::{self, Shape};
use crate::outputs::conversion::{self, Job};
use crate::report::rows::Report;
use crate::selection::call_options::{CallOptions, ChosenCalls};
use crate::selection::{self, Filtering, Selection};
use crate::{memory, trace, ui};

const HELP: &str = "\
A call is slow if it took over ten times the p50 and over five times the p90 of
its function. Functions with fewer than 20 calls have no usual call. With
--filter, the slowest calls of these functions are shown, slow or not.
A slow call inside of another slow call is not shown by itself.

In a trace with tasks, the slow tasks come first, and the calls are polls, too.
The task of a trigger is the first of all. --tasks shows tasks alone, --calls
calls alone. A task's time is from its first poll to its end: it has neither the
wait before that poll, since its making or spawn, nor what comes behind its end,
such as the body of a response.

Calls that have one cause are one entry, which shows the slowest of them: they
waited for the same object while its holder was in the same function, the system
took the CPU from them, or they are calls of one function with the excess in the
same place. The 100 slowest calls are compared, and 40 of a function. A last
line counts the others. --calls shows each call, at most two of a function.

--over and --filter show each call that took so long, or is of that function,
slow or not. A call of at least half of its thread's time, such as main, then
hides no calls inside, if its function has fewer than 20 calls.

The excess of a call is its time less the p50 of its function. The path below a
call follows the excess inwards, for as long as one function has half of it or
more. The usual time of a function on the path is its mean in usual calls: those
up to the p90. If fewer than five of these have records, the time is estimated
from the p50 of the function.

Calls in which a thread waits for work are left out, because an idle thread is
no cause; a last line names their functions. These are calls in no other call
but the loop of their thread, of functions that are named accept, dequeue,
idle, next, park, poll, pop, receive, recv, select or wait, as next_job is. If
states are known, the thread waited for nine tenths of the time; if not, next,
poll and select do not count. A call that holds a lock for which another thread
waits is shown. --calls, --over and --filter leave out none of them.

If the call waited for a lock, a condition or a channel of fdr::sync for half of
its time, the trace knows for what, and who held it.

In a trace that knows its threads' states, a line says how long the call's
thread ran, was preempted and waited. The state with most of the excess stands
in the sentence: the thread computed, was preempted by the thread that had its
CPU, or by another process, or waited. There, an excess below 1 ms is no
finding; and below 20 ms neither if the thread was preempted, or waited in a
function whose usual calls wait: the system does that to any call now and then.

FDR_SCHED=1, or fdr record --sched, records threads' states all the time.

There, a last line also says how much of the CPU time is in no traced call, in
which thread and in which functions, if it is more than a tenth.

arguments: those that the trace has of the call, and of calls on its path; of a
span its fields, each with the last value that it got.

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

/// Show the slowest calls, and where their time went
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Show at most N causes, or N calls [default: 5]
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one, hide_default_value = true)]
    limit: Option<NonZeroUsize>,
    /// Show each call by itself, also if calls have one cause
    #[arg(long = "calls", conflicts_with = "tasks")]
    each: bool,
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
    calls: CallOptions,
}

impl Options {
    /// The query that the options make.
    fn query<'a>(&'a self, chosen: &'a ChosenCalls) -> Query<'a> {
        let over = self.calls.over_ns();
        let limit = self.limit.map(NonZeroUsize::get);
        let shown = limit.unwrap_or(DEFAULT_CALLS);
        let is_chosen = self.selection.filter().is_some() || over.is_some();
        let may_be_whole = self.selection.is_of_whole_trace();
        if !self.each && !is_chosen && !self.tasks {
            let chosen = Some(chosen);
            return Query {
                chosen,
                ..Query::of_causes(shown, may_be_whole)
            };
        }
        Query {
            filter: self.selection.filter(),
            over,
            chosen: Some(chosen),
            most: shown,
            of_each: match is_chosen || limit.is_some() {
                true => shown,
                false => DEFAULT_CALLS_OF_EACH,
            },
            causes: None,
            may_be_whole,
        }
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let alone = options.save.as_ref().map(|_| "--save");
    options
        .traces
        .each_or_one(alone, |trace, series| one(options, trace, series))
}

fn one(options: &Options, trace: &Path, series: &mut Series) -> anyhow::Result<Status> {
    let whole = options.selection.open(trace, Filtering::Shown)?;
    let source = &*whole;
    if trace::is_timeless(source.info()) {
        anyhow::bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    if let Some(output) = &options.save {
        output_file::check_is_not(output, trace)?;
        output_file::check(output, Shape::File, options.force)?;
    }
    memory::grows("the slowest calls");
    let chosen = options.calls.for_trace(source.info());
    let chosen = chosen.with_context(|| ui::path(trace))?;
    let info = source.info();
    let query = options.query(&chosen);
    let report = Report::of_all(trace, source)?;
    let scope = scope_in_words(&report, query.may_be_whole);
    if options.tasks {
        let by = options.by.as_deref();
        let found = tasks::find(&query, by, trace, source, &report)?;
        ui::print(|out| {
            if options.json {
                let file = trace.to_string_lossy();
                return tasks::show::write_json(out, &file, info, &found, by);
            }
            out.write_all(series.heading(trace).as_bytes())?;
            writeln!(out, "{}\n", ui::paragraph(&scope, 2))?;
            tasks::show::write(out, info, &found, by)
        })?;
        return Ok(Status::Done);
    }
    let found = find(&query, trace, source, &report)?;
    let tasks = match query.is_of_causes() && report.has_tasks() {
        true => {
            let shown = options.limit.map_or(DEFAULT_CALLS, NonZeroUsize::get);
            let query = Query::of_tasks(shown, query.may_be_whole);
            Some(tasks::find(&query, None, trace, source, &report)?)
        }
        false => None,
    };
    ui::print(|out| {
        if options.json {
            let tasks = tasks.as_ref();
            let tasks = tasks.map_or(Value::Null, |found| tasks::show::json_of_tasks(info, found));
            return json::write(out, &trace.to_string_lossy(), info, &tasks, &found);
        }
        out.write_all(series.heading(trace).as_bytes())?;
        writeln!(out, "{}\n", ui::paragraph(&scope, 2))?;
        if let Some(tasks) = &tasks {
            writeln!(out, "tasks (--tasks)\n")?;
            tasks::show::write(out, info, tasks, None)?;
            writeln!(out, "\ncalls\n")?;
        }
        show::write(out, info, &found)
    })?;
    if let Some(output) = &options.save {
        match found.list.first() {
            Some(slowest) => save(options, trace, whole, &slowest.call, output)?,
            None => ui::complain("--save: nothing stands out, so nothing is written"),
        }
    }
    Ok(Status::Done)
}

/// Which calls and tasks are looked at.
fn scope_in_words(report: &Report, may_be_whole: bool) -> String {
    let time = ui::duration(report.duration_ns);
    match may_be_whole && report.has_all_records() {
        true => {
            format!("slow in the whole run, {time}: the records of all its calls are in the trace")
        }
        false => format!("slow in the records, {time}"),
    }
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
    conversion::report(
        &ui::path(output),
        to,
        &done,
        Some(output_file::size(output)),
    );
    Ok(())
}
