//! The calling thread's own region of its process's ring, made unfit for records or for readers. The rest of the ring
//! stays as it is. The recorder's own threads keep their access, because they do not use this region.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fdr_formats::ring::layout::{self, Slot};

/// The ring in the current folder; `None` where nothing is recorded.
///
/// # Panics
///
/// If the folder cannot be read.
#[must_use]
pub fn ring_here() -> Option<PathBuf> {
    let entries = fs::read_dir(".").expect("the folder");
    let mut names = entries.map(|entry| entry.expect("an entry").file_name());
    let ring = names.find(|name| name.to_string_lossy().ends_with(".fdr-ring"));
    ring.map(PathBuf::from)
}

/// Each slot of a ring, as a reader finds it. `None`: its head is not complete.
///
/// # Panics
///
/// If the head or a slot is damaged.
#[must_use]
pub fn slots(ring: &Path) -> Option<Vec<Slot>> {
    let ring = File::open(ring).ok()?;
    let mut head = [0; layout::HEADER_SIZE];
    ring.read_exact_at(&mut head, 0).ok()?;
    if !head.starts_with(&layout::MAGIC) {
        return None;
    }
    let header = layout::Header::decode(&head).expect("a head");
    let slot = |index| {
        let mut slot = [0; layout::SLOT_SIZE];
        let at = header.slots + index * header.slot_stride;
        ring.read_exact_at(&mut slot, at).ok()?;
        Slot::decode(&slot)
    };
    let slots = (0..u64::from(header.made)).map(|index| slot(index).expect("a slot"));
    Some(slots.collect())
}

/// The slot of the calling thread.
fn own(ring: &Path) -> Option<Slot> {
    // SAFETY: a plain system call.
    let me = unsafe { libc::gettid() }.cast_unsigned();
    let mut slots = slots(ring)?.into_iter();
    slots.find(|slot| (slot.state, slot.tid) == (layout::LIVE, me))
}

/// Takes from the region what `protection` does not name: `PROT_READ`, or nothing at all.
///
/// # Panics
///
/// If the ring has no slot of this thread.
pub fn protect(ring: &Path, protection: i32) {
    let slot = own(ring).expect("the thread's slot");
    let place = std::ptr::with_exposed_provenance_mut(slot.base as usize);
    let length = slot.chunks as usize * layout::CHUNK;
    // SAFETY: whole pages of a mapping that stays; who touches them next is to die of it.
    let result = unsafe { libc::mprotect(place, length, protection) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
