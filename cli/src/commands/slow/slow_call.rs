//! A call that took long: which, and when.

use fdr_formats::{FunctionId, ThreadId, Ticks};

/// A call that took long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::commands) struct SlowCall {
    /// Ticks.
    pub(in crate::commands) total: u64,
    pub(in crate::commands) function: FunctionId,
    pub(in crate::commands) thread: ThreadId,
    pub(in crate::commands) start: Ticks,
    pub(in crate::commands) end: Ticks,
    /// It had not returned when the trace was written.
    pub(in crate::commands) is_open: bool,
}
