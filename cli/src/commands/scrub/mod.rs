//! `fdr scrub`: a trace that can be given away. Names, arguments, events, and the identity of the program and host are
//! left out. Calls, times, threads, tasks and states stay. It must never pass on a text of the trace, unless an option
//! keeps the text.

mod rule;
mod scrubbed;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::filter::Filter;
use fdr_formats::writer::Target;

use self::rule::{KeepOptions, Rule};
use self::scrubbed::Scrubbed;
use super::Status;
use crate::output_file::{self, Pending};
use crate::outputs::conversion::{self, Job};
use crate::outputs::{destination, target};
use crate::selection::{Filtering, Selection};
use crate::{trace, ui};

const HELP: &str = "\
What stays: calls with their times, which calls made which, threads, tasks,
waits, states of threads, counts, the clock and the time of day.

What goes, unless an option keeps it: names of functions, events, fields,
locks, threads and moments; files and lines; arguments, results, events,
counters and other programs' payloads; program, process, host, boot, build,
version and tags; the text of a panic or trigger; addresses. Functions become
f0001, f0002, …, threads t1, t2, … with these numbers, in the order in which
the trace lists them.

--names writes which name became which. Keep that file: with it, what somebody
finds in the scrubbed trace can be understood.

Times can tell much, too: how often, how long and when something was done.
Look at the result before you share it: fdr info OUT, fdr report OUT.

Examples:
  fdr scrub app.fdr -o share.fdr
  fdr scrub app.fdr -o share.fdr --keep 'std::*,my_app::http::*'
  fdr scrub app.fdr -o share.fdr --last 2s --names names.tsv
  fdr scrub app.fdr -o share.fdr && fdr convert share.fdr --to perfetto";

/// Write a trace without names, arguments and events, to share it
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The trace; `-` is standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The file to write, or a folder where the format is one; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Keep the names of these functions, with file and line, and of these events, fields and locks: globs, comma
    /// between, `-` before one excludes
    #[arg(short, long, value_name = "GLOBS", allow_hyphen_values = true, value_parser = Filter::parse)]
    keep: Vec<Filter>,
    /// Keep arguments and results, texts too
    #[arg(long)]
    keep_arguments: bool,
    /// Keep events, counters, fields of spans and other programs' payloads, texts too
    #[arg(long)]
    keep_events: bool,
    /// Keep the names of threads
    #[arg(long)]
    keep_threads: bool,
    /// Write which name became which to this file, which is made
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// The format to write; fdr convert --help lists all
    #[arg(long, alias = "format", value_name = "FORMAT", value_parser = target::Parser::Traces, hide_possible_values = true, default_value = "xray")]
    to: &'static Target,
    #[command(flatten)]
    selection: Selection,
    /// Replace an existing file or folder
    #[arg(long)]
    force: bool,
    /// Print only errors
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let (trace, output, target) = (&options.trace, &options.output, options.to);
    let address = destination::parse(Some(output), target)?;
    if address.is_none() {
        output_file::check_is_not(output, trace)?;
        output_file::check(output, conversion::shape(target), options.force)?;
    }
    let source = options.selection.open(trace, Filtering::Calls)?;
    let keep = KeepOptions {
        names: options.keep.clone(),
        arguments: options.keep_arguments,
        events: options.keep_events,
        threads: options.keep_threads,
    };
    let scrubbed = Scrubbed::new(source, Rule::new(keep));
    let names = match &options.names {
        Some(path) => Some(list(path, &scrubbed)?),
        None => None,
    };
    let job = Job {
        trace,
        to: target,
        force: options.force,
        quiet: options.quiet,
        jobs: ui::jobs(),
    };
    let (done, bytes) = match &address {
        Some(address) => (conversion::send(&scrubbed, &job, address)?, None),
        None => {
            let done = conversion::write(&scrubbed, &job, output)?;
            (done, Some(output_file::size(output)))
        }
    };
    if let Some(mut names) = names {
        names.place()?;
    }
    let tally = &done.tally;
    trace::warn_of_damage(trace, &tally.diagnostics, tally.more_diagnostics);
    if !options.quiet {
        let name = match &address {
            Some(address) => destination::name(address),
            None => ui::path(output),
        };
        conversion::report(&name, target, &done, bytes);
        ui::complain(&format!("{name}: scrubbed: {}", scrubbed.words()));
    }
    Ok(Status::Done)
}

/// The names, a line each: the new one, a tab, the old one.
fn list(path: &Path, scrubbed: &Scrubbed) -> anyhow::Result<Pending> {
    let (pending, mut file) = Pending::file(path, false)?;
    let lines: Vec<String> = scrubbed
        .replaced()
        .map(|(new, old)| format!("{new}\t{}\n", ui::clean(old)))
        .collect();
    let written = file.write_all(lines.concat().as_bytes());
    written.with_context(|| ui::path(path))?;
    Ok(pending)
}
