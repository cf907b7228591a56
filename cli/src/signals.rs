//! Signals that end a command of this tool. One thread waits for them. It begins when there is something to clean up,
//! and ends with the process.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::cleanup;

/// With a handler, a limit on the size of files is an error of the write. Commands that are executed do
/// not inherit it.
pub(crate) fn survive_limits() {
    let _ = flag::register(SIGXFSZ, Arc::default());
}

/// What ends a command.
fn ending() -> impl Iterator<Item = i32> {
    let ignored = ignored();
    [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(move |signal| ignored & 1 << (signal - 1) == 0)
}

/// The signals that are switched off in this process, bit 0 is signal 1.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or_default()
}

/// Whether the thread runs that waits for signals.
static WATCHED: Mutex<bool> = Mutex::new(false);

/// Has signals end the process by way of [`cleanup::end_by`] from here on. Signals that come while the
/// thread starts are kept for it.
///
/// # Errors
/// Where the system has no room.
pub(crate) fn watch() -> io::Result<()> {
    let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
    if *watched {
        return Ok(());
    }
    let mut signals = Signals::new(ending())?;
    let wait = move || signals.forever().for_each(act_on);
    thread::Builder::new().name("signals".into()).spawn(wait)?;
    *watched = true;
    Ok(())
}

fn act_on(signal: i32) {
    match STOPPABLE.get() {
        Some(stoppable) if !stoppable.is_requested.swap(true, Ordering::Relaxed) => {
            // One byte always fits.
            let _ = (&stoppable.written).write(&[0]);
        }
        _ => cleanup::end_by(signal),
    }
}

/// The other end of [`Stop`].
struct Stoppable {
    is_requested: AtomicBool,
    /// As long as it is open, the reader's end is not readable without a byte.
    written: UnixStream,
}

static STOPPABLE: OnceLock<Stoppable> = OnceLock::new();

/// Becomes readable, and stays so, when a signal asks the command to end. A second signal ends it at
/// once.
#[derive(Debug)]
pub(crate) struct Stop {
    readable: UnixStream,
}

impl Stop {
    /// Takes the signals, until the process ends. Once in a process.
    ///
    /// # Errors
    /// Where the system has no room.
    pub(crate) fn on_signals() -> io::Result<Stop> {
        let (readable, written) = UnixStream::pair()?;
        let stoppable = Stoppable {
            is_requested: AtomicBool::new(false),
            written,
        };
        let taken = |_| io::Error::other("a command stops once");
        STOPPABLE.set(stoppable).map_err(taken)?;
        watch()?;
        Ok(Stop { readable })
    }

    /// Waits until something can be read, or the end was asked for, which comes first, or time is up.
    /// Whether something can be read.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn wait_for(
        &self,
        other: Option<BorrowedFd<'_>>,
        end: Option<Instant>,
    ) -> io::Result<bool> {
        let other: Vec<BorrowedFd<'_>> = other.into_iter().collect();
        Ok(self.wait_for_any(&other, end)?.contains(&true))
    }

    /// The same for several descriptors. Returns which of them can be read. If a signal asked for the end, none is
    /// marked.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn wait_for_any(
        &self,
        others: &[BorrowedFd<'_>],
        end: Option<Instant>,
    ) -> io::Result<Vec<bool>> {
        let all = std::iter::once(self.readable.as_fd()).chain(others.iter().copied());
        let mut places: Vec<PollFd<'_>> =
            all.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            match poll(&mut places, timeout(left)) {
                // So long that it is not worth its name.
                Ok(0) if left.is_some_and(|left| left > MAX_WAIT) => {}
                Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
                Ok(_) => break,
            }
        }
        let mut ready = places.iter().map(|place| place.any().unwrap_or(true));
        let is_end_requested = ready.next().unwrap_or(true);
        Ok(ready
            .map(|is_ready| is_ready && !is_end_requested)
            .collect())
    }

    /// Whether the end was asked for.
    pub(crate) fn is_end_requested(&self) -> bool {
        let stoppable = STOPPABLE.get();
        stoppable.is_some_and(|stoppable| stoppable.is_requested.load(Ordering::Relaxed))
    }
}

/// One wait, at most; the rest is waited for again.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Rounded up: a wait that ends early would be a busy one.
fn timeout(left: Option<Duration>) -> PollTimeout {
    let Some(left) = left else {
        return PollTimeout::NONE;
    };
    let left = left.min(MAX_WAIT).saturating_add(Duration::from_millis(1));
    PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_ended_by_signals() {
        // The tests are not run with SIGTERM ignored.
        assert!(ending().any(|signal| signal == SIGTERM));
    }
}
