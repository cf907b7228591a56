//! The calls of a thread that makes more calls than its ring can hold for `FDR_KEEP`. A call that is shorter than
//! the thread's threshold leaves no records. It is counted in the call around it, and a summary record says how
//! many such calls there were and how much time they took. Every function in this file is async-signal-safe.
//!
//! A published record never changes. So the record of an entry is not published at once. It waits in the thread's
//! [`OpenCalls`] until the call, or a call inside it, has lasted as long as the threshold. Then it is published with
//! the time of the entry. The published calls are always the outermost ones.
//!
//! The protocol with readers (`ring::open_calls`). One store ends a short call: it takes the call from the open calls,
//! and counts it. A record that is published for a frame changes both the cursor and the frames. So the thread first
//! stores the state that the frames will have when the cursor has its new value ([`OpenCalls::will_be`]). Readers copy
//! the cursor and the frames again until both belong to the same moment. Then they copy the records before that cursor.
//!
//! The protocol with signal handlers is that of [`writer`](super::writer): the slot is busy during each edge.
//!
//! The threshold begins at 0, and each edge is published at once. [`adjust`] raises the threshold when the ring is
//! full and holds less time than it should.
//!
//! Each call that ends is counted in the row of its function (`ring::totals`), however long it was. So the totals
//! are exact for all of the thread's life.

use super::note::Note;
use super::{EXIT, chunk_writer, claim, now, tls};
use crate::clock::Stamp;
use crate::primitive::{AtomicU64, Ordering, compiler_fence, fence};
use crate::ring::layout::{BUSY, FRAMES, Frame, OpenCalls, Row, Slot};
pub(super) use crate::ring::open_calls::of_slot;
use crate::ring::totals;
use fdr_formats::notes::NoteKind;
use fdr_formats::xray::payload::{MAX_CALLS, MAX_TICKS};

/// Making the records of a call takes fewer ticks than this. If it took longer, the thread was preempted meanwhile. The
/// time of a preemption counts for the caller, as it does everywhere else.
pub(super) const PREEMPTED: u64 = 1 << 20;

/// Notes the edge of a call. The slot is free. `stub` does the same for a call that is shorter than the threshold.
#[inline(always)]
pub(super) fn edge(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    if word & EXIT == 0 {
        enter(slot, calls, word, stamp);
    } else {
        exit(slot, calls, word, stamp);
    }
    // `stub` relies on the change of the slot that `release` makes at the end of a chunk.
    let cursor = match chunk_writer::has_stopped(slot) {
        true => 0,
        false => slot.cursor.load(Ordering::Relaxed),
    };
    chunk_writer::release(slot, cursor, stamp.cpu);
}

fn enter(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let (depth, published) = calls.open();
    let Some(frame) = calls.frames.get(depth + 1) else {
        publish_open(slot, calls);
        publish(slot, calls, word, stamp);
        let deeper = calls.deeper.load(Ordering::Relaxed);
        calls.deeper.store(deeper + 1, Ordering::Relaxed);
        return;
    };
    // Release: pairs with the Acquire of `ring::open_calls::copy`. A reader that finds the new call in the frame sees
    // that the former one has ended.
    fence(Ordering::Release);
    frame.word.store(word, Ordering::Relaxed);
    frame.cpu.store(stamp.cpu, Ordering::Relaxed);
    frame.ticks.store(stamp.ticks, Ordering::Relaxed);
    frame.short_calls.store(0, Ordering::Relaxed);
    frame.short_ticks.store(0, Ordering::Relaxed);
    frame.inside.store(0, Ordering::Relaxed);
    if calls.threshold.load(Ordering::Relaxed) == 0 && published == depth {
        publish(slot, calls, word, stamp);
        calls.set_open(depth + 1, depth + 1);
    } else {
        calls.set_open(depth + 1, published);
    }
}

fn exit(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let deeper = calls.deeper.load(Ordering::Relaxed);
    if deeper > 0 {
        calls.deeper.store(deeper - 1, Ordering::Relaxed);
        if let Some(row) = row_of(calls, word, 0) {
            totals::count_untimed(row);
        }
        return publish(slot, calls, word, stamp);
    }
    let depth = depth(calls);
    let Some(at) = find(calls, depth, word) else {
        // Its entry was dropped.
        publish_open(slot, calls);
        return publish(slot, calls, word, stamp);
    };
    let (Some(frame), Some(around)) = (calls.frames.get(at), calls.frames.get(at - 1)) else {
        return;
    };
    let ticks = stamp
        .ticks
        .saturating_sub(frame.ticks.load(Ordering::Relaxed));
    let (_, published) = calls.open();
    let is_published = at <= published;
    let is_short = ticks < calls.threshold.load(Ordering::Relaxed);
    let ends_short = at == depth && !is_published && is_short;
    // The caller's self time is to be as if the call had left its records.
    let beside = match ends_short {
        true => calls.beside.load(Ordering::Relaxed),
        false => 0,
    };
    add(&around.inside, ticks + beside);
    if let Some(row) = row_of(calls, word, ticks) {
        look_for_nesting(row, calls, at);
        totals::count(row, ticks, frame.inside.load(Ordering::Relaxed));
    }
    if ends_short {
        let inside = frame.short_calls.load(Ordering::Relaxed);
        // This one step ends the call, for every reader and after a kill. Until the next steps, its time counts as the
        // caller's.
        calls.end_short();
        // Release: pairs with the Acquire of `ring::open_calls::copy`, and so below.
        fence(Ordering::Release);
        add(&around.short_calls, inside + 1);
        add(&around.short_ticks, ticks + beside);
    } else {
        // Calls inside may have no exits, because a `longjmp` left them. Their entries are published, so readers see
        // these calls.
        publish_open(slot, calls);
        summarise(slot, calls, depth, stamp);
        publish(slot, calls, word, stamp);
        calls.set_open(at - 1, at - 1);
        leave_out(calls, around, stamp);
    }
}

/// Takes the time that the recorder has needed since `stamp`, for the records of a call and of its callers, out of the
/// caller's self time. While there is a threshold, most calls leave no records, so this time would be a large part of
/// the self time.
fn leave_out(calls: &OpenCalls, around: &Frame, stamp: Stamp) {
    if calls.threshold.load(Ordering::Relaxed) == 0 {
        return;
    }
    let taken = now().ticks.saturating_sub(stamp.ticks);
    if taken < PREEMPTED {
        add(&around.inside, taken);
    }
}

/// Publishes the entries of all open calls, and a summary of the short calls inside the innermost one, because a note
/// follows. The slot is busy. Returns the CPU of the last record, and stores the CPU of `stamp` in its place.
pub(super) fn before_note(slot: &Slot, calls: &OpenCalls, stamp: Stamp) -> u32 {
    publish_open(slot, calls);
    summarise(slot, calls, depth(calls), stamp);
    let before = calls.cpu.load(Ordering::Relaxed);
    calls.cpu.store(stamp.cpu, Ordering::Relaxed);
    before
}

/// Counts a call of a function whose calls are only counted. Its exit does nothing.
#[cold]
#[inline(never)]
pub(super) fn count(slot: &'static Slot, word: u32, cpu: u32) {
    if word & EXIT != 0 {
        return;
    }
    if claim::is_unnoticed_child() {
        return count_in(claim::slot_of_unnoticed_child(cpu), word);
    }
    let Some(calls) = of_slot(slot) else {
        // Without totals, both the entry and the exit are dropped.
        match tls::is_real(slot) {
            true => slot.dropped.fetch_add(2, Ordering::Relaxed),
            false => return count_in(claim::busy(cpu), word),
        };
        return;
    };
    let Some(totals) = totals::at(calls.totals.load(Ordering::Relaxed)) else {
        return;
    };
    let before = slot.cpu.load(Ordering::Relaxed);
    if before == BUSY {
        // This is a handler, and the thread may be about to begin a row.
        return totals::count_untimed(totals::existing_row_of(totals, word >> 4));
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let more = || claim::extend_totals(totals);
    totals::count_untimed(totals::row_of(totals, word >> 4, 0, more));
    compiler_fence(Ordering::SeqCst);
    slot.cpu.store(before, Ordering::Relaxed);
}

/// Counts the call in the slot that was found for it, if one was.
fn count_in(slot: Option<&'static Slot>, word: u32) {
    if let Some(slot) = slot {
        count(slot, word, now().cpu);
    }
}

/// The row of the function that `word` leaves.
fn row_of(calls: &OpenCalls, word: u32, ticks: u64) -> Option<&Row> {
    let totals = totals::at(calls.totals.load(Ordering::Relaxed))?;
    let more = || claim::extend_totals(totals);
    Some(totals::row_of(totals, word >> 4, ticks, more))
}

/// Notes that the function of the frame `at` is recursive. The totals of a recursive function count the same time
/// twice; only its outermost calls should count. To look at each exit costs too much. So this function looks when the
/// first call ends, which is the innermost call of a recursion, and then ever more rarely.
fn look_for_nesting(row: &Row, calls: &OpenCalls, at: usize) {
    let (_, counted, _) = totals::calls(row);
    if counted & counted.wrapping_sub(1) != 0 || row.nests.load(Ordering::Relaxed) != 0 {
        return;
    }
    let word = |frame: &Frame| frame.word.load(Ordering::Relaxed);
    let own = calls.frames.get(at).map(word);
    let around = calls.frames.get(1..at).unwrap_or_default();
    if around.iter().any(|frame| Some(word(frame)) == own) {
        row.nests.store(1, Ordering::Relaxed);
    }
}

/// The index of the innermost open call of the function that `word` leaves.
fn find(calls: &OpenCalls, depth: usize, word: u32) -> Option<usize> {
    let open = calls.frames.get(1..=depth)?;
    let is = |frame: &Frame| frame.word.load(Ordering::Relaxed) == word & !EXIT;
    open.iter().rposition(is).map(|at| at + 1)
}

fn depth(calls: &OpenCalls) -> usize {
    calls.open().0.min(FRAMES - 1)
}

/// Publishes the entries of all open calls with their arguments, and the summaries between them.
pub(super) fn publish_open(slot: &Slot, calls: &OpenCalls) {
    let (open, published) = calls.open();
    let has_arguments = calls.has_arguments();
    for at in published + 1..=depth(calls) {
        let Some(frame) = calls.frames.get(at) else {
            return;
        };
        let stamp = Stamp {
            ticks: frame.ticks.load(Ordering::Relaxed),
            cpu: frame.cpu.load(Ordering::Relaxed),
        };
        summarise(slot, calls, at - 1, stamp);
        let short = frame.short_calls.load(Ordering::Relaxed);
        let ticks = frame.short_ticks.load(Ordering::Relaxed);
        calls.will_be(at, at, short, ticks);
        let word = frame.word.load(Ordering::Relaxed);
        let before = calls.cpu.load(Ordering::Relaxed);
        match has_arguments {
            false => chunk_writer::publish(slot, word, stamp, before, Some(&calls.publishing)),
            true => {
                let notes = calls.arguments_of(at, frame);
                let note = |body| Note::new(NoteKind::Arguments as u8, body);
                let notes = notes.into_iter().flatten().map(note);
                chunk_writer::publish_with(slot, word, stamp, before, &calls.publishing, notes);
            }
        }
        calls.cpu.store(stamp.cpu, Ordering::Relaxed);
        calls.set_open(open, at);
        calls.is_so();
    }
    if has_arguments {
        calls.forget_arguments();
    }
}

/// Publishes a summary of the short calls inside the call with that index.
fn summarise(slot: &Slot, calls: &OpenCalls, at: usize, stamp: Stamp) {
    let Some(frame) = calls.frames.get(at) else {
        return;
    };
    let mut count = frame.short_calls.load(Ordering::Relaxed);
    let mut ticks = frame.short_ticks.load(Ordering::Relaxed);
    if count == 0 {
        return;
    }
    let (_, published) = calls.open();
    // The fields of one record may be too small for both numbers.
    while count > 0 || ticks > 0 {
        let some = (count.min(MAX_CALLS), ticks.min(MAX_TICKS));
        (count, ticks) = (count - some.0, ticks - some.1);
        calls.will_be(published, at, count, ticks);
        match chunk_writer::summarise(slot, some, stamp, &calls.publishing) {
            None => (count, ticks) = (0, 0),
            Some(false) => {}
            Some(true) => calls.cpu.store(stamp.cpu, Ordering::Relaxed),
        }
        fence(Ordering::Release);
        frame.short_calls.store(count, Ordering::Relaxed);
        frame.short_ticks.store(ticks, Ordering::Relaxed);
        calls.is_so();
    }
}

fn publish(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let before = calls.cpu.load(Ordering::Relaxed);
    chunk_writer::publish(slot, word, stamp, before, None);
    calls.cpu.store(stamp.cpu, Ordering::Relaxed);
}

/// Only the owner writes the counts, so they need no locked instruction.
fn add(count: &AtomicU64, more: u64) {
    let sum = count.load(Ordering::Relaxed).wrapping_add(more);
    count.store(sum, Ordering::Relaxed);
}
