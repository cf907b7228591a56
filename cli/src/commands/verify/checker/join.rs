//! A piece of a thread's calls is checked without the pieces before it, and is joined to them later. What a piece must
//! know of them is in [`fdr_formats::calls::Past`]. Must find exactly what a check of all calls in order finds.

use fdr_formats::calls::{self, EarlierExit};
use fdr_formats::pieces::Join;
use fdr_formats::{Call, ThreadId, Ticks};

use super::{Checker, Found, State, What};

/// What a piece must know of the calls before it.
#[derive(Debug, Default)]
pub(super) struct Past {
    calls: calls::Past,
    /// Time of the first record.
    first: Option<Ticks>,
}

impl State {
    /// Calls come, the first of them at that time.
    pub(super) fn begin(&mut self, first: Option<Ticks>) {
        if let (Some(past), Some(first)) = (&mut self.past, first) {
            past.first.get_or_insert(first);
        }
    }

    /// An exit of which no call is open: whether nothing more can be told of it in a piece.
    pub(super) fn leave_past(&mut self, call: &Call) -> bool {
        let Some(past) = &mut self.past else {
            return false;
        };
        let (exit, children) = (*call, 0);
        past.calls
            .leave(self.open.len(), EarlierExit { exit, children });
        true
    }

    /// Adds a piece that follows. `false`: that can't be told, and nothing was changed.
    fn join(&mut self, piece: State, theirs: Found, thread: ThreadId, found: &mut Found) -> bool {
        let open = self.open.iter().rev().map(|&(function, _)| function);
        // A stack never had more than it has room for.
        let deepest = piece.open.capacity();
        let past = piece.past.as_ref().filter(|_| self.past.is_none());
        let Some(past) = past.filter(|past| past.calls.fits(open, deepest)) else {
            return false;
        };
        let base = self.number;
        if let Some(to) = past.first.filter(|&first| first < self.last) {
            let from = self.last;
            found.add(thread, base + 1, What::TimeBack { from, to });
        }
        found.join(theirs, base);
        self.open
            .truncate(self.open.len() - past.calls.left().len());
        let open = piece.open.iter();
        self.open
            .extend(open.map(|&(function, number)| (function, base + number)));
        self.gap = piece.gap.map(|gap| base + gap).or(self.gap);
        if past.first.is_some() {
            self.last = piece.last;
        }
        self.rule.join(&piece.rule);
        self.add(&piece);
        true
    }
}

impl Join for Checker {
    fn join(&mut self, mut piece: Checker) -> bool {
        let thread = self.current;
        match (piece.threads.remove(&thread), self.threads.get_mut(&thread)) {
            (Some(theirs), Some(own)) if piece.threads.is_empty() => {
                own.join(theirs, piece.found, thread, &mut self.found)
            }
            _ => false,
        }
    }
}
