//! The beginning and the end of a thread's recording: taking a slot at its first record, giving it
//! back after its last. Async-signal-safe like the rest of the recorder: a thread's first record
//! may be made in a signal handler.

use core::sync::atomic::{Ordering, compiler_fence};

use super::{CLAIMING, GONE, RING, UNCLAIMED, tls, writer};
use crate::clock::{self, Kind};
use crate::ring::Ring;
use crate::ring::layout::Slot;
use crate::sys;

/// How many rounds of thread-end destructors there are before the slot is given back: destructors
/// of the program's that run meanwhile may call traced functions. The C library makes four. A thread
/// whose first record is made in the last of them never gives its slot back; `Ring::reap` finds it.
const ROUNDS: usize = 3;

/// A record that found the slot busy: the thread's first one, or one of a signal handler that
/// interrupted another record.
#[cold]
#[inline(never)]
pub(super) fn busy(word: u32) {
    let slot = tls::get();
    if core::ptr::eq(slot, &raw const UNCLAIMED) {
        first(word);
    } else if is_real(slot) {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
    } else {
        homeless();
    }
}

/// Takes a slot for the calling thread and makes its first record.
fn first(word: u32) {
    // The traced function's caller may look at errno afterwards.
    let errno = sys::errno();
    // A handler that interrupts this must not take another.
    tls::set(&CLAIMING);
    compiler_fence(Ordering::SeqCst);
    let claimed = ring().filter(|ring| ring.has_room()).and_then(Ring::claim);
    if claimed.is_some() {
        sys::thread::set_end_value(1);
    }
    compiler_fence(Ordering::SeqCst);
    tls::set(claimed.unwrap_or(&UNCLAIMED));
    match claimed {
        Some(slot) => {
            let kind = Kind::from_raw(super::CLOCK.load(Ordering::Relaxed));
            writer::write(slot, word, clock::read(kind));
        }
        None => homeless(),
    }
    sys::set_errno(errno);
}

/// The ring that is recorded into; `None` while there is none. Async-signal-safe.
pub(crate) fn ring() -> Option<&'static Ring> {
    // Acquire: pairs with the Release in `shell::install`, which made the ring.
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: a ring is never freed, see `shell::install`.
    unsafe { ring.as_ref() }
}

/// Counts a record of a thread that has no slot. Async-signal-safe.
fn homeless() {
    if let Some(ring) = ring() {
        ring.count_homeless();
    }
}

/// The C library calls this at a thread's end with the value that `set_end_value` left, once a
/// round for as long as it is set again.
///
/// # Safety
/// For the C library alone.
pub(crate) unsafe extern "C" fn on_thread_end(value: *mut libc::c_void) {
    let round = value as usize;
    if round < ROUNDS {
        sys::thread::set_end_value(round + 1);
        return;
    }
    let slot = tls::get();
    tls::set(&GONE);
    if let Some(ring) = ring().filter(|_| is_real(slot)) {
        ring.end(slot);
    }
}

/// Forgets the calling thread's slot without giving it back: in the child of a fork it belongs to
/// the parent.
pub(crate) fn forget() {
    tls::set(&UNCLAIMED);
}

fn is_real(slot: &'static Slot) -> bool {
    ![&raw const UNCLAIMED, &raw const CLAIMING, &raw const GONE]
        .contains(&core::ptr::from_ref(slot))
}
