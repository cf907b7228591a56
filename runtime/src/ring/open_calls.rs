//! A slot's open calls, as readers find them beside their writer: the protocol at the head of
//! `recorder::open_calls`. Async-signal-safe. This file must never follow an address that the slot does not have.

use super::chunk::at_address;
use super::layout::{OpenCalls, Slot};
use crate::primitive::{AtomicU64, Ordering, fence};

/// Bytes of a copy.
pub(crate) const SIZE: usize = size_of::<OpenCalls>();

/// The slot's open calls. `None` as long as each of its calls leaves its records.
#[inline(always)]
pub(crate) fn of(slot: &Slot) -> Option<&'static OpenCalls> {
    let address = slot.open_calls.load(Ordering::Relaxed);
    // SAFETY: `recorder::open_calls` stored the address of the slot's own open calls. They are in the ring's
    // mapping, which is never unmapped, and consist of atomics.
    (address != 0).then(|| unsafe { &*at_address::<OpenCalls>(address) })
}

/// Copies the open calls. Some of them may change meanwhile.
pub(crate) fn copy(calls: &OpenCalls, to: &mut [u8]) {
    let words = core::ptr::from_ref(calls).cast::<u64>().cast_mut();
    for (at, bytes) in to.chunks_exact_mut(8).take(SIZE / 8).enumerate() {
        // SAFETY: a word of the open calls. Their owner uses atomic stores.
        let word = unsafe { AtomicU64::from_ptr(words.add(at)) };
        bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_ne_bytes());
    }
    // Acquire: pairs with the Release of `depth`. What is read next is not older than the copy.
    fence(Ordering::Acquire);
}

/// Calls that left no records, and open calls without an entry record. Async-signal-safe.
pub(crate) fn without_records(slot: &Slot) -> (u64, u64) {
    let Some(calls) = of(slot) else {
        return (0, 0);
    };
    let depth = calls.depth.load(Ordering::Acquire);
    let published = calls.published.load(Ordering::Relaxed);
    let summarised = calls.summarised.load(Ordering::Relaxed);
    (summarised, depth.saturating_sub(published).into())
}
