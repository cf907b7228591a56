//! All threads' items, each thread's in order, merged by time: the order of the file. Holds, for each
//! thread, its open calls and what its cursors hold.

use crate::bytes::groups;
use std::io;

use super::item::{Item, has};
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

/// Items that are decoded at a time.
const BATCH: usize = 64;

struct Run<'a> {
    thread: u64,
    items: Cursor<'a>,
    extra: Cursor<'a>,
    /// Entries' places in the file of the calls that the next item may be in.
    open: Vec<u32>,
    /// Items, and how many of them are done.
    batch: Vec<Item>,
    done: usize,
    /// The thread's time so far: where its clock goes back, the order stays.
    time: u64,
}

impl<'a> Run<'a> {
    fn new(store: &'a Store, strands: &Strands) -> Run<'a> {
        Run {
            thread: strands.thread,
            items: Cursor::new(store, strands.items),
            extra: Cursor::new(store, strands.extra),
            open: Vec::new(),
            batch: Vec::new(),
            done: 0,
            time: 0,
        }
    }

    /// When the next item comes, among those of the other threads: this one is the `place`th.
    #[inline]
    fn turn(&mut self, place: usize) -> io::Result<Turn> {
        if self.done == self.batch.len() {
            self.decode()?;
        }
        let Some(next) = self.batch.get(self.done) else {
            return Ok(NEVER);
        };
        if next.has(has::TIME) {
            self.time = self.time.max(next.time);
        }
        Ok(Turn::from(self.time) << 32 | place as Turn)
    }

    #[cold]
    fn decode(&mut self) -> io::Result<()> {
        let bytes = self.items.rest()?;
        let items = groups(bytes).take(BATCH);
        let size = items.len() * super::item::SIZE;
        self.batch.clear();
        self.batch.extend(items.map(|item| Item::decode(&item)));
        self.items.skip(size);
        self.done = 0;
        Ok(())
    }
}

/// Takes so many bytes off the front of a strand; fewer where it ends.
#[cold]
fn take(strand: &mut Cursor<'_>, count: u32, bytes: &mut Vec<u8>) -> io::Result<()> {
    while bytes.len() < count as usize {
        let more = strand.rest()?;
        let more = &more[..more.len().min(count as usize - bytes.len())];
        if more.is_empty() {
            break;
        }
        bytes.extend_from_slice(more);
        let count = more.len();
        strand.skip(count);
    }
    Ok(())
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

/// Hands every item to `give`, with its own place in the file, from `first` on, and its parent's.
pub(super) fn merge(
    store: &Store,
    strands: &[Strands],
    first: u32,
    mut give: impl FnMut(u32, &Item, At, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let runs = strands.iter().map(|strands| Run::new(store, strands));
    let mut runs: Vec<Run<'_>> = runs.collect();
    let turns = runs.iter_mut().enumerate();
    let turns: io::Result<Vec<Turn>> = turns.map(|(nth, run)| run.turn(nth)).collect();
    let mut tournament = Tournament::new(&turns?);
    let (mut own, mut extra) = (first, Vec::new());
    while tournament.earliest != NEVER {
        let place = tournament.earliest as u32 as usize;
        let run = &mut runs[place];
        let item = &run.batch[run.done];
        run.done += 1;
        extra.clear();
        if item.extra > 0 {
            take(&mut run.extra, item.extra, &mut extra)?;
        }
        run.open.truncate(item.depth as usize);
        let at = At {
            parent: run.open.last().copied().unwrap_or(0),
            thread: run.thread,
        };
        give(own, item, at, &extra)?;
        if item.holds_others() {
            run.open.push(own);
        }
        own += 1;
        tournament.next(place, run.turn(place)?);
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
