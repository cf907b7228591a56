//! `fdr report --hist`: how long the calls of a function took, all of them: the distribution, and its modes.

mod durations;
mod json;
mod modes;
mod picture;
mod show;

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::{Error, bail};
use fdr_formats::filter::Filter;
use fdr_formats::model::FunctionTotals;
use fdr_formats::{FunctionId, TraceInfo};

use self::durations::Durations;
use self::modes::Mode;
use super::Options;
use crate::commands::{Series, Status, each_trace};
use crate::input;
use crate::output_file::{self, Shape};
use crate::report::engine::Figures;
use crate::report::function_rows::Row;
use crate::report::names::name_of;
use crate::report::query::{Key, Selection};
use crate::report::rows::Report;
use crate::selection::{self, Filtering};
use crate::{memory, trace, ui};

/// Functions that are shown unless the user says otherwise.
const DEFAULT_FUNCTIONS: usize = 3;

/// What is known of one function.
struct Distribution {
    row: Row,
    durations: Durations,
    modes: Vec<Mode>,
}

/// What was found in a trace.
struct Distributions {
    /// The function with most calls comes first.
    list: Vec<Distribution>,
    /// The calls are those of the whole run.
    is_whole_run: bool,
    /// Functions that are not shown.
    hidden: usize,
}

/// The traces among the words of the command line, and the functions: the words that name nothing in the file system.
///
/// # Errors
/// Where there is no trace, or no function.
fn words(options: &Options) -> anyhow::Result<(Vec<PathBuf>, Filter)> {
    let is_trace = |word: &&PathBuf| input::is_standard(word) || fs::symlink_metadata(word).is_ok();
    let (traces, others): (Vec<&PathBuf>, Vec<&PathBuf>) =
        options.traces.named().iter().partition(is_trace);
    let [function] = others.as_slice() else {
        let others: Vec<String> = others.iter().map(|word| ui::path(word)).collect();
        bail!(
            "--hist takes one function, or globs with commas between, beside the traces{}",
            match others.is_empty() {
                true => "; each word here is a file".to_owned(),
                false => format!(": no file is named {}", others.join(", ")),
            }
        );
    };
    if traces.is_empty() {
        bail!("--hist {}: of which trace?", ui::path(function));
    }
    let functions = selection::filter(&function.to_string_lossy()).map_err(Error::msg)?;
    Ok((traces.into_iter().cloned().collect(), functions))
}

/// Shows the distributions of each trace.
pub(super) fn run(options: &Options) -> anyhow::Result<Status> {
    let (traces, functions) = words(options)?;
    let alone = options.output.as_ref().map(|_| "-o");
    each_trace(&traces, alone, |trace, series| {
        one(options, &functions, trace, series)
    })
}

fn one(
    options: &Options,
    functions: &Filter,
    trace: &Path,
    series: &mut Series,
) -> anyhow::Result<Status> {
    if let Some(output) = &options.output {
        output_file::check_is_not(output, trace)?;
        output_file::check(output, Shape::File, options.force)?;
    }
    let source = options.selection.open(trace, Filtering::Calls)?;
    let info = source.info();
    if trace::is_timeless(info) {
        anyhow::bail!("{}: the calls of this trace have no times", ui::path(trace));
    }
    memory::grows("the durations of calls");
    let figures = Figures::read(trace, &*source, false)?;
    let found = find(options, functions, trace, info, figures)?;
    if let Some(output) = &options.output {
        let Some(first) = found.list.first() else {
            return Ok(Status::Done);
        };
        if found.list.len() + found.hidden > 1 {
            let name = ui::clean(&first.row.name);
            ui::complain(&format!(
                "--hist: these are several functions; the picture is of {name}"
            ));
        }
        output_file::write(output, options.force, |out| {
            picture::draw(out, info, first, found.is_whole_run)
        })?;
        return Ok(Status::Done);
    }
    ui::print(|out| {
        if options.json {
            return json::write(out, &trace.to_string_lossy(), info, &found);
        }
        out.write_all(series.heading(trace).as_bytes())?;
        show::write(out, &found)
    })?;
    Ok(Status::Done)
}

fn find(
    options: &Options,
    functions: &Filter,
    trace: &Path,
    info: &TraceInfo,
    figures: Figures,
) -> anyhow::Result<Distributions> {
    let mut of_records: BTreeMap<FunctionId, Durations> = BTreeMap::new();
    for (id, stats) in &figures.functions {
        if functions.matches(&name_of(info, *id)) {
            of_records.insert(*id, Durations::of_records(&stats.measured, &info.clock));
        }
    }
    let called = figures.functions.keys();
    let called: Vec<String> = called.map(|&id| name_of(info, id)).collect();
    let selection = Selection {
        filter: Some(functions.clone()),
        sort: Key::Calls,
        reverse: false,
        limit: None,
        per_thread: false,
    };
    let mut report = Report::new(info, figures, &selection)?;
    trace::warn_of_damage(trace, &report.diagnostics, report.more_diagnostics);
    if !options.window && options.selection.is_everything() {
        report.show_whole(info, &selection)?;
    }
    if report.rows.is_empty() {
        let called: Vec<&str> = called.iter().map(String::as_str).collect();
        selection::complain_of_none("FUNCTION", functions, &called, "called function");
    }
    let of_run = match report.is_whole {
        true => totals(info),
        false => BTreeMap::new(),
    };
    let limit = options.limit.map(NonZeroUsize::get);
    let most = limit.unwrap_or(if options.json {
        usize::MAX
    } else {
        DEFAULT_FUNCTIONS
    });
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
    Ok(Distributions {
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

/// The modes in words. `None`: there are too few calls for modes.
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
