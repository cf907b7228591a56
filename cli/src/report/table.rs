//! The report as a table for people, with units, and notes on what the figures leave out.

use std::borrow::Cow;
use std::io::Write;

use fdr_formats::TraceInfo;
use fdr_formats::identity::Part;

use super::event_table;
use super::function_rows::Row;
use super::notes::{heading_of_records, notes, scope_in_words};
use super::rows::{OpenRow, Report, ThreadRow};
use super::states::{InStates, RowStates, percent, thread_facts};
use super::table_style::{TableStyle, when};
use super::wait_table;
use crate::columns::Columns;
use crate::{trace, ui};

const HEAD: [&str; 16] = [
    "calls",
    "total",
    "self",
    "self %",
    "min",
    "mean",
    "p50",
    "p90",
    "p99",
    "max",
    "running",
    "preempted",
    "waiting",
    SELF_STATES[0],
    SELF_STATES[1],
    SELF_STATES[2],
];
const SELF_STATES: [&str; 3] = ["self running", "self preempted", "self waiting"];

/// Columns in the order in which they are left out where a terminal is narrow; the rest stays. In 80 columns the
/// percentiles have room.
const LEFT_OUT: [&str; 14] = [
    "min",
    SELF_STATES[1],
    SELF_STATES[0],
    SELF_STATES[2],
    "self %",
    "mean",
    "p90",
    "preempted",
    "running",
    "max",
    "waiting",
    "total",
    "p50",
    "p99",
];

/// How wide columns are at least on a terminal, so that all tables of a run have the same ones.
const MIN_WIDTHS: [usize; HEAD.len()] = [9, 8, 8, 7, 8, 8, 8, 8, 8, 8, 7, 9, 7, 12, 14, 12];

/// The characters of a name that are worth more than another column.
const NAME: usize = 24;

/// Writes all of a report.
pub(crate) fn write(
    out: &mut dyn Write,
    info: &TraceInfo,
    report: &Report,
    look: TableStyle,
) -> anyhow::Result<()> {
    write_head(out, info, report, look)?;
    writeln!(out)?;
    write_figures(out, report, look)
}

/// Text in the table's width.
fn fitting(look: TableStyle, text: String) -> String {
    match look.columns {
        Some(width) => ui::wrap(&text, width, 2),
        None => text,
    }
}

/// Facts in the table's width.
fn facts(look: TableStyle, text: String) -> String {
    match look.columns {
        Some(width) => ui::wrap_facts(&text, width, 2),
        None => text,
    }
}

/// Writes the head and the rows of the functions' table. Returns a note on what all names lack.
pub(crate) fn write_function_rows(
    out: &mut dyn Write,
    report: &Report,
    look: TableStyle,
) -> anyhow::Result<Option<String>> {
    let fit = TableLayout::new(report, look);
    write_rows(out, &report.rows, report.self_ns, look, &fit)?;
    Ok(fit.prefix_note(look.columns))
}

/// Writes what the trace is of, and what ended it.
fn write_head(
    out: &mut dyn Write,
    info: &TraceInfo,
    report: &Report,
    look: TableStyle,
) -> anyhow::Result<()> {
    let fitting = |text| fitting(look, text);
    let facts = |text| facts(look, text);
    writeln!(out, "{}", facts(headline(info, report)))?;
    if let Some(line) = identity(info) {
        writeln!(out, "{}", facts(line))?;
    }
    if info.failed_thread().is_some() || info.trigger().is_some() {
        let reason = trace::reason(info);
        writeln!(out, "{}", fitting(ui::clean(&reason).into_owned()))?;
    }
    if let Some(line) = open_in_words(info, &report.open, look.ends_early, look.columns) {
        writeln!(out, "{}", fitting(line))?;
    }
    if let Some(line) = wait_table::open_in_words(info, &report.waits.open, look.ends_early) {
        writeln!(out, "{}", fitting(line))?;
    }
    writeln!(out, "{}", fitting(scope_in_words(report)))?;
    Ok(())
}

/// Writes the tables, and notes on what they leave out.
fn write_figures(out: &mut dyn Write, report: &Report, look: TableStyle) -> anyhow::Result<()> {
    let fitting = |text: String| fitting(look, text);
    let facts = |text| facts(look, text);
    let fit = TableLayout::new(report, look);
    if report.threads.iter().any(|thread| thread.rows.is_some()) {
        for thread in &report.threads {
            writeln!(out, "{}", facts(thread_line(thread, look)))?;
            let rows = thread.rows.as_deref().unwrap_or(&[]);
            write_rows(out, rows, thread.self_ns, look, &fit)?;
            writeln!(out)?;
        }
        writeln!(out, "all threads")?;
    }
    write_rows(out, &report.rows, report.self_ns, look, &fit)?;
    let mut lines = fit.notes(look.columns);
    lines.extend(notes(report));
    for note in lines {
        writeln!(out, "{}", fitting(note))?;
    }
    let heading = |what| heading_of_records(report, what).map(fitting);
    event_table::write(out, &report.events, look, &heading)?;
    wait_table::write(out, &report.waits, look, heading("waits"))
}

fn headline(info: &TraceInfo, report: &Report) -> String {
    let mut parts = Vec::from_iter(trace::program(info));
    parts.push(ui::clean(&info.format).into_owned());
    parts.push(size_in_words(report));
    parts.join(" · ")
}

/// How much a trace holds: its time, threads and records.
pub(crate) fn size_in_words(report: &Report) -> String {
    let mut parts = Vec::new();
    if !report.timeless {
        let of_records = if report.is_whole { "records of " } else { "" };
        parts.push(of_records.to_owned() + &ui::duration(report.duration_ns));
    }
    parts.push(ui::things(report.threads.len() as u64, "thread"));
    parts.push(ui::things(report.records(), "record"));
    parts.join(" · ")
}

/// Version, host and tags, which tell traces of one program apart. `None`: the trace has none of them.
fn identity(info: &TraceInfo) -> Option<String> {
    let words = [
        ("version ", Part::Version),
        ("host ", Part::Host),
        ("", Part::Tags),
    ];
    let known = words.map(|(word, part)| (word, info.identity.get(part)));
    let known = known.iter().filter(|(_, text)| !text.is_empty());
    let parts: Vec<String> = known
        .map(|(word, text)| format!("{word}{}", ui::clean(text)))
        .collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

fn thread_line(thread: &ThreadRow, look: TableStyle) -> String {
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
    parts.extend(thread_facts(&thread.states));
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

/// Characters of a name in a line of words: half of a terminal.
fn most_of_a_name(columns: Option<usize>) -> usize {
    columns.map_or(usize::MAX, |columns| (columns / 2).max(NAME))
}

/// One line with the calls that were open when the trace was written, or at the end of the selected part. `None`: no
/// call was open. A name takes at most half of `columns`.
pub(crate) fn open_in_words(
    info: &TraceInfo,
    open: &[OpenRow],
    ends_early: bool,
    columns: Option<usize>,
) -> Option<String> {
    if open.is_empty() || trace::is_timeless(info) {
        return None;
    }
    let when = when(info, ends_early);
    let most = most_of_a_name(columns);
    let row = |row: &OpenRow| {
        let thread = match ui::clean(&row.thread_name) {
            name if name.is_empty() => format!("thread {}", row.thread),
            name => name.into_owned(),
        };
        let function = ui::clean(&row.function);
        let function = ui::shorten(&function, most);
        let thread = ui::shorten(&thread, most);
        match (row.open_ns, row.entered) {
            (0, true) => return format!("{function} in {thread}, just entered"),
            (0, false) => return format!("{function} in {thread}, entered before the trace"),
            _ => {}
        }
        // Where the moment of the dump is not known, the time is that up to the thread's last record.
        let least = match row.entered && (ends_early || info.end.is_some()) {
            true => "",
            false => "at least ",
        };
        let time = ui::duration(row.open_ns);
        format!("{function} in {thread} for {least}{time}")
    };
    Some(format!("open {when}: {}", ui::first_of(open, row)))
}

/// Writes a table.
fn write_rows(
    out: &mut dyn Write,
    rows: &[Row],
    own: u64,
    look: TableStyle,
    fit: &TableLayout,
) -> anyhow::Result<()> {
    let lines = || rows.iter().map(|row| Line::new(row, own, look));
    let place = look.places.then_some("source");
    let head: Vec<&str> = fit.columns(HEAD).chain(["function"]).chain(place).collect();
    let least: Vec<usize> = fit.columns(fit.least).collect();
    let columns = Columns {
        head: &head,
        right: head.len() - 1 - usize::from(look.places),
        colour: look.colour,
        least: &least,
        ..Columns::default()
    };
    columns.write(out, || {
        lines().map(|line| {
            let name = fit.without_prefix(&line.name);
            let name = ui::shorten(&name, fit.name).into_owned();
            fit.columns(line.numbers)
                .chain([name])
                .chain(line.place)
                .collect()
        })
    })?;
    if rows.is_empty() {
        writeln!(out, " (no calls)")?;
    }
    Ok(())
}

/// A row as text.
struct Line {
    numbers: [String; HEAD.len()],
    name: String,
    place: Option<String>,
}

impl Line {
    fn new(row: &Row, own: u64, look: TableStyle) -> Line {
        let share = match own {
            0 => 0.0,
            own => row.self_ns as f64 * 100.0 / own as f64,
        };
        let timeless = look.timeless || row.untimed;
        let time = |time: Option<u64>| match time.filter(|_| !timeless) {
            Some(time) => ui::duration(time),
            None => "-".to_owned(),
        };
        let about = |text: String, is_estimate: bool| match is_estimate {
            false => text,
            true => format!("~{text}"),
        };
        let at_most = |text: String| match row.nests && !timeless {
            true => format!("≤{text}"),
            false => text,
        };
        let own_is_estimate = row.counted > 0 || row.error_ns.is_some();
        let share = match timeless {
            true => "-".to_owned(),
            false => about(format!("{share:.1} %"), own_is_estimate),
        };
        let state = |spent: fn(&RowStates) -> &InStates, ns: fn(&InStates) -> u64| {
            let spent = row.states.as_ref().map(spent).filter(|_| !timeless);
            let share = spent.and_then(|spent| spent.share(ns(spent)));
            share.map_or_else(|| "-".to_owned(), percent)
        };
        let total = |ns| state(|states| &states.total, ns);
        let own = |ns| state(|states| &states.own, ns);
        let place = format!("{}:{}", ui::clean(&row.file), row.line);
        Line {
            numbers: [
                about(ui::count(row.calls), row.calls_error.is_some()),
                at_most(about(time(Some(row.total_ns)), row.counted > 0)),
                about(time(Some(row.self_ns)), own_is_estimate),
                share,
                time(row.min_ns),
                time(row.mean_ns),
                time(row.p50_ns),
                time(row.p90_ns),
                time(row.p99_ns),
                time(row.max_ns),
                total(|spent| spent.running_ns),
                total(|spent| spent.preempted_ns),
                total(|spent| spent.waiting_ns),
                own(|spent| spent.running_ns),
                own(|spent| spent.preempted_ns),
                own(|spent| spent.waiting_ns),
            ],
            name: match row.of_records {
                true => format!("{} (records)", ui::clean(&row.name)),
                false => ui::clean(&row.name).into_owned(),
            },
            place: (look.places && !row.file.is_empty()).then_some(place),
        }
    }
}

/// The columns that no row has: the states, if the trace has none, and the columns that the figures of a whole run
/// lack.
fn absent(report: &Report) -> Vec<&'static str> {
    let states = ["running", "preempted", "waiting"]
        .into_iter()
        .chain(SELF_STATES);
    let states = states.filter(|_| !report.has_states());
    report
        .is_whole
        .then_some("min")
        .into_iter()
        .chain(states)
        .collect()
}

/// What fits into the width that there is, the same for all tables of a report.
struct TableLayout {
    left_out: Vec<&'static str>,
    /// Columns that no row has.
    absent: Vec<&'static str>,
    /// Characters of a function's name.
    name: usize,
    /// Widths of the numbers' columns.
    least: [usize; HEAD.len()],
    /// What all names begin with, where it is left out.
    prefix: String,
    has_rows: bool,
}

impl TableLayout {
    fn new(report: &Report, look: TableStyle) -> TableLayout {
        let mut fit = TableLayout {
            left_out: Vec::new(),
            absent: absent(report),
            name: usize::MAX,
            least: [0; HEAD.len()],
            prefix: String::new(),
            has_rows: !report.rows.is_empty(),
        };
        let Some(columns) = look.columns else {
            return fit;
        };
        let length = |text: &str| text.chars().count();
        fit.least = MIN_WIDTHS;
        let mut place = if look.places { 2 + "source".len() } else { 0 };
        let (mut names, mut prefix) = (0, None::<String>);
        let threads = report
            .threads
            .iter()
            .filter_map(|thread| thread.rows.as_ref());
        for row in threads.flatten().chain(&report.rows) {
            let line = Line::new(row, report.self_ns, look);
            for (most, number) in fit.least.iter_mut().zip(&line.numbers) {
                *most = (*most).max(length(number));
            }
            place = line
                .place
                .map_or(place, |text| place.max(2 + length(&text)));
            names = names.max(length(&line.name));
            prefix = Some(match prefix {
                None => path_of(&line.name).to_owned(),
                Some(known) => shared(&known, &line.name).to_owned(),
            });
        }
        let mut rest = LEFT_OUT
            .into_iter()
            .filter(|name| !fit.absent.contains(name))
            .collect::<Vec<_>>()
            .into_iter();
        loop {
            // Each column has a space on both sides; the last one's is not printed.
            let numbers: usize = fit.columns(fit.least).map(|width| width + 2).sum();
            fit.name = columns.saturating_sub(numbers + place + 1);
            if fit.name >= NAME {
                break;
            }
            let Some(next) = rest.next() else {
                fit.name = fit.name.max(NAME / 2);
                break;
            };
            fit.left_out.push(next);
        }
        if names > fit.name {
            fit.prefix = prefix.unwrap_or_default();
        }
        fit
    }

    /// A name without what all have.
    fn without_prefix<'a>(&self, name: &'a str) -> Cow<'a, str> {
        let (mark, bare) = bare(name);
        match bare.strip_prefix(self.prefix.as_str()) {
            Some(rest) if !self.prefix.is_empty() => format!("{mark}{rest}").into(),
            _ => name.into(),
        }
    }

    /// What a reader must know of that.
    fn notes(&self, columns: Option<usize>) -> Vec<String> {
        let mut notes = Vec::from_iter(self.prefix_note(columns));
        if !self.left_out.is_empty() && self.has_rows {
            let names = HEAD.map(|name| self.left_out.contains(&name).then_some(name));
            let names: Vec<&str> = names.into_iter().flatten().collect();
            let names = names.join(", ");
            notes.push(format!(
                "no room for {names}: a wider terminal, a pipe or --csv has them"
            ));
        }
        notes
    }

    fn prefix_note(&self, columns: Option<usize>) -> Option<String> {
        let prefix = ui::shorten(&self.prefix, most_of_a_name(columns));
        (!prefix.is_empty()).then(|| format!("all names begin with {prefix}, which is left out"))
    }

    /// Of something for every column, that for the columns that are shown.
    fn columns<T>(&self, all: [T; HEAD.len()]) -> impl Iterator<Item = T> {
        let is_shown =
            |name: &&'static str| !self.left_out.contains(name) && !self.absent.contains(name);
        let shown = move |(at, item)| is_shown(&HEAD[at]).then_some(item);
        all.into_iter().enumerate().filter_map(shown)
    }
}

/// A name behind the `<` of `<my_app::T as Tr>::m`, and that.
fn bare(name: &str) -> (&str, &str) {
    match name.strip_prefix('<') {
        Some(rest) => ("<", rest),
        None => ("", name),
    }
}

/// The modules that a name begins with: `a::b::` of `a::b::c`.
fn path_of(name: &str) -> &str {
    let (_, name) = bare(name);
    // Not into arguments of types, nor behind ` as `.
    let plain = name.find(['<', ' ', '(', '{']).unwrap_or(name.len());
    let end = name[..plain].rfind("::").map_or(0, |at| at + 2);
    &name[..end]
}

/// As much of the path as a name begins with, too.
fn shared<'a>(path: &'a str, name: &str) -> &'a str {
    let name = path_of(name);
    let same = path.bytes().zip(name.bytes()).take_while(|(a, b)| a == b);
    let same = same.count();
    let ends = path.match_indices("::").map(|(at, _)| at + 2);
    &path[..ends.filter(|&end| end <= same).last().unwrap_or(0)]
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
