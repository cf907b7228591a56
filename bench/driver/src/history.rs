//! `bench/history.jsonl`: one line of JSON for each run of `cargo xtask bench`, so that it can be seen how the
//! ratios to the floor moved.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use serde::{Deserialize, Serialize};
use xtask::process::root;

use crate::Result;
use crate::calls::{BODIES, VARIANTS};
use crate::figures::rounded;
use crate::program::line_of;
use crate::table::{NONE, Table, number};

const FILE: &str = "bench/history.jsonl";

#[derive(Debug, Default, Deserialize, PartialEq, Serialize)]
struct Line {
    #[serde(default)]
    date: String,
    #[serde(default)]
    commit: String,
    machine: String,
    rounds: usize,
    /// By body and variant.
    ratios: BTreeMap<String, f64>,
}

/// One body in one variant, as it is called in the file.
fn key(body: usize, variant: usize) -> String {
    format!("{}: {}", BODIES[body].0, VARIANTS[variant].0)
}

/// Variants that have a floor.
fn variants() -> impl Iterator<Item = usize> {
    (0..VARIANTS.len()).filter(|&variant| VARIANTS[variant].3.is_some())
}

/// Adds a line.
///
/// # Errors
/// If the file can't be written.
pub(crate) fn add(
    machine: &str,
    rounds: usize,
    ratio: impl Fn(usize, usize) -> Option<f64>,
) -> Result<()> {
    let all = (0..BODIES.len()).flat_map(|body| variants().map(move |variant| (body, variant)));
    let changed = !line_of("git status --porcelain --untracked-files=no").is_empty();
    let line = Line {
        date: line_of("date -u +%Y-%m-%dT%H:%MZ"),
        commit: line_of("git rev-parse --short=10 HEAD") + if changed { "+" } else { "" },
        machine: machine.to_owned(),
        rounds,
        ratios: all
            .filter_map(|(body, variant)| {
                Some((key(body, variant), rounded(ratio(body, variant)?)))
            })
            .collect(),
    };
    let mut file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(root().join(FILE))?;
    Ok(writeln!(file, "{}", serde_json::to_string(&line)?)?)
}

/// Prints the file as a table.
///
/// # Errors
/// If there is none, or a line is none of ours.
pub(crate) fn show() -> Result<()> {
    let text = fs::read_to_string(root().join(FILE))
        .map_err(|error| format!("{FILE}: {error}; each run of `cargo xtask bench` adds a line"))?;
    let lines: std::result::Result<Vec<Line>, _> = text.lines().map(serde_json::from_str).collect();
    let labels: Vec<&str> = variants().map(|variant| VARIANTS[variant].0).collect();
    println!("times the floor, by body: {}\n", labels.join(" / "));
    print!(
        "{}",
        table(&lines.map_err(|error| format!("{FILE}: {error}"))?)
    );
    Ok(())
}

fn table(lines: &[Line]) -> String {
    let bodies = BODIES.map(|(label, ..)| label).join(" | ");
    let mut table = Table::new(&format!("date | commit | {bodies} | machine"));
    for line in lines {
        let known = |text: &String| {
            if text.is_empty() {
                NONE.to_owned()
            } else {
                text.clone()
            }
        };
        let ratios = (0..BODIES.len()).map(|body| {
            let of_body = variants().map(|at| number(line.ratios.get(&key(body, at)).copied(), 3));
            of_body.collect::<Vec<_>>().join(" / ")
        });
        let start = [known(&line.date), known(&line.commit)];
        table.add(
            start
                .into_iter()
                .chain(ratios)
                .chain([line.machine.clone()]),
        );
    }
    table.text()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_earlier_runs_are_shown() {
        let text = "{\"date\": \"2026-11-20T20:15Z\", \"commit\": \"31f189f0aa+\", \"machine\": \"A CPU, 2 cores\", \
                    \"rounds\": 15, \"ratios\": {\"leaf: on rdtscp\": 1.0714, \"leaf, 2 threads: on rdtsc\": 1.1000}}";
        let bare = "{\"machine\": \"m\", \"rounds\": 7, \"ratios\": {}}";
        let lines = [text, bare].map(|line| serde_json::from_str(line).expect("a line"));
        let table = table(&lines);
        let rows: Vec<Vec<&str>> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            rows[0].join(" "),
            "2026-11-20T20:15Z 31f189f0aa+ 1.071 / - / - - / - / - - / - / - - / 1.100 / - A CPU, 2 cores"
        );
        assert_eq!(rows[1][0], "-");
    }

    #[test]
    fn the_kept_file_can_be_read() {
        let text = fs::read_to_string(root().join(FILE)).expect("the file");
        for line in text.lines() {
            serde_json::from_str::<Line>(line).expect("a line of ours");
        }
    }
}
