//! The answer of `fdr slow` as a document, for the page of `fdr view`.

use std::path::Path;

use fdr_formats::{FunctionId, Source};
use foldhash::HashMap;
use serde_json::Value;

use super::findings::{Findings, explain, find};
use super::json;
use super::query::{DEFAULT_CALLS, Query};
use super::slow_call::SlowCall;
use super::usual::{Usual, usual_of};
use crate::report::rows::Report;
use crate::selection;

/// The slow calls of a source: the document of `fdr slow --json`, without tasks.
///
/// `is_whole`: nothing of the trace is left out.
///
/// # Errors
/// If the trace can't be read.
pub(crate) fn of_source(
    trace: &Path,
    source: &dyn Source,
    is_whole: bool,
) -> anyhow::Result<Vec<u8>> {
    let report = Report::of_all(trace, source)?;
    let found = find(
        &Query::of_causes(DEFAULT_CALLS, is_whole),
        trace,
        source,
        &report,
    )?;
    document(trace, source, &found)
}

fn document(trace: &Path, source: &dyn Source, found: &Findings) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    let file = trace.to_string_lossy();
    json::write(&mut text, &file, source.info(), &Value::Null, found)?;
    Ok(text)
}

/// What there is to say of one call, in the same form.
///
/// # Errors
/// If the trace can't be read.
pub(crate) fn of_call(
    trace: &Path,
    source: &dyn Source,
    call: SlowCall,
) -> anyhow::Result<Vec<u8>> {
    let report = Report::of_all(trace, source)?;
    let usual: HashMap<FunctionId, Usual> = report.rows.iter().filter_map(usual_of).collect();
    let found = Findings {
        list: explain(trace, source, vec![call], &usual, report.duration_ns)?,
        begin: selection::begin(source)?,
        is_whole_run: false,
        hidden_calls: Vec::new(),
        idle: Vec::new(),
        cpu_time: None,
        most: 1,
        is_chosen: true,
        has_waits: !report.waits.is_empty(),
    };
    document(trace, source, &found)
}
