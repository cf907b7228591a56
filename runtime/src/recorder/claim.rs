//! The beginning and the end of a thread's recording. A thread claims a slot at its first record and gives the
//! slot back after its last one. All functions are async-signal-safe, because a thread's first record may be
//! made in a signal handler. They must never give a slot to two threads.

use super::{CLAIMING, FORKING, GONE, NO_ROOM, UNCLAIMED, process_ring, tls};
use crate::primitive::{AtomicPtr, Ordering, compiler_fence};
use crate::ring::Ring;
use crate::ring::layout::{BUSY, Slot, Totals};
use crate::site::unit;
use crate::sys;

/// How many rounds of thread-end destructors pass before the slot is given back. The program's own destructors
/// run in these rounds and may call traced functions. The C library makes four rounds. A thread that makes its
/// first record in the last round never gives its slot back. `Ring::reap` finds such a slot.
const ROUNDS: usize = 3;

/// A record that finds the slot busy. The thread has no slot yet, or it found no room, or this is a record of a
/// handler that interrupted another record. `cpu` is the CPU as the clock gave it. Returns the slot in which the caller
/// makes the record, with a new stamp. `None`: the record is counted, and not made.
#[cold]
#[inline(never)]
pub(super) fn busy(cpu: u32) -> Option<&'static Slot> {
    let slot = tls::get();
    if core::ptr::eq(slot, &raw const NO_ROOM) {
        return without_room(cpu);
    } else if core::ptr::eq(slot, &raw const UNCLAIMED) {
        return first(&UNCLAIMED, cpu);
    } else if tls::is_real(slot) {
        if slot.cpu.load(Ordering::Relaxed) != BUSY && is_of_this_process(slot) {
            // A handler has claimed the slot since the caller looked.
            return Some(slot);
        }
        slot.dropped.fetch_add(1, Ordering::Relaxed);
    } else if core::ptr::eq(slot, &raw const FORKING) {
        sys::process::count_in_fork();
    } else {
        process_ring::count_dropped(cpu);
    }
    None
}

fn is_of_this_process(slot: &Slot) -> bool {
    process_ring::ring().is_some_and(|ring| ring.is_of_this_process() && ring.has(slot))
}

/// A record of a thread that found no room. The thread first reads a word that changes only when threads begin
/// and end. Then it counts the record in a cache line that threads of other CPUs do not write. From time to
/// time it asks for a slot nevertheless.
fn without_room(cpu: u32) -> Option<&'static Slot> {
    match process_ring::ring() {
        Some(ring) if !ring.is_worth_asking(cpu) => {
            ring.count_dropped_on(cpu);
            None
        }
        _ => first(&NO_ROOM, cpu),
    }
}

/// Whether this process is a child that was made without the C library, so no fork hook ran. Until now such a
/// child has written into the slot of its parent. It stops with this record.
#[inline]
pub(super) fn is_unnoticed_child() -> bool {
    sys::process::is_unnoticed_child()
}

/// A slot for the first record of such a child. The slot is the child's own, and busy as after [`busy`].
#[cold]
pub(super) fn slot_of_unnoticed_child(cpu: u32) -> Option<&'static Slot> {
    // In the child, a fork hook of the program may run before ours. Until ours has run, records are only counted.
    if process_ring::is_forking() {
        sys::process::count_in_fork();
        return None;
    }
    sys::process::notice_child();
    busy(cpu)
}

/// Claims a slot for the calling thread, for its first record. Until now the thread has the slot `without`.
fn first(without: &'static Slot, cpu: u32) -> Option<&'static Slot> {
    // The caller of the traced function may read errno afterwards.
    let errno = sys::errno();
    // A handler that interrupts this thread must not claim a second slot.
    let slot = match tls::replace(without, &CLAIMING) {
        true => take_slot(cpu),
        // A handler came first. It has claimed the slot or found no room.
        false => Some(tls::get()),
    };
    sys::set_errno(errno);
    slot
}

fn take_slot(cpu: u32) -> Option<&'static Slot> {
    let claimed = claim();
    let (Ok(becomes) | Err(becomes)) = claimed;
    if claimed.is_ok() {
        call_begin_hook(sys::thread::set_end_value(1));
    }
    compiler_fence(Ordering::SeqCst);
    if !tls::replace(&CLAIMING, becomes) {
        // A handler interrupted this function and forked, and this process is the child. The record belongs to
        // the parent. The slot belongs to the parent too, or it is a second slot of the child.
        if let (Some(ring), Ok(slot)) = (process_ring::ring(), claimed) {
            ring.give_back(slot);
        }
        return None;
    }
    if claimed.is_err() {
        process_ring::count_dropped(cpu);
    }
    claimed.ok()
}

/// The function that is called at the first record of a thread. Null if there is none.
static ON_BEGIN: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets the function that is called at the first record of each thread. The function gets whether
/// [`on_thread_end`] will be called for the thread. The function must be async-signal-safe.
pub(crate) fn set_on_thread_begin(call: fn(bool)) {
    // Release: pairs with the Acquire in `call_begin_hook`.
    ON_BEGIN.store(call as *mut (), Ordering::Release);
}

fn call_begin_hook(has_end_hook: bool) {
    // Acquire: pairs with the Release in `set_on_thread_begin`.
    let call = ON_BEGIN.load(Ordering::Acquire);
    if !call.is_null() {
        // SAFETY: `set_on_thread_begin` stored it, a function of this type.
        let call = unsafe { core::mem::transmute::<*mut (), fn(bool)>(call) };
        call(has_end_hook);
    }
}

/// Claims a slot. The error is the slot that the thread keeps until it asks again. It asks at its next record
/// if that record may belong to another ring.
fn claim() -> Result<&'static Slot, &'static Slot> {
    let ring = process_ring::ring_or_make().ok_or(&UNCLAIMED)?;
    // A child of `vfork` runs in the memory of its parent. Its thread ends soon, so it must not claim a slot.
    if !ring.is_of_this_process() {
        return Err(&UNCLAIMED);
    }
    if !ring.has_room() {
        ring.reap();
    }
    let slot = ring.has_room().then(|| ring.claim()).flatten();
    slot.ok_or(&NO_ROOM)
}

/// Gives space to the next chunk of the calling thread's slot, behind `opened` chunks. If there is no space,
/// the thread goes round in the opened chunks. Keeps errno.
#[cold]
pub(super) fn extend(slot: &Slot, opened: u64) {
    let errno = sys::errno();
    // A child of a fork may finish a record in the slot of its parent. That slot gets no space, because its
    // records are lost.
    let ring = process_ring::ring().filter(|ring| ring.has(slot));
    // No handler may interrupt this. A handler that forked, or that left by a jump, would leave the slot busy
    // for ever. Besides, each signal can interrupt the system call that allocates, which then begins anew.
    let extend = || ring.is_some_and(|ring| ring.extend(slot, opened));
    if !sys::signal::undisturbed(extend) {
        // The opened chunks stay where they are. A reader sees this number when it sees the next chunk, or
        // earlier.
        slot.chunks.store(opened.max(1), Ordering::Relaxed);
        if ring.is_some_and(Ring::is_lost) {
            unit::switch_off();
        }
    }
    sys::set_errno(errno);
}

/// Gives space to further rows of the calling thread's totals. Keeps errno.
#[cold]
pub(super) fn extend_totals(totals: &Totals) -> bool {
    let errno = sys::errno();
    let ring = process_ring::ring().filter(|ring| ring.has_totals(totals));
    // As in `extend`.
    let given = sys::signal::undisturbed(|| ring.is_some_and(|ring| ring.give_rows(totals)));
    if !given && ring.is_some_and(Ring::is_lost) {
        unit::switch_off();
    }
    sys::set_errno(errno);
    given
}

/// Called at the end of the calling thread. `round` is the value that `set_end_value` stored. The C library
/// runs several rounds of destructors. It calls again as long as the value is set again. Returns whether this
/// is the last round.
pub(crate) fn on_thread_end(round: usize) -> bool {
    if round < ROUNDS {
        sys::thread::set_end_value(round + 1);
        return false;
    }
    let slot = tls::get();
    tls::set(&GONE);
    if let Some(ring) = process_ring::ring().filter(|_| tls::is_real(slot)) {
        ring.end(slot);
    }
    true
}
