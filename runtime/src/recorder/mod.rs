//! THE HOT PATH: from a traced function's edge to a record in the thread's region.
//!
//! Everything in here is async-signal-safe and allocation-free, takes no lock and never panics. Of
//! std it uses `thread_local!` alone, with a constant and no destructor, where nothing leaner is to
//! be had. It must never know about files, names or configuration.

mod claim;
pub(crate) mod record;
mod tls;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::clock::{self, Kind};
use crate::ring::Ring;
use crate::ring::layout::Slot;

pub(crate) use claim::{
    forget, homeless, host, on_thread_end, on_thread_end_of_guest, ring, serve, slot_of_this_thread,
};

/// Action bits of an exit record.
pub(crate) const EXIT: u32 = 1 << 1;

/// The ring that threads claim their slots from; null while there is none.
pub(crate) static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// The clock of every record, `clock::Kind` as a number. Set before the first site is on.
pub(crate) static CLOCK: AtomicU32 = AtomicU32::new(Kind::Monotonic as u32);

/// What a thread has before its first record: busy for good, so that the first record, like one
/// of an interrupted thread, leaves the hot path at its first branch.
static UNCLAIMED: Slot = busy_slot();

/// What a thread has at its very end, when its slot is given back.
static GONE: Slot = busy_slot();

const fn busy_slot() -> Slot {
    Slot {
        cursor: AtomicU64::new(0),
        last_low: AtomicU32::new(0),
        last_high: AtomicU32::new(0),
        cpu: AtomicU32::new(writer::BUSY),
        full: AtomicU32::new(0),
        base: AtomicU64::new(0),
        chunks: AtomicU64::new(0),
        chunk: AtomicU64::new(0),
        metadata: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        clock_steps: AtomicU64::new(0),
        state: AtomicU32::new(0),
        tid: AtomicU32::new(0),
        generation: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        name: [AtomicU64::new(0), AtomicU64::new(0)],
    }
}

/// Records one edge: `word` is id << 4 for an entry, `| EXIT` for an exit.
///
/// Out of line and shared by all sites: the clock hides the call, and a traced function stays
/// small. Async-signal-safe.
#[inline(never)]
pub(crate) extern "C" fn record(word: u32) {
    // Before the clock: in a shared library this may be a call, and little is alive yet.
    let slot = tls::get();
    let kind = Kind::from_raw(CLOCK.load(Ordering::Relaxed));
    if clock::is_call(kind) {
        return record_slowly(slot, word, kind);
    }
    writer::write(slot, word, clock::read(kind));
}

/// [`record`] with a clock that is a call: apart, so that the other clocks save no registers.
/// Async-signal-safe.
#[cold]
#[inline(never)]
fn record_slowly(slot: &Slot, word: u32, kind: Kind) {
    writer::write(slot, word, clock::read(kind));
}
