//! Distributions as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde::Serialize;

use super::durations::Bucket;
use super::modes::Mode;
use super::{Distribution, Distributions};
use crate::report::json::{self, Head};

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    is_whole_run: bool,
    functions: Vec<Function<'a>>,
    functions_not_shown: usize,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    id: u32,
    calls: u64,
    clipped: u64,
    counted: u64,
    untimed: bool,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    max_ns: Option<u64>,
    modes: Vec<Part>,
    buckets: Vec<Range>,
}

#[derive(Serialize)]
struct Part {
    from_ns: u64,
    until_ns: u64,
    calls: u64,
    share: f64,
    p50_ns: u64,
}

#[derive(Serialize)]
struct Range {
    from_ns: u64,
    until_ns: u64,
    calls: u64,
}

/// Writes all of them.
pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    found: &Distributions,
) -> anyhow::Result<()> {
    json::print(
        out,
        &Document {
            head: Head::new(file, info),
            is_whole_run: found.is_whole_run,
            functions: found.list.iter().map(function).collect(),
            functions_not_shown: found.hidden,
        },
    )
}

fn function(distribution: &Distribution) -> Function<'_> {
    let row = &distribution.row;
    let durations = &distribution.durations;
    let range = |bucket: Bucket| Range {
        from_ns: bucket.from,
        until_ns: bucket.until,
        calls: bucket.calls,
    };
    let all = durations.calls.max(1) as f64;
    let part = |mode: &Mode| Part {
        from_ns: mode.from.round() as u64,
        until_ns: mode.until.round() as u64,
        calls: mode.calls.round() as u64,
        share: mode.calls / all,
        p50_ns: mode.middle.round() as u64,
    };
    Function {
        name: &row.name,
        id: row.id,
        calls: durations.calls,
        clipped: row.clipped,
        counted: row.counted,
        untimed: row.untimed,
        min_ns: row.min_ns,
        mean_ns: row.mean_ns,
        p50_ns: row.p50_ns,
        p90_ns: row.p90_ns,
        p99_ns: row.p99_ns,
        max_ns: row.max_ns,
        modes: distribution.modes.iter().map(part).collect(),
        buckets: durations.finest().into_iter().map(range).collect(),
    }
}
