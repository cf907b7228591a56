//! Reads the totals of all threads. Their owners may be counting meanwhile, so a sum may lack a call.

use core::sync::atomic::Ordering;

use crate::ring::Ring;
use crate::ring::layout::Totals;
use crate::ring::totals;

/// Calls of one function on all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    /// With a time, and the ticks of these in total and in the function itself.
    pub(super) calls: u64,
    pub(super) total: u64,
    pub(super) own: u64,
    /// Without a time.
    pub(super) counted: u64,
    /// The long ones of the timed calls, and the sum of their ticks to 6 %.
    pub(super) long_calls: u64,
    pub(super) long_total: u64,
}

impl Sums {
    /// The difference to the earlier sums `before`.
    pub(super) fn since(self, before: Sums) -> Sums {
        Sums {
            calls: self.calls.saturating_sub(before.calls),
            total: self.total.saturating_sub(before.total),
            own: self.own.saturating_sub(before.own),
            counted: self.counted.saturating_sub(before.counted),
            long_calls: self.long_calls.saturating_sub(before.long_calls),
            long_total: self.long_total.saturating_sub(before.long_total),
        }
    }

    /// The mean times of the calls that were not long: in total, and in the function itself. Long calls are rare, and
    /// their times say nothing about other calls. Their self time is not known separately. It is at least what the calls
    /// inside can't explain, as of a call that was preempted. Otherwise it is like that of other calls, as in a recursion.
    #[inline(never)]
    pub(super) fn means_of_short(self) -> Option<(f64, f64)> {
        let calls = self.calls.saturating_sub(self.long_calls);
        let total = self.total.saturating_sub(self.long_total) as f64;
        let calls_inside = self.total.saturating_sub(self.own);
        let unexplained = self.long_total.saturating_sub(calls_inside) as f64;
        let of_long = self.own as f64 * self.long_calls as f64 / self.calls.max(1) as f64;
        let own = (self.own as f64 - of_long.max(unexplained))
            .max(0.0)
            .min(total);
        (calls > 0).then(|| (total / calls as f64, own / calls as f64))
    }
}

/// Gives the totals of each thread, and those of ended threads. `known`: only the totals of owners that are not there.
#[inline(never)]
fn each(ring: &Ring, known: Option<&[u64]>, give: &mut dyn FnMut(&Totals)) {
    for slot in ring.owned_slots() {
        let generation = slot.generation.load(Ordering::Acquire);
        let owner = known.and_then(|known| known.get(ring.index_of(slot)?));
        if let Some(totals) = ring.totals_of(slot).filter(|_| owner != Some(&generation)) {
            give(totals);
        }
    }
    if let Some(totals) = ring.totals_of_ended().filter(|_| known.is_none()) {
        give(totals);
    }
}

/// The calls of those functions. A call of at least `long` ticks is long. `None`: the times are not needed. To find the
/// long calls of a row takes thirty cache lines. `known`: only the calls of owners that are not there.
pub(super) fn sums(
    ring: &Ring,
    ids: &[u32],
    long: Option<u64>,
    known: Option<&[u64]>,
) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); ids.len()];
    each(ring, known, &mut |totals| {
        for (sum, &id) in sums.iter_mut().zip(ids) {
            let Some(row) = totals::own_row_of(totals, id) else {
                continue;
            };
            let (_, calls, counted) = totals::calls(row);
            sum.calls += calls;
            sum.counted += counted;
            let Some(long) = long else {
                continue;
            };
            let (total, own) = totals::times(row);
            let (long_calls, long_total) = totals::long_calls(row, long);
            sum.total += total;
            sum.own += own;
            sum.long_calls += long_calls;
            sum.long_total += long_total;
        }
    });
    sums
}

/// The present owners of all slots: their generations, by the indices of the slots.
pub(super) fn owners(ring: &Ring) -> Vec<u64> {
    let mut owners = Vec::new();
    for slot in ring.slots() {
        let index = ring.index_of(slot).unwrap_or_default();
        owners.resize(owners.len().max(index + 1), 0);
        if let Some(owner) = owners.get_mut(index) {
            *owner = slot.generation.load(Ordering::Acquire);
        }
    }
    owners
}

/// Gives each row of each thread: a function's id, its calls with a time, and those without.
pub(super) fn each_calls(ring: &Ring, give: &mut dyn FnMut(u32, u64, u64)) {
    each(ring, None, &mut |totals| {
        for (id, calls, counted) in totals::rows(totals).map(totals::calls) {
            give(id, calls, counted);
        }
    });
}

/// Why timed calls of a function are long.
pub(super) enum LongCalls {
    /// The thread was preempted in them, so they are rare.
    Rare,
    /// The calls inside take the time, as in each recursion.
    CallsInside,
    /// The function itself may take it.
    Own,
}

/// If at most one in this many calls of a function is long, the thread was preempted in the long call. A function with
/// fewer calls may have a few long ones.
const PREEMPTED: u64 = 10_000;
const FEW: u64 = 3;
/// If the mean self time of a function is at most this part of a long call, the calls inside take the time.
const PART_OF_LONG: u64 = 100;

/// Why calls of at least that many ticks are long.
pub(super) fn long_calls(ring: &Ring, id: u32, ticks: u64) -> LongCalls {
    let sums = sums(ring, &[id], Some(ticks), None);
    match sums.first() {
        Some(sums) if sums.long_calls <= FEW + sums.calls / PREEMPTED => LongCalls::Rare,
        Some(sums) if sums.own / sums.calls.max(1) <= ticks / PART_OF_LONG => {
            LongCalls::CallsInside
        }
        Some(_) => LongCalls::Own,
        None => LongCalls::Rare,
    }
}
