//! A flame graph as a picture: the paths of one side, or what changed from one side to the other.

use std::io::Write;

use super::paths::{Path, Paths, ROOT};
use crate::{svg, ui};

/// The picture's width, and its edge on both sides; the script in it knows them, too.
const WIDTH: f64 = 1200.0;
const EDGE: f64 = 10.0;
const FRAME: f64 = 17.0;
const HEAD: f64 = 56.0;
const FOOT: f64 = 28.0;
/// Frames that are narrower are left out.
const MIN_WIDTH: f64 = 0.3;
/// The colour of a box that is no function.
const GREY: &str = "#d4d4d4";

const SCRIPT: &str = include_str!("picture.js");

/// The texts around the paths.
pub(crate) struct Words<'a> {
    pub(crate) title: &'a str,
    pub(crate) subtitle: &'a str,
    /// A value as a text: a time, or a number of calls.
    pub(crate) value: fn(u64) -> String,
    /// Two sides are compared.
    pub(crate) is_change: bool,
}

/// Where a path is drawn, as parts of the width.
#[derive(Clone, Copy, Default)]
struct PathRectangle {
    left: f64,
    width: f64,
    depth: usize,
    /// Where the next path that it called begins.
    next: f64,
}

/// Draws the paths.
///
/// # Errors
/// Where it can't be written.
pub(crate) fn draw(out: &mut dyn Write, paths: &Paths, words: &Words<'_>) -> anyhow::Result<()> {
    let all = paths.nodes[ROOT].total;
    let mut places = vec![PathRectangle::default(); paths.nodes.len()];
    places[ROOT].width = 1.0;
    let (mut deepest, mut left_out) = (0, 0_u64);
    let mut shown = vec![ROOT];
    // Callers come first: each path's place begins where the one before it ends.
    let order = paths.called();
    let caller_of = |path: &usize| paths.nodes[*path].caller;
    let mut waiting = vec![ROOT];
    while let Some(caller) = waiting.pop() {
        let first = order.partition_point(|path| caller_of(path) < caller);
        let called = order.iter().skip(first);
        for &path in called.take_while(|path| caller_of(path) == caller) {
            let width = paths.nodes[path].total[1] as f64 / all[1].max(1) as f64;
            let around = &mut places[caller];
            let (left, depth) = (around.next, around.depth + 1);
            around.next += width;
            if width * (WIDTH - 2.0 * EDGE) < MIN_WIDTH {
                left_out += u64::from(paths.nodes[path].total[1] > 0);
                continue;
            }
            places[path] = PathRectangle {
                left,
                width,
                depth,
                next: left,
            };
            deepest = deepest.max(depth);
            shown.push(path);
            waiting.push(path);
        }
    }
    let height = HEAD + FOOT + FRAME * (deepest + 1) as f64;
    svg::begin(out, WIDTH, height, words.title)?;
    let bold = svg::Style {
        is_bold: true,
        ..svg::Style::default()
    };
    let quiet = svg::Style {
        fill: "#555",
        ..svg::Style::default()
    };
    let room = WIDTH - 2.0 * EDGE;
    let title = svg::fitting(words.title, room);
    svg::text(out, EDGE, 20.0, &title, bold)?;
    let subtitle = svg::fitting(words.subtitle, room);
    svg::text(out, EDGE, 38.0, &subtitle, quiet)?;
    writeln!(
        out,
        "<style>g.f rect{{stroke:#fff;stroke-width:.4}}g.f:hover rect{{stroke:#000;stroke-width:1}}\
         g.f text{{pointer-events:none}}g.f,#search{{cursor:pointer}}g.found rect{{fill:#d68cf0}}</style>"
    )?;
    for path in shown {
        let (node, place) = (&paths.nodes[path], places[path]);
        // As in the lanes of fdr view: what a path calls is below it.
        let y = HEAD + FRAME * place.depth as f64;
        frame(out, node, place, y, words)?;
    }
    let mut foot = "click a frame to zoom in, the top one to zoom out".to_owned();
    if left_out > 0 {
        let paths = ui::things(left_out, "path");
        foot.push_str(&format!(
            " · {paths} narrower than a third of a pixel left out"
        ));
    }
    svg::text(out, EDGE, height - 9.0, &foot, quiet)?;
    writeln!(
        out,
        "<text id=\"search\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">search (Ctrl+F)</text>\n\
         <script><![CDATA[\n{SCRIPT}]]></script>\n</svg>",
        WIDTH - EDGE,
        height - 9.0
    )?;
    Ok(())
}

fn frame(
    out: &mut dyn Write,
    node: &Path,
    place: PathRectangle,
    y: f64,
    words: &Words<'_>,
) -> anyhow::Result<()> {
    let room = WIDTH - 2.0 * EDGE;
    let (x, width) = (EDGE + place.left * room, place.width * room);
    let name = match place.depth {
        0 => "all",
        _ => &node.name,
    };
    let [before, after] = node.total;
    let share = 100.0 * place.width;
    let mut title = format!("{name} · {} · {share:.2} %", (words.value)(after));
    if words.is_change {
        title.push_str(&format!(
            " · before {} · {}",
            (words.value)(before),
            change(before, after)
        ));
    }
    let fill = match (words.is_change, name.starts_with('[') || place.depth == 0) {
        (true, _) => colour_of_change(node),
        (false, true) => GREY.to_owned(),
        (false, false) => svg::colour(svg::module(name), name),
    };
    let text = svg::fitting_name(name, width - 6.0);
    writeln!(
        out,
        "<g class=\"f\" data-x=\"{:.7}\" data-w=\"{:.7}\" data-n=\"{}\"><title>{}</title>\
         <rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{:.2}\" height=\"{:.1}\" rx=\"1.5\" fill=\"{fill}\"/>\
         <text x=\"{:.2}\" y=\"{:.1}\">{}</text></g>",
        place.left,
        place.width,
        svg::escape(name),
        svg::escape(&title),
        (width - 0.4).max(0.2),
        FRAME - 1.0,
        x + 3.0,
        y + 12.0,
        svg::escape(&text),
    )?;
    Ok(())
}

/// How much more or less it is now.
fn change(before: u64, after: u64) -> String {
    match before {
        0 if after == 0 => "the same".to_owned(),
        0 => "new".to_owned(),
        _ => format!(
            "{:+.1} %",
            100.0 * (after as f64 - before as f64) / before as f64
        ),
    }
}

/// Red: more than before; blue: less. The stronger, the larger the part of the path that changed. Grey: the change may be
/// chance.
fn colour_of_change(node: &Path) -> String {
    let [before, after] = node.total.map(|total| total as f64);
    let part = (after - before) / before.max(after).max(1.0);
    if !node.differs {
        return "hsl(0,0%,93%)".to_owned();
    }
    let light = 93.0 - 38.0 * part.abs().min(1.0).sqrt();
    let hue = if part > 0.0 { 8 } else { 214 };
    format!("hsl({hue},85%,{light:.0}%)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(paths: &Paths, is_change: bool) -> String {
        let words = Words {
            title: "app <1>",
            subtitle: "in all",
            value: ui::duration,
            is_change,
        };
        let mut out = Vec::new();
        draw(&mut out, paths, &words).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    }

    fn paths(parts: &[(&[&str], u64, u64)]) -> Paths {
        let mut paths = Paths::default();
        for (names, before, after) in parts {
            let below = |at, name: &&str| paths.below(at, name).expect("room");
            let path = names.iter().fold(ROOT, below);
            paths.add(path, 0, *before);
            paths.add(path, 1, *after);
        }
        paths.settle([1, 1]);
        paths
    }

    #[test]
    fn frames_are_proportional_and_hang_below_callers() {
        let paths = paths(&[(&["a"], 0, 250), (&["a", "b"], 0, 500), (&["c"], 0, 250)]);
        let picture = picture(&paths, false);
        // Three levels: the top one is everything.
        assert!(picture.contains("height=\"135\""), "{picture}");
        for frame in [
            "data-x=\"0.0000000\" data-w=\"1.0000000\" data-n=\"all\"><title>all · 1.000 µs · 100.00 %</title>\
             <rect x=\"10.00\" y=\"56.0\"",
            "data-x=\"0.0000000\" data-w=\"0.7500000\" data-n=\"a\"><title>a · 750 ns · 75.00 %</title>\
             <rect x=\"10.00\" y=\"73.0\" width=\"884.60\"",
            "data-x=\"0.0000000\" data-w=\"0.5000000\" data-n=\"b\"><title>b · 500 ns · 50.00 %</title>\
             <rect x=\"10.00\" y=\"90.0\"",
            "data-x=\"0.7500000\" data-w=\"0.2500000\" data-n=\"c\"><title>c · 250 ns · 25.00 %</title>\
             <rect x=\"895.00\" y=\"73.0\"",
        ] {
            assert!(picture.contains(frame), "{frame}: {picture}");
        }
        assert!(
            picture.contains("<title>app &lt;1&gt;</title>"),
            "{picture}"
        );
    }

    #[test]
    fn narrow_frames_are_left_out_and_reported() {
        let paths = paths(&[(&["a"], 0, 1_000_000), (&["b"], 0, 1), (&["c"], 0, 2)]);
        let picture = picture(&paths, false);
        assert_eq!(picture.matches("class=\"f\"").count(), 2, "{picture}");
        assert!(picture.contains("2 paths narrower than"), "{picture}");
    }

    #[test]
    fn changes_are_red_for_more_blue_for_less() {
        let mut paths = paths(&[
            (&["a"], 100, 200),
            (&["b"], 200, 100),
            (&["c"], 100, 100),
            (&["d"], 0, 50),
            (&["gone"], 50, 0),
            (&["e"], 50, 60),
        ]);
        for path in paths.nodes.iter_mut().filter(|path| path.name != "e") {
            path.differs = path.total[0] != path.total[1];
        }
        let picture = picture(&paths, true);
        for (title, hue) in [
            ("a · 200 ns · 39.22 % · before 100 ns · +100.0 %", "hsl(8,"),
            ("b · 100 ns · 19.61 % · before 200 ns · -50.0 %", "hsl(214,"),
            ("c · 100 ns · 19.61 % · before 100 ns · +0.0 %", "hsl(0,0%"),
            ("d · 50 ns · 9.80 % · before 0 ns · new", "hsl(8,"),
            // It may be chance.
            ("e · 60 ns · 11.76 % · before 50 ns · +20.0 %", "hsl(0,0%"),
        ] {
            let frame = picture.lines().find(|line| line.contains(title));
            let frame = frame.unwrap_or_else(|| panic!("{title}: {picture}"));
            assert!(frame.contains(hue), "{frame}");
        }
        assert!(!picture.contains("gone"), "{picture}");
    }
}
