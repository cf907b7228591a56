//! `fdr pack`: traces, compressed.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use fdr_formats::registry;

use super::{Status, each_trace, to_stdout};
use crate::input::packed::{self, Archive, PackFailure, Packed};
use crate::output_file::{self, Pending, Shape};
use crate::outputs::names;
use crate::ring::Ring;
use crate::trace;
use crate::ui::{self, Progress, StandardOutput};

const HELP: &str = "\
Every command that reads a trace also reads a packed one, such as app.fdr.zst.
It is unpacked, by all cores, into a file without a name in TMPDIR. fdr unpack
gives back the same bytes. A folder (CTF, Trace Compass's states) becomes an
archive, which tar --zstd reads and writes, too.

The file has zstd's own format: independent frames, each with a checksum. Any
zstd reads it, and fdr reads files of any zstd. A file that is cut off or
damaged is read up to that place. A file that unpacks into more than 2 GiB and
more than 200 times its size is refused.

Examples:
  fdr pack app.1234.1.fdr                      app.1234.1.fdr.zst, beside it
  fdr pack --level 9 traces/*.fdr -o archive/  smaller, and slower
  fdr pack traces/app.ctf                      traces/app.ctf.tar.zst";

/// Compress traces, so that every command still reads them
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// Traces of any format, and rings of processes that have ended
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// The file to write, or a folder [default: the trace's name with .zst]; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// From 1 (fastest) to 19 (smallest)
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = level)]
    level: i32,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    /// Print only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

fn level(text: &str) -> Result<i32, &'static str> {
    let level = text.parse().ok().filter(|level| (1..=19).contains(level));
    level.ok_or("a level is a number from 1 to 19")
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let alone = to_stdout(options.output.as_deref());
    each_trace(&options.traces, alone, |trace, series| {
        one(options, trace, series.has_several())
    })
}

fn is_stdout(output: &Path) -> bool {
    output.as_os_str() == "-"
}

fn one(options: &Options, trace: &Path, several: bool) -> anyhow::Result<Status> {
    let (folder, plain) = called(trace)?;
    let (input, end) = input(trace, &plain)?;
    let mut name = plain;
    name.push(end);
    let (output, packed) = match options.output.as_deref() {
        Some(output) if is_stdout(output) => {
            if io::stdout().is_terminal() {
                bail!("-o -: a packed trace is not for a terminal; send it to a pipe");
            }
            let stdout = StandardOutput::new()?;
            (
                "standard output".to_owned(),
                pack(options, trace, input, "standard output", stdout)?,
            )
        }
        asked => {
            let output = names::output(asked, several, &folder, &name)?;
            output_file::check_is_not(&output, trace)?;
            check_is_not_in(&output, trace)?;
            output_file::check(&output, Shape::File, options.force)?;
            let (mut pending, file) = Pending::file(&output, options.force)?;
            let packed = pack(options, trace, input, &ui::path(&output), file)?;
            pending.place()?;
            (ui::path(&output), packed)
        }
    };
    if !options.quiet {
        let Packed { before, after } = packed;
        let ratio = before as f64 / after.max(1) as f64;
        let (before, after) = (ui::size(before), ui::size(after));
        ui::complain(&format!("{output}: {before} in {after}, {ratio:.1} : 1"));
    }
    Ok(Status::Done)
}

/// The folder and the name of a trace, as the user gave them. For `.` and `..`, the real folder and name.
fn called(trace: &Path) -> anyhow::Result<(PathBuf, OsString)> {
    let parts = |path: &Path| Some((path.parent()?.to_owned(), path.file_name()?.to_owned()));
    if let Some(parts) = parts(trace) {
        return Ok(parts);
    }
    let whole = trace.canonicalize().with_context(|| ui::path(trace))?;
    parts(&whole).with_context(|| format!("{}: is no trace", ui::path(trace)))
}

/// Refuses an output within the folder that is packed: it would be taken for a part of the trace.
fn check_is_not_in(output: &Path, trace: &Path) -> anyhow::Result<()> {
    let folder = output.parent().unwrap_or(Path::new(""));
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    let both = (folder.canonicalize(), trace.canonicalize());
    if matches!(both, (Ok(folder), Ok(trace)) if folder.starts_with(&trace)) {
        let (output, trace) = (ui::path(output), ui::path(trace));
        bail!("{output}: is within {trace}, which is packed; -o gives another place");
    }
    Ok(())
}

/// The data to compress, and the end of the output's name.
fn input(trace: &Path, name: &OsStr) -> anyhow::Result<(Box<dyn Read + Send>, &'static str)> {
    let text = || ui::path(trace);
    let kind = fs::metadata(trace).with_context(text)?;
    if kind.is_dir() {
        if registry::of_folder(trace).is_none() {
            bail!("{}: not a trace folder that fdr knows", text());
        }
        return Ok((Box::new(Archive::from_folder(trace, name)?), ".tar.zst"));
    }
    if !kind.is_file() {
        bail!("{}: is no regular file", text());
    }
    let file = File::open(trace).with_context(text)?;
    let head = packed::head(&file);
    if packed::probe(&head) {
        bail!("{}: is compressed already", text());
    }
    if registry::of_file(&head).is_none() {
        return Err(trace::about(trace, registry::unknown_file(&head)));
    }
    if let Some(ring) = Ring::read(trace).filter(Ring::runs) {
        bail!("{}: {}", text(), ring.in_words());
    }
    Ok((Box::new(file), ".zst"))
}

fn pack(
    options: &Options,
    trace: &Path,
    input: impl Read + Send,
    output: &str,
    to: impl Write + Send,
) -> anyhow::Result<Packed> {
    let progress = match options.quiet {
        true => Progress::hidden(),
        false => Progress::endless(),
    };
    let jobs = ui::jobs();
    let packed = packed::pack(input, to, options.level, jobs, &|bytes| progress.add(bytes));
    packed.map_err(|failure| match failure {
        PackFailure::Input(error) => anyhow::Error::new(error).context(ui::path(trace)),
        PackFailure::Output(error) => anyhow::Error::new(error).context(output.to_owned()),
    })
}
