//! The twin of `private` on systems without a recorder. It has every name that an expansion uses, with the same
//! types, so a program that compiles here compiles on Linux. An optimized program contains none of it.

use core::marker::PhantomData;

pub use ::core;

pub use crate::__fdr_name as name;
pub use crate::__fdr_site as site;
pub use crate::__fdr_task_sites as task_sites;
pub use crate::__fdr_value as value;
pub use crate::body::{Output, never, own_frame};
pub use crate::values::{AsValue, Number, Value, ValueOf};

/// The site of a function or a name: nothing is known of it.
pub struct CallSite;

/// The site of the surrounding function. Its arguments are ignored.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_site {
    ($($said:tt)*) => {
        &$crate::no_private::CallSite
    };
}

/// The sites of an `async fn`.
pub type TaskSites = [CallSite; 1];

/// The sites of the surrounding `async fn`. The arguments are ignored.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_task_sites {
    ($($said:tt)*) => {
        &[$crate::no_private::CallSite]
    };
}

/// The site of a name.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_name {
    ($name:expr) => {
        &$crate::no_private::CallSite
    };
}

/// The value of an argument or a result.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_value {
    (% $value:expr) => {
        $crate::no_private::Value::Display(&$value)
    };
    (? $value:expr) => {
        $crate::no_private::Value::Debug(&$value)
    };
    ($value:expr) => {
        $crate::no_private::AsValue::as_value(&$value)
    };
}

/// The place of a result among the arguments.
pub const RESULT: u8 = 0;
/// The place of an error among the arguments.
pub const ERROR: u8 = 0;

/// Stands for the exit of a call. It belongs to the thread of the entry, as on Linux.
#[must_use = "a guard that is dropped at once stands for nothing"]
pub struct Guard(PhantomData<*const ()>);

impl Guard {
    /// Never.
    #[inline(always)]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        false
    }
}

/// Records nothing.
#[inline(always)]
pub fn enter(_: &'static CallSite) -> Guard {
    Guard(PhantomData)
}

/// Records nothing.
#[inline(always)]
pub fn enter_untimed(_: &'static CallSite) -> Guard {
    Guard(PhantomData)
}

/// Never.
#[inline(always)]
#[must_use]
pub fn is_on(_: &'static CallSite) -> bool {
    false
}

/// Records nothing.
#[inline(always)]
pub fn arguments(_: &'static CallSite, _: &[(u8, &'static CallSite, Option<Value<'_>>)]) {}

/// Records nothing.
#[inline(always)]
pub fn result(_: &'static CallSite, _: u8, _: Value<'_>) {}

/// Gives the body of an `async fn` as it is. The compiler knows its output before it knows `F`, as on Linux.
#[inline(always)]
pub fn polled<T, F: Future<Output = T>>(
    _: &'static TaskSites,
    _: Output<T>,
    inner: F,
) -> impl Future<Output = T> {
    inner
}

/// As [`polled`].
#[inline(always)]
pub fn polled_untimed<T, F: Future<Output = T>>(
    _: &'static CallSite,
    _: Output<T>,
    inner: F,
) -> impl Future<Output = T> {
    inner
}

/// Gives a future as it is.
#[inline(always)]
pub fn task_of<F: Future>(_: &'static TaskSites, inner: F) -> F {
    inner
}
