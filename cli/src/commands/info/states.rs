//! What a trace knows of its threads' states, in counts.

use std::collections::BTreeSet;

use fdr_formats::{ThreadId, Ticks, TraceInfo};
use serde::Serialize;

use crate::ui;

/// States that begin later than this after the first record are said to begin late, ns.
const LATE_NS: u64 = 1_000_000;

/// The counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ScheduleCounts {
    switches: u64,
    threads: u64,
    /// The first of them, since the first record of the trace. `None`: the trace has no times.
    from_ns: Option<u64>,
    /// From the first of them to the last.
    over_ns: u64,
    /// Places between at which some were lost.
    gaps: u64,
    samples: u64,
    accounts: u64,
}

impl ScheduleCounts {
    /// `begin`: the first record of the trace. `None`: the trace knows nothing of states.
    pub(super) fn new(info: &TraceInfo, begin: Option<Ticks>) -> Option<ScheduleCounts> {
        let schedule = &info.schedule;
        if schedule.is_empty() {
            return None;
        }
        let times = || schedule.switches.iter().map(|switch| switch.time);
        let (first, last) = (
            times().min().unwrap_or_default(),
            times().max().unwrap_or_default(),
        );
        let is_all = |thread| thread == ThreadId(0);
        let of_one = schedule
            .switches
            .iter()
            .filter(|switch| !is_all(switch.thread));
        let threads: BTreeSet<ThreadId> = of_one.clone().map(|switch| switch.thread).collect();
        let gaps = schedule
            .switches
            .iter()
            .filter(|switch| is_all(switch.thread) && first < switch.time && switch.time < last);
        Some(ScheduleCounts {
            switches: of_one.count() as u64,
            threads: threads.len() as u64,
            from_ns: begin.map(|begin| info.clock.nanos(first.since(begin)).0),
            over_ns: info.clock.nanos(last.since(first)).0,
            gaps: gaps.count() as u64,
            samples: schedule.samples.len() as u64,
            accounts: schedule.accounts.len() as u64,
        })
    }

    /// For people.
    pub(super) fn in_words(&self) -> String {
        let mut parts = Vec::new();
        if self.switches > 0 {
            let switches = ui::things(self.switches, "change");
            let threads = ui::things(self.threads, "thread");
            let time = match self.from_ns.filter(|&ns| ns > LATE_NS) {
                Some(from_ns) => {
                    let to_ns = from_ns.saturating_add(self.over_ns);
                    format!(
                        "from +{} to +{}",
                        ui::duration(from_ns),
                        ui::duration(to_ns)
                    )
                }
                None => format!("over {}", ui::duration(self.over_ns)),
            };
            parts.push(format!("{switches} of {threads}, {time}"));
        }
        if self.gaps > 0 {
            let places = ui::things(self.gaps, "place");
            parts.push(format!("some lost at {places}"));
        }
        if self.samples > 0 {
            parts.push(ui::things(self.samples, "sample"));
        }
        if self.accounts > 0 {
            let readings = ui::things(self.accounts, "reading");
            parts.push(format!("{readings} of the system's sums (coarse)"));
        }
        parts.join(", ")
    }
}
