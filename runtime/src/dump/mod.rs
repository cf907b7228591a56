//! From the ring to a trace. `snapshot` copies one thread's records; `file` writes all of them, as the
//! recorder's own format or through it as any other; `staged` is the temporary name that a trace has
//! until it is whole; `output` gives the final name; `tail` follows a thread's records while they are made.
//! This file holds the lock and the number of dumps. Recording threads are never stopped.

pub(crate) mod file;
pub(crate) mod output;
pub(crate) mod snapshot;
pub(crate) mod staged;
pub(crate) mod tail;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys::lock::Lock;

/// Held during a dump: two never mix. A handler that interrupts a dump and calls `exit`, and a panic in a
/// dump of ours, must not wait for themselves.
pub(crate) static DUMPING: Lock<()> = Lock::new(());

/// The number of the next dump, from 1.
pub(crate) static NUMBER: AtomicU32 = AtomicU32::new(1);

/// A number for the trace of a crash, that no dump takes as well: one that is under way has the next one
/// already. Async-signal-safe.
pub(crate) fn number_of_crash() -> u64 {
    let skipped = u32::from(DUMPING.is_held());
    // One step for both: a dump that begins now has a later number.
    u64::from(NUMBER.fetch_add(1 + skipped, Ordering::SeqCst) + skipped)
}

/// In the child of a fork: dumps are its own, from the first on. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    DUMPING.in_child(forker);
    NUMBER.store(1, Ordering::Relaxed);
}
