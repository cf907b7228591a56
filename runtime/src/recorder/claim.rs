//! The beginning and the end of a thread's recording: taking a slot at its first record, giving it
//! back after its last. Async-signal-safe like the rest of the recorder: a thread's first record
//! may be made in a signal handler.

use core::cell::Cell;
use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

use super::{GONE, RING, UNCLAIMED, tls, writer};
use crate::clock::{self, Kind};
use crate::ring::Ring;
use crate::ring::layout::Slot;
use crate::site::unit::Host;
use crate::sys;

/// How many rounds of thread-end destructors there are before the slot is given back: destructors
/// of the program's that run meanwhile may call traced functions. The C library makes four.
const ROUNDS: usize = 3;

/// Where this copy is a guest: the host. Null otherwise.
static HOST: AtomicPtr<Host> = AtomicPtr::new(core::ptr::null_mut());

thread_local! {
    /// Set while this thread takes a slot: a handler that interrupts it must not take another.
    static CLAIMING: Cell<bool> = const { Cell::new(false) };
}

/// A record that found the slot busy: the thread's first one, or one of a signal handler that
/// interrupted another record.
#[cold]
#[inline(never)]
pub(super) fn busy(word: u32) {
    let slot = tls::get();
    if core::ptr::eq(slot, &raw const UNCLAIMED) {
        first(word);
    } else if core::ptr::eq(slot, &raw const GONE) {
        homeless();
    } else {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes a slot for the calling thread and makes its first record.
fn first(word: u32) {
    match slot_of_this_thread() {
        Some(slot) if !writer::is_busy(slot) => {
            let kind = Kind::from_raw(super::CLOCK.load(Ordering::Relaxed));
            writer::write(slot, word, clock::read(kind));
        }
        // This copy's first record on the thread interrupts another copy's.
        Some(slot) => {
            slot.dropped.fetch_add(1, Ordering::Relaxed);
        }
        None => homeless(),
    }
}

/// The calling thread's slot, taken if need be: from the host where this copy is a guest, otherwise
/// from the ring. Async-signal-safe.
pub(crate) fn slot_of_this_thread() -> Option<&'static Slot> {
    let slot = tls::get();
    if is_real(slot) {
        return Some(slot);
    }
    if core::ptr::eq(slot, &raw const GONE) || CLAIMING.replace(true) {
        return None;
    }
    compiler_fence(Ordering::SeqCst);
    let claimed = match host() {
        Some(host) => (host.claim)(),
        None => ring().filter(|ring| ring.has_room()).and_then(Ring::claim),
    };
    if let Some(slot) = claimed {
        tls::set(slot);
        sys::thread::set_end_value(1);
    }
    compiler_fence(Ordering::SeqCst);
    CLAIMING.set(false);
    claimed
}

/// The ring that is recorded into; `None` while there is none. Async-signal-safe.
pub(crate) fn ring() -> Option<&'static Ring> {
    // Acquire: pairs with the Release in `shell::install`, which made the ring.
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: a ring is never freed, see `shell::install`.
    unsafe { ring.as_ref() }
}

/// The host that this copy takes its slots from; `None` where it is none's guest. Async-signal-safe.
pub(crate) fn host() -> Option<&'static Host> {
    // Acquire: pairs with the Release in `serve`.
    let host = HOST.load(Ordering::Acquire);
    // SAFETY: a static of a unit that is never unloaded, see `shell::guest`.
    unsafe { host.as_ref() }
}

/// Makes this copy a guest: its threads take their slots from `host` from now on.
pub(crate) fn serve(host: &'static Host) {
    HOST.store(core::ptr::from_ref(host).cast_mut(), Ordering::Release);
}

/// Counts a record of a thread that has no slot. Async-signal-safe.
pub(crate) fn homeless() {
    match host() {
        Some(host) => (host.homeless)(),
        None => {
            if let Some(ring) = ring() {
                ring.count_homeless();
            }
        }
    }
}

/// The C library calls this at a thread's end with the value that `set_end_value` left, once a
/// round for as long as it is set again.
///
/// # Safety
/// For the C library alone.
pub(crate) unsafe extern "C" fn on_thread_end(value: *mut libc::c_void) {
    if let Some(slot) = last_round(value as usize, ROUNDS)
        && let Some(ring) = ring()
    {
        ring.end(slot);
    }
}

/// The same in a guest: it lets go of the slot a round before the host gives it back.
///
/// # Safety
/// For the C library alone.
pub(crate) unsafe extern "C" fn on_thread_end_of_guest(value: *mut libc::c_void) {
    last_round(value as usize, ROUNDS - 1);
}

/// In the last round takes the slot away from the thread; before it, asks for another round.
fn last_round(round: usize, rounds: usize) -> Option<&'static Slot> {
    if round < rounds {
        sys::thread::set_end_value(round + 1);
        return None;
    }
    let slot = tls::get();
    tls::set(&GONE);
    is_real(slot).then_some(slot)
}

/// Forgets the calling thread's slot without giving it back: in the child of a fork it belongs to
/// the parent.
pub(crate) fn forget() {
    tls::set(&UNCLAIMED);
    CLAIMING.set(false);
}

fn is_real(slot: &'static Slot) -> bool {
    !core::ptr::eq(slot, &raw const UNCLAIMED) && !core::ptr::eq(slot, &raw const GONE)
}
