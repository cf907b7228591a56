//! The results and errors of the API, with and without the recorder compiled in.

use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, io};

/// A dump that was written. Counts are of records, of which a call has two.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// The trace: a file, or the address that it was sent to.
    pub path: PathBuf,
    /// Threads in it.
    pub threads: u64,
    /// Records in it.
    pub records: u64,
    /// Records that newer ones overwrote before the dump, [`Missing::overwritten`] included.
    pub overwritten: u64,
    /// Records that were never written, with [`Missing::dropped`]. Either no ring was left for the thread, or
    /// the ring was full in the mode `full`, or a signal handler interrupted another record.
    pub dropped: u64,
}

/// What was recorded so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Every thread whose records are still there.
    pub threads: Vec<ThreadStatistics>,
    /// Traced functions and events in the process.
    pub functions: u64,
    /// How many of them are on.
    pub functions_on: u64,
    /// Records of all other threads.
    pub missing: Missing,
}

/// Records of threads that are in no trace and in no thread of the statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// Threads that ended and whose rings were given to newer ones.
    pub threads: u64,
    /// All records of those threads. Newer threads overwrite them.
    pub overwritten: u64,
    /// Records of threads that had no ring.
    pub dropped: u64,
}

/// What one thread recorded so far: `recorded = readable + overwritten + dropped + summarised`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadStatistics {
    /// The kernel's id of the thread.
    pub id: u64,
    /// Its name, as the kernel keeps it: at most 15 bytes.
    pub name: String,
    /// The thread has ended.
    pub ended: bool,
    /// Records that were asked for.
    pub recorded: u64,
    /// Records that a dump would hold.
    pub readable: u64,
    /// Records that were overwritten by newer ones.
    pub overwritten: u64,
    /// Records that were never written.
    pub dropped: u64,
    /// Records of calls that left none, because they were short (`FDR_KEEP`).
    pub summarised: u64,
    /// How often the clock went back, because the clocks of CPUs disagree or a clock was reset.
    pub clock_steps: u64,
}

/// Why a call of the API did not do what was asked. Each says what to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Error {
    /// A variable of the environment, a value of [`Config`](crate::Config) or a filter is not valid. The text
    /// names each of them and the accepted values.
    Configuration(String),
    /// There is nothing to dump. The text says why.
    NothingRecorded(String),
    /// The recorder can't be brought up, or the trace can't be written.
    Failed(Failure),
    /// The program was built without the recorder (`default-features = false`).
    CompiledOut,
}

/// A failure. It prints what failed and what to do. The system's error is its source.
#[derive(Clone, Debug)]
pub struct Failure {
    pub(crate) what: String,
    pub(crate) remedy: String,
    pub(crate) cause: Option<Arc<io::Error>>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.remedy.as_str() {
            "" => f.write_str(&self.what),
            remedy => write!(f, "{}; {remedy}", self.what),
        }
    }
}

impl std::error::Error for Failure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let cause = self.cause.as_deref()?;
        Some(cause)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Configuration(why) => f.write_str(why),
            Error::NothingRecorded(why) => write!(f, "nothing was recorded: {why}"),
            Error::Failed(failure) => write!(f, "{failure}"),
            Error::CompiledOut => {
                f.write_str("built without the recorder: enable the feature `record` of fdr")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Failed(failure) => failure.source(),
            _ => None,
        }
    }
}

/// Two errors are equal if their kinds, their messages and the messages of their causes are equal.
impl PartialEq for Error {
    fn eq(&self, other: &Error) -> bool {
        use std::error::Error as _;
        let cause = |error: &Error| error.source().map(|cause| cause.to_string());
        core::mem::discriminant(self) == core::mem::discriminant(other)
            && self.to_string() == other.to_string()
            && cause(self) == cause(other)
    }
}

impl Eq for Error {}

#[cfg(all(feature = "record", target_os = "linux"))]
impl<T: Into<String>> From<T> for Failure {
    fn from(what: T) -> Failure {
        Failure {
            what: what.into(),
            remedy: String::new(),
            cause: None,
        }
    }
}

#[cfg(all(feature = "record", target_os = "linux"))]
impl Failure {
    #[inline(never)]
    pub(crate) fn new(what: &str, remedy: &str, cause: Option<io::Error>) -> Failure {
        Failure {
            what: what.to_owned(),
            remedy: remedy.to_owned(),
            cause: cause.map(Arc::new),
        }
    }

    /// The error on one line, for people: the fault, the system's message, and a remedy.
    pub(crate) fn in_full(&self) -> String {
        let cause = self.cause.as_ref();
        let cause = cause.map_or(String::new(), |cause| format!(": {cause}"));
        let remedy = match self.remedy.as_str() {
            "" => String::new(),
            remedy => format!("; {remedy}"),
        };
        format!("{}{cause}{remedy}", self.what)
    }
}

#[cfg(all(feature = "record", target_os = "linux"))]
impl Error {
    /// A failure that the system has no part in.
    #[inline(never)]
    pub(crate) fn failed(what: &str, remedy: &str) -> Error {
        Error::Failed(Failure::new(what, remedy, None))
    }
}
