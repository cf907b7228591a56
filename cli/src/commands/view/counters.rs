//! The values of counters over time. A series is one counter on one thread; its memory is bounded, because values that are
//! near to each other are joined when there are too many. Joined values keep the least, the greatest and the last of
//! them, so no spike is ever lost.

use std::collections::BTreeMap;

/// Values that a page keeps of all series together.
const MAX_VALUES: usize = 1_000_000;
/// Values of a series that are kept in any case.
const MIN_VALUES: usize = 1000;
/// Counters of a thread. More are not drawn.
const MAX_SERIES: usize = 1000;

/// Values of a counter that are drawn as one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Values {
    /// When the first of them was set, and the last.
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) least: f64,
    pub(super) greatest: f64,
    pub(super) last: f64,
    /// How many they are.
    pub(super) count: u32,
}

impl Values {
    fn one(time: u64, value: f64) -> Values {
        Values {
            from: time,
            until: time,
            least: value,
            greatest: value,
            last: value,
            count: 1,
        }
    }

    /// Takes the values that follow.
    fn join(&mut self, next: &Values) {
        self.until = self.until.max(next.until);
        self.least = self.least.min(next.least);
        self.greatest = self.greatest.max(next.greatest);
        self.last = next.last;
        self.count = self.count.saturating_add(next.count);
    }
}

/// Joins the values within each stretch of `ticks` ticks.
pub(super) fn thin(values: impl Iterator<Item = Values>, ticks: u64) -> Vec<Values> {
    let mut kept: Vec<Values> = Vec::new();
    for values in values {
        match kept.last_mut() {
            Some(last) if values.until.saturating_sub(last.from) < ticks => last.join(&values),
            _ => kept.push(values),
        }
    }
    kept
}

/// One counter on one thread, in order of time.
#[derive(Debug, Default)]
pub(super) struct Series {
    pub(super) values: Vec<Values>,
    /// Ticks within which values are joined, for want of memory.
    pub(super) coarse: u64,
    /// All of them, joined: pages ask for it often while the trace is read.
    pub(super) whole: Option<Values>,
    pub(super) count: u64,
}

impl Series {
    fn add(&mut self, time: u64, value: f64, most: usize) {
        // The clock may have gone back.
        let time = self.values.last().map_or(time, |last| time.max(last.until));
        let value = Values::one(time, value);
        self.whole.get_or_insert(value).join(&value);
        self.count += 1;
        match self.values.last_mut() {
            Some(last) if time.saturating_sub(last.from) < self.coarse => last.join(&value),
            _ => self.values.push(value),
        }
        while self.values.len() > most {
            let first = self.values.first().map_or(0, |first| first.from);
            let share = time.saturating_sub(first) / most as u64;
            self.coarse = self.coarse.saturating_mul(2).max(share).max(1);
            self.values = thin(self.values.iter().copied(), self.coarse);
        }
    }

    /// The values in a stretch of time, and the value before it.
    pub(super) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Values> + '_ {
        let first = self.values.partition_point(|values| values.until < from);
        let values = self.values.get(first.saturating_sub(1)..).unwrap_or(&[]);
        let values = values.iter().copied();
        values.take_while(move |values| values.from <= to)
    }
}

/// The counters of a thread, by their names.
#[derive(Debug)]
pub(super) struct Counters {
    pub(super) series: BTreeMap<u32, Series>,
    /// Values of all series.
    most: usize,
    /// Values of counters that were too many.
    pub(super) more: u64,
}

impl Counters {
    /// The counters of one thread, in a trace of `threads` threads, which share the memory.
    pub(super) fn new(threads: usize) -> Counters {
        Counters {
            series: BTreeMap::new(),
            most: MAX_VALUES / threads.max(1),
            more: 0,
        }
    }

    /// How many values are kept.
    pub(super) fn len(&self) -> usize {
        self.series.values().map(|series| series.values.len()).sum()
    }

    /// The counter has that value from then on.
    pub(super) fn add(&mut self, name: u32, time: u64, value: f64) {
        if self.series.len() >= MAX_SERIES && !self.series.contains_key(&name) {
            self.more += 1;
            return;
        }
        let series = self.series.len().max(1);
        let most = (self.most / series).max(MIN_VALUES);
        self.series.entry(name).or_default().add(time, value, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_within_a_pixel_is_kept() {
        let each = (0..100).map(|nth| Values::one(nth, if nth == 41 { 90.0 } else { 3.0 }));
        let thinned = thin(each, 10);
        assert_eq!(thinned.len(), 10);
        assert_eq!(thinned[4].greatest, 90.0);
        assert_eq!((thinned[4].least, thinned[4].last), (3.0, 3.0));
        assert_eq!((thinned[4].from, thinned[4].until), (40, 49));
        assert_eq!(thinned.iter().map(|values| values.count).sum::<u32>(), 100);
    }

    #[test]
    fn the_value_before_a_stretch_is_given() {
        let mut series = Series::default();
        for (time, value) in [(10, 1.0), (20, 2.0), (30, 3.0)] {
            series.add(time, value, 100);
        }
        let times = |from, to| {
            let values = series.between(from, to);
            values.map(|values| values.from).collect::<Vec<_>>()
        };
        assert_eq!(times(25, 28), [20]);
        assert_eq!(times(20, 30), [10, 20, 30]);
        assert!(times(5, 9).is_empty());
        assert_eq!(times(99, 100), [30]);
    }

    #[test]
    fn memory_is_bounded_and_no_value_is_lost() {
        let mut series = Series::default();
        for nth in 0..100_000_u64 {
            let value = if nth == 70_001 { -5.0 } else { nth as f64 };
            series.add(nth * 7, value, 1000);
            assert!(series.values.len() <= 1000);
        }
        assert!(series.coarse > 0 && series.values.len() > 100);
        let count = |values: &Values| u64::from(values.count);
        assert_eq!(series.values.iter().map(count).sum::<u64>(), 100_000);
        let least = series.values.iter().map(|values| values.least);
        assert_eq!(least.fold(0.0, f64::min), -5.0);
        assert_eq!(
            series.values.last().map(|values| values.last),
            Some(99_999.0)
        );
    }

    #[test]
    fn times_of_backward_clocks_stay_ordered() {
        let mut counters = Counters::new(1);
        counters.add(1, 50, 1.0);
        counters.add(1, 10, 2.0);
        let times: Vec<u64> = counters.series[&1]
            .values
            .iter()
            .map(|values| values.from)
            .collect();
        assert_eq!(times, [50, 50]);
    }
}
