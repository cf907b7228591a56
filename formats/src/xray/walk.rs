//! Goes through a thread's ring chunks, one after the other, and finds what is missing between their
//! records. Must never allocate where its memory does not, nor panic: a process that crashed does it.

use super::balance::Stack;
use super::ids::{Ids, Memory};
use super::record::{FUNCTION_SIZE, METADATA_SIZE};
use crate::bytes::Groups;
use crate::calls::Exit;
use crate::model::Ticks;

/// Where records are missing in a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entries are missing, or exits.
    pub(super) entry: bool,
}

/// A walk through a thread's chunks, one after the other. A chunk is a little-endian block as the
/// recorder leaves it: `NewBuffer`, `WallTime`, `NewCPUId`, then function records, `NewCPUId` and
/// `TSCWrap`.
#[derive(Debug, Default)]
pub(super) struct Walk<M = Vec<u32>> {
    pub(super) stack: Stack<M>,
    /// What an exit leaves open inside; empty but for a moment.
    pub(super) closed: Ids<M>,
    /// Function records.
    pub(super) records: u64,
    /// Time of the last record.
    pub(super) last: u64,
    /// The latest time of a record: the last one, where the clock did not go back.
    pub(super) latest: u64,
    /// When calls end that are still open; see [`Walk::until`].
    pub(super) end: u64,
}

/// First bytes of little-endian metadata records.
pub(super) const NEW_BUFFER: u8 = 0x01;
pub(super) const WALL_TIME: u8 = 0x09;
pub(super) const NEW_CPU: u8 = 0x05;
pub(super) const TSC_WRAP: u8 = 0x07;

/// Bytes of `NewBuffer` and `WallTime`: what is in front of a chunk's `NewCPUId`.
pub(super) const PREAMBLE: usize = 2 * METADATA_SIZE;
/// Bytes up to a chunk's first record.
pub(super) const CHUNK_HEAD: usize = 3 * METADATA_SIZE;

impl<M: Memory> Walk<M> {
    pub(super) fn new(open: M, before: M, closed: M) -> Walk<M> {
        Walk {
            stack: Stack::new(open, before),
            closed: Ids::new(closed),
            records: 0,
            last: 0,
            latest: 0,
            end: 0,
        }
    }

    /// All chunks have been gone through, and calls that are still open last until `end`, or until the last
    /// record where that is later.
    pub(super) fn until(&mut self, end: Option<Ticks>) {
        self.end = end.map_or(self.last, |end| end.0.max(self.last));
        if self.stack.open().len() > 0 {
            self.latest = self.latest.max(self.end);
        }
    }

    /// Begins anew, at the first chunk.
    pub(super) fn restart(&mut self) {
        self.stack.restart();
        self.last = 0;
    }

    /// Goes through one chunk; returns where its valid bytes end, which is 0 for one without a valid
    /// head. `repair` is told what is missing, in order; where it says false, `None` is returned at once.
    pub(super) fn chunk(
        &mut self,
        chunk: &[u8],
        repair: &mut impl FnMut(Place, &[u32]) -> bool,
    ) -> Option<usize> {
        if !has_head(chunk) {
            return Some(0);
        }
        let words = Groups::<FUNCTION_SIZE>::new(chunk);
        let (mut place, mut time) = (PREAMBLE / FUNCTION_SIZE, self.last);
        loop {
            let plain = self.stack.take_plain(words.behind(place));
            place += plain.words;
            self.records += plain.words as u64;
            time = time.wrapping_add(plain.ticks);
            let Some(bytes) = words.get(place) else {
                break;
            };
            let word = u64::from_le_bytes(bytes);
            if word & 1 == 0 {
                let (id, action) = (word as u32 >> 4, (word >> 1) & 7);
                // Id 0 is no function: this place was never written.
                if id == 0 || action > 2 {
                    break;
                }
                if action == 0 {
                    self.stack.enter(id);
                } else {
                    let exit = self.stack.exit(id, &mut self.closed);
                    if matches!(exit, Exit::Outer(_) | Exit::Lone)
                        && !self.missing(exit, id, (place * FUNCTION_SIZE, time), repair)
                    {
                        return None;
                    }
                }
                time = time.wrapping_add(word >> 32);
                self.records += 1;
                place += 1;
            } else {
                let Some(next) = words.get(place + 1) else {
                    break;
                };
                self.latest = self.latest.max(time);
                let both = u128::from(u64::from_le_bytes(next)) << 64 | u128::from(word);
                time = match bytes[0] {
                    NEW_CPU => (both >> 24) as u64,
                    TSC_WRAP => (both >> 8) as u64,
                    _ => break,
                };
                place += 2;
            }
        }
        self.last = time;
        self.latest = self.latest.max(time);
        Some(place * FUNCTION_SIZE)
    }

    #[cold]
    fn missing(
        &mut self,
        exit: Exit,
        id: u32,
        (offset, time): (usize, u64),
        repair: &mut impl FnMut(Place, &[u32]) -> bool,
    ) -> bool {
        let entry = exit == Exit::Lone;
        if entry {
            self.closed.push(id);
        }
        let place = Place {
            offset,
            time,
            entry,
        };
        let went_on = repair(place, self.closed.all());
        self.closed.truncate(0);
        went_on
    }
}

/// The latest time of a record in a chunk; `None` where it has no head.
pub(crate) fn latest(chunk: &[u8]) -> Option<Ticks> {
    let mut walk = <Walk>::default();
    let end = walk.chunk(chunk, &mut |_, _| true)?;
    (end > 0).then_some(Ticks(walk.latest))
}

/// Whether a chunk begins as one does.
pub(super) fn has_head(chunk: &[u8]) -> bool {
    let head = chunk.first_chunk::<CHUNK_HEAD>();
    head.is_some_and(|head| {
        head[0] == NEW_BUFFER && head[METADATA_SIZE] == WALL_TIME && head[PREAMBLE] == NEW_CPU
    })
}
