//! Dumps: at exit, on the signal, on a panic, on a call. One at a time; each says on stderr what became
//! of it. Must never run in a signal handler: it allocates and takes locks.

use core::sync::atomic::{AtomicU32, Ordering};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use fdr_formats::model::{Clock, Missing};
use fdr_formats::writer::Target;
use fdr_formats::{Losses, Ticks, TraceInfo};

use super::install::{self, State, state};
use super::output::Names;
use super::sites::table;
use super::{link, say, stream};
use crate::api::{Dump, Error};
use crate::clock;
use crate::dump::file::{self, Written};
use crate::dump::snapshot;
use crate::recorder::ring;
use crate::ring::Ring;
use crate::sys;

/// Held during a dump: two never mix. True once the dump at exit was made: the end of the process
/// would cut off a later one.
static DUMPING: Mutex<bool> = Mutex::new(false);

/// The thread that holds [`DUMPING`], as the kernel counts; 0 = none. A handler that interrupts a dump
/// and calls `exit`, and a panic in a dump of ours, must not wait for themselves.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// The number of the next dump, from 1.
static NUMBER: AtomicU32 = AtomicU32::new(1);

/// How many numbers are tried for a name that no file has.
const NUMBERS: u32 = 10_000;

/// Runs `body` as the one dump; `body` gets whether the process is at its end.
fn alone<T>(body: impl FnOnce(&mut bool) -> Result<T, Error>) -> Result<T, Error> {
    let me = sys::thread::tid();
    // Relaxed: only the thread's own store can be its own number.
    if OWNER.load(Ordering::Relaxed) == me {
        let why = "this thread is in the middle of a dump".to_owned();
        return Err(Error::Failed(why));
    }
    let mut over = DUMPING.lock().unwrap_or_else(PoisonError::into_inner);
    OWNER.store(me, Ordering::Relaxed);
    let result = body(&mut over);
    OWNER.store(0, Ordering::Relaxed);
    result
}

pub(crate) extern "C" fn at_exit() {
    // A child of a fork that never recorded has no ring, and nothing of the parent's is its own.
    let Some(ring) = ring().filter(|ring| ring.is_of_this_process()) else {
        return;
    };
    let result = if stream::is_begun() {
        stream::finish()
    } else {
        dump_and_say("exit").map(|_| ())
    };
    // Waits for a dump that began in between.
    let _ = alone(|over| {
        *over = true;
        Ok(())
    });
    match (ring.path(), result) {
        (Some(path), Err(Error::Failed(_))) => say::warn(format_args!(
            "the records are still in {}",
            path.to_string_lossy()
        )),
        (Some(path), _) => sys::file::unlink(path),
        (None, _) => {}
    }
}

/// Has every panic dumped, after what the program's own hook does.
pub(crate) fn dump_on_panic() {
    static ONCE: OnceLock<()> = OnceLock::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.get_or_init(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            previous(panic);
            let _ = dump_and_say("panic");
        }));
    });
}

/// Dumps and says on stderr what became of it.
pub(crate) fn dump_and_say(reason: &str) -> Result<Dump, Error> {
    let result = dump(reason);
    match &result {
        Ok(_) => {}
        Err(error @ Error::NothingRecorded(_)) => say::warn(format_args!("{error}")),
        Err(error) => say::warn(format_args!("no trace was written: {error}")),
    }
    result
}

/// Dumps, and says on stderr where the trace is.
pub(crate) fn dump(reason: &str) -> Result<Dump, Error> {
    let (Some(ring), Some(state)) = (ring(), state()) else {
        return Err(Error::NothingRecorded(
            "set FDR=1 or call fdr::enable()".into(),
        ));
    };
    if stream::is_begun() {
        return stream::flush(ring);
    }
    alone(|over| {
        if *over {
            let why = "the process ends, and its last trace is written".to_owned();
            return Err(Error::Failed(why));
        }
        let (dump, replaced) = write(ring, state, reason)?;
        // Under the lock: the end of the process waits for the line as well.
        say_written(&dump, replaced);
        Ok(dump)
    })
}

fn say_written(dump: &Dump, replaced: bool) {
    let Dump {
        path,
        threads,
        records,
        overwritten,
        dropped,
    } = dump;
    say::warn(format_args!(
        "{} {}: {records} records of {threads} thread{}, {overwritten} overwritten, {dropped} dropped",
        if replaced { "replaced" } else { "wrote" },
        path.display(),
        if *threads == 1 { "" } else { "s" },
    ));
}

/// What a format could not hold, for who wants to know.
pub(crate) fn say_losses(target: &Target, losses: &Losses) {
    if !losses.is_empty() {
        say::info(format_args!(
            "not in the trace ({}): {losses}",
            target.title
        ));
    }
}

/// Writes what the ring holds; also whether an earlier file had that name.
fn write(ring: &Ring, state: &State, reason: &str) -> Result<(Dump, bool), Error> {
    if asked_for(ring) == 0 {
        return Err(Error::NothingRecorded(why_nothing()));
    }
    let info = trace_info(ring, state, reason);
    let dump = file::Dump {
        ring,
        info: &info,
        target: state.config.format.0,
        nonce: install::random(),
    };
    let (path, replaced, written) = match &state.config.address {
        Some(address) => {
            let written = dump.to_stream(|| link::open(address));
            (PathBuf::from(address.to_string()), false, written)
        }
        None => {
            let path = dump_path(state);
            let replaced = path.symlink_metadata().is_ok();
            let written = dump.to_path(&path);
            (path, replaced, written)
        }
    };
    let written = written.map_err(|error| Error::Failed(format!("{}: {error}", path.display())))?;
    NUMBER.fetch_add(1, Ordering::Relaxed);
    let Written {
        threads,
        records,
        overwritten,
        dropped,
        losses,
    } = written;
    say_losses(dump.target, &losses);
    // Of threads whose space others have now, and of threads that had none, nothing is in the file.
    let dump = Dump {
        path,
        threads,
        records,
        overwritten: overwritten + info.missing.retired_records,
        dropped: dropped + info.missing.unplaced_records,
    };
    Ok((dump, replaced))
}

/// As [`dump_path`], and the one after it is another one.
pub(crate) fn next_path(state: &State) -> PathBuf {
    let path = dump_path(state);
    NUMBER.fetch_add(1, Ordering::Relaxed);
    path
}

/// The file of the next dump. Where names have numbers, one that no file has: another process may have
/// had the same pid.
fn dump_path(state: &State) -> PathBuf {
    let name = |number: u32| {
        state.config.output.path(&Names {
            program: &state.program,
            pid: sys::process::pid(),
            number: u64::from(number),
            unix_time_s: clock::realtime_ns() / 1_000_000_000,
        })
    };
    let first = NUMBER.load(Ordering::Relaxed);
    if !state.config.output.is_numbered() {
        return name(first);
    }
    let free = (first..first.saturating_add(NUMBERS))
        .find(|&number| name(number).symlink_metadata().is_err());
    let number = free.unwrap_or(first);
    NUMBER.store(number, Ordering::Relaxed);
    name(number)
}

/// Function records that were asked for, in all threads there ever were. Allocates nothing: at the end
/// of a stream it is called by whoever called `exit`, which may be a handler.
pub(crate) fn asked_for(ring: &Ring) -> u64 {
    let of_slot = |slot| snapshot::recorded(slot).unwrap_or(1);
    let missing = ring.missing();
    let live = ring.owned_slots().map(of_slot).sum::<u64>();
    live + missing.retired_records + missing.unplaced_records
}

pub(crate) fn trace_info(ring: &Ring, state: &State, reason: &str) -> TraceInfo {
    let frequency = state.settled_frequency();
    ring.header()
        .frequency
        .store(frequency.hz, Ordering::Relaxed);
    let start = state.start();
    TraceInfo {
        clock: Clock {
            frequency: frequency.hz,
            name: state.chosen.name.to_owned(),
            error_ppm: Some(frequency.error_ppm),
            constant: state.chosen.constant,
            nonstop: state.chosen.nonstop,
            anchor: Some((Ticks(start.ticks), start.realtime_ns)),
        },
        functions: table().for_trace_from(0),
        program: state.program.clone(),
        process: Some(u64::from(sys::process::pid())),
        reason: reason.to_owned(),
        dump: Some(u64::from(NUMBER.load(Ordering::Relaxed))),
        missing: {
            let missing = ring.missing();
            Missing {
                retired_threads: missing.retired_threads,
                retired_records: missing.retired_records,
                unplaced_records: missing.unplaced_records,
            }
        },
        start: Some(Ticks(start.ticks)),
        ..TraceInfo::default()
    }
}

/// Why nothing was recorded, and what to do.
pub(crate) fn why_nothing() -> String {
    let table = table();
    if table.len() == 0 {
        return "the program has no #[traced] function".into();
    }
    if table.filter().is_none() {
        return "recording was never turned on".into();
    }
    if table.on() > 0 {
        return format!(
            "none of the {} functions that are on was called",
            table.on()
        );
    }
    let unmatched = table.unmatched();
    if unmatched.is_empty() {
        return "the filter excludes every function that it names, or recording was turned off"
            .into();
    }
    let mut text = String::from("no function matches ");
    for (at, (pattern, nearest)) in unmatched.iter().enumerate() {
        let comma = if at > 0 { ", " } else { "" };
        let _ = write!(text, "{comma}`{pattern}` (nearest: {})", nearest.join(", "));
    }
    text
}
