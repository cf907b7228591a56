//! `cargo xtask bench tail`: not the median but the slowest of single calls, on a fresh ring, on one that goes
//! round, during dumps, and at a thread's start, alone and with others; beside the untraced twin, which tells what the clock reads
//! around a call cost, and what the machine does to a thread by itself.

use std::fmt::Write;

use super::figures::get;
use super::options::Words;
use super::{Program, machine};
use crate::Result;

/// The bench program's words and ours.
const SITUATIONS: [(&str, &str); 5] = [
    ("fresh", "first lap of a ring"),
    ("steady", "later laps"),
    ("dumped", "during dumps"),
    ("start", "a thread's first call"),
    ("burst", "first calls, 64 at once"),
];
const QUANTILES: [&str; 5] = ["p50", "p99", "p999", "p9999", "max"];
/// Variant, `FDR_CLOCK`.
const VARIANTS: [(&str, Option<&str>); 3] = [
    ("untraced", None),
    ("traced", Some("rdtscp")),
    ("traced", Some("rdtsc")),
];

struct Options {
    seconds: u32,
}

impl Options {
    fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options { seconds: 60 };
        let mut words = Words::new(words);
        while let Some(option) = words.option() {
            match option {
                "--seconds" => options.seconds = words.number("a number", 1)?,
                _ => return Err(words.unknown()),
            }
        }
        Ok(options)
    }
}

/// Measures and prints the table.
///
/// # Errors
///
/// If the bench program cannot be built or does not run.
pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::parse(words)?;
    let program = Program::build()?;
    program.take_traces()?;
    let seconds = options.seconds.to_string();
    let mut text = format!(
        "{}; ns of one call, with a clock read before and after it; {seconds} s each\n\n{:<23} {:<16}",
        machine(),
        "situation",
        "variant"
    );
    for quantile in QUANTILES {
        let _ = write!(text, " {quantile:>11}");
    }
    text += "\n";
    let mut told = Vec::new();
    for (variant, clock) in VARIANTS {
        let name = clock.map_or(variant.to_owned(), |clock| format!("{variant} {clock}"));
        eprintln!("{name}");
        told.push((name, program.ask(&["tail", variant, &seconds], clock)?));
    }
    for (word, situation) in SITUATIONS {
        for (name, words) in &told {
            let values = QUANTILES.map(|quantile| get(words, &format!("{word}_{quantile}")));
            let values = values.into_iter().collect::<Result<Vec<f64>>>()?;
            text += &row(situation, name, &values);
        }
    }
    print!("{text}");
    Ok(())
}

fn row(situation: &str, variant: &str, values: &[f64]) -> String {
    let mut row = format!("{situation:<23} {variant:<16}");
    for value in values {
        let _ = write!(row, " {value:>11.0}");
    }
    row + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_every_quantile() {
        let values = [25.0, 27.0, 33.0, 67.0, 4_065_667.0];
        let text = row("later laps", "traced rdtscp", &values);
        let words: Vec<&str> = text.split_whitespace().collect();
        assert_eq!(
            words,
            [
                "later", "laps", "traced", "rdtscp", "25", "27", "33", "67", "4065667"
            ]
        );
        assert!(Options::parse(&["--seconds", "0"]).is_err());
    }
}
