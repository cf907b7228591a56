//! The parts that the raw locks share: how long a thread waits, and the functions of `lock_api`. A type needs four
//! functions for these: `take` and `try_to_take` take the lock with a right, `ends` is called before the thread gives
//! that right back, and `raw` is the lock of `parking_lot`.

use std::time::{Duration, Instant};

/// How long a thread waits for a lock. For each right to a lock, there are four functions.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    No,
    Forever,
    For(Duration),
    Until(Instant),
}

impl Wait {
    /// `None`: the thread waits until it has the lock.
    pub(crate) fn until(deadline: Option<Instant>) -> Wait {
        deadline.map_or(Wait::Forever, Wait::Until)
    }

    #[inline(always)]
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Wait::No | Wait::Forever => None,
            Wait::For(timeout) => Instant::now().checked_add(timeout),
            Wait::Until(deadline) => Some(deadline),
        }
    }
}

/// Calls the one of these four functions of `$raw` that waits as `$wait` says. True: the thread has the lock.
macro_rules! take {
    ($raw:expr, $wait:ident: $try:ident, $lock:ident, $for:ident, $until:ident) => {
        match $wait {
            Wait::No => $raw.$try(),
            Wait::Forever => {
                $raw.$lock();
                true
            }
            Wait::For(timeout) => $raw.$for(timeout),
            Wait::Until(deadline) => $raw.$until(deadline),
        }
    };
}

/// The functions that take the lock for one of these rights, and give it back.
macro_rules! plain {
    ($($lock:ident, $try:ident $(, $unlock:ident)?: $right:expr;)+) => {
        $(
            #[inline]
            fn $lock(&self) {
                self.take($right, Wait::Forever);
            }

            #[inline]
            fn $try(&self) -> bool {
                self.try_to_take($right)
            }

            $(
                #[inline]
                unsafe fn $unlock(&self) {
                    self.ends($right);
                    // SAFETY: the caller has this right.
                    unsafe { self.raw().$unlock() };
                }
            )?
        )+
    };
}

/// The functions that wait for a time.
macro_rules! timed {
    ($($for:ident, $until:ident: $right:expr;)+) => {
        $(
            #[inline]
            fn $for(&self, timeout: Duration) -> bool {
                self.take($right, Wait::For(timeout))
            }

            #[inline]
            fn $until(&self, timeout: Instant) -> bool {
                self.take($right, Wait::Until(timeout))
            }
        )+
    };
}

/// The functions that give the lock to the thread that waits longest. `$bump` takes it again. While recording is on,
/// that is a wait as any other.
macro_rules! fair {
    ($($unlock:ident, $bump:ident: $right:expr;)+) => {
        $(
            #[inline]
            unsafe fn $unlock(&self) {
                self.ends($right);
                // SAFETY: the caller has this right.
                unsafe { self.raw().$unlock() };
            }

            #[inline]
            unsafe fn $bump(&self) {
                if fdr::sync::raw::is_on() {
                    // SAFETY: the caller has this right.
                    unsafe { self.$unlock() };
                    self.take($right, Wait::Forever);
                } else {
                    // SAFETY: the caller has this right.
                    unsafe { self.raw().$bump() };
                }
            }
        )+
    };
}

pub(crate) use {fair, plain, take, timed};
