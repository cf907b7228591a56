//! Follows one slot's records while its thread makes them: each call gives the next part of a chunk,
//! and the place of its first record among all that the thread made, from which follows what was
//! overwritten before it could be read. Copies at most one chunk at a time, stops no thread, and must
//! never give a byte of which it is not certain that it was read before it was overwritten.
//!
//! Async-signal-safe.

use crate::primitive::{Ordering, fence};
use crate::ring::chunk;
use crate::ring::counts::used;
use crate::ring::layout::{CHUNK, Slot, state};

/// How often a part is tried beside a thread that overwrites it.
const TRIES: u32 = if cfg!(loom) { 2 } else { 16 };

/// Where following has come to, for one owner of a slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// Which owner.
    generation: u64,
    /// The chunk that is read, counted from 1; 0 = none yet.
    number: u64,
    /// Bytes of it that were read.
    offset: usize,
    /// Function records before that place, read or not.
    seen: u64,
}

/// What [`Tail::next`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// So many bytes are in the buffer, whole records. `first` function records of the thread come
    /// before them, of which `lost` were overwritten unread.
    Part {
        bytes: usize,
        first: u64,
        lost: u64,
        /// The chunk was filled: more may be there.
        filled: bool,
    },
    /// Nothing (more) is there, or nothing that was asked for.
    Nothing,
    /// The slot has another owner.
    Other,
}

impl Tail {
    /// Follows the slot's owner from its first record on. `None` where nobody owns it.
    pub(crate) fn new(slot: &Slot) -> Option<Tail> {
        let generation = slot.generation.load(Ordering::Acquire);
        owned(slot).then(|| Tail {
            generation,
            ..Tail::default()
        })
    }

    /// Whether the slot still is the owner's.
    pub(crate) fn is_of(&self, slot: &Slot) -> bool {
        fence(Ordering::Acquire);
        slot.generation.load(Ordering::Relaxed) == self.generation
    }

    /// Copies what comes next. A chunk that is not filled is given in part if `partial` is set.
    pub(crate) fn next(&mut self, slot: &Slot, partial: bool, buffer: &mut [u8; CHUNK]) -> Next {
        for _ in 0..TRIES {
            if !self.is_of(slot) || !owned(slot) {
                return Next::Other;
            }
            // Acquire: pairs with the Release in `open_chunk`.
            let head = slot.chunk.load(Ordering::Acquire);
            if head == 0 {
                return Next::Nothing;
            }
            self.catch_up(slot, head);
            match self.try_next(slot, head, partial, buffer) {
                Some(Next::Part {
                    bytes,
                    first,
                    lost,
                    filled,
                }) => {
                    self.offset += bytes;
                    return Next::Part {
                        bytes,
                        first,
                        lost,
                        filled,
                    };
                }
                // Read to its end, or gone: what is being overwritten does not come back.
                _ if self.number < head => (self.number, self.offset) = (self.number + 1, 0),
                Some(next) => return next,
                None => {}
            }
        }
        Next::Nothing
    }

    /// The last part had so many function records before it, and so many in it.
    pub(crate) fn took(&mut self, first: u64, count: u64) {
        self.seen = first + count;
    }

    /// Leaves chunks behind that are overwritten, and some that soon will be.
    fn catch_up(&mut self, slot: &Slot, head: u64) {
        let chunks = slot.chunks.load(Ordering::Relaxed);
        let oldest = head.saturating_sub(chunks) + 1;
        if self.number == 0 && oldest == 1 {
            (self.number, self.offset) = (1, 0);
        } else if self.number < oldest {
            (self.number, self.offset) = ((oldest + chunks / 8).min(head), 0);
        }
    }

    /// `None`: it was overwritten meanwhile.
    fn try_next(
        &self,
        slot: &Slot,
        head: u64,
        partial: bool,
        buffer: &mut [u8; CHUNK],
    ) -> Option<Next> {
        let (number, from) = (self.number, self.offset);
        let place = chunk::place(slot, number);
        let mark = place.mark;
        // Acquire: pairs with the Release in `open_chunk`.
        if mark.number.load(Ordering::Acquire) != number {
            return None;
        }
        let start = mark.first.load(Ordering::Relaxed);
        let used = used(slot, place)?;
        let filled = number < head || used == CHUNK;
        let found = if used <= from || !(filled || partial) {
            Next::Nothing
        } else {
            chunk::copy(place, from, buffer.get_mut(..used - from)?);
            let first = if from == 0 { start } else { self.seen };
            Next::Part {
                bytes: used - from,
                first,
                lost: first.saturating_sub(self.seen),
                filled,
            }
        };
        // Acquire: pairs with the Release fence in `open_chunk`, and with that of a new owner.
        fence(Ordering::Acquire);
        let same = mark.number.load(Ordering::Relaxed) == number && self.is_of(slot);
        same.then_some(found)
    }
}

fn owned(slot: &Slot) -> bool {
    // Acquire: pairs with the Release that gave the slot to its owner.
    let state = slot.state.load(Ordering::Acquire);
    state == state::LIVE || state == state::ENDED
}
