//! `--self-times`: the self times of a program's functions with short calls, beside those of a run in which each call
//! leaves its records. No call is only counted in either. Pure: it starts nothing.

use std::collections::BTreeMap;

use comfy_table::Table;

use super::Variables;
use super::trace::Report;
use crate::table;

/// What a run with records of each call has in its environment. Its rings hold the whole run, because the end of a
/// program may call other functions than its middle. They are in memory, where no disk is waited for.
pub(super) const EVERY: Variables = &[
    ("FDR_KEEP", "0"),
    ("FDR_BUDGET", "0"),
    ("FDR_BUFFER", "2G"),
    ("FDR_MEMORY", "8G"),
    ("FDR_DIR", "/dev/shm"),
];
/// The other run.
pub(super) const KEEP_TEN_SECONDS: Variables = &[
    ("FDR_KEEP", "10s"),
    ("FDR_BUDGET", "0"),
    ("FDR_DIR", "/dev/shm"),
];

/// A function with fewer calls in a run is left out.
const MIN_CALLS: u64 = 10_000;

/// A function's self time a call, ns: the least of all runs, because whatever else the machine does adds to it.
#[derive(Debug, PartialEq)]
pub(super) struct Pair {
    name: String,
    every: f64,
    other: f64,
}

impl Pair {
    /// By how much the second time differs, as a part of the first one.
    fn difference(&self) -> f64 {
        self.other / self.every - 1.0
    }
}

/// A program's functions in runs with records of each call, beside other runs.
#[derive(Debug)]
pub(super) struct Compared {
    /// The runs with short calls.
    pub(super) kept: Vec<Pair>,
    /// As many runs more with records of each call: by how much two equal runs differ.
    pub(super) again: Vec<Pair>,
}

/// Self time a call in each run, by function.
fn times<'a>(reports: &'a [Report]) -> BTreeMap<&'a str, Vec<f64>> {
    let mut times: BTreeMap<&'a str, Vec<f64>> = BTreeMap::new();
    for function in reports.iter().flat_map(Report::all_calls) {
        if function.calls >= MIN_CALLS {
            let mean = function.self_ns as f64 / function.calls as f64;
            times.entry(&function.name).or_default().push(mean);
        }
    }
    // Monomorphic copies of a function may share a name, and a run may lack a function.
    times.retain(|_, list| list.len() == reports.len());
    times
}

/// The functions that all runs called often enough, the one that differs most first.
pub(super) fn compare(every: &[Report], other: &[Report]) -> Vec<Pair> {
    let others = times(other);
    let pairs = times(every).into_iter().filter_map(|(name, every)| {
        Some(Pair {
            name: name.to_owned(),
            every: least(every),
            other: least(others.get(name)?.iter().copied()),
        })
    });
    let mut pairs: Vec<Pair> = pairs.collect();
    let by = |pair: &Pair| pair.difference().abs();
    pairs.sort_by(|one, other| by(other).total_cmp(&by(one)));
    pairs
}

fn least(times: impl IntoIterator<Item = f64>) -> f64 {
    times.into_iter().fold(f64::INFINITY, f64::min)
}

/// How well the times of all programs agree. `again`: those of two equal runs.
pub(super) fn table(programs: &[(&str, Compared)]) -> Table {
    let heads = "program | functions | within 2 % | again | within 5 % | again | the most | self, ns: FDR_KEEP=0 | FDR_KEEP=10s | function";
    let mut table = table::table(heads);
    for (name, compared) in programs {
        let within = |pairs: &[Pair], most: f64| {
            let found = pairs.iter().filter(|pair| pair.difference().abs() <= most);
            found.count().to_string()
        };
        let Compared { kept, again } = compared;
        let mut first = vec![
            (*name).to_owned(),
            kept.len().to_string(),
            within(kept, 0.02),
            within(again, 0.02),
            within(kept, 0.05),
            within(again, 0.05),
        ];
        for pair in kept.iter().take(3) {
            table.add_row(first.iter().cloned().chain([
                format!("{:+.1} %", pair.difference() * 100.0),
                format!("{:.1}", pair.every),
                format!("{:.1}", pair.other),
                pair.name.clone(),
            ]));
            first = vec![String::new(); first.len()];
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(place: &str, functions: &[(&str, u64, u64)]) -> Report {
        let list: Vec<String> = functions
            .iter()
            .map(|(name, calls, own)| {
                format!(
                    r#"{{"name":"{name}","calls":{calls},"counted":0,"total_ns":0,"self_ns":{own}}}"#
                )
            })
            .collect();
        let list = list.join(",");
        let (records, totals) = match place {
            "records" => (list.as_str(), "null".to_owned()),
            _ => ("", format!("[{list}]")),
        };
        let text = format!(
            r#"{{"threads":[],"missing":{{"overwritten":0,"dropped":0}},"functions":[{records}],"whole_run":{totals}}}"#
        );
        Report::parse(&text).expect("a report")
    }

    #[test]
    fn common_functions_compare_by_least_run() {
        let every = [20_000, 21_000, 90_000].map(|own| {
            let functions = [
                ("a", 1000, 1),
                ("b", 20_000, 20 * own),
                ("c", 10_000, 300_000),
            ];
            report("records", &functions)
        });
        let kept = [22_000, 25_000, 23_000].map(|own| {
            let functions = [
                ("b", 20_000, 20 * own),
                ("c", 10_000, 303_000),
                ("d", 90_000, 1),
            ];
            report("totals", &functions)
        });
        let pairs = compare(&every, &kept);
        let of = |name: &str, every, other| Pair {
            name: name.to_owned(),
            every,
            other,
        };
        assert_eq!(pairs, [of("b", 20.0, 22.0), of("c", 30.0, 30.3)]);
        let again = compare(&every, &every);
        let compared = Compared { kept: pairs, again };
        let text = table(&[("p", compared)]).to_string();
        assert!(
            text.contains("+10.0 %") && text.contains("+1.0 %"),
            "{text}"
        );
        let row = text
            .lines()
            .find(|line| line.starts_with("| p "))
            .expect(&text);
        let words: Vec<&str> = row.split('|').map(str::trim).skip(1).take(6).collect();
        assert_eq!(words, ["p", "2", "1", "2", "1", "2"], "{text}");
    }
}
