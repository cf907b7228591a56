//! What tells one call of a trace from all others.

/// A call.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallKey {
    /// The thread's place.
    pub(super) thread: usize,
    pub(super) depth: usize,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) function: u32,
    pub(super) is_open: bool,
}
