//! Totals: the number and the times of a thread's calls of each function, since the thread began. The recorder counts
//! each call when it ends. So totals include calls without records and calls whose records are overwritten. Pure.

use std::collections::BTreeMap;

use super::{FunctionId, Ticks};
#[cfg(feature = "read")]
use crate::bytes::Fields;
use crate::lengths;

/// The calls of one function that have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionTotals {
    /// The function. `FunctionId(0)` stands for all functions without a row of their own.
    pub function: FunctionId,
    /// Calls whose time is known.
    pub calls: u64,
    /// Calls whose time is not known, because the function is untimed or the calls nested too deeply.
    pub untimed: u64,
    /// Sum of the times from entry to exit.
    pub total: Ticks,
    /// Sum of these times without the times of the calls inside.
    pub own: Ticks,
    /// The longest call.
    pub longest: Ticks,
    /// The number of calls in each class of [`lengths`], in order, without empty classes.
    pub lengths: Vec<(u8, u64)>,
    /// Whether some calls were inside another call of the function, so that `total` counts time twice. `false`: the
    /// recorder found no such call. It checks the first calls, and some of the later ones.
    pub nests: bool,
    /// The estimate for calls that have no time, or that were not recorded at all.
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
    /// Calls are counted during slices, and are not recorded at other times.
    LookedAt,
}

impl Level {
    /// The level with that number in a file. Unknown numbers come from later versions.
    #[must_use]
    pub fn from_number(number: u64) -> Level {
        match number {
            0 => Level::Timed,
            1 => Level::Counted,
            _ => Level::LookedAt,
        }
    }
}

/// The estimate for the calls of a function, from slices of time that were drawn by lot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// How its calls were recorded in the end.
    pub level: Level,
    /// Since when.
    pub since: Ticks,
    /// Calls that were not recorded at all. All other calls are counted.
    pub missed: u64,
    /// The standard error of `missed`.
    pub missed_error: u64,
    /// The time from entry to exit of `sampled` calls without a time.
    pub total: Ticks,
    /// The same, without the calls inside.
    pub own: Ticks,
    /// The standard error of `own`.
    pub own_error: Ticks,
    /// The number of calls without a time that `total` and `own` cover.
    pub sampled: u64,
    /// How often the function was found as the innermost timed caller of calls without a time. The time of such calls
    /// is a part of its self time. For `FunctionId(0)`: no timed caller was found.
    pub around: u64,
}

#[cfg(feature = "read")]
impl Estimate {
    /// Decodes the fields that rings and traces have in the same order, from `since` to `sampled`.
    pub(crate) fn decode(level: u64, fields: &mut Fields<'_>) -> Option<Estimate> {
        Some(Estimate {
            level: Level::from_number(level),
            since: Ticks(fields.u64()?),
            missed: fields.u64()?,
            missed_error: fields.u64()?,
            total: Ticks(fields.u64()?),
            own: Ticks(fields.u64()?),
            own_error: Ticks(fields.u64()?),
            sampled: fields.u64()?,
            around: 0,
        })
    }
}

/// All calls of a function, including those without a time and those that were not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// How many.
    pub calls: u64,
    /// The standard error of `calls`. 0: they were counted.
    pub calls_error: u64,
    /// From entry to exit.
    pub total: Ticks,
    /// The same, without the calls inside.
    pub own: Ticks,
    /// The standard error of `own`. 0: each call was timed.
    pub own_error: Ticks,
}

/// The figures of all calls, by function. The self times of callers include the calls without a time. So these times
/// are subtracted from the callers, in the proportion in which callers were found around such calls. The sum of all
/// self times stays as it was measured. `has_times`: whether the function is timed.
pub fn figures(
    functions: &BTreeMap<FunctionId, FunctionTotals>,
    has_times: &dyn Fn(FunctionId) -> bool,
) -> BTreeMap<FunctionId, Figures> {
    let around = |totals: &FunctionTotals| totals.estimate.as_deref().map_or(0, |all| all.around);
    let samples: u64 = functions.values().map(around).sum();
    let unknown = |totals: &FunctionTotals| match has_times(totals.function) {
        true => totals.of_unknown(),
        false => Figures::default(),
    };
    let of_unknown = || functions.values().map(unknown);
    let estimated: f64 = of_unknown().map(|figures| figures.own.0 as f64).sum();
    // The part that can be subtracted from each caller: its share of the samples, but at most its self time.
    let taken = |totals: &FunctionTotals| {
        let share = around(totals) as f64 / samples.max(1) as f64;
        match totals.function {
            FunctionId(0) => estimated * share,
            _ => (estimated * share).min(totals.own.0 as f64),
        }
    };
    let room: f64 = functions.values().map(taken).sum();
    let fits = match samples > 0 && room < estimated {
        true => room / estimated,
        false => 1.0,
    };
    let all = functions.iter().map(|(id, totals)| {
        let more = unknown(totals);
        let scale = |ticks: Ticks| ticks.0 as f64 * fits;
        let given = match *id {
            FunctionId(0) => 0.0,
            _ => taken(totals),
        };
        // A share that comes from few samples has a large error. So has a time that was scaled down, because the parts
        // that recording added to each function's time differ.
        let of_samples = given / (around(totals).max(1) as f64).sqrt();
        let unfit = scale(more.own) * (1.0 - fits);
        let error = root_of_squares(&[scale(more.own_error), of_samples, unfit]);
        let own = (totals.own.0 as f64 + scale(more.own) - given).max(0.0);
        let figures = Figures {
            calls: totals.calls.saturating_add(totals.untimed).saturating_add(
                totals
                    .estimate
                    .as_deref()
                    .map_or(0, |estimate| estimate.missed),
            ),
            calls_error: more.calls_error,
            total: Ticks(totals.total.0.saturating_add(scale(more.total) as u64)),
            own: Ticks(own as u64),
            own_error: Ticks(error as u64),
        };
        (*id, figures)
    });
    all.collect()
}

/// The error of a sum whose parts have these errors.
fn root_of_squares(errors: &[f64]) -> f64 {
    errors.iter().map(|error| error * error).sum::<f64>().sqrt()
}

/// The cost of recording at the end, in millionths of the program's CPU time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingCost {
    /// The actual cost.
    pub share: u64,
    /// The allowed cost (`FDR_BUDGET`).
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
    /// A sum of self times. The recorder subtracts what it takes itself, which it knows only on average, so the sum of a
    /// few calls may have fallen below 0.
    pub(crate) fn own_of(sum: u64) -> Ticks {
        Ticks(match (sum as i64) < 0 {
            true => 0,
            false => sum,
        })
    }

    /// Whether there is neither a call nor an estimate.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls == 0 && self.untimed == 0 && self.estimate.is_none()
    }

    /// The length in ticks that `percent` percent of the calls do not exceed. `None`: no call has a time.
    #[must_use]
    pub fn quantile(&self, percent: u64) -> Option<Ticks> {
        let lengths = self.lengths.iter().copied();
        lengths::quantile(lengths, self.longest.0, percent).map(Ticks)
    }

    /// The number of calls of a timed function that have no time, including those that were not recorded.
    fn unknown(&self) -> u64 {
        let missed = self
            .estimate
            .as_deref()
            .map_or(0, |estimate| estimate.missed);
        self.untimed.saturating_add(missed)
    }

    /// The figures of the calls without a time. If no slice timed any of them, they are taken from the timed calls.
    fn of_unknown(&self) -> Figures {
        let (calls, estimate) = (self.unknown(), self.estimate.as_deref().copied());
        let estimate = estimate.unwrap_or_default();
        let (stands_for, total, own, own_error) = match estimate.sampled > self.untimed / 16 {
            true => (
                estimate.sampled,
                estimate.total,
                estimate.own,
                estimate.own_error,
            ),
            false => (self.calls, self.total, self.own, self.error_of_own()),
        };
        let scale = |ticks: Ticks| ticks.0 as f64 * calls as f64 / stands_for.max(1) as f64;
        // The uncertainty of the number of calls is also one of their times.
        let of_calls = estimate.missed_error as f64 / calls.max(1) as f64;
        let own_error = root_of_squares(&[scale(own_error), scale(own) * of_calls]);
        Figures {
            calls,
            calls_error: estimate.missed_error,
            total: Ticks(scale(total) as u64),
            own: Ticks(scale(own) as u64),
            own_error: Ticks(own_error as u64),
        }
    }

    /// The standard error of `own` as an estimate for as many other calls.
    fn error_of_own(&self) -> Ticks {
        if self.calls == 0 {
            return Ticks(0);
        }
        let timed = self.calls as f64;
        let mean = self.total.0 as f64 / timed;
        let squares = self.lengths.iter().map(|&(class, count)| {
            let differs = lengths::shortest(usize::from(class)) as f64 - mean;
            count as f64 * differs * differs
        });
        Ticks(squares.sum::<f64>().sqrt() as u64)
    }

    /// Adds the calls of the same function on another thread.
    pub fn add(&mut self, more: &FunctionTotals) {
        self.calls = self.calls.saturating_add(more.calls);
        self.untimed = self.untimed.saturating_add(more.untimed);
        self.total = Ticks(self.total.0.saturating_add(more.total.0));
        self.own = Ticks(self.own.0.saturating_add(more.own.0));
        self.longest = self.longest.max(more.longest);
        self.nests |= more.nests;
        // An estimate is for all threads together, so only one of the totals has it.
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
    fn a_sum_of_self_times_is_never_below_zero() {
        assert_eq!(FunctionTotals::own_of(7), Ticks(7));
        assert_eq!(FunctionTotals::own_of(0_u64.wrapping_sub(7)), Ticks(0));
    }

    fn only(totals: FunctionTotals) -> Figures {
        let functions = BTreeMap::from([(FunctionId(1), totals)]);
        figures(&functions, &|_| true)[&FunctionId(1)]
    }

    #[test]
    fn calls_with_a_time_stand_for_the_others() {
        let mut totals = FunctionTotals {
            function: FunctionId(1),
            calls: 100,
            total: Ticks(1_000),
            own: Ticks(400),
            lengths: vec![(0, 100)],
            ..FunctionTotals::default()
        };
        assert_eq!(
            (only(totals.clone()).total, only(totals.clone()).own),
            (Ticks(1_000), Ticks(400))
        );
        totals.untimed = 900;
        let all = only(totals.clone());
        assert_eq!(
            (all.calls, all.total, all.own),
            (1_000, Ticks(10_000), Ticks(4_000))
        );
        // Each of them differs from the mean by its 10 ticks.
        assert_eq!(all.own_error, Ticks(900));
        totals.calls = 0;
        (totals.total, totals.own) = (Ticks(0), Ticks(0));
        assert_eq!(
            (only(totals.clone()).own, only(totals).own_error),
            (Ticks(0), Ticks(0))
        );
    }

    /// A caller of 1,000 ticks. Calls of another function, which were not measured, took a part of this time.
    fn with_caller(own_of_calls: u64, around: u64, outside: u64) -> [Figures; 2] {
        let totals = |id, own, estimate| FunctionTotals {
            function: FunctionId(id),
            own: Ticks(own),
            total: Ticks(own),
            calls: 1,
            estimate: Some(Box::new(estimate)),
            ..FunctionTotals::default()
        };
        let called = Estimate {
            missed: 99,
            sampled: 33,
            own: Ticks(own_of_calls / 3),
            ..Estimate::default()
        };
        let found = |around| Estimate {
            around,
            ..Estimate::default()
        };
        let functions = [
            (FunctionId(0), totals(0, 0, found(outside))),
            (FunctionId(1), totals(1, 1_000, found(around))),
            (FunctionId(2), totals(2, 10, called)),
        ];
        let all = figures(&BTreeMap::from(functions), &|_| true);
        [all[&FunctionId(1)], all[&FunctionId(2)]]
    }

    #[test]
    fn callers_give_up_what_is_estimated() {
        let [caller, called] = with_caller(600, 9, 0);
        assert_eq!((caller.own, called.own), (Ticks(400), Ticks(610)));
        assert_eq!((called.calls, caller.own_error), (100, Ticks(200)));
        // A third of it was outside of all calls.
        let [caller, called] = with_caller(600, 6, 3);
        assert_eq!((caller.own, called.own), (Ticks(600), Ticks(610)));
    }

    #[test]
    fn no_estimate_is_more_than_its_callers_have() {
        let [caller, called] = with_caller(6_000, 9, 0);
        assert_eq!((caller.own, called.own), (Ticks(0), Ticks(1_010)));
        assert_eq!(called.own_error, Ticks(833));
    }
}
