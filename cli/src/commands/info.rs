//! `fdr info`: what a trace says of itself, and what is in it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};
use fdr_formats::model::Counts;
use fdr_formats::{Call, Clock, Diagnostic, Mark, Sink, Source, Thread, ThreadId, Ticks, source};

use super::{Status, each};
use crate::trace;
use crate::ui::{self, Progress};

/// Diagnostics that are shown.
const SHOWN: usize = 20;

const HELP: &str = "\
Per thread: `recorded`, `overwritten` and `dropped` are the recorder's own counts, where the trace
has them; `readable` is what is in the file, without synthetic records.

Examples:
  fdr info app.fdr
  fdr info traces/*.fdr
  fdr info --functions app.fdr      with every traced function, its file and line";

/// What a trace says of itself: clock, program, threads, counts
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The traces
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// List the functions that the trace has names for
    #[arg(long)]
    functions: bool,
}

/// Counts what is in the trace.
#[derive(Default)]
struct Tally {
    threads: BTreeMap<ThreadId, Seen>,
    current: ThreadId,
    diagnostics: Vec<Diagnostic>,
}

#[derive(Default)]
struct Seen {
    thread: Thread,
    records: u64,
    synthetic: u64,
    marks: u64,
    first: Option<Ticks>,
    last: Ticks,
}

impl Sink for Tally {
    fn thread(&mut self, thread: &Thread) {
        self.current = thread.id;
        self.threads.entry(thread.id).or_default().thread = thread.clone();
    }

    fn calls(&mut self, calls: &[Call]) {
        let seen = self.threads.entry(self.current).or_default();
        for call in calls {
            seen.synthetic += u64::from(call.synthetic);
            seen.last = seen.last.max(call.time);
        }
        seen.records += calls.len() as u64;
        seen.first = seen.first.or(calls.first().map(|call| call.time));
    }

    fn mark(&mut self, _mark: &Mark<'_>) {
        self.threads.entry(self.current).or_default().marks += 1;
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        // A damaged trace may have millions: the earliest are enough.
        if self.diagnostics.len() < 10_000 {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let mut first = true;
    each(&options.traces, |trace| {
        one(options, trace, std::mem::take(&mut first))
    })
}

fn one(options: &Options, trace: &Path, first: bool) -> anyhow::Result<Status> {
    let source = trace::open(trace)?;
    let progress = Progress::new(&*source);
    let jobs = ui::jobs(None);
    let tallies =
        source::drive_parallel(&*source, jobs, Tally::default, &|bytes| progress.add(bytes));
    drop(progress);
    let tally = merge(
        tallies.map_err(|error| trace::about(trace, error))?,
        &*source,
    );
    trace::warn_of_damage(trace, &tally.diagnostics, 0);
    let size = std::fs::metadata(trace).map_or(0, |file| file.len());
    ui::print(|out| {
        if !first {
            writeln!(out)?;
        }
        writeln!(out, "file       {} ({})", ui::path(trace), ui::size(size))?;
        write_head(out, &*source, &tally)?;
        write_threads(out, &tally)?;
        if options.functions {
            write_functions(out, &*source)?;
        }
        write_diagnostics(out, &tally.diagnostics)
    })?;
    Ok(Status::Done)
}

fn merge(tallies: Vec<Tally>, source: &dyn Source) -> Tally {
    let mut sum = Tally {
        diagnostics: source.diagnostics().to_vec(),
        ..Tally::default()
    };
    for thread in &source.info().threads {
        sum.threads.entry(thread.id).or_default().thread = thread.clone();
    }
    for tally in tallies {
        for (id, seen) in tally.threads {
            let known = sum.threads.entry(id).or_default();
            known.thread = seen.thread;
            known.records += seen.records;
            known.synthetic += seen.synthetic;
            known.marks += seen.marks;
            known.first = [known.first, seen.first].into_iter().flatten().min();
            known.last = known.last.max(seen.last);
        }
        sum.diagnostics.extend(tally.diagnostics);
    }
    sum.diagnostics.sort_by_key(|diagnostic| diagnostic.offset);
    sum
}

fn write_head(out: &mut dyn Write, source: &dyn Source, tally: &Tally) -> anyhow::Result<()> {
    let info = source.info();
    writeln!(out, "format     {}", ui::clean(&info.format))?;
    writeln!(out, "clock      {}", clock(&info.clock))?;
    if !info.program.is_empty() {
        writeln!(out, "program    {}", ui::clean(&info.program))?;
    }
    if let Some(process) = info.process {
        writeln!(out, "process    {process}")?;
    }
    if !info.reason.is_empty() {
        let nth = info.dump.map(|dump| format!(", dump {dump}"));
        let nth = nth.unwrap_or_default();
        writeln!(out, "written    {}{nth}", ui::clean(occasion(&info.reason)))?;
    }
    let first = tally.threads.values().filter_map(|seen| seen.first).min();
    let last = tally.threads.values().map(|seen| seen.last).max();
    let begin = first.or(info.start);
    if let Some(begin) = begin.and_then(|begin| info.clock.unix_nanos(begin)) {
        writeln!(out, "begin      {}", ui::utc(begin))?;
    }
    if let (Some(first), Some(last)) = (first, last) {
        writeln!(
            out,
            "duration   {}",
            ui::duration(info.clock.nanos(last.since(first)).0)
        )?;
    }
    let sum = |field: fn(&Seen) -> u64| tally.threads.values().map(field).sum::<u64>();
    writeln!(
        out,
        "records    {} of functions, {} synthetic, {} others",
        ui::count(sum(|seen| seen.records - seen.synthetic)),
        ui::count(sum(|seen| seen.synthetic)),
        ui::count(sum(|seen| seen.marks)),
    )?;
    writeln!(
        out,
        "functions  {} with a name",
        ui::count(info.functions.len() as u64)
    )?;
    writeln!(out, "threads    {}", ui::count(tally.threads.len() as u64))?;
    if let Some(missing) = trace::missing(&info.missing) {
        writeln!(out, "missing    {missing}")?;
    }
    if let Some(doubtful) = doubtful(tally) {
        writeln!(out, "counts     {doubtful}")?;
    }
    Ok(())
}

/// What made the recorder write.
fn occasion(reason: &str) -> &str {
    match reason {
        "exit" => "at exit",
        "signal" => "by signal",
        "panic" => "on panic",
        "call" => "by call",
        other => other,
    }
}

fn doubtful(tally: &Tally) -> Option<String> {
    let mut stated = Counts::default();
    let mut found = 0;
    for seen in tally.threads.values() {
        if let Some(counts) = seen.thread.counts {
            stated.recorded = stated.recorded.saturating_add(counts.recorded);
            stated.readable = stated.readable.saturating_add(counts.readable);
            stated.overwritten = stated.overwritten.saturating_add(counts.overwritten);
            stated.dropped = stated.dropped.saturating_add(counts.dropped);
            found += seen.records - seen.synthetic;
        }
    }
    let any = stated != Counts::default();
    let damaged = !tally.diagnostics.is_empty();
    any.then(|| trace::doubtful_counts(&stated, found, damaged))
        .flatten()
}

fn clock(clock: &Clock) -> String {
    let mut text = if clock.name.is_empty() {
        "(no name)".to_owned()
    } else {
        ui::clean(&clock.name).into_owned()
    };
    text += &format!(", {:.6} MHz", clock.frequency as f64 / 1e6);
    match clock.error_ppm {
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

fn write_threads(out: &mut dyn Write, tally: &Tally) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let head = [
        "thread",
        "recorded",
        "readable",
        "overwritten",
        "dropped",
        "synthetic",
        "name",
    ];
    table.set_header(head);
    for (id, seen) in &tally.threads {
        let count = |field: fn(&Counts) -> u64| match &seen.thread.counts {
            Some(counts) => ui::count(field(counts)),
            None => "-".into(),
        };
        table.add_row([
            id.to_string(),
            count(|counts| counts.recorded),
            ui::count(seen.records - seen.synthetic),
            count(|counts| counts.overwritten),
            count(|counts| counts.dropped),
            ui::count(seen.synthetic),
            ui::clean(&seen.thread.name).into_owned(),
        ]);
    }
    ui::write_table(out, &mut table, head.len() - 1, ui::colour())
}

fn write_functions(out: &mut dyn Write, source: &dyn Source) -> anyhow::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["id", "function", "source"]);
    for function in &source.info().functions {
        let place = match (function.file.as_str(), function.line) {
            ("", _) => "-".into(),
            (file, 0) => ui::clean(file).into_owned(),
            (file, line) => format!("{}:{line}", ui::clean(file)),
        };
        let name = ui::clean(&function.name).into_owned();
        table.add_row([function.id.to_string(), name, place]);
    }
    ui::write_table(out, &mut table, 1, ui::colour())
}

fn write_diagnostics(out: &mut dyn Write, diagnostics: &[Diagnostic]) -> anyhow::Result<()> {
    for diagnostic in diagnostics.iter().take(SHOWN) {
        writeln!(out, "damaged    {}", ui::clean(&diagnostic.to_string()))?;
    }
    let more = diagnostics.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(
            out,
            "damaged    {} more (fdr verify shows them)",
            ui::things(more as u64, "place")
        )?;
    }
    Ok(())
}
