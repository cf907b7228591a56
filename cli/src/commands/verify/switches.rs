//! Whether the switches of each thread make sense: one that runs stops before it runs again.

use std::collections::HashMap;

use fdr_formats::model::{Schedule, State, Switch};
use fdr_formats::{ThreadId, Ticks};

use super::finding::{Finding, FindingKind, FindingLocation};

/// Finds the switches that can't be right: a thread starts twice, or stops twice, in a row.
pub(super) fn check(schedule: &Schedule) -> Vec<Finding> {
    let mut switches: Vec<&Switch> = schedule.switches.iter().collect();
    switches.sort_by_key(|switch| switch.time);
    let mut last: HashMap<ThreadId, (bool, Ticks)> = HashMap::new();
    let mut found = Vec::new();
    for switch in switches {
        let Some(state) = switch.to else {
            match switch.thread {
                ThreadId(0) => last.clear(),
                thread => drop(last.remove(&thread)),
            }
            continue;
        };
        let is_running = state == State::Running;
        let (time, thread) = (switch.time, switch.thread);
        let before = last.insert(thread, (is_running, time));
        // Two CPUs may tell of one moment in any order.
        let is_twice = before.is_some_and(|(was, at)| was == is_running && at != time);
        if is_twice {
            let number = 0;
            let place = FindingLocation::Record { thread, number };
            let what = FindingKind::Twice { is_running, time };
            found.push(Finding { place, what });
        }
    }
    found
}
