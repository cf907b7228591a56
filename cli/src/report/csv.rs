//! The report as CSV, for spreadsheets and scripts. Times are integers in nanoseconds; those of untimed
//! functions are empty, and so are states that the trace does not know.
//!
//! A spreadsheet takes a field for a formula if it begins with `=`, `+`, `-` or `@`, or with their full-width forms.
//! Such names get a `'` in front. Control characters are shown as escapes.

use std::borrow::Cow;
use std::io::Write;

use super::function_rows::Row;
use super::rows::{Report, ThreadRow};
use super::states::{InStates, RowStates};
use crate::ui;

const HEAD: [&str; 26] = [
    "name",
    "file",
    "line",
    "calls",
    "clipped",
    "total_ns",
    "self_ns",
    "min_ns",
    "mean_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "max_ns",
    "counted",
    "calls_error",
    "error_ns",
    "running_ns",
    "preempted_ns",
    "waiting_ns",
    "unknown_ns",
    "self_running_ns",
    "self_preempted_ns",
    "self_waiting_ns",
    "self_unknown_ns",
    "nests",
    "of_records",
];

/// What formulas begin with.
const FORMULAS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Writes all rows; per thread where the report has them, with two more columns in front. The reports of several traces
/// are one table, with the trace in the first column, and one head.
pub(crate) fn write(
    out: &mut dyn Write,
    trace: Option<&str>,
    report: &Report,
    has_head: bool,
) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    let per_thread = report.threads.iter().any(|thread| thread.rows.is_some());
    let threads: &[&str] = if per_thread {
        &["thread", "thread_name"]
    } else {
        &[]
    };
    let file = trace.map(|trace| harmless(trace).into_owned());
    if has_head {
        let file = file.as_ref().map(|_| "trace");
        csv.write_record(file.into_iter().chain(threads.iter().copied()).chain(HEAD))?;
    }
    if per_thread {
        for thread in &report.threads {
            for row in thread.rows.as_deref().unwrap_or(&[]) {
                let first = file.clone().into_iter().chain(thread_fields(thread));
                csv.write_record(first.chain(fields(row)))?;
            }
        }
    } else {
        for row in &report.rows {
            csv.write_record(file.clone().into_iter().chain(fields(row)))?;
        }
    }
    csv.flush()?;
    Ok(())
}

fn thread_fields(thread: &ThreadRow) -> [String; 2] {
    [thread.id.to_string(), harmless(&thread.name).into_owned()]
}

fn fields(row: &Row) -> [String; 26] {
    let time = |time: Option<u64>| {
        let time = time.filter(|_| !row.untimed);
        time.map(|time| time.to_string()).unwrap_or_default()
    };
    let state = |spent: fn(&RowStates) -> &InStates, ns: fn(&InStates) -> u64| {
        let states = row.states.as_ref();
        states
            .map(|states| ns(spent(states)).to_string())
            .unwrap_or_default()
    };
    let total = |ns| state(|states| &states.total, ns);
    let own = |ns| state(|states| &states.own, ns);
    [
        harmless(&row.name).into_owned(),
        harmless(&row.file).into_owned(),
        row.line.to_string(),
        row.calls.to_string(),
        row.clipped.to_string(),
        time(Some(row.total_ns)),
        time(Some(row.self_ns)),
        time(row.min_ns),
        time(row.mean_ns),
        time(row.p50_ns),
        time(row.p90_ns),
        time(row.p99_ns),
        time(row.max_ns),
        row.counted.to_string(),
        time(row.calls_error),
        time(row.error_ns),
        total(|spent| spent.running_ns),
        total(|spent| spent.preempted_ns),
        total(|spent| spent.waiting_ns),
        total(|spent| spent.unknown_ns),
        own(|spent| spent.running_ns),
        own(|spent| spent.preempted_ns),
        own(|spent| spent.waiting_ns),
        own(|spent| spent.unknown_ns),
        row.nests.to_string(),
        row.of_records.to_string(),
    ]
}

/// Text that no spreadsheet takes for a formula.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let text = ui::clean(text);
    if text.trim_start().starts_with(FORMULAS) {
        format!("'{text}").into()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_defused() {
        assert_eq!(harmless("=1+1"), "'=1+1");
        assert_eq!(harmless("  @SUM(A1)"), "'  @SUM(A1)");
        assert_eq!(harmless("-x"), "'-x");
        assert_eq!(harmless("+x"), "'+x");
        assert_eq!(harmless("＝x"), "'＝x");
        assert_eq!(harmless("\t=x"), "\\t=x");
        assert_eq!(harmless("<A as B>::c"), "<A as B>::c");
    }
}
