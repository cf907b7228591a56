//! Atomics for models. They have the size of core's and the same offsets, because the ring's layout is bytes, and
//! readers find words by their addresses. Loom keeps each word that a model has named by [`watch`]. Any other word
//! is core's. This file must never be part of a build that is not a model's.
//!
//! Each use of a watched word has a place in the source, its [`Site`]. A second run of a model can make one site
//! weaker ([`Weakening`]). If that run finds no error either, the model does not need the ordering of that site,
//! and so does not prove that the ordering is right.
//!
//! One model runs on one thread of the system, because loom's threads are coroutines. So all data of this file
//! belongs to that thread.

use core::panic::Location;
use core::sync::atomic as plain;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use plain::Ordering;

/// An operation on a word, or a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Load,
    Store,
    Swap,
    Fence,
}

/// A use of a watched word, or a fence, where an ordering stands or a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    pub(crate) file: &'static str,
    pub(crate) line: u32,
    column: u32,
    pub(crate) action: Action,
    /// Whether it has an ordering besides Relaxed.
    pub(crate) ordered: bool,
}

/// What one run of a model weakens in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weakening {
    /// Relaxed instead of the ordering in the source; no fence at all.
    Relaxed(Site),
    /// No store at all.
    Omitted(Site),
}

/// A word that loom keeps.
struct Watched<T> {
    word: T,
    /// Each use of `word` stores here first. No thread loads this word, so these stores order nothing. Loom looks
    /// for other orders only at the last use of a word. So a load hides another thread's earlier load from the next
    /// store. A store hides nothing, so loom sees each use of `word` here.
    turn: loom::sync::atomic::AtomicU32,
}

type Words<T> = RefCell<HashMap<usize, Rc<Watched<T>>>>;

thread_local! {
    static U64: Words<loom::sync::atomic::AtomicU64> = RefCell::default();
    static U32: Words<loom::sync::atomic::AtomicU32> = RefCell::default();
    static SITES: RefCell<BTreeSet<Site>> = RefCell::default();
    static WEAKENING: Cell<Option<Weakening>> = const { Cell::new(None) };
    /// Whether a model runs: fences are loom's.
    static RUNS: Cell<bool> = const { Cell::new(false) };
}

/// Begins one execution of a model: no word is watched yet.
pub(crate) fn begin() {
    U64.with_borrow_mut(HashMap::clear);
    U32.with_borrow_mut(HashMap::clear);
    RUNS.set(true);
}

/// Weakens the source for what this thread of the system runs from now on.
pub(crate) fn weaken(weakening: Option<Weakening>) {
    WEAKENING.set(weakening);
}

/// Every site that was used on this thread of the system.
pub(crate) fn sites() -> BTreeSet<Site> {
    SITES.take()
}

/// The ordering for the caller's site. `None` if this run leaves the operation out.
#[track_caller]
fn at_site(action: Action, ordering: Ordering) -> Option<Ordering> {
    let place = Location::caller();
    let site = Site {
        file: place.file(),
        line: place.line(),
        column: place.column(),
        action,
        ordered: ordering != Ordering::Relaxed,
    };
    SITES.with_borrow_mut(|sites| sites.insert(site));
    match WEAKENING.get() {
        Some(Weakening::Omitted(which)) if which == site => None,
        Some(Weakening::Relaxed(which)) if which == site => {
            (action != Action::Fence).then_some(Ordering::Relaxed)
        }
        _ => Some(ordering),
    }
}

/// A fence of loom's where a model runs.
#[track_caller]
pub(crate) fn fence(ordering: Ordering) {
    if !RUNS.get() {
        plain::fence(ordering);
    } else if let Some(ordering) = at_site(Action::Fence, ordering) {
        loom::sync::atomic::fence(ordering);
    }
}

macro_rules! atomic {
    ($name:ident, $word:ty, $watched:ident) => {
        /// As core's of that name.
        #[repr(transparent)]
        #[derive(Debug)]
        pub(crate) struct $name(plain::$name);

        const _: () = assert!(size_of::<$name>() == size_of::<$word>());

        #[allow(dead_code, reason = "as core's: not every width has a use for each")]
        impl $name {
            pub(crate) const fn new(value: $word) -> $name {
                $name(plain::$name::new(value))
            }

            /// # Safety
            /// As of core's.
            pub(crate) const unsafe fn from_ptr<'a>(at: *mut $word) -> &'a $name {
                // SAFETY: the same layout; the rest as the caller vouches.
                unsafe { &*at.cast::<$name>() }
            }

            /// From now on loom keeps the word, for this execution.
            pub(crate) fn watch(&self) {
                let word = Watched {
                    word: loom::sync::atomic::$name::new(self.0.load(Ordering::Relaxed)),
                    turn: loom::sync::atomic::AtomicU32::new(0),
                };
                let at = core::ptr::from_ref(self).addr();
                let before = $watched.with_borrow_mut(|words| words.insert(at, Rc::new(word)));
                assert!(before.is_none(), "watched twice");
            }

            fn watched(&self) -> Option<Rc<Watched<loom::sync::atomic::$name>>> {
                let at = core::ptr::from_ref(self).addr();
                let watched = $watched.with_borrow(|words| words.get(&at).cloned())?;
                watched.turn.store(0, Ordering::Relaxed);
                Some(watched)
            }

            #[track_caller]
            pub(crate) fn load(&self, ordering: Ordering) -> $word {
                let Some(watched) = self.watched() else {
                    return self.0.load(ordering);
                };
                watched
                    .word
                    .load(at_site(Action::Load, ordering).unwrap_or(ordering))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $word, ordering: Ordering) {
                let Some(watched) = self.watched() else {
                    return self.0.store(value, ordering);
                };
                if let Some(ordering) = at_site(Action::Store, ordering) {
                    watched.word.store(value, ordering);
                }
            }

            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $word, ordering: Ordering) -> $word {
                let Some(watched) = self.watched() else {
                    return self.0.fetch_add(value, ordering);
                };
                match at_site(Action::Swap, ordering) {
                    Some(ordering) => watched.word.fetch_add(value, ordering),
                    None => watched.word.load(Ordering::Relaxed),
                }
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $word, ordering: Ordering) -> $word {
                let Some(watched) = self.watched() else {
                    return self.0.swap(value, ordering);
                };
                match at_site(Action::Swap, ordering) {
                    Some(ordering) => watched.word.swap(value, ordering),
                    None => watched.word.load(Ordering::Relaxed),
                }
            }

            #[track_caller]
            pub(crate) fn fetch_or(&self, value: $word, ordering: Ordering) -> $word {
                let Some(watched) = self.watched() else {
                    return self.0.fetch_or(value, ordering);
                };
                match at_site(Action::Swap, ordering) {
                    Some(ordering) => watched.word.fetch_or(value, ordering),
                    None => watched.word.load(Ordering::Relaxed),
                }
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $word, ordering: Ordering) -> $word {
                self.fetch_add(value.wrapping_neg(), ordering)
            }

            #[track_caller]
            pub(crate) fn fetch_max(&self, value: $word, ordering: Ordering) -> $word {
                let raise = |found| (found < value).then_some(value);
                let raised = self.fetch_update(ordering, Ordering::Relaxed, raise);
                raised.unwrap_or_else(|found| found)
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                current: $word,
                new: $word,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$word, $word> {
                let Some(watched) = self.watched() else {
                    return self.0.compare_exchange(current, new, success, failure);
                };
                match at_site(Action::Swap, success) {
                    Some(success) => watched
                        .word
                        .compare_exchange(current, new, success, failure),
                    // This run leaves the store out. Only the caller believes that the exchange took place.
                    None => match watched.word.load(failure) {
                        found if found == current => Ok(found),
                        found => Err(found),
                    },
                }
            }

            #[track_caller]
            pub(crate) fn fetch_update(
                &self,
                success: Ordering,
                failure: Ordering,
                mut next: impl FnMut($word) -> Option<$word>,
            ) -> Result<$word, $word> {
                let mut found = self.load(failure);
                while let Some(new) = next(found) {
                    match self.compare_exchange(found, new, success, failure) {
                        Ok(found) => return Ok(found),
                        Err(other) => found = other,
                    }
                }
                Err(found)
            }
        }
    };
}

atomic!(AtomicU64, u64, U64);
atomic!(AtomicU32, u32, U32);
