//! The calls of one thread as a stack. One rule matches each exit with its entry, for reports, checks and
//! converters. Calls that do not nest are made to nest, and marked. Must never believe a depth that a file
//! claims, nor fail. In damaged traces, missing edges are marked as missing.
//!
//! The rule for an exit of `f` ([`Exit`]):
//!
//! - `f` is the innermost open call. They match.
//! - `f` is open further out, because an exit was lost or `longjmp` left several frames. The calls inside
//!   `f` end at the time of the previous edge.
//! - Nothing is open. `f` was entered before the first record. It begins at the thread's first edge, around
//!   all later calls.
//! - Other calls are open, but not `f`, or records were missing before. An entry was lost, or a second
//!   stack runs on this thread. The entry of `f` gets the time of the previous edge; directly behind a gap,
//!   the time of the exit. The open calls stay open, so that the damage stays in one place.
//!
//! At the end of the trace, open calls end at the moment of the dump. If that moment is unknown, they end
//! at the latest edge.
//!
//! A call is *measured* if its entry and its exit are in the trace and nothing between them is in doubt.
//! Any other call is *clipped*: an edge is missing, or a writer added it. Or, while the call was open,
//! records were lost or the clock jumped. The known part of a clipped call's time counts for totals. It
//! never counts for minimum, mean and percentiles.
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

mod call;
mod fast_path;
mod rule;
mod untimed;

use self::call::state;
pub use self::call::{CallHandler, EdgeStatus, EndedCall, OpenCall};
pub use self::fast_path::{FastPath, OrdinaryEdge, ROOM, Window};
pub use self::rule::{Exit, Rule};
pub use self::untimed::Untimed;
pub use self::untimed::untimed;
use crate::model::{Call, Edge, Ticks};

/// The open calls of one thread. `T` is the user's data of each call.
#[derive(Debug)]
pub struct CallStack<T = ()> {
    open: Vec<OpenCall<T>>,
    /// Ticks in ended calls that the innermost open call has made. If no call is open: ticks in ended
    /// calls without a caller in the trace.
    children: u64,
    rule: Rule,
    untimed: Untimed,
    /// The edges so far, and the ones among them that a writer added.
    number: u64,
    synthetic: u64,
    /// The number of edges at the last gap, if there was one.
    gap: u64,
    /// The times of the first edge and of the last.
    first: Ticks,
    before: Ticks,
    /// The latest time of an edge after which the clock went back.
    latest: Ticks,
    /// Until when the short calls since the previous edge lasted, at the earliest.
    short_until: Ticks,
    /// The clock went back, or short calls took more time than there was: sums may exceed the time that has passed.
    went_back: bool,
}

impl<T> Default for CallStack<T> {
    fn default() -> Self {
        CallStack {
            open: Vec::new(),
            children: 0,
            rule: Rule::default(),
            untimed: Untimed::default(),
            number: 0,
            synthetic: 0,
            gap: 0,
            first: Ticks(0),
            before: Ticks(0),
            latest: Ticks(0),
            short_until: Ticks(0),
            went_back: false,
        }
    }
}

impl<T> CallStack<T> {
    /// No calls yet.
    #[must_use]
    pub fn new() -> CallStack<T> {
        CallStack::default()
    }

    /// A stack for a trace in which some functions have no times of their own: [`untimed`] gives them.
    #[must_use]
    pub fn with_untimed(self, untimed: Untimed) -> CallStack<T> {
        CallStack { untimed, ..self }
    }

    /// The open calls, outermost first.
    #[must_use]
    pub fn open(&self) -> &[OpenCall<T>] {
        &self.open
    }

    /// The open calls, to change the user's data of each.
    #[inline]
    pub fn open_mut(&mut self) -> &mut [OpenCall<T>] {
        &mut self.open
    }

    /// Ticks in ended calls that the innermost open call has made, or that no call of the trace has made.
    #[must_use]
    pub fn spent_in_calls(&self) -> u64 {
        self.children
    }

    /// From here on, each call that is open now ends on the slow path, so that the handler sees the end. All other
    /// calls stay on the fast path. The loop stops at the first call that is already marked, because the calls
    /// around it are marked, too.
    pub fn set_aside(&mut self) {
        for open in self.open.iter_mut().rev() {
            if open.is_aside() {
                break;
            }
            open.state |= state::ASIDE;
        }
    }

    /// Time of the first edge.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<Ticks> {
        (self.number > 0).then_some(self.first)
    }

    /// Time of the previous edge.
    #[inline]
    #[must_use]
    pub fn previous_edge(&self) -> Option<Ticks> {
        (self.number > 0).then_some(self.before)
    }

    /// The latest time of an edge.
    #[inline]
    #[must_use]
    pub fn latest(&self) -> Ticks {
        self.latest.max(self.before)
    }

    /// Edges so far that were measured.
    #[inline]
    #[must_use]
    pub fn measured(&self) -> u64 {
        self.number - self.synthetic
    }

    /// Edges so far that a writer added.
    #[must_use]
    pub fn synthetic(&self) -> u64 {
        self.synthetic
    }

    /// An entry; `data` is kept until its exit.
    #[inline]
    pub fn enter(&mut self, call: &Call, data: T) {
        self.note(call);
        self.rule.entered(1);
        self.open.push(OpenCall {
            start: call.time,
            before: std::mem::take(&mut self.children),
            function: call.function,
            state: state::SYNTHETIC * u32::from(call.synthetic),
            data,
        });
    }

    /// An exit. `out` gets the calls that end, innermost first.
    #[inline]
    pub fn exit(&mut self, call: &Call, out: &mut impl CallHandler<T>) -> Exit {
        let exit = match self.open.last() {
            Some(innermost) if innermost.function == call.function => Exit::Innermost,
            _ => self.mend(call, out),
        };
        self.note(call);
        self.close_by(call, out);
        exit
    }

    /// Makes the call that contains `call` the innermost open one.
    #[cold]
    #[inline(never)]
    fn mend(&mut self, call: &Call, out: &mut dyn CallHandler<T>) -> Exit {
        let is = |open: &OpenCall<T>| open.function == call.function;
        let exit = self.rule.outer_exit(&self.open, is);
        let start = match exit {
            Exit::Innermost => return exit,
            Exit::Outer(inside) => {
                let before = self.before;
                (0..inside).for_each(|_| self.close(before, EdgeStatus::Missing, false, out));
                return exit;
            }
            Exit::Before => self.first().unwrap_or(call.time),
            Exit::Lone if self.gap == self.number => call.time,
            Exit::Lone => {
                // The short calls of its caller took a part of the same stretch of time.
                if self.short_until > self.before {
                    self.go_back();
                }
                self.before
            }
        };
        let caller = self.open.last().map(|open| &open.data);
        let data = out.missing(call.function, exit, caller);
        let before = match exit {
            // The thread did everything since its first edge inside a call from before.
            Exit::Before => 0,
            _ => std::mem::take(&mut self.children),
        };
        self.open.push(OpenCall {
            start: start.min(call.time),
            before,
            function: call.function,
            state: state::MISSING,
            data,
        });
        exit
    }

    /// An edge.
    #[inline]
    fn note(&mut self, call: &Call) {
        if self.number == 0 {
            self.first = call.time;
        }
        if call.time < self.earliest() {
            self.go_back();
        }
        self.number += 1;
        self.synthetic += u64::from(call.synthetic);
        self.before = call.time;
    }

    /// The earliest time that the next edge may have. With an earlier edge, sums of times could exceed the time
    /// that has passed.
    #[inline]
    fn earliest(&self) -> Ticks {
        self.before.max(self.short_until)
    }

    /// The next edge is earlier than the one before, or than the end of the short calls before it.
    #[cold]
    fn go_back(&mut self) {
        self.latest = self.latest();
        self.went_back = true;
    }

    /// Ends the innermost open call with that exit.
    #[inline]
    fn close_by(&mut self, call: &Call, out: &mut impl CallHandler<T>) {
        let is_tail = call.edge == Edge::TailExit;
        self.close(call.time, EdgeStatus::from_call(call), is_tail, out);
    }

    /// Ends the innermost open call.
    #[inline]
    fn close<H>(&mut self, end: Ticks, exit: EdgeStatus, tail: bool, out: &mut H)
    where
        H: CallHandler<T> + ?Sized,
    {
        let Some(call) = self.open.pop() else { return };
        let before = call.before;
        let ended = EndedCall {
            clipped: !call.is_measured() || exit != EdgeStatus::Measured,
            end,
            exit,
            tail,
            depth: self.open.len(),
            children: self.children,
            untimed: self.untimed.contains(call.function),
            call,
        };
        self.children = before.saturating_add(ended.total());
        out.ended(ended, &mut self.open);
    }

    /// The innermost open call made calls that left no records. Together they took `ticks`, and the last of them
    /// ended at `time`. Returns how many of these ticks lie after the previous edge. These are all, unless the
    /// trace begins in between.
    pub fn short_calls(&mut self, time: Ticks, ticks: u64) -> u64 {
        let since = self
            .previous_edge()
            .map_or(0, |before| time.since(before).0);
        let ticks = ticks.min(since);
        self.children = self.children.saturating_add(ticks);
        self.short_until = Ticks(self.earliest().0.saturating_add(ticks));
        ticks
    }

    /// Records are missing here. Open calls may have ended, and other calls of the same functions may
    /// have begun.
    pub fn lose(&mut self) {
        self.doubt();
        // Records that are missing before the first record are not in the middle.
        if self.number > 0 {
            self.rule.lost();
            self.gap = self.number;
        }
    }

    /// The clock jumped or began anew here. The durations of open calls are unknown.
    pub fn doubt(&mut self) {
        for open in self.open.iter_mut().rev() {
            // The calls around a doubted call are already in doubt. So each call is visited at most twice.
            if open.state & state::DOUBTED != 0 {
                break;
            }
            open.state |= state::DOUBTED;
        }
    }

    /// Ends all open calls, innermost first: at `end`, the moment of the dump, or at the latest edge if
    /// `end` is unknown. Frees the memory. A second call changes nothing.
    pub fn finish(&mut self, end: Option<Ticks>, out: &mut impl CallHandler<T>) {
        self.close_all(end, out);
    }

    #[inline(never)]
    fn close_all(&mut self, end: Option<Ticks>, out: &mut dyn CallHandler<T>) {
        let end = end.unwrap_or_default().max(self.latest());
        while !self.open.is_empty() {
            self.close(end, EdgeStatus::Missing, false, out);
        }
        self.open = Vec::new();
    }
}

impl<T: Default> CallStack<T> {
    /// An entry or an exit. `out` gets the calls that end, innermost first.
    #[inline]
    pub fn call(&mut self, call: &Call, mut out: impl FnMut(EndedCall<T>)) {
        if call.edge == Edge::Entry {
            self.enter(call, T::default());
        } else {
            self.exit(call, &mut |ended, _: &mut [OpenCall<T>]| out(ended));
        }
    }
}

#[cfg(test)]
mod tests;
