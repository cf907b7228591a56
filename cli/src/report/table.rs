//! The report as a table for people, with units, and notes on what the figures leave out.

use std::io::Write;

use comfy_table::{Table, presets};
use fdr_formats::TraceInfo;

use super::rows::{Report, Row, ThreadRow};
use crate::{trace, ui};

const HEAD: [&str; 11] = [
    "calls", "total", "self", "self %", "min", "mean", "p50", "p90", "p99", "max", "function",
];

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// With a column for file and line.
    pub(crate) places: bool,
    /// With a bold head.
    pub(crate) colour: bool,
}

/// Writes all of a report.
pub(crate) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    report: &Report,
    look: Look,
) -> anyhow::Result<()> {
    writeln!(out, "{}", headline(info, report))?;
    writeln!(out)?;
    if report.threads.iter().any(|thread| thread.rows.is_some()) {
        for thread in &report.threads {
            writeln!(out, "{}", thread_line(thread))?;
            let rows = thread.rows.as_deref().unwrap_or(&[]);
            let own = rows
                .iter()
                .fold(0_u64, |sum, row| sum.saturating_add(row.self_ns));
            write_rows(out, rows, own, look)?;
            writeln!(out)?;
        }
        writeln!(out, "all threads")?;
    }
    write_rows(out, &report.rows, report.self_ns, look)?;
    for note in notes(report) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn headline(info: &TraceInfo, report: &Report) -> String {
    let mut parts = Vec::new();
    if !info.program.is_empty() {
        let process = info
            .process
            .map(|id| format!(" (process {id})"))
            .unwrap_or_default();
        parts.push(format!("{}{process}", ui::clean(&info.program)));
    }
    parts.push(ui::clean(&info.format).into_owned());
    parts.push(ui::duration(report.duration_ns));
    parts.push(ui::things(report.threads.len() as u64, "thread"));
    parts.push(ui::things(report.records(), "record"));
    parts.join(" · ")
}

fn thread_line(thread: &ThreadRow) -> String {
    let name = if thread.name.is_empty() {
        "(no name)".into()
    } else {
        ui::clean(&thread.name)
    };
    format!(
        "thread {} {name} · {} · {}",
        thread.id,
        ui::duration(thread.duration_ns),
        ui::things(thread.records, "record"),
    )
}

fn write_rows(out: &mut dyn Write, rows: &[Row], own: u64, look: Look) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let place = look.places.then_some("source");
    table.set_header(HEAD.into_iter().chain(place));
    for row in rows {
        table.add_row(cells(row, own, look.places));
    }
    ui::write_table(out, &mut table, HEAD.len() - 1, look.colour)?;
    if rows.is_empty() {
        writeln!(out, " (no calls)")?;
    }
    Ok(())
}

fn cells(row: &Row, own: u64, places: bool) -> Vec<String> {
    let share = if own == 0 {
        0.0
    } else {
        row.self_ns as f64 * 100.0 / own as f64
    };
    let mut cells = vec![
        ui::count(row.calls),
        ui::duration(row.total_ns),
        ui::duration(row.self_ns),
        format!("{share:.1} %"),
    ];
    let times = [
        row.min_ns,
        row.mean_ns,
        row.p50_ns,
        row.p90_ns,
        row.p99_ns,
        row.max_ns,
    ];
    cells.extend(times.map(|time| time.map_or("-".into(), ui::duration)));
    cells.push(ui::clean(&row.name).into_owned());
    if places && !row.file.is_empty() {
        cells.push(format!("{}:{}", ui::clean(&row.file), row.line));
    }
    cells
}

/// What a reader of the figures must know.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.hidden > 0 {
        notes.push(format!(
            "{} not shown (--limit)",
            ui::things(report.hidden as u64, "function")
        ));
    }
    if report.clipped > 0 {
        notes.push(format!(
            "clipped: {} seen in part (open where the trace begins or ends): in calls, total and \
             self, not in min to max",
            ui::things(report.clipped, "call"),
        ));
    }
    if let Some(counts) = report.counts() {
        let damaged = !report.diagnostics.is_empty();
        let doubtful = trace::doubtful_counts(&counts, report.counted_records(), damaged);
        notes.push(doubtful.unwrap_or_else(|| {
            format!(
                "of {}: {} overwritten by newer ones, {} dropped",
                ui::things(counts.recorded, "record"),
                ui::count(counts.overwritten),
                ui::count(counts.dropped),
            )
        }));
    }
    if let Some(missing) = trace::missing(&report.missing) {
        notes.push(format!("not in the trace: {missing}"));
    }
    let flaws = &report.flaws;
    for (number, what) in [
        (flaws.missing_entries, "exit without an entry"),
        (flaws.missing_exits + flaws.open, "entry without an exit"),
        (flaws.too_deep, "call too deep to be followed"),
    ] {
        if number > 0 {
            notes.push(format!(
                "unbalanced: {} × {what} (see fdr verify)",
                ui::count(number)
            ));
        }
    }
    for diagnostic in &report.diagnostics {
        notes.push(format!("damaged: {}", ui::clean(&diagnostic.to_string())));
    }
    if report.more_diagnostics > 0 {
        notes.push(format!(
            "damaged: {} more places",
            ui::count(report.more_diagnostics)
        ));
    }
    notes
}
