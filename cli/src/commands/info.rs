//! `fdr info`: a trace's own facts, and the counts of its content.

mod budget;
mod json;
mod states;

use std::io::Write;
use std::path::Path;

use fdr_formats::identity::Part;
use fdr_formats::model::{Counts, FunctionKind};
use fdr_formats::{Clock, Error, Function, Source, Ticks, TraceInfo};

use super::{Status, Traces};
use crate::columns::Columns;
use crate::report::all::engine_of;
use crate::report::engine::gather;
use crate::report::moments::Moments;
use crate::report::rows::{OpenRow, open_rows};
use crate::report::table;
use crate::selection::{Filtering, Selection};
use crate::tally::{Marks, Tally, ThreadTally};
use crate::{clock, input, output_file, trace, ui};

/// Diagnostics that are shown.
const MAX_DIAGNOSTICS: usize = 20;

const HELP: &str = "\
Per thread: `recorded`, `overwritten` and `dropped` are the recorder's own
counts, if the trace has them. `readable` counts the records in the file,
without synthetic ones. `first` and `last` are the times of the thread's first
and last record, since the first record of the trace. Where the recorder ended
the thread's open calls, `last` is the moment of the dump. The thread that
crashed, panicked or made the slow call comes first.

Examples:
  fdr info app.fdr
  fdr info traces/*.fdr
  fdr info --functions app.fdr  with every traced function, its file and line";

/// Show clock, program, threads and counts of a trace
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    #[command(flatten)]
    selection: Selection,
    /// List the functions that have a name in the trace
    #[arg(long)]
    functions: bool,
    /// Print JSON; several traces are documents one after the other
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    options
        .traces
        .each(|trace, series| one(options, trace, series.takes_first()))
}

fn one(options: &Options, trace: &Path, first: bool) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    let tally = Tally::count(&*source).map_err(|error| trace::about(trace, error))?;
    trace::warn_of_damage(trace, &tally.diagnostics, tally.more_diagnostics);
    let open = open_calls(&*source, &tally);
    let open = open.map_err(|error| trace::about(trace, error))?;
    ui::print(|out| {
        if options.json {
            return json::write(out, trace, &*source, &tally, &open, options.functions);
        }
        if !first {
            writeln!(out)?;
        }
        let shape = if trace.is_dir() { "folder" } else { "file" };
        let size = match input::is_standard(trace) {
            true => String::new(),
            false => format!(" ({})", ui::size(output_file::size(trace))),
        };
        fact(out, shape, &format!("{}{size}", ui::path(trace)))?;
        let open = table::open_in_words(
            source.info(),
            &open,
            options.selection.ends_early(),
            ui::columns(),
        );
        write_head(out, &*source, &tally, open)?;
        write_threads(out, source.info(), &tally)?;
        if options.functions {
            write_functions(out, &*source)?;
        }
        write_diagnostics(out, &tally)
    })?;
    Ok(Status::Done)
}

/// What the threads were in when the trace was written. The calls are followed only where there may be any.
fn open_calls(source: &dyn Source, tally: &Tally) -> Result<Vec<OpenRow>, Error> {
    if !tally.may_be_open() {
        return Ok(Vec::new());
    }
    let figures = gather(ui::drive(source, engine_of(source, false))?, false)?;
    Ok(open_rows(source.info(), &figures.threads))
}

/// A line, and as many more as it needs.
fn fact(out: &mut dyn Write, name: &str, text: &str) -> anyhow::Result<()> {
    let line = ui::paragraph(&format!("{name:<10} {text}"), 11);
    Ok(writeln!(out, "{line}")?)
}

fn write_head(
    out: &mut dyn Write,
    source: &dyn Source,
    tally: &Tally,
    open: Option<String>,
) -> anyhow::Result<()> {
    let info = source.info();
    write_origin(out, info)?;
    write_times(out, info, tally)?;
    write_counts(out, info, tally)?;
    write_notes(out, info, tally, open)
}

/// What wrote it, of which program, and why.
fn write_origin(out: &mut dyn Write, info: &TraceInfo) -> anyhow::Result<()> {
    fact(out, "format", &ui::clean(&info.format))?;
    fact(out, "clock", &clock_line(&info.clock))?;
    if !info.program.is_empty() {
        writeln!(out, "program    {}", ui::clean(&info.program))?;
    }
    if let Some(process) = info.process {
        writeln!(out, "process    {process}")?;
    }
    for part in Part::ALL {
        let text = info.identity.get(part);
        if !text.is_empty() {
            fact(out, part_name(part), &ui::clean(text))?;
        }
    }
    if !info.reason.is_empty() {
        // In front, because a panic's message may end in anything.
        let nth = info.dump.map(|dump| format!("dump {dump}, "));
        let nth = nth.unwrap_or_default();
        let occasion = trace::occasion(info);
        let occasion = ui::clean(&occasion);
        fact(out, "written", &format!("{nth}{occasion}"))?;
    }
    Ok(())
}

/// From when until when.
fn write_times(out: &mut dyn Write, info: &TraceInfo, tally: &Tally) -> anyhow::Result<()> {
    let times = tally.times();
    let (first, last) = (times.map(|times| times.0), times.map(|times| times.1));
    let begin = first.or(info.start);
    if let Some(begin) = begin.and_then(|begin| info.clock.unix_nanos(begin)) {
        writeln!(out, "begin      {}", ui::utc(begin))?;
    }
    if let (Some(first), Some(last)) = (first, last) {
        let duration = match trace::is_timeless(info) {
            true => "unknown: the trace has the order of its calls, and no times".to_owned(),
            false => ui::duration(info.clock.nanos(last.since(first)).0),
        };
        writeln!(out, "duration   {duration}")?;
    }
    Ok(())
}

/// How many records, functions, events and threads.
fn write_counts(out: &mut dyn Write, info: &TraceInfo, tally: &Tally) -> anyhow::Result<()> {
    let marks = tally.marks();
    let records = format!(
        "{} of functions, {} synthetic, {} others",
        ui::count(tally.records()),
        ui::count(tally.synthetic()),
        ui::count(marks.count()),
    );
    fact(out, "records", &records)?;
    if marks.count() > 0 {
        fact(out, "others", &others(&marks))?;
    }
    let untimed = info.called().filter(|function| function.untimed);
    let untimed = match untimed.count() {
        0 => String::new(),
        count => format!(", {} untimed", ui::count(count as u64)),
    };
    writeln!(
        out,
        "functions  {} with a name{untimed}",
        ui::count(info.called().count() as u64)
    )?;
    let events = info.functions.iter();
    let events = events.filter(|function| function.kind == FunctionKind::Event);
    match events.count() as u64 {
        0 => {}
        events => writeln!(out, "events     {} with a name", ui::count(events))?,
    }
    writeln!(
        out,
        "threads    {}",
        ui::count(tally.threads().count() as u64)
    )?;
    Ok(())
}

/// Writes the remarks that a reader of the figures needs.
fn write_notes(
    out: &mut dyn Write,
    info: &TraceInfo,
    tally: &Tally,
    open: Option<String>,
) -> anyhow::Result<()> {
    if let Some(short) = short_calls(&info.clock, tally) {
        fact(out, "short", &short)?;
    }
    let begin = tally.times().map(|times| times.0);
    let begin = begin.filter(|_| !trace::is_timeless(info));
    if let Some(counted) = states::ScheduleCounts::new(info, begin) {
        fact(out, "states", &counted.in_words())?;
    }
    let budget = budget::Budget::new(info);
    for (name, text) in budget.iter().flat_map(budget::Budget::in_words) {
        fact(out, name, &text)?;
    }
    for said in Moments::from_info(info, tally.times().map(|times| times.0)).in_words("") {
        fact(out, "mark", &said)?;
    }
    if let Some(missing) = trace::missing(&info.missing) {
        fact(out, "missing", &missing)?;
    }
    if let Some(open) = open {
        fact(out, "open", open.trim_start_matches("open "))?;
    }
    let windows = tally.windows().filter(|_| !trace::is_timeless(info));
    if let Some(note) = windows.and_then(|windows| windows.note(&info.clock)) {
        fact(out, "note", &note)?;
    }
    if let Some(doubtful) = doubtful(tally) {
        fact(out, "counts", &doubtful)?;
    }
    let marks = tally.marks();
    if marks.breaks > 0 {
        fact(out, "note", &clock::breaks_in_words(marks.breaks))?;
    }
    for note in clock::notes(&info.clock) {
        fact(out, "note", &note)?;
    }
    Ok(())
}

/// What a text of the identity is called.
fn part_name(part: Part) -> &'static str {
    match part {
        Part::Host => "host",
        Part::Boot => "boot",
        Part::Build => "build",
        Part::Version => "version",
        Part::Tags => "tags",
    }
}

/// The calls that left no records, and how short they were. `None`: each call left its records.
fn short_calls(clock: &Clock, tally: &Tally) -> Option<String> {
    let thresholds = tally.threads().filter_map(|seen| seen.marks.thresholds);
    let widest = |(least, most): (u64, u64), one: (u64, u64)| (least.min(one.0), most.max(one.1));
    let (least, most) = thresholds.reduce(widest)?;
    let time = |ticks: u64| ui::duration(clock.nanos(Ticks(ticks)).0);
    let thresholds = match least == most {
        true => format!("threshold in this trace is {}", time(most)),
        false => format!(
            "thresholds in this trace are {} to {}",
            time(least),
            time(most)
        ),
    };
    // A part of a trace has no counts of the recorder.
    let (calls, whole) = match tally.counts() {
        Some((counts, _)) => (counts.summarised / 2, " in the whole run"),
        None => (tally.marks().short_calls, ""),
    };
    let calls = ui::things(calls, "call");
    Some(format!("{calls} left no records{whole}; the {thresholds}"))
}

/// Everything that is no call, by its kind.
fn others(marks: &Marks) -> String {
    let kinds = [
        (marks.cpus, "CPU change"),
        (marks.walls, "wall-clock time"),
        (marks.arguments, "argument"),
        (marks.customs, "custom event"),
        (marks.typed, "typed event"),
        (marks.notes.events, "event"),
        (marks.notes.counters, "counter sample"),
        (marks.notes.spans, "span note"),
        (marks.notes.arguments, "noted argument"),
        (marks.notes.tasks, "task change"),
        (marks.notes.thread_states, "thread state"),
        (marks.summaries, "summary record"),
        (marks.gaps, "gap"),
    ];
    let kinds = kinds.into_iter().filter(|(count, _)| *count > 0);
    let mut parts: Vec<String> = kinds.map(|(count, what)| ui::things(count, what)).collect();
    if let (Some(last), true) = (parts.last_mut(), marks.gaps > 0) {
        *last += &format!(" ({} lost there)", ui::things(marks.lost, "record"));
    }
    if marks.breaks > 0 {
        parts.push(ui::things(marks.breaks, "clock break"));
    }
    parts.join(", ")
}

fn doubtful(tally: &Tally) -> Option<String> {
    let (stated, found) = tally.counts()?;
    trace::doubtful_counts(&stated, found, !tally.diagnostics.is_empty())
}

fn clock_line(clock: &Clock) -> String {
    let mut text = if clock.name.is_empty() {
        "(no name)".to_owned()
    } else {
        ui::clean(&clock.name).into_owned()
    };
    text += &format!(", {:.6} MHz", clock.frequency as f64 / 1e6);
    match clock.error_ppm {
        // It would be shown as no error at all.
        Some(ppm) if ppm > 0.0 && ppm < 0.05 => text += ", error < 0.1 ppm",
        Some(ppm) => text += &format!(" ± {ppm:.1} ppm"),
        None => text += " (error not stated)",
    }
    for (holds, what) in [
        (clock.constant, "constant rate"),
        (clock.nonstop, "runs on in low-power states"),
    ] {
        if holds {
            text += &format!(", {what}");
        }
    }
    text
}

fn write_threads(out: &mut dyn Write, info: &TraceInfo, tally: &Tally) -> anyhow::Result<()> {
    let (failed, timeless) = (info.thread_of_reason(), trace::is_timeless(info));
    let has_failed = |seen: &&ThreadTally| Some(seen.thread.id) == failed;
    let begin = tally.times().map(|times| times.0);
    let since = |ticks: Option<Ticks>| match ticks.zip(begin).filter(|_| !timeless) {
        Some((ticks, begin)) => {
            format!("+{}", ui::duration(info.clock.nanos(ticks.since(begin)).0))
        }
        None => "-".into(),
    };
    // Only calls of programs that keep seconds are summarised.
    let is_short = |seen: &ThreadTally| {
        seen.thread
            .counts
            .is_some_and(|counts| counts.summarised > 0)
    };
    let has_short = tally.threads().any(is_short);
    let mut head = vec!["thread", "recorded", "readable", "overwritten", "dropped"];
    head.extend(has_short.then_some("summarised"));
    head.extend(["synthetic", "first", "last", "name"]);
    let columns = Columns {
        spare: &["synthetic", "first", "dropped", "overwritten", "last"],
        ..Columns::new(&head, head.len() - 1)
    };
    let row = |seen: &ThreadTally| {
        let count = |field: fn(&Counts) -> u64| match &seen.thread.counts {
            Some(counts) => ui::count(field(counts)),
            None => "-".into(),
        };
        let mut cells = vec![
            seen.thread.id.to_string(),
            count(|counts| counts.recorded),
            ui::count(seen.records - seen.synthetic),
            count(|counts| counts.overwritten),
            count(|counts| counts.dropped),
        ];
        cells.extend(has_short.then(|| count(|counts| counts.summarised)));
        cells.extend([
            ui::count(seen.synthetic),
            since(seen.times().map(|times| times.0)),
            since(seen.times().map(|times| times.1)),
            ui::clean(&seen.thread.name).into_owned(),
        ]);
        cells
    };
    let first = || tally.threads().filter(has_failed);
    let others = || tally.threads().filter(|seen| !has_failed(seen));
    columns.write_with_note(out, || first().chain(others()).map(row))
}

fn write_functions(out: &mut dyn Write, source: &dyn Source) -> anyhow::Result<()> {
    let columns = Columns {
        spare: &["source"],
        ..Columns::new(&["id", "function", "source"], 1)
    };
    let row = |function: &Function| {
        let place = match (function.file.as_str(), function.line) {
            ("", _) => "-".into(),
            (file, 0) => ui::clean(file).into_owned(),
            (file, line) => format!("{}:{line}", ui::clean(file)),
        };
        let place = match function.untimed {
            true => format!("{place} (untimed)"),
            false => place,
        };
        let name = ui::clean(&function.name).into_owned();
        vec![function.id.to_string(), name, place]
    };
    columns.write(out, || source.info().called().map(row))?;
    Ok(())
}

fn write_diagnostics(out: &mut dyn Write, tally: &Tally) -> anyhow::Result<()> {
    let diagnostics = &tally.diagnostics;
    for diagnostic in diagnostics.iter().take(MAX_DIAGNOSTICS) {
        fact(out, "damaged", &ui::clean(&diagnostic.to_string()))?;
    }
    let more = diagnostics.len().saturating_sub(MAX_DIAGNOSTICS) as u64 + tally.more_diagnostics;
    if more > 0 {
        writeln!(
            out,
            "damaged    {} more (fdr verify shows them)",
            ui::things(more, "place")
        )?;
    }
    Ok(())
}
