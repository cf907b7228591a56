//! The totals of a slot: the owner's calls of each function, since the owner began. Only the owner
//! writes them, so no instruction is locked. When a slot gets its next owner, the totals of the former one are
//! added to those of ended threads. Async-signal-safe. This file must never touch a row without space.
//!
//! Readers read them while the owner may be counting. A row's lengths add up to its calls, unless the owner was
//! counting a call at that moment.

use super::layout::{CHUNK, LENGTHS, PAGE, Row, Slot, TOTALS_IDS, Totals};
use super::{Ring, at_address};
use crate::primitive::{AtomicU64, Ordering, fence};
use fdr_formats::lengths;
use fdr_formats::model::{Estimate, Level, RecordingCost, Ticks};

/// The number of the row of all functions that have no row of their own.
const OTHERS: u32 = 1;

/// Bytes of the first rows, which get their space with the head. Each further step doubles the bytes of the rows, and takes
/// one chunk at most. Other processors may have pages as large as a chunk.
const FIRST: usize = if cfg!(target_arch = "x86_64") {
    2 * PAGE
} else {
    CHUNK
};

/// How many rows have their space with these bytes.
const fn rows_in(bytes: usize) -> u32 {
    (bytes / size_of::<Row>()) as u32
}

/// The next step of space behind that many rows, as offset behind the head and length.
fn next_step(rows: u32) -> (usize, usize) {
    // Less than a row is left at the end of a step.
    let bytes = (rows as usize * size_of::<Row>()).next_multiple_of(PAGE);
    (bytes, bytes.min(CHUNK))
}

/// The row with that number, from 1.
///
/// # Safety
/// The row has space.
#[inline(always)]
unsafe fn row(totals: &Totals, number: u32) -> &Row {
    let rows = core::ptr::from_ref(totals).addr() + size_of::<Totals>();
    let address = rows + (number as usize - 1) * size_of::<Row>();
    // SAFETY: as the caller vouches. The mapping's pointer was exposed, it stays for the life of the process,
    // and rows consist of atomics.
    unsafe { &*at_address::<Row>(address as u64) }
}

/// The totals at an address that a slot's open calls hold.
pub(crate) fn at(address: u64) -> Option<&'static Totals> {
    // SAFETY: only `Ring::give_totals` stores the address, of totals that have space.
    (address != 0).then(|| unsafe { &*at_address::<Totals>(address) })
}

/// A row of the totals of ended threads.
fn ended_row(ended: &Totals, number: u32) -> &Row {
    // SAFETY: a number in the index is of a row that has space, and so has the first row.
    unsafe { row(ended, number) }
}

/// The rows in use.
pub(crate) fn rows(totals: &Totals) -> impl Iterator<Item = &Row> {
    let with_space = totals.rows_with_space.load(Ordering::Acquire);
    let used = totals.rows.load(Ordering::Acquire).min(with_space);
    // SAFETY: these have space.
    (1..=used).map(|number| unsafe { row(totals, number) })
}

/// The last rows are for functions whose first call takes at least this many ticks. If there are too many functions,
/// the others share one row, and most of the program's time should not be in that row.
const LONG: u64 = 1 << 16;

/// 1/RESERVED_SHARE of the rows is for functions whose first call is long.
const RESERVED_SHARE: usize = 4;

/// Whether any call is counted. Async-signal-safe.
pub(crate) fn has_calls(totals: &Totals) -> bool {
    rows(totals).any(|row| {
        let (_, timed, untimed) = calls(row);
        timed > 0 || untimed > 0
    })
}

/// Whether a function with that id may have a row of its own.
pub(crate) fn may_have_row(function: u32) -> bool {
    (function as usize) < TOTALS_IDS
}

/// The row of a function, of totals that only the caller writes. `ticks`: the time of the call that will be counted.
/// `more` gives space to further rows.
#[inline]
pub(crate) fn row_of(
    totals: &Totals,
    function: u32,
    ticks: u64,
    more: impl FnOnce() -> bool,
) -> &Row {
    let place = totals.index.get(function as usize);
    let number = place.map_or(OTHERS, |place| place.load(Ordering::Relaxed));
    let number = match number {
        0 => new_row(totals, function, ticks, more),
        known => known,
    };
    // SAFETY: a number in the index is of a row that has space, and so has the first row.
    unsafe { row(totals, number) }
}

/// The row of a function, or the row of all functions without one. Nothing is written.
pub(crate) fn existing_row_of(totals: &Totals, function: u32) -> &Row {
    let place = totals.index.get(function as usize);
    let number = place.map_or(OTHERS, |place| place.load(Ordering::Relaxed).max(OTHERS));
    // SAFETY: a number in the index is of a row that has space, and so has the first row.
    unsafe { row(totals, number) }
}

/// The row of a function. `None`: the function has no row of its own.
pub(crate) fn own_row_of(totals: &Totals, function: u32) -> Option<&Row> {
    let row = existing_row_of(totals, function);
    (row.function.load(Ordering::Relaxed) == function).then_some(row)
}

#[cold]
fn new_row(totals: &Totals, function: u32, ticks: u64, more: impl FnOnce() -> bool) -> u32 {
    let rows = totals.rows.load(Ordering::Relaxed);
    let has_space = may_take(totals, rows, ticks)
        && (rows < totals.rows_with_space.load(Ordering::Relaxed) || more());
    let Some(place) = totals.index.get(function as usize) else {
        return OTHERS;
    };
    if !has_space {
        // The function stays there, because each question for space may take system calls.
        totals.share.store(1, Ordering::Relaxed);
        place.store(OTHERS, Ordering::Relaxed);
        return OTHERS;
    }
    // SAFETY: the row has space.
    let new = unsafe { row(totals, rows + 1) };
    new.function.store(function, Ordering::Relaxed);
    // Release: a reader that sees the count sees the function.
    totals.rows.store(rows + 1, Ordering::Release);
    place.store(rows + 1, Ordering::Relaxed);
    rows + 1
}

/// Whether a function may take the row behind `rows` rows, if its first call takes `ticks` ticks.
fn may_take(totals: &Totals, rows: u32, ticks: u64) -> bool {
    let reserved = totals.reserved.load(Ordering::Relaxed);
    ticks >= LONG || reserved == 0 || u64::from(rows) < reserved
}

/// Counts a call that has ended, and took that many ticks. The calls inside took `inside` of them.
pub(crate) fn count(row: &Row, ticks: u64, inside: u64) {
    add(&row.calls, 1);
    // Release: pairs with the Acquire fence in `Copy::read`. A reader that sees a number below sees that the call is
    // being counted.
    fence(Ordering::Release);
    add(&row.total, ticks);
    add(&row.own, ticks.wrapping_sub(inside));
    if row.longest.load(Ordering::Relaxed) < ticks {
        row.longest.store(ticks, Ordering::Relaxed);
    }
    if let Some(length) = row.lengths.get(lengths::class(ticks)) {
        // Release: a reader that sees it sees all of the call.
        let sum = length.load(Ordering::Relaxed).wrapping_add(1);
        length.store(sum, Ordering::Release);
    }
}

/// Counts a call whose time is not known.
pub(crate) fn count_untimed(row: &Row) {
    // A handler may count in the same row meanwhile.
    row.untimed.fetch_add(1, Ordering::Relaxed);
}

fn add(sum: &AtomicU64, more: u64) {
    let sum_now = sum.load(Ordering::Relaxed).wrapping_add(more);
    sum.store(sum_now, Ordering::Relaxed);
}

/// The function of a row, its calls with a time, and those without.
pub(crate) fn calls(row: &Row) -> (u32, u64, u64) {
    let function = row.function.load(Ordering::Relaxed);
    let calls = row.calls.load(Ordering::Relaxed);
    (function, calls, row.untimed.load(Ordering::Relaxed))
}

/// The ticks of a row's calls with a time, in total and without the calls inside.
pub(crate) fn times(row: &Row) -> (u64, u64) {
    let total = row.total.load(Ordering::Relaxed);
    (total, row.own.load(Ordering::Relaxed))
}

/// How many calls of a row took about that long or longer, and their ticks, to 6 %.
pub(crate) fn long_calls(row: &Row, ticks: u64) -> (u64, u64) {
    let (mut calls, mut total) = (0, 0_u64);
    for (class, length) in row.lengths.iter().enumerate().skip(lengths::class(ticks)) {
        let count = length.load(Ordering::Relaxed);
        let middle = lengths::shortest(class) / 16 * 17;
        calls += count;
        total = total.saturating_add(count.saturating_mul(middle));
    }
    (calls, total)
}

/// The numbers of a row that are sums: all but the longest call.
fn sums(row: &Row) -> impl Iterator<Item = &AtomicU64> {
    let few = [&row.calls, &row.untimed, &row.total, &row.own];
    few.into_iter().chain(&row.lengths)
}

/// The estimate of a function for which the dumper estimates nothing.
pub(crate) const NO_ESTIMATE: Estimate = Estimate {
    level: Level::Timed,
    since: Ticks(0),
    missed: 0,
    missed_error: 0,
    total: Ticks(0),
    own: Ticks(0),
    own_error: Ticks(0),
    sampled: 0,
    around: 0,
};

/// The dumper's estimate for the row's function. The dumper may be changing it during the call.
pub(crate) fn estimate(row: &Row) -> Estimate {
    let estimate = &row.estimate;
    let now = |word: &AtomicU64| word.load(Ordering::Relaxed);
    Estimate {
        level: Level::from_number(now(&estimate.level)),
        since: Ticks(now(&estimate.since)),
        missed: now(&estimate.missed),
        missed_error: now(&estimate.missed_error),
        total: Ticks(now(&estimate.total)),
        own: Ticks(now(&estimate.own)),
        own_error: Ticks(now(&estimate.own_error)),
        sampled: now(&estimate.sampled),
        around: now(&row.around),
    }
}

/// The cost of recording, from the totals of ended threads.
pub(crate) fn cost(totals: &Totals) -> Option<RecordingCost> {
    let budget = totals.budget.load(Ordering::Relaxed);
    let share = totals.cost.load(Ordering::Relaxed);
    (budget > 0).then_some(RecordingCost { share, budget })
}

/// A row as it was at one moment, unless its owner counts faster than this can read.
pub(crate) struct Copy {
    pub(crate) function: u32,
    pub(crate) nests: bool,
    pub(crate) calls: u64,
    pub(crate) untimed: u64,
    pub(crate) total: u64,
    pub(crate) own: u64,
    pub(crate) longest: u64,
    pub(crate) lengths: [u64; LENGTHS],
    pub(crate) estimate: Estimate,
}

/// How often a row is read until its lengths add up to its calls.
const MAX_READS: u32 = if cfg!(loom) { 2 } else { 64 };

impl Copy {
    pub(crate) const EMPTY: Copy = Copy {
        function: 0,
        nests: false,
        calls: 0,
        untimed: 0,
        total: 0,
        own: 0,
        longest: 0,
        lengths: [0; LENGTHS],
        estimate: NO_ESTIMATE,
    };

    /// Whether the row has neither calls nor an estimate.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls == 0 && self.untimed == 0 && !self.has_estimate()
    }

    pub(crate) fn has_estimate(&self) -> bool {
        self.estimate != NO_ESTIMATE
    }

    /// Reads the row beside its owner. Returns whether no call was being counted.
    pub(crate) fn read(&mut self, row: &Row) -> bool {
        for _ in 0..MAX_READS {
            // The owner counts a call first and its length last. So the lengths are read first and the calls last. If
            // the lengths add up to the calls, no call was counted in between.
            let mut calls = 0_u64;
            for (length, from) in self.lengths.iter_mut().zip(&row.lengths) {
                // Acquire: pairs with the Release in `count`.
                *length = from.load(Ordering::Acquire);
                calls = calls.wrapping_add(*length);
            }
            self.function = row.function.load(Ordering::Relaxed);
            self.nests = row.nests.load(Ordering::Relaxed) != 0;
            self.untimed = row.untimed.load(Ordering::Relaxed);
            self.total = row.total.load(Ordering::Relaxed);
            self.own = row.own.load(Ordering::Relaxed);
            self.longest = row.longest.load(Ordering::Relaxed);
            self.estimate = estimate(row);
            // Acquire: pairs with the Release fence in `count`.
            fence(Ordering::Acquire);
            self.calls = row.calls.load(Ordering::Relaxed);
            if calls == self.calls {
                return true;
            }
        }
        false
    }
}

impl Ring {
    /// Gives space to the totals of a slot that no thread uses yet, or to those of ended threads. `None`: the
    /// ring has no totals, or there is no space.
    pub(super) fn give_totals(&self, index: usize) -> Option<u64> {
        let offset = self.layout.totals(index);
        // The index comes last. Where no mapping is left, its neighbours take none more.
        if self.layout.totals == 0
            || !self.give_space(offset, PAGE)
            || !self.give_space(offset + size_of::<Totals>(), FIRST)
            || !self.give_index(offset, index)
        {
            return None;
        }
        let address = (self.base.addr() + offset) as u64;
        let totals = at(address)?;
        totals.rows.store(OTHERS, Ordering::Relaxed);
        let rows = self.layout.rows();
        let reserved = (rows - rows / RESERVED_SHARE) as u64;
        totals.reserved.store(reserved, Ordering::Relaxed);
        // Release: pairs with the Acquire in `rows`.
        totals
            .rows_with_space
            .store(rows_in(FIRST), Ordering::Release);
        Some(address)
    }

    /// Gives memory to the index behind the first page, which has space. No reader needs it, and most of it is never
    /// touched, so it is no part of the file.
    fn give_index(&self, offset: usize, index: usize) -> bool {
        let (from, length) = (offset + PAGE, size_of::<Totals>() - PAGE);
        // It takes two mappings. On larger pages it can't be mapped there.
        self.has_separate_index(index) && self.take_memory(from, length)
            || self.give_space(from, length)
    }

    /// Gives space to further rows of totals that only the caller writes. False if there is none.
    pub(crate) fn give_rows(&self, totals: &Totals) -> bool {
        let with_space = totals.rows_with_space.load(Ordering::Relaxed);
        let offset = core::ptr::from_ref(totals).addr() - self.base.addr();
        let more = self
            .step_behind(with_space)
            .filter(|&(_, from, length)| !self.is_lost() && self.give_space(offset + from, length));
        if let Some((with_space, ..)) = more {
            totals.rows_with_space.store(with_space, Ordering::Release);
        }
        more.is_some()
    }

    /// The step of space behind `with_space` rows: the number of rows with it, and the offset and the length of its space
    /// in the totals. `None`: totals have no more room.
    fn step_behind(&self, with_space: u32) -> Option<(u32, usize, usize)> {
        let (from, length) = next_step(with_space);
        let end = from + length;
        let room = self.layout.totals_size - size_of::<Totals>();
        (end <= room).then(|| (rows_in(end), size_of::<Totals>() + from, length))
    }

    /// Whether the totals are of this ring.
    pub(crate) fn has_totals(&self, totals: &Totals) -> bool {
        let at = core::ptr::from_ref(totals).addr();
        at.wrapping_sub(self.base.addr()) < self.layout.length
    }

    /// The totals of a slot.
    pub(crate) fn totals_of(&self, slot: &Slot) -> Option<&'static Totals> {
        at(self.open_calls_of(slot)?.totals.load(Ordering::Relaxed))
    }

    /// The totals of threads that ended, and whose slots have other owners.
    pub(crate) fn totals_of_ended(&self) -> Option<&'static Totals> {
        let offset = self.layout.totals(self.layout.capacity);
        let address = (self.base.addr() + offset) as u64;
        at(address).filter(|_| {
            self.layout.totals > 0 && self.has_ended_totals.load(Ordering::Relaxed) != 0
        })
    }

    /// Stores the estimate of a function, in the totals of ended threads. Only the dumper calls this. Returns false if
    /// the function has no row.
    pub(crate) fn store_estimate(&self, function: u32, new: &Estimate) -> bool {
        let Some(ended) = self.totals_of_ended() else {
            return false;
        };
        let row = match function {
            0 => ended_row(ended, OTHERS),
            _ => self.row_of_ended(ended, function, LONG),
        };
        if row.function.load(Ordering::Relaxed) != function {
            return false;
        }
        let estimate = &row.estimate;
        for (word, number) in [
            (&estimate.level, new.level as u64),
            (&estimate.since, new.since.0),
            (&estimate.missed, new.missed),
            (&estimate.missed_error, new.missed_error),
            (&estimate.total, new.total.0),
            (&estimate.own, new.own.0),
            (&estimate.own_error, new.own_error.0),
            (&estimate.sampled, new.sampled),
            (&row.around, new.around),
        ] {
            word.store(number, Ordering::Relaxed);
        }
        true
    }

    /// Stores what recording takes.
    pub(crate) fn store_cost(&self, cost: RecordingCost) {
        if let Some(ended) = self.totals_of_ended() {
            ended.cost.store(cost.share, Ordering::Relaxed);
            ended.budget.store(cost.budget, Ordering::Relaxed);
        }
    }

    /// Adds the totals of a slot's former owner to those of ended threads, and clears them. No thread owns the
    /// slot. Other threads may do the same with other slots.
    pub(super) fn end_totals(&self, slot: &Slot) {
        let Some(totals) = self.totals_of(slot) else {
            return;
        };
        let ended = self.totals_of_ended();
        for row in rows(totals) {
            let function = row.function.swap(0, Ordering::Relaxed);
            if let Some(place) = totals.index.get(function as usize) {
                place.store(0, Ordering::Relaxed);
            }
            let longest = row.longest.swap(0, Ordering::Relaxed);
            let nests = row.nests.swap(0, Ordering::Relaxed);
            let to = ended.map(|ended| self.row_of_ended(ended, function, longest));
            if let Some(to) = to {
                to.longest.fetch_max(longest, Ordering::Relaxed);
                to.nests.fetch_max(nests, Ordering::Relaxed);
            }
            for (at, sum) in sums(row).enumerate() {
                if sum.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                let more = sum.swap(0, Ordering::Relaxed);
                if let Some(to) = to.and_then(|to| sums(to).nth(at)) {
                    to.fetch_add(more, Ordering::Relaxed);
                }
            }
        }
        if totals.share.swap(0, Ordering::Relaxed) != 0 {
            for place in &totals.index {
                place.store(0, Ordering::Relaxed);
            }
        }
        totals.rows.store(OTHERS, Ordering::Relaxed);
    }

    /// The row of a function among those of ended threads. Several threads may call this for the same function at once.
    fn row_of_ended<'a>(&self, ended: &'a Totals, function: u32, longest: u64) -> &'a Row {
        let place = ended.index.get(function as usize).filter(|_| function > 0);
        let number = place.map_or(OTHERS, |place| {
            match place.load(Ordering::Acquire) {
                0 => {}
                known => return known,
            }
            let Some(number) = self.new_row_of_ended(ended, longest) else {
                // As in `new_row`. If another thread has found space meanwhile, the function has its row.
                let place = place.compare_exchange(0, OTHERS, Ordering::AcqRel, Ordering::Acquire);
                return place.err().unwrap_or(OTHERS);
            };
            // SAFETY: the row has space, and no other thread has its number.
            let new = unsafe { row(ended, number) };
            new.function.store(function, Ordering::Relaxed);
            // Release: pairs with the Acquire above. The thread that loses the race leaves a row without a function.
            match place.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => number,
                Err(known) => {
                    new.function.store(0, Ordering::Relaxed);
                    known
                }
            }
        });
        ended_row(ended, number)
    }

    fn new_row_of_ended(&self, ended: &Totals, longest: u64) -> Option<u32> {
        loop {
            let rows = ended.rows.load(Ordering::Acquire);
            if !may_take(ended, rows, longest) {
                return None;
            }
            let with_space = ended.rows_with_space.load(Ordering::Acquire);
            if rows >= with_space {
                let (more, from, length) = self.step_behind(with_space)?;
                let offset = self.layout.totals(self.layout.capacity) + from;
                if self.is_lost() || self.allocate_untouched(offset, length).is_err() {
                    return None;
                }
                // Release: pairs with the Acquire above. Another thread may have given the same rows.
                ended.rows_with_space.fetch_max(more, Ordering::Release);
                continue;
            }
            let taken =
                ended
                    .rows
                    .compare_exchange(rows, rows + 1, Ordering::AcqRel, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(rows + 1);
            }
        }
    }
}

// Totals are larger than the chunks of tests under Miri.
#[cfg(all(test, not(loom), not(interpreted)))]
mod tests {
    use super::*;
    use crate::ring::Options;

    const FIRST_ROWS: u32 = rows_in(FIRST);

    #[test]
    fn functions_without_space_share_a_row() {
        let options = Options {
            keeps: true,
            ..Options::of_chunks(8, 12)
        };
        let (ring, _) = Ring::create(None, &options).expect("addresses");
        let slot = ring.claim().expect("a slot");
        let totals = ring.totals_of(slot).expect("totals");
        let mut asked = 0;
        for round in 0..3 {
            for function in 1..=FIRST_ROWS + 5 {
                let more = || {
                    asked += 1;
                    false
                };
                let row = row_of(totals, function, 200, more);
                let own = if function < FIRST_ROWS { function } else { 0 };
                assert_eq!(calls(row).0, own, "{function}, round {round}");
                count(row, 200, 0);
            }
        }
        assert_eq!(asked, 6, "once for each function that has no row");
        let sums: Vec<_> = rows(totals).map(calls).collect();
        assert_eq!(sums[0], (0, 18, 0));
        assert_eq!(
            sums[1..],
            (1..FIRST_ROWS).map(|id| (id, 3, 0)).collect::<Vec<_>>()
        );
        ring.end_totals(slot);
        // The next owner has the same space for other functions.
        let row = row_of(totals, FIRST_ROWS + 5, 200, || false);
        assert_eq!(calls(row), (FIRST_ROWS + 5, 0, 0));
        let ended = ring.totals_of_ended().expect("totals");
        let ended: u64 = rows(ended).map(|row| calls(row).1).sum();
        assert_eq!(ended, 3 * u64::from(FIRST_ROWS + 5));
    }

    #[test]
    fn last_rows_are_for_long_calls() {
        let options = Options {
            keeps: true,
            ..Options::of_chunks(64, 80)
        };
        let (ring, _) = Ring::create(None, &options).expect("addresses");
        let slot = ring.claim().expect("a slot");
        let totals = ring.totals_of(slot).expect("totals");
        let rows = ring.layout.rows() as u32;
        let own = |function, ticks| {
            let row = row_of(totals, function, ticks, || ring.give_rows(totals));
            calls(row).0
        };
        let short = (1..=rows).filter(|&function| own(function, LONG - 1) == function);
        let short = short.count() as u32;
        assert_eq!(short + 1, rows - rows / RESERVED_SHARE as u32);
        assert_eq!(own(rows + 1, LONG - 1), 0);
        // The first row is that of all others.
        let long = (rows + 2..3 * rows).filter(|&function| own(function, LONG) == function);
        assert_eq!(long.count() as u32, rows - 1 - short);
    }
}
