//! Finds the thread whose turn is next, among many threads that are each in order. The formats merge
//! threads by time with it. Must never look at the content of a turn.

/// Finds whose turn is the earliest, with one comparison for each level of a tree, and without a branch
/// that depends on it: which thread is next can't be foreseen.
pub(crate) struct Tournament<T> {
    /// The later turn of the two that met at each node; the first is not one. As many nodes as leaves,
    /// which are a power of two.
    losers: Vec<T>,
    pub(crate) earliest: T,
}

impl<T: Copy + Ord> Tournament<T> {
    /// Of threads with these turns; `never` is that of a thread that has no more, and the latest of all.
    pub(crate) fn new(turns: &[T], never: T) -> Tournament<T> {
        let leaves = turns.len().next_power_of_two();
        let mut winners = vec![never; 2 * leaves];
        winners[leaves..leaves + turns.len()].copy_from_slice(turns);
        let mut losers = vec![never; leaves];
        for node in (1..leaves).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], losers[node]) = (one.min(other), one.max(other));
        }
        let earliest = winners[1];
        Tournament { losers, earliest }
    }

    /// The thread that had the earliest turn has this one now.
    #[inline]
    pub(crate) fn next(&mut self, place: usize, turn: T) {
        let mut earliest = turn;
        let mut node = (self.losers.len() + place) / 2;
        while node > 0 {
            let loser = &mut self.losers[node];
            let (one, other) = (earliest, *loser);
            (earliest, *loser) = if one < other {
                (one, other)
            } else {
                (other, one)
            };
            node /= 2;
        }
        self.earliest = earliest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Turn = u128;
    const NEVER: Turn = Turn::MAX;

    #[test]
    fn the_earliest_turn_comes_first_and_of_equal_ones_the_first_thread() {
        for threads in 0..10usize {
            let times: Vec<Vec<u64>> = (0..threads)
                .map(|nth| {
                    (0..nth as u64 * 3)
                        .map(|step| step * 7 % 5 + step)
                        .collect()
                })
                .map(|mut times: Vec<u64>| {
                    times.sort_unstable();
                    times
                })
                .collect();
            let mut wanted = Vec::new();
            let mut rest: Vec<_> = times.iter().map(|times| times.iter()).collect();
            let mut turn = |place: usize| {
                let time = rest[place].next();
                time.map_or(NEVER, |&time| Turn::from(time) << 32 | place as Turn)
            };
            let turns: Vec<Turn> = (0..threads).map(&mut turn).collect();
            let mut tournament = Tournament::new(&turns, NEVER);
            let mut found = Vec::new();
            while tournament.earliest != NEVER {
                found.push(tournament.earliest);
                let place = tournament.earliest as u32 as usize;
                tournament.next(place, turn(place));
            }
            for (place, times) in times.iter().enumerate() {
                let turns = times
                    .iter()
                    .map(|&time| Turn::from(time) << 32 | place as Turn);
                wanted.extend(turns);
            }
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{threads} threads");
        }
    }
}
