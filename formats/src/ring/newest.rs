//! Finds the newest chunk of a slot if the slot and its chunks' marks disagree. Then one of these is damaged, and the
//! others show which one. Call this only for a slot whose thread does not record. While a thread records, slot and
//! marks usually disagree.

use std::io;

use super::file_slot::FileSlot;
use super::layout::{CHUNK, Slot};
use super::walk::PREAMBLE;

/// The newest chunk, by the marks around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Newest {
    pub(super) number: u64,
    /// The number in its mark, which may be damaged.
    pub(super) marked: u64,
}

impl FileSlot<'_> {
    /// Whether the thread writes to a later chunk than the slot names. The next one may be just opened.
    pub(super) fn is_behind(&self, slot: &Slot) -> io::Result<bool> {
        let used = slot.cursor.wrapping_sub(slot.base);
        if used > self.chunks * CHUNK as u64 {
            return Ok(false);
        }
        if slot.chunk == 0 {
            return Ok(used > PREAMBLE);
        }
        let mark = self.mark(slot.chunk)?;
        if mark.number != slot.chunk || mark.end == 0 || self.has_cursor(slot, slot.chunk) {
            return Ok(false);
        }
        let next = self.within(slot.chunk.saturating_add(1));
        Ok(used.wrapping_sub(next) > PREAMBLE)
    }

    fn has_cursor(&self, slot: &Slot, number: u64) -> bool {
        let used = slot.cursor.wrapping_sub(slot.base);
        let used = used.wrapping_sub(self.within(number));
        (PREAMBLE..=CHUNK as u64).contains(&used)
    }

    /// The newest chunk; `None` if no chunk has a mark.
    pub(super) fn newest(&self, slot: &Slot) -> io::Result<Option<Newest>> {
        let mut greatest = 0;
        for index in 1..=self.chunks {
            let number = self.mark(index)?.number;
            if number == 0 || self.within(number) != self.within(index) {
                continue;
            }
            if self.has_cursor(slot, number) && self.is_head(number)? {
                return Ok(Some(Newest {
                    number,
                    marked: number,
                }));
            }
            greatest = greatest.max(number);
        }
        // Its own mark is the damaged one.
        let number = slot.chunk;
        if number > 0 && self.has_cursor(slot, number) && self.is_head(number)? {
            let marked = self.mark(number)?.number;
            return Ok(Some(Newest { number, marked }));
        }
        Ok((greatest > 0).then_some(Newest {
            number: greatest,
            marked: greatest,
        }))
    }

    /// Whether the previous chunk is in its place, and the next one is not.
    fn is_head(&self, number: u64) -> io::Result<bool> {
        let next = number.saturating_add(1);
        let there = self.mark(next)?.number;
        Ok(match number {
            1 => there == 0,
            _ => there != next && self.mark(number - 1)?.number == number - 1,
        })
    }
}
