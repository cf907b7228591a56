//! The owner of a slot, and the number of records that the owner has made. The records are counted beside the
//! writer, without a copy.
//!
//! These functions are readers by the protocol at the head of `recorder::chunk_writer`. They read the newest chunk
//! and the mark of the oldest one. A count must never mix two owners or two chunks. If it would, the function
//! tries again.
//!
//! Async-signal-safe, except for functions that return text.

use super::chunk::{self, ChunkPlace};
use super::layout::{CHUNK, Slot, state};
use super::open_calls::WithoutRecords;
use super::record::PREAMBLE;
use super::{Ring, open_calls, totals};
use crate::primitive::{AtomicU64, Ordering, fence};
use crate::sys::thread::NAME_BYTES;

/// How often a count is tried while the thread records.
const MAX_READS: u32 = if cfg!(loom) { 1 } else { 1000 };

/// The counts of one thread at one moment. `recorded = readable + overwritten + dropped + summarised`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) recorded: u64,
    pub(crate) readable: u64,
    pub(crate) overwritten: u64,
    pub(crate) dropped: u64,
    /// Records of calls that left none.
    pub(crate) summarised: u64,
}

/// The owner of records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Owner {
    pub(crate) tid: u32,
    name: [u8; NAME_BYTES],
    pub(crate) ended: bool,
}

impl Owner {
    pub(crate) fn of_slot(slot: &Slot, ended: bool) -> Owner {
        Owner {
            tid: slot.tid.load(Ordering::Relaxed),
            name: name_bytes(slot),
            ended,
        }
    }

    /// The thread's name, as the kernel keeps it.
    pub(crate) fn name(&self) -> &[u8] {
        let name = self.name.split(|&byte| byte == 0).next();
        name.unwrap_or_default()
    }

    /// The name as text. Allocates.
    pub(crate) fn name_text(&self) -> String {
        String::from_utf8_lossy(self.name()).into_owned()
    }
}

/// Ticks of the owner's last record. Only the owner knows that both halves are of one record.
pub(crate) fn last_ticks(slot: &Slot) -> u64 {
    let high = slot.high.load(Ordering::Relaxed);
    u64::from(high) << 32 | u64::from(slot.last_low.load(Ordering::Relaxed))
}

/// Bytes of a chunk that hold records. They end at the cursor if the cursor is in the chunk, otherwise at the
/// chunk's end.
pub(crate) fn used(slot: &Slot, place: ChunkPlace<'_>) -> Option<usize> {
    // Acquire: pairs with the Release in `commit`.
    used_at(slot.cursor.load(Ordering::Acquire), place)
}

/// As [`used`], for a given value of the cursor.
pub(crate) fn used_at(cursor: u64, place: ChunkPlace<'_>) -> Option<usize> {
    let within = cursor.wrapping_sub(place.start);
    let used = if (PREAMBLE..=CHUNK as u64).contains(&within) {
        within
    } else {
        place.mark.end.load(Ordering::Acquire)
    };
    (PREAMBLE..=CHUNK as u64)
        .contains(&used)
        .then_some(used as usize)
}

/// Function records that the owner has made so far, and its calls without records, at one moment. The function walks
/// the newest chunk. It does not use the owner's own count of metadata, because that count and the cursor change at
/// different moments. `None` if chunks change too fast for a consistent count.
pub(crate) fn made(slot: &Slot) -> Option<(u64, WithoutRecords)> {
    (0..MAX_READS).find_map(|_| {
        // Acquire: pairs with the Release in `open_chunk`.
        let head = slot.chunk.load(Ordering::Acquire);
        let (without, cursor) = open_calls::counts(slot)?;
        let place = (head > 0).then(|| chunk::place(slot, head));
        let is_in =
            |place: &ChunkPlace<'_>| (1..=CHUNK as u64).contains(&cursor.wrapping_sub(place.start));
        // A cursor elsewhere may be of a later chunk. Relaxed: it was loaded with Acquire, after the number of its
        // chunk had been stored.
        if !place.as_ref().is_some_and(is_in) && slot.chunk.load(Ordering::Relaxed) != head {
            return None;
        }
        let Some(place) = place else {
            return Some((0, without));
        };
        let mark = place.mark;
        // Acquire: as above.
        if mark.number.load(Ordering::Acquire) != head {
            return None;
        }
        let first = mark.first.load(Ordering::Relaxed);
        let used = used_at(cursor, place)?;
        let count = chunk::count_records(place, used);
        // Acquire: pairs with the Release fence in `open_chunk`.
        fence(Ordering::Acquire);
        (mark.number.load(Ordering::Relaxed) == head).then(|| (first + count, without))
    })
}

/// Function records that the owner has asked for so far. This is `recorded` of [`count`], with fewer loads.
/// Async-signal-safe.
pub(crate) fn recorded(slot: &Slot) -> Option<u64> {
    let generation = slot.generation.load(Ordering::Acquire);
    let dropped = slot.dropped.load(Ordering::Relaxed);
    let (committed, without) = made(slot)?;
    let recorded = committed.saturating_add(dropped + without.records());
    fence(Ordering::Acquire);
    (slot.generation.load(Ordering::Relaxed) == generation).then_some(recorded)
}

/// Whether the owner has recorded nothing: no edge of a call, no note, and no call that is only counted. False if it
/// writes too fast to tell. Async-signal-safe.
pub(crate) fn is_empty(slot: &Slot) -> bool {
    slot.chunk.load(Ordering::Relaxed) == 0 && recorded(slot) == Some(0) && !has_calls(slot)
}

/// Whether a call of the owner is counted, with records or without. Async-signal-safe.
pub(crate) fn has_calls(slot: &Slot) -> bool {
    let calls = open_calls::of_slot(slot);
    let totals = calls.and_then(|calls| totals::at(calls.totals.load(Ordering::Relaxed)));
    totals.is_some_and(totals::has_calls)
}

/// The owner and the counts, without a copy. `None` if the slot has no owner, or if the owner writes too fast
/// for a consistent count.
pub(crate) fn count(slot: &Slot) -> Option<(Owner, Counts)> {
    let generation = slot.generation.load(Ordering::Acquire);
    let state = slot.state.load(Ordering::Acquire);
    if state != state::LIVE && state != state::ENDED {
        return None;
    }
    let owner = Owner::of_slot(slot, state == state::ENDED);
    let overwritten = (0..MAX_READS).find_map(|_| records_before_oldest(slot))?;
    let dropped = slot.dropped.load(Ordering::Relaxed);
    let (committed, without) = made(slot)?;
    let committed = committed.max(overwritten);
    let counts = Counts {
        recorded: committed.saturating_add(dropped + without.records()),
        readable: committed - overwritten + without.open,
        overwritten,
        dropped,
        summarised: 2 * without.short,
    };
    fence(Ordering::Acquire);
    let same = slot.generation.load(Ordering::Relaxed) == generation;
    same.then_some((owner, counts))
}

/// Whether the thread has written as much as its ring holds.
pub(crate) fn is_full(slot: &Slot) -> bool {
    slot.chunk.load(Ordering::Relaxed) >= slot.chunks.load(Ordering::Relaxed)
}

/// How many function records come before the oldest chunk.
fn records_before_oldest(slot: &Slot) -> Option<u64> {
    let head = slot.chunk.load(Ordering::Acquire);
    let chunks = slot.chunks.load(Ordering::Relaxed);
    if head <= chunks {
        return Some(0);
    }
    let number = head - chunks + 1;
    let oldest = chunk::place(slot, number).mark;
    let before = oldest.number.load(Ordering::Acquire);
    let first = oldest.first.load(Ordering::Relaxed);
    fence(Ordering::Acquire);
    (before == number && oldest.number.load(Ordering::Relaxed) == number).then_some(first)
}

/// How often the clock was behind a thread's last record, in all threads. Async-signal-safe.
pub(crate) fn steps_back(ring: &Ring) -> u64 {
    let slots = ring.owned_slots();
    slots
        .map(|slot| slot.clock_steps.load(Ordering::Relaxed))
        .sum()
}

#[cfg(feature = "stream")]
/// The name in the slot, without its padding. Allocates.
pub(crate) fn name_of(slot: &Slot) -> String {
    Owner::of_slot(slot, false).name_text()
}

fn name_bytes(slot: &Slot) -> [u8; NAME_BYTES] {
    let [low, high] = &slot.name;
    let word = |word: &AtomicU64| u128::from(word.load(Ordering::Relaxed));
    (word(low) | word(high) << 64).to_le_bytes()
}
