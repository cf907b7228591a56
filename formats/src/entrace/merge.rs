//! All threads' items, each thread's in order, merged by time: the order of the file. Holds, for each
//! thread, its open calls and what its cursors hold.

use std::io;

use super::item::{self, Item};
use super::shape::At;
use super::store::{Cursor, Store};

/// A thread's strands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Strands {
    pub(super) thread: u64,
    pub(super) items: usize,
    /// Arguments and payloads, one after the other.
    pub(super) extra: usize,
}

struct Run {
    thread: u64,
    items: Cursor,
    extra: Cursor,
    /// Entries' places in the file of the calls that the next item may be in.
    open: Vec<u32>,
    /// The thread's time so far: where its clock goes back, the order stays.
    time: u64,
}

impl Run {
    fn new(strands: &Strands) -> Run {
        Run {
            thread: strands.thread,
            items: Cursor::new(strands.items),
            extra: Cursor::new(strands.extra),
            open: Vec::new(),
            time: 0,
        }
    }

    /// When the next item comes, among those of the other threads: this one is the `place`th.
    #[inline]
    fn turn(&mut self, store: &Store, place: usize) -> io::Result<Turn> {
        let Some(next) = self.items.rest(store)?.first_chunk() else {
            return Ok(NEVER);
        };
        self.time = self.time.max(item::time(next).unwrap_or(0));
        Ok(Turn::from(self.time) << 32 | place as Turn)
    }

    #[inline]
    fn item(&mut self, store: &Store) -> io::Result<Item> {
        let bytes = self.items.take(store, item::SIZE)?.first_chunk();
        Ok(bytes.map(Item::decode).unwrap_or_default())
    }

    /// What belongs to the item.
    #[inline]
    fn extra(&mut self, store: &Store, item: &Item, extra: &mut Vec<u8>) -> io::Result<()> {
        extra.clear();
        while extra.len() < item.extra as usize {
            let more = self.extra.take(store, item.extra as usize - extra.len())?;
            if more.is_empty() {
                break;
            }
            extra.extend_from_slice(more);
        }
        Ok(())
    }
}

/// A time, and below it, in 32 bits, the place of the thread: of two at the same time the first thread
/// is first.
type Turn = u128;

/// The turn of a thread that has no more items.
const NEVER: Turn = Turn::MAX;

/// Finds whose turn is the earliest, with one comparison for each level of a tree, and without a branch
/// that depends on it: which thread is next can't be foreseen.
struct Tournament {
    /// The later turn of the two that met at each node; the first is not one. As many nodes as leaves,
    /// which are a power of two.
    losers: Vec<Turn>,
    earliest: Turn,
}

impl Tournament {
    fn new(turns: &[Turn]) -> Tournament {
        let leaves = turns.len().next_power_of_two();
        let mut winners = vec![NEVER; 2 * leaves];
        winners[leaves..leaves + turns.len()].copy_from_slice(turns);
        let mut losers = vec![NEVER; leaves];
        for node in (1..leaves).rev() {
            let (one, other) = (winners[2 * node], winners[2 * node + 1]);
            (winners[node], losers[node]) = (one.min(other), one.max(other));
        }
        let earliest = winners[1];
        Tournament { losers, earliest }
    }

    /// The thread that had the earliest turn has this one now.
    #[inline]
    fn next(&mut self, place: usize, turn: Turn) {
        let mut earliest = turn;
        let mut node = (self.losers.len() + place) / 2;
        while node > 0 {
            let loser = &mut self.losers[node];
            (earliest, *loser) = (earliest.min(*loser), earliest.max(*loser));
            node /= 2;
        }
        self.earliest = earliest;
    }
}

/// Gives every item to `take`, with its own place in the file, from `first` on, and its parent's.
pub(super) fn merge(
    store: &Store,
    strands: &[Strands],
    first: u32,
    mut take: impl FnMut(u32, &Item, At, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let mut runs: Vec<Run> = strands.iter().map(Run::new).collect();
    let turns = runs.iter_mut().enumerate();
    let turns: io::Result<Vec<Turn>> = turns.map(|(nth, run)| run.turn(store, nth)).collect();
    let mut tournament = Tournament::new(&turns?);
    let (mut own, mut extra) = (first, Vec::new());
    while tournament.earliest != NEVER {
        let place = tournament.earliest as u32 as usize;
        let run = &mut runs[place];
        let item = run.item(store)?;
        run.extra(store, &item, &mut extra)?;
        run.open.truncate(item.depth as usize);
        let at = At {
            parent: run.open.last().copied().unwrap_or(0),
            thread: run.thread,
        };
        take(own, &item, at, &extra)?;
        if item.holds_others() {
            run.open.push(own);
        }
        own += 1;
        tournament.next(place, run.turn(store, place)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

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
            let mut tournament = Tournament::new(&turns);
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
