//! When the states of threads are recorded: what `FDR_SCHED` asks for, and the most that they may cost by default.

mod account;

use std::fmt::Display;
use std::time::Duration;

use super::config::{Sched, Settings};
use super::last_thread;
use crate::clock;
use crate::dump::schedule::{self, LateEvents, NotBegun};
use crate::messages;
use crate::recorder;
use crate::ring::Ring;
use crate::sys;

use account::{Account, Reading, TooMuch};

/// The pauses of the dumper, ns: between two emptyings of the kernel's buffers of context switches, and between two
/// reads of the kernel's sums. The sums are read if the kernel tells no switches.
const SWITCHES_NS: u64 = 50_000_000;
const SUMS_NS: u64 = 1_000_000_000;

/// How long after the start the states begin by default, ns. A process that ends before does not pay for them.
const BEGIN_NS: u64 = 50_000_000;
/// The most attempts to begin the states. An attempt fails if a thread begins during it. Each pause between attempts is
/// twice as long as the one before.
const MAX_TRIES: u32 = 6;

/// The least bytes of all regions with which states begin by default. States take 4 MiB more.
const MIN_MEMORY: u64 = 16 << 20;

/// Begins the states of threads, empties the kernel's buffers, and ends states that cost too much.
pub(crate) struct ThreadStates {
    due_ns: u64,
    /// How often the beginning may still be tried. 0: the states have begun, or there are none.
    tries: u32,
    /// The states that began some time after the start.
    late: Option<LateStates>,
}

/// States that began some time after the start.
struct LateStates {
    events: LateEvents,
    account: Account,
    /// CPU time that went into emptying the buffers, ns.
    emptying_ns: u64,
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
        match begin(ring) {
            Ok(late) => {
                self.late = Some(late);
                self.tries = 0;
                SWITCHES_NS
            }
            Err(NotBegun::ThreadsBegan) if self.tries > 1 => {
                self.tries -= 1;
                SWITCHES_NS << (MAX_TRIES - self.tries)
            }
            Err(why) => {
                self.tries = 0;
                print(why);
                SWITCHES_NS
            }
        }
    }

    /// Returns the pause.
    fn empty_buffers(&mut self, ring: &Ring, now_ns: u64) -> u64 {
        if !schedule::has_switches() {
            schedule::note_accounts(ring);
            return SUMS_NS;
        }
        let before_ns = clock::thread_cpu_ns();
        schedule::drain(ring);
        if let Some(late) = &mut self.late {
            late.emptying_ns += clock::thread_cpu_ns().saturating_sub(before_ns);
            if late.account.is_due(now_ns) {
                self.compare_cost(ring);
            }
        }
        SWITCHES_NS
    }

    /// Ends what costs too much: the samples, or the states if those alone cost too much.
    fn compare_cost(&mut self, ring: &Ring) {
        let Some(late) = &mut self.late else { return };
        let has_samples = late.events.has_samples();
        let reading = Reading::new(ring, late.emptying_ns);
        let Some(too_much) = late.account.too_much(reading, has_samples) else {
            return;
        };
        // A busy machine disturbs the measurement.
        if late.account.is_measured_once {
            let again = schedule::measure_switch_cost();
            late.account.measured_again(again);
            return;
        }
        let switches = late.account.switches_per_second;
        let what = match too_much {
            TooMuch::Samples => {
                late.events.stop_samples(ring);
                "samples"
            }
            TooMuch::States => {
                if let Some(late) = self.late.take() {
                    schedule::stop(ring, late.events);
                }
                "states"
            }
        };
        messages::info(format_args!(
            "the {what} of threads end here: they cost more than 1 % of the CPU time ({switches} context switches a second)"
        ));
    }
}

fn begin(ring: &Ring) -> Result<LateStates, NotBegun> {
    if has_filter() {
        return Err(NotBegun::Filtered);
    }
    if ring.memory() < MIN_MEMORY {
        return Err(NotBegun::NoSpace);
    }
    let events = schedule::begin_late(ring, &program_threads)?;
    let account = Account::new(schedule::measure_switch_cost(), Reading::new(ring, 0));
    Ok(LateStates {
        events,
        account,
        emptying_ns: 0,
    })
}

/// Says at the level `info` why there are no states.
fn print(why: NotBegun) {
    let error;
    let words: &dyn Display = match why {
        NotBegun::ThreadsBegan => &"threads begin all the time",
        NotBegun::NoSpace => &"the ring has no space",
        NotBegun::TooMany => {
            &"there are too many threads and CPUs to begin now (FDR_SCHED=1 begins before the threads)"
        }
        NotBegun::Filtered => &"there is a filter of system calls, which might end the process",
        NotBegun::Refused(errno) => {
            error = std::io::Error::from_raw_os_error(errno);
            &error
        }
    };
    messages::info(format_args!("no states of threads are recorded: {words}"));
}

/// Whether the calling thread has a filter of system calls, as far as that can be known. It might end the process at a
/// call that is rare in programs.
fn has_filter() -> bool {
    let status = sys::file::kernel_text("/proc/thread-self/status");
    status.is_none_or(|status| !status.contains("\nSeccomp:\t0\n"))
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
