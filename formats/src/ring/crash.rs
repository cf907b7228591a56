//! A crash in words: the reason that a trace gives. Only some signals have an address, and only if the kernel raised
//! them.

use std::{fmt, io};

use super::file_slot::{FileSlot, is_owned};
use super::layout::{Crash, Header};
use super::walk::{PREAMBLE, opened_at};
use crate::bytes::ReadAt;

/// In seconds. The trace of a crash, and the program's own handlers, take less time. So a thread that
/// opens a chunk later than this has survived its crash.
const SURVIVED_AFTER_S: u64 = 10;

/// Signals of a crash, with Linux's numbers on every supported machine. The flag says whether the kernel
/// gives the address of the crash.
const SIGNALS: [(u32, &str, bool); 8] = [
    (4, "SIGILL", true),
    (5, "SIGTRAP", true),
    (6, "SIGABRT", false),
    (7, "SIGBUS", true),
    (8, "SIGFPE", true),
    (11, "SIGSEGV", true),
    (24, "SIGXCPU", false),
    (31, "SIGSYS", true),
];

/// The `si_code` of a SIGSEGV for a non-canonical address. The kernel does not give the address.
const SI_KERNEL: i32 = 0x80;

impl Crash {
    /// The signal's name: `SIGSEGV`; `signal 62` if it is no signal of a crash.
    #[must_use]
    pub fn signal_name(&self) -> String {
        let known = SIGNALS.iter().find(|known| known.0 == self.signal);
        known.map_or_else(
            || format!("signal {}", self.signal),
            |known| known.1.to_owned(),
        )
    }

    /// Whether the crashed thread continued to record.
    pub(super) fn was_survived(&self, bytes: &dyn ReadAt, header: &Header) -> io::Result<bool> {
        let rate = match header.frequency {
            0 => 1_000_000_000,
            known => known,
        };
        let end = (self.ticks).saturating_add(rate.saturating_mul(SURVIVED_AFTER_S));
        for index in 0..header.made {
            let mut place = FileSlot::new(bytes, header, index);
            let slot = place.slot()?;
            if !is_owned(&slot) || slot.tid != self.thread || slot.chunk == 0 {
                continue;
            }
            place.chunks = place.round(&slot)?;
            let chunk = place.region().saturating_add(place.within(slot.chunk));
            let mut head = [0; PREAMBLE as usize];
            let read = bytes.read_at(chunk, &mut head)?;
            let opened = head.get(..read).and_then(|head| opened_at(head, slot.tid));
            if opened.is_some_and(|opened| opened > end) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_address(&self) -> bool {
        let raised = self.code > 0 && self.code != SI_KERNEL;
        raised
            && SIGNALS
                .iter()
                .any(|known| known.0 == self.signal && known.2)
    }
}

/// `crash: SIGSEGV at 0x10 in thread 71`.
impl fmt::Display for Crash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "crash: {}", self.signal_name())?;
        if self.has_address() {
            write!(f, " at {:#x}", self.address)?;
        }
        write!(f, " in thread {}", self.thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crashes_are_reported_in_the_kernels_words() {
        let crash = |signal, code| Crash {
            signal,
            code,
            thread: 71,
            address: 0x10,
            ticks: 5,
        };
        for (signal, code, wanted) in [
            (11, 1, "crash: SIGSEGV at 0x10 in thread 71"),
            // No address is known if it is not canonical, or if kill sent the signal.
            (11, SI_KERNEL, "crash: SIGSEGV in thread 71"),
            (11, 0, "crash: SIGSEGV in thread 71"),
            (6, -6, "crash: SIGABRT in thread 71"),
            (7, 2, "crash: SIGBUS at 0x10 in thread 71"),
            (62, -1, "crash: signal 62 in thread 71"),
        ] {
            assert_eq!(crash(signal, code).to_string(), wanted);
        }
    }
}
