//! A graph as a picture: boxes and arrows from above to below. Must never compute a figure that the text does not have.

use std::io::Write;

use super::Drawn;
use super::layers::{self, Placed, Size};
use super::sums::{Edge, Node};
use crate::{svg, ui};

const EDGE: f64 = 20.0;
const HEAD: f64 = 60.0;
const LINE: f64 = 15.0;
const LABEL_LINE: f64 = 12.0;
/// Letters of a name that are shown, and the letters of labels in units.
const NAME: usize = 42;
const SMALL: f64 = 6.1;
const QUIET: &str = "#555";

/// The lines of a box: module, name, and figures.
fn lines(drawn: &Drawn<'_>, node: &Node) -> Vec<String> {
    let name = ui::clean(&node.name).into_owned();
    let module = svg::module(&name);
    let last = name
        .get(module.len() + 2..)
        .filter(|_| module.len() < name.len());
    let mut lines = vec![
        match last {
            Some(_) => ui::shorten(module, NAME).into_owned(),
            None => String::new(),
        },
        ui::shorten(last.unwrap_or(&name), NAME).into_owned(),
    ];
    lines.extend(drawn.of_node(node));
    lines
}

fn letters(lines: &[String]) -> f64 {
    lines
        .iter()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0) as f64
}

/// Draws the graph.
pub(super) fn draw(out: &mut dyn Write, drawn: &Drawn<'_>) -> anyhow::Result<()> {
    let graph = drawn.graph;
    if graph.nodes.is_empty() {
        anyhow::bail!("nothing to draw: no function is left");
    }
    let texts: Vec<Vec<String>> = graph.nodes.iter().map(|node| lines(drawn, node)).collect();
    let size = |lines: &Vec<String>| -> Size {
        (
            letters(lines) * svg::LETTER + 16.0,
            lines.len() as f64 * LINE + 10.0,
        )
    };
    let boxes: Vec<Size> = texts.iter().map(size).collect();
    let arrows: Vec<(usize, usize)> = graph
        .edges
        .iter()
        .map(|edge| (edge.from, edge.to))
        .collect();
    let label = |edge: &Edge| -> Size {
        let lines = drawn.of_edge(edge);
        (
            letters(&lines) * SMALL + 8.0,
            lines.len() as f64 * LABEL_LINE + 4.0,
        )
    };
    let labels: Vec<Size> = graph.edges.iter().map(label).collect();
    let placed = layers::place(&boxes, &arrows, &labels);
    let words = letters(&[drawn.title.clone(), drawn.left_out.clone()]) * svg::LETTER;
    let width = placed.size.0.max(words.min(1200.0)) + 2.0 * EDGE;
    let height = placed.size.1 + HEAD + EDGE;
    svg::begin(out, width, height, &drawn.title)?;
    let bold = svg::Style {
        is_bold: true,
        ..svg::Style::default()
    };
    let quiet = svg::Style {
        fill: QUIET,
        ..svg::Style::default()
    };
    svg::text(
        out,
        EDGE,
        22.0,
        &svg::fitting(&drawn.title, width - 2.0 * EDGE),
        bold,
    )?;
    svg::text(
        out,
        EDGE,
        40.0,
        &svg::fitting(&drawn.left_out, width - 2.0 * EDGE),
        quiet,
    )?;
    writeln!(
        out,
        "<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"9\" markerHeight=\"9\" \
         markerUnits=\"userSpaceOnUse\" orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#555\"/></marker></defs>"
    )?;
    for (nth, edge) in graph.edges.iter().enumerate() {
        arrow(out, drawn, &placed, &boxes, nth, edge)?;
    }
    for (nth, node) in graph.nodes.iter().enumerate() {
        node_box(out, drawn, node, &texts[nth], placed.boxes[nth], boxes[nth])?;
    }
    // Labels stand above all arrows.
    for (nth, edge) in graph
        .edges
        .iter()
        .enumerate()
        .filter(|(_, edge)| edge.from != edge.to)
    {
        let (x, y) = placed.labels[nth];
        let (wide, high) = labels[nth];
        let (x, y) = (x + EDGE, y + HEAD);
        writeln!(
            out,
            "<g font-size=\"10\"><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" fill=\"#fff\" \
             fill-opacity=\".85\"/>",
            x - wide / 2.0,
            y - high / 2.0
        )?;
        let middle = svg::Style {
            anchor: "middle",
            fill: QUIET,
            ..svg::Style::default()
        };
        for (line, text) in drawn.of_edge(edge).iter().enumerate() {
            let below = LABEL_LINE * (line as f64 + 1.0) - high / 2.0;
            svg::text(out, x, y + below, text, middle)?;
        }
        writeln!(out, "</g>")?;
    }
    writeln!(out, "</svg>")?;
    Ok(())
}

fn node_box(
    out: &mut dyn Write,
    drawn: &Drawn<'_>,
    node: &Node,
    lines: &[String],
    (x, y): (f64, f64),
    (wide, high): Size,
) -> anyhow::Result<()> {
    let (x, y) = (x + EDGE, y + HEAD);
    let light = 98.0 - 40.0 * drawn.heat(node);
    let (left, top) = (x - wide / 2.0, y - high / 2.0);
    writeln!(
        out,
        "<g><title>{}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{high:.1}\" rx=\"5\" \
         fill=\"hsl(28,90%,{light:.0}%)\" stroke=\"#888\"/>",
        svg::escape(&node.name)
    )?;
    for (nth, line) in lines.iter().enumerate() {
        let style = svg::Style {
            anchor: "middle",
            fill: if nth == 0 { QUIET } else { "" },
            is_bold: nth == 1,
        };
        let below = LINE * (nth as f64 + 1.0) + 1.0;
        svg::text(out, x, top + below, line, style)?;
    }
    writeln!(out, "</g>")?;
    Ok(())
}

fn arrow(
    out: &mut dyn Write,
    drawn: &Drawn<'_>,
    placed: &Placed,
    boxes: &[Size],
    nth: usize,
    edge: &Edge,
) -> anyhow::Result<()> {
    let middle = |at: usize| {
        let (x, y) = placed.boxes[at];
        (x + EDGE, y + HEAD)
    };
    let width = drawn.width(edge);
    let path = if edge.from == edge.to {
        // A loop at the right side.
        let ((x, y), (wide, _)) = (middle(edge.from), boxes[edge.from]);
        let right = x + wide / 2.0;
        format!(
            "M{right:.1} {:.1}C{:.1} {:.1} {:.1} {:.1} {right:.1} {:.1}",
            y - 10.0,
            right + 18.0,
            y - 12.0,
            right + 18.0,
            y + 12.0,
            y + 10.0
        )
    } else {
        let ((x, y), (_, high)) = (middle(edge.from), boxes[edge.from]);
        let ((u, v), (_, high_to)) = (middle(edge.to), boxes[edge.to]);
        let down = if v > y { 1.0 } else { -1.0 };
        let way = placed.ways[nth].iter().map(|(x, y)| (x + EDGE, y + HEAD));
        let mut points = vec![(x, y + down * high / 2.0)];
        points.extend(way);
        points.push((u, v - down * (high_to / 2.0 + 1.0)));
        curve(&points)
    };
    let said = format!(
        "{} → {}: {}",
        drawn.graph.nodes[edge.from].name,
        drawn.graph.nodes[edge.to].name,
        drawn.of_edge(edge).join(", ")
    );
    writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"#777\" stroke-opacity=\".8\" stroke-width=\"{width:.1}\" \
         marker-end=\"url(#end)\"><title>{}</title></path>",
        svg::escape(&said)
    )?;
    Ok(())
}

/// A line through the points that leaves and reaches each of them straight up or down.
fn curve(points: &[(f64, f64)]) -> String {
    let mut path = String::new();
    for (nth, &(x, y)) in points.iter().enumerate() {
        if nth == 0 {
            path.push_str(&format!("M{x:.1} {y:.1}"));
            continue;
        }
        let (from_x, from_y) = points[nth - 1];
        let half = (y - from_y) / 2.0;
        path.push_str(&format!(
            "C{from_x:.1} {:.1} {x:.1} {:.1} {x:.1} {y:.1}",
            from_y + half,
            y - half
        ));
    }
    path
}
