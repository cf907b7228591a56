//! Figures of the whole run, from the totals that the recorder keeps for each thread and function (`FDR_KEEP`). They
//! count every call that has ended, also calls whose records are overwritten, and calls that left none. If the records
//! have each of these calls, the figures of the records are those of the whole run, and more exact.
//!
//! Two things come from the records: the states of threads, which are shares, and functions that have no row in the
//! totals.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fdr_formats::model::{Figures, FunctionTotals, Level, Missing, Thread, figures};
use fdr_formats::tasks::of_name;
use fdr_formats::{FunctionId, Ticks, TraceInfo};

use super::function_rows::{Row, arrange, give, row as row_of_records};
use super::names::{name_of, place_of};
use super::query::Selection;
use super::states::{RowsStates, of_functions};
use super::stats::Stats;
use crate::memory;

/// The row of all functions that have none of their own.
pub(super) const WITHOUT_ROOM: &str = "(functions without room)";

/// The figures of some threads.
#[derive(Clone, Debug)]
pub(crate) struct WholeRunFigures {
    pub(crate) rows: Vec<Row>,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
    /// Self time of all functions, shown or not.
    pub(crate) self_ns: u64,
    /// Functions without times, shown or not.
    pub(crate) untimed: usize,
    /// What passed in them, as the recorder knows.
    pub(crate) untimed_ns: u64,
    /// The records have each call that is counted here.
    pub(crate) is_in_records: bool,
}

/// What the records have of a function.
#[derive(Clone, Debug)]
pub(super) struct RecordedFunction {
    row: Row,
    /// Calls from their entry to their exit, what they took together, and self time, in ticks.
    calls: u64,
    sum: u64,
    own: u64,
    /// A call was inside of another one.
    nests: bool,
}

/// The recorded figures of each function.
pub(super) type RecordedRows = BTreeMap<FunctionId, RecordedFunction>;

/// What the records have of each function.
pub(super) fn of_records(
    info: &TraceInfo,
    functions: &BTreeMap<FunctionId, Box<Stats>>,
) -> RecordedRows {
    let known = |(&id, stats): (&FunctionId, &Stats)| {
        let known = RecordedFunction {
            row: row_of_records(info, id, name_of(info, id), stats),
            calls: stats.measured.count(),
            sum: stats.measured.sum(),
            own: stats.own,
            nests: stats.nests(),
        };
        (id, known)
    };
    let functions = functions.iter().map(|(id, stats)| (id, &**stats));
    functions.map(known).collect()
}

impl WholeRunFigures {
    /// The figures of all threads. `None`: the trace does not have them for each thread.
    ///
    /// # Errors
    /// Where the rows take too much memory.
    pub(crate) fn from_info(
        info: &TraceInfo,
        records: &BTreeMap<FunctionId, Box<Stats>>,
        selection: &Selection,
    ) -> io::Result<Option<WholeRunFigures>> {
        if !has_figures(info) {
            return Ok(None);
        }
        let threads = info.threads.iter().flat_map(|thread| &thread.totals);
        let all = threads.chain(&info.missing_totals);
        let states = of_functions(info, records);
        let records = of_records(info, records);
        WholeRunFigures::new(info, all, &records, &states, selection).map(Some)
    }

    pub(super) fn new<'a>(
        info: &TraceInfo,
        totals: impl Iterator<Item = &'a FunctionTotals>,
        records: &RecordedRows,
        states: &RowsStates,
        selection: &Selection,
    ) -> io::Result<WholeRunFigures> {
        let mut functions: BTreeMap<FunctionId, FunctionTotals> = BTreeMap::new();
        for more in totals {
            memory::check()?;
            let sum = functions.entry(more.function);
            sum.or_insert_with(|| FunctionTotals {
                function: more.function,
                ..FunctionTotals::default()
            })
            .add(more);
        }
        // What is counted of tasks has a table of its own.
        functions.retain(|id, _| {
            info.function(*id)
                .is_none_or(|function| of_name(&function.name).is_none())
        });
        let is_in_records = are_in_records(info, &functions, records);
        // Functions without a row are shown by their records, which are taken out of the row that they share.
        let mut rows = take_from_shared(info, &mut functions, records);
        let figures = figures(&functions, &|id| {
            info.function(id).is_none_or(|function| !function.untimed)
        });
        for (id, totals) in &functions {
            let figures = figures.get(id).copied().unwrap_or_default();
            // The first row may only say how often calls were outside of all others.
            if figures.calls > 0 {
                rows.push(row(info, totals, &figures, records));
            }
        }
        give(&mut rows, states);
        // Of functions without times, the recorder knows the time of the calls, and takes it from that of the callers.
        let own = |is_untimed: bool| {
            let those = functions
                .values()
                .filter(|totals| is_without_times(info, totals) == is_untimed);
            let own = those.fold(0_u64, |sum, totals| {
                let figures = figures.get(&totals.function);
                sum.saturating_add(figures.map_or(0, |figures| figures.own.0))
            });
            info.clock.nanos(Ticks(own)).0
        };
        let of_records = rows.iter().filter(|row| row.of_records);
        let of_records = of_records.fold(0_u64, |sum, row| sum.saturating_add(row.self_ns));
        let (self_ns, untimed_ns) = (own(false).saturating_add(of_records), own(true));
        let untimed = rows.iter().filter(|row| row.untimed).count();
        let (rows, hidden) = arrange(rows, selection, false);
        Ok(WholeRunFigures {
            rows,
            hidden,
            self_ns,
            untimed,
            untimed_ns,
            is_in_records,
        })
    }
}

/// The names of all functions that the totals count.
pub(crate) fn called(info: &TraceInfo) -> Vec<String> {
    let threads = info.threads.iter().flat_map(|thread| &thread.totals);
    let all = threads.chain(&info.missing_totals);
    let ids: BTreeSet<FunctionId> = all.map(|totals| totals.function).collect();
    ids.into_iter().map(|id| name_of(info, id)).collect()
}

/// Whether the trace has the figures of the whole run for each thread.
pub(crate) fn has_figures(info: &TraceInfo) -> bool {
    let has = info.threads.iter().any(|thread| !thread.totals.is_empty());
    has && !info.threads.iter().any(lacks_totals)
}

/// Whether a thread had calls that ended, and no totals.
fn lacks_totals(thread: &Thread) -> bool {
    let ended = |counts: &fdr_formats::model::Counts| counts.recorded > counts.synthetic_exits;
    thread.totals.is_empty() && thread.counts.as_ref().is_some_and(ended)
}

fn is_without_times(info: &TraceInfo, totals: &FunctionTotals) -> bool {
    let function = info.function(totals.function);
    totals.calls == 0 || function.is_some_and(|function| function.untimed)
}

/// Whether the records have each call that was counted, from its entry to its exit.
fn are_in_records(
    info: &TraceInfo,
    functions: &BTreeMap<FunctionId, FunctionTotals>,
    records: &RecordedRows,
) -> bool {
    let is_complete = |thread: &Thread| {
        thread
            .counts
            .as_ref()
            .is_none_or(|counts| counts.readable == counts.recorded)
    };
    let counted = |totals: &FunctionTotals| totals.calls.saturating_add(totals.untimed);
    let measured = |id: &FunctionId| records.get(id).map_or(0, |known| known.calls);
    let all = functions
        .values()
        .fold(0, |sum: u64, totals| sum.saturating_add(counted(totals)));
    let missed =
        |totals: &FunctionTotals| totals.estimate.as_deref().is_some_and(|all| all.missed > 0);
    info.missing == Missing::default()
        && !functions.values().any(missed)
        && info.threads.iter().all(is_complete)
        && all <= records.keys().map(measured).sum()
        && functions
            .iter()
            .all(|(id, totals)| id.0 == 0 || counted(totals) <= measured(id))
}

/// The rows of functions that have none in the totals and have records. Their calls are taken from the row that all
/// functions without a row share.
fn take_from_shared(
    info: &TraceInfo,
    functions: &mut BTreeMap<FunctionId, FunctionTotals>,
    records: &RecordedRows,
) -> Vec<Row> {
    let Some(mut shared) = functions.remove(&FunctionId(0)) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for (&id, known) in records.iter().filter(|(id, _)| !functions.contains_key(id)) {
        let untimed = info.function(id).is_some_and(|function| function.untimed);
        let calls = known.calls;
        if untimed || calls == 0 || calls > shared.calls {
            continue;
        }
        rows.push(Row {
            of_records: true,
            ..known.row.clone()
        });
        shared.calls -= calls;
        shared.total = Ticks(shared.total.0.saturating_sub(known.sum));
        shared.own = Ticks(shared.own.0.saturating_sub(known.own));
        // The trace does not say which lengths the remaining calls have.
        shared.lengths = Vec::new();
        shared.longest = Ticks(0);
    }
    if !shared.is_empty() {
        functions.insert(FunctionId(0), shared);
    }
    rows
}

fn row(
    info: &TraceInfo,
    totals: &FunctionTotals,
    figures: &Figures,
    records: &RecordedRows,
) -> Row {
    let (file, line) = place_of(info, totals.function);
    let untimed = is_without_times(info, totals);
    let nests = records
        .get(&totals.function)
        .is_some_and(|known| known.nests);
    let has_longest = totals.function.0 > 0 || !totals.lengths.is_empty();
    let time = |ticks: Option<Ticks>| {
        let ticks = ticks.filter(|_| !untimed);
        ticks.map(|ticks| info.clock.nanos(ticks).0)
    };
    let without_time = figures.calls - totals.calls;
    let counted = if untimed { 0 } else { without_time };
    let error = |error: Ticks| time(Some(error).filter(|error| error.0 > 0 || counted > 0));
    let mean = totals.total.0.checked_div(totals.calls).map(Ticks);
    Row {
        name: match totals.function {
            FunctionId(0) => WITHOUT_ROOM.to_owned(),
            id => name_of(info, id),
        },
        file,
        line,
        id: totals.function.0,
        calls: figures.calls,
        clipped: 0,
        untimed,
        counted,
        level: totals
            .estimate
            .as_deref()
            .map_or(Level::Timed, |estimate| estimate.level),
        calls_error: Some(figures.calls_error).filter(|error| *error > 0),
        nests: !untimed && (totals.nests || nests || totals.function.0 == 0),
        of_records: false,
        error_ns: error(figures.own_error),
        total_ns: time(Some(figures.total)).unwrap_or(0),
        self_ns: time(Some(figures.own)).unwrap_or(0),
        min_ns: None,
        mean_ns: time(mean),
        p50_ns: time(totals.quantile(50)),
        p90_ns: time(totals.quantile(90)),
        p99_ns: time(totals.quantile(99)),
        max_ns: time(Some(totals.longest).filter(|_| has_longest)),
        states: None,
    }
}
