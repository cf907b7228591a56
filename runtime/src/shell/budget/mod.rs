//! The budget of `FDR_BUDGET`: the part of the program's CPU time that recording may take. If recording takes more,
//! functions go down one of the levels of `model::Level`: the functions with the most calls are only counted, without a
//! clock read. If counting takes too much, too, those with the most calls are only looked at: they are off, except during
//! slices of time that are drawn by lot. The dumper does all of this. It must never wait for a thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `call_cost` | what timing a call costs in slices. Pure |
//! | `decide` | which functions change their level. Pure |
//! | `estimates` | from what slices show to the calls and times of the run. Pure |
//! | `rows` | reads the totals of all threads |
//! | `slices` | when slices are, of which functions, and what they show |

mod call_cost;
mod decide;
mod estimates;
mod rows;
mod slices;

use std::time::Duration;

use fdr_formats::Ticks;
use fdr_formats::model::{Estimate, Level, RecordingCost};

use super::sites::{FunctionLevel, TableHandle};
use super::state::State;
use crate::clock::{self, Kind};
use crate::recorder;
use crate::ring::Ring;
use crate::ring::counts;

use decide::{Costs, Function, Spent};
use estimates::FunctionEstimate;
use slices::Slices;

/// The time that the recorder takes for a call, in addition to its two clock reads, ns.
const AROUND_NS: u64 = 12;

/// The pauses between two checks, ns: if the last check changed something, if it did not, and if the program idles. A
/// program that turns to other functions is recorded at full cost up to the next check.
const SHORT_NS: u64 = 5_000_000;
const LONG_NS: u64 = 20_000_000;
const IDLE_NS: u64 = 1_000_000_000;
/// A check may take one part in this many of the time.
const PART_OF_CHECKS: u64 = 100;
/// The recorder's own work has a fixed part, which is a large share of less CPU time than this, ns.
const MIN_OWN_NS: u64 = 20_000_000;
/// How long threads with a slot must have run until no other time is needed for a rate, ns.
const MIN_RATE_NS: u64 = 500_000;
/// Estimates of the ring are not stored anew before this time has passed, ns.
const STALE_NS: u64 = 2_000_000;

/// The dumper's account.
pub(crate) struct Budget {
    table: TableHandle,
    costs: Costs,
    kind: Kind,
    /// By id, from 1.
    functions: Vec<Function>,
    slices: Slices,
    /// At the last check: the time, and the CPU time of the process and of the dumper, ns.
    looked_ns: u64,
    cpu_ns: u64,
    own_cpu_ns: u64,
    due_ns: u64,
    threads_clock: ThreadsClock,
    /// Its times at the last check, or later when a reader was about to read the estimates.
    threads: CpuTimes,
    /// Its times at the last check, and between the last two checks.
    checked: CpuTimes,
    threads_used: CpuTimes,
    /// When the ring got the estimates.
    stored_ns: u64,
    /// The time that recording took recently.
    lately: Spent,
}

impl Budget {
    /// The budget of this process. `None` if the settings have none.
    pub(crate) fn new(state: &State, table: TableHandle, now_ns: u64) -> Option<Budget> {
        let (kind, ticks_per_second) = (state.chosen.kind, state.frequency().hz);
        let (share, takes_all) = state.config.budget()?;
        // The child of a fork inherits the levels of its parent, but no estimates.
        table.lock().time_all();
        let timed_ns = 2 * read_ns(kind) + AROUND_NS;
        Some(Budget {
            table,
            costs: Costs {
                share,
                takes_all,
                timed_ns,
            },
            kind,
            functions: Vec::new(),
            slices: Slices::new(share, timed_ns, ticks_per_second, now_ns),
            looked_ns: now_ns,
            cpu_ns: clock::process_cpu_ns(),
            own_cpu_ns: clock::thread_cpu_ns(),
            due_ns: now_ns + SHORT_NS,
            threads_clock: ThreadsClock::default(),
            threads: CpuTimes::default(),
            checked: CpuTimes::default(),
            threads_used: CpuTimes::default(),
            stored_ns: 0,
            lately: Spent::default(),
        })
    }

    /// Makes a check, begins a slice or ends one, if its time has come. Returns how long the dumper may sleep.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<Duration> {
        let ring = recorder::ring().filter(|ring| !ring.is_lost())?;
        if self.slices.is_due(now_ns) {
            self.slices.turn(
                ring,
                self.table,
                &mut self.functions,
                &mut self.threads_clock,
            );
        }
        if now_ns >= self.due_ns && !self.slices.is_under_way() {
            let before_ns = clock::thread_cpu_ns();
            let pause_ns = self.account(ring, now_ns);
            let took_ns = clock::thread_cpu_ns().saturating_sub(before_ns);
            self.due_ns = clock::monotonic_raw_ns() + pause_ns.max(took_ns * PART_OF_CHECKS);
        }
        let due_ns = self.due_ns.min(self.slices.due_ns());
        let left = due_ns.saturating_sub(clock::monotonic_raw_ns());
        Some(Duration::from_nanos(left))
    }

    /// Leaves out CPU time of the dumper that went into a dump or a command. Functions on a lower level would not make such
    /// work shorter.
    pub(crate) fn leave_out(&mut self, work_ns: u64) {
        self.cpu_ns += work_ns;
        self.own_cpu_ns += work_ns;
    }

    /// Brings the ring's estimates up to date, because a reader may be about to read them.
    pub(crate) fn settle(&mut self) {
        let now_ns = clock::monotonic_raw_ns();
        let is_stale = !self.functions.is_empty() && now_ns >= self.stored_ns + STALE_NS;
        if let Some(ring) = recorder::ring().filter(|ring| is_stale && !ring.is_lost()) {
            self.threads = self.threads_clock.read(ring);
            self.store(ring, now_ns);
        }
    }

    /// Compares the time that recording took with the budget. Returns the pause.
    #[inline(never)]
    fn account(&mut self, ring: &Ring, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.looked_ns);
        let (cpu_ns, own_cpu_ns) = (clock::process_cpu_ns(), clock::thread_cpu_ns());
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        let dumper_ns = own_cpu_ns.saturating_sub(self.own_cpu_ns);
        (self.looked_ns, self.cpu_ns, self.own_cpu_ns) = (now_ns, cpu_ns, own_cpu_ns);
        self.threads = self.threads_clock.read(ring);
        self.threads_used = self.threads.since(self.checked);
        self.checked = self.threads;
        // Each check reads the calls, so that they are of the same time as the CPU time.
        self.read(ring);
        if used_ns < elapsed_ns / 20 {
            self.count_again(ring, now_ns);
            self.slices.rest();
            self.store(ring, now_ns);
            return IDLE_NS;
        }
        if !slices::below(&self.functions, Level::Timed).is_empty() {
            self.slices.wake(now_ns);
        }
        let spent = self.costs.spent(&self.functions, used_ns, dumper_ns);
        self.lately.add(&spent);
        // While no thread has filled its ring, records overwrite nothing. So no function goes down a level yet.
        if !ring.owned_slots().any(counts::is_full) {
            return match spent.is_over(&self.costs) {
                true => SHORT_NS,
                false => LONG_NS,
            };
        }
        let long_ticks = self.slices.long_ticks();
        let long_calls = |id| rows::long_calls(ring, id, long_ticks);
        let change = decide::decide(&self.costs, &self.functions, &spent, now_ns, &long_calls);
        self.store(ring, now_ns);
        let Some((ids, level)) = change else {
            return LONG_NS;
        };
        self.set_level(ring, &ids, level, now_ns);
        SHORT_NS
    }

    fn set_level(&mut self, ring: &Ring, ids: &[u32], level: Level, now_ns: u64) {
        let tick = clock::read(self.kind).ticks;
        let mut changed = Vec::new();
        for &id in ids {
            let Some(function) = self.functions.get_mut(id as usize - 1) else {
                continue;
            };
            let mut estimate = function.estimate.as_ref().map_or_else(
                || FunctionEstimate::new(function.counted, self.threads),
                |known| (**known).clone(),
            );
            estimate.change(level, Ticks(tick), self.threads);
            estimate.set_rate(function.counted_now() as f64 / self.threads_used.of_calls());
            // A function without a place for its estimate stays as it is.
            let has_place = ring.store_estimate(id, &estimate.stored(self.threads));
            if level == Level::LookedAt && !has_place {
                function.cannot_be_looked_at = true;
                continue;
            }
            function.set_level(level, now_ns);
            function.estimate = Some(Box::new(estimate));
            changed.push(id);
        }
        self.table.lock().set_level(&changed, level);
    }

    /// The program idles: counting takes next to nothing, and is exact.
    fn count_again(&mut self, ring: &Ring, now_ns: u64) {
        let ids = slices::below(&self.functions, Level::Counted);
        if !ids.is_empty() {
            self.set_level(ring, &ids, Level::Counted, now_ns);
        }
    }

    #[inline(never)]
    fn read(&mut self, ring: &Ring) {
        {
            let table = self.table.lock();
            self.functions.resize_with(table.len(), Function::default);
            for (function, now) in self.functions.iter_mut().zip(table.levels()) {
                function.begin_check(now);
            }
        }
        rows::each_calls(ring, &mut |id, calls, counted| {
            let index = (id as usize).wrapping_sub(1);
            if let Some(function) = self.functions.get_mut(index) {
                function.calls += calls;
                function.counted += counted;
            }
        });
        let tick = Ticks(clock::read(self.kind).ticks);
        for function in &mut self.functions {
            function.note_missed(tick, self.threads);
            function.note_rate(self.threads_used);
        }
    }

    /// Stores the estimates in the ring, where traces and readers of the ring find them.
    fn store(&mut self, ring: &Ring, now_ns: u64) {
        self.stored_ns = now_ns;
        for (id, function) in (1..).zip(&self.functions) {
            if let Some(known) = function.estimated(self.threads) {
                ring.store_estimate(id, &known);
            }
        }
        if self.slices.outside() > 0 {
            let outside = Estimate {
                around: self.slices.outside(),
                ..Estimate::default()
            };
            ring.store_estimate(0, &outside);
        }
        if self.lately.own() >= MIN_OWN_NS {
            ring.store_cost(RecordingCost {
                share: self.lately.share(),
                budget: self.costs.share,
            });
        }
    }
}

/// The CPU time of the program's threads, ns. A thread has a slot from its first record or counted call on.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTimes {
    with_slot: u64,
    /// Of threads before their first record, and of those that never made one. On other CPUs it may be late by a timer
    /// tick.
    without_slot: u64,
}

impl CpuTimes {
    fn since(self, before: CpuTimes) -> CpuTimes {
        CpuTimes {
            with_slot: self.with_slot.saturating_sub(before.with_slot),
            without_slot: self.without_slot.saturating_sub(before.without_slot),
        }
    }

    /// The time in which the threads made the calls that they made, ns. If threads with a slot had too little of it for a
    /// rate, the calls are of threads that hardly live longer than their first record, and all of their time counts.
    fn of_calls(self) -> f64 {
        let all = self.with_slot + self.without_slot;
        let least = all.clamp(MIN_RATE_NS / 10, MIN_RATE_NS);
        self.with_slot.max(least) as f64
    }

    fn add(&mut self, more: CpuTimes) {
        self.with_slot += more.with_slot;
        self.without_slot += more.without_slot;
    }
}

/// The CPU time of the program's threads since its first reading.
#[derive(Default)]
struct ThreadsClock {
    last: Option<u64>,
    /// The time of all threads but the dumper at the first reading, ns.
    first_of_all: Option<u64>,
    times: CpuTimes,
}

impl ThreadsClock {
    /// Only the dumper calls this.
    fn read(&mut self, ring: &Ring) -> CpuTimes {
        let now = ring.threads_cpu_ns();
        // The process's clock comes second, because reading the threads' clocks brings it up to date.
        let all = clock::process_cpu_ns().saturating_sub(clock::thread_cpu_ns());
        let elapsed = now.wrapping_sub(self.last.unwrap_or(now)) as i64;
        // The time of a thread that died without its end handler is missing.
        self.times.with_slot += elapsed.max(0) as u64;
        self.last = Some(now);
        let all = all.saturating_sub(*self.first_of_all.get_or_insert(all));
        let without_slot = all.saturating_sub(self.times.with_slot);
        self.times.without_slot = self.times.without_slot.max(without_slot);
        self.times
    }
}

/// How many functions are only counted, and how many are only looked at.
pub(crate) fn functions_by_level(table: TableHandle) -> (usize, usize) {
    let mut by_level = (0, 0);
    for FunctionLevel { level, .. } in table.lock().levels() {
        by_level.0 += usize::from(level == Some(Level::Counted));
        by_level.1 += usize::from(level == Some(Level::LookedAt));
    }
    by_level
}

/// How long a clock read takes here, ns, at least 1.
fn read_ns(kind: Kind) -> u64 {
    const READS: u64 = 64;
    let once = || {
        let before = clock::monotonic_raw_ns();
        for _ in 0..READS {
            core::hint::black_box(clock::read(kind));
        }
        clock::monotonic_raw_ns().saturating_sub(before) / READS
    };
    // Other threads can only make a measurement longer.
    (0..8).map(|_| once()).min().unwrap_or(0).max(1)
}

#[cfg(all(test, not(loom), not(interpreted)))]
mod tests {
    use super::*;
    use crate::ring::Options;
    use crate::ring::layout::CHUNK;

    #[test]
    fn time_before_the_first_record_is_apart() {
        const NS: u64 = 3_000_000;
        let burn = || {
            let before = clock::thread_cpu_ns();
            while clock::thread_cpu_ns() < before + NS {}
        };
        let options = Options {
            buffer: 8 * CHUNK as u64,
            memory: 32 * CHUNK as u64,
            full: false,
            keeps: false,
            states: false,
            clock: Kind::Monotonic,
            template: &[],
        };
        let (ring, _) = Ring::create(None, &options).expect("addresses");
        let mut threads = ThreadsClock::default();
        let begin = threads.read(&ring);
        let thread = std::thread::spawn(burn);
        thread.join().expect("the thread's end");
        let without = threads.read(&ring).since(begin);
        assert!(without.without_slot >= NS, "{without:?}");
        std::thread::scope(|scope| {
            let recording = || {
                let slot = ring.claim().expect("a slot");
                burn();
                ring.end(slot);
            };
            scope.spawn(recording).join().expect("the thread's end");
        });
        let with = threads.read(&ring).since(begin);
        assert!(with.with_slot >= NS, "{with:?}");
        assert!(with.of_calls() >= NS as f64, "{with:?}");
    }
}
