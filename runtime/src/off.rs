//! The API, with the recorder compiled out, or on a system that it is not for. A target without std has only the macros.

#[cfg(not(target_os = "none"))]
pub(crate) mod functions;

use core::marker::PhantomData;

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
