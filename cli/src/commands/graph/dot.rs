//! A graph in the language of Graphviz.

use std::io::Write;

use super::TitledGraph;
use super::sums::{Edge, Node};
use crate::ui;

/// A text in quotes. In a label, a backslash would begin a word of Graphviz.
fn quoted(text: &str) -> String {
    let text = ui::clean(text).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{text}\"")
}

/// Lines of a label.
fn label(lines: &[String]) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| quoted(line).trim_matches('"').to_owned())
        .collect();
    format!("\"{}\"", lines.join("\\n"))
}

/// Writes the graph.
pub(super) fn write(out: &mut dyn Write, drawn: &TitledGraph<'_>) -> anyhow::Result<()> {
    let graph = drawn.graph;
    writeln!(out, "digraph {} {{", quoted(&drawn.title))?;
    let mut head = vec![drawn.title.clone()];
    if !drawn.left_out.is_empty() {
        head.push(drawn.left_out.clone());
    }
    writeln!(
        out,
        "  graph [label={} labelloc=t fontname=\"sans-serif\"];",
        label(&head)
    )?;
    writeln!(
        out,
        "  node [shape=box style=\"rounded,filled\" fontname=\"sans-serif\" color=\"#888888\"];"
    )?;
    writeln!(
        out,
        "  edge [fontname=\"sans-serif\" fontsize=10 color=\"#666666\"];"
    )?;
    for (at, node) in graph.nodes.iter().enumerate() {
        let mut lines = vec![node.name.clone()];
        lines.extend(drawn.of_node(node));
        let heat = drawn.heat(node);
        writeln!(
            out,
            "  n{at} [label={} fillcolor=\"0.08 {heat:.3} 1.0\"];",
            label(&lines)
        )?;
    }
    for edge in &graph.edges {
        let width = drawn.width(edge);
        writeln!(
            out,
            "  n{} -> n{} [label={} penwidth={width:.1}];",
            edge.from,
            edge.to,
            label(&drawn.of_edge(edge))
        )?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

impl TitledGraph<'_> {
    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.graph.all.max(1) as f64
    }

    /// The lines below the name of a function.
    pub(super) fn of_node(&self, node: &Node) -> Vec<String> {
        let time = format!(
            "{} · {:.1} %",
            ui::duration(node.total),
            100.0 * self.share(node.total)
        );
        let calls = ui::things(node.calls, "call");
        match self.is_to {
            true => vec![time, calls],
            false => vec![time, format!("self {} · {calls}", ui::duration(node.own))],
        }
    }

    /// The lines at the arrow from a caller to a callee.
    pub(super) fn of_edge(&self, edge: &Edge) -> Vec<String> {
        vec![
            ui::duration(edge.total),
            format!("{}×", ui::count(edge.calls)),
        ]
    }

    /// How hot a function is, from 0 to 1: by its part of all self time, or of the time that came through it.
    pub(super) fn heat(&self, node: &Node) -> f64 {
        let ns = if self.is_to { node.total } else { node.own };
        self.share(ns).clamp(0.0, 1.0).sqrt() * 0.75
    }

    /// How wide an arrow is.
    pub(super) fn width(&self, edge: &Edge) -> f64 {
        1.0 + 5.0 * self.share(edge.total).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::sums::tests::rows;
    use super::super::sums::{Graph, Part};
    use super::*;

    #[test]
    fn no_name_ends_its_text() {
        let rows = rows(&[(0, "a\" -> evil [x=\\\"\u{1b}\n", 5, 1), (1, "b\\", 7, 2)]);
        let graph = Graph::new(rows, Part::All);
        let drawn = TitledGraph {
            graph: &graph,
            title: "t\"".to_owned(),
            left_out: String::new(),
            is_to: false,
        };
        let mut out = Vec::new();
        write(&mut out, &drawn).expect("memory");
        let text = String::from_utf8(out).expect("UTF-8");
        assert!(text.starts_with("digraph \"t\\\"\" {\n"), "{text}");
        let name = "n0 [label=\"a\\\" -> evil [x=\\\\\\\"\\\\u{1b}\\\\n\\n12 ns · 100.0 %\\nself 5 ns · 1 call\"";
        assert!(text.contains(name), "{text}");
        assert!(
            text.contains("n0 -> n1 [label=\"7 ns\\n2×\" penwidth=3.9];"),
            "{text}"
        );
    }
}
