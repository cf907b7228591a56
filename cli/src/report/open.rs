//! The calls that a thread was in when its trace was written: those that a writer ended, last of all. Keeps the
//! innermost one and how many there are, so that memory does not grow with a stack.

use fdr_formats::model::EarlyCall;
use fdr_formats::{Call, Edge, FunctionId, Thread, Ticks};

use super::stack::Stack;

/// The innermost call that a thread was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenCall {
    pub(crate) function: FunctionId,
    /// Its entry, or the beginning of the trace if that is later.
    pub(crate) start: Ticks,
    /// Its entry is in the trace.
    pub(crate) entered: bool,
    /// The moment up to which it lasts.
    pub(crate) end: Ticks,
    /// The thread's last record.
    pub(crate) last: Ticks,
    /// Calls of the thread that are open, this one and those that led to it.
    pub(crate) depth: u64,
}

/// The synthetic exits after a thread's last measured record. The first of them ends the innermost call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    /// The innermost of their calls: its function and entry, and whether the entry was measured.
    innermost: Option<(FunctionId, Ticks, bool)>,
    /// When it ended.
    end: Ticks,
    depth: u64,
    /// Measured records before them, and the time of the last of those.
    records: u64,
    last: Option<Ticks>,
}

/// The call on that level of the stack, from 1, if it began before the first record of its thread and the recorder
/// still had its entry.
pub(crate) fn early_call(thread: &Thread, level: u64, function: FunctionId) -> Option<EarlyCall> {
    let place = usize::try_from(level.checked_sub(1)?).ok()?;
    let call = thread.early_calls.get(place).copied();
    call.filter(|call| call.function == function)
}

/// Whether a writer ended a call.
pub(crate) fn is_end(call: &Call) -> bool {
    call.synthetic && call.edge != Edge::Entry
}

impl Ends {
    /// A synthetic exit, which `stack` has not seen yet.
    pub(crate) fn add(&mut self, call: &Call, stack: &Stack) {
        if self.records != stack.records() {
            *self = Ends::default();
        }
        if self.depth == 0 {
            let open = stack.open_call();
            self.innermost = open.filter(|&(function, ..)| function == call.function);
            self.end = call.time;
            self.records = stack.records();
            self.last = (stack.records() > 0).then_some(stack.last());
        }
        self.depth += 1;
    }

    /// The thread has no more records, and the trace was written at `end`. A call without exit was open at that moment,
    /// around the calls that a writer ended last.
    pub(crate) fn finish(&mut self, stack: &Stack, end: Option<Ticks>) {
        let (Some(end), depth) = (end, stack.depth() as u64) else {
            return;
        };
        let Some(innermost) = stack.open_call() else {
            return;
        };
        if self.records != stack.records() || self.depth == 0 {
            *self = Ends {
                innermost: Some(innermost),
                end: end.max(stack.last()),
                depth: 0,
                records: stack.records(),
                last: (stack.records() > 0).then_some(stack.last()),
            };
        }
        self.depth += depth;
    }

    /// The innermost open call, if a call is open and the thread has exactly `records` measured records.
    pub(crate) fn open_call(&self, records: u64) -> Option<OpenCall> {
        let (function, start, entered) = self.innermost?;
        (self.records == records).then_some(OpenCall {
            function,
            start,
            entered,
            end: self.end,
            last: self.last.unwrap_or(start),
            depth: self.depth,
        })
    }
}
