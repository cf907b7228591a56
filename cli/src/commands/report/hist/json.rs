//! Distributions as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde_json::{Value, json};

use super::durations::Bucket;
use super::modes::Mode;
use super::{Distribution, Distributions};
use crate::report::json;

pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    found: &Distributions,
) -> anyhow::Result<()> {
    let document = json!({
        "is_whole_run": found.is_whole_run,
        "functions": found.list.iter().map(function).collect::<Value>(),
        "functions_not_shown": found.hidden,
    });
    json::print_of(out, file, info, document)
}

fn function(distribution: &Distribution) -> Value {
    let row = &distribution.row;
    let durations = &distribution.durations;
    let bucket = |bucket: Bucket| {
        json!({
            "from_ns": bucket.from,
            "until_ns": bucket.until,
            "calls": bucket.calls,
        })
    };
    let all = durations.calls.max(1) as f64;
    let mode = |mode: &Mode| {
        json!({
            "from_ns": mode.from.round() as u64,
            "until_ns": mode.until.round() as u64,
            "calls": mode.calls.round() as u64,
            "share": mode.calls / all,
            "p50_ns": mode.middle.round() as u64,
        })
    };
    json!({
        "name": row.name,
        "id": row.id,
        "calls": durations.calls,
        "clipped": row.clipped,
        "counted": row.counted,
        "untimed": row.untimed,
        "min_ns": row.min_ns,
        "mean_ns": row.mean_ns,
        "p50_ns": row.p50_ns,
        "p90_ns": row.p90_ns,
        "p99_ns": row.p99_ns,
        "max_ns": row.max_ns,
        "modes": distribution.modes.iter().map(mode).collect::<Value>(),
        "buckets": durations.finest().into_iter().map(bucket).collect::<Value>(),
    })
}
