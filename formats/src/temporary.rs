//! Files for this process alone, in the folder for temporary files, for data that does not fit in memory. Such a file
//! has no name, so it disappears when it is closed, even if the process is killed. A few file systems don't support
//! files without names: there the file has a name for a moment.

use std::fs::File;
use std::io;

/// A file for this process alone. It is gone when it is closed.
pub(crate) fn unlinked() -> io::Result<File> {
    tempfile::tempfile().map_err(about)
}

/// An error of such a file: its place, and what to do.
pub(crate) fn about(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let what = format!(
        "{}: {error} (TMPDIR chooses another folder)",
        folder.display()
    );
    io::Error::new(error.kind(), what)
}
