//! What is usual for a function.

use fdr_formats::FunctionId;

use crate::report::function_rows::Row;

/// The usual figures of a function's calls, from all callers. Times are ns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usual {
    pub(crate) calls: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) total: u64,
}

/// What is usual for the function of a row. `None`: no call of it was measured.
pub(crate) fn usual_of(row: &Row) -> Option<(FunctionId, Usual)> {
    let usual = Usual {
        calls: row.calls,
        p50: row.p50_ns?,
        p90: row.p90_ns?,
        p99: row.p99_ns?,
        total: row.total_ns,
    };
    Some((FunctionId(row.id), usual))
}
