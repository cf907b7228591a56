//! Samples and what is made of them: medians, spreads, ratios. Pure: it starts nothing and prints nothing.

use std::collections::HashMap;

use crate::Result;

/// Fewer rounds would not bear the word median.
pub(crate) const MIN_ROUNDS: u64 = 7;

/// The `key=value` words that a measured program says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Words(HashMap<String, f64>);

impl Words {
    pub(crate) fn parse(text: &str) -> Words {
        let word = |word: &str| {
            let (key, value) = word.split_once('=')?;
            Some((key.to_owned(), value.parse().ok()?))
        };
        Words(text.split_whitespace().filter_map(word).collect())
    }

    /// The value of a key, if the program printed it.
    pub(crate) fn find(&self, key: &str) -> Option<f64> {
        self.0.get(key).copied()
    }

    /// The value of a key.
    ///
    /// # Errors
    /// If the program did not print it.
    pub(crate) fn get(&self, key: &str) -> Result<f64> {
        Ok(self
            .find(key)
            .ok_or_else(|| format!("the measured program did not say {key}"))?)
    }

    /// One key over another.
    pub(crate) fn ratio(&self, key: &str, to: &str) -> Option<f64> {
        Some(self.find(key)? / self.find(to)?)
    }
}

/// Median, least and greatest of the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// `None` without values.
    pub(crate) fn from_values(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let median = match values.len().is_multiple_of(2) {
            true => (values[half - 1] + values[half]) / 2.0,
            false => values[half],
        };
        Some(Spread { median, min, max })
    }
}

/// The middle of some values; not a number of none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    Spread::from_values(values).map_or(f64::NAN, |spread| spread.median)
}

/// All rounds of one configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell<T> {
    pub(crate) samples: Vec<T>,
    /// Why it was not measured (any further).
    pub(crate) failure: Option<String>,
}

impl<T> Cell<T> {
    /// Adds one sample. If the measurement fails, keeps its error. After the first error nothing is measured any more.
    pub(crate) fn add(&mut self, measure: impl FnOnce() -> Result<T>) {
        if self.failure.is_some() {
            return;
        }
        match measure() {
            Ok(sample) => self.samples.push(sample),
            Err(failure) => self.failure = Some(failure.to_string()),
        }
    }

    /// Of a value of each sample; `None` unless all rounds were measured.
    pub(crate) fn spread(&self, value: impl Fn(&T) -> f64) -> Option<Spread> {
        let spread = Spread::from_values(self.samples.iter().map(value));
        spread.filter(|_| self.failure.is_none())
    }
}

/// Measures every cell once in each round. Each round starts elsewhere, so that nothing is always measured after
/// the same thing.
pub(crate) fn in_rounds(rounds: u64, cells: usize, mut measure: impl FnMut(usize)) {
    let rounds = rounds as usize;
    for round in 0..rounds {
        eprint!("\rround {} of {rounds} ", round + 1);
        for at in 0..cells {
            measure((at + round * (cells / rounds + 1)) % cells);
        }
    }
    eprintln!();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert_eq!(Spread::from_values([]), None);
        let spread = Spread::from_values([3.0, 1.0, 9.0]).expect("values");
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 3.0, 9.0));
        assert_eq!(median([3.0, 1.0, 9.0, 4.0]), 3.5);
    }

    #[test]
    fn missing_figures_are_named() {
        let words = Words::parse("untraced=1.5 measured=38.0 why=none\n");
        assert_eq!(words.ratio("measured", "untraced"), Some(38.0 / 1.5));
        assert_eq!(words.ratio("measured", "why"), None);
        let error = words.get("why").expect_err("no number").to_string();
        assert_eq!(error, "the measured program did not say why");
    }

    #[test]
    fn a_cell_that_failed_has_no_figure() {
        let mut cell = Cell::default();
        cell.add(|| Ok(2.0));
        assert_eq!(cell.spread(|&value| value).map(|all| all.median), Some(2.0));
        cell.add(|| Err("no trace".into()));
        cell.add(|| Err("later".into()));
        assert_eq!(cell.spread(|&value| value), None);
        assert_eq!(cell.failure.as_deref(), Some("no trace"));
    }

    #[test]
    fn every_cell_is_measured_in_every_round() {
        let mut measured = Vec::new();
        in_rounds(3, 5, |cell| measured.push(cell));
        assert_ne!(measured[0], measured[5]);
        measured.sort_unstable();
        assert_eq!(measured, [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
    }
}
