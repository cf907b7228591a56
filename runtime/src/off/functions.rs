//! The functions of the API, with the recorder compiled out, or on a system that it is not for. They are those of `on`, so
//! a program builds with and without the feature `record`, and everywhere. Only a function that must return a trace may
//! fail.

use std::io::Write;

use crate::api::{Dump, Error, Statistics};
use crate::config::Config;

/// Does nothing, because the recorder is compiled out. No function is on, so it returns 0.
///
/// # Errors
/// None in this build.
///
/// # Examples
/// ```
/// assert_eq!(fdr::enable()?, 0);
/// assert!(!fdr::is_enabled());
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn enable() -> Result<usize, Error> {
    print_no_recorder();
    Ok(0)
}

/// Prints once that this system has no recorder, if the environment asks for one. If the program's author compiled the
/// recorder out, no line is printed.
pub(crate) fn print_no_recorder() {
    #[cfg(feature = "record")]
    {
        use core::sync::atomic::{AtomicBool, Ordering};

        static PRINTED: AtomicBool = AtomicBool::new(false);
        let is_requested = std::env::var_os("FDR").is_some_and(|filter| !filter.is_empty());
        if is_requested && !PRINTED.swap(true, Ordering::Relaxed) {
            let line = "fdr: the recorder is for Linux: nothing is recorded on this system";
            // A program without stderr goes without the line.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

impl Config {
    /// Does nothing, as [`crate::enable`] does, whatever was chosen.
    ///
    /// # Errors
    /// None in this build.
    pub fn enable(&self) -> Result<usize, Error> {
        enable()
    }
}

/// Does nothing: the recorder is compiled out.
///
/// # Examples
/// ```
/// fdr::disable();
/// ```
pub fn disable() {}

/// Does nothing and does not read the filter, because the recorder is compiled out. Returns 0.
///
/// # Errors
/// None in this build.
///
/// # Examples
/// ```
/// assert_eq!(fdr::set_filter("my_app::*")?, 0);
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn set_filter(_filter: &str) -> Result<usize, Error> {
    Ok(0)
}

/// Always false: the recorder is compiled out.
///
/// # Examples
/// ```
/// assert!(!fdr::is_enabled());
/// ```
#[must_use]
pub fn is_enabled() -> bool {
    false
}

/// Writes no file: the recorder is compiled out.
///
/// # Errors
/// [`Error::CompiledOut`], always: there is no file to name.
///
/// # Examples
/// ```
/// assert_eq!(fdr::dump(), Err(fdr::Error::CompiledOut));
/// ```
pub fn dump() -> Result<Dump, Error> {
    Err(Error::CompiledOut)
}

/// Writes no file: the recorder is compiled out.
///
/// # Errors
/// [`Error::CompiledOut`], always: there is no file to name.
///
/// # Examples
/// ```
/// assert_eq!(fdr::dump_because("lost"), Err(fdr::Error::CompiledOut));
/// ```
pub fn dump_because(_why: &str) -> Result<Dump, Error> {
    Err(Error::CompiledOut)
}

/// Marks nothing, because the recorder is compiled out.
///
/// # Errors
/// None in this build.
///
/// # Examples
/// ```
/// fdr::mark("warm")?;
/// # Ok::<(), fdr::Error>(())
/// ```
pub fn mark(_name: &str) -> Result<(), Error> {
    Ok(())
}

/// Writes nothing: the recorder is compiled out.
///
/// # Errors
/// [`Error::CompiledOut`], always: there is no trace.
///
/// # Examples
/// ```
/// let mut body = Vec::new();
/// assert_eq!(fdr::dump_to(&mut body), Err(fdr::Error::CompiledOut));
/// ```
pub fn dump_to(_writer: impl Write) -> Result<Dump, Error> {
    Err(Error::CompiledOut)
}

/// Zeros: the recorder is compiled out.
///
/// # Examples
/// ```
/// assert_eq!(fdr::statistics(), fdr::Statistics::default());
/// ```
#[must_use]
pub fn statistics() -> Statistics {
    Statistics::default()
}
