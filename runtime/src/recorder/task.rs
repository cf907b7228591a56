//! Tasks: the life of a traced future, from its first recorded poll to its end. Its numbers lie in the future, so a
//! task may move between threads. All functions are async-signal-safe.
//!
//! At the end of each poll the recorder may write a note with the numbers so far. The note lies inside the poll's call.
//! With `FDR_KEEP` it is written only if the call leaves records anyway. The end of a task is counted in the totals of
//! the thread, as the end of a call is. The end leaves a note, too, if the task took at least the threshold of the
//! thread, has left a note before, or is in no totals.

use fdr_formats::notes::{NoteKind, task_state};
use fdr_formats::trigger::CallEnd;

use super::note::Note;
use super::{claim, host, notes, now, tls, watch};
use crate::clock::Stamp;
use crate::primitive::{AtomicU64, Ordering, compiler_fence};
use crate::ring::layout::{BUSY, OpenCalls, Row, Slot};
use crate::ring::{open_calls, totals};
use crate::site::task::{Begun, End, Requests, Task};

/// How many ids a thread takes at once. The first number of a block is never used as an id.
const BLOCK: u64 = 1024;

/// The number of the last block of ids that a thread took.
static BLOCKS: AtomicU64 = AtomicU64::new(0);

/// Begins a poll. The first one begins the task if the entry of its call is recorded. `busy` is the id under which the
/// polls of such tasks are counted.
#[cold]
#[inline(never)]
pub(crate) fn begin(task: &mut Task, is_recorded: bool, busy: u32) -> Begun {
    match host() {
        Some(host) => (host.task_begin)(task, is_recorded, busy),
        None => begin_of_guest(task, is_recorded, busy),
    }
}

/// Ends a poll, before the exit of its call. Returns the requests that [`request_dumps`] takes behind that exit.
#[cold]
#[inline(never)]
pub(crate) fn end(task: &mut Task, begun: Begun, end: End) -> Requests {
    match host() {
        Some(host) => (host.task_end)(task, begun, end),
        None => end_of_guest(task, begun, end),
    }
}

/// Hands the requests of triggers to the dumper. The dump has what the thread has written before.
pub(crate) fn request_dumps(requests: Requests) {
    if requests == Requests::default() {
        return;
    }
    match host() {
        Some(host) => (host.task_request_dumps)(requests),
        None => request_dumps_of_guest(requests),
    }
}

/// Ends a task whose future is dropped before its end. A task that was never polled begins and ends here.
#[cold]
#[inline(never)]
pub(crate) fn end_dropped(task: &mut Task, ids: &[u32; 4]) {
    match host() {
        Some(host) => (host.task_drop)(task, ids),
        None => drop_of_guest(task, ids),
    }
}

/// The id of the task that the thread polls. 0: it polls none.
#[cold]
#[inline(never)]
pub(crate) fn current() -> u64 {
    match host() {
        Some(host) => (host.task_current)(),
        None => current_of_guest(),
    }
}

/// Replaces the id of the task that the thread polls, and returns the one before.
#[cold]
#[inline(never)]
pub(crate) fn enter(task: u64) -> u64 {
    match host() {
        Some(host) => (host.task_enter)(task),
        None => enter_of_guest(task),
    }
}

/// [`begin`] for a guest, called in its host.
pub(crate) extern "C" fn begin_of_guest(task: &mut Task, is_recorded: bool, busy: u32) -> Begun {
    let around = tls::task();
    if task.id == 0 && is_recorded {
        task.open(next_id(), around);
        let begun = |[busy]: [&Row; 1]| totals::count_untimed(busy);
        task.is_counted = count(tls::get(), [busy], begun);
        task.first = now().ticks;
    } else if !task.is_open() {
        // Its first poll was not recorded. Otherwise its other numbers would be wrong.
        task.close();
        return Begun { ticks: 0, around };
    }
    tls::set_task(task.id);
    let ticks = match task.polls {
        0 => task.first,
        _ => now().ticks,
    };
    Begun { ticks, around }
}

/// [`end`] for a guest, called in its host.
pub(crate) extern "C" fn end_of_guest(task: &mut Task, begun: Begun, end: End) -> Requests {
    tls::set_task(begun.around);
    if !task.is_open() {
        return Requests::default();
    }
    let stamp = now();
    let ticks = stamp.ticks.saturating_sub(begun.ticks);
    task.busy = task.busy.saturating_add(ticks);
    task.polls = task.polls.saturating_add(1);
    let leaves_records = end.is_recorded
        && open_calls::of_slot(tls::get()).is_none_or(|calls| {
            let (open, published) = calls.open();
            calls.is_long(ticks) || published >= open
        });
    if end.state != task_state::WAITING {
        return finish(task, end.ids, end.state, stamp, leaves_records);
    }
    let ticks = elapsed(task, stamp);
    let [function, ..] = end.ids;
    let requests = watch::task(tls::get(), function, task, ticks, CallEnd::Open);
    let fires = requests != Requests::default();
    task.is_reported |= fires;
    if leaves_records || fires {
        note(task, end.ids, end.state, u8::from(task.is_counted), stamp);
        task.has_note = true;
    }
    requests
}

/// [`request_dumps`] for a guest, called in its host.
pub(crate) extern "C" fn request_dumps_of_guest(requests: Requests) {
    watch::hand_over(requests);
}

/// [`end_dropped`] for a guest, called in its host.
pub(crate) extern "C" fn drop_of_guest(task: &mut Task, ids: &[u32; 4]) {
    let stamp = now();
    if task.is_open() {
        let requests = finish(task, *ids, task_state::DROPPED, stamp, false);
        return watch::hand_over(requests);
    }
    let never_polled = |[dropped]: [&Row; 1]| totals::count_untimed(dropped);
    let [_, _, dropped, _] = *ids;
    if !count(tls::get(), [dropped], never_polled) {
        task.open(next_id(), tls::task());
        task.first = stamp.ticks;
        note(task, *ids, task_state::DROPPED, 0, stamp);
    }
    task.close();
}

/// [`current`] for a guest, called in its host.
pub(crate) extern "C" fn current_of_guest() -> u64 {
    tls::task()
}

/// [`enter`] for a guest, called in its host.
pub(crate) extern "C" fn enter_of_guest(task: u64) -> u64 {
    let around = tls::task();
    tls::set_task(task);
    around
}

/// Ends a task: counts it, and writes its note if it is to have one. Returns the requests of triggers for it.
fn finish(
    task: &mut Task,
    ids: [u32; 4],
    state: u8,
    stamp: Stamp,
    leaves_records: bool,
) -> Requests {
    let slot = tls::get();
    let [function, finished, dropped, busy] = ids;
    let end = match state {
        task_state::FINISHED => finished,
        _ => dropped,
    };
    let elapsed = elapsed(task, stamp);
    let polled = task.busy.min(elapsed);
    let is_counted = task.is_counted
        && count(slot, [end, busy], |[end, busy]| {
            totals::count(end, elapsed, elapsed - polled);
            totals::count(busy, polled, 0);
        });
    let is_long = open_calls::of_slot(slot).is_none_or(|calls| calls.is_long(elapsed));
    let how = match state {
        task_state::FINISHED => CallEnd::Returned,
        _ => CallEnd::Dropped,
    };
    let requests = watch::task(slot, function, task, elapsed, how);
    let fires = requests != Requests::default();
    // If it had left a note before, that note alone would say that it has not ended.
    if leaves_records || is_long || fires || task.has_note || !is_counted {
        let counted = u8::from(task.is_counted) | u8::from(is_counted) << 1;
        note(task, ids, state, counted, stamp);
    }
    task.close();
    requests
}

impl OpenCalls {
    /// Whether a call of this length leaves records.
    fn is_long(&self, ticks: u64) -> bool {
        ticks >= self.threshold.load(Ordering::Relaxed)
    }
}

/// Counts in rows of the calling thread's totals. False: the thread has no totals, they have no room for the rows, or
/// this is a handler that interrupts a record.
fn count<const N: usize>(slot: &Slot, ids: [u32; N], count: impl FnOnce([&Row; N])) -> bool {
    let calls = open_calls::of_slot(slot);
    let Some(totals) = calls.and_then(|calls| totals::at(calls.totals.load(Ordering::Relaxed)))
    else {
        return false;
    };
    let before = slot.cpu.load(Ordering::Relaxed);
    // The id 0 belongs to no function, so nothing counts it.
    if ids.contains(&0) || before == BUSY || claim::is_unnoticed_child() {
        return false;
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let rows = ids.map(|id| totals::row_of(totals, id, u64::MAX, || claim::extend_totals(totals)));
    // The row that all functions without a row share can't tell tasks from calls.
    let is_own = |(row, id): (&&Row, &u32)| totals::calls(row).0 == *id;
    let has_rows = rows.iter().zip(&ids).all(is_own);
    if has_rows {
        count(rows);
    }
    compiler_fence(Ordering::SeqCst);
    slot.cpu.store(before, Ordering::Relaxed);
    has_rows
}

/// Writes a note of the task.
fn note(task: &Task, ids: [u32; 4], state: u8, counted: u8, stamp: Stamp) {
    let [name, ..] = ids;
    let state = u64::from(state) << 32 | u64::from(counted) << 40;
    let body = [
        task.id,
        task.parent,
        0,
        u64::from(name) | state,
        elapsed(task, stamp),
        task.busy,
        u64::from(task.polls),
    ];
    let note = Note::new(NoteKind::Task as u8, &body);
    notes::write_at(&note, stamp);
}

fn elapsed(task: &Task, stamp: Stamp) -> u64 {
    stamp.ticks.saturating_sub(task.first)
}

/// An id that no other task of the process has.
fn next_id() -> u64 {
    let mut next = tls::replace_ids(0, 0);
    loop {
        let id = match next % BLOCK {
            0 => (BLOCKS.fetch_add(1, Ordering::Relaxed) + 1) * BLOCK + 1,
            _ => next,
        };
        // A handler may take ids of the thread meanwhile.
        match tls::replace_ids(next, id + 1) {
            found if found == next => return id,
            found => next = found,
        }
    }
}
