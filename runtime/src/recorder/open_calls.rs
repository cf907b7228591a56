//! The calls of a thread that makes more calls than its ring can hold for `FDR_KEEP`. A call that is shorter than
//! the thread's threshold leaves no records. It is counted in the call around it, and a summary record says how
//! many such calls there were and how much time they took. Every function in this file is async-signal-safe.
//!
//! A published record never changes. So the entry of a call is not published at the entry. It waits in the
//! thread's [`OpenCalls`], until the call or a call inside it has lasted long enough, and is published then with
//! the time of the entry. The published calls are always the outermost ones. `depth` and `published` count both.
//!
//! The protocol with readers (`ring::open_calls`): a reader reads the frames, then the thread's records, then the
//! frames again. The slot's cursor moves at each publication. A frame that is the same in both readings was open
//! all the time. If the cursor is the same too, none was published meanwhile.
//!
//! The protocol with signal handlers is that of [`writer`](super::writer): the slot is busy meanwhile.
//!
//! The threshold begins at 0, and the thread records each call in the ordinary way. [`adjust`] raises it when the
//! ring is full and holds less time than it should. From then on the slot has the address of its open calls.

use core::time::Duration;

use super::{EXIT, claim, writer};
use crate::clock::Stamp;
use crate::primitive::{AtomicU64, Ordering, compiler_fence};
use crate::ring::chunk;
use crate::ring::layout::{BUSY, FRAMES, Frame, OpenCalls, Slot};
pub(super) use crate::ring::open_calls::of;

/// How many ticks a ring should hold. 0 = each call leaves its records.
static KEEP_TICKS: AtomicU64 = AtomicU64::new(0);

/// The first threshold above 0, in ticks. Calls of small functions are shorter.
const FIRST_THRESHOLD: u64 = 128;

/// Offset of the tick in a chunk: in its NewCPUId.
const CHUNK_TICK: u64 = 35;

/// Sets the time that a ring should hold, with a clock of so many Hz. `None` = each call leaves its records.
pub(crate) fn keep(time: Option<Duration>, frequency: u64) {
    let ticks = time.map_or(0, |time| {
        time.as_nanos() * u128::from(frequency) / 1_000_000_000
    });
    KEEP_TICKS.store(u64::try_from(ticks).unwrap_or(u64::MAX), Ordering::Relaxed);
}

/// Notes the edge of a call. `stub` does the same for a call that is shorter than the threshold.
#[cold]
#[inline(never)]
pub(super) fn edge(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    if claim::is_unnoticed_child() {
        return claim::record_in_unnoticed_child(word, stamp.cpu);
    }
    if slot.cpu.load(Ordering::Relaxed) == BUSY {
        return claim::busy(word, stamp.cpu);
    }
    slot.cpu.store(BUSY, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    if word & EXIT == 0 {
        enter(slot, calls, word, stamp);
    } else {
        exit(slot, calls, word, stamp);
    }
    compiler_fence(Ordering::SeqCst);
    slot.cpu.store(stamp.cpu, Ordering::Relaxed);
}

fn enter(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let depth = calls.depth.load(Ordering::Relaxed) as usize;
    let Some(frame) = calls.frames.get(depth + 1) else {
        publish_open(slot, calls);
        publish(slot, calls, word, stamp);
        calls.deeper.fetch_add(1, Ordering::Relaxed);
        return;
    };
    frame.word.store(word, Ordering::Relaxed);
    frame.cpu.store(stamp.cpu, Ordering::Relaxed);
    frame.ticks.store(stamp.ticks, Ordering::Relaxed);
    frame.short_calls.store(0, Ordering::Relaxed);
    frame.short_ticks.store(0, Ordering::Relaxed);
    // Release: a reader that sees the depth sees the frame.
    calls.depth.store(depth as u32 + 1, Ordering::Release);
}

fn exit(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let deeper = calls.deeper.load(Ordering::Relaxed);
    if deeper > 0 {
        calls.deeper.store(deeper - 1, Ordering::Relaxed);
        return publish(slot, calls, word, stamp);
    }
    let depth = depth(calls);
    let Some(at) = find(calls, depth, word) else {
        // It was entered before the thread had a threshold, or its entry was dropped.
        publish_open(slot, calls);
        return publish(slot, calls, word, stamp);
    };
    let (Some(frame), Some(around)) = (calls.frames.get(at), calls.frames.get(at - 1)) else {
        return;
    };
    let ticks = stamp
        .ticks
        .saturating_sub(frame.ticks.load(Ordering::Relaxed));
    let is_published = at <= calls.published.load(Ordering::Relaxed) as usize;
    let is_short = ticks < calls.threshold.load(Ordering::Relaxed);
    if at == depth && !is_published && is_short {
        let inside = frame.short_calls.load(Ordering::Relaxed);
        add(&around.short_calls, inside + 1);
        add(&around.short_ticks, ticks);
        add(&calls.summarised, 1);
    } else {
        // If calls inside it have no exits, because a `longjmp` left them, their entries tell of them.
        publish_open(slot, calls);
        summarise(slot, calls, depth, stamp);
        publish(slot, calls, word, stamp);
        calls.published.store(at as u32 - 1, Ordering::Relaxed);
    }
    calls.depth.store(at as u32 - 1, Ordering::Release);
}

/// The index of the innermost open call of the function that `word` leaves.
fn find(calls: &OpenCalls, depth: usize, word: u32) -> Option<usize> {
    let open = calls.frames.get(1..=depth)?;
    let is = |frame: &Frame| frame.word.load(Ordering::Relaxed) == word & !EXIT;
    open.iter().rposition(is).map(|at| at + 1)
}

fn depth(calls: &OpenCalls) -> usize {
    (calls.depth.load(Ordering::Relaxed) as usize).min(FRAMES - 1)
}

/// Publishes the entries of all open calls, and the summaries between them.
fn publish_open(slot: &Slot, calls: &OpenCalls) {
    let published = calls.published.load(Ordering::Relaxed) as usize;
    for at in published + 1..=depth(calls) {
        let Some(frame) = calls.frames.get(at) else {
            return;
        };
        let stamp = Stamp {
            ticks: frame.ticks.load(Ordering::Relaxed),
            cpu: frame.cpu.load(Ordering::Relaxed),
        };
        summarise(slot, calls, at - 1, stamp);
        publish(slot, calls, frame.word.load(Ordering::Relaxed), stamp);
        calls.published.store(at as u32, Ordering::Relaxed);
    }
}

/// Publishes what the call with that index has counted.
fn summarise(slot: &Slot, calls: &OpenCalls, at: usize, stamp: Stamp) {
    let Some(frame) = calls.frames.get(at) else {
        return;
    };
    let count = frame.short_calls.load(Ordering::Relaxed);
    if count > 0 {
        let ticks = frame.short_ticks.load(Ordering::Relaxed);
        if writer::summarise(slot, count, ticks, stamp) {
            calls.cpu.store(stamp.cpu, Ordering::Relaxed);
        }
        frame.short_calls.store(0, Ordering::Relaxed);
        frame.short_ticks.store(0, Ordering::Relaxed);
    }
}

fn publish(slot: &Slot, calls: &OpenCalls, word: u32, stamp: Stamp) {
    let before = calls.cpu.load(Ordering::Relaxed);
    writer::publish(slot, word, stamp, before);
    calls.cpu.store(stamp.cpu, Ordering::Relaxed);
}

/// Only the owner writes the counts, so they need no locked instruction.
fn add(count: &AtomicU64, more: u64) {
    let sum = count.load(Ordering::Relaxed).wrapping_add(more);
    count.store(sum, Ordering::Relaxed);
}

/// Called when the chunk `next` has been opened. Raises the threshold if the full ring holds less time than it
/// should and the last chunk was filled too fast. Lowers the threshold if the ring holds enough. Returns the
/// threshold, in ticks.
pub(super) fn adjust(slot: &Slot, next: u64, chunks: u64, stamp: Stamp) -> u64 {
    let keep = KEEP_TICKS.load(Ordering::Relaxed);
    if keep == 0 || next <= chunks {
        return 0;
    }
    let calls = of(slot).or_else(|| super::ring()?.open_calls_of(slot));
    adjust_for(slot, calls, keep, next, chunks, stamp)
}

/// The same with the slot's open calls, and for a ring that should hold `keep` ticks.
pub(super) fn adjust_for(
    slot: &Slot,
    calls: Option<&OpenCalls>,
    keep: u64,
    next: u64,
    chunks: u64,
    stamp: Stamp,
) -> u64 {
    let Some(calls) = calls.filter(|_| next > chunks) else {
        return 0;
    };
    let since = |number: u64| stamp.ticks.saturating_sub(opened_at(slot, number));
    let before = calls.threshold.load(Ordering::Relaxed);
    // The oldest chunk is gone by now, so all others must hold enough.
    let threshold = if since(next + 1 - chunks) >= keep {
        before - before / 2
    } else if since(next - 1) < keep / (chunks - 1).max(1) {
        before.saturating_mul(2).max(FIRST_THRESHOLD)
    } else {
        before
    };
    calls.threshold.store(threshold, Ordering::Relaxed);
    if threshold > 0 && before == 0 {
        calls.cpu.store(stamp.cpu, Ordering::Relaxed);
        let address = core::ptr::from_ref(calls).addr() as u64;
        slot.open_calls.store(address, Ordering::Relaxed);
    }
    threshold
}

/// The tick of an opened chunk's first record.
fn opened_at(slot: &Slot, number: u64) -> u64 {
    let mut head = [0; 48];
    chunk::copy(chunk::place(slot, number), 0, &mut head);
    let tick = head
        .get(CHUNK_TICK as usize..)
        .and_then(<[u8]>::first_chunk);
    tick.copied().map_or(0, u64::from_le_bytes)
}
