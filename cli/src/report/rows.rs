//! A whole report: the rows of functions, of threads and of open calls, and what is counted beside them.
//!
//! Outputs take their figures from here.

use std::io;

use fdr_formats::model::{Counts, Missing, RecordingCost};
use fdr_formats::{Clock, Diagnostic, Ticks, TraceInfo};
use serde::Serialize;

use super::engine::{Figures, ThreadPart};
use super::events::EventRows;
use super::function_rows::{Row, nanos, rows};
use super::moments::Moments;
use super::names::name_of;
use super::open::early_call;
use super::query::Selection;
use super::stack::Flaws;
use super::states::{AllThreadStates, RowsStates, ThreadStates, of_functions};
use super::task_totals::counted;
use super::waits::WaitRows;
use super::whole::{RecordedRows, WholeRunFigures, of_records};
use crate::clock::notes as clock_notes;
use crate::trace::is_timeless;
use crate::windows::{Windows, is_cut};

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
    pub(super) of_records: RecordedRows,
    /// The states of these, by id, and of the thread.
    pub(super) rows_states: RowsStates,
    pub(crate) states: ThreadStates,
}

/// What a thread was in when the trace was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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

/// A whole report, ready for any output.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// The rows of the whole run. `None`: the trace has none, or they are shown as `rows`.
    pub(crate) whole: Option<WholeRunFigures>,
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
    /// What recording took, if there is a budget.
    pub(crate) recording_cost: Option<RecordingCost>,
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
    /// Whether the trace has tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        let (counted, notes) = self.tasks;
        counted.unwrap_or(0) + notes > 0
    }

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
        let windows = Windows::from_threads(seen.map(|part| (&part.thread, part.first, part.last)));
        let windows = windows.filter(|_| !is_timeless(info));
        let open = open_rows(info, &figures.threads);
        let failed = info.thread_of_reason();
        figures
            .threads
            .sort_by_key(|part| (Some(part.thread.id) != failed, part.thread.id));
        let threads = figures.threads.into_iter();
        let states = AllThreadStates::new(info);
        let threads = threads.map(|thread| thread_row(info, thread, &states, first, selection));
        Ok(Report {
            whole: WholeRunFigures::from_info(info, &figures.functions, selection)?,
            is_whole: false,
            has_all: false,
            open,
            moments: Moments::from_info(info, first),
            events,
            waits,
            recording_cost: info.recording_cost,
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

    /// Whether the trace knows states.
    pub(crate) fn has_states(&self) -> bool {
        self.threads
            .iter()
            .any(|thread| thread.states.spent.is_some())
    }

    /// Whether the trace has the figures of the whole run, and the records of each call that they count.
    pub(crate) fn has_all_records(&self) -> bool {
        self.whole.as_ref().is_some_and(|whole| whole.is_in_records)
    }

    /// Shows the figures of the whole run instead of those of the records. Does nothing if the trace has none.
    ///
    /// # Errors
    /// Where the rows take too much memory.
    pub(crate) fn show_whole(&mut self, info: &TraceInfo, selection: &Selection) -> io::Result<()> {
        if self.has_all_records() {
            self.has_all = true;
            return Ok(());
        }
        let Some(whole) = self.whole.take() else {
            return Ok(());
        };
        for thread in self.threads.iter_mut().filter(|_| selection.per_thread) {
            let known = info.threads.iter().find(|known| known.id.0 == thread.id);
            let totals = known.into_iter().flat_map(|known| &known.totals);
            let own = WholeRunFigures::new(
                info,
                totals,
                &thread.of_records,
                &thread.rows_states,
                selection,
            )?;
            (thread.rows, thread.self_ns) = (Some(own.rows), own.self_ns);
        }
        self.rows = whole.rows;
        self.hidden = whole.hidden;
        self.self_ns = whole.self_ns;
        (self.untimed, self.untimed_ns) = (whole.untimed, whole.untimed_ns);
        self.is_whole = true;
        Ok(())
    }

    /// Leaves the first rows of each table.
    pub(crate) fn limit(&mut self, most: usize) {
        self.hidden += truncate(&mut self.rows, most);
        self.waits.hidden += truncate(&mut self.waits.rows, most);
        self.events.hidden += truncate(&mut self.events.events, most);
        self.events.hidden += truncate(&mut self.events.counters, most);
    }
}

/// Returns how many rows it removes.
fn truncate<T>(rows: &mut Vec<T>, most: usize) -> usize {
    let removed = rows.len().saturating_sub(most);
    rows.truncate(most);
    removed
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
    states: &AllThreadStates,
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
        states: states.of_thread(&info.clock, part.thread.id, part.first, part.last),
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
