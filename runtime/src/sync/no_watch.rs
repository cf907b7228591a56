//! The same as `watch`, with the recorder compiled out: values without bytes, and functions without code.

use core::marker::PhantomData;
use std::time::Instant;

/// Nothing is recorded.
#[inline(always)]
#[must_use]
pub fn is_on() -> bool {
    false
}

/// No name.
#[derive(Clone)]
pub struct Origin;

impl Origin {
    /// No place.
    #[must_use]
    pub const fn here() -> Origin {
        Origin
    }

    /// No name.
    #[must_use]
    pub const fn named(_name: &'static str) -> Origin {
        Origin
    }
}

/// The state of a lock without the recorder: empty.
pub struct Watch;

/// The state of a lock with readers: empty.
pub type SharedWatch = Watch;

// The documentation of these functions is in `watch`.
#[expect(missing_docs)]
impl Watch {
    #[must_use]
    pub const fn new(_origin: Origin) -> Watch {
        Watch
    }

    #[inline(always)]
    pub(super) fn held(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn held_without_store(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn shared_unrecorded(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> Held<'_> {
        Held(PhantomData)
    }

    pub fn hold(&self) {}

    #[inline(always)]
    pub fn release(&self) {}

    #[must_use]
    pub fn add(&self) -> u64 {
        0
    }

    pub fn remove(&self, _reader: u64) {}

    #[inline(always)]
    #[must_use]
    pub fn has_readers(&self) -> bool {
        false
    }

    pub fn remove_all(&self) {}
}

/// A lock that a thread wants.
pub enum Claim<'a> {
    /// A lock that has no readers.
    Alone(&'a Watch),
    /// To write.
    Write(&'a SharedWatch),
    /// To read.
    Read(&'a SharedWatch),
}

impl Claim<'_> {
    /// Waits for the lock, because no wait is recorded.
    pub fn wait<R>(
        self,
        _of: impl Fn() -> &'static str,
        deadline: Option<Instant>,
        _attempt: impl Fn() -> Option<R>,
        block: impl FnOnce(Option<Instant>) -> R,
        _hold: impl Fn(&R),
    ) -> R {
        block(deadline)
    }
}

/// The right of one thread.
pub(super) struct Held<'a>(PhantomData<&'a ()>);

pub(super) type Shared<'a> = Held<'a>;

impl<'a> Held<'a> {
    #[inline(always)]
    pub(super) fn release(self) -> &'a Watch {
        &Watch
    }
}

/// The last notifier: empty.
pub(super) struct Notified;

impl Notified {
    pub(super) const fn new() -> Notified {
        Notified
    }

    #[inline(always)]
    pub(super) fn now(&self) {}

    pub(super) fn count(&self) -> u32 {
        0
    }

    pub(super) fn since(&self, _count: u32) -> u32 {
        0
    }
}

/// A wait, which is not recorded.
pub(super) struct Waiting<'a>(PhantomData<&'a ()>);

impl<'a> Waiting<'a> {
    pub(super) fn for_condition(_origin: &'a Origin, _of: &'static str) -> Waiting<'a> {
        Waiting(PhantomData)
    }

    pub(super) fn for_channel(_origin: &'a Origin, _of: &'static str) -> Waiting<'a> {
        Waiting(PhantomData)
    }

    pub(super) fn blocks(&mut self) {}

    pub(super) fn by(&mut self, _thread: u32) {}
}
