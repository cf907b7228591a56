//! `bench/history.jsonl`: one line of JSON for each run of `cargo xtask bench`, so that it can be seen
//! how the ratios to the floor moved. Must never keep a bench from telling its figures.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;

use super::{BODIES, VARIANTS};
use crate::Result;
use crate::process::{command, output, root};

const FILE: &str = "bench/history.jsonl";

/// One body in one variant, as it is called in the file.
fn key(body: usize, variant: usize) -> String {
    format!("{}: {}", BODIES[body].0, VARIANTS[variant].label)
}

/// Body and variant of every ratio that there is.
fn columns() -> impl Iterator<Item = (usize, usize)> {
    let recording = |variant: &usize| VARIANTS[*variant].floor.is_some();
    let of_body = move |body| {
        (0..VARIANTS.len())
            .filter(recording)
            .map(move |at| (body, at))
    };
    (0..BODIES.len()).flat_map(of_body)
}

/// Adds a line. What it can't find out it leaves out.
///
/// # Errors
///
/// If the file cannot be written.
pub(crate) fn add(
    machine: &str,
    rounds: usize,
    ratio: impl Fn(usize, usize) -> Option<f64>,
) -> Result<()> {
    let said = |program: &str, words: &str| {
        let said = output(command(program).args(words.split(' ')));
        said.map(|(said, _)| said.trim().to_owned()).ok()
    };
    let date = said("date", "-u +%Y-%m-%dT%H:%MZ");
    let commit = said("git", "rev-parse --short=10 HEAD").map(|commit| {
        let changed = said("git", "status --porcelain --untracked-files=no");
        commit
            + if changed.is_none_or(|files| files.is_empty()) {
                ""
            } else {
                "+"
            }
    });
    let line = line(date.as_deref(), commit.as_deref(), machine, rounds, ratio);
    let file = fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(root().join(FILE));
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|error| format!("cannot write {FILE}: {error}"))
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(letter));
            }
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}

fn line(
    date: Option<&str>,
    commit: Option<&str>,
    machine: &str,
    rounds: usize,
    ratio: impl Fn(usize, usize) -> Option<f64>,
) -> String {
    let mut line = String::from("{");
    for (name, value) in [
        ("date", date),
        ("commit", commit),
        ("machine", Some(machine)),
    ] {
        if let Some(value) = value {
            let _ = write!(line, "\"{name}\": {}, ", quoted(value));
        }
    }
    let ratios = columns().filter_map(|(body, variant)| {
        let ratio = ratio(body, variant)?;
        Some(format!("{}: {ratio:.4}", quoted(&key(body, variant))))
    });
    let ratios: Vec<_> = ratios.collect();
    let _ = writeln!(
        line,
        "\"rounds\": {rounds}, \"ratios\": {{{}}}}}",
        ratios.join(", ")
    );
    line
}

/// Prints the file as a table.
///
/// # Errors
///
/// If there is none.
pub(crate) fn show() -> Result<()> {
    let text = fs::read_to_string(root().join(FILE));
    let text = text.map_err(|error| {
        format!("cannot read {FILE}: {error}; each run of `cargo xtask bench` adds a line")
    })?;
    print!("{}", table(&text));
    Ok(())
}

fn table(lines: &str) -> String {
    let mut text = String::from("times the floor, by body: ");
    let clocks = VARIANTS.iter().filter(|variant| variant.floor.is_some());
    let clocks: Vec<_> = clocks.map(|variant| variant.label).collect();
    let _ = writeln!(text, "{}\n", clocks.join(" / "));
    let _ = write!(text, "{:<17}  {:<11}", "date", "commit");
    for (body, ..) in BODIES {
        let _ = write!(text, "  {body:<22}");
    }
    text += "  machine\n";
    for line in lines.lines() {
        let word = |name: &str| field(line, name).unwrap_or("-");
        let _ = write!(text, "{:<17}  {:<11}", word("date"), word("commit"));
        for body in 0..BODIES.len() {
            let of_body = columns().filter(|column| column.0 == body);
            let ratios: Vec<String> = of_body
                .map(|(body, variant)| {
                    let ratio = field(line, &key(body, variant)).and_then(|text| text.parse().ok());
                    ratio.map_or("-".to_owned(), |ratio: f64| format!("{ratio:.3}"))
                })
                .collect();
            let _ = write!(text, "  {:<22}", ratios.join(" / "));
        }
        let _ = writeln!(text, "  {}", word("machine"));
    }
    text
}

/// The value of a name in a line of ours, whose names are unlike any of its values.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!("{}: ", quoted(name)))?;
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_shown_as_it_was_written() {
        let ratio = |body, variant| match (body, variant) {
            (0, 1) => Some(1.0714),
            (3, 3) => Some(1.1),
            _ => None,
        };
        let line = line(
            Some("2026-11-20T20:15Z"),
            Some("31f189f0aa+"),
            "A CPU, 2 cores",
            15,
            ratio,
        );
        assert_eq!(
            line,
            "{\"date\": \"2026-11-20T20:15Z\", \"commit\": \"31f189f0aa+\", \"machine\": \
             \"A CPU, 2 cores\", \"rounds\": 15, \"ratios\": {\"leaf: on rdtscp\": 1.0714, \
             \"leaf, 2 threads: on rdtsc\": 1.1000}}\n"
        );
        let table = table(&line);
        let shown: Vec<_> = table
            .lines()
            .last()
            .unwrap_or_default()
            .split_whitespace()
            .collect();
        assert_eq!(
            shown.join(" "),
            "2026-11-20T20:15Z 31f189f0aa+ 1.071 / - / - - / - / - - / - / - - / 1.100 / - A CPU, 2 \
             cores"
        );
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let line = line(None, None, "m", 7, |_, _| None);
        assert_eq!(
            line,
            "{\"machine\": \"m\", \"rounds\": 7, \"ratios\": {}}\n"
        );
        assert!(
            table(&line)
                .lines()
                .last()
                .unwrap_or_default()
                .starts_with("-  ")
        );
    }

    #[test]
    fn strings_are_those_of_json() {
        assert_eq!(quoted("a\n\u{1b}\\\""), "\"a\\u000a\\u001b\\\\\\\"\"");
    }
}
