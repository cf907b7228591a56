//! The locks, conditions and channels of `std::sync`, whose waits are recorded: for how long a thread waited, which
//! thread held the lock, and what that thread was in.
//!
//! The types have the methods of those in `std::sync`. So a program changes only the path of its `use`. The other types
//! of `std::sync` are exported here unchanged.
//!
//! While recording is off, an operation costs one load and one branch more than that of `std::sync`. While recording is
//! on, a wait leaves two [notes](https://docs.rs/fdr): one before the thread blocks, and one after the wait. A wait
//! for a lock that ends within 10 µs leaves no notes. These functions may allocate and block, so no signal handler may
//! call them.
//!
//! # Examples
//! ```
//! use fdr::sync::{Arc, Condvar, Mutex};
//!
//! let queue = Arc::new((Mutex::named("queue", Vec::new()), Condvar::new()));
//! let jobs = queue.clone();
//! let worker = std::thread::spawn(move || {
//!     let (queue, filled) = &*jobs;
//!     let mut queue = filled.wait_while(queue.lock().unwrap(), |queue| queue.is_empty()).unwrap();
//!     queue.pop()
//! });
//! queue.0.lock().unwrap().push(7);
//! queue.1.notify_one();
//! assert_eq!(worker.join().unwrap(), Some(7));
//! ```
//!
//! | file | what it holds |
//! | --- | --- |
//! | `mutex`, `rwlock`, `condvar`, [`mpsc`] | the types |
//! | `raw` | the functions that the crate `fdr-parking-lot` needs |
//! | `type_name` | the name of a type |
//! | `wrapper` | what the types have in common, as macros |
//! | `watch` | the holder of a lock; how each type records a wait |
//! | `no_watch` | the twin of `watch` without the recorder: empty |

#![expect(clippy::disallowed_types, reason = "these are locks of the program")]

#[macro_use]
mod wrapper;

mod condvar;
pub mod mpsc;
mod mutex;
#[cfg(not(all(feature = "record", target_os = "linux")))]
mod no_watch;
#[doc(hidden)]
pub mod raw;
mod rwlock;
mod type_name;
#[cfg(all(feature = "record", target_os = "linux"))]
mod watch;

pub use std::sync::{
    Arc, Barrier, BarrierWaitResult, LazyLock, LockResult, Once, OnceLock, OnceState, PoisonError,
    TryLockError, TryLockResult, WaitTimeoutResult, Weak, atomic,
};

pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};

#[cfg(not(all(feature = "record", target_os = "linux")))]
use no_watch as watch;

/// The result with another guard.
fn map<G, H>(result: LockResult<G>, make: impl FnOnce(G) -> H) -> LockResult<H> {
    match result {
        Ok(guard) => Ok(make(guard)),
        Err(poisoned) => Err(PoisonError::new(make(poisoned.into_inner()))),
    }
}

/// Whether the lock is poisoned, and its guard. This is inlined because the result of a call would be in memory, and
/// the compiler would then keep the guard of the usual case in memory, too.
#[inline(always)]
fn without_poison<G>(result: LockResult<G>) -> (bool, G) {
    match result {
        Ok(guard) => (false, guard),
        Err(poisoned) => (true, poisoned.into_inner()),
    }
}

#[inline(always)]
fn with_poison<G>(is_poisoned: bool, guard: G) -> LockResult<G> {
    match is_poisoned {
        false => Ok(guard),
        true => Err(PoisonError::new(guard)),
    }
}

/// The result of an attempt. `None`: another thread holds the lock.
fn attempt_result<G>(result: TryLockResult<G>) -> Option<LockResult<G>> {
    match result {
        Ok(guard) => Some(Ok(guard)),
        Err(TryLockError::Poisoned(poisoned)) => Some(Err(poisoned)),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The result of an attempt, with another guard.
fn map_attempt<G, H>(result: TryLockResult<G>, make: impl FnOnce(G) -> H) -> TryLockResult<H> {
    match attempt_result(result) {
        Some(result) => Ok(map(result, make)?),
        None => Err(TryLockError::WouldBlock),
    }
}

#[cfg(test)]
mod tests;
