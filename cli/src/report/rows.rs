//! Figures as rows: ticks become nanoseconds, ids become names, rows are filtered and sorted.
//!
//! Outputs take their figures from here. Must never round twice: every time is converted from ticks once, in this file.

use std::collections::BTreeMap;
use std::io;

use clap::ValueEnum;
use fdr_formats::filter::Filter;
use fdr_formats::model::{Counts, Missing};
use fdr_formats::{Clock, Diagnostic, FunctionId, Ticks, TraceInfo};

use super::engine::{Figures, ThreadPart};
use super::events::EventRows;
use super::moments::Moments;
use super::open::early_call;
use super::stack::Flaws;
use super::states::{OfThreads, RowStates, RowsStates, ThreadStates, give, of_functions};
use super::stats::{OTHERS, Stats};
use super::tasks::rows::counted;
use super::waits::WaitRows;
use super::whole::{OfRecords, Whole, of_records};
use crate::clock::notes as clock_notes;
use crate::memory;
use crate::trace::is_timeless;
use crate::windows::{Windows, is_cut};

/// What rows are sorted by: numbers from the largest, names from A to Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    Name,
    Calls,
    Total,
    #[value(name = "self")]
    Own,
    Min,
    Mean,
    P50,
    P90,
    P99,
    Max,
    Running,
    Preempted,
    Waiting,
}

/// One function. Times without `Option` include clipped calls, the others measured calls only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) id: u32,
    pub(crate) calls: u64,
    pub(crate) clipped: u64,
    /// It has no times: those here are zeros, and none.
    pub(crate) untimed: bool,
    /// Calls of a timed function that were only counted. The times are estimated from the other calls.
    pub(crate) counted: u64,
    /// The total also counts calls inside calls of the same function, so that it is at most that much.
    pub(crate) nests: bool,
    /// Of the records, among rows of the whole run: the totals have no row for the function.
    pub(crate) of_records: bool,
    /// The standard error of the total, if calls were only counted.
    pub(crate) error_ns: Option<u64>,
    pub(crate) total_ns: u64,
    pub(crate) self_ns: u64,
    pub(crate) min_ns: Option<u64>,
    pub(crate) mean_ns: Option<u64>,
    pub(crate) p50_ns: Option<u64>,
    pub(crate) p90_ns: Option<u64>,
    pub(crate) p99_ns: Option<u64>,
    pub(crate) max_ns: Option<u64>,
    /// How long it ran, was preempted and waited, in the calls with records, if that is known.
    pub(crate) states: Option<RowStates>,
}

/// One thread.
#[derive(Clone, Debug)]
pub(crate) struct ThreadRow {
    pub(crate) id: u64,
    pub(crate) name: String,
    pub(crate) process: Option<u64>,
    /// Records in the trace, without synthetic ones.
    pub(crate) records: u64,
    pub(crate) synthetic: u64,
    /// Records that are missing between others.
    pub(crate) lost: u64,
    /// Places where its clock jumped or began anew.
    pub(crate) breaks: u64,
    /// Its calls without records, and the time that they took.
    pub(crate) short_calls: u64,
    pub(crate) short_ns: u64,
    pub(crate) duration_ns: u64,
    /// Its first and its last record, since the first record of the trace.
    pub(crate) window_ns: Option<(u64, u64)>,
    /// Older records are overwritten: the window says nothing of what comes before it.
    pub(crate) is_cut: bool,
    /// Self time of its functions, shown or not; 0 unless they were asked for.
    pub(crate) self_ns: u64,
    /// The recorder's own count, where the trace has it.
    pub(crate) counts: Option<Counts>,
    /// Its functions, where they were asked for.
    pub(crate) rows: Option<Vec<Row>>,
    /// What the records have of each, where they were asked for.
    pub(super) of_records: OfRecords,
    /// The states of these, by id, and of the thread.
    pub(super) rows_states: RowsStates,
    pub(crate) states: ThreadStates,
}

/// What a thread was in when the trace was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenRow {
    pub(crate) function: String,
    pub(crate) thread: u64,
    pub(crate) thread_name: String,
    /// For how long.
    pub(crate) open_ns: u64,
    /// When it began is known; else it may have been open for longer.
    pub(crate) entered: bool,
    /// Open calls of the thread, this innermost one among them.
    pub(crate) depth: u64,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) filter: Option<Filter>,
    pub(crate) sort: Key,
    /// The other way round.
    pub(crate) reverse: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) per_thread: bool,
}

/// A whole report, ready for any output.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// The rows of the whole run. `None`: the trace has none, or they are shown as `rows`.
    pub(crate) whole: Option<Whole>,
    /// The rows are of the whole run, from the recorder's totals.
    pub(crate) is_whole: bool,
    /// The rows are of the whole run, because each of its calls has its records in the trace.
    pub(crate) has_all: bool,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
    /// Self time of all functions, shown or not.
    pub(crate) self_ns: u64,
    /// The one that crashed, panicked or made the slow call comes first.
    pub(crate) threads: Vec<ThreadRow>,
    /// The innermost open call of each thread that is in one, as [`open_rows`] sorts them.
    pub(crate) open: Vec<OpenRow>,
    /// What `fdr ctl` marked.
    pub(crate) moments: Moments,
    /// Events and counters.
    pub(crate) events: EventRows,
    /// Waits for locks, conditions and channels.
    pub(crate) waits: WaitRows,
    /// That windows differ, in words.
    pub(crate) window_note: Option<String>,
    pub(crate) duration_ns: u64,
    /// The trace has no times: what is given as nanoseconds is steps.
    pub(crate) timeless: bool,
    pub(crate) flaws: Flaws,
    pub(crate) clipped: u64,
    /// Functions without times that were called, shown or not.
    pub(crate) untimed: usize,
    /// What passed in them, if it is not self time of their callers.
    pub(crate) untimed_ns: u64,
    /// Records of threads that are not in the trace.
    pub(crate) missing: Missing,
    /// Tasks that the recorder counted, if it did, and notes of tasks in the trace.
    pub(crate) tasks: (Option<u64>, u64),
    /// What is wrong with the clock, in words.
    pub(crate) clock_notes: Vec<String>,
    pub(crate) diagnostics: Vec<Diagnostic>,
    pub(crate) more_diagnostics: u64,
}

impl Report {
    /// Names, converts, filters and sorts.
    ///
    /// # Errors
    /// Where the rows take too much memory: each has its function's name, however many threads called it.
    pub(crate) fn new(
        info: &TraceInfo,
        mut figures: Figures,
        selection: &Selection,
    ) -> io::Result<Report> {
        let clock = &info.clock;
        let first = figures
            .threads
            .iter()
            .filter_map(|thread| thread.first)
            .min();
        let last = figures.threads.iter().map(|thread| thread.last).max();
        let own = figures
            .functions
            .values()
            .fold(0_u64, |sum, stats| sum.saturating_add(stats.own));
        let (rows, hidden) = rows(info, &figures.functions, selection)?;
        let events = EventRows::new(info, &figures.events, first.zip(last), selection)?;
        let end = info.end.into_iter().chain(last).max().unwrap_or_default();
        let threads = figures.threads.iter().map(|part| &part.thread);
        let since = |begin: Ticks| clock.nanos(end.since(begin)).0;
        let waiting = figures.waits.open(info, threads, since);
        let waits = WaitRows::new(info, &figures.waits, waiting, selection)?;
        let seen = figures.threads.iter();
        let windows = Windows::of(seen.map(|part| (&part.thread, part.first, part.last)));
        let windows = windows.filter(|_| !is_timeless(info));
        let open = open_rows(info, &figures.threads);
        let failed = info.thread_of_reason();
        figures
            .threads
            .sort_by_key(|part| (Some(part.thread.id) != failed, part.thread.id));
        let threads = figures.threads.into_iter();
        let states = OfThreads::new(info);
        let threads = threads.map(|thread| thread_row(info, thread, &states, first, selection));
        Ok(Report {
            whole: Whole::of(info, &figures.functions, selection)?,
            is_whole: false,
            has_all: false,
            open,
            moments: Moments::of(info, first),
            events,
            waits,
            window_note: windows.and_then(|windows| windows.note(clock)),
            rows,
            hidden,
            self_ns: nanos(clock, own),
            duration_ns: span(clock, first, last.unwrap_or_default()),
            timeless: is_timeless(info),
            clipped: figures.functions.values().map(|stats| stats.clipped).sum(),
            untimed_ns: 0,
            untimed: figures
                .functions
                .keys()
                .filter(|id| info.function(**id).is_some_and(|function| function.untimed))
                .count(),
            threads: threads.collect::<io::Result<_>>()?,
            flaws: figures.flaws,
            missing: info.missing,
            tasks: (counted(info), figures.task_notes),
            clock_notes: clock_notes(clock),
            diagnostics: figures.diagnostics,
            more_diagnostics: figures.more_diagnostics,
        })
    }

    /// Entries and exits in the trace, without synthetic ones.
    pub(crate) fn records(&self) -> u64 {
        self.threads.iter().map(|thread| thread.records).sum()
    }

    /// Records that are missing between others.
    pub(crate) fn lost(&self) -> u64 {
        let each = self.threads.iter().map(|thread| thread.lost);
        each.fold(0, u64::saturating_add)
    }

    /// Places where a thread's clock jumped or began anew.
    pub(crate) fn breaks(&self) -> u64 {
        self.threads.iter().map(|thread| thread.breaks).sum()
    }

    /// The calls without records, and the time that they took, in ns.
    pub(crate) fn short(&self) -> (u64, u64) {
        let each = self.threads.iter();
        each.fold((0, 0), |(calls, ns): (u64, u64), thread| {
            let calls = calls.saturating_add(thread.short_calls);
            (calls, ns.saturating_add(thread.short_ns))
        })
    }

    /// Whether nothing is missing that the program did while it was recorded.
    pub(crate) fn is_complete(&self) -> bool {
        let lost = self
            .counts()
            .is_some_and(|counts| counts.readable < counts.recorded);
        !lost
            && self.lost() == 0
            && self.breaks() == 0
            && self.clock_notes.is_empty()
            && self.missing == Missing::default()
            && self.clipped == 0
            && self.flaws == Flaws::default()
            && self.diagnostics.is_empty()
    }

    /// Records in the trace of the threads that have counts, without synthetic ones.
    pub(crate) fn counted_records(&self) -> u64 {
        let counted = self.threads.iter().filter(|thread| thread.counts.is_some());
        counted.map(|thread| thread.records).sum()
    }

    /// Records that were never written.
    pub(crate) fn dropped(&self) -> u64 {
        let of_threads = self.counts().map_or(0, |counts| counts.dropped);
        of_threads.saturating_add(self.missing.dropped)
    }

    /// The recorders' counts of all threads that have one. `None`: the trace has no counts.
    pub(crate) fn counts(&self) -> Option<Counts> {
        let mut counts = self.threads.iter().filter_map(|thread| thread.counts);
        let first = counts.next()?;
        Some(counts.fold(first, |sum, more| Counts {
            recorded: sum.recorded.saturating_add(more.recorded),
            readable: sum.readable.saturating_add(more.readable),
            overwritten: sum.overwritten.saturating_add(more.overwritten),
            dropped: sum.dropped.saturating_add(more.dropped),
            synthetic_entries: sum.synthetic_entries.saturating_add(more.synthetic_entries),
            synthetic_exits: sum.synthetic_exits.saturating_add(more.synthetic_exits),
            summarised: sum.summarised.saturating_add(more.summarised),
        }))
    }
}

fn nanos(clock: &Clock, ticks: u64) -> u64 {
    clock.nanos(Ticks(ticks)).0
}

fn span(clock: &Clock, first: Option<Ticks>, last: Ticks) -> u64 {
    first.map_or(0, |first| clock.nanos(last.since(first)).0)
}

/// What the threads were in when the trace was written: the one that the reason names first, then the
/// longest.
pub(crate) fn open_rows(info: &TraceInfo, threads: &[ThreadPart]) -> Vec<OpenRow> {
    let row = |part: &ThreadPart| {
        // A thread that had ended was in nothing: its calls end with its last record.
        let open = part.open.filter(|open| {
            info.end
                .is_none_or(|end| open.end > open.last || open.end >= end)
        })?;
        let early = early_call(&part.thread, open.depth, open.function);
        let start = early.map_or(open.start, |early| early.begin);
        Some(OpenRow {
            function: name_of(info, open.function),
            thread: part.thread.id.0,
            thread_name: part.thread.name.clone(),
            open_ns: info.clock.nanos(open.end.since(start)).0,
            entered: open.entered || early.is_some(),
            depth: open.depth,
        })
    };
    let mut rows: Vec<OpenRow> = threads.iter().filter_map(row).collect();
    let failed = info.thread_of_reason().map(|thread| thread.0);
    rows.sort_by_key(|row| {
        let others = Some(row.thread) != failed;
        (others, std::cmp::Reverse(row.open_ns), row.thread)
    });
    rows
}

fn thread_row(
    info: &TraceInfo,
    part: ThreadPart,
    states: &OfThreads,
    begin: Option<Ticks>,
    selection: &Selection,
) -> io::Result<ThreadRow> {
    let own = |()| Ok::<_, io::Error>(rows(info, &part.functions, selection)?.0);
    let since = |ticks: Ticks| span(&info.clock, begin, ticks);
    let own_ticks = part.functions.values();
    let own_ticks = own_ticks.fold(0_u64, |sum, stats| sum.saturating_add(stats.own));
    Ok(ThreadRow {
        window_ns: part.first.map(|first| (since(first), since(part.last))),
        is_cut: is_cut(&part.thread),
        rows_states: of_functions(info, &part.functions),
        of_records: of_records(info, &part.functions),
        self_ns: nanos(&info.clock, own_ticks),
        rows: selection.per_thread.then_some(()).map(own).transpose()?,
        states: states.of(&info.clock, part.thread.id, part.first, part.last),
        id: part.thread.id.0,
        process: part.thread.process.or(info.process),
        records: part.records,
        synthetic: part.synthetic,
        lost: part.lost,
        breaks: part.breaks,
        short_calls: part.short.calls,
        short_ns: nanos(&info.clock, part.short.ticks),
        duration_ns: span(&info.clock, part.first, part.last),
        counts: part.thread.counts,
        name: part.thread.name,
    })
}

/// The name of a function, for people: as the trace has it, or `#12`.
pub(crate) fn name_of(info: &TraceInfo, id: FunctionId) -> String {
    match info.function(id) {
        Some(function) if !function.name.is_empty() => function.name.clone(),
        _ if id == OTHERS => "(further functions)".into(),
        _ => id.to_string(),
    }
}

fn rows(
    info: &TraceInfo,
    functions: &BTreeMap<FunctionId, Box<Stats>>,
    selection: &Selection,
) -> io::Result<(Vec<Row>, usize)> {
    let mut rows = Vec::new();
    for (&id, stats) in functions {
        memory::check()?;
        rows.push(row(info, id, name_of(info, id), stats));
    }
    give(&mut rows, &of_functions(info, functions));
    Ok(arrange(rows, selection, is_timeless(info)))
}

/// Filters and sorts rows, and leaves out those behind the limit. Also returns how many those are.
pub(super) fn arrange(
    mut rows: Vec<Row>,
    selection: &Selection,
    timeless: bool,
) -> (Vec<Row>, usize) {
    let filter = selection.filter.as_ref();
    rows.retain(|row| filter.is_none_or(|filter| filter.matches(&row.name)));
    let sort = match selection.sort {
        Key::Name => Key::Name,
        // Steps are nothing to sort by.
        _ if timeless => Key::Calls,
        key => key,
    };
    rows.sort_by(|a, b| {
        let order = match sort {
            Key::Name => std::cmp::Ordering::Equal,
            key => sort_value(key, b).cmp(&sort_value(key, a)),
        };
        let order = order
            .then_with(|| a.name.cmp(&b.name))
            .then(a.id.cmp(&b.id));
        match selection.reverse {
            true => order.reverse(),
            false => order,
        }
    });
    let all = rows.len();
    rows.truncate(selection.limit.unwrap_or(all));
    let hidden = all - rows.len();
    (rows, hidden)
}

fn sort_value(key: Key, row: &Row) -> Option<u64> {
    match key {
        Key::Name => None,
        Key::Calls => Some(row.calls),
        Key::Total => (!row.untimed).then_some(row.total_ns),
        Key::Own => (!row.untimed).then_some(row.self_ns),
        Key::Min => row.min_ns,
        Key::Mean => row.mean_ns,
        Key::P50 => row.p50_ns,
        Key::P90 => row.p90_ns,
        Key::P99 => row.p99_ns,
        Key::Max => row.max_ns,
        Key::Running => row.states.map(|states| states.total.running_ns),
        Key::Preempted => row.states.map(|states| states.total.preempted_ns),
        Key::Waiting => row.states.map(|states| states.total.waiting_ns),
    }
}

pub(super) fn row(info: &TraceInfo, id: FunctionId, name: String, stats: &Stats) -> Row {
    let function = info.function(id);
    let untimed = function.is_some_and(|function| function.untimed);
    let time = |ticks: Option<u64>| {
        let ticks = ticks.filter(|_| !untimed);
        ticks.map(|ticks| nanos(&info.clock, ticks))
    };
    let measured = &stats.measured;
    Row {
        name,
        untimed,
        file: function
            .map(|function| function.file.clone())
            .unwrap_or_default(),
        line: function.map_or(0, |function| function.line),
        id: id.0,
        calls: stats.calls(),
        clipped: stats.clipped,
        counted: 0,
        nests: false,
        of_records: false,
        error_ns: None,
        total_ns: time(Some(stats.total)).unwrap_or(0),
        self_ns: time(Some(stats.own)).unwrap_or(0),
        min_ns: time(measured.min()),
        mean_ns: time(measured.mean()),
        p50_ns: time(measured.percentile(50)),
        p90_ns: time(measured.percentile(90)),
        p99_ns: time(measured.percentile(99)),
        max_ns: time(measured.max()),
        states: None,
    }
}
