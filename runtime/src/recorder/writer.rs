//! One thread's records, from a stamp to published bytes: the state machine of the recorder.
//!
//! Time and CPU come as arguments; the clock is read only at the edge (`super::record`). Every
//! function in here is async-signal-safe: no allocation, no lock, no call that could panic.
//!
//! The protocol with readers (threads of ours, or another process; they never stop a writer):
//! - `commit` is the one place that publishes: bytes first, then the cursor with Release. A reader
//!   that loads the cursor with Acquire sees every byte before it.
//! - Before a chunk's bytes are overwritten its mark's number becomes 0, and a Release fence stands
//!   between that and the first new byte. A reader copies, then has an Acquire fence, then looks at
//!   the number again: had it copied one new byte, it would see the 0 (or what came later).
//!
//! The protocol with signal handlers on the same thread: the slot's `cpu` is BUSY while a record is
//! made. A handler that finds it so drops its record and counts it; one that finds it otherwise makes
//! whole records before the interrupted code goes on. That code's stamp may then be older than the
//! last record: it gets the last record's time. The test for BUSY is the test for "still on the same
//! CPU", so it costs nothing.

use crate::clock::{self, CPU_MASK, Stamp};
use crate::primitive::{AtomicU64, Ordering, compiler_fence, fence};
use crate::ring::chunk::{self, at_address};
use crate::ring::layout::{BUSY, CHUNK, NO_CPU, NO_HIGH, STOPPED, Slot};
use crate::ring::record::{self, PAIR, PREAMBLE, SINGLE};
use crate::sys;

/// The cursor's place in its chunk.
const WITHIN: u64 = CHUNK as u64 - 1;

/// A clock that is behind by more than this many ticks was reset (a virtual machine that moved):
/// its new time is believed. Holding on to the old one would freeze every time from here on.
const LARGEST_STEP_BACK: u64 = u32::MAX as u64;

/// Makes a function record of `word` (id << 4 | action << 1) at `stamp`.
#[inline(always)]
pub(crate) fn write(slot: &Slot, word: u32, stamp: Stamp) {
    let cpu = slot.cpu.load(Ordering::Relaxed);
    if cpu != stamp.cpu {
        return moved(slot, word, stamp.ticks, stamp.cpu);
    }
    // A handler that comes before this store leaves the slot usable, and its times are later.
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cursor = slot.cursor.load(Ordering::Relaxed);
    // In halves: the two come from the clock apart, and what follows it is the path that counts.
    let [low, high] = halves(stamp.ticks);
    let (delta, borrowed) = low.overflowing_sub(slot.last_low.load(Ordering::Relaxed));
    let carried = high != slot.last_high.load(Ordering::Relaxed);
    if carried || borrowed {
        return turn(slot, word, stamp.ticks, stamp.cpu);
    }
    slot.last_low.store(low, Ordering::Relaxed);
    // SAFETY: at a chunk's end `last_high` is NO_HIGH; elsewhere 8 bytes are left.
    let after = unsafe { commit(slot, cursor, [record::function(word, delta)]) };
    release(slot, after, stamp.cpu);
}

/// Makes a function record that has no time of its own: its delta is 0, and its time that of the record
/// before it. False where it can't be like the last record, or the slot is busy: nothing was changed, and
/// `write` makes it, with a stamp.
#[inline(always)]
pub(crate) fn write_untimed(slot: &Slot, word: u32) -> bool {
    let before = slot.cursor.load(Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cpu = slot.cpu.load(Ordering::Relaxed);
    // Busy, without a record yet, or on a CPU that was not known.
    if cpu >= BUSY {
        return false;
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cursor = slot.cursor.load(Ordering::Relaxed);
    // A handler has recorded since the CPU was loaded, perhaps on another one: the next record names it.
    let interrupted = cursor != before;
    if interrupted || slot.last_high.load(Ordering::Relaxed) == NO_HIGH {
        compiler_fence(Ordering::SeqCst);
        let cpu = if interrupted { NO_CPU } else { cpu };
        slot.cpu.store(cpu, Ordering::Relaxed);
        return false;
    }
    // SAFETY: at a chunk's end `last_high` is NO_HIGH; elsewhere 8 bytes are left.
    let after = unsafe { commit(slot, cursor, [record::function(word, 0)]) };
    release(slot, after, cpu);
    true
}

/// Ends a record: the slot is no longer busy. At a chunk's end the next record can't be like this one,
/// and `stub` does not look for that end itself.
#[inline(always)]
fn release(slot: &Slot, cursor: u64, cpu: u32) {
    if cursor & WITHIN == 0 {
        slot.last_high.store(NO_HIGH, Ordering::Relaxed);
    }
    compiler_fence(Ordering::SeqCst);
    slot.cpu.store(cpu, Ordering::Relaxed);
}

/// Publishes words at the cursor: the only place that does. Async-signal-safe.
///
/// # Safety
/// `slot` is owned by the calling thread and busy; `cursor` is an address in its region, aligned to
/// 8, with room for the words in its chunk.
#[inline(always)]
unsafe fn commit<const N: usize>(slot: &Slot, cursor: u64, words: [u64; N]) -> u64 {
    for (at, word) in words.into_iter().enumerate() {
        // SAFETY: as the caller vouches; readers use atomic loads as well.
        let place = unsafe { AtomicU64::from_ptr(at_address::<u64>(cursor).add(at)) };
        place.store(word, Ordering::Relaxed);
    }
    let after = cursor + 8 * N as u64;
    // Release: pairs with the Acquire of the readers' load in `dump::snapshot`.
    slot.cursor.store(after, Ordering::Release);
    after
}

/// A record on another CPU than the last one, the first of a slot, or one that finds it busy.
#[cold]
#[inline(never)]
fn moved(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    let before = slot.cpu.load(Ordering::Relaxed);
    if super::claim::is_unnoticed_child() {
        super::claim::record_in_unnoticed_child(word, cpu);
    } else if before == BUSY {
        super::claim::busy(word, cpu);
    } else {
        slot.cpu.store(BUSY, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        finish(slot, word, Stamp { ticks, cpu }, before);
    }
}

/// The first record of a chunk, one for which the upper half of the clock changed, one after a long
/// silence, one with a clock that went back.
#[cold]
#[inline(never)]
fn turn(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    if super::claim::is_unnoticed_child() {
        // The slot is the parent's, which finds it free.
        slot.cpu.store(cpu, Ordering::Relaxed);
        return super::claim::record_in_unnoticed_child(word, cpu);
    }
    finish(slot, word, Stamp { ticks, cpu }, cpu);
}

/// Makes or drops an uncommon record, and ends with the slot no longer busy. `before` is the CPU of
/// the record before.
fn finish(slot: &Slot, word: u32, stamp: Stamp, before: u32) {
    let after = make(slot, word, stamp, before);
    if after.is_none() {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
        slot.full.store(STOPPED, Ordering::Relaxed);
    }
    // What has stopped ends like what is full.
    release(slot, after.unwrap_or(0), stamp.cpu);
}

/// Makes an uncommon record; returns the cursor behind it. `None` where there is no room for it.
fn make(slot: &Slot, word: u32, mut stamp: Stamp, before: u32) -> Option<u64> {
    // A slot without chunks is what is left of one whose ring a child of a fork has let go.
    if slot.full.load(Ordering::Relaxed) == STOPPED || slot.chunks.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let last = last(slot);
    let behind = last.saturating_sub(stamp.ticks);
    // Where a handler recorded since the stamp was taken, it may have been on another CPU.
    let moved = before != stamp.cpu || behind > 0;
    let reset = behind > LARGEST_STEP_BACK;
    if behind > 0 && !reset {
        stamp.ticks = last;
    }
    let delta = stamp.ticks.wrapping_sub(last);
    let wrapped = delta > u64::from(u32::MAX);
    let metadata = if moved || wrapped { PAIR } else { 0 };

    let mut cursor = slot.cursor.load(Ordering::Relaxed);
    let delta = if left(cursor) < metadata + SINGLE {
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
    let [low, high] = halves(stamp.ticks);
    slot.last_low.store(low, Ordering::Relaxed);
    slot.last_high.store(high, Ordering::Relaxed);
    slot.high.store(high, Ordering::Relaxed);
    // SAFETY: there is room for one record, by the test above or in a new chunk.
    Some(unsafe { commit(slot, cursor, [record::function(word, delta as u32)]) })
}

/// Lower and upper half.
#[inline(always)]
fn halves(ticks: u64) -> [u32; 2] {
    [ticks as u32, (ticks >> 32) as u32]
}

/// Ticks of the last record.
fn last(slot: &Slot) -> u64 {
    let high = slot.high.load(Ordering::Relaxed);
    u64::from(high) << 32 | u64::from(slot.last_low.load(Ordering::Relaxed))
}

/// Bytes left in the cursor's chunk.
fn left(cursor: u64) -> u64 {
    match cursor & WITHIN {
        0 => 0,
        within => CHUNK as u64 - within,
    }
}

/// Closes the current chunk and opens the next one, over the oldest if need be. Returns the cursor
/// behind the preamble; `None` where the mode is to keep the oldest and there is no room.
///
/// A chunk that is opened has space. Chunks get it in order, and a thread that finds none for the next one
/// begins again at its first: up to there every number of chunks puts each chunk in the same place, so
/// readers need not know before they see a later chunk.
fn open_chunk(slot: &Slot, cursor: u64, stamp: Stamp) -> Option<u64> {
    let current = slot.chunk.load(Ordering::Relaxed);
    let mut chunks = slot.chunks.load(Ordering::Relaxed);
    if current < chunks && current >= u64::from(slot.given.load(Ordering::Acquire)) {
        super::claim::extend(slot, current);
        chunks = slot.chunks.load(Ordering::Relaxed);
    }
    if current >= chunks && slot.full.load(Ordering::Relaxed) != 0 {
        return None;
    }
    let mut first = 0;
    if current > 0 {
        let old = chunk::place(slot, current);
        // A child that nobody knows of may have written into the same slot.
        let used = cursor.saturating_sub(old.start).min(CHUNK as u64);
        let records = used.saturating_sub(slot.metadata.load(Ordering::Relaxed)) / SINGLE;
        first = old.mark.first.load(Ordering::Relaxed) + records;
        old.mark.end.store(used, Ordering::Relaxed);
    }
    let next = current + 1;
    let chunk::Place { start, mark: new } = chunk::place(slot, next);
    new.number.store(0, Ordering::Relaxed);
    // Release: pairs with the Acquire fence of `dump::snapshot`, see the head of this file.
    fence(Ordering::Release);
    new.first.store(first, Ordering::Relaxed);
    new.end.store(0, Ordering::Relaxed);
    slot.metadata.store(PREAMBLE, Ordering::Relaxed);
    let [a, b] = record::new_buffer(slot.tid.load(Ordering::Relaxed));
    let [c, d] = record::wall_time(clock::realtime_ns());
    let [e, f] = record::new_cpu(stamp.cpu & CPU_MASK, stamp.ticks);
    // SAFETY: a chunk's start has room for the preamble.
    let cursor = unsafe { commit(slot, start, [a, b, c, d, e, f]) };
    // Release, both: a reader that sees the number sees the mark and the preamble.
    new.number.store(next, Ordering::Release);
    slot.chunk.store(next, Ordering::Release);
    if chunk::wants_more(next, chunks) && cfg!(not(loom)) {
        sys::thread::wake_dumper();
    }
    Some(cursor)
}
