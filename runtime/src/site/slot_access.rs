//! Where a copy's slots are, in numbers that its own assembly and that of its guests load. On other architectures
//! than x86-64 guests call their host for each record, so there are no such numbers. Layout only: this file must
//! never read or write a slot.

#[cfg(all(target_arch = "x86_64", not(miri)))]
use core::sync::atomic::{AtomicIsize, AtomicPtr, AtomicU32};

/// How records into a copy's slots are made, by its own code and by its guests'. Constant once the copy is
/// a host.
// Aligned: no line is shared with what is written.
#[repr(C, align(128))]
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) struct SlotAccess {
    /// Of the pointer to the thread's slot, from the thread pointer, bytes; 0 where it is not fixed.
    pub(crate) slot: AtomicIsize,
    /// Into Rust: a register convention of its own, see `outline`.
    pub(crate) outline: AtomicPtr<()>,
    /// What the copy does with records that are not common, by that convention.
    pub(crate) record_at: AtomicPtr<()>,
    pub(crate) record_interrupted: AtomicPtr<()>,
    pub(crate) record_untimed: AtomicPtr<()>,
    /// Of the thread's rseq area, from the thread pointer, bytes.
    pub(crate) rseq: AtomicIsize,
    /// The clock, a `Kind` as a number.
    pub(crate) kind: AtomicU32,
}

/// The same where there are no such numbers.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[repr(C)]
pub(crate) struct SlotAccess;
