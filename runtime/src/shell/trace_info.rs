//! The facts about the program, its clock and its functions that every trace of this process has, and whether there
//! are records at all.

use core::sync::atomic::Ordering;

use fdr_formats::text::owned;
use fdr_formats::{Ticks, TraceInfo};

use super::sites::TableHandle;
use super::state::State;
use crate::dump::{NUMBER, file, schedule};
use crate::ring::Ring;
use crate::ring::{counts, totals};
use crate::sys;

/// Function records of all threads that ever recorded, dropped ones included. This function allocates nothing, because
/// a handler may call it through `exit` at the end of a stream.
pub(crate) fn recorded(ring: &Ring) -> u64 {
    ring.sum_consistently(|| recorded_now(ring))
}

#[inline(never)]
fn recorded_now(ring: &Ring) -> u64 {
    let of_slot = |slot| counts::recorded(slot).unwrap_or(1);
    let missing = ring.missing();
    let placed = ring.owned_slots().map(of_slot).sum::<u64>();
    placed + missing.overwritten + missing.dropped
}

/// Whether anything was recorded: an edge of a call, or a note. It allocates nothing, as [`recorded`].
pub(crate) fn has_any(ring: &Ring) -> bool {
    recorded(ring) > 0 || !ring.owned_slots().all(counts::is_empty)
}

#[cfg(feature = "stream")]
/// The current tick of the recorder's clock.
pub(crate) fn now(state: &State) -> Ticks {
    let (now, _) = state.settled_frequency();
    Ticks(now.ticks)
}

/// All of it, at this moment.
pub(crate) fn gather(
    ring: &Ring,
    state: &State,
    table: TableHandle,
    reason: &str,
) -> Box<TraceInfo> {
    let (now, frequency) = state.settled_frequency();
    ring.header()
        .frequency
        .store(frequency.hz, Ordering::Relaxed);
    let mut info = lasting(state);
    let clock = &mut info.clock;
    clock.frequency = frequency.hz;
    clock.error_ppm = Some(frequency.error_ppm);
    clock.until = Some((Ticks(now.ticks), now.realtime_ns));
    clock.faults = state.clock_faults(&now, &frequency, counts::steps_back(ring));
    info.functions = table.lock().for_trace_from(0);
    info.process = Some(u64::from(sys::process::pid()));
    info.reason = owned(reason);
    info.dump = Some(u64::from(NUMBER.load(Ordering::Relaxed)));
    info.end = Some(Ticks(now.ticks));
    info.missing = ring.missing();
    info.moments = file::moments(ring);
    info.schedule = schedule::gather(ring);
    if let Some(ended) = ring.totals_of_ended() {
        info.missing_totals = file::totals(ended);
        info.recording_cost = totals::cost(ended);
    }
    info
}

/// The facts about the program and the clock that every trace of this process has, except the clock's rate. They are
/// on the heap, because the program's stack may be small.
#[inline(never)]
pub(crate) fn lasting(state: &State) -> Box<TraceInfo> {
    let start = state.start();
    let mut info = Box::<TraceInfo>::default();
    info.clock.frequency = state.frequency().hz;
    info.clock.name = owned(state.chosen.name);
    info.clock.constant = state.chosen.constant;
    info.clock.nonstop = state.chosen.nonstop;
    info.clock.anchor = Some((Ticks(start.ticks), start.realtime_ns));
    info.program = owned(&state.program);
    info.identity = state.identity.clone();
    info.start = Some(Ticks(start.ticks));
    info
}
