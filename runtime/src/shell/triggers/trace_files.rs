//! The files of this process's triggered dumps, and the bound on them (`FDR_OUT_MOST`).

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use fdr_formats::trigger::OutMost;

use crate::messages;

/// One of them.
struct Trace {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
    bytes: u64,
}

/// The oldest first.
pub(super) struct TraceFiles(Vec<Trace>);

impl TraceFiles {
    pub(super) const fn new() -> TraceFiles {
        TraceFiles(Vec::new())
    }

    /// Adds the newest trace, and removes the oldest traces beyond the limit. A path without a file is ignored.
    pub(super) fn add(&mut self, path: &Path, most: OutMost) {
        let Ok(known) = fs::symlink_metadata(path) else {
            return;
        };
        if !known.is_file() {
            return;
        }
        // A name without a number belongs to the newest trace alone.
        let is_same = |other: &Trace| other.path.as_os_str() == path.as_os_str();
        if let Some(at) = self.0.iter().position(is_same) {
            self.0.remove(at);
        }
        self.0.push(Trace {
            path: path.to_owned(),
            identity: identity(&known),
            bytes: known.len(),
        });
        while self.is_too_much(most) {
            self.0.remove(0).remove();
        }
    }

    fn is_too_much(&self, most: OutMost) -> bool {
        let bytes: u64 = self.0.iter().map(|trace| trace.bytes).sum();
        let files = self.0.len() as u64;
        files > 1 && (files > most.files || bytes > most.bytes)
    }
}

impl Trace {
    fn remove(&self) {
        let path = &self.path;
        let known = fs::symlink_metadata(path);
        if !known.is_ok_and(|known| identity(&known) == self.identity) {
            return;
        }
        match fs::remove_file(path) {
            Ok(()) => messages::info(format_args!("removed {} (FDR_OUT_MOST)", path.display())),
            Err(error) => messages::info(format_args!("{}: {error}", path.display())),
        }
    }
}

fn identity(known: &Metadata) -> (u64, u64) {
    (known.dev(), known.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys;

    fn folder() -> PathBuf {
        let name = format!("fdr-kept-{:016x}", sys::process::random());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a folder");
        folder
    }

    fn left(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder");
        let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        let mut left: Vec<String> = entries
            .map(|entry| name(entry.expect("an entry")))
            .collect();
        left.sort();
        left
    }

    const FILES: OutMost = OutMost {
        files: 2,
        bytes: u64::MAX,
    };

    #[test]
    fn the_oldest_files_go_first() {
        let (folder, mut kept) = (folder(), TraceFiles::new());
        fs::write(folder.join("of another"), "x").expect("written");
        for number in 0..5 {
            let path = folder.join(number.to_string());
            fs::write(&path, "x").expect("written");
            kept.add(&path, FILES);
        }
        assert_eq!(left(&folder), ["3", "4", "of another"]);
        // A name that each dump replaces is one file.
        for _ in 0..3 {
            kept.add(&folder.join("4"), FILES);
        }
        kept.add(Path::new("/dev/null"), FILES);
        kept.add(&folder.join("never written"), FILES);
        assert_eq!(left(&folder), ["3", "4", "of another"]);
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn bytes_are_bounded_and_the_newest_trace_stays() {
        let (folder, mut kept) = (folder(), TraceFiles::new());
        let most = OutMost {
            files: u64::MAX,
            bytes: 10,
        };
        for (number, bytes) in [(0, 4), (1, 4), (2, 4), (3, 100), (4, 3), (5, 7)] {
            let path = folder.join(number.to_string());
            fs::write(&path, vec![0; bytes]).expect("written");
            kept.add(&path, most);
            let left = left(&folder);
            let wanted: &[&str] = match number {
                0 => &["0"],
                1 => &["0", "1"],
                2 => &["1", "2"],
                3 => &["3"],
                4 => &["4"],
                _ => &["4", "5"],
            };
            assert_eq!(left, wanted);
        }
        fs::remove_dir_all(folder).expect("removed");
    }

    #[test]
    fn a_file_that_was_replaced_stays() {
        let (folder, mut kept) = (folder(), TraceFiles::new());
        for number in 0..2 {
            let path = folder.join(number.to_string());
            fs::write(&path, "ours").expect("written");
            kept.add(&path, FILES);
        }
        let theirs = folder.join("theirs");
        fs::write(&theirs, "theirs").expect("written");
        fs::rename(&theirs, folder.join("0")).expect("renamed");
        for number in 2..4 {
            let path = folder.join(number.to_string());
            fs::write(&path, "ours").expect("written");
            kept.add(&path, FILES);
        }
        assert_eq!(left(&folder), ["0", "2", "3"]);
        fs::remove_dir_all(folder).expect("removed");
    }
}
