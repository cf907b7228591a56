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

/// The slot of the calling thread, as a reader finds it.
fn own(ring: &Path) -> io::Result<Slot> {
    let nothing = || io::Error::other("no slot of this thread");
    let ring = File::open(ring)?;
    let mut head = [0; layout::HEADER_SIZE];
    ring.read_exact_at(&mut head, 0)?;
    let header = layout::Header::decode(&head).ok_or_else(nothing)?;
    // SAFETY: a plain system call.
    let me = unsafe { libc::gettid() }.cast_unsigned();
    for index in 0..u64::from(header.made) {
        let mut slot = [0; layout::SLOT_SIZE];
        ring.read_exact_at(&mut slot, header.slots + index * header.slot_stride)?;
        let slot = layout::Slot::decode(&slot).ok_or_else(nothing)?;
        if (slot.state, slot.tid) == (layout::LIVE, me) {
            return Ok(slot);
        }
    }
    Err(nothing())
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
