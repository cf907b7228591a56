//! `fdr report`: figures per function.

mod hist;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::{Source, TraceInfo};

use super::{Series, Status, Traces};
use crate::report::engine::Figures;
use crate::report::names::name_of;
use crate::report::query::{Key, Selection};
use crate::report::rows::Report;
use crate::report::table_style::TableStyle;
use crate::report::tasks::rows::{TableOptions, Tasks};
use crate::report::tasks::show;
use crate::report::tasks::task_table::TraceTasks;
use crate::report::{csv, json, notes, table, whole};
use crate::selection::Filtering;
use crate::tree::folding::{Folding, FoldingOptions};
use crate::tree::outline::{Limits, Outline};
use crate::windows::Windows;
use crate::{memory, selection, trace, ui};

const HELP: &str = "\
What the figures are:
  calls       calls of which the trace has the entry or the exit
  total       time inside the function. If the function recurses, only the
              outermost call counts, so total is at most the time that passed
              on a thread
  self        total, less the time in traced functions that it called
  self %      share of the sum of all self times; in a thread's table, of that
              thread's. With several threads, 100 % can be more than the time
              that passed
  min … max   durations of single calls, from entry to exit, also recursive
              ones
  p50 p90 p99 percentiles by nearest rank, within 1 %. All else is exact

Unless FDR_KEEP is 0, the recorder counts each call when it ends. The figures
are then those of the whole run, with the calls whose records are gone, and
without the calls that are still open. They are exact but p50, p90 and p99,
which are within 7 %. There is no min. A total with ≤ also counts inner calls of
a function that recurses, so the outermost calls took at most that long. Where
the trace has the records of all calls, the figures come from the records, and
are exact but p50, p90 and p99. --window, --common, --function and a stretch of
time always give the figures of the records. --json names the scope.

Calls of some functions may be only counted, because of FDR_BUDGET. Their
number is exact. A time with ~ is estimated from the calls that were timed.

A call is clipped if it was open when the trace began or ended, or if its exit
is missing. It counts in calls. The part of it inside the trace counts in total
and self. It never counts in min to max. A call that was open when the trace
was written lasts until then, and the longest of these calls are named.

A thread that records much keeps only its latest records, so the windows of
threads may differ. Then sums over threads mix different stretches of time.
--common takes the stretch that all threads have. Times are wall time of the
trace's clock, summed over threads.

Functions marked #[traced(untimed)] have calls and no times. The time in them
is self time of the function that called them. In figures of the whole run it
is in no row. --filter shows only its functions, with the figures that they
have among all. --function, --thread and a window leave all other calls out.

running, preempted, waiting: shares of total in which the thread ran, was taken
from its CPU, and waited; self running … the same of self. Only in traces that
know their threads' states. Time without a known state counts for none of the
three; - if no state is known at all. In figures of the whole run, the shares
are those of the calls with records.

Events and counters (fdr::event!, fdr::gauge!) have tables of their own below:
those whose notes are in the trace, in the whole trace or in the window. The
rate is that over the time of the trace. fdr replay --records shows each.

--tasks has a row for each function whose calls are polls of tasks: traced
async functions, and fdr::task!. busy is the time of polls, waiting the time
between them, and mean to max are times from the first poll to the end. A task's
time has neither the wait before its first poll, since its making or spawn, nor
what comes behind its end, such as the body of a response.

--tree has a row for each path of calls, below the path of its caller, with the
longest first. total is the time of the path with all that it called, total % is
its part of all time. The rows are of the records, as with --window. --filter
leaves out calls of other functions.

--hist shows how long the calls of one function took, all of them. A row counts
the calls from that duration up to the next row's. Each row is as many times
wider as the one before: as fine as fits, from one row for a factor of ten to
twenty. Rows without calls between others are one line, ⋮. A bar is as long as
its part of the largest row. p50, p90, p99 stand beside their rows. A mode is a
group of calls of about the same duration: a peak. Two peaks are two modes if
the density between them is below half of that of the lower one, by more than
four standard deviations. The density is over the logarithm of the duration.
about: the p50 of the mode. Fewer than 20 calls have no modes. Clipped calls and
calls that were only counted have no duration. The function may be globs, as in
FDR: those with the most calls are shown.

On a terminal a table fits the width. Names lose their middle first. Then
columns are left out, and named below the table. In a file or a pipe, names and
columns are complete.

Examples:
  fdr report app.fdr                        by self time, as a table
  fdr report --sort p99 --limit 20 app.fdr  the twenty with the worst tail
  fdr report --filter 'app::db::*' app.fdr  some functions
  fdr report --last 2s -t 'worker-*' app.fdr
      the last two seconds of some threads
  fdr report -F app::save app.fdr           what happens inside of a function
  fdr report --per-thread app.fdr           a table for every thread
  fdr report --common app.fdr
      only the time of which all threads have records
  fdr report --tasks app.fdr                the async functions, as tasks
  fdr report --tree --min 5% app.fdr        who called whom, the long paths
  fdr report --hist app.fdr app::handle     how long its calls took
  fdr report --hist app.fdr -o x.svg app::handle
  fdr report old.fdr new.fdr                one report after the other
  fdr report --json app.fdr | jq -r '.functions[] | .name'";

/// Show figures per function: calls, times, percentiles
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// Add a table for every thread
    #[arg(long)]
    per_thread: bool,
    /// Sort by this column: numbers from the largest, names from A to Z
    #[arg(short, long, value_name = "KEY", value_enum, default_value = "self")]
    sort: Key,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
    /// Only the stretch of time of which all threads have records
    #[arg(long)]
    common: bool,
    /// Only what the records have, also where the trace has figures of the whole run
    #[arg(long)]
    window: bool,
    /// Show the tasks of functions: how many finished or were dropped, and how long they were polled and waited
    #[arg(long, conflicts_with_all = ["per_thread", "common", "files", "csv"])]
    tasks: bool,
    /// Group tasks by this field of the events and arguments inside
    #[arg(long, value_name = "FIELD", requires = "tasks")]
    by: Option<String>,
    /// Show the call tree: each path of calls below its caller, with total and self time
    #[arg(long, conflicts_with_all = ["sort", "reverse", "tasks", "hist", "files", "csv"])]
    tree: bool,
    /// With --tree: leave out paths below this part of all time
    #[arg(long, value_name = "SHARE", value_parser = super::share, requires = "tree", default_value = "0.5%")]
    min: f64,
    /// Show the distribution of the durations of one FUNCTION, which is a word beside the traces, and its modes
    #[arg(long, conflicts_with_all = ["per_thread", "sort", "reverse", "common", "tasks", "files", "csv"])]
    hist: bool,
    /// With --hist: draw the distribution into this new file, an SVG
    #[arg(
        short,
        long,
        value_name = "FILE",
        requires = "hist",
        conflicts_with = "json"
    )]
    output: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "output")]
    force: bool,
    /// Show at most N functions; with --hist, 3 unless N is given; with --tree, the N paths with the most time
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    #[command(flatten)]
    selection: selection::Selection,
    /// Add a column for file and line (CSV and JSON always have it)
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    files: bool,
    /// Print CSV, times in nanoseconds
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    if options.hist {
        return hist::run(options);
    }
    options.traces.each(|trace, series| match options.tree {
        true => tree_of(options, trace, series),
        false => one(options, trace, series),
    })
}

/// The call tree.
fn tree_of(options: &Options, trace: &Path, series: &mut Series) -> anyhow::Result<Status> {
    let folding_options = FoldingOptions {
        selection: &options.selection,
        filtering: Filtering::Calls,
        per_thread: options.per_thread,
        calls: false,
        by: None,
        common: options.common,
    };
    let folding = Folding::read(&folding_options, trace)?;
    let info = folding.info();
    if trace::is_timeless(info) {
        anyhow::bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    let limits = Limits {
        least: options.min,
        most: options.limit.map(NonZeroUsize::get),
    };
    let outline = Outline::new(folding.rows(), limits);
    if let Some(filter) = options.selection.filter().filter(|_| outline.is_empty()) {
        let called: Vec<String> = info.called().map(|of| name_of(info, of.id)).collect();
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        selection::complain_of_none("--filter", filter, &called, "called function");
    }
    ui::print(|out| match options.json {
        true => outline.write_json(out, &trace.to_string_lossy(), info),
        false => {
            out.write_all(series.heading(trace).as_bytes())?;
            outline.write(out, info)
        }
    })?;
    Ok(Status::Done)
}

fn one(options: &Options, trace: &Path, series: &mut Series) -> anyhow::Result<Status> {
    let mut source = options.selection.open(trace, Filtering::Shown)?;
    let windows = match options.common {
        true => Windows::of_trace(&*source).map_err(|error| trace::about(trace, error))?,
        false => None,
    };
    if let Some(windows) = &windows {
        source = selection::from_on(source, windows.common());
    }
    let source = &*source;
    if options.tasks {
        return tasks_of(options, trace, source, series);
    }
    memory::grows("the figures of functions and threads");
    let figures = Figures::read(trace, source, options.per_thread)?;
    let selection = Selection {
        filter: options.selection.filter().cloned(),
        sort: options.sort,
        reverse: options.reverse,
        limit: options.limit.map(NonZeroUsize::get),
        per_thread: options.per_thread,
    };
    let info = source.info();
    // If the filter matches no function, the message names functions of the trace.
    let called = figures
        .functions
        .keys()
        .filter(|_| options.selection.filter().is_some());
    let mut called: Vec<String> = called.map(|&id| name_of(info, id)).collect();
    let mut report = Report::new(info, figures, &selection).with_context(|| ui::path(trace))?;
    if !options.window && !options.common {
        let shown = report.show_whole(info, &selection);
        shown.with_context(|| ui::path(trace))?;
    }
    if report.is_whole {
        called = whole::called(info);
        if options.sort == Key::Min {
            ui::complain(
                "--sort min: figures of the whole run have no min, so rows are in the order of names; --window has it",
            );
        }
    }
    if let Some(windows) = windows {
        let common = windows.common_in_words(&info.clock);
        report.window_note = Some(format!("--common: of all threads, {common}"));
    }
    trace::warn_of_damage(trace, &report.diagnostics, report.more_diagnostics);
    ui::print(|out| write(out, options, trace, info, &report, series))?;
    if options.csv && (report.timeless || !report.is_complete()) {
        notes::notes(&report)
            .iter()
            .for_each(|note| ui::complain(note));
    }
    if report.rows.is_empty()
        && report.events.is_empty()
        && report.waits.is_empty()
        && let Some(filter) = options.selection.filter()
    {
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        selection::complain_of_none("--filter", filter, &called, "called function");
    }
    Ok(Status::Done)
}

/// The report of tasks.
fn tasks_of(
    options: &Options,
    trace: &Path,
    source: &dyn Source,
    series: &mut Series,
) -> anyhow::Result<Status> {
    let states = [Key::Running, Key::Preempted, Key::Waiting];
    if matches!(options.sort, Key::Min | Key::P90) || states.contains(&options.sort) {
        anyhow::bail!(
            "tasks have no such column: sort by name, calls, total, self, mean, p50, p99 or max"
        );
    }
    memory::grows("the tasks of the trace");
    let by = options.by.as_deref();
    let trace_tasks = TraceTasks::read(source, by);
    let mut trace_tasks = trace_tasks.map_err(|error| trace::about(trace, error))?;
    let (mut diagnostics, more) = std::mem::take(&mut trace_tasks.damage).into_parts();
    diagnostics.splice(0..0, source.diagnostics().iter().cloned());
    trace::warn_of_damage(trace, &diagnostics, more);
    let info = source.info();
    let table_options = TableOptions {
        filter: options.selection.filter(),
        sort: options.sort,
        reverse: options.reverse,
        limit: options.limit.map(NonZeroUsize::get),
        whole: !options.window && options.selection.is_of_whole_trace(),
        by: by.is_some(),
    };
    let tasks = Tasks::new(info, &trace_tasks, &table_options).with_context(|| ui::path(trace))?;
    ui::print(|out| {
        if options.json {
            return show::write_json(out, &trace.to_string_lossy(), info, &tasks, by);
        }
        out.write_all(series.heading(trace).as_bytes())?;
        show::write(out, info, &tasks, by)
    })?;
    Ok(Status::Done)
}

fn write(
    out: &mut dyn std::io::Write,
    options: &Options,
    trace: &Path,
    info: &TraceInfo,
    report: &Report,
    series: &mut Series,
) -> anyhow::Result<()> {
    if options.json {
        return json::write(out, &trace.to_string_lossy(), info, report);
    }
    if options.csv {
        let file = trace.to_string_lossy();
        let file = series.has_several().then_some(&*file);
        return csv::write(out, file, report, series.takes_first());
    }
    out.write_all(series.heading(trace).as_bytes())?;
    let look = TableStyle {
        places: options.files,
        colour: ui::colour(),
        columns: ui::columns(),
        timeless: report.timeless,
        ends_early: options.selection.ends_early(),
    };
    table::write(out, info, report, look)
}
