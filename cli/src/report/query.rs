//! The selection of a report's rows, and their order.

use clap::ValueEnum;
use fdr_formats::filter::Filter;

/// What rows are sorted by: numbers from the largest, names from A to Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Key {
    Name,
    Calls,
    Total,
    #[value(name = "self")]
    Own,
    Min,
    Mean,
    P50,
    P90,
    P99,
    Max,
    Running,
    Preempted,
    Waiting,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) filter: Option<Filter>,
    pub(crate) sort: Key,
    /// The other way round.
    pub(crate) reverse: bool,
    pub(crate) limit: Option<usize>,
    pub(crate) per_thread: bool,
}
