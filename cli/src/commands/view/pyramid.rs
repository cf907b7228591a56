//! The calls of one thread at several resolutions, so that a picture of any stretch of time is made of few of them. The
//! lowest level has every call. Each level above joins calls that are shorter than its bound into runs.

/// A call, or a run of short calls of one depth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// Ticks of its entry and of its exit.
    pub(super) start: u64,
    pub(super) end: u64,
    /// The function; of a run, that of its longest call.
    pub(super) function: u32,
    /// How many calls, and the flags.
    count: u32,
}

/// An edge of the call is not in the trace.
pub(super) const CLIPPED: u32 = 1 << 31;
/// The call had not returned when the trace was written.
pub(super) const OPEN: u32 = 1 << 30;
const FLAGS: u32 = CLIPPED | OPEN;
/// The function of calls that left no records.
pub(super) const SHORT: u32 = u32::MAX;

/// Deeper calls are not kept.
pub(super) const MAX_DEPTH: usize = 1000;
/// The bounds of the levels above the lowest: 64 ticks, and four times as many from one to the next.
const LEVELS: u32 = 26;

impl Item {
    /// One call.
    pub(super) fn call(start: u64, end: u64, function: u32, flags: u32) -> Item {
        Item {
            start,
            end: end.max(start),
            function,
            count: 1 | flags & FLAGS,
        }
    }

    /// Calls without records.
    pub(super) fn short(start: u64, end: u64, calls: u64) -> Item {
        let count = u32::try_from(calls).unwrap_or(u32::MAX).clamp(1, !FLAGS);
        let mut item = Item::call(start, end, SHORT, 0);
        item.count = count;
        item
    }

    pub(super) fn calls(&self) -> u32 {
        self.count & !FLAGS
    }

    pub(super) fn flags(&self) -> u32 {
        self.count & FLAGS
    }

    /// Calls and flags, as the page gets them.
    pub(super) fn count_and_flags(&self) -> u32 {
        self.count
    }

    pub(super) fn ticks(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Calls that are being joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) item: Item,
    /// Ticks of its longest call.
    longest: u64,
}

impl Run {
    pub(super) fn new(item: Item) -> Run {
        let longest = item.ticks();
        Run { item, longest }
    }

    /// Joins the next call, if the run is then no longer than that.
    pub(super) fn extend(&mut self, item: &Item, most: u64) -> bool {
        if item.end.saturating_sub(self.item.start) > most {
            return false;
        }
        if item.ticks() > self.longest {
            (self.longest, self.item.function) = (item.ticks(), item.function);
        }
        self.item.end = self.item.end.max(item.end);
        let calls = self.item.calls().saturating_add(item.calls()).min(!FLAGS);
        self.item.count = calls | self.item.flags() | item.flags();
        true
    }
}

/// The calls of one depth, in order.
#[derive(Debug, Default)]
pub(super) struct Row {
    items: Vec<Item>,
    pending: Option<Run>,
}

impl Row {
    fn push(&mut self, item: Item) {
        if self.items.len() == self.items.capacity() {
            // A quarter more, not twice as much: these lists are most of the memory.
            self.items.reserve_exact(self.items.len() / 4 + 16);
        }
        self.items.push(item);
    }

    /// The items that overlap a stretch of time.
    pub(super) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Item> + '_ {
        let first = self.items.partition_point(|item| item.end < from);
        let items = self.items.get(first..).unwrap_or(&[]);
        let pending = self.pending.map(|run| run.item);
        let pending = pending.filter(move |item| item.end >= from && item.start <= to);
        let items = items.iter().copied();
        items
            .take_while(move |item| item.start <= to)
            .chain(pending)
    }

    /// The one that begins then.
    pub(super) fn starting(&self, start: u64) -> Option<Item> {
        let first = self.items.partition_point(|item| item.start < start);
        let item = self.items.get(first).copied();
        item.filter(|item| item.start == start)
    }
}

/// One resolution.
#[derive(Debug)]
pub(super) struct Level {
    /// A call of at least this many ticks is an item of its own.
    pub(super) least: u64,
    /// By depth.
    pub(super) rows: Vec<Row>,
    is_kept: bool,
    items: usize,
}

impl Level {
    /// How many items it has.
    pub(super) fn items(&self) -> usize {
        self.items
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Pyramid {
    levels: Vec<Level>,
    items: usize,
    most: usize,
    /// By depth: where the last call ended.
    ends: Vec<u64>,
    /// Calls that were deeper than is kept.
    pub(super) too_deep: u64,
}

impl Pyramid {
    /// A pyramid of at most `most` items.
    pub(super) fn new(most: usize) -> Pyramid {
        let level = |least| Level {
            least,
            rows: Vec::new(),
            is_kept: true,
            items: 0,
        };
        let bounds = (0..LEVELS).map(|nth| 64 << (2 * nth));
        Pyramid {
            levels: std::iter::once(0).chain(bounds).map(level).collect(),
            items: 0,
            most,
            ends: Vec::new(),
            too_deep: 0,
        }
    }

    /// The next call of a depth that has ended.
    pub(super) fn add(&mut self, depth: usize, mut item: Item) {
        if depth >= MAX_DEPTH {
            self.too_deep += 1;
            return;
        }
        // The clock may have gone back.
        if self.ends.len() <= depth {
            self.ends.resize(depth + 1, 0);
        }
        item.start = item.start.max(self.ends[depth]);
        item.end = item.end.max(item.start);
        self.ends[depth] = item.end;
        self.feed(0, depth, item);
        if self.items > self.most {
            self.shrink();
        }
    }

    /// An item comes to a level from the one below.
    fn feed(&mut self, nth: usize, depth: usize, item: Item) {
        let Some(level) = self.levels.get_mut(nth) else {
            return;
        };
        while level.rows.len() <= depth {
            level.rows.push(Row::default());
        }
        let pending = &mut level.rows[depth].pending;
        if item.ticks() < level.least {
            if let Some(run) = pending
                && run.extend(&item, level.least)
            {
                return;
            }
            let earlier = pending.replace(Run::new(item));
            if let Some(run) = earlier {
                self.keep(nth, depth, run.item);
            }
            return;
        }
        let earlier = pending.take();
        if let Some(run) = earlier {
            self.keep(nth, depth, run.item);
        }
        self.keep(nth, depth, item);
    }

    fn keep(&mut self, nth: usize, depth: usize, item: Item) {
        let level = &mut self.levels[nth];
        if level.is_kept {
            level.rows[depth].push(item);
            level.items += 1;
            self.items += 1;
        }
        self.feed(nth + 1, depth, item);
    }

    /// Gives a level up: one that says little that the level below does not say, or else the lowest.
    fn shrink(&mut self) {
        let kept: Vec<usize> = (0..self.levels.len())
            .filter(|&nth| self.levels[nth].is_kept)
            .collect();
        let pairs = kept.windows(2);
        let similar = pairs
            .filter(|pair| self.levels[pair[1]].items * 2 > self.levels[pair[0]].items)
            .max_by_key(|pair| self.levels[pair[1]].items)
            .filter(|pair| self.levels[pair[1]].items > self.most / 32);
        let nth = match (similar, &kept[..]) {
            (Some(pair), _) => pair[1],
            (None, [lowest, _, ..]) => *lowest,
            _ => return,
        };
        let level = &mut self.levels[nth];
        level.is_kept = false;
        self.items -= std::mem::take(&mut level.items);
        for row in &mut level.rows {
            row.items = Vec::new();
        }
    }

    /// Nothing comes any more.
    pub(super) fn finish(&mut self) {
        for nth in 1..self.levels.len() {
            for depth in 0..self.levels[nth].rows.len() {
                let earlier = self.levels[nth].rows[depth].pending.take();
                if let Some(run) = earlier {
                    self.keep(nth, depth, run.item);
                }
            }
        }
        for level in &mut self.levels {
            for row in &mut level.rows {
                row.items.shrink_to_fit();
            }
        }
    }

    /// The lowest level that there is.
    pub(super) fn lowest(&self) -> &Level {
        let kept = self.levels.iter().find(|level| level.is_kept);
        kept.unwrap_or(&self.levels[0])
    }

    /// The highest level on which calls of `ticks` ticks are not joined. If there is none, the lowest level.
    pub(super) fn level(&self, ticks: u64) -> &Level {
        let mut fitting = self.levels.iter().rev();
        let found = fitting.find(|level| level.is_kept && level.least <= ticks);
        found.unwrap_or_else(|| self.lowest())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(pyramid: &Pyramid, ticks: u64) -> Vec<(u64, u64, u32)> {
        let level = pyramid.level(ticks);
        let row = level.rows.first();
        let items = row.map(|row| row.between(0, u64::MAX).collect::<Vec<_>>());
        let each = items.unwrap_or_default();
        each.iter()
            .map(|item| (item.start, item.end, item.calls()))
            .collect()
    }

    #[test]
    fn short_calls_are_joined_and_long_ones_stay() {
        let mut pyramid = Pyramid::new(1000);
        for nth in 0..10 {
            pyramid.add(0, Item::call(nth * 10, nth * 10 + 5, 1, 0));
        }
        pyramid.add(0, Item::call(100, 900, 2, CLIPPED));
        pyramid.add(0, Item::call(900, 910, 3, 0));
        pyramid.finish();
        assert_eq!(calls(&pyramid, 0).len(), 12);
        let joined = [(0, 55, 6), (60, 95, 4), (100, 900, 1), (900, 910, 1)];
        assert_eq!(calls(&pyramid, 64), joined);
        let joined = [(0, 95, 10), (100, 900, 1), (900, 910, 1)];
        assert_eq!(calls(&pyramid, 256), joined);
        let row = &pyramid.level(64).rows[0];
        assert_eq!(row.starting(100).map(|item| item.flags()), Some(CLIPPED));
        assert_eq!(row.starting(101), None);
        assert_eq!(row.between(50, 58).count(), 1);
        assert_eq!(pyramid.lowest().least, 0);
    }

    #[test]
    fn levels_lose_no_call_in_bounded_memory() {
        let mut pyramid = Pyramid::new(500);
        let mut at = 0;
        for nth in 0..20_000_u64 {
            let ticks = [3, 5, 70, 9, 1000, 2][nth as usize % 6];
            pyramid.add(0, Item::call(at, at + ticks, nth as u32 % 6, 0));
            at += ticks + 1;
            assert!(pyramid.items <= 501);
        }
        pyramid.finish();
        assert!(pyramid.lowest().least > 0);
        for ticks in [0, 1 << 12, 1 << 20, u64::MAX] {
            let sum: u32 = calls(&pyramid, ticks).iter().map(|call| call.2).sum();
            assert_eq!(sum, 20_000);
        }
    }

    #[test]
    fn a_clock_that_goes_back_makes_no_overlap() {
        let mut pyramid = Pyramid::new(100);
        pyramid.add(0, Item::call(50, 80, 1, 0));
        pyramid.add(0, Item::call(10, 20, 1, 0));
        pyramid.finish();
        assert_eq!(calls(&pyramid, 0), [(50, 80, 1), (80, 80, 1)]);
        pyramid.add(MAX_DEPTH, Item::call(0, 1, 1, 0));
        assert_eq!(pyramid.too_deep, 1);
    }
}
