//! The same as `watch`, with the recorder compiled out: values without bytes, and functions without code. It must never
//! do anything.

use core::marker::PhantomData;
use std::time::Instant;

/// Nothing is recorded.
#[inline(always)]
pub(super) fn is_on() -> bool {
    false
}

/// No name.
#[derive(Clone)]
pub(super) struct Origin;

impl Origin {
    pub(super) const fn here() -> Origin {
        Origin
    }

    pub(super) const fn named(_name: &'static str) -> Origin {
        Origin
    }
}

/// What a lock does not know.
pub(super) struct Watch;

pub(super) type SharedWatch = Watch;

impl Watch {
    pub(super) const fn new(_origin: Origin) -> Watch {
        Watch
    }

    #[inline(always)]
    pub(super) fn held(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn held_so(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn shared_unseen(&self) -> Held<'_> {
        Held(PhantomData)
    }

    #[inline(always)]
    pub(super) fn shared(&self) -> Held<'_> {
        Held(PhantomData)
    }

    pub(super) fn hold(&self) {}

    #[inline(always)]
    pub(super) fn release(&self) {}

    pub(super) fn add(&self) -> u64 {
        0
    }

    pub(super) fn remove(&self, _reader: u64) {}

    #[inline(always)]
    pub(super) fn has_readers(&self) -> bool {
        false
    }

    pub(super) fn remove_all(&self) {}

    pub(super) fn has_no_owner(&self) -> bool {
        true
    }

    pub(super) fn has_no_holder(&self) -> bool {
        true
    }

    pub(super) fn wait(&self, _of: &'static str) -> Waiting<'_> {
        Waiting(PhantomData)
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

/// Nobody who notified.
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

/// A wait that nobody records.
pub(super) struct Waiting<'a>(PhantomData<&'a ()>);

impl<'a> Waiting<'a> {
    pub(super) fn for_condition(_origin: &'a Origin, _of: &'static str) -> Waiting<'a> {
        Waiting(PhantomData)
    }

    pub(super) fn for_channel(_origin: &'a Origin, _of: &'static str) -> Waiting<'a> {
        Waiting(PhantomData)
    }

    pub(super) fn for_lock<R>(
        self,
        _deadline: Option<Instant>,
        _take: impl Fn() -> Option<R>,
        block: impl FnOnce() -> R,
    ) -> R {
        block()
    }

    pub(super) fn blocks(&mut self) {}

    pub(super) fn by(&mut self, _thread: u32) {}
}
