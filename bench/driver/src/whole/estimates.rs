//! Compares the recorder's own estimates with measurements: its share of the CPU time, and the calls that it estimates
//! because of `FDR_BUDGET`. Pure.

use std::collections::BTreeMap;

use super::trace::{Function, Report};

/// The calls a second from which a function counts as often called.
const OFTEN: f64 = 100_000.0;

/// Estimated functions of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Estimates {
    /// How many have estimated calls.
    pub(super) functions: usize,
    /// Of these, how many are within three standard errors.
    pub(super) within_three_errors: usize,
    /// How many of them are called often, and of these, how many are within 5 %.
    pub(super) often: usize,
    pub(super) within_five_percent: usize,
}

/// Compares the calls of a run that estimates some with one that counts all. `seconds`: how long that took.
pub(super) fn compare(all: &Report, estimated: &Report, seconds: f64) -> Estimates {
    let truth: BTreeMap<&str, u64> = all
        .all_calls()
        .iter()
        .map(|function| (function.name.as_str(), function.calls))
        .collect();
    let mut found = Estimates::default();
    let has_error = |function: &&Function| function.calls_error.is_some();
    for function in estimated.all_calls().iter().filter(has_error) {
        let calls = truth.get(function.name.as_str()).copied().unwrap_or(0);
        let differs = calls.abs_diff(function.calls) as f64;
        let error = function.calls_error.unwrap_or(0) as f64;
        found.functions += 1;
        found.within_three_errors += usize::from(differs <= 3.0 * error);
        if calls as f64 >= OFTEN * seconds {
            found.often += 1;
            found.within_five_percent += usize::from(differs * 20.0 <= calls as f64);
        }
    }
    found
}
