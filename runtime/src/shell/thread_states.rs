//! When the states of threads are recorded: what `FDR_SCHED` asks for, and the most that they may cost by default.

mod account;

use std::time::Duration;

use super::config::{Sched, Settings};
use super::last_thread;
use crate::dump::schedule::{self, NotBegun};
use crate::messages;
use crate::recorder;
use crate::ring::Ring;
use crate::sys;
use crate::sys::perf::Events;

use account::{Account, Reading};

/// How often the kernel's buffers of context switches are emptied, and how often its sums are read where it tells no
/// switches, ns.
const SWITCHES_NS: u64 = 50_000_000;
const SUMS_NS: u64 = 1_000_000_000;

/// How long after the start the states begin by default, ns. A process that ends before does not pay for them.
const BEGIN_NS: u64 = 50_000_000;
/// How often the beginning is tried, if threads begin all the time.
const MAX_TRIES: u32 = 100;

/// The care for the states of threads.
pub(crate) struct ThreadStates {
    due_ns: u64,
    /// How often the beginning may still be tried. 0: the states have begun, or there are none.
    tries: u32,
    /// The states that began some time after the start.
    late: Option<(Events, Account)>,
}

impl ThreadStates {
    pub(crate) fn new(settings: &Settings, now_ns: u64) -> ThreadStates {
        let is_late = settings.sched == Sched::Auto;
        ThreadStates {
            due_ns: now_ns + if is_late { BEGIN_NS } else { 0 },
            tries: if is_late { MAX_TRIES } else { 0 },
            late: None,
        }
    }

    /// Begins the states, or moves them from the kernel's buffers into the ring, when that is due. Returns the time until
    /// the next time.
    pub(crate) fn look(&mut self, now_ns: u64) -> Option<Duration> {
        let ring = recorder::ring().filter(|ring| ring.has_place_for_states())?;
        if self.tries == 0 && ring.schedule().is_none() {
            return None;
        }
        if self.due_ns <= now_ns {
            let pause_ns = match self.tries {
                0 => self.empty_buffers(ring, now_ns),
                _ => self.begin(ring),
            };
            self.due_ns = now_ns + pause_ns;
        }
        Some(Duration::from_nanos(self.due_ns - now_ns))
    }

    /// Returns the pause.
    fn begin(&mut self, ring: &Ring) -> u64 {
        if has_filter() {
            self.tries = 0;
            ring.give_schedule();
            messages::info(format_args!(
                "FDR_SCHED: there is a filter of system calls, so the kernel is not asked for context switches; only its \
                 sums for each thread are recorded"
            ));
            return SUMS_NS;
        }
        match schedule::begin_late(ring, &program_threads) {
            Ok(events) => {
                let account = Account::new(schedule::measure_switch_ns(), Reading::new(ring));
                self.late = Some((events, account));
                self.tries = 0;
            }
            Err(NotBegun::ThreadsBegan) => self.tries -= 1,
            Err(NotBegun::NoSpace) => self.tries = 0,
            Err(NotBegun::TooManyThreads) => {
                self.tries = 0;
                messages::info(format_args!(
                    "FDR_SCHED: there are too many threads to begin with their states; FDR_SCHED=1 begins before them"
                ));
            }
            Err(NotBegun::Refused(errno)) => {
                self.tries = 0;
                ring.give_schedule();
                messages::info(format_args!(
                    "FDR_SCHED: the kernel tells no context switches ({}); only its sums for each thread are recorded",
                    std::io::Error::from_raw_os_error(errno)
                ));
            }
        }
        SWITCHES_NS
    }

    /// Returns the pause.
    fn empty_buffers(&mut self, ring: &Ring, now_ns: u64) -> u64 {
        if !schedule::has_switches() {
            schedule::note_accounts(ring);
            return SUMS_NS;
        }
        schedule::drain(ring);
        let too_much = self.late.take_if(|(_, account)| {
            account.is_due(now_ns) && account.is_too_much(Reading::new(ring))
        });
        if let Some((events, account)) = too_much {
            schedule::stop(ring, events);
            messages::info(format_args!(
                "FDR_SCHED: {} context switches a second cost more than 1 % of the CPU time, so the states of threads end here",
                account.switches_per_second
            ));
        }
        SWITCHES_NS
    }
}

/// Whether the calling thread has a filter of system calls. It might end the process at a call that is rare in programs.
fn has_filter() -> bool {
    let status = sys::file::kernel_text("/proc/thread-self/status").unwrap_or_default();
    let mode = status
        .lines()
        .find_map(|line| line.strip_prefix("Seccomp:"));
    mode.is_some_and(|mode| mode.trim() != "0")
}

/// The threads of the program.
fn program_threads() -> Vec<u32> {
    let mut threads = Vec::new();
    last_thread::each_of_the_program(&mut |thread| {
        threads.push(thread);
        true
    });
    threads
}
