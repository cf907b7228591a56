//! The beginning and the end of a thread's recording: taking a slot at its first record, giving it
//! back after its last. Async-signal-safe like the rest of the recorder: a thread's first record
//! may be made in a signal handler.

use super::{CLAIMING, FORKING, GONE, NO_ROOM, UNCLAIMED, process_ring, tls, writer};
use crate::clock::{self, Kind};
use crate::primitive::{AtomicPtr, Ordering, compiler_fence};
use crate::ring::Ring;
use crate::ring::layout::Slot;
use crate::site::unit;
use crate::sys;

/// How many rounds of thread-end destructors there are before the slot is given back: destructors
/// of the program's that run meanwhile may call traced functions. The C library makes four. A thread
/// whose first record is made in the last of them never gives its slot back; `Ring::reap` finds it.
const ROUNDS: usize = 3;

/// A record that found the slot busy: the thread's first one, one of a thread for which there was no room,
/// or one of a signal handler that interrupted another record. `cpu`: where, as the clock gave it.
#[cold]
#[inline(never)]
pub(super) fn busy(word: u32, cpu: u32) {
    let slot = tls::get();
    if core::ptr::eq(slot, &raw const NO_ROOM) {
        without_room(word, cpu);
    } else if core::ptr::eq(slot, &raw const UNCLAIMED) {
        first(&UNCLAIMED, word, cpu);
    } else if is_real(slot) {
        slot.dropped.fetch_add(1, Ordering::Relaxed);
    } else if core::ptr::eq(slot, &raw const FORKING) {
        sys::process::count_in_fork();
    } else {
        process_ring::count_dropped(cpu);
    }
}

/// A record of a thread for which there was no room. It is counted in a line that no other CPU's threads
/// write, after a look at a word that changes only when threads begin and end; now and then the thread asks
/// for a slot all the same.
fn without_room(word: u32, cpu: u32) {
    match process_ring::ring() {
        Some(ring) if !ring.is_worth_asking(cpu) => ring.count_dropped_on(cpu),
        _ => first(&NO_ROOM, word, cpu),
    }
}

/// Whether this is a child that was made behind the C library's back, so that nobody said so. It has
/// written into its parent's slot since then, but no further than the next record that comes this way.
#[inline]
pub(super) fn is_unnoticed_child() -> bool {
    sys::process::is_unnoticed_child()
}

/// A record of such a child: the first one of its own.
#[cold]
pub(super) fn record_in_unnoticed_child(word: u32, cpu: u32) {
    // A hook that comes before ours in a child that we shall be told of.
    if process_ring::is_forking() {
        return sys::process::count_in_fork();
    }
    sys::process::notice_child();
    busy(word, cpu);
}

/// Takes a slot for the calling thread, which has `without` as yet, and makes its first record.
fn first(without: &'static Slot, word: u32, cpu: u32) {
    // The traced function's caller may look at errno afterwards.
    let errno = sys::errno();
    // A handler that interrupts this must not take another.
    if tls::replace(without, &CLAIMING) {
        take_slot(word, cpu);
    } else {
        // One came just before, and has taken it, or found no room.
        write_now(tls::get(), word);
    }
    sys::set_errno(errno);
}

fn take_slot(word: u32, cpu: u32) {
    let claimed = claim();
    let (Ok(becomes) | Err(becomes)) = claimed;
    if claimed.is_ok() {
        tell_begin(sys::thread::set_end_value(1));
    }
    compiler_fence(Ordering::SeqCst);
    if !tls::replace(&CLAIMING, becomes) {
        // A handler that interrupted this has forked, and this is the child. The record is its parent's,
        // and so is the slot, or else it is the child's second one.
        if let (Some(ring), Ok(slot)) = (process_ring::ring(), claimed) {
            ring.give_back(slot);
        }
    } else if let Ok(slot) = claimed {
        write_now(slot, word);
    } else {
        process_ring::count_dropped(cpu);
    }
}

/// What is called when a thread makes its first record; null = nothing.
static ON_BEGIN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// From now on `call` is called when a thread makes its first record. Its argument says whether the end of the
/// thread will be told by [`on_thread_end`]. `call` must be async-signal-safe.
pub(crate) fn set_on_thread_begin(call: fn(bool)) {
    // Release: pairs with the Acquire in `tell_begin`.
    ON_BEGIN.store(call as *mut (), Ordering::Release);
}

fn tell_begin(end_is_told: bool) {
    // Acquire: pairs with the Release in `set_on_thread_begin`.
    let call = ON_BEGIN.load(Ordering::Acquire);
    if !call.is_null() {
        // SAFETY: `set_on_thread_begin` stored it, a function of this type.
        let call = unsafe { core::mem::transmute::<*mut (), fn(bool)>(call) };
        call(end_is_told);
    }
}

fn write_now(slot: &Slot, word: u32) {
    let kind = Kind::from_raw(super::CLOCK.load(Ordering::Relaxed));
    writer::write(slot, word, clock::read(kind));
}

/// A slot, or else what the thread has until it asks again: at its next record where that may be another
/// ring's business.
fn claim() -> Result<&'static Slot, &'static Slot> {
    let ring = process_ring::ring_or_make().ok_or(&UNCLAIMED)?;
    // A child of `vfork` runs in its parent's memory; the slot would be of a thread that is soon gone.
    if !ring.is_of_this_process() {
        return Err(&UNCLAIMED);
    }
    if !ring.has_room() {
        ring.reap();
    }
    let slot = ring.has_room().then(|| ring.claim()).flatten();
    slot.ok_or(&NO_ROOM)
}

/// Gives space to the chunk behind the `opened` ones of the calling thread's slot, or has the thread begin
/// again at the first. Keeps errno.
#[cold]
pub(super) fn extend(slot: &Slot, opened: u64) {
    let errno = sys::errno();
    // Not so for what a child of a fork kept of its parent's ring: what is made there goes nowhere.
    let ring = process_ring::ring().filter(|ring| ring.has(slot));
    // A handler that forked in there, or left by a jump, would leave the slot busy for good; and one that
    // comes in there at all may have the kernel begin again.
    let extend = || ring.is_some_and(|ring| ring.extend(slot, opened));
    if !sys::signal::undisturbed(extend) {
        // What was opened stays where it was; readers see this no later than the chunk that comes next.
        slot.chunks.store(opened.max(1), Ordering::Relaxed);
        if ring.is_some_and(Ring::is_lost) {
            unit::UNIT.switch_off();
        }
    }
    sys::set_errno(errno);
}

/// The calling thread ends; `round` is the value that `set_end_value` left. The C library has several rounds
/// of destructors, and calls again for as long as the value is set again. Whether this was the last round.
pub(crate) fn on_thread_end(round: usize) -> bool {
    if round < ROUNDS {
        sys::thread::set_end_value(round + 1);
        return false;
    }
    let slot = tls::get();
    tls::set(&GONE);
    if let Some(ring) = process_ring::ring().filter(|_| is_real(slot)) {
        ring.end(slot);
    }
    true
}

/// Whether it is a ring's slot.
pub(super) fn is_real(slot: &'static Slot) -> bool {
    let others = [
        &raw const UNCLAIMED,
        &raw const CLAIMING,
        &raw const NO_ROOM,
        &raw const FORKING,
        &raw const GONE,
    ];
    !others.contains(&core::ptr::from_ref(slot))
}
