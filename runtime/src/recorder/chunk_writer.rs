//! Bytes of records in the chunks of a slot, and the cursor behind them: the one place that publishes. The slot is busy
//! meanwhile. Every function in this file is async-signal-safe. It allocates nothing, takes no lock and calls nothing
//! that could panic.
//!
//! The protocol with readers. Readers are threads of this process or another process. They never stop a writer.
//! - `commit` is the one place that publishes. It stores the bytes first, then the cursor with Release. A
//!   reader loads the cursor with Acquire, so it sees every byte before the cursor.
//! - Before a chunk is overwritten, the writer stores 0 as the number in its mark. A Release fence stands
//!   between this store and the first new byte.
//! - A reader copies the chunk, executes an Acquire fence, and reads the number again. If the reader had copied
//!   a new byte, it would see 0 or a later number.

use crate::clock::{self, CPU_MASK, Stamp};
use crate::primitive::{AtomicU64, Ordering, compiler_fence, fence};
use crate::ring::chunk::{self, at_address};
use crate::ring::counts::last_ticks;
use crate::ring::layout::{CHUNK, NO_CPU, NO_HIGH, STOPPED, Slot};
use crate::ring::record::{self, EVENT, PAIR, PREAMBLE, SINGLE};
use crate::sys;

use super::note::Note;
use super::{claim, threshold};

/// Mask of the cursor's offset in its chunk.
const WITHIN: u64 = CHUNK as u64 - 1;

/// If the clock is behind by more than this many ticks, it was reset, for example because a virtual machine
/// moved. The writer then uses the new time. With the old time every later record would get the same time.
const MAX_STEP_BACK: u64 = u32::MAX as u64;

/// Ends a record, so the slot is no longer busy. At the end of a chunk it stores NO_HIGH. Then the next record
/// is uncommon, because `stub` does not test for the end of a chunk itself.
#[inline(always)]
pub(super) fn release(slot: &Slot, cursor: u64, cpu: u32) {
    if cursor & WITHIN == 0 {
        slot.last_high.store(NO_HIGH, Ordering::Relaxed);
    }
    compiler_fence(Ordering::SeqCst);
    slot.cpu.store(cpu, Ordering::Relaxed);
}

/// Publishes words at the cursor. No other function does. Async-signal-safe.
///
/// # Safety
/// `slot` is owned by the calling thread and busy. `cursor` is an address in its region, aligned to 8.
/// The chunk has room for the words.
#[inline(always)]
pub(super) unsafe fn commit(slot: &Slot, cursor: u64, words: impl IntoIterator<Item = u64>) -> u64 {
    let mut after = cursor;
    for word in words {
        // SAFETY: the caller promises a valid place. Readers use atomic loads as well.
        let place = unsafe { AtomicU64::from_ptr(at_address::<u64>(after)) };
        place.store(word, Ordering::Relaxed);
        after += 8;
    }
    // Release: pairs with the Acquire of the readers' load of the cursor in `ring::counts`.
    slot.cursor.store(after, Ordering::Release);
    after
}

/// Makes an uncommon record and returns the cursor behind it. `None` if there is no room for the record. Stores that
/// cursor in `publishing` before the record is published.
pub(super) fn make(
    slot: &Slot,
    word: u32,
    stamp: Stamp,
    before: u32,
    publishing: Option<&AtomicU64>,
) -> Option<u64> {
    make_with(slot, word, stamp, before, publishing, core::iter::empty())
}

/// As [`make`], with notes behind the record. They are published in the same step.
#[inline(always)]
fn make_with<'a>(
    slot: &Slot,
    word: u32,
    mut stamp: Stamp,
    before: u32,
    publishing: Option<&AtomicU64>,
    notes: impl Iterator<Item = Note<'a>> + Clone,
) -> Option<u64> {
    if has_stopped(slot) {
        return None;
    }
    let last = last_ticks(slot);
    let behind = last.saturating_sub(stamp.ticks);
    // If a handler recorded after the stamp was taken, it may have run on another CPU.
    let moved = before != stamp.cpu || behind > 0;
    let reset = behind > MAX_STEP_BACK;
    if behind > 0 && !reset {
        stamp.ticks = last;
    }
    let delta = stamp.ticks.wrapping_sub(last);
    let wrapped = delta > u64::from(u32::MAX);
    let metadata = if moved || wrapped { PAIR } else { 0 };
    let length: u64 = notes.clone().map(|note| note.length()).sum();

    let mut cursor = slot.cursor.load(Ordering::Relaxed);
    let delta = if left(cursor) < metadata + SINGLE + length {
        cursor = open_chunk(slot, cursor, stamp)?;
        0
    } else if metadata > 0 {
        let pair = if moved {
            record::new_cpu(stamp.cpu & CPU_MASK, stamp.ticks)
        } else {
            record::tsc_wrap(stamp.ticks)
        };
        slot.metadata.fetch_add(PAIR, Ordering::Relaxed);
        // SAFETY: `left` says that both records fit.
        cursor = unsafe { commit(slot, cursor, pair) };
        0
    } else {
        delta
    };
    if reset || (behind > 0 && before != stamp.cpu && before != NO_CPU) {
        slot.clock_steps.fetch_add(1, Ordering::Relaxed);
    }
    set_last(slot, stamp.ticks);
    if let Some(publishing) = publishing {
        // Relaxed: `commit` publishes it.
        publishing.store(cursor + SINGLE + length, Ordering::Relaxed);
    }
    let word = record::function(word, delta as u32);
    if length == 0 {
        // SAFETY: there is room for one record, because of the test above or because the chunk is new.
        return Some(unsafe { commit(slot, cursor, [word]) });
    }
    slot.metadata.fetch_add(length, Ordering::Relaxed);
    let notes = notes.flat_map(|note| note.words(stamp.ticks));
    // SAFETY: as above, and all notes of a call fit a new chunk.
    Some(unsafe { commit(slot, cursor, [word].into_iter().chain(notes)) })
}

/// Makes a function record later than its edge. The slot is busy. `before` is the CPU of the last record. `publishing`
/// gets the new cursor before the record is published.
pub(super) fn publish(
    slot: &Slot,
    word: u32,
    stamp: Stamp,
    before: u32,
    publishing: Option<&AtomicU64>,
) {
    if make(slot, word, stamp, before, publishing).is_none() {
        add_dropped(slot);
    }
}

/// As [`publish`], with notes behind the record. Record and notes fit into one chunk.
#[cold]
#[inline(never)]
pub(super) fn publish_with<'a>(
    slot: &Slot,
    word: u32,
    stamp: Stamp,
    before: u32,
    publishing: &AtomicU64,
    notes: impl Iterator<Item = Note<'a>> + Clone,
) {
    if make_with(slot, word, stamp, before, Some(publishing), notes).is_none() {
        add_dropped(slot);
    }
}

/// Makes a summary: the number of calls that left no records since the last record, and the ticks that they took. The
/// caller passes numbers that fit one record. The slot is busy. `publishing` gets the new cursor before the record is
/// published. Returns whether the record is the first of a chunk, which names the CPU. `None` if there is no room for
/// it.
pub(super) fn summarise(
    slot: &Slot,
    (calls, ticks): (u64, u64),
    mut stamp: Stamp,
    publishing: &AtomicU64,
) -> Option<bool> {
    if has_stopped(slot) {
        return None;
    }
    stamp.ticks = stamp.ticks.max(last_ticks(slot));
    let mut cursor = slot.cursor.load(Ordering::Relaxed);
    let names_cpu = left(cursor) < EVENT;
    if names_cpu {
        cursor = open_chunk(slot, cursor, stamp)?;
        set_last(slot, stamp.ticks);
    }
    slot.metadata.fetch_add(EVENT, Ordering::Relaxed);
    // Relaxed: `commit` publishes it.
    publishing.store(cursor + EVENT, Ordering::Relaxed);
    let event = record::summary(calls, ticks, stamp.ticks);
    // SAFETY: `left` says that the record fits, or the chunk is new.
    unsafe { commit(slot, cursor, event) };
    Some(names_cpu)
}

/// Makes a note and returns the cursor behind it. `None` if there is no room for it. `before` is the CPU of the last
/// record.
pub(super) fn make_note(
    slot: &Slot,
    note: &Note<'_>,
    mut stamp: Stamp,
    before: u32,
) -> Option<u64> {
    let length = note.length();
    if has_stopped(slot) {
        return None;
    }
    let last = last_ticks(slot);
    let behind = last.saturating_sub(stamp.ticks);
    let moved = before != stamp.cpu || behind > 0;
    let reset = behind > MAX_STEP_BACK;
    if behind > 0 && !reset {
        stamp.ticks = last;
    }
    let mut cursor = slot.cursor.load(Ordering::Relaxed);
    if left(cursor) < PAIR + length {
        cursor = open_chunk(slot, cursor, stamp)?;
    } else if moved || stamp.ticks != last {
        let pair = match moved {
            true => record::new_cpu(stamp.cpu & CPU_MASK, stamp.ticks),
            false => record::tsc_wrap(stamp.ticks),
        };
        slot.metadata.fetch_add(PAIR, Ordering::Relaxed);
        // SAFETY: `left` says that it fits.
        cursor = unsafe { commit(slot, cursor, pair) };
    }
    if reset || (behind > 0 && before != stamp.cpu && before != NO_CPU) {
        slot.clock_steps.fetch_add(1, Ordering::Relaxed);
    }
    set_last(slot, stamp.ticks);
    slot.metadata.fetch_add(length, Ordering::Relaxed);
    // SAFETY: `left` says that the note fits, or the chunk is new and the note no larger than `MAX`.
    Some(unsafe { commit(slot, cursor, note.words(stamp.ticks)) })
}

/// Whether no more records can be made. A child of a fork has given up its parent's ring, and the slot that it may
/// still use has no chunks.
pub(super) fn has_stopped(slot: &Slot) -> bool {
    slot.full.load(Ordering::Relaxed) == STOPPED || slot.chunks.load(Ordering::Relaxed) == 0
}

/// Counts a record that can't be made, and stops.
pub(super) fn add_dropped(slot: &Slot) {
    slot.dropped.fetch_add(1, Ordering::Relaxed);
    slot.full.store(STOPPED, Ordering::Relaxed);
}

/// Keeps the time of the last record.
fn set_last(slot: &Slot, ticks: u64) {
    let [low, high] = halves(ticks);
    slot.last_low.store(low, Ordering::Relaxed);
    slot.last_high.store(high, Ordering::Relaxed);
    slot.high.store(high, Ordering::Relaxed);
}

/// Lower and upper half.
#[inline(always)]
pub(super) fn halves(ticks: u64) -> [u32; 2] {
    [ticks as u32, (ticks >> 32) as u32]
}

/// Bytes left in the cursor's chunk.
fn left(cursor: u64) -> u64 {
    match cursor & WITHIN {
        0 => 0,
        within => CHUNK as u64 - within,
    }
}

/// Closes the current chunk and opens the next one. If all chunks are in use, it overwrites the oldest one.
/// Returns the cursor behind the preamble. `None` if the mode keeps the oldest records and there is no room.
///
/// Every opened chunk has space. Chunks get their space in order. If the next chunk gets none, the thread starts again
/// at its first chunk and uses only the chunks so far. The chunks opened so far have the same place with the old number
/// and with the smaller one. So a reader may use the old number until it sees a chunk that was opened after the change.
fn open_chunk(slot: &Slot, cursor: u64, stamp: Stamp) -> Option<u64> {
    let current = slot.chunk.load(Ordering::Relaxed);
    let mut chunks = slot.chunks.load(Ordering::Relaxed);
    if current < chunks && current >= u64::from(slot.chunks_with_space.load(Ordering::Acquire)) {
        claim::extend(slot, current);
        chunks = slot.chunks.load(Ordering::Relaxed);
    }
    // Zero means that another program cut the ring's file short: what is left of its last page reads as zeros, without
    // SIGBUS.
    if chunks == 0 || slot.base.load(Ordering::Relaxed) == 0 {
        return None;
    }
    if current >= chunks && slot.full.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let mut first = 0;
    if current > 0 {
        let old = chunk::place(slot, current);
        // A child without a fork hook may have written into the same slot.
        let used = cursor.saturating_sub(old.start).min(CHUNK as u64);
        let records = used.saturating_sub(slot.metadata.load(Ordering::Relaxed)) / SINGLE;
        first = old.mark.first.load(Ordering::Relaxed) + records;
        old.mark.end.store(used, Ordering::Relaxed);
    }
    let next = current + 1;
    let chunk::ChunkPlace { start, mark: new } = chunk::place(slot, next);
    new.number.store(0, Ordering::Relaxed);
    // Release: pairs with the Acquire fences of the readers, see the head of this file.
    fence(Ordering::Release);
    new.first.store(first, Ordering::Relaxed);
    new.end.store(0, Ordering::Relaxed);
    slot.metadata.store(PREAMBLE, Ordering::Relaxed);
    let [a, b] = record::new_buffer(slot.tid.load(Ordering::Relaxed));
    let [c, d] = record::wall_time(clock::realtime_ns());
    let [e, f] = record::new_cpu(stamp.cpu & CPU_MASK, stamp.ticks);
    // SAFETY: a chunk's start has room for the preamble.
    let mut cursor = unsafe { commit(slot, start, [a, b, c, d, e, f]) };
    // Release, both: a reader that sees the number sees the mark and the preamble.
    new.number.store(next, Ordering::Release);
    slot.chunk.store(next, Ordering::Release);
    if chunk::wants_more(next, chunks) && cfg!(not(loom)) {
        sys::thread::wake_dumper();
    }
    if let Some(threshold) = threshold::adjust(slot, next, chunks, stamp) {
        slot.metadata.fetch_add(EVENT, Ordering::Relaxed);
        let event = record::threshold(threshold, stamp.ticks);
        // SAFETY: the chunk has room for it behind the preamble.
        cursor = unsafe { commit(slot, cursor, event) };
    }
    Some(cursor)
}
