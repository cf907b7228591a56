//! The names of functions in the form of a trace. They are prepared when functions become known, so the handler
//! only has to write them. The list is append-only and must never be freed.

use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use fdr_formats::Ticks;
use fdr_formats::model::Function;
use fdr_formats::xray::crash_dump;

/// A part of the list: some functions, and the part that was added next.
struct NameListPart {
    bytes: Vec<u8>,
    next: AtomicPtr<NameListPart>,
}

static FIRST: AtomicPtr<NameListPart> = AtomicPtr::new(core::ptr::null_mut());

/// How many functions are in the list.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// How many functions are in the list. They are the first ones of the table.
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Appends functions. The caller holds the table's lock. Not async-signal-safe.
pub(crate) fn add(functions: &[Function], start: Ticks) {
    if functions.is_empty() {
        return;
    }
    let part = Box::into_raw(Box::new(NameListPart {
        bytes: crash_dump::functions(functions, start),
        next: AtomicPtr::new(core::ptr::null_mut()),
    }));
    let mut end = &FIRST;
    while let Some(part) = load(end) {
        end = &part.next;
    }
    // Release: pairs with the Acquire in `load`.
    end.store(part, Ordering::Release);
    COUNT.fetch_add(functions.len(), Ordering::Relaxed);
}

fn load(place: &'static AtomicPtr<NameListPart>) -> Option<&'static NameListPart> {
    // SAFETY: the pointer is null or comes from `add`. A part is never freed.
    unsafe { place.load(Ordering::Acquire).as_ref() }
}

/// All parts of the list. Async-signal-safe.
pub(super) fn all() -> impl Iterator<Item = &'static [u8]> + Clone {
    let parts = core::iter::successors(load(&FIRST), |part| load(&part.next));
    parts.map(|part| &*part.bytes)
}
