//! A comparison as JSON: see docs/json.md.

use std::io::Write;
use std::num::NonZeroUsize;

use serde::Serialize;

use super::compare::{Comparison, Side, Verdict};
use crate::report::json;

#[derive(Serialize)]
struct Document<'a> {
    runs_before: usize,
    runs_after: usize,
    tested: usize,
    functions: Vec<Function<'a>>,
    functions_not_shown: usize,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    was: Option<&'a str>,
    before: Option<Figures>,
    after: Option<Figures>,
    change: Option<f64>,
    verdict: &'static str,
    chance: Option<f64>,
}

#[derive(Serialize)]
struct Figures {
    calls: f64,
    self_ns: f64,
    total_ns: f64,
    p50_ns: Option<f64>,
    p99_ns: Option<f64>,
}

impl Figures {
    fn new(side: &Side) -> Figures {
        Figures {
            calls: side.calls,
            self_ns: side.own,
            total_ns: side.total,
            p50_ns: side.p50,
            p99_ns: side.p99,
        }
    }
}

pub(super) fn write(
    out: &mut dyn Write,
    comparison: &Comparison,
    limit: Option<NonZeroUsize>,
) -> anyhow::Result<()> {
    let most = limit.map_or(usize::MAX, NonZeroUsize::get);
    let lines = comparison.lines.iter().take(most);
    let functions: Vec<Function<'_>> = lines
        .map(|line| Function {
            name: &line.name,
            was: line.was.as_deref(),
            before: line.before.as_ref().map(Figures::new),
            after: line.after.as_ref().map(Figures::new),
            change: line.change,
            verdict: match line.verdict {
                Verdict::Slower => "slower",
                Verdict::Faster => "faster",
                Verdict::NotShown => "not_shown",
                Verdict::NotTested => "not_tested",
                Verdict::New => "new",
                Verdict::Gone => "gone",
            },
            chance: line.chance,
        })
        .collect();
    json::print(
        out,
        &Document {
            runs_before: comparison.runs.0,
            runs_after: comparison.runs.1,
            tested: comparison.tested,
            functions_not_shown: comparison.lines.len() - functions.len(),
            functions,
        },
    )
}
