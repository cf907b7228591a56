//! The writing side. A [`Writer`] is a sink that makes a trace. A [`Target`] is a name by which a user asks for a
//! writer (`fdr convert --to`, `FDR_FORMAT`).

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, Ticks, TraceInfo};
use crate::packed::Packed;
use crate::sink::{Losses, Sink};

/// A sink that writes a trace. Events come in order per thread. Threads come one after the other or in
/// turns. A thread that comes again with counts replaces its earlier counts.
///
/// The writer keeps an error of the output and drops everything after it. [`Writer::finish`] returns the
/// error.
///
/// The methods with a default are for traces that are written while they are recorded. The writers of the recorder's
/// formats have them.
pub trait Writer: Sink + Send {
    /// Functions that the trace's info did not have. They come before their first call.
    fn functions(&mut self, _more: &[Function]) {}

    /// Hands over to the output everything that a reader can take already.
    ///
    /// # Errors
    /// The first error, of now or before.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    /// The bytes that a new reader needs first if it joins in the middle. `None`: the format can't be
    /// joined in the middle.
    ///
    /// Some writers have records that refer to earlier ones by their place. Such a writer forgets the
    /// earlier ones, and serves the new reader only.
    fn restart(&mut self) -> Option<Vec<u8>> {
        None
    }

    /// The moment of the trace's end, if it is known only now. Open calls last until then. Only
    /// [`Writer::finish`] may follow.
    fn end(&mut self, _end: Ticks) {}

    /// Completes the trace; returns the losses.
    ///
    /// # Errors
    /// The first error, of now or before.
    fn finish(self: Box<Self>) -> Result<Losses, Error>;
}

/// The writer as a sink. (From Rust 1.86 on the compiler converts a writer to a sink.)
impl Sink for Box<dyn Writer> {
    fn thread(&mut self, thread: &Thread) {
        (**self).thread(thread);
    }

    fn calls(&mut self, calls: &[Call]) {
        (**self).calls(calls);
    }

    fn packed(&mut self, packed: &Packed<'_>) {
        (**self).packed(packed);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        (**self).mark(mark);
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        (**self).diagnostic(diagnostic);
    }
}

/// Where a trace goes.
pub enum Output {
    /// An empty file, open for reading and writing.
    File(File),
    /// A pipe, a socket or memory. It can't be read back, and another program may already read it.
    Stream(Box<dyn Write + Send>),
    /// A folder that exists and is empty.
    Folder(PathBuf),
}

/// A writer that has begun, or the reason why there is none.
pub type WriterResult = Result<Box<dyn Writer>, Error>;

/// The kind of output that a target needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A stream; a file is allowed too.
    Stream,
    /// A folder.
    Folder,
}

/// A way to write a trace.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name by which a user asks for it: `htdump-be`.
    pub name: &'static str,
    /// Its title, for people: `HawkTracer HTDUMP, big-endian`.
    pub title: &'static str,
    /// The extension of a file's or folder's name, without the dot.
    pub extension: &'static str,
    /// The kind of output that it needs.
    pub kind: Kind,
    /// A file gets the same bytes as a stream.
    pub file_as_stream: bool,
    /// Begins a trace. `info` gives the clock, the program, and the functions known so far. Its threads
    /// are ignored, because threads come to the sink.
    pub create: fn(Output, &TraceInfo) -> WriterResult,
}

impl Output {
    /// The file; an error for any other output.
    ///
    /// # Errors
    /// Of kind [`io::ErrorKind::InvalidInput`].
    pub fn into_file(self) -> io::Result<File> {
        match self {
            Output::File(file) => Ok(file),
            Output::Stream(_) | Output::Folder(_) => Err(unfit("a regular file")),
        }
    }

    /// The output as a stream of bytes; an error for a folder.
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

    /// The folder; an error for any other output.
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

/// Bytes on their way to a stream. The first error is kept, and all bytes after it are dropped.
pub(crate) struct BufferedOutput<W: Write> {
    out: W,
    pub(crate) bytes: Vec<u8>,
    failed: Option<io::Error>,
}

impl<W: Write> BufferedOutput<W> {
    /// Bytes that are collected before they are written.
    const SIZE: usize = 64 * 1024;

    pub(crate) fn new(out: W) -> BufferedOutput<W> {
        BufferedOutput {
            out,
            bytes: Vec::with_capacity(2 * Self::SIZE),
            failed: None,
        }
    }

    /// Writes the collected bytes, if they are many.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if self.bytes.len() >= Self::SIZE {
            self.write();
        }
    }

    #[cold]
    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.bytes).err();
        }
        self.bytes.clear();
        // After a large payload.
        self.bytes.shrink_to(4 * Self::SIZE);
    }

    /// Writes all bytes.
    ///
    /// # Errors
    /// The first error, of now or before. Further calls return it again.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.write();
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        let Some(error) = self.failed.take() else {
            return Ok(());
        };
        // `io::Error` can't be cloned.
        self.failed = Some(io::Error::new(error.kind(), format!("{error}")));
        Err(error.into())
    }
}

fn unfit(kind: &str) -> io::Error {
    let what = format!("this format is written to {kind}");
    io::Error::new(io::ErrorKind::InvalidInput, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_returned_on_every_call() {
        let full = std::fs::File::options().write(true).open("/dev/full");
        let mut output = BufferedOutput::new(full.expect("a device that is full"));
        assert!(output.flush().is_ok());
        output.bytes.push(7);
        for _ in 0..3 {
            let error = output.flush().expect_err("the error that is kept");
            assert!(error.to_string().contains("No space left"), "{error}");
        }
    }
}
