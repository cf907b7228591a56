//! `fdr convert`: a trace of any format becomes one of any other.
//!
//! The source pushes its events into the writer, thread after thread; only a few batches of them are kept here, because
//! reading, encoding and writing happen at the same time. It must never leave half a trace, nor be silent about what
//! the new format can't hold.

pub(super) mod destination;
pub(in crate::commands) mod export;
mod map;
mod read_thread;
pub(super) mod target;
#[cfg(test)]
mod tests;
mod write_thread;

use std::io::{self, Seek, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use fdr_formats::address::Address;
use fdr_formats::registry;
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{Call, Diagnostic, Losses, Mark, Sink, Source, Thread, Writer, source};

use super::dump::save;
use super::{Status, Traces};
use crate::clock;
use crate::place::{self, Pending, Shape};
use crate::selection::{Filtering, Selection};
use crate::tally::Tally;
use crate::ui::{self, Progress};
use crate::{memory, trace};

/// Convert a trace into another format
#[derive(clap::Args)]
#[command(after_help = target::help())]
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

/// How a trace is to be written.
#[derive(Clone, Copy)]
pub(super) struct Job<'a> {
    /// What is read, for errors.
    pub(super) trace: &'a Path,
    pub(super) to: &'static Target,
    pub(super) force: bool,
    pub(super) quiet: bool,
    /// Threads that may work.
    pub(super) jobs: usize,
}

/// What was converted.
pub(super) struct Done {
    pub(super) tally: Tally,
    pub(super) losses: Losses,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let address = destination::parse(options.output.as_deref(), options.to)?;
    let alone = address.as_ref().map(|address| format!("-o {address}"));
    let run = |trace: &Path, several| match &address {
        Some(address) => to_address(options, trace, address),
        None => to_path(options, trace, several),
    };
    options.traces.each_or_one(alone.as_deref(), run)
}

fn to_address(options: &Options, trace: &Path, address: &Address) -> anyhow::Result<Status> {
    let source = options.selection.open(trace, Filtering::Calls)?;
    let job = options.job(trace);
    if options.to.name == map::TARGET.name {
        map::send(&*source, &job, destination::open(address)?)?;
        return Ok(Status::Done);
    }
    let done = send(&*source, &job, address)?;
    options.tell(&*source, trace, &destination::name(address), &done, None);
    Ok(Status::Done)
}

fn to_path(options: &Options, trace: &Path, several: bool) -> anyhow::Result<Status> {
    let target = options.to;
    let output = match options.output.as_deref() {
        // A trace that is a folder takes the place of the one that is named.
        Some(output) if options.force && !several && is_folder(output, target) => output.to_owned(),
        Some(output) => {
            let name = target::default_name(trace, target);
            save::output(Some(output), several, Path::new(""), &name)?
        }
        None => target::default_output(trace, target)?,
    };
    place::check_is_not(&output, trace)?;
    place::check(&output, shape(target), options.force)?;
    let source = options.selection.open(trace, Filtering::Calls)?;
    let job = options.job(trace);
    if target.name == map::TARGET.name {
        map::write(&*source, &job, &output)?;
        return Ok(Status::Done);
    }
    let done = write(&*source, &job, &output)?;
    let bytes = Some(place::size(&output));
    options.tell(&*source, trace, &ui::path(&output), &done, bytes);
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

    /// Says what was written to `name`, and what is wrong with the trace that was read.
    fn tell(&self, source: &dyn Source, trace: &Path, name: &str, done: &Done, bytes: Option<u64>) {
        let Tally {
            diagnostics,
            more_diagnostics,
            ..
        } = &done.tally;
        trace::warn_of_damage(trace, diagnostics, *more_diagnostics);
        if !self.quiet {
            tell(name, self.to, done, bytes);
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

/// What a target makes.
pub(super) fn shape(target: &Target) -> Shape {
    match target.kind {
        Kind::File | Kind::Stream => Shape::File,
        Kind::Folder => Shape::Folder,
    }
}

/// Writes to a file or folder, which is in its place when it is whole.
///
/// # Errors
/// Where the trace can't be read, or the new one not be written.
pub(super) fn write(source: &dyn Source, job: &Job<'_>, output: &Path) -> anyhow::Result<Done> {
    let (mut pending, out) = match shape(job.to) {
        Shape::File => {
            let (pending, file) = Pending::file(output, job.force)?;
            (pending, Output::File(file))
        }
        Shape::Folder => {
            let pending = Pending::folder(output, job.force)?;
            let folder = pending.temporary().to_owned();
            (pending, Output::Folder(folder))
        }
    };
    let done = convert(source, job, out).map_err(|failure| match failure {
        Failure::Source(error) => trace::about(job.trace, error),
        // It is the trace that needs it.
        Failure::Output(error) if memory::is_refusal(&error) => trace::about(job.trace, error),
        Failure::Output(error) => trace::about(output, error),
    })?;
    pending.place()?;
    Ok(done)
}

/// Sends to an address. A format whose writer goes back in its file is written to a file without a name first.
pub(super) fn send(source: &dyn Source, job: &Job<'_>, address: &Address) -> anyhow::Result<Done> {
    let file = match job.to.kind {
        Kind::Stream => None,
        Kind::File | Kind::Folder => Some(place::unnamed()?),
    };
    let (out, place) = match &file {
        None => (
            Output::Stream(destination::open(address)?),
            destination::name(address),
        ),
        Some(file) => (Output::File(file.try_clone()?), place::in_temporary()),
    };
    let done = convert(source, job, out).map_err(|failure| match failure {
        Failure::Source(error) => trace::about(job.trace, error),
        Failure::Output(error) if memory::is_refusal(&error) => trace::about(job.trace, error),
        Failure::Output(error) => anyhow::Error::new(error).context(place),
    })?;
    if let Some(mut file) = file {
        let named = || destination::name(address);
        let mut out = destination::open(address)?;
        file.rewind().with_context(place::in_temporary)?;
        io::copy(&mut file, &mut out).with_context(named)?;
        out.flush().with_context(named)?;
    }
    Ok(done)
}

/// Whose fault it is.
enum Failure {
    Source(fdr_formats::Error),
    Output(fdr_formats::Error),
}

fn convert(source: &dyn Source, job: &Job<'_>, output: Output) -> Result<Done, Failure> {
    let output = match output {
        output if job.jobs == 1 => Ok(output),
        Output::File(file) if job.to.file_as_stream => stream(file),
        Output::Stream(out) => stream(out),
        output => Ok(output),
    };
    let output = output.map_err(|error| Failure::Output(error.into()))?;
    memory::grows("what the reader and the writer keep (threads, functions and open calls)");
    let export = export::of(job.to);
    let writer = match export {
        Some(export) => export.begin(output, source),
        None => (job.to.create)(output, source.info()),
    };
    let mut writer = writer.map_err(Failure::Output)?;
    let progress = match job.quiet {
        true => Progress::hidden(),
        false => Progress::new(source),
    };
    let driven = drive(source, &mut *writer, job.jobs, &|bytes| progress.add(bytes));
    drop(progress);
    let mut tally = driven.map_err(Failure::Source)?;
    let mut losses = writer.finish().map_err(Failure::Output)?;
    if !job.to.name.starts_with("xray") {
        let info = source.info();
        let own = info.threads.iter().map(|thread| thread.totals.len());
        let rows = own.sum::<usize>() + info.missing_totals.len();
        let what = "figures of the whole run (one for each thread and function): left out";
        losses.add(what, rows as u64);
        if export.is_none() {
            losses.add_moments(&info.moments);
        }
    }
    if export.is_none() && !registry::holds_states(job.to) {
        losses.add_schedule(&source.info().schedule);
    }
    tally.opened(source);
    Ok(Done { tally, losses })
}

fn stream(out: impl io::Write + Send + 'static) -> io::Result<Output> {
    Ok(Output::Stream(Box::new(write_thread::WriteThread::new(
        out,
    )?)))
}

/// Gives all events to the writer, and counts them.
fn drive(
    source: &dyn Source,
    writer: &mut dyn Writer,
    jobs: usize,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Tally, fdr_formats::Error> {
    if jobs > 1 {
        return read_thread::drive(source, writer, progress);
    }
    let tally = Tally::default();
    let mut tee = Tee { writer, tally };
    source::drive(source, &mut tee, progress)?;
    Ok(tee.tally)
}

/// Gives everything to the writer, and counts it.
struct Tee<'a> {
    writer: &'a mut dyn Writer,
    tally: Tally,
}

impl Sink for Tee<'_> {
    fn thread(&mut self, thread: &Thread) {
        self.tally.thread(thread);
        self.writer.thread(thread);
    }

    fn calls(&mut self, calls: &[Call]) {
        self.tally.calls(calls);
        self.writer.calls(calls);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.tally.mark(mark);
        self.writer.mark(mark);
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.tally.diagnostic(diagnostic);
    }
}

pub(super) fn tell(name: &str, target: &Target, done: &Done, bytes: Option<u64>) {
    let events = ui::things(done.tally.events(), "event");
    let threads = ui::things(done.tally.threads().count() as u64, "thread");
    let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", ui::size(bytes)));
    let title = target.title;
    ui::complain(&format!("{name}: {title}: {events} of {threads}{bytes}"));
    tell_losses(name, target, &done.losses);
}

/// Says what a format can't hold, and what other programs that read it have trouble with.
pub(super) fn tell_losses(name: &str, target: &Target, losses: &Losses) {
    let title = target.title;
    for (what, count) in losses.iter() {
        let what = ui::counted(count, what);
        ui::complain(&format!("{name}: what {title} can't hold: {what}"));
    }
    for (what, count) in losses.notes() {
        let what = ui::counted(count, what);
        ui::complain(&format!("{name}: for other readers: {what}"));
    }
}
