//! `fdr overview`, and `fdr TRACE`: a trace on one screen.

use std::io::Write;
use std::path::Path;

use fdr_formats::{Source, TraceInfo};

use super::slow::tasks as slow_tasks;
use super::{Series, Status, Traces};
use crate::calls::findings::{self, Findings};
use crate::calls::query::Query;
use crate::calls::words::{cpu_time, idle, same_cause, sentence};
use crate::report::all::ALL;
use crate::report::names::name_of;
use crate::report::rows::Report;
use crate::report::table;
use crate::report::table_style::TableStyle;
use crate::report::tasks::rows::{TableOptions, Tasks};
use crate::report::tasks::show as task_table;
use crate::report::tasks::task_table::TraceTasks;
use crate::{input, memory, trace, ui};

/// Functions, and functions of tasks, that are shown.
const MAX_ROWS: usize = 5;
/// Causes of slow calls that are shown.
const MAX_CAUSES: usize = 3;
/// Records up to which slow calls are looked for. In a larger trace that takes seconds.
const MAX_RECORDS: u64 = 5_000_000;

const HELP: &str = "\
One screen: what ended the recording, the tasks, the functions with the most
self time, what threads waited for, what is missing, the causes of slow calls,
and, if threads' states are known, how much CPU time is in no traced call. `fdr
TRACE` is the same. fdr report, fdr slow and fdr view show all of it. In a trace
of more than five million records, fdr slow looks for slow calls.

Examples:
  fdr overview app.fdr
  fdr app.fdr";

/// Show a trace on one screen: where the time went, what was slow
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    options.traces.each(one)
}

fn one(trace: &Path, series: &mut Series) -> anyhow::Result<Status> {
    let source = input::open(trace)?;
    let source = &*source;
    let info = source.info();
    memory::grows("the figures of functions and threads");
    let mut report = Report::of_all(trace, source)?;
    let tasks = match report.has_tasks() {
        true => Some(tasks_of(trace, source)?),
        false => None,
    };
    let is_large = report.records() > MAX_RECORDS;
    let looks = !is_large && !report.timeless;
    let slow = match looks {
        true => {
            let query = Query::of_causes(MAX_CAUSES, true);
            Some(findings::find(&query, trace, source, &report)?)
        }
        false => None,
    };
    let slow_tasks = match looks && tasks.is_some() {
        true => {
            let query = Query::of_tasks(MAX_CAUSES, true);
            Some(slow_tasks::find(&query, None, trace, source, &report)?)
        }
        false => None,
    };
    report.show_whole(info, &ALL)?;
    report.limit(MAX_ROWS);
    ui::print(|out| {
        out.write_all(series.heading(trace).as_bytes())?;
        let style = TableStyle {
            places: false,
            colour: ui::colour(),
            columns: ui::columns(),
            timeless: report.timeless,
            ends_early: false,
        };
        table::write_head(out, info, &report, style)?;
        let occasion = trace::occasion(info);
        if !occasion.is_empty() && info.failed_thread().is_none() && info.trigger().is_none() {
            writeln!(out, "written {}", ui::clean(&occasion))?;
        }
        writeln!(out)?;
        if let Some(tasks) = &tasks {
            if let Some(line) = task_table::open_in_words(&tasks.open) {
                writeln!(out, "{}", ui::paragraph(&line, 2))?;
            }
            task_table::write_table(out, tasks, None)?;
            writeln!(out)?;
        }
        table::write_figures(out, &report, style)?;
        if let Some(found) = slow_tasks.filter(|found| !found.list.is_empty()) {
            writeln!(out, "\nSlow tasks:")?;
            slow_tasks::show::write_short(out, info, &found)?;
        }
        if let Some(found) = &slow {
            write_causes(out, info, found)?;
        } else if is_large {
            let records = ui::count(MAX_RECORDS);
            let line = format!("Of more than {records} records, fdr slow finds the slow calls.");
            writeln!(out, "\n{}", ui::paragraph(&line, 2))?;
        }
        write_next(out, trace, tasks.is_some())
    })?;
    Ok(Status::Done)
}

fn tasks_of(trace: &Path, source: &dyn Source) -> anyhow::Result<Tasks> {
    let found = TraceTasks::read(source, None);
    let found = found.map_err(|error| trace::about(trace, error))?;
    let options = TableOptions {
        limit: Some(MAX_ROWS),
        ..TableOptions::all(true)
    };
    Ok(Tasks::new(source.info(), &found, &options)?)
}

/// The causes of slow calls, each in a few lines.
fn write_causes(out: &mut dyn Write, info: &TraceInfo, found: &Findings) -> anyhow::Result<()> {
    let heading = match found.list.is_empty() {
        true => "No call is far slower than its function usually is.",
        false => "Slow calls:",
    };
    writeln!(out, "\n{heading}")?;
    for finding in &found.list {
        let took = |ticks| ui::duration(info.clock.nanos(fdr_formats::Ticks(ticks)).0);
        let name = ui::clean(&name_of(info, finding.call.function)).into_owned();
        let same = same_cause(info, finding);
        let same = same.map_or_else(String::new, |words| format!(" ({words})"));
        let line = format!(
            "  {} {name}{same}: {}",
            took(finding.call.total),
            sentence(info, finding)
        );
        writeln!(out, "{}", ui::paragraph(&line, 4))?;
    }
    for line in [idle(info, found), cpu_time(info, found)].iter().flatten() {
        writeln!(out, "\n{}", ui::paragraph(line, 2))?;
    }
    Ok(())
}

/// The commands that show all of it.
fn write_next(out: &mut dyn Write, trace: &Path, has_tasks: bool) -> anyhow::Result<()> {
    if input::is_standard(trace) {
        return Ok(());
    }
    let trace = ui::shell(trace);
    let width = "fdr report ".len() + trace.chars().count();
    writeln!(out, "\nNext:")?;
    let what_is_slow = match has_tasks {
        true => "the slow tasks and calls, and why",
        false => "the slow calls, and why",
    };
    for (command, what) in [
        ("report", "all functions"),
        ("slow", what_is_slow),
        ("view", "all threads in a browser"),
    ] {
        writeln!(
            out,
            "  {:<width$}  {what}",
            format!("fdr {command} {trace}")
        )?;
    }
    Ok(())
}
