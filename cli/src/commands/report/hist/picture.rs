//! A distribution as a picture: bars over the logarithm of durations, each as wide as the others, in a colour for each
//! mode.

use std::io::Write;

use fdr_formats::TraceInfo;

use super::modes::Mode;
use super::{Distribution, in_words};
use crate::{svg, ui};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 450.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 116.0;
const BOTTOM: f64 = 46.0;
/// Bars over the width of the picture, at most.
const MAX_BARS: f64 = 120.0;
/// The least width of a bar, in octaves. A cell of durations is 1/64 of an octave wide.
const MIN_BAR_OCTAVES: f64 = 1.0 / 24.0;
/// The colours of modes, in turn. People who can't distinguish red and green can distinguish them.
const COLOURS: [&str; 4] = ["#3b76b0", "#e08b27", "#5a9e72", "#9a6ab0"];
const QUIET: &str = "#555";

/// Draws one function.
pub(super) fn draw(
    out: &mut dyn Write,
    info: &TraceInfo,
    distribution: &Distribution,
    is_whole_run: bool,
) -> anyhow::Result<()> {
    let (row, durations) = (&distribution.row, &distribution.durations);
    let (Some(first), Some(last)) = (durations.cells.first(), durations.cells.last()) else {
        let name = ui::clean(&row.name);
        anyhow::bail!("nothing to draw: no call of {name} has a duration");
    };
    let octave = |ns: f64| ns.max(1.0).log2();
    let (begin, end) = (octave(first.from), octave(last.until));
    let step = ((end - begin) / MAX_BARS).max(MIN_BAR_OCTAVES);
    let bars = ((end - begin) / step).ceil().max(1.0) as usize;
    // An edge on both sides, so that one bar is no wall.
    let (begin, bars) = (begin - 2.0 * step, bars + 4);
    let edge = |nth: usize| (begin + nth as f64 * step).exp2();
    let counts: Vec<f64> = (0..bars)
        .map(|nth| durations.below(edge(nth + 1)) - durations.below(edge(nth)))
        .collect();
    let most = counts.iter().copied().fold(0.0, f64::max);
    let width = (WIDTH - LEFT - RIGHT) / bars as f64;
    let x = |ns: f64| LEFT + (octave(ns) - begin) / step * width;
    let (floor, height) = (HEIGHT - BOTTOM, HEIGHT - BOTTOM - TOP);
    svg::begin(out, WIDTH, HEIGHT, &row.name)?;
    heading(out, info, distribution, is_whole_run)?;
    grid(out, most, floor, height)?;
    axis(out, begin, begin + bars as f64 * step, &x, floor)?;
    for (nth, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0.0) {
        let (from, until) = (edge(nth), edge(nth + 1));
        let tall = (count / most * height).max(0.8);
        let title = format!(
            "{} to {}: {}",
            ui::duration(from.round() as u64),
            ui::duration(until.round() as u64),
            ui::things(count.round() as u64, "call")
        );
        let fill = colour(&distribution.modes, (from * until).sqrt());
        writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.2}\" width=\"{:.2}\" height=\"{tall:.2}\" fill=\"{fill}\"><title>{title}</title></rect>",
            LEFT + nth as f64 * width,
            floor - tall,
            (width - 0.6).max(0.4),
        )?;
    }
    percentiles(out, distribution, &x, floor)?;
    writeln!(out, "</svg>")?;
    Ok(())
}

/// Name, calls and modes.
fn heading(
    out: &mut dyn Write,
    info: &TraceInfo,
    distribution: &Distribution,
    is_whole_run: bool,
) -> anyhow::Result<()> {
    let bold = svg::Style {
        is_bold: true,
        ..svg::Style::default()
    };
    let quiet = svg::Style {
        fill: QUIET,
        ..svg::Style::default()
    };
    let room = WIDTH - 40.0;
    let name = svg::fitting_name(&distribution.row.name, room);
    svg::text(out, 20.0, 22.0, &name, bold)?;
    let calls = ui::things(distribution.durations.calls, "call");
    let subject = match (is_whole_run, info.program.as_str()) {
        (true, "") => "the whole run".to_owned(),
        (false, "") => "the trace".to_owned(),
        (true, program) => format!("the whole run of {program}"),
        (false, program) => format!("the trace of {program}"),
    };
    let mut line = format!("{calls} of {subject}");
    if let Some(max) = distribution.row.max_ns {
        line.push_str(&format!(" · max {}", ui::duration(max)));
    }
    svg::text(out, 20.0, 40.0, &svg::fitting(&line, room), quiet)?;
    if let Some(words) = in_words(distribution) {
        svg::text(out, 20.0, 58.0, &svg::fitting(&words, room), quiet)?;
    }
    Ok(())
}

/// Lines across, with numbers of calls.
fn grid(out: &mut dyn Write, most: f64, floor: f64, height: f64) -> anyhow::Result<()> {
    let power = 10_f64.powf(most.max(1.0).log10().floor());
    let rough = [0.2, 0.5, 1.0, 2.0, 5.0].map(|part| part * power);
    let step = rough
        .into_iter()
        .find(|step| most / step <= 5.0 && *step >= 1.0);
    let step = step.unwrap_or(1.0);
    let right = WIDTH - RIGHT;
    for nth in 0..=(most / step) as usize {
        let calls = nth as f64 * step;
        let y = floor - calls / most * height;
        writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#e4e4e4\"/>"
        )?;
        let end = svg::Style {
            anchor: "end",
            fill: QUIET,
            ..svg::Style::default()
        };
        svg::text(out, LEFT - 8.0, y + 4.0, &ui::count(calls as u64), end)?;
    }
    Ok(())
}

/// The durations below the bars: at 1, 2 and 5 of each factor of ten, or at fewer.
fn axis(
    out: &mut dyn Write,
    begin: f64,
    end: f64,
    x: &dyn Fn(f64) -> f64,
    floor: f64,
) -> anyhow::Result<()> {
    let decades = (end - begin) / 10_f64.log2();
    let parts: &[u64] = match decades {
        ..0.7 => &[
            10, 12, 14, 16, 18, 20, 25, 30, 35, 40, 45, 50, 60, 70, 80, 90,
        ],
        ..3.5 => &[10, 20, 50],
        _ => &[10],
    };
    let (from, until) = (begin.exp2(), end.exp2());
    let right = WIDTH - RIGHT;
    writeln!(
        out,
        "<line x1=\"{LEFT}\" y1=\"{floor:.1}\" x2=\"{right}\" y2=\"{floor:.1}\" stroke=\"#888\"/>"
    )?;
    let middle = svg::Style {
        anchor: "middle",
        fill: QUIET,
        ..svg::Style::default()
    };
    let tenths = (0..19).flat_map(|power| {
        let decade = 10_u64.pow(power);
        parts.iter().map(move |part| part.saturating_mul(decade))
    });
    let mut free = f64::NEG_INFINITY;
    for ns in tenths.map(|tenths| tenths as f64 / 10.0) {
        if ns < from || ns > until || ns.fract() > 0.0 {
            continue;
        }
        let at = x(ns);
        writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{floor:.1}\" x2=\"{at:.1}\" y2=\"{:.1}\" stroke=\"#888\"/>",
            floor + 5.0
        )?;
        let words = short(ns as u64);
        let half = words.chars().count() as f64 * svg::LETTER / 2.0;
        if at - half > free {
            svg::text(out, at, floor + 20.0, &words, middle)?;
            free = at + half + 8.0;
        }
    }
    Ok(())
}

/// A round duration without zeros behind the point.
fn short(ns: u64) -> String {
    let text = ui::duration(ns);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            let number = number.trim_end_matches('0').trim_end_matches('.');
            format!("{number} {unit}")
        }
        _ => text,
    }
}

/// Where the percentiles are.
fn percentiles(
    out: &mut dyn Write,
    distribution: &Distribution,
    x: &dyn Fn(f64) -> f64,
    floor: f64,
) -> anyhow::Result<()> {
    let row = &distribution.row;
    let known = [
        ("p50", row.p50_ns),
        ("p90", row.p90_ns),
        ("p99", row.p99_ns),
    ];
    let middle = svg::Style {
        anchor: "middle",
        ..svg::Style::default()
    };
    // The end of the words on each line. If two words are too close for one line, they are on two lines, one above the
    // other.
    let mut ends = [f64::NEG_INFINITY; 3];
    for (name, ns) in known.iter().filter_map(|(name, ns)| Some((name, (*ns)?))) {
        let at = x(ns as f64).clamp(LEFT, WIDTH - RIGHT);
        let words = format!("{name} {}", ui::duration(ns));
        let half = words.chars().count() as f64 * svg::LETTER / 2.0;
        let place = at.clamp(LEFT + half, WIDTH - RIGHT - half);
        let line = ends.iter().position(|end| place - half > *end);
        let line = line.unwrap_or(ends.len() - 1);
        ends[line] = place + half + 6.0;
        let y = TOP - 12.0 - 14.0 * line as f64;
        writeln!(
            out,
            "<line x1=\"{at:.1}\" y1=\"{:.1}\" x2=\"{at:.1}\" y2=\"{floor:.1}\" stroke=\"#333\" stroke-dasharray=\"3 3\"/>",
            y + 3.0
        )?;
        svg::text(out, place, y, &words, middle)?;
    }
    Ok(())
}

fn colour(modes: &[Mode], ns: f64) -> &'static str {
    let nth = modes.iter().position(|mode| ns < mode.until);
    let nth = nth.unwrap_or(modes.len().saturating_sub(1));
    COLOURS[nth % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_durations_are_short() {
        assert_eq!(short(1), "1 ns");
        assert_eq!(short(200), "200 ns");
        assert_eq!(short(1_000_000), "1 ms");
        assert_eq!(short(1_200_000), "1.2 ms");
        assert_eq!(short(100_000_000_000), "100 s");
    }
}
