//! Durations of one function, in ticks: a log-linear histogram with a bounded relative error.
//!
//! Every power of two is divided into 64 equal cells. Durations below 128 ticks are exact; above, a cell is at most
//! 1/64 of its lower edge wide. The middle of a cell stands for all durations in the cell, so a quantile is off by at
//! most 1/128 = 0.8 %. Minimum, maximum, count and sum are exact. The first durations of a function are only a list of
//! cells. This saves memory, because a program may have a hundred thousand functions with few calls each.

const CELL_BITS: u32 = 6;
const CELLS: usize = 1 << CELL_BITS;
/// Cells of the two octaves that begin them: each is one tick wide.
const EXACT: usize = 2 * CELLS;
/// By how many bits a duration may be shifted to have its cell. A power of two.
const SHIFTS: usize = 64;
const UNUSED: u16 = u16::MAX;
/// The length of this list: 2 KiB, which is less than the octaves of most functions take.
const FEW: usize = 1024;

// The cells of an octave that is not in the list have indexes beyond all cells of the list.
const _: () = assert!((SHIFTS + 1) * CELLS <= UNUSED as usize);

/// Counts durations in ticks.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    sum: u64,
    min: u64,
    max: u64,
    /// By the shift of a duration: the offset in `cells` that is added to the shifted duration.
    starts: [u16; SHIFTS],
    /// Octaves, of [`CELLS`] each: the first two, and others as they were met.
    cells: Vec<u32>,
    /// Cells of the first durations, octave times [`CELLS`] plus cell; empty once there are octaves.
    few: Vec<u16>,
    /// Cells that passed 2^32, once for every time: (octave, cell).
    carries: Vec<(u8, u8)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram {
            sum: 0,
            min: u64::MAX,
            max: 0,
            starts: [UNUSED; SHIFTS],
            cells: Vec::new(),
            few: Vec::new(),
            carries: Vec::new(),
        }
    }
}

/// By how many bits a duration is shifted to get its cell, and what remains of it. The remainder is less than
/// [`EXACT`]. Of a shifted duration, the remainder is at least [`CELLS`].
#[inline(always)]
fn split(value: u64) -> (usize, usize) {
    // The first two octaves have cells of one tick.
    let shift = (value | (EXACT as u64 - 1)).ilog2() as usize - CELL_BITS as usize;
    (shift, (value >> shift) as usize)
}

/// The number of a duration's cell among all: octave times [`CELLS`] plus cell.
/// As `saturating_add`, in fewer instructions: no sum of times overflows but in a hostile trace.
#[inline(always)]
pub(super) fn add(sum: &mut u64, ticks: u64) {
    let (more, overflow) = sum.overflowing_add(ticks);
    *sum = more;
    if overflow {
        saturate(sum);
    }
}

#[cold]
#[inline(never)]
fn saturate(sum: &mut u64) {
    *sum = u64::MAX;
}

#[cfg(test)]
fn place(value: u64) -> usize {
    let (shift, rest) = split(value);
    shift * CELLS + rest
}

/// The middle of a cell: the inverse of [`place`].
fn middle(octave: usize, cell: usize) -> u64 {
    if octave == 0 {
        return cell as u64;
    }
    let shift = octave - 1;
    (((CELLS + cell) as u64) << shift) + ((1_u64 << shift) - 1) / 2
}

impl Histogram {
    /// Counts one duration.
    #[inline(always)]
    pub(crate) fn record(&mut self, ticks: u64) {
        add(&mut self.sum, ticks);
        if ticks < self.min {
            self.widen(ticks);
        }
        if ticks > self.max {
            self.widen(ticks);
        }
        let (shift, rest) = split(ticks);
        // A shift is below that; so no test is made.
        let at = usize::from(self.starts[shift % SHIFTS]) + rest;
        let Some(cell) = self.cells.get_mut(at) else {
            return self.record_new(shift * CELLS + rest);
        };
        *cell = cell.wrapping_add(1);
        if *cell == 0 {
            self.carry(at);
        }
    }

    #[cold]
    #[inline(never)]
    fn widen(&mut self, ticks: u64) {
        self.min = self.min.min(ticks);
        self.max = self.max.max(ticks);
    }

    /// Counts a duration whose octave was not there.
    #[cold]
    #[inline(never)]
    fn record_new(&mut self, place: usize) {
        if self.cells.is_empty() && self.few.len() < FEW {
            self.few.push(place as u16);
        } else {
            self.spread();
            self.add(place, 1);
        }
    }

    /// From a list to octaves.
    fn spread(&mut self) {
        for place in std::mem::take(&mut self.few) {
            self.add(place.into(), 1);
        }
    }

    /// Adds to a cell of an octave, which is made if need be.
    fn add(&mut self, place: usize, count: u32) {
        let shift = (place / CELLS).saturating_sub(1);
        if self.cells.is_empty() {
            self.cells.resize(EXACT, 0);
            self.starts[0] = 0;
        }
        if self.starts[shift] == UNUSED {
            self.starts[shift] = (self.cells.len() - CELLS) as u16;
            self.cells.resize(self.cells.len() + CELLS, 0);
        }
        let at = usize::from(self.starts[shift]) + place - shift * CELLS;
        let (sum, carried) = self.cells[at].overflowing_add(count);
        self.cells[at] = sum;
        if carried {
            self.carry(at);
        }
    }

    #[cold]
    #[inline(never)]
    fn carry(&mut self, at: usize) {
        let of = |octave: &usize| self.start(*octave) == Some(at / CELLS * CELLS);
        let octave = (0..=SHIFTS).find(of);
        let cell = at % CELLS;
        self.carries.push((octave.unwrap_or(0) as u8, cell as u8));
    }

    /// Where an octave begins that is there.
    fn start(&self, octave: usize) -> Option<usize> {
        let start = *self.starts.get(octave.saturating_sub(1))?;
        let first = if octave == 0 { 0 } else { CELLS };
        (start != UNUSED).then_some(usize::from(start) + first)
    }

    /// Every octave that is there, with its cells.
    fn octaves(&self) -> impl Iterator<Item = (usize, &[u32])> {
        (0..=SHIFTS).filter_map(|octave| {
            let cells = self.cells.get(self.start(octave)?..)?.get(..CELLS)?;
            Some((octave, cells))
        })
    }

    /// Adds what another histogram has counted.
    pub(crate) fn merge(&mut self, other: &Histogram) {
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for &place in &other.few {
            match self.cells.is_empty() {
                true => self.record_new(place.into()),
                false => self.add(place.into(), 1),
            }
        }
        if !other.cells.is_empty() {
            self.spread();
        }
        for (octave, cells) in other.octaves() {
            for (cell, &count) in cells.iter().enumerate() {
                self.add(octave * CELLS + cell, count);
            }
        }
        self.carries.extend_from_slice(&other.carries);
    }

    /// Durations that were counted, in their order, by cells: the shortest of a cell, the shortest behind it, and how many.
    pub(crate) fn cells(&self) -> Vec<(u64, u64, u64)> {
        let mut whole = self.clone();
        whole.spread();
        let mut cells = Vec::new();
        for (octave, counts) in whole.octaves() {
            for (cell, &count) in counts.iter().enumerate() {
                let count = u128::from(count) + (whole.carried(octave, cell) << 32);
                if count == 0 {
                    continue;
                }
                let (shift, first) = match octave {
                    0 => (0, cell as u64),
                    octave => (octave - 1, (CELLS + cell) as u64),
                };
                let begin = first << shift;
                cells.push((begin, begin.saturating_add(1 << shift), count as u64));
            }
        }
        cells
    }

    /// How many durations were counted.
    pub(crate) fn count(&self) -> u64 {
        let cells: u64 = self.cells.iter().map(|&count| u64::from(count)).sum();
        let carried = (self.carries.len() as u64) << 32;
        cells + carried + self.few.len() as u64
    }

    /// The sum, in ticks.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The shortest, in ticks, exactly. `None`: nothing was counted.
    pub(crate) fn min(&self) -> Option<u64> {
        (self.min <= self.max).then_some(self.min)
    }

    /// The longest, in ticks, exactly. `None`: nothing was counted.
    pub(crate) fn max(&self) -> Option<u64> {
        (self.min <= self.max).then_some(self.max)
    }

    /// The arithmetic mean in ticks, rounded to the nearest. `None`: nothing was counted.
    pub(crate) fn mean(&self) -> Option<u64> {
        let count = self.count();
        self.sum.saturating_add(count / 2).checked_div(count)
    }

    /// The lengths that were counted and how often each was, in order: the middle of each cell, within the ends.
    pub(crate) fn lengths(&self) -> Vec<(u64, u64)> {
        let inside = |place: usize| middle(place / CELLS, place % CELLS).clamp(self.min, self.max);
        if self.cells.is_empty() {
            let mut few = self.few.clone();
            few.sort_unstable();
            let runs = few.chunk_by(|one, other| one == other);
            let length = |run: &[u16]| Some((inside((*run.first()?).into()), run.len() as u64));
            return runs.filter_map(length).collect();
        }
        let mut lengths = Vec::new();
        for (octave, cells) in self.octaves() {
            for (cell, &count) in cells.iter().enumerate() {
                let count = u128::from(count) + (self.carried(octave, cell) << 32);
                if count > 0 {
                    lengths.push((inside(octave * CELLS + cell), count as u64));
                }
            }
        }
        lengths
    }

    /// The nearest-rank quantile in ticks: the smallest duration that at least `percent` of all
    /// are not above, to 0.8 %. `None`: nothing was counted.
    pub(crate) fn percentile(&self, percent: u64) -> Option<u64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (u128::from(count) * u128::from(percent))
            .div_ceil(100)
            .max(1);
        if self.cells.is_empty() {
            let mut few = self.few.clone();
            few.sort_unstable();
            let cell = usize::from(*few.get(rank as usize - 1)?);
            return Some(middle(cell / CELLS, cell % CELLS).clamp(self.min, self.max));
        }
        let mut seen = 0_u128;
        for (octave, cells) in self.octaves() {
            for (cell, &count) in cells.iter().enumerate() {
                seen += u128::from(count) + (self.carried(octave, cell) << 32);
                if seen >= rank {
                    return Some(middle(octave, cell).clamp(self.min, self.max));
                }
            }
        }
        Some(self.max)
    }

    fn carried(&self, octave: usize, cell: usize) -> u128 {
        let this = (octave as u8, cell as u8);
        self.carries.iter().filter(|&&carry| carry == this).count() as u128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram_of(durations: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::default();
        durations
            .into_iter()
            .for_each(|ticks| histogram.record(ticks));
        histogram
    }

    #[test]
    fn cells_lie_where_they_should() {
        assert_eq!(place(0), 0);
        assert_eq!(place(127), 127);
        assert_eq!(place(128), 128);
        assert_eq!(place(129), 128);
        assert_eq!(place(130), 129);
        assert_eq!(place(u64::MAX), 59 * CELLS - 1);
    }

    #[test]
    fn short_durations_are_exact() {
        for value in 0..128 {
            let place = place(value);
            assert_eq!(middle(place / CELLS, place % CELLS), value);
        }
    }

    #[test]
    fn cells_are_exact_to_one_in_128() {
        for shift in 0..64 {
            for offset in [0, 1, 2, 3, 7, 8, 12_345, 999_999_937] {
                let value = (1_u64 << shift).saturating_add(offset);
                let place = place(value);
                let error = middle(place / CELLS, place % CELLS).abs_diff(value);
                assert!(error <= value / 128, "{value} is off by {error}");
            }
        }
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let histogram = histogram_of(1..=100);
        assert_eq!(histogram.percentile(50), Some(50));
        assert_eq!(histogram.percentile(90), Some(90));
        assert_eq!(histogram.percentile(99), Some(99));
        assert_eq!(histogram.percentile(100), Some(100));
        assert_eq!(histogram_of([7, 9]).percentile(50), Some(7));
        assert_eq!(histogram_of([7, 9]).percentile(51), Some(9));
        assert_eq!(histogram_of([5]).percentile(1), Some(5));
    }

    #[test]
    fn percentiles_stay_within_what_was_seen() {
        // 1,000,001 lies in a cell of 8,192 ticks whose middle is another number.
        let histogram = histogram_of([1_000_001; 3]);
        assert_eq!(histogram.percentile(50), Some(1_000_001));
    }

    #[test]
    fn the_ends_are_exact() {
        let histogram = histogram_of([1_000_001, 3, 77_777_777]);
        assert_eq!(histogram.min(), Some(3));
        assert_eq!(histogram.max(), Some(77_777_777));
        assert_eq!(histogram.mean(), Some(26_259_260));
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn lengths_are_ordered_and_complete() {
        assert_eq!(
            histogram_of([7, 3, 7, 1_000_001]).lengths(),
            [(3, 1), (7, 2), (1_000_001, 1)]
        );
        let many = histogram_of((0..5000).map(|at| at * at));
        let lengths = many.lengths();
        assert!(lengths.is_sorted_by_key(|(length, _)| *length));
        assert_eq!(lengths.iter().map(|(_, count)| count).sum::<u64>(), 5000);
        assert_eq!(lengths.first(), Some(&(0, 1)));
        assert_eq!(
            lengths.last().map(|(length, _)| *length <= 4999 * 4999),
            Some(true)
        );
    }

    #[test]
    fn nothing_counted_gives_nothing() {
        let histogram = Histogram::default();
        assert_eq!(histogram.min(), None);
        assert_eq!(histogram.max(), None);
        assert_eq!(histogram.mean(), None);
        assert_eq!(histogram.percentile(50), None);
    }

    #[test]
    fn merging_is_as_counting_all_at_once() {
        let (left, right) = ([1, 500, 70_000, u64::MAX], [2, 501, 9_000_000_000, 0]);
        let mut merged = histogram_of(left);
        merged.merge(&histogram_of(right));
        let whole = histogram_of(left.into_iter().chain(right));
        for percent in 0..=100 {
            assert_eq!(merged.percentile(percent), whole.percentile(percent));
        }
        assert_eq!((merged.count(), merged.sum), (8, whole.sum));
        assert_eq!((merged.min(), merged.max()), (whole.min(), whole.max()));
    }

    #[test]
    fn a_list_and_octaves_give_the_same() {
        let durations = |count: usize| (0..count as u64).map(|nth| nth * nth * 7919 % 1_000_003);
        let list = histogram_of(durations(FEW));
        assert!(list.cells.is_empty());
        let mut octaves = list.clone();
        octaves.spread();
        assert!(octaves.few.is_empty() && !octaves.cells.is_empty());
        for percent in 0..=100 {
            assert_eq!(list.percentile(percent), octaves.percentile(percent));
        }
        let whole = histogram_of(durations(FEW + 300));
        assert!(whole.few.is_empty() && !whole.cells.is_empty());
        let rest = histogram_of(durations(FEW + 300).skip(FEW));
        for (left, right) in [
            (&list, &rest),
            (&rest, &list),
            (&octaves, &rest),
            (&rest, &octaves),
        ] {
            let mut merged = left.clone();
            merged.merge(right);
            for percent in 0..=100 {
                assert_eq!(merged.percentile(percent), whole.percentile(percent));
            }
        }
    }

    #[test]
    fn cells_are_ordered_and_hold_the_counts() {
        for few in [true, false] {
            let mut histogram = histogram_of([3, 1_000_001, 130, 131, u64::MAX]);
            if !few {
                histogram.spread();
            }
            let cells = histogram.cells();
            let counts: Vec<u64> = cells.iter().map(|cell| cell.2).collect();
            assert_eq!(counts, [1, 2, 1, 1]);
            assert_eq!((cells[0], cells[1]), ((3, 4, 1), (130, 132, 2)));
            assert!(
                cells[2].0 <= 1_000_001 && 1_000_001 < cells[2].1,
                "{cells:?}"
            );
            assert!(cells.is_sorted());
        }
    }

    #[test]
    fn a_full_cell_carries() {
        let mut histogram = histogram_of([10, 20]);
        histogram.spread();
        let at = 10;
        histogram.cells[at] = u32::MAX;
        histogram.record(10);
        assert_eq!(histogram.cells[at], 0);
        assert_eq!(histogram.count(), (1 << 32) + 1);
        // 2^32 times 10 and once 20: only the very last is 20.
        assert_eq!(histogram.percentile(99), Some(10));
        assert_eq!(histogram.percentile(100), Some(20));
        let twice = histogram.clone();
        histogram.merge(&twice);
        assert_eq!(histogram.percentile(99), Some(10));
        assert_eq!(histogram.percentile(100), Some(20));
    }
}
