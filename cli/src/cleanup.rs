//! Files, folders and sockets that the command makes under temporary names. They must not outlive the command. Each is
//! made, placed and removed under one lock. When a signal ends the command, the thread of signals takes that lock,
//! removes all outputs, and keeps the lock. So the cleanup knows every name, and no name is made after the cleanup.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use signal_hook::low_level::emulate_default_handler;

use crate::signals;

/// What is to be done about a name when a signal ends the command.
type Removal = Box<dyn FnOnce() + Send>;

/// The names that there are.
pub(crate) struct Names {
    next: u64,
    removals: Vec<(u64, Removal)>,
}

/// One of [`Names`].
#[derive(Debug)]
pub(crate) struct Entry(u64);

static NAMES: Mutex<Names> = Mutex::new(Names {
    next: 0,
    removals: Vec::new(),
});

/// Until this value is dropped, no signal ends the process. From here on, the thread of signals handles the signals
/// that would end it.
///
/// # Errors
/// Where the system has no room for the thread that watches signals.
pub(crate) fn lock() -> io::Result<MutexGuard<'static, Names>> {
    signals::watch().map_err(|error| io::Error::new(error.kind(), format!("signals: {error}")))?;
    Ok(wait_for_lock())
}

/// The lock for who only removes a name: signals are watched since it was made.
pub(crate) fn wait_for_lock() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Names {
    /// Notes a name that was made under this lock.
    pub(crate) fn add(&mut self, removal: impl FnOnce() + Send + 'static) -> Entry {
        self.next += 1;
        self.removals.push((self.next, Box::new(removal)));
        Entry(self.next)
    }

    /// The name has been removed, or is to stay.
    pub(crate) fn forget(&mut self, entry: &Entry) {
        self.removals.retain(|(number, _)| *number != entry.0);
    }
}

/// Removes all names, and ends the process by the signal. Other threads that want the lock wait until the process is
/// dead.
pub(crate) fn end_by(signal: i32) {
    let mut names = wait_for_lock();
    for (_, removal) in names.removals.drain(..) {
        removal();
    }
    let _ = emulate_default_handler(signal);
}
