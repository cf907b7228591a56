//! `fdr convert`: a trace of any format becomes one of any other.

use std::path::{Path, PathBuf};

use fdr_formats::Source;
use fdr_formats::address::Address;
use fdr_formats::writer::Target;

use super::{Status, Traces};
use crate::output_file::{self, Shape};
use crate::outputs::conversion::{Conversion, Job, report, send, shape, write};
use crate::outputs::{destination, map, names, target};
use crate::selection::{Filtering, Selection};
use crate::tally::Tally;
use crate::{clock, trace, ui};

const HELP: &str = "\
The new trace is made under a temporary name beside its own. It gets its name
when it is whole. fdr counts and reports what the format can't hold. A damaged
trace is converted as far as it can be read.

Memory does not grow with the trace. Most formats are written while the trace
is read. Heph and HTDUMP have one record per call, which is written when the
call has ended; open calls take memory. XRay, ENTRACE and Trace Compass's
states are in order of time over all threads, or have sizes in front. So they
can be written only after the last event. From 64 MiB on they keep the events
in a file without a name in TMPDIR.

Exports are for other people's viewers. docs/exports.md says what each keeps,
and how to open it. The trace is read twice. Those of Perfetto, Chrome, OTLP,
CSV and JSON lines are written while it is read; the others are made at the end.
A map has the functions' names for llvm-xray, which reads only XRay. Traces that
fdr converts into XRay keep their function ids, so the map fits them, too.

Examples:
  fdr convert app.fdr --to heph     app.heph, beside it
  fdr convert app.fdr --to ctf -o traces/app
      a folder, for babeltrace2 and Trace Compass
  fdr convert app.fdr --to htdump -o - | gzip > app.htdump.gz
  fdr convert app.htdump --to xray  and back, with names, counts and times
  fdr convert 1234 --to iet-prefix2 -o tcp://127.0.0.1:8000
      the ring of process 1234, to ENTRACE's viewer, which listens there
  fdr convert app.fdr --to perfetto --last 2s
      app.perfetto-trace, for ui.perfetto.dev
  fdr convert app.fdr --to map      app.map, and then, with XRay's traces:
  llvm-xray account -m app.map app.fdr";

/// The end of the help text.
fn help() -> String {
    format!("{}\n{HELP}", target::list())
}

/// Convert a trace into another format
#[derive(clap::Args)]
#[command(after_help = help())]
pub(crate) struct Options {
    #[command(flatten)]
    traces: Traces,
    /// The format to write; see below
    #[arg(long, alias = "format", value_name = "FORMAT", value_parser = target::Parser::WithExports, hide_possible_values = true)]
    to: &'static Target,
    /// The file to write, or a folder for it [default: the trace's name with the format's extension];
    /// `-` is standard output; tcp://HOST:PORT or unix:PATH is a program that listens
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// Replace an existing file or folder
    #[arg(long)]
    force: bool,
    /// Print only errors: not what was written, nor what the format can't hold
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let address = destination::parse(options.output.as_deref(), options.to)?;
    let alone = address.as_ref().map(|address| format!("-o {address}"));
    options
        .traces
        .each_or_one(alone.as_deref(), |trace, series| match &address {
            Some(address) => to_address(options, trace, address),
            None => to_path(options, trace, series.has_several()),
        })
}

fn to_address(options: &Options, trace: &Path, address: &Address) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    let job = options.job(trace);
    if options.to.name == map::TARGET.name {
        map::send(&*source, &job, destination::open(address)?)?;
        return Ok(Status::Done);
    }
    let done = send(&*source, &job, address)?;
    options.report(&*source, trace, &destination::name(address), &done, None);
    Ok(Status::Done)
}

fn to_path(options: &Options, trace: &Path, several: bool) -> anyhow::Result<Status> {
    let target = options.to;
    let output = match options.output.as_deref() {
        // With `--force`, an output that is a folder replaces the named folder.
        Some(output) if options.force && !several && is_folder(output, target) => output.to_owned(),
        Some(output) => {
            let name = names::default_name(trace, target);
            names::output(Some(output), several, Path::new(""), &name)?
        }
        None => names::default_output(trace, target)?,
    };
    output_file::check_is_not(&output, trace)?;
    output_file::check(&output, shape(target), options.force)?;
    let source = options.selection.open(trace, Filtering::Calls)?;
    let job = options.job(trace);
    if target.name == map::TARGET.name {
        map::write(&*source, &job, &output)?;
        return Ok(Status::Done);
    }
    let done = write(&*source, &job, &output)?;
    let bytes = Some(output_file::size(&output));
    options.report(&*source, trace, &ui::path(&output), &done, bytes);
    Ok(Status::Done)
}

impl Options {
    fn job<'a>(&self, trace: &'a Path) -> Job<'a> {
        Job {
            trace,
            to: self.to,
            force: self.force,
            quiet: self.quiet,
            jobs: ui::jobs(),
        }
    }

    /// Reports what was written to `name`, and the damage of the trace that was read.
    fn report(
        &self,
        source: &dyn Source,
        trace: &Path,
        name: &str,
        done: &Conversion,
        bytes: Option<u64>,
    ) {
        let Tally {
            diagnostics,
            more_diagnostics,
            ..
        } = &done.tally;
        trace::warn_of_damage(trace, diagnostics, *more_diagnostics);
        if !self.quiet {
            report(name, self.to, done, bytes);
            if trace::is_timeless(source.info()) {
                let what =
                    "the trace has no times: its calls are in their order, 1 ns for each step";
                ui::complain(&format!("{name}: {what}"));
            }
        }
        // Most formats have no place for it.
        clock::warn(trace, &source.info().clock);
    }
}

/// Whether a trace is to be that folder, and not to be put into it.
fn is_folder(output: &Path, target: &Target) -> bool {
    shape(target) == Shape::Folder && !output.as_os_str().as_encoded_bytes().ends_with(b"/")
}
