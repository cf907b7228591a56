//! The recorder's counts of this process: functions, threads, records.

use core::sync::atomic::Ordering;

use super::sites::TableHandle;
use crate::api::{Missing, Statistics, ThreadStatistics};
use crate::recorder;
use crate::ring::counts;
use crate::ring::layout::Slot;
use crate::sys;

/// All that it counts, at one moment.
pub(super) fn of_process(table: TableHandle) -> Statistics {
    sys::process::notice_child();
    let mut statistics = Statistics::default();
    {
        let table = table.lock();
        statistics.functions = table.switched() as u64;
        statistics.functions_on = table.on() as u64;
    }
    let Some(ring) = recorder::ring() else {
        return statistics;
    };
    ring.sum_consistently(|| {
        let missing = ring.missing();
        statistics.missing = Missing {
            threads: missing.threads,
            overwritten: missing.overwritten,
            dropped: missing.dropped,
        };
        statistics.threads.clear();
        for slot in ring.owned_slots() {
            statistics.threads.extend(of_thread(slot));
        }
    });
    statistics
}

/// `None` if the slot changes its owner, or if its owner writes too fast for a count.
fn of_thread(slot: &Slot) -> Option<ThreadStatistics> {
    let (owner, counts) = counts::count(slot)?;
    Some(ThreadStatistics {
        id: u64::from(owner.tid),
        name: owner.name_text(),
        ended: owner.ended,
        recorded: counts.recorded,
        readable: counts.readable,
        overwritten: counts.overwritten,
        dropped: counts.dropped,
        summarised: counts.summarised,
        clock_steps: slot.clock_steps.load(Ordering::Relaxed),
    })
}
