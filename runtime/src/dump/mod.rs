//! From the ring to a trace. This file holds the lock and the number of dumps. A dump must never stop a
//! recording thread.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `snapshot` | a copy of one thread's records |
//! | `file` | all copies as a trace, in the recorder's own format or in another one |
//! | `output` | the names of traces |
//! | `schedule` | the states of threads, from the kernel to the ring and from there to traces |
//! | `staged` | a trace under a temporary name, until it is complete |
//! | `tail` | one thread's records, read while they are made |

pub(crate) mod file;
pub(crate) mod output;
pub(crate) mod schedule;
pub(crate) mod snapshot;
pub(crate) mod staged;
#[cfg(any(test, feature = "stream"))]
pub(crate) mod tail;

use core::sync::atomic::{AtomicU32, Ordering};

use crate::sys::lock::Lock;

/// Held during a dump, so two dumps never mix. Two holders must not wait for themselves: a handler that
/// interrupts a dump and calls `exit`, and a panic in a dump.
pub(crate) static DUMPING: Lock<()> = Lock::new(());

/// The number of the next dump, from 1.
pub(crate) static NUMBER: AtomicU32 = AtomicU32::new(1);

/// Takes the number for the trace of a crash, which no dump takes too. A dump that is under way already uses
/// the next number. Async-signal-safe.
pub(crate) fn number_of_crash() -> u64 {
    let skipped = u32::from(DUMPING.is_held());
    // One step for both numbers, so a dump that begins now gets a later one.
    u64::from(NUMBER.fetch_add(1 + skipped, Ordering::SeqCst) + skipped)
}

/// In the child of a fork, dumps are the child's own and begin with number 1. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    DUMPING.in_child(forker);
    NUMBER.store(1, Ordering::Relaxed);
}
