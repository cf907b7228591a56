//! What is counted per function, and the table that finds it by function id.
//!
//! Ids come from the file and are not trusted, so a large id must not make a large table. Small ids index a vector.
//! Other ids go through a map. After a million functions, all further functions share one entry.

use std::collections::HashMap;

use fdr_formats::FunctionId;

use super::histogram::Histogram;
use crate::off_cpu::OffCpu;

/// Ids below this index a vector (4 MiB at most); recorders count their functions from 1.
const MAX_VECTOR_ID: u32 = 1 << 20;
/// An id below this is its own place. Most programs have no larger ids.
pub(crate) const MIN_ASSIGNED_PLACE: u32 = 1 << 12;
/// The most functions with ids from [`MIN_ASSIGNED_PLACE`] on that have entries of their own. All further functions share
/// one entry.
const MAX_FUNCTIONS: usize = 1 << 20;
/// No place.
const NONE: u32 = u32::MAX;
const _: () = assert!(MIN_ASSIGNED_PLACE as usize + MAX_FUNCTIONS < NONE as usize);

/// The key under which functions beyond the limit are counted together. No trace has such an id:
/// they have 28 bits.
pub(crate) const OTHERS: FunctionId = FunctionId(u32::MAX);

/// What is known of one function. All times are ticks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    /// Time inside, without the time in functions that it called; clipped calls included.
    pub(crate) own: u64,
    /// Time inside, counted once where it recurses; clipped calls included.
    pub(crate) total: u64,
    /// Calls that are in the trace in part only.
    pub(crate) clipped: u64,
    /// The parts of `own` and `total` in which the thread did not run, or its state is unknown. Zero without states.
    pub(crate) own_away: OffCpu,
    pub(crate) total_away: OffCpu,
    /// Durations of the calls of which entry and exit were measured.
    pub(crate) measured: Histogram,
}

impl Stats {
    /// Every call of which the trace has an entry or an exit.
    pub(crate) fn calls(&self) -> u64 {
        self.measured.count() + self.clipped
    }

    /// Whether a call was inside of another call of the function: the durations together are longer than the total.
    pub(crate) fn nests(&self) -> bool {
        self.measured.sum() > self.total
    }

    /// Adds what another part of the trace has.
    pub(crate) fn merge(&mut self, other: &Stats) {
        self.own = self.own.saturating_add(other.own);
        self.total = self.total.saturating_add(other.total);
        self.clipped += other.clipped;
        self.own_away.add(&other.own_away);
        self.total_away.add(&other.total_away);
        self.measured.merge(&other.measured);
    }
}

/// Function ids, their places, and the figures of each function.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The places of small ids, by id. Ids below [`MIN_ASSIGNED_PLACE`] are not in this list.
    near: Vec<u32>,
    far: HashMap<u32, u32>,
    others: Option<u32>,
    /// By place, from [`MIN_ASSIGNED_PLACE`] on.
    ids: Vec<FunctionId>,
    /// By place; none before a call has ended.
    pub(crate) stats: Vec<Option<Box<Stats>>>,
}

impl Table {
    /// The place of a function. `stats` may have no element there yet. [`NONE`]: [`Table::place`] finds or adds it.
    #[inline(always)]
    pub(crate) fn place_of(&self, function: FunctionId) -> u32 {
        match function.0 {
            low @ ..MIN_ASSIGNED_PLACE => low,
            id => self.near.get(id as usize).copied().unwrap_or(NONE),
        }
    }

    /// The place of a function in `stats`, made at its first call.
    pub(crate) fn place(&mut self, function: FunctionId) -> u32 {
        let place = match self.place_of(function) {
            NONE => self.find_or_add(function),
            place => place,
        };
        if self.stats.len() <= place as usize {
            self.stats.resize_with(place as usize + 1, || None);
        }
        place
    }

    #[cold]
    #[inline(never)]
    fn find_or_add(&mut self, function: FunctionId) -> u32 {
        if let Some(&place) = self.far.get(&function.0) {
            return place;
        }
        if self.ids.len() >= MAX_FUNCTIONS {
            return match self.others {
                Some(place) => place,
                None => {
                    let place = self.add(OTHERS);
                    self.others = Some(place);
                    place
                }
            };
        }
        let place = self.add(function);
        if function.0 < MAX_VECTOR_ID {
            let at = function.0 as usize;
            if at >= self.near.len() {
                self.near.resize(at + 1, NONE);
            }
            self.near[at] = place;
        } else {
            self.far.insert(function.0, place);
        }
        place
    }

    fn add(&mut self, function: FunctionId) -> u32 {
        let place = MIN_ASSIGNED_PLACE + self.ids.len() as u32;
        self.ids.push(function);
        place
    }

    /// The function at a place.
    pub(crate) fn function(&self, place: u32) -> FunctionId {
        match place.checked_sub(MIN_ASSIGNED_PLACE) {
            None => FunctionId(place),
            Some(nth) => self.ids.get(nth as usize).copied().unwrap_or(OTHERS),
        }
    }

    /// The figures of the function at an existing place.
    pub(crate) fn at(&mut self, place: u32) -> &mut Stats {
        self.stats[place as usize].get_or_insert_default()
    }

    /// Functions that were called, and what is known of them.
    pub(crate) fn into_functions(mut self) -> impl Iterator<Item = (FunctionId, Box<Stats>)> {
        let stats = std::mem::take(&mut self.stats).into_iter().zip(0..);
        let known = stats.filter_map(move |(stats, place)| Some((self.function(place), stats?)));
        known.filter(|(_, stats)| stats.calls() > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_stable() {
        let mut table = Table::default();
        assert_eq!(table.place(FunctionId(7)), 7);
        assert_eq!(
            table.place(FunctionId(MIN_ASSIGNED_PLACE + 9)),
            MIN_ASSIGNED_PLACE
        );
        assert_eq!(
            table.place(FunctionId(MIN_ASSIGNED_PLACE)),
            MIN_ASSIGNED_PLACE + 1
        );
        for (place, id) in [
            (7, 7),
            (MIN_ASSIGNED_PLACE, MIN_ASSIGNED_PLACE + 9),
            (MIN_ASSIGNED_PLACE + 1, MIN_ASSIGNED_PLACE),
        ] {
            assert_eq!(table.place_of(FunctionId(id)), place);
            assert_eq!(table.place(FunctionId(id)), place);
            assert_eq!(table.function(place), FunctionId(id));
        }
        assert_eq!(table.stats.len(), MIN_ASSIGNED_PLACE as usize + 2);
    }

    #[test]
    fn a_hostile_id_costs_little() {
        let mut table = Table::default();
        assert_eq!(table.place(FunctionId((1 << 28) - 1)), MIN_ASSIGNED_PLACE);
        assert_eq!(table.place(FunctionId(1)), 1);
        assert_eq!(table.place(FunctionId((1 << 28) - 1)), MIN_ASSIGNED_PLACE);
        assert_eq!(table.near.len(), 0);
    }

    #[test]
    fn after_a_million_functions_the_rest_is_one() {
        let mut table = Table::default();
        table
            .ids
            .resize(MAX_FUNCTIONS, FunctionId(MIN_ASSIGNED_PLACE));
        let others = table.place(FunctionId(MIN_ASSIGNED_PLACE + 5));
        assert_eq!(others as usize, MIN_ASSIGNED_PLACE as usize + MAX_FUNCTIONS);
        assert_eq!(table.place(FunctionId(1 << 27)), others);
        assert_eq!(table.function(others), OTHERS);
        table.at(others).clipped = 1;
        let ids: Vec<FunctionId> = table.into_functions().map(|(id, _)| id).collect();
        assert_eq!(ids, [OTHERS]);
    }
}
