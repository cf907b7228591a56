//! One pass over a trace for its figures. Commands that compare calls with usual calls take the figures of all
//! functions from here.

use std::path::Path;

use anyhow::Context;
use fdr_formats::Source;

use super::engine::{Engine, Figures, gather};
use super::query::{Key, Selection};
use super::rows::Report;
use crate::{off_cpu, trace, ui};

impl Figures {
    /// The figures of a trace, with what was found at its opening.
    ///
    /// # Errors
    /// Where the trace can't be read, or takes too much memory.
    pub(crate) fn read(
        trace: &Path,
        source: &dyn Source,
        per_thread: bool,
    ) -> anyhow::Result<Figures> {
        let engines = ui::drive(source, engine_of(source, per_thread));
        let engines = engines.map_err(|error| trace::about(trace, error))?;
        let figures = gather(engines, per_thread);
        let mut figures = figures.with_context(|| ui::path(trace))?;
        let found = source.diagnostics().iter().cloned();
        figures.diagnostics.splice(0..0, found);
        figures
            .diagnostics
            .sort_by_key(|diagnostic| diagnostic.offset);
        Ok(figures)
    }
}

/// Makes engines for a source.
pub(crate) fn engine_of(source: &dyn Source, per_thread: bool) -> impl Fn() -> Engine + Sync + '_ {
    let states = off_cpu::states_of(source.info());
    move || Engine::new(source, per_thread).with_states(states.clone())
}

/// Everything, without a filter or a limit.
pub(crate) const ALL: Selection = Selection {
    filter: None,
    sort: Key::Own,
    reverse: false,
    limit: None,
    per_thread: false,
};

impl Report {
    /// The report without a filter. Reports the damage of the trace.
    ///
    /// # Errors
    /// Where the trace can't be read, or takes too much memory.
    pub(crate) fn of_all(trace: &Path, source: &dyn Source) -> anyhow::Result<Report> {
        let figures = Figures::read(trace, source, false)?;
        let report = Report::new(source.info(), figures, &ALL).with_context(|| ui::path(trace))?;
        trace::warn_of_damage(trace, &report.diagnostics, report.more_diagnostics);
        Ok(report)
    }
}
