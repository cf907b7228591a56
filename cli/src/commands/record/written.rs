//! Finds the traces that a command wrote, and the rings that it left. Traces are the new or changed files and folders
//! in the places where its traces go.
//!
//! The command may have children that record too, and may dump many times. So a pattern such as `traces/%e.%p.%n.fdr`
//! stands for any number of files. A name alone does not make a file a trace.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fdr_formats::filter::is_match;
use fdr_formats::registry::{of_file, of_folder};

use crate::ring::Ring;

/// Files that are looked at; a folder may hold a great many others.
const MAX_FILES: usize = 100_000;

/// Device, inode, size and change time. If they are the same as before, the file or folder is the one that was there
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64, u64, i64, i64);

/// Where files are expected, and what was there before.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    /// Ways to them, as parts of a path with wildcards for what is not known.
    ways: Vec<Vec<Vec<u8>>>,
    absolute: bool,
    before: HashMap<PathBuf, Identity>,
}

impl Outputs {
    /// Looks for traces, before the command runs.
    pub(super) fn traces(pattern: &OsStr) -> Outputs {
        let itself = parts(pattern);
        let mut ways = Vec::new();
        if names_a_folder(pattern) {
            let mut within = itself.clone();
            within.push(b"*".to_vec());
            ways.push(within);
        }
        // If the folder exists, it may itself be a trace that the command replaces.
        if !pattern.as_bytes().ends_with(b"/") {
            ways.push(itself);
        }
        Outputs::before(ways, pattern)
    }

    /// Looks for rings, before the command runs: in `dir`, else where the traces go.
    pub(super) fn rings(pattern: &OsStr, dir: Option<&OsStr>) -> Outputs {
        // A folder's name has no placeholders.
        let plain = dir.map(doubled);
        let folder = plain.as_deref().unwrap_or(pattern);
        let mut parts = parts(folder);
        if dir.is_none() && !names_a_folder(pattern) {
            parts.pop();
        }
        parts.push(b"*.fdr-ring".to_vec());
        Outputs::before(vec![parts], folder)
    }

    fn before(ways: Vec<Vec<Vec<u8>>>, path: &OsStr) -> Outputs {
        let mut outputs = Outputs {
            ways,
            absolute: path.as_bytes().starts_with(b"/"),
            before: HashMap::new(),
        };
        outputs.before = outputs.now().into_iter().collect();
        outputs
    }

    /// Looks again: the traces that are new or have changed, the oldest first.
    pub(super) fn written(&self) -> Vec<PathBuf> {
        let mut new: Vec<(PathBuf, Identity)> = self
            .now()
            .into_iter()
            .filter(|(path, identity)| self.before.get(path) != Some(identity) && is_trace(path))
            .collect();
        new.sort_by(|(left, a), (right, b)| (a.3, a.4, left).cmp(&(b.3, b.4, right)));
        new.into_iter().map(|(path, _)| path).collect()
    }

    /// Looks again: the rings that were not there before.
    pub(super) fn leftover_rings(&self) -> Vec<(PathBuf, Ring)> {
        let new = |path: &PathBuf| !self.before.contains_key(path);
        let paths = self.now().into_iter().map(|(path, _)| path).filter(new);
        paths
            .filter_map(|path| Ring::read(&path).map(|ring| (path, ring)))
            .collect()
    }

    /// Regular files and folders that match.
    fn now(&self) -> Vec<(PathBuf, Identity)> {
        let mut paths = Vec::new();
        for parts in &self.ways {
            let mut way = vec![PathBuf::from(if self.absolute { "/" } else { "" })];
            for part in parts {
                way = way
                    .iter()
                    .flat_map(|path| matching(path, part))
                    .take(MAX_FILES)
                    .collect();
            }
            paths.append(&mut way);
        }
        let identity = |path: PathBuf| {
            let file = fs::metadata(&path).ok()?;
            if !file.is_file() && !file.is_dir() {
                return None;
            }
            let (seconds, nanos) = (file.mtime(), file.mtime_nsec());
            Some((
                path,
                Identity(file.dev(), file.ino(), file.len(), seconds, nanos),
            ))
        };
        paths.into_iter().filter_map(identity).collect()
    }
}

fn parts(pattern: &OsStr) -> Vec<Vec<u8>> {
    let parts = pattern.as_bytes().split(|&byte| byte == b'/');
    parts.filter(|part| !part.is_empty()).map(globbed).collect()
}

/// The path with each `%` written twice, because `%%` in a pattern stands for `%`.
fn doubled(path: &OsStr) -> OsString {
    let parts: Vec<&[u8]> = path.as_bytes().split(|&byte| byte == b'%').collect();
    OsString::from_vec(parts.join(&b"%%"[..]))
}

fn names_a_folder(pattern: &OsStr) -> bool {
    pattern.as_bytes().ends_with(b"/") || Path::new(pattern).is_dir()
}

/// A part of a pattern as wildcards: `%e`, `%p`, `%n` and `%t` may be anything.
fn globbed(part: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len());
    let mut bytes = part.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => match bytes.next() {
                Some(b'%') | None => out.push(b'%'),
                Some(_) => out.push(b'*'),
            },
            // A real star is a character like others.
            b'*' => out.push(b'?'),
            other => out.push(other),
        }
    }
    out
}

fn matching(folder: &Path, part: &[u8]) -> Vec<PathBuf> {
    if !part.contains(&b'*') && !part.contains(&b'?') {
        return vec![folder.join(OsStr::from_bytes(part))];
    }
    let open = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let Ok(entries) = fs::read_dir(open) else {
        return Vec::new();
    };
    let name = |entry: Result<fs::DirEntry, _>| entry.ok().map(|entry| entry.file_name());
    let names = entries
        .filter_map(name)
        .filter(|name| is_match(part.iter(), name.as_bytes().iter(), &b'*', &b'?'));
    names
        .take(MAX_FILES)
        .map(|name| folder.join(name))
        .collect()
}

fn is_trace(path: &Path) -> bool {
    if path.is_dir() {
        return of_folder(path).is_some();
    }
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    // A format that has no writer is that of rings, which the command names separately.
    read.is_ok() && of_file(&head).is_some_and(|format| !format.targets.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_wildcards() {
        assert_eq!(globbed(b"%e.%p.%n.fdr"), b"*.*.*.fdr");
        assert_eq!(globbed(b"100%%*"), b"100%?");
        assert_eq!(globbed(b"x%"), b"x%");
        assert_eq!(doubled(OsStr::new("a%e/100%")), "a%%e/100%%");
    }
}
