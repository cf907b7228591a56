//! A trace is written in another format: the source pushes its events into the writer, thread after thread. Reading,
//! encoding and writing happen at the same time, so at most a few batches of events are in memory.

use std::io::{self, Seek, Write};
use std::path::Path;

use anyhow::Context;
use fdr_formats::address::Address;
use fdr_formats::registry;
use fdr_formats::writer::{Kind, Output, Target};
use fdr_formats::{Call, Diagnostic, Losses, Mark, Sink, Source, Thread, Writer, source};

use super::{destination, export, read_thread, write_thread};
use crate::output_file::{self, Pending, Shape};
use crate::tally::Tally;
use crate::ui::{self, Progress};
use crate::{memory, trace};

/// How a trace is to be written.
#[derive(Clone, Copy)]
pub(crate) struct Job<'a> {
    /// What is read, for errors.
    pub(crate) trace: &'a Path,
    pub(crate) to: &'static Target,
    pub(crate) force: bool,
    pub(crate) quiet: bool,
    /// Threads that may work.
    pub(crate) jobs: usize,
}

/// What was converted.
pub(crate) struct Conversion {
    pub(crate) tally: Tally,
    pub(crate) losses: Losses,
}

/// What a target makes.
pub(crate) fn shape(target: &Target) -> Shape {
    match target.kind {
        Kind::File | Kind::Stream => Shape::File,
        Kind::Folder => Shape::Folder,
    }
}

/// Writes to a file or folder, which is in its place when it is whole.
///
/// # Errors
/// Where the trace can't be read, or the new one not be written.
pub(crate) fn write(
    source: &dyn Source,
    job: &Job<'_>,
    output: &Path,
) -> anyhow::Result<Conversion> {
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
        // The trace needs too much memory, so the error names the trace and not the output.
        Failure::Output(error) if memory::is_refusal(&error) => trace::about(job.trace, error),
        Failure::Output(error) => trace::about(output, error),
    })?;
    pending.place()?;
    Ok(done)
}

/// Sends to an address. A format whose writer goes back in its file is written to a file without a name first.
pub(crate) fn send(
    source: &dyn Source,
    job: &Job<'_>,
    address: &Address,
) -> anyhow::Result<Conversion> {
    let file = match job.to.kind {
        Kind::Stream => None,
        Kind::File | Kind::Folder => Some(output_file::unnamed()?),
    };
    let (out, place) = match &file {
        None => (
            Output::Stream(destination::open(address)?),
            destination::name(address),
        ),
        Some(file) => (Output::File(file.try_clone()?), output_file::in_temporary()),
    };
    let done = convert(source, job, out).map_err(|failure| match failure {
        Failure::Source(error) => trace::about(job.trace, error),
        Failure::Output(error) if memory::is_refusal(&error) => trace::about(job.trace, error),
        Failure::Output(error) => anyhow::Error::new(error).context(place),
    })?;
    if let Some(mut file) = file {
        let named = || destination::name(address);
        let mut out = destination::open(address)?;
        file.rewind().with_context(output_file::in_temporary)?;
        io::copy(&mut file, &mut out).with_context(named)?;
        out.flush().with_context(named)?;
    }
    Ok(done)
}

/// Which side failed.
pub(super) enum Failure {
    Source(fdr_formats::Error),
    Output(fdr_formats::Error),
}

pub(super) fn convert(
    source: &dyn Source,
    job: &Job<'_>,
    output: Output,
) -> Result<Conversion, Failure> {
    let output = match output {
        output if job.jobs == 1 => Ok(output),
        Output::File(file) if job.to.file_as_stream => stream(file),
        Output::Stream(out) => stream(out),
        output => Ok(output),
    };
    let output = output.map_err(|error| Failure::Output(error.into()))?;
    memory::grows("what the reader and the writer keep (threads, functions and open calls)");
    let export = export::for_target(job.to);
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
    Ok(Conversion { tally, losses })
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

pub(crate) fn report(name: &str, target: &Target, done: &Conversion, bytes: Option<u64>) {
    let events = ui::things(done.tally.events(), "event");
    let threads = ui::things(done.tally.threads().count() as u64, "thread");
    let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", ui::size(bytes)));
    let title = target.title;
    ui::complain(&format!("{name}: {title}: {events} of {threads}{bytes}"));
    report_losses(name, target, &done.losses);
}

/// Says what a format can't hold, and what other programs that read it have trouble with.
pub(crate) fn report_losses(name: &str, target: &Target, losses: &Losses) {
    let title = target.title;
    for (what, count) in losses.iter() {
        let what = ui::count_of(count, what);
        ui::complain(&format!("{name}: what {title} can't hold: {what}"));
    }
    for (what, count) in losses.notes() {
        let what = ui::count_of(count, what);
        ui::complain(&format!("{name}: for other readers: {what}"));
    }
}

#[cfg(test)]
#[path = "conversion_tests.rs"]
mod tests;
