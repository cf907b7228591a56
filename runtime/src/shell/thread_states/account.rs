//! What the states of threads cost the program. Pure but for [`Reading::new`].

use crate::clock;
use crate::dump::schedule::{self, SwitchCost};
use crate::ring::Ring;
use crate::sys::perf;

/// States may take one part in this many of the program's CPU time.
const PART_OF_CPU_TIME: u64 = 100;
/// States that take one part in this many of the time do no harm, however little CPU time the program takes.
const PART_OF_TIME: u64 = 500;
/// CPU time that the kernel takes to make an event of a new thread and to end it, ns.
const EVENT_NS: u64 = 4000;
/// How long the cost is measured before it is compared, ns.
const PERIOD_NS: u64 = 200_000_000;
/// In how many periods one after the other the cost must be too high.
const MAX_PERIODS: u32 = 2;

/// What the clocks and the ring showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reading {
    now_ns: u64,
    /// CPU time of the process.
    cpu_ns: u64,
    /// Entries of the ring, and events that were lost: about two for each context switch.
    entries: u64,
    /// Threads that have ended.
    ended: u64,
    /// CPU time that went into emptying the buffers.
    emptying_ns: u64,
}

/// The cost of states, compared with the program's CPU time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Account {
    switch: SwitchCost,
    /// Whether the cost of a switch comes from one measurement.
    pub(super) is_measured_once: bool,
    /// CPU time that the kernel takes for the events of a thread that begins and ends, ns.
    thread_ns: u64,
    last: Reading,
    /// Periods in which the cost was too high, up to now.
    periods: u32,
    /// In the last period.
    pub(super) switches_per_second: u64,
}

/// What costs too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TooMuch {
    /// States with samples. Without them they would not.
    Samples,
    /// States, with or without samples.
    States,
}

impl Reading {
    pub(super) fn new(ring: &Ring, emptying_ns: u64) -> Reading {
        let [ended, lost] = schedule::ended_and_lost();
        Reading {
            now_ns: clock::monotonic_raw_ns(),
            cpu_ns: clock::process_cpu_ns(),
            entries: ring.schedule().map_or(0, |log| log.count()) + lost,
            ended,
            emptying_ns,
        }
    }
}

impl Account {
    pub(super) fn new(switch: SwitchCost, now: Reading) -> Account {
        Account {
            switch,
            is_measured_once: true,
            thread_ns: EVENT_NS * 3 * perf::cpus() as u64,
            last: now,
            periods: 0,
            switches_per_second: 0,
        }
    }

    /// Whether a period is over.
    pub(super) fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.last.now_ns + PERIOD_NS
    }

    /// Takes another measurement of the cost of a switch. The smaller one was disturbed less.
    pub(super) fn measured_again(&mut self, again: SwitchCost) {
        self.switch.alone_ns = self.switch.alone_ns.min(again.alone_ns);
        self.switch.sampled_ns = self.switch.sampled_ns.min(again.sampled_ns);
        self.is_measured_once = false;
    }

    /// Ends a period. Returns what costs too much.
    pub(super) fn too_much(&mut self, now: Reading, has_samples: bool) -> Option<TooMuch> {
        let time_ns = now.now_ns.saturating_sub(self.last.now_ns).max(1);
        let cpu_ns = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        let since = |count: fn(&Reading) -> u64| count(&now).saturating_sub(count(&self.last));
        let switches = since(|reading| reading.entries) / 2;
        let others_ns = (since(|reading| reading.ended).saturating_mul(self.thread_ns))
            .saturating_add(since(|reading| reading.emptying_ns));
        let is_high = |switch_ns: u64| {
            let cost_ns = switches.saturating_mul(switch_ns).saturating_add(others_ns);
            cost_ns > cpu_ns / PART_OF_CPU_TIME && cost_ns > time_ns / PART_OF_TIME
        };
        let is_alone_high = is_high(self.switch.alone_ns);
        let is_any_high = is_alone_high || has_samples && is_high(self.switch.sampled_ns);
        self.last = now;
        self.periods = if is_any_high { self.periods + 1 } else { 0 };
        self.switches_per_second = (switches as f64 * 1e9 / time_ns as f64) as u64;
        if self.periods < MAX_PERIODS {
            return None;
        }
        self.periods = 0;
        Some(match is_alone_high {
            true => TooMuch::States,
            false => TooMuch::Samples,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COST: SwitchCost = SwitchCost {
        alone_ns: 500,
        sampled_ns: 2000,
    };
    const SAMPLES: Option<TooMuch> = Some(TooMuch::Samples);
    const STATES: Option<TooMuch> = Some(TooMuch::States);

    /// What costs too much after each period, in a program with that many switches and that much CPU time in each.
    fn too_much(has_samples: bool, periods: &[(u64, u64)]) -> Vec<Option<TooMuch>> {
        let mut now = Reading::default();
        let mut account = Account::new(COST, now);
        let ends = periods.iter().map(|&(switches, cpu_ns)| {
            now.now_ns += PERIOD_NS;
            assert!(account.is_due(now.now_ns) && !account.is_due(now.now_ns - 1));
            now.cpu_ns += cpu_ns;
            now.entries += 2 * switches;
            account.too_much(now, has_samples)
        });
        ends.collect()
    }

    #[test]
    fn states_may_take_one_percent() {
        let ends = |has_samples, switches| too_much(has_samples, &[(switches, PERIOD_NS); 3]);
        assert_eq!(ends(true, 1000), [None; 3]);
        assert_eq!(ends(true, 1001), [None, SAMPLES, None]);
        assert_eq!(ends(true, 4001), [None, STATES, None]);
        assert_eq!(ends(false, 4000), [None; 3]);
        assert_eq!(ends(false, 4001), [None, STATES, None]);
    }

    #[test]
    fn the_smaller_measurement_counts() {
        let mut account = Account::new(COST, Reading::default());
        let again = SwitchCost {
            alone_ns: 400,
            sampled_ns: 3000,
        };
        account.measured_again(again);
        let smaller = SwitchCost {
            alone_ns: 400,
            sampled_ns: 2000,
        };
        assert_eq!((account.switch, account.is_measured_once), (smaller, false));
    }

    #[test]
    fn ends_of_threads_and_emptying_count() {
        let mut now = Reading::default();
        let mut account = Account::new(COST, now);
        account.thread_ns = 24_000;
        for (ended, emptying_ns) in [(83, 0), (83, 8000), (83, 9000), (0, 2_000_001), (84, 0)] {
            now.now_ns += PERIOD_NS;
            now.cpu_ns += PERIOD_NS;
            now.ended += ended;
            now.emptying_ns += emptying_ns;
            let is_high = ended * 24_000 + emptying_ns > 2_000_000;
            account.periods = 0;
            let _ = account.too_much(now, true);
            assert_eq!(account.periods, u32::from(is_high));
        }
    }

    #[test]
    fn one_period_does_not_count() {
        let (busy, calm) = ((9000, PERIOD_NS), (10, PERIOD_NS));
        assert_eq!(too_much(true, &[busy, calm, busy, calm]), [None; 4]);
    }

    #[test]
    fn states_of_an_idle_program_stay() {
        assert_eq!(too_much(true, &[(200, 1_000_000); 3]), [None; 3]);
        assert_eq!(too_much(true, &[(201, 1_000_000); 2]), [None, SAMPLES]);
    }
}
