//! The places of a slot's chunks and marks, and reading a chunk beside its writer. This file must never touch a
//! chunk that was not opened. Such a chunk may have no space, and touching it would allocate space or raise
//! SIGBUS. Async-signal-safe.

use super::layout::{CHUNK, ChunkMark, Slot};
use super::record;
use crate::primitive::{AtomicU64, Ordering};

/// From this chunk on a thread is active: it makes many records. Chunks then get their space, and their memory,
/// before the thread reaches them.
pub(crate) const ACTIVE: u64 = 2;

/// How many chunks are made ready for an active thread: its opened chunks times this factor.
const AHEAD: u64 = 4;

/// How many chunks are to be ready for a thread that has reached the chunk `number`. The second chunk is ready before a
/// thread is active: many threads that begin together would otherwise wait for the disk and for each other there.
pub(crate) fn target(number: u64) -> u64 {
    if number < ACTIVE {
        ACTIVE
    } else {
        number.saturating_mul(AHEAD)
    }
}

/// Whether the dumper is to make more chunks ready when the chunk `number` is opened, in a region of `chunks`
/// chunks. This is so at the second, fourth and eighth chunk and so on, up to half of the chunks.
pub(crate) fn wants_more(number: u64, chunks: u64) -> bool {
    number.is_power_of_two() && (ACTIVE..=chunks / 2).contains(&number)
}

/// The place of one chunk. A caller computes it once for all work on the chunk, because the slot may get a new
/// owner. The new owner may use another number of chunks. A mark and bytes that were found with two different
/// numbers do not belong together.
#[derive(Clone, Copy)]
pub(crate) struct ChunkPlace<'a> {
    /// The address of the chunk.
    pub(crate) start: u64,
    pub(crate) mark: &'a ChunkMark,
}

/// The place of the chunk `number`, counted from 1.
pub(crate) fn place(slot: &Slot, number: u64) -> ChunkPlace<'_> {
    let chunks = slot.chunks.load(Ordering::Relaxed).max(1);
    // A slot of zeros has no number. Then another program has cut the file at this moment.
    let index = number.wrapping_sub(1) % chunks;
    let marks = (core::ptr::from_ref(slot).addr() + size_of::<Slot>()) as u64;
    // SAFETY: the marks follow the slot in the same mapping, one for each chunk of the region (`ring::layout`).
    // At most that many chunks are in use. The mapping's pointer was exposed, and the mapping stays for the
    // life of the process.
    let mark = unsafe { &*at_address::<ChunkMark>(marks).add(index as usize) };
    ChunkPlace {
        start: slot.base.load(Ordering::Relaxed) + index * CHUNK as u64,
        mark,
    }
}

/// Copies bytes of an opened chunk from the offset `from` on, which is a multiple of 8. It copies as many bytes
/// as `target` has, at most to the end of the chunk. A writer may overwrite the bytes meanwhile, so the caller
/// then checks the chunk's number.
pub(crate) fn copy(place: ChunkPlace<'_>, from: usize, target: &mut [u8]) {
    let words = target.chunks_exact_mut(8);
    for (at, bytes) in (from / 8..CHUNK / 8).zip(words) {
        // SAFETY: the chunk lies in the ring's mapping, which is never unmapped. Writers use atomic stores.
        // `stub` stores 4 bytes at a time, so a word that is being written may be read half old, half new.
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(place.start).add(at)) };
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
}

/// Function records in the first `used` bytes of an opened chunk. The caller then checks the chunk's number, as
/// for [`copy`].
pub(crate) fn count_records(place: ChunkPlace<'_>, used: usize) -> u64 {
    let (mut at, mut count) = (0, 0);
    while at < used.min(CHUNK) / 8 {
        // SAFETY: as in `copy`.
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(place.start).add(at)) };
        let word = word.load(Ordering::Relaxed);
        count += u64::from(word & 1 == 0);
        at += record::words(word);
    }
    count
}

/// A pointer to an address in the ring. Cursors are addresses, because a reader in another process must follow
/// them.
pub(crate) fn at_address<T>(address: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address as usize)
}
