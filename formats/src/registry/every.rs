//! Every format. Must recognise a trace by its content, never by its name.

use std::fs::File;
use std::path::Path;

use super::{Format, Opened, Opener, RECORDED};
use crate::bytes::{FileBytes, ReadAt};
use crate::error::Error;
use crate::writer::Target;
use crate::{ctf, entrace, ring, tcstate};

/// Every format, in the order of probing.
pub const FORMATS: &[Format] = &[
    RECORDED[0],
    RECORDED[1],
    RECORDED[2],
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

/// Whether a target takes the states of threads. A writer counts the part of them that it leaves out.
#[must_use]
pub fn holds_states(target: &Target) -> bool {
    ["xray", "xray1", "ctf", "tcstate"].contains(&target.name)
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

#[cfg(test)]
mod tests {
    use super::super::{is_converted, recorded};
    use super::*;

    #[test]
    fn a_target_is_recorded_or_only_converted() {
        let is_recorded = |target: &Target| recorded().any(|known| known.name == target.name);
        for target in targets() {
            let is_converted = is_converted(&target.name.to_uppercase());
            assert_ne!(is_converted, is_recorded(target), "{}", target.name);
        }
        assert!(!is_converted("no-format"));
    }
}
