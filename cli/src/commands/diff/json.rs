//! A comparison as JSON: see docs/json.md.

use std::io::Write;
use std::num::NonZeroUsize;

use serde_json::json;

use super::compare::Comparison;
use super::show::{hidden, shown_lines};
use crate::report::json;

pub(super) fn write(
    out: &mut dyn Write,
    comparison: &Comparison,
    limit: Option<NonZeroUsize>,
) -> anyhow::Result<()> {
    let document = json!({
        "scope": comparison.scope,
        "runs_before": comparison.runs.0,
        "runs_after": comparison.runs.1,
        "tested": comparison.tested,
        "functions": shown_lines(comparison, limit),
        "functions_not_shown": hidden(comparison, limit),
    });
    json::print(out, &document)
}
