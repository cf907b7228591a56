//! Some calls on their way through a stack: made ready for it, and then what it found to have ended. Each
//! of the three passes over them is a short loop of its own, which a processor runs several times as fast
//! as one long loop. Must never be asked for more calls than it has room for.

use fdr_formats::{Call, Edge, Ticks};

use super::stats::{CLIPPED, NONE, OUTERMOST, PLACE, Stats};

/// Calls that are taken at once; a power of two.
pub(crate) const ROOM: usize = 512;
/// Of the bits of a step: an exit.
const EXIT: u32 = OUTERMOST;
const _: () = assert!(EXIT == 1 << 31, "the sign tells");

/// What a call's edge is to a stack: the place of its function, with [`EXIT`], and [`CLIPPED`] where it
/// is synthetic.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step(u32);

impl Step {
    #[inline(always)]
    pub(crate) fn new(call: &Call, place: u32) -> Step {
        // The callee of a tail call has an entry of its own.
        let exit = u32::from(call.edge != Edge::Entry) << EXIT.trailing_zeros();
        let synthetic = u32::from(call.synthetic) << CLIPPED.trailing_zeros();
        Step(place & PLACE | exit | synthetic)
    }

    /// All ones for an exit, else zero.
    #[inline(always)]
    pub(crate) fn exit(self) -> u64 {
        (self.0.cast_signed() >> 31) as i64 as u64
    }

    /// The place, with [`CLIPPED`].
    #[inline(always)]
    pub(crate) fn place(self) -> u32 {
        self.0 & !EXIT
    }
}

/// A call that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Closed {
    /// Ticks from its entry to its exit.
    pub(crate) inclusive: u64,
    /// Ticks of these in functions that it called.
    pub(crate) children: u64,
    /// Place of its function, with [`CLIPPED`] and [`OUTERMOST`].
    pub(crate) place: u32,
}

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
}

/// Takes calls that have ended into the figures of their functions. `totals`: of the thread, by place.
pub(crate) fn settle(closed: &[Closed], stats: &mut [Stats], totals: &mut [u64]) {
    for call in closed {
        let place = (call.place & PLACE) as usize;
        let (Some(stats), Some(total)) = (stats.get_mut(place), totals.get_mut(place)) else {
            continue;
        };
        let own = call.inclusive.saturating_sub(call.children);
        stats.own = stats.own.saturating_add(own);
        // All ones, or zero.
        let outermost = (call.place.cast_signed() >> 31) as i64 as u64;
        *total = total.saturating_add(call.inclusive & outermost);
        if call.place & CLIPPED != 0 {
            stats.clipped += 1;
        } else {
            stats.measured.record(call.inclusive);
        }
    }
}
