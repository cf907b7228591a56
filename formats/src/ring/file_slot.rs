//! One slot of a ring file, read part by part: the slot, its chunks' marks, and the places of its chunks. Each reading
//! is one `pread`, and later parts are read later.

use std::io;
use std::sync::atomic::{Ordering, fence};

use super::layout::{
    CHUNK, ENDED, Header, LIVE, MARK_SIZE, Mark, OPEN_CALLS_SIZE, SLOT_SIZE, Slot,
};
use super::walk::PREAMBLE;
use crate::bytes::ReadAt;

/// The error of a read behind the end of a cut file.
pub(super) fn cut_off() -> Slot {
    Slot {
        state: u32::MAX,
        ..Slot::default()
    }
}

/// One slot of the file.
pub(super) struct FileSlot<'a> {
    pub(super) bytes: &'a dyn ReadAt,
    pub(super) header: &'a Header,
    pub(super) index: u64,
    /// Chunks that its owner goes round in.
    pub(super) chunks: u64,
}

impl<'a> FileSlot<'a> {
    /// The slot with that index. Its owner is taken to use the whole region.
    pub(super) fn new(bytes: &'a dyn ReadAt, header: &'a Header, index: u32) -> FileSlot<'a> {
        FileSlot {
            bytes,
            header,
            index: index.into(),
            chunks: header.region_size / CHUNK as u64,
        }
    }

    /// The chunks that the owner uses, as far as the slot can be believed. It uses fewer chunks than the
    /// region has if no more have space. Then the chunks behind them are empty.
    pub(super) fn round(&self, slot: &Slot) -> io::Result<u64> {
        let (all, fewer) = (self.header.region_size / CHUNK as u64, slot.chunks);
        let can_be = (1..all).contains(&fewer) && fewer <= slot.chunks_with_space.into();
        Ok(match can_be && self.is_unused_behind(fewer, all)? {
            true => fewer,
            false => all,
        })
    }

    /// Whether the marks of the chunks from `chunks` to `all` are empty.
    fn is_unused_behind(&self, chunks: u64, all: u64) -> io::Result<bool> {
        let mark = |chunks: u64| {
            let marks = SLOT_SIZE as u64 + chunks * MARK_SIZE as u64;
            self.offset().saturating_add(marks)
        };
        let (mut at, end) = (mark(chunks), mark(all));
        let mut bytes = [0; 4096];
        while at < end {
            let most = (end - at).min(bytes.len() as u64) as usize;
            let count = self.bytes.read_at(at, &mut bytes[..most])?;
            if bytes[..count].iter().any(|&byte| byte != 0) {
                return Ok(false);
            }
            if count < most {
                break;
            }
            at += count as u64;
        }
        Ok(true)
    }

    pub(super) fn offset(&self) -> u64 {
        let header = self.header;
        let slots = self.index.saturating_mul(header.slot_stride);
        header.slots.saturating_add(slots)
    }

    /// Offset of the region. If the slot states another offset, the slot is damaged.
    pub(super) fn region(&self) -> u64 {
        let header = self.header;
        let regions = self.index.saturating_mul(header.region_size);
        header.regions.saturating_add(regions)
    }

    /// Offset of a chunk in the region.
    pub(super) fn within(&self, number: u64) -> u64 {
        (number - 1) % self.chunks.max(1) * CHUNK as u64
    }

    pub(super) fn slot(&self) -> io::Result<Slot> {
        let mut bytes = [0; SLOT_SIZE];
        let count = self.bytes.read_at(self.offset(), &mut bytes)?;
        // Acquire: later reads come after this one.
        fence(Ordering::Acquire);
        Ok(Slot::decode(&bytes[..count]).unwrap_or_else(cut_off))
    }

    /// Reads the slot's open calls. Empty: it has none, or the file's head is damaged.
    pub(super) fn open_calls(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.clear();
        let at = self.header.open_calls;
        let room = self.header.slot_stride.saturating_sub(at);
        if at == 0 || room < OPEN_CALLS_SIZE as u64 {
            return Ok(());
        }
        bytes.resize(OPEN_CALLS_SIZE, 0);
        let count = self
            .bytes
            .read_at(self.offset().saturating_add(at), bytes)?;
        bytes.truncate(count);
        fence(Ordering::Acquire);
        Ok(())
    }

    /// The slot, if all of it belongs to one owner; `None` if the owner changed meanwhile.
    pub(super) fn settled(&self) -> io::Result<Option<Slot>> {
        let generation = self.slot()?.generation;
        // An owner that is visible after its generation is complete.
        let middle = self.slot()?;
        let slot = self.slot()?;
        let same = middle.generation == generation && slot.generation == generation;
        let settled = is_owned(&middle) && slot.chunk >= middle.chunk || !is_owned(&slot);
        Ok((same && settled).then_some(slot))
    }

    pub(super) fn mark_offset(&self, number: u64) -> u64 {
        let marks = (number - 1) % self.chunks.max(1) * MARK_SIZE as u64;
        self.offset().saturating_add(SLOT_SIZE as u64 + marks)
    }

    pub(super) fn mark(&self, number: u64) -> io::Result<Mark> {
        let mut bytes = [0; MARK_SIZE];
        let count = self.bytes.read_at(self.mark_offset(number), &mut bytes)?;
        fence(Ordering::Acquire);
        Ok(Mark::decode(&bytes[..count]).unwrap_or_default())
    }

    /// The bytes of a chunk up to the cursor; `None` if the cursor is elsewhere.
    pub(super) fn up_to_cursor(&self, slot: &Slot, number: u64) -> io::Result<Option<u64>> {
        let start = slot.base.wrapping_add(self.within(number));
        let mut lowest = u64::MAX;
        for _ in 0..2 {
            let used = self.slot()?.cursor.wrapping_sub(start);
            if !(PREAMBLE..=CHUNK as u64).contains(&used) {
                return Ok(None);
            }
            lowest = lowest.min(used);
        }
        Ok(Some(lowest))
    }
}

/// Whether a slot has a thread's records.
pub(super) fn is_owned(slot: &Slot) -> bool {
    slot.state == LIVE || slot.state == ENDED
}
