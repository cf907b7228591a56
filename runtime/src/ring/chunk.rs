//! Where a slot's chunks and their marks lie, and how a chunk is read beside its writer.
//! Async-signal-safe.

use super::layout::{CHUNK, ChunkMark, Slot};
use crate::primitive::{AtomicU64, Ordering};

/// A thread that has come to this chunk makes many records: the rest of its region is brought in before it
/// is there.
pub(crate) const LIVELY: u64 = 2;

/// Address of the chunk of that number, counted from 1.
pub(crate) fn chunk_start(slot: &Slot, number: u64) -> u64 {
    let chunks = slot.chunks.load(Ordering::Relaxed).max(1);
    slot.base.load(Ordering::Relaxed) + (number - 1) % chunks * CHUNK as u64
}

/// The mark of the chunk of that number, counted from 1.
pub(crate) fn mark(slot: &Slot, number: u64) -> &ChunkMark {
    let chunks = slot.chunks.load(Ordering::Relaxed).max(1);
    let index = ((number - 1) % chunks) as usize;
    let marks = core::ptr::from_ref(slot).addr() + size_of::<Slot>();
    // SAFETY: a slot is followed by as many marks as its region has chunks (`ring::layout`), in the
    // same mapping, whose pointer was exposed and which stays for the life of the process.
    unsafe { &*at_address::<ChunkMark>(marks as u64).add(index) }
}

/// Copies bytes of a chunk from `from` on (a multiple of 8), as many as `target` has, at most to its
/// end. What is overwritten meanwhile is a mixture: the caller checks the chunk's number afterwards.
pub(crate) fn copy(slot: &Slot, number: u64, from: usize, target: &mut [u8]) {
    let start = chunk_start(slot, number);
    let words = target.as_chunks_mut::<8>().0.iter_mut();
    for (at, bytes) in (from / 8..CHUNK / 8).zip(words) {
        // SAFETY: the chunk lies in the ring's mapping, which is never unmapped, and is written with
        // atomic stores (of 4 bytes by `stub`, so a word in the making may be read in part).
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(start).add(at)) };
        *bytes = word.load(Ordering::Relaxed).to_ne_bytes();
    }
}

/// Function records in the first bytes of a chunk, as many as are `used`. The caller checks the chunk's
/// number afterwards, as for [`copy`].
pub(crate) fn count_records(slot: &Slot, number: u64, used: usize) -> u64 {
    let start = chunk_start(slot, number);
    let (mut at, mut count) = (0, 0);
    while at < used.min(CHUNK) / 8 {
        // SAFETY: as in `copy`.
        let word = unsafe { AtomicU64::from_ptr(at_address::<u64>(start).add(at)) };
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
