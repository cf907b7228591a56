//! Notes of the calling thread, written into its ring. Async-signal-safe.

use fdr_formats::notes::NoteKind;

use super::note::Note;
use super::{arguments, host, left, now, tls, writer};
use crate::clock::Stamp;

/// Writes a note of the calling thread. The body has the fields of `fdr_formats::notes`, as little-endian words. A body
/// that is too large is not written, and counts as dropped. Keeps errno. Async-signal-safe.
#[cold]
#[inline(never)]
pub(crate) fn note(kind: NoteKind, body: &[u64]) {
    match host() {
        // SAFETY: pointer and length are those of the slice.
        Some(host) => unsafe { (host.note)(kind as u32, body.as_ptr(), body.len()) },
        None => write(kind as u8, body),
    }
}

/// [`note`] for a guest, called in its host.
///
/// # Safety
/// `body` points to `words` words.
pub(crate) unsafe extern "C" fn note_of_guest(kind: u32, body: *const u64, words: usize) {
    // SAFETY: the caller promises it.
    write(kind as u8, unsafe {
        core::slice::from_raw_parts(body, words)
    });
}

fn write(kind: u8, body: &[u64]) {
    let note = Note::new(kind, body);
    match kind == NoteKind::Arguments as u8 {
        true => arguments::write(tls::get(), &note, now),
        false => write_at(&note, now()),
    }
}

/// Writes a note of the calling thread that is of no call.
pub(super) fn write_at(note: &Note<'_>, stamp: Stamp) {
    let slot = tls::get();
    left::free(slot, core::ptr::from_ref(&stamp).addr());
    writer::note(slot, note, stamp);
}
