//! What the states of threads cost the program. Pure but for [`Reading::new`].

use crate::clock;
use crate::dump::schedule;
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
    /// CPU time that the kernel takes for a context switch and the thread's return, ns.
    switch_ns: u64,
    /// CPU time that the kernel takes for the events of a thread that begins and ends, ns.
    thread_ns: u64,
    last: Reading,
    /// Periods in which the cost was too high, up to now.
    periods: u32,
    /// In the last period.
    pub(super) switches_per_second: u64,
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
    pub(super) fn new(switch_ns: u64, now: Reading) -> Account {
        Account {
            switch_ns,
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

    /// Ends a period. Returns whether the states cost too much.
    pub(super) fn is_too_much(&mut self, now: Reading) -> bool {
        let time_ns = now.now_ns.saturating_sub(self.last.now_ns).max(1);
        let cpu_ns = now.cpu_ns.saturating_sub(self.last.cpu_ns);
        let since = |count: fn(&Reading) -> u64| count(&now).saturating_sub(count(&self.last));
        let switches = since(|reading| reading.entries) / 2;
        let cost_ns = (switches.saturating_mul(self.switch_ns))
            .saturating_add(since(|reading| reading.ended).saturating_mul(self.thread_ns))
            .saturating_add(since(|reading| reading.emptying_ns));
        let is_high = cost_ns > cpu_ns / PART_OF_CPU_TIME && cost_ns > time_ns / PART_OF_TIME;
        self.last = now;
        self.periods = if is_high { self.periods + 1 } else { 0 };
        self.switches_per_second = (switches as f64 * 1e9 / time_ns as f64) as u64;
        self.periods >= MAX_PERIODS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the states of a program with that many switches and that much CPU time in each period cost too much
    /// after each period. A switch costs 2 µs.
    fn too_much(periods: &[(u64, u64)]) -> Vec<bool> {
        let mut now = Reading::default();
        let mut account = Account::new(2000, now);
        let ends = periods.iter().map(|&(switches, cpu_ns)| {
            now.now_ns += PERIOD_NS;
            assert!(account.is_due(now.now_ns) && !account.is_due(now.now_ns - 1));
            now.cpu_ns += cpu_ns;
            now.entries += 2 * switches;
            account.is_too_much(now)
        });
        ends.collect()
    }

    #[test]
    fn states_may_take_one_percent() {
        assert_eq!(too_much(&[(1000, PERIOD_NS); 3]), [false; 3]);
        assert_eq!(too_much(&[(1001, PERIOD_NS); 3]), [false, true, true]);
    }

    #[test]
    fn ends_of_threads_and_emptying_count() {
        let mut now = Reading::default();
        let mut account = Account::new(2000, now);
        account.thread_ns = 24_000;
        for (ended, emptying_ns) in [(83, 0), (83, 8000), (83, 9000), (0, 2_000_001), (84, 0)] {
            now.now_ns += PERIOD_NS;
            now.cpu_ns += PERIOD_NS;
            now.ended += ended;
            now.emptying_ns += emptying_ns;
            let is_high = ended * 24_000 + emptying_ns > 2_000_000;
            let periods = account.periods;
            let _ = account.is_too_much(now);
            assert_eq!(account.periods, if is_high { periods + 1 } else { 0 });
        }
    }

    #[test]
    fn one_period_does_not_count() {
        let (busy, calm) = ((9000, PERIOD_NS), (10, PERIOD_NS));
        assert_eq!(too_much(&[busy, calm, busy, calm]), [false; 4]);
    }

    #[test]
    fn states_of_an_idle_program_stay() {
        assert_eq!(too_much(&[(200, 1_000_000); 3]), [false; 3]);
        assert_eq!(too_much(&[(201, 1_000_000); 2]), [false, true]);
    }
}
