//! The runs on each side of a comparison: the figures of each function in each of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::input;
use crate::report::function_rows::Row;
use crate::report::rows::Report;
use crate::selection::{Filtering, Selection};
use crate::{memory, ui};

/// Of what all figures of a comparison are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Scope {
    WholeRun,
    Records,
}

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

/// A trace: the figures of its records, and those of its whole run, if it has them.
pub(super) struct Scopes {
    records: Run,
    whole: Option<Run>,
}

/// The runs of both sides with figures of the same scope: of the whole runs if each trace has them, else of the records.
/// A difference between a whole run and the records of another one would say nothing.
pub(super) fn in_one_scope(sides: [Vec<Scopes>; 2]) -> ([Vec<Run>; 2], Scope) {
    let mut all = sides.iter().flatten();
    let scope = match all.all(|trace| trace.whole.is_some()) {
        true => Scope::WholeRun,
        false => Scope::Records,
    };
    let run = |trace: Scopes| match (scope, trace.whole) {
        (Scope::WholeRun, Some(whole)) => whole,
        _ => trace.records,
    };
    (sides.map(|side| side.into_iter().map(run).collect()), scope)
}

/// The traces of one side: those of a folder, or one.
///
/// # Errors
/// If one of them can't be read, because a comparison without that trace would have another result.
pub(super) fn read(path: &Path, selection: &Selection) -> anyhow::Result<Vec<Scopes>> {
    let traces: Vec<PathBuf> = input::traces(path)?;
    if traces.is_empty() {
        anyhow::bail!("{}: a folder without traces", ui::path(path));
    }
    memory::grows("the functions of all traces");
    traces.iter().map(|trace| run(trace, selection)).collect()
}

fn run(trace: &Path, selection: &Selection) -> anyhow::Result<Scopes> {
    let source = selection.open(trace, Filtering::Shown)?;
    let report = Report::of_all(trace, &*source)?;
    let filter = selection.filter();
    let run = |rows: Vec<Row>| {
        let is_shown = |row: &Row| filter.is_none_or(|filter| filter.matches(&row.name));
        let timed = |row: &Row| !row.untimed && row.calls > 0;
        let mut run = Run::new();
        let rows = rows.into_iter();
        rows.filter(|row| is_shown(row) && timed(row))
            .for_each(|row| add(&mut run, row));
        run
    };
    let whole = report.whole.filter(|_| selection.is_of_whole_trace());
    Ok(Scopes {
        records: run(report.rows),
        whole: whole.map(|whole| run(whole.rows)),
    })
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
