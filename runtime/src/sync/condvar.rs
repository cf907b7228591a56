//! The condition variable of the standard library, for [`Mutex`](super::Mutex). While recording is on, it knows who
//! notified it last.

use core::time::Duration;
use std::sync::{self, LockResult, PoisonError, WaitTimeoutResult};

use super::mutex::MutexGuard;
use super::watch::{Notified, Origin, Waiting, is_on};

/// The recorder's state of a condition: its name, and the thread that notified it last. `fdr-parking-lot` uses this
/// type, too.
pub struct Condition {
    origin: Origin,
    notified: Notified,
}

impl Condition {
    /// The name of its kind, before the place where it was made.
    const OF: &str = "Condvar";

    /// A condition of that name.
    #[inline]
    #[must_use]
    pub const fn new(origin: Origin) -> Condition {
        Condition {
            origin,
            notified: Notified::new(),
        }
    }

    /// The calling thread notifies.
    #[inline(always)]
    pub fn notify(&self) {
        self.notified.now();
    }

    /// Waits for it by `block`, which gives a lock back and takes it again.
    #[inline]
    pub fn wait<R>(&self, block: impl FnOnce() -> R) -> R {
        match is_on() {
            true => self.wait_watched(block),
            false => block(),
        }
    }

    #[cold]
    #[inline(never)]
    fn wait_watched<R>(&self, block: impl FnOnce() -> R) -> R {
        let count = self.notified.count();
        let mut waiting = Waiting::for_condition(&self.origin, Condition::OF);
        waiting.blocks();
        let result = block();
        waiting.by(self.notified.since(count));
        result
    }
}

/// [`std::sync::Condvar`], whose waits are recorded. If exactly one thread notified the condition during a wait, the
/// trace names that thread.
///
/// Its name is `Condvar`, and the file and line of the call of [`Condvar::new`]. [`Condvar::named`] gives another one.
///
/// # Examples
/// ```
/// use fdr::sync::{Arc, Condvar, Mutex};
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = Arc::clone(&pair);
/// std::thread::spawn(move || {
///     *other.0.lock().unwrap() = true;
///     other.1.notify_one();
/// });
/// let mut started = pair.0.lock().unwrap();
/// while !*started {
///     started = pair.1.wait(started).unwrap();
/// }
/// ```
pub struct Condvar {
    condition: Condition,
    inner: sync::Condvar,
}

__fdr_condition_constructors!(Condvar: sync::Condvar);

impl Condvar {
    /// Gives the lock back and waits, as [`std::sync::Condvar::wait`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    ///
    /// # Panics
    /// Perhaps, if it is used with several locks.
    #[inline]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.wait_by(guard, |inner| {
            super::map(self.inner.wait(inner), |inner| (inner, ()))
        })
        .map(|(guard, ())| guard)
        .map_err(|poisoned| PoisonError::new(poisoned.into_inner().0))
    }

    /// Waits while the condition holds, as [`std::sync::Condvar::wait_while`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    #[inline]
    pub fn wait_while<'a, T, F>(
        &self,
        mut guard: MutexGuard<'a, T>,
        mut condition: F,
    ) -> LockResult<MutexGuard<'a, T>>
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut *guard) {
            guard = self.wait(guard)?;
        }
        Ok(guard)
    }

    /// Waits for a time at most, as [`std::sync::Condvar::wait_timeout`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    #[inline]
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        self.wait_by(guard, |inner| self.inner.wait_timeout(inner, timeout))
    }

    /// Waits while the condition holds, and for a time at most, as [`std::sync::Condvar::wait_timeout_while`].
    ///
    /// # Errors
    /// If the lock is poisoned.
    #[inline]
    pub fn wait_timeout_while<'a, T, F>(
        &self,
        guard: MutexGuard<'a, T>,
        timeout: Duration,
        condition: F,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)>
    where
        F: FnMut(&mut T) -> bool,
    {
        // One wait in a trace, because only the standard library can say that the time is over.
        self.wait_by(guard, |inner| {
            self.inner.wait_timeout_while(inner, timeout, condition)
        })
    }

    /// Wakes one thread that waits.
    #[inline]
    pub fn notify_one(&self) {
        self.condition.notify();
        self.inner.notify_one();
    }

    /// Wakes all threads that wait.
    #[inline]
    pub fn notify_all(&self) {
        self.condition.notify();
        self.inner.notify_all();
    }

    /// Waits as `wait` says, which gives the lock back and takes it again.
    #[inline]
    fn wait_by<'a, T, R>(
        &self,
        guard: MutexGuard<'a, T>,
        wait: impl FnOnce(sync::MutexGuard<'a, T>) -> LockResult<(sync::MutexGuard<'a, T>, R)>,
    ) -> LockResult<(MutexGuard<'a, T>, R)> {
        let MutexGuard { held, inner } = guard;
        self.condition.wait(|| {
            let watch = held.release();
            super::map(wait(inner), |(inner, result)| {
                let held = watch.held();
                (MutexGuard { held, inner }, result)
            })
        })
    }
}
