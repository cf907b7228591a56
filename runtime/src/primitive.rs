//! The atomics of the protocol between a recording thread, its signal handlers and the readers. `recorder`,
//! `ring` and `dump` take them from this file only, and so do the words in which locks keep their holders. So a
//! model checker can replace them. An ordinary build gets the atomics of core, under their own names. This file
//! must never put any instruction between them and the hot path.
//!
//! Under `--cfg loom` (`cargo xtask model`) they come from `shadow`. Memory looks as always, but loom keeps the
//! words that a model names, and tries every order that the memory model allows.
#![allow(unsafe_code)]

#[cfg(not(all(loom, test)))]
pub(crate) use core::sync::atomic::{AtomicU32, AtomicU64, fence};
#[cfg(all(loom, test))]
pub(crate) use shadow::{AtomicU32, AtomicU64, fence};

/// These need no model, because readers never see what they order. `compiler_fence` orders one thread and its
/// own handlers. The pointers publish memory that is made before the first record.
pub(crate) use core::sync::atomic::{AtomicPtr, Ordering, compiler_fence};

#[cfg(all(loom, test))]
pub(crate) mod shadow;
