//! A slot that stays busy because a handler interrupted a record and then left by a jump (`siglongjmp`), so the record
//! never ends. The thread's next edge frees the slot.
//!
//! A record that is still being made lies below a handler on the same stack. So the slot is freed only if the thread is
//! on its own stack, and no handler runs there. Otherwise the interrupted record could continue, and would overwrite
//! later ones.
//!
//! The interrupted record may have stopped at any instruction. At each of them, the words that a reader needs are
//! right, as after a kill. This file repairs the words that only the writer needs.

use core::cell::Cell;

use super::{CLAIMING, UNCLAIMED, chunk_writer, claim, process_ring, tls};
use crate::primitive::Ordering;
use crate::ring::layout::{BUSY, CHUNK, NO_CPU, Slot};
use crate::ring::record::{PREAMBLE, SINGLE};
use crate::ring::{chunk, open_calls};
use crate::sys;

/// A handler that makes many records looks for its own frame at least once in SELDOM records.
const SELDOM: u64 = 1024;

thread_local! {
    /// The slot's cursor at the last look, the number of dropped records at the next one, and the distance to that.
    static LOOKS: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

/// Frees the slot if a jump left it busy. `frame` is an address in the frame of the present edge: its caller's frames lie
/// above it. Async-signal-safe.
#[inline(always)]
pub(super) fn free(slot: &Slot, frame: usize) {
    if slot.cpu.load(Ordering::Relaxed) == BUSY {
        look(slot, frame);
    }
}

#[cold]
#[inline(never)]
fn look(slot: &Slot, frame: usize) {
    let is_claiming = core::ptr::eq(slot, &raw const CLAIMING);
    let is_ours = || process_ring::ring().is_some_and(|ring| ring.has(slot));
    if !(is_claiming || is_ours()) || claim::is_unnoticed_child() || !is_due(slot) {
        return;
    }
    let errno = sys::errno();
    if !sys::stack::may_have_handler(frame) {
        LOOKS.set([0; 3]);
        if is_claiming {
            // The slot that the thread was about to get stays unused.
            tls::replace(&CLAIMING, &UNCLAIMED);
        } else {
            // A handler that interrupts from here on finds either a busy slot or a repaired one.
            sys::signal::undisturbed(|| {
                if slot.cpu.load(Ordering::Relaxed) == BUSY {
                    repair(slot);
                }
            });
        }
    }
    sys::set_errno(errno);
}

/// Whether to look for a handler's frame at this record. While a handler runs, the slot is busy for all of its records.
fn is_due(slot: &Slot) -> bool {
    let (cursor, dropped) = (
        slot.cursor.load(Ordering::Relaxed),
        slot.dropped.load(Ordering::Relaxed),
    );
    let [seen, next, distance] = LOOKS.get();
    let distance = match seen == cursor {
        true if dropped < next => return false,
        true => (2 * distance).clamp(1, SELDOM),
        false => 1,
    };
    LOOKS.set([cursor, dropped + distance, distance]);
    true
}

/// Makes the slot ready for the next record, which names its CPU and its time.
pub(super) fn repair(slot: &Slot) {
    let chunks = slot.chunks.load(Ordering::Relaxed);
    let number = slot.chunk.load(Ordering::Relaxed);
    // With a single chunk, the new chunk has the place of the old one.
    if chunks < 2 {
        return;
    }
    let cursor = slot.cursor.load(Ordering::Relaxed);
    if let Some(calls) = open_calls::of_slot(slot) {
        calls.settle(cursor);
        calls.cpu.store(NO_CPU, Ordering::Relaxed);
    }
    let start = |number| chunk::place(slot, number).start;
    let next = number + 1;
    if number > 0 && (1..=CHUNK as u64).contains(&cursor.wrapping_sub(start(number))) {
        let used = cursor.wrapping_sub(start(number));
        let records = chunk::count_records(chunk::place(slot, number), used as usize);
        slot.metadata
            .store(used - SINGLE * records, Ordering::Relaxed);
    } else if cursor == start(next) + PREAMBLE {
        // The next chunk has its mark and its preamble, but for its number.
        slot.metadata.store(PREAMBLE, Ordering::Relaxed);
        // Release, both: as in `chunk_writer::open_chunk`.
        let mark = chunk::place(slot, next).mark;
        mark.number.store(next, Ordering::Release);
        slot.chunk.store(next, Ordering::Release);
    }
    chunk_writer::release(slot, cursor, NO_CPU);
}
