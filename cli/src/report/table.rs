//! The report as a table for people, with units, and notes on what the figures leave out.

use std::io::Write;

use fdr_formats::TraceInfo;

use super::rows::{OpenRow, Report, Row, ThreadRow};
use crate::columns::Columns;
use crate::{trace, ui};

const HEAD: [&str; 10] = [
    "calls", "total", "self", "self %", "min", "mean", "p50", "p90", "p99", "max",
];

/// Columns in the order in which they are left out where a terminal is narrow; the rest stays.
const LEFT_OUT: [&str; 6] = ["min", "p90", "p50", "mean", "self %", "p99"];

/// Threads that are named with what they were in.
const OPEN_SHOWN: usize = 3;

/// So much of a name is worth more than another column.
const NAME: usize = 24;

/// How a table is to look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// With a column for file and line.
    pub(crate) places: bool,
    /// With a bold head.
    pub(crate) colour: bool,
    /// The width that there is; `None`: any.
    pub(crate) columns: Option<usize>,
    /// Without figures of time.
    pub(crate) timeless: bool,
}

/// Writes all of a report.
pub(crate) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    report: &Report,
    look: Look,
) -> anyhow::Result<()> {
    writeln!(out, "{}", headline(info, report))?;
    if info.failed_thread().is_some() {
        writeln!(out, "{}", ui::clean(&info.reason))?;
    }
    if let Some(line) = open_in_words(info, &report.open) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    let mut left_out = Vec::new();
    if report.threads.iter().any(|thread| thread.rows.is_some()) {
        for thread in &report.threads {
            writeln!(out, "{}", thread_line(thread, look))?;
            let rows = thread.rows.as_deref().unwrap_or(&[]);
            left_out.extend(write_rows(out, rows, thread.self_ns, look)?);
            writeln!(out)?;
        }
        writeln!(out, "all threads")?;
    }
    left_out.extend(write_rows(out, &report.rows, report.self_ns, look)?);
    if !left_out.is_empty() {
        let names = LEFT_OUT.map(|name| left_out.contains(&name).then_some(name));
        let names: Vec<&str> = names.into_iter().flatten().collect();
        let names = names.join(", ");
        writeln!(
            out,
            "no room for {names}: a wider terminal, a pipe or --csv has them"
        )?;
    }
    for note in notes(report) {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn headline(info: &TraceInfo, report: &Report) -> String {
    let mut parts = Vec::new();
    if !info.program.is_empty() {
        let process = info
            .process
            .map(|id| format!(" (process {id})"))
            .unwrap_or_default();
        parts.push(format!("{}{process}", ui::clean(&info.program)));
    }
    parts.push(ui::clean(&info.format).into_owned());
    if !report.timeless {
        parts.push(ui::duration(report.duration_ns));
    }
    parts.push(ui::things(report.threads.len() as u64, "thread"));
    parts.push(ui::things(report.records(), "record"));
    parts.join(" · ")
}

fn thread_line(thread: &ThreadRow, look: Look) -> String {
    let name = if thread.name.is_empty() {
        "(no name)".into()
    } else {
        ui::clean(&thread.name)
    };
    let mut parts = vec![format!("thread {} {name}", thread.id)];
    if !look.timeless {
        parts.push(ui::duration(thread.duration_ns));
    }
    parts.push(ui::things(thread.records, "record"));
    if let Some((first, last)) = thread.window_ns.filter(|_| !look.timeless) {
        let (first, last) = (ui::duration(first), ui::duration(last));
        let cut = match thread.is_cut {
            true => ", older ones overwritten",
            false => "",
        };
        parts.push(format!("+{first} to +{last}{cut}"));
    }
    parts.join(" · ")
}

/// Which calls were open when the trace was written, in a line; `None`: there are none.
pub(crate) fn open_in_words(info: &TraceInfo, open: &[OpenRow]) -> Option<String> {
    if open.is_empty() || trace::is_timeless(info) {
        return None;
    }
    let when = match info.reason.as_str() {
        "exit" => "at exit",
        "killed" => "when it was killed",
        reason if reason.starts_with("crash: ") => "when it crashed",
        reason if reason.starts_with("panic") => "at the panic",
        "signal" | "call" | "snapshot" => "when it was dumped",
        _ => "at the end",
    };
    let row = |row: &OpenRow| {
        let thread = match ui::clean(&row.thread_name) {
            name if name.is_empty() => format!("thread {}", row.thread),
            name => name.into_owned(),
        };
        let least = if row.entered { "" } else { "at least " };
        let function = ui::clean(&row.function);
        let time = ui::duration(row.open_ns);
        format!("{function} in {thread} for {least}{time}")
    };
    let shown: Vec<String> = open.iter().take(OPEN_SHOWN).map(row).collect();
    let more = match open.len() - shown.len() {
        0 => String::new(),
        more => format!(" (and {} more)", ui::count(more as u64)),
    };
    Some(format!("open {when}: {}{more}", shown.join(", ")))
}

/// Writes a table; returns the columns for which there is no room.
fn write_rows(
    out: &mut dyn Write,
    rows: &[Row],
    own: u64,
    look: Look,
) -> anyhow::Result<Vec<&'static str>> {
    let lines = || rows.iter().map(|row| Line::new(row, own, look));
    let fit = Fit::new(lines(), look);
    let place = look.places.then_some("source");
    let head: Vec<&str> = fit.columns(HEAD).chain(["function"]).chain(place).collect();
    let columns = Columns {
        head: &head,
        right: HEAD.len() - fit.left_out.len(),
        colour: look.colour,
    };
    columns.write(out, || {
        lines().map(|line| {
            let name = ui::shorten(&line.name, fit.name).into_owned();
            fit.columns(line.numbers)
                .chain([name])
                .chain(line.place)
                .collect()
        })
    })?;
    if rows.is_empty() {
        writeln!(out, " (no calls)")?;
    }
    Ok(fit.left_out)
}

/// A row as text.
struct Line {
    numbers: [String; HEAD.len()],
    name: String,
    place: Option<String>,
}

impl Line {
    fn new(row: &Row, own: u64, look: Look) -> Line {
        let share = match own {
            0 => 0.0,
            own => row.self_ns as f64 * 100.0 / own as f64,
        };
        let timeless = look.timeless || row.untimed;
        let time = |time: Option<u64>| match time.filter(|_| !timeless) {
            Some(time) => ui::duration(time),
            None => "-".to_owned(),
        };
        let share = match timeless {
            true => "-".to_owned(),
            false => format!("{share:.1} %"),
        };
        let place = format!("{}:{}", ui::clean(&row.file), row.line);
        Line {
            numbers: [
                ui::count(row.calls),
                time(Some(row.total_ns)),
                time(Some(row.self_ns)),
                share,
                time(row.min_ns),
                time(row.mean_ns),
                time(row.p50_ns),
                time(row.p90_ns),
                time(row.p99_ns),
                time(row.max_ns),
            ],
            name: ui::clean(&row.name).into_owned(),
            place: (look.places && !row.file.is_empty()).then_some(place),
        }
    }
}

/// What fits into the width that there is.
struct Fit {
    left_out: Vec<&'static str>,
    /// Characters of a function's name.
    name: usize,
}

impl Fit {
    fn new(lines: impl Iterator<Item = Line>, look: Look) -> Fit {
        let mut fit = Fit {
            left_out: Vec::new(),
            name: usize::MAX,
        };
        let Some(columns) = look.columns else {
            return fit;
        };
        let length = |text: &str| text.chars().count();
        // Each column has a space on both sides; the last one's is not printed.
        let mut widths = HEAD.map(|head| 2 + length(head));
        let mut place = if look.places { 2 + "source".len() } else { 0 };
        let mut names = 0;
        for line in lines {
            for (most, number) in widths.iter_mut().zip(&line.numbers) {
                *most = (*most).max(2 + length(number));
            }
            place = line
                .place
                .map_or(place, |text| place.max(2 + length(&text)));
            names = names.max(length(&line.name));
        }
        let mut rest = LEFT_OUT.into_iter();
        loop {
            let numbers: usize = fit.columns(widths).sum();
            fit.name = columns.saturating_sub(numbers + place + 1);
            if fit.name >= names.min(NAME) {
                return fit;
            }
            let Some(next) = rest.next() else {
                fit.name = fit.name.max(NAME / 2);
                return fit;
            };
            fit.left_out.push(next);
        }
    }

    /// Of something for every column, that for the columns that are shown.
    fn columns<T>(&self, all: [T; HEAD.len()]) -> impl Iterator<Item = T> {
        let shown = |(at, item)| (!self.left_out.contains(&HEAD[at])).then_some(item);
        all.into_iter().enumerate().filter_map(shown)
    }
}

/// What a reader of the figures must know.
pub(crate) fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(note) = &report.window_note {
        let common = match note.starts_with("windows") {
            true => " (--common takes only that)",
            false => "",
        };
        notes.push(format!("{note}{common}"));
    }
    if report.timeless {
        let what = "the trace has the order of its calls, and no times";
        notes.push(what.to_owned());
    }
    if report.hidden > 0 {
        notes.push(format!(
            "{} not shown (--limit)",
            ui::things(report.hidden as u64, "function")
        ));
    }
    if report.untimed > 0 {
        notes.push(format!(
            "untimed: the calls of {} are counted, without times; what passed in them is self time of \
             the functions that called them",
            ui::things(report.untimed as u64, "function"),
        ));
    }
    if report.clipped > 0 {
        notes.push(format!(
            "clipped: {} seen in part (open where the trace begins or ends, or without an exit): in \
             calls, total and self, not in min to max",
            ui::things(report.clipped, "call"),
        ));
    }
    if let Some(counts) = report.counts() {
        let damaged = !report.diagnostics.is_empty();
        let doubtful = trace::doubtful_counts(&counts, report.counted_records(), damaged);
        notes.push(doubtful.unwrap_or_else(|| {
            format!(
                "of {}: {} overwritten by newer ones, {} dropped",
                ui::things(counts.recorded, "record"),
                ui::count(counts.overwritten),
                ui::count(counts.dropped),
            )
        }));
    }
    if report.lost() > 0 {
        notes.push(format!(
            "{} lost in the middle: calls that were open there are clipped",
            ui::things(report.lost(), "record")
        ));
    }
    if report.breaks() > 0 {
        notes.push(crate::clock::breaks_in_words(report.breaks()));
    }
    notes.extend(report.clock_notes.iter().cloned());
    if let Some(missing) = trace::missing(&report.missing) {
        notes.push(format!("not in the trace: {missing}"));
    }
    let flaws = &report.flaws;
    for (number, what) in [
        (flaws.missing_entries, "exit without an entry"),
        (flaws.missing_exits + flaws.open, "entry without an exit"),
    ] {
        if number > 0 {
            notes.push(format!(
                "unbalanced: {} × {what} (see fdr verify)",
                ui::count(number)
            ));
        }
    }
    for diagnostic in &report.diagnostics {
        notes.push(format!("damaged: {}", ui::clean(&diagnostic.to_string())));
    }
    if report.more_diagnostics > 0 {
        notes.push(format!(
            "damaged: {} more places",
            ui::count(report.more_diagnostics)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str) -> Row {
        Row {
            name: name.into(),
            file: "src/a.rs".into(),
            line: 7,
            id: 1,
            calls: 12_345,
            clipped: 0,
            untimed: false,
            total_ns: 1_234_567,
            self_ns: 1_234_567,
            min_ns: Some(1),
            mean_ns: Some(100),
            p50_ns: None,
            p90_ns: Some(12_345),
            p99_ns: Some(1_234_567),
            max_ns: Some(1_234_567),
        }
    }

    /// The table at that width, and what is left out of it.
    fn table(columns: Option<usize>, places: bool) -> (Vec<String>, Vec<&'static str>) {
        let rows = [row("my_application::module::Type::method"), row("x")];
        let look = Look {
            places,
            colour: false,
            columns,
            timeless: false,
        };
        let mut out = Vec::new();
        let left_out = write_rows(&mut out, &rows, 2_469_134, look).unwrap();
        let text = String::from_utf8(out).unwrap();
        (text.lines().map(str::to_owned).collect(), left_out)
    }

    #[test]
    fn a_table_fits_its_terminal() {
        let (whole, nothing) = table(None, false);
        assert_eq!(nothing, [""; 0]);
        assert!(whole[1].ends_with(" my_application::module::Type::method"));
        let full = whole[1].chars().count();
        assert_eq!(table(Some(full), false).0, whole, "just enough room");
        let (shorter, nothing) = table(Some(full - 5), false);
        assert_eq!(nothing, [""; 0]);
        assert!(
            shorter[1].ends_with(" my_applicati…dule::Type::method"),
            "{shorter:?}"
        );
        for (places, least) in [(false, 54), (true, 66)] {
            for columns in least..=full {
                let (lines, _) = table(Some(columns), places);
                assert_eq!(lines.len(), 3);
                let widest = lines.iter().map(|line| line.chars().count()).max();
                assert!(widest <= Some(columns), "{columns}: {lines:?}");
            }
        }
    }

    #[test]
    fn columns_go_in_order_and_numbers_are_never_cut() {
        assert_eq!(table(Some(90), false).1, ["min", "p90", "p50"]);
        // So narrow that nothing helps.
        let (lines, left_out) = table(Some(20), false);
        assert_eq!(left_out, LEFT_OUT);
        let cells: Vec<&str> = lines[1].split("  ").map(str::trim).collect();
        assert!(
            cells.contains(&"12,345") && cells.contains(&"1.235 ms"),
            "{cells:?}"
        );
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["calls", "total", "self", "max", "function"]
        );
    }
}
