//! Where a clock jumped ahead, found in a thread's ring chunks: each says what the time of day was at its
//! first tick, so where the ticks ran ahead of that by minutes, and a gap between two records is as
//! long, the clock jumped in it (a virtual machine that went on elsewhere). Must not take a time of
//! day that was set for a clock that jumped: without such a gap there was no jump, nor where the
//! recorder compared its clock with the system's steady one and found them to agree.

use super::dump::first;
use super::record::{FUNCTION_SIZE, METADATA_SIZE};
use super::walk::{CHUNK_HEAD, NEW_CPU, PREAMBLE, TSC_WRAP};
use crate::bytes::Groups;
use crate::model::{Clock, Ticks, TraceInfo};
use crate::scale;

/// Less than this, in ns, is no jump: a thread that opens a chunk may have to wait between the two readings.
const LEAST_NS: i128 = 60_000_000_000;

/// A jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// Which chunk.
    pub(super) chunk: usize,
    /// Byte offset in it of the record with the first tick behind the jump.
    pub(super) offset: usize,
    /// The time before it.
    pub(super) time: u64,
    /// By how many ticks.
    pub(super) ticks: u64,
}

/// A tick, and the Unix time in ns at it.
type Anchor = (u64, i128);

/// Where a thread's clock jumped.
#[derive(Debug, Default)]
pub(super) struct Jumps {
    /// Between its records, in order.
    pub(super) inside: Vec<Jump>,
    /// Between the last record and the moment of the dump: by how many ticks.
    pub(super) behind: u64,
}

/// All jumps in the chunks of a thread, of which the first `ends` bytes are good.
pub(super) fn find(chunks: &[&[u8]], ends: &[usize], info: &TraceInfo) -> Jumps {
    let good = |(nth, _): &(usize, &&[u8])| ends.get(*nth).is_some_and(|&end| end >= CHUNK_HEAD);
    let anchor = |chunk: &[u8]| {
        let head = first(chunk, info);
        let wall = i128::from(head.wall.0) * 1_000_000_000 + i128::from(head.wall.1) * 1000;
        (head.tsc, wall)
    };
    let mut jumps = Jumps::default();
    let mut rest = chunks.iter().enumerate().filter(good).peekable();
    while let Some((nth, chunk)) = rest.next() {
        let next = rest.peek().copied();
        let until = match next {
            Some((_, next)) => Some(anchor(next)),
            None => info
                .clock
                .until
                .map(|(tick, unix)| (tick.0, i128::from(unix))),
        };
        let Some(ticks) = until.and_then(|until| ahead(anchor(chunk), until, &info.clock)) else {
            continue;
        };
        let end = ends.get(nth).copied().unwrap_or(0);
        let (mut widest, last) = widest(chunk.get(..end).unwrap_or(chunk), nth);
        if let Some((nth, next)) = next {
            let gap = first(next, info).tsc.saturating_sub(last);
            if gap > widest.ticks {
                widest = Jump {
                    chunk: nth,
                    offset: PREAMBLE,
                    time: last,
                    ticks: gap,
                };
            }
        }
        let silence = info.end.filter(|_| next.is_none());
        let silence = silence.map_or(0, |end| end.0.saturating_sub(last));
        if silence > widest.ticks && silence >= ticks / 10 * 9 {
            jumps.behind = ticks.min(silence);
        } else if widest.ticks >= ticks / 10 * 9 {
            let ticks = ticks.min(widest.ticks);
            jumps.inside.push(Jump { ticks, ..widest });
        }
    }
    jumps
}

/// By how many ticks the clock ran ahead of the time of day from one anchor to another; `None` where
/// it did not by much, or where it was the time of day that was set.
fn ahead(from: Anchor, to: Anchor, clock: &Clock) -> Option<u64> {
    let ticks = Ticks(to.0.checked_sub(from.0)?);
    let wall = to.1 - from.1;
    let ahead = i128::from(clock.nanos(ticks).0) - wall;
    let agrees = clock.until.is_some() && i128::from(clock.trouble.ahead_ns) < ahead / 2;
    if ahead < LEAST_NS + wall.max(0) / 100 || agrees {
        return None;
    }
    u64::try_from(scale::ticks_in(ahead, clock.frequency)).ok()
}

/// The widest gap before an absolute tick in the chunk (no other is wide enough), and the last time.
fn widest(chunk: &[u8], nth: usize) -> (Jump, u64) {
    let words = Groups::<FUNCTION_SIZE>::new(chunk);
    let mut widest = Jump {
        chunk: nth,
        offset: PREAMBLE,
        time: 0,
        ticks: 0,
    };
    let (mut place, mut time) = (PREAMBLE / FUNCTION_SIZE, None);
    while let Some(bytes) = words.get(place) {
        let word = u64::from_le_bytes(bytes);
        if word & 1 == 0 {
            time = time.map(|time: u64| time.wrapping_add(word >> 32));
            place += 1;
            continue;
        }
        let Some(next) = words.get(place + 1) else {
            break;
        };
        let both = u128::from(u64::from_le_bytes(next)) << 64 | u128::from(word);
        let tick = match bytes[0] {
            NEW_CPU => (both >> 24) as u64,
            TSC_WRAP => (both >> 8) as u64,
            _ => break,
        };
        let before = time.unwrap_or(tick);
        if tick.saturating_sub(before) > widest.ticks {
            widest = Jump {
                chunk: nth,
                offset: place * FUNCTION_SIZE,
                time: before,
                ticks: tick - before,
            };
        }
        time = Some(tick);
        place += METADATA_SIZE / FUNCTION_SIZE;
    }
    (widest, time.unwrap_or(0))
}
