//! Figures per function: how many tasks there were, how they ended, and how long they were polled and waited. The
//! recorder's totals count each task of the run. Notes tell of those that have a note. A task that the totals count is
//! never counted by its note, too.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fdr_formats::filter::Filter;
use fdr_formats::lengths;
use fdr_formats::model::FunctionTotals;
use fdr_formats::notes::task_state;
use fdr_formats::tasks::TotalKind;
use fdr_formats::{Clock, Function, FunctionId, Ticks, TraceInfo};
use serde::Serialize;

use super::task_table::{Task, TraceTasks};
use crate::memory;
use crate::report::names::{name_of, place_of};
use crate::report::query::Key;
use crate::report::task_totals::all_totals;
use crate::report::whole;

/// The tasks of one function, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    /// The value of the field that tasks are grouped by.
    pub(crate) by: Option<String>,
    pub(crate) tasks: u64,
    pub(crate) finished: u64,
    /// Dropped before their end, also by a panic.
    pub(crate) dropped: u64,
    /// Of those, dropped before the first poll.
    pub(crate) never_polled: u64,
    pub(crate) unfinished: u64,
    /// Time of all polls.
    pub(crate) busy_ns: u64,
    pub(crate) busy_mean_ns: Option<u64>,
    pub(crate) busy_p50_ns: Option<u64>,
    pub(crate) busy_p99_ns: Option<u64>,
    /// Time between polls.
    pub(crate) waiting_ns: u64,
    /// From the first poll to the end, of those that finished.
    pub(crate) elapsed_ns: u64,
    pub(crate) elapsed_mean_ns: Option<u64>,
    pub(crate) elapsed_p50_ns: Option<u64>,
    pub(crate) elapsed_p90_ns: Option<u64>,
    pub(crate) elapsed_p99_ns: Option<u64>,
    pub(crate) elapsed_max_ns: Option<u64>,
}

/// A task that has not ended, as far as its last note tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct OpenTask {
    pub(crate) id: u64,
    pub(crate) parent: Option<u64>,
    pub(crate) name: String,
    pub(crate) by: Option<String>,
    /// The thread that polled it last.
    pub(crate) thread: u64,
    pub(crate) elapsed_ns: u64,
    /// Since its last poll.
    pub(crate) waits_ns: u64,
    pub(crate) busy_ns: u64,
    pub(crate) polls: u64,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct TableOptions<'a> {
    pub(crate) filter: Option<&'a Filter>,
    pub(crate) sort: Key,
    pub(crate) reverse: bool,
    pub(crate) limit: Option<usize>,
    /// The figures are of the whole run, where the trace has them.
    pub(crate) whole: bool,
    /// Tasks are grouped by a field.
    pub(crate) by: bool,
}

impl TableOptions<'static> {
    /// All tasks by function, those with the longest polls first.
    pub(crate) fn all(whole: bool) -> TableOptions<'static> {
        TableOptions {
            filter: None,
            sort: Key::Own,
            reverse: false,
            limit: None,
            whole,
            by: false,
        }
    }
}

/// The tasks of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tasks {
    pub(crate) rows: Vec<Row>,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
    /// The figures are of the whole run.
    pub(crate) is_whole: bool,
    /// The longest first.
    pub(crate) open: Vec<OpenTask>,
    /// Functions whose calls were only counted for a while. Tasks that began then are not known.
    pub(crate) only_counted: Vec<String>,
}

/// The sums of one function, in ticks.
#[derive(Clone, Debug, Default)]
struct Sums {
    function: FunctionId,
    begun: u64,
    finished: FunctionTotals,
    dropped: FunctionTotals,
    busy: FunctionTotals,
    /// Of unfinished tasks that are known.
    open: u64,
    open_busy: u64,
    open_waiting: u64,
}

impl Tasks {
    /// Sums up the tasks of a trace.
    ///
    /// # Errors
    /// Where the rows take too much memory.
    pub(crate) fn new(
        info: &TraceInfo,
        trace_tasks: &TraceTasks,
        options: &TableOptions<'_>,
    ) -> io::Result<Tasks> {
        let mut sums: BTreeMap<(String, Option<String>), Sums> = BTreeMap::new();
        let is_whole = options.whole && !options.by && whole::has_figures(info);
        if is_whole {
            add_totals(info, &mut sums);
        }
        let value = |task: &Task| task.value.clone().filter(|_| options.by);
        let end = info.end.unwrap_or_default().max(trace_tasks.last);
        let mut open: Vec<(u64, &Task)> = Vec::new();
        for (id, task) in &trace_tasks.tasks {
            memory::check()?;
            let name = name_of(info, task.function);
            let sum = sums.entry((name, value(task))).or_default();
            sum.function = task.function;
            sum.add(task, is_whole);
            if !task.has_ended() {
                open.push((*id, task));
            }
        }
        // The last note of a task may be overwritten although an older note is not, so some of these tasks may have
        // ended. The tasks with the latest notes count as open.
        open.sort_by_key(|(id, task)| (std::cmp::Reverse(task.time), *id));
        open.retain(|(_, task)| {
            let name = name_of(info, task.function);
            let sum = sums.get_mut(&(name, value(task)));
            sum.is_some_and(|sum| sum.add_open(task, end))
        });
        let open = open.into_iter();
        let mut open: Vec<OpenTask> = open
            .map(|(id, task)| open_task(info, id, task, end))
            .collect();
        let rows = sums.into_iter();
        let rows = rows.map(|((name, by), sum)| row(info, name, by, &sum));
        let mut rows: Vec<Row> = rows.filter(|row| row.tasks > 0).collect();
        let is_shown = |name: &str| options.filter.is_none_or(|filter| filter.matches(name));
        rows.retain(|row| is_shown(&row.name));
        open.retain(|task| is_shown(&task.name));
        open.sort_by(|a, b| b.elapsed_ns.cmp(&a.elapsed_ns).then(a.id.cmp(&b.id)));
        sort(&mut rows, options);
        let only_counted = only_counted(info, &rows, is_whole);
        let all = rows.len();
        rows.truncate(options.limit.unwrap_or(all));
        Ok(Tasks {
            only_counted,
            hidden: all - rows.len(),
            rows,
            is_whole,
            open,
        })
    }
}

/// The functions of these tasks that have calls without a time. Only the whole run knows them.
fn only_counted(info: &TraceInfo, rows: &[Row], is_whole: bool) -> Vec<String> {
    let threads = info.threads.iter().flat_map(|thread| &thread.totals);
    let counted = threads.chain(&info.missing_totals).filter(|totals| {
        let is_timed = |function: &Function| !function.untimed;
        is_whole && totals.untimed > 0 && info.function(totals.function).is_some_and(is_timed)
    });
    let names: BTreeSet<String> = counted
        .map(|totals| name_of(info, totals.function))
        .collect();
    let rows = rows.iter().map(|row| &row.name);
    rows.filter(|name| names.contains(*name)).cloned().collect()
}

fn add_totals(info: &TraceInfo, sums: &mut BTreeMap<(String, Option<String>), Sums>) {
    for (name, counted, totals) in all_totals(info) {
        let sum = sums.entry((name.to_owned(), None)).or_default();
        if sum.function == FunctionId(0) {
            sum.function = totals.function;
        }
        match counted {
            TotalKind::Finished => sum.finished.add(totals),
            TotalKind::Dropped => {
                sum.dropped.add(totals);
                // They began nowhere else.
                sum.begun += totals.untimed;
            }
            TotalKind::Busy => {
                sum.busy.add(totals);
                sum.begun += totals.untimed;
            }
        }
    }
}

impl Sums {
    /// Adds what a note tells, except what the totals have.
    fn add(&mut self, task: &Task, is_whole: bool) {
        let (begun, ended) = match is_whole {
            true => (task.counted & 1 == 0, task.counted & 2 == 0),
            false => (true, true),
        };
        self.begun += u64::from(begun);
        if !task.has_ended() || !ended {
            return;
        }
        if task.polls == 0 {
            self.dropped.untimed += 1;
            return;
        }
        let one = |total: u64, own: u64| FunctionTotals {
            calls: 1,
            total: Ticks(total),
            own: Ticks(own),
            longest: Ticks(total),
            lengths: vec![(lengths::class(total) as u8, 1)],
            ..FunctionTotals::default()
        };
        let busy = task.busy.min(task.elapsed);
        match task.state {
            task_state::FINISHED => self.finished.add(&one(task.elapsed, busy)),
            _ => self.dropped.add(&one(task.elapsed, busy)),
        }
        self.busy.add(&one(busy, busy));
    }
}

impl Sums {
    /// Tasks that finished or were dropped.
    fn ended(&self) -> u64 {
        self.finished.calls + self.dropped.calls + self.dropped.untimed
    }

    /// Adds what is known of a task that has not ended. False: all tasks that have not ended are known.
    fn add_open(&mut self, task: &Task, end: Ticks) -> bool {
        if self.open >= self.begun.saturating_sub(self.ended()) {
            return false;
        }
        self.open += 1;
        self.open_busy = self.open_busy.saturating_add(task.busy);
        let so_far = task.elapsed.saturating_add(end.since(task.time).0);
        let waiting = so_far.saturating_sub(task.busy);
        self.open_waiting = self.open_waiting.saturating_add(waiting);
        true
    }
}

fn row(info: &TraceInfo, name: String, by: Option<String>, sum: &Sums) -> Row {
    let nanos = |ticks: u64| info.clock.nanos(Ticks(ticks)).0;
    let nanos_of = |ticks: Option<Ticks>| ticks.map(|ticks| nanos(ticks.0));
    let mean = |totals: &FunctionTotals| totals.total.0.checked_div(totals.calls).map(nanos);
    let (file, line) = place_of(info, sum.function);
    let (finished, dropped) = (&sum.finished, &sum.dropped);
    let ended = sum.ended();
    let waited = |totals: &FunctionTotals| totals.total.since(totals.own).0;
    let waiting = waited(finished).saturating_add(waited(dropped));
    Row {
        file,
        line,
        tasks: sum.begun.max(ended),
        finished: finished.calls,
        dropped: dropped.calls + dropped.untimed,
        never_polled: dropped.untimed,
        unfinished: sum.begun.saturating_sub(ended),
        busy_ns: nanos(sum.busy.total.0.saturating_add(sum.open_busy)),
        busy_mean_ns: mean(&sum.busy),
        busy_p50_ns: nanos_of(sum.busy.quantile(50)),
        busy_p99_ns: nanos_of(sum.busy.quantile(99)),
        waiting_ns: nanos(waiting.saturating_add(sum.open_waiting)),
        elapsed_ns: nanos(finished.total.0),
        elapsed_mean_ns: mean(finished),
        elapsed_p50_ns: nanos_of(finished.quantile(50)),
        elapsed_p90_ns: nanos_of(finished.quantile(90)),
        elapsed_p99_ns: nanos_of(finished.quantile(99)),
        elapsed_max_ns: (finished.calls > 0).then(|| nanos(finished.longest.0)),
        name,
        by,
    }
}

fn open_task(info: &TraceInfo, id: u64, task: &Task, end: Ticks) -> OpenTask {
    let clock: &Clock = &info.clock;
    let waits = end.since(task.time).0;
    OpenTask {
        id,
        parent: Some(task.parent).filter(|&parent| parent != 0),
        name: name_of(info, task.function),
        by: task.value.clone(),
        thread: task.thread.0,
        elapsed_ns: clock.nanos(Ticks(task.elapsed.saturating_add(waits))).0,
        waits_ns: clock.nanos(Ticks(waits)).0,
        busy_ns: clock.nanos(Ticks(task.busy)).0,
        polls: task.polls,
    }
}

/// Sorts rows. Here, times are from the first poll to the end, and self time is the time of the polls.
fn sort(rows: &mut [Row], options: &TableOptions<'_>) {
    let value = |row: &Row| match options.sort {
        Key::Name | Key::Min => None,
        Key::Running | Key::Preempted | Key::Waiting => None,
        Key::Calls => Some(row.tasks),
        Key::Total => Some(row.elapsed_ns),
        Key::Own => Some(row.busy_ns),
        Key::Mean => row.elapsed_mean_ns,
        Key::P50 => row.elapsed_p50_ns,
        Key::P90 => row.elapsed_p90_ns,
        Key::P99 => row.elapsed_p99_ns,
        Key::Max => row.elapsed_max_ns,
    };
    rows.sort_by(|a, b| {
        let order = value(b).cmp(&value(a));
        let order = order.then_with(|| (&a.name, &a.by).cmp(&(&b.name, &b.by)));
        match options.reverse {
            true => order.reverse(),
            false => order,
        }
    });
}
