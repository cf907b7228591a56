//! The results of a run of tests, and of a run of clippy, in a form in which two runs can be
//! compared.

use std::fmt;

/// What a program's tests came to: every test with its result, and the sums of the suites; sorted.
pub(super) struct Outcome {
    results: Vec<String>,
}

impl Outcome {
    /// From what `cargo test` printed on its standard output.
    pub(super) fn parse(success: bool, text: &str) -> Outcome {
        let sum = |line: &str| {
            let (sum, _) = line.split_once("; finished in")?;
            sum.starts_with("test result: ").then(|| sum.to_owned())
        };
        let lines = text.lines();
        let results = lines.filter_map(|line| sum(line).or_else(|| result(line)));
        let mut outcome = Outcome {
            results: results.collect(),
        };
        outcome.results.push(ended("cargo test", success));
        outcome.results.sort_unstable();
        outcome
    }

    /// Adds what a run of the program printed.
    pub(super) fn add_run(&mut self, success: bool, text: &str) {
        self.results.push(ended("the program", success));
        self.results.push(format!("the program prints {text:?}"));
        self.results.sort_unstable();
    }

    /// What the other has and this has not, and the reverse.
    pub(super) fn differences(&self, other: &Outcome) -> Vec<String> {
        let lost = new_lines(&other.results, &self.results);
        let new = new_lines(&self.results, &other.results);
        let lost = lost.iter().map(|line| format!("lost: {line}"));
        lost.chain(new.iter().map(|line| format!("new: {line}")))
            .collect()
    }
}

/// How many tests passed, failed and were ignored.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |result: &str| {
            let tests = self.results.iter().filter(|line| line.ends_with(result));
            tests.count()
        };
        write!(f, "{} ok, {} bad", count(": ok"), count(": FAILED"))?;
        match count(": ignored") {
            0 => Ok(()),
            ignored => write!(f, ", {ignored} ign."),
        }
    }
}

fn ended(what: &str, success: bool) -> String {
    format!("{what} {}", if success { "succeeds" } else { "fails" })
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
        assert_eq!(outcome.results.len(), 7);
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
        assert_eq!(outcome.differences(&other).len(), 4);
        let mut other = Outcome::parse(true, TEXT);
        other.add_run(true, "text");
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
