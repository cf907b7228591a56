//! The one list of formats. It must recognise a trace by its content, never by its name.

#[cfg(feature = "read")]
use std::fs::File;
use std::path::Path;

#[cfg(feature = "read")]
use crate::bytes::{FileBytes, ReadAt};
#[cfg(feature = "ctf")]
use crate::ctf;
#[cfg(feature = "entrace")]
use crate::entrace;
#[cfg(feature = "read")]
use crate::error::Error;
#[cfg(feature = "read")]
pub use crate::format::Opened;
pub use crate::format::{Format, Opener};
use crate::heph;
use crate::htdump;
#[cfg(feature = "read")]
use crate::ring;
#[cfg(feature = "tcstate")]
use crate::tcstate;
use crate::text;
use crate::writer::Target;
use crate::xray;

/// Every format, in the order of probing.
pub const FORMATS: &[Format] = &[
    xray::FORMAT,
    heph::FORMAT,
    htdump::FORMAT,
    #[cfg(feature = "entrace")]
    entrace::FORMAT,
    #[cfg(feature = "tcstate")]
    tcstate::FORMAT,
    #[cfg(feature = "ctf")]
    ctf::FORMAT,
    #[cfg(feature = "read")]
    ring::FORMAT,
];

/// Whether any trace is a folder. Code for folders is left out of a program whose formats are files.
pub const HAS_FOLDERS: bool = has_folders();

const fn has_folders() -> bool {
    let mut at = 0;
    while at < FORMATS.len() {
        if matches!(FORMATS[at].opener, Opener::Folder { .. }) {
            return true;
        }
        at += 1;
    }
    false
}

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

/// Features that bring formats, and the names of their targets.
const FEATURES: [(&str, &[&str]); 3] = [
    ("ctf", &["ctf"]),
    (
        "entrace",
        &["et", "iet", "iet-prefix", "et2", "iet2", "iet-prefix2"],
    ),
    ("tcstate", &["tcstate"]),
];

/// The feature that brings the target of this name, in upper or lower case. `None` where that target is here, and where
/// no feature has it.
#[must_use]
pub fn missing_feature(name: &str) -> Option<&'static str> {
    let same = |known: &str| text::same_word(known, name);
    let mut features = FEATURES.iter();
    let (feature, _) = features.find(|(_, names)| names.iter().any(|known| same(known)))?;
    let has = |format: &Format| format.targets.iter().any(|target| same(target.name));
    (!FORMATS.iter().any(has)).then_some(*feature)
}

#[cfg(feature = "read")]
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

#[cfg(feature = "read")]
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

#[cfg(feature = "read")]
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

#[cfg(feature = "read")]
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

#[cfg(feature = "read")]
fn unknown(thing: &str, fits: impl Fn(&Opener) -> bool) -> Error {
    let known = FORMATS.iter().filter(|format| fits(&format.opener));
    let known: Vec<&str> = known.map(|format| format.title).collect();
    let known = known.join(", ");
    Error::NotATrace(format!(
        "not a trace {thing} that fdr knows (known: {known})"
    ))
}

#[cfg(all(test, feature = "read"))]
mod tests {
    use super::*;

    #[test]
    fn each_feature_names_the_targets_of_its_format() {
        for (feature, names) in FEATURES {
            let targets = FORMATS.iter().filter(|format| format.name == feature);
            let targets: Vec<&str> = targets
                .flat_map(|format| format.targets)
                .map(|target| target.name)
                .collect();
            assert_eq!(targets, names, "{feature}");
        }
        assert!(targets().all(|target| missing_feature(target.name).is_none()));
        assert_eq!(missing_feature("no-format"), None);
    }
}
