//! A map from numbers to places in a list: threads, functions and streams by their ids. With std's map instead, a
//! traced program is 18 kB larger, and writing Heph takes a sixth more time. The readers of traces use a random seed
//! for the hash, so that a hostile trace can't choose numbers that all fall on one place.

/// The place of an empty entry. No list is that long.
const NOTHING: usize = usize::MAX;

/// Entries of the smallest table.
const MIN_ENTRIES: usize = 16;

/// See above.
#[derive(Clone, Debug, Default)]
pub(crate) struct NumberMap {
    /// Numbers with their places: a power of two, at least half of them empty.
    entries: Vec<(u64, usize)>,
    used: usize,
    seed: [u64; 2],
}

impl NumberMap {
    /// The place of a number.
    #[inline]
    pub(crate) fn get(&self, number: u64) -> Option<usize> {
        let &(_, place) = self.entries.get(self.entry_of(number)?)?;
        (place != NOTHING).then_some(place)
    }

    /// Adds a number. A number that is there already keeps its place. Returns whether it is new.
    #[inline(never)]
    pub(crate) fn insert(&mut self, number: u64, place: usize) -> bool {
        if self.used >= self.entries.len() / 2 {
            self.grow();
        }
        let at = self.entry_of(number);
        let entry = at.and_then(|at| self.entries.get_mut(at));
        let Some(entry) = entry.filter(|(_, known)| *known == NOTHING) else {
            return false;
        };
        *entry = (number, place);
        self.used += 1;
        true
    }

    /// The entry that has the number, otherwise the empty one for it.
    #[inline]
    fn entry_of(&self, number: u64) -> Option<usize> {
        let last = self.entries.len().checked_sub(1)?;
        let [mask, factor] = self.seed;
        let product = u128::from(number ^ mask) * u128::from(factor | 1);
        let mut at = ((product >> 64) ^ product) as usize & last;
        loop {
            let &(known, place) = self.entries.get(at)?;
            if known == number || place == NOTHING {
                return Some(at);
            }
            at = (at + 1) & last;
        }
    }

    fn grow(&mut self) {
        if self.entries.is_empty() {
            self.seed = seed();
        }
        let size = (self.entries.len() * 2).max(MIN_ENTRIES);
        let old = std::mem::replace(&mut self.entries, vec![(0, NOTHING); size]);
        for entry in old.into_iter().filter(|&(_, place)| place != NOTHING) {
            let at = self.entry_of(entry.0);
            if let Some(to) = at.and_then(|at| self.entries.get_mut(at)) {
                *to = entry;
            }
        }
    }
}

/// Numbers that the author of a trace can't guess.
#[cfg(feature = "read")]
fn seed() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let random = RandomState::new();
    [random.hash_one(0_u64), random.hash_one(1_u64)]
}

/// A program that only writes chooses its own numbers, so it needs no random seed.
#[cfg(not(feature = "read"))]
fn seed() -> [u64; 2] {
    [0, 0x9e37_79b9_7f4a_7c15]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_keeps_its_first_place() {
        let mut map = NumberMap::default();
        assert_eq!(map.get(0), None);
        // Numbers that are near to each other, that differ in their upper bits alone, and the largest.
        let numbers = (0..5000).chain((1..500).map(|n| n << 48)).chain([u64::MAX]);
        for (place, number) in numbers.clone().enumerate() {
            assert_eq!(map.get(number), None, "{number}");
            assert!(map.insert(number, place), "{number}");
        }
        for (place, number) in numbers.enumerate() {
            assert!(!map.insert(number, place + 1), "{number}");
            assert_eq!(map.get(number), Some(place), "{number}");
        }
        assert_eq!(map.get(5000), None);
    }
}
