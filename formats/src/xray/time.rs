//! The running time of one thread's records. Absolute ticks and deltas become a time on which durations can be based.
//! It handles clocks that begin anew (the machine was suspended or moved), clocks that jump, and impossible ticks.
//!
//! - An absolute tick that is up to [`MAX_STEP_BACK`] behind stays as it is. CPUs disagree by that
//!   much, and people want to see it.
//! - A tick further behind is another count: the clock began anew. Time continues from its last value. The
//!   time between the two records is unknown.
//! - A tick behind a *break* of the writer's is set back by the ticks that the break names.
//! - A tick later than the block's latest tick is damage. Time continues from its last value. The next
//!   sound tick counts as if the damaged one were absent.

/// The largest step back at which the recorder keeps its last time. It takes a clock that is further behind as reset.
pub(super) const MAX_STEP_BACK: u64 = u32::MAX as u64;

/// The effect of an absolute tick on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It went on, or a little back.
    Plain,
    /// The clock began anew.
    Break,
    /// It is later than any record of the block, so it is damage.
    Late,
}

/// The time of one thread.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Running {
    /// `None` before the first record that sets it.
    now: Option<u64>,
    /// Ticks that are added to absolute ticks.
    shift: i64,
    /// The latest tick, if it is known.
    latest: Option<u64>,
}

impl Running {
    /// The beginning of a block. No record is later than `latest`.
    pub(super) fn new(latest: Option<u64>) -> Running {
        Running {
            latest,
            ..Running::default()
        }
    }

    /// The time of the record before.
    pub(super) fn now(&self) -> Option<u64> {
        self.now
    }

    /// Records came with deltas. This is the time of the last one.
    pub(super) fn advance(&mut self, now: u64) {
        self.now = Some(now);
    }

    /// An event's absolute tick as time.
    pub(super) fn time_of(&self, tick: u64) -> u64 {
        tick.saturating_add_signed(self.shift)
    }

    /// No record is later than that.
    pub(super) fn limit(&self) -> u64 {
        let limit = self.latest.map(|latest| self.time_of(latest));
        limit.map_or(u64::MAX, |limit| limit.max(self.now.unwrap_or(0)))
    }

    /// The clock jumped ahead by this many ticks.
    pub(super) fn jumped(&mut self, ticks: u64) {
        self.shift = self.shift.saturating_sub_unsigned(ticks);
    }

    /// A record sets the time.
    pub(super) fn set(&mut self, tick: u64) -> Turn {
        let Some(now) = self.now else {
            self.now = Some(self.time_of(tick));
            return Turn::Plain;
        };
        let late = self.latest.is_some_and(|latest| tick > latest);
        // A time before tick 0, or after the largest tick, is not valid.
        let time = tick.checked_add_signed(self.shift);
        let time = time.filter(|&time| now.saturating_sub(time) <= MAX_STEP_BACK);
        if let Some(time) = time.filter(|_| !late) {
            self.now = Some(time);
            return Turn::Plain;
        }
        if late {
            // The next deltas begin at this time. The next absolute tick is used again.
            return Turn::Late;
        }
        // The time returns to the clock's value before the fault, or continues.
        let shift = i128::from(now) - i128::from(tick);
        self.shift = i64::try_from(shift).unwrap_or(i64::MAX).max(0);
        self.now = Some(self.time_of(tick));
        Turn::Break
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: u64 = MAX_STEP_BACK + 1;

    fn at(now: u64, latest: Option<u64>) -> Running {
        let mut running = Running::new(latest);
        assert_eq!(running.set(now), Turn::Plain);
        running
    }

    #[test]
    fn a_small_step_back_is_shown() {
        let mut running = at(10 * FAR, None);
        assert_eq!(running.set(9 * FAR + 1), Turn::Plain);
        assert_eq!(running.now(), Some(9 * FAR + 1));
    }

    #[test]
    fn restarted_clocks_go_on() {
        let mut running = at(10 * FAR, None);
        assert_eq!(running.set(5), Turn::Break);
        assert_eq!(running.now(), Some(10 * FAR));
        assert_eq!(running.set(105), Turn::Plain);
        assert_eq!(
            (running.now(), running.time_of(106)),
            (Some(10 * FAR + 100), 10 * FAR + 101)
        );
        // And again.
        assert_eq!(running.set(90 * FAR), Turn::Plain);
        let before = running.now();
        assert_eq!(running.set(7), Turn::Break);
        assert_eq!(running.now(), before);
    }

    #[test]
    fn a_jump_is_taken_out() {
        let mut running = at(1000, Some(60 * FAR));
        running.jumped(50 * FAR);
        assert_eq!(running.set(50 * FAR + 1500), Turn::Plain);
        assert_eq!((running.now(), running.limit()), (Some(1500), 10 * FAR));
        // A false number of ticks makes a break, but no time goes back.
        running.jumped(50 * FAR);
        assert_eq!(running.set(50 * FAR + 1600), Turn::Break);
        assert!(running.now() >= Some(1500));
    }

    #[test]
    fn ticks_that_cannot_be_are_not_believed() {
        let mut running = at(1000, Some(2000));
        assert_eq!(running.set(2001), Turn::Late);
        assert_eq!(running.now(), Some(1000));
        assert_eq!(running.set(1900), Turn::Plain);
        assert_eq!((running.now(), running.limit()), (Some(1900), 2000));
        // This holds for the first tick of a block too. Only the block's own latest tick can be compared
        // with it.
        assert_eq!(at(5000, Some(2000)).limit(), 5000);
    }
}
