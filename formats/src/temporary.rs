//! Files for this process alone, in the folder for temporary files, for data that does not fit in memory.
//! Must never leave a file behind. A process that is killed between the making of a file and its removal
//! from the folder leaves one. A caller that must prevent that too gives its own maker of files.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a file without a name, to be written and read.
pub type Maker = fn() -> io::Result<File>;

static MAKER: OnceLock<Maker> = OnceLock::new();

/// Has all files made so from here on: by a program that removes its files when a signal ends it. The first
/// call counts.
pub fn made_by(maker: Maker) {
    let _ = MAKER.set(maker);
}

/// A file for this process alone, which is gone when it is closed.
pub(crate) fn unlinked() -> io::Result<File> {
    let maker = MAKER.get().copied().unwrap_or(create);
    maker().map_err(about)
}

/// An error of such a file: where it is, and what to do.
pub(crate) fn about(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let what = format!(
        "{}: {error} (TMPDIR chooses another folder)",
        folder.display()
    );
    io::Error::new(error.kind(), what)
}

fn create() -> io::Result<File> {
    // One that a killed process of the same number left, or another container's, may be in the way.
    const TRIES: usize = 100;
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut tries = 1;
    loop {
        // Relaxed: only the number must be unique.
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("fdr-spool-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path);
        match file {
            Ok(file) => {
                std::fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries < TRIES => {
                tries += 1;
            }
            Err(error) => return Err(error),
        }
    }
}
