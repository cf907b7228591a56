//! `fdr unpack`: gives back what `fdr pack`, `zstd`, `gzip` or `xz` compressed.

use std::fs::{self, File};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::{Status, each};
use crate::input;
use crate::input::packed::{self, Destination, UnpackOptions, Unpacked};
use crate::output_file::{self, Pending, Shape};
use crate::outputs::names;
use crate::ui::{self, StandardOutput};

const HELP: &str = "\
The bytes are those that were packed, and checksums prove it. Of a file that is
cut off or damaged, fdr writes what comes before that place, and the exit code
is 1.

Examples:
  fdr unpack app.1234.1.fdr.zst        app.1234.1.fdr, beside it
  fdr unpack archive/*.zst -o traces/
  fdr unpack app.ctf.tar.zst           app.ctf, a folder
  fdr unpack app.1234.1.fdr.zst -o - | sha256sum";

/// Unpack a packed trace
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Options {
    /// The packed traces
    #[arg(required = true, value_name = "PACKED")]
    traces: Vec<PathBuf>,
    /// The file to write, or a folder [default: the name without .zst, .gz, .xz or .tar.zst]; `-` is
    /// standard output, for one trace
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Allow a result of more than 2 GiB and 200 times the size of the file
    #[arg(long)]
    any_size: bool,
    /// Replace an existing file or folder
    #[arg(long)]
    force: bool,
    /// Print only what is wrong
    #[arg(short, long)]
    quiet: bool,
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> anyhow::Result<Status> {
    let several = options.traces.len() > 1;
    if several && options.to_stdout() {
        bail!("-o - takes one packed trace at a time");
    }
    each(&options.traces, |packed| one(options, packed, several))
}

fn one(options: &Options, path: &Path, several: bool) -> anyhow::Result<Status> {
    let kind = fs::metadata(path).with_context(|| ui::path(path))?;
    if !kind.is_file() {
        let what = match kind.is_dir() {
            true => "a folder; name the packed files in it",
            false => "is no regular file",
        };
        bail!("{}: {what}", ui::path(path));
    }
    let file = File::open(path).with_context(|| ui::path(path))?;
    if !packed::probe(&packed::head(&file)) {
        bail!(
            "{}: nothing to unpack: the file is not compressed by zstd, gzip or xz",
            ui::path(path)
        );
    }
    if options.to_stdout() {
        return Ok(status(&to_stdout(options, path, file)?));
    }
    let archive = input::is_archive(&packed::head_within(&file));
    let output = match (packed::plain_name(path), options.output.as_deref()) {
        (Some(plain), asked) => {
            let folder = plain.parent().unwrap_or(Path::new(""));
            names::output(
                asked,
                several,
                folder,
                plain.file_name().unwrap_or_default(),
            )?
        }
        (None, Some(asked)) if !several && is_name(asked) => asked.to_owned(),
        (None, _) => bail!(
            "{}: its name does not end in .zst, .gz or .xz; -o FILE gives a name",
            ui::path(path)
        ),
    };
    output_file::check_is_not(&output, path)?;
    let unpacked = match archive {
        true => folder(options, path, file, &output)?,
        false => {
            let (mut pending, out) = Pending::file(&output, options.force)?;
            let to = Destination::Output(&output);
            let unpacked = packed::unpack(path, file, &out, to, options.manner())?;
            pending.place()?;
            unpacked
        }
    };
    if !options.quiet {
        let size = ui::size(output_file::size(&output));
        ui::complain(&format!("{}: {size}", ui::path(&output)));
    }
    Ok(status(&unpacked))
}

fn status(unpacked: &Unpacked) -> Status {
    match unpacked.damage {
        None => Status::Done,
        Some(_) => Status::Violations,
    }
}

/// A trace's bytes, or a folder's archive, go to standard output, which takes them in order.
fn to_stdout(options: &Options, path: &Path, file: File) -> anyhow::Result<Unpacked> {
    if io::stdout().is_terminal() {
        bail!("-o -: a trace is not for a terminal; send it to a pipe");
    }
    let mut plain = output_file::unnamed()?;
    let unpacked = packed::unpack(path, file, &plain, Destination::Temporary, options.manner())?;
    StandardOutput::new()?.print(&mut plain)?;
    Ok(unpacked)
}

impl Options {
    fn to_stdout(&self) -> bool {
        self.output.as_deref() == Some(Path::new("-"))
    }

    fn manner(&self) -> UnpackOptions {
        let Options {
            any_size, quiet, ..
        } = *self;
        UnpackOptions { any_size, quiet }
    }
}

/// Whether an output is to have that name, and not to go into a folder of it.
fn is_name(path: &Path) -> bool {
    !path.is_dir() && !path.as_os_str().as_bytes().ends_with(b"/")
}

/// An archive becomes a folder.
fn folder(options: &Options, path: &Path, file: File, output: &Path) -> anyhow::Result<Unpacked> {
    output_file::check(output, Shape::Folder, options.force)?;
    let archive = output_file::unnamed()?;
    let unpacked = packed::unpack(
        path,
        file,
        &archive,
        Destination::Temporary,
        options.manner(),
    )?;
    let mut pending = Pending::folder(output, options.force)?;
    let (folder, cut) = (pending.temporary(), unpacked.damage.is_some());
    let extracted = packed::extract(&archive, folder, Destination::Output(output), cut);
    extracted.with_context(|| ui::path(path))?;
    pending.place()?;
    Ok(unpacked)
}
