//! `FDR_MODE=stream`: a thread of the recorder hands records over while they are made. This file has the
//! requests of other threads, and the lines at the end. A thread of the program must never wait for a peer,
//! except at the end of the process and in `fdr::dump`. These two wait for a limited time.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `control` | the state that the thread and the others share |
//! | `stream_thread` | the work of the thread: rings, batches, counts |
//! | `receiver` | one receiver and its writer |
//! | `endpoint` | the ways to get receivers |

mod control;
mod endpoint;
mod receiver;
mod stream_thread;

use core::ffi::CStr;
use std::path::PathBuf;

use control::{CONTROL, Life, Totals};
use stream_thread::StreamThread;

use super::sites::TableHandle;
use super::state::State;
use super::{connection, failures, trace_info, trace_paths};
use crate::api::{Dump, Error};
use crate::messages;
use crate::recorder::ring;
use crate::ring::Ring;
use crate::ring::counts;
use crate::sys::lock::Lock;
use crate::sys::own_table::DescriptorTable;
use crate::sys::{self, socket};

/// The name of the thread.
pub(crate) const NAME: &CStr = c"fdr-stream";

/// The path of the trace, or its address.
static PLACE: Lock<Option<PathBuf>> = Lock::new(None);

/// Starts the thread, which shares the descriptor table of its maker. All signals are blocked in it. So the program's
/// handlers never run there, and a reader that goes away is an error and does not end the program.
pub(crate) fn start(state: &'static State, table: TableHandle) {
    if !CONTROL.begin() {
        return;
    }
    let place = match &state.config.address {
        Some(address) => connection::name(address).into(),
        None => trace_paths::take(state),
    };
    *PLACE.lock() = Some(place.clone());
    let descriptors = DescriptorTable::mine();
    let spawned = sys::signal::with_all_blocked(|_| {
        let body = Box::new(move || run(state, table, place, descriptors));
        sys::thread::spawn(NAME, 1024 * 1024, body)
    });
    if let Err(error) = spawned {
        CONTROL.forget();
        messages::warn(format_args!(
            "no thread for the stream ({error}): the trace is written at the end"
        ));
    }
}

/// Whether there is a stream.
pub(crate) fn is_begun() -> bool {
    CONTROL.is_begun()
}

/// Whether the thread has not ended.
pub(crate) fn is_running() -> bool {
    CONTROL.is_running()
}

/// Called in the child of a fork, which does not have the thread or the connections. Async-signal-safe.
pub(crate) fn forget() {
    CONTROL.forget();
    socket::forget();
}

fn run(state: &'static State, table: TableHandle, place: PathBuf, descriptors: DescriptorTable) {
    let _life = Life;
    CONTROL.is_me();
    if !descriptors.share() {
        return CONTROL.fail();
    }
    let Some(ring) = ring() else {
        return;
    };
    let mut stream_thread = StreamThread::new(ring, state, table, place.clone());
    stream_thread.run();
    failures::print_losses(state.config.format.0, &stream_thread.losses);
    if let Some(error) = stream_thread.failed.take() {
        CONTROL.fail();
        failures::print_no_trace(&failures::why_not(&place, error));
    } else if trace_info::has_any(ring) || ring.is_lost() {
        print_totals(CONTROL.totals(), &format!("to {}", place.display()));
    }
}

/// Hands over all records made so far. The counts are those of the stream from its beginning.
pub(crate) fn flush(ring: &Ring, table: TableHandle) -> Result<Dump, Error> {
    let in_time = CONTROL.flush();
    let path = PLACE.lock().clone().unwrap_or_default();
    if !in_time {
        let why = format!("{}: the stream does not go on", path.display());
        return Err(Error::failed(&why, "look whether its receiver reads"));
    }
    let Totals {
        streamed,
        lost,
        threads,
    } = CONTROL.totals();
    if streamed + lost == 0 && !trace_info::has_any(ring) {
        return Err(Error::NothingRecorded(table.lock().why_nothing()));
    }
    if CONTROL.receivers() == 0 {
        let why = format!("{}: nobody is there to take it", path.display());
        return Err(Error::failed(&why, "start `fdr listen` there"));
    }
    print_totals(CONTROL.totals(), &format!("to {} so far", path.display()));
    let of_slot = |slot| counts::count(slot).map_or(0, |(_, counts)| counts.dropped);
    let dropped = ring.owned_slots().map(of_slot).sum::<u64>();
    Ok(Dump {
        path,
        threads,
        records: streamed,
        overwritten: lost,
        dropped: dropped + ring.missing().dropped,
    })
}

/// Completes the trace at the end of the process, and says how that ended. Nothing is recorded from then on, so that threads
/// which go on overwrite nothing that was not read. `by_signal`: what is not read in time counts as lost.
pub(crate) fn finish(table: TableHandle, by_signal: bool) -> Result<(), Error> {
    let Some(ring) = ring() else {
        return Ok(());
    };
    if trace_info::has_any(ring) {
        table.lock().enable(false);
    }
    let in_time = CONTROL.finish(by_signal);
    if !trace_info::has_any(ring) && !ring.is_lost() {
        let why = table.lock().why_nothing();
        messages::warn(format_args!("nothing was recorded: {why}"));
        return Err(Error::NothingRecorded(why));
    }
    if !in_time {
        let mut totals = CONTROL.totals();
        totals.lost = trace_info::recorded(ring).saturating_sub(totals.streamed);
        print_totals(totals, "before the stream stood still");
    }
    if CONTROL.has_failed() {
        return Err(Error::failed(
            "no trace was written",
            "the line on stderr says why",
        ));
    }
    Ok(())
}

fn print_totals(totals: Totals, how: &str) {
    let Totals {
        streamed,
        lost,
        threads,
    } = totals;
    let plural = if threads == 1 { "" } else { "s" };
    let lost = match ring().is_some_and(Ring::is_lost) {
        false => format!("{lost} lost"),
        true => "the rest is lost with the ring".into(),
    };
    messages::warn(format_args!(
        "streamed {streamed} records of {threads} thread{plural} {how}, {lost}"
    ));
}
