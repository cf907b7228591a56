//! The modes of a distribution: groups of calls with about the same duration, with few calls between the groups.
//!
//! This file looks at the logarithms of the durations, because a mode of longer durations is wider in proportion. It
//! smooths their density. Two peaks of the density are two modes under two conditions. The minimum between them is
//! lower than half of the lower peak. Chance does not explain the difference. That is, the calls near the lower peak
//! exceed those near the lowest place by four standard deviations. Otherwise the two peaks are one mode.

use super::durations::Durations;

/// Steps of the density in a factor of two.
const STEPS: f64 = 32.0;
/// The longest duration is below 2^64 ns.
const OCTAVES: usize = 64;
/// A distribution of fewer calls has no modes.
pub(super) const MIN_CALLS: u64 = 20;
/// The width of the smoothing in steps, at least and at most. An eighth of an octave is 9 % of a duration.
const NARROW: f64 = STEPS / 8.0;
const WIDE: f64 = STEPS;
/// The lowest place between two modes has less than this part of the lower top.
const DIP: f64 = 0.5;
/// Standard deviations by which the lower top must exceed the lowest place.
const DEVIATIONS: f64 = 4.0;

/// A group of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mode {
    /// From how many ns, and up to how many.
    pub(super) from: f64,
    pub(super) until: f64,
    pub(super) calls: f64,
    /// Its p50, ns.
    pub(super) middle: f64,
}

/// The modes, from the shortest calls on. Empty: too few calls.
pub(super) fn modes(durations: &Durations) -> Vec<Mode> {
    if durations.calls < MIN_CALLS {
        return Vec::new();
    }
    let counts = counts(durations);
    let width = smoothing(durations);
    let density = smooth(&counts, width);
    let near = |at: usize| {
        let reach = width.ceil() as usize;
        let begin = at.saturating_sub(reach);
        let end = (at + reach + 1).min(counts.len());
        counts[begin..end].iter().sum::<f64>()
    };
    let mut tops = tops(&density);
    // The least certain dip goes first. Its two tops become one: the higher.
    loop {
        let dips = tops.windows(2).enumerate().map(|(nth, pair)| {
            let low = lowest(&density, pair[0], pair[1]);
            let lower = match density[pair[0]] <= density[pair[1]] {
                true => pair[0],
                false => pair[1],
            };
            let (top, dip) = (near(lower), near(low));
            let deviations = (top - dip) / (top + dip).max(1.0).sqrt();
            let is_deep = density[low] < DIP * density[lower];
            (nth, lower, if is_deep { deviations } else { 0.0 })
        });
        let worst = dips.min_by(|left, right| left.2.total_cmp(&right.2));
        match worst {
            Some((_, lower, deviations)) if deviations < DEVIATIONS => {
                tops.retain(|top| *top != lower);
            }
            _ => break,
        }
    }
    parts(durations, &density, &tops)
}

/// The modes: the parts of the distribution between the minima.
fn parts(durations: &Durations, density: &[f64], tops: &[usize]) -> Vec<Mode> {
    let dips = tops
        .windows(2)
        .map(|pair| lowest(density, pair[0], pair[1]));
    let edges: Vec<f64> = dips
        .map(|step| ((step as f64 + 0.5) / STEPS).exp2())
        .collect();
    let (first, last) = match (durations.cells.first(), durations.cells.last()) {
        (Some(first), Some(last)) => (first.from, last.until),
        _ => return Vec::new(),
    };
    let begins = std::iter::once(first).chain(edges.iter().copied());
    let ends = edges.iter().copied().chain([last]);
    let mode = |(from, until): (f64, f64)| {
        let below = durations.below(from);
        let calls = durations.below(until) - below;
        Mode {
            from,
            until,
            calls,
            middle: durations.nth(below + calls / 2.0),
        }
    };
    begins.zip(ends).map(mode).collect()
}

/// The calls in each step of the logarithm of durations.
fn counts(durations: &Durations) -> Vec<f64> {
    let mut counts = vec![0.0; OCTAVES * STEPS as usize];
    let tick = tick(durations);
    for cell in &durations.cells {
        // Under 1 ns, all are one.
        let step = |ns: f64| (ns.max(1.0).log2() * STEPS).min(counts.len() as f64 - 1.0);
        let more = (tick - (cell.until - cell.from)).max(0.0) / 2.0;
        let (from, until) = (step(cell.from - more), step(cell.until + more));
        let calls = cell.calls as f64;
        let (first, last) = (from as usize, until as usize);
        if first == last {
            counts[first] += calls;
            continue;
        }
        for (nth, count) in counts.iter_mut().enumerate().take(last + 1).skip(first) {
            let part = until.min(nth as f64 + 1.0) - from.max(nth as f64);
            *count += calls * part.max(0.0) / (until - from);
        }
    }
    counts
}

/// The step of a coarse clock, in ns: the least difference of two durations, if it is at most the shortest duration. No
/// calls lie between the steps of such a clock, and these gaps must not separate modes. 0: the clock is fine, or there
/// are too few durations to know.
fn tick(durations: &Durations) -> f64 {
    let cells = &durations.cells;
    let steps = cells.windows(2).map(|pair| pair[1].from - pair[0].from);
    let least = steps.fold(f64::INFINITY, f64::min);
    let shortest = cells.first().map_or(0.0, |cell| cell.from);
    match cells.len() >= 8 && least <= shortest {
        true => least,
        false => 0.0,
    }
}

/// How wide to smooth, in steps: half of Silverman's rule, which is made for one group. More calls show finer things.
fn smoothing(durations: &Durations) -> f64 {
    let all = durations.calls as f64;
    let at = |part: f64| durations.nth(part * all).max(1.0).log2() * STEPS;
    let spread = (at(0.75) - at(0.25)) / 1.34;
    (0.45 * spread * all.powf(-0.2)).clamp(NARROW, WIDE)
}

/// The density: a bell of that width for each call.
fn smooth(counts: &[f64], width: f64) -> Vec<f64> {
    let reach = (3.5 * width) as usize;
    let bell: Vec<f64> = (0..=reach)
        .map(|away| (-0.5 * (away as f64 / width).powi(2)).exp())
        .collect();
    let mut density = vec![0.0; counts.len()];
    for (at, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        for (away, part) in bell.iter().enumerate() {
            if let Some(sum) = density.get_mut(at + away) {
                *sum += count * part;
            }
            if away > 0 && away <= at {
                density[at - away] += count * part;
            }
        }
    }
    density
}

/// The places where the density is higher than on both sides.
fn tops(density: &[f64]) -> Vec<usize> {
    let is_top = |&at: &usize| {
        let before = at.checked_sub(1).map_or(0.0, |before| density[before]);
        let after = density.get(at + 1).copied().unwrap_or(0.0);
        density[at] > before && density[at] >= after
    };
    (0..density.len()).filter(is_top).collect()
}

/// The lowest place between two; the middle one, if several are as low.
fn lowest(density: &[f64], from: usize, until: usize) -> usize {
    let least = density[from..=until]
        .iter()
        .copied()
        .fold(f64::INFINITY, f64::min);
    let mut lows = (from..=until).filter(|&at| density[at] <= least);
    let first = lows.next().unwrap_or(from);
    let last = lows.next_back().unwrap_or(first);
    first + (last - first) / 2
}

#[cfg(test)]
mod tests {
    use super::super::durations::tests::durations;
    use super::*;
    use crate::testing::random_xray::Random;

    /// About normal, from twelve even numbers.
    fn normal(random: &mut Random) -> f64 {
        let sum: f64 = (0..12).map(|_| random.below(1_000_001) as f64 / 1e6).sum();
        sum - 6.0
    }

    fn log_normal(random: &mut Random, middle: f64, spread: f64) -> u64 {
        (middle * (spread * normal(random)).exp()) as u64
    }

    #[test]
    fn two_groups_are_two_modes_with_their_shares() {
        let mut random = Random::new(7);
        let quick = (0..930).map(|_| log_normal(&mut random, 1.2e6, 0.1));
        let mut all: Vec<u64> = quick.collect();
        all.extend((0..70).map(|_| log_normal(&mut random, 40e6, 0.1)));
        let found = modes(&durations(all));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((found[0].calls - 930.0).abs() < 1.0, "{found:?}");
        assert!((found[0].middle / 1.2e6 - 1.0).abs() < 0.05, "{found:?}");
        assert!((found[1].middle / 40e6 - 1.0).abs() < 0.05, "{found:?}");
    }

    #[test]
    fn rare_groups_need_enough_calls() {
        let with = |rare: u64| {
            let mut random = Random::new(9);
            let usual = (0..100_000).map(|_| log_normal(&mut random, 1e3, 0.2));
            let mut all: Vec<u64> = usual.collect();
            all.extend((0..rare).map(|_| log_normal(&mut random, 4e8, 0.1)));
            modes(&durations(all)).len()
        };
        assert_eq!((with(0), with(3), with(60)), (1, 1, 2));
    }

    #[test]
    fn one_group_is_one_mode_whatever_its_tail() {
        let mut wrong = 0;
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let calls = [40, 300, 2000, 20_000][seed as usize % 4];
            let one = |random: &mut Random| match seed % 3 {
                0 => log_normal(random, 1e5, 0.6),
                // Heavy: one in a thousand is a thousand times as long.
                1 => (1000.0 / (random.below(1_000_000) as f64 + 1.0) * 1e6) as u64,
                // Short ones, of few ticks.
                _ => 20 + random.below(4) * random.below(4),
            };
            let all: Vec<u64> = (0..calls).map(|_| one(&mut random)).collect();
            wrong += u32::from(modes(&durations(all)).len() != 1);
        }
        assert!(wrong <= 6, "{wrong} of 300");
    }

    #[test]
    fn coarse_clock_steps_are_no_modes() {
        let mut random = Random::new(3);
        let all: Vec<u64> = (0..20_000)
            .map(|_| log_normal(&mut random, 45.0, 0.4) / 10 * 10)
            .filter(|ns| *ns > 0)
            .collect();
        assert_eq!(modes(&durations(all)).len(), 1);
    }

    #[test]
    fn few_calls_have_no_modes() {
        assert!(modes(&durations([])).is_empty());
        assert!(modes(&durations([5; 19])).is_empty());
        let all = modes(&durations([5; 20]));
        assert_eq!((all.len(), all[0].calls), (1, 20.0));
    }
}
