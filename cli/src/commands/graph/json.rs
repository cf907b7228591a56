//! Who calls whom as JSON: see docs/json.md.

use std::io::Write;

use fdr_formats::TraceInfo;
use serde_json::{Value, json};

use super::TitledGraph;
use super::sums::{Edge, Node};
use crate::report::json;

pub(super) fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    drawn: &TitledGraph<'_>,
    min_share: f64,
) -> anyhow::Result<()> {
    let graph = drawn.graph;
    let name = |at: usize| graph.nodes.get(at).map_or("", |node| node.name.as_str());
    let function = |node: &Node| {
        json!({
            "name": node.name,
            "calls": node.calls,
            "total_ns": node.total,
            "self_ns": node.own,
        })
    };
    let pair = |edge: &Edge| {
        json!({
            "from": name(edge.from),
            "to": name(edge.to),
            "calls": edge.calls,
            "total_ns": edge.total,
        })
    };
    let document = json!({
        "all_ns": graph.all,
        "min_share": min_share,
        "functions": graph.nodes.iter().map(function).collect::<Value>(),
        "edges": graph.edges.iter().map(pair).collect::<Value>(),
        "functions_not_shown": graph.hidden[0],
        "edges_not_shown": graph.hidden[1],
    });
    json::print_of(out, file, info, document)
}
