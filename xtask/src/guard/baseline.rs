//! The guard's baseline: a short text in `bench/guard.toml`, and what a run is held against. Pure: it
//! starts nothing and prints nothing. Instructions are per call, entry and exit together.

use std::fmt::Write;

/// A run's worst permitted distance from the baseline, either way.
const TOLERANCE: f64 = 0.02;
/// The file has two digits.
const ROUNDING: f64 = 0.01;

const HEAD: &str = "\
# Instructions per call (entry and exit together), counted by valgrind's callgrind.
# `cargo xtask guard` compares with these, `cargo xtask guard --bless` writes them anew.
";

/// What was counted, and with what the counted programs were built.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Counts {
    /// Compiler, target and C library: others make other instructions.
    pub(crate) built_with: String,
    /// What, and instructions per call.
    pub(crate) rows: Vec<(String, f64)>,
}

impl Counts {
    /// The file's text.
    pub(crate) fn text(&self) -> String {
        let mut text = format!(
            "{HEAD}\nbuilt_with = \"{}\"\n\n[instructions]\n",
            self.built_with
        );
        for (name, count) in &self.rows {
            let _ = writeln!(text, "{name:?} = {count:.2}");
        }
        text
    }

    /// The reverse of [`Counts::text`].
    ///
    /// # Errors
    ///
    /// The first line that makes no sense.
    pub(crate) fn parse(text: &str) -> Result<Counts, String> {
        let mut counts = Counts::default();
        for (nth, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') || line == "[instructions]" {
                continue;
            }
            let bad = || {
                let nth = nth + 1;
                format!(
                    "line {nth}: {line:?} is no count; `cargo xtask guard --bless` writes the file anew"
                )
            };
            let (name, value) = line.rsplit_once(" = ").ok_or_else(bad)?;
            match name {
                "built_with" => value.trim_matches('"').clone_into(&mut counts.built_with),
                name => {
                    let count = value.parse().map_err(|_| bad())?;
                    counts.rows.push((name.trim_matches('"').to_owned(), count));
                }
            }
        }
        Ok(counts)
    }

    fn get(&self, name: &str) -> Option<f64> {
        let row = self.rows.iter().find(|(known, _)| known == name);
        row.map(|&(_, count)| count)
    }
}

/// How a row compares with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Within the tolerance.
    Same,
    /// Fewer instructions than it allows: worth a new baseline.
    Better,
    /// More.
    Worse,
    /// Only one of the two has it.
    Unmatched,
}

/// One row of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) before: Option<f64>,
    pub(crate) now: Option<f64>,
    pub(crate) verdict: Verdict,
}

impl Row {
    fn new(name: &str, before: Option<f64>, now: Option<f64>) -> Row {
        let verdict = match before.zip(now) {
            None => Verdict::Unmatched,
            Some((before, now)) => {
                let room = (before.abs() * TOLERANCE).max(ROUNDING);
                match now - before {
                    // What is no number is no count.
                    more if more.is_nan() || more > room => Verdict::Worse,
                    more if more < -room => Verdict::Better,
                    _ => Verdict::Same,
                }
            }
        };
        Row {
            name: name.to_owned(),
            before,
            now,
            verdict,
        }
    }

    /// A line of the table.
    pub(crate) fn text(&self) -> String {
        let number =
            |count: Option<f64>| count.map_or("-".to_owned(), |count| format!("{count:.2}"));
        let change = match self.before.zip(self.now) {
            Some((before, now)) if before != 0.0 => {
                format!("{:+.1} %", (now / before - 1.0) * 100.0)
            }
            _ => String::new(),
        };
        let word = match self.verdict {
            Verdict::Same => "",
            Verdict::Better => "better: --bless keeps it",
            Verdict::Worse => "WORSE",
            Verdict::Unmatched if self.now.is_none() => "in the baseline, and not counted",
            Verdict::Unmatched => "not in the baseline",
        };
        let line = format!(
            "{:<24} {:>10} {:>10} {change:>9}  {word}",
            self.name,
            number(self.before),
            number(self.now)
        );
        line.trim_end().to_owned()
    }
}

/// Every row of either, in the order of the run.
pub(crate) fn compare(before: &Counts, now: &Counts) -> Vec<Row> {
    let counted = now.rows.iter();
    let counted = counted.map(|(name, count)| Row::new(name, before.get(name), Some(*count)));
    let gone = before
        .rows
        .iter()
        .filter(|(name, _)| now.get(name).is_none());
    let gone = gone.map(|(name, count)| Row::new(name, Some(*count), None));
    counted.chain(gone).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(rows: &[(&str, f64)]) -> Counts {
        Counts {
            built_with: "rustc 1.95.0 (59807616e 2026-04-14), glibc 2.36".to_owned(),
            rows: rows
                .iter()
                .map(|&(name, count)| (name.to_owned(), count))
                .collect(),
        }
    }

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let written = counts(&[("call, off", 7.0), ("xray, read", 41.25)]);
        assert_eq!(Counts::parse(&written.text()), Ok(written));
        let error = Counts::parse("[instructions]\n\"call, off\" = many\n").unwrap_err();
        assert!(
            error.starts_with("line 2:") && error.contains("--bless"),
            "{error}"
        );
        assert!(Counts::parse("nonsense\n").is_err());
    }

    #[test]
    fn two_percent_are_let_pass_either_way_and_no_more() {
        let verdict = |before: f64, now: f64| {
            compare(&counts(&[("a", before)]), &counts(&[("a", now)]))[0].verdict
        };
        assert_eq!(verdict(100.0, 100.0), Verdict::Same);
        assert_eq!(verdict(100.0, 101.9), Verdict::Same);
        assert_eq!(verdict(100.0, 98.1), Verdict::Same);
        assert_eq!(verdict(100.0, 102.1), Verdict::Worse);
        assert_eq!(verdict(100.0, 97.9), Verdict::Better);
        // One instruction more while recording is off is one too many.
        assert_eq!(verdict(7.0, 8.0), Verdict::Worse);
        assert_eq!(verdict(0.0, 0.005), Verdict::Same);
        assert_eq!(verdict(0.0, 1.0), Verdict::Worse);
    }

    #[test]
    fn a_row_of_one_side_alone_is_told() {
        let rows = compare(
            &counts(&[("old", 5.0), ("a", 1.0)]),
            &counts(&[("new", 6.0), ("a", 1.0)]),
        );
        let told: Vec<_> = rows.iter().map(|row| (&*row.name, row.verdict)).collect();
        let wanted = [
            ("new", Verdict::Unmatched),
            ("a", Verdict::Same),
            ("old", Verdict::Unmatched),
        ];
        assert_eq!(told, wanted);
        assert!(rows[0].text().ends_with("not in the baseline"));
        assert!(rows[2].text().ends_with("not counted"));
    }

    #[test]
    fn a_line_has_both_counts_and_the_change() {
        let row = Row::new("call, recorded", Some(50.0), Some(60.0));
        let words: Vec<_> = row.text().split_whitespace().map(str::to_owned).collect();
        assert_eq!(
            words,
            ["call,", "recorded", "50.00", "60.00", "+20.0", "%", "WORSE"]
        );
    }
}
