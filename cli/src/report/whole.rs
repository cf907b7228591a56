//! Figures of the whole run, from the totals that the recorder keeps for each thread and function (`FDR_KEEP`). They
//! count every call that has ended, also calls whose records are overwritten, and calls that left none. The states of
//! threads are shares that come from the calls with records. With this one exception, the file must never mix its
//! figures with those of the records.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use fdr_formats::model::{FunctionTotals, Thread};
use fdr_formats::tasks::of_name;
use fdr_formats::{FunctionId, Ticks, TraceInfo};

use super::rows::{Report, Row, Selection, arrange, name_of};
use super::states::{RowsStates, give};
use crate::memory;

/// The figures of some threads.
#[derive(Clone, Debug)]
pub(crate) struct Whole {
    pub(crate) rows: Vec<Row>,
    /// Rows that the limit left out.
    pub(crate) hidden: usize,
    /// Self time of all functions, shown or not.
    pub(crate) self_ns: u64,
    /// Functions without times, shown or not.
    pub(crate) untimed: usize,
    /// What passed in them, as the recorder knows.
    pub(crate) untimed_ns: u64,
}

impl Whole {
    /// The figures of all threads. `None`: the trace does not have them for each thread.
    ///
    /// # Errors
    /// Where the rows take too much memory.
    pub(crate) fn of(
        info: &TraceInfo,
        states: &RowsStates,
        selection: &Selection,
    ) -> io::Result<Option<Whole>> {
        let has = info.threads.iter().any(|thread| !thread.totals.is_empty());
        if !has || info.threads.iter().any(lacks_totals) {
            return Ok(None);
        }
        let threads = info.threads.iter().flat_map(|thread| &thread.totals);
        let all = threads.chain(&info.missing_totals);
        Whole::new(info, all, states, selection).map(Some)
    }

    fn new<'a>(
        info: &TraceInfo,
        totals: impl Iterator<Item = &'a FunctionTotals>,
        states: &RowsStates,
        selection: &Selection,
    ) -> io::Result<Whole> {
        let mut functions: BTreeMap<FunctionId, FunctionTotals> = BTreeMap::new();
        for more in totals {
            memory::check()?;
            let sum = functions.entry(more.function);
            sum.or_insert_with(|| FunctionTotals {
                function: more.function,
                ..FunctionTotals::default()
            })
            .add(more);
        }
        // What is counted of tasks has a table of its own.
        functions.retain(|id, _| {
            info.function(*id)
                .is_none_or(|function| of_name(&function.name).is_none())
        });
        let mut rows: Vec<Row> = functions.values().map(|totals| row(info, totals)).collect();
        give(&mut rows, states);
        // Of functions without times, the recorder knows the time of the calls, and takes it from that of the callers.
        let own = |is_untimed: bool| {
            let those = functions.values().zip(&rows);
            let those = those.filter(|(_, row)| row.untimed == is_untimed);
            let own = those.fold(0_u64, |sum, (totals, _)| sum.saturating_add(totals.own.0));
            info.clock.nanos(Ticks(own)).0
        };
        let (self_ns, untimed_ns) = (own(false), own(true));
        let untimed = rows.iter().filter(|row| row.untimed).count();
        let (rows, hidden) = arrange(rows, selection, false);
        Ok(Whole {
            rows,
            hidden,
            self_ns,
            untimed,
            untimed_ns,
        })
    }
}

/// The names of all functions that the totals count.
pub(crate) fn called(info: &TraceInfo) -> Vec<String> {
    let threads = info.threads.iter().flat_map(|thread| &thread.totals);
    let all = threads.chain(&info.missing_totals);
    let ids: BTreeSet<FunctionId> = all.map(|totals| totals.function).collect();
    ids.into_iter().map(|id| name_of(info, id)).collect()
}

impl Report {
    /// Shows the figures of the whole run instead of those of the records. Does nothing if the trace has none.
    ///
    /// # Errors
    /// Where the rows take too much memory.
    pub(crate) fn show_whole(&mut self, info: &TraceInfo, selection: &Selection) -> io::Result<()> {
        let Some(whole) = self.whole.take() else {
            return Ok(());
        };
        for thread in self.threads.iter_mut().filter(|_| selection.per_thread) {
            let known = info.threads.iter().find(|known| known.id.0 == thread.id);
            let totals = known.into_iter().flat_map(|known| &known.totals);
            let own = Whole::new(info, totals, &thread.rows_states, selection)?;
            (thread.rows, thread.self_ns) = (Some(own.rows), own.self_ns);
        }
        self.rows = whole.rows;
        self.hidden = whole.hidden;
        self.self_ns = whole.self_ns;
        (self.untimed, self.untimed_ns) = (whole.untimed, whole.untimed_ns);
        self.is_whole = true;
        Ok(())
    }
}

/// Whether a thread had calls that ended, and no totals.
fn lacks_totals(thread: &Thread) -> bool {
    let ended = |counts: &fdr_formats::model::Counts| counts.recorded > counts.synthetic_exits;
    thread.totals.is_empty() && thread.counts.as_ref().is_some_and(ended)
}

fn row(info: &TraceInfo, totals: &FunctionTotals) -> Row {
    let function = info.function(totals.function);
    let untimed = totals.calls == 0 || function.is_some_and(|function| function.untimed);
    let time = |ticks: Option<Ticks>| {
        let ticks = ticks.filter(|_| !untimed);
        ticks.map(|ticks| info.clock.nanos(ticks).0)
    };
    let counted = if untimed { 0 } else { totals.untimed };
    let (total, own) = totals.estimates();
    let mean = totals.total.0.checked_div(totals.calls).map(Ticks);
    Row {
        name: match totals.function {
            FunctionId(0) => "(functions without room)".to_owned(),
            id => name_of(info, id),
        },
        file: function.map_or_else(String::new, |function| function.file.clone()),
        line: function.map_or(0, |function| function.line),
        id: totals.function.0,
        calls: totals.calls.saturating_add(totals.untimed),
        clipped: 0,
        untimed,
        counted,
        error_ns: time(totals.standard_error().filter(|_| counted > 0)),
        total_ns: time(Some(total)).unwrap_or(0),
        self_ns: time(Some(own)).unwrap_or(0),
        min_ns: None,
        mean_ns: time(mean),
        p50_ns: time(totals.quantile(50)),
        p90_ns: time(totals.quantile(90)),
        p99_ns: time(totals.quantile(99)),
        max_ns: time(Some(totals.longest)),
        states: None,
    }
}
