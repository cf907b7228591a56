//! The results as Markdown, for a terminal as for the documentation. Every row of the list is in it: what was not
//! measured says why.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table};

use super::sample::Sample;
use super::{BODIES, FLOORS, Kind, Row};
use crate::figures::{Cell, Spread};
use crate::table::{NONE, number, table};

/// Everything that a run found.
pub(super) struct Findings {
    pub(super) date: String,
    pub(super) machine: String,
    pub(super) compiler: String,
    /// At the beginning and at the end: whether others were at work.
    pub(super) load: [String; 2],
    pub(super) rounds: u64,
    pub(super) rows: Vec<Row>,
}

/// Places in `BODIES`.
pub(super) const LEAF: usize = 0;
pub(super) const MIX: usize = 2;

pub(super) const LEGEND: &str = "\
Leaf to leaf, 2 threads: ns of the calling thread's CPU that tracing adds to a call, median of the rounds (least..most).
Process: the same with the recorder's own threads and processes, and all that is done until the records are out.
x rdtsc, x rdtscp: leaf over the floor's. Bytes: of a call, that come out. Code: bytes that tracing adds to the leaf.
";

impl Cell<Sample> {
    pub(crate) fn untraced(&self) -> Option<Spread> {
        self.spread(|sample| sample.untraced)
    }

    pub(crate) fn thread(&self) -> Option<Spread> {
        self.spread(|sample| sample.thread)
    }

    pub(super) fn process(&self) -> Option<Spread> {
        self.spread(|sample| sample.process)
    }
}

/// By kind, then from the cheapest on; what was not measured comes last.
pub(super) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    let cost = |row: &Row| {
        row.cells[LEAF]
            .thread()
            .map_or(f64::INFINITY, |spread| spread.median)
    };
    rows.sort_by(|a, b| {
        let by_cost = || cost(a).total_cmp(&cost(b));
        a.mode.kind.cmp(&b.mode.kind).then_with(by_cost)
    });
    rows
}

impl Findings {
    /// Median of the leaf over the floor's, if both were measured.
    fn ratio(&self, row: &Row, floor: &str) -> Option<f64> {
        let median = |row: &Row| Some(row.cells[LEAF].thread()?.median);
        let floor = self.rows.iter().find(|row| row.mode.label == floor)?;
        let ratio = median(row)? / median(floor)?;
        (row.mode.kind != Kind::Off).then_some(ratio)
    }

    fn figures(&self) -> Table {
        let bodies = BODIES.map(|(label, ..)| label).join(" | ");
        let others = "process: leaf | index builder | x rdtsc | x rdtscp | bytes | code";
        let mut table = table(&format!("peer | {bodies} | {others}"));
        for row in &self.rows {
            let spread = |cell: &Cell<Sample>| spread_cell(cell.thread());
            let process = |body: usize| {
                let spread = row.cells[body].process();
                spread.map_or(NONE.to_owned(), |spread| ns(spread.median))
            };
            let bytes = row.probe.as_ref().ok().and_then(|probe| probe.bytes);
            let code = row.code.map(|[untraced, traced]| traced - untraced);
            let mut fields = vec![row.mode.label.clone()];
            fields.extend(row.cells.iter().map(spread));
            fields.extend([process(LEAF), process(MIX)]);
            fields.extend(FLOORS.map(|floor| number(self.ratio(row, floor), 2)));
            fields.extend([number(bytes, 1), number(code, 0)]);
            table.add_row(fields);
        }
        table
    }

    /// Why something is not in the table, and what did not come out of a recorder.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for row in &self.rows {
            let label = &row.mode.label;
            for why in row.failures() {
                notes.push(format!("{label}: not measured: {why}"));
            }
            let kept = row.probe.as_ref().ok().and_then(|probe| probe.kept);
            if let Some(kept) = kept.filter(|kept| *kept < 1.0) {
                notes.push(format!(
                    "{label}: of the probe's calls, {:.1} % came out",
                    kept * 100.0
                ));
            }
        }
        notes
    }

    fn head(&self) -> String {
        format!(
            "{}; {}; {}; {} rounds in rotation, each process pinned; load {} at the beginning, {} at the end.",
            self.date, self.machine, self.compiler, self.rounds, self.load[0], self.load[1]
        )
    }

    /// What an untraced call takes, as the first row has it.
    fn untraced(&self) -> String {
        let cells = self.rows.first().map_or(&[][..], |row| &row.cells);
        let figures = BODIES.iter().zip(cells).filter_map(|((label, ..), cell)| {
            Some(format!("{label} {} ns", ns(cell.untraced()?.median)))
        });
        let figures = figures.collect::<Vec<_>>().join(", ");
        format!("Untraced calls take: {figures}.")
    }

    /// Figures, then versions and what is kept.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "\n{} {}\n\n{}\n\n",
            self.head(),
            self.untraced(),
            self.figures()
        );
        for note in self.notes() {
            let _ = writeln!(text, "- {note}");
        }
        let mut kept = table("peer | version | what it keeps of a call, and what is lost");
        for column in kept.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Left);
        }
        for row in self.rows.iter().filter(|row| row.mode.kind != Kind::Off) {
            kept.add_row([
                row.mode.label.clone(),
                row.version.clone(),
                row.mode.keeps.clone(),
            ]);
        }
        format!("{text}\n{kept}\n\n")
    }
}

/// A median with its spread, or a dash.
pub(crate) fn spread_cell(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || NONE.to_owned(),
        |Spread { median, min, max }| format!("{} ({}..{})", ns(median), ns(min), ns(max)),
    )
}

/// About three digits.
pub(super) fn ns(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::peers::{list, tests::rows};

    /// Every row of the list; the last but one failed.
    pub(in crate::peers) fn findings() -> Findings {
        let peers = list().expect("a list");
        let folders: Vec<&str> = peers.iter().map(|peer| peer.folder.as_str()).collect();
        let mut rows = rows(&folders);
        let failed = rows.len() - 2;
        for cell in &mut rows[failed].cells {
            cell.failure = Some("cannot be built:\n  no | header\n\n".to_owned());
        }
        Findings {
            date: "2026-01-02".to_owned(),
            machine: "a machine".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            load: ["0.1".to_owned(), "3.2".to_owned()],
            rounds: 3,
            rows: sorted(rows),
        }
    }

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    }

    #[test]
    fn every_row_is_in_both_tables() {
        let findings = findings();
        let text = findings.markdown();
        for row in &findings.rows {
            let tables = if row.mode.kind == Kind::Off { 1 } else { 2 };
            let start = format!("| {} ", row.mode.label);
            let lines = text.lines().filter(|line| line.starts_with(&start));
            assert!(lines.count() >= tables, "{start}");
        }
    }

    #[test]
    fn figures_and_ratios_are_right() {
        let text = findings().markdown();
        let words: Vec<&str> = line(&text, "| fdr, rdtscp")
            .split_whitespace()
            .filter(|word| *word != "|")
            .skip(2)
            .collect();
        let spread = ["41.0", "(40.0..42.0)"].repeat(4).join(" ");
        // The floors are at 11 and 21 ns.
        assert_eq!(
            words.join(" "),
            format!("{spread} 45.0 45.0 3.73 1.95 16.0 41")
        );
        for wanted in [
            "Untraced calls take: leaf 1.50 ns, fib 1.50 ns",
            "fdr, rdtsc: of the probe's calls, 50.0 % came out",
        ] {
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn what_failed_says_why_once() {
        let findings = findings();
        let mut failed = findings
            .rows
            .iter()
            .filter(|row| row.cells[0].failure.is_some());
        let label = &failed.next().expect("a row").mode.label;
        let why = format!("{label}: not measured: no | header");
        let text = findings.markdown();
        assert_eq!(text.matches(&why).count(), 1, "{text}");
        let mut records = findings
            .rows
            .iter()
            .filter(|row| row.mode.kind == Kind::Records);
        assert_eq!(records.next_back().map(|row| &row.mode.label), Some(label));
    }
}
