//! `fdr verify --json`: the verdict, for scripts. The shape is in docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde::Serialize;

use super::checker::Verdict;
use super::finding::FindingLocation;
use crate::report::json;
use crate::report::names::name_of;

#[derive(Serialize)]
struct Document<'a> {
    file: &'a str,
    format: &'a str,
    ok: bool,
    violations: u64,
    records: u64,
    synthetic_records: u64,
    threads: u64,
    lost_records: u64,
    clock_breaks: u64,
    findings: Vec<Finding>,
    findings_not_shown: u64,
    notes: Vec<String>,
}

/// Where it is: at a byte, or at a thread's record, from 1; of a whole thread without the latter.
#[derive(Serialize)]
struct Finding {
    offset: Option<u64>,
    thread: Option<u64>,
    record: Option<u64>,
    what: String,
}

/// Writes the verdict.
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
        Finding {
            offset,
            thread,
            record,
            what: finding.what.in_words(&name),
        }
    });
    let document = Document {
        file,
        format: &info.format,
        ok: verdict.count == 0,
        violations: verdict.count,
        records: verdict.records,
        synthetic_records: verdict.synthetic,
        threads: verdict.threads,
        lost_records: verdict.lost,
        clock_breaks: verdict.breaks,
        findings: findings.collect(),
        findings_not_shown: verdict.count - verdict.findings.len() as u64,
        notes,
    };
    json::print(out, &document)
}
