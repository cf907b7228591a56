//! The writing side: a [`Writer`] is a sink that makes a trace, a [`Target`] is a name by which one is
//! asked for (`fdr convert --to`, `FDR_FORMAT`). Nothing in here knows any format's layout.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::Error;
use crate::model::{Function, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};

/// A sink that writes a trace. Events come in order per thread; threads come one after the other or
/// in turns. A thread that comes again with counts replaces the counts that it had.
///
/// Errors of the output are kept and returned by [`Writer::finish`]; what comes after one is dropped.
pub trait Writer: Sink + Send {
    /// Functions that were not in the trace's info: they come before their first call.
    fn functions(&mut self, more: &[Function]);

    /// Hands over to the output what a reader can take already.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    fn flush(&mut self) -> Result<(), Error>;

    /// What a reader needs that joins in the middle, before it gets anything that is written from
    /// here on. `None`: the format can't be joined in the middle.
    ///
    /// A writer whose records refer to earlier ones by their place forgets those: it then serves
    /// the new reader only.
    fn restart(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// The moment of the trace's end, where it is known only now: calls that are open last until then. Nothing but
    /// [`Writer::finish`] may follow.
    fn end(&mut self, end: Ticks);

    /// Completes the trace; returns what the target could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    fn finish(self: Box<Self>) -> Result<Losses, Error>;
}

/// Where a trace goes.
pub enum Output {
    /// An empty file, open for reading and writing.
    File(File),
    /// A pipe, a socket, memory: can't be read back, and somebody may be reading already.
    Stream(Box<dyn Write + Send>),
    /// A folder that exists and is empty.
    Folder(PathBuf),
}

/// A writer that was begun, or why not.
pub type Begun = Result<Box<dyn Writer>, Error>;

/// What a target needs for an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A stream; a file will do as well.
    Stream,
    /// A folder.
    Folder,
}

/// A way to write a trace.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name by which it is asked for: `htdump-be`.
    pub name: &'static str,
    /// What it is, for people: `HawkTracer HTDUMP, big-endian`.
    pub title: &'static str,
    /// The end of a file's or folder's name, without the dot.
    pub extension: &'static str,
    /// What it needs.
    pub kind: Kind,
    /// A file gets the bytes that a stream would get.
    pub file_as_stream: bool,
    /// Begins a trace. `info` gives clock, program, and the functions that are known so far; its
    /// threads are not looked at: they come to the sink.
    pub create: fn(Output, &TraceInfo) -> Begun,
}

impl Output {
    /// The file; an error if it is none.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::InvalidInput`].
    pub fn into_file(self) -> io::Result<File> {
        match self {
            Output::File(file) => Ok(file),
            Output::Stream(_) | Output::Folder(_) => Err(unfit("a regular file")),
        }
    }

    /// Something to write to; an error if it is a folder.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::InvalidInput`].
    pub fn into_stream(self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Output::File(file) => Ok(Box::new(file)),
            Output::Stream(stream) => Ok(stream),
            Output::Folder(_) => Err(unfit("a file or a stream")),
        }
    }

    /// The folder; an error if it is none.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::InvalidInput`].
    pub fn into_folder(self) -> io::Result<PathBuf> {
        match self {
            Output::Folder(folder) => Ok(folder),
            Output::File(_) | Output::Stream(_) => Err(unfit("a folder")),
        }
    }
}

/// Tells the first error that a writer met, if any. The error stays one for who asks again.
pub(crate) fn tell_kept(kept: &mut Option<io::Error>) -> io::Result<()> {
    let Some(error) = kept.take() else {
        return Ok(());
    };
    // `io::Error` can't be cloned.
    *kept = Some(io::Error::new(error.kind(), error.to_string()));
    Err(error)
}

fn unfit(wanted: &str) -> io::Error {
    let what = format!("this format is written to {wanted}");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_told_as_often_as_somebody_asks() {
        let mut kept = None;
        assert!(tell_kept(&mut kept).is_ok());
        kept = Some(io::Error::new(io::ErrorKind::StorageFull, "no space"));
        for _ in 0..3 {
            let error = tell_kept(&mut kept).expect_err("the error that is kept");
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(error.to_string(), "no space");
        }
    }
}
