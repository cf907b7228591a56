//! The numbers by which assembly finds a copy's slots. The copy's own code and the code of its guests load
//! them. On other architectures than x86-64 a guest calls its host for each record, so there are no numbers.
//! This file holds the layout only: it must never read or write a slot.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32};

/// The numbers of one copy, for its own code and for its guests. They are constant once the copy is a host.
// The alignment keeps words that are written off these cache lines.
#[repr(C, align(128))]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) struct SlotAccess {
    /// Offset of the pointer to the thread's slot, from the thread pointer, in bytes. 0 if it is not fixed.
    pub(crate) slot: AtomicIsize,
    /// Calls Rust, by a register convention of its own, see `outline`.
    pub(crate) outline: AtomicPtr<()>,
    /// The copy's functions for uncommon records, called by that convention.
    pub(crate) record_at: AtomicPtr<()>,
    pub(crate) record_interrupted: AtomicPtr<()>,
    pub(crate) record_untimed: AtomicPtr<()>,
    /// Offset of the thread's rseq area, from the thread pointer, in bytes.
    pub(crate) rseq: AtomicIsize,
    /// The same offset for records whose words have bit 0 clear. They read their CPU 4 bytes behind it. If common records
    /// set bit 0, the offset leads to a number that is no CPU, so each such record goes to Rust.
    pub(crate) nearest: AtomicIsize,
    /// The clock: a `Kind` as a number.
    pub(crate) kind: AtomicU32,
    /// 1 if calls may be summarised.
    pub(crate) keeps: AtomicU32,
}

/// There are no numbers on this architecture.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[repr(C)]
pub(crate) struct SlotAccess;
