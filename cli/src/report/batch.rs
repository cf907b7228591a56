//! Some calls on their way through a stack: what each is to it, and those that it found to have ended. A loop
//! follows the edges, another one takes the calls into the figures: a processor runs two short ones faster
//! than one long one. Must never be asked for more calls than it has room for.

use std::hint::select_unpredictable;

use fdr_formats::{Call, Edge};

use super::stats::{CLIPPED, PLACE, Stats};

/// Calls that are taken at once; a power of two.
pub(crate) const ROOM: usize = 256;
const _: () = assert!(PLACE & CLIPPED == 0);

/// What a call's edge is to a stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Since the step before.
    pub(crate) ticks: u64,
    /// The place of its function, with [`CLIPPED`] where it is synthetic.
    pub(crate) place: u32,
    /// All ones for an exit, else zero.
    pub(crate) exit: u64,
}

impl Step {
    #[inline(always)]
    pub(crate) fn of(call: &Call, place: u32, ticks: u64) -> Step {
        let synthetic = u32::from(call.synthetic) << CLIPPED.trailing_zeros();
        Step {
            ticks,
            place: place | synthetic,
            // The callee of a tail call has an entry of its own.
            exit: u64::from(call.edge != Edge::Entry).wrapping_neg(),
        }
    }
}

/// Room for calls that have ended.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Ticks from the entry to the exit.
    pub(crate) time: [u64; ROOM],
    /// Ticks in functions that it called.
    pub(crate) children: [u64; ROOM],
    /// The place of its function, with [`CLIPPED`] where it is synthetic.
    pub(crate) place: [u32; ROOM],
    /// The calls of its function that are still open.
    pub(crate) open: [u32; ROOM],
}

impl Default for Batch {
    fn default() -> Self {
        Batch {
            time: [0; ROOM],
            children: [0; ROOM],
            place: [0; ROOM],
            open: [0; ROOM],
        }
    }
}

impl Batch {
    /// Takes the first of the calls into the figures of their functions. `totals`: of the thread, by place.
    /// `FORWARD`: no time went back, so that no call took less than those that it made, and none is clipped.
    pub(crate) fn settle<const FORWARD: bool>(
        &self,
        ended: usize,
        stats: &mut [Option<Box<Stats>>],
        totals: &mut [u64],
    ) {
        let places = stats.len().min(totals.len());
        let (Some(stats), Some(totals)) = (stats.get_mut(..places), totals.get_mut(..places))
        else {
            return;
        };
        for nth in 0..ended.min(ROOM) {
            let clipped = !FORWARD && self.place[nth] & CLIPPED != 0;
            let place = self.place[nth] & if FORWARD { u32::MAX } else { PLACE };
            let place = place as usize;
            let (Some(stats), Some(total)) = (stats.get_mut(place), totals.get_mut(place)) else {
                continue;
            };
            let stats = match stats {
                Some(stats) => stats,
                none => first(none),
            };
            let (time, children) = (self.time[nth], self.children[nth]);
            let own = match FORWARD {
                true => time.wrapping_sub(children),
                false => time.saturating_sub(children),
            };
            add(&mut stats.own, own);
            add(total, select_unpredictable(self.open[nth] == 0, time, 0));
            match clipped {
                true => stats.clipped += 1,
                false => stats.measured.record(time),
            }
        }
    }
}

#[cold]
#[inline(never)]
fn first(stats: &mut Option<Box<Stats>>) -> &mut Stats {
    stats.get_or_insert_default()
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
