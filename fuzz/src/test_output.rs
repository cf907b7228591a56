//! Places that a target writes to and a reader reads from, whatever kind the target wants. Nothing of
//! them is left behind.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use fdr_formats::bytes::{FileBytes, ReadAt};
use fdr_formats::registry::{self, Opened};
use fdr_formats::writer::{Kind, Output};

use super::folder::Folder;

/// Where a target writes to.
pub(crate) enum TestOutput {
    /// A stream.
    Bytes(Arc<Mutex<Vec<u8>>>),
    /// A file without a name.
    File(File),
    /// A folder.
    Folder(Folder),
}

impl TestOutput {
    /// One that fits a target.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn new(kind: Kind) -> io::Result<TestOutput> {
        Ok(match kind {
            Kind::Stream => TestOutput::Bytes(Arc::default()),
            Kind::File => TestOutput::File(unnamed()?),
            Kind::Folder => TestOutput::Folder(Folder::new()?),
        })
    }

    /// The place as the target takes it.
    ///
    /// # Errors
    /// What the operating system says.
    pub(crate) fn output(&self) -> io::Result<Output> {
        Ok(match self {
            TestOutput::Bytes(bytes) => Output::Stream(Box::new(Shared(bytes.clone()))),
            TestOutput::File(file) => Output::File(file.try_clone()?),
            TestOutput::Folder(folder) => Output::Folder(folder.path().to_owned()),
        })
    }

    /// Opens what was written, recognised by its content.
    ///
    /// # Errors
    /// Those of [`registry::open_path`].
    pub(crate) fn open(&self) -> Opened {
        let bytes: Box<dyn ReadAt> = match self {
            TestOutput::Bytes(bytes) => {
                let bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                Box::new(bytes.clone())
            }
            TestOutput::File(file) => Box::new(FileBytes::new(file.try_clone()?)?),
            TestOutput::Folder(folder) => return registry::open_path(folder.path()),
        };
        registry::open(bytes)
    }
}

/// A file without a name, empty.
fn unnamed() -> io::Result<File> {
    let folder = Folder::new()?;
    let path = folder.path().join("file");
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).open(path)
}

/// Bytes that the writer writes and the reader takes.
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
