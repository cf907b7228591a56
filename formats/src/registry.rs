//! The one list of formats. A trace is recognised by its content, never by its name.

use std::fs::File;
use std::path::Path;

use crate::bytes::{FileBytes, ReadAt};
use crate::ctf;
use crate::entrace;
use crate::error::Error;
use crate::heph;
use crate::htdump;
use crate::ring;
use crate::source::Source;
use crate::tcstate;
use crate::writer::Target;
use crate::xray;

/// A trace that was opened, or why not.
pub type Opened = Result<Box<dyn Source>, Error>;

/// A format that the library knows.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its short name: `xray`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// How it is recognised and opened.
    pub opener: Opener,
    /// The ways to write it, by name.
    pub targets: &'static [Target],
}

/// How a format is recognised and opened.
#[derive(Clone, Copy, Debug)]
pub enum Opener {
    /// A trace is a file.
    File {
        /// Whether a file that begins with these bytes (up to 64) may be one.
        probe: fn(&[u8]) -> bool,
        /// Opens and indexes one.
        open: fn(Box<dyn ReadAt>) -> Opened,
    },
    /// A trace is a folder.
    Folder {
        /// Whether this folder may be one.
        probe: fn(&Path) -> bool,
        /// Opens and indexes one.
        open: fn(&Path) -> Opened,
    },
}

/// Every format, in the order of probing.
pub const FORMATS: &[Format] = &[
    xray::FORMAT,
    heph::FORMAT,
    htdump::FORMAT,
    entrace::FORMAT,
    tcstate::FORMAT,
    ctf::FORMAT,
    ring::FORMAT,
];

/// Every way to write a trace.
pub fn targets() -> impl Iterator<Item = &'static Target> {
    FORMATS.iter().flat_map(|format| format.targets)
}

/// The way to write a trace that has this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    targets().find(|target| target.name == name)
}

/// The format of the file that begins with these bytes; no more than 64 are looked at.
#[must_use]
pub fn of_file(head: &[u8]) -> Option<&'static Format> {
    let head = head.get(..64).unwrap_or(head);
    let fits = |opener: &Opener| matches!(opener, Opener::File { probe, .. } if probe(head));
    FORMATS.iter().find(|format| fits(&format.opener))
}

/// The format of a folder.
#[must_use]
pub fn of_folder(folder: &Path) -> Option<&'static Format> {
    let fits = |opener: &Opener| matches!(opener, Opener::Folder { probe, .. } if probe(folder));
    FORMATS.iter().find(|format| fits(&format.opener))
}

/// Opens a trace file of any known format.
///
/// # Errors
/// Where the file can't be read, or is no trace that the library knows.
pub fn open(bytes: Box<dyn ReadAt>) -> Opened {
    let mut head = [0; 64];
    let count = bytes.read_at(0, &mut head)?;
    let head = head.get(..count).unwrap_or(&[]);
    match of_file(head).map(|format| format.opener) {
        Some(Opener::File { open, .. }) => open(bytes),
        _ => Err(unknown_file(head)),
    }
}

/// Why the file that begins with these bytes is no trace that the library knows.
#[must_use]
pub fn unknown_file(head: &[u8]) -> Error {
    if head.is_empty() {
        return Error::NotATrace("the file is empty".into());
    }
    match ring::layout::other_version(head) {
        Some(what) => Error::NotATrace(what),
        None => unknown("file", |opener| matches!(opener, Opener::File { .. })),
    }
}

/// Opens a trace file or folder of any known format.
///
/// # Errors
/// As [`open`].
pub fn open_path(path: &Path) -> Opened {
    if !path.is_dir() {
        return open(Box::new(FileBytes::new(File::open(path)?)?));
    }
    match of_folder(path).map(|format| format.opener) {
        Some(Opener::Folder { open, .. }) => open(path),
        _ => Err(unknown("folder", |opener| {
            matches!(opener, Opener::Folder { .. })
        })),
    }
}

fn unknown(thing: &str, fits: impl Fn(&Opener) -> bool) -> Error {
    let known = FORMATS.iter().filter(|format| fits(&format.opener));
    let known: Vec<&str> = known.map(|format| format.title).collect();
    let known = known.join(", ");
    Error::NotATrace(format!(
        "not a trace {thing} that fdr knows (known: {known})"
    ))
}
