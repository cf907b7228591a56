//! A list of functions, in memory that grows or in memory that somebody else has.

use std::ops::DerefMut;

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

/// Has all the room that it will ever have.
impl Memory for &mut [u32] {
    fn grow(&mut self) {}
}

/// A list. Where its memory has no room, what is pushed is left out.
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

    /// Takes the last one away, if there is one.
    #[inline]
    pub(super) fn pop(&mut self) {
        self.used = self.used.saturating_sub(1);
    }

    #[inline]
    pub(super) fn truncate(&mut self, length: usize) {
        self.used = self.used.min(length);
    }

    /// The list's memory, of which so many places are used, for somebody who changes both.
    #[inline]
    pub(super) fn places(&mut self) -> (&mut [u32], &mut usize) {
        (&mut self.memory, &mut self.used)
    }
}
