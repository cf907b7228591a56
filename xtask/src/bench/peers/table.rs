//! The results as a table for a terminal, as Markdown for the documentation, and as JSON. Every row of the
//! list is in each of them: what was not measured says why.

use std::fmt::Write;

use super::list::{FLOORS, Kind};
use super::sample::Cell;
use super::{BODIES, Row};
use crate::bench::figures::Spread;
use crate::bench::history::quoted;

/// Everything that a run found.
pub(crate) struct Findings {
    pub(crate) date: String,
    pub(crate) machine: String,
    pub(crate) compiler: String,
    /// At the beginning and at the end: whether others were at work.
    pub(crate) load: [String; 2],
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// Places in `BODIES`.
const LEAF: usize = 0;
pub(super) const MIX: usize = 2;

const HEADS: [&str; 11] = [
    "peer",
    BODIES[0].0,
    BODIES[1].0,
    BODIES[2].0,
    BODIES[3].0,
    "process: leaf",
    "index builder",
    "x rdtsc",
    "x rdtscp",
    "bytes",
    "code",
];

const LEGEND: &str = "\
Leaf to leaf, 2 threads: ns of the calling thread's CPU that tracing adds to a call, median of the rounds (least..most).
Process: the same with the recorder's own threads and processes, and all that is done until the records are out.
x rdtsc, x rdtscp: leaf over the floor's. Bytes: of a call, that come out. Code: bytes that tracing adds to the leaf.
";

/// By kind, then from the cheapest on; what was not measured comes last.
pub(crate) fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    let cost = |row: &Row| {
        let leaf = row.cells[LEAF].thread();
        leaf.map_or(f64::INFINITY, |spread| spread.median)
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
        if row.mode.kind == Kind::Off {
            return None;
        }
        let median = |row: &Row| row.cells[LEAF].thread().map(|spread| spread.median);
        let floor = self.rows.iter().find(|row| row.mode.label == floor)?;
        Some(median(row)? / median(floor)?)
    }

    /// One string for each of `HEADS`.
    fn fields(&self, row: &Row) -> [String; HEADS.len()] {
        let none = || "-".to_owned();
        let spread = |spread: Option<Spread>| {
            spread.map_or_else(none, |Spread { median, min, max }| {
                format!("{} ({}..{})", ns(median), ns(min), ns(max))
            })
        };
        let median = |cell: &Cell| cell.process().map_or_else(none, |spread| ns(spread.median));
        let ratio = |floor| {
            let ratio = self.ratio(row, floor);
            ratio.map_or_else(none, |ratio| format!("{ratio:.2}"))
        };
        let probe = row.probe.as_ref().ok();
        let bytes = probe.and_then(|probe| probe.bytes);
        let code = row.code.as_ref().ok();
        [
            row.mode.label.to_owned(),
            spread(row.cells[0].thread()),
            spread(row.cells[1].thread()),
            spread(row.cells[2].thread()),
            spread(row.cells[3].thread()),
            median(&row.cells[LEAF]),
            median(&row.cells[MIX]),
            ratio(FLOORS[0]),
            ratio(FLOORS[1]),
            bytes.map_or_else(none, |bytes| format!("{bytes:.1}")),
            code.map_or_else(none, |code| format!("{:.0}", code.more())),
        ]
    }

    /// Why something is not in the table, and what did not come out of a recorder.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for row in &self.rows {
            let of_cells = row.cells.iter().filter_map(|cell| cell.failure.as_ref());
            let mut of_row: Vec<&str> = of_cells
                .chain(row.probe.as_ref().err())
                .map(|why| last_line(why))
                .collect();
            of_row.dedup();
            notes.extend(
                of_row
                    .iter()
                    .map(|why| format!("{}: not measured: {why}", row.mode.label)),
            );
            let kept = row.probe.as_ref().ok().and_then(|probe| probe.kept);
            if let Some(kept) = kept.filter(|kept| *kept < 1.0) {
                let percent = kept * 100.0;
                notes.push(format!(
                    "{}: of the probe's calls, {percent:.1} % came out",
                    row.mode.label
                ));
            }
        }
        notes
    }

    /// What an untraced call takes, as the first row has it.
    fn untraced(&self) -> String {
        let cells = self.rows.first().map_or(&[][..], |row| &row.cells);
        let told = BODIES.iter().zip(cells).filter_map(|((label, ..), cell)| {
            let median = cell.untraced()?.median;
            Some(format!("{label} {} ns", ns(median)))
        });
        told.collect::<Vec<_>>().join(", ")
    }

    fn head(&self) -> String {
        format!(
            "{}; {}; {}; {} rounds in rotation, each process pinned; load {} at the beginning, {} at the end.",
            self.date, self.machine, self.compiler, self.rounds, self.load[0], self.load[1]
        )
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let mut lines = vec![HEADS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(|row| self.fields(row)));
        let width = |column: usize| {
            lines
                .iter()
                .map(|line| line[column].len())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..HEADS.len()).map(width).collect();
        let mut text = format!("{}\n\n", self.head());
        for line in &lines {
            let _ = write!(text, "{:<1$}", line[0], widths[0]);
            for (field, width) in line.iter().zip(&widths).skip(1) {
                let _ = write!(text, "  {field:>width$}");
            }
            text.push('\n');
        }
        let _ = write!(
            text,
            "\n{LEGEND}Untraced calls take: {}.\n",
            self.untraced()
        );
        for note in self.notes() {
            let _ = writeln!(text, "{note}");
        }
        text
    }

    /// For the documentation: figures, then versions and what is kept.
    pub(crate) fn markdown(&self) -> String {
        let mut text = format!(
            "\n{} Untraced calls take: {}.\n\n",
            self.head(),
            self.untraced()
        );
        text += &markdown_line(&HEADS);
        text += &markdown_line(&["---"; HEADS.len()]);
        for row in &self.rows {
            let fields = self.fields(row);
            text += &markdown_line(&fields.each_ref().map(String::as_str));
        }
        text.push('\n');
        for note in self.notes() {
            let _ = writeln!(text, "- {note}");
        }
        text += "\n| peer | version | what it keeps of a call, and what is lost |\n| --- | --- | --- |\n";
        for row in self.rows.iter().filter(|row| row.mode.kind != Kind::Off) {
            text += &markdown_line(&[row.mode.label, &row.version, row.mode.keeps]);
        }
        text.push('\n');
        text
    }

    /// One object; times in ns of CPU for each call, sizes in bytes, spreads as least, median, most.
    pub(crate) fn json(&self) -> String {
        let rows: Vec<String> = self.rows.iter().map(json_row).collect();
        format!(
            "{{\"date\": {}, \"machine\": {}, \"compiler\": {}, \"load\": [{}, {}], \"rounds\": {},\n\"rows\": [\n{}\n]}}\n",
            quoted(&self.date),
            quoted(&self.machine),
            quoted(&self.compiler),
            quoted(&self.load[0]),
            quoted(&self.load[1]),
            self.rounds,
            rows.join(",\n"),
        )
    }
}

/// About three digits.
pub(super) fn ns(value: f64) -> String {
    match value.abs() {
        size if size < 10.0 => format!("{value:.2}"),
        size if size < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn last_line(text: &str) -> &str {
    let lines = text.lines().rev().map(str::trim);
    lines
        .into_iter()
        .find(|line| !line.is_empty())
        .unwrap_or("")
}

fn markdown_line(fields: &[&str]) -> String {
    let fields: Vec<String> = fields
        .iter()
        .map(|field| field.replace('|', "\\|"))
        .collect();
    format!("| {} |\n", fields.join(" | "))
}

fn json_row(row: &Row) -> String {
    let spread = |Spread { median, min, max }| format!("[{min:.4}, {median:.4}, {max:.4}]");
    let cells = BODIES.iter().zip(&row.cells).map(|((label, ..), cell)| {
        let mut text = format!("{{\"body\": {}", quoted(label));
        let figures = [
            ("untraced", cell.untraced()),
            ("thread", cell.thread()),
            ("process", cell.process()),
        ];
        for (name, figure) in figures {
            if let Some(figure) = figure {
                let _ = write!(text, ", \"{name}\": {}", spread(figure));
            }
        }
        if let Some(failure) = &cell.failure {
            let _ = write!(text, ", \"not_measured\": {}", quoted(last_line(failure)));
        }
        text + "}"
    });
    let number =
        |value: Option<f64>| value.map_or_else(|| "null".to_owned(), |value| format!("{value:.4}"));
    let probe = row.probe.as_ref().ok();
    let code = row.code.as_ref().ok();
    format!(
        "{{\"peer\": {}, \"version\": {}, \"kind\": {}, \"bytes_per_call\": {}, \"kept\": {}, \
         \"leaf_code_bytes_untraced\": {}, \"leaf_code_bytes_traced\": {},\n  \"bodies\": [{}]}}",
        quoted(row.mode.label),
        quoted(&row.version),
        quoted(match row.mode.kind {
            Kind::Floor => "floor",
            Kind::Records => "records",
            Kind::Order => "order",
            Kind::Sums => "sums",
            Kind::Off => "off",
        }),
        number(probe.and_then(|probe| probe.bytes)),
        number(probe.and_then(|probe| probe.kept)),
        number(code.map(|code| code.untraced)),
        number(code.map(|code| code.traced)),
        cells.collect::<Vec<_>>().join(",\n    "),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::code::Twins;
    use crate::bench::peers::list;
    use crate::bench::peers::sample::{Probe, Sample};

    /// Every row of the list, at 10 ns for the first and 10 ns more for each; the last but one failed.
    pub(crate) fn findings() -> Findings {
        let rows: Vec<_> = list::rows();
        let failed = rows.len() - 2;
        let row = |(at, (peer, mode)): (usize, (&'static list::Peer, &'static list::Mode))| {
            let sample = |more: f64| Sample {
                untraced: 1.5,
                thread: 10.0 * (at as f64 + 1.0) + more,
                process: 10.0 * (at as f64 + 1.0) + 5.0,
            };
            let cell = |_| Cell {
                samples: [0.0, 1.0, 2.0].map(sample).to_vec(),
                failure: (at == failed).then(|| "cannot be built:\n  no | header\n\n".to_owned()),
            };
            Row {
                peer,
                mode,
                version: "1.2".to_owned(),
                cells: [0; 4].map(cell),
                probe: Ok(Probe {
                    bytes: Some(16.0),
                    kept: (at == 2).then_some(0.5),
                }),
                code: Ok(Twins {
                    untraced: 30.0,
                    traced: 71.0,
                }),
                program: Err("not built".to_owned()),
            }
        };
        Findings {
            date: "2026-01-02".to_owned(),
            machine: "a machine".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            load: ["0.1".to_owned(), "3.2".to_owned()],
            rounds: 3,
            rows: sorted(rows.into_iter().enumerate().map(row).collect()),
        }
    }

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        let mut lines = text.lines();
        lines
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    }

    #[test]
    fn every_row_is_in_every_form() {
        let findings = findings();
        assert_eq!(findings.rows.len(), list::rows().len());
        for (_, mode) in list::rows() {
            assert!(
                !line(&findings.text(), mode.label).is_empty(),
                "{}",
                mode.label
            );
            let cell = format!("| {} |", mode.label);
            assert!(
                !line(&findings.markdown(), &cell).is_empty(),
                "{}",
                mode.label
            );
            assert!(
                findings.json().contains(&quoted(mode.label)),
                "{}",
                mode.label
            );
        }
    }

    #[test]
    fn figures_and_ratios_are_right() {
        let text = findings().text();
        let words: Vec<&str> = line(&text, "fdr, rdtscp")
            .split_whitespace()
            .skip(2)
            .collect();
        let spread = ["41.0", "(40.0..42.0)"].repeat(4).join(" ");
        // The floors are at 11 and 21 ns.
        assert_eq!(
            words.join(" "),
            format!("{spread} 45.0 45.0 3.73 1.95 16.0 41")
        );
        assert!(
            text.contains("Untraced calls take: leaf 1.50 ns, fib 1.50 ns"),
            "{text}"
        );
        assert!(
            text.contains("fdr, rdtsc: of the probe's calls, 50.0 % came out"),
            "{text}"
        );
    }

    #[test]
    fn what_failed_says_why_once() {
        let findings = findings();
        let failed = list::rows()[list::rows().len() - 2].1.label;
        let why = format!("{failed}: not measured: no | header");
        assert_eq!(
            findings.text().matches(&why).count(),
            1,
            "{}",
            findings.text()
        );
        assert!(
            findings
                .json()
                .contains("\"not_measured\": \"no | header\"")
        );
        let mut records = findings
            .rows
            .iter()
            .filter(|row| row.mode.kind == Kind::Records);
        assert_eq!(records.next_back().map(|row| row.mode.label), Some(failed));
    }

    #[test]
    fn the_json_is_well_formed() {
        let json = findings().json();
        for (open, close) in [('{', '}'), ('[', ']')] {
            assert_eq!(json.matches(open).count(), json.matches(close).count());
        }
        assert!(
            json.contains("\"thread\": [40.0000, 41.0000, 42.0000]"),
            "{json}"
        );
    }
}
