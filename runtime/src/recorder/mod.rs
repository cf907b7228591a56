//! THE HOT PATH: from a traced function's edge to a record in the thread's region.
//!
//! Everything in here is async-signal-safe and allocation-free, takes no lock and never panics. Of
//! std it uses `thread_local!` alone, with a constant and no destructor, where nothing leaner is to
//! be had. It must never know about files, names or configuration.

mod claim;
pub(crate) mod record;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stub;
mod tls;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::clock::{self, Kind};
use crate::ring::Ring;
use crate::ring::layout::Slot;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use stub::{call, clock_bit, prepare};

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

/// Records one edge: `word` is id << 4 for an entry, `| EXIT` for an exit. Async-signal-safe.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(never)]
pub(crate) extern "C" fn call(word: u32) {
    let kind = Kind::from_raw(CLOCK.load(Ordering::Relaxed));
    writer::write(tls::get(), word, clock::read(kind));
}

/// Nothing is to be prepared.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn prepare() {}

/// A site's word is id and action, and nothing else.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) fn clock_bit() -> u32 {
    0
}

/// What `stub` leaves to do: a record with a stamp, of whatever kind.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_at(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    writer::write(slot, word & !stub::OTHER_CLOCK, clock::Stamp { ticks, cpu });
}

/// The same, for clocks that `stub` does not read.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_slowly(slot: &Slot, word: u32) {
    let kind = Kind::from_raw(CLOCK.load(Ordering::Relaxed));
    writer::write(slot, word & !stub::OTHER_CLOCK, clock::read(kind));
}
