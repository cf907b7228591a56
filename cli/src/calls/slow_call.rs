//! A call that took long: which, and when.

use fdr_formats::{FunctionId, ThreadId, Ticks};

/// A call that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlowCall {
    /// Ticks.
    pub(crate) total: u64,
    pub(crate) function: FunctionId,
    pub(crate) thread: ThreadId,
    pub(crate) start: Ticks,
    pub(crate) end: Ticks,
    /// It had not returned when the trace was written.
    pub(crate) is_open: bool,
}

#[cfg(test)]
impl SlowCall {
    /// A call of that function on that thread, from one tick to another.
    pub(super) fn of_test(function: u32, thread: u64, start: u64, end: u64) -> SlowCall {
        SlowCall {
            total: end - start,
            function: FunctionId(function),
            thread: ThreadId(thread),
            start: Ticks(start),
            end: Ticks(end),
            is_open: false,
        }
    }
}
