//! Who calls whom as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde::Serialize;

use super::TitledGraph;
use crate::report::json::{self, Head};

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    head: Head<'a>,
    all_ns: u64,
    min_share: f64,
    functions: Vec<Function<'a>>,
    edges: Vec<Pair<'a>>,
    functions_not_shown: usize,
    edges_not_shown: usize,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    calls: u64,
    total_ns: u64,
    self_ns: u64,
}

#[derive(Serialize)]
struct Pair<'a> {
    from: &'a str,
    to: &'a str,
    calls: u64,
    total_ns: u64,
}

/// Writes the graph.
pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    drawn: &TitledGraph<'_>,
    min_share: f64,
) -> anyhow::Result<()> {
    let graph = drawn.graph;
    let name = |at: usize| graph.nodes.get(at).map_or("", |node| node.name.as_str());
    let functions = graph.nodes.iter().map(|node| Function {
        name: &node.name,
        calls: node.calls,
        total_ns: node.total,
        self_ns: node.own,
    });
    let edges = graph.edges.iter().map(|edge| Pair {
        from: name(edge.from),
        to: name(edge.to),
        calls: edge.calls,
        total_ns: edge.total,
    });
    json::print(
        out,
        &Document {
            head: Head::new(file, info),
            all_ns: graph.all,
            min_share,
            functions: functions.collect(),
            edges: edges.collect(),
            functions_not_shown: graph.hidden[0],
            edges_not_shown: graph.hidden[1],
        },
    )
}
