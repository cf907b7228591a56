//! Everything that an expansion of `#[traced]` may name, and nothing else. Not for people: it
//! changes without notice.

use core::future::Future;
use core::marker::PhantomData;
use core::pin::Pin;
use core::task::{Context, Poll};

pub use crate::__fdr_site as site;
pub use crate::site::CallSite;
pub use ::core;
pub use core::any::type_name;

use crate::recorder;

/// Declares the static of a traced function, as the first item of its body.
///
/// `site!(IDENT, "name or empty", line)`.
#[doc(hidden)]
#[macro_export]
macro_rules! __fdr_site {
    ($site:ident, $name:literal, $line:literal) => {
        struct __FdrHere;
        #[used]
        #[unsafe(link_section = "fdr_sites")]
        static $site: $crate::private::CallSite = $crate::private::CallSite::new(
            $name,
            $crate::private::type_name::<__FdrHere>,
            $crate::private::core::file!(),
            $line,
        );
    };
}

/// Records the exit when it goes out of scope, on every way out of the function.
#[must_use]
pub struct Guard {
    state: u32,
    // An exit belongs to the thread of its entry.
    not_send: PhantomData<*const ()>,
}

/// Records the entry, if the site is on.
#[inline(always)]
pub fn enter(site: &'static CallSite) -> Guard {
    let state = site.state();
    if state != 0 {
        recorder::record(state);
    }
    Guard { state, not_send: PhantomData }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        if self.state != 0 {
            recorder::record(self.state | recorder::EXIT);
        }
    }
}

/// A future that records an entry and an exit around every poll of the inner one.
#[must_use = "futures do nothing unless polled"]
pub struct Polled<F> {
    site: &'static CallSite,
    inner: F,
}

/// Wraps the body of a traced `async fn`.
#[inline]
pub fn polled<F: Future>(site: &'static CallSite, inner: F) -> Polled<F> {
    Polled { site, inner }
}

impl<F: Future> Future for Polled<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let site = self.site;
        // SAFETY: `inner` is pinned whenever `self` is: it is never moved out, `Polled` is not
        // `repr(packed)`, has no `Drop`, and is `Unpin` only where `F` is (structural).
        let inner = unsafe { self.map_unchecked_mut(|polled| &mut polled.inner) };
        let _guard = enter(site);
        inner.poll(context)
    }
}
