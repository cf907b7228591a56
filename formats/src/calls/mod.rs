//! The calls of one thread as a stack: every exit matched with its entry, by one rule, for reports, checks and
//! converters alike. What does not nest is made to, and marked. Must never believe a depth that a file
//! claims, nor fail: damage gives calls whose edges are told as missing.
//!
//! The rule, for an exit of `f` ([`Exit`]):
//! - `f` is the innermost open call: they match.
//! - `f` is open further out (an exit was lost, or `longjmp` left several frames): the calls inside it end at
//!   the time of the edge before.
//! - Nothing is open: `f` was entered before the first record. It begins at the thread's first edge, around all
//!   that came since.
//! - Other calls are open, not `f` (its entry was lost, or a second stack runs on this thread), or records were
//!   missing before: its entry is put at the time of the edge before it; right behind a gap, at the exit itself.
//!   The open calls are left as they are, so that the damage stays in one place.
//!
//! What is open at the end ends at the latest edge, or at the moment of the dump where that is known.
//!
//! A call is *measured* when its entry and its exit are both in the trace and nothing is in doubt between them.
//! Else it is *clipped*: an edge is missing or was added by a writer, or records were lost or the clock jumped
//! while it was open. The time of a clipped call that is in the trace counts for totals, and never for
//! minimum, mean and percentiles.
//!
//! ```
//! use fdr_formats::calls::CallStack;
//! use fdr_formats::{Call, FunctionId, Ticks};
//!
//! let (outer, inner) = (FunctionId(1), FunctionId(2));
//! let mut stack: CallStack = CallStack::new();
//! let mut own = Vec::new();
//! for call in [
//!     Call::entry(Ticks(0), outer),
//!     Call::entry(Ticks(10), inner),
//!     Call::exit(Ticks(40), inner),
//!     Call::exit(Ticks(100), outer),
//! ] {
//!     stack.call(&call, |ended| own.push((ended.call.function, ended.total(), ended.own())));
//! }
//! assert_eq!(own, [(inner, 30, 30), (outer, 100, 70)]);
//! ```

mod past;
mod rule;

use std::sync::Arc;

pub use self::past::{EarlierExit, Past};
pub use self::rule::{Exit, NEAR, Rule};
use crate::model::{Call, Edge, FunctionId, Ticks, TraceInfo};

/// What is known of the entry or the exit of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeStatus {
    /// It was recorded.
    Measured,
    /// A writer added it, so that calls nest.
    Synthetic,
    /// It is not in the trace.
    Missing,
}

impl EdgeStatus {
    fn of(call: &Call) -> EdgeStatus {
        match call.synthetic {
            true => EdgeStatus::Synthetic,
            false => EdgeStatus::Measured,
        }
    }
}

/// A call that was entered and not yet left.
#[derive(Clone, Debug)]
pub struct Open<T> {
    /// Which function.
    pub function: FunctionId,
    /// Its entry.
    pub start: Ticks,
    /// Which of the thread's edges its entry is, from 1.
    pub number: u64,
    /// Ticks in calls that it made, as far as they have ended.
    pub children: u64,
    /// What is known of its entry.
    pub entry: EdgeStatus,
    /// What the caller keeps of it.
    pub data: T,
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct Ended<T> {
    /// What it was while it was open.
    pub call: Open<T>,
    /// Its exit. Before the entry where the clock went back.
    pub end: Ticks,
    /// What is known of its exit.
    pub exit: EdgeStatus,
    /// It was left by a tail call.
    pub tail: bool,
    /// It was not measured as a whole.
    pub clipped: bool,
    /// Calls around it that are open.
    pub depth: usize,
    /// Its function has no times of its own: it is as wide as the calls in it.
    pub untimed: bool,
}

impl<T> Ended<T> {
    /// Ticks from its entry to its exit.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.untimed {
            true => self.call.children,
            false => self.end.since(self.call.start).0,
        }
    }

    /// Of those, the ticks that were spent in no call that it made.
    #[inline]
    #[must_use]
    pub fn own(&self) -> u64 {
        self.total().saturating_sub(self.call.children)
    }
}

/// What a [`CallStack`] tells of calls that end. A closure that takes [`Ended`] and the open calls is one, where the
/// data has a default.
pub trait CallHandler<T> {
    /// The data of a call whose entry is not in the trace; `caller` is that of the call around it.
    fn missing(&mut self, function: FunctionId, exit: Exit, caller: Option<&T>) -> T;

    /// A call has ended; `open` are those around it, outermost first.
    fn ended(&mut self, ended: Ended<T>, open: &mut [Open<T>]);
}

impl<T: Default, F: FnMut(Ended<T>, &mut [Open<T>])> CallHandler<T> for F {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&T>) -> T {
        T::default()
    }

    #[inline]
    fn ended(&mut self, ended: Ended<T>, open: &mut [Open<T>]) {
        self(ended, open);
    }
}

/// The open calls of one thread. `T` is what its user keeps of each.
#[derive(Debug)]
pub struct CallStack<T = ()> {
    open: Vec<Open<T>>,
    rule: Rule,
    /// Where this is but a piece of the thread's calls.
    past: Option<Past>,
    /// Functions without times, sorted.
    untimed: Arc<[FunctionId]>,
    /// Ticks in ended calls that have no caller in the trace.
    roots: u64,
    /// Edges so far.
    number: u64,
    /// Calls that were entered up to there are in doubt.
    doubted: u64,
    /// Records were last missing behind that edge, if any.
    gap: u64,
    /// Time of the first edge, of the last, and the latest.
    first: Ticks,
    before: Ticks,
    latest: Ticks,
}

impl<T> Default for CallStack<T> {
    fn default() -> Self {
        CallStack {
            open: Vec::new(),
            rule: Rule::default(),
            past: None,
            untimed: Arc::default(),
            roots: 0,
            number: 0,
            doubted: 0,
            gap: 0,
            first: Ticks(0),
            before: Ticks(0),
            latest: Ticks(0),
        }
    }
}

/// The functions of a trace that have no times of their own, sorted.
#[must_use]
pub fn untimed(info: &TraceInfo) -> Arc<[FunctionId]> {
    let untimed = info.functions.iter().filter(|function| function.untimed);
    let mut ids: Vec<FunctionId> = untimed.map(|function| function.id).collect();
    ids.sort_unstable();
    ids.into()
}

impl<T> CallStack<T> {
    /// No calls yet.
    #[must_use]
    pub fn new() -> CallStack<T> {
        CallStack::default()
    }

    /// Where some functions have no times of their own: what [`untimed`] gives.
    #[must_use]
    pub fn with_untimed(self, untimed: Arc<[FunctionId]>) -> CallStack<T> {
        CallStack { untimed, ..self }
    }

    /// For a piece of a thread's calls, of which those before are not known: see [`CallStack::join`].
    #[must_use]
    pub fn piece(self) -> CallStack<T> {
        let past = Some(Past::default());
        CallStack { past, ..self }
    }

    /// The open calls, outermost first.
    #[must_use]
    pub fn open(&self) -> &[Open<T>] {
        &self.open
    }

    /// The same, to change what is kept of them.
    #[inline]
    pub fn open_mut(&mut self) -> &mut [Open<T>] {
        &mut self.open
    }

    /// Time of the first edge.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<Ticks> {
        (self.number > 0).then_some(self.first)
    }

    /// Time of the edge before.
    #[inline]
    #[must_use]
    pub fn before(&self) -> Option<Ticks> {
        (self.number > 0).then_some(self.before)
    }

    /// Whether a function has no times of its own.
    #[inline]
    fn is_untimed(&self, function: FunctionId) -> bool {
        !self.untimed.is_empty() && self.untimed.binary_search(&function).is_ok()
    }

    /// The latest time of an edge.
    #[must_use]
    pub fn latest(&self) -> Ticks {
        self.latest
    }

    /// Whether, of a piece, nothing more can be told.
    #[must_use]
    pub fn is_unclear(&self) -> bool {
        self.past.as_ref().is_some_and(Past::is_unclear)
    }

    /// An entry; `data` is kept until its exit.
    #[inline]
    pub fn enter(&mut self, call: &Call, data: T) {
        self.note(call.time);
        self.rule.entered(1);
        self.open.push(Open {
            function: call.function,
            start: call.time,
            number: self.number,
            children: 0,
            entry: EdgeStatus::of(call),
            data,
        });
    }

    /// An exit; `out` is told the calls that end, innermost first. `None`: the call was entered before this piece,
    /// and ends when the piece is joined.
    #[inline]
    pub fn exit(&mut self, call: &Call, out: &mut impl CallHandler<T>) -> Option<Exit> {
        let exit = match self.open.last() {
            Some(innermost) if innermost.function == call.function => Some(Exit::Innermost),
            _ => self.mend(call, out),
        };
        self.note(call.time);
        if exit.is_some() {
            self.close(
                call.time,
                EdgeStatus::of(call),
                call.edge == Edge::TailExit,
                out,
            );
        }
        exit
    }

    /// Makes the call that `call` leaves the innermost open one.
    #[cold]
    fn mend(&mut self, call: &Call, out: &mut impl CallHandler<T>) -> Option<Exit> {
        let is = |open: &Open<T>| open.function == call.function;
        let exit = self.rule.other(&self.open, is);
        if let (Some(past), Exit::Before | Exit::Lone) = (&mut self.past, exit) {
            let (exit, children) = (*call, std::mem::take(&mut self.roots));
            past.leave(self.open.len(), EarlierExit { exit, children });
            return None;
        }
        let start = match exit {
            Exit::Innermost => return Some(exit),
            Exit::Outer(inside) => {
                let before = self.before;
                (0..inside).for_each(|_| self.close(before, EdgeStatus::Missing, false, out));
                return Some(exit);
            }
            Exit::Before => self.first().unwrap_or(call.time),
            Exit::Lone if self.gap == self.number => call.time,
            Exit::Lone => self.before,
        };
        let caller = self.open.last().map(|open| &open.data);
        let data = out.missing(call.function, exit, caller);
        // All that the thread did since its first edge, it did inside of a call from before.
        let children = match exit {
            Exit::Before => std::mem::take(&mut self.roots),
            _ => 0,
        };
        self.open.push(Open {
            function: call.function,
            start: start.min(call.time),
            number: self.number + 1,
            children,
            entry: EdgeStatus::Missing,
            data,
        });
        Some(exit)
    }

    /// An edge at that time.
    #[inline]
    fn note(&mut self, time: Ticks) {
        if self.number == 0 {
            self.first = time;
        }
        self.number += 1;
        self.before = time;
        self.latest = self.latest.max(time);
    }

    /// Ends the innermost open call.
    #[inline]
    fn close(&mut self, end: Ticks, exit: EdgeStatus, tail: bool, out: &mut impl CallHandler<T>) {
        let Some(call) = self.open.pop() else { return };
        let measured = call.entry == EdgeStatus::Measured && exit == EdgeStatus::Measured;
        let ended = Ended {
            clipped: !measured || call.number <= self.doubted,
            end,
            exit,
            tail,
            depth: self.open.len(),
            untimed: self.is_untimed(call.function),
            call,
        };
        self.add_children(ended.total());
        out.ended(ended, &mut self.open);
    }

    /// Records are missing here. Calls that are open now may have ended, and others of the same functions
    /// begun.
    pub fn lose(&mut self) {
        self.doubt();
        // What is missing before the first record is not in the middle.
        if self.number > 0 {
            self.rule.lost();
            self.gap = self.number;
        }
    }

    /// The clock jumped or began anew here: what calls took that are open now is not known.
    pub fn doubt(&mut self) {
        self.make_unclear();
        self.doubted = self.number;
    }

    /// Of a piece: what comes now can't be told without the past.
    pub fn make_unclear(&mut self) {
        if let Some(past) = &mut self.past {
            past.make_unclear();
        }
    }

    /// How many calls were open at most, or a few more: a stack never had more than it has room for.
    #[must_use]
    pub fn room(&self) -> usize {
        self.open.capacity()
    }

    /// Whether a piece that follows can be joined. If not, its events must come again, after those before.
    #[must_use]
    pub fn fits(&self, piece: &CallStack<T>) -> bool {
        let open = self.open.iter().rev().map(|open| open.function);
        let past = piece.past.as_ref().filter(|_| self.past.is_none());
        past.is_some_and(|past| past.fits(open, piece.room()))
    }

    /// Adds a piece that follows and that fits, as [`CallStack::fits`] says. `out` gets the calls that it ends.
    pub fn join(&mut self, piece: CallStack<T>, out: &mut impl CallHandler<T>) {
        let past = piece.past.unwrap_or_default();
        for EarlierExit { exit, children } in past.left() {
            self.add_children(*children);
            self.close(
                exit.time,
                EdgeStatus::of(exit),
                exit.edge == Edge::TailExit,
                out,
            );
        }
        self.add_children(piece.roots);
        let number = self.number;
        self.open.extend(piece.open.into_iter().map(|open| Open {
            number: number + open.number,
            ..open
        }));
        self.rule.join(&piece.rule);
        if piece.number > 0 {
            self.first = self.first().unwrap_or(piece.first);
            self.before = piece.before;
        }
        self.number += piece.number;
        self.latest = self.latest.max(piece.latest);
    }

    /// Ticks in calls that the innermost open call has made.
    #[inline]
    fn add_children(&mut self, ticks: u64) {
        let children = match self.open.last_mut() {
            Some(caller) => &mut caller.children,
            None => &mut self.roots,
        };
        *children = children.saturating_add(ticks);
    }

    /// Ends what is still open, innermost first: at `end`, the moment of the dump, or at the latest edge where that
    /// is not known. Takes the memory back; doing it again changes nothing.
    pub fn finish(&mut self, end: Option<Ticks>, out: &mut impl CallHandler<T>) {
        let end = end.unwrap_or_default().max(self.latest);
        while !self.open.is_empty() {
            self.close(end, EdgeStatus::Missing, false, out);
        }
        self.open = Vec::new();
    }
}

impl<T: Default> CallStack<T> {
    /// An entry or an exit. `out` gets the calls that it ends, innermost first.
    #[inline]
    pub fn call(&mut self, call: &Call, mut out: impl FnMut(Ended<T>)) {
        if call.edge == Edge::Entry {
            self.enter(call, T::default());
        } else {
            self.exit(call, &mut |ended, _: &mut [Open<T>]| out(ended));
        }
    }
}

#[cfg(test)]
mod tests;
