//! Reads a thread's ring chunks once before they are copied into a file. [`Walk`] finds where records of
//! these chunks are missing, and where the records end. [`Jumps`] finds the places where the clock
//! jumped ahead. [`Walk`] must never allocate where its memory does not, nor panic, because a crashed
//! process runs it.
//!
//! Each chunk has the time of day at its first tick. A jump shows in two facts: the ticks run ahead of the
//! time of day by minutes, and a gap between two records is as long. An example is a virtual machine that
//! moved to another host. A time of day that was set must never count as a jump. So without such a gap
//! there is no jump. There is none either if the recorder compared its clock with the system's steady clock
//! and both agreed.

use super::balance::{Ids, Memory, Stack};
use super::payload;
use super::record::{self, FUNCTION_SIZE, Layout, METADATA_SIZE, Record};
use crate::bytes::{ByteOrder, Groups};
use crate::calls::Exit;
use crate::model::{Clock, Ticks, TraceInfo};
use crate::scale;

/// A place in a chunk where records are missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct MissingRecords {
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entries are missing, or exits.
    pub(super) entry: bool,
}

/// A walk through a thread's chunks, one after the other. A chunk is a little-endian block as the
/// recorder leaves it: `NewBuffer`, `WallTime`, `NewCPUId`, then function records, `NewCPUId` and
/// `TSCWrap`.
#[derive(Debug, Default)]
pub(super) struct Walk<M = Vec<u32>> {
    pub(super) stack: Stack<M>,
    /// The calls that an exit leaves open inside. It is empty except for a moment.
    pub(super) closed: Ids<M>,
    /// Function records.
    pub(super) records: u64,
    /// Time of the last record.
    pub(super) last: u64,
    /// The latest time of a record: the time of the last record, if the clock did not go back.
    pub(super) latest: u64,
    /// The time at which open calls end; see [`Walk::until`].
    pub(super) end: u64,
}

/// First bytes of little-endian metadata records.
pub(super) const NEW_BUFFER: u8 = 0x01;
pub(super) const WALL_TIME: u8 = 0x09;
pub(super) const NEW_CPU: u8 = 0x05;
pub(super) const TSC_WRAP: u8 = 0x07;
const CUSTOM: u8 = 0x0b;

/// Words of a metadata record.
const METADATA_WORDS: usize = METADATA_SIZE / FUNCTION_SIZE;

/// How many words the event of the recorder has that begins at that word, with its payload. `None`: it is another
/// event, or cut.
fn words_of_event(words: &Groups<'_, FUNCTION_SIZE>, place: usize) -> Option<usize> {
    let event = u64::from_le_bytes(words.get(place)?);
    let size = (event >> 8) as u32 as usize;
    let is_ours = payload::is_of_ring(words.get(place + METADATA_WORDS)?, size);
    let length = METADATA_WORDS + size / FUNCTION_SIZE;
    (is_ours && words.get(place + length - 1).is_some()).then_some(length)
}

/// Bytes of `NewBuffer` and `WallTime`, which stand in front of a chunk's `NewCPUId`.
pub(super) const PREAMBLE: usize = 2 * METADATA_SIZE;
/// Bytes up to a chunk's first record.
pub(super) const CHUNK_HEAD: usize = 3 * METADATA_SIZE;

/// The layout of the records in chunks.
pub(super) const RING: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

/// The facts of a chunk about its first record.
pub(super) struct ChunkStart {
    /// Unix time in seconds, and microseconds.
    pub(super) wall: (u64, u32),
    pub(super) cpu: u16,
    pub(super) tsc: u64,
}

/// The first record of `chunk`. If it has no valid head, the start of the trace.
#[inline(never)]
pub(super) fn first(chunk: &[u8], info: &TraceInfo) -> ChunkStart {
    let record = |from: usize| record::decode(chunk.get(from..).unwrap_or(&[]), RING);
    let wall = match record(PREAMBLE / 2) {
        Ok(Record::WallTime { seconds, micros }) => (seconds, micros),
        _ => wall_time(&info.clock, info.start.unwrap_or_default().0),
    };
    let (cpu, tsc) = match record(PREAMBLE) {
        Ok(Record::NewCpu { cpu, tsc }) => (cpu, tsc),
        _ => (0, 0),
    };
    ChunkStart { wall, cpu, tsc }
}

/// Wall-clock time of a tick by the clock's anchor, in seconds and microseconds; zero without one.
#[inline(never)]
pub(super) fn wall_time(clock: &Clock, tick: u64) -> (u64, u32) {
    let micros = clock.unix_nanos(Ticks(tick)).unwrap_or(0) / 1000;
    (micros / 1_000_000, (micros % 1_000_000) as u32)
}

impl<M: Memory> Walk<M> {
    pub(super) fn new(open: M, before: M, closed: M) -> Walk<M> {
        Walk {
            stack: Stack::new(open, before),
            closed: Ids::new(closed),
            records: 0,
            last: 0,
            latest: 0,
            end: 0,
        }
    }

    /// All chunks have been read. Calls that are still open last until `end`, or until the last record
    /// if it is later.
    pub(super) fn until(&mut self, end: Option<Ticks>) {
        self.end = end.map_or(self.last, |end| end.0.max(self.last));
        if self.stack.open().len() > 0 {
            self.latest = self.latest.max(self.end);
        }
    }

    /// Begins anew, at the first chunk.
    pub(super) fn restart(&mut self) {
        self.stack.restart();
        self.last = 0;
    }

    /// Goes through one chunk. Returns where its valid bytes end: 0 for a chunk without a valid head.
    /// `repair` gets the missing records, in order. If `repair` says false, the walk ends and returns
    /// `None`.
    pub(super) fn chunk(
        &mut self,
        chunk: &[u8],
        repair: &mut dyn FnMut(MissingRecords, &[u32]) -> bool,
    ) -> Option<usize> {
        if !has_head(chunk) {
            return Some(0);
        }
        let words = Groups::<FUNCTION_SIZE>::new(chunk);
        let (mut place, mut time) = (PREAMBLE / FUNCTION_SIZE, self.last);
        loop {
            let followed = self.stack.take_ordinary(words.behind(place));
            place += followed.words;
            self.records += followed.words as u64;
            time = time.wrapping_add(followed.ticks);
            let Some(bytes) = words.get(place) else {
                break;
            };
            let word = u64::from_le_bytes(bytes);
            if word & 1 == 0 {
                let (id, action) = (word as u32 >> 4, (word >> 1) & 7);
                // Id 0 is no function, so this place was never written.
                if id == 0 || action > 2 {
                    break;
                }
                if action == 0 {
                    self.stack.enter(id);
                } else {
                    let exit = self.stack.exit(id, &mut self.closed);
                    if matches!(exit, Exit::Outer(_) | Exit::Lone)
                        && !self.missing(exit, id, (place * FUNCTION_SIZE, time), repair)
                    {
                        return None;
                    }
                }
                time = time.wrapping_add(word >> 32);
                self.records += 1;
                place += 1;
            } else {
                let Some(next) = words.get(place + 1) else {
                    break;
                };
                self.latest = self.latest.max(time);
                let both = u128::from(u64::from_le_bytes(next)) << 64 | u128::from(word);
                time = match bytes[0] {
                    NEW_CPU => (both >> 24) as u64,
                    TSC_WRAP => (both >> 8) as u64,
                    CUSTOM => match words_of_event(&words, place) {
                        Some(length) => {
                            place += length;
                            continue;
                        }
                        None => break,
                    },
                    _ => break,
                };
                place += METADATA_WORDS;
            }
        }
        self.last = time;
        self.latest = self.latest.max(time);
        Some(place * FUNCTION_SIZE)
    }

    #[cold]
    fn missing(
        &mut self,
        exit: Exit,
        id: u32,
        (offset, time): (usize, u64),
        repair: &mut dyn FnMut(MissingRecords, &[u32]) -> bool,
    ) -> bool {
        let entry = exit == Exit::Lone;
        if entry {
            self.closed.push(id);
        }
        let place = MissingRecords {
            offset,
            time,
            entry,
        };
        let went_on = repair(place, self.closed.all());
        self.closed.truncate(0);
        went_on
    }
}

/// The latest time of a record in a chunk; `None` if it has no head.
pub(crate) fn latest(chunk: &[u8]) -> Option<Ticks> {
    let mut walk = <Walk>::default();
    let end = walk.chunk(chunk, &mut |_, _| true)?;
    (end > 0).then_some(Ticks(walk.latest))
}

/// Whether a chunk begins with a valid head.
pub(super) fn has_head(chunk: &[u8]) -> bool {
    let head = chunk.first_chunk::<CHUNK_HEAD>();
    head.is_some_and(|head| {
        head[0] == NEW_BUFFER && head[METADATA_SIZE] == WALL_TIME && head[PREAMBLE] == NEW_CPU
    })
}

/// Synthetic records that go into the middle of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repair {
    /// Which chunk.
    pub(super) chunk: usize,
    /// Byte offset in the chunk, in front of the exit.
    pub(super) offset: usize,
    /// The running time there.
    pub(super) time: u64,
    /// Entry or exit.
    pub(super) entry: bool,
    /// The beginning of its functions in [`Scan::repaired`].
    pub(super) first: usize,
    /// How many records.
    pub(super) count: usize,
    /// Instead of records: the number of ticks by which the clock jumps ahead here.
    pub(super) jump: u64,
}

/// The result of one pass over a thread's ring chunks.
#[derive(Debug, Default)]
pub(super) struct Scan {
    pub(super) walk: Walk,
    pub(super) repairs: Vec<Repair>,
    pub(super) repaired: Vec<u32>,
    /// For each chunk, the end of its valid bytes; 0 for a chunk without a valid head.
    pub(super) ends: Vec<usize>,
    /// Bytes that are no records of a ring chunk.
    pub(super) discarded: u64,
}

impl Scan {
    /// `gaps`: the number of records that are missing before each chunk except the first.
    pub(super) fn new(chunks: &[&[u8]], gaps: &[u64]) -> Scan {
        let mut scan = Scan::default();
        for (at, chunk) in chunks.iter().enumerate() {
            if at > 0 && gaps.get(at).is_some_and(|&lost| lost > 0) {
                scan.walk.stack.gap();
            }
            let end = scan.walk.chunk(chunk, &mut |place, ids| {
                scan.repairs.push(Repair {
                    chunk: at,
                    offset: place.offset,
                    time: place.time,
                    entry: place.entry,
                    first: scan.repaired.len(),
                    count: ids.len(),
                    jump: 0,
                });
                scan.repaired.extend_from_slice(ids);
                true
            });
            let end = end.unwrap_or(0);
            scan.ends.push(end);
            scan.discarded += (chunk.len() - end) as u64;
        }
        scan
    }

    /// Adds the places where the clock jumped.
    pub(super) fn jumps(&mut self, jumps: &[Jump]) {
        if jumps.is_empty() {
            return;
        }
        let mut later = jumps.iter().map(|jump| Repair {
            chunk: jump.chunk,
            offset: jump.offset,
            time: jump.time,
            entry: false,
            first: 0,
            count: 0,
            jump: jump.ticks,
        });
        // Both lists are in the order of their places. At one place, the jump is the second.
        let place = |repair: &Repair| (repair.chunk, repair.offset);
        let mut merged = Vec::with_capacity(self.repairs.len() + jumps.len());
        let mut jump = later.next();
        for repair in self.repairs.drain(..) {
            while let Some(earlier) = jump.take_if(|jump| place(jump) < place(&repair)) {
                merged.push(earlier);
                jump = later.next();
            }
            merged.push(repair);
        }
        merged.extend(jump);
        merged.extend(later);
        debug_assert!(merged.is_sorted_by_key(place), "each list is in order");
        self.repairs = merged;
    }
}

/// A step of fewer ns is no jump, because a thread that opens a chunk may have to wait between the two
/// readings.
const MIN_NS: i128 = 60_000_000_000;

/// A jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Jump {
    /// Which chunk.
    pub(super) chunk: usize,
    /// Byte offset in the chunk of the record with the first tick behind the jump.
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
    /// A jump between the last record and the moment of the dump, in ticks.
    pub(super) behind: u64,
}

/// All jumps in the chunks of a thread. The first `ends` bytes of each chunk are valid.
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

/// The number of ticks by which the clock ran ahead of the time of day, from one anchor to another.
/// `None`: the number is small, or the time of day was set.
fn ahead(from: Anchor, to: Anchor, clock: &Clock) -> Option<u64> {
    let ticks = Ticks(to.0.checked_sub(from.0)?);
    let wall = to.1 - from.1;
    let ahead = i128::from(clock.nanos(ticks).0) - wall;
    let agrees = clock.until.is_some() && i128::from(clock.faults.ahead_ns) < ahead / 2;
    if ahead < MIN_NS + wall.max(0) / 100 || agrees {
        return None;
    }
    u64::try_from(scale::ticks_in(ahead, clock.frequency)).ok()
}

/// The widest gap before an absolute tick in the chunk, and the last time. No other gap is wide enough.
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
            CUSTOM => match words_of_event(&words, place) {
                Some(length) => {
                    place += length;
                    continue;
                }
                None => break,
            },
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
        place += METADATA_WORDS;
    }
    (widest, time.unwrap_or(0))
}
