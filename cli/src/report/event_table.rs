//! The events and counters of a report as tables for people.

use std::io::Write;

use super::events::{EventRows, Number};
use super::table_style::TableStyle;
use crate::columns::Columns;
use crate::ui;

/// Writes both tables, each below an empty line and its heading; nothing where there is neither.
pub(super) fn write(
    out: &mut dyn Write,
    rows: &EventRows,
    look: TableStyle,
    heading: &dyn Fn(&'static str) -> Option<String>,
) -> anyhow::Result<()> {
    let time = |ns: u64| match look.timeless {
        true => "-".to_owned(),
        false => format!("+{}", ui::duration(ns)),
    };
    if !rows.events.is_empty() {
        writeln!(out)?;
        if let Some(heading) = heading("events") {
            writeln!(out, "{heading}")?;
        }
        let columns = Columns {
            spare: &["threads", "rate"],
            ..look.columns(&["count", "rate", "last", "threads", "event"], 4)
        };
        columns.write_with_note(out, || {
            rows.events.iter().map(|row| {
                // One event has no rate.
                let rate = row.rate.filter(|_| !look.timeless && row.count > 1);
                let name = ui::clean(&row.name);
                vec![
                    ui::count(row.count),
                    rate.map_or("-".to_owned(), |rate| format!("{}/s", rounded(rate))),
                    time(row.location.last_ns),
                    ui::count(row.location.threads as u64),
                    match &row.level {
                        Some(level) => format!("{name} ({})", ui::clean(level)),
                        None => name.into_owned(),
                    },
                ]
            })
        })?;
    }
    if !rows.counters.is_empty() {
        writeln!(out)?;
        if let Some(heading) = heading("counters") {
            writeln!(out, "{heading}")?;
        }
        let columns = Columns {
            spare: &["min", "samples"],
            ..look.columns(&["samples", "min", "mean", "max", "last", "counter"], 5)
        };
        let number = |number: Option<Number>| number.map_or("-".to_owned(), in_words);
        columns.write_with_note(out, || {
            rows.counters.iter().map(|row| {
                vec![
                    ui::count(row.samples),
                    number(row.min),
                    row.mean.map_or("-".to_owned(), figure),
                    number(row.max),
                    number(row.last),
                    ui::clean(&row.name).into_owned(),
                ]
            })
        })?;
    }
    if rows.hidden > 0 {
        let hidden = rows.hidden as u64;
        let hidden = ui::count_of(hidden, "events and counters");
        writeln!(out, "{hidden} not shown (--limit)")?;
    }
    Ok(())
}

fn in_words(number: Number) -> String {
    match number {
        Number::Whole(whole) => match u64::try_from(whole.unsigned_abs()) {
            Ok(size) if whole < 0 => format!("-{}", ui::count(size)),
            Ok(size) => ui::count(size),
            Err(_) => whole.to_string(),
        },
        Number::Float(number) => figure(number),
    }
}

/// A rate: to one digit behind the point, or none.
fn rounded(rate: f64) -> String {
    match rate < 100.0 {
        true => figure((rate * 10.0).round() / 10.0),
        false => figure(rate.round()),
    }
}

/// A number to three digits behind the point at most: whole ones without a point.
fn figure(number: f64) -> String {
    match number.abs() {
        size if size >= 1e15 || (size > 0.0 && size < 1e-3) => format!("{number:.3e}"),
        size if size >= 1e3 => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", ui::count(size.round() as u64))
        }
        _ => {
            let text = format!("{number:.3}");
            match text.contains('.') {
                true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
                false => text,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        let wanted = [
            (0.0, "0"),
            (12.5, "12.5"),
            (-0.25, "-0.25"),
            (1234.5, "1,235"),
            (-98765.0, "-98,765"),
            (1e-9, "1.000e-9"),
            (2e20, "2.000e20"),
            (f64::INFINITY, "inf"),
        ];
        for (number, text) in wanted {
            assert_eq!(figure(number), text);
        }
        assert_eq!(in_words(Number::Whole(-1024)), "-1,024");
        assert_eq!(in_words(Number::Whole(1 << 70)), (1_i128 << 70).to_string());
    }
}
