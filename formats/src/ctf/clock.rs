//! Times of the source as this format has them: ns of the source's own clock, exactly rounded down,
//! and how far they are from 1970. Must never give a time that readers refuse: they count ns since
//! 1970 in a signed 64-bit number, and the clock's own ns too.

use crate::model::{Clock, Ticks};

const NANOS: u64 = 1_000_000_000;
/// The latest time that readers take; babeltrace2 refuses the next one.
const LATEST: u64 = i64::MAX as u64 - 1;
/// The farthest from 1970 that babeltrace2 takes a clock's zero to be, in whole seconds.
const FARTHEST: i64 = i64::MAX - 2_000_000_000;
/// A distance of fewer ticks than this, in ns and ticks, fits into 64 bits with a remainder.
const NEAR: u64 = 1 << 33;

/// From ticks to ns.
#[derive(Clone, Debug)]
pub(super) struct Times {
    frequency: u64,
    /// A tick, and what it is in ns: quotient and remainder. Times near to it need no wide division.
    base: u64,
    quotient: u64,
    remainder: u64,
    /// Ns of Unix time at 0 ns of the trace's clock; 0 without an anchor.
    pub(super) offset: i64,
    /// The anchor, in ns of the trace's clock and in Unix ns.
    pub(super) anchor: Option<(u64, u64)>,
    limit: u64,
    /// Times beyond the limit.
    pub(super) late: u64,
}

impl Times {
    pub(super) fn new(clock: &Clock) -> Times {
        let mut times = Times {
            frequency: clock.frequency.max(1),
            base: 0,
            quotient: 0,
            remainder: 0,
            offset: 0,
            anchor: None,
            limit: LATEST,
            late: 0,
        };
        times.anchor = clock
            .anchor
            .map(|(Ticks(tick), unix)| (times.wide(tick), unix));
        let offset = times
            .anchor
            .map_or(0, |(here, unix)| i128::from(unix) - i128::from(here));
        let offset = i64::try_from(offset).ok();
        let near = |offset: &i64| (-FARTHEST..=FARTHEST).contains(offset);
        times.offset = offset.filter(near).unwrap_or(0);
        times.limit = LATEST.saturating_sub(times.offset.max(0) as u64);
        times
    }

    /// That tick in ns.
    #[inline]
    pub(super) fn nanos(&mut self, tick: Ticks) -> u64 {
        let nanos = match tick.0.checked_sub(self.base) {
            _ if self.frequency == NANOS => tick.0,
            Some(near) if near < NEAR && self.frequency < NEAR => {
                self.quotient + (near * NANOS + self.remainder) / self.frequency
            }
            _ => self.rebase(tick.0),
        };
        if nanos > self.limit {
            self.late += 1;
            return self.limit;
        }
        nanos
    }

    #[cold]
    fn rebase(&mut self, tick: u64) -> u64 {
        let product = u128::from(tick) * u128::from(NANOS);
        let frequency = u128::from(self.frequency);
        let Ok(quotient) = u64::try_from(product / frequency) else {
            return u64::MAX;
        };
        // The remainder is less than the frequency, which is a u64.
        let remainder = (product % frequency) as u64;
        if quotient < u64::MAX / 2 {
            (self.base, self.quotient, self.remainder) = (tick, quotient, remainder);
        }
        quotient
    }

    fn wide(&self, tick: u64) -> u64 {
        let nanos = u128::from(tick) * u128::from(NANOS) / u128::from(self.frequency);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_and_far_times_are_exact() {
        for frequency in [1, 3, 999_999_937, NANOS, 2_794_748_000, 1 << 40, u64::MAX] {
            let clock = Clock {
                frequency,
                ..Clock::default()
            };
            let mut times = Times::new(&clock);
            let mut tick = 1;
            for step in 0..2000u64 {
                let wide = u128::from(tick) * 1_000_000_000 / u128::from(frequency);
                let wanted = u64::try_from(wide).unwrap_or(u64::MAX).min(LATEST);
                assert_eq!(times.nanos(Ticks(tick)), wanted, "{tick} at {frequency} Hz");
                // Small steps, a jump forward of any size now and then, and a few back.
                tick = match step % 100 {
                    97 => tick
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(step),
                    98 => tick / 3,
                    _ => tick.saturating_add(step * step * 12_345),
                };
            }
        }
    }

    #[test]
    fn an_anchor_gives_offset_and_limit() {
        let anchor = Some((Ticks(3_000_000_000), 1_700_000_000_000_000_001));
        let clock = Clock {
            frequency: 3_000_000_000,
            anchor,
            ..Clock::default()
        };
        let mut times = Times::new(&clock);
        assert_eq!(times.offset, 1_699_999_999_000_000_001);
        let most = LATEST - 1_699_999_999_000_000_001;
        assert_eq!(times.nanos(Ticks(u64::MAX)), 6_148_914_691_236_517_205);
        assert_eq!((times.limit, times.late), (most, 0));
        let late = Clock {
            frequency: 1_000_000_000,
            ..clock
        };
        let mut times = Times::new(&late);
        assert_eq!(times.nanos(Ticks(u64::MAX)), times.limit);
        assert_eq!(times.late, 1);
    }
}
