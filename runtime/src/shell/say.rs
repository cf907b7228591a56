//! Lines for people, on stderr: each one call of write(2), at most as many as `FDR_LOG` allows.

use core::sync::atomic::{AtomicU8, Ordering};
use std::fmt;

use super::config::Log;
use crate::sys;

static LEVEL: AtomicU8 = AtomicU8::new(Log::Warn as u8);

/// Sets how much is said.
pub(crate) fn set_level(level: Log) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Why there is no recording: said always.
pub(crate) fn error(text: fmt::Arguments<'_>) {
    line(text);
}

/// What people need to know unless they asked for silence: where a trace is, what went wrong.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    if LEVEL.load(Ordering::Relaxed) >= Log::Warn as u8 {
        line(text);
    }
}

/// What helps to understand a recording.
pub(crate) fn info(text: fmt::Arguments<'_>) {
    if LEVEL.load(Ordering::Relaxed) >= Log::Info as u8 {
        line(text);
    }
}

fn line(text: fmt::Arguments<'_>) {
    sys::file::stderr(format!("fdr: {text}\n").as_bytes());
}
