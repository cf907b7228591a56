//! The condition variable of `parking_lot`, for [`Mutex`](crate::Mutex). While recording is on, it knows who notified it
//! last.

use core::mem::ManuallyDrop;
use std::time::{Duration, Instant};

use fdr::sync::raw::{Condition, condition_constructors, is_on};

use crate::raw_mutex::Whole;
use crate::{MutexGuard, WaitTimeoutResult};

/// [`parking_lot::Condvar`], whose waits are recorded. If exactly one thread notified the condition during a wait, the
/// trace names that thread.
///
/// Its name is `Condvar`, and the file and line of the call of [`Condvar::new`]. [`Condvar::named`] gives another one.
///
/// # Examples
/// ```
/// use std::sync::Arc;
///
/// use fdr_parking_lot::{Condvar, Mutex};
///
/// let pair = Arc::new((Mutex::new(false), Condvar::new()));
/// let other = Arc::clone(&pair);
/// std::thread::spawn(move || {
///     *other.0.lock() = true;
///     other.1.notify_one();
/// });
/// let mut started = pair.0.lock();
/// while !*started {
///     pair.1.wait(&mut started);
/// }
/// ```
pub struct Condvar {
    condition: Condition,
    inner: parking_lot::Condvar,
}

condition_constructors!(Condvar: parking_lot::Condvar);

impl Condvar {
    /// Wakes one thread that waits. True: there was one.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.condition.notify();
        self.inner.notify_one()
    }

    /// Wakes all threads that wait. Gives their number.
    #[inline]
    pub fn notify_all(&self) -> usize {
        self.condition.notify();
        self.inner.notify_all()
    }

    /// Gives the lock back and waits, as [`parking_lot::Condvar::wait`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait<T: ?Sized>(&self, mutex_guard: &mut MutexGuard<'_, T>) {
        self.wait_by(mutex_guard, |guard| self.inner.wait(guard));
    }

    /// Waits until a moment at most, as [`parking_lot::Condvar::wait_until`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait_until<T: ?Sized>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        timeout: Instant,
    ) -> WaitTimeoutResult {
        self.wait_by(mutex_guard, |guard| self.inner.wait_until(guard, timeout))
    }

    /// Waits for a time at most, as [`parking_lot::Condvar::wait_for`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait_for<T: ?Sized>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        self.wait_by(mutex_guard, |guard| self.inner.wait_for(guard, timeout))
    }

    /// Waits while the condition holds, as [`parking_lot::Condvar::wait_while`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait_while<T: ?Sized, F>(&self, mutex_guard: &mut MutexGuard<'_, T>, mut condition: F)
    where
        F: FnMut(&mut T) -> bool,
    {
        while condition(&mut **mutex_guard) {
            self.wait(mutex_guard);
        }
    }

    /// Waits while the condition holds, and until a moment at most, as [`parking_lot::Condvar::wait_while_until`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait_while_until<T: ?Sized, F>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Instant,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        self.waits_while(mutex_guard, condition, Some(timeout))
    }

    /// Waits while the condition holds, and for a time at most, as [`parking_lot::Condvar::wait_while_for`].
    ///
    /// # Panics
    /// If another thread waits for this condition with another lock.
    #[inline]
    pub fn wait_while_for<T: ?Sized, F>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        condition: F,
        timeout: Duration,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        self.waits_while(mutex_guard, condition, Instant::now().checked_add(timeout))
    }

    fn waits_while<T: ?Sized, F>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        mut condition: F,
        timeout: Option<Instant>,
    ) -> WaitTimeoutResult
    where
        F: FnMut(&mut T) -> bool,
    {
        let mut result = self.not_yet();
        while !result.timed_out() && condition(&mut **mutex_guard) {
            match timeout {
                Some(timeout) => result = self.wait_until(mutex_guard, timeout),
                None => self.wait(mutex_guard),
            }
        }
        result
    }

    /// The result of a wait that has not timed out. Only the library itself can make one.
    fn not_yet(&self) -> WaitTimeoutResult {
        let unshared = parking_lot::const_mutex(());
        let mut guard = unshared.lock();
        self.inner
            .wait_while_for(&mut guard, |()| false, Duration::ZERO)
    }

    /// Waits as `wait` says, which gives the lock back and takes it again.
    #[inline]
    fn wait_by<T: ?Sized, R>(
        &self,
        mutex_guard: &mut MutexGuard<'_, T>,
        wait: impl FnOnce(&mut parking_lot::MutexGuard<'_, ()>) -> R,
    ) -> R {
        // SAFETY: it is used by the wait alone, which ends with the lock held.
        let raw = unsafe { MutexGuard::mutex(mutex_guard).raw() };
        // SAFETY: the caller's guard holds the lock. This one is never dropped, so the lock is given back once.
        let mut guard = ManuallyDrop::new(unsafe { raw.inner.make_guard_unchecked() });
        self.condition.wait(|| {
            // No thread is known to hold the lock meanwhile.
            raw.ends(Whole);
            let result = wait(&mut guard);
            raw.begins(is_on());
            result
        })
    }
}
