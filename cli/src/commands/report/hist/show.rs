//! A distribution in the terminal.

use std::io::Write;

use super::durations::Bucket;
use super::{Distribution, Distributions, in_words, percent};
use crate::ui;

/// Rows that are shown, and the width of what is no terminal.
const ROWS: usize = 32;
const WIDTH: usize = 80;
/// The longest bar: a wide terminal makes it no easier to read.
const BAR: usize = 100;

/// Writes all of them.
pub(super) fn write(out: &mut dyn Write, found: &Distributions) -> anyhow::Result<()> {
    if found.list.is_empty() {
        writeln!(out, "no calls of such a function")?;
    }
    for (nth, distribution) in found.list.iter().enumerate() {
        if nth > 0 {
            writeln!(out)?;
        }
        one(out, distribution, found.is_whole_run)?;
    }
    if found.hidden > 0 {
        let more = ui::things(found.hidden as u64, "more function");
        writeln!(out, "\n{more} not shown (--limit)")?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, distribution: &Distribution, is_whole: bool) -> anyhow::Result<()> {
    let (row, durations) = (&distribution.row, &distribution.durations);
    let name = ui::clean(&row.name);
    let bold = |text: &str| match ui::colour() {
        true => format!("\x1b[1m{text}\x1b[0m"),
        false => text.to_owned(),
    };
    writeln!(out, "{}", bold(&name))?;
    if row.untimed {
        writeln!(
            out,
            "  {} without times: the function is untimed",
            ui::things(row.calls, "call")
        )?;
        return Ok(());
    }
    let facts = facts(distribution, is_whole);
    writeln!(
        out,
        "  {}",
        ui::wrap_facts(&facts, columns().saturating_sub(2), 2)
    )?;
    match in_words(distribution) {
        Some(words) => writeln!(out, "  {}", ui::paragraph(&words, 2))?,
        None if durations.calls > 0 => writeln!(out, "  too few calls to tell modes")?,
        None => {}
    }
    table(out, distribution)
}

/// Calls and percentiles.
fn facts(distribution: &Distribution, is_whole: bool) -> String {
    let (row, durations) = (&distribution.row, &distribution.durations);
    let calls = ui::things(durations.calls, "call");
    let mut facts = vec![match is_whole {
        true => format!("{calls} of the whole run"),
        false => calls,
    }];
    if row.clipped > 0 {
        facts.push(format!("{} more clipped", ui::count(row.clipped)));
    }
    if row.counted > 0 {
        facts.push(format!("{} more only counted", ui::count(row.counted)));
    }
    let known = [
        ("min", row.min_ns),
        ("p50", row.p50_ns),
        ("p90", row.p90_ns),
        ("p99", row.p99_ns),
        ("max", row.max_ns),
    ];
    let known = known.iter().filter_map(|(name, ns)| Some((name, (*ns)?)));
    facts.extend(known.map(|(name, ns)| format!("{name} {}", ui::duration(ns))));
    facts.join(" · ")
}

fn columns() -> usize {
    ui::columns().unwrap_or(WIDTH)
}

fn table(out: &mut dyn Write, distribution: &Distribution) -> anyhow::Result<()> {
    let durations = &distribution.durations;
    let buckets = durations.buckets(ROWS);
    let Some(largest) = buckets.iter().map(|bucket| bucket.calls).max() else {
        return Ok(());
    };
    let begins: Vec<String> = buckets
        .iter()
        .map(|bucket| ui::duration(bucket.from))
        .collect();
    let begin = widest(begins.iter());
    let counts: Vec<String> = buckets
        .iter()
        .map(|bucket| ui::count(bucket.calls))
        .collect();
    let count = widest(counts.iter());
    let marks: Vec<String> = buckets
        .iter()
        .map(|bucket| marks(distribution, bucket))
        .collect();
    let mark = widest(marks.iter());
    // Two spaces before each part; a share has nine characters.
    let used = 2 + begin + 2 + count + 2 + 9 + 2 + 1 + mark;
    let room = columns().saturating_sub(used).clamp(8, BAR);
    let (mut is_gap, all) = (false, durations.calls.max(1) as f64);
    for (nth, bucket) in buckets.iter().enumerate() {
        if bucket.calls == 0 {
            if !is_gap {
                writeln!(out, "  {:>begin$}", "⋮")?;
            }
            is_gap = true;
            continue;
        }
        is_gap = false;
        let share = percent(100.0 * bucket.calls as f64 / all);
        let bar = bar(bucket.calls, largest, room);
        let line = format!(
            "  {:>begin$}  {:>count$}  {share:>9}  {bar} {}",
            begins[nth], counts[nth], marks[nth]
        );
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> usize {
    texts.map(|text| text.chars().count()).max().unwrap_or(0)
}

/// The percentiles that lie in a bucket.
fn marks(distribution: &Distribution, bucket: &Bucket) -> String {
    let row = &distribution.row;
    let known = [
        ("p50", row.p50_ns),
        ("p90", row.p90_ns),
        ("p99", row.p99_ns),
    ];
    let inside = |ns: u64| bucket.from <= ns && ns < bucket.until;
    let names = known.iter().filter(|(_, ns)| ns.is_some_and(inside));
    let names: Vec<&str> = names.map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("← {}", names.join(" ")),
    }
}

/// A bar of at most `room` characters, in eighths of a character. If there is any call, the bar has at least one
/// eighth.
fn bar(calls: u64, largest: u64, room: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = calls as f64 / largest.max(1) as f64 * (room * 8) as f64;
    let eighths = (eighths.round() as usize).max(1);
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_proportional_and_never_empty() {
        assert_eq!(bar(100, 100, 4), "████");
        assert_eq!(bar(50, 100, 4), "██");
        assert_eq!(bar(53, 100, 4), "██▏");
        assert_eq!(bar(1, 1_000_000, 4), "▏");
    }
}
