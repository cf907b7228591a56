//! A comparison as a table, and as Markdown.

use std::io::Write;
use std::num::NonZeroUsize;

use super::compare::{Comparison, Line, Side, Verdict};
use super::runs::Scope;
use crate::columns::Columns;
use crate::ui;

const HEAD: [&str; 11] = [
    "calls",
    "→ calls",
    "self",
    "→ self",
    "change",
    "p50",
    "→ p50",
    "p99",
    "→ p99",
    "verdict",
    "function",
];
/// The columns that are left out on a narrow terminal, in this order.
const SPARE: [&str; 6] = ["p50", "→ p50", "p99", "→ p99", "calls", "→ calls"];

fn verdict(line: &Line) -> &'static str {
    match line.verdict {
        Verdict::Slower => "slower",
        Verdict::Faster => "faster",
        Verdict::NotShown => "-",
        Verdict::NotTested => "",
        Verdict::New => "new",
        Verdict::Gone => "gone",
    }
}

fn cells(line: &Line) -> Vec<String> {
    let cell = |side: &Option<Side>, figure: fn(&Side) -> Option<String>| {
        side.as_ref()
            .and_then(figure)
            .unwrap_or_else(|| "-".to_owned())
    };
    let calls: fn(&Side) -> Option<String> = |side| Some(ui::count(side.calls.round() as u64));
    let own: fn(&Side) -> Option<String> = |side| Some(duration(side.own));
    let p50: fn(&Side) -> Option<String> = |side| side.p50.map(duration);
    let p99: fn(&Side) -> Option<String> = |side| side.p99.map(duration);
    let mut cells = vec![
        cell(&line.before, calls),
        cell(&line.after, calls),
        cell(&line.before, own),
        cell(&line.after, own),
        line.change.map_or_else(
            || "-".to_owned(),
            |change| format!("{:+.1} %", 100.0 * change),
        ),
        cell(&line.before, p50),
        cell(&line.after, p50),
        cell(&line.before, p99),
        cell(&line.after, p99),
        verdict(line).to_owned(),
    ];
    let name = ui::clean(&line.name);
    cells.push(match &line.was {
        Some(was) => format!("{name} (was {})", ui::clean(was)),
        None => name.into_owned(),
    });
    cells
}

fn duration(ns: f64) -> String {
    ui::duration(ns.round() as u64)
}

pub(super) fn shown_lines(comparison: &Comparison, limit: Option<NonZeroUsize>) -> &[Line] {
    let most = limit.map_or(usize::MAX, NonZeroUsize::get);
    &comparison.lines[..comparison.lines.len().min(most)]
}

/// Of what the figures are.
fn scope_in_words(comparison: &Comparison) -> &'static str {
    match comparison.scope {
        Scope::WholeRun => "figures of the whole runs",
        Scope::Records => "figures of the records",
    }
}

/// What the comparison shows, in words.
fn summary(comparison: &Comparison) -> String {
    let (before, after) = comparison.runs;
    if before < 2 || after < 2 {
        return format!(
            "{} before, {} after: one run on a side shows no change, because nothing is known of chance",
            ui::things(before as u64, "run"),
            ui::things(after as u64, "run"),
        );
    }
    let count = |wanted| {
        let lines = comparison.lines.iter();
        lines.filter(|line| line.verdict == wanted).count() as u64
    };
    format!(
        "{} slower, {} faster, of {} tested; {} before, {} after; the chance of any false alarm is below 1 %",
        ui::things(count(Verdict::Slower), "function"),
        ui::count(count(Verdict::Faster)),
        ui::count(comparison.tested as u64),
        ui::things(before as u64, "run"),
        ui::things(after as u64, "run"),
    )
}

/// How many lines are not shown.
pub(super) fn hidden(comparison: &Comparison, limit: Option<NonZeroUsize>) -> usize {
    comparison.lines.len() - shown_lines(comparison, limit).len()
}

fn hidden_in_words(comparison: &Comparison, limit: Option<NonZeroUsize>) -> Option<String> {
    let hidden = hidden(comparison, limit);
    (hidden > 0).then(|| {
        format!(
            "{} not shown (--limit)",
            ui::things(hidden as u64, "function")
        )
    })
}

pub(super) fn table(
    out: &mut dyn Write,
    comparison: &Comparison,
    limit: Option<NonZeroUsize>,
) -> anyhow::Result<()> {
    writeln!(out, "{}\n", scope_in_words(comparison))?;
    let columns = Columns {
        text: 24,
        spare: &SPARE,
        ..Columns::new(&HEAD, 9)
    };
    let lines = shown_lines(comparison, limit);
    columns.write_with_note(out, || lines.iter().map(cells))?;
    if let Some(words) = hidden_in_words(comparison, limit) {
        writeln!(out, "{words}")?;
    }
    writeln!(out, "{}", ui::paragraph(&summary(comparison), 2))?;
    Ok(())
}

pub(super) fn markdown(
    out: &mut dyn Write,
    comparison: &Comparison,
    limit: Option<NonZeroUsize>,
) -> anyhow::Result<()> {
    writeln!(out, "{}:\n", scope_in_words(comparison))?;
    writeln!(out, "| {} |", HEAD.join(" | "))?;
    writeln!(out, "|{}{}", " ---: |".repeat(9), " --- |".repeat(2))?;
    for line in shown_lines(comparison, limit) {
        let mut cells = cells(line);
        if let Some(name) = cells.last_mut() {
            *name = format!("`{}`", name.replace('`', "'").replace('|', "\\|"));
        }
        writeln!(out, "| {} |", cells.join(" | "))?;
    }
    writeln!(out)?;
    if let Some(words) = hidden_in_words(comparison, limit) {
        writeln!(out, "{words}.")?;
    }
    writeln!(out, "{}.", summary(comparison))?;
    Ok(())
}
