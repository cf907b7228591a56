//! The results as a table for a terminal, as Markdown for the documentation, and as JSON. Every row of the list is
//! in each of them: what was not measured says why.

use std::fmt::Write;

use serde_json::{Value, json};

use super::sample::Sample;
use super::{BODIES, FLOORS, Kind, Row};
use crate::Result;
use crate::figures::{Cell, Spread, rounded};
use crate::table::{NONE, Table, last_line, number};

/// Everything that a run found.
pub(super) struct Findings {
    pub(super) date: String,
    pub(super) machine: String,
    pub(super) compiler: String,
    /// At the beginning and at the end: whether others were at work.
    pub(super) load: [String; 2],
    pub(super) rounds: usize,
    pub(super) rows: Vec<Row>,
}

/// Places in `BODIES`.
pub(super) const LEAF: usize = 0;
pub(super) const MIX: usize = 2;

const LEGEND: &str = "\
Leaf to leaf, 2 threads: ns of the calling thread's CPU that tracing adds to a call, median of the rounds (least..most).
Process: the same with the recorder's own threads and processes, and all that is done until the records are out.
x rdtsc, x rdtscp: leaf over the floor's. Bytes: of a call, that come out. Code: bytes that tracing adds to the leaf.
";

impl Cell<Sample> {
    fn untraced(&self) -> Option<Spread> {
        self.spread(|sample| Some(sample.untraced))
    }

    pub(super) fn thread(&self) -> Option<Spread> {
        self.spread(|sample| Some(sample.thread))
    }

    pub(super) fn process(&self) -> Option<Spread> {
        self.spread(|sample| Some(sample.process))
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
        let mut table = Table::new(&format!("peer | {bodies} | {others}"));
        for row in &self.rows {
            let spread = |cell: &Cell<Sample>| {
                cell.thread()
                    .map_or(NONE.to_owned(), |Spread { median, min, max }| {
                        format!("{} ({}..{})", ns(median), ns(min), ns(max))
                    })
            };
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
            table.add(fields);
        }
        table
    }

    /// Why something is not in the table, and what did not come out of a recorder.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for row in &self.rows {
            let label = &row.mode.label;
            let failures = row.cells.iter().filter_map(|cell| cell.failure.as_ref());
            let failures = failures.chain(row.probe.as_ref().err());
            let mut of_row: Vec<&str> = failures.map(|why| last_line(why)).collect();
            of_row.dedup();
            notes.extend(
                of_row
                    .iter()
                    .map(|why| format!("{label}: not measured: {why}")),
            );
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

    /// For a terminal.
    pub(super) fn text(&self) -> String {
        let (head, table, notes) = (self.head(), self.figures().text(), self.notes().join("\n"));
        format!("{head}\n\n{table}\n{LEGEND}{}\n{notes}\n", self.untraced())
    }

    /// For the documentation: figures, then versions and what is kept.
    pub(super) fn markdown(&self) -> String {
        let mut text = format!(
            "\n{} {}\n\n{}\n",
            self.head(),
            self.untraced(),
            self.figures().markdown()
        );
        for note in self.notes() {
            let _ = writeln!(text, "- {note}");
        }
        let mut kept = Table::new("peer | version | what it keeps of a call, and what is lost");
        for row in self.rows.iter().filter(|row| row.mode.kind != Kind::Off) {
            kept.add([
                row.mode.label.clone(),
                row.version.clone(),
                row.mode.keeps.clone(),
            ]);
        }
        format!("{text}\n{}\n", kept.markdown())
    }

    /// One object; times in ns of CPU for each call, sizes in bytes, spreads as least, median, most.
    pub(super) fn json(&self) -> Result<String> {
        let json = json!({
            "date": self.date,
            "machine": self.machine,
            "compiler": self.compiler,
            "load": self.load,
            "rounds": self.rounds,
        });
        let rows: Vec<Value> = self.rows.iter().map(json_of).collect();
        lines(&json, &rows)
    }
}

/// An object with these rows, a line each, so that a difference shows the rows that moved.
fn lines(head: &Value, rows: &[Value]) -> Result<String> {
    let head = serde_json::to_string(head)?;
    let head = head.trim_end_matches('}');
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    Ok(format!("{head},\"rows\":[\n{}\n]}}\n", rows.join(",\n")))
}

fn json_of(row: &Row) -> Value {
    let bodies = BODIES.iter().zip(&row.cells).map(|((label, ..), cell)| {
        let mut body = json!({"body": label});
        let figures = [
            ("untraced", cell.untraced()),
            ("thread", cell.thread()),
            ("process", cell.process()),
        ];
        for (name, figure) in figures {
            if let Some(figure) = figure {
                body[name] = json!(figure);
            }
        }
        if let Some(failure) = &cell.failure {
            body["not_measured"] = json!(last_line(failure));
        }
        body
    });
    let probe = row.probe.as_ref().ok();
    json!({
        "peer": row.mode.label,
        "version": row.version,
        "kind": row.mode.kind,
        "bytes_per_call": probe.and_then(|probe| probe.bytes).map(rounded),
        "kept": probe.and_then(|probe| probe.kept).map(rounded),
        "leaf_code_bytes_untraced": row.code.map(|[untraced, _]| untraced),
        "leaf_code_bytes_traced": row.code.map(|[_, traced]| traced),
        "bodies": bodies.collect::<Vec<_>>(),
    })
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
    use crate::peers::list;
    use crate::peers::sample::Probe;

    /// Every row of the list, at 10 ns for the first and 10 ns more for each; the last but one failed.
    pub(in crate::peers) fn findings() -> Findings {
        let peers = list().expect("a list");
        let modes: Vec<_> = peers
            .iter()
            .flat_map(|peer| peer.modes.iter().map(move |mode| (peer, mode)))
            .collect();
        let failed = modes.len() - 2;
        let row = |(at, (peer, mode)): (usize, &(&super::super::Peer, &super::super::Mode))| {
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
                folder: peer.folder.clone(),
                mode: (*mode).clone(),
                version: "1.2".to_owned(),
                cells: [0; 4].map(cell),
                probe: Ok(Probe {
                    bytes: Some(16.0),
                    kept: (at == 2).then_some(0.5),
                }),
                code: Some([30.0, 71.0]),
                program: Err("not built".to_owned()),
            }
        };
        Findings {
            date: "2026-01-02".to_owned(),
            machine: "a machine".to_owned(),
            compiler: "rustc 1.95.0".to_owned(),
            load: ["0.1".to_owned(), "3.2".to_owned()],
            rounds: 3,
            rows: sorted(modes.iter().enumerate().map(row).collect()),
        }
    }

    fn line<'a>(text: &'a str, start: &str) -> &'a str {
        text.lines()
            .find(|line| line.starts_with(start))
            .unwrap_or_default()
    }

    #[test]
    fn every_row_is_in_every_form() {
        let findings = findings();
        let json: Value = serde_json::from_str(&findings.json().expect("JSON")).expect("JSON");
        assert_eq!(
            json["rows"].as_array().map(Vec::len),
            Some(findings.rows.len())
        );
        assert_eq!(
            json["rows"][1]["bodies"][0]["thread"],
            json!([20.0, 21.0, 22.0])
        );
        for (row, value) in findings
            .rows
            .iter()
            .zip(json["rows"].as_array().expect("rows"))
        {
            let label = &row.mode.label;
            assert!(!line(&findings.text(), label).is_empty(), "{label}");
            assert!(
                !line(&findings.markdown(), &format!("| {label} |")).is_empty(),
                "{label}"
            );
            assert_eq!(value["peer"], json!(label));
        }
    }

    #[test]
    fn the_documentation_has_the_form_that_is_written() {
        let text = include_str!("../../../../docs/peers.json");
        let mut all: Value = serde_json::from_str(text).expect("JSON");
        let all = all.as_object_mut().expect("an object");
        let rows = all.shift_remove("rows").expect("rows");
        let rows = rows.as_array().expect("rows");
        let written = lines(&Value::Object(all.clone()), rows).expect("JSON");
        assert_eq!(written, text);
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
        assert_eq!(
            findings.text().matches(&why).count(),
            1,
            "{}",
            findings.text()
        );
        let json = findings.json().expect("JSON");
        assert!(json.contains("\"not_measured\":\"no | header\""), "{json}");
        let mut records = findings
            .rows
            .iter()
            .filter(|row| row.mode.kind == Kind::Records);
        assert_eq!(records.next_back().map(|row| &row.mode.label), Some(label));
    }
}
