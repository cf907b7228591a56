//! The budget of `FDR_BUDGET`: the part of the program's CPU time that recording may take. If recording takes more,
//! the functions with the most calls are only counted, without a clock read. From time to time they are timed for a
//! moment, so that a reader can estimate their times. The dumper does all of this. It must never wait for a thread.

use std::collections::BinaryHeap;
use std::time::Duration;

use super::config::Settings;
use super::sites::table;
use super::state::state;
use crate::clock::{self, Kind};
use crate::recorder;
use crate::ring::Ring;
use crate::ring::counts;
use crate::ring::totals;

/// The time that the recorder takes for a call, in addition to its two clock reads, ns.
const AROUND_NS: u64 = 12;

/// What a call costs that is only counted, ns.
const COUNTED_NS: u64 = 2;

/// The pauses between two checks, ns: if the last check changed something, if it did not, and if the program idles. A
/// program that turns to other functions is recorded at full cost up to the next check.
const SHORT_NS: u64 = 5_000_000;
const LONG_NS: u64 = 20_000_000;
const IDLE_NS: u64 = 1_000_000_000;
/// A check may take one part in this many of the time.
const PART_OF_LOOKS: u64 = 100;

/// A slice: for how long functions are timed that are otherwise only counted, ns, and how many of them at once.
const SLICE_NS: u64 = 1_000_000;
/// The least time from the end of a slice to the next one.
const BETWEEN_SLICES_NS: u64 = 50_000_000;
const SLICE_FUNCTIONS: usize = 64;
/// To time the functions of a slice may take one part in this many of the CPU time that their calls are counted in. One
/// function alone may take more.
const PART_OF_SLICE: u64 = 2;

/// The least time for which a function is only counted, ns: at first, and at most. It doubles each time.
const FIRST_PAUSE_NS: u64 = 1_000_000_000;
const MAX_PAUSE_NS: u64 = 64_000_000_000;

const MILLION: u64 = 1_000_000;

/// What is known of a function.
#[derive(Clone, Copy, Default)]
struct Function {
    /// Calls so far: timed, and only counted.
    calls: u64,
    counted: u64,
    /// The same, at the last check.
    calls_before: u64,
    counted_before: u64,
    /// Whether its calls are only counted. `None` if the function is off.
    counting: Option<bool>,
    /// Whether `cargo fdr` or a scope chose the function.
    auto: bool,
    /// The function is only counted until this time, ns.
    until_ns: u64,
    pause_ns: u64,
}

impl Function {
    fn timed_now(&self) -> u64 {
        self.calls.saturating_sub(self.calls_before)
    }

    fn counted_now(&self) -> u64 {
        self.counted.saturating_sub(self.counted_before)
    }
}

/// The dumper's account.
pub(crate) struct Budget {
    /// Millionths of the CPU time.
    share: u64,
    /// Whether the budget also concerns functions that a person marked one by one.
    takes_all: bool,
    /// What a timed call costs, ns.
    timed_ns: u64,
    /// By id, from 1.
    functions: Vec<Function>,
    /// At the last check: the time, and the CPU time of the process, ns.
    looked_ns: u64,
    cpu_ns: u64,
    due_ns: u64,
    /// The functions of the slice, by id. Empty between two slices.
    slice: Vec<u32>,
    /// Where the next slice begins, and when it may, ns.
    next: usize,
    next_slice_ns: u64,
}

impl Budget {
    /// `None` if the settings have no budget.
    pub(crate) fn new(settings: &Settings, kind: Kind, now_ns: u64) -> Option<Budget> {
        let (share, takes_all) = settings.budget()?;
        Some(Budget {
            share,
            takes_all,
            timed_ns: 2 * read_ns(kind) + AROUND_NS,
            functions: Vec::new(),
            looked_ns: now_ns,
            cpu_ns: clock::process_cpu_ns(),
            due_ns: now_ns + SHORT_NS,
            slice: Vec::new(),
            next: 0,
            next_slice_ns: 0,
        })
    }

    /// Makes a check, or ends a slice, if its time has come. Returns how long the dumper may sleep.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<Duration> {
        let ring = recorder::ring()?;
        if now_ns >= self.due_ns {
            let pause_ns = if self.slice.is_empty() {
                self.account(ring, now_ns)
            } else {
                let slice = core::mem::take(&mut self.slice);
                table().time_for_a_moment(&slice, false);
                self.next_slice_ns = now_ns + BETWEEN_SLICES_NS;
                self.pause(now_ns, LONG_NS)
            };
            self.due_ns = clock::monotonic_raw_ns() + pause_ns;
        }
        let left = self.due_ns.saturating_sub(clock::monotonic_raw_ns());
        Some(Duration::from_nanos(left))
    }

    /// The pause after a check that began at `began_ns`.
    fn pause(&self, began_ns: u64, wanted_ns: u64) -> u64 {
        let took_ns = clock::monotonic_raw_ns().saturating_sub(began_ns);
        wanted_ns.max(took_ns * PART_OF_LOOKS)
    }

    /// Compares the time that recording took with the budget. Begins a slice if functions are only counted. Returns the
    /// pause.
    fn account(&mut self, ring: &Ring, now_ns: u64) -> u64 {
        let elapsed_ns = now_ns.saturating_sub(self.looked_ns);
        let cpu_ns = clock::process_cpu_ns();
        let used_ns = cpu_ns.saturating_sub(self.cpu_ns);
        (self.looked_ns, self.cpu_ns) = (now_ns, cpu_ns);
        // Each check reads the calls, so that they are of the same time as the CPU time.
        self.read(ring);
        if used_ns < elapsed_ns / 20 {
            return self.pause(now_ns, IDLE_NS);
        }
        // Before a ring is full no record is lost. So all calls leave their records.
        if !ring.owned_slots().any(counts::is_full) {
            return self.pause(now_ns, SHORT_NS);
        }
        if self.decide(used_ns, now_ns) {
            return self.pause(now_ns, SHORT_NS);
        }
        if now_ns >= self.next_slice_ns && self.begin_slice(used_ns) {
            return SLICE_NS;
        }
        self.pause(now_ns, LONG_NS)
    }

    fn read(&mut self, ring: &Ring) {
        {
            let table = table();
            self.functions.resize(table.len(), Function::default());
            for (function, (counting, auto)) in self.functions.iter_mut().zip(table.counting()) {
                (function.counting, function.auto) = (counting, auto);
                (function.calls_before, function.counted_before) =
                    (function.calls, function.counted);
                (function.calls, function.counted) = (0, 0);
            }
        }
        let owned = ring.owned_slots().filter_map(|slot| ring.totals_of(slot));
        for row in owned.chain(ring.totals_of_ended()).flat_map(totals::rows) {
            let (id, calls, counted) = totals::calls(row);
            let index = (id as usize).wrapping_sub(1);
            if let Some(function) = self.functions.get_mut(index) {
                function.calls += calls;
                function.counted += counted;
            }
        }
    }

    /// Chooses the functions that are only counted from now on. Returns whether anything changes.
    fn decide(&mut self, used_ns: u64, now_ns: u64) -> bool {
        let timed_ns = self.timed_ns;
        let cost_ns = |function: &Function| match function.counting {
            // Its timed calls are those of slices. The recorder can't do less than count the others.
            Some(true) => 0,
            _ => function.timed_now() * timed_ns,
        };
        let mut sum_ns: u64 = self.functions.iter().map(cost_ns).sum();
        // Of the time that the program takes for itself. The share of all time would fall with what recording takes.
        let own_ns = used_ns.saturating_sub(sum_ns);
        let limit_ns = (u128::from(own_ns) * u128::from(self.share) / u128::from(MILLION)) as u64;
        // What counting takes can't be saved. Some calls stay timed, however much it takes.
        let counting_ns = self
            .functions
            .iter()
            .map(Function::counted_now)
            .sum::<u64>()
            * COUNTED_NS;
        let limit_ns = limit_ns.saturating_sub(counting_ns).max(limit_ns / 4);
        let counts = sum_ns > limit_ns;
        // Functions with many calls come first if they are to be only counted, and last if they are to be timed again.
        let mut candidates = BinaryHeap::new();
        for (id, function) in (1..).zip(&self.functions) {
            let may = (function.auto || self.takes_all) && totals::may_have_row(id);
            match function.counting {
                Some(false) if counts && may => candidates.push((function.timed_now(), id)),
                Some(true) if !counts && now_ns >= function.until_ns => {
                    candidates.push((!function.counted_now(), id));
                }
                _ => {}
            }
        }
        let mut chosen: Vec<u32> = Vec::new();
        while let Some((calls, id)) = candidates.pop() {
            if counts {
                // As few functions as possible, until recording takes three quarters of the budget.
                if calls == 0 || sum_ns <= limit_ns / 4 * 3 {
                    break;
                }
                sum_ns = sum_ns.saturating_sub(calls * timed_ns);
            } else {
                sum_ns += !calls * timed_ns;
                if sum_ns > limit_ns / 2 {
                    break;
                }
            }
            chosen.push(id);
        }
        for &id in &chosen {
            let Some(function) = self.functions.get_mut(id as usize - 1) else {
                continue;
            };
            function.counting = Some(counts);
            if counts {
                let twice = (2 * function.pause_ns).clamp(FIRST_PAUSE_NS, MAX_PAUSE_NS);
                function.pause_ns = twice;
                function.until_ns = now_ns + twice;
            }
        }
        if !chosen.is_empty() {
            table().count_only(&chosen, counts);
        }
        !chosen.is_empty()
    }

    /// Begins a slice of the functions that are only counted. False if there are none. The calls of the last `used_ns`
    /// of CPU time say what timing a function takes.
    fn begin_slice(&mut self, used_ns: u64) -> bool {
        let mut all = Vec::new();
        for (id, function) in (1..).zip(&self.functions) {
            if function.counting == Some(true) && function.counted_now() > 0 {
                all.push((id, function.counted_now() * self.timed_ns));
            }
        }
        let from = if self.next < all.len() { self.next } else { 0 };
        let mut left_ns = used_ns / PART_OF_SLICE;
        for &(id, takes_ns) in all.iter().skip(from).take(SLICE_FUNCTIONS) {
            if takes_ns > left_ns && !self.slice.is_empty() {
                break;
            }
            left_ns = left_ns.saturating_sub(takes_ns);
            self.slice.push(id);
        }
        self.next = from + self.slice.len();
        table().time_for_a_moment(&self.slice, true);
        !self.slice.is_empty()
    }
}

/// The number of functions whose calls are only counted.
pub(crate) fn counted_functions() -> usize {
    let is_counted = |(counting, _): &(Option<bool>, bool)| *counting == Some(true);
    table().counting().filter(is_counted).count()
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

/// A budget for this process, if the recorder is up.
pub(crate) fn of_process(now_ns: u64) -> Option<Budget> {
    let state = state()?;
    Budget::new(&state.config, state.chosen.kind, now_ns)
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// Functions that a scope chose, with so many timed and counted calls since the last check.
    fn budget(calls: &[(u64, u64)]) -> Budget {
        let function = |&(calls, counted): &(u64, u64)| Function {
            calls: 1_000_000 + calls,
            calls_before: 1_000_000,
            counted: 2_000_000 + counted,
            counted_before: 2_000_000,
            counting: Some(counted > 0),
            auto: true,
            ..Function::default()
        };
        Budget {
            share: MILLION / 10,
            takes_all: false,
            timed_ns: 50,
            functions: calls.iter().map(function).collect(),
            looked_ns: 0,
            cpu_ns: 0,
            due_ns: 0,
            slice: Vec::new(),
            next: 0,
            next_slice_ns: 0,
        }
    }

    fn counted(budget: &Budget) -> Vec<bool> {
        let functions = budget.functions.iter();
        functions.map(|all| all.counting == Some(true)).collect()
    }

    #[test]
    fn as_few_functions_as_possible_are_only_counted() {
        // 4.5 of 9.5 ms are the program's own, and three quarters of a tenth of that are 337 us.
        let mut some = budget(&[(3_000, 0), (90_000, 0), (0, 0), (7_000, 0)]);
        assert!(some.decide(9_500_000, 1));
        assert_eq!(counted(&some), [false, true, false, true]);
        // A person marked it alone.
        some.functions[1].auto = false;
        some.functions[1].counting = Some(false);
        some.decide(9_500_000, 1);
        assert!(!counted(&some)[1]);
        // What was done before the last check does not matter.
        let mut idle = budget(&[(0, 0), (5_000, 0)]);
        assert!(!idle.decide(9_500_000, 1));
        assert_eq!(counted(&idle), [false, false]);
    }

    #[test]
    fn functions_are_timed_again_when_they_are_called_less() {
        let mut some = budget(&[(0, 1_000), (0, 2_000), (0, 40_000)]);
        some.functions[0].until_ns = 10;
        assert!(some.decide(9_500_000, 9));
        assert_eq!(counted(&some), [true, false, true]);
    }

    #[test]
    fn a_slice_takes_its_part_of_the_time_and_the_next_one_goes_on() {
        // Half of 1 ms are the timed calls of 10,000.
        let mut some = budget(&[(0, 4_000), (9, 0), (0, 6_000), (0, 1), (0, 70_000), (0, 5)]);
        let mut slices = Vec::new();
        for _ in 0..5 {
            assert!(some.begin_slice(1_000_000));
            slices.push(core::mem::take(&mut some.slice));
        }
        assert_eq!(slices, [vec![1, 3], vec![4], vec![5], vec![6], vec![1, 3]]);
        assert!(!budget(&[(9, 0)]).begin_slice(1_000_000));
        let many = vec![(0, 1); SLICE_FUNCTIONS + 3];
        let mut many = budget(&many);
        assert!(many.begin_slice(1_000_000));
        assert_eq!(many.slice.len(), SLICE_FUNCTIONS);
    }
}
