//! Dumps: at exit, on the signal, on a panic, on a call. Only one runs at a time, and each says on stderr how
//! it ended. A dump must never run in a signal handler, because it allocates and takes locks.

use core::sync::atomic::{AtomicBool, Ordering};
use std::path::PathBuf;

use fdr_formats::model::Moment;
use fdr_formats::text::owned;
use fdr_formats::writer::Target;
use fdr_formats::{Ticks, TraceInfo};

use super::handover::hand_over;
use super::sites::TableHandle;
use super::state::State;
use super::{connection, failures, memory_limits, stream, trace_info, trace_paths};
use crate::api::{Dump, Error, Failure};
use crate::dump::file::{self, Written};
use crate::dump::{self, DUMPING, NUMBER};
use crate::messages;
use crate::recorder::ring;
use crate::ring::Ring;
use crate::ring::counts;
use crate::sys;
use crate::sys::memory::Mapped;

/// Whether the work of the exit is done. No dump may begin after it, because the end of the process would cut it off.
static EXIT_DONE: AtomicBool = AtomicBool::new(false);

/// Whether the dump at exit was made.
pub(super) fn is_exit_done() -> bool {
    EXIT_DONE.load(Ordering::Relaxed)
}

/// Refuses all later dumps. Waits for a dump that is under way.
pub(super) fn end() {
    let _ = alone(|| {
        EXIT_DONE.store(true, Ordering::Relaxed);
        Ok(())
    });
}

/// Why there is a dump.
pub(crate) struct Occasion<'a> {
    pub(crate) reason: &'a str,
    /// Ticks that this one trace names, in addition to the named moments of the ring.
    pub(crate) marks: Vec<(u64, String)>,
    /// The thread that comes first: one that panicked, or had a slow call.
    pub(crate) thread: Option<u32>,
}

impl Occasion<'_> {
    /// Nothing but a reason.
    pub(crate) fn from_reason(reason: &str) -> Occasion<'_> {
        Occasion {
            reason,
            marks: Vec::new(),
            thread: None,
        }
    }
}

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

/// Called in the child of a fork. The child may dump, and numbers its dumps from 1. Async-signal-safe.
pub(crate) fn in_child(forker: u64) {
    dump::in_child(forker);
    EXIT_DONE.store(false, Ordering::Relaxed);
}

/// The error if a handler interrupted its thread in a change of what is recorded.
pub(super) const CHANGING: &str = "a fault's handler interrupted a change of what is recorded";

/// Has the dumper run `body`, without handlers of the program in the calling thread.
pub(super) fn by_dumper<T: Send>(
    state: &State,
    body: impl FnOnce() -> T + Send,
) -> Result<T, Failure> {
    match state.address() {
        // No handler of the program may interrupt this. If it called `exit`, it would wait for this dump for ever.
        None => sys::signal::undisturbed(|| hand_over(body)),
        // The program's signals must not wait for a slow peer.
        Some(_) => hand_over(body),
    }
}

/// Dumps, and prints on stderr where the trace is or why there is none.
pub(crate) fn dump_and_print(
    state: &State,
    table: TableHandle,
    reason: &str,
) -> Result<Dump, Error> {
    let result = dump(state, table, reason);
    if let Err(error) = &result {
        print_error(error, reason);
    }
    result
}

/// Says why a dump failed.
pub(crate) fn print_error(error: &Error, reason: &str) {
    match error {
        Error::NothingRecorded(_) => messages::warn(format_args!("{error}")),
        // A line has reported this when the ring was lost, and the user did not ask for this dump.
        _ if reason == "exit" && ring().is_some_and(Ring::is_lost) => {}
        Error::Failed(failure) => failures::print_no_trace(failure),
        error => failures::print_no_trace(&format!("{error}").into()),
    }
}

/// The error if the recorder is not up.
pub(super) fn not_up() -> Error {
    Error::NothingRecorded(owned("set FDR=1 or call fdr::enable()"))
}

/// The ring that a dump is made of.
fn ready_ring(table: TableHandle) -> Result<&'static Ring, Error> {
    sys::process::notice_child();
    if table.is_mine() {
        return Err(Error::failed(CHANGING, "call it elsewhere"));
    }
    let ring = ring().ok_or_else(not_up)?;
    match ring.is_lost() {
        true => Err(failures::lost(ring)),
        false => Ok(ring),
    }
}

/// Dumps, and says on stderr where the trace is.
pub(crate) fn dump(state: &State, table: TableHandle, reason: &str) -> Result<Dump, Error> {
    dump_with(state, table, &Occasion::from_reason(reason))
}

/// As [`dump()`], for an occasion that may have named moments.
pub(crate) fn dump_with(
    state: &State,
    table: TableHandle,
    occasion: &Occasion<'_>,
) -> Result<Dump, Error> {
    let ring = ready_ring(table)?;
    if stream::is_begun() {
        return stream::flush(ring, table);
    }
    let dump = || {
        alone(|| {
            if EXIT_DONE.load(Ordering::Relaxed) {
                let why = "the process ends, and its last trace is written";
                return Err(Error::failed(why, "call it earlier"));
            }
            let (dump, replaced) = write(ring, state, table, occasion)?;
            // The line is printed under the lock, so the end of the process waits for the line, too.
            print_written(table, &dump, replaced, occasion.reason);
            Ok(dump)
        })
    };
    by_dumper(state, dump).map_err(Error::Failed)?
}

fn print_written(table: TableHandle, dump: &Dump, replaced: bool, reason: &str) {
    let why = ["trigger ", "call: "].into_iter();
    let why = why.filter_map(|kind| reason.strip_prefix(kind)).next();
    let why = why.map_or_else(String::new, |why| format!("; {why}"));
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
        let why = table.lock().why_nothing();
        messages::warn(format_args!("no call was recorded: {why}"));
    }
}

/// Makes a trace in a file without a name, and maps it. The trace has no number.
pub(crate) fn dump_unnamed(
    state: &State,
    table: TableHandle,
    reason: &str,
) -> Result<(Mapped, Dump), Error> {
    let ring = ready_ring(table)?;
    let target = state.config.format.0;
    let write = || {
        has_records(ring, table)?;
        memory_limits::check_addresses_for_dump().map_err(Error::Failed)?;
        let mut info = trace_info::gather(ring, state, table, reason);
        info.dump = None;
        let unnamed = to_write(ring, state, &info).to_unnamed(&std::env::temp_dir());
        let mapped = unnamed.and_then(|(file, written)| Ok((Mapped::from_file(&file)?, written)));
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
        Ok((trace, result_of(PathBuf::new(), &info, target, written)))
    };
    // As in `dump`, no handler of the program may interrupt this.
    sys::signal::undisturbed(|| hand_over(|| alone(write))).map_err(Error::Failed)?
}

fn has_records(ring: &Ring, table: TableHandle) -> Result<(), Error> {
    let has_any = trace_info::has_any(ring);
    if ring.is_lost() {
        return Err(failures::lost(ring));
    }
    match has_any {
        false => Err(Error::NothingRecorded(table.lock().why_nothing())),
        true => Ok(()),
    }
}

/// Whether a dump would have records.
pub(crate) fn would_have_records(table: TableHandle) -> bool {
    ring().is_some_and(|ring| has_records(ring, table).is_ok())
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
fn result_of(path: PathBuf, info: &TraceInfo, target: &Target, written: Written) -> Dump {
    let Written {
        threads,
        records,
        overwritten,
        dropped,
        zeroed,
        losses,
    } = written;
    failures::print_losses(target, &losses);
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
fn write(
    ring: &Ring,
    state: &State,
    table: TableHandle,
    occasion: &Occasion<'_>,
) -> Result<(Dump, bool), Error> {
    has_records(ring, table)?;
    if state.address().is_none() && state.output().is_null() {
        return Ok((discarded(ring, trace_paths::current(state)), false));
    }
    memory_limits::check_addresses_for_dump().map_err(Error::Failed)?;
    let mut info = trace_info::gather(ring, state, table, occasion.reason);
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
            let mut path = trace_paths::current(state);
            let replaced = path.symlink_metadata().is_ok();
            let written = if state.output().is_numbered() {
                dump.to_free_path(&mut path, || trace_paths::after(state))
            } else {
                dump.to_path(&path)
            };
            (path, replaced, written)
        }
    };
    let written = written.map_err(|error| Error::Failed(failures::why_not(&path, error)))?;
    NUMBER.fetch_add(1, Ordering::Relaxed);
    Ok((result_of(path, &info, dump.target, written), replaced))
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
