//! The report as CSV, for spreadsheets and scripts. Times are integers in nanoseconds; those of untimed
//! functions are empty.
//!
//! A spreadsheet takes a field that begins with `=`, `+`, `-` or `@`, wide ones too, for a formula; such
//! names get a `'` before them. Control characters are shown as escapes.

use std::borrow::Cow;
use std::io::Write;

use super::rows::{Report, Row, ThreadRow};
use crate::ui;

const HEAD: [&str; 13] = [
    "name", "file", "line", "calls", "clipped", "total_ns", "self_ns", "min_ns", "mean_ns",
    "p50_ns", "p90_ns", "p99_ns", "max_ns",
];

/// What formulas begin with.
const FORMULAS: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// Writes all rows; per thread where the report has them, with two more columns in front.
pub(crate) fn write(out: &mut dyn Write, report: &Report) -> anyhow::Result<()> {
    let mut csv = csv::Writer::from_writer(out);
    if report.threads.iter().any(|thread| thread.rows.is_some()) {
        csv.write_record(["thread", "thread_name"].into_iter().chain(HEAD))?;
        for thread in &report.threads {
            for row in thread.rows.as_deref().unwrap_or(&[]) {
                csv.write_record(thread_fields(thread).into_iter().chain(fields(row)))?;
            }
        }
    } else {
        csv.write_record(HEAD)?;
        for row in &report.rows {
            csv.write_record(fields(row))?;
        }
    }
    csv.flush()?;
    Ok(())
}

fn thread_fields(thread: &ThreadRow) -> [String; 2] {
    [thread.id.to_string(), harmless(&thread.name).into_owned()]
}

fn fields(row: &Row) -> [String; 13] {
    let time = |time: Option<u64>| {
        let time = time.filter(|_| !row.untimed);
        time.map(|time| time.to_string()).unwrap_or_default()
    };
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
    ]
}

/// Text that no spreadsheet takes for a formula.
fn harmless(text: &str) -> Cow<'_, str> {
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
