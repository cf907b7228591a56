//! Rows of functions: ticks become nanoseconds, ids become names, rows are filtered and sorted.

use std::collections::BTreeMap;
use std::io;

use fdr_formats::model::Level;
use fdr_formats::{Clock, FunctionId, Ticks, TraceInfo};

use super::names::{name_of, place_of};
use super::query::{Key, Selection};
use super::states::{RowStates, RowsStates, of_functions};
use super::stats::Stats;
use crate::memory;
use crate::trace::is_timeless;

/// One function. Times without `Option` include clipped calls, the others measured calls only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) id: u32,
    pub(crate) calls: u64,
    pub(crate) clipped: u64,
    /// The function has no times. The zeros in this row are not durations.
    pub(crate) untimed: bool,
    /// Calls of a timed function that have no time: they were only counted, or left nothing. The times are estimated.
    pub(crate) counted: u64,
    /// How its calls were recorded in the end.
    pub(crate) level: Level,
    /// The standard error of the calls, if some left nothing.
    pub(crate) calls_error: Option<u64>,
    /// The total also counts calls inside calls of the same function, so that it is at most that much.
    pub(crate) nests: bool,
    /// Of the records, among rows of the whole run: the totals have no row for the function.
    pub(crate) of_records: bool,
    /// The standard error of the self time, if it is estimated, or calls inside were not timed.
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

pub(super) fn rows(
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

/// Gives rows their states.
pub(super) fn give(rows: &mut [Row], states: &RowsStates) {
    for row in rows.iter_mut().filter(|row| !row.untimed) {
        row.states = states.get(&FunctionId(row.id)).copied();
    }
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

/// Two numbers, the first of which decides.
fn sort_value(key: Key, row: &Row) -> Option<(u64, u64)> {
    let states = row.states.as_ref().map(|states| &states.total);
    let number = match key {
        Key::Total if !row.untimed => return Some(certain(row.total_ns, row.error_ns)),
        Key::Own if !row.untimed => return Some(certain(row.self_ns, row.error_ns)),
        Key::Name | Key::Total | Key::Own => None,
        Key::Calls => Some(row.calls),
        Key::Min => row.min_ns,
        Key::Mean => row.mean_ns,
        Key::P50 => row.p50_ns,
        Key::P90 => row.p90_ns,
        Key::P99 => row.p99_ns,
        Key::Max => row.max_ns,
        Key::Running => states.map(|states| states.running_ns),
        Key::Preempted => states.map(|states| states.preempted_ns),
        Key::Waiting => states.map(|states| states.waiting_ns),
    };
    number.map(|number| (number, 0))
}

/// A time, less its error if the error is over a quarter of the time. The second number is the time, which decides between
/// equal ones.
fn certain(ns: u64, error_ns: Option<u64>) -> (u64, u64) {
    let error_ns = error_ns.unwrap_or(0);
    match error_ns > ns / 4 {
        true => (ns.saturating_sub(error_ns), ns),
        false => (ns, ns),
    }
}

pub(super) fn row(info: &TraceInfo, id: FunctionId, name: String, stats: &Stats) -> Row {
    let untimed = info.function(id).is_some_and(|function| function.untimed);
    let (file, line) = place_of(info, id);
    let time = |ticks: Option<u64>| {
        let ticks = ticks.filter(|_| !untimed);
        ticks.map(|ticks| nanos(&info.clock, ticks))
    };
    let measured = &stats.measured;
    Row {
        name,
        untimed,
        file,
        line,
        id: id.0,
        calls: stats.calls(),
        clipped: stats.clipped,
        counted: 0,
        level: Level::Timed,
        calls_error: None,
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

pub(super) fn nanos(clock: &Clock, ticks: u64) -> u64 {
    clock.nanos(Ticks(ticks)).0
}
