//! A lock that knows its holder, for data that the shell shares between threads. `fork` copies memory but not
//! threads. So a lock of the standard library that another thread holds stays locked in the child for ever. The
//! child takes this lock over instead. A signal handler must never wait for it.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use super::{process, thread};

/// The length of one sleep. It is limited, because the holder may have ended with its process.
const SLEEP: Duration = Duration::from_millis(50);

/// A value that one thread at a time may use.
pub(crate) struct Lock<T> {
    /// Process << 32 | thread; 0 = no thread holds the lock.
    holder: AtomicU64,
    /// The word that waiting threads sleep on.
    wake_word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached through a `Guard` only, and there is one guard at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The calling thread in the form of a lock's holder. Async-signal-safe.
pub(crate) fn me() -> u64 {
    u64::from(process::pid()) << 32 | u64::from(thread::tid())
}

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock {
            holder: AtomicU64::new(0),
            wake_word: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Locks the value while the guard lives. The holder must not call it again.
    pub(crate) fn lock(&'static self) -> Guard<T> {
        self.hold();
        Guard {
            lock: self,
            not_send: PhantomData,
        }
    }

    /// Locks the value if no thread holds it.
    pub(crate) fn try_lock(&'static self) -> Option<Guard<T>> {
        let me = me();
        let holder = self.holder.load(Ordering::Relaxed);
        let is_free = holder == 0 || holder >> 32 != me >> 32;
        (is_free && self.swap(holder, me)).then_some(Guard {
            lock: self,
            not_send: PhantomData,
        })
    }

    /// Whether the calling thread holds the lock. Async-signal-safe.
    pub(crate) fn is_mine(&self) -> bool {
        // Relaxed: only this thread stores its own number.
        self.holder.load(Ordering::Relaxed) == me()
    }

    /// Whether any thread holds the lock. Async-signal-safe.
    pub(crate) fn is_held(&self) -> bool {
        self.holder.load(Ordering::SeqCst) != 0
    }

    /// Takes the lock without a guard, until [`Lock::let_go`].
    #[inline(never)]
    pub(crate) fn hold(&'static self) {
        let me = me();
        loop {
            let seen = self.wake_word.load(Ordering::Acquire);
            let holder = self.holder.load(Ordering::Relaxed);
            // A holder of another process was left behind by `fork`.
            let free = holder == 0 || holder >> 32 != me >> 32;
            if free && self.swap(holder, me) {
                return;
            }
            if !free {
                thread::wait(&self.wake_word, seen, Some(SLEEP));
            }
        }
    }

    fn swap(&self, from: u64, to: u64) -> bool {
        // Acquire: pairs with the Release in `let_go`.
        let swap = self
            .holder
            .compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
        swap.is_ok()
    }

    /// Async-signal-safe.
    #[inline(never)]
    pub(crate) fn let_go(&'static self) {
        // Release: pairs with the Acquire of the next holder.
        self.holder.store(0, Ordering::Release);
        thread::wake(&self.wake_word);
    }

    /// Called in the child of a fork. If the forking thread held the lock, it still does. No other thread
    /// exists. `forker` is that thread's number in the parent, or 0 if it is not known. Async-signal-safe.
    pub(crate) fn in_child(&self, forker: u64) {
        let holder = self.holder.load(Ordering::Relaxed);
        let still = holder != 0 && holder == forker;
        let now = if still { me() } else { 0 };
        self.holder.store(now, Ordering::Release);
    }
}

/// The right to use the value of a lock, until it is dropped.
pub(crate) struct Guard<T: 'static> {
    lock: &'static Lock<T>,
    not_send: PhantomData<*const ()>,
}

impl<T> Deref for Guard<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread holds the lock, and only a guard gives access to the value.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above. The value is borrowed no longer than the guard.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<T> {
    fn drop(&mut self) {
        self.lock.let_go();
    }
}

/// A value that is never freed once it is set. Reading it never waits. A later value replaces it.
pub(crate) struct Leaked<T> {
    value: AtomicPtr<T>,
}

// SAFETY: the value is shared as `&T`, and any thread may set it.
unsafe impl<T: Send + Sync> Sync for Leaked<T> {}

impl<T> Leaked<T> {
    pub(crate) const fn new() -> Leaked<T> {
        Leaked {
            value: AtomicPtr::new(core::ptr::null_mut()),
        }
    }

    /// The value, once it is set.
    pub(crate) fn get(&'static self) -> Option<&'static T> {
        // Acquire: pairs with the Release in `set`.
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: the pointer is null or comes from a Box that is never freed.
        unsafe { value.as_ref() }
    }

    /// The value. If there is none yet, `make` makes it. Waits for no thread, so the child of a fork never hangs here. If
    /// several threads make a value at the same time, all get the one that was set first.
    pub(crate) fn get_or_init(&'static self, make: impl FnOnce() -> T) -> &'static T {
        if let Some(value) = self.get() {
            return value;
        }
        let made = Box::into_raw(Box::new(make()));
        let none = core::ptr::null_mut();
        // AcqRel: pairs with itself, and with the Acquire in `get`.
        let set = self
            .value
            .compare_exchange(none, made, Ordering::AcqRel, Ordering::Acquire);
        if set.is_err() {
            // SAFETY: the pointer comes from a Box, and no other thread has it.
            drop(unsafe { Box::from_raw(made) });
        }
        // SAFETY: one of the two is set, comes from a Box, and is never freed.
        unsafe { &*set.err().unwrap_or(made) }
    }

    /// Sets the value, and returns it. Only one thread may call this at a time.
    pub(crate) fn set(&'static self, value: T) -> &'static T {
        // LLVM may put a value that is set in one place into a static, and then cannot compile the load for aarch64
        // (Rust 1.85). It must not see where the pointer comes from.
        let value: &'static T = core::hint::black_box(Box::leak(Box::new(value)));
        let pointer = core::ptr::from_ref(value).cast_mut();
        self.value.store(pointer, Ordering::Release);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_make_a_value_get_the_first() {
        static VALUE: Leaked<usize> = Leaked::new();
        let values: Vec<_> = std::thread::scope(|scope| {
            let make = |number| scope.spawn(move || VALUE.get_or_init(|| number));
            let threads: Vec<_> = (0..8).map(make).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        let first = VALUE.get().unwrap();
        assert!(values.iter().all(|value| core::ptr::eq(*value, first)));
    }

    #[test]
    fn one_thread_at_a_time() {
        static LOCK: Lock<u64> = Lock::new(0);
        let rounds = if cfg!(interpreted) { 50 } else { 1000 };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..rounds {
                        let mut value = LOCK.lock();
                        assert!(LOCK.is_mine());
                        let before = *value;
                        core::hint::spin_loop();
                        *value = before + 1;
                    }
                });
            }
        });
        assert_eq!(*LOCK.lock(), 4 * rounds);
        assert!(!LOCK.is_mine());
    }

    #[test]
    fn a_lock_holder_lost_by_fork_is_none() {
        static LOCK: Lock<u64> = Lock::new(7);
        // Process 1 is not this one.
        LOCK.holder.store(1 << 32 | 1, Ordering::Relaxed);
        assert_eq!(*LOCK.lock(), 7);
        LOCK.holder.store(me() + 1, Ordering::Relaxed);
        LOCK.in_child(me());
        assert_eq!(*LOCK.lock(), 7, "another thread of the parent held it");
        LOCK.in_child(0);
        assert!(!LOCK.is_mine(), "nobody held it");
        let guard = LOCK.lock();
        LOCK.in_child(me());
        assert!(LOCK.is_mine(), "the thread that forked goes on holding it");
        drop(guard);
    }
}
