//! What timing a call costs in slices of timing. Pure.
//!
//! A slice is short, so the code and the data of the recorder are often not in the caches, and a call costs more than in
//! a program whose calls are all timed. Each program has its own number. It follows from how much CPU time the program
//! needs for a call in slices of timing, and how much without them.

/// What timing a call takes, in ticks. One half is in the call's own time, and the other half in its caller's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallCost {
    ticks: f64,
    /// The cost where all calls are timed.
    usual: f64,
    /// The part of the last slice that the program needed for its own work.
    pub(super) own_part: f64,
}

/// What a slice of timing showed. Times are in ticks.
pub(super) struct TimingSlice {
    /// The calls that were timed because of the slice.
    pub(super) calls: u64,
    /// The CPU time of the program.
    pub(super) ticks: f64,
    /// The CPU time that the program needs for a call while no slice is under way.
    pub(super) ticks_per_call: f64,
}

/// A slice with fewer calls tells little.
const MIN_CALLS: u64 = 200;
/// Each slice has this weight in the mean.
const WEIGHT: f64 = 0.25;
/// The cost is at most this many times the usual one.
const MAX_FACTOR: f64 = 8.0;
/// The program's own work is at least this part of a slice.
const MIN_OWN_PART: f64 = 0.05;
/// The part of the cost that is subtracted from times. The cost differs from function to function, and a call may be much
/// shorter than its cost. If all of the mean cost was subtracted, nothing would be left of some functions. Readers scale
/// the times down until their sum is what the callers measured.
const SUBTRACTED: f64 = 0.7;
/// How far the cost of a call may be off, as a part of it.
const UNSURE: f64 = 0.125;

// `f64::clamp` can panic with these numbers. The code that prints them would be 30 kB in each traced program.
impl CallCost {
    /// `usual`: the cost where all calls are timed.
    pub(super) fn new(usual: f64) -> CallCost {
        CallCost {
            ticks: usual,
            usual,
            own_part: 1.0,
        }
    }

    /// What is subtracted from a call's own time, and as much from its caller's, in ticks.
    pub(super) fn subtracted(&self) -> f64 {
        SUBTRACTED / 2.0 * self.ticks
    }

    /// The uncertainty of the cost of a call, in ticks.
    pub(super) fn unsure(&self) -> f64 {
        UNSURE * self.ticks
    }

    pub(super) fn learn(&mut self, slice: &TimingSlice) {
        if slice.calls < MIN_CALLS {
            return;
        }
        let calls = slice.calls as f64;
        let measured = slice.ticks / calls - slice.ticks_per_call;
        let least = self.usual / 2.0;
        let measured = measured.min(self.usual * MAX_FACTOR).max(least);
        self.ticks += (measured - self.ticks) * WEIGHT;
        let own = (slice.ticks - calls * self.ticks).max(slice.ticks * MIN_OWN_PART);
        self.own_part = own / slice.ticks.max(1.0);
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_cost_of_a_call_is_learned() {
        let mut cost = CallCost::new(130.0);
        // A call takes 20 ticks of its own. In slices it takes 220.
        let slice = TimingSlice {
            calls: 1_000,
            ticks: 220_000.0,
            ticks_per_call: 20.0,
        };
        for _ in 0..40 {
            cost.learn(&slice);
        }
        assert!((cost.subtracted() - 70.0).abs() < 0.1, "{cost:?}");
        assert!((cost.own_part - 20.0 / 220.0).abs() < 0.001, "{cost:?}");
        let known = cost;
        cost.learn(&TimingSlice {
            calls: MIN_CALLS - 1,
            ..slice
        });
        assert_eq!(cost, known, "too few calls");
    }

    #[test]
    fn odd_slices_keep_it_within_bounds() {
        for (ticks, ticks_per_call) in [(0.0, 1e9), (1e12, 0.0), (1e5, 0.0)] {
            let mut cost = CallCost::new(130.0);
            for _ in 0..40 {
                cost.learn(&TimingSlice {
                    calls: 1_000,
                    ticks,
                    ticks_per_call,
                });
            }
            assert!((64.9..1_040.1).contains(&cost.ticks), "{cost:?}");
            assert!((0.0..=1.0).contains(&cost.own_part), "{cost:?}");
        }
    }
}
