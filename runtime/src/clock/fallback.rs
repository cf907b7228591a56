//! Architectures without a counter that this crate can read. They use the operating system's clock. This file
//! must offer the same items as those of the other architectures.

use super::{ChosenClock, Kind, Stamp, system};
use crate::config::Clock;

/// See [`super::read`]. Async-signal-safe.
#[inline(always)]
pub(super) fn read(_: Kind) -> Stamp {
    system::read()
}

/// See [`super::choose`].
pub(super) fn choose(_: Clock) -> ChosenClock {
    let arch = std::env::consts::ARCH;
    system::chosen(Some(format!("no counter of {arch} CPUs is supported")))
}
