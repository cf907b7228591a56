//! The results of a run of tests, and of a run of clippy, in a form in which two runs can be
//! compared.

use std::fmt;

/// What a program's tests came to.
pub(super) struct Outcome {
    passed: usize,
    failed: usize,
    ignored: usize,
    /// Every test with its result, sorted.
    results: Vec<String>,
}

impl Outcome {
    /// From what `cargo test` printed on its standard output.
    pub(super) fn parse(success: bool, text: &str) -> Outcome {
        let mut outcome = Outcome {
            passed: 0,
            failed: 0,
            ignored: 0,
            results: Vec::new(),
        };
        for line in text.lines() {
            if let Some(summary) = line.strip_prefix("test result: ") {
                outcome.passed += count(summary, "passed");
                outcome.failed += count(summary, "failed");
                outcome.ignored += count(summary, "ignored");
            } else if let Some(result) = result(line) {
                outcome.results.push(result);
            }
        }
        outcome.results.push(ended("cargo test", success));
        outcome.results.sort_unstable();
        outcome
    }

    /// Adds what a run of the program printed.
    pub(super) fn add_run(&mut self, success: bool, text: String) {
        *(if success {
            &mut self.passed
        } else {
            &mut self.failed
        }) += 1;
        self.results.push(ended("the program", success));
        self.results.push(format!("the program prints {text:?}"));
        self.results.sort_unstable();
    }

    /// What the other has and this has not, and the reverse.
    pub(super) fn differences(&self, other: &Outcome) -> Vec<String> {
        let lost = new_lines(&other.results, &self.results);
        let new = new_lines(&self.results, &other.results);
        let mut lines: Vec<String> = lost.iter().map(|line| format!("lost: {line}")).collect();
        lines.extend(new.iter().map(|line| format!("new: {line}")));
        if lines.is_empty() && self.to_string() != other.to_string() {
            lines.push(format!("{other} instead of {self}"));
        }
        lines
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcome {
            passed,
            failed,
            ignored,
            ..
        } = self;
        write!(f, "{passed} ok, {failed} bad")?;
        if *ignored > 0 {
            write!(f, ", {ignored} ign.")?;
        }
        Ok(())
    }
}

fn ended(what: &str, success: bool) -> String {
    format!("{what} {}", if success { "succeeds" } else { "fails" })
}

/// The number before a word.
fn count(summary: &str, word: &str) -> usize {
    let mut words = summary.split([' ', ';']).filter(|word| !word.is_empty());
    let mut before = "";
    words
        .find_map(|this| {
            let number = (this == word).then(|| before.parse().unwrap_or(0));
            before = this;
            number
        })
        .unwrap_or(0)
}

/// `test NAME ... RESULT`, without what a test wrote in between.
fn result(line: &str) -> Option<String> {
    let (name, said) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let result = ["ok", "FAILED", "ignored"]
        .into_iter()
        .find(|result| said.ends_with(result) || said.starts_with(&format!("{result}, ")))?;
    Some(format!("test {name}: {result}"))
}

/// Clippy's short lines without columns, sorted, each once: a test target repeats its library's.
pub(super) fn warnings(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text.lines().filter_map(warning).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// `FILE:LINE:COLUMN: warning: TEXT`, without what would help: clippy lists names there in any order.
fn warning(line: &str) -> Option<String> {
    let (place, text) = line.split_once(": ")?;
    let (place, column) = place.rsplit_once(':')?;
    column.parse::<u32>().ok()?;
    let said = text
        .strip_prefix("warning")
        .or(text.strip_prefix("error"))?;
    let (said, _) = said.split_once(": help: try: ").unwrap_or((said, ""));
    Some(format!("{place}{said}"))
}

/// Lines of the second that the first has not; both are sorted.
pub(super) fn new_lines(first: &[String], second: &[String]) -> Vec<String> {
    let mut first = first.iter().peekable();
    let mut new = Vec::new();
    for line in second {
        while first.next_if(|other| *other < line).is_some() {}
        if first.next_if(|other| *other == line).is_none() {
            new.push(line.clone());
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
running 3 tests
test b ... ignored, needs a network
test c - should panic ... FAILED
test a ... noise of its own ok

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.01s
test src/lib.rs - d (line 3) ... ok
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 9.99s
";

    #[test]
    fn results_are_compared_without_order_and_times() {
        let outcome = Outcome::parse(false, TEXT);
        assert_eq!(outcome.to_string(), "2 ok, 1 bad, 1 ign.");
        assert_eq!(outcome.results.len(), 5);
        let mut lines: Vec<&str> = TEXT.lines().collect();
        lines.reverse();
        let other = lines.join("\n").replace("9.99s", "1.23s");
        assert!(
            outcome
                .differences(&Outcome::parse(false, &other))
                .is_empty()
        );
        let other = Outcome::parse(false, &TEXT.replace("own ok", "own FAILED"));
        assert_eq!(
            outcome.differences(&other),
            ["lost: test a: ok", "new: test a: FAILED"]
        );
        // A test that takes the whole process with it.
        let other = Outcome::parse(false, TEXT.split("test a").next().expect("a part"));
        assert_eq!(outcome.differences(&other).len(), 2);
        let mut other = Outcome::parse(true, TEXT);
        other.add_run(true, "text".to_owned());
        assert_eq!(outcome.differences(&other).len(), 4);
    }

    #[test]
    fn warnings_are_compared_without_columns() {
        let original =
            warnings("a.rs:1:2: warning: x\na.rs:3:4: error[E1]: y\nwarning: 2 warnings\n");
        assert_eq!(original, ["a.rs:1: x", "a.rs:3[E1]: y"]);
        let marked =
            warnings("a.rs:1:17: warning: x\na.rs:1:17: warning: x\na.rs:2:1: warning: z\n");
        assert_eq!(new_lines(&original, &marked), ["a.rs:2: z"]);
        assert_eq!(new_lines(&marked, &original), ["a.rs:3[E1]: y"]);
    }
}
