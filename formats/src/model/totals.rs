//! Totals: the number and the times of a thread's calls of each function, since the thread began. The recorder counts
//! each call when it ends. So totals include calls without records and calls whose records are overwritten. Pure.

use super::{FunctionId, Ticks};
use crate::lengths;

/// The calls of one function that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionTotals {
    /// The function. `FunctionId(0)` stands for all functions for which there was no room.
    pub function: FunctionId,
    /// Calls whose time is known.
    pub calls: u64,
    /// Calls whose time is not known, because the function is untimed or the calls nested too deeply.
    pub untimed: u64,
    /// Sum of the times from entry to exit.
    pub total: Ticks,
    /// Sum of these times without those of the calls inside.
    pub own: Ticks,
    /// The longest call.
    pub longest: Ticks,
    /// How many calls are in which class of [`lengths`], in order and without classes that have none.
    pub lengths: Vec<(u8, u64)>,
    /// Some of the calls were inside of another call of the function, so `total` has times twice. `false`: the recorder
    /// met none where it looked, which is at the first calls, and from time to time afterwards.
    pub nests: bool,
    /// What is estimated of calls that have no time, or left nothing.
    pub estimate: Option<Box<Estimate>>,
}

/// How the calls of a function are recorded, because of `FDR_BUDGET`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Each call has a time.
    #[default]
    Timed,
    /// Calls are counted, and have a time only during slices.
    Counted,
    /// Calls are counted during slices, and leave nothing otherwise.
    LookedAt,
}

impl Level {
    /// From a number of a file. Unknown ones are of versions to come.
    #[must_use]
    pub fn from_number(number: u64) -> Level {
        match number {
            0 => Level::Timed,
            1 => Level::Counted,
            _ => Level::LookedAt,
        }
    }
}

/// What is estimated of the calls of a function, from slices of time that were drawn by lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// How its calls were recorded in the end.
    pub level: Level,
    /// Since when.
    pub since: Ticks,
    /// Calls that left nothing. All other calls are counted.
    pub missed: u64,
    /// The standard error of `missed`.
    pub missed_error: u64,
    /// What `sampled` calls without a time took, from entry to exit.
    pub total: Ticks,
    /// The same, without the calls inside.
    pub own: Ticks,
    /// The standard error of `own`.
    pub own_error: Ticks,
    /// How many calls without a time these stand for.
    pub sampled: u64,
    /// How often the function was found as the innermost caller whose calls are timed, around calls without a time. They
    /// are a part of its self time. Of `FunctionId(0)`: there was no caller.
    pub around: u64,
}

/// What recording took in the end, in millionths of the program's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCost {
    /// What it took.
    pub share: u64,
    /// What it may take (`FDR_BUDGET`).
    pub budget: u64,
}

/// A call that began before its thread's first record and was open when the trace was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlyCall {
    /// Of what.
    pub function: FunctionId,
    /// When it began.
    pub begin: Ticks,
}

impl FunctionTotals {
    /// Whether they say nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.untimed == 0 && self.estimate.is_none()
    }

    /// The length that so many percent of the calls do not exceed. `None`: no call has a time.
    #[must_use]
    pub fn quantile(&self, percent: u64) -> Option<Ticks> {
        let lengths = self.lengths.iter().copied();
        lengths::quantile(lengths, self.longest.0, percent).map(Ticks)
    }

    /// The time that all calls took: first from entry to exit, then without the calls inside. If some calls have no
    /// time, both are estimates from the calls that have one.
    #[must_use]
    pub fn estimates(&self) -> (Ticks, Ticks) {
        let of_all = |ticks: Ticks| {
            let all = u128::from(self.calls) + u128::from(self.untimed);
            let ticks = (u128::from(ticks.0) * all).checked_div(u128::from(self.calls));
            Ticks(ticks.map_or(0, |ticks| u64::try_from(ticks).unwrap_or(u64::MAX)))
        };
        (of_all(self.total), of_all(self.own))
    }

    /// The standard error of the first of [`estimates`](Self::estimates), if the calls with a time were drawn by lot.
    /// `None`: no call has a time.
    #[must_use]
    pub fn standard_error(&self) -> Option<Ticks> {
        if self.calls == 0 {
            return None;
        }
        let (timed, counted) = (self.calls as f64, self.untimed as f64);
        let mean = self.total.0 as f64 / timed;
        let squares = self.lengths.iter().map(|&(class, count)| {
            let differs = lengths::shortest(usize::from(class)) as f64 - mean;
            count as f64 * differs * differs
        });
        let deviation = (squares.sum::<f64>() / timed).sqrt();
        // The sum of `counted` further calls is estimated. Its mean has an error of the deviation by the root of
        // `timed`.
        Some(Ticks((deviation * counted / timed.sqrt()) as u64))
    }

    /// Adds the calls of the same function on another thread.
    pub fn add(&mut self, more: &FunctionTotals) {
        self.calls = self.calls.saturating_add(more.calls);
        self.untimed = self.untimed.saturating_add(more.untimed);
        self.total = Ticks(self.total.0.saturating_add(more.total.0));
        self.own = Ticks(self.own.0.saturating_add(more.own.0));
        self.longest = self.longest.max(more.longest);
        self.nests |= more.nests;
        // Only one of them has it, because it is of all threads.
        if self.estimate.is_none() {
            self.estimate.clone_from(&more.estimate);
        }
        for &(class, count) in &more.lengths {
            match self.lengths.binary_search_by_key(&class, |known| known.0) {
                Ok(at) => self.lengths[at].1 = self.lengths[at].1.saturating_add(count),
                Err(at) => self.lengths.insert(at, (class, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_all_threads() {
        let of = |calls, longest, lengths: &[(u8, u64)]| FunctionTotals {
            calls,
            longest: Ticks(longest),
            total: Ticks(10 * calls),
            lengths: lengths.to_vec(),
            ..FunctionTotals::default()
        };
        let mut sum = of(3, 500, &[(2, 2), (18, 1)]);
        sum.add(&of(4, 400, &[(0, 1), (2, 3)]));
        assert_eq!(sum, of(7, 500, &[(0, 1), (2, 5), (18, 1)]));
        assert_eq!(sum.quantile(100), Some(Ticks(500)));
        assert_eq!(FunctionTotals::default().quantile(50), None);
    }

    #[test]
    fn calls_with_a_time_stand_for_the_others() {
        let mut totals = FunctionTotals {
            calls: 100,
            total: Ticks(1_000),
            own: Ticks(400),
            lengths: vec![(0, 100)],
            ..FunctionTotals::default()
        };
        assert_eq!(totals.estimates(), (Ticks(1_000), Ticks(400)));
        assert_eq!(totals.standard_error(), Some(Ticks(0)));
        totals.untimed = 900;
        assert_eq!(totals.estimates(), (Ticks(10_000), Ticks(4_000)));
        // Each of them differs from the mean by its 10 ticks.
        assert_eq!(totals.standard_error(), Some(Ticks(900)));
        totals.calls = 0;
        assert_eq!(totals.estimates(), (Ticks(0), Ticks(0)));
        assert_eq!(totals.standard_error(), None);
    }
}
