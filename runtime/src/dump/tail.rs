//! Reads one slot's records while its thread makes them. Each call returns the next part of a chunk and how
//! many records the thread made before that part. The difference to the records read so far was overwritten. A
//! call copies at most one chunk and stops no thread. It must never return a byte that may have been
//! overwritten before it was read.
//!
//! Async-signal-safe.

use crate::primitive::{Ordering, fence};
use crate::ring::chunk;
use crate::ring::counts::used;
use crate::ring::layout::{CHUNK, Slot, state};

/// How often a part is tried if the thread overwrites it.
const MAX_READS: u32 = if cfg!(loom) { 2 } else { 16 };

/// The position of the reader in the records of one owner of a slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tail {
    /// The owner's generation.
    generation: u64,
    /// The chunk that is being read, counted from 1. 0 = none yet.
    number: u64,
    /// Bytes of that chunk that were read.
    offset: usize,
    /// Function records before the position, read or overwritten.
    records_before: u64,
}

/// The result of [`Tail::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// `bytes` bytes are in the buffer, whole records. The thread made `first` function records before them.
    /// `lost` of those were overwritten before they were read.
    Part {
        bytes: usize,
        first: u64,
        lost: u64,
        /// Whether the chunk was filled, so there may be more.
        filled: bool,
    },
    /// There is nothing more, or nothing that was asked for.
    Nothing,
    /// The slot has another owner.
    Other,
}

impl Tail {
    /// Reads from the first record of the slot's owner on. `None` if the slot has no owner.
    pub(crate) fn new(slot: &Slot) -> Option<Tail> {
        let generation = slot.generation.load(Ordering::Acquire);
        owned(slot).then(|| Tail {
            generation,
            ..Tail::default()
        })
    }

    /// Whether the slot still has the same owner.
    pub(crate) fn is_of(&self, slot: &Slot) -> bool {
        fence(Ordering::Acquire);
        slot.generation.load(Ordering::Relaxed) == self.generation
    }

    /// Copies the next part. It reads a chunk that is not filled only if `partial` is set.
    pub(crate) fn next(&mut self, slot: &Slot, partial: bool, buffer: &mut [u8; CHUNK]) -> Next {
        for _ in 0..MAX_READS {
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
                // The chunk was read to its end or is being overwritten, so the reader goes on with the next
                // chunk.
                _ if self.number < head => (self.number, self.offset) = (self.number + 1, 0),
                Some(next) => return next,
                None => {}
            }
        }
        Next::Nothing
    }

    /// Sets the number of function records before the last part (`first`) and in it (`count`).
    pub(crate) fn took(&mut self, first: u64, count: u64) {
        self.records_before = first + count;
    }

    /// Skips chunks that are overwritten, and some that soon will be.
    fn catch_up(&mut self, slot: &Slot, head: u64) {
        let chunks = slot.chunks.load(Ordering::Relaxed);
        let oldest = head.saturating_sub(chunks) + 1;
        if self.number == 0 && oldest == 1 {
            (self.number, self.offset) = (1, 0);
        } else if self.number < oldest {
            (self.number, self.offset) = ((oldest + chunks / 8).min(head), 0);
        }
    }

    /// `None` if the part was overwritten meanwhile.
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
            let first = if from == 0 {
                start
            } else {
                self.records_before
            };
            Next::Part {
                bytes: used - from,
                first,
                lost: first.saturating_sub(self.records_before),
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
