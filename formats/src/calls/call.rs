//! Open calls and ended calls of a call stack, and how certain their edges are.

use super::rule::Exit;
use crate::model::{Call, FunctionId, Ticks};

/// The knowledge about the entry or the exit of a call.
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
    pub(super) fn from_call(call: &Call) -> EdgeStatus {
        match call.synthetic {
            true => EdgeStatus::Synthetic,
            false => EdgeStatus::Measured,
        }
    }
}

/// A call that was entered and not yet left.
#[derive(Clone, Copy, Debug)]
pub struct OpenCall<T> {
    /// Its entry.
    pub start: Ticks,
    /// Ticks that its caller had spent in other calls before this entry.
    pub(super) before: u64,
    /// Which function.
    pub function: FunctionId,
    /// Bits of [`state`]: how certain the entry is. Zero: the entry was measured, and nothing after it is
    /// in doubt.
    pub(super) state: u32,
    /// The user's data.
    pub data: T,
}

const _: () = assert!(size_of::<OpenCall<()>>() == 24);

/// The bits of the knowledge about an open call.
pub(super) mod state {
    /// Records were lost, or the clock jumped, while the call was open.
    pub(in super::super) const DOUBTED: u32 = 1;
    /// A writer added its entry.
    pub(in super::super) const SYNTHETIC: u32 = 2;
    /// Its entry is not in the trace.
    pub(in super::super) const MISSING: u32 = 4;
    /// No call: the place below the outermost one.
    pub(in super::super) const NO_CALL: u32 = 8;
    /// The caller wants to see the end of this call, so the end takes the slow path. The bit says nothing
    /// about the call itself.
    pub(in super::super) const ASIDE: u32 = 16;
}

impl<T> OpenCall<T> {
    /// The knowledge about its entry.
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
        self.state & !state::ASIDE == 0
    }

    /// Whether it was open when [`CallStack::set_aside`](super::CallStack::set_aside) was called.
    #[inline]
    #[must_use]
    pub fn is_aside(&self) -> bool {
        self.state & state::ASIDE != 0
    }

    /// Ticks that its caller had spent in other calls before this entry.
    #[inline]
    #[must_use]
    pub fn spent_before(&self) -> u64 {
        self.before
    }
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub struct EndedCall<T> {
    /// The call as it was while it was open.
    pub call: OpenCall<T>,
    /// Its exit. It is before the entry if the clock went back.
    pub end: Ticks,
    /// The knowledge about its exit.
    pub exit: EdgeStatus,
    /// It was left by a tail call.
    pub tail: bool,
    /// Its entry, its exit or the time between them is in doubt.
    pub clipped: bool,
    /// The number of open calls around it.
    pub depth: usize,
    /// Ticks in calls that it made.
    pub children: u64,
    /// The function has no times of its own: the time of the call is that of the calls inside it.
    pub untimed: bool,
}

impl<T> EndedCall<T> {
    /// The same call with other data.
    #[must_use]
    pub fn with_data<U>(&self, data: U) -> EndedCall<U> {
        let OpenCall {
            start,
            before,
            function,
            state,
            ..
        } = self.call;
        EndedCall {
            call: OpenCall {
                start,
                before,
                function,
                state,
                data,
            },
            end: self.end,
            exit: self.exit,
            tail: self.tail,
            clipped: self.clipped,
            depth: self.depth,
            children: self.children,
            untimed: self.untimed,
        }
    }

    /// Ticks from its entry to its exit.
    #[inline]
    #[must_use]
    pub fn total(&self) -> u64 {
        match self.untimed {
            true => self.children,
            false => self.end.since(self.call.start).0,
        }
    }

    /// The part of those ticks that the call spent outside of the calls that it made.
    #[inline]
    #[must_use]
    pub fn own(&self) -> u64 {
        self.total().saturating_sub(self.children)
    }
}

/// The receiver of ended calls from a [`CallStack`](super::CallStack). A closure that takes [`EndedCall`]
/// and the open calls is one, if the data has a default.
pub trait CallHandler<T> {
    /// The data of a call whose entry is not in the trace; `caller` is the data of the call around it.
    fn missing(&mut self, function: FunctionId, exit: Exit, caller: Option<&T>) -> T;

    /// A call has ended; `open` are the calls around it, outermost first.
    fn ended(&mut self, ended: EndedCall<T>, open: &mut [OpenCall<T>]);
}

impl<T: Default, F: FnMut(EndedCall<T>, &mut [OpenCall<T>])> CallHandler<T> for F {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&T>) -> T {
        T::default()
    }

    #[inline]
    fn ended(&mut self, ended: EndedCall<T>, open: &mut [OpenCall<T>]) {
        self(ended, open);
    }
}
