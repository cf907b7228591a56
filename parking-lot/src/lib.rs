//! The locks and conditions of [`parking_lot`], whose waits are recorded by [`fdr`], a flight data recorder: for how long
//! a thread waited, which thread held the lock, and what that thread was in.
//!
//! The types have the methods of those in `parking_lot`, and the guards are those of [`lock_api`]. So a program changes
//! only the path of its `use`. The features are those of `parking_lot`, without `nightly`.
//!
//! While recording is off, an operation costs one load and one branch more than that of `parking_lot`, and a release
//! one store more. While recording is on, a wait leaves two notes: one before the thread blocks, and one after the
//! wait. A wait that ends within 10 µs leaves no notes. These functions may allocate and block, so no signal handler
//! may call them.
//!
//! # Examples
//! ```
//! use std::sync::Arc;
//!
//! use fdr_parking_lot::{Condvar, Mutex, MutexGuard}; // instead of parking_lot
//!
//! let queue = Arc::new((Mutex::named("queue", Vec::<u32>::new()), Condvar::new()));
//! let jobs = Arc::clone(&queue);
//! let worker = std::thread::spawn(move || {
//!     let (queue, filled) = &*jobs;
//!     let mut queue = queue.lock();
//!     filled.wait_while(&mut queue, |queue| queue.is_empty());
//!     MutexGuard::map(queue, |queue| &mut queue[0]).pow(2)
//! });
//! queue.0.lock().push(7);
//! queue.1.notify_one();
//! assert_eq!(worker.join().unwrap(), 49);
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mutex`, `rwlock`, `condvar` | the types |
//! | `raw_mutex`, `raw_rwlock` | locks without a value, which tell the recorder of their holders and waits |
//! | `raw` | what these have in common |
//! | `readers` | the locks that a thread reads |
//! | `wrapper` | what the types have in common |
#![allow(unsafe_code)]

mod condvar;
mod mutex;
mod raw;
mod raw_mutex;
mod raw_rwlock;
mod readers;
mod rwlock;
mod wrapper;

#[cfg(feature = "deadlock_detection")]
pub use parking_lot::deadlock;
pub use parking_lot::{Once, OnceState, RawThreadId, WaitTimeoutResult, lock_api};

pub use condvar::Condvar;
pub use mutex::*;
pub use raw_mutex::{RawFairMutex, RawMutex, WatchedRawMutex};
pub use raw_rwlock::RawRwLock;
pub use rwlock::*;

#[cfg(test)]
extern crate self as fdr_parking_lot;
#[cfg(test)]
mod tests;
