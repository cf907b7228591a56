//! Lines for people, on stderr: each one call of write(2), at most as many as `FDR_LOG` allows. Must never
//! let a name or a path make two lines of one, or have a terminal obey it.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::fmt;

use fdr_formats::text;

use crate::config::Log;
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

/// Whether people are told what went wrong. Async-signal-safe.
pub(crate) fn warns() -> bool {
    LEVEL.load(Ordering::Relaxed) >= Log::Warn as u8
}

/// What people need to know unless they asked for silence: where a trace is, what went wrong.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    if warns() {
        line(text);
    }
}

/// What helps to understand a recording.
pub(crate) fn info(text: fmt::Arguments<'_>) {
    if LEVEL.load(Ordering::Relaxed) >= Log::Info as u8 {
        line(text);
    }
}

/// The system's errors that rings met, and that were said since the last trace, a bit for each.
static SAID_ERRORS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Whether that error was said before; from now on it was.
fn was_said(errno: usize) -> bool {
    let bit = 1 << (errno % 64);
    let word = SAID_ERRORS.get(errno / 64);
    word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit != 0)
}

/// What went wrong with a ring: a warning the first time, for a full disk that is in the way of each thread's
/// is one trouble. A trace that is lost is none of these: each is a warning. `text` holds the system's error as
/// it prints itself.
pub(crate) fn ring_error(text: fmt::Arguments<'_>) {
    let text = text.to_string();
    if was_said(errno_in(&text).unwrap_or(0)) {
        info(format_args!("{text}"));
    } else {
        warn(format_args!("{text}"));
    }
}

/// A trace was written: what goes wrong from now on is another trouble.
pub(crate) fn trace_was_written() {
    for word in &SAID_ERRORS {
        word.store(0, Ordering::Relaxed);
    }
}

/// The number of the system's error that a text tells of.
fn errno_in(text: &str) -> Option<usize> {
    let (_, after) = text.rsplit_once("(os error ")?;
    after.split_once(')')?.0.parse().ok()
}

fn line(text: fmt::Arguments<'_>) {
    let text = format!("fdr: {text}");
    sys::file::stderr(format!("{}\n", text::clean(&text)).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_error_is_known_again() {
        let error = std::io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(
            errno_in(&format!("x: {error}; and more")),
            Some(libc::ENOSPC as usize)
        );
        assert_eq!(errno_in("x: (os error 4x)"), None);
        assert_eq!(errno_in("nothing of the system's"), None);
    }
}
