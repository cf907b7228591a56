//! The receiving side: writers are sinks, reports are sinks.
//!
//! A sink never sees a file offset and never fails in the middle: a writer keeps its first error
//! and returns it at its end.

use crate::error::Diagnostic;
use crate::model::{Call, Mark, Thread};

/// Receives the events of a trace, in order per thread.
///
/// Calls come in batches because there are a hundred million of them; everything else comes alone,
/// at its place between two batches.
pub trait Sink {
    /// The events that follow, until the next such call, belong to this thread. A thread may come
    /// more than once; its events are in order all the same.
    fn thread(&mut self, thread: &Thread);

    /// Some calls, in order.
    fn calls(&mut self, calls: &[Call]);

    /// One event that is no call.
    fn mark(&mut self, mark: &Mark<'_>);

    /// Something was wrong in the trace at this place; reading goes on.
    fn diagnostic(&mut self, diagnostic: Diagnostic);
}
