//! `fdr verify`: is a trace whole and consistent?

pub(crate) mod checker;
mod finding;
mod json;
mod switches;

use std::io::Write;
use std::num::NonZeroUsize;
use std::path::Path;

use fdr_formats::TraceInfo;

use self::checker::{Checker, Verdict};
use self::finding::{Finding, FindingLocation};
use super::{Status, Traces};
use crate::report::names::name_of;
use crate::selection::{Filtering, Selection};
use crate::ui;
use crate::{clock, memory, trace};

/// The violations that are printed by default.
const DEFAULT_FINDINGS: usize = 100;

const HELP: &str = "\
fdr verify checks that the file follows the grammar of its format; that times
never go back within a thread; and that every exit has its entry, and every
entry its exit. If the trace has the recorder's counts, they must agree with
the file and add up (recorded = readable + overwritten + dropped + summarised).
A thread whose states the trace knows must stop running before it runs again.
It does not require what the format can't hold.

The trace of a crashed process, and traces of other recorders, may begin and
end within calls. --allow-open accepts calls that are open at the beginning or
the end of a thread.

Records that the recorder dropped and counted are no violation; a note says how
many. Where records are missing in the middle, calls that were open there may
lack their exits, and exits after it their entries. The recorder must have
counted as many overwritten or dropped records.

Exit codes: 0: all traces are whole. 1: there is a violation. 2: a file can't
be read.

Examples:
  fdr verify app.fdr
  fdr verify traces/*.fdr
  fdr verify --allow-open --limit 5 crash.fdr";

/// Check grammar, times, balance and counts of a trace
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    #[command(flatten)]
    selection: Selection,
    /// Accept calls that are open where a thread begins or ends
    #[arg(long)]
    allow_open: bool,
    /// Print at most N violations of each trace [default: 100]; all are counted
    #[arg(short = 'n', long, value_name = "N", value_parser = ui::at_least_one)]
    limit: Option<NonZeroUsize>,
    /// Print JSON; several traces are documents one after the other
    #[arg(long, conflicts_with = "quiet")]
    json: bool,
    /// Print only violations, and nothing about traces that are whole
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    options.traces.each(|trace, _| one(options, trace))
}

fn one(options: &Options, trace: &Path) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    memory::grows("the calls that are open and the threads");
    let limit = options.limit.map_or(DEFAULT_FINDINGS, NonZeroUsize::get);
    let one_by_one = trace::has_lane_for_each_thread(&*source);
    let make = || Checker::new(options.allow_open, limit).one_by_one(one_by_one);
    let checkers = ui::drive(&*source, make).map_err(|error| trace::about(trace, error))?;
    let info = source.info();
    let mut verdict = checker::conclude(checkers, &info.threads, limit);
    for diagnostic in source.diagnostics() {
        verdict.add(Finding::from_diagnostic(diagnostic.clone()));
    }
    for finding in switches::check(&info.schedule) {
        verdict.add(finding);
    }
    verdict.findings.sort();
    verdict.findings.truncate(limit);

    if !options.quiet || verdict.count > 0 {
        ui::print(|out| match options.json {
            true => {
                let notes = notes(info, &verdict);
                json::write(out, &trace.to_string_lossy(), info, &verdict, notes)
            }
            false => write(out, &ui::path(trace), info, &verdict),
        })?;
    }
    Ok(if verdict.count == 0 {
        Status::Done
    } else {
        Status::Violations
    })
}

fn write(
    out: &mut dyn Write,
    file: &str,
    info: &TraceInfo,
    verdict: &Verdict,
) -> anyhow::Result<()> {
    let mut say = |text: String| writeln!(out, "{}", ui::paragraph(&format!("{file}: {text}"), 2));
    for finding in &verdict.findings {
        let name = |id| ui::clean(&name_of(info, id)).into_owned();
        let place = match finding.place {
            FindingLocation::Offset(offset) => format!("at byte {offset}"),
            FindingLocation::Record { thread, number: 0 } => format!("thread {thread}"),
            FindingLocation::Record { thread, number } => {
                format!("thread {thread}, record {number}")
            }
        };
        let what = finding.what.in_words(&name);
        say(format!("{place}: {}", ui::clean(&what)))?;
    }
    let hidden = verdict.count - verdict.findings.len() as u64;
    if hidden > 0 {
        let hidden = ui::things(hidden, "violation");
        say(format!("{hidden} more not shown (--limit)"))?;
    }
    let totals = format!(
        "{} in {}, {} synthetic",
        ui::things(verdict.records, "record"),
        ui::things(verdict.threads, "thread"),
        ui::count(verdict.synthetic),
    );
    match verdict.count {
        0 => say(format!("OK: {totals}"))?,
        count => say(format!("{}: {totals}", ui::things(count, "violation")))?,
    }
    for note in notes(info, verdict) {
        say(format!("note: {note}"))?;
    }
    Ok(())
}

/// What is no violation, and must be known all the same.
fn notes(info: &TraceInfo, verdict: &Verdict) -> Vec<String> {
    let mut notes = Vec::new();
    if verdict.lost > 0 {
        let lost = ui::things(verdict.lost, "record");
        notes.push(format!("{lost} lost in the middle"));
    }
    if verdict.breaks > 0 {
        notes.push(clock::breaks_in_words(verdict.breaks));
    }
    notes.extend(clock::notes(&info.clock));
    if let Some(missing) = trace::missing(&info.missing) {
        notes.push(format!("not in the trace: {missing}"));
    }
    notes
}
