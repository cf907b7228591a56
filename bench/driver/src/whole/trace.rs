//! The tool's report of a workload's trace, and its checks: the accounting is exact, and two equal runs have the
//! same calls. Pure: it starts no program.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::Result;

/// `fdr report --json`, as far as it is used here.
#[derive(Deserialize)]
pub(super) struct Report {
    pub(super) threads: Vec<Thread>,
    missing: Missing,
    /// Of the records.
    functions: Vec<Function>,
    whole_run: Option<Vec<Function>>,
}

#[derive(Deserialize)]
pub(super) struct Thread {
    id: u64,
    recorded: u64,
    readable: u64,
    pub(super) overwritten: u64,
    dropped: u64,
    summarised: u64,
    first_ns: Option<u64>,
    last_ns: Option<u64>,
}

#[derive(Deserialize)]
struct Missing {
    overwritten: u64,
    dropped: u64,
}

#[derive(Deserialize)]
pub(super) struct Function {
    pub(super) name: String,
    pub(super) calls: u64,
    /// Those without a time.
    counted: u64,
    /// The standard error of `calls`, if they are estimated.
    calls_error: Option<u64>,
    pub(super) self_ns: u64,
}

impl Thread {
    /// From its first record to its last one.
    pub(super) fn held_ns(&self) -> u64 {
        let ends = self.last_ns.zip(self.first_ns);
        ends.map_or(0, |(last, first)| last.saturating_sub(first))
    }
}

impl Report {
    /// # Errors
    /// If the text is no report, or lacks a field.
    pub(super) fn parse(text: &str) -> Result<Report> {
        let report = serde_json::from_str(text);
        Ok(report.map_err(|error| format!("fdr report --json: {error}"))?)
    }

    /// What the program asked for, over all threads.
    pub(super) fn recorded(&self) -> u64 {
        let threads: u64 = self.threads.iter().map(|thread| thread.recorded).sum();
        threads + self.missing.overwritten + self.missing.dropped
    }

    pub(super) fn summarised(&self) -> u64 {
        self.threads.iter().map(|thread| thread.summarised).sum()
    }

    pub(super) fn overwritten(&self) -> u64 {
        let threads: u64 = self.threads.iter().map(|thread| thread.overwritten).sum();
        threads + self.missing.overwritten
    }

    /// The standard error of all calls together. 0: each call was counted.
    fn error_of_calls(&self) -> f64 {
        let errors = self.whole_run.iter().flatten();
        let errors = errors.map(|function| function.calls_error.unwrap_or(0) as f64);
        errors.map(|error| error * error).sum::<f64>().sqrt()
    }

    /// The thread that recorded most.
    pub(super) fn busiest_thread(&self) -> Option<&Thread> {
        self.threads.iter().max_by_key(|thread| thread.recorded)
    }

    /// The functions of the whole run, or of the records if the trace has no totals.
    pub(super) fn all_calls(&self) -> &[Function] {
        self.whole_run.as_ref().unwrap_or(&self.functions)
    }

    /// Threads whose counts do not add up.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.threads.is_empty() {
            findings.push("its trace has no thread".to_owned());
        }
        for thread in &self.threads {
            let parts = [
                thread.readable,
                thread.overwritten,
                thread.dropped,
                thread.summarised,
            ];
            if parts.iter().sum::<u64>() != thread.recorded {
                findings.push(format!(
                    "thread {}: {} records, and readable, overwritten, dropped and summarised are {parts:?}",
                    thread.id, thread.recorded
                ));
            }
        }
        findings
    }

    /// What differs in the calls of another run that did the same. This run has no figures of the whole run.
    pub(super) fn same_calls(&self, kept: &Report) -> Vec<String> {
        let mut findings = Vec::new();
        let Some(functions) = &kept.whole_run else {
            findings.push("with FDR_KEEP=10s its trace has no figures of the whole run".to_owned());
            return findings;
        };
        // No call is open at the end, because the program's `main` is not marked.
        let calls: u64 = functions.iter().map(|function| function.calls).sum();
        let records = self.recorded();
        let differs = (calls * 2).abs_diff(records) as f64 / 2.0;
        if differs > 5.0 * kept.error_of_calls() {
            findings.push(format!(
                "{records} records with FDR_KEEP=0, {calls} calls with FDR_KEEP=10s"
            ));
        }
        let (recorded, counted) = (kept.recorded(), kept.counted());
        if recorded + 2 * counted != calls * 2 {
            findings.push(format!(
                "{calls} calls of functions, {recorded} records, {counted} calls only counted"
            ));
        }
        findings
    }

    /// Calls that were only counted, of all functions.
    pub(super) fn counted(&self) -> u64 {
        let functions = self.whole_run.iter().flatten();
        functions.map(|function| function.counted).sum()
    }

    /// The functions whose calls differ in another run.
    pub(super) fn different_calls(&self, other: &Report) -> Vec<String> {
        let calls = |report: &Report| -> BTreeMap<String, u64> {
            let mut calls = BTreeMap::new();
            for function in report.whole_run.iter().flatten() {
                *calls.entry(function.name.clone()).or_default() += function.calls;
            }
            calls
        };
        let is_estimated = |name: &str| {
            let functions = self.whole_run.iter().chain(&other.whole_run).flatten();
            let mut functions = functions.filter(|function| function.name == name);
            functions.any(|function| function.calls_error.is_some())
        };
        let (one, next) = (calls(self), calls(other));
        let names: BTreeSet<&String> = one.keys().chain(next.keys()).collect();
        let counts = names.into_iter().map(|name| {
            let [one, other] = [&one, &next].map(|calls| calls.get(name).copied().unwrap_or(0));
            (name, one, other)
        });
        counts
            .filter(|(name, one, other)| one != other && !is_estimated(name))
            .map(|(name, one, other)| {
                format!("{name}: {one} calls in one run, {other} in the next one")
            })
            .collect()
    }
}

/// The threshold that `fdr info` names; nothing where every call left its records.
pub(super) fn threshold(info: &str) -> Option<&str> {
    let line = info
        .lines()
        .find(|line| line.contains(" left no records "))?;
    let (_, thresholds) = line.split_once(" in this trace ")?;
    thresholds
        .strip_prefix("is ")
        .or_else(|| thresholds.strip_prefix("are "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, and one that lost its ring.
    fn report(recorded: u64, calls: u64) -> Report {
        let thread = |id, recorded, readable, summarised| {
            format!(
                r#"{{"id":{id},"recorded":{recorded},"readable":{readable},"overwritten":3,"dropped":1,"summarised":{summarised},"first_ns":10,"last_ns":30,"name":"a"}}"#
            )
        };
        let text = format!(
            r#"{{"threads":[{},{}],"missing":{{"threads":1,"overwritten":5,"dropped":1}},"functions":[],"whole_run":[{{"name":"f","calls":{calls},"counted":0,"total_ns":9,"self_ns":8}},{{"name":"g","calls":2,"counted":0,"total_ns":9,"self_ns":8}}]}}"#,
            thread(1, recorded, 10, 6),
            thread(2, 10, 4, 2),
        );
        Report::parse(&text).expect("a report")
    }

    #[test]
    fn accounting_is_checked_thread_by_thread() {
        let right = report(20, 16);
        assert_eq!(right.findings(), [""; 0]);
        assert_eq!((right.recorded(), right.summarised()), (36, 8));
        assert_eq!(right.overwritten(), 11);
        assert_eq!(right.busiest_thread().map(Thread::held_ns), Some(20));
        let wrong = report(21, 16).findings();
        assert_eq!(
            wrong,
            [
                "thread 1: 21 records, and readable, overwritten, dropped and summarised are [10, 3, 1, 6]"
            ]
        );
        assert!(Report::parse(r#"{"threads":[]}"#).is_err());
    }

    #[test]
    fn two_runs_that_do_the_same_are_compared() {
        let one = report(20, 16);
        assert_eq!(one.same_calls(&report(20, 16)), [""; 0]);
        assert_eq!(one.same_calls(&report(22, 16)).len(), 1);
        assert_eq!(one.same_calls(&report(20, 15)).len(), 2);
        assert_eq!(one.different_calls(&report(20, 16)), [""; 0]);
        assert_eq!(
            one.different_calls(&report(20, 15)),
            ["f: 16 calls in one run, 15 in the next one"]
        );
        let mut window = report(20, 16);
        window.whole_run = None;
        assert_eq!(one.same_calls(&window).len(), 1);
        assert_eq!(one.different_calls(&window).len(), 2);
    }

    #[test]
    fn the_threshold_is_taken_from_what_info_says() {
        let info =
            "a\n3 calls left no records in the whole run; the threshold in this trace is 1.2 µs\n";
        assert_eq!(threshold(info), Some("1.2 µs"));
        let several = info.replace(
            "threshold in this trace is 1.2 µs",
            "thresholds in this trace are 1 µs to 2 µs",
        );
        assert_eq!(threshold(&several), Some("1 µs to 2 µs"));
        assert_eq!(threshold("a\nb\n"), None);
    }
}
