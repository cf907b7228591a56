//! Whether the times of functions differ between two sides of a few runs each: the moderated t-test of Smyth (2004,
//! "Linear models and empirical Bayes methods"), of the logarithms of the times. With three runs on each side, the
//! spread of one function is hardly known. So the test also takes into account how much the other functions spread.
//! Several functions are tested at once: Holm's method (1979) keeps the chance of any false alarm at the level.

use statrs::distribution::{ContinuousCDF, StudentsT};
use statrs::function::gamma::digamma;

/// The nominal chance that a comparison of equal sides names any function. The true one is below 1 %, also where some
/// functions spread four times as much as others.
pub(super) const LEVEL: f64 = 0.005;
/// The most degrees of freedom that the common variance is estimated to have.
const MAX_FREEDOM: f64 = 60.0;
/// The part of the estimated degrees of freedom that is used, because the estimate comes from few functions.
const USED_PART: f64 = 0.5;
/// The least spread of a run, as a part of the time: clocks and percentiles are no better.
const MIN_SPREAD: f64 = 1e-3;

/// A function on both sides: the logarithm of its time in each run.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) before: Vec<f64>,
    pub(super) after: Vec<f64>,
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl Pair {
    fn freedom(&self) -> f64 {
        (self.before.len() + self.after.len()) as f64 - 2.0
    }

    /// The variance of a run.
    fn variance(&self) -> f64 {
        let squares = |values: &[f64]| {
            let mean = mean(values);
            values
                .iter()
                .map(|value| (value - mean).powi(2))
                .sum::<f64>()
        };
        let sum = squares(&self.before) + squares(&self.after);
        (sum / self.freedom()).max(MIN_SPREAD.powi(2))
    }

    fn difference(&self) -> f64 {
        mean(&self.after) - mean(&self.before)
    }
}

/// The derivative of [`digamma`].
fn trigamma(x: f64) -> f64 {
    let (mut x, mut sum) = (x, 0.0);
    while x < 8.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x + square / 2.0 + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

/// The common variance, and its degrees of freedom.
fn prior(pairs: &[Pair]) -> (f64, f64) {
    let corrected = |pair: &Pair| {
        let half = pair.freedom() / 2.0;
        pair.variance().ln() - digamma(half) + half.ln()
    };
    let logs: Vec<f64> = pairs.iter().map(corrected).collect();
    let middle = mean(&logs);
    let count = logs.len() as f64;
    if count < 3.0 {
        return (middle.exp(), 0.0);
    }
    let spread = logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / (count - 1.0);
    let expected = mean(
        &pairs
            .iter()
            .map(|pair| trigamma(pair.freedom() / 2.0))
            .collect::<Vec<_>>(),
    );
    // How much the variances of functions differ beyond chance. It falls as the degrees of freedom grow.
    let excess = spread - expected;
    let (mut low, mut high) = (1e-3, MAX_FREEDOM);
    if excess <= trigamma(MAX_FREEDOM / 2.0) {
        low = MAX_FREEDOM;
    }
    while high - low > 1e-3 {
        let between = (low + high) / 2.0;
        match trigamma(between / 2.0) > excess {
            true => low = between,
            false => high = between,
        }
    }
    let freedom = USED_PART * low;
    let variance = (middle + digamma(freedom / 2.0) - (freedom / 2.0).ln()).exp();
    (variance, freedom)
}

/// For each function, the chance that two equal sides differ at least as much as these two.
fn chances(pairs: &[Pair], common: &[Pair]) -> Vec<f64> {
    let (common, freedom) = prior(common);
    let chance = |pair: &Pair| {
        let own = pair.freedom();
        let variance = (freedom * common + own * pair.variance()) / (freedom + own);
        let (before, after) = (pair.before.len() as f64, pair.after.len() as f64);
        let error = (variance * (1.0 / before + 1.0 / after)).sqrt();
        let t = (pair.difference() / error).abs();
        match StudentsT::new(0.0, 1.0, freedom + own) {
            Ok(distribution) => 2.0 * distribution.sf(t),
            Err(_) => 1.0,
        }
    };
    pairs.iter().map(chance).collect()
}

/// For each function: if we name it and all functions that differ more clearly, the chance that any of these names is a
/// false alarm. If the chance is at most [`LEVEL`], the function differs. `common`: the pairs whose spread is taken into
/// account. They must not depend on each other.
pub(super) fn adjusted(pairs: &[Pair], common: &[Pair]) -> Vec<f64> {
    let chances = chances(pairs, common);
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut highest: f64 = 0.0;
    for (rank, &at) in order.iter().enumerate() {
        let left = (chances.len() - rank) as f64;
        highest = highest.max((chances[at] * left).min(1.0));
        adjusted[at] = highest;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normally distributed numbers, the same ones at each run of the test.
    struct Noise(u64);

    impl Noise {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        fn normal(&mut self) -> f64 {
            (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
        }

        /// Twenty functions, with `runs` runs on each side. A function's times spread by `spread` up to four times
        /// `spread`. After the change, the first function is slower by the part `slower`.
        fn pairs(&mut self, runs: usize, spread: f64, slower: f64) -> Vec<Pair> {
            (0..20)
                .map(|function| {
                    let spread = spread * (1.0 + 3.0 * self.uniform());
                    let level = 3.0 + self.uniform();
                    let mut side = |shift: f64| -> Vec<f64> {
                        (0..runs)
                            .map(|_| level + shift + spread * self.normal())
                            .collect()
                    };
                    let shift = if function == 0 { slower.ln_1p() } else { 0.0 };
                    Pair {
                        before: side(0.0),
                        after: side(shift),
                    }
                })
                .collect()
        }
    }

    fn named(pairs: &[Pair]) -> Vec<usize> {
        let adjusted = adjusted(pairs, pairs).into_iter().enumerate();
        adjusted
            .filter(|(_, chance)| *chance <= LEVEL)
            .map(|(at, _)| at)
            .collect()
    }

    #[test]
    fn equal_sides_rarely_raise_an_alarm() {
        for runs in [2, 3, 5] {
            let mut noise = Noise(runs as u64);
            let alarms = (0..1000).filter(|_| !named(&noise.pairs(runs, 0.005, 0.0)).is_empty());
            let alarms = alarms.count();
            assert!(alarms <= 10, "{alarms} of 1000 with {runs} runs");
        }
    }

    #[test]
    fn five_per_cent_are_found_with_three_runs() {
        let mut noise = Noise(7);
        let found = (0..200)
            .filter(|_| named(&noise.pairs(3, 0.002, 0.05)) == [0])
            .count();
        assert!(found >= 180, "{found} of 200");
    }

    #[test]
    fn runs_without_spread_prove_no_tiny_change() {
        let pair = |after: f64| Pair {
            before: vec![1.0; 3],
            after: vec![after; 3],
        };
        assert!(named(&[pair(1.0), pair(1.0005), pair(1.0)]).is_empty());
        assert_eq!(named(&[pair(1.0), pair(1.05), pair(1.0)]), [1]);
    }

    #[test]
    fn the_derivative_of_digamma() {
        for x in [0.5, 1.0, 2.5, 30.0] {
            let slope = (digamma(x + 1e-5) - digamma(x - 1e-5)) / 2e-5;
            assert!((trigamma(x) - slope).abs() < 1e-4, "{x}");
        }
    }
}
