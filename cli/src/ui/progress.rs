//! What is shown on a terminal while a command works: a bar, or how much has come.

use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use fdr_formats::source::drive_parallel;
use fdr_formats::{Error, Sink, Source};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{jobs, size};

/// Work that is done sooner shows no progress bar.
const MIN_WORK: Duration = Duration::from_millis(500);

/// Reads all of a trace on all cores, with a progress bar. Each core has a sink of its own.
///
/// # Errors
/// Where the trace can't be read.
pub(crate) fn drive<S: Sink + Send>(
    source: &dyn Source,
    make: impl Fn() -> S + Sync,
) -> Result<Vec<S>, Error> {
    drive_on(source, jobs(), make)
}

/// The same on at most `jobs` cores.
///
/// # Errors
/// Where the trace can't be read.
pub(crate) fn drive_on<S: Sink + Send>(
    source: &dyn Source,
    jobs: usize,
    make: impl Fn() -> S + Sync,
) -> Result<Vec<S>, Error> {
    let progress = Progress::new(source);
    drive_parallel(source, jobs, make, &|bytes| progress.add(bytes))
}

/// A progress bar on stderr: only on a terminal, and only for work that takes its time.
pub(crate) struct Progress {
    started: Instant,
    /// Hidden at first, so that its rate is right when it is shown.
    bar: ProgressBar,
    shown: Once,
    is_enabled: bool,
}

impl Progress {
    /// For all lanes of a source.
    pub(crate) fn new(source: &dyn Source) -> Progress {
        let total = (0..source.lanes())
            .map(|lane| source.lane_bytes(lane))
            .sum();
        let line = "{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left";
        Progress::with_line(Some(total), line, io::stderr().is_terminal())
    }

    /// For input of unknown length.
    pub(crate) fn endless() -> Progress {
        let line = "{spinner} {bytes}, {bytes_per_sec}";
        Progress::with_line(None, line, io::stderr().is_terminal())
    }

    /// One that is never shown.
    pub(crate) fn hidden() -> Progress {
        Progress::with_line(None, "", false)
    }

    fn with_line(total: Option<u64>, line: &str, is_enabled: bool) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(line) {
            bar.set_style(style);
        }
        Progress {
            started: Instant::now(),
            bar,
            shown: Once::new(),
            is_enabled,
        }
    }

    /// Adds bytes that were done. Any thread may call this.
    pub(crate) fn add(&self, bytes: u64) {
        if !self.is_enabled {
            return;
        }
        self.bar.inc(bytes);
        if self.started.elapsed() >= MIN_WORK {
            self.shown
                .call_once(|| self.bar.set_draw_target(ProgressDrawTarget::stderr()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How much has come, in one line on stderr: only on a terminal, and only while more comes. The cursor stays at the
/// beginning of the line. So any other output, such as a message or a terminal's `^C`, overwrites the line.
pub(crate) struct Arrivals {
    is_enabled: bool,
    state: Mutex<State>,
}

struct State {
    /// When the line was shown, or was to be shown, and how much had come by then.
    shown_at: Instant,
    before: u64,
    bytes: u64,
    is_visible: bool,
}

/// The least time between two lines.
const BETWEEN: Duration = Duration::from_millis(100);

/// Clears the line in which the cursor is.
const CLEAR: &[u8] = b"\r\x1b[K";

impl Arrivals {
    pub(crate) fn new() -> Arrivals {
        Arrivals::with_visibility(io::stderr().is_terminal())
    }

    /// One that is never shown.
    pub(crate) fn hidden() -> Arrivals {
        Arrivals::with_visibility(false)
    }

    fn with_visibility(is_enabled: bool) -> Arrivals {
        let state = State {
            shown_at: Instant::now(),
            before: 0,
            bytes: 0,
            is_visible: false,
        };
        Arrivals {
            is_enabled,
            state: Mutex::new(state),
        }
    }

    /// Adds bytes that came. Any thread may call this.
    pub(crate) fn add(&self, bytes: u64) {
        if !self.is_enabled {
            return;
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.bytes += bytes;
        if let Some(line) = state.line(Instant::now()) {
            let _ = io::stderr().write_all(&line);
        }
    }

    /// Clears the line while something else is printed.
    pub(crate) fn aside<T>(&self, say: impl FnOnce() -> T) -> T {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.clear();
        say()
    }
}

impl State {
    /// The line, if it is time for another one.
    fn line(&mut self, now: Instant) -> Option<Vec<u8>> {
        let passed = now.saturating_duration_since(self.shown_at);
        if passed < BETWEEN {
            return None;
        }
        let rate = (self.bytes - self.before) as f64 / passed.as_secs_f64();
        (self.shown_at, self.before, self.is_visible) = (now, self.bytes, true);
        let text = format!("{}, {}/s\r", size(self.bytes), size(rate as u64));
        Some([CLEAR, text.as_bytes()].concat())
    }

    fn clear(&mut self) {
        if std::mem::take(&mut self.is_visible) {
            let _ = io::stderr().write_all(CLEAR);
        }
    }
}

impl Drop for Arrivals {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        state.unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_lines_are_rare_and_reset_the_cursor() {
        let arrivals = Arrivals::hidden();
        let mut state = arrivals.state.lock().expect("one thread");
        let begin = state.shown_at;
        state.bytes = 3 << 20;
        assert_eq!(state.line(begin + BETWEEN / 2), None);
        let line = state.line(begin + Duration::from_secs(2)).expect("a line");
        assert_eq!(line, b"\r\x1b[K3.0 MiB, 1.5 MiB/s\r");
        assert_eq!(state.line(begin + Duration::from_secs(2)), None);
        // The rate is that of the last moments, not of the time since the command began.
        let line = state.line(begin + Duration::from_secs(3)).expect("a line");
        assert_eq!(line, b"\r\x1b[K3.0 MiB, 0 B/s\r");
    }
}
