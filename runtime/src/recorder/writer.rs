//! One thread's records, from a stamp to published bytes: the state machine of the recorder.
//!
//! Time and CPU are arguments. Only the caller (`super::record`) reads the clock. Every function in this file
//! is async-signal-safe. It allocates nothing, takes no lock and calls nothing that could panic.
//!
//! The protocol with signal handlers of the same thread. The slot's `cpu` is BUSY while a record is made. If a
//! handler finds BUSY, it drops its record and counts the drop. Otherwise it makes whole records before the
//! interrupted code goes on. The stamp of the interrupted code may then be older than the last record. In that
//! case the record gets the time of the last record. The test for BUSY costs nothing, because it is also the
//! test for "still on the same CPU".

use crate::clock::Stamp;
use crate::primitive::{Ordering, compiler_fence};
use crate::ring::layout::{BUSY, NO_CPU, NO_HIGH, OpenCalls, Slot};
use crate::ring::record;

use super::chunk_writer::{add_dropped, commit, halves, make, make_note, release};
use super::note::{MAX_NOTE, Note};
use super::{claim, now, open_calls};

/// Makes a function record of `word` (id << 4 | action << 1) at `stamp`.
#[inline(always)]
pub(crate) fn write(slot: &Slot, word: u32, stamp: Stamp) {
    if let Some(calls) = open_calls::of_slot(slot) {
        return edge(slot, calls, word, stamp);
    }
    let cpu = slot.cpu.load(Ordering::Relaxed);
    if cpu != stamp.cpu {
        return moved(slot, word, stamp.ticks, stamp.cpu);
    }
    // If a handler interrupts before this store, it leaves the slot usable, and its records are later.
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cursor = slot.cursor.load(Ordering::Relaxed);
    // The clock gives two halves. To compare the halves needs fewer instructions than to join them first.
    let [low, high] = halves(stamp.ticks);
    let (delta, borrowed) = low.overflowing_sub(slot.last_low.load(Ordering::Relaxed));
    let carried = high != slot.last_high.load(Ordering::Relaxed);
    if carried || borrowed {
        return turn(slot, word, stamp.ticks, stamp.cpu);
    }
    slot.last_low.store(low, Ordering::Relaxed);
    // SAFETY: at the end of a chunk `last_high` is NO_HIGH. Elsewhere at least 8 bytes are left.
    let after = unsafe { commit(slot, cursor, [record::function(word, delta)]) };
    release(slot, after, stamp.cpu);
}

/// Makes a function record without a time of its own. Its delta is 0, so its time is the time of the record
/// before it.
///
/// Returns false if the record can't follow the last one in this way. It also returns false if the slot is busy, or
/// if calls of the slot wait to be published. Then nothing was changed that a reader sees, and the caller makes the
/// record by `write`, with a stamp.
#[inline(always)]
pub(crate) fn write_untimed(slot: &Slot, word: u32) -> bool {
    if open_calls::of_slot(slot).is_some() {
        return false;
    }
    let before = slot.cursor.load(Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cpu = slot.cpu.load(Ordering::Relaxed);
    // The slot is busy, has no record yet, or its last record has no known CPU.
    if cpu >= BUSY {
        return false;
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let cursor = slot.cursor.load(Ordering::Relaxed);
    // A handler has recorded since the CPU was loaded, perhaps on another CPU. The next record must name its
    // CPU.
    let interrupted = cursor != before;
    if interrupted || slot.last_high.load(Ordering::Relaxed) == NO_HIGH {
        compiler_fence(Ordering::SeqCst);
        let cpu = if interrupted { NO_CPU } else { cpu };
        slot.cpu.store(cpu, Ordering::Relaxed);
        return false;
    }
    // SAFETY: at the end of a chunk `last_high` is NO_HIGH. Elsewhere at least 8 bytes are left.
    let after = unsafe { commit(slot, cursor, [record::function(word, 0)]) };
    release(slot, after, cpu);
    true
}

/// The edge of a call in a slot that has open calls.
#[cold]
#[inline(never)]
fn edge(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    if claim::is_unnoticed_child() {
        write_in(claim::slot_of_unnoticed_child(stamp.cpu), word);
    } else if slot.cpu.load(Ordering::Relaxed) == BUSY {
        write_in(claim::busy(stamp.cpu), word);
    } else {
        open_calls::edge(slot, calls, word, stamp);
    }
}

/// Makes the record in the slot that was found for it, if one was.
fn write_in(slot: Option<&Slot>, word: u32) {
    if let Some(slot) = slot {
        write(slot, word, now());
    }
}

/// A record on another CPU than the last one, the first record of a slot, or a record that finds the slot busy.
#[cold]
#[inline(never)]
fn moved(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    let before = slot.cpu.load(Ordering::Relaxed);
    if claim::is_unnoticed_child() {
        write_in(claim::slot_of_unnoticed_child(cpu), word);
    } else if before == BUSY {
        write_in(claim::busy(cpu), word);
    } else {
        slot.cpu.store(BUSY, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        finish(slot, word, Stamp { ticks, cpu }, before);
    }
}

/// A record on the same CPU that is uncommon. It is the first record of a chunk, the upper half of the clock
/// changed, much time passed, or the clock went back.
#[cold]
#[inline(never)]
fn turn(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    if claim::is_unnoticed_child() {
        // The slot belongs to the parent, which must find it free.
        slot.cpu.store(cpu, Ordering::Relaxed);
        return write_in(claim::slot_of_unnoticed_child(cpu), word);
    }
    finish(slot, word, Stamp { ticks, cpu }, cpu);
}

/// Makes or drops an uncommon record and releases the slot. `before` is the CPU of the last record.
fn finish(slot: &Slot, word: u32, stamp: Stamp, before: u32) {
    let after = make(slot, word, stamp, before, None);
    if after.is_none() {
        add_dropped(slot);
    }
    // Without a cursor the slot has stopped. It is released like a slot whose chunk is full.
    release(slot, after.unwrap_or(0), stamp.cpu);
}

/// Writes a note at `stamp`. The note stands behind a record with its tick, so the next record counts from there. The
/// entries of all open calls come before it.
#[cold]
#[inline(never)]
pub(crate) fn note(slot: &Slot, note: &Note<'_>, stamp: Stamp) {
    if claim::is_unnoticed_child() {
        return note_in(claim::slot_of_unnoticed_child(stamp.cpu), note);
    }
    let before = slot.cpu.load(Ordering::Relaxed);
    if before == BUSY {
        return note_in(claim::busy(stamp.cpu), note);
    }
    if note.length() > MAX_NOTE {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let after = match open_calls::of_slot(slot) {
        None => make_note(slot, note, stamp, before),
        Some(calls) => {
            let before = open_calls::before_note(slot, calls, stamp);
            make_note(slot, note, stamp, before)
        }
    };
    if after.is_none() {
        add_dropped(slot);
    }
    // As in `finish`.
    release(slot, after.unwrap_or(0), stamp.cpu);
}

/// Writes the note in the slot that was found for it, if one was.
fn note_in(slot: Option<&Slot>, pending: &Note<'_>) {
    if let Some(slot) = slot {
        note(slot, pending, now());
    }
}
