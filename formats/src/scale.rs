//! Ticks become nanoseconds here alone, by one rule. The time of a tick is the number of ns since tick 0,
//! rounded to the nearest, and a half is rounded up. A distance between two ticks is the difference of their times. A
//! distance without ticks is rounded by itself. So a tick has the same time in every format, and a later
//! tick never has an earlier time. The fast path must never round differently.

use std::fmt;

const SECOND: u64 = 1_000_000_000;
/// A distance of fewer ticks than this fits into 64 bits with a remainder, in ns and in ticks.
const NEAR: u64 = 1 << 33;

/// A point in time or a duration in ticks of the trace's own clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Ticks from `earlier` to `self`; zero if the clock went back.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks(self.0.saturating_sub(earlier.0))
    }
}

/// A duration or a point in time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl fmt::Display for Ticks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The time of a tick, or the length of a number of ticks. [`u64::MAX`] stands for every result that 64
/// bits can't hold.
///
/// `frequency`: ticks of a second; 0 is taken for 1. Async-signal-safe.
#[must_use]
pub fn nanos(ticks: Ticks, frequency: u64) -> Nanos {
    let (nanos, _) = divide(ticks.0, frequency.max(1));
    Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Ns from the time of one tick to the time of another; below 0 if `to` is before `from`.
///
/// `frequency`: ticks of a second; 0 is taken for 1. Async-signal-safe.
#[must_use]
pub fn nanos_between(from: Ticks, to: Ticks, frequency: u64) -> i128 {
    let (from, _) = divide(from.0, frequency.max(1));
    let (to, _) = divide(to.0, frequency.max(1));
    // Both are below 2^94.
    to as i128 - from as i128
}

/// The whole ticks in a number of nanoseconds.
#[must_use]
pub(crate) fn ticks_in(nanos: i128, frequency: u64) -> i128 {
    let product = nanos.saturating_mul(i128::from(frequency.max(1)));
    product.div_euclid(i128::from(SECOND))
}

/// A tick in ns, and the remainder, in parts of which `frequency` are a ns.
fn divide(ticks: u64, frequency: u64) -> (u128, u64) {
    let product = u128::from(ticks) * u128::from(SECOND) + u128::from(frequency / 2);
    let wide = u128::from(frequency);
    // The remainder is less than the frequency, which is a u64.
    (product / wide, (product % wide) as u64)
}

/// The times of many ticks: the same as [`nanos`]. There is no division if a tick is within some seconds
/// of an earlier one.
#[derive(Clone, Debug)]
pub struct Scale {
    frequency: u64,
    /// 2^64 by the frequency, rounded down.
    reciprocal: u64,
    /// A tick, its time, and the remainder. Ticks near behind it need no wide division.
    base: u64,
    quotient: u64,
    remainder: u64,
    /// Ticks fewer than this are near behind the base; 0 if no tick can be computed from the base.
    near: u64,
}

impl Scale {
    /// For a clock of this many ticks a second; 0 is taken for 1.
    #[must_use]
    pub fn new(frequency: u64) -> Scale {
        let frequency = frequency.max(1);
        let near = if frequency == SECOND || frequency >= NEAR {
            0
        } else {
            NEAR
        };
        Scale {
            frequency,
            reciprocal: u64::MAX / frequency,
            base: 0,
            quotient: 0,
            remainder: frequency / 2,
            near,
        }
    }

    /// Ticks per second.
    pub(crate) fn frequency(&self) -> u64 {
        self.frequency
    }

    /// As [`nanos`].
    #[inline]
    #[must_use]
    pub fn nanos(&mut self, ticks: Ticks) -> Nanos {
        let behind = ticks.0.wrapping_sub(self.base);
        if behind < self.near {
            return Nanos(self.quotient + self.quotient_of(behind * SECOND + self.remainder));
        }
        if self.frequency == SECOND {
            return Nanos(ticks.0);
        }
        self.rebase(ticks)
    }

    /// A number divided by the frequency.
    #[inline]
    fn quotient_of(&self, number: u64) -> u64 {
        // The reciprocal is at most 1 too small, so the product is less than 1 too small.
        let product = u128::from(number) * u128::from(self.reciprocal);
        let quotient = (product >> 64) as u64;
        let rest = number - quotient * self.frequency;
        quotient + u64::from(rest >= self.frequency)
    }

    #[cold]
    fn rebase(&mut self, ticks: Ticks) -> Nanos {
        // Calls are often given when they end. So times before this one are as near as times after it.
        let base = ticks.0.saturating_sub(NEAR / 2);
        let (quotient, remainder) = divide(base, self.frequency);
        if let (true, Ok(quotient @ ..0x8000_0000_0000_0000)) =
            (self.near > 0, u64::try_from(quotient))
        {
            (self.base, self.quotient, self.remainder) = (base, quotient, remainder);
        }
        nanos(ticks, self.frequency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREQUENCIES: [u64; 14] = [
        1,
        2,
        3,
        32_768,
        999_999_937,
        999_999_999,
        SECOND,
        1_000_000_001,
        2_095_000_000,
        2_994_373_123,
        NEAR - 1,
        NEAR,
        1 << 40,
        u64::MAX,
    ];

    /// The nearest number by its definition: no other number of ns is nearer, and of two equally near
    /// the later one counts.
    fn is_nearest(ticks: u64, frequency: u64, nanos: u64) -> bool {
        let [ticks, frequency, nanos] = [ticks, frequency, nanos].map(i128::from);
        // Twice the distance, in parts of which `frequency` are a ns.
        let error = 2 * (ticks * i128::from(SECOND) - nanos * frequency);
        -frequency <= error && error < frequency
    }

    #[test]
    fn times_round_to_nearest_and_halves_up() {
        for (frequency, ticks, wanted) in [
            (2_000_000_000, 1, 1),
            (2_000_000_000, 3, 2),
            (4_000_000_000, 1, 0),
            (4_000_000_000, 2, 1),
            (4_000_000_000, 3, 1),
            (3_000_000_000, 1, 0),
            (3_000_000_000, 2, 1),
            (2_095_000_000, 2095, 1000),
            (2_095_000_000, 2094, 1000),
            (2_095_000_000, 2093, 999),
            (0, 2, 2_000_000_000),
            (1, u64::MAX, u64::MAX),
        ] {
            assert_eq!(
                nanos(Ticks(ticks), frequency),
                Nanos(wanted),
                "{ticks} at {frequency} Hz"
            );
        }
    }

    #[test]
    fn near_far_and_past_times_are_the_nearest() {
        for frequency in FREQUENCIES {
            let mut scale = Scale::new(frequency);
            let mut ticks = 1u64;
            for step in 0..4000u64 {
                let Nanos(found) = scale.nanos(Ticks(ticks));
                let place = || format!("{ticks} ticks at {frequency} Hz are {found} ns");
                assert_eq!(Nanos(found), nanos(Ticks(ticks), frequency), "{}", place());
                if found < u64::MAX {
                    assert!(is_nearest(ticks, frequency, found), "{}", place());
                }
                // Small steps, some back, and now and then a jump of any size.
                ticks = match step % 50 {
                    47 => ticks
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(step),
                    48 => ticks / 3,
                    at if at % 7 == 6 => ticks.saturating_sub(step * 54_321),
                    _ => ticks.saturating_add(step * step * 12_345),
                };
            }
        }
    }

    #[test]
    fn later_ticks_are_never_earlier() {
        for frequency in FREQUENCIES {
            let mut scale = Scale::new(frequency);
            for start in [0, NEAR - 500, NEAR / 2 - 500, 3 * NEAR / 2 - 500, 1 << 62] {
                let mut last = Nanos(0);
                for ticks in start..start + 1000 {
                    let now = scale.nanos(Ticks(ticks));
                    assert!(last <= now, "{ticks} at {frequency} Hz");
                    last = now;
                }
            }
        }
    }

    #[test]
    fn a_distance_is_that_of_the_times() {
        let between = |from, to| nanos_between(Ticks(from), Ticks(to), 2_095_000_000);
        // 1 tick is 0.48 ns, 2 are 0.95 ns, 3 are 1.43 ns.
        assert_eq!([between(1, 2), between(2, 3), between(3, 1)], [1, 0, -1]);
        let all = nanos_between(Ticks(u64::MAX), Ticks(0), 1);
        assert_eq!(all, -i128::from(u64::MAX) * i128::from(SECOND));
    }
}
