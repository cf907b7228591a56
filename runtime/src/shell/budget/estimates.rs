//! From slices to the calls and the times of the whole run. Slices are drawn by lot, so their rates hold for the time
//! between them, too, up to a standard error. The error comes from the differences between successive slices, so it
//! needs no assumption of how calls are spread. Pure.
//!
//! All times here are CPU times of the program. A slice begins and ends when the dumper gets a CPU, which it often takes
//! from a thread of the program. So in a slice the program may have less of the CPUs than between slices.

use fdr_formats::Ticks;
use fdr_formats::model::{Estimate, Level};

use super::rows::Sums;

/// The estimate of one function.
#[derive(Clone, Debug, Default)]
pub(super) struct FunctionEstimate {
    level: Level,
    since: Ticks,
    /// Estimated calls that were neither timed nor counted, and the variance of this number.
    missed: f64,
    missed_variance: f64,
    /// How far `missed` may be off because the slowdown by counting is not known exactly. This error has the same sign
    /// in each slice.
    missed_unsure: f64,
    /// `missed` at the last check.
    missed_before: f64,
    /// Calls in each ns, of the last slices.
    rate: f64,
    /// The slices since then, in which the program ran for too short a time to give a rate.
    pending: CountingSlice,
    /// The time that no rate covers yet, up to `off_from_ns`, when the function was turned off.
    off_ns: u64,
    off_from_ns: u64,
    /// Calls without a time for which the times stand.
    sampled: f64,
    total: f64,
    own: f64,
    own_variance: f64,
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
}

/// How long the program must have run in slices before they give a rate, ns.
const MIN_SLICES_NS: f64 = 500_000.0;

impl FunctionEstimate {
    /// `counted`: the counted calls without a time so far, for which nothing is estimated.
    pub(super) fn new(counted: u64, cpu_ns: u64) -> FunctionEstimate {
        FunctionEstimate {
            counted,
            sampled: counted as f64,
            off_from_ns: cpu_ns,
            ..FunctionEstimate::default()
        }
    }

    pub(super) fn level(&self) -> Level {
        self.level
    }

    /// The function is on that level from now on.
    pub(super) fn change(&mut self, level: Level, tick: Ticks, cpu_ns: u64) {
        if self.level == Level::LookedAt {
            // No later slice covers the remaining time, or confirms its calls.
            let unsampled = self.unsampled_calls(cpu_ns);
            self.missed += unsampled;
            self.missed_variance += unsampled * unsampled / 4.0;
        }
        (self.level, self.since) = (level, tick);
        (self.off_ns, self.off_from_ns) = (0, cpu_ns);
        self.pending = CountingSlice::default();
    }

    /// The calls in each ns, as they were counted before the function was turned off.
    pub(super) fn set_rate(&mut self, rate: f64) {
        self.rate = rate;
    }

    /// The calls in each ns, of the last slices.
    pub(super) fn rate(&self) -> f64 {
        self.rate
    }

    /// A slice begins, in which the function is on.
    pub(super) fn turn_on(&mut self, cpu_ns: u64) {
        self.off_ns += cpu_ns.saturating_sub(self.off_from_ns);
    }

    /// A slice has ended.
    pub(super) fn turn_off(&mut self, cpu_ns: u64) {
        self.off_from_ns = cpu_ns;
    }

    pub(super) fn note_calls(&mut self, slice: CountingSlice) {
        let slices = CountingSlice {
            calls: self.pending.calls + slice.calls,
            cpu_ns: self.pending.cpu_ns + slice.cpu_ns,
            unsure_ns: self.pending.unsure_ns + slice.unsure_ns,
        };
        if slices.cpu_ns < MIN_SLICES_NS {
            self.pending = slices;
            return;
        }
        let rate = slices.calls as f64 / slices.cpu_ns;
        let off_ns = self.off_ns as f64;
        let differs = rate - self.rate;
        self.missed += rate * off_ns;
        self.missed_unsure += rate * off_ns * slices.unsure_ns / slices.cpu_ns;
        self.missed_variance += off_ns * off_ns * differs * differs / 2.0;
        (self.rate, self.off_ns) = (rate, 0);
        self.pending = CountingSlice::default();
    }

    /// A slice timed calls. `beside`: the ticks that the recorder adds to each.
    pub(super) fn note_times(&mut self, timed: Sums, counted: u64, beside: u64) {
        self.counted = self.counted.max(counted);
        let Some((total, own)) = timed.means_of_short() else {
            return;
        };
        let beside = beside as f64;
        let (total, own) = ((total - beside).max(0.0), (own - beside).max(0.0));
        let stands_for = (self.counted as f64 + self.missed - self.sampled).max(0.0);
        // The first slice has no earlier slice to differ from. Its variance is that of an exponential distribution.
        let variance = match self.mean {
            Some(before) => (own - before) * (own - before) / 2.0,
            None => own * own / timed.calls as f64,
        };
        self.own_variance += stands_for * stands_for * variance;
        self.total += stands_for * total;
        self.own += stands_for * own;
        self.sampled += stands_for;
        self.mean = Some(own);
    }

    /// The calls that no rate covers yet, by the last rate.
    fn unsampled_calls(&self, cpu_ns: u64) -> f64 {
        let off_ns = self.off_ns + cpu_ns.saturating_sub(self.off_from_ns);
        self.rate * off_ns as f64
    }

    /// The estimated calls since the last check that were neither timed nor counted.
    pub(super) fn missed_since_check(&mut self, cpu_ns: u64) -> f64 {
        let missed = self.stored(cpu_ns).missed as f64;
        let more = missed - self.missed_before;
        self.missed_before = missed;
        more.max(0.0)
    }

    /// The estimate in the form in which the ring stores it.
    pub(super) fn stored(&self, cpu_ns: u64) -> Estimate {
        let unsampled = match self.level {
            Level::LookedAt => self.unsampled_calls(cpu_ns),
            Level::Timed | Level::Counted => 0.0,
        };
        Estimate {
            level: self.level,
            since: self.since,
            missed: (self.missed + unsampled) as u64,
            // No slice has confirmed the newest calls.
            missed_error: root_of_squares([
                self.missed_variance.sqrt(),
                self.missed_unsure,
                unsampled / 2.0,
            ]),
            total: Ticks(self.total as u64),
            own: Ticks(self.own as u64),
            own_error: Ticks(self.own_variance.sqrt() as u64),
            sampled: self.sampled as u64,
            around: 0,
        }
    }
}

/// The root of the sum of the squares: the error of a sum whose parts have these errors.
fn root_of_squares(errors: [f64; 3]) -> u64 {
    errors.map(|error| error * error).iter().sum::<f64>().sqrt() as u64
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

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
            let mut estimate = FunctionEstimate::new(0, 0);
            estimate.change(Level::LookedAt, Ticks(0), 0);
            estimate.set_rate(0.1);
            let (mut now, mut truth) = (0, 0.0);
            while now < 2_000_000_000 {
                let begin = now + random.pause(9_000_000);
                truth += calls(now, begin);
                estimate.turn_on(begin);
                let end = begin + 1_000_000;
                estimate.note_calls(CountingSlice {
                    calls: calls(begin, end) as u64,
                    cpu_ns: 1e6,
                    unsure_ns: 0.0,
                });
                estimate.turn_off(end);
                now = end;
            }
            let stored = estimate.stored(now);
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
            unsure_ns: 0.0,
        };
        let mut estimate = FunctionEstimate::new(0, 0);
        estimate.change(Level::LookedAt, Ticks(0), 0);
        estimate.set_rate(0.5);
        estimate.turn_on(1_000_000);
        // The program hardly ran, and ended one call.
        estimate.note_calls(slice(1, 1.0));
        estimate.turn_off(1_000_001);
        assert_eq!(estimate.stored(1_000_001).missed, 500_000);
        estimate.turn_on(2_000_001);
        estimate.note_calls(slice(99_999, 999_999.0));
        estimate.turn_off(3_000_000);
        assert_eq!(estimate.stored(3_000_000).missed, 200_000);
    }

    #[test]
    fn times_stand_for_calls_without_one() {
        let mut estimate = FunctionEstimate::new(100, 0);
        let slice = |calls, ticks| Sums {
            calls,
            total: 2 * ticks,
            own: ticks,
            ..Sums::default()
        };
        // 1,000 further calls, and ten that show 30 ticks each, of which the recorder adds 20.
        estimate.note_times(slice(10, 300), 1_100, 20);
        let stored = estimate.stored(0);
        assert_eq!((stored.own, stored.total), (Ticks(10_000), Ticks(40_000)));
        assert_eq!(stored.sampled, 1_100);
        // Times below those of the recorder are none.
        estimate.note_times(slice(10, 100), 2_100, 20);
        assert_eq!(estimate.stored(0).own, Ticks(10_000));
        // A long call stands for no others.
        let preempted = Sums {
            calls: 11,
            total: 1_000_600,
            own: 1_000_300,
            long_calls: 1,
            long_total: 1_000_000,
            counted: 0,
        };
        let mut other = FunctionEstimate::new(0, 0);
        other.note_times(preempted, 1_000, 20);
        assert_eq!(other.stored(0).total, Ticks(40_000));
        // A slice without calls tells nothing.
        estimate.note_times(slice(0, 0), 5_000, 20);
        assert_eq!(estimate.stored(0).sampled, 2_100);
    }
}
