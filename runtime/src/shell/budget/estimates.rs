//! From slices to the calls and the times of the whole run. Slices are drawn by lot, so their rates hold for the time
//! between them, too, up to a standard error. The error comes from the differences between successive slices, so it
//! needs no assumption of how calls are spread. Pure.
//!
//! All times here are CPU times of the program. A slice begins and ends when the dumper gets a CPU, which it often takes
//! from a thread of the program. So in a slice the program may have less of the CPUs than between slices.
//!
//! A thread that lives between two slices has no slot, because its calls leave nothing. So we know its time, but not
//! whether its calls are of traced functions. Slices show how much of such time is: they have calls of *newcomers*,
//! threads that got their slot in the slice.

use fdr_formats::Ticks;
use fdr_formats::model::{Estimate, Level};

use super::CpuTimes;
use super::call_cost::CallCost;
use super::rows::Sums;

/// The estimate of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionEstimate {
    level: Level,
    since: Ticks,
    /// Estimated calls that were neither timed nor counted, and the variance of this number.
    missed: f64,
    missed_variance: f64,
    /// How far `missed` may be off because two numbers are not known exactly: the slowdown by counting, and the part of
    /// newcomers. These errors have the same sign in each slice.
    missed_unsure: f64,
    /// `missed` at the last check.
    missed_before: f64,
    /// Calls in each ns, of the last slices.
    rate: f64,
    /// The slices since then, in which the program ran for too short a time to give a rate.
    pending: CountingSlice,
    /// The time that no rate covers yet, up to `off_from`, when the function was turned off.
    off: CpuTimes,
    off_from: CpuTimes,
    newcomers: Newcomers,
    /// The function was only looked at, so its calls are an estimate from then on.
    was_off: bool,
    /// Calls without a time for which the times stand.
    sampled: f64,
    total: f64,
    own: f64,
    own_variance: f64,
    /// How far `own` may be off because the cost of a timed call is not known exactly.
    own_unsure: f64,
    /// The mean self time of the last slice.
    mean: Option<f64>,
    /// Calls without a time so far that were counted.
    counted: u64,
}

/// What a slice of counting showed of a function, or several slices together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CountingSlice {
    pub(super) calls: u64,
    /// The time that the program would have needed without counting, ns.
    pub(super) cpu_ns: f64,
    /// The uncertainty of `cpu_ns`.
    pub(super) unsure_ns: f64,
    /// The calls of threads that got their slot in the slice.
    pub(super) by_newcomers: u64,
    /// The time of threads without a slot, ns.
    pub(super) without_slot_ns: f64,
}

/// What slices showed of threads that had no slot when the slice began, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Newcomers {
    /// The time that their calls took at the function's rate.
    calling: f64,
    /// The time of those that made no call.
    other: f64,
}

impl Newcomers {
    /// The part of the time without a slot that is like the time with one, and its standard error. Without slices it may
    /// be any. Source: Laplace's rule of succession, with one trial in 2 [`MIN_SLICES_NS`].
    fn part(self) -> (f64, f64) {
        let all = self.calling + self.other + 2.0 * MIN_SLICES_NS;
        let part = (self.calling + MIN_SLICES_NS) / all;
        let trials = all / (2.0 * MIN_SLICES_NS);
        (part, (part * (1.0 - part) / (trials + 1.0)).sqrt())
    }
}

/// How long the program must have run in slices before they give a rate, ns.
const MIN_SLICES_NS: f64 = 500_000.0;

impl FunctionEstimate {
    /// `counted`: the counted calls without a time so far, for which nothing is estimated.
    pub(super) fn new(counted: u64, now: CpuTimes) -> FunctionEstimate {
        FunctionEstimate {
            counted,
            sampled: counted as f64,
            off_from: now,
            ..FunctionEstimate::default()
        }
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// The function is on that level from now on.
    pub(super) fn change(&mut self, level: Level, tick: Ticks, now: CpuTimes) {
        if self.level == Level::LookedAt {
            // No later slice covers the remaining time, or confirms its calls.
            let (calls, error) = self.unsampled_calls(now);
            self.missed += calls;
            self.missed_variance += error * error;
        }
        self.was_off |= level == Level::LookedAt;
        (self.level, self.since) = (level, tick);
        (self.off, self.off_from) = (CpuTimes::default(), now);
        self.pending = CountingSlice::default();
    }

    /// The calls in each ns, as they were counted.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// The calls in each ns, of the last slices.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// A slice begins, in which the function is on.
    pub(super) fn turn_on(&mut self, now: CpuTimes) {
        self.off.add(now.since(self.off_from));
    }

    /// A slice has ended.
    pub(super) fn turn_off(&mut self, now: CpuTimes) {
        self.off_from = now;
    }

    pub(super) fn note_calls(&mut self, slice: CountingSlice) {
        let slices = CountingSlice {
            calls: self.pending.calls + slice.calls,
            cpu_ns: self.pending.cpu_ns + slice.cpu_ns,
            unsure_ns: self.pending.unsure_ns + slice.unsure_ns,
            ..slice
        };
        if slices.cpu_ns < MIN_SLICES_NS {
            self.pending = slices;
        } else {
            let rate = slices.calls as f64 / slices.cpu_ns;
            let off_ns = self.off.with_slot as f64;
            let differs = rate - self.rate;
            self.missed += rate * off_ns;
            self.missed_unsure += rate * off_ns * slices.unsure_ns / slices.cpu_ns;
            self.missed_variance += off_ns * off_ns * differs * differs / 2.0;
            (self.rate, self.off.with_slot) = (rate, 0);
            self.pending = CountingSlice::default();
        }
        self.note_newcomers(slice);
    }

    /// Newcomers of a slice stand for those of the time before it.
    fn note_newcomers(&mut self, slice: CountingSlice) {
        if self.rate > 0.0 {
            self.newcomers.calling += slice.by_newcomers as f64 / self.rate;
        }
        self.newcomers.other += slice.without_slot_ns;
        let calls = self.rate * self.off.without_slot as f64;
        let (part, error) = self.newcomers.part();
        self.missed += calls * part;
        self.missed_unsure += calls * error;
        self.off.without_slot = 0;
    }

    /// A slice timed calls.
    pub(super) fn note_times(&mut self, timed: Sums, counted: u64, cost: &CallCost) {
        self.counted = self.counted.max(counted);
        let Some((total, own)) = timed.means_of_short() else {
            return;
        };
        let calls_inside = (total - own).max(0.0) * cost.own_part;
        let own = (own - cost.subtracted()).max(0.0);
        let stands_for = (self.counted as f64 + self.missed - self.sampled).max(0.0);
        // The first slice has no earlier slice to differ from. Its variance is that of an exponential distribution.
        let variance = match self.mean {
            Some(before) => (own - before) * (own - before) / 2.0,
            None => own * own / timed.calls as f64,
        };
        self.own_variance += stands_for * stands_for * variance;
        self.own_unsure += stands_for * cost.unsure();
        self.total += stands_for * (own + calls_inside);
        self.own += stands_for * own;
        self.sampled += stands_for;
        self.mean = Some(own);
    }

    /// The calls that no rate covers yet, by the last rate, and their error. No slice has confirmed them.
    fn unsampled_calls(&self, now: CpuTimes) -> (f64, f64) {
        let mut off = self.off;
        off.add(now.since(self.off_from));
        let (part, part_error) = self.newcomers.part();
        let without_slot = self.rate * off.without_slot as f64;
        let calls = self.rate * off.with_slot as f64 + without_slot * part;
        let error = root_of_squares([calls / 2.0, without_slot * part_error, 0.0]);
        (calls, error)
    }

    /// The estimated calls since the last check that were neither timed nor counted.
    pub(super) fn missed_since_check(&mut self, now: CpuTimes) -> f64 {
        let missed = self.stored(now).missed as f64;
        let more = missed - self.missed_before;
        self.missed_before = missed;
        more.max(0.0)
    }

    /// The estimate in the form in which the ring stores it.
    pub(super) fn stored(&self, now: CpuTimes) -> Estimate {
        let (unsampled, unsampled_error) = match self.level {
            Level::LookedAt => self.unsampled_calls(now),
            Level::Timed | Level::Counted => (0.0, 0.0),
        };
        let error = root_of_squares([
            self.missed_variance.sqrt(),
            self.missed_unsure,
            unsampled_error,
        ]);
        let own_error = root_of_squares([self.own_variance.sqrt(), self.own_unsure, 0.0]);
        Estimate {
            level: self.level,
            since: self.since,
            missed: (self.missed + unsampled) as u64,
            // Without an error, readers take the calls for counted ones.
            missed_error: (error as u64).max(self.was_off.into()),
            total: Ticks(self.total as u64),
            own: Ticks(self.own as u64),
            own_error: Ticks(own_error as u64),
            sampled: self.sampled as u64,
            around: 0,
        }
    }
}

/// The root of the sum of the squares: the error of a sum whose parts have these errors.
fn root_of_squares(errors: [f64; 3]) -> f64 {
    errors.map(|error| error * error).iter().sum::<f64>().sqrt()
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// Times of threads with a slot, and of those without one.
    fn at(with_slot: u64, without_slot: u64) -> CpuTimes {
        CpuTimes {
            with_slot,
            without_slot,
        }
    }

    /// A program whose calls come in a rhythm, seen in slices at random moments: the truth is within three standard errors.
    #[test]
    fn calls_are_within_their_error() {
        let mut outside = 0;
        for seed in 1..=200_u64 {
            let mut random = super::super::slices::Random::new(seed);
            // One call in 10 to 30 ns, in turns of 3 ms.
            let rate = |ns: u64| if ns / 3_000_000 % 2 == 0 { 0.1 } else { 0.03 };
            let calls = |from: u64, until: u64| -> f64 {
                (from / 1_000..until / 1_000)
                    .map(|us| rate(us * 1_000) * 1_000.0)
                    .sum()
            };
            let mut estimate = FunctionEstimate::new(0, at(0, 0));
            estimate.change(Level::LookedAt, Ticks(0), at(0, 0));
            estimate.set_rate(0.1);
            let (mut now, mut truth) = (0, 0.0);
            while now < 2_000_000_000 {
                let begin = now + random.pause(9_000_000);
                truth += calls(now, begin);
                estimate.turn_on(at(begin, 0));
                let end = begin + 1_000_000;
                estimate.note_calls(CountingSlice {
                    calls: calls(begin, end) as u64,
                    cpu_ns: 1e6,
                    unsure_ns: 0.0,
                    ..CountingSlice::default()
                });
                estimate.turn_off(at(end, 0));
                now = end;
            }
            let stored = estimate.stored(at(now, 0));
            let differs = (stored.missed as f64 - truth).abs();
            outside += u32::from(differs > 3.0 * stored.missed_error as f64);
        }
        assert!(outside <= 2, "{outside} of 200 runs");
    }

    #[test]
    fn slices_with_little_cpu_time_share_a_rate() {
        let slice = |calls, cpu_ns| CountingSlice {
            calls,
            cpu_ns,
            ..CountingSlice::default()
        };
        let mut estimate = FunctionEstimate::new(0, at(0, 0));
        estimate.change(Level::LookedAt, Ticks(0), at(0, 0));
        estimate.set_rate(0.5);
        estimate.turn_on(at(1_000_000, 0));
        // The program hardly ran, and ended one call.
        estimate.note_calls(slice(1, 1.0));
        estimate.turn_off(at(1_000_001, 0));
        assert_eq!(estimate.stored(at(1_000_001, 0)).missed, 500_000);
        estimate.turn_on(at(2_000_001, 0));
        estimate.note_calls(slice(99_999, 999_999.0));
        estimate.turn_off(at(3_000_000, 0));
        assert_eq!(estimate.stored(at(3_000_000, 0)).missed, 200_000);
    }

    #[test]
    fn calls_of_threads_between_slices_are_estimated() {
        let mut estimate = FunctionEstimate::new(0, at(0, 0));
        estimate.change(Level::LookedAt, Ticks(0), at(5, 5));
        assert_eq!(estimate.stored(at(5, 5)).missed_error, 1, "no exact number");
        estimate.set_rate(0.1);
        // No thread with a slot ran, and no slice showed whether the others make calls.
        let stored = estimate.stored(at(5, 1_000_005));
        assert_eq!(stored.missed, 50_000);
        assert!(stored.missed_error > 25_000, "{}", stored.missed_error);
        // The function is counted again, and so is each call from then on.
        estimate.change(Level::Counted, Ticks(1), at(5, 1_000_005));
        assert_eq!(
            estimate.stored(at(9_000, 9_000_000)),
            Estimate {
                level: Level::Counted,
                since: Ticks(1),
                ..stored
            }
        );
    }

    #[test]
    fn newcomers_stand_for_threads_between_slices() {
        // Of the time without a slot, this part is of threads that call the function in each tenth ns.
        for calling in [0.0, 0.3, 1.0] {
            let mut estimate = FunctionEstimate::new(0, at(0, 0));
            estimate.change(Level::LookedAt, Ticks(0), at(0, 0));
            estimate.set_rate(0.1);
            let (mut with_slot, mut without_slot) = (0, 0);
            for _ in 0..100 {
                without_slot += 9_000_000;
                estimate.turn_on(at(with_slot, without_slot));
                let newcomers_ns = calling * 1e6;
                let calls = (newcomers_ns / 10.0) as u64;
                estimate.note_calls(CountingSlice {
                    calls,
                    cpu_ns: newcomers_ns,
                    unsure_ns: 0.0,
                    by_newcomers: calls,
                    without_slot_ns: 1e6 - newcomers_ns,
                });
                with_slot += newcomers_ns as u64;
                without_slot += 1_000_000 - newcomers_ns as u64;
                estimate.turn_off(at(with_slot, without_slot));
            }
            let stored = estimate.stored(at(with_slot, without_slot));
            let truth = calling * 90_000_000.0;
            let (missed, error) = (stored.missed as f64, stored.missed_error as f64);
            assert!(
                (missed - truth).abs() < 2.0 * error,
                "{missed} ± {error} of {truth}"
            );
            assert!(error < 20_000_000.0, "{error} of {truth}");
        }
    }

    #[test]
    fn times_stand_for_calls_without_one() {
        let mut estimate = FunctionEstimate::new(100, at(0, 0));
        let slice = |calls, ticks| Sums {
            calls,
            total: 2 * ticks,
            own: ticks,
            ..Sums::default()
        };
        // 1,000 further calls, and ten that show 30 ticks each, of which 20 are subtracted.
        let cost = CallCost::new(40.0 / 0.7);
        estimate.note_times(slice(10, 300), 1_100, &cost);
        let stored = estimate.stored(at(0, 0));
        assert_eq!((stored.own, stored.total), (Ticks(10_000), Ticks(40_000)));
        assert_eq!(stored.sampled, 1_100);
        assert!(stored.own_error >= Ticks(5_000), "{:?}", stored.own_error);
        // Times below those of the recorder are none.
        estimate.note_times(slice(10, 100), 2_100, &cost);
        assert_eq!(estimate.stored(at(0, 0)).own, Ticks(10_000));
        // A long call stands for no others.
        let preempted = Sums {
            calls: 11,
            total: 1_000_600,
            own: 1_000_300,
            long_calls: 1,
            long_total: 1_000_000,
            ..Sums::default()
        };
        let mut other = FunctionEstimate::new(0, at(0, 0));
        other.note_times(preempted, 1_000, &cost);
        assert_eq!(other.stored(at(0, 0)).total, Ticks(40_000));
        // A slice without calls tells nothing.
        estimate.note_times(slice(0, 0), 5_000, &cost);
        assert_eq!(estimate.stored(at(0, 0)).sampled, 2_100);
    }
}
