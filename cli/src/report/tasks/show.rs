//! The tasks of a trace as a table for people, and as JSON.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde_json::json;

use super::NOT_IN_TIME;
use super::rows::{OpenTask, Row, Tasks};
use crate::columns::Columns;
use crate::report::json;
use crate::{trace, ui};

const HEAD: [&str; 12] = [
    "tasks",
    "finished",
    "dropped",
    "unfinished",
    "busy",
    "busy mean",
    "busy p99",
    "waiting",
    "mean",
    "p50",
    "p99",
    "max",
];

/// Columns in the order in which they are left out where a terminal is narrow.
const SPARE: [&str; 7] = [
    "busy mean",
    "p50",
    "busy p99",
    "mean",
    "finished",
    "max",
    "waiting",
];

/// The characters of a function's name that are worth more than another column.
const NAME: usize = 24;

/// The most unfinished tasks that are named, and the most functions of tasks that were never polled.
const MAX_OPEN_TASKS: usize = 3;

/// Writes the tasks. `by` is the field that tasks are grouped by.
pub(crate) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    tasks: &Tasks,
    by: Option<&str>,
) -> anyhow::Result<()> {
    let program = trace::program(info).unwrap_or_default();
    let format = ui::clean(&info.format);
    writeln!(
        out,
        "{}",
        ui::paragraph(&format!("{program} · {format}"), 2)
    )?;
    let scope = match tasks.is_whole {
        true => "figures of the whole run (--window: figures of the tasks that have a note)",
        false => "figures of the tasks that have a note in the trace",
    };
    writeln!(out, "{}", ui::paragraph(scope, 2))?;
    if let Some(line) = open_in_words(&tasks.open) {
        writeln!(out, "{}", ui::paragraph(&line, 2))?;
    }
    writeln!(out)?;
    let by = by.map(|by| ui::clean(by).into_owned());
    let head = head(by.as_deref());
    columns(&head).write_with_note(out, || tasks.rows.iter().map(cells))?;
    for note in notes(tasks) {
        writeln!(out, "{}", ui::paragraph(&note, 2))?;
    }
    Ok(())
}

/// Writes the head of the table, and its rows.
pub(crate) fn write_rows(out: &mut dyn Write, tasks: &Tasks) -> anyhow::Result<()> {
    let head = head(None);
    columns(&head).write(out, || tasks.rows.iter().map(cells))?;
    Ok(())
}

fn head(by: Option<&str>) -> Vec<&str> {
    HEAD.into_iter().chain(["function"]).chain(by).collect()
}

fn columns<'a>(head: &'a [&'a str]) -> Columns<'a> {
    Columns {
        spare: &SPARE,
        text: NAME,
        ..Columns::new(head, HEAD.len())
    }
}

fn cells(row: &Row) -> Vec<String> {
    let time = |ns: Option<u64>| ns.map_or_else(|| "-".to_owned(), ui::duration);
    let mut cells: Vec<String> = [row.tasks, row.finished, row.dropped, row.unfinished]
        .map(ui::count)
        .into();
    cells.extend([
        ui::duration(row.busy_ns),
        time(row.busy_mean_ns),
        time(row.busy_p99_ns),
        ui::duration(row.waiting_ns),
        time(row.elapsed_mean_ns),
        time(row.elapsed_p50_ns),
        time(row.elapsed_p99_ns),
        time(row.elapsed_max_ns),
        ui::clean(&row.name).into_owned(),
    ]);
    cells.extend(row.by.as_ref().map(|by| ui::clean(by).into_owned()));
    cells
}

/// Which tasks have not ended, in a line; `None`: there are none.
pub(crate) fn open_in_words(open: &[OpenTask]) -> Option<String> {
    let one = |task: &OpenTask| {
        format!(
            "{} (task {}) for {}, polled {} in {}, waits for {}",
            ui::clean(&task.name),
            task.id,
            ui::duration(task.elapsed_ns),
            ui::things(task.polls, "time"),
            ui::duration(task.busy_ns),
            ui::duration(task.waits_ns)
        )
    };
    (!open.is_empty()).then(|| format!("unfinished: {}", ui::first_of(open, one)))
}

/// The functions of tasks that were dropped before their first poll, in a line; `None`: there are none.
fn never_polled_in_words(rows: &[Row]) -> Option<String> {
    let mut rows: Vec<&Row> = rows.iter().filter(|row| row.never_polled > 0).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.never_polled));
    let all = rows.iter().map(|row| row.never_polled).sum();
    let one = |row: &&Row| {
        format!(
            "{} of {}",
            ui::count(row.never_polled),
            ui::clean(&row.name)
        )
    };
    let shown: Vec<String> = rows.iter().take(MAX_OPEN_TASKS).map(one).collect();
    let more = match rows.len() - shown.len() {
        0 => String::new(),
        more => format!("; and of {}", ui::things(more as u64, "more function")),
    };
    let shown = shown.join("; ");
    (!rows.is_empty()).then(|| format!("{} never polled: {shown}{more}", ui::things(all, "task")))
}

fn notes(tasks: &Tasks) -> Vec<String> {
    let mut notes = Vec::new();
    if tasks.rows.is_empty() {
        notes.push(" (no tasks)".to_owned());
    }
    notes.extend(never_polled_in_words(&tasks.rows));
    if !tasks.only_counted.is_empty() {
        let functions = ui::first_of(&tasks.only_counted, |name| ui::clean(name).into_owned());
        notes.push(format!(
            "not in the table: tasks that began while calls of their function were only counted (FDR_BUDGET): {functions}"
        ));
    }
    notes.push("mean to max: of tasks that finished; p50 and p99 are within 7 %".to_owned());
    if !tasks.rows.is_empty() {
        notes.push(NOT_IN_TIME.to_owned());
    }
    if tasks.hidden > 0 {
        let hidden = ui::things(tasks.hidden as u64, "function");
        notes.push(format!("{hidden} not shown (--limit)"));
    }
    notes
}

/// Writes JSON.
pub(crate) fn write_json(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    tasks: &Tasks,
    by: Option<&str>,
) -> anyhow::Result<()> {
    let document = json!({
        "reason": info.reason,
        "by": by,
        "is_whole_run": tasks.is_whole,
        "only_counted": tasks.only_counted,
        "tasks": tasks.rows,
        "tasks_not_shown": tasks.hidden,
        "open_tasks": tasks.open,
    });
    json::print_of(out, file, info, document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_nobody_polled_are_named() {
        let row = |name: &str, never_polled| Row {
            name: name.to_owned(),
            never_polled,
            ..Row::default()
        };
        assert_eq!(never_polled_in_words(&[row("a", 0)]), None);
        let one = never_polled_in_words(&[row("a", 0), row("b", 1)]);
        assert_eq!(one.as_deref(), Some("1 task never polled: 1 of b"));
        let rows = [("a", 1), ("b", 3), ("c", 2), ("d", 1)].map(|(name, count)| row(name, count));
        let many = never_polled_in_words(&rows);
        let wanted = "7 tasks never polled: 3 of b; 2 of c; 1 of a; and of 1 more function";
        assert_eq!(many.as_deref(), Some(wanted));
    }
}
