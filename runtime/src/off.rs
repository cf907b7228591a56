//! The API, with the recorder compiled out: the twin of `on`, so that a program builds with the
//! feature `record` and without. It must never do anything, and never fail where doing nothing is
//! a fair answer.

use std::io::Write;

use crate::api::{Dump, Error, Statistics};
use crate::config::Config;

/// Does nothing: the recorder is compiled out, so no function is on, and 0 is returned.
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
    Ok(0)
}

impl Config {
    /// Does nothing, as [`crate::enable`] does, whatever was chosen.
    ///
    /// # Errors
    /// None in this build.
    pub fn enable(&self) -> Result<usize, Error> {
        Ok(0)
    }
}

/// Does nothing: the recorder is compiled out.
///
/// # Examples
/// ```
/// fdr::disable();
/// ```
pub fn disable() {}

/// Does nothing, not even read the filter: the recorder is compiled out, so that it names no
/// function, and 0 is returned.
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
