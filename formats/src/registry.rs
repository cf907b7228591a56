//! The one list of formats. A trace is recognised by its content, never by its name.

use std::fs::File;
use std::path::Path;

use crate::bytes::{FileBytes, ReadAt};
use crate::error::Error;
use crate::source::Source;
use crate::xray;

/// Opens and indexes a trace.
pub type Open = fn(Box<dyn ReadAt>) -> Result<Box<dyn Source>, Error>;

/// A format that the library knows.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// Its short name: `xray`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Whether a file that begins with these bytes (up to 64) may be one.
    pub probe: fn(&[u8]) -> bool,
    /// Opens and indexes one.
    pub open: Open,
}

/// Every format, in the order of probing.
pub const FORMATS: &[Format] = &[xray::FORMAT];

/// Opens a trace of any known format.
///
/// # Errors
/// Where the file can't be read, or is no trace that the library knows.
pub fn open(bytes: Box<dyn ReadAt>) -> Result<Box<dyn Source>, Error> {
    let mut head = [0; 64];
    let count = bytes.read_at(0, &mut head)?;
    let head = head.get(..count).unwrap_or(&[]);
    for format in FORMATS {
        if (format.probe)(head) {
            return (format.open)(bytes);
        }
    }
    if head.is_empty() {
        return Err(Error::NotATrace("the file is empty".into()));
    }
    let known: Vec<&str> = FORMATS.iter().map(|format| format.title).collect();
    let what = format!("not a trace that fdr knows (known: {})", known.join(", "));
    Err(Error::NotATrace(what))
}

/// Opens a trace file of any known format.
///
/// # Errors
/// As [`open`].
pub fn open_file(path: &Path) -> Result<Box<dyn Source>, Error> {
    open(Box::new(FileBytes::new(File::open(path)?)?))
}
