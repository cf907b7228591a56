//! Folders for temporary files, of which nothing is left behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A new folder for temporary files, removed with all that is in it when it goes out of scope.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes one, in memory where the system has such a place.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn new() -> io::Result<Folder> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fdr-fuzz-{}-{number}", std::process::id());
        let path = memory().join(name);
        fs::create_dir(&path)?;
        Ok(Folder(path))
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The folder for temporary files that is fastest.
fn memory() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        shared.to_owned()
    } else {
        std::env::temp_dir()
    }
}
