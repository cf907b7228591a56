//! Dumps: at exit, on the signal, on a panic, on a call. Only one runs at a time, and each says on stderr how
//! it ended. A dump must never run in a signal handler, because it allocates and takes locks.

use core::sync::atomic::{AtomicBool, Ordering};
use std::io;
use std::path::{Path, PathBuf};

use fdr_formats::model::Moment;
use fdr_formats::text::owned;
use fdr_formats::writer::Target;
use fdr_formats::{Losses, Ticks, TraceInfo};

use super::handover::hand_over;
use super::install::{self, State, state};
use super::sites::{self, table};
use super::triggers::{self, Occasion};
use super::{connection, dumper, stream};
use crate::api::{Dump, Error, Failure};
use crate::clock;
use crate::crash;
use crate::dump::file::{self, Written};
use crate::dump::output::Names;
use crate::dump::{self, DUMPING, NUMBER, schedule};
use crate::messages;
use crate::recorder::{self, ring};
use crate::ring::Ring;
use crate::ring::counts;
use crate::sys;
use crate::sys::memory::Mapped;

/// Whether the dump at exit was made. The end of the process would cut a later dump off.
static OVER: AtomicBool = AtomicBool::new(false);

/// How many numbers are tried until no file has the name.
const NUMBERS: u32 = 10_000;

/// Runs `body` as the only dump.
fn alone<T>(body: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    if DUMPING.is_mine() {
        let remedy = "call it where no dump is under way";
        return Err(Error::failed(
            "this thread is in the middle of a dump",
            remedy,
        ));
    }
    let _guard = DUMPING.lock();
    body()
}

/// In the child of a fork: dumps are its own, from the first on. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    dump::in_child(forker);
    OVER.store(false, Ordering::Relaxed);
}

pub(crate) extern "C" fn at_exit() {
    sys::process::notice_child();
    crash::wait_for_crash();
    // A child of a fork that never recorded has no ring of its own.
    let Some(ring) = ring().filter(|ring| ring.is_of_this_process()) else {
        return;
    };
    if OVER.load(Ordering::Relaxed) {
        return;
    }
    if recorder::host().is_some() {
        // This copy became a guest while it came up, so nobody uses its ring.
        if let Some(path) = ring.path() {
            sys::file::unlink(path);
        }
        return;
    }
    if !install::is_up() && !sys::process::is_fork_child() {
        return;
    }
    let ended = match sites::is_mine() {
        true => Err(CHANGING.into()),
        false => by_dumper(|| end(ring)),
    };
    if let Err(why) = ended {
        say_failed(&why);
    }
}

/// The thread is about to change what is recorded, and a handler interrupted it.
const CHANGING: &str = "a fault's handler interrupted a change of what is recorded";

/// Has the dumper run `body`, without handlers of the program in the calling thread.
fn by_dumper<T: Send>(body: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    let address = state().and_then(State::address);
    match address {
        // No handler of the program may interrupt this. If it called `exit`, it would wait for this dump for ever.
        None => sys::signal::undisturbed(|| hand_over(body)),
        // The program's signals must not wait for a slow peer.
        Some(_) => hand_over(body),
    }
}

/// The last dump of the process.
fn end(ring: &Ring) {
    say_replaced();
    dumper::say_out_of_space(ring);
    let result = if stream::is_begun() {
        stream::finish()
    } else {
        triggers::at_exit()
    };
    // Waits for a dump that began meanwhile.
    let _ = alone(|| {
        OVER.store(true, Ordering::Relaxed);
        Ok(())
    });
    crash::tell_loss_at_exit(ring);
    // Without a trace, the ring file holds the only copy of the records, or the part that somebody left of it.
    let needed = match ring.is_lost() {
        false => matches!(result, Err(Error::Failed(_))),
        true => !ring.is_file_headless(),
    };
    if let Some(path) = ring.path().filter(|_| !needed) {
        sys::file::unlink(path);
    }
}

/// Says that the program took the dump signal. It is no warning. The program may need the signal, and its
/// handler may call ours.
fn say_replaced() {
    let signal = state().and_then(|state| state.config.signal);
    if let Some(signal) = signal.filter(|&s| !sys::signal::is_installed(s, dumper::on_signal)) {
        messages::info(format_args!(
            "FDR_SIGNAL: the program has a handler of its own for signal {signal} by now: dumps come \
             only if it calls the one it found; another signal may be free"
        ));
    }
}

/// Dumps, and says on stderr how that ended.
pub(crate) fn dump_and_say(reason: &str) -> Result<Dump, Error> {
    let result = dump(reason);
    if let Err(error) = &result {
        say_error(error, reason);
    }
    result
}

/// Says why a dump failed.
pub(crate) fn say_error(error: &Error, reason: &str) {
    match error {
        Error::NothingRecorded(_) => messages::warn(format_args!("{error}")),
        // It was said when the file was lost, and nobody asked for this dump.
        _ if reason == "exit" && ring().is_some_and(Ring::is_lost) => {}
        Error::Failed(failure) => say_failed(failure),
        error => say_failed(&format!("{error}").into()),
    }
}

/// The objects that every dump needs.
fn ready() -> Result<(&'static Ring, &'static State), Error> {
    sys::process::notice_child();
    if sites::is_mine() {
        return Err(Error::failed(CHANGING, "call it elsewhere"));
    }
    let (Some(ring), Some(state)) = (ring(), state()) else {
        return Err(Error::NothingRecorded(owned(
            "set FDR=1 or call fdr::enable()",
        )));
    };
    match ring.is_lost() {
        true => Err(lost(ring)),
        false => Ok((ring, state)),
    }
}

/// Dumps, and says on stderr where the trace is.
pub(crate) fn dump(reason: &str) -> Result<Dump, Error> {
    dump_with(&Occasion::of(reason))
}

/// The same, with named moments of its own.
pub(crate) fn dump_with(occasion: &Occasion<'_>) -> Result<Dump, Error> {
    let (ring, state) = ready()?;
    if stream::is_begun() {
        return stream::flush(ring);
    }
    let dump = || {
        alone(|| {
            if OVER.load(Ordering::Relaxed) {
                let why = "the process ends, and its last trace is written";
                return Err(Error::failed(why, "call it earlier"));
            }
            let (dump, replaced) = write(ring, state, occasion)?;
            // This is said under the lock, so the end of the process waits for the line too.
            say_written(&dump, replaced, occasion.reason);
            Ok(dump)
        })
    };
    by_dumper(dump).map_err(Error::Failed)?
}

/// The error for a ring that somebody cut short.
pub(crate) fn lost(ring: &Ring) -> Error {
    let path = ring.path().unwrap_or_default().to_string_lossy();
    let what = format!("the ring is lost: {path} was cut short by somebody, or can't be read");
    Error::failed(&what, "`fdr dump` finds what is left in it")
}

/// Says why there is no trace and where the records are, even if the reason was said before.
pub(crate) fn say_failed(failure: &Failure) {
    let why = failure.in_full();
    let (is_lost, path) = ring().map_or((false, None), |ring| (ring.is_lost(), ring.path()));
    match path {
        _ if is_lost => messages::warn(format_args!("no trace was written: {why}")),
        Some(path) => messages::warn(format_args!(
            "no trace was written: {why}; for `fdr dump`, the records are still in {}",
            path.to_string_lossy()
        )),
        None => messages::warn(format_args!(
            "no trace was written: {why}; the records are in memory only"
        )),
    }
}

/// The error for a trace that can't be written, with advice.
pub(crate) fn why_not(path: &Path, error: io::Error) -> Failure {
    let remedy = match (error.kind(), error.raw_os_error()) {
        (io::ErrorKind::NotFound, _) => "make its folder, or end FDR_OUT with a /",
        (io::ErrorKind::FileTooLarge, _) => "raise the limit on the size of files (ulimit -f)",
        (io::ErrorKind::OutOfMemory, _) => "a smaller FDR_BUFFER needs less",
        (_, Some(libc::EMFILE | libc::ENFILE)) => "raise the limit of open files (ulimit -n)",
        _ => "FDR_OUT gives another place",
    };
    Failure::new(&path.to_string_lossy(), remedy, Some(error))
}

fn say_written(dump: &Dump, replaced: bool, reason: &str) {
    let why = match reason.strip_prefix("trigger ") {
        Some(why) => format!("; {why}"),
        None => String::new(),
    };
    messages::trace_was_written();
    let (records, overwritten, dropped) = (dump.records, dump.overwritten, dump.dropped);
    messages::warn(format_args!(
        "{} {}: {records} records of {} thread{}, {overwritten} overwritten, {dropped} dropped{why}",
        if replaced { "replaced" } else { "wrote" },
        dump.path.display(),
        dump.threads,
        if dump.threads == 1 { "" } else { "s" },
    ));
    // Panics and waits are recorded whatever the filter is.
    if records == 0 && overwritten == 0 && dropped == 0 {
        let why = table().why_nothing();
        messages::warn(format_args!("no call was recorded: {why}"));
    }
}

/// Says what the format could not hold.
pub(crate) fn say_losses(target: &Target, losses: &Losses) {
    if !losses.is_empty() {
        messages::info(format_args!(
            "not in the trace ({}): {losses}",
            target.title
        ));
    }
}

/// Makes a trace in a file without a name, and maps it. The trace has no number.
pub(crate) fn dump_unnamed(reason: &str) -> Result<(Mapped, Dump), Error> {
    let (ring, state) = ready()?;
    let target = state.config.format.0;
    let write = || {
        has_records(ring)?;
        let mut info = trace_info(ring, state, reason);
        info.dump = None;
        let unnamed = to_write(ring, state, &info).to_unnamed(&std::env::temp_dir());
        let mapped = unnamed.and_then(|(file, written)| Ok((Mapped::of(&file)?, written)));
        let (trace, written) = mapped.map_err(|error| {
            let place = format!(
                "{}: no trace in a file without a name",
                std::env::temp_dir().display()
            );
            Error::Failed(Failure::new(
                &place,
                "TMPDIR gives another place",
                Some(error),
            ))
        })?;
        Ok((trace, told(PathBuf::new(), &info, target, written)))
    };
    // As in `dump`, no handler of the program may interrupt this.
    sys::signal::undisturbed(|| hand_over(|| alone(write))).map_err(Error::Failed)?
}

fn has_records(ring: &Ring) -> Result<(), Error> {
    let has_any = has_any(ring);
    if ring.is_lost() {
        return Err(lost(ring));
    }
    match has_any {
        false => Err(Error::NothingRecorded(table().why_nothing())),
        true => Ok(()),
    }
}

/// Whether a dump would have records.
pub(crate) fn would_have_records() -> bool {
    ring().is_some_and(|ring| has_records(ring).is_ok())
}

fn to_write<'a>(ring: &'a Ring, state: &State, info: &'a TraceInfo) -> file::Dump<'a> {
    file::Dump {
        ring,
        info,
        target: state.config.format.0,
        first_thread: None,
        make_folders: state.output().makes_folders(),
        nonce: sys::process::random(),
    }
}

/// The result of a dump, with everything that is missing in it.
fn told(path: PathBuf, info: &TraceInfo, target: &Target, written: Written) -> Dump {
    let Written {
        threads,
        records,
        overwritten,
        dropped,
        zeroed,
        losses,
    } = written;
    say_losses(target, &losses);
    if zeroed > 0 {
        messages::warn(format_args!(
            "{}: somebody cut the ring's file short: of {zeroed} thread{}, records are zeros, and counted as overwritten",
            path.display(),
            if zeroed == 1 { "" } else { "s" },
        ));
    }
    // The file holds nothing of threads whose slots were reused, and nothing of threads that never had a slot.
    Dump {
        path,
        threads,
        records,
        overwritten: overwritten + info.missing.overwritten,
        dropped: dropped + info.missing.dropped,
    }
}

/// Writes the records of the ring. Also returns whether an earlier file had that name.
fn write(ring: &Ring, state: &State, occasion: &Occasion<'_>) -> Result<(Dump, bool), Error> {
    has_records(ring)?;
    if state.address().is_none() && state.output().is_null() {
        return Ok((discarded(ring, dump_path(state)), false));
    }
    let mut info = trace_info(ring, state, occasion.reason);
    let first = info.moments.last().map_or(1, |last| last.number + 1);
    let marks = (first..).zip(&occasion.marks);
    info.moments
        .extend(marks.map(|(number, (ticks, name))| Moment {
            number,
            time: Ticks(*ticks),
            name: name.clone(),
        }));
    let mut dump = to_write(ring, state, &info);
    dump.first_thread = occasion.thread;
    let (path, replaced, written) = match state.address() {
        Some(address) => {
            let written = dump.to_stream(|| connection::open(address));
            (PathBuf::from(connection::name(address)), false, written)
        }
        None => {
            let mut path = dump_path(state);
            let replaced = path.symlink_metadata().is_ok();
            let written = if state.output().is_numbered() {
                dump.to_free_path(&mut path, || path_after(state))
            } else {
                dump.to_path(&path)
            };
            (path, replaced, written)
        }
    };
    let written = written.map_err(|error| Error::Failed(why_not(&path, error)))?;
    NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok((told(path, &info, dump.target, written), replaced))
}

/// The result of a dump to /dev/null. No trace is wanted, so nothing is written.
fn discarded(ring: &Ring, path: PathBuf) -> Dump {
    let missing = ring.missing();
    let mut dump = Dump {
        path,
        threads: 0,
        records: 0,
        overwritten: missing.overwritten,
        dropped: missing.dropped,
    };
    for (_, counts) in ring.owned_slots().filter_map(counts::count) {
        dump.threads += u64::from(counts.recorded > 0);
        dump.records += counts.readable;
        dump.overwritten += counts.overwritten;
        dump.dropped += counts.dropped;
    }
    NUMBER.fetch_add(1, Ordering::Relaxed);
    dump
}

#[cfg(feature = "stream")]
/// Returns [`dump_path`], and moves on to the next number.
pub(crate) fn next_path(state: &State) -> PathBuf {
    let path = dump_path(state);
    NUMBER.fetch_add(1, Ordering::Relaxed);
    path
}

/// Moves on to the next number, and returns its path.
fn path_after(state: &State) -> PathBuf {
    NUMBER.fetch_add(1, Ordering::Relaxed);
    dump_path(state)
}

/// The path of the next dump. If names have numbers, it is a name that no file has, because another process may
/// have had the same pid.
fn dump_path(state: &State) -> PathBuf {
    let number = free_number(state);
    NUMBER.store(number, Ordering::Relaxed);
    path_of(state, number)
}

/// The path that the next dump is going to have. Unlike [`dump_path`] it takes no number.
pub(crate) fn next_dump_path(state: &State) -> PathBuf {
    path_of(state, free_number(state))
}

/// The next number whose name no file has.
fn free_number(state: &State) -> u32 {
    let first = NUMBER.load(Ordering::Relaxed);
    if !state.output().is_numbered() {
        return first;
    }
    (first..first.saturating_add(NUMBERS))
        .find(|&number| path_of(state, number).symlink_metadata().is_err())
        .unwrap_or(first)
}

#[inline(never)]
fn path_of(state: &State, number: u32) -> PathBuf {
    state.output().path(&Names {
        program: &state.program,
        pid: sys::process::pid(),
        number: u64::from(number),
        unix_time_s: clock::realtime_ns() / 1_000_000_000,
    })
}

/// Function records that were asked for, in all threads that ever recorded. It allocates nothing, because a
/// handler may call it through `exit` at the end of a stream.
pub(crate) fn asked_for(ring: &Ring) -> u64 {
    let of_slot = |slot| counts::recorded(slot).unwrap_or(1);
    ring.sum_consistently(|| {
        let missing = ring.missing();
        let placed = ring.owned_slots().map(of_slot).sum::<u64>();
        placed + missing.overwritten + missing.dropped
    })
}

/// Whether anything was recorded: an edge of a call, or a note. It allocates nothing, as [`asked_for`].
pub(crate) fn has_any(ring: &Ring) -> bool {
    asked_for(ring) > 0 || !ring.owned_slots().all(counts::is_empty)
}

#[cfg(feature = "stream")]
/// The current tick of the recorder's clock.
pub(crate) fn now(state: &State) -> Ticks {
    let (now, _) = state.settled_frequency();
    Ticks(now.ticks)
}

pub(crate) fn trace_info(ring: &Ring, state: &State, reason: &str) -> Box<TraceInfo> {
    let (now, frequency) = state.settled_frequency();
    ring.header()
        .frequency
        .store(frequency.hz, Ordering::Relaxed);
    let mut info = lasting_info(state);
    let clock = &mut info.clock;
    clock.frequency = frequency.hz;
    clock.error_ppm = Some(frequency.error_ppm);
    clock.until = Some((Ticks(now.ticks), now.realtime_ns));
    clock.trouble = state.trouble(&now, &frequency, counts::steps_back(ring));
    info.functions = table().for_trace_from(0);
    info.process = Some(u64::from(sys::process::pid()));
    info.reason = owned(reason);
    info.dump = Some(u64::from(NUMBER.load(Ordering::Relaxed)));
    info.end = Some(Ticks(now.ticks));
    info.missing = ring.missing();
    info.moments = file::moments(ring);
    info.schedule = schedule::of(ring);
    if let Some(ended) = ring.totals_of_ended() {
        info.missing_totals = file::totals(ended);
    }
    info
}

/// What every trace of this process says of the program and of the clock, except the clock's rate. It is on the heap,
/// because the program's stack may be small.
#[inline(never)]
pub(crate) fn lasting_info(state: &State) -> Box<TraceInfo> {
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
