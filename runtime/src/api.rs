//! What the API's calls return, with and without the recorder compiled in.

use std::fmt;
use std::path::PathBuf;

/// A dump that was written. Counts are of records, of which a call has two.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dump {
    /// The trace: a file, a folder, or the address that it was sent to.
    pub path: PathBuf,
    /// Threads in it.
    pub threads: u64,
    /// Records in it.
    pub records: u64,
    /// Records that were overwritten by newer ones before the dump, those of ended threads included
    /// whose rings were given to newer threads.
    pub overwritten: u64,
    /// Records that were never written: no ring was left for the thread, the ring was full in the mode
    /// `full`, or a signal handler made them while it interrupted another record.
    pub dropped: u64,
}

/// What was recorded so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Every thread whose records are still there.
    pub threads: Vec<ThreadStatistics>,
    /// Traced functions in the process.
    pub functions: u64,
    /// How many of them are on.
    pub functions_on: u64,
    /// Threads that ended and whose space was given to newer ones.
    pub retired_threads: u64,
    /// Records of those threads.
    pub retired_records: u64,
    /// Records of threads for which there was no space at all.
    pub unplaced_records: u64,
}

/// What one thread recorded so far: `recorded = readable + overwritten + dropped`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadStatistics {
    /// The thread, as the kernel counts.
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
    /// How often the clock went back, as it does where CPUs disagree.
    pub clock_steps: u64,
}

/// Why a call of the API did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A variable of the environment or a filter is not valid; the text names it.
    Configuration(String),
    /// There is nothing to dump; the text says why.
    NothingRecorded(String),
    /// The recorder can't be brought up, or the trace can't be written.
    Failed(String),
    /// The program was built without the recorder (`default-features = false`).
    CompiledOut,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Configuration(why) => f.write_str(why),
            Error::NothingRecorded(why) => write!(f, "nothing was recorded: {why}"),
            Error::Failed(why) => f.write_str(why),
            Error::CompiledOut => {
                f.write_str("built without the recorder: enable the feature `record` of fdr")
            }
        }
    }
}

impl std::error::Error for Error {}
