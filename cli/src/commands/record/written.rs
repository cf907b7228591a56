//! Finds the traces that a command wrote: files where its traces go that are new or have changed.
//!
//! The command may have children that record too, and may dump many times, so a pattern such as
//! `traces/%e.%p.%n.fdr` stands for any number of files. Nothing is taken for a trace by its name
//! alone.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fdr_formats::registry::FORMATS;

use crate::glob;

/// Files that are looked at; a folder may hold a great many others.
const MOST: usize = 100_000;

/// A trace file that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trace {
    pub(super) path: PathBuf,
    pub(super) size: u64,
}

/// What tells a file from the one that was there before: device, inode, size, change time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity(u64, u64, u64, i64, i64);

/// Where traces go, and what was there before.
#[derive(Debug)]
pub(super) struct Outputs {
    /// Parts of the path, with wildcards for what is not known.
    parts: Vec<Vec<u8>>,
    absolute: bool,
    before: HashMap<PathBuf, Identity>,
}

impl Outputs {
    /// Looks before the command runs.
    pub(super) fn before(pattern: &OsStr) -> Outputs {
        let bytes = pattern.as_bytes();
        let mut parts: Vec<Vec<u8>> = bytes
            .split(|&byte| byte == b'/')
            .filter(|part| !part.is_empty())
            .map(globbed)
            .collect();
        if bytes.ends_with(b"/") || Path::new(pattern).is_dir() {
            parts.push(b"*".to_vec());
        }
        let mut outputs = Outputs {
            parts,
            absolute: bytes.starts_with(b"/"),
            before: HashMap::new(),
        };
        outputs.before = outputs.now().into_iter().collect();
        outputs
    }

    /// Looks again: the traces that are new or have changed, the oldest first.
    pub(super) fn written(&self) -> Vec<Trace> {
        let mut new: Vec<(PathBuf, Identity)> = self
            .now()
            .into_iter()
            .filter(|(path, identity)| self.before.get(path) != Some(identity) && is_trace(path))
            .collect();
        new.sort_by(|(left, a), (right, b)| (a.3, a.4, left).cmp(&(b.3, b.4, right)));
        new.into_iter()
            .map(|(path, identity)| Trace {
                path,
                size: identity.2,
            })
            .collect()
    }

    /// Regular files that match.
    fn now(&self) -> Vec<(PathBuf, Identity)> {
        let mut paths = vec![PathBuf::from(if self.absolute { "/" } else { "" })];
        for part in &self.parts {
            paths = paths
                .iter()
                .flat_map(|path| matching(path, part))
                .take(MOST)
                .collect();
        }
        let identity = |path: PathBuf| {
            let file = fs::metadata(&path).ok().filter(|file| file.is_file())?;
            let (seconds, nanos) = (file.mtime(), file.mtime_nsec());
            Some((
                path,
                Identity(file.dev(), file.ino(), file.len(), seconds, nanos),
            ))
        };
        paths.into_iter().filter_map(identity).collect()
    }
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
        .filter(|name| glob::matches(part, name.as_bytes()));
    names.take(MOST).map(|name| folder.join(name)).collect()
}

fn is_trace(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && FORMATS.iter().any(|format| (format.probe)(&head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_wildcards() {
        assert_eq!(globbed(b"%e.%p.%n.fdr"), b"*.*.*.fdr");
        assert_eq!(globbed(b"100%%*"), b"100%?");
        assert_eq!(globbed(b"x%"), b"x%");
    }
}
