//! THE HOT PATH: from a traced function's edge to a record in the thread's region.
//!
//! Everything in here is async-signal-safe and allocation-free, takes no lock and never panics. Of
//! std it uses `thread_local!` alone, with a constant and no destructor, where nothing leaner is to
//! be had. It must never know about files, names or configuration.

mod claim;
pub(crate) mod process_ring;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stub;
mod tls;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use crate::clock::{self, Kind};
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::ring::Ring;
use crate::ring::layout::{self, Slot};
use crate::site::unit::Host;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use stub::{SLOT_ACCESS, call, call_untimed, entrance, entrance_untimed, prepare};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use tls::fixed_offset;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use plain::{
    SLOT_ACCESS, call, call_untimed, entrance, entrance_untimed, fixed_offset, prepare,
};

pub(crate) use claim::{on_thread_end, set_on_thread_begin};
pub(crate) use process_ring::ring;

/// Action bits of an exit record.
pub(crate) const EXIT: u32 = 1 << 1;

/// The ring that threads claim their slots from; null while there is none.
pub(crate) static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// The clock of every record, `clock::Kind` as a number. Set before the first site is on.
pub(crate) static CLOCK: AtomicU32 = AtomicU32::new(Kind::Monotonic as u32);

/// What a thread has before its first record: busy for good, so that the first record, like one
/// of an interrupted thread, leaves the hot path at its first branch.
static UNCLAIMED: Slot = busy_slot();

/// What a thread has while it takes its slot.
static CLAIMING: Slot = busy_slot();

/// What a thread has for which there was no room. It asks again when there is some.
static NO_ROOM: Slot = busy_slot();

/// What a thread has while it forks: the child must not write into the parent's slot.
static FORKING: Slot = busy_slot();

/// What a thread has at its very end, when its slot is given back.
static GONE: Slot = busy_slot();

const fn busy_slot() -> Slot {
    Slot {
        cursor: AtomicU64::new(0),
        last_low: AtomicU32::new(0),
        last_high: AtomicU32::new(0),
        cpu: AtomicU32::new(layout::BUSY),
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
        high: AtomicU32::new(0),
        given: AtomicU32::new(0),
    }
}

/// Where this copy is a guest: the host. Null otherwise.
static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

/// What the words of sites hold besides id and action.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bits {
    pub(crate) timed: u32,
    pub(crate) untimed: u32,
    /// Those of guests, besides one of these.
    pub(crate) guests: u32,
}

/// The host that makes this copy's records; `None` where it is none's guest. Async-signal-safe.
pub(crate) fn host() -> Option<&'static Host> {
    // Acquire: pairs with the Release in `set_host`.
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: a static of a unit that is never unloaded, see `shell::guest`.
    unsafe { host.as_ref() }
}

/// Makes this copy a guest: its records are made by `host` from now on.
pub(crate) fn set_host(host: &'static Host) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    stub::prepare_guest(host);
    HOST.store(core::ptr::from_ref(host).cast_mut(), Ordering::Release);
}

/// What `stub` leaves to do: a record with a stamp, of whatever kind.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_at(slot: &Slot, word: u32, ticks: u64, cpu: u32) {
    writer::write(slot, word & !stub::OTHER_WAY, clock::Stamp { ticks, cpu });
}

/// The same without a stamp: for clocks that `stub` does not read, and slots that it does not find.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_slowly(_slot: usize, word: u32) {
    record(word & !stub::OTHER_WAY);
}

/// A record without a time of its own that `stub` began in the thread's slot: it gets a time. It stays
/// there whatever a handler has done since: of a child that it forked, the slot is another one.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_interrupted(slot: &Slot, word: u32) {
    let kind = Kind::from_raw(CLOCK.load(Ordering::Relaxed));
    writer::write(slot, word & !stub::OTHER_WAY, clock::read(kind));
}

/// A record without a time of its own that `stub` leaves to do, of whatever kind.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_untimed(_slot: usize, word: u32) {
    untimed(word & !stub::OTHER_WAY);
}

/// A whole record without a time of its own. One that opens a chunk, and any other that is not like the
/// last, gets a time: who reads the chunk needs it. Async-signal-safe.
fn untimed(word: u32) {
    if !writer::write_untimed(tls::get(), word) {
        record(word);
    }
}

/// A whole record: clock, slot and all. Async-signal-safe.
fn record(word: u32) {
    let slot = tls::get();
    let kind = Kind::from_raw(CLOCK.load(Ordering::Relaxed));
    writer::write(slot, word, clock::read(kind));
}

/// Other architectures: no assembly, and the convention of C.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod plain {
    use super::{Bits, Kind, host, record, untimed};
    use crate::site::slot_access::SlotAccess;

    /// In the words of a guest's sites: its records are made elsewhere.
    const GUESTS_BIT: u32 = 1;

    /// Of this copy.
    pub(crate) static SLOT_ACCESS: SlotAccess = SlotAccess;

    /// Records one edge: `word` is id << 4 for an entry, `| EXIT` for an exit. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn call(word: u32) {
        if word & GUESTS_BIT == 0 {
            record(word);
        } else if let Some(host) = host() {
            // SAFETY: the entrance of a copy of the same version: `enter`.
            unsafe { enter_at((host.record)(), word) };
        }
    }

    /// The same without a time of its own. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn call_untimed(word: u32) {
        if word & GUESTS_BIT == 0 {
            untimed(word);
        } else if let Some(host) = host() {
            // SAFETY: the entrance of a copy of the same version: `enter_untimed`.
            unsafe { enter_at((host.record_untimed)(), word) };
        }
    }

    /// # Safety
    /// `entrance` is one of the two below, perhaps another copy's.
    unsafe fn enter_at(entrance: *mut (), word: u32) {
        // SAFETY: as the caller vouches.
        let enter = unsafe { core::mem::transmute::<*mut (), extern "C" fn(u32)>(entrance) };
        enter(word & !GUESTS_BIT);
    }

    extern "C" fn enter(word: u32) {
        record(word);
    }

    extern "C" fn enter_untimed(word: u32) {
        untimed(word);
    }

    /// Where a guest's records go.
    pub(crate) fn entrance() -> *mut () {
        enter as *mut ()
    }

    /// Where a guest's untimed records go.
    pub(crate) fn entrance_untimed() -> *mut () {
        enter_untimed as *mut ()
    }

    /// Of the slot's place: nothing is loaded by it.
    pub(crate) fn fixed_offset() -> Option<isize> {
        None
    }

    /// What the words of sites hold besides id and action.
    pub(crate) fn prepare(_: Kind, _slot: Option<isize>) -> Bits {
        Bits {
            timed: 0,
            untimed: 0,
            guests: GUESTS_BIT,
        }
    }
}
