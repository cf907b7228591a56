//! Slow calls that have one cause are shown once: by the slowest of them, with the number of all.

use fdr_formats::model::State;
use fdr_formats::{FunctionId, Ticks};
use foldhash::{HashMap, HashMapExt, HashSet};

use super::cause::Cause;
use super::finding::{Finding, SameCause};
use super::slow_call::SlowCall;
use crate::report::waits::Object;

/// What tells causes apart.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    /// The object that the calls waited for, and the function that its holder was in.
    Wait(Object, u32),
    /// The system took the CPU, whatever the calls did.
    Preempted,
    /// The slow function, the innermost function with the excess, and what is slow there.
    Place(FunctionId, FunctionId, Cause, Option<State>),
}

impl Key {
    fn new(finding: &Finding) -> Key {
        let state = finding.states.and_then(|states| states.excess);
        if let Some(wait) = &finding.wait {
            return Key::Wait(wait.object, wait.function);
        } else if state == Some(State::Preempted) {
            return Key::Preempted;
        }
        let function = finding.call.function;
        let path = &finding.explained.path;
        let innermost = path.last().map_or(function, |step| step.function);
        Key::Place(function, innermost, finding.explained.cause, state)
    }
}

/// The first finding of each cause, in the same order, of `most` causes. Returns them with the calls that they stand
/// for. `slow_calls`: how many calls of each function there are, compared or not.
pub(crate) fn merge(
    findings: Vec<Finding>,
    most: usize,
    slow_calls: &HashMap<FunctionId, u64>,
) -> (Vec<Finding>, Vec<SlowCall>) {
    let mut left_out = slow_calls.clone();
    for finding in &findings {
        if let Some(count) = left_out.get_mut(&finding.call.function) {
            *count = count.saturating_sub(1);
        }
    }
    left_out.retain(|_, count| *count > 0);
    let mut shown: Vec<(Finding, Vec<SlowCall>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for finding in findings {
        let call = finding.call;
        let next = places.len();
        let place = *places.entry(Key::new(&finding)).or_insert(next);
        if place == shown.len() && shown.len() < most {
            shown.push((finding, Vec::new()));
        }
        if let Some((_, calls)) = shown.get_mut(place) {
            calls.push(call);
        }
    }
    let mut calls = Vec::new();
    let mut first = Vec::new();
    for (mut finding, mut same) in shown {
        calls.extend_from_slice(&same);
        let or_more = same
            .iter()
            .any(|call| left_out.contains_key(&call.function));
        finding.same_cause = Some(sum(&mut same, or_more));
        first.push(finding);
    }
    (first, calls)
}

fn sum(calls: &mut [SlowCall], or_more: bool) -> SameCause {
    calls.sort_unstable_by_key(|call| call.start);
    let functions: HashSet<FunctionId> = calls.iter().map(|call| call.function).collect();
    let mut found = SameCause {
        calls: calls.len() as u64,
        or_more,
        functions: functions.len() as u64,
        total: 0,
        times: 0,
    };
    let mut open_until = None;
    for call in calls {
        found.total += call.total;
        found.times += u64::from(open_until.is_none_or(|until: Ticks| call.start > until));
        open_until = open_until.max(Some(call.end));
    }
    found
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn calls_at_one_time_count_once() {
        let call = SlowCall::of_test;
        let mut calls = [
            call(1, 7, 500, 600),
            call(1, 7, 0, 100),
            call(2, 8, 10, 20),
            call(1, 9, 90, 150),
        ];
        let wanted = SameCause {
            calls: 4,
            or_more: false,
            functions: 2,
            total: 270,
            times: 2,
        };
        assert_eq!(sum(&mut calls, false), wanted);
    }
}
