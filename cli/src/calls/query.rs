//! Which slow calls are asked for.

use fdr_formats::Clock;
use fdr_formats::filter::Filter;

use super::usual::Usual;
use crate::report::function_rows::Row;
use crate::selection;
use crate::selection::call_options::ChosenCalls;

/// Calls that are shown unless the user says otherwise: in all, and of one function.
pub(crate) const DEFAULT_CALLS: usize = 5;
pub(crate) const DEFAULT_CALLS_OF_EACH: usize = 2;
/// The most calls whose causes are compared: in all, and of one function.
const MAX_COMPARED: usize = 100;
const MAX_COMPARED_OF_EACH: usize = 40;
/// The least number of calls with which a function has a usual call.
pub(crate) const ENOUGH_CALLS: u64 = 20;
/// A slow call takes at least `TIMES_P50` times the p50 and `TIMES_P90` times the p90, and no less
/// than `MIN_NS`.
pub(crate) const TIMES_P50: u64 = 10;
pub(crate) const TIMES_P90: u64 = 5;
pub(crate) const MIN_NS: u64 = 10_000;

/// Which slow calls of a trace are wanted.
pub(crate) struct Query<'a> {
    /// The functions whose calls are shown.
    pub(crate) filter: Option<&'a Filter>,
    /// The shortest call that is shown, ns.
    pub(crate) over: Option<u64>,
    /// Calls that `--state` leaves. `None`: all.
    pub(crate) chosen: Option<&'a ChosenCalls>,
    /// Calls that are shown: in all, and of one function.
    pub(crate) most: usize,
    pub(crate) of_each: usize,
    /// Calls that have one cause are shown once, and this many causes.
    pub(crate) causes: Option<usize>,
    /// The usual values may come from the whole run.
    pub(crate) may_be_whole: bool,
}

impl Query<'_> {
    /// The slow calls of a trace, by cause.
    pub(crate) fn of_causes(shown: usize, may_be_whole: bool) -> Query<'static> {
        Query {
            filter: None,
            over: None,
            chosen: None,
            most: MAX_COMPARED.max(shown),
            of_each: MAX_COMPARED_OF_EACH.max(shown),
            causes: Some(shown),
            may_be_whole,
        }
    }

    /// Whether the user says which calls are shown, slow or not.
    pub(crate) fn is_chosen(&self) -> bool {
        self.over.is_some() || self.filter.is_some()
    }

    /// The slow tasks of a trace.
    pub(crate) fn of_tasks(shown: usize, may_be_whole: bool) -> Query<'static> {
        Query {
            causes: None,
            most: shown,
            of_each: DEFAULT_CALLS_OF_EACH.max(shown / 2),
            ..Query::of_causes(shown, may_be_whole)
        }
    }

    /// Whether the slow calls are shown by their causes.
    pub(crate) fn is_of_causes(&self) -> bool {
        self.causes.is_some() && !self.is_chosen()
    }

    /// Whether calls in which a thread waits for work are set aside: not if the user wants each call.
    pub(crate) fn sets_idle_aside(&self) -> bool {
        self.is_of_causes()
    }

    /// The ns from which a call of a function is shown. `None`: no call is.
    pub(crate) fn threshold(&self, row: &Row, usual: Option<&Usual>) -> Option<u64> {
        let is_chosen = self.filter.is_none_or(|filter| filter.matches(&row.name));
        if !is_chosen || row.untimed {
            return None;
        }
        if self.is_chosen() {
            return Some(self.over.unwrap_or(0));
        }
        let usual = usual.filter(|usual| usual.calls >= ENOUGH_CALLS)?;
        let p50 = usual.p50.saturating_mul(TIMES_P50);
        Some(MIN_NS.max(p50).max(usual.p90.saturating_mul(TIMES_P90)))
    }
}

/// The ticks of a duration.
pub(crate) fn ticks(clock: &Clock, ns: u64) -> u64 {
    selection::first_tick(i128::from(ns), clock).0
}
