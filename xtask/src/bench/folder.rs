//! Folders for what measured programs write, where others may write too (`/dev/shm`): nobody can have foreseen
//! the name, nobody else can look in, and it is gone at the end. It must never use one that is there already.

use std::cell::Cell;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Result;

/// Names that are tried: that one is taken is an accident already.
const TRIES: u32 = 8;

/// A folder of this process alone, with what is in it.
pub(crate) struct Private {
    path: PathBuf,
    /// How many were made in it.
    made: Cell<u32>,
}

impl Private {
    /// Makes one in `parent`.
    ///
    /// # Errors
    ///
    /// If it can't be made.
    pub(crate) fn new(parent: &Path) -> Result<Private> {
        let mut tries = 0;
        loop {
            // Keyed by the system's random numbers, anew each time.
            let random = RandomState::new().hash_one(tries);
            let path = parent.join(format!("fdr-bench-{random:016x}"));
            tries += 1;
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {
                    let made = Cell::new(0);
                    return Ok(Private { path, made });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {}
                Err(error) => return Err(format!("cannot make {}: {error}", path.display())),
            }
        }
    }

    /// In memory where the system has such a place, so that no disk is measured; otherwise in `otherwise`.
    ///
    /// # Errors
    ///
    /// If it can't be made.
    pub(crate) fn in_memory(otherwise: &Path) -> Result<Private> {
        let memory = Path::new("/dev/shm");
        Private::new(if memory.is_dir() { memory } else { otherwise })
    }

    /// A new folder in it. Those before are removed, but for what a dying process still writes.
    ///
    /// # Errors
    ///
    /// If it can't be made.
    pub(crate) fn fresh(&self) -> Result<PathBuf> {
        self.empty();
        self.made.set(self.made.get() + 1);
        let path = self.path.join(self.made.get().to_string());
        fs::create_dir(&path)
            .map_err(|error| format!("cannot make {}: {error}", path.display()))?;
        Ok(path)
    }

    /// Removes what is in it, as far as that can be.
    pub(crate) fn empty(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_ours_alone_and_gone_at_the_end() {
        let parent = crate::process::work_folder("folder-test").expect("a folder");
        let [one, other] = [(); 2].map(|()| Private::new(&parent).expect("a folder"));
        assert_ne!(one.path, other.path);
        let mode = fs::metadata(&one.path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o700);
        let first = one.fresh().expect("a folder");
        fs::write(first.join("x"), "x").expect("a file");
        let second = one.fresh().expect("a folder");
        assert!(!first.exists() && second.is_dir());
        let path = one.path.clone();
        drop(one);
        assert!(!path.exists() && other.path.exists());
    }

    #[test]
    fn where_there_can_be_none_the_error_names_it() {
        let error = Private::new(Path::new("/dev/null"))
            .map(drop)
            .expect_err("no folder");
        assert!(error.contains("/dev/null/fdr-bench-"), "{error}");
    }
}
