//! `fdr replay`: the calls of a stretch of time one by one, as they nest, all threads in the order of time.

mod json;
mod lines;
mod nearest;
mod notes;
pub(super) mod records;
mod show;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::{Source, ThreadId, Ticks};

use self::nearest::{Nearest, NearestQuery};
use super::{Series, Status, Traces, each_trace};
use crate::calls::last_panic::LastPanic;
use crate::selection::call_options::CallOptions;
use crate::selection::moment::{self, MomentOption, Span};
use crate::selection::{self, Filtering, Selection};
use crate::tally::Tally;
use crate::task_stacks::{self, TaskStacks};
use crate::ui;
use crate::windows::Windows;
use crate::{input, memory, off_cpu, stacks, trace};

const HELP: &str = "\
Each line is a call, where it begins: its time since the first record of the
trace in seconds, how long it took, its thread, and the function below the one
that called it. Threads that fit beside each other have columns of their own.
Calls of a function without calls inside that follow each other are one line,
×35, with the time of all; --each has a line for each. Notes of the program
begin with *; with --over or --state only those of calls that are shown.

The calls are those nearest to a moment: the beginning of the selected part, or
--around, or with --before-panic the end of a trace of a panic or a crash, and
of another trace its last panic. A call is as near as its nearest moment, so the
calls around it are there, too. --limit says how many.

Behind a call: [open] when the trace was written; [began earlier] and [ended
later], where the trace or the selected part has only a part of it; cpu 1→3, if
it ended on another CPU. If the trace knows its threads' states, the parts of
the time in which the thread was preempted or waited; ?: not known. A call with
nothing behind it ran. In columns: p and w for half of the time or more, ! for
open calls.

--before-panic shows the open tasks (async functions) below the calls, as fdr
state does: each task awaits the next one.

--records has a line for each record of the file, in the order of the file: byte
offset, size, thread, time since the first call as in fdr info, kind, fields.
The recorder's own records may stand before the first call.

Examples:
  fdr replay app.fdr | less                   from the beginning
  fdr replay --around 12:30:01.5 app.fdr      what was going on at that moment
  fdr replay --before-panic app.fdr           the last calls of the thread
  fdr replay --since -2ms -n 10000 app.fdr    all of the last two milliseconds
  fdr replay --over 1ms --state waiting app.fdr
  fdr replay -F app::handle -t worker-1 app.fdr
  fdr replay --records --filter app::accepted app.fdr
      the events, or the calls, of that name, in the order of each thread
  fdr replay --records --function app::load app.fdr
      the calls of that function, and what lies inside of them; in formats
      other than XRay, the calls alone
  fdr replay --records --offset 0x1f40 --limit 20 app.fdr
      what is at the offset of a diagnostic";

/// The calls that are shown by default, and the most that can be shown, because all are held in memory.
const DEFAULT_CALLS: usize = 1000;
const MAX_CALLS: usize = 1_000_000;
/// Of the newest traces, how many are tried for one of a panic.
const MAX_TRIED: usize = 20;

/// Show calls one by one, nested, all threads in the order of time
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// The calls nearest to this moment; see fdr state --help
    #[arg(short, long, value_name = "MOMENT", value_parser = moment::parse, allow_hyphen_values = true)]
    around: Option<MomentOption>,
    /// The last calls before the panic or crash that made the trace, first those of its thread
    #[arg(long, conflicts_with = "around")]
    before_panic: bool,
    /// Show at most N calls, up to 1000000 [default: 1000], or N records of each trace
    #[arg(short = 'n', long, value_name = "N", value_parser = limit)]
    limit: Option<usize>,
    /// A line for each call, also for those of the same function that follow each other
    #[arg(long)]
    each: bool,
    /// One column for all threads, also if they fit beside each other
    #[arg(long)]
    lines: bool,
    /// Show one line for every record of the file
    #[arg(long, conflicts_with_all = ["around", "before_panic", "each", "lines", "over", "state"])]
    records: bool,
    /// Only records that begin at this byte or later: 8000 or 0x1f40
    #[arg(long, alias = "from", value_name = "BYTE", value_parser = records::offset, requires = "records")]
    offset: Option<u64>,
    /// Print JSON, times in nanoseconds; with --records, one object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    calls: CallOptions,
}

fn limit(text: &str) -> Result<usize, String> {
    ui::at_least_one(text).map(NonZeroUsize::get)
}

/// How many calls are shown.
fn call_limit(options: &Options) -> anyhow::Result<usize> {
    match options.limit {
        None => Ok(DEFAULT_CALLS),
        Some(number @ ..=MAX_CALLS) => Ok(number),
        Some(_) => {
            bail!(
                "--limit: it must be at most {MAX_CALLS}; --since, --until and --around choose a part"
            )
        }
    }
}

/// What is shown of a trace.
struct Replay<'a> {
    source: &'a dyn Source,
    /// The trace's first record, from which times count.
    begin: Ticks,
    lines: Vec<lines::Line>,
    /// Calls that are shown, and those that are not.
    shown: u64,
    hidden: u64,
    /// Notes that are not shown.
    notes_hidden: u64,
    /// The thread whose panic or crash made the trace.
    failed: Option<ThreadId>,
    /// The moment to which the calls are nearest, if it was asked for.
    around: Option<Ticks>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if options.records {
        return records::run(options);
    }
    let most = call_limit(options)?;
    let run = |trace: &Path, series: &mut Series| one(options, most, trace, series);
    if options.before_panic && options.traces.named().is_empty() {
        let mut newest = input::newest_here().into_iter().take(MAX_TRIED);
        let failed = |path: &PathBuf| {
            input::open(path).is_ok_and(|source| source.info().failed_thread().is_some())
        };
        // A panic may have made one, and the program's end another one behind it.
        if let Some(trace) = newest.find(failed) {
            ui::complain(&format!(
                "the newest trace of a panic here: {}",
                ui::path(&trace)
            ));
            return each_trace(&[trace], None, run);
        }
    }
    options.traces.each(run)
}

fn one(
    options: &Options,
    most: usize,
    trace: &Path,
    series: &mut Series,
) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    let source = &*source;
    let info = source.info();
    let mut failed = info.failed_thread();
    let mut end = info.end;
    if options.before_panic && failed.is_none() {
        // The program went on for a while, or ended by itself.
        let last = LastPanic::find(source).map_err(|error| trace::about(trace, error))?;
        (failed, end) = last.map(|panic| (panic.thread, panic.time)).unzip();
    }
    if options.before_panic && failed.is_none() {
        let reason = match info.reason.is_empty() {
            true => "unknown".to_owned(),
            false => ui::clean(&info.reason).into_owned(),
        };
        bail!(
            "{}: was written for no panic or crash (reason: {reason}), and has no panic",
            ui::path(trace)
        );
    }
    memory::grows("the calls that are shown");
    let chosen = options
        .calls
        .for_trace(info)
        .with_context(|| ui::path(trace))?;
    let around = match options.before_panic {
        true => Some(end.unwrap_or(Ticks(u64::MAX))),
        false => moment_of(options, trace, source)?,
    };
    let query = NearestQuery {
        moment: around.unwrap_or_default(),
        only_before: options.before_panic,
        most,
        first: failed.filter(|_| options.before_panic),
        chosen: Some(&chosen),
    };
    // Each worker may keep as many calls as the command shows. So the number of workers is bounded.
    let jobs = ui::jobs().min((2 * MAX_CALLS / most).max(1));
    let workers = stacks::run_on(source, jobs, || Nearest::new(query));
    let workers = workers.map_err(|error| trace::about(trace, error))?;
    let mut found = Nearest::gather(workers, &query);
    for diagnostic in source.diagnostics() {
        found.damage.add(diagnostic.clone());
    }
    let (diagnostics, more) = std::mem::take(&mut found.damage).into_parts();
    trace::warn_of_damage(trace, &diagnostics, more);
    memory::check()?;
    let shown = found.calls.len() as u64;
    let replay = Replay {
        source,
        begin: selection::begin(source)?.unwrap_or_default(),
        hidden: found.examined.saturating_sub(shown),
        shown,
        notes_hidden: found.notes_hidden,
        lines: lines::lines(found, !options.each && !options.json),
        failed,
        around,
    };
    let states = off_cpu::states_of(info);
    let tasks = match options.before_panic {
        true => {
            memory::grows("the tasks of the trace");
            let windows = Windows::of_trace(source).map_err(|error| trace::about(trace, error))?;
            let moment = task_stacks::Moment {
                time: end.unwrap_or(Ticks(u64::MAX)),
                is_end: end == info.end,
                is_whole: options.selection.is_of_whole_trace(),
                whole_since: windows.map_or(Ticks(0), |windows| windows.common()),
                first: failed,
            };
            let tasks = TaskStacks::read(source, moment);
            Some(tasks.with_context(|| ui::path(trace))?)
        }
        false => None,
    };
    ui::print(|out| {
        if options.json {
            let tasks = tasks.as_ref().map(|tasks| task_stacks::json(info, tasks));
            return json::write(
                out,
                &trace.to_string_lossy(),
                &replay,
                states.as_deref(),
                tasks,
            );
        }
        out.write_all(series.heading(trace).as_bytes())?;
        show::write(out, &replay, states.as_deref(), options.lines)?;
        tasks.map_or(Ok(()), |tasks| task_stacks::text(out, info, &tasks, &[]))
    })?;
    Ok(Status::Done)
}

/// The moment to which the calls are nearest. `None`: the beginning.
fn moment_of(
    options: &Options,
    trace: &Path,
    source: &dyn Source,
) -> anyhow::Result<Option<Ticks>> {
    let Some(around) = &options.around else {
        return Ok(None);
    };
    let tally = Tally::count(source).map_err(|error| trace::about(trace, error))?;
    let clock = &source.info().clock;
    let Some(span) = Span::from_tally(&tally, clock) else {
        bail!(
            "{}: no thread has entered or left a function",
            ui::path(trace)
        );
    };
    let time = span.find(around, clock)?;
    Ok(Some(selection::first_tick(i128::from(time), clock)))
}
