//! Which ring is this process's, through forks: the child of one has none at first, and makes its own at
//! its first record. One thread makes it; records that come meanwhile, from others or from handlers, are
//! counted and belong to it as dropped ones. Must never write into a parent's ring.
//!
//! Async-signal-safe: system calls alone, no lock, no allocation.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::mem::MaybeUninit;

use super::{FORKING, RING, UNCLAIMED, claim, tls};
use crate::primitive::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::ring::Ring;
use crate::ring::fork_ring::{LONGEST_PATH, write_path};
use crate::ring::layout::Slot;
use crate::site::unit;
use crate::sys;

/// In a child that has no ring yet: that of its parent, or of whichever ancestor had one.
static PARENT: AtomicPtr<Ring> = AtomicPtr::new(core::ptr::null_mut());

/// This process, where it is such a child.
static PID: AtomicU32 = AtomicU32::new(0);

/// Whether some thread makes the child's ring, or has tried to.
static MAKING: AtomicU32 = AtomicU32::new(0);

/// Records that found no ring in such a child.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// What the thread that forks had before the window was opened.
static SLOT_BEFORE_FORK: AtomicPtr<Slot> = AtomicPtr::new(core::ptr::null_mut());

/// Where a child's ring is kept.
struct ChildRing {
    path: UnsafeCell<[u8; LONGEST_PATH]>,
    ring: UnsafeCell<MaybeUninit<Ring>>,
    /// Whether a ring was ever put there.
    filled: AtomicU32,
}

// SAFETY: filled in by the one thread that has `MAKING`, and not changed while the ring is in use.
unsafe impl Sync for ChildRing {}

/// Two, for a child of a child reads its parent's while it makes its own.
static CHILD_RINGS: [ChildRing; 2] = [const {
    ChildRing {
        path: UnsafeCell::new([0; LONGEST_PATH]),
        ring: UnsafeCell::new(MaybeUninit::uninit()),
        filled: AtomicU32::new(0),
    }
}; 2];

/// The ring that is recorded into; `None` while there is none.
pub(crate) fn ring() -> Option<&'static Ring> {
    // Acquire: pairs with the Release in `publish`.
    let ring = RING.load(Ordering::Acquire);
    // SAFETY: a ring is never freed, see `shell::install` and `ChildRing`.
    unsafe { ring.as_ref() }
}

/// The same, made first in a child that has none yet. `None` also while another thread makes it.
pub(crate) fn ring_or_make() -> Option<&'static Ring> {
    ring().or_else(make)
}

/// Whether this is a child that would make a ring at its next record.
pub(crate) fn may_make_ring() -> bool {
    RING.load(Ordering::Acquire).is_null()
        && !PARENT.load(Ordering::Acquire).is_null()
        && MAKING.load(Ordering::Relaxed) == 0
}

/// Makes a ring this process's.
pub(crate) fn publish(ring: *mut Ring) {
    // Release: pairs with the Acquire in `ring`.
    RING.store(ring, Ordering::Release);
    add_dropped();
}

/// Gives the ring what was counted while there was none.
fn add_dropped() {
    if let Some(ring) = ring() {
        ring.count_dropped(DROPPED.swap(0, Ordering::AcqRel));
    }
}

/// Counts a record of a thread that has no slot, made on that CPU.
pub(super) fn count_dropped(cpu: u32) {
    match ring() {
        Some(ring) => ring.count_dropped_on(cpu),
        None if PARENT.load(Ordering::Acquire).is_null() => {}
        None => {
            DROPPED.fetch_add(1, Ordering::AcqRel);
            // Whoever published a ring meanwhile may not have seen it.
            add_dropped();
        }
    }
}

#[cold]
fn make() -> Option<&'static Ring> {
    if may_make_ring() {
        let errno = sys::errno();
        // All of it: the child of a handler that forked in between would be in the same child_ring.
        sys::signal::undisturbed(make_now);
        sys::set_errno(errno);
    }
    ring()
}

fn make_now() {
    let parent = PARENT.load(Ordering::Acquire);
    // SAFETY: null, or a ring, which is never freed.
    let Some(parent) = (unsafe { parent.as_ref() }) else {
        return;
    };
    // A child of `vfork` has its parent's memory, and must not make anything for it.
    if PID.load(Ordering::Relaxed) != sys::process::pid() {
        return;
    }
    let mine = MAKING.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
    if mine.is_err() || ring().is_some() {
        return;
    }
    match make_child_ring(parent) {
        Some(ring) => publish(ring),
        // Nobody shall try at every record from here on.
        None => unit::UNIT.switch_off(),
    }
}

fn make_child_ring(parent: &Ring) -> Option<*mut Ring> {
    let at = |child_ring: &&ChildRing| !core::ptr::eq(child_ring.ring.get().cast(), parent);
    let child_ring = CHILD_RINGS.iter().find(at)?;
    // SAFETY: this thread has `MAKING`, and no ring of this process is in the child_ring: one that was
    // there belonged to an ancestor further up than `parent`.
    let path: &'static mut [u8; LONGEST_PATH] = unsafe { &mut *child_ring.path.get() };
    let path = match parent.template() {
        [] => None,
        template => {
            let length = write_path(template, path)?;
            if MAKE_FOLDERS.load(Ordering::Relaxed) != 0 {
                // What can't be made shows when the file is made.
                let _ = sys::file::make_folders(path.get_mut(..=length)?);
            }
            Some(CStr::from_bytes_with_nul(path.get(..=length)?).ok()?)
        }
    };
    let ring = parent.for_child(path)?;
    let place = child_ring.ring.get().cast::<Ring>();
    if child_ring.filled.swap(1, Ordering::Relaxed) != 0 {
        // SAFETY: as above; it was filled in by an ancestor.
        unsafe { &*place }.unmap_what_was_left();
    }
    // SAFETY: as above; a ring needs no drop.
    unsafe { place.write(ring) };
    Some(place)
}

/// Whether the folders of rings are made where they are not there.
static MAKE_FOLDERS: AtomicU32 = AtomicU32::new(0);

/// Says whether children make the folders of their rings where they are not there.
pub(crate) fn make_folders(make: bool) {
    MAKE_FOLDERS.store(make.into(), Ordering::Relaxed);
}

/// Whether the calling thread is between [`fork_begins`] and the end of that fork, in the parent or the child.
pub(crate) fn is_forking() -> bool {
    core::ptr::eq(tls::get(), &raw const FORKING)
}

/// Before a fork, in the thread that forks: what it records until [`fork_is_over`] is only counted, for
/// the child must not write into the slot.
pub(crate) fn fork_begins() {
    let slot = core::ptr::from_ref(tls::get()).cast_mut();
    SLOT_BEFORE_FORK.store(slot, Ordering::Relaxed);
    tls::set(&FORKING);
}

/// After a fork, in the parent.
pub(crate) fn fork_is_over() {
    let slot = SLOT_BEFORE_FORK.load(Ordering::Relaxed);
    // SAFETY: what `fork_begins` found: a slot of the ring or a static.
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

/// After a fork, in the child: nothing here is its own, and it may make its own ring. Callers see to it
/// that no handler comes in between.
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
        // While it still is this process's: it may have to be mended on the way.
        ring.leave(slot.filter(|slot| claim::is_real(slot)));
        // A ring that was lost has nothing to inherit.
        if !ring.is_lost() {
            PARENT.store(core::ptr::from_ref(ring).cast_mut(), Ordering::Release);
        }
        RING.store(core::ptr::null_mut(), Ordering::Release);
    }
    MAKING.store(0, Ordering::Relaxed);
    DROPPED.store(sys::process::take_counted_in_fork(), Ordering::Relaxed);
    tls::set(&UNCLAIMED);
}
