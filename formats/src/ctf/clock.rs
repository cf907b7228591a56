//! Times of the source as this format has them: ns of the source's own clock, and how far they are
//! from 1970. Must never give a time that readers refuse: they count ns since
//! 1970 in a signed 64-bit number, and the clock's own ns too.

use crate::model::{Clock, Nanos, Ticks};
use crate::scale::Scale;

/// The latest time that readers take; babeltrace2 refuses the next one.
const LATEST: u64 = i64::MAX as u64 - 1;
/// The farthest from 1970 that babeltrace2 takes a clock's zero to be, in whole seconds.
const FARTHEST: i64 = i64::MAX - 2_000_000_000;

/// From ticks to ns.
#[derive(Clone, Debug)]
pub(super) struct Times {
    scale: Scale,
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
        let anchor = clock.anchor.map(|(tick, unix)| (clock.nanos(tick).0, unix));
        let offset = anchor.map_or(0, |(here, unix)| i128::from(unix) - i128::from(here));
        let offset = i64::try_from(offset).ok();
        let near = |offset: &i64| (-FARTHEST..=FARTHEST).contains(offset);
        let offset = offset.filter(near).unwrap_or(0);
        Times {
            scale: Scale::new(clock.frequency),
            offset,
            anchor,
            limit: LATEST.saturating_sub(offset.max(0) as u64),
            late: 0,
        }
    }

    /// That tick in ns.
    #[inline]
    pub(super) fn nanos(&mut self, tick: Ticks) -> u64 {
        let Nanos(nanos) = self.scale.nanos(tick);
        if nanos > self.limit {
            self.late += 1;
            return self.limit;
        }
        nanos
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
