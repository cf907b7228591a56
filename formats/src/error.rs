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
