//! Samples and what is made of them: medians, spreads, ratios. Pure: it starts nothing and prints
//! nothing. Times are ns of the calling thread's CPU per call.

use crate::Result;

/// The `key=value` words of a line.
pub(crate) fn words(text: &str) -> Vec<(String, f64)> {
    let word = |word: &str| {
        let (key, value) = word.split_once('=')?;
        Some((key.to_owned(), value.parse().ok()?))
    };
    text.split_whitespace().filter_map(word).collect()
}

/// The value of a key.
pub(crate) fn get(words: &[(String, f64)], key: &str) -> Result<f64> {
    let word = words.iter().find(|(name, _)| name == key);
    word.map(|&(_, value)| value)
        .ok_or_else(|| format!("the bench program did not say {key}"))
}

/// Speed of two threads together over twice that of one, in CPU time and in wall time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scaling {
    pub(crate) cpu: f64,
    pub(crate) wall: f64,
}

impl Scaling {
    fn from_words(words: &[(String, f64)], suffix: &str) -> Option<Scaling> {
        let value = |clock: &str| get(words, &format!("{clock}_scaling{suffix}")).ok();
        Some(Scaling {
            cpu: value("cpu")?,
            wall: value("wall")?,
        })
    }
}

/// The spreads of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scalings {
    pub(crate) cpu: Spread,
    pub(crate) wall: Spread,
}

impl Scalings {
    fn of(all: impl Iterator<Item = Scaling> + Clone) -> Option<Scalings> {
        let cpu = Spread::of(all.clone().map(|scaling| scaling.cpu))?;
        Some(Scalings {
            cpu,
            wall: Spread::of(all.map(|scaling| scaling.wall))?,
        })
    }
}

/// What one process measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    /// ns per call of the untraced twin.
    pub(crate) untraced: f64,
    /// ns per call of the variant, less the untraced twin's.
    pub(crate) over: f64,
    /// With two threads: of the untraced twin, and of the variant.
    pub(crate) scaling: Option<[Scaling; 2]>,
}

impl Sample {
    pub(crate) fn from_words(words: &[(String, f64)]) -> Result<Sample> {
        let untraced = get(words, "untraced")?;
        let over = get(words, "measured")? - untraced;
        let twin = Scaling::from_words(words, "_untraced");
        let scaling = twin
            .zip(Scaling::from_words(words, ""))
            .map(|(twin, variant)| [twin, variant]);
        Ok(Sample {
            untraced,
            over,
            scaling,
        })
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
    /// In another unit.
    pub(crate) fn times(self, factor: f64) -> Spread {
        let Spread { median, min, max } = self;
        Spread {
            median: median * factor,
            min: min * factor,
            max: max * factor,
        }
    }

    /// `None` without values.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let half = values.len() / 2;
        let even = values.len().is_multiple_of(2);
        let median = if even {
            (values[half - 1] + values[half]) / 2.0
        } else {
            values[half]
        };
        Some(Spread { median, min, max })
    }
}

/// All rounds of one body in one variant.
#[derive(Debug, Default)]
pub(crate) struct Cell {
    pub(crate) samples: Vec<Sample>,
    /// Why it was not measured (any further).
    pub(crate) failure: Option<String>,
}

impl Cell {
    /// The samples, if all rounds were measured: half of them have no median worth telling.
    fn complete(&self) -> &[Sample] {
        if self.failure.is_some() {
            &[]
        } else {
            &self.samples
        }
    }

    /// ns per call over the untraced twin.
    pub(crate) fn over(&self) -> Option<Spread> {
        Spread::of(self.complete().iter().map(|sample| sample.over))
    }

    /// Scaling of the variant.
    pub(crate) fn scaling(&self) -> Option<Scalings> {
        Scalings::of(
            self.complete()
                .iter()
                .filter_map(|sample| sample.scaling.map(|[_, own]| own)),
        )
    }
}

/// The cells of every body and variant.
pub(crate) struct Table {
    variants: usize,
    cells: Vec<Cell>,
}

impl Table {
    pub(crate) fn new(bodies: usize, variants: usize) -> Table {
        Table {
            variants,
            cells: (0..bodies * variants).map(|_| Cell::default()).collect(),
        }
    }

    pub(crate) fn cell(&mut self, body: usize, variant: usize) -> &mut Cell {
        &mut self.cells[body * self.variants + variant]
    }

    /// The cells of a body, in the order of the variants.
    pub(crate) fn row(&self, body: usize) -> &[Cell] {
        &self.cells[body * self.variants..][..self.variants]
    }

    /// The untraced twin of a body, over all variants' processes: ns per call, and its scaling.
    pub(crate) fn untraced(&self, body: usize) -> (Option<Spread>, Option<Scalings>) {
        let samples = || self.row(body).iter().flat_map(|cell| &cell.samples);
        let scaling = samples().filter_map(|sample| sample.scaling.map(|[twin, _]| twin));
        (
            Spread::of(samples().map(|sample| sample.untraced)),
            Scalings::of(scaling),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(
            Spread::of([3.0, 1.0, 9.0]),
            Some(Spread {
                median: 3.0,
                min: 1.0,
                max: 9.0
            })
        );
        assert_eq!(
            Spread::of([3.0, 1.0, 9.0, 4.0]).map(|spread| spread.median),
            Some(3.5)
        );
    }

    #[test]
    fn a_sample_is_the_difference_to_the_twin() {
        let sample = Sample::from_words(&words("untraced=1.5 measured=38.0\n")).expect("a sample");
        assert_eq!(
            (sample.untraced, sample.over, sample.scaling),
            (1.5, 36.5, None)
        );
        let line = "untraced=1 measured=3 cpu_scaling_untraced=0.99 cpu_scaling=0.97 \
                    wall_scaling_untraced=0.8 wall_scaling=0.7";
        let sample = Sample::from_words(&words(line)).expect("a sample");
        let scaling = |cpu, wall| Scaling { cpu, wall };
        assert_eq!(
            sample.scaling,
            Some([scaling(0.99, 0.8), scaling(0.97, 0.7)])
        );
        assert!(Sample::from_words(&words("untraced=1.5 measured=none")).is_err());
    }

    #[test]
    fn a_cell_that_failed_has_no_figure() {
        let sample = Sample {
            untraced: 1.0,
            over: 2.0,
            scaling: None,
        };
        let mut table = Table::new(1, 2);
        table.cell(0, 1).samples.push(sample);
        assert_eq!(
            table.row(0)[1].over().map(|spread| spread.median),
            Some(2.0)
        );
        table.cell(0, 1).failure = Some("no trace".to_owned());
        assert_eq!(table.row(0)[1].over(), None);
        assert_eq!(table.untraced(0).0.map(|spread| spread.median), Some(1.0));
    }
}
