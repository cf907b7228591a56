//! `fdr report`: figures per function.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use fdr_formats::source;

use super::Status;
use crate::glob::Filter;
use crate::report::engine::{Engine, gather};
use crate::report::rows::{Key, Report, Selection};
use crate::report::table::Look;
use crate::report::{csv, json, table};
use crate::ui::{self, Progress};

const HELP: &str = "\
What the figures are:
  calls       calls of which the trace has the entry or the exit
  total       time inside the function. Where it recurses, only the outermost call counts, so that
              total never exceeds the time that passed on a thread
  self        time inside, less the time in traced functions that it called
  min … max   of the durations of single calls, entry to exit, recursive ones too
  p50 p90 p99 nearest rank; off by at most 0.8 %. All else is exact
A call that was open when the trace began or ended, or whose exit is missing, is clipped: it counts
in calls, and the part of it inside the trace in total and self; it never counts in min to max.
Times are CPU-independent wall time of the trace's clock, summed over threads.

Examples:
  fdr report app.fdr                            by self time, as a table
  fdr report --sort p99 --limit 20 app.fdr      the twenty with the worst tail
  fdr report --filter 'app::db::*' app.fdr      some functions
  fdr report --per-thread app.fdr               a table for every thread
  fdr report --json app.fdr | jq '.functions[] | select(.calls > 1000) | .name'";

/// Per function: calls, total, self, min, mean, p50, p90, p99, max
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The trace
    trace: PathBuf,
    /// Figures for every thread, too
    #[arg(long)]
    per_thread: bool,
    /// Sort by this, the largest first
    #[arg(long, value_name = "KEY", value_enum, default_value = "self")]
    sort: Key,
    /// Show at most so many functions
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
    /// Only functions whose name matches: globs, comma between, `-` before one excludes
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true)]
    filter: Option<Filter>,
    /// With a column for file and line (CSV and JSON have it always)
    #[arg(long, conflicts_with_all = ["csv", "json"])]
    files: bool,
    /// As CSV, times in nanoseconds
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// As JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Threads that decode [default: one per core]
    #[arg(long, short, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let source = ui::open(&options.trace)?;
    let progress = Progress::new(&*source);
    let make = || Engine::new(&*source, options.per_thread);
    let jobs = ui::jobs(options.jobs);
    let engines = source::drive_parallel(&*source, jobs, make, &|bytes| progress.add(bytes));
    drop(progress);
    let engines = engines.map_err(|error| ui::about(&options.trace, error))?;
    let mut figures = gather(engines, options.per_thread);
    figures
        .diagnostics
        .splice(0..0, source.diagnostics().iter().cloned());
    let selection = Selection {
        filter: options.filter.clone(),
        sort: options.sort,
        limit: options.limit.map(NonZeroUsize::get),
        per_thread: options.per_thread,
    };
    let info = source.info();
    let report = Report::new(info, figures, &selection);
    ui::print(|out| {
        if options.json {
            json::write(out, &options.trace.to_string_lossy(), info, &report)
        } else if options.csv {
            csv::write(out, &report)
        } else {
            let look = Look {
                places: options.files,
                colour: ui::colour(),
            };
            table::write(out, info, &report, look)
        }
    })?;
    if options.csv && !report.is_complete() {
        table::notes(&report)
            .iter()
            .for_each(|note| ui::complain(note));
    }
    Ok(Status::Done)
}
