//! The parts that the raw locks share: how long a thread waits, and the functions of `lock_api`. A type needs four
//! functions for these: `take` and `try_to_take` take the lock with a right, `ends` is called before the thread gives
//! that right back, and `raw` is the lock of `parking_lot`.

use std::time::{Duration, Instant};

use fdr::sync::raw::Claim;

/// How long a thread waits for a lock. For each right to a lock, there are four functions.
#[derive(Clone, Copy)]
pub(crate) enum Wait {
    No,
    Forever,
    For(Duration),
    Until(Instant),
}

impl Wait {
    #[inline(always)]
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Wait::No | Wait::Forever => None,
            Wait::For(timeout) => Instant::now().checked_add(timeout),
            Wait::Until(deadline) => Some(deadline),
        }
    }
}

/// Takes a lock and reports its waits. `of` gives the name of its type. `take` takes it by the function of
/// `parking_lot` for a wait. `begins` learns whether the thread has the lock now.
#[inline(always)]
pub(crate) fn take_watched(
    claim: Claim<'_>,
    of: impl Fn() -> &'static str,
    deadline: Option<Instant>,
    take: impl Fn(Wait) -> bool,
    begins: impl Fn(bool),
) -> bool {
    if take(Wait::No) {
        begins(true);
        return true;
    }
    wait_watched(claim, of, deadline, take, begins)
}

/// Waits in a function of its own, so that a lock without contention needs no frame.
#[cold]
#[inline(never)]
fn wait_watched(
    claim: Claim<'_>,
    of: impl Fn() -> &'static str,
    deadline: Option<Instant>,
    take: impl Fn(Wait) -> bool,
    begins: impl Fn(bool),
) -> bool {
    let attempt = || take(Wait::No).then_some(true);
    let block = |deadline: Option<_>| take(deadline.map_or(Wait::Forever, Wait::Until));
    claim.wait(of, deadline, attempt, block, |is_taken| begins(*is_taken))
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

/// The functions that take the lock for one of these rights, and give it back. `unsafe`: not every caller may ask for
/// the right.
macro_rules! plain {
    ($($([$unsafe:tt])? $lock:ident, $try:ident $(, $unlock:ident)?: $right:expr;)+) => {
        $(
            #[inline]
            $($unsafe)? fn $lock(&self) {
                self.take($right, Wait::Forever);
            }

            #[inline]
            $($unsafe)? fn $try(&self) -> bool {
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
    ($($([$unsafe:tt])? $for:ident, $until:ident: $right:expr;)+) => {
        $(
            #[inline]
            $($unsafe)? fn $for(&self, timeout: Duration) -> bool {
                self.take($right, Wait::For(timeout))
            }

            #[inline]
            $($unsafe)? fn $until(&self, timeout: Instant) -> bool {
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
