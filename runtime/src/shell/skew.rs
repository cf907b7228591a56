//! Compares the counters of all CPUs. Two threads of the recorder send each other their readings, one on the first CPU
//! and one on each other CPU in turn.
//!
//! The kernel's clock can't be the reference, because on most machines it is computed from the same counter of
//! the same CPU. So the comparison works as between two hosts of a network. The far reading lies between two
//! near ones. Many rounds narrow the bounds of the offset to about the time of one message.

#![expect(
    clippy::disallowed_types,
    reason = "two threads of the recorder share the lock, and a child has neither"
)]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use crossbeam_utils::Backoff;
use fdr_formats::{Ticks, scale};

use super::calibrate::Frequency;
use crate::clock::{self, Kind};
use crate::sys::thread::{Thread, spawn};

/// Messages sent to each CPU and back. One takes well under a microsecond.
const ROUNDS: u64 = 200;

/// The stack of each thread.
const STACK: usize = 128 * 1024;

/// How long one pair of CPUs may take. Other threads may keep a CPU busy.
const MAX_PAIR_TIME: Duration = Duration::from_millis(20);

/// How long all pairs may take together. On a machine with hundreds of busy CPUs only some are compared.
const MAX_TOTAL_TIME: Duration = Duration::from_millis(200);

/// A difference is worth a warning if it exceeds the uncertainty by more than this, ns.
const TOLERANCE_NS: u64 = 1000;

/// The differences between the counters of the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Skew {
    /// The greatest offset from the first CPU's counter, ns.
    pub(crate) worst_ns: u64,
    /// The CPU with that offset.
    pub(crate) core: usize,
    /// The uncertainty of `worst_ns`, ns.
    pub(crate) uncertainty_ns: u64,
    /// How many CPUs were compared, with the first one. 1 = nothing could be compared.
    pub(crate) cores: usize,
}

impl Skew {
    /// The certain difference of two counters, ns. 0 if it is within a microsecond.
    pub(crate) fn certain_ns(&self) -> u64 {
        let certain = self.worst_ns.saturating_sub(self.uncertainty_ns);
        if certain > TOLERANCE_NS { certain } else { 0 }
    }

    /// One line for people, if the counters certainly differ by more than a microsecond.
    pub(crate) fn warning(&self) -> Option<String> {
        let Skew {
            worst_ns,
            core,
            uncertainty_ns,
            cores,
        } = self;
        (self.certain_ns() > 0).then(|| {
            format!(
                "the counters of {cores} CPUs differ: CPU {core}'s is {worst_ns} ns \
                 (± {uncertainty_ns} ns) off the first one's; times of different CPUs are not \
                 comparable below that; FDR_CLOCK=monotonic avoids it"
            )
        })
    }
}

/// Compares the counters of all CPUs that the calling thread may run on. It makes two threads, which inherit
/// the caller's CPUs and signal mask. So the caller is a thread of the recorder that blocks all signals. Takes
/// about 0.1 ms per CPU on an idle machine, and at most about 0.2 s. Leaves out CPUs that are too busy or that
/// a thread can't be pinned to.
///
/// `None` for the system's clock, which the kernel itself keeps coherent. Also `None` if the affinity of the
/// thread can't be read. Not async-signal-safe.
pub(crate) fn measure(kind: Kind, frequency: &Frequency) -> Option<Skew> {
    if kind == Kind::Monotonic {
        return None;
    }
    let cores = core_affinity::get_core_ids()?;
    let (&first, others) = cores.split_first()?;
    let end = Instant::now() + MAX_TOTAL_TIME;
    let offsets = others.iter().filter_map(|&core| {
        let deadline = end.min(Instant::now() + MAX_PAIR_TIME);
        Some((core.id, compare(kind, first, core, deadline)?))
    });
    Some(summarise(first.id, offsets, frequency.hz))
}

/// The worst of the offsets: the one that most exceeds its uncertainty.
fn summarise(first: usize, offsets: impl Iterator<Item = (usize, Bounds)>, hz: u64) -> Skew {
    let ns = |ticks: u64| scale::nanos(Ticks(ticks), hz).0;
    let mut skew = Skew {
        worst_ns: 0,
        core: first,
        uncertainty_ns: 0,
        cores: 1,
    };
    let mut worst_excess = i128::MIN;
    for (core, bounds) in offsets {
        let (offset, uncertainty) = bounds.estimate();
        let excess = i128::from(offset) - i128::from(uncertainty);
        if excess > worst_excess {
            worst_excess = excess;
            skew = Skew {
                worst_ns: ns(offset),
                core,
                uncertainty_ns: ns(uncertainty),
                ..skew
            };
        }
        skew.cores += 1;
    }
    skew
}

/// Bounds of the far counter minus the near counter, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    low: i64,
    high: i64,
}

impl Bounds {
    const NONE: Bounds = Bounds {
        low: i64::MIN,
        high: i64::MAX,
    };

    /// Narrows the bounds by one round. `far` was read after `before` and before `after`.
    fn add(self, before: u64, far: u64, after: u64) -> Bounds {
        Bounds {
            low: self.low.max(far.wrapping_sub(after) as i64),
            high: self.high.min(far.wrapping_sub(before) as i64),
        }
    }

    /// The offset without its sign, and its uncertainty. Bounds may contradict each other by a few ticks,
    /// because a CPU may read its counter slightly out of order. Such bounds count as equal.
    fn estimate(self) -> (u64, u64) {
        let middle = (i128::from(self.low) + i128::from(self.high)) / 2;
        let half = self.low.abs_diff(self.high).div_ceil(2);
        (
            u64::try_from(middle.unsigned_abs()).unwrap_or(u64::MAX),
            half,
        )
    }
}

/// Has two threads, pinned to `near` and `far`, exchange readings. `None` if that fails or takes longer than
/// `deadline`.
fn compare(kind: Kind, near: CoreId, far: CoreId, deadline: Instant) -> Option<Bounds> {
    let table = Arc::new(Table::new());
    let (of_far, of_near) = (Arc::clone(&table), Arc::clone(&table));
    let answer = move || {
        let has_answered = pin(kind, far) && of_far.answer(kind, deadline);
        of_far.has_answered.store(has_answered, Ordering::Relaxed); // Ordered by the join.
        of_far.leave();
    };
    let ask = move || {
        let bounds = pin(kind, near)
            .then(|| of_near.ask(kind, deadline))
            .flatten();
        *of_near
            .bounds
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = bounds;
    };
    let answers = spawn(c"fdr-skew-far", STACK, Box::new(answer)).ok()?;
    let asks = spawn(c"fdr-skew-near", STACK, Box::new(ask));
    let is_over = asks.is_ok_and(Thread::join);
    table.leave();
    let is_answered = answers.join() && table.has_answered.load(Ordering::Relaxed);
    let bounds = *table.bounds.lock().unwrap_or_else(PoisonError::into_inner);
    bounds.filter(|_| is_over && is_answered)
}

/// Pins the calling thread. Returns whether it runs on that CPU.
fn pin(kind: Kind, core: CoreId) -> bool {
    core_affinity::set_for_current(core) && clock::read(kind).cpu as usize == core.id
}

/// The memory that the two threads share. `turn` is odd after a question and even after an answer.
struct Table {
    turn: AtomicU64,
    answer: AtomicU64,
    /// The results of the two.
    has_answered: AtomicBool,
    bounds: Mutex<Option<Bounds>>,
}

impl Table {
    fn new() -> Table {
        Table {
            turn: AtomicU64::new(0),
            answer: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            bounds: Mutex::new(None),
        }
    }

    /// A turn that no exchange reaches. It says that the other side has given up.
    const GONE: u64 = u64::MAX;

    /// The near side: asks [`ROUNDS`] times.
    fn ask(&self, kind: Kind, deadline: Instant) -> Option<Bounds> {
        let mut bounds = Bounds::NONE;
        for round in 0..ROUNDS {
            let before = clock::read(kind).ticks;
            if !(self.advance(2 * round) && self.wait(2 * round + 2, deadline)) {
                return None;
            }
            let far = self.answer.load(Ordering::Relaxed); // Ordered by the wait's acquire.
            let after = clock::read(kind).ticks;
            bounds = bounds.add(before, far, after);
        }
        Some(bounds)
    }

    /// The far side: answers [`ROUNDS`] times. Returns whether it could.
    fn answer(&self, kind: Kind, deadline: Instant) -> bool {
        for round in 0..ROUNDS {
            if !self.wait(2 * round + 1, deadline) {
                return false;
            }
            self.answer
                .store(clock::read(kind).ticks, Ordering::Relaxed);
            if !self.advance(2 * round + 1) {
                return false;
            }
        }
        true
    }

    /// Gives the turn to the other side, unless that side has given up.
    fn advance(&self, turn: u64) -> bool {
        // Release: publishes `answer`. It pairs with the Acquire in `wait`.
        self.turn
            .compare_exchange(turn, turn + 1, Ordering::Release, Ordering::Relaxed)
            .is_ok()
    }

    /// Gives up, so the other side need not wait until the deadline.
    fn leave(&self) {
        // The last answer stays, because the near side may not have seen it yet.
        let answered = 2 * ROUNDS;
        let _ = self
            .turn
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |turn| {
                (turn != answered).then_some(Self::GONE)
            });
    }

    /// Spins until it is `turn`. False if that turn never comes.
    fn wait(&self, turn: u64, deadline: Instant) -> bool {
        let backoff = Backoff::new();
        loop {
            let now = self.turn.load(Ordering::Acquire); // Partner: the release of `advance`.
            if now == turn {
                return true;
            }
            let is_late = || backoff.is_completed() && Instant::now() > deadline;
            if now == Self::GONE || is_late() {
                return false;
            }
            backoff.snooze();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Clock;

    fn later() -> Instant {
        Instant::now() + Duration::from_secs(30)
    }

    #[test]
    fn rounds_narrow_the_bounds_to_their_intersection() {
        // The far counter is 500 ticks ahead; ways of 100 and 300, then 200 and 50 ticks.
        let bounds = Bounds::NONE.add(1000, 1600, 1400).add(2000, 2700, 2250);
        assert_eq!(
            bounds,
            Bounds {
                low: 450,
                high: 600
            }
        );
        assert_eq!(bounds.estimate(), (525, 75));
        let behind = Bounds::NONE.add(1000, 400, 1100);
        assert_eq!(
            behind,
            Bounds {
                low: -700,
                high: -600
            }
        );
        assert_eq!(behind.estimate(), (650, 50));
    }

    #[test]
    fn wrapped_counters_do_not_overflow() {
        let bounds = Bounds::NONE.add(u64::MAX - 10, 20, 30);
        assert_eq!(bounds, Bounds { low: -10, high: 31 });
        let (_, uncertainty) = Bounds::NONE.estimate();
        assert!(uncertainty >= i64::MAX as u64);
        let skew = summarise(0, [(1, Bounds::NONE)].into_iter(), 1);
        assert_eq!(skew.warning(), None);
    }

    #[test]
    fn the_worst_core_exceeds_its_uncertainty_most() {
        // At 2 GHz: CPU 4 is 3000 ± 2900 ns off, CPU 6 is 2000 ± 100 ns off.
        let offsets = [
            (
                4,
                Bounds {
                    low: 200,
                    high: 11_800,
                },
            ),
            (
                6,
                Bounds {
                    low: -4200,
                    high: -3800,
                },
            ),
        ];
        let skew = summarise(2, offsets.into_iter(), 2_000_000_000);
        assert_eq!(
            skew,
            Skew {
                worst_ns: 2000,
                core: 6,
                uncertainty_ns: 100,
                cores: 3
            }
        );
        let warning = skew.warning().unwrap();
        assert!(
            warning.contains("CPU 6's is 2000 ns (± 100 ns)"),
            "{warning}"
        );
    }

    #[test]
    fn a_warning_needs_a_microsecond_beyond_doubt() {
        let skew = Skew {
            worst_ns: 1100,
            core: 1,
            uncertainty_ns: 100,
            cores: 2,
        };
        assert_eq!(skew.warning(), None);
        assert!(
            Skew {
                worst_ns: 1101,
                ..skew
            }
            .warning()
            .is_some()
        );
        assert_eq!(
            Skew {
                worst_ns: 0,
                cores: 1,
                ..skew
            }
            .warning(),
            None
        );
    }

    #[test]
    fn one_core_has_nothing_to_compare() {
        let skew = summarise(3, std::iter::empty(), 2_000_000_000);
        assert_eq!(
            skew,
            Skew {
                worst_ns: 0,
                core: 3,
                uncertainty_ns: 0,
                cores: 1
            }
        );
    }

    #[test]
    fn the_exchange_ends_without_the_other_side() {
        let kind = clock::choose(Clock::Rdtscp).kind;
        let table = Table::new();
        let passed = Instant::now();
        assert_eq!(table.ask(kind, passed), None);
        table.leave();
        assert!(!table.answer(kind, later()));
        assert_eq!(table.turn.load(Ordering::Relaxed), Table::GONE);
    }

    #[test]
    fn cores_that_refuse_pinning_are_left_out() {
        let kind = clock::choose(Clock::Rdtscp).kind;
        let cores = core_affinity::get_core_ids().unwrap();
        let missing = CoreId { id: 1023 };
        assert!(!cores.contains(&missing));
        let before = Instant::now();
        assert_eq!(compare(kind, cores[0], missing, later()), None);
        assert_eq!(compare(kind, missing, cores[0], later()), None);
        // The side that is there learns that the other has gone.
        assert!(before.elapsed() < Duration::from_secs(20));
    }

    #[test]
    fn a_real_exchange_is_tight_and_unpins() {
        let kind = clock::choose(Clock::Rdtscp).kind;
        let cores = core_affinity::get_core_ids().unwrap();
        let (Some(first), Some(second)) = (cores.first(), cores.get(1)) else {
            return;
        };
        let bounds = compare(kind, *first, *second, later()).unwrap();
        let (_, uncertainty) = bounds.estimate();
        // Ticks: a tenth of a millisecond even at 10 GHz. In practice some hundred.
        assert!(uncertainty < 1_000_000, "{bounds:?}");
        assert_eq!(core_affinity::get_core_ids().unwrap(), cores);
    }

    #[test]
    fn the_system_clock_is_not_measured() {
        let frequency = Frequency {
            hz: 1_000_000_000,
            error_ppm: 0.0,
        };
        assert_eq!(measure(Kind::Monotonic, &frequency), None);
    }
}
