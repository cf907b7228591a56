//! All threads' items, each thread's in order, merged by time: the order of the file. Holds, for each
//! thread, its open calls and what its cursors hold.

use crate::bytes::groups;
use std::io;

use super::item::{Item, has};
use super::shape::At;
use crate::spool::{Cursor, Spool};
use crate::tournament::Tournament;

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
    fn new(spool: &'a Spool, strands: &Strands) -> Run<'a> {
        Run {
            thread: strands.thread,
            items: Cursor::new(spool, strands.items),
            extra: Cursor::new(spool, strands.extra),
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

/// Hands every item to `give`, with its own place in the file, from `first` on, and its parent's.
pub(super) fn merge(
    spool: &Spool,
    strands: &[Strands],
    first: u32,
    mut give: impl FnMut(u32, &Item, At, &[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let runs = strands.iter().map(|strands| Run::new(spool, strands));
    let mut runs: Vec<Run<'_>> = runs.collect();
    let turns = runs.iter_mut().enumerate();
    let turns: io::Result<Vec<Turn>> = turns.map(|(nth, run)| run.turn(nth)).collect();
    let mut tournament = Tournament::new(&turns?, NEVER);
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
