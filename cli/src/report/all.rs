//! The figures of all functions of a trace, for commands that compare calls with what is usual.

use std::path::Path;

use anyhow::Context;
use fdr_formats::Source;
use fdr_formats::pieces::{self, Division};

use super::engine::{Engine, gather};
use super::rows::{Key, Report, Selection};
use crate::trace;
use crate::ui::{self, Progress};

impl Report {
    /// The report without a filter. What is damaged in the trace is told.
    ///
    /// # Errors
    /// Where the trace can't be read, or takes too much memory.
    pub(crate) fn of_all(trace: &Path, source: &dyn Source) -> anyhow::Result<Report> {
        let progress = Progress::new(source);
        let make = |share| Engine::new(source, false, share);
        let division = Division::of(source, ui::jobs());
        let engines = pieces::drive_pieces(source, division, make, &|bytes| progress.add(bytes));
        drop(progress);
        let engines = engines.map_err(|error| trace::about(trace, error))?;
        let figures = gather(engines, false).with_context(|| ui::path(trace))?;
        let all = Selection {
            filter: None,
            sort: Key::Own,
            reverse: false,
            limit: None,
            per_thread: false,
        };
        let report = Report::new(source.info(), figures, &all).with_context(|| ui::path(trace))?;
        let mut diagnostics = source.diagnostics().to_vec();
        diagnostics.extend_from_slice(&report.diagnostics);
        diagnostics.sort_by_key(|diagnostic| diagnostic.offset);
        trace::warn_of_damage(trace, &diagnostics, report.more_diagnostics);
        Ok(report)
    }
}
