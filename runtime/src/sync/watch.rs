//! The state of a lock, a condition or a channel that the recorder needs: its name, its holder, and the present wait.
//! While recording is off, all of this costs one load and one branch, and one store when a lock is released.

use core::ops::Deref;
use core::panic::Location;
use core::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use fdr_formats::notes::{reason, thread_state};

use crate::primitive::AtomicU64;
use crate::recorder::wait;
use crate::site::CallSite;
use crate::site::wait::{Holders, READERS, WAITS, Wait};

/// A wait for a lock that ends earlier leaves no notes.
const THRESHOLD: Duration = Duration::from_micros(10);

/// The id of a name while a thread asks for it. That may wait for a lock, too, if the program's allocator has one.
const ASKING: u32 = u32::MAX;

/// Whether waits are recorded.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    WAITS.state() >= CallSite::MIN_ON
}

/// The name of an object: the given one, or its type and where it was made.
pub struct Origin {
    named: Named,
    /// The id of the name in the table of functions. 0 = it has none yet.
    id: AtomicU32,
}

#[derive(Clone, Copy)]
enum Named {
    Here(&'static Location<'static>),
    Name(&'static str),
}

impl Origin {
    /// The place of this call.
    #[track_caller]
    #[must_use]
    pub const fn here() -> Origin {
        Origin {
            named: Named::Here(Location::caller()),
            id: AtomicU32::new(0),
        }
    }

    /// A name that the program chose.
    #[must_use]
    pub const fn named(name: &'static str) -> Origin {
        Origin {
            named: Named::Name(name),
            id: AtomicU32::new(0),
        }
    }

    /// The id of its name. 0: it can't have one now.
    fn id(&self, of: &'static str) -> u32 {
        match self
            .id
            .compare_exchange(0, ASKING, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => {
                let id = match self.named {
                    Named::Here(place) => wait::name("", of, place.file(), place.line()),
                    Named::Name(name) => wait::name(name, of, "", 0),
                };
                self.id.store(id, Ordering::Relaxed);
                id
            }
            Err(ASKING) => 0,
            Err(id) => id,
        }
    }
}

impl Clone for Origin {
    fn clone(&self) -> Origin {
        Origin {
            named: self.named,
            id: AtomicU32::new(0),
        }
    }
}

/// The recorder's state of a lock: its name, and the thread that holds it exclusively.
pub struct Watch {
    owner: AtomicU64,
    origin: Origin,
}

impl Watch {
    /// A lock of that name, which no thread has.
    #[inline]
    #[must_use]
    pub const fn new(origin: Origin) -> Watch {
        Watch {
            owner: AtomicU64::new(0),
            origin,
        }
    }

    /// The calling thread has the lock alone, until what this gives is dropped.
    #[inline(always)]
    pub(super) fn held(&self) -> Held<'_> {
        if is_on() {
            self.hold();
        }
        Held(self)
    }

    /// As [`Watch::held`], for a thread that has already called [`Watch::hold`], or that took the lock while recording
    /// was off.
    #[inline(always)]
    pub(super) fn held_without_store(&self) -> Held<'_> {
        Held(self)
    }

    /// The calling thread has the lock alone.
    #[cold]
    #[inline(never)]
    pub fn hold(&self) {
        wait::hold(&self.owner, wait::me());
    }

    /// Stores that no thread holds the lock exclusively. Call this before the lock is released.
    #[inline(always)]
    pub fn release(&self) {
        wait::release(&self.owner);
    }

    /// Whether no thread is known to have it alone.
    fn has_no_owner(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == 0
    }
}

/// A lock that a thread wants.
#[derive(Clone, Copy)]
pub enum Claim<'a> {
    /// A lock that has no readers.
    Alone(&'a Watch),
    /// To write.
    Write(&'a SharedWatch),
    /// To read. The thread reports itself by [`SharedWatch::add`].
    Read(&'a SharedWatch),
}

impl Claim<'_> {
    /// Waits for the lock, which another thread holds, at most until the deadline. `of` gives the name of the lock's
    /// type. `attempt` tries to take the lock, and `block` waits for it until the deadline. `hold` gets the result of
    /// either. If the thread now has the lock, `hold` reports that to the watch.
    ///
    /// At first this spins for a short time, but not beyond the deadline, and tries to take the lock when no other
    /// thread is known to have it.
    #[cold]
    #[inline(never)]
    pub fn wait<R>(
        self,
        of: impl Fn() -> &'static str,
        deadline: Option<Instant>,
        attempt: impl Fn() -> Option<R>,
        block: impl FnOnce(Option<Instant>) -> R,
        hold: impl Fn(&R),
    ) -> R {
        let (watch, readers) = match self {
            Claim::Alone(watch) => (watch, None),
            Claim::Write(watch) | Claim::Read(watch) => (&watch.alone, Some(&watch.readers)),
        };
        let holders = Holders {
            owner: Some(&watch.owner),
            readers,
        };
        let mut waiting = Waiting::new(&watch.origin, of(), reason::LOCK, &holders);
        let is_over = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
        core::hint::spin_loop();
        while waiting.since.elapsed() < THRESHOLD && !is_over() {
            let result = if self.is_free() { attempt() } else { None };
            if let Some(result) = result {
                hold(&result);
                return result;
            }
            core::hint::spin_loop();
        }
        waiting.blocks();
        let result = block(deadline);
        // Before the note at the end of the wait, which is written when `waiting` is dropped.
        hold(&result);
        result
    }

    /// Whether no thread is known to have the lock in a way that excludes this one.
    fn is_free(self) -> bool {
        match self {
            Claim::Alone(watch) => watch.has_no_owner(),
            Claim::Write(watch) => watch.has_no_owner() && !watch.has_readers(),
            Claim::Read(watch) => watch.has_no_owner(),
        }
    }
}

/// The right of one thread to a lock. Dropping this gives the right back. It must be dropped before the lock is
/// released.
pub(super) struct Held<'a>(&'a Watch);

impl<'a> Held<'a> {
    /// Gives the right back.
    #[inline(always)]
    pub(super) fn release(self) -> &'a Watch {
        self.0
    }
}

impl Drop for Held<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The recorder's state of a lock with readers.
pub struct SharedWatch {
    alone: Watch,
    readers: AtomicU64,
}

impl SharedWatch {
    /// As [`Watch::new`].
    #[inline]
    #[must_use]
    pub const fn new(origin: Origin) -> SharedWatch {
        SharedWatch {
            alone: Watch::new(origin),
            readers: AtomicU64::new(0),
        }
    }

    /// A reader that took the lock while recording was off.
    #[inline(always)]
    pub(super) fn shared_unrecorded(&self) -> Shared<'_> {
        Shared {
            watch: self,
            reader: 0,
        }
    }

    /// The calling thread is one of the readers, until what this gives is dropped.
    #[inline(always)]
    pub(super) fn shared(&self) -> Shared<'_> {
        let mut shared = self.shared_unrecorded();
        if is_on() {
            shared.begin();
        }
        shared
    }

    /// The calling thread is one of the readers, until it gives this word to [`SharedWatch::remove`].
    #[must_use]
    pub fn add(&self) -> u64 {
        let reader = 1 << READERS | u64::from(wait::me() as u32);
        wait::share(&self.readers, reader);
        reader
    }

    /// Removes a reader. `reader` is the result of [`SharedWatch::add`]. Call this before the lock is released.
    pub fn remove(&self, reader: u64) {
        wait::leave(&self.readers, reader);
    }

    /// Whether readers are known.
    #[inline(always)]
    #[must_use]
    pub fn has_readers(&self) -> bool {
        self.readers.load(Ordering::Relaxed) != 0
    }

    /// There are no readers. Only a thread that has the lock alone can know that.
    #[inline]
    pub fn remove_all(&self) {
        self.readers.store(0, Ordering::Relaxed);
    }
}

/// The state for a thread that holds the lock exclusively.
impl Deref for SharedWatch {
    type Target = Watch;

    #[inline(always)]
    fn deref(&self) -> &Watch {
        &self.alone
    }
}

/// The right of a reader.
pub(super) struct Shared<'a> {
    watch: &'a SharedWatch,
    /// The word that the reader has added. 0: recording was off.
    reader: u64,
}

impl Shared<'_> {
    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        self.reader = self.watch.add();
    }

    #[cold]
    #[inline(never)]
    fn end(&self) {
        self.watch.remove(self.reader);
    }
}

impl Drop for Shared<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.reader != 0 {
            self.end();
        }
    }
}

/// The thread that notified a condition last, and the number of notifications.
pub(super) struct Notified(AtomicU64);

impl Notified {
    pub(super) const fn new() -> Notified {
        Notified(AtomicU64::new(0))
    }

    /// The calling thread notifies.
    #[inline(always)]
    pub(super) fn now(&self) {
        if is_on() {
            self.add();
        }
    }

    #[cold]
    #[inline(never)]
    fn add(&self) {
        let thread = wait::me() >> 32 << 32;
        let next = |word: u64| Some(thread | u64::from((word as u32).wrapping_add(1)));
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed) as u32
    }

    /// The thread that notified since that count, if it did so once and no other thread did. 0 = not known.
    pub(super) fn since(&self, count: u32) -> u32 {
        let word = self.0.load(Ordering::Relaxed);
        match (word as u32).wrapping_sub(count) {
            1 => (word >> 32) as u32,
            _ => 0,
        }
    }
}

/// A wait that is under way. It ends when it is dropped, and leaves a note then if it left one before.
pub(super) struct Waiting<'a> {
    origin: &'a Origin,
    of: &'static str,
    wait: Wait,
    since: Instant,
    is_noted: bool,
}

impl<'a> Waiting<'a> {
    fn new(origin: &'a Origin, of: &'static str, reason: u8, holders: &Holders<'_>) -> Waiting<'a> {
        let mut wait = Wait {
            object: core::ptr::from_ref(origin).addr() as u64,
            reason: reason.into(),
            ..Wait::default()
        };
        wait::begin(&mut wait, holders);
        Waiting {
            origin,
            of,
            wait,
            since: Instant::now(),
            is_noted: false,
        }
    }

    /// Begins a wait for a condition.
    pub(super) fn for_condition(origin: &'a Origin, of: &'static str) -> Waiting<'a> {
        Waiting::new(origin, of, reason::CONDITION, &Holders::default())
    }

    /// Begins a wait for a channel.
    pub(super) fn for_channel(origin: &'a Origin, of: &'static str) -> Waiting<'a> {
        Waiting::new(origin, of, reason::CHANNEL, &Holders::default())
    }

    /// Writes the note that the thread is about to block.
    pub(super) fn blocks(&mut self) {
        self.is_noted = true;
        self.wait.name = self.origin.id(self.of);
        wait::write_note(&self.wait, thread_state::BLOCKED);
    }

    /// Sets the thread that ended the wait. 0 = not known.
    pub(super) fn by(&mut self, thread: u32) {
        self.wait.thread = thread;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_noted {
            // The name may have had to wait.
            self.wait.name = self.origin.id(self.of);
            wait::write_note(&self.wait, thread_state::RUNNING);
        }
    }
}
