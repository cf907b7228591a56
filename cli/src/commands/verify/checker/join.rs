//! A piece of a thread's calls, checked without knowing what came before it, and joined to what did. An
//! exit of a call that was entered before the piece is kept and compared when the two are joined;
//! anything else that would need the past makes the piece unclear, and it is checked again in its turn.
//! Must never find anything else than a look at everything in order.

use fdr_formats::pieces::Join;
use fdr_formats::{Call, FunctionId, ThreadId, Ticks};

use super::{Checker, Found, MAX_DEPTH, SEARCH, State, What};

/// Exits of earlier calls that a piece may have.
const MAX_LEFT: usize = 1 << 16;

/// What a piece must know of the calls before it.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Functions of calls that were entered before, in the order of their exits.
    left: Vec<FunctionId>,
    /// Time of the first record.
    first: Option<Ticks>,
    unclear: bool,
}

impl State {
    /// Calls come, the first of them at that time.
    pub(super) fn begin(&mut self, first: Option<Ticks>) {
        if let (Some(past), Some(first)) = (&mut self.past, first) {
            past.first.get_or_insert(first);
        }
    }

    /// An exit of another call than the innermost one: whether nothing more can be told of it in a piece.
    pub(super) fn leave_past(&mut self, call: &Call) -> bool {
        let Some(past) = &mut self.past else {
            return false;
        };
        if self.open.is_empty() && past.left.len() < MAX_LEFT {
            past.left.push(call.function);
            return true;
        }
        let known = |(function, _): &(FunctionId, u64)| *function == call.function;
        let near = self.open.len() >= SEARCH || self.open.iter().any(known);
        past.unclear |= !near;
        !near
    }

    /// Adds a piece that follows. `false`: that can't be told, and nothing was changed.
    fn join(&mut self, piece: State, theirs: Found, thread: ThreadId, found: &mut Found) -> bool {
        let Some(past) = piece.past.as_ref().filter(|past| !past.unclear) else {
            return false;
        };
        // A stack never had more than it has room for.
        let deep = self.open.len() + piece.open.capacity() > MAX_DEPTH;
        let left = self.open.iter().rev().map(|(function, _)| function);
        let matched =
            past.left.len() <= self.open.len() && past.left.iter().eq(left.take(past.left.len()));
        if self.past.is_some() || self.too_deep || piece.too_deep || deep || !matched {
            return false;
        }
        let base = self.number;
        if let Some(to) = past.first.filter(|&first| first < self.last) {
            let from = self.last;
            found.add(thread, base + 1, What::TimeBack { from, to });
        }
        found.join(theirs, base);
        self.open.truncate(self.open.len() - past.left.len());
        let open = piece.open.iter();
        self.open
            .extend(open.map(|&(function, number)| (function, base + number)));
        self.gap = piece.gap.map(|gap| base + gap).or(self.gap);
        if past.first.is_some() {
            self.last = piece.last;
        }
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
