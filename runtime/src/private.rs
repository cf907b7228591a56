//! Everything that an expansion of `#[traced]` and of the macros of events may name, and nothing else. Programs must
//! not use it, because it changes without notice. This code runs inside every traced function. It must stay one load
//! and one branch while a site is off, and one more call while the site is on.
#![allow(unsafe_code)]

mod macros;
mod polled;

use core::marker::PhantomData;

pub use ::core;

pub use self::polled::{Spawned, polled, polled_untimed, spawned, task_of};
pub use crate::__fdr_name as name;
pub use crate::__fdr_site as site;
pub use crate::__fdr_task_sites as task_sites;
pub use crate::__fdr_value as value;
pub use crate::body::{Output, never, own_frame};
pub use crate::events::{
    Form, Level, write as event, write_arguments as arguments, write_result as result,
};
pub use crate::site::{CallSite, TaskSites};
pub use crate::values::{AsValue, Number, Value, ValueOf};
pub use fdr_formats::notes::{ERROR, RESULT};

use crate::recorder;

/// The [`CallSite`] of the surrounding function, as `&'static CallSite`.
///
/// Use: `site!("file", line)`, with `, named = "…"`, `, untimed`, `, auto` or `, version = "…"` behind it. The path of
/// the local type has the module, type and trait, which an attribute on a method cannot see. The static is one call
/// with few arguments, because that compiles fastest.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_site {
    ($file:expr, $line:expr $(, $said:ident $(= $value:literal)?)*) => {{
        enum __FdrHere {}
        #[used]
        #[unsafe(link_section = "fdr_sites_12")]
        static SITE: $crate::private::CallSite =
            $crate::private::CallSite::new::<__FdrHere>($file, $line)$(.$said($(&$value)?))*;
        &SITE
    }};
}

/// The sites of the surrounding `async fn`, as `&'static TaskSites`. Otherwise as [`site`].
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_task_sites {
    ($file:expr, $line:expr $(, $said:ident $(= $value:expr)?)*) => {{
        enum __FdrHere {}
        #[used]
        #[unsafe(link_section = "fdr_sites_12")]
        static SITES: $crate::private::TaskSites =
            $crate::private::CallSite::new::<__FdrHere>($file, $line)$(.$said($(&$value)?))*.with_tasks();
        &SITES
    }};
}

/// Records the exit when it goes out of scope, on every way out of the function.
///
/// It is not inlined by force. A compiler that optimizes inlines it at every level (`cargo xtask bench` shows
/// the bytes). Without optimization, a traced function with two plain calls compiles faster.
#[must_use = "the span ends when this is dropped: `let _span = fdr::span!(…);`"]
pub struct Guard<const TIMED: bool> {
    state: u32,
    // An exit belongs to the thread of its entry.
    not_send: PhantomData<*const ()>,
}

/// What [`span!`](crate::span) gives. The span ends when it is dropped.
pub type Span = Guard<true>;

/// Records the entry, if the site is on. Async-signal-safe.
#[inline]
pub fn enter(site: &'static CallSite) -> Guard<true> {
    Guard::new(site)
}

/// Records the entry without a time, if the site is on. Async-signal-safe.
#[inline]
pub fn enter_untimed(site: &'static CallSite) -> Guard<false> {
    Guard::new(site)
}

/// Whether an event is recorded. Async-signal-safe.
#[inline(always)]
#[must_use]
pub fn is_on(site: &'static CallSite) -> bool {
    site.state() >= CallSite::MIN_ON
}

impl<const TIMED: bool> Guard<TIMED> {
    /// Whether the entry is recorded, of a function whose calls are not only counted.
    #[inline]
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.state >= CallSite::MIN_ON
    }

    #[inline]
    fn new(site: &'static CallSite) -> Self {
        let mut state = site.state();
        // Not `state != 0`: the compiler would set a register to 0 in a function that is off.
        if state >= CallSite::MIN_ON {
            state = Self::record_entry(state);
        }
        Guard {
            state,
            not_send: PhantomData,
        }
    }

    // Cold, so the compiler lays the code for an off site out as the straight way.
    #[cold]
    #[inline(always)]
    fn record_entry(word: u32) -> u32 {
        if TIMED {
            recorder::call_entry(word)
        } else {
            recorder::call_untimed_entry(word)
        }
    }

    #[cold]
    #[inline(always)]
    fn record_exit(word: u32) {
        if TIMED {
            recorder::call(word);
        } else {
            recorder::call_untimed(word);
        }
    }
}

impl<const TIMED: bool> Drop for Guard<TIMED> {
    #[inline]
    fn drop(&mut self) {
        // The entry's word and not the site's, because an exit is recorded exactly if its entry was.
        if self.state != 0 {
            Self::record_exit(self.state | recorder::EXIT);
        }
    }
}
