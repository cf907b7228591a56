//! Waits: the thread that holds what another thread waits for, and the function that the holder was in when the wait
//! began. `sync` calls this for its locks, conditions and channels. All functions but [`name`] are async-signal-safe.
//! This file must never guess: if a holder or a function is not certain, it is reported as unknown.
//!
//! A thread that takes a lock writes its id and the place of its slot into a word of the lock. A waiting thread finds
//! the holder's slot by that place, and reads the innermost open call there. The protocol is that of
//! [`ring::open_calls`](crate::ring::open_calls): if the word of counts and the cursor are the same before and after
//! the read, no frame changed meanwhile. The word of the lock is read again between these two
//! reads. So the holder was in that call while it held the lock.

use fdr_formats::notes::NoteKind;

use super::{CLOCK, host, notes, process_ring, tls};
use crate::clock::{self, Kind};
use crate::primitive::{AtomicPtr, AtomicU64, Ordering};
use crate::ring::layout::{Slot, state};
use crate::ring::{self, Ring};
use crate::site::unit::Text;
use crate::site::wait::{Holders, READERS, Wait};
use crate::sys;

/// How often a waiting thread tries to read the holder's call while the holder keeps changing it.
const MAX_READS: u32 = 8;

/// The word that a lock stores for the calling thread: its id << 32 | the place of its slot. The place is 0 if the
/// thread has no slot.
#[inline]
pub(crate) fn me() -> u64 {
    match host() {
        Some(host) => (host.wait_me)(),
        None => me_of_guest(),
    }
}

/// Stores that the thread ([`me`]) holds the object exclusively. `owner` is the object's word.
#[inline]
pub(crate) fn hold(owner: &AtomicU64, thread: u64) {
    // Release: a thread that reads the holder here also sees the holder's present calls, and no earlier ones.
    owner.store(thread, Ordering::Release);
}

/// Stores that no thread holds the object exclusively.
#[inline(always)]
pub(crate) fn release(owner: &AtomicU64) {
    // Relaxed: a waiting thread may read an older owner for some time. But a thread that sees a later call of that
    // owner sees this store, too.
    owner.store(0, Ordering::Relaxed);
}

/// Adds a reader of a shared object to the object's word: [`READERS`].
#[inline]
pub(crate) fn share(readers: &AtomicU64, reader: u64) {
    // Release: as in `hold`.
    readers.fetch_add(reader, Ordering::Release);
}

/// Takes a reader out of the object's word.
#[inline]
pub(crate) fn leave(readers: &AtomicU64, reader: u64) {
    // Relaxed: the word keeps what `share` released.
    readers.fetch_sub(reader, Ordering::Relaxed);
}

/// Begins a wait: stores its tick, the holder, and the function that the holder is in.
pub(crate) fn begin(wait: &mut Wait, holders: &Holders<'_>) {
    match host() {
        Some(host) => (host.wait_begin)(wait, holders),
        None => begin_of_guest(wait, holders),
    }
}

/// Writes a note of the wait: `state` is one of `fdr_formats::notes::thread_state`.
pub(crate) fn write_note(wait: &Wait, state: u8) {
    match host() {
        Some(host) => (host.wait_write_note)(wait, state.into()),
        None => write_note_of_guest(wait, state.into()),
    }
}

/// The id of an object's name. 0: it can't have one now. May allocate, and never waits.
pub(crate) fn name(name: &'static str, of: &'static str, file: &'static str, line: u32) -> u32 {
    let [name, of, file] = [name, of, file].map(Text::new);
    match host() {
        Some(host) => (host.wait_name)(&name, &of, &file, line),
        None => name_of_guest(&name, &of, &file, line),
    }
}

/// [`me`] for a guest, called in its host.
pub(crate) extern "C" fn me_of_guest() -> u64 {
    let slot = tls::get();
    match slot.tid.load(Ordering::Relaxed) {
        0 => without_slot(),
        tid => u64::from(tid) << 32 | u64::from(ring::place_of(slot)),
    }
}

#[cold]
fn without_slot() -> u64 {
    u64::from(sys::thread::tid()) << 32
}

/// [`begin`] for a guest, called in its host.
pub(crate) extern "C" fn begin_of_guest(wait: &mut Wait, holders: &Holders<'_>) {
    wait.begin = now();
    (wait.thread, wait.function) = find_holder(process_ring::ring(), holders);
}

/// [`write_note`] for a guest, called in its host.
pub(crate) extern "C" fn write_note_of_guest(wait: &Wait, state: u32) {
    let about = u64::from(state as u8) << 32 | u64::from(wait.reason as u8) << 40;
    let body = [
        wait.object,
        wait.thread.into(),
        u64::from(wait.name) | about,
        wait.function.into(),
        now().saturating_sub(wait.begin),
    ];
    notes::note(NoteKind::ThreadState, &body);
}

/// The function that gives an id to a name. Null until the shell is up.
static NAMES: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Gives an id to the name of an object. Without a given name, the name is the object's type and the place where it was
/// made.
pub(crate) type Namer =
    fn(name: &'static str, of: &'static str, file: &'static str, line: u32) -> u32;

/// Sets the function that gives ids to names. It must not wait.
pub(crate) fn set_namer(namer: Namer) {
    // Release: pairs with the Acquire in `name_of_guest`.
    NAMES.store(namer as *mut (), Ordering::Release);
}

/// [`name`] for a guest, called in its host.
pub(crate) extern "C" fn name_of_guest(
    name: &Text<'static>,
    of: &Text<'static>,
    file: &Text<'static>,
    line: u32,
) -> u32 {
    // Acquire: pairs with the Release in `set_namer`.
    let namer = NAMES.load(Ordering::Acquire);
    if namer.is_null() {
        return 0;
    }
    // SAFETY: `set_namer` stored it, a function of this type.
    let namer = unsafe { core::mem::transmute::<*mut (), Namer>(namer) };
    namer(name.as_str(), of.as_str(), file.as_str(), line)
}

fn now() -> u64 {
    clock::read(Kind::from_raw(CLOCK.load(Ordering::Relaxed))).ticks
}

/// The one thread that holds an object: as [`me`], without the id if it is one of the readers. 0 = not known.
fn holder(holders: &Holders<'_>) -> u64 {
    // Relaxed, both: the Release in `hold` and `share` pairs with the Acquire fence in `innermost`, which comes later.
    let owner = holders.owner.map_or(0, |word| word.load(Ordering::Relaxed));
    if owner != 0 {
        return owner;
    }
    let readers = holders.readers;
    let readers = readers.map_or(0, |word| word.load(Ordering::Relaxed));
    match readers >> READERS {
        1 => u64::from(readers as u32),
        _ => 0,
    }
}

/// The thread that holds an object, and the function that it is in.
pub(super) fn find_holder(ring: Option<&'static Ring>, holders: &Holders<'_>) -> (u32, u32) {
    for _ in 0..MAX_READS {
        let word = holder(holders);
        let id = (word >> 32) as u32;
        let is_of = |slot: &&Slot| {
            let tid = slot.tid.load(Ordering::Relaxed);
            slot.state.load(Ordering::Acquire) == state::LIVE && (id == 0 || id == tid)
        };
        let slot = ring
            .filter(|_| word != 0)
            .and_then(|ring| match word as u32 {
                // It had no slot yet when it took the lock.
                0 => ring.slots().find(is_of),
                place => ring.slot_at(place).filter(is_of),
            });
        let Some(slot) = slot else {
            return (id, 0);
        };
        let tid = slot.tid.load(Ordering::Relaxed);
        let Some(calls) = ring::open_calls::of_slot(slot) else {
            return match holder(holders) == word {
                true => (tid, 0),
                false => continue,
            };
        };
        let still = || holder(holders) == word;
        if let Some(function) = ring::open_calls::innermost(slot, calls, still) {
            return (tid, function);
        }
    }
    // The holder changes its calls too fast: the function is unknown.
    ((holder(holders) >> 32) as u32, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_is_known_and_several_are_not() {
        let (owner, readers) = (AtomicU64::new(0), AtomicU64::new(0));
        let holders = Holders {
            owner: Some(&owner),
            readers: Some(&readers),
        };
        assert_eq!(holder(&holders), 0);
        let [one, other] = [7_u64, 9].map(|place| 1 << READERS | place);
        readers.fetch_add(one, Ordering::Relaxed);
        assert_eq!(holder(&holders), 7);
        readers.fetch_add(other, Ordering::Relaxed);
        assert_eq!(holder(&holders), 0, "two readers");
        readers.fetch_sub(one, Ordering::Relaxed);
        assert_eq!(holder(&holders), 9, "the one that is left");
        owner.store(3 << 32 | 5, Ordering::Relaxed);
        assert_eq!(holder(&holders), 3 << 32 | 5);
        assert_eq!(find_holder(None, &holders), (3, 0), "there is no ring");
    }
}
