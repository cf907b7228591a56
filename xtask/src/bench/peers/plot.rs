//! The results as a picture: two panels with a bar for each recorder, times on a logarithmic axis. It must
//! need no program and no font of its own, and look right on any background.

use std::fmt::Write;

use super::Row;
use super::list::{FLOORS, Kind};
use super::sample::Cell;
use super::table::{Findings, MIX, ns};
use crate::bench::figures::Spread;

const ROW: f64 = 20.0;
const TOP: f64 = 64.0;
const LABELS: f64 = 170.0;
const PANEL: f64 = 330.0;
const GAP: f64 = 60.0;

/// Place in `BODIES`, title.
const PANELS: [(usize, &str); 2] = [
    (0, "leaf: a call that does next to nothing"),
    (MIX, "index builder: calls of some ns to some µs"),
];

/// An axis in ns, logarithmic.
#[derive(Debug, Clone, Copy)]
struct Axis {
    left: f64,
    /// Powers of ten.
    from: i32,
    to: i32,
}

impl Axis {
    fn x(self, value: f64) -> f64 {
        let (from, to) = (f64::from(self.from), f64::from(self.to));
        let share = (value.max(f64::MIN_POSITIVE).log10() - from) / (to - from);
        self.left + PANEL * share.clamp(0.0, 1.0)
    }
}

/// The picture.
pub(crate) fn svg(findings: &Findings) -> String {
    let drawn = |row: &&Row| row.mode.kind != Kind::Off && row.cells[0].thread().is_some();
    let rows: Vec<&Row> = findings.rows.iter().filter(drawn).collect();
    let width = LABELS + PANELS.len() as f64 * (PANEL + GAP);
    let height = TOP + ROW * rows.len() as f64 + 50.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"20\" font-size=\"14\">What tracing adds to a call, ns of CPU. Dark: on its own \
         thread; light: in the whole process</text>\n"
    );
    for (at, row) in rows.iter().enumerate() {
        let (y, label) = (TOP + ROW * at as f64 + 14.0, escaped(row.mode.label));
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>",
            LABELS - 8.0
        );
    }
    for (at, (body, title)) in PANELS.into_iter().enumerate() {
        let left = LABELS + at as f64 * (PANEL + GAP);
        text += &panel(&rows, body, title, left);
    }
    let foot = escaped(&format!("{}; {}", findings.date, findings.machine));
    let y = height - 8.0;
    let _ = writeln!(
        text,
        "<text x=\"8\" y=\"{y}\" fill=\"#666\">{foot}</text>\n</svg>"
    );
    text
}

fn panel(rows: &[&Row], body: usize, title: &str, left: f64) -> String {
    let cells = || rows.iter().map(|row| (row, &row.cells[body]));
    let figures = |cell: &Cell| [cell.thread(), cell.process()];
    let values = cells().flat_map(|(_, cell)| figures(cell)).flatten();
    let Some(Spread { min, max, .. }) = Spread::of(
        values
            .map(|figure| figure.median)
            .filter(|value| *value > 0.0),
    ) else {
        return String::new();
    };
    let (from, to) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    let to = to.max(from + 1);
    let axis = Axis { left, from, to };
    let bottom = TOP + ROW * rows.len() as f64;
    let mut text = format!(
        "<text x=\"{left}\" y=\"{}\" font-weight=\"bold\">{title}</text>\n",
        TOP - 22.0
    );
    for power in from..=to {
        let value = 10_f64.powi(power);
        let x = axis.x(value);
        let _ = writeln!(
            text,
            "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#ddd\"/><text x=\"{x:.1}\" y=\"{:.1}\" \
             text-anchor=\"middle\" fill=\"#666\">{value} ns</text>",
            TOP - 5.0
        );
    }
    for (at, (row, cell)) in cells().enumerate() {
        let y = TOP + ROW * at as f64;
        match cell.thread().zip(cell.process()) {
            Some((thread, process)) => text += &bar(axis, y, thread, process, colours(row)),
            None => {
                let _ = writeln!(
                    text,
                    "<text x=\"{left}\" y=\"{:.1}\">not measured</text>",
                    y + 14.0
                );
            }
        }
        if FLOORS.contains(&row.mode.label)
            && let Some(floor) = cell.thread()
        {
            let x = axis.x(floor.median);
            let _ = writeln!(
                text,
                "<path d=\"M{x:.1} {TOP}V{bottom}\" stroke=\"#444\" stroke-dasharray=\"3 3\"/>"
            );
        }
    }
    text
}

/// Of the thread's bar and the process's.
fn colours(row: &Row) -> [&'static str; 2] {
    match (row.mode.kind, row.peer.folder) {
        (Kind::Floor, _) => ["#777", "#ccc"],
        (_, "fdr") => ["#b5451b", "#eec4b3"],
        _ => ["#2b6ca3", "#bcd4e8"],
    }
}

/// The process's bar, the thread's in it, the thread's least and most as a line, and its median in digits.
fn bar(axis: Axis, y: f64, thread: Spread, process: Spread, [dark, light]: [&str; 2]) -> String {
    let bar = |value: f64, inset: f64, colour: &str| {
        format!(
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            axis.left,
            y + inset,
            axis.x(value) - axis.left,
            ROW - 2.0 * inset
        )
    };
    let end = axis.x(thread.max.max(process.median)) + 4.0;
    format!(
        "{}{}<path d=\"M{:.1} {middle:.1}H{:.1}\" stroke=\"#000\"/><text x=\"{end:.1}\" y=\"{:.1}\">{}</text>\n",
        bar(process.median, 2.0, light),
        bar(thread.median, 5.0, dark),
        axis.x(thread.min),
        axis.x(thread.max),
        y + 14.0,
        ns(thread.median),
        middle = y + ROW / 2.0,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::peers::table::tests::findings;

    #[test]
    fn an_axis_is_logarithmic_and_has_ends() {
        let axis = Axis {
            left: 100.0,
            from: 1,
            to: 3,
        };
        assert_eq!(axis.x(10.0), 100.0);
        assert_eq!(axis.x(100.0), 100.0 + PANEL / 2.0);
        assert_eq!(axis.x(1e9), 100.0 + PANEL);
        // A difference may be negative, which has no logarithm.
        assert_eq!([0.5, 0.0, -1.0].map(|value| axis.x(value)), [100.0; 3]);
    }

    #[test]
    fn each_measured_row_has_two_bars_in_each_panel() {
        let findings = findings();
        let drawn = |row: &&Row| row.mode.kind != Kind::Off && row.cells[0].thread().is_some();
        let rows = findings.rows.iter().filter(drawn).count();
        let picture = svg(&findings);
        assert_eq!(picture.matches("<rect").count(), 1 + rows * 2 * 2);
        assert_eq!(picture.matches("stroke-dasharray").count(), 2 * 2);
        assert!(!picture.contains("NaN") && picture.ends_with("</svg>\n"));
    }
}
