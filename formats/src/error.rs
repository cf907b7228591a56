//! Errors (nothing can be read or written) and diagnostics (something was wrong, reading went on).

use std::{fmt, io};

/// Why a trace can't be read or written.
#[derive(Debug)]
pub enum Error {
    /// The operating system refused a request.
    Io(io::Error),
    /// The file is no trace that the library knows; the text says what the file is.
    NotATrace(String),
    /// The bytes break the rules of their format.
    Format {
        /// Byte offset in the file.
        offset: u64,
        /// The fault, and what to do.
        what: String,
    },
}

impl Error {
    /// A format error at a byte offset.
    #[must_use]
    pub fn format(offset: u64, what: impl Into<String>) -> Error {
        Error::Format {
            offset,
            what: what.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io(error) => write!(f, "{error}"),
            Error::NotATrace(what) => f.write_str(what),
            Error::Format { offset, what } => write!(f, "at byte {offset}: {what}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // `Display` shows its text already.
            Error::Io(error) => error.source(),
            Error::NotATrace(_) | Error::Format { .. } => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Error::Io(error)
    }
}

/// A fault in a trace, and what the reader did about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Byte offset in the file.
    pub offset: u64,
    /// The fault, and what was done.
    pub what: String,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// Counts the faults of a trace. Only as many are shown as a person reads.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticCount {
    count: u64,
    /// The place of the last one that is shown.
    last: u64,
}

impl DiagnosticCount {
    const MAX: u64 = 100;

    /// Counts a fault. Whether it is shown.
    pub(crate) fn shows(&mut self, offset: u64) -> bool {
        self.count += 1;
        let shows = self.count <= DiagnosticCount::MAX;
        if shows {
            self.last = offset;
        }
        shows
    }

    /// A line for those that are not shown.
    pub(crate) fn rest(&self) -> Option<Diagnostic> {
        let rest = self.count.saturating_sub(DiagnosticCount::MAX);
        (rest > 0).then(|| Diagnostic {
            offset: self.last,
            what: format!("{rest} more problems are not listed"),
        })
    }
}

/// The faults of a trace that are shown.
#[derive(Debug, Default)]
pub(crate) struct DiagnosticList {
    list: Vec<Diagnostic>,
    count: DiagnosticCount,
}

impl DiagnosticList {
    pub(crate) fn add(&mut self, offset: u64, what: impl Into<String>) {
        if self.count.shows(offset) {
            let what = what.into();
            self.list.push(Diagnostic { offset, what });
        }
    }

    /// One in a file of a folder. `offset` is the byte in that file.
    pub(crate) fn add_in(&mut self, file: &str, offset: u64, what: &str) {
        self.add(offset, format!("{file}: {what}"));
    }

    /// All, with a line for those that are not shown.
    pub(crate) fn finish(mut self) -> Vec<Diagnostic> {
        self.list.extend(self.count.rest());
        self.list
    }
}
