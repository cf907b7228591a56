//! The API, with the recorder compiled in. None of it is async-signal-safe.

use std::io::Write;

use crate::api::{Dump, Error, Statistics};
use crate::config::Config;
use crate::shell::control;

/// Turns recording on, for the functions that the filter names: the one of [`set_filter`], else the
/// one in `FDR`, else all. Brings the recorder up if need be, as the `FDR_…` variables say; [`Config`] does the
/// same with values from the code. Returns how many functions are on. Turning on what is on changes nothing.
/// With `FDR=off` and no [`set_filter`] nothing is turned on.
///
/// # Errors
/// [`Error::Configuration`] for a variable that is not valid, [`Error::Failed`] where there is no
/// room for the ring. Recording is then off.
///
/// # Examples
/// ```
/// #[fdr::traced]
/// fn work() {}
///
/// fdr::enable()?;
/// work();
/// fdr::disable();
/// assert!(fdr::statistics().threads[0].recorded >= 2);
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn enable() -> Result<usize, Error> {
    control::enable(&Config::new())
}

impl Config {
    /// Turns recording on as [`crate::enable`] does, with these values. Returns how many functions are on.
    /// It is 0, and nothing is brought up, where the filter that counts is `off`.
    ///
    /// Where recording was brought up before, by `FDR`, by an earlier call or by another copy of the recorder,
    /// only the filter counts; a line on stderr says so where other values would differ.
    ///
    /// # Errors
    /// [`Error::Configuration`] for a value that is not valid, [`Error::Failed`] where there is no
    /// room for the ring. Recording is then as it was.
    pub fn enable(&self) -> Result<usize, Error> {
        control::enable(self)
    }
}

/// Turns recording off. Calls that are under way still record their exits; what was recorded stays
/// for a dump. Does nothing where it is off.
///
/// # Examples
/// ```
/// fdr::enable()?;
/// fdr::disable();
/// assert!(!fdr::is_enabled());
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn disable() {
    control::disable();
}

/// Sets which functions are recorded, in the words of `FDR`: a comma list of globs on function
/// names, `-` before one excludes. Takes effect at once where recording is on, otherwise with
/// [`enable`]. Returns how many functions the filter names.
///
/// # Errors
/// [`Error::Configuration`] for a text that is no filter; the former filter stays.
///
/// # Examples
/// ```
/// fdr::set_filter("my_app::*,-my_app::hot::*")?;
/// assert!(fdr::set_filter("").is_err());
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn set_filter(filter: &str) -> Result<usize, Error> {
    control::set_filter(filter)
}

/// Whether recording is on.
///
/// # Examples
/// ```
/// assert!(!fdr::is_enabled());
/// ```
#[must_use]
pub fn is_enabled() -> bool {
    control::is_enabled()
}

/// Writes what the rings hold to a file, as `FDR_OUT` and `FDR_FORMAT` say. No thread is stopped;
/// each is in the file up to about the moment of the call. May be called as often as one likes.
///
/// Where `FDR_OUT` is an address, the whole trace is sent over a connection of its own. With
/// `FDR_MODE=stream`, what was recorded up to the call is handed over, and the counts are those of the
/// stream from its beginning (`overwritten`: lost on the way); waits up to 4 s for a peer that takes
/// nothing.
///
/// # Errors
/// [`Error::NothingRecorded`] where there is nothing to write, [`Error::Failed`] where the file
/// can't be written, or nobody takes the stream.
///
/// # Examples
/// ```no_run
/// #[fdr::traced]
/// fn work() {}
///
/// fdr::enable()?;
/// work();
/// let dump = fdr::dump()?;
/// println!("{} records in {}", dump.records, dump.path.display());
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn dump() -> Result<Dump, Error> {
    control::dump()
}

/// Writes a whole trace of now to `writer`, such as the body of a debug endpoint's answer, in the format of
/// `FDR_FORMAT`. It works in every mode, leaves no file, is no dump that `%n` counts, and holds no thread up:
/// the trace is made in a file without a name in `TMPDIR`, and then copied. The result's `path` is empty.
///
/// # Errors
/// As [`dump`]; [`Error::Configuration`] for a format that is a folder; [`Error::Failed`] with the writer's
/// error as its source, where the writer takes only a part.
///
/// # Examples
/// ```
/// #[fdr::traced]
/// fn work() {}
///
/// # fdr::Config::new().log(fdr::Log::Quiet).output("/dev/null").enable()?;
/// fdr::enable()?;
/// work();
/// let mut body = Vec::new();
/// let dump = fdr::dump_to(&mut body)?;
/// assert!(dump.records >= 2 && !body.is_empty());
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn dump_to(mut writer: impl Write) -> Result<Dump, Error> {
    control::dump_to(&mut writer)
}

/// What was recorded so far, for each thread. The counts of a thread that is recording meanwhile
/// are of some moment during the call; those of a thread that is still are exact.
///
/// # Examples
/// ```
/// for thread in fdr::statistics().threads {
///     assert_eq!(thread.recorded, thread.readable + thread.overwritten + thread.dropped);
/// }
/// ```
#[must_use]
pub fn statistics() -> Statistics {
    control::statistics()
}
