//! Makes the calls of a block nest: each exit gets an entry, and each entry an exit. llvm-xray's `account`, `stack` and
//! `graph` refuse any other block. This file decides; the writers write.
//!
//! The rule of [`crate::calls`] decides what an exit ends:
//! - Calls that are open inside get synthetic exits in front of it, at the time of the previous record.
//! - A call from before the block gets a synthetic entry at the block's start. It is put around the calls that
//!   already have such an entry.
//! - An exit without an entry gets a synthetic one in front of it, at the time of the previous record.
//!   Directly behind a gap, the time is that of the exit.
//!
//! At the end, open calls get synthetic exits, innermost first, at the time of the last record.
//!
//! `Ids` is a list of functions, in memory that grows or in memory of the caller.

use std::ops::DerefMut;

use crate::calls::{Exit, Rule};

/// The open calls of one thread.
#[derive(Debug, Default)]
pub(super) struct Stack<M = Vec<u32>> {
    pub(super) open: Ids<M>,
    before: Ids<M>,
    pub(super) rule: Rule,
}

impl<M: Memory> Stack<M> {
    /// A stack without calls; `open` and `before` are its memory.
    pub(super) fn new(open: M, before: M) -> Stack<M> {
        Stack {
            open: Ids::new(open),
            before: Ids::new(before),
            rule: Rule::default(),
        }
    }

    /// Forgets all calls.
    pub(super) fn restart(&mut self) {
        self.rule = self.rule.restarted();
        self.open.truncate(0);
        self.before.truncate(0);
    }

    pub(super) fn enter(&mut self, id: u32) {
        self.open.push(id);
        self.rule.entered(1);
    }

    /// Records are missing here. A call that was entered among them did not begin before the block.
    pub(super) fn gap(&mut self) {
        self.rule.lost();
    }

    /// An exit of `id`. The calls that it leaves open inside go to the end of `closed`.
    #[inline]
    pub(super) fn exit(&mut self, id: u32, closed: &mut Ids<M>) -> Exit {
        let open = self.open.all();
        let exit = self.rule.exit(open, |&open| open == id);
        match exit {
            Exit::Innermost => self.open.pop(),
            Exit::Outer(inside) => {
                let depth = open.len() - inside;
                open.iter()
                    .rev()
                    .take(inside)
                    .for_each(|&id| closed.push(id));
                self.open.truncate(depth - 1);
            }
            Exit::Before => self.before.push(id),
            Exit::Lone => {}
        }
        exit
    }

    /// As `exit`, for an entry, or for an exit that needs no record in front of it. Any other exit changes
    /// nothing, and the result is false.
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
            None if !self.rule.has_gap() => {
                self.before.push(id);
                true
            }
            _ => false,
        }
    }

    /// Calls that were open before the block and are still open: around all that are known, the innermost first.
    pub(super) fn push_around(&mut self, ids: impl Iterator<Item = u32>) {
        for id in ids {
            self.before.push(id);
            self.open.push_below(id);
        }
    }

    /// The calls that were open before the block, outermost first.
    pub(super) fn open_before(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.before.all().iter().rev().copied()
    }

    /// The calls that are still open, innermost first.
    pub(super) fn open(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.open.all().iter().rev().copied()
    }
}

/// Where a list is kept.
pub(super) trait Memory: DerefMut<Target = [u32]> {
    /// Makes room for more, if it can.
    fn grow(&mut self);
}

impl Memory for Vec<u32> {
    fn grow(&mut self) {
        self.resize((2 * self.len()).max(64), 0);
    }
}

/// The memory has all the room that it will ever have.
impl Memory for &mut [u32] {
    fn grow(&mut self) {}
}

/// A list. If its memory has no room, a push does nothing.
#[derive(Debug, Default)]
pub(super) struct Ids<M = Vec<u32>> {
    memory: M,
    used: usize,
}

impl<M: Memory> Ids<M> {
    /// An empty list in that memory.
    pub(super) fn new(memory: M) -> Ids<M> {
        Ids { memory, used: 0 }
    }

    #[inline]
    pub(super) fn all(&self) -> &[u32] {
        self.memory.get(..self.used).unwrap_or(&[])
    }

    #[inline]
    pub(super) fn last(&self) -> Option<u32> {
        self.memory.get(self.used.wrapping_sub(1)).copied()
    }

    #[inline]
    pub(super) fn push(&mut self, id: u32) {
        match self.memory.get_mut(self.used) {
            Some(place) => {
                *place = id;
                self.used += 1;
            }
            None => self.push_more(id),
        }
    }

    #[cold]
    fn push_more(&mut self, id: u32) {
        self.memory.grow();
        if let Some(place) = self.memory.get_mut(self.used) {
            *place = id;
            self.used += 1;
        }
    }

    /// Puts an element in front of all others, if there is room.
    fn push_below(&mut self, id: u32) {
        let before = self.used;
        self.push(id);
        if let Some(used) = self
            .memory
            .get_mut(..self.used)
            .filter(|used| used.len() > before)
        {
            used.copy_within(..before, 1);
            if let Some(first) = used.first_mut() {
                *first = id;
            }
        }
    }

    /// Takes the last element away, if there is one.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    #[inline]
    pub(super) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// The list's memory and the number of places in use, for a caller that changes both.
    #[inline]
    pub(super) fn places(&mut self) -> (&mut [u32], &mut usize) {
        (&mut self.memory, &mut self.used)
    }
}
