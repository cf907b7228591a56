//! The results as Markdown, which is good for a terminal too, and as JSON. Every number has its unit in the
//! head of its column; every row is there: what was not measured says why.

use std::fmt::Write;

use super::{Findings, Row, What, pairs};
use crate::bench::figures::{Spread, get};

const CALLS: &str = "\
| threads | clock | untraced, ns | floor, ns | recorded, ns | over the floor | slowest thread | million records/s of a core | of all, on the wall |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const HOLDINGS: &str = "\
| threads | clock | ring in memory, MiB/thread | in huge pages, MiB/thread | mappings more than off | of them the ring | descriptors | faults/MiB, first lap | later laps | first lap, ns/call | dumper, ms/thread |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
";

const KIB_IN_MIB: f64 = 1024.0;

/// All tables.
pub(super) fn markdown(findings: &Findings) -> String {
    let Findings {
        date,
        machine,
        load: [before, after],
        rounds,
        rows,
        footprint,
    } = findings;
    let mut text = format!(
        "\n{date}; {machine}; {rounds} rounds in rotation; load {before} at the beginning, {after} at the end. \
         Medians (least..most).\n\n{CALLS}"
    );
    let of_threads = || {
        rows.iter().filter_map(|row| match row.what {
            What::Threads(threads) => Some((threads, row)),
            _ => None,
        })
    };
    for (threads, row) in of_threads() {
        text += &line(calls(threads, row));
    }
    let _ = write!(text, "\n{HOLDINGS}");
    let mut off = None;
    for (threads, row) in of_threads() {
        match row.clock {
            None => off = Some(row),
            Some(_) => text += &line(holdings(threads, row, off)),
        }
    }
    text += &pairs::table(rows);
    text += "\n| of a call, counted by valgrind | untraced | recorded |\n| --- | --- | --- |\n";
    match footprint {
        Ok(footprint) => {
            for (name, values) in &footprint.rows {
                let fields = values.map(|value| format!("{value:.3}"));
                text += &line([(*name).to_owned()].into_iter().chain(fields));
            }
        }
        Err(why) => text += &line([format!("not measured: {}", one_line(why))]),
    }
    for row in rows {
        if let Some(why) = &row.failure {
            let (words, _) = row.command();
            let clock = row.clock.unwrap_or("off");
            let _ = write!(
                text,
                "\n- {clock}, {}: not measured: {}",
                words.join(" "),
                one_line(why)
            );
        }
    }
    text + "\n"
}

pub(super) fn line(fields: impl IntoIterator<Item = String>) -> String {
    let fields: Vec<String> = fields
        .into_iter()
        .map(|field| field.replace('|', "\\|"))
        .collect();
    format!("| {} |\n", fields.join(" | "))
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A median with its spread, or a dash.
pub(super) fn shown(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |Spread { median, min, max }| format!("{median:.digits$} ({min:.digits$}..{max:.digits$})"),
    )
}

/// A median alone.
fn middle(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or_else(
        || "-".to_owned(),
        |spread| format!("{:.digits$}", spread.median),
    )
}

fn calls(threads: usize, row: &Row) -> [String; 9] {
    let records = row.clock.is_some();
    let when = |field: String| if records { field } else { "-".to_owned() };
    let over_floor = row.spread(|sample| {
        let untraced = get(sample, "untraced").ok()?;
        let over = |key| Some(get(sample, key).ok()? - untraced);
        Some(over("traced")? / over("floor")?)
    });
    let millions = |key| row.word(key).map(|spread| spread.times(1e-6));
    [
        threads.to_string(),
        row.clock.unwrap_or("off").to_owned(),
        middle(row.word("untraced"), 2),
        when(shown(row.over("floor", "untraced"), 1)),
        shown(row.over("traced", "untraced"), if records { 1 } else { 2 }),
        when(shown(over_floor, 3)),
        when(middle(row.ratio("most_thread", "traced"), 3)),
        when(middle(millions("records_per_core_s"), 1)),
        when(middle(millions("records_per_s"), 1)),
    ]
}

fn holdings(threads: usize, row: &Row, off: Option<&Row>) -> [String; 11] {
    let each = 1.0 / threads as f64;
    let mib = |key| row.word(key).map(|spread| spread.times(each / KIB_IN_MIB));
    let without = off.and_then(|off| off.word("mappings"));
    let mappings = row
        .word("mappings")
        .zip(without)
        .map(|(with, without)| format!("{:.0}", with.median - without.median));
    [
        threads.to_string(),
        row.clock.unwrap_or("off").to_owned(),
        middle(mib("ring_kib"), 2),
        middle(mib("ring_huge_kib"), 2),
        mappings.unwrap_or_else(|| "-".to_owned()),
        middle(row.word("ring_mappings"), 0),
        middle(row.word("descriptors"), 0),
        middle(row.word("first_lap_faults"), 1),
        shown(row.word("later_faults"), 2),
        shown(row.word("first_lap"), 1),
        middle(
            row.word("dumper_ns")
                .map(|spread| spread.times(each * 1e-6)),
            2,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::figures::words;
    use crate::bench::scale::footprint::Footprint;

    fn row(what: What, clock: Option<&'static str>, said: &str) -> Row {
        let mut row = Row::new(what, clock);
        row.samples = vec![words(said); 3];
        row
    }

    fn findings() -> Findings {
        let said = |mappings: u32| {
            format!(
                "untraced=1 floor=31 traced=34 least_thread=34 most_thread=35.7 records_per_core_s=58000000 \
                 records_per_s=110000000 first_lap=50 first_lap_faults=100 later_faults=0.5 \
                 mappings={mappings} ring_mappings=1 ring_kib=8192 ring_huge_kib=2048 descriptors=5 \
                 dumper_ns=3000000"
            )
        };
        let mut failed = Row::new(What::Dropped, Some("rdtsc"));
        failed.failure = Some("the process:\n  crashed | badly\n".to_owned());
        Findings {
            date: "2026-01-02".to_owned(),
            machine: "a machine".to_owned(),
            load: ["0.5".to_owned(), "2.5".to_owned()],
            rounds: 3,
            rows: vec![
                row(What::Threads(2), None, &said(40)),
                row(What::Threads(2), Some("rdtscp"), &said(46)),
                failed,
            ],
            footprint: Ok(Footprint {
                rows: vec![("stores", [1.0, 13.0])],
            }),
        }
    }

    #[test]
    fn calls_are_told_over_the_untraced_twin_and_the_floor() {
        let text = markdown(&findings());
        let row = "| 2 | rdtscp | 1.00 | 30.0 (30.0..30.0) | 33.0 (33.0..33.0) | 1.100 (1.100..1.100) | \
                   1.050 | 58.0 | 110.0 |\n";
        assert!(text.contains(row), "{text}");
        assert!(
            text.contains("| 2 | off | 1.00 | - | 33.00 (33.00..33.00) | - |"),
            "{text}"
        );
    }

    #[test]
    fn what_is_held_is_told_for_each_thread() {
        let text = markdown(&findings());
        let row = "| 2 | rdtscp | 4.00 | 1.00 | 6 | 1 | 5 | 100.0 | 0.50 (0.50..0.50) | 50.0 (50.0..50.0) | 1.50 |\n";
        assert!(text.contains(row), "{text}");
    }

    #[test]
    fn what_failed_says_why() {
        let text = markdown(&findings());
        let why = "- rdtsc, pair floor-rdtsc dropped: not measured: the process: crashed | badly\n";
        assert!(text.contains(why), "{text}");
        assert!(text.contains("| stores | 1.000 | 13.000 |\n"), "{text}");
    }
}
