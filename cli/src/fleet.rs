//! What `fdr-fleet` takes from the tool: the opening of any trace, and the figures of `fdr report`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::model::{Counts, FunctionTotals};
use fdr_formats::{Source, Ticks, lengths};

use crate::report::engine::Figures;
use crate::report::function_rows::Row;
use crate::report::query::{Key, Selection};
use crate::report::rows::Report;
use crate::{input, memory, trace, ui};

/// One function of a trace, as `fdr report` shows it.
#[derive(Clone, Debug, Default)]
pub struct FunctionRow {
    /// Its id in the trace. Functions without room share one.
    pub id: u32,
    /// Its name, for people.
    pub name: String,
    /// Its file; empty if unknown.
    pub file: String,
    /// Its line; 0 if unknown.
    pub line: u32,
    /// All calls.
    pub calls: u64,
    /// Calls with an edge that is missing or in doubt.
    pub clipped: u64,
    /// It has no times.
    pub untimed: bool,
    /// Calls that were only counted.
    pub counted: u64,
    /// From entry to exit.
    pub total_ns: u64,
    /// The total time without that of the calls inside.
    pub self_ns: u64,
    /// The shortest call.
    pub min_ns: Option<u64>,
    /// The longest call.
    pub max_ns: Option<u64>,
    /// The parts of the total in which threads ran, were preempted and waited. `None`: the trace has no states.
    pub states_ns: Option<[u64; 3]>,
    /// Lengths of measured calls in ns, with the number of calls, in order.
    pub lengths: Vec<(u64, u64)>,
}

/// One thread of a trace.
#[derive(Clone, Debug)]
pub struct ThreadRow {
    /// The system's number.
    pub id: u64,
    /// Its name; empty if unknown.
    pub name: String,
    /// Its first and its last edge, in ticks. `None`: it has none.
    pub window: Option<(Ticks, Ticks)>,
    /// Records in the trace, without synthetic ones.
    pub records: u64,
    /// Records that are missing between others.
    pub lost: u64,
    /// Places where its clock jumped.
    pub breaks: u64,
    /// Calls without records.
    pub short_calls: u64,
    /// The time of these.
    pub short_ns: u64,
    /// The recorder's counts.
    pub counts: Option<Counts>,
}

/// The figures of a trace.
#[derive(Clone, Debug)]
pub struct TraceFigures {
    /// The figures of the calls that have records.
    pub functions: Vec<FunctionRow>,
    /// The figures of the whole run, if the recorder kept them.
    pub whole: Option<Vec<FunctionRow>>,
    /// All threads.
    pub threads: Vec<ThreadRow>,
    /// Calls of which an edge is missing or in doubt.
    pub clipped: u64,
    /// What is wrong in the trace: how many places, and the first one in words.
    pub damage: Option<(u64, String)>,
}

/// Sets the memory that each trace may take, and the number of threads.
pub fn prepare(max_memory: u64, jobs: Option<std::num::NonZeroUsize>) {
    memory::set_limit(max_memory);
    ui::set_jobs(jobs);
}

/// The number of threads that work.
#[must_use]
pub fn jobs() -> usize {
    ui::jobs()
}

/// A size in bytes, as on the command line of the tool: a number with K, M or G.
///
/// # Errors
/// What is wrong with it.
pub fn size_of(text: &str) -> Result<u64, &'static str> {
    ui::size_of(text)
}

/// A number of threads, as on the command line of the tool.
///
/// # Errors
/// What is wrong with it.
pub fn jobs_of(text: &str) -> Result<std::num::NonZeroUsize, &'static str> {
    ui::jobs_of(text)
}

/// The traces that a path stands for. A folder that is not a trace itself stands for the traces in
/// it.
///
/// # Errors
/// If the folder can't be read, or has no trace in it.
pub fn traces(named: &Path) -> anyhow::Result<Vec<PathBuf>> {
    input::traces(named)
}

/// Opens a trace of any format, a ring, or a packed one.
///
/// # Errors
/// If it can't be read or is none. The error names the file.
pub fn open(path: &Path) -> anyhow::Result<Box<dyn Source>> {
    input::open(path)
}

/// The figures of a trace.
///
/// # Errors
/// If the trace can't be read, or takes too much memory. The error names the file.
pub fn figures(path: &Path, source: &dyn Source) -> anyhow::Result<TraceFigures> {
    memory::grows("the figures of functions and threads");
    let info = source.info();
    let nanos = |ticks| info.clock.nanos(Ticks(ticks)).0;
    let figures = Figures::read(path, source, false)?;
    let lengths: BTreeMap<u32, Vec<(u64, u64)>> = figures
        .functions
        .iter()
        .map(|(id, stats)| (id.0, stats.measured.lengths()))
        .collect();
    let windows: BTreeMap<u64, _> = figures
        .threads
        .iter()
        .map(|part| (part.thread.id.0, part.first.map(|first| (first, part.last))))
        .collect();
    let all = Selection {
        filter: None,
        sort: Key::Name,
        reverse: false,
        limit: None,
        per_thread: false,
    };
    let report = Report::new(info, figures, &all).with_context(|| ui::path(path))?;
    let found = report.diagnostics.len() as u64 + report.more_diagnostics;
    let damage = report.diagnostics.first().map(|first| {
        let what = format!("{} at byte {}", first.what, first.offset);
        (found, what)
    });
    let named = |row: Row, ticks: Vec<(u64, u64)>| {
        let ticks = ticks.into_iter().filter(|_| !row.untimed);
        let lengths = ticks.map(|(ticks, count)| (nanos(ticks), count)).collect();
        of_row(row, lengths)
    };
    let whole = report.whole.map(|whole| {
        let threads = info.threads.iter().flat_map(|thread| &thread.totals);
        let mut sums: BTreeMap<u32, FunctionTotals> = BTreeMap::new();
        for totals in threads.chain(&info.missing_totals) {
            sums.entry(totals.function.0).or_default().add(totals);
        }
        let rows = whole.rows.into_iter();
        rows.map(|row| {
            let sum = sums.remove(&row.id).unwrap_or_default();
            let middle = |class: u8| {
                let (from, to) = (
                    lengths::shortest(class.into()),
                    lengths::shortest(usize::from(class) + 1),
                );
                (from + (to - from) / 2).min(sum.longest.0)
            };
            let each = sum.lengths.iter();
            let ticks = each.map(|&(class, count)| (middle(class), count)).collect();
            named(row, ticks)
        })
        .collect()
    });
    let rows = report.rows.into_iter();
    let functions = rows.map(|row| {
        let ticks = lengths.get(&row.id).cloned().unwrap_or_default();
        named(row, ticks)
    });
    let threads = report.threads.into_iter().map(|row| ThreadRow {
        window: windows.get(&row.id).copied().flatten(),
        id: row.id,
        name: row.name,
        records: row.records,
        lost: row.lost,
        breaks: row.breaks,
        short_calls: row.short_calls,
        short_ns: row.short_ns,
        counts: row.counts,
    });
    Ok(TraceFigures {
        functions: functions.collect(),
        whole,
        threads: threads.collect(),
        clipped: report.clipped,
        damage,
    })
}

fn of_row(row: Row, lengths: Vec<(u64, u64)>) -> FunctionRow {
    let states = row.states.map(|states| states.total);
    FunctionRow {
        id: row.id,
        name: row.name,
        file: row.file,
        line: row.line,
        calls: row.calls,
        clipped: row.clipped,
        untimed: row.untimed,
        counted: row.counted,
        total_ns: row.total_ns,
        self_ns: row.self_ns,
        min_ns: row.min_ns,
        max_ns: row.max_ns,
        states_ns: states.map(|all| [all.running_ns, all.preempted_ns, all.waiting_ns]),
        lengths,
    }
}

/// What the tool says of an error of a trace: it names the file.
#[must_use]
pub fn about(path: &Path, error: fdr_formats::Error) -> anyhow::Error {
    trace::about(path, error)
}
