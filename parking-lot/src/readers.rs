//! The locks that a thread reads. A raw lock has no guard, so this list remembers which readers are counted.

use core::cell::Cell;

use fdr::sync::raw::SharedWatch;

/// The number of locks that are remembered for a thread. If a thread reads more locks at once, it is not known as a
/// holder of the others.
const MAX_LOCKS: usize = 16;

/// A lock by its address, and the word of its reader, which [`SharedWatch::remove`] needs. The address is 0 in a free
/// place.
type Read = Cell<(usize, u64)>;

thread_local! {
    static READ: [Read; MAX_LOCKS] = const { [const { Cell::new((0, 0)) }; MAX_LOCKS] };
}

fn address(lock: &SharedWatch) -> usize {
    core::ptr::from_ref(lock).addr()
}

/// The calling thread reads the lock. With `send_guard` another thread may give it back, so no reader is counted.
#[cold]
#[inline(never)]
pub(crate) fn begin(lock: &SharedWatch) {
    if cfg!(feature = "send_guard") {
        return;
    }
    READ.with(|read| {
        if let Some(free) = read.iter().find(|place| place.get().0 == 0) {
            free.set((address(lock), lock.add()));
        }
    });
}

/// The calling thread reads the lock no longer. It may have taken the lock while recording was off.
#[cold]
#[inline(never)]
pub(crate) fn end(lock: &SharedWatch) {
    READ.with(|read| {
        let is_of = |place: &&Read| place.get().0 == address(lock);
        if let Some(place) = read.iter().rev().find(is_of) {
            let (_, reader) = place.replace((0, 0));
            lock.remove(reader);
        }
    });
}
