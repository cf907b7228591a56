//! The results as a picture (SVG): two panels with bars for each recorder, times on a logarithmic axis.

use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::ranged1d::SegmentValue;
use plotters::prelude::*;

use super::results::{Findings, LEAF, MIX, ns};
use super::{FLOORS, Kind, Row};
use crate::Result;
use crate::figures::Spread;

const WIDTH: u32 = 1100;
const ROW: usize = 20;
const FONT: &str = "sans-serif";

const PANELS: [(usize, &str); 2] = [
    (LEAF, "leaf: a call that does next to nothing"),
    (MIX, "index builder: calls of some ns to some µs"),
];

/// Writes the picture.
///
/// # Errors
/// If the file can't be written.
pub(super) fn svg(findings: &Findings, path: &Path) -> Result<()> {
    let drawn = |row: &&Row| row.mode.kind != Kind::Off && row.cells[LEAF].thread().is_some();
    let rows: Vec<&Row> = findings.rows.iter().filter(drawn).rev().collect();
    let root = SVGBackend::new(path, (WIDTH, (rows.len() * ROW + 120) as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let title = "What tracing adds to a call, ns of CPU. Dark: on its own thread; light: in the whole process";
    let foot = format!("{}; {}", findings.date, findings.machine);
    let area = root.titled(title, (FONT, 16))?.titled(&foot, (FONT, 12))?;
    for (area, (body, title)) in area.split_evenly((1, PANELS.len())).iter().zip(PANELS) {
        panel(area, &rows, body, title)?;
    }
    Ok(root.present()?)
}

fn panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    rows: &[&Row],
    body: usize,
    title: &str,
) -> Result<()> {
    let figures = |row: &&Row| [row.cells[body].thread(), row.cells[body].process()];
    let medians = rows
        .iter()
        .flat_map(figures)
        .flatten()
        .map(|figure| figure.median);
    let Some(Spread { min, max, .. }) = Spread::from_values(medians.filter(|median| *median > 0.0))
    else {
        return Ok(());
    };
    let (from, to) = (
        10_f64.powf(min.log10().floor()),
        10_f64.powf(max.log10().ceil()),
    );
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 13))
        .margin(8)
        .x_label_area_size(24)
        .y_label_area_size(150)
        // Room for the last bar's figure; the last row belongs to a range of whole numbers.
        .build_cartesian_2d(
            (from..to * 3.0).log_scale(),
            (0..rows.len() - 1).into_segmented(),
        )?;
    let label = |value: &SegmentValue<usize>| match value {
        SegmentValue::CenterOf(at) => rows
            .get(*at)
            .map_or_else(String::new, |row| row.mode.label.clone()),
        _ => String::new(),
    };
    let mut mesh = chart.configure_mesh();
    mesh.disable_y_mesh()
        .y_labels(rows.len())
        .y_label_formatter(&label);
    mesh.x_label_formatter(&|value| format!("{value} ns"))
        .draw()?;
    for (at, row) in rows.iter().enumerate() {
        let [thread, process] = figures(row);
        for (figure, colour, margin) in
            [(process, colours(row)[1], 2), (thread, colours(row)[0], 5)]
        {
            let Some(figure) = figure else { continue };
            let corners = [
                (from, SegmentValue::Exact(at)),
                (figure.median.max(from), SegmentValue::Exact(at + 1)),
            ];
            let mut bar = Rectangle::new(corners, colour.filled());
            bar.set_margin(margin, margin, 0, 0);
            chart.draw_series([bar])?;
        }
        let middle = SegmentValue::CenterOf(at);
        let (end, text) = match thread.zip(process) {
            Some((thread, process)) => {
                let spread = [thread.min, thread.max].map(|ns| (ns.max(from), middle.clone()));
                chart.draw_series([PathElement::new(spread, BLACK)])?;
                let end = thread.max.max(process.median).max(from) * 1.05;
                (end, ns(thread.median))
            }
            None => (from, "not measured".to_owned()),
        };
        chart.draw_series([Text::new(text, (end, middle), (FONT, 12))])?;
        if let Some(floor) = thread.filter(|_| FLOORS.contains(&row.mode.label.as_str())) {
            let ends = [0, rows.len()].map(|end| (floor.median, SegmentValue::Exact(end)));
            chart.draw_series([PathElement::new(ends, RGBColor(0x44, 0x44, 0x44))])?;
        }
    }
    Ok(())
}

/// Of the thread's bar and the process's.
fn colours(row: &Row) -> [RGBColor; 2] {
    match (row.mode.kind, row.folder.as_str()) {
        (Kind::Floor, _) => [RGBColor(0x77, 0x77, 0x77), RGBColor(0xcc, 0xcc, 0xcc)],
        (_, "fdr") => [RGBColor(0xb5, 0x45, 0x1b), RGBColor(0xee, 0xc4, 0xb3)],
        _ => [RGBColor(0x2b, 0x6c, 0xa3), RGBColor(0xbc, 0xd4, 0xe8)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::results::tests::findings;

    #[test]
    fn measured_rows_have_two_bars_per_panel() {
        let findings = findings();
        let drawn = |row: &&Row| row.mode.kind != Kind::Off && row.cells[0].thread().is_some();
        let rows = findings.rows.iter().filter(drawn).count();
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.svg");
        svg(&findings, &path).expect("a picture");
        let picture = std::fs::read_to_string(&path).expect("a picture");
        assert_eq!(picture.matches("<rect").count(), 1 + rows * 2 * 2);
        assert!(!picture.contains("NaN") && picture.trim_end().ends_with("</svg>"));
    }
}
