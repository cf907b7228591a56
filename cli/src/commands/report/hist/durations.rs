//! The durations of the calls of one function: cells of the report's histogram, or classes of the recorder's totals, in
//! ns.

use fdr_formats::lengths;
use fdr_formats::model::FunctionTotals;
use fdr_formats::{Clock, Ticks};

use crate::report::histogram::Histogram;

/// The edges of buckets in a factor of ten, in hundredths: from the coarsest division to the finest. They are preferred
/// numbers, so the ratio of two neighbouring widths is about constant. Other widths would show steps that are not in
/// the data.
const DIVISIONS: [&[u64]; 5] = [
    &[100],
    &[100, 200, 500],
    &[100, 160, 250, 400, 630],
    &[100, 125, 160, 200, 250, 315, 400, 500, 630, 800],
    &[
        100, 112, 125, 140, 160, 180, 200, 224, 250, 280, 315, 355, 400, 450, 500, 560, 630, 710,
        800, 900,
    ],
];
/// For scripts: log-linear, ninety to a factor of ten.
const FINEST: [u64; 90] = {
    let mut all = [0; 90];
    let mut nth = 0;
    while nth < 90 {
        all[nth] = 100 + 10 * nth as u64;
        nth += 1;
    }
    all
};

/// Calls of about the same duration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// From how many ns, and up to how many.
    pub(super) from: f64,
    pub(super) until: f64,
    pub(super) calls: u64,
}

/// All calls with a duration.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Durations {
    /// In order; they do not overlap.
    pub(super) cells: Vec<Cell>,
    pub(super) calls: u64,
    /// The longest, ns; of figures that are of the records, exactly.
    max: u64,
}

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// From this many ns up to, and without, that many.
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) calls: u64,
}

impl Durations {
    /// The durations of the calls that have records.
    pub(super) fn of_records(histogram: &Histogram, clock: &Clock) -> Durations {
        let max = clock.nanos(Ticks(histogram.max().unwrap_or(0))).0;
        Durations::new(histogram.cells(), max, clock)
    }

    /// The durations of all calls of the run.
    pub(super) fn of_run(totals: &FunctionTotals, clock: &Clock) -> Durations {
        let cell = |&(class, calls): &(u8, u64)| {
            let class = usize::from(class);
            // The last class has all longer calls, too.
            let until = lengths::shortest(class + 1).min(totals.longest.0.saturating_add(1));
            let from = lengths::shortest(class);
            (from, until.max(from + 1), calls)
        };
        let max = clock.nanos(totals.longest).0;
        let cells = totals.lengths.iter().filter(|(_, calls)| *calls > 0);
        Durations::new(cells.map(cell).collect(), max, clock)
    }

    fn new(cells: Vec<(u64, u64, u64)>, max: u64, clock: &Clock) -> Durations {
        // Of whole ns, short cells would overlap.
        let scale = clock.nanos(Ticks(1 << 40)).0 as f64 / (1_u64 << 40) as f64;
        let cell = |(from, until, calls)| Cell {
            from: from as f64 * scale,
            until: until as f64 * scale,
            calls,
        };
        let cells: Vec<Cell> = cells.into_iter().map(cell).collect();
        Durations {
            calls: cells
                .iter()
                .fold(0, |sum, cell| cell.calls.saturating_add(sum)),
            cells,
            max,
        }
    }

    /// How many calls took less than that. Inside of a cell they are taken as spread evenly.
    pub(super) fn below(&self, ns: f64) -> f64 {
        let part = |cell: &Cell| {
            let part = (ns - cell.from) / (cell.until - cell.from);
            cell.calls as f64 * part.clamp(0.0, 1.0)
        };
        let before = self.cells.partition_point(|cell| cell.from < ns);
        self.cells
            .get(..before)
            .unwrap_or(&[])
            .iter()
            .map(part)
            .sum()
    }

    /// The duration that `calls` of the calls do not exceed.
    pub(super) fn nth(&self, calls: f64) -> f64 {
        let mut before = 0.0;
        for cell in &self.cells {
            let next = before + cell.calls as f64;
            if next >= calls {
                let part = ((calls - before) / cell.calls as f64).clamp(0.0, 1.0);
                return (cell.from + part * (cell.until - cell.from)).min(self.max as f64);
            }
            before = next;
        }
        self.max as f64
    }

    /// Buckets of a division, from the first with calls to the last.
    fn divided(&self, division: &[u64]) -> Vec<Bucket> {
        let (Some(first), Some(last)) = (self.cells.first(), self.cells.last()) else {
            return Vec::new();
        };
        let mut buckets: Vec<Bucket> = Vec::new();
        let (mut from, mut before, mut counted) = (0, 0, 0_u64);
        for until in edges(division) {
            let below = self.below(until as f64).round() as u64;
            let calls = below.saturating_sub(before);
            (before, counted) = (below, counted + calls);
            if until as f64 > first.from {
                buckets.push(Bucket { from, until, calls });
            }
            from = until;
            if until as f64 >= last.until {
                break;
            }
        }
        // Sums of parts may be off by less than one call.
        if let Some(last) = buckets.last_mut() {
            last.calls += self.calls.saturating_sub(counted);
        }
        let with_calls = |bucket: &Bucket| bucket.calls > 0;
        let begin = buckets.iter().position(with_calls).unwrap_or(0);
        let end = buckets.iter().rposition(with_calls).map_or(0, |at| at + 1);
        buckets.get(begin..end).unwrap_or(&[]).to_vec()
    }

    /// The finest buckets that take at most `most` lines. A row of empty buckets takes one line.
    pub(super) fn buckets(&self, most: usize) -> Vec<Bucket> {
        let mut best = self.divided(DIVISIONS[0]);
        for division in DIVISIONS.iter().skip(1) {
            let finer = self.divided(division);
            // Several empty ones in a row are one line.
            if lines(&finer) > most {
                break;
            }
            best = finer;
        }
        best
    }

    /// The finest buckets, those with calls.
    pub(super) fn finest(&self) -> Vec<Bucket> {
        let mut all = self.divided(&FINEST);
        all.retain(|bucket| bucket.calls > 0);
        all
    }
}

/// How many lines buckets take: a run of empty ones takes one.
fn lines(buckets: &[Bucket]) -> usize {
    let starts = |nth: usize| buckets[nth].calls > 0 || (nth > 0 && buckets[nth - 1].calls > 0);
    (0..buckets.len()).filter(|&nth| starts(nth)).count()
}

/// The edges of all buckets but the first's begin, which is 0. Whole ns.
fn edges(division: &[u64]) -> impl Iterator<Item = u64> + '_ {
    let decades = (0..20).filter_map(|power| 10_u64.checked_pow(power));
    let all = decades.flat_map(move |decade| {
        let edge = move |hundredths: &u64| {
            let edge = u128::from(*hundredths) * u128::from(decade);
            (edge % 100 == 0).then(|| u64::try_from(edge / 100).unwrap_or(u64::MAX))
        };
        division.iter().filter_map(edge)
    });
    all.chain([u64::MAX])
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// 1 tick = 1 ns.
    pub(in super::super) fn durations(of: impl IntoIterator<Item = u64>) -> Durations {
        let mut histogram = Histogram::default();
        of.into_iter().for_each(|ns| histogram.record(ns));
        Durations::of_records(&histogram, &Clock::default())
    }

    fn counts(buckets: &[Bucket]) -> Vec<(u64, u64, u64)> {
        let triple = |bucket: &Bucket| (bucket.from, bucket.until, bucket.calls);
        buckets.iter().map(triple).collect()
    }

    #[test]
    fn buckets_count_each_call_once() {
        let durations = durations([5, 15, 15, 150, 1_000_000]);
        assert_eq!(
            counts(&durations.divided(DIVISIONS[0])),
            [
                (1, 10, 1),
                (10, 100, 2),
                (100, 1000, 1),
                (1000, 10_000, 0),
                (10_000, 100_000, 0),
                // The cell of the longest is wider than the edge is away.
                (100_000, 1_000_000, 0),
                (1_000_000, 10_000_000, 1),
            ]
        );
        let finest = counts(&durations.finest());
        assert_eq!(finest[..2], [(5, 6, 1), (15, 16, 2)]);
        assert_eq!(finest.iter().map(|bucket| bucket.2).sum::<u64>(), 5);
    }

    #[test]
    fn as_fine_as_there_is_room() {
        let spread = durations((0..10_000).map(|nth| 1000 + nth));
        for most in [3, 12, 30, 200] {
            let buckets = spread.buckets(most);
            assert!(lines(&buckets) <= most, "{most}: {buckets:?}");
            assert_eq!(
                buckets.iter().map(|bucket| bucket.calls).sum::<u64>(),
                10_000
            );
        }
        assert_eq!(spread.buckets(12).len(), 11);
        // One far call does not make the others coarse: the empty buckets between are one line.
        let far = durations((0..1000).map(|nth| 1000 + nth % 50).chain([80_000_000]));
        let buckets = far.buckets(20);
        assert_eq!((buckets[0].from, buckets[0].until), (1000, 1120));
        assert!(buckets.len() > 90 && lines(&buckets) == 3, "{buckets:?}");
    }

    #[test]
    fn classes_of_the_recorder_are_cells_too() {
        let totals = FunctionTotals {
            calls: 7,
            longest: Ticks(40),
            lengths: vec![(0, 4), (2, 3)],
            ..FunctionTotals::default()
        };
        let run = Durations::of_run(&totals, &Clock::default());
        let cell = |from, until, calls| Cell { from, until, calls };
        assert_eq!(run.cells, [cell(0.0, 16.0, 4), cell(32.0, 41.0, 3)]);
        assert_eq!((run.calls, run.below(8.0)), (7, 2.0));
        assert_eq!((run.nth(2.0), run.nth(7.0)), (8.0, 40.0));
    }
}
