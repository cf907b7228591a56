//! How many calls a process made of its traced functions, counted by these themselves: two records each.
//! The functions are the programs' own, for traces name them. May be used in signal handlers.

use std::sync::atomic::{AtomicU64, Ordering};

/// The functions `$name`, each with an attribute, and `CALLS`, which counts their calls.
#[macro_export]
macro_rules! counted_functions {
    ($($name:ident: $traced:meta),+) => {
        static CALLS: $crate::programs::calls::Calls = $crate::programs::calls::Calls::new();

        $(
            #[$traced]
            #[inline(never)]
            fn $name() {
                CALLS.count();
            }
        )+
    };
}

/// Calls of this process.
#[derive(Debug, Default)]
pub struct Calls(AtomicU64);

impl Calls {
    /// None yet.
    #[must_use]
    pub const fn new() -> Calls {
        Calls(AtomicU64::new(0))
    }

    /// One more; for the function that was called.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Records of all of them.
    pub fn records(&self) -> u64 {
        2 * self.0.load(Ordering::Relaxed)
    }

    /// At the beginning of a child: what its parent did does not count.
    pub fn anew(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Calls the function `times` times.
pub fn repeat(times: u64, function: impl Fn()) {
    (0..times).for_each(|_| function());
}
