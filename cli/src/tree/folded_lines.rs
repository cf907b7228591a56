//! Folded lines: each path of calls with a value, as other programs draw flame graphs of them.

use std::collections::HashMap;
use std::io::Write;

use fdr_formats::TraceInfo;

use super::call_tree::{Label, Node, NodeId, Tree};
use crate::report::names::name_of;
use crate::ui;

/// Every path with a value, in the order of names.
pub(crate) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    tree: &Tree,
    value: &dyn Fn(&Node) -> u64,
) -> anyhow::Result<()> {
    let mut names = HashMap::new();
    for (_, node) in tree.nodes() {
        names
            .entry(node.label)
            .or_insert_with(|| name(info, node.label));
    }
    let name = |node: &Node| names.get(&node.label).map_or("", String::as_str);
    // By caller, the last name first: those at the end are written first.
    let mut order: Vec<(NodeId, &Node)> = tree.nodes().skip(1).collect();
    order.sort_by_key(|(_, node)| (node.caller, std::cmp::Reverse((name(node), node.label))));
    let called = |caller: NodeId| {
        let first = order.partition_point(|(_, node)| node.caller < caller);
        let last = order.partition_point(|(_, node)| node.caller <= caller);
        &order[first..last]
    };
    let mut waiting: Vec<(usize, NodeId, &Node)> = Vec::new();
    let below = |depth: usize, id| called(id).iter().map(move |&(id, node)| (depth, id, node));
    waiting.extend(below(0, NodeId::ROOT));
    let mut path: Vec<&str> = Vec::new();
    while let Some((depth, id, node)) = waiting.pop() {
        path.truncate(depth);
        path.push(name(node));
        match value(node) {
            0 => {}
            value => writeln!(out, "{} {value}", path.join(";"))?,
        }
        waiting.extend(below(depth + 1, id));
    }
    Ok(())
}

/// As the readers of such lines take it: `;` has a meaning there.
pub(super) fn name(info: &TraceInfo, label: Label) -> String {
    match label {
        Label::Root => String::new(),
        Label::Function(id) => ui::clean(&name_of(info, id)).replace(';', ":"),
        Label::Thread(id) => {
            let thread = info.threads.iter().find(|thread| thread.id == id);
            let name = thread.map_or("", |thread| &thread.name);
            let name = ui::clean(name).replace(';', ":");
            format!("{name} (thread {id})").trim_start().to_owned()
        }
        Label::Others => "[more]".to_owned(),
        Label::Open => "[open]".to_owned(),
        Label::Short => "[short]".to_owned(),
    }
}
