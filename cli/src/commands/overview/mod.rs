//! `fdr overview`, and `fdr TRACE`: a trace on one screen.

mod screen;

use std::path::Path;

use fdr_formats::{Source, Ticks, TraceInfo};

use self::screen::{Screen, Section};
use super::slow::tasks::{self as slow_tasks, SlowTasks};
use super::{Series, Status, Traces};
use crate::calls::finding::Finding;
use crate::calls::findings::{self, Findings};
use crate::calls::last_panic::LastPanic;
use crate::calls::query::Query;
use crate::calls::words::{cpu_time_in_short, idle, same_cause, sentence};
use crate::report::all::ALL;
use crate::report::names::name_of;
use crate::report::notes::{heading_of_records, records, scope_in_words};
use crate::report::rows::Report;
use crate::report::table_style::TableStyle;
use crate::report::tasks::rows::{TableOptions, Tasks};
use crate::report::tasks::show as task_table;
use crate::report::tasks::task_table::TraceTasks;
use crate::report::{table, wait_table};
use crate::{input, memory, trace, ui};

/// Functions, and functions of tasks, that are shown.
const MAX_ROWS: usize = 5;
/// Causes of slow calls that are shown, slow tasks, and what threads waited for.
const MAX_CAUSES: usize = 3;
/// Records up to which slow calls are looked for. In a larger trace that takes seconds.
const MAX_RECORDS: u64 = 5_000_000;

const HELP: &str = "\
One screen of 80 columns and 24 lines: what ended the recording, what is
missing, the functions with the most self time, the tasks, the causes of slow
calls, what threads waited for, and the next command. If threads' states are
known, also how much CPU time is in no traced call. What does not fit is left
out, the least useful first. fdr report, fdr slow and fdr view show all of it.
`fdr TRACE` is the same. In a trace of more than five million records, fdr slow
looks for slow calls.

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

/// What is shown of a trace.
struct Overview<'a> {
    info: &'a TraceInfo,
    report: &'a Report,
    style: TableStyle,
    tasks: Option<Tasks>,
    slow_calls: Option<Findings>,
    slow_tasks: Option<SlowTasks>,
    /// The last panic, if no panic made the trace.
    last_panic: Option<LastPanic>,
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
    let looks = report.records() <= MAX_RECORDS && !report.timeless;
    let slow_calls = match looks {
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
    let last_panic = match info.failed_thread() {
        None if looks => LastPanic::find(source).map_err(|error| trace::about(trace, error))?,
        _ => None,
    };
    report.show_whole(info, &ALL)?;
    report.limit(MAX_ROWS);
    let overview = Overview {
        info,
        style: TableStyle {
            places: false,
            colour: ui::colour(),
            columns: ui::columns(),
            timeless: report.timeless,
            ends_early: false,
        },
        report: &report,
        tasks,
        slow_calls,
        slow_tasks,
        last_panic,
    };
    let screen = overview.screen(trace)?;
    ui::print(|out| {
        out.write_all(series.heading(trace).as_bytes())?;
        out.write_all(screen.text().as_bytes())?;
        Ok(())
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

impl Overview<'_> {
    /// All sections. What has a smaller rank is more useful.
    fn screen(&self, trace: &Path) -> anyhow::Result<Screen> {
        let mut screen = Screen::new(self.style.columns);
        screen.add(self.head());
        screen.add(self.functions()?);
        screen.add(self.tasks()?);
        screen.add(self.slow());
        screen.add(self.waits());
        screen.add(self.next(trace));
        Ok(screen)
    }

    /// What the trace is of, what ended it, and what is missing.
    fn head(&self) -> Section {
        let (info, report) = (self.info, self.report);
        let mut head = Section::default();
        let format = || ui::clean(&info.format).into_owned();
        let program = trace::program(info).unwrap_or_else(format);
        head.facts(0, format!("{program} · {}", table::size_in_words(report)));
        let is_failure = info.failed_thread().is_some();
        if is_failure || info.trigger().is_some() {
            head.text(0, &ui::clean(&trace::reason(info)));
        } else if let occasion = trace::occasion(info)
            && !occasion.is_empty()
        {
            head.text(0, &format!("written {}", ui::clean(&occasion)));
        }
        if let Some(panic) = &self.last_panic {
            head.text(0, &format!("the last panic: {}", panic.in_words(info)));
        }
        // Where a program failed, the calls that were open are the place.
        let rank = if is_failure { 1 } else { 4 };
        let open = table::open_in_words(info, &report.open, false, self.style.columns);
        head.text(rank, &open.unwrap_or_default());
        let waiting = wait_table::open_in_words(info, &report.waits.open, false);
        head.text(rank, &waiting.unwrap_or_default());
        head.text(1, &scope_in_words(report));
        if !report.has_all_records()
            && report
                .counts()
                .is_some_and(|all| all.readable < all.recorded)
        {
            head.text(1, &records(report).unwrap_or_default());
        }
        head.text(1, &trace::missing(&report.missing).unwrap_or_default());
        head
    }

    fn functions(&self) -> anyhow::Result<Section> {
        let mut text = Vec::new();
        let note = table::write_function_rows(&mut text, self.report, self.style)?;
        let mut section = Section::of_table(lines(&text));
        section.text(2, &note.unwrap_or_default());
        Ok(section)
    }

    fn tasks(&self) -> anyhow::Result<Section> {
        let Some(tasks) = self.tasks.as_ref().filter(|tasks| !tasks.rows.is_empty()) else {
            return Ok(Section::default());
        };
        let mut text = Vec::new();
        task_table::write_rows(&mut text, tasks)?;
        let mut section = Section::of_table(lines(&text));
        section.text(
            8,
            &task_table::open_in_words(&tasks.open).unwrap_or_default(),
        );
        Ok(section)
    }

    /// The causes of slow tasks and calls. The first task is followed by the first call.
    fn slow(&self) -> Section {
        let heading = heading_of_records(self.report, "Slow");
        let mut slow = Section::with_heading(heading.unwrap_or_else(|| "Slow:".to_owned()));
        let info = self.info;
        let tasks = self.slow_tasks.iter().flat_map(|found| &found.list);
        let tasks: Vec<String> = tasks
            .map(|task| slow_tasks::show::in_short(info, task))
            .collect();
        let calls = self.slow_calls.iter().flat_map(|found| &found.list);
        let calls: Vec<String> = calls.map(|finding| in_short(info, finding)).collect();
        // Where a program failed, other calls tell more.
        let first = if info.failed_thread().is_some() { 4 } else { 2 };
        for (rank, text) in [first, 6, 7].into_iter().zip(&tasks) {
            slow.text(rank, &format!("  {text}"));
        }
        let ranks = match tasks.is_empty() {
            true => [first, 5, 6],
            false => [5, 6, 7],
        };
        for (rank, text) in ranks.into_iter().zip(&calls) {
            slow.text(rank, &format!("  {text}"));
        }
        match &self.slow_calls {
            None if self.report.timeless => return Section::default(),
            None => {
                let records = ui::count(MAX_RECORDS);
                slow = Section::default();
                slow.text(
                    1,
                    &format!("Of more than {records} records, fdr slow finds the slow calls."),
                );
            }
            Some(_) if tasks.is_empty() && calls.is_empty() => {
                slow = Section::default();
                slow.text(6, "No call is far slower than its function usually is.");
            }
            Some(_) => {}
        }
        if let Some(found) = &self.slow_calls {
            slow.text(8, &cpu_time_in_short(info, found).unwrap_or_default());
            slow.text(8, &idle(info, found).unwrap_or_default());
        }
        slow
    }

    fn waits(&self) -> Section {
        let heading = heading_of_records(self.report, "Waits");
        let mut waits = Section::with_heading(heading.unwrap_or_else(|| "Waits:".to_owned()));
        let rows = self.report.waits.rows.iter();
        for (rank, row) in [2, 5, 6]
            .into_iter()
            .zip(rows.filter(|_| !self.report.timeless))
        {
            waits.text(rank, &format!("  {}", wait_table::in_short(row)));
        }
        waits
    }

    /// The next command.
    fn next(&self, trace: &Path) -> Section {
        let mut next = Section::default();
        if input::is_standard(trace) {
            return next;
        }
        let is_slow = self
            .slow_calls
            .as_ref()
            .is_some_and(|found| !found.list.is_empty())
            || self
                .slow_tasks
                .as_ref()
                .is_some_and(|found| !found.list.is_empty());
        let (command, what) = match () {
            () if self.info.failed_thread().is_some() => ("state", "what each thread was in"),
            () if is_slow => ("slow", "why these were slow"),
            () => ("report", "all functions"),
        };
        let command = format!("Next: fdr {command} {}", ui::shell(trace));
        let line = format!("{command}  {what}");
        let fits = |columns| line.chars().count() <= columns;
        next.text(
            0,
            if self.style.columns.is_none_or(fits) {
                &line
            } else {
                &command
            },
        );
        next
    }
}

/// Lines of text that was written.
fn lines(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(text);
    text.lines().map(str::to_owned).collect()
}

/// A paragraph of a slow call.
fn in_short(info: &TraceInfo, finding: &Finding) -> String {
    let took = ui::duration(info.clock.nanos(Ticks(finding.call.total)).0);
    let name = name_of(info, finding.call.function);
    let same = same_cause(info, finding);
    let same = same.map_or_else(String::new, |words| format!(" ({words})"));
    let sentence = sentence(info, finding);
    format!("{took} {}{same}: {sentence}", ui::clean(&name))
}
