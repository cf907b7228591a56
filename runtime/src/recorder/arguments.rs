//! Arguments and results of calls: notes that belong to the innermost open call. They have the time of the thread's last
//! record, so no clock is read for them. Async-signal-safe. This file must never look at the fields of a note.
//!
//! If the entry of the call has a record in the ring, the note is written behind it. Otherwise the call may turn out to
//! be short, and must leave no records then. So the note waits beside the call's frame (`ring::arguments`). When the
//! call is published, its notes are published with its entry, in one step. Readers of a ring find the notes that wait.

use super::note::{MAX_NOTE, Note};
use super::{chunk_writer, claim, open_calls};
use crate::clock::Stamp;
use crate::primitive::{Ordering, compiler_fence};
use crate::ring::counts::last_ticks;
use crate::ring::layout::{BUSY, OpenCalls, Slot};

/// Writes a note of the innermost open call, or keeps it until the call is published. Writes nothing if that call has
/// no entry. `now` reads the clock.
#[cold]
#[inline(never)]
pub(super) fn write(slot: &Slot, note: &Note<'_>, now: fn() -> Stamp) {
    if claim::is_unnoticed_child() {
        return again(claim::slot_of_unnoticed_child(now().cpu), note, now);
    }
    let before = slot.cpu.load(Ordering::Relaxed);
    if before == BUSY {
        return again(claim::busy(now().cpu), note, now);
    }
    if note.length() > MAX_NOTE {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
        return;
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let after = match open_calls::of_slot(slot) {
        None => write_now(slot, note, before, &now),
        Some(calls) => match place_of(slot, calls, note) {
            // The entry of the call was the last record, or a later one was. So its CPU is known.
            NotePlace::Behind => write_now(slot, note, calls.cpu.load(Ordering::Relaxed), &now),
            NotePlace::Waits | NotePlace::Nowhere => Some(slot.cursor.load(Ordering::Relaxed)),
        },
    };
    if after.is_none() {
        chunk_writer::add_dropped(slot);
    }
    let cursor = match chunk_writer::has_stopped(slot) {
        true => 0,
        false => after.unwrap_or(0),
    };
    chunk_writer::release(slot, cursor, before);
}

/// Writes it in the slot that was found for it, if one was.
fn again(slot: Option<&Slot>, note: &Note<'_>, now: fn() -> Stamp) {
    if let Some(slot) = slot {
        write(slot, note, now);
    }
}

/// Writes it at the time and on the CPU of the last record. `before` is that CPU.
fn write_now(slot: &Slot, note: &Note<'_>, before: u32, now: &dyn Fn() -> Stamp) -> Option<u64> {
    let stamp = match before > BUSY {
        // The CPU is not known.
        true => now(),
        false => Stamp {
            ticks: last_ticks(slot),
            cpu: before,
        },
    };
    chunk_writer::make_note(slot, note, stamp, before)
}

/// Where a note goes.
enum NotePlace {
    /// Behind the last record.
    Behind,
    /// It waits, and was put there.
    Waits,
    /// It is of no open call.
    Nowhere,
}

fn place_of(slot: &Slot, calls: &OpenCalls, note: &Note<'_>) -> NotePlace {
    if calls.deeper.load(Ordering::Relaxed) > 0 {
        return NotePlace::Behind;
    }
    let (depth, published) = calls.open();
    let frame = calls.frames.get(depth).filter(|_| depth > 0);
    let is_of_it = |word: u32| Some(word >> 4) == note.first_number();
    let Some(frame) = frame.filter(|frame| is_of_it(frame.word.load(Ordering::Relaxed))) else {
        return NotePlace::Nowhere;
    };
    if published >= depth {
        return NotePlace::Behind;
    }
    if calls.keep_arguments(depth, frame, note.body()) {
        return NotePlace::Waits;
    }
    open_calls::publish_open(slot, calls);
    NotePlace::Behind
}
