//! Makes the calls of a block nest: each exit gets an entry, each entry an exit, because llvm-xray's
//! `account`, `stack` and `graph` refuse anything else. Decides only; the writers write. A record
//! that was measured is never changed or left out.
//!
//! The rule, for an exit of `f`:
//! - `f` is the innermost open call: they match.
//! - `f` is open further out (an exit was lost, or `longjmp` left several frames): the calls inside
//!   it get synthetic exits in front of this one, at the time of the record before.
//! - nothing is open: `f` was entered before the block. It gets a synthetic entry at the block's
//!   start, outside of those that were given before.
//! - other calls are open, not `f` (its entry was lost, or a second stack runs on this thread), or
//!   records are missing before this exit: it gets a synthetic entry in front of this exit, at the
//!   time of the record before (right behind a gap: of the exit). The open calls are left as they
//!   are, so that the damage stays in one place.
//!
//! What is open at the end gets synthetic exits, innermost first, at the time of the last record.

use super::ids::{Ids, Memory};
use crate::reach::Reach;

/// What must be put in front of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Nothing.
    Matched,
    /// Exits of so many calls: they were added to the list that the caller gave.
    Unwound(usize),
    /// Nothing here; an entry at the block's start.
    Before,
    /// An entry of the same function.
    Lone,
}

/// The open calls of one thread.
#[derive(Debug, Default)]
pub(super) struct Stack<M = Vec<u32>> {
    pub(super) open: Ids<M>,
    before: Ids<M>,
    /// Records are missing in the middle.
    gap: bool,
    pub(super) reach: Reach,
}

impl<M: Memory> Stack<M> {
    /// Without calls; `open` and `before` are what they are kept in.
    pub(super) fn new(open: M, before: M) -> Stack<M> {
        Stack {
            open: Ids::new(open),
            before: Ids::new(before),
            gap: false,
            reach: Reach::default(),
        }
    }

    /// Forgets all calls.
    pub(super) fn restart(&mut self) {
        self.reach = Reach::default();
        self.open.truncate(0);
        self.before.truncate(0);
    }

    pub(super) fn enter(&mut self, id: u32) {
        self.open.push(id);
        self.reach.enter();
    }

    /// Records are missing here: a call that was entered among them did not begin before the block.
    pub(super) fn gap(&mut self) {
        self.gap = true;
    }

    /// An exit of `id`. Calls that it leaves open inside go to the end of `closed`.
    #[inline]
    pub(super) fn exit(&mut self, id: u32, closed: &mut Ids<M>) -> Exit {
        match self.open.last() {
            Some(top) if top == id => {
                self.open.pop();
                Exit::Matched
            }
            Some(_) => self.mismatch(id, closed),
            None if self.gap => Exit::Lone,
            None => {
                self.before.push(id);
                Exit::Before
            }
        }
    }

    /// The same of an entry, or of an exit in front of which nothing must be put; else nothing is done.
    #[inline]
    pub(super) fn follow(&mut self, id: u32, entry: bool) -> bool {
        if entry {
            self.enter(id);
            return true;
        }
        match self.open.last() {
            Some(top) if top == id => {
                self.open.pop();
                true
            }
            None if !self.gap => {
                self.before.push(id);
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn mismatch(&mut self, id: u32, closed: &mut Ids<M>) -> Exit {
        let found = self.reach.find(self.open.all(), |&open| open == id);
        let Some(count) = found else {
            return Exit::Lone;
        };
        self.open
            .all()
            .iter()
            .rev()
            .take(count)
            .for_each(|&inner| closed.push(inner));
        let depth = self.open.all().len() - count;
        self.open.truncate(depth - 1);
        Exit::Unwound(count)
    }

    /// What was open before the block, outermost first.
    pub(super) fn before(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.before.all().iter().rev().copied()
    }

    /// What is still open, innermost first.
    pub(super) fn open(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.open.all().iter().rev().copied()
    }
}
