//! The rate of the clock of the records, and the relation of its ticks to the time of day. An anchor is one moment read
//! from all clocks. Two anchors give the frequency, and a longer time between them gives a smaller error.

use std::fmt;
use std::thread;
use std::time::Duration;

use crate::clock::{self, Kind};

const NS_PER_S: u64 = 1_000_000_000;

/// How often an anchor is tried. The narrowest try is kept, because an interrupt makes a try wide. This number
/// of tries takes some microseconds, and in that time at least one try is not interrupted.
const MAX_TRIES: u32 = 32;

/// The longest time that [`Calibration::at_least`] waits.
const MAX_WAIT: Duration = Duration::from_millis(2);

/// One moment on three clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The clock of the records, ticks.
    pub(crate) ticks: u64,
    /// CLOCK_MONOTONIC_RAW, ns.
    pub(crate) monotonic_raw_ns: u64,
    /// CLOCK_REALTIME: ns since 1970, UTC.
    pub(crate) realtime_ns: u64,
    /// How far `monotonic_raw_ns` may be from the moment of `ticks`, ns.
    pub(crate) uncertainty_ns: u64,
}

impl Anchor {
    /// Reads all clocks. Takes a few microseconds, or some tens if clock_gettime is a system call.
    /// Async-signal-safe.
    pub(crate) fn take(kind: Kind) -> Anchor {
        // The outer clock is the one that counts ns, so the width of the bracket needs no frequency.
        let (ticks, raw) = narrowest(clock::monotonic_raw_ns, || clock::read(kind).ticks);
        let (realtime_ns, between) = narrowest(clock::monotonic_raw_ns, clock::realtime_ns);
        let later = between.middle.wrapping_sub(raw.middle);
        Anchor {
            ticks,
            monotonic_raw_ns: raw.middle,
            realtime_ns: realtime_ns.wrapping_sub(later),
            // Half of the width would be enough if both clocks moved continuously. They move in steps, and a
            // step of the counter may be tens of ticks. A step is not wider than the bracket, so the
            // uncertainty is the whole width.
            uncertainty_ns: raw.width.max(1),
        }
    }
}

/// Two readings of one clock around a reading of another.
#[derive(Clone, Copy)]
struct Bracket {
    middle: u64,
    width: u64,
}

/// Reads `inner` between two readings of `outer`. Keeps the narrowest try.
fn narrowest(outer: impl Fn() -> u64, inner: impl Fn() -> u64) -> (u64, Bracket) {
    let attempt = || {
        let before = outer();
        let value = inner();
        let width = outer().saturating_sub(before);
        (
            value,
            Bracket {
                middle: before + width / 2,
                width,
            },
        )
    };
    let mut best = attempt();
    for _ in 1..MAX_TRIES {
        let next = attempt();
        if next.1.width < best.1.width {
            best = next;
        }
    }
    best
}

/// The rate of a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frequency {
    /// Ticks per second; never 0.
    pub(crate) hz: u64,
    /// Bound of the error, parts per million. Infinite if nothing could be measured.
    pub(crate) error_ppm: f64,
}

impl fmt::Display for Frequency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} MHz", self.hz as f64 / 1e6)?;
        if self.error_ppm.is_finite() {
            write!(f, " ± {:.3} ppm", self.error_ppm)
        } else {
            write!(f, ", not measured")
        }
    }
}

/// The anchor at the start of recording, and its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Calibration {
    pub(crate) kind: Kind,
    /// The rate that the platform states, see [`clock::ChosenClock::nominal_hz`].
    pub(crate) nominal_hz: Option<u64>,
    pub(crate) start: Anchor,
}

impl Calibration {
    /// Takes the anchor at the start. Async-signal-safe.
    pub(crate) fn begin(kind: Kind, nominal_hz: Option<u64>) -> Calibration {
        Calibration {
            kind,
            nominal_hz,
            start: Anchor::take(kind),
        }
    }

    /// Takes an anchor at least `baseline` after the start. If that moment is not reached, sleeps until then,
    /// at most 2 ms. Not async-signal-safe.
    pub(crate) fn at_least(&self, baseline: Duration) -> Anchor {
        let elapsed_ns = clock::monotonic_raw_ns().saturating_sub(self.start.monotonic_raw_ns);
        let missing = baseline.saturating_sub(Duration::from_nanos(elapsed_ns));
        if !missing.is_zero() {
            thread::sleep(missing.min(MAX_WAIT));
        }
        Anchor::take(self.kind)
    }

    /// The frequency between the start and `now`. Async-signal-safe.
    ///
    /// If one of the clocks did not go forward, returns the nominal frequency or 1 GHz, with an infinite error.
    /// This is so if no time passed, or if a virtual machine was moved.
    #[inline(never)]
    pub(crate) fn frequency(&self, now: &Anchor) -> Frequency {
        if self.kind == Kind::Monotonic {
            return Frequency {
                hz: NS_PER_S,
                error_ppm: 0.0,
            }; // By definition.
        }
        let ticks = now.ticks.saturating_sub(self.start.ticks);
        let elapsed_ns = now
            .monotonic_raw_ns
            .saturating_sub(self.start.monotonic_raw_ns);
        let measured = u128::from(ticks) * u128::from(NS_PER_S) + u128::from(elapsed_ns / 2);
        let hz = measured.checked_div(u128::from(elapsed_ns)).unwrap_or(0);
        let Some(hz) = u64::try_from(hz).ok().filter(|&hz| hz > 0) else {
            let hz = self.nominal_hz.filter(|&hz| hz > 0).unwrap_or(NS_PER_S);
            return Frequency {
                hz,
                error_ppm: f64::INFINITY,
            };
        };
        let uncertainty_ns = self.start.uncertainty_ns as f64 + now.uncertainty_ns as f64;
        let error_ppm = uncertainty_ns / elapsed_ns as f64 * 1e6;
        // The platform's figure is a round number and a measurement is not. So the platform's figure is used if
        // the two agree.
        let hz = self
            .nominal_hz
            .filter(|&nominal| differ_ppm(nominal, hz) <= error_ppm)
            .unwrap_or(hz);
        Frequency { hz, error_ppm }
    }
}

/// When the frequency in the head of the ring is measured again. A reader of a killed process's ring needs it.
/// The first time is soon after the start, and each pause is longer. After [`Refinement::MAX_INTERVAL`] it is
/// measured only if the dumper is awake for another reason, so a sleeping machine is not woken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refinement {
    due_ns: u64,
    interval: Duration,
}

impl Refinement {
    const FIRST: Duration = Duration::from_millis(16);
    /// Over one minute the error is some thousandths of a ppm, which is less than the drift of the clock.
    const MAX_INTERVAL: Duration = Duration::from_secs(60);

    /// Begins now. All times here are of CLOCK_MONOTONIC_RAW.
    pub(crate) fn new(now_ns: u64) -> Refinement {
        Refinement {
            due_ns: now_ns.saturating_add(Self::FIRST.as_nanos() as u64),
            interval: Self::FIRST,
        }
    }

    /// Whether it is time to measure. If so, sets the next time.
    pub(crate) fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.due_ns;
        if due {
            self.interval = (self.interval * 4).min(Self::MAX_INTERVAL);
            self.due_ns = now_ns.saturating_add(self.interval.as_nanos() as u64);
        }
        due
    }

    /// How long the dumper may sleep. `None` = for ever.
    pub(crate) fn sleep(&self, now_ns: u64) -> Option<Duration> {
        let left = Duration::from_nanos(self.due_ns.saturating_sub(now_ns));
        (self.interval < Self::MAX_INTERVAL).then_some(left)
    }
}

pub(super) fn differ_ppm(a: u64, b: u64) -> f64 {
    a.abs_diff(b) as f64 / b as f64 * 1e6
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::config::Clock;

    fn anchor(ticks: u64, monotonic_raw_ns: u64, uncertainty_ns: u64) -> Anchor {
        Anchor {
            ticks,
            monotonic_raw_ns,
            realtime_ns: 0,
            uncertainty_ns,
        }
    }

    fn from(start: Anchor) -> Calibration {
        Calibration {
            kind: Kind::Tscp,
            nominal_hz: None,
            start,
        }
    }

    #[test]
    fn one_second_of_a_3_ghz_counter() {
        let start = from(anchor(5_000_000_000, 70_000_000_000, 20));
        let frequency = start.frequency(&anchor(8_000_000_000, 71_000_000_000, 30));
        // 50 ns of 1 s are 0.05 ppm.
        assert_eq!(frequency.hz, 3_000_000_000);
        assert!((frequency.error_ppm - 0.05).abs() < 1e-12);
        assert_eq!(frequency.to_string(), "3000.000000 MHz ± 0.050 ppm");
    }

    #[test]
    fn a_longer_baseline_shrinks_the_error() {
        let start = from(anchor(0, 0, 40));
        let at = |ms: u64| start.frequency(&anchor(ms * 2_400_000, ms * 1_000_000, 40));
        let errors = [2, 50, 1000].map(|ms| at(ms).error_ppm);
        assert!(
            (errors[0] - 40.0).abs() < 1e-9 && (errors[1] - 1.6).abs() < 1e-9,
            "{errors:?}"
        );
        assert!((errors[2] - 0.08).abs() < 1e-9, "{errors:?}");
        assert_eq!([2, 50, 1000].map(|ms| at(ms).hz), [2_400_000_000; 3]);
    }

    #[test]
    fn years_do_not_overflow() {
        let ten_years_ns = 10 * 365 * 86_400 * NS_PER_S;
        let start = from(anchor(0, 0, 40));
        assert_eq!(
            start
                .frequency(&anchor(ten_years_ns * 5, ten_years_ns, 40))
                .hz,
            5_000_000_000
        );
        assert_eq!(
            start.frequency(&anchor(u64::MAX, 1, 0)).error_ppm,
            f64::INFINITY
        );
    }

    #[test]
    fn a_standing_clock_is_unknown() {
        let start = Calibration {
            nominal_hz: Some(24_000_000),
            ..from(anchor(100, 100, 1))
        };
        for now in [
            anchor(100, 200, 1),
            anchor(200, 100, 1),
            anchor(50, 200, 1),
            anchor(200, 50, 1),
        ] {
            let frequency = start.frequency(&now);
            assert_eq!(
                (frequency.hz, frequency.error_ppm),
                (24_000_000, f64::INFINITY)
            );
            assert_eq!(frequency.to_string(), "24.000000 MHz, not measured");
            let unstated = Calibration {
                nominal_hz: Some(0),
                ..start
            };
            assert_eq!(unstated.frequency(&now).hz, 1_000_000_000);
        }
    }

    #[test]
    fn a_nominal_frequency_needs_the_error() {
        let start = Calibration {
            nominal_hz: Some(24_000_000),
            ..from(anchor(0, 0, 500))
        };
        // 1 ppm of error: 10 Hz off is within it, 1000 Hz off is not.
        assert_eq!(
            start.frequency(&anchor(24_000_010, NS_PER_S, 500)).hz,
            24_000_000
        );
        assert_eq!(
            start.frequency(&anchor(24_001_000, NS_PER_S, 500)).hz,
            24_001_000
        );
    }

    #[test]
    fn the_system_clock_is_1_ghz_by_definition() {
        let start = Calibration {
            kind: Kind::Monotonic,
            ..from(anchor(0, 0, 500))
        };
        let frequency = start.frequency(&anchor(7, 3, 500));
        assert_eq!((frequency.hz, frequency.error_ppm), (1_000_000_000, 0.0));
    }

    #[test]
    fn the_narrowest_bracket_is_kept() {
        // Steps of the outer clock: 100, 100, then one of 10, then again 100s. The inner one counts.
        let (now, reads, inner) = (Cell::new(0), Cell::new(0), Cell::new(0));
        let outer = || {
            reads.set(reads.get() + 1);
            now.set(now.get() + if reads.get() == 6 { 10 } else { 100 });
            now.get()
        };
        let (value, bracket) = narrowest(outer, || {
            inner.set(inner.get() + 1);
            inner.get()
        });
        // Reads 5 and 6 are the third try's: 500 and 510.
        assert_eq!((value, bracket.middle, bracket.width), (3, 505, 10));
    }

    #[test]
    fn anchors_of_the_real_clock_follow_each_other() {
        let kind = clock::choose(Clock::Rdtscp).kind;
        let first = Anchor::take(kind);
        let second = Anchor::take(kind);
        assert!(second.ticks > first.ticks);
        assert!(second.monotonic_raw_ns > first.monotonic_raw_ns);
        assert!(
            first.uncertainty_ns > 0 && first.uncertainty_ns < 1_000_000,
            "{first:?}"
        );
        // The time of day, at the anchor's moment: before now, and not by more than this test takes.
        let now_ns = clock::realtime_ns();
        assert!(
            now_ns.abs_diff(first.realtime_ns) < 60 * NS_PER_S,
            "{first:?} {now_ns}"
        );
    }

    #[test]
    fn two_calibrations_agree_within_their_stated_errors() {
        let chosen = clock::choose(Clock::Rdtscp);
        let measure = || {
            let calibration = Calibration::begin(chosen.kind, None);
            thread::sleep(Duration::from_millis(50));
            calibration.frequency(&Anchor::take(chosen.kind))
        };
        let (a, b) = (measure(), measure());
        // 0.1 ppm for the kernel's own rounding of the raw clock's rate.
        let allowed_ppm = a.error_ppm + b.error_ppm + 0.1;
        assert!(differ_ppm(a.hz, b.hz) <= allowed_ppm, "{a} and {b}");
        assert!(allowed_ppm < 1000.0, "{a} and {b}");
    }

    #[test]
    fn refinements_become_rare_and_end() {
        let mut refinement = Refinement::new(NS_PER_S);
        let mut now_ns = NS_PER_S;
        assert!(!refinement.is_due(now_ns));
        let mut sleeps = Vec::new();
        while let Some(sleep) = refinement.sleep(now_ns) {
            sleeps.push(sleep.as_millis());
            now_ns += sleep.as_nanos() as u64;
            assert!(refinement.is_due(now_ns) && !refinement.is_due(now_ns));
        }
        assert_eq!(sleeps, [16, 64, 256, 1024, 4096, 16_384]);
        // The dumper was woken for another reason.
        assert!(!refinement.is_due(now_ns + 59 * NS_PER_S));
        assert!(refinement.is_due(now_ns + 60 * NS_PER_S));
        assert_eq!(refinement.sleep(now_ns), None);
    }

    #[test]
    fn a_short_baseline_is_extended_within_limits() {
        let kind = clock::choose(Clock::Rdtscp).kind;
        let calibration = Calibration::begin(kind, None);
        let now = calibration.at_least(Duration::from_millis(1));
        assert!(now.monotonic_raw_ns - calibration.start.monotonic_raw_ns >= 1_000_000);
        let before = std::time::Instant::now();
        calibration.at_least(Duration::from_secs(3600));
        assert!(before.elapsed() < Duration::from_secs(60));
    }
}
