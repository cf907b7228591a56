//! Where a slot's chunks and their marks lie, and how a chunk is read beside its writer. Must never look at
//! a chunk that was not opened: it may have no space, and to touch it would take some, or be SIGBUS.
//! Async-signal-safe.

use super::layout::{CHUNK, ChunkMark, Slot};
use crate::primitive::{AtomicU64, Ordering};

/// A thread that has come to this chunk makes many records: chunks get their space, and are brought in,
/// before it is there.
pub(crate) const LIVELY: u64 = 2;

/// How many times as many chunks as a lively thread has opened shall be ready for it.
const AHEAD: u64 = 4;

/// How many chunks shall be ready for a thread that has come to the chunk of that number.
pub(crate) fn wanted(number: u64) -> u64 {
    if number < LIVELY {
        1
    } else {
        number.saturating_mul(AHEAD)
    }
}

/// Whether more of a region of so many chunks is wanted when the chunk of that number is opened than before:
/// at the second, fourth, eighth one and so on, up to the half of them.
pub(crate) fn wants_more(number: u64, chunks: u64) -> bool {
    number.is_power_of_two() && (LIVELY..=chunks / 2).contains(&number)
}

/// One chunk's place. Looked up once for all that is done with the chunk: a new owner of the slot may go
/// round in another number of chunks than the one before, and a mark of the one way must not be believed of a
/// chunk of the other.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    /// Its address.
    pub(crate) start: u64,
    pub(crate) mark: &'a ChunkMark,
}

/// The place of the chunk of that number, counted from 1.
pub(crate) fn place(slot: &Slot, number: u64) -> Place<'_> {
    let chunks = slot.chunks.load(Ordering::Relaxed).max(1);
    let index = (number - 1) % chunks;
    let marks = (core::ptr::from_ref(slot).addr() + size_of::<Slot>()) as u64;
    // SAFETY: a slot is followed by a mark for each chunk of its region, of which `chunks` are in use
    // (`ring::layout`), in the same mapping, whose pointer was exposed and which stays for the life of the
    // process.
    let mark = unsafe { &*at_address::<ChunkMark>(marks).add(index as usize) };
    Place {
        start: slot.base.load(Ordering::Relaxed) + index * CHUNK as u64,
        mark,
    }
}

/// Copies bytes of an opened chunk from `from` on (a multiple of 8), as many as `target` has, at most to its
/// end. What is overwritten meanwhile is a mixture: the caller checks the chunk's number afterwards.
pub(crate) fn copy(place: Place<'_>, from: usize, target: &mut [u8]) {
    let words = target.chunks_exact_mut(8);
    for (at, bytes) in (from / 8..CHUNK / 8).zip(words) {
        // SAFETY: the chunk lies in the ring's mapping, which is never unmapped, and is written with
        // atomic stores (of 4 bytes by `stub`, so a word in the making may be read in part).
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(place.start).add(at)) };
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
}

/// Function records in the first bytes of an opened chunk, as many as are `used`. The caller checks the
/// chunk's number afterwards, as for [`copy`].
pub(crate) fn count_records(place: Place<'_>, used: usize) -> u64 {
    let (mut at, mut count) = (0, 0);
    while at < used.min(CHUNK) / 8 {
        // SAFETY: as in `copy`.
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(place.start).add(at)) };
        let is_function = word.load(Ordering::Relaxed) & 1 == 0;
        count += u64::from(is_function);
        at += if is_function { 1 } else { 2 };
    }
    count
}

/// Cursors are addresses, so that a reader in another process can follow them.
pub(crate) fn at_address<T>(address: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address as usize)
}
