//! What is usual for a function.

/// What is usual for a function, whoever calls it. Times are ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Usual {
    pub(super) calls: u64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) total: u64,
}
