//! THE HOT PATH: from the edge of a traced function to a record in the thread's region.
//!
//! All code in this room is async-signal-safe. It allocates nothing, takes no lock and never panics. Where no
//! cheaper thread storage exists, it uses `thread_local!` with a constant and without a destructor. It uses
//! nothing else of std. It must never know of files, names or configuration.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `stub` | the common record, in assembly |
//! | `writer` | the edges of calls |
//! | `chunk_writer` | the bytes of records in chunks, and the cursor |
//! | `open_calls`, `threshold` | open calls, of which short ones leave no records; how long a call must last to leave records |
//! | `note`, `notes`, `arguments` | notes, as bytes of chunks; `fdr_formats::notes` has their kinds |
//! | `task`, `wait`, `watch` | tasks of async functions; waits of threads; calls that triggers watch |
//! | `tls`, `claim`, `left` | a thread's slot: its place, its beginning and end, and a slot that a jump left busy |
//! | `process_ring`, `left_rings` | the ring of this process, also after forks, and those that dead children left |
#![allow(unsafe_code)]

mod arguments;
mod chunk_writer;
mod claim;
mod left;
mod left_rings;
mod note;
mod notes;
pub(crate) mod open_calls;
pub(crate) mod process_ring;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod stub;
pub(crate) mod task;
mod threshold;
mod tls;
pub(crate) mod wait;
pub(crate) mod watch;
pub(crate) mod writer;

#[cfg(test)]
mod tests;

use crate::clock::{self, Kind};
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::ring::Ring;
use crate::ring::layout::{self, Slot};
use crate::site::COUNTED;
use crate::site::unit::Host;

#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use stub::{
    SLOT_ACCESS, call, call_entry, call_untimed, call_untimed_entry, entrance, entrance_untimed,
    prepare,
};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use tls::fixed_offset;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use plain::{
    SLOT_ACCESS, call, call_entry, call_untimed, call_untimed_entry, entrance, entrance_untimed,
    fixed_offset, prepare,
};

pub(crate) use claim::{on_thread_end, set_on_thread_begin};
pub(crate) use notes::{note, note_of_guest};
pub(crate) use process_ring::ring;
pub(crate) use threshold::{keep, keep_no_more};

/// Action bits of an exit record.
pub(crate) const EXIT: u32 = 1 << 1;

/// The ring that threads claim their slots from. Null while there is no ring.
pub(crate) static RING: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// The clock of every record: a `clock::Kind` as a number. It is set before the first site is on.
pub(crate) static CLOCK: AtomicU32 = AtomicU32::new(Kind::Monotonic as u32);

/// The slot of a thread before its first record. This slot is always busy. So the first record leaves the hot
/// path at its first branch, as a record of an interrupted thread does.
static UNCLAIMED: Slot = busy_slot();

/// The slot of a thread while it claims a real one.
static CLAIMING: Slot = busy_slot();

/// The slot of a thread that found no room. The thread asks again when there is room.
static NO_ROOM: Slot = busy_slot();

/// The slot of a thread while it forks, because the child must not write into the slot of its parent.
static FORKING: Slot = busy_slot();

/// The slot of a thread at its end, after it has given its real slot back.
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
        chunks_with_space: AtomicU32::new(0),
        open_calls: AtomicU64::new(0),
    }
}

/// The host, if this copy is a guest. Null otherwise.
static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

/// Bits of the words of sites, besides id and action.
#[derive(Clone, Copy, Default)]
pub(crate) struct Bits {
    pub(crate) timed: u32,
    pub(crate) untimed: u32,
    /// The bits of a timed site whose calls are only counted, beside [`COUNTED`].
    pub(crate) counted: u32,
    /// An additional bit of a guest's sites.
    pub(crate) guests: u32,
    /// Instead of `timed`, for watched functions.
    pub(crate) watched: u32,
}

/// The host that makes this copy's records. `None` if this copy is no guest. Async-signal-safe.
pub(crate) fn host() -> Option<&'static Host> {
    // Acquire: pairs with the Release in `set_host`.
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: a static of a unit that is never unloaded, see `shell::guest`.
    unsafe { host.as_ref() }
}

/// Makes this copy a guest. From now on `host` makes its records.
pub(crate) fn set_host(host: &'static Host) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    stub::prepare_guest(host);
    HOST.store(core::ptr::from_ref(host).cast_mut(), Ordering::Release);
}

/// Completes a record that `stub` does not make itself. The record has a stamp. `exit` is the word of the exit: a call
/// that is only counted has none.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_at(slot: &Slot, word: u32, ticks: u64, cpu: u32, exit: &mut u64) {
    left::free(slot, core::ptr::from_ref(exit).addr());
    match word & COUNTED {
        // The word of a watched function, where common records take another way. No code has seen it yet.
        0 if word & stub::OTHER_WAY == 0 && watch::is_watched(word) => {
            record(word | COUNTED);
        }
        0 => {
            let stamp = clock::Stamp { ticks, cpu };
            writer::write(slot, word & !stub::OTHER_WAY, stamp);
        }
        // Code that only counts reads no clock.
        _ => record_slowly(0, word, 0, 0, exit),
    }
}

/// Makes a whole record without a stamp. `stub` calls it if it can't read the clock or can't find the slot.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_slowly(_slot: usize, word: u32, _ticks: u64, _cpu: u32, exit: &mut u64) {
    left::free(tls::get(), core::ptr::from_ref(exit).addr());
    if word & COUNTED != 0 && !watch::is_watched(word) {
        *exit = 0;
    }
    record(word & !stub::OTHER_WAY);
}

/// Completes an untimed record that a signal handler interrupted in `stub`. The record gets a time. `slot` is
/// the slot in which `stub` began, because the handler may have forked. Then the thread's own slot is another
/// one.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_interrupted(slot: &Slot, word: u32) {
    writer::write(slot, word & !stub::OTHER_WAY, now());
}

/// Makes an untimed record that `stub` does not make itself.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[cold]
extern "C" fn record_untimed(_slot: usize, word: u32, _ticks: u64, _cpu: u32, exit: &mut u64) {
    left::free(tls::get(), core::ptr::from_ref(exit).addr());
    if word & COUNTED != 0 {
        *exit = 0;
    }
    untimed(word & !stub::OTHER_WAY);
}

/// Makes a whole untimed record. The record gets a time if it opens a chunk or is not like the last record. A
/// reader of the chunk needs that time. Async-signal-safe.
fn untimed(word: u32) {
    if word & COUNTED != 0 || !writer::write_untimed(tls::get(), word) {
        record(word);
    }
}

/// Makes a whole record: reads the clock, finds the slot, writes. Async-signal-safe.
fn record(word: u32) {
    let slot = tls::get();
    write(slot, word, now());
}

/// Reads the clock. Async-signal-safe.
fn now() -> clock::Stamp {
    clock::read(Kind::from_raw(CLOCK.load(Ordering::Relaxed)))
}

/// Writes the record, or counts the call if that is all that its function wants. Async-signal-safe.
fn write(slot: &'static Slot, word: u32, stamp: clock::Stamp) {
    match word & COUNTED {
        0 => writer::write(slot, word, stamp),
        _ if watch::is_watched(word) => watch::edge(slot, word, stamp),
        _ => open_calls::count(slot, word, stamp.cpu),
    }
}

/// Other architectures than x86-64. They have no assembly and use the calling convention of C.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod plain {
    use super::{Bits, COUNTED, Kind, host, record, untimed, watch};
    use crate::site::slot_access::SlotAccess;
    use crate::site::unit::Host;

    /// Set in the words of sites that may be a guest's, because the host makes a guest's records.
    const GUESTS_BIT: u32 = 1;

    /// The access of this copy, without any numbers.
    pub(crate) static SLOT_ACCESS: SlotAccess = SlotAccess;

    /// Records an entry, whose word is id << 4. Returns the word for the exit, which [`call`] gets with `| EXIT`, or
    /// 0 if the call has no exit. Async-signal-safe.
    #[inline(never)]
    pub(crate) fn call_entry(word: u32) -> u32 {
        let of_host = |host: &Host| (host.record)();
        of_guest(word, of_host).unwrap_or_else(|| edge(word, record))
    }

    /// Records an exit. Async-signal-safe.
    #[inline(always)]
    pub(crate) fn call(word: u32) {
        let _ = call_entry(word);
    }

    /// As [`call`], without a time of its own.
    #[inline(always)]
    pub(crate) fn call_untimed(word: u32) {
        let _ = call_untimed_entry(word);
    }

    /// Records an entry without a time of its own. Otherwise as [`call_entry`].
    #[inline(never)]
    pub(crate) fn call_untimed_entry(word: u32) -> u32 {
        let of_host = |host: &Host| (host.record_untimed)();
        of_guest(word, of_host).unwrap_or_else(|| edge(word, untimed))
    }

    /// Has the host record the edge, if this copy is a guest.
    #[inline(always)]
    fn of_guest(word: u32, entrance: impl FnOnce(&Host) -> *mut ()) -> Option<u32> {
        if word & GUESTS_BIT == 0 {
            return None;
        }
        let entrance = entrance(host()?);
        // SAFETY: the entrance of a copy of the same version, one of the two functions below.
        let enter = unsafe { core::mem::transmute::<*mut (), extern "C" fn(u32) -> u32>(entrance) };
        match enter(word & !GUESTS_BIT) {
            0 => Some(0),
            exit => Some(exit | GUESTS_BIT),
        }
    }

    /// Makes the record. Returns the word of the call's exit.
    #[inline(always)]
    fn edge(word: u32, record: fn(u32)) -> u32 {
        let here = 0_u8;
        let stack = core::ptr::from_ref(core::hint::black_box(&here)).addr();
        super::left::free(super::tls::get(), stack);
        let word = word & !GUESTS_BIT;
        record(word);
        // The exit of a call that is only counted does nothing.
        match word & COUNTED != 0 && !watch::is_watched(word) {
            true => 0,
            false => word,
        }
    }

    extern "C" fn enter(word: u32) -> u32 {
        edge(word, record)
    }

    extern "C" fn enter_untimed(word: u32) -> u32 {
        edge(word, untimed)
    }

    /// The function that makes a guest's records.
    pub(crate) fn entrance() -> *mut () {
        enter as *mut ()
    }

    /// The function that makes a guest's untimed records.
    pub(crate) fn entrance_untimed() -> *mut () {
        enter_untimed as *mut ()
    }

    /// There is no fixed offset, because no code loads the slot by an offset.
    pub(crate) fn fixed_offset() -> Option<isize> {
        None
    }

    /// The bits of the words of sites, besides id and action.
    pub(crate) fn prepare(_: Kind, _slot: Option<isize>, _keeps: bool) -> Bits {
        Bits {
            timed: 0,
            untimed: 0,
            counted: 0,
            guests: GUESTS_BIT,
            watched: COUNTED,
        }
    }
}
