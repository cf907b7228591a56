//! Compressed files and archives: what `fdr pack` writes, and any other file of zstd's, gzip's or xz's. A file is
//! unpacked into a file without a name in the folder for temporary files, and an archive into a folder there.
//!
//! Nothing here may trust a compressed file: its use of memory, disk and names is bounded. Of a damaged file, the
//! bytes before the damage are given. Nothing here may open a trace, or know of formats.

mod archive;
mod frames;
mod inflate;
#[cfg(test)]
mod mutation_tests;
mod pack;
mod streams;
#[cfg(test)]
mod tests;
mod unpack;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use fdr_formats::bytes::{FileBytes, ReadAt};

pub(crate) use archive::{Archive, probe as is_archive};
pub(crate) use frames::Fault;
pub(crate) use pack::{Failure as PackFailure, Packed, pack};
pub(crate) use unpack::Unpacked;

use crate::output_file;
use crate::ui::{self, Progress};
use inflate::Failure;
use unpack::Limits;

/// The bytes that any compressed file may unpack to, however small it is.
const MAX_UNPACKED: u64 = 2 << 30;
/// Traces are packed to an eighth, text to a twentieth. A file with a larger ratio than this was made to fill
/// disks.
const MAX_TIMES: u64 = 200;

/// Bytes that tell what a file is.
const HEAD: u64 = 512;

/// Threads that unpack: each takes memory, and a few are as fast as a disk.
const MAX_JOBS: usize = 16;

/// How many bytes a reader lets a compressed file of that size unpack into.
fn most(packed: u64) -> u64 {
    packed.saturating_mul(MAX_TIMES).max(MAX_UNPACKED)
}

/// Whether a file that begins with these bytes is compressed.
pub(crate) fn probe(head: &[u8]) -> bool {
    frames::probe(head) || streams::codec(head).is_some()
}

/// The first `HEAD` bytes of a file, which are enough to recognize its format. A shorter file gives fewer bytes,
/// and an unreadable file gives none.
pub(crate) fn head(file: &File) -> Vec<u8> {
    let mut head = vec![0; HEAD as usize];
    let count = file.read_at(&mut head, 0).unwrap_or_default();
    head.truncate(count);
    head
}

/// The first bytes of a file's content. If the file is compressed, they are unpacked, as far as possible.
pub(crate) fn head_within(file: &File) -> Vec<u8> {
    let head = head(file);
    let within: io::Result<Box<dyn Read>> = match streams::codec(&head) {
        Some(codec) => start_of(file).and_then(|file| codec.decoder(BufReader::new(file))),
        None if frames::probe(&head) => {
            inflate::decoder(file).map(|within| Box::new(within) as Box<dyn Read>)
        }
        None => return head,
    };
    let mut head = Vec::new();
    if let Ok(within) = within {
        let _ = within.take(HEAD).read_to_end(&mut head);
    }
    head
}

/// A file from its beginning; others that have it open are not moved.
fn start_of(file: &File) -> io::Result<impl Read> {
    struct Start(File, u64);
    impl Read for Start {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read_at(buffer, self.1)?;
            self.1 += count as u64;
            Ok(count)
        }
    }
    Ok(Start(file.try_clone()?, 0))
}

/// How a file is to be unpacked.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UnpackOptions {
    /// There is no limit on the unpacked size.
    pub(crate) any_size: bool,
    /// No progress is shown.
    pub(crate) quiet: bool,
}

/// The place that the bytes go to. It decides the message if the place is full.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Destination<'a> {
    /// The folder for temporary files.
    Temporary,
    /// The output, under the name that it is to have.
    Output(&'a Path),
}

impl Destination<'_> {
    fn in_words(self) -> String {
        match self {
            Destination::Temporary => output_file::in_temporary(),
            Destination::Output(path) => ui::path(path),
        }
    }
}

/// Unpacks into an empty file.
///
/// # Errors
/// Where it can't be read or written, holds too much, or nothing.
pub(crate) fn unpack(
    path: &Path,
    packed: File,
    out: &File,
    to: Destination<'_>,
    manner: UnpackOptions,
) -> anyhow::Result<Unpacked> {
    let text = ui::path(path);
    let head = head(&packed);
    let packed = FileBytes::new(packed).with_context(|| text.clone())?;
    let size = packed.size();
    let most = match manner.any_size {
        true => u64::MAX,
        false => most(size),
    };
    let progress = match manner.quiet {
        true => Progress::hidden(),
        false => Progress::endless(),
    };
    let limits = Limits {
        most,
        jobs: ui::jobs().min(MAX_JOBS),
    };
    let add = |bytes| progress.add(bytes);
    let unpacked = match streams::codec(&head) {
        Some(codec) => streams::unpack(codec, &packed, out, limits.most, &add),
        None => unpack::unpack(&packed, out, limits, &add),
    };
    drop(progress);
    let unpacked = unpacked.map_err(|failure| match failure {
        Failure::Input(error) => anyhow::Error::new(error).context(text.clone()),
        Failure::Output(error) => {
            anyhow::Error::new(error).context(format!("{text}: {}", to.in_words()))
        }
        Failure::MemoryRefusal => anyhow!(
            "{text}: {} that unpack into more than {}: no trace is packed so small; if it is one, \
             `fdr unpack --any-size` writes it to a file",
            ui::size(size),
            ui::size(most)
        ),
    })?;
    match &unpacked.damage {
        Some(fault) if unpacked.bytes == 0 => bail!("{text}: {}", in_words(fault)),
        Some(fault) => ui::complain(&format!(
            "{text}: {}; the {} before it are intact",
            in_words(fault),
            ui::size(unpacked.bytes)
        )),
        None if unpacked.bytes == 0 => bail!("{text}: there is nothing in this compressed file"),
        None => {}
    }
    Ok(unpacked)
}

/// What is wrong, and where.
pub(crate) fn in_words(fault: &Fault) -> String {
    let Fault { offset, what } = fault;
    format!("the compressed data are damaged in what begins at byte {offset}: {what}")
}

/// A file's content: of a compressed file, as a file without a name, and what was wrong with it.
///
/// # Errors
/// As [`unpack`].
pub(crate) fn plain(path: &Path, file: File) -> anyhow::Result<(File, Option<Fault>)> {
    if !probe(&head(&file)) {
        return Ok((file, None));
    }
    let out = output_file::unnamed()?;
    let unpacked = unpack(
        path,
        file,
        &out,
        Destination::Temporary,
        UnpackOptions::default(),
    )?;
    Ok((out, unpacked.damage))
}

/// Makes the files of an unpacked archive in an empty folder. If `cut`, the archive may be incomplete: then the files that
/// are whole are made.
///
/// # Errors
/// As [`archive::extract`]; or the archive is cut off, and may not be.
pub(crate) fn extract(
    archive: &File,
    folder: &Path,
    to: Destination<'_>,
    cut: bool,
) -> anyhow::Result<()> {
    let mut archive = archive;
    archive.rewind()?;
    let size = archive.metadata()?.len();
    match archive::extract(BufReader::new(archive), size, folder, &to.in_words())? {
        archive::End::CutOff if !cut => bail!("the archive is cut off"),
        archive::End::CutOff | archive::End::Whole => Ok(()),
    }
}

/// What a packed trace is called when it is unpacked. `None`: its name does not say that it is packed.
pub(crate) fn plain_name(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.as_bytes();
    let ends: [&[u8]; 3] = [b".zst", b".gz", b".xz"];
    let whole = ends.iter().find_map(|end| name.strip_suffix(*end))?;
    let plain = whole.strip_suffix(b".tar").unwrap_or(whole);
    (!plain.is_empty()).then(|| path.with_file_name(OsStr::from_bytes(plain)))
}
