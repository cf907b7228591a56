//! The faults of a trace's clock, in words: those that the recorder noted, and the jumps. Every command that shows
//! times prints them. It names a time of day that was set, and the errors that the trace states.

use std::path::Path;

use fdr_formats::Clock;
use nix::time::{ClockId, clock_gettime};

use crate::ui;

/// A smaller error of the frequency, in parts per million, is not mentioned.
const NOTABLE_PPM: f64 = 1000.0;

/// CLOCK_MONOTONIC_RAW now, in ns. A trace of a running process's ring ends at this moment. `None`: the system has no
/// such clock.
pub(crate) fn monotonic_raw_ns() -> Option<u64> {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC_RAW).ok()?;
    let (seconds, nanos) = (now.tv_sec(), now.tv_nsec());
    let nanos = i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
    u64::try_from(nanos).ok()
}

/// One line for each thing that is wrong with the clock; empty where nothing is known to be.
pub(crate) fn notes(clock: &Clock) -> Vec<String> {
    let mut notes = Vec::new();
    let faults = &clock.faults;
    // Other recorders' traces, and formats without such facts, say nothing of either.
    let named = !clock.name.is_empty() && clock.anchor.is_some();
    if named && !clock.constant {
        notes.push(
            "clock: its rate may change with the CPU's (the recorder found it not invariant): \
             durations may be wrong; FDR_CLOCK=monotonic is not affected"
                .to_owned(),
        );
    }
    if faults.ahead_ns != 0 {
        let way = match faults.ahead_ns > 0 {
            true => "ran ahead of",
            false => "fell behind",
        };
        notes.push(format!(
            "clock: it {way} the system's steady clock by {} while this was recorded (a suspended or \
             moved machine): times before and after that are not comparable",
            ui::duration(faults.ahead_ns.unsigned_abs())
        ));
    }
    if faults.skew_ns > 0 {
        notes.push(format!(
            "clock: the counters of two CPUs differ by at least {}: durations of calls that changed \
             CPU are wrong by up to that, and so is the order between threads",
            ui::duration(faults.skew_ns)
        ));
    }
    if faults.steps_back > 0 {
        notes.push(format!(
            "clock: it was behind a thread's last record {}; those records have the time of the one \
             before, so that calls look shorter than they were",
            ui::things(faults.steps_back, "time")
        ));
    }
    if faults.wall_step_ns != 0 {
        let way = match faults.wall_step_ns > 0 {
            true => "ahead",
            false => "back",
        };
        notes.push(format!(
            "time of day: it moved {way} by {} against the system's steady clock (it was set, or the \
             machine slept): dates are by the start of the recording, durations are not affected",
            ui::duration(faults.wall_step_ns.unsigned_abs())
        ));
    }
    if let Some(ppm) = clock.error_ppm.filter(|ppm| *ppm > NOTABLE_PPM) {
        let error = match ppm.is_finite() {
            true => format!("only known to {:.1} %", ppm / 10_000.0),
            false => "not measured".to_owned(),
        };
        notes.push(format!(
            "clock: its rate is {error}: all durations may be off by that"
        ));
    }
    notes
}

/// What breaks of the clock do to figures.
pub(crate) fn breaks_in_words(breaks: u64) -> String {
    format!(
        "clock: it jumped or began anew in {}: the jump is in no duration, and calls that were open \
         there are clipped",
        ui::things(breaks, "place")
    )
}

/// Prints the faults of a trace's clock to stderr, for outputs that have no place for them.
pub(crate) fn warn(trace: &Path, clock: &Clock) {
    for note in notes(clock) {
        ui::complain(&format!("{}: {note}", ui::path(trace)));
    }
}
