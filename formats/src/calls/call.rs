//! What a call stack gives: open calls, ended calls, and what is known of their edges. Must never decide
//! what an exit ends.

use super::rule::Exit;
use crate::model::{Call, FunctionId, Ticks};

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
    pub(super) fn of(call: &Call) -> EdgeStatus {
        match call.synthetic {
            true => EdgeStatus::Synthetic,
            false => EdgeStatus::Measured,
        }
    }
}

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
pub struct Open<T> {
    /// Its entry.
    pub start: Ticks,
    /// Ticks that its caller had spent in calls that it made, when this one was entered.
    pub(super) before: u64,
    /// Which function.
    pub function: FunctionId,
    /// What is known of the entry: bits of [`state`]. Zero: it was measured, and nothing is in doubt since.
    pub(super) state: u32,
    /// What the caller keeps of it.
    pub data: T,
}

const _: () = assert!(size_of::<Open<()>>() == 24);

/// The bits of what is known of an open call.
pub(super) mod state {
    /// Records were lost, or the clock jumped, while it was open.
    pub(in super::super) const DOUBTED: u32 = 1;
    /// A writer added its entry.
    pub(in super::super) const SYNTHETIC: u32 = 2;
    /// Its entry is not in the trace.
    pub(in super::super) const MISSING: u32 = 4;
    /// This is no call, but the place below the outermost one.
    pub(in super::super) const NO_CALL: u32 = 8;
}

impl<T> Open<T> {
    /// What is known of its entry.
    #[inline]
    #[must_use]
    pub fn entry(&self) -> EdgeStatus {
        match self.state & (state::SYNTHETIC | state::MISSING) {
            0 => EdgeStatus::Measured,
            state::SYNTHETIC => EdgeStatus::Synthetic,
            _ => EdgeStatus::Missing,
        }
    }

    /// Whether its entry was measured, and nothing is in doubt since.
    #[inline]
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.state == 0
    }
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
    /// Ticks in calls that it made.
    pub children: u64,
    /// Its function has no times of its own: it is as wide as the calls in it.
    pub untimed: bool,
}

impl<T> Ended<T> {
    /// Ticks from its entry to its exit.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.untimed {
            true => self.children,
            false => self.end.since(self.call.start).0,
        }
    }

    /// Of those, the ticks that were spent in no call that it made.
    #[inline]
    #[must_use]
    pub fn own(&self) -> u64 {
        self.total().saturating_sub(self.children)
    }
}

/// What a [`CallStack`](super::CallStack) tells of calls that end. A closure that takes [`Ended`] and the open calls is one, where the
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
