//! What the recorder counted of tasks, in the totals of the functions that stand for them.

use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionTotals;
use fdr_formats::tasks::{TotalKind, of_name};

/// The tasks that the recorder counted. `None`: it counted none.
pub(crate) fn counted(info: &TraceInfo) -> Option<u64> {
    let rows = all_totals(info).filter(|(_, counted, _)| *counted == TotalKind::Busy);
    let begun = rows.map(|(_, _, totals)| totals.untimed);
    begun.reduce(u64::saturating_add)
}

/// The rows of totals that count tasks: the name of the function, the kind of the count, and the
/// totals.
pub(super) fn all_totals(
    info: &TraceInfo,
) -> impl Iterator<Item = (&str, TotalKind, &FunctionTotals)> {
    let threads = info.threads.iter().flat_map(|thread| &thread.totals);
    threads.chain(&info.missing_totals).filter_map(|totals| {
        let (name, counted) = of_name(&info.function(totals.function)?.name)?;
        Some((name, counted, totals))
    })
}
