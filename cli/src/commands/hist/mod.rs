//! `fdr hist`: how long the calls of a function took, all of them: the distribution, and its modes.

mod durations;
mod json;
mod modes;
mod picture;
mod show;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use fdr_formats::filter::Filter;
use fdr_formats::model::FunctionTotals;
use fdr_formats::{FunctionId, TraceInfo};

use self::durations::Durations;
use self::modes::Mode;
use super::{Headings, Status, each_trace};
use crate::place::{self, Shape};
use crate::report::engine::Figures;
use crate::report::rows::{self, Key, Report, Row};
use crate::selection::{self, Filtering, Selection};
use crate::{memory, trace, ui};

const HELP: &str = "\
FUNCTION is a name or globs, as in FDR. Of several functions, those with the
most calls are shown.

A row counts the calls from that duration up to the next row's. Each row is as
many times wider as the one before: as fine as fits, from one row for a factor
of ten to twenty. Rows without calls between others are one line, ⋮. A bar is as
long as its part of the largest row. p50, p90, p99 stand beside their rows.

A mode is a group of calls of about the same duration: a peak. Two peaks are two
modes if the density between them is below half of that of the lower one, by
more than four standard deviations. The density is over the logarithm of the
duration. about: the p50 of the mode. Fewer than 20 calls have no modes.

The calls are those of the whole run if the trace counts them, else and with
--window those with records. Clipped calls and calls that were only counted
have no duration.

Examples:
  fdr hist app.fdr app::handle              in the terminal
  fdr hist app.fdr -o x.svg app::handle     as a picture
  fdr hist --last 10s app.fdr app::handle   of the last ten seconds
  fdr hist --json app.fdr 'app::db::*' | jq '.functions[].modes'";

/// Functions that are shown unless the user says otherwise.
const SHOWN: usize = 3;

/// Show the distribution of a function's durations, and its modes
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Traces, or folders of traces; `-` is standard input
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The function, or globs of functions, comma between
    #[arg(required = true, value_name = "FUNCTION", value_parser = selection::filter)]
    functions: Filter,
    /// Only what the records have, also where the trace has figures of the whole run
    #[arg(long)]
    window: bool,
    /// Show at most N functions [default: 3; in JSON: all]
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Draw the distribution of one function into this new file, an SVG
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
    /// Replace that file
    #[arg(long, requires = "output")]
    force: bool,
    /// Print JSON, times in nanoseconds
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    selection: Selection,
}

/// What is known of one function.
struct Distribution {
    row: Row,
    durations: Durations,
    modes: Vec<Mode>,
}

/// What was found in a trace.
struct Found {
    /// The function with most calls comes first.
    list: Vec<Distribution>,
    /// The calls are those of the whole run.
    is_whole_run: bool,
    /// Functions that are not shown.
    hidden: usize,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let mut headings = None;
    let alone = options.output.as_ref().map(|_| "-o");
    each_trace(&options.traces, alone, |trace, several| {
        let headings = headings.get_or_insert_with(|| Headings::new(several && !options.json));
        one(options, trace, headings)
    })
}

fn one(options: &Options, trace: &Path, headings: &mut Headings) -> anyhow::Result<Status> {
    if let Some(output) = &options.output {
        place::check_is_not(output, trace)?;
        place::check(output, Shape::File, options.force)?;
    }
    let source = options.selection.open(trace, Filtering::Calls)?;
    let info = source.info();
    if trace::is_timeless(info) {
        anyhow::bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    memory::grows("the durations of calls");
    let figures = Figures::of(trace, &*source, false)?;
    let found = find(options, trace, info, figures)?;
    if let Some(output) = &options.output {
        let Some(first) = found.list.first() else {
            return Ok(Status::Done);
        };
        if found.list.len() + found.hidden > 1 {
            let name = ui::clean(&first.row.name);
            ui::complain(&format!(
                "FUNCTION is several functions; the picture is of {name}"
            ));
        }
        place::write(output, options.force, |out| {
            picture::draw(out, info, first, found.is_whole_run)
        })?;
        return Ok(Status::Done);
    }
    ui::print(|out| {
        out.write_all(headings.next(trace).as_bytes())?;
        match options.json {
            true => json::write(out, &trace.to_string_lossy(), info, &found),
            false => show::write(out, info, &found),
        }
    })?;
    Ok(Status::Done)
}

fn find(
    options: &Options,
    trace: &Path,
    info: &TraceInfo,
    figures: Figures,
) -> anyhow::Result<Found> {
    let mut of_records: BTreeMap<FunctionId, Durations> = BTreeMap::new();
    for (id, stats) in &figures.functions {
        if options.functions.matches(&rows::name_of(info, *id)) {
            of_records.insert(*id, Durations::of_records(&stats.measured, &info.clock));
        }
    }
    let called = figures.functions.keys();
    let called: Vec<String> = called.map(|&id| rows::name_of(info, id)).collect();
    let wanted = rows::Selection {
        filter: Some(options.functions.clone()),
        sort: Key::Calls,
        reverse: false,
        limit: None,
        per_thread: false,
    };
    let mut report = Report::new(info, figures, &wanted)?;
    trace::warn_of_damage(trace, &report.diagnostics, report.more_diagnostics);
    if !options.window && options.selection.is_everything() {
        report.show_whole(info, &wanted)?;
    }
    if report.rows.is_empty() {
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        selection::complain_of_none("FUNCTION", &options.functions, &called, "called function");
    }
    let of_run = match report.is_whole {
        true => totals(info),
        false => BTreeMap::new(),
    };
    let limit = options.limit.map(NonZeroUsize::get);
    let most = limit.unwrap_or(if options.json { usize::MAX } else { SHOWN });
    let hidden = report.rows.len().saturating_sub(most);
    let mut list = Vec::new();
    for row in report.rows.into_iter().take(most) {
        let id = FunctionId(row.id);
        let durations = match of_run.get(&id) {
            Some(totals) => Durations::of_run(totals, &info.clock),
            None => of_records.remove(&id).unwrap_or_default(),
        };
        list.push(Distribution {
            row,
            modes: modes::modes(&durations),
            durations,
        });
    }
    Ok(Found {
        list,
        is_whole_run: report.is_whole || report.has_all,
        hidden,
    })
}

/// The totals of each function, over all threads.
fn totals(info: &TraceInfo) -> BTreeMap<FunctionId, FunctionTotals> {
    let mut all: BTreeMap<FunctionId, FunctionTotals> = BTreeMap::new();
    let of_threads = info.threads.iter().flat_map(|thread| &thread.totals);
    for totals in of_threads.chain(&info.missing_totals) {
        all.entry(totals.function).or_default().add(totals);
    }
    all
}

/// The modes in words. `None`: there are too few calls to tell.
fn in_words(distribution: &Distribution) -> Option<String> {
    let modes = &distribution.modes;
    let about = |mode: &Mode| ui::duration(mode.middle.round() as u64);
    let count = match modes.as_slice() {
        [] => return None,
        [one] => return Some(format!("one mode, about {}", about(one))),
        [_, _] => "two".to_owned(),
        [_, _, _] => "three".to_owned(),
        more => more.len().to_string(),
    };
    let all = distribution.durations.calls.max(1) as f64;
    let parts = modes.iter().map(|mode| {
        let share = 100.0 * mode.calls / all;
        format!("{} about {}", percent(share), about(mode))
    });
    let parts: Vec<String> = parts.collect();
    Some(format!("{count} modes: {}", parts.join(", ")))
}

/// A share with about two digits.
fn percent(share: f64) -> String {
    match share {
        10.0.. => format!("{share:.0} %"),
        1.0.. => format!("{share:.1} %"),
        0.095.. => format!("{share:.2} %"),
        0.0095.. => format!("{share:.3} %"),
        _ => format!("{share:.4} %"),
    }
}
