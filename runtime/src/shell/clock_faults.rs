//! Faults of clocks while a program runs: counters that jump, stop or begin anew, and a time of day that is
//! set. They are found by comparison with CLOCK_MONOTONIC_RAW, which cannot be set. The corrections of time
//! daemons must never count as faults. A measurement that is too short must not find a fault either.

use core::sync::atomic::{AtomicU64, Ordering};

use fdr_formats::{Ticks, scale};

use super::calibrate::{Anchor, Calibration, Frequency, differ_ppm};

/// The largest drift of a counter's rate with the temperature, parts per million.
const MAX_DRIFT_PPM: f64 = 500.0;

/// A smaller difference is no jump, because the two clocks are not read at the same moment, ns.
const MIN_AHEAD_NS: i128 = 10_000_000;

/// Time daemons correct the time of day by at most 500 ppm. The rate itself may be off by as much.
const MAX_SLEW_PPM: f64 = 1100.0;

/// Time daemons do not step the time of day by less than this, ns.
const MIN_WALL_STEP_NS: i128 = 100_000_000;

/// The best frequency so far. A counter that jumped or began anew gives a false frequency. In that case the
/// earlier frequency is used, so only durations over the jump are false.
#[derive(Debug, Default)]
pub(crate) struct BestFrequency {
    hz: AtomicU64,
    /// Bits of `Frequency::error_ppm`. If two threads measure at once, it may belong to another measurement
    /// than `hz`. Both are then within their errors.
    error_ppm: AtomicU64,
}

impl BestFrequency {
    /// The frequency to use after a new measurement.
    pub(crate) fn choose(&self, measured: Frequency) -> Frequency {
        let known = Frequency {
            hz: self.hz.load(Ordering::Relaxed),
            error_ppm: f64::from_bits(self.error_ppm.load(Ordering::Relaxed)),
        };
        if known.hz > 0 {
            let error_ppm = known.error_ppm + measured.error_ppm + MAX_DRIFT_PPM;
            if !measured.error_ppm.is_finite() || differ_ppm(measured.hz, known.hz) > error_ppm {
                return known;
            }
        }
        if measured.error_ppm.is_finite() && (known.hz == 0 || measured.error_ppm < known.error_ppm)
        {
            self.hz.store(measured.hz, Ordering::Relaxed);
            let error_ppm = measured.error_ppm.to_bits();
            self.error_ppm.store(error_ppm, Ordering::Relaxed);
        }
        measured
    }
}

impl Calibration {
    /// How far the clock of the records is ahead of CLOCK_MONOTONIC_RAW since the start, in ns. Negative if it
    /// is behind. 0 if the two agree within their errors. Async-signal-safe.
    pub(crate) fn ahead_ns(&self, now: &Anchor, frequency: &Frequency) -> i64 {
        if !frequency.error_ppm.is_finite() {
            return 0; // Nothing to compare with.
        }
        let ns = scale::nanos_between(Ticks(self.start.ticks), Ticks(now.ticks), frequency.hz);
        let ppm = 2.0 * frequency.error_ppm + MAX_DRIFT_PPM;
        beyond(ns, self.raw_ns(now), MIN_AHEAD_NS, ppm)
    }

    /// How far the time of day was set ahead since the start, against CLOCK_MONOTONIC_RAW, in ns. Negative if
    /// it was set back. 0 if the difference is no larger than a time daemon's correction. Async-signal-safe.
    pub(crate) fn wall_step_ns(&self, now: &Anchor) -> i64 {
        let ns = i128::from(now.realtime_ns) - i128::from(self.start.realtime_ns);
        beyond(ns, self.raw_ns(now), MIN_WALL_STEP_NS, MAX_SLEW_PPM)
    }

    fn raw_ns(&self, now: &Anchor) -> u64 {
        now.monotonic_raw_ns
            .saturating_sub(self.start.monotonic_raw_ns)
    }
}

/// The difference between `ns` and `raw_ns`, the time on CLOCK_MONOTONIC_RAW. 0 if the difference is within
/// `least_ns` plus `ppm` parts per million.
#[inline(never)]
fn beyond(ns: i128, raw_ns: u64, least_ns: i128, ppm: f64) -> i64 {
    let apart = ns - i128::from(raw_ns);
    let allowed = least_ns + (raw_ns as f64 * ppm / 1e6) as i128;
    if apart.abs() <= allowed {
        return 0;
    }
    i64::try_from(apart).unwrap_or(if apart > 0 { i64::MAX } else { i64::MIN })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Kind;

    const SECOND: u64 = 1_000_000_000;

    fn frequency(hz: u64, error_ppm: f64) -> Frequency {
        Frequency { hz, error_ppm }
    }

    fn anchor(ticks: u64, raw: u64, real: u64) -> Anchor {
        Anchor {
            ticks,
            monotonic_raw_ns: raw,
            realtime_ns: real,
            uncertainty_ns: 50,
        }
    }

    /// At 3 GHz, ten seconds after the start: what is found of ticks, and of the time of day.
    fn found(ticks: i64, real: i64) -> (i64, i64) {
        let calibration = Calibration {
            kind: Kind::Tscp,
            nominal_hz: None,
            start: anchor(1 << 40, 500 * SECOND, 1 << 60),
        };
        let ticks = (1_u64 << 40).wrapping_add_signed(30 * SECOND as i64 + 3 * ticks);
        let real = (1_u64 << 60).wrapping_add_signed(10 * SECOND as i64 + real);
        let now = anchor(ticks, 510 * SECOND, real);
        let ahead = calibration.ahead_ns(&now, &frequency(3 * SECOND, 1.0));
        (ahead, calibration.wall_step_ns(&now))
    }

    #[test]
    fn clock_jumps_and_stops_are_reported() {
        let hour = 3600 * SECOND as i64;
        assert_eq!(found(0, 0), (0, 0));
        // 500 ppm of 10 s; a time daemon that slews.
        assert_eq!(found(5_000_000, 5_000_000), (0, 0));
        assert_eq!(found(-5_000_000, -60_000_000), (0, 0));
        // Moved to a machine whose counter is ahead; one that was reset.
        assert_eq!(found(hour, 0), (hour, 0));
        assert_eq!(found(-300 * SECOND as i64, 0).0, -300 * SECOND as i64);
        // The time of day was set, which is no fault of the ticks.
        assert_eq!(found(0, hour), (0, hour));
        assert_eq!(found(0, -hour), (0, -hour));
    }

    #[test]
    fn a_frequency_of_a_jump_is_refused() {
        let best_frequency = BestFrequency::default();
        assert_eq!(
            best_frequency.choose(frequency(2_990_000_000, 5000.0)).hz,
            2_990_000_000
        );
        // Better and better, and within the errors.
        assert_eq!(
            best_frequency.choose(frequency(3_000_100_000, 40.0)).hz,
            3_000_100_000
        );
        assert_eq!(
            best_frequency.choose(frequency(3_000_000_000, 0.1)).hz,
            3_000_000_000
        );
        // The counter jumped by an hour, or began anew.
        assert_eq!(
            best_frequency.choose(frequency(40_000_000_000, 0.1)).hz,
            3_000_000_000
        );
        let reset = best_frequency.choose(frequency(1_000_000_000, f64::INFINITY));
        assert_eq!((reset.hz, reset.error_ppm), (3_000_000_000, 0.1));
        // It may drift a little.
        assert_eq!(
            best_frequency.choose(frequency(3_001_000_000, 0.1)).hz,
            3_001_000_000
        );
    }

    #[test]
    fn the_first_measurement_is_taken() {
        let best_frequency = BestFrequency::default();
        let nothing = frequency(1_000_000_000, f64::INFINITY);
        assert_eq!(best_frequency.choose(nothing), nothing);
        assert_eq!(best_frequency.choose(frequency(5, 1.0)).hz, 5);
    }
}
