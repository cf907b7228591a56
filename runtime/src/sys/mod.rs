//! Every call into libc, one file per subject.
//!
//! Nothing in this room allocates, locks or panics, so the recorder and signal handlers may use all of it. A
//! function that is not async-signal-safe says so. This room must never decide anything.
#![allow(unsafe_code)]

pub(crate) mod action;
pub(crate) mod file;
pub(crate) mod handover;
pub(crate) mod loader;
pub(crate) mod lock;
pub(crate) mod memory;
#[cfg(interpreted)]
mod miri;
pub(crate) mod modules;
pub(crate) mod notes;
pub(crate) mod own_table;
pub(crate) mod perf;
pub(crate) mod process;
pub(crate) mod raw;
pub(crate) mod signal;
#[cfg(feature = "stream")]
pub(crate) mod socket;
pub(crate) mod stack;
pub(crate) mod thread;

/// Miri knows fewer functions of the C library than this room needs.
#[cfg(not(interpreted))]
use libc as kernel;
#[cfg(interpreted)]
use miri as kernel;

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: glibc and musl return a valid pointer to the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Restores `errno`, because a signal handler must leave it unchanged.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}
