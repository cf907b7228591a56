//! Writes the trace of a ring where nothing may be allocated, and prints the line about it. Async-signal-safe.
//! It must never stop a thread or wait for one.

use core::ffi::CStr;

use fdr_formats::model::{Counts, Estimate, FunctionId, Missing};
use fdr_formats::ring::schedule::{samples, switches};
use fdr_formats::xray::crash_dump::{self, CrashThread, CrashWriter};
use fdr_formats::xray::crash_totals::{CrashTotals, TotalsRow};
use fdr_formats::{Ticks, TraceInfo};

use super::text::Text;
use super::{DEADLINE_NS, Prepared, TraceMemory, file, names};
use crate::clock::{self, Kind};
use crate::dump::output::Names;
use crate::dump::snapshot::Snapshot;
use crate::dump::{self, schedule};
use crate::primitive::Ordering;
use crate::recorder;
use crate::ring::counts::{is_empty, steps_back};
use crate::ring::layout::{CHUNK, Row, Slot, Totals, state};
use crate::ring::totals::Copy;
use crate::ring::{self, Ring};
use crate::sys::own_table::{has_own_table, with_own_table};
use crate::sys::{self, raw};

/// After the deadline no further records are read. Writing the records that were read may take this much longer,
/// ns.
const WRITING_NS: u64 = 400_000_000;

/// How long the line about the trace waits for room on stderr, ns.
const STDERR_NS: i64 = 100_000_000;

/// How many numbers are tried until no file has the name.
const NUMBERS: u64 = 10_000;

/// The content of a trace.
#[derive(Clone, Copy, Default)]
pub(super) struct TraceContent {
    records: u64,
    threads: u64,
    /// Some records were left out for lack of time.
    cut: bool,
    /// Memory of the ring could not be read.
    unreadable: bool,
}

impl TraceContent {
    /// Whether the trace is complete, so that the ring is no longer needed.
    pub(super) fn is_whole(self) -> bool {
        !self.cut && !self.unreadable
    }
}

/// Why there is no trace.
#[derive(Clone, Copy)]
pub(super) enum NoTrace {
    /// No function was called, or no trace is wanted.
    Nothing,
    /// The ring's file was cut short.
    Lost,
    /// The name belongs to something that is not a file.
    NoFile,
    /// An errno.
    Error(i32),
}

/// Writes the records of `ring`. The slot of the thread `first` comes before the others.
pub(super) fn write(
    prepared: &Prepared,
    work: &mut TraceMemory,
    ring: &Ring,
    first: u32,
) -> Result<TraceContent, NoTrace> {
    let mut write = || write_here(prepared, work, ring, first);
    let apart = with_own_table(|| {
        // A thread that stands in has no alternate stack, and the handler of a fault needs one.
        prepared.nested.use_as_alternate();
        write()
    });
    match apart {
        Ok(result) => result,
        Err(error @ libc::ECANCELED) => {
            file::remove_unfinished();
            Err(NoTrace::Error(error))
        }
        // The kernel makes no such thread, so the file is open beside those of the program.
        Err(_) => write(),
    }
}

fn write_here(
    prepared: &Prepared,
    work: &mut TraceMemory,
    ring: &Ring,
    first: u32,
) -> Result<TraceContent, NoTrace> {
    let deadline = raw::monotonic_ns().saturating_add(DEADLINE_NS);
    let is_empty = is_nothing(ring);
    if ring.is_lost() {
        return Err(NoTrace::Lost);
    }
    if is_empty || prepared.output().is_null() {
        return Err(NoTrace::Nothing);
    }
    let mut name = Names {
        program: &prepared.program,
        pid: raw::process(),
        number: dump::number_of_crash(),
        unix_time_s: clock::realtime_ns() / 1_000_000_000,
    };
    let numbered = prepared.output().is_numbered();
    let mut bytes = [0; 4096];
    let mut folder = Text::new(&mut bytes);
    prepared.output().write_folder(&name, &mut |part| {
        folder.push(part);
    });
    find_name(prepared, &mut work.path, &mut name, numbered, deadline)?;
    let late = deadline.saturating_add(WRITING_NS);
    let made = work.file.create(prepared, folder.bytes(), late);
    made.map_err(NoTrace::Error)?;
    work.info.dump = Some(name.number);
    let done = content(work, ring, first, deadline);
    let result = work.file.close().and_then(|()| {
        let last = name.number.saturating_add(NUMBERS);
        loop {
            let path = work.path.path().ok_or(libc::ENAMETOOLONG)?;
            match work.file.place(path, !numbered) {
                Err(libc::EEXIST) if raw::monotonic_ns() > late => return Err(libc::ETIMEDOUT),
                Err(libc::EEXIST) if numbered && name.number < last => name.number += 1,
                other => return other,
            }
            path_of(prepared, &mut work.path, &name);
        }
    });
    if let Err(error) = result {
        file::remove_unfinished();
        return Err(NoTrace::Error(error));
    }
    Ok(done)
}

/// Whether nothing was recorded.
fn is_nothing(ring: &Ring) -> bool {
    ring.sum_consistently(|| is_nothing_now(ring))
}

#[inline(never)]
fn is_nothing_now(ring: &Ring) -> bool {
    let is_unused = |slot| is_readable(slot) && is_empty(slot);
    let missing = ring.missing();
    missing.overwritten == 0 && missing.dropped == 0 && ring.owned_slots().all(is_unused)
}

/// Finds a name that no file has. If names have no numbers, checks that nothing but a file has the name.
fn find_name(
    prepared: &Prepared,
    path: &mut Text<'_>,
    name: &mut Names<'_>,
    numbered: bool,
    deadline: u64,
) -> Result<(), NoTrace> {
    let last = name.number.saturating_add(NUMBERS);
    loop {
        path_of(prepared, path, name);
        let Some(path) = path.path() else {
            return Err(NoTrace::Error(libc::ENAMETOOLONG));
        };
        if !numbered && (prepared.output().is_no_file() || raw::is_no_file(path)) {
            return Err(NoTrace::NoFile);
        }
        if !numbered || name.number >= last || !raw::exists(path) {
            return Ok(());
        }
        if raw::monotonic_ns() > deadline {
            return Err(NoTrace::Error(libc::ETIMEDOUT));
        }
        name.number += 1;
    }
}

fn path_of(prepared: &Prepared, path: &mut Text<'_>, name: &Names<'_>) {
    path.clear();
    let mut push = |part: &[u8]| {
        path.push(part);
    };
    prepared.output().write_folder(name, &mut push);
    prepared.output().write_file(name, &mut push);
}

/// Writes all contents of the file. The file keeps the first error.
fn content(work: &mut TraceMemory, ring: &Ring, first: u32, deadline: u64) -> TraceContent {
    let TraceMemory {
        snapshot,
        room,
        totals,
        info,
        identity,
        moments,
        states,
        file,
        reason,
        ..
    } = work;
    bring_up_to_date(info, ring);
    file.put(&crash_dump::header(info));
    let start = info.start.unwrap_or_default();
    let moments = moments_in(ring, start, moments);
    let names = names::all().map(|part| -> &[u8] { part });
    let states = states_in(ring, start, states);
    let tables = [*identity, moments, states].into_iter().chain(names);
    let mut writer = CrashWriter::new(info, reason.text(), tables);
    let mut done = TraceContent::default();
    let in_time = || raw::monotonic_ns() < deadline;
    let is_first = |slot: &&Slot| slot.tid.load(Ordering::Relaxed) == first;
    let crashed = ring.owned_slots().filter(is_first);
    let others = ring.owned_slots().filter(|slot| !is_first(slot));
    for slot in crashed.chain(others) {
        if !in_time() {
            done.cut = true;
            break;
        }
        if !is_readable(slot) {
            done.unreadable = true;
            continue;
        }
        let taken = snapshot.take_while(slot, &in_time);
        // The records of a slot that changed its owner too fast, or that came too late, are in the ring only.
        done.cut |= !in_time() || !taken && is_owned(slot);
        done.unreadable |= snapshot.has_zeros;
        if !taken || snapshot.is_empty(slot) {
            continue;
        }
        let mut bytes = [0; 64];
        let mut name = Text::new(&mut bytes);
        name.name(snapshot.owner.name());
        let thread = crash_thread(snapshot, name.text());
        let mut put = |bytes: &[u8]| file.put(bytes);
        let chunk = snapshot.chunks().next().unwrap_or_default();
        if let Some(of_missing) = ring.totals_of_ended().filter(|_| done.threads == 0) {
            let batch = CrashTotals::new(info, thread.id, chunk, true, totals);
            put_totals(of_missing, batch, true, &mut put);
        }
        if let Some(own) = ring.totals_of(slot) {
            let batch = CrashTotals::new(info, thread.id, chunk, false, totals);
            put_totals(own, batch, false, &mut put);
        }
        if let Some(block) = writer.thread(&thread, snapshot.chunks(), room, &mut put) {
            done.threads += 1;
            done.records += block.readable;
        }
    }
    done.unreadable |= ring.is_lost();
    if done.is_whole() {
        let (at, extent) = crash_dump::extent(file.size(), done.threads);
        file.replace(at, &extent);
    }
    done
}

fn crash_thread<'a>(snapshot: &'a Snapshot, name: &'a str) -> CrashThread<'a> {
    let counts = snapshot.counts;
    CrashThread {
        id: snapshot.owner.tid,
        name,
        counts: Counts {
            recorded: counts.recorded,
            overwritten: counts.overwritten,
            dropped: counts.dropped,
            summarised: counts.summarised,
            ..Counts::default()
        },
        ended: snapshot.owner.ended,
        early_calls: &snapshot.early_calls,
    }
}

/// Updates the facts of the trace that change while the process runs.
fn bring_up_to_date(info: &mut TraceInfo, ring: &Ring) {
    let missing = ring.missing();
    info.missing = Missing { ..missing };
    info.process = Some(u64::from(raw::process()));
    match ring.header().frequency.load(Ordering::Relaxed) {
        0 => {}
        known => info.clock.frequency = known,
    }
    let flags = ring.header().clock_flags.load(Ordering::Relaxed);
    info.clock.faults.skew_ns = u64::from(flags >> 8) * 1000;
    info.clock.faults.steps_back = steps_back(ring);
    info.end = Some(end(ring));
}

/// The named moments in the form of a trace.
fn moments_in<'a>(ring: &Ring, start: Ticks, place: &'a mut [u8]) -> &'a [u8] {
    let mut used = 0;
    for moment in ring::moments::all(ring.moments()) {
        let (number, time) = (moment.number, Ticks(moment.ticks));
        crash_dump::moment(number, time, moment.name(), start, &mut |bytes| {
            let end = used + bytes.len();
            let to = place.get_mut(used..end);
            to.is_some_and(|to| {
                to.copy_from_slice(bytes);
                used = end;
                true
            })
        });
    }
    place.get(..used).unwrap_or(&[])
}

/// The states of threads in the form of a trace.
fn states_in<'a>(ring: &Ring, start: Ticks, place: &'a mut [u8]) -> &'a [u8] {
    schedule::drain(ring);
    let mut used = 0;
    if let Some(log) = ring.schedule() {
        let all = log.all(ring.anchor());
        used = crash_dump::switches(&mut switches(all.clone()), start, place);
        let rest = place.get_mut(used..).unwrap_or(&mut []);
        let more = crash_dump::samples(&mut samples(all), start, rest);
        used += more;
        if more > 0 {
            let rest = place.get_mut(used..).unwrap_or(&mut []);
            used += crash_dump::modules(ring.modules(), start, rest);
        }
    }
    place.get(..used).unwrap_or(&[])
}

/// Writes what the calls of each function took, and the estimates. Without room in the file, the rest is left out.
fn put_totals(
    totals: &Totals,
    mut batch: CrashTotals<'_>,
    with_estimates: bool,
    put: &mut crash_dump::Out<'_>,
) {
    let mut copy = Copy::EMPTY;
    for row in ring::totals::rows(totals) {
        let _ = copy.read(row);
        let head = TotalsRow {
            function: copy.function,
            calls: copy.calls,
            untimed: copy.untimed,
            total: copy.total,
            own: copy.own.min(copy.total),
            longest: copy.longest,
            nests: copy.nests,
        };
        let is_empty = copy.calls == 0 && copy.untimed == 0;
        if !is_empty && batch.row(&head, &copy.lengths, put).is_none() {
            return;
        }
    }
    if !with_estimates {
        batch.finish(put);
        return;
    }
    // The dumper knows the cost later than the first estimates.
    let cost = ring::totals::cost(totals).unwrap_or_default();
    let estimate = |row: &Row| {
        let (function, ..) = ring::totals::calls(row);
        (FunctionId(function), ring::totals::estimate(row))
    };
    let known = |(_, estimate): &(FunctionId, Estimate)| *estimate != ring::totals::NO_ESTIMATE;
    let mut estimates = ring::totals::rows(totals).map(estimate).filter(known);
    batch.finish_with(cost, &mut estimates, put);
}

/// The moment of the trace: the tick of the crash, or of now if the program asked for the trace.
fn end(ring: &Ring) -> Ticks {
    let header = ring.header();
    // Acquire: pairs with the Release in `handler::note`.
    if header.crash_signal.load(Ordering::Acquire) != 0 {
        return Ticks(header.crash_ticks.load(Ordering::Relaxed));
    }
    let kind = Kind::from_raw(recorder::CLOCK.load(Ordering::Relaxed));
    Ticks(clock::read(kind).ticks)
}

/// Whether a thread's records can be read, because unreadable memory may be the cause of the crash. It leaves
/// out chunks that were never used. Reading such a chunk costs a page fault, and the chunk may have no space.
fn is_readable(slot: &Slot) -> bool {
    let with_space = slot.chunks_with_space.load(Ordering::Relaxed);
    // One more, because the owner may open the next chunk meanwhile.
    let used = slot.chunk.load(Ordering::Acquire).saturating_add(1);
    let base = slot.base.load(Ordering::Relaxed) as usize;
    raw::is_readable(base, used.min(with_space.into()) as usize * CHUNK)
}

fn is_owned(slot: &Slot) -> bool {
    matches!(
        slot.state.load(Ordering::Acquire),
        state::LIVE | state::ENDED
    )
}

/// Says on stderr whether there is a trace, and where.
pub(super) fn print_result(
    prepared: &Prepared,
    work: &TraceMemory,
    ring: &Ring,
    result: &Result<TraceContent, NoTrace>,
) {
    if prepared.quiet || matches!(result, Err(NoTrace::Nothing)) {
        return;
    }
    let mut bytes = [0; 9000];
    let mut line = Text::new(&mut bytes);
    line.push(b"fdr: ").push(work.reason.bytes()).push(b": ");
    match *result {
        Ok(done) => {
            line.push(b"the last ").number(done.records);
            line.push(b" records of ").number(done.threads);
            let threads: &[u8] = if done.threads == 1 {
                b" thread"
            } else {
                b" threads"
            };
            line.push(threads).push(b" are in ").name(work.path.bytes());
            if done.cut {
                line.push(b"; there was no time for the rest");
            }
            if done.unreadable {
                line.push(b"; memory of the ring can't be read");
            }
        }
        Err(no_trace) => {
            line.push(b"no trace was written: ")
                .name(work.path.bytes())
                .push(b": ");
            why(no_trace, &mut line);
            line.push(remedy(no_trace));
        }
    }
    let kept = ring
        .path()
        .filter(|_| !matches!(result, Ok(done) if done.is_whole()));
    if let Some(path) = kept.map(CStr::to_bytes) {
        line.push(b"; for `fdr dump`, the records are still in ");
        line.name(path);
    }
    line.push(b"\n");
    put_line(line.bytes());
}

/// Writes a line to stderr, if stderr has room for it.
pub(super) fn put_line(line: &[u8]) {
    if has_own_table() {
        sys::file::stderr(line);
        return;
    }
    raw::undisturbed(|| {
        if raw::has_room(libc::STDERR_FILENO, STDERR_NS) {
            // A pipe takes this many bytes at once. For more the write might have to wait.
            let line = line.get(..libc::PIPE_BUF).unwrap_or(line);
            let _ = raw::write(libc::STDERR_FILENO, line);
        }
    });
}

/// The advice for people.
fn remedy(no_trace: NoTrace) -> &'static [u8] {
    match no_trace {
        NoTrace::Nothing | NoTrace::Error(libc::ETIMEDOUT) => b"",
        NoTrace::Error(libc::EFBIG) => b"; raise it (ulimit -f)",
        NoTrace::Error(libc::EMFILE | libc::ENFILE) => b"; raise their limit (ulimit -n)",
        _ => b"; FDR_OUT gives another place",
    }
}

fn why(no_trace: NoTrace, line: &mut Text<'_>) {
    let known: &[u8] = match no_trace {
        NoTrace::Nothing => b"nothing was recorded",
        NoTrace::Lost => b"somebody cut the ring's file short",
        NoTrace::NoFile => b"not a file; it is left as it is",
        NoTrace::Error(libc::EACCES | libc::EPERM) => b"permission denied",
        NoTrace::Error(libc::EDQUOT) => b"no space left in the quota",
        NoTrace::Error(libc::EFBIG) => b"larger than the limit on the size of files",
        NoTrace::Error(libc::EMFILE | libc::ENFILE) => b"no descriptor is left",
        NoTrace::Error(libc::ENAMETOOLONG) => b"the name is too long",
        NoTrace::Error(libc::ENOENT | libc::ENOTDIR) => b"there is no such folder",
        NoTrace::Error(libc::ENOSPC) => b"no space left on the device",
        NoTrace::Error(libc::EROFS) => b"the file system is read-only",
        NoTrace::Error(libc::ETIMEDOUT) => b"writing took too long",
        NoTrace::Error(other) => {
            line.push(b"error ").number(other.unsigned_abs().into());
            return;
        }
    };
    line.push(known);
}
