//! The state of the recorder that does not change once it is up: settings, clock, program. Every function here may be
//! called while it comes up.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fdr_formats::model::{ClockFaults, Identity};

use super::address::{self, Address};
use super::calibrate::{Anchor, Calibration, Frequency};
use super::clock_faults::BestFrequency;
use super::config::Settings;
use super::skew::Skew;
use crate::clock::ChosenClock;
use crate::dump::output::{self, Output};
use crate::recorder::ring;
use crate::sys;
use crate::sys::lock::{Leaked, Lock};

/// The state that does not change once the recorder is up.
pub(crate) struct State {
    pub(crate) config: Box<Settings>,
    /// `config.output` for children of a fork.
    childrens_output: Output,
    pub(crate) chosen: ChosenClock,
    calibration: Calibration,
    best_frequency: BestFrequency,
    /// The certain difference between the counters of the CPUs, ns. 0 until they are compared.
    skew_ns: AtomicU64,
    /// The program's name, for file names.
    pub(crate) program: String,
    /// Whom every trace is of.
    pub(crate) identity: Identity,
}

static STATE: Leaked<State> = Leaked::new();

/// The shortest time over which the clock's frequency is measured before a dump.
const BASELINE: Duration = Duration::from_millis(2);

/// Held while the recorder is brought up.
pub(super) static INSTALLING: Lock<()> = Lock::new(());

/// Whether all of it was done in this process and not in a parent.
static UP: AtomicBool = AtomicBool::new(false);

/// Called in the child of a fork. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    INSTALLING.in_child(forker);
    UP.store(false, Ordering::Relaxed);
}

/// Whether the recorder came up in this process.
pub(crate) fn is_up() -> bool {
    UP.load(Ordering::Relaxed)
}

/// The recorder came up in this process.
pub(super) fn note_up() {
    UP.store(true, Ordering::Relaxed);
}

/// The state of the recorder. `None` while it is not up. Once it is there, no other one replaces it, not in a child of a
/// fork either. Only the entry points of `shell/mod.rs` call this. Async-signal-safe.
pub(crate) fn state() -> Option<&'static State> {
    STATE.get()
}

/// Sets the state, which no fork may divide, and returns it.
pub(super) fn set(state: State) -> &'static State {
    STATE.set(state)
}

impl State {
    /// `calibration` began when the recorder came up.
    pub(super) fn new(
        config: Box<Settings>,
        chosen: ChosenClock,
        calibration: Calibration,
        identity: Identity,
    ) -> State {
        State {
            childrens_output: config.output.of_children(),
            config,
            chosen,
            calibration,
            best_frequency: BestFrequency::default(),
            skew_ns: AtomicU64::new(0),
            program: output::program_name(),
            identity,
        }
    }

    /// The names of this process's files. Async-signal-safe.
    pub(crate) fn output(&self) -> &Output {
        if sys::process::is_fork_child() {
            &self.childrens_output
        } else {
            &self.config.output
        }
    }

    /// The address that traces are sent to, if any. A child of a fork shares the clients and the standard
    /// output of its parent, so its traces are files.
    pub(crate) fn address(&self) -> Option<&Address> {
        let address = self.config.address.as_ref();
        address.filter(|address| !sys::process::is_fork_child() || address::is_of_children(address))
    }

    /// The frequency as known now, without waiting.
    #[inline(never)]
    pub(crate) fn frequency(&self) -> Frequency {
        self.choose(&Anchor::take(self.chosen.kind))
    }

    /// A moment at least [`BASELINE`] after the start, and the frequency until then.
    pub(crate) fn settled_frequency(&self) -> (Anchor, Frequency) {
        let now = self.calibration.at_least(BASELINE);
        (now, self.choose(&now))
    }

    #[inline(never)]
    fn choose(&self, now: &Anchor) -> Frequency {
        let measured = self.calibration.frequency(now);
        // If the rate may change, its average is the best value.
        match self.chosen.constant {
            true => self.best_frequency.choose(measured),
            false => measured,
        }
    }

    /// The faults of the clocks until that moment. `steps_back` comes from the threads.
    pub(crate) fn clock_faults(
        &self,
        now: &Anchor,
        frequency: &Frequency,
        steps_back: u64,
    ) -> ClockFaults {
        let ahead_ns = match self.chosen.constant {
            true => self.calibration.ahead_ns(now, frequency),
            false => 0,
        };
        ClockFaults {
            skew_ns: self.skew_ns.load(Ordering::Relaxed),
            steps_back,
            ahead_ns,
            wall_step_ns: self.calibration.wall_step_ns(now),
        }
    }

    /// Notes the comparison of the CPUs' counters.
    pub(crate) fn note_skew(&self, skew: &Skew) {
        self.skew_ns.store(skew.certain_ns(), Ordering::Relaxed);
        if let Some(ring) = ring() {
            let flags = &ring.header().clock_flags;
            flags.store(self.clock_flags(), Ordering::Relaxed);
        }
    }

    /// The clock's flags in the head of the ring: bits 0 and 1, and from bit 8 on the skew in microseconds.
    pub(super) fn clock_flags(&self) -> u32 {
        let skew_us = self.skew_ns.load(Ordering::Relaxed).div_ceil(1000);
        let skew_us = u32::try_from(skew_us).unwrap_or(u32::MAX).min(0xff_ffff);
        u32::from(self.chosen.constant) | u32::from(self.chosen.nonstop) << 1 | skew_us << 8
    }

    /// The moment at which the recorder came up.
    pub(crate) fn start(&self) -> Anchor {
        self.calibration.start
    }
}
