//! The ring of this process, also after forks. The child of a fork has no ring at first. It makes its own ring
//! at its first record. One thread makes that ring. Records of other threads and of handlers are counted
//! meanwhile, and the new ring takes them over as dropped records. This file must never write into the ring of
//! a parent.
//!
//! Async-signal-safe: it makes system calls only, takes no lock and allocates nothing.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;

use super::{FORKING, RING, UNCLAIMED, left_rings, tls};
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::ring::Ring;
use crate::ring::fork_ring::{MAX_PATH, write_path_of};
use crate::ring::layout::Slot;
use crate::site::unit;
use crate::sys::{self, own_table};

/// In a child without a ring: the ring of its parent, or of the nearest ancestor that has one.
static PARENT: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// The id of this process, if it is such a child.
static PID: AtomicU32 = AtomicU32::new(0);

/// Whether a thread is making the child's ring, or has tried to make it.
static MAKING: AtomicU32 = AtomicU32::new(0);

/// Records that found no ring in such a child.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// The slot of the forking thread before [`fork_begins`].
static SLOT_BEFORE_FORK: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());

/// Memory for the ring of a child.
struct ChildRing {
    path: UnsafeCell<[u8; MAX_PATH]>,
    ring: UnsafeCell<MaybeUninit<Ring>>,
    /// Whether a ring was ever put here.
    filled: AtomicU32,
}

// SAFETY: the one thread that has `MAKING` fills it. Nothing changes it while the ring is in use.
unsafe impl Sync for ChildRing {}

/// There are two, because a grandchild reads the ring of its parent while it makes its own.
static CHILD_RINGS: [ChildRing; 2] = [const {
    ChildRing {
        path: UnsafeCell::new([0; MAX_PATH]),
        ring: UnsafeCell::new(MaybeUninit::uninit()),
        filled: AtomicU32::new(0),
    }
}; 2];

/// The ring that this process records into. `None`: there is no ring yet.
pub(crate) fn ring() -> Option<&'static Ring> {
    // Acquire: pairs with the Release in `publish`.
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: a ring is never freed, see `shell::install` and `ChildRing`.
    unsafe { ring.as_ref() }
}

/// The ring of this process. A child without a ring makes it now. `None` while another thread makes it.
pub(crate) fn ring_or_make() -> Option<&'static Ring> {
    ring().or_else(make)
}

/// Whether this process is a child that makes a ring at its next record.
pub(crate) fn may_make_ring() -> bool {
    RING.load(Ordering::Acquire).is_null()
        && !PARENT.load(Ordering::Acquire).is_null()
        && MAKING.load(Ordering::Relaxed) == 0
}

/// Makes `ring` the ring of this process.
pub(crate) fn publish(ring: *mut Ring) {
    // Release: pairs with the Acquire in `ring`.
    RING.store(ring, Ordering::Release);
    add_dropped();
}

/// Adds the records that were counted while there was no ring to the new ring's dropped records.
fn add_dropped() {
    if let Some(ring) = ring() {
        ring.count_dropped(DROPPED.swap(0, Ordering::AcqRel));
    }
}

/// Counts a record of a thread that has no slot. `cpu` is the CPU on which the record was made.
pub(super) fn count_dropped(cpu: u32) {
    match ring() {
        Some(ring) => ring.count_dropped_on(cpu),
        None if PARENT.load(Ordering::Acquire).is_null() => {}
        None => {
            DROPPED.fetch_add(1, Ordering::AcqRel);
            // A thread that published a ring at the same time may not have seen this record.
            add_dropped();
        }
    }
}

#[cold]
fn make() -> Option<&'static Ring> {
    if may_make_ring() {
        let errno = sys::errno();
        // No handler may interrupt any part of this. A handler could fork, and the child would find its
        // [`ChildRing`] half filled.
        sys::signal::undisturbed(make_now);
        sys::set_errno(errno);
    }
    ring()
}

fn make_now() {
    let parent = PARENT.load(Ordering::Acquire);
    // SAFETY: the pointer is null or points to a ring. A ring is never freed.
    let Some(parent) = (unsafe { parent.as_ref() }) else {
        return;
    };
    // A child of `vfork` has the memory of its parent and must not make a ring in it.
    if PID.load(Ordering::Relaxed) != sys::process::pid() {
        return;
    }
    let mine = MAKING.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
    if mine.is_err() || ring().is_some() {
        return;
    }
    // Without a thread that stands in, the ring is in memory.
    let apart = own_table::with_own_table(|| make_child_ring(parent));
    match apart.unwrap_or_else(|_| make_child_ring(parent)) {
        Some(ring) => publish(ring),
        // Without a ring, no record from here on is to try again.
        None => unit::switch_off(),
    }
}

fn make_child_ring(parent: &Ring) -> Option<*mut Ring> {
    let at = |child_ring: &&ChildRing| !core::ptr::eq(child_ring.ring.get().cast(), parent);
    let child_ring = CHILD_RINGS.iter().find(at)?;
    // SAFETY: this thread has `MAKING`, and no ring of this process is in `child_ring`. A ring that was there
    // belonged to an ancestor of `parent`.
    let path: &'static mut [u8; MAX_PATH] = unsafe { &mut *child_ring.path.get() };
    let path = match parent.template() {
        [] => None,
        template => {
            let random = sys::process::random();
            if own_table::has_own_table() {
                left_rings::enter(template, random, path);
            }
            let length = write_path_of(template, sys::process::pid(), random, path)?;
            if MAKE_FOLDERS.load(Ordering::Relaxed) != 0 {
                // If a folder can't be made, creating the file reports the error.
                let _ = sys::file::make_folders(path.get_mut(..=length)?);
            }
            Some(CStr::from_bytes_with_nul(path.get(..=length)?).ok()?)
        }
    };
    let ring = parent.for_child(path)?;
    let place = child_ring.ring.get().cast::<Ring>();
    if child_ring.filled.swap(1, Ordering::Relaxed) != 0 {
        // SAFETY: as above. An ancestor filled this memory.
        unsafe { &*place }.unmap_what_was_left();
    }
    // SAFETY: as above. A ring needs no drop.
    unsafe { place.write(ring) };
    Some(place)
}

/// Whether missing folders of rings are made.
static MAKE_FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Sets whether children make missing folders of their rings.
pub(crate) fn make_folders(make: bool) {
    MAKE_FOLDERS.store(make.into(), Ordering::Relaxed);
}

/// Whether the calling thread is between [`fork_begins`] and the end of that fork, in the parent or in the
/// child.
pub(crate) fn is_forking() -> bool {
    core::ptr::eq(tls::get(), &raw const FORKING)
}

/// Called before a fork, in the forking thread. Until [`fork_is_over`] the thread's records are counted and not
/// written, because the child must not write into the slot.
pub(crate) fn fork_begins() {
    left_rings::begin();
    let slot = core::ptr::from_ref(tls::get()).cast_mut();
    SLOT_BEFORE_FORK.store(slot, Ordering::Relaxed);
    tls::set(&FORKING);
}

/// Called after a fork, in the parent.
pub(crate) fn fork_is_over() {
    let slot = SLOT_BEFORE_FORK.load(Ordering::Relaxed);
    // SAFETY: `fork_begins` stored it. It points to a slot of the ring or to a static.
    if let Some(slot) = unsafe { slot.as_ref() } {
        tls::set(slot);
    }
    let counted = sys::process::take_counted_in_fork();
    match ring() {
        Some(ring) => ring.count_dropped(counted),
        None => {
            DROPPED.fetch_add(counted, Ordering::AcqRel);
        }
    }
}

/// Called after a fork, in the child. The child owns none of this state, and it may make its own ring. The
/// caller makes sure that no handler interrupts this.
pub(crate) fn in_child() {
    PID.store(sys::process::pid(), Ordering::Relaxed);
    let slot = match tls::get() {
        // SAFETY: as in `fork_is_over`.
        slot if core::ptr::eq(slot, &raw const FORKING) => unsafe {
            SLOT_BEFORE_FORK.load(Ordering::Relaxed).as_ref()
        },
        slot => Some(slot),
    };
    if let Some(ring) = ring() {
        // The ring is still this process's ring during `leave`, because a SIGBUS may have to be mended there.
        ring.leave(slot.filter(|slot| tls::is_real(slot)));
        // A lost ring has nothing that a child could take over.
        if !ring.is_lost() {
            PARENT.store(core::ptr::from_ref(ring).cast_mut(), Ordering::Release);
        }
        RING.store(core::ptr::null_mut(), Ordering::Release);
    }
    MAKING.store(0, Ordering::Relaxed);
    DROPPED.store(sys::process::take_counted_in_fork(), Ordering::Relaxed);
    tls::set(&UNCLAIMED);
}
