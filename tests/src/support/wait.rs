//! Waiting for a condition, with a deadline: tests never sleep and hope. The deadline counts only time in
//! which the test itself ran. While a virtual machine is copied, or a host sleeps, the clocks go on for
//! minutes, but neither the test nor the tested program runs.

use std::thread;
use std::time::{Duration, Instant};

/// No condition of these tests takes so long on a working machine, however loaded.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// What the time from one look to the next counts at most.
const MAX: Duration = Duration::from_millis(100);

/// The time that a polling waiter has waited so far.
#[derive(Debug)]
pub struct Patience {
    limit: Duration,
    waited: Duration,
    last: Instant,
}

impl Patience {
    /// From now on, for so long.
    #[must_use]
    pub fn new(limit: Duration) -> Patience {
        Patience {
            limit,
            waited: Duration::ZERO,
            last: Instant::now(),
        }
    }

    /// Whether it is over; to be asked at each look.
    pub fn is_over(&mut self) -> bool {
        self.is_over_at(Instant::now())
    }

    fn is_over_at(&mut self, now: Instant) -> bool {
        self.waited += now.saturating_duration_since(self.last).min(MAX);
        self.last = now;
        self.waited >= self.limit
    }

    /// Begins anew.
    pub fn restart(&mut self) {
        *self = Patience::new(self.limit);
    }
}

/// Polls until `condition` gives a value.
///
/// # Panics
///
/// After [`DEADLINE`], with `awaited`.
pub fn until<T>(awaited: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(DEADLINE, condition).unwrap_or_else(|| panic!("waited in vain for {awaited}"))
}

/// The same for so long; `None` if no value came.
pub fn within<T>(limit: Duration, mut condition: impl FnMut() -> Option<T>) -> Option<T> {
    let mut patience = Patience::new(limit);
    loop {
        let value = condition();
        if value.is_some() || patience.is_over() {
            return value;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suspended_machines_are_not_awaited() {
        let mut patience = Patience::new(Duration::from_secs(1));
        let mut now = patience.last;
        for _ in 0..9 {
            now += Duration::from_secs(3600);
            assert!(!patience.is_over_at(now));
        }
        // A clock that goes back counts nothing.
        assert!(!patience.is_over_at(now - Duration::from_secs(7)));
        now += Duration::from_millis(99);
        assert!(!patience.is_over_at(now - Duration::from_secs(7)));
        now += Duration::from_millis(1);
        assert!(patience.is_over_at(now - Duration::from_secs(7)));
    }

    #[test]
    fn late_values_are_still_taken() {
        assert_eq!(within(Duration::ZERO, || Some(7)), Some(7));
        assert_eq!(within(Duration::ZERO, || None::<u8>), None);
        let mut left = 3_u32;
        let counted = within(DEADLINE, || {
            left -= 1;
            (left == 0).then_some(())
        });
        assert_eq!(counted, Some(()));
    }
}
