//! `FDR_MODE=stream`: a thread of ours hands records over while they are made. What the program's
//! threads may ask of it, and what is said at its end. Must never make a thread of the program's wait
//! for a peer, but at the end of the process and in `fdr::dump`, and there not for long.
//!
//! | file | what it holds |
//! | --- | --- |
//! | `control` | what the thread and the others say to each other |
//! | `stream_thread` | the thread at work: rings, batches, counts |
//! | `receiver` | one receiver and its writer |
//! | `endpoint` | how receivers come and go |

mod control;
mod endpoint;
mod receiver;
mod stream_thread;

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread;

use control::{CONTROL, Life, Totals};
use stream_thread::StreamThread;

use super::install::state;
use super::{connection, dumping, last_thread};
use crate::api::{Dump, Error};
use crate::messages;
use crate::recorder::ring;
use crate::ring::Ring;
use crate::ring::counts;
use crate::sys;

/// The file or folder that the trace becomes, or its address.
static PLACE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Starts the thread. All signals are blocked in it: the program's handlers never run there, and a
/// reader that goes away is an error, not the program's end.
pub(crate) fn start() {
    let Some(state) = state().filter(|_| CONTROL.begin()) else {
        return;
    };
    let place = match &state.config.address {
        Some(address) => connection::name(address).into(),
        None => dumping::next_path(state),
    };
    *PLACE.lock().unwrap_or_else(PoisonError::into_inner) = Some(place.clone());
    let builder = thread::Builder::new()
        .name(last_thread::STREAM.into())
        .stack_size(1024 * 1024);
    let spawned = sys::signal::with_all_blocked(|_| builder.spawn(|| run(place)));
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

/// Whether its thread is still at work.
pub(crate) fn is_running() -> bool {
    CONTROL.is_running()
}

/// In the child of a fork the thread is gone. Async-signal-safe.
pub(crate) fn forget() {
    CONTROL.forget();
}

fn run(place: PathBuf) {
    let _life = Life;
    CONTROL.is_me();
    let (Some(ring), Some(state)) = (ring(), state()) else {
        return;
    };
    let mut stream_thread = StreamThread::new(ring, state, place.clone());
    stream_thread.run();
    dumping::say_losses(state.config.format.0, &stream_thread.losses);
    if let Some(error) = stream_thread.failed.take() {
        CONTROL.fail();
        dumping::say_failed(&dumping::why_not(&place, error));
    } else if dumping::asked_for(ring) > 0 || ring.is_lost() {
        say_totals(CONTROL.totals(), &format!("to {}", place.display()));
    }
}

/// Hands over what was recorded so far; the counts are of the stream from its beginning.
pub(crate) fn flush(ring: &Ring) -> Result<Dump, Error> {
    let in_time = CONTROL.flush();
    let path = PLACE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let path = path.unwrap_or_default();
    if !in_time {
        let why = format!("{}: the stream does not go on", path.display());
        return Err(Error::failed(why, "look whether its receiver reads"));
    }
    let Totals {
        streamed,
        lost,
        threads,
    } = CONTROL.totals();
    if streamed + lost == 0 && dumping::asked_for(ring) == 0 {
        return Err(Error::NothingRecorded(dumping::why_nothing()));
    }
    if CONTROL.receivers() == 0 {
        let why = format!("{}: nobody is there to take it", path.display());
        return Err(Error::failed(why, "start `fdr listen` there"));
    }
    say_totals(CONTROL.totals(), &format!("to {} so far", path.display()));
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

/// Completes the trace, at the end of the process, and says what became of it.
pub(crate) fn finish() -> Result<(), Error> {
    let Some(ring) = ring() else {
        return Ok(());
    };
    let in_time = CONTROL.finish();
    if dumping::asked_for(ring) == 0 && !ring.is_lost() {
        let why = dumping::why_nothing();
        messages::warn(format_args!("nothing was recorded: {why}"));
        return Err(Error::NothingRecorded(why));
    }
    if !in_time {
        let mut totals = CONTROL.totals();
        totals.lost = dumping::asked_for(ring).saturating_sub(totals.streamed);
        say_totals(totals, "before the stream stood still");
    }
    if CONTROL.has_failed() {
        return Err(Error::failed(
            "no trace was written",
            "the line on stderr says why",
        ));
    }
    Ok(())
}

fn say_totals(totals: Totals, how: &str) {
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
