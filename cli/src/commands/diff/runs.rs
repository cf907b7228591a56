//! The runs on each side of a comparison: the figures of each function in each of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::input;
use crate::report::function_rows::Row;
use crate::report::rows::Report;
use crate::selection::{Filtering, Selection};
use crate::{memory, ui};

/// What one run says of a function. Times are ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Figures {
    pub(super) calls: u64,
    pub(super) own: u64,
    pub(super) total: u64,
    pub(super) p50: Option<u64>,
    pub(super) p99: Option<u64>,
}

/// The functions of a run, by name.
pub(super) type Run = BTreeMap<String, Figures>;

/// The traces of one side: those of a folder, or one.
///
/// # Errors
/// If one of them can't be read, because a comparison without that trace would have another result.
pub(super) fn read(path: &Path, selection: &Selection) -> anyhow::Result<Vec<Run>> {
    let traces: Vec<PathBuf> = input::traces(path)?;
    if traces.is_empty() {
        anyhow::bail!("{}: a folder without traces", ui::path(path));
    }
    memory::grows("the functions of all traces");
    traces.iter().map(|trace| run(trace, selection)).collect()
}

fn run(trace: &Path, selection: &Selection) -> anyhow::Result<Run> {
    let source = selection.open(trace, Filtering::Shown)?;
    let report = Report::of_all(trace, &*source)?;
    let rows = match report.whole {
        Some(whole) if selection.is_of_whole_trace() => whole.rows,
        _ => report.rows,
    };
    let filter = selection.filter();
    let rows = rows
        .into_iter()
        .filter(|row| filter.is_none_or(|filter| filter.matches(&row.name)));
    let mut run = Run::new();
    for row in rows.filter(|row| !row.untimed && row.calls > 0) {
        add(&mut run, row);
    }
    Ok(run)
}

/// Copies of a function, as of several plug-ins, have one name.
fn add(run: &mut Run, row: Row) {
    let figures = run.entry(row.name).or_default();
    let is_first = figures.calls == 0;
    figures.calls += row.calls;
    figures.own = figures.own.saturating_add(row.self_ns);
    figures.total = figures.total.saturating_add(row.total_ns);
    figures.p50 = row.p50_ns.filter(|_| is_first);
    figures.p99 = row.p99_ns.filter(|_| is_first);
}
