//! The names of functions as a trace carries them, made ready when functions become known, so that a
//! handler has only to write them: an append-only list that is never freed.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use fdr_formats::Ticks;
use fdr_formats::model::Function;
use fdr_formats::xray::crash_dump;

/// Some functions, and those that came later.
struct Piece {
    bytes: Vec<u8>,
    next: AtomicPtr<Piece>,
}

static FIRST: AtomicPtr<Piece> = AtomicPtr::new(core::ptr::null_mut());

/// How many functions are in the list.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many functions are in the list, which are the first ones of the table.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Appends functions. The caller holds the table's lock. Not async-signal-safe.
pub(crate) fn add(functions: &[Function], start: Ticks) {
    if functions.is_empty() {
        return;
    }
    let piece = Box::into_raw(Box::new(Piece {
        bytes: crash_dump::functions(functions, start),
        next: AtomicPtr::new(core::ptr::null_mut()),
    }));
    let mut end = &FIRST;
    while let Some(piece) = load(end) {
        end = &piece.next;
    }
    // Release: pairs with the Acquire in `load`.
    end.store(piece, Ordering::Release);
    COUNT.fetch_add(functions.len(), Ordering::Relaxed);
}

fn load(place: &'static AtomicPtr<Piece>) -> Option<&'static Piece> {
    // SAFETY: null, or a piece that `add` made, which is never freed.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// All that is in the list. Async-signal-safe.
pub(super) fn all() -> impl Iterator<Item = &'static [u8]> + Clone {
    let pieces = core::iter::successors(load(&FIRST), |piece| load(&piece.next));
    pieces.map(|piece| &*piece.bytes)
}
