//! The atomics of the protocol between a recording thread, its signal handlers and the readers:
//! `recorder`, `ring`, `dump::snapshot` and `dump::tail` take them from here and from nowhere else, so
//! that a model checker can stand in their place. An ordinary build has core's own, under their own
//! names; this file must never put anything between them and the hot path.
//!
//! Under `--cfg loom` (`cargo xtask model`) they are those of `shadow`: memory looks as it always does,
//! but a word that a model names is kept by loom, which tries every order that the memory model allows.

#[cfg(not(all(loom, test)))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(all(loom, test))]
pub(crate) use shadow::{AtomicU32, AtomicU64, fence};

/// Neither is part of what readers see: one thread and its own handlers need no model of memory, and
/// what these pointers publish is made before the first record.
pub(crate) use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

/// A word that every record reads and hardly anybody writes, on a pair of cache lines of its own: what a
/// program happens to have beside it, and writes, must not be felt by every record. Assembly finds the word
/// at the beginning.
#[repr(C, align(128))]
pub(crate) struct OwnCacheLines<T>(pub(crate) T);

#[cfg(all(loom, test))]
pub(crate) mod shadow;
