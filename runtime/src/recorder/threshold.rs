//! The threshold of a thread: how long a call must last to leave records. It begins at 0, and each edge is published at
//! once. It rises when the ring is full and holds less time than it should. Every function in this file is
//! async-signal-safe, but for those that say how much time a ring should hold.

use core::time::Duration;

use crate::clock::{Kind, Stamp};
use crate::primitive::{AtomicU64, Ordering};
use crate::ring::chunk;
use crate::ring::layout::{OpenCalls, Slot};
use crate::ring::open_calls::{BESIDE, of_slot};

/// How many ticks a ring should hold. 0 = each call leaves its records, and no thread has a threshold.
static KEEP_TICKS: AtomicU64 = AtomicU64::new(0);

/// The value of [`KEEP_TICKS`] if each call leaves its records from now on.
const NO_MORE: u64 = u64::MAX;

/// The first threshold above 0, in ticks. Calls of small functions are shorter.
const FIRST_THRESHOLD: u64 = 128;

/// The threshold rises only if the last chunk holds more than 1/SLACK less than its share of the time. Each rise is
/// large, so a few rises because of a little missing time would leave out much longer calls.
const SLACK: u64 = 8;

/// The threshold falls only if the last chunk took at least SLOW times its share of the time. Otherwise ever more
/// records would overwrite what the ring holds, until it holds too little.
const SLOW: u64 = 4;

/// A threshold is at most 1/SHARE_OF_KEEP of the time that a ring should hold. Of calls at one depth that last longer
/// than this bound, at most SHARE_OF_KEEP fit into that time: 16 KiB of records. If the ring holds too little time
/// nevertheless, notes fill it, and a higher threshold would not help.
const SHARE_OF_KEEP: u64 = 1024;

/// The upper bound of every threshold. `stub` counts only calls that are shorter, and has no code for lengths without a
/// class.
const MAX_THRESHOLD: u64 = 1 << 37;

const _: () = assert!(MAX_THRESHOLD < fdr_formats::lengths::MAX_LENGTH);

/// Offset of the tick in a chunk: in its NewCPUId.
const CHUNK_TICK: u64 = 35;

/// Tenths of a ns: what a short call adds to the self time of its caller with rdtscp, beyond what a recorded call adds
/// with `FDR_KEEP=0`. These are about 35 instructions, for which the next clock read waits. The value is 24 between two
/// calls that do nothing, and 11 beside other work (AMD Zen 5). rdtsc does not wait: there the value is anything from 0
/// to 50.
const BESIDE_TENTHS: u64 = 18;

/// Sets the time that a ring should hold. `frequency` is that of the clock, in Hz. `None` = each call leaves its
/// records. A thread notices it at its next chunk.
pub(crate) fn keep(time: Option<Duration>, kind: Kind, frequency: u64) {
    let beside = match kind {
        Kind::Tscp => (frequency.saturating_mul(BESIDE_TENTHS) + 5_000_000_000) / 10_000_000_000,
        _ => 0,
    };
    BESIDE.store(beside, Ordering::Relaxed);
    let ticks = time.map_or(0, |time| {
        time.as_nanos() * u128::from(frequency) / 1_000_000_000
    });
    let ticks = u64::try_from(ticks).unwrap_or(NO_MORE);
    KEEP_TICKS.store(ticks.min(NO_MORE - 1), Ordering::Relaxed);
}

/// Ends the effect of [`keep`]: each call leaves its records. A thread notices it at its next chunk.
pub(crate) fn keep_no_more() {
    KEEP_TICKS.store(NO_MORE, Ordering::Relaxed);
}

/// Called when the chunk `next` has been opened. Raises the threshold if the full ring holds less time than it
/// should and the last chunk was filled too fast. Lowers the threshold if the ring holds enough and the last chunk was
/// filled slowly. Returns the threshold, in ticks, if the new chunk must state it.
pub(super) fn adjust(slot: &Slot, next: u64, chunks: u64, stamp: Stamp) -> Option<u64> {
    let keep = KEEP_TICKS.load(Ordering::Relaxed);
    if keep == NO_MORE {
        return end_threshold(of_slot(slot)?);
    }
    if keep == 0 || next <= chunks {
        return None;
    }
    let calls = of_slot(slot)?;
    let before = calls.threshold.load(Ordering::Relaxed);
    let threshold = adjust_for(slot, Some(calls), keep, next, chunks, stamp);
    (threshold > 0 || before > 0).then_some(threshold)
}

/// From now on each call leaves its records again. Open calls keep their frames, so their exits find them. Later calls get
/// frames, too.
pub(super) fn end_threshold(calls: &OpenCalls) -> Option<u64> {
    let before = calls.threshold.load(Ordering::Relaxed);
    calls.threshold.store(0, Ordering::Relaxed);
    (before > 0).then_some(0)
}

/// As [`adjust`], for a ring that should hold `keep` ticks. `calls` are the open calls of the slot.
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
    let (last, share) = (since(next - 1), keep / (chunks - 1).max(1));
    // The oldest chunk is gone by now, so all others must hold enough.
    let holds_enough = since(next + 1 - chunks) >= keep;
    let most = (keep / SHARE_OF_KEEP).clamp(FIRST_THRESHOLD, MAX_THRESHOLD);
    let threshold = if !holds_enough && last < share - share / SLACK {
        // A smaller step where little is missing.
        let step = if last < share / 2 { before } else { before / 2 };
        (before + step).clamp(FIRST_THRESHOLD, most)
    } else if holds_enough && last >= share.saturating_mul(SLOW) {
        match before / 2 {
            half if half >= FIRST_THRESHOLD => half,
            _ => 0,
        }
    } else {
        before
    };
    calls.threshold.store(threshold, Ordering::Relaxed);
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
