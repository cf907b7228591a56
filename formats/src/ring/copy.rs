//! One thread's records out of a ring file, whether its process lives or not. The reader's half of
//! the recorder's protocol: chunks are copied from the newest to the oldest, the first one that was
//! overwritten meanwhile ends the copy, so what is kept is the unbroken run of records up to the
//! moment at which the copy began. A process that was killed is one that stopped at some point of
//! that protocol. Must never wait for a writer, or stop it.

use std::io;

use super::layout::{self, CHUNK, ENDED, Header, LIVE, MARK_SIZE, Mark, SLOT_SIZE, Slot};
use crate::bytes::ReadAt;
use crate::model::Counts;

/// How often a copy is tried while the slot goes from thread to thread.
const TRIES: u32 = 4;
/// `NewBuffer`, `WallTime`, `NewCPUId`: a chunk without them has no record.
const PREAMBLE: u64 = 48;
/// First byte of a chunk.
const NEW_BUFFER: u8 = 0x01;

/// A buffer for copies, used again for each thread.
#[derive(Debug, Default)]
pub(super) struct Copy {
    /// Copied chunks, newest first, each [`CHUNK`] bytes long.
    bytes: Vec<u8>,
    /// Used bytes of each of them.
    used: Vec<usize>,
    /// Whose they are.
    pub(super) slot: Slot,
    /// What was recorded, kept and lost.
    pub(super) counts: Counts,
    /// Where the newest chunk is that the file does not hold: its region is memory that went with the
    /// process, as where the disk was full. Its records count as dropped.
    pub(super) hollow: Option<u64>,
}

/// A part of the file that can't be had.
struct Slots<'a> {
    bytes: &'a dyn ReadAt,
    header: &'a Header,
    index: u64,
}

impl Slots<'_> {
    fn offset(&self) -> u64 {
        let header = self.header;
        header
            .slots
            .saturating_add(self.index.saturating_mul(header.slot_stride))
    }

    fn slot(&self) -> io::Result<Option<Slot>> {
        let mut bytes = [0; SLOT_SIZE];
        let count = self.bytes.read_at(self.offset(), &mut bytes)?;
        Ok(layout::decode_slot(&bytes[..count]))
    }

    /// Chunks of a region: what slot and header agree on.
    fn chunks(&self, slot: &Slot) -> u64 {
        slot.chunks.min(self.header.region_size / CHUNK as u64)
    }

    fn mark(&self, slot: &Slot, number: u64) -> io::Result<Mark> {
        let index = (number - 1) % self.chunks(slot).max(1);
        let offset = self.offset() + SLOT_SIZE as u64 + index * MARK_SIZE as u64;
        let mut bytes = [0; MARK_SIZE];
        let count = self.bytes.read_at(offset, &mut bytes)?;
        Ok(layout::decode_mark(&bytes[..count]).unwrap_or_default())
    }
}

impl Copy {
    /// Copies what the slot of that index holds. False where nobody owns it, or owners change too
    /// fast.
    pub(super) fn take(
        &mut self,
        bytes: &dyn ReadAt,
        header: &Header,
        index: u32,
    ) -> io::Result<bool> {
        let slots = Slots {
            bytes,
            header,
            index: index.into(),
        };
        for _ in 0..TRIES {
            self.bytes.clear();
            self.used.clear();
            self.hollow = None;
            let Some(slot) = slots.slot()? else {
                return Ok(false);
            };
            if slot.state != LIVE && slot.state != ENDED {
                return Ok(false);
            }
            self.slot = slot;
            let Some((committed, oldest)) = self.chunks_of(&slots, &slot)? else {
                continue;
            };
            let overwritten = oldest.min(committed);
            let kept = committed - overwritten;
            let hollow = if self.hollow.is_some() { kept } else { 0 };
            self.counts = Counts {
                recorded: committed.saturating_add(slot.dropped),
                readable: kept - hollow,
                overwritten,
                dropped: slot.dropped.saturating_add(hollow),
                ..Counts::default()
            };
            let now = slots.slot()?.unwrap_or_default();
            if now.generation == slot.generation {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The copied chunks, oldest first.
    pub(super) fn chunks(&self) -> Vec<&[u8]> {
        let chunks = self.bytes.chunks(CHUNK).zip(&self.used);
        let mut chunks: Vec<&[u8]> = chunks
            .map(|(chunk, &used)| chunk.get(..used).unwrap_or(chunk))
            .collect();
        chunks.reverse();
        chunks
    }

    /// How many records the thread had made, and how many of those come before the oldest chunk that
    /// was copied. `None` where even the newest was overwritten meanwhile.
    fn chunks_of(&mut self, slots: &Slots<'_>, slot: &Slot) -> io::Result<Option<(u64, u64)>> {
        let (mut committed, mut oldest) = (0, 0);
        let first = slot.chunk.saturating_sub(slots.chunks(slot));
        for number in (first..slot.chunk).rev().map(|before| before + 1) {
            let Some((mark, used)) = self.chunk(slots, slot, number)? else {
                break;
            };
            if self.used.is_empty() {
                let chunk = self.bytes.get(..used).unwrap_or(&[]);
                committed = mark.first.saturating_add(count_records(chunk));
                if chunk.first() != Some(&NEW_BUFFER) {
                    self.hollow = slot.base.checked_sub(slots.header.base);
                }
            }
            oldest = mark.first;
            self.used.push(used);
        }
        self.bytes.truncate(self.used.len() * CHUNK);
        Ok((slot.chunk == 0 || !self.used.is_empty()).then_some((committed, oldest)))
    }

    /// Copies one chunk behind the others. `None` where it was overwritten meanwhile.
    fn chunk(
        &mut self,
        slots: &Slots<'_>,
        slot: &Slot,
        number: u64,
    ) -> io::Result<Option<(Mark, usize)>> {
        let mark = slots.mark(slot, number)?;
        if mark.number != number {
            return Ok(None);
        }
        let index = (number - 1) % slots.chunks(slot).max(1);
        let within = index * CHUNK as u64;
        // The cursor anew: records were made since the slot was read.
        let cursor = slots.slot()?.unwrap_or_default().cursor;
        let used = match cursor.wrapping_sub(slot.base.wrapping_add(within)) {
            used @ PREAMBLE.. if used <= CHUNK as u64 => used,
            _ => slots.mark(slot, number)?.end,
        };
        let Some(used) = usize::try_from(used)
            .ok()
            .filter(|used| (PREAMBLE as usize..=CHUNK).contains(used))
        else {
            return Ok(None);
        };
        let Some(region) = slot.base.checked_sub(slots.header.base) else {
            return Ok(None);
        };
        let at = self.used.len() * CHUNK;
        self.bytes.resize(at + CHUNK, 0);
        let Some(target) = self.bytes.get_mut(at..at + used) else {
            return Ok(None);
        };
        slots.bytes.read_at(region.saturating_add(within), target)?;
        let after = slots.mark(slot, number)?;
        Ok((after.number == number).then_some((mark, used)))
    }
}

/// Function records in a chunk, by walking it. In one that is all zeros, as many as fit.
fn count_records(chunk: &[u8]) -> u64 {
    let hollow = chunk.first() != Some(&NEW_BUFFER);
    let (mut at, mut count) = (if hollow { PREAMBLE as usize } else { 0 }, 0);
    while let Some(&first) = chunk.get(at) {
        if first & 1 == 0 {
            count += 1;
            at += 8;
        } else {
            at += 16;
        }
    }
    count
}
