//! Lines for people on stderr. Each line is one call of write(2), and `FDR_LOG` says which lines are printed. A
//! name or a path in a line must never break the line or control the terminal.

use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::fmt;

use fdr_formats::text;

use crate::config::Log;
use crate::sys;
use crate::sys::lock::Lock;

static LEVEL: AtomicU8 = AtomicU8::new(Log::Warn as u8);

/// Sets which lines are printed.
pub(crate) fn set_level(level: Log) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Prints why nothing is recorded. It is always printed.
pub(crate) fn error(text: fmt::Arguments<'_>) {
    line(text);
}

/// Whether warnings are printed. Async-signal-safe.
pub(crate) fn warns() -> bool {
    LEVEL.load(Ordering::Relaxed) >= Log::Warn as u8
}

/// Prints a warning, unless the user asked for silence: where a trace is, or what failed.
pub(crate) fn warn(text: fmt::Arguments<'_>) {
    if warns() {
        line(text);
    }
}

/// Prints details that help to understand a recording.
pub(crate) fn info(text: fmt::Arguments<'_>) {
    if LEVEL.load(Ordering::Relaxed) >= Log::Info as u8 {
        line(text);
    }
}

/// The errnos of ring errors that were printed since the last trace, one bit each.
static PRINTED_ERRORS: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Whether that errno was printed before. Notes that it was.
fn was_printed(errno: usize) -> bool {
    let bit = 1 << (errno % 64);
    let word = PRINTED_ERRORS.get(errno / 64);
    word.is_some_and(|word| word.fetch_or(bit, Ordering::Relaxed) & bit != 0)
}

/// Prints an error of a ring. It is a warning the first time only, because a full disk affects the ring of each
/// thread. The loss of a trace is not printed by this function, but by a warning each time. `text` holds the
/// system's error as Rust prints it.
pub(crate) fn ring_error(text: fmt::Arguments<'_>) {
    let text = fmt::format(text);
    if was_printed(errno_in(&text).unwrap_or(0)) {
        info(format_args!("{text}"));
    } else {
        warn(format_args!("{text}"));
    }
}

/// Called when a trace was written. After that, the same error is a warning again.
pub(crate) fn trace_was_written() {
    for word in &PRINTED_ERRORS {
        word.store(0, Ordering::Relaxed);
    }
}

/// The errno in a text.
fn errno_in(text: &str) -> Option<usize> {
    let mut parts = text.rsplit('(');
    let after = parts.find_map(|part| part.strip_prefix("os error "))?;
    usize::try_from(text::number(after.split_once(')')?.0)?).ok()
}

/// Lines that a thread of the recorder could not print, because the kernel does not give it the program's stderr.
static LEFT: Lock<String> = Lock::new(String::new());

/// Bytes of such lines that are kept at most.
const MAX_LEFT: usize = 64 * 1024;

fn line(text: fmt::Arguments<'_>) {
    let text = format!("fdr: {text}");
    let line = format!("{}\n", text::clean(&text));
    if !sys::file::stderr(line.as_bytes()) {
        let mut left = LEFT.lock();
        if left.len() < MAX_LEFT {
            left.push_str(&line);
        }
    }
}

/// Prints such lines. A thread of the program calls this.
pub(crate) fn print_left() {
    let left = core::mem::take(&mut *LEFT.lock());
    if !left.is_empty() {
        sys::file::stderr(left.as_bytes());
    }
}

/// Called in the child of a fork. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    LEFT.in_child(forker);
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
