//! Some calls on their way through a stack: made ready for it, and then what it found to have ended. Each
//! of the three passes over them is a short loop of its own, which a processor runs several times as fast
//! as one long loop. Must never be asked for more calls than it has room for.

use std::hint::select_unpredictable;

use fdr_formats::packed::Packed;
use fdr_formats::{Call, Edge, Ticks};

use super::stats::{CLIPPED, LOW, NONE, PLACE, Stats};

/// Calls that are taken at once; a power of two.
pub(crate) const ROOM: usize = 256;
/// Of an edge: an exit. The sign tells.
const EXIT: u32 = 1 << 31;
const _: () = assert!(PLACE & CLIPPED == 0);

/// What a call's edge is to a stack, and then a call that has ended: so a call that has ended takes the place
/// of an edge that was followed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Step {
    /// When; of a call, the ticks from its entry to its exit.
    pub(crate) time: u64,
    /// Of a call, ticks in functions that it called.
    pub(crate) children: u64,
    /// The place of its function, with [`CLIPPED`] where it is synthetic.
    pub(crate) place: u32,
    /// Of an edge, [`EXIT`] or 0; of a call, the calls of its function that are still open.
    pub(crate) open: u32,
}

const _: () = assert!(size_of::<Step>() == 24);

impl Step {
    #[inline(always)]
    pub(crate) fn of(call: &Call, place: u32) -> Step {
        let synthetic = u32::from(call.synthetic) << CLIPPED.trailing_zeros();
        Step {
            time: call.time.0,
            place: place | synthetic,
            // The callee of a tail call has an entry of its own.
            open: u32::from(call.edge != Edge::Entry) << EXIT.trailing_zeros(),
            children: 0,
        }
    }

    /// Of an edge: all ones for an exit, else zero.
    #[inline(always)]
    pub(crate) fn exit(&self) -> u64 {
        (i64::from(self.open.cast_signed()) >> 63).cast_unsigned()
    }
}

/// Room for some.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) steps: Box<[Step; ROOM]>,
    /// For one that comes in the midst of others.
    pub(crate) one: Box<[Step; ROOM]>,
}

impl Default for Batch {
    fn default() -> Self {
        let room = || Box::new([Step::default(); ROOM]);
        Batch {
            steps: room(),
            one: room(),
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
            *step = Step::of(call, place.unwrap_or(NONE));
            last = call.time.0.max(last);
            synthetic += u64::from(call.synthetic);
        }
        let last = Ticks(last);
        Sums { last, synthetic }
    }

    /// The same for packed calls, which follow a call of that time. Returns the time of the last.
    pub(crate) fn prepare_packed(&mut self, base: u64, calls: &Packed<'_>, near: &[u32]) -> u64 {
        let mut time = base;
        let low = near.first_chunk::<LOW>();
        let low = low.filter(|_| (calls.highest_function().0 as usize) < LOW);
        match low.filter(|_| !calls.has_odd_edges()) {
            // As below, without what need not be asked for each.
            Some(low) => {
                for (step, call) in self.steps.iter_mut().zip(calls.calls()) {
                    time = time.wrapping_add(call.delta());
                    step.time = time;
                    step.place = low[call.function().0 as usize % LOW];
                    step.open = call.plainly_left();
                }
            }
            None => {
                for (step, call) in self.steps.iter_mut().zip(calls.calls()) {
                    time = time.wrapping_add(call.delta());
                    let place = near.get(call.function().0 as usize).copied();
                    step.time = time;
                    step.place = place.unwrap_or(NONE);
                    step.open = call.left();
                }
            }
        }
        time
    }
}

/// Takes calls that have ended into the figures of their functions. `totals`: of the thread, by place.
/// `FORWARD`: no time went back, so that no call took less than those that it made, and none is clipped.
pub(crate) fn settle<const FORWARD: bool>(
    closed: &mut [Step],
    stats: &mut [Stats],
    totals: &mut [u64],
) {
    let places = stats.len().min(totals.len());
    let (Some(stats), Some(totals)) = (stats.get_mut(..places), totals.get_mut(..places)) else {
        return;
    };
    for call in &mut *closed {
        let place = place_of::<FORWARD>(call);
        let (Some(stats), Some(total)) = (stats.get_mut(place), totals.get_mut(place)) else {
            continue;
        };
        let own = match FORWARD {
            true => call.time.wrapping_sub(call.children),
            false => call.time.saturating_sub(call.children),
        };
        add(&mut stats.own, own);
        add(total, select_unpredictable(call.open == 0, call.time, 0));
        if FORWARD || call.place & CLIPPED == 0 {
            call.children = stats.measured.measure(call.time);
        } else {
            stats.clipped += 1;
        }
    }
    // The cells are most of the memory in use: in a loop that does nothing else, many are fetched at once.
    let measured = |call: &&mut Step| FORWARD || call.place & CLIPPED == 0;
    for call in closed.iter_mut().filter(measured) {
        if let Some(stats) = stats.get_mut(place_of::<FORWARD>(call)) {
            stats.measured.count_in(call.time, call.children);
        }
    }
}

#[inline(always)]
fn place_of<const FORWARD: bool>(call: &Step) -> usize {
    match FORWARD {
        true => call.place as usize,
        false => (call.place & PLACE) as usize,
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
