//! The locks that a thread reads, because a raw lock has no guard that would remember whether its reader is counted.

use core::cell::Cell;

use fdr::sync::raw::SharedWatch;

/// So many locks of a thread are remembered. A thread that reads more locks at once is no known holder of the others.
const MAX: usize = 16;

/// A lock by its address, and what its reader has to give back. The address is 0 in a free place.
type Read = Cell<(usize, u64)>;

thread_local! {
    static READ: [Read; MAX] = const { [const { Cell::new((0, 0)) }; MAX] };
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
