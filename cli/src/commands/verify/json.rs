//! `fdr verify --json`: the verdict, for scripts. The shape is in docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde_json::{Value, json};

use super::checker::Verdict;
use super::finding::FindingLocation;
use crate::report::json;
use crate::report::names::name_of;

pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    verdict: &Verdict,
    notes: Vec<String>,
) -> anyhow::Result<()> {
    let name = |id| name_of(info, id);
    let findings = verdict.findings.iter().map(|finding| {
        let (offset, thread, record) = match finding.place {
            FindingLocation::Offset(offset) => (Some(offset), None, None),
            FindingLocation::Record { thread, number } => (
                None,
                Some(thread.0),
                Some(number).filter(|&number| number > 0),
            ),
        };
        json!({
            "offset": offset,
            "thread": thread,
            "record": record,
            "what": finding.what.in_words(&name),
        })
    });
    let document = json!({
        "file": file,
        "format": info.format,
        "ok": verdict.count == 0,
        "violations": verdict.count,
        "records": verdict.records,
        "synthetic_records": verdict.synthetic,
        "threads": verdict.threads,
        "lost_records": verdict.lost,
        "clock_breaks": verdict.breaks,
        "findings": findings.collect::<Value>(),
        "findings_not_shown": verdict.count - verdict.findings.len() as u64,
        "notes": notes,
    });
    json::print(out, &document)
}
