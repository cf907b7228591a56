//! The report as CSV, for spreadsheets and scripts. Times are integers in nanoseconds; those of untimed
//! functions are empty, and so are states that the trace does not know.
//!
//! A spreadsheet takes a field for a formula if it begins with `=`, `+`, `-` or `@`, or with their full-width forms.
//! Such names get a `'` in front. Control characters are shown as escapes.

use std::borrow::Cow;
use std::io::Write;

use super::function_rows::Row;
use super::rows::{Report, ThreadRow};
use super::states::RowStates;
use crate::ui;

/// A column: its head, and its cell of a row.
type Column = (&'static str, fn(&Row) -> String);

const COLUMNS: [Column; 26] = [
    ("name", |row| harmless(&row.name).into_owned()),
    ("file", |row| harmless(&row.file).into_owned()),
    ("line", |row| row.line.to_string()),
    ("calls", |row| row.calls.to_string()),
    ("clipped", |row| row.clipped.to_string()),
    ("total_ns", |row| time(row, Some(row.total_ns))),
    ("self_ns", |row| time(row, Some(row.self_ns))),
    ("min_ns", |row| time(row, row.min_ns)),
    ("mean_ns", |row| time(row, row.mean_ns)),
    ("p50_ns", |row| time(row, row.p50_ns)),
    ("p90_ns", |row| time(row, row.p90_ns)),
    ("p99_ns", |row| time(row, row.p99_ns)),
    ("max_ns", |row| time(row, row.max_ns)),
    ("counted", |row| row.counted.to_string()),
    ("calls_error", |row| time(row, row.calls_error)),
    ("error_ns", |row| time(row, row.error_ns)),
    ("running_ns", |row| {
        state(row, |states| states.total.running_ns)
    }),
    ("preempted_ns", |row| {
        state(row, |states| states.total.preempted_ns)
    }),
    ("waiting_ns", |row| {
        state(row, |states| states.total.waiting_ns)
    }),
    ("unknown_ns", |row| {
        state(row, |states| states.total.unknown_ns)
    }),
    ("self_running_ns", |row| {
        state(row, |states| states.own.running_ns)
    }),
    ("self_preempted_ns", |row| {
        state(row, |states| states.own.preempted_ns)
    }),
    ("self_waiting_ns", |row| {
        state(row, |states| states.own.waiting_ns)
    }),
    ("self_unknown_ns", |row| {
        state(row, |states| states.own.unknown_ns)
    }),
    ("nests", |row| row.nests.to_string()),
    ("of_records", |row| row.of_records.to_string()),
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
        csv.write_record(
            file.into_iter()
                .chain(threads.iter().copied())
                .chain(COLUMNS.map(|(head, _)| head)),
        )?;
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

fn fields(row: &Row) -> impl Iterator<Item = String> {
    COLUMNS.iter().map(|(_, cell)| cell(row))
}

fn time(row: &Row, time: Option<u64>) -> String {
    let time = time.filter(|_| !row.untimed);
    time.map(|time| time.to_string()).unwrap_or_default()
}

fn state(row: &Row, ns: fn(&RowStates) -> u64) -> String {
    let states = row.states.as_ref();
    states
        .map(|states| ns(states).to_string())
        .unwrap_or_default()
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
