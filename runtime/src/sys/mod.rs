//! Every call into libc, one file per subject.
//!
//! Nothing in here allocates, locks or panics, so that the recorder and signal handlers may use
//! all of it; where a function is not async-signal-safe all the same, its doc says so.

pub(crate) mod action;
pub(crate) mod file;
pub(crate) mod lock;
pub(crate) mod memory;
pub(crate) mod notes;
pub(crate) mod process;
pub(crate) mod raw;
pub(crate) mod signal;
pub(crate) mod socket;
pub(crate) mod stack;
pub(crate) mod thread;

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: glibc and musl return a valid pointer to the calling thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Puts `errno` back: a signal handler must leave it as it found it.
pub(crate) fn set_errno(value: i32) {
    // SAFETY: as in `errno`.
    unsafe { *libc::__errno_location() = value }
}
