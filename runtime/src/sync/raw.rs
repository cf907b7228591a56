//! What the locks of another library tell the recorder. Only the crate `fdr-parking-lot` uses this, because it changes
//! without notice. No guard here remembers who holds a lock, so the caller says it. This file must never keep a thread
//! waiting, except for the first 10 µs, in which the thread looks whether the lock is free again.

use std::time::Instant;

use super::watch::{self, Notified, Origin, SharedWatch, Waiting, Watch};

/// Gives the name of a type. A constant function can't ask for that name itself.
pub type TypeName = fn() -> &'static str;

/// Whether waits are recorded.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    watch::is_on()
}

/// What an object is. Without the recorder, nothing.
#[derive(Clone, Copy)]
struct Of {
    #[cfg(feature = "record")]
    name: TypeName,
}

impl Of {
    const fn new(name: TypeName) -> Of {
        let _ = name;
        Of {
            #[cfg(feature = "record")]
            name,
        }
    }

    fn name(self) -> &'static str {
        #[cfg(feature = "record")]
        return (self.name)();
        #[cfg(not(feature = "record"))]
        return "";
    }
}

/// Waits for a lock. True: the thread has it, and has said so.
fn wait(
    waiting: Waiting<'_>,
    deadline: Option<Instant>,
    take: impl Fn() -> bool,
    block: impl FnOnce() -> bool,
    hold: impl Fn(),
) -> bool {
    let held = |is_taken: bool| {
        if is_taken {
            hold();
        }
        is_taken
    };
    waiting.for_lock(deadline, || held(take()).then_some(true), || held(block()))
}

/// What a lock knows that one thread has.
pub struct Lock {
    watch: Watch,
    of: Of,
}

impl Lock {
    /// A lock whose name is that of its type, and the place of this call.
    #[inline]
    #[track_caller]
    #[must_use]
    pub const fn here(of: TypeName) -> Lock {
        Lock {
            watch: Watch::new(Origin::here()),
            of: Of::new(of),
        }
    }

    /// A lock with that name.
    #[inline]
    #[must_use]
    pub const fn named(name: &'static str, of: TypeName) -> Lock {
        Lock {
            watch: Watch::new(Origin::named(name)),
            of: Of::new(of),
        }
    }

    /// The calling thread has the lock.
    pub fn hold(&self) {
        self.watch.hold();
    }

    /// No thread has the lock. Comes before it is given back.
    #[inline(always)]
    pub fn release(&self) {
        self.watch.release();
    }

    /// Waits for the lock, which another thread has: `take` attempts to get it, `block` waits until the deadline. True:
    /// the thread has the lock.
    pub fn wait(
        &self,
        deadline: Option<Instant>,
        take: impl Fn() -> bool,
        block: impl FnOnce() -> bool,
    ) -> bool {
        let waiting = self.watch.wait(self.of.name());
        let take = || self.watch.has_no_owner() && take();
        wait(waiting, deadline, take, block, || self.hold())
    }
}

/// What a lock knows that one thread has alone, or several readers.
pub struct SharedLock {
    watch: SharedWatch,
    of: Of,
}

impl SharedLock {
    /// As [`Lock::here`].
    #[inline]
    #[track_caller]
    #[must_use]
    pub const fn here(of: TypeName) -> SharedLock {
        SharedLock {
            watch: SharedWatch::new(Origin::here()),
            of: Of::new(of),
        }
    }

    /// As [`Lock::named`].
    #[inline]
    #[must_use]
    pub const fn named(name: &'static str, of: TypeName) -> SharedLock {
        SharedLock {
            watch: SharedWatch::new(Origin::named(name)),
            of: Of::new(of),
        }
    }

    /// The calling thread has the lock alone. So there are no readers: one of them may have given its lock back on
    /// another thread.
    pub fn hold(&self) {
        self.watch.remove_all();
        self.watch.hold();
    }

    /// As [`Lock::release`].
    #[inline(always)]
    pub fn release(&self) {
        self.watch.release();
    }

    /// The calling thread is one of the readers, until it gives this word to [`SharedLock::remove`].
    #[must_use]
    pub fn add(&self) -> u64 {
        self.watch.add()
    }

    /// A reader goes: what [`SharedLock::add`] gave it. Comes before the lock is given back.
    pub fn remove(&self, reader: u64) {
        self.watch.remove(reader);
    }

    /// Whether readers are known.
    #[inline(always)]
    #[must_use]
    pub fn has_readers(&self) -> bool {
        self.watch.has_readers()
    }

    /// As [`Lock::wait`], for a lock that may have other readers then. The caller adds itself to them.
    pub fn wait_to_read(
        &self,
        deadline: Option<Instant>,
        take: impl Fn() -> bool,
        block: impl FnOnce() -> bool,
    ) -> bool {
        let waiting = self.watch.wait(self.of.name());
        let take = || self.watch.has_no_owner() && take();
        wait(waiting, deadline, take, block, || ())
    }

    /// As [`Lock::wait`], for a lock that no other thread may have then.
    pub fn wait_to_write(
        &self,
        deadline: Option<Instant>,
        take: impl Fn() -> bool,
        block: impl FnOnce() -> bool,
    ) -> bool {
        let waiting = self.watch.wait(self.of.name());
        let take = || self.watch.has_no_holder() && take();
        wait(waiting, deadline, take, block, || self.hold())
    }
}

/// What a condition knows.
pub struct Condition {
    origin: Origin,
    notified: Notified,
}

impl Condition {
    /// The name of its kind, before the place where it was made.
    const OF: &str = "Condvar";

    /// A condition whose name is the place of this call.
    #[inline]
    #[track_caller]
    #[must_use]
    pub const fn here() -> Condition {
        Condition {
            origin: Origin::here(),
            notified: Notified::new(),
        }
    }

    /// A condition with that name.
    #[inline]
    #[must_use]
    pub const fn named(name: &'static str) -> Condition {
        Condition {
            origin: Origin::named(name),
            notified: Notified::new(),
        }
    }

    /// The calling thread notifies.
    #[inline(always)]
    pub fn notify(&self) {
        self.notified.now();
    }

    /// Waits for it by `block`, which gives a lock back and takes it again.
    #[cold]
    #[inline(never)]
    pub fn wait<R>(&self, block: impl FnOnce() -> R) -> R {
        let count = self.notified.count();
        let mut waiting = Waiting::for_condition(&self.origin, Condition::OF);
        waiting.blocks();
        let result = block();
        waiting.by(self.notified.since(count));
        result
    }
}
