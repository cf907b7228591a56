//! The API, with the recorder compiled in. None of it is async-signal-safe.

use std::io::Write;

use crate::api::{Dump, Error, Statistics};
use crate::config::Config;
use crate::shell::control;

/// Turns recording on for the functions that the filter names. The filter is the one of [`set_filter`],
/// otherwise the one in `FDR`, otherwise all functions are on. Returns how many functions are on.
///
/// The first call brings the recorder up, as the `FDR_…` variables say. [`Config`] does the same with values
/// from the code. A call while recording is on changes nothing. With `FDR=off` and without [`set_filter`]
/// nothing is turned on.
///
/// # Errors
/// [`Error::Configuration`] if a variable is not valid. [`Error::Failed`] if there is no room for the ring.
/// Recording is then off.
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
    /// Turns recording on as [`crate::enable`] does, with these values. Returns how many functions are on. If
    /// the filter in force is `off`, it returns 0 and does not bring the recorder up.
    ///
    /// The recorder may be up already: by `FDR`, by an earlier call, or by another copy of the recorder. Then
    /// only the filter is used. If other values differ, a line on stderr says so.
    ///
    /// # Errors
    /// [`Error::Configuration`] if a value is not valid. [`Error::Failed`] if there is no room for the ring.
    /// Recording is then as before.
    pub fn enable(&self) -> Result<usize, Error> {
        control::enable(self)
    }
}

/// Turns recording off. Calls that are under way still record their exits. The records stay for a dump. Does
/// nothing if recording is off.
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

/// Sets which functions are recorded, with the syntax of `FDR`: a comma list of globs on function names. A
/// `-` before a glob excludes functions. The filter takes effect at once if recording is on, otherwise with
/// [`enable`]. Returns how many functions the filter names.
///
/// # Errors
/// [`Error::Configuration`] if the text is no filter. The former filter then stays.
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

/// Writes the records of all rings to a file, as `FDR_OUT` and `FDR_FORMAT` say. No thread is stopped. The
/// file holds each thread's records until about the moment of the call. A program may dump any number of
/// times.
///
/// If `FDR_OUT` is an address, the whole trace is sent over a connection of its own. With `FDR_MODE=stream`,
/// the call hands over all records made before it. The counts are then those of the stream from its
/// beginning, and `overwritten` counts lost records. If a peer takes nothing, the call waits up to 4 s.
///
/// # Errors
/// [`Error::NothingRecorded`] if there are no records. [`Error::Failed`] if the file can't be written, or if
/// no peer takes the stream.
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
    control::dump(None)
}

/// As [`dump`], and the trace says why: `fdr info` and all other commands show these words. They are one line of 64
/// bytes at most.
///
/// # Errors
/// The errors of [`dump`]. [`Error::Configuration`] if the words have another form.
///
/// # Examples
/// ```no_run
/// let dump = fdr::dump_because("checkout lost its cart")?;
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn dump_because(why: &str) -> Result<Dump, Error> {
    control::dump(Some(why))
}

/// Gives this moment a name, as `fdr ctl mark` does from outside. Commands take the name for a time: `fdr report --since
/// NAME`. The newest 32 names stay. A name is one line of 64 bytes at most. Without a recorder nothing is marked.
///
/// # Errors
/// [`Error::Configuration`] if the name has another form, or with `FDR_MODE=stream`.
///
/// # Examples
/// ```
/// fdr::mark("warm")?;
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn mark(name: &str) -> Result<(), Error> {
    control::mark(name)
}

/// Writes a trace of this moment to `writer`, such as the body of a debug endpoint's answer. The format is
/// that of `FDR_FORMAT`. It works in every mode, and `%n` does not count it. The trace is made in a file
/// without a name in `TMPDIR` and then copied. So no thread is delayed, and no file is left. The result's
/// `path` is empty.
///
/// # Errors
/// The errors of [`dump`]. [`Error::Failed`] if the writer takes only a part. The writer's error is then its
/// source.
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

/// The records made so far, counted for each thread. If a thread records during the call, its counts are of
/// some moment of the call. Otherwise its counts are exact.
///
/// # Examples
/// ```
/// for thread in fdr::statistics().threads {
///     let kept = thread.readable + thread.overwritten + thread.dropped;
///     assert_eq!(thread.recorded, kept + thread.summarised);
/// }
/// ```
#[must_use]
pub fn statistics() -> Statistics {
    control::statistics()
}
