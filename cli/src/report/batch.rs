//! Some calls on their way through a stack: made ready for it, and then what it found to have ended. Each
//! of the three passes over them is a short loop of its own, which a processor runs several times as fast
//! as one long loop. Must never be asked for more calls than it has room for.

use std::hint::select_unpredictable;

use fdr_formats::packed::PackedCall;
use fdr_formats::{Call, Edge, Ticks};

use super::histogram::NO_CELL;
use super::stats::{CLIPPED, NONE, PLACE, Stats};

/// Calls that are taken at once; a power of two.
pub(crate) const ROOM: usize = 256;
/// Of the bits of a step: an exit. The sign tells.
const EXIT: u32 = 1 << 31;
const _: () = assert!(PLACE & (EXIT | CLIPPED) == 0);

/// What a call's edge is to a stack.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    pub(crate) time: u64,
    /// The place of its function, with [`EXIT`], and [`CLIPPED`] where it is synthetic.
    place: u32,
}

const _: () = assert!(size_of::<Step>() == 16);

impl Step {
    #[inline(always)]
    pub(crate) fn new(call: &Call, place: u32) -> Step {
        // The callee of a tail call has an entry of its own.
        let exit = u32::from(call.edge != Edge::Entry) << EXIT.trailing_zeros();
        let synthetic = u32::from(call.synthetic) << CLIPPED.trailing_zeros();
        Step {
            time: call.time.0,
            place: place | exit | synthetic,
        }
    }

    /// When.
    pub(crate) fn time(self) -> Ticks {
        Ticks(self.time)
    }

    /// All ones for an exit, else zero.
    #[inline(always)]
    pub(crate) fn exit(self) -> u64 {
        i64::from(self.place.cast_signed() >> 31).cast_unsigned()
    }

    /// The place, with [`CLIPPED`].
    #[inline(always)]
    pub(crate) fn place(self) -> u32 {
        self.place & !EXIT
    }
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closed {
    /// Ticks from its entry to its exit.
    pub(crate) inclusive: u64,
    /// Ticks of these in functions that it called.
    pub(crate) children: u64,
    /// Place of its function, with [`CLIPPED`].
    pub(crate) place: u32,
    /// Calls of the function that are still open.
    pub(crate) open: u32,
}

const _: () = assert!(size_of::<Closed>() == 24);

/// Room for both.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) steps: Box<[Step; ROOM]>,
    pub(crate) closed: Box<[Closed; ROOM]>,
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            steps: Box::new([Step::default(); ROOM]),
            closed: Box::new([Closed::default(); ROOM]),
        }
    }
}

/// What is to be known of some calls beside the calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) last: Ticks,
    pub(crate) synthetic: u64,
}

impl Batch {
    /// Makes calls ready, of which there are at most [`ROOM`]; `near` has the places of functions.
    pub(crate) fn prepare(&mut self, calls: &[Call], near: &[u32]) -> Sums {
        let (mut last, mut synthetic) = (0, 0);
        for (step, call) in self.steps.iter_mut().zip(calls) {
            let place = near.get(call.function.0 as usize).copied();
            *step = Step::new(call, place.unwrap_or(NONE));
            last = call.time.0.max(last);
            synthetic += u64::from(call.synthetic);
        }
        let last = Ticks(last);
        Sums { last, synthetic }
    }

    /// The same for packed calls, which follow a call of that time. Returns the time of the last.
    pub(crate) fn prepare_packed(&mut self, base: u64, calls: &[PackedCall], near: &[u32]) -> u64 {
        let mut time = base;
        for (step, call) in self.steps.iter_mut().zip(calls) {
            time = time.wrapping_add(call.delta());
            let place = near.get(call.function().0 as usize).copied();
            let exit = call.left() << EXIT.trailing_zeros();
            *step = Step {
                time,
                place: place.unwrap_or(NONE) | exit,
            };
        }
        time
    }
}

/// Takes calls that have ended into the figures of their functions. `totals`: of the thread, by place.
pub(crate) fn settle(closed: &mut [Closed], stats: &mut [Stats], totals: &mut [u64]) {
    for call in &mut *closed {
        let place = (call.place & PLACE) as usize;
        let (Some(stats), Some(total)) = (stats.get_mut(place), totals.get_mut(place)) else {
            continue;
        };
        add(&mut stats.own, call.inclusive.saturating_sub(call.children));
        add(
            total,
            select_unpredictable(call.open == 0, call.inclusive, 0),
        );
        if call.place & CLIPPED == 0 {
            call.children = stats.measured.measure(call.inclusive);
        } else {
            stats.clipped += 1;
            call.children = NO_CELL;
        }
    }
    // The cells are most of the memory in use: in a loop that does nothing else, many are fetched at once.
    for call in closed {
        if call.children != NO_CELL
            && let Some(stats) = stats.get_mut((call.place & PLACE) as usize)
        {
            stats.measured.count_in(call.children);
        }
    }
}

/// As `saturating_add`, in fewer instructions: no sum of times overflows but in a hostile trace.
#[inline(always)]
pub(crate) fn add(sum: &mut u64, ticks: u64) {
    let (more, overflow) = sum.overflowing_add(ticks);
    *sum = more;
    if overflow {
        saturate(sum);
    }
}

#[cold]
#[inline(never)]
fn saturate(sum: &mut u64) {
    *sum = u64::MAX;
}
