//! The API, with the recorder compiled out, or on a system that it is not for. It has the same functions as `on`, so a
//! program builds with and without the feature `record`, and everywhere. Only a function that must return a trace may
//! fail.

use std::io::Write;
use std::marker::PhantomData;

use crate::api::{Dump, Error, Statistics};
use crate::config::Config;

/// What [`span!`](crate::span) gives: nothing that is recorded.
#[must_use]
pub struct Span(PhantomData<*const ()>);

impl Span {
    /// For expansions only.
    #[doc(hidden)]
    pub const NONE: Span = Span(PhantomData);
}

impl Drop for Span {
    fn drop(&mut self) {}
}

/// Records nothing, because the recorder is compiled out. No value is evaluated.
///
/// # Examples
/// ```
/// let id = 7_u32;
/// fdr::event!(warn: "queue full", id, limit = 1 << 10, other = ?id, %id);
/// fdr::event!("never evaluated", value = if true { panic!() } else { 1 });
/// ```
#[macro_export]
macro_rules! event {
    ($name:literal $($fields:tt)*) => {
        $crate::__fdr_unused!($($fields)*)
    };
    ($level:ident : $name:literal $($fields:tt)*) => {
        $crate::__fdr_unused!($($fields)*)
    };
}

/// Records nothing, because the recorder is compiled out.
#[macro_export]
macro_rules! gauge {
    ($name:literal, $value:expr $(,)?) => {
        $crate::__fdr_unused!(, value = $value)
    };
}

/// Begins no span, because the recorder is compiled out.
#[macro_export]
macro_rules! span {
    ($name:literal $($fields:tt)*) => {{
        $crate::__fdr_unused!($($fields)*);
        $crate::Span::NONE
    }};
}

/// Gives the future as it is, because the recorder is compiled out.
///
/// # Examples
/// ```
/// let waits = fdr::task!("waits", async { std::future::ready(1).await });
/// let _ = fdr::spawned(waits);
/// ```
#[macro_export]
macro_rules! task {
    ($name:literal, $future:expr $(,)?) => {
        $future
    };
}

/// What [`spawned`] gives: the future, because the recorder is compiled out.
pub type Spawned<F> = F;

/// Gives the future as it is, because the recorder is compiled out.
pub fn spawned<F: Future>(future: F) -> Spawned<F> {
    future
}

/// Uses the values of fields, in code that never runs.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_unused {
    ($(,)?) => {
        ()
    };
    (, $key:ident = % $value:expr $(, $($rest:tt)*)?) => {{
        if false {
            let _ = &$value;
        }
        $crate::__fdr_unused!($(, $($rest)*)?)
    }};
    (, $key:ident = ? $value:expr $(, $($rest:tt)*)?) => {
        $crate::__fdr_unused!(, $key = % $value $(, $($rest)*)?)
    };
    (, $key:ident = $value:expr $(, $($rest:tt)*)?) => {
        $crate::__fdr_unused!(, $key = % $value $(, $($rest)*)?)
    };
    (, % $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_unused!(, $key = % $key $(, $($rest)*)?)
    };
    (, ? $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_unused!(, $key = % $key $(, $($rest)*)?)
    };
    (, $key:ident $(, $($rest:tt)*)?) => {
        $crate::__fdr_unused!(, $key = % $key $(, $($rest)*)?)
    };
}

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
