//! `fdr state`: what the threads were in the middle of at a moment.
//!
//! A state history is looked up; of any other trace all events are read, in constant memory.

mod show;
mod states;
mod waiting;

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::tcstate::state::State;
use fdr_formats::tcstate::{self, TcstateSource};
use fdr_formats::{Clock, Source, ThreadId, Ticks, TraceInfo, source};

use super::{Status, Traces};
use crate::commands::Series;
use crate::output_file::Pending;
use crate::report::waits::OpenWait;
use crate::selection::moment::{self, MomentOption, Span};
use crate::selection::{self, Filtering, Selection};
use crate::tally::Tally;
use crate::task_stacks::{self, TaskStacks};
use crate::trace;
use crate::ui::{self, Progress};
use crate::windows::is_cut;
use crate::{clock, input, memory};
use states::ThreadState;
use waiting::CallsAndWaits;

const HELP: &str = "\
An event at exactly that time has happened.

Of each thread you see the open calls, outermost first, with the time since
their entry. It is at least that time if the entry is overwritten. If the
thread's records of that moment are overwritten, fdr says so.
Of each CPU you see the thread that ran there last. A call that the recorder
had to close at the end of the trace is still open there. If a thread waited
for a lock of fdr::sync, you see the lock, and who held it when the wait began.
The open tasks (async functions) follow as stacks: each task awaits the next
one. You see for how long a task has been open, how often it was polled, its
arguments, and its last event. Stacks of the same functions are one entry.
If the trace has the states of threads, you see whether each
thread ran, was preempted or waited, and since when.
Of a state history you see all other attributes, too.

--snapshot writes Trace Compass's own format. Trace Compass starts its analysis
from the file TRACE/.tc-states/NAME.snapshot.json.

Examples:
  fdr state crash.fdr            what was running when it crashed
  fdr state --at -250ms app.fdr  a quarter of a second before the end
  fdr state --at +1.5s --thread main app.fdr
  fdr state --at 12:30:01.5 --json app.fdr | jq '.attributes[]'";

fn help() -> String {
    let moments = selection::MOMENTS;
    format!("A moment (--at, --since, --until) is one of these:\n{moments}\n\n{HELP}")
}

/// Show what ran at one moment: open calls, and the thread of each CPU
#[derive(clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// The moment; see below
    #[arg(short, long, value_name = "MOMENT", value_parser = moment::parse, default_value = "end", allow_hyphen_values = true)]
    at: MomentOption,
    #[command(flatten)]
    selection: Selection,
    /// Print JSON: every attribute of the state with its path, times in nanoseconds
    #[arg(long)]
    json: bool,
    /// Write Trace Compass's own state snapshot into this new file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "thread"])]
    snapshot: Option<PathBuf>,
}

/// A state, and the remarks beside it.
struct Answer<'a> {
    trace: &'a Path,
    info: &'a TraceInfo,
    span: Span,
    state: State,
    /// The threads that were asked for; `None`: all.
    threads: Option<Vec<ThreadId>>,
    /// The threads that waited for a lock, a condition or a channel.
    waiting: Vec<OpenWait>,
    tasks: TaskStacks,
    /// Whether threads ran or waited.
    states: Vec<ThreadState>,
    /// Threads whose older records are overwritten, and where their records begin, in ns.
    begins: BTreeMap<u64, i64>,
}

impl Answer<'_> {
    /// Where the records of a thread begin, if its records of that moment are overwritten.
    fn overwritten(&self, thread: u64) -> Option<i64> {
        let begin = self.begins.get(&thread).copied();
        begin.filter(|begin| self.state.time < *begin)
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let alone = options.snapshot.as_ref().map(|_| "--snapshot");
    options
        .traces
        .each_or_one(alone, |trace, series| one(options, trace, series))
}

fn one(options: &Options, path: &Path, series: &mut Series) -> anyhow::Result<Status> {
    if options.selection.is_of_threads() && path.is_dir() && tcstate::is_history(path) {
        let source = TcstateSource::open(path).map_err(|error| trace::about(path, error))?;
        trace::warn_of_damage(path, source.diagnostics(), 0);
        // As of any other trace: beyond the calls, most states are not known.
        let calls = source.calls();
        let calls = calls.filter(|_| !source.info().schedule.is_empty());
        let (start, end) = calls.unwrap_or_else(|| source.range());
        let span = Span { start, end };
        let time = span.find(&options.at, &source.info().clock)?;
        let state = source.state(time);
        let state = state.map_err(|error| trace::about(path, error))?;
        // A history is made to be looked up: all of it is read only where records may be overwritten.
        let begins = match source.info().threads.iter().any(is_cut) {
            true => {
                let tally = Tally::count(&source).map_err(|error| trace::about(path, error))?;
                begins(&tally, &source.info().clock)
            }
            false => BTreeMap::new(),
        };
        let moment = Moment {
            span,
            state,
            waiting: Vec::new(),
            tasks: TaskStacks::default(),
            begins,
        };
        return answer(options, path, series, source.info(), moment);
    }
    let mut source = input::open(path)?;
    // Without a window, moments are those of the whole trace, whatever is shown of it.
    if options.selection.has_window() {
        source = options.selection.select(source, path, Filtering::Calls)?;
    }
    let tally = Tally::count(&*source).map_err(|error| trace::about(path, error))?;
    trace::warn_of_damage(path, &tally.diagnostics, tally.more_diagnostics);
    if !options.selection.has_window() {
        source = options.selection.select(source, path, Filtering::Calls)?;
    }
    let info = source.info();
    let Some(span) = Span::from_tally(&tally, &info.clock) else {
        bail!(
            "{}: no thread has entered or left a function",
            ui::path(path)
        );
    };
    let time = span.find(&options.at, &info.clock)?;
    let mut sink = CallsAndWaits::new(time, info);
    let progress = Progress::new(&*source);
    let driven = source::drive(&*source, &mut sink, &|bytes| progress.add(bytes));
    drop(progress);
    driven.map_err(|error| trace::about(path, error))?;
    let has_tasks = sink.has_tasks(info);
    let (mut state, waiting) = sink.finish(info);
    show::date_early_calls(info, &mut state);
    let tasks = match has_tasks {
        true => tasks(options, path, &*source, &tally, time)?,
        false => TaskStacks::default(),
    };
    let moment = Moment {
        span,
        state,
        waiting,
        tasks,
        begins: begins(&tally, &info.clock),
    };
    answer(options, path, series, info, moment)
}

/// The tasks that were open at a time, in ns.
fn tasks(
    options: &Options,
    path: &Path,
    source: &dyn Source,
    tally: &Tally,
    time: i64,
) -> anyhow::Result<TaskStacks> {
    memory::grows("the tasks of the trace");
    let info = source.info();
    let behind = selection::first_tick(i128::from(time) + 1, &info.clock);
    let time = Ticks(behind.0.saturating_sub(1));
    let is_end = Span::ticks(tally).is_some_and(|(_, end)| time >= end);
    let windows = tally.windows();
    // Where all tasks wait, the trace was made long after its last record.
    let end = info.end.filter(|_| is_end).unwrap_or_default();
    let moment = task_stacks::Moment {
        time: time.max(end),
        is_end,
        is_whole: options.selection.is_of_whole_trace(),
        whole_since: windows.map_or(Ticks(0), |windows| windows.common()),
        first: None,
    };
    TaskStacks::read(source, moment).with_context(|| ui::path(path))
}

/// The threads whose older records are overwritten, and where their records begin.
fn begins(tally: &Tally, clock: &Clock) -> BTreeMap<u64, i64> {
    let in_ns = |ticks: Ticks| i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX);
    let cut = tally.threads().filter(|seen| is_cut(&seen.thread));
    cut.filter_map(|seen| Some((seen.thread.id.0, in_ns(seen.first?))))
        .collect()
}

/// A state, the begin and the end of the trace, and where the records of threads with overwritten records begin.
struct Moment {
    span: Span,
    state: State,
    waiting: Vec<OpenWait>,
    tasks: TaskStacks,
    begins: BTreeMap<u64, i64>,
}

fn answer(
    options: &Options,
    trace: &Path,
    series: &mut Series,
    info: &TraceInfo,
    moment: Moment,
) -> anyhow::Result<Status> {
    let Moment {
        span,
        state,
        waiting,
        tasks,
        begins,
    } = moment;
    if let Some(file) = &options.snapshot {
        write_snapshot(file, &state)?;
        return Ok(Status::Done);
    }
    let threads = options.selection.threads(info)?;
    let answer = Answer {
        trace,
        info,
        span,
        states: states::thread_states(info, state.time),
        state,
        threads,
        waiting,
        tasks,
        begins,
    };
    clock::warn(trace, &info.clock);
    ui::print(|out| {
        if options.json {
            return show::json(out, &answer);
        }
        out.write_all(series.heading(trace).as_bytes())?;
        show::text(out, &answer)
    })?;
    Ok(Status::Done)
}

fn write_snapshot(path: &Path, state: &State) -> anyhow::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let analysis = name.strip_suffix(".snapshot.json").unwrap_or(&name);
    if path.symlink_metadata().is_ok() {
        let text = ui::path(path);
        bail!("{text}: File exists, and is left as it is; give another name");
    }
    let (mut pending, file) = Pending::file(path, false)?;
    let mut out = BufWriter::new(file);
    // The version of the call stack analysis of Trace Compass 4.0 and up.
    let written = state.write_snapshot(&mut out, analysis, 3);
    written
        .and_then(|()| out.flush())
        .with_context(|| ui::path(path))?;
    pending.place()?;
    Ok(())
}
