//! Writes a dump in a crashed process, where nothing may be allocated. [`CrashWriter`] gives, as a stream,
//! the bytes that [`DumpWriter`](super::DumpWriter) writes in version 3. It makes two passes over a
//! thread's chunks. The first pass counts, because the block's size must be known before its first byte.
//! The second pass writes. It does not look for jumps of the clock. Must never allocate, lock, panic, or
//! touch a file itself.

use super::chunk_scan::{CHUNK_HEAD, ChunkStart, PREAMBLE, RING, Walk, first, has_head};
use super::dump::BlockSummary;
use super::payload::{self, PayloadBuffer, ShortPayload};
use super::record::{self, Action, Extent, HEADER_SIZE, Header, METADATA_SIZE, Record, RecordTime};
use crate::model::{Counts, EarlyCall, Function, Identity, Ticks, TraceInfo};
use crate::moments;

pub use super::crash_states::{modules, samples, states_bytes, switches};

/// The receiver of the bytes. False: it could not take them, and must get no more.
pub type Out<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// The header of a file. Async-signal-safe.
#[must_use]
pub fn header(info: &TraceInfo) -> [u8; HEADER_SIZE] {
    record::encode_header(&Header {
        layout: RING,
        constant: info.clock.constant,
        nonstop: info.clock.nonstop,
        frequency: info.clock.frequency,
        buffer_size: 0,
    })
}

/// The extent of the whole file, which the file states about itself: its place and its bytes. It is
/// written last, so that a file that a crash cut short states no extent. Async-signal-safe.
#[must_use]
pub fn extent(bytes: u64, threads: u64) -> (u64, [u8; 16]) {
    (record::EXTENT_AT, Extent { bytes, threads }.encode())
}

/// Names of functions, ready to be written with the first block of a file that begins at `start`.
/// Allocates, so it must be called beforehand.
#[must_use]
pub fn functions(functions: &[Function], start: Ticks) -> Vec<u8> {
    customs(start, &mut payload::encode_functions(functions))
}

/// The identity of the trace, in the same form.
#[must_use]
pub fn identity(identity: &Identity, start: Ticks) -> Vec<u8> {
    customs(start, &mut payload::encode_identity(identity).into_iter())
}

/// A named moment, in the same form. Async-signal-safe. False: `out` refused bytes.
pub fn moment(number: u64, time: Ticks, name: &str, start: Ticks, out: &mut Out<'_>) -> bool {
    let mut moment = ShortPayload::new();
    payload::put_moment(&mut moment, number, time, name);
    custom(start.0, moment.bytes(), out)
}

/// The most bytes that [`moment`] gives.
pub const MOMENT_BYTES: usize = METADATA_SIZE + 32 + moments::MAX_BYTES;

#[inline(never)]
fn customs(start: Ticks, payloads: &mut dyn Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for payload in payloads {
        custom(start.0, &payload, &mut |part| {
            bytes.extend_from_slice(part);
            true
        });
    }
    bytes
}

/// Memory for the open calls of a thread during the pass over its chunks.
pub struct Room<'a> {
    lists: [&'a mut [u32]; 3],
}

impl<'a> Room<'a> {
    /// The numbers that this memory needs for chunks of `bytes` bytes. Any content of the chunks fits.
    #[must_use]
    pub const fn size(bytes: usize) -> usize {
        bytes.div_ceil(8) * 3
    }

    /// The memory that the caller gives, with [`Room::size`] numbers.
    #[must_use]
    pub fn new(memory: &'a mut [u32]) -> Room<'a> {
        let third = memory.len() / 3;
        let (first, rest) = memory.split_at_mut(third);
        let (second, rest) = rest.split_at_mut(third);
        Room {
            lists: [first, second, rest],
        }
    }
}

/// A thread, as its block says.
#[derive(Clone, Copy, Debug)]
pub struct CrashThread<'a> {
    /// As the kernel counts.
    pub id: u32,
    /// Its name.
    pub name: &'a str,
    /// The thread's counts. `readable` and the counts of synthetic records are found here.
    pub counts: Counts,
    /// The thread has ended. Its calls last until its last record, and not until the end in the file's
    /// `info.end`.
    pub ended: bool,
    /// The calls that began before its first record and have not ended, the outermost first.
    pub early_calls: &'a [EarlyCall],
}

/// Writes blocks behind a [`header`]. Async-signal-safe, if the caller's own iterators and sinks are.
pub struct CrashWriter<'a, T> {
    info: &'a TraceInfo,
    reason: &'a str,
    /// The result of [`functions`]; the first block takes it.
    tables: Option<T>,
}

/// The result of the first pass.
#[derive(Clone, Copy, Default)]
struct Sizes {
    summary: BlockSummary,
    /// Bytes of records and of synthetic ones.
    bytes: u64,
    last: u64,
    end: u64,
    latest: u64,
}

impl Sizes {
    fn synthetic(&mut self, count: usize, entry: bool) {
        if count == 0 {
            return;
        }
        self.bytes += 2 * METADATA_SIZE as u64 + 8 * count as u64;
        if entry {
            self.summary.synthetic_entries += count as u64;
        } else {
            self.summary.synthetic_exits += count as u64;
        }
    }
}

impl<'a, 't, T: Iterator<Item = &'t [u8]> + Clone> CrashWriter<'a, T> {
    /// A writer of a file about `info`, without its reason and its functions. Texts of more than 200
    /// bytes are cut.
    pub fn new(info: &'a TraceInfo, reason: &'a str, tables: T) -> Self {
        CrashWriter {
            info,
            reason,
            tables: Some(tables),
        }
    }

    /// Writes one thread's block. `chunks` are as for [`DumpWriter::thread`](super::DumpWriter::thread).
    /// `None`: `out` refused bytes, or `room` is too small and nothing was written.
    pub fn thread<'c>(
        &mut self,
        thread: &CrashThread<'_>,
        chunks: impl Iterator<Item = &'c [u8]> + Clone,
        room: &mut Room<'_>,
        out: &mut Out<'_>,
    ) -> Option<BlockSummary> {
        let tables = self.tables.take();
        let all_tables =
            |give: &mut BlockCallback<'_, 't>| give_all(tables.clone().into_iter().flatten(), give);
        let head = Head {
            info: self.info,
            reason: self.reason,
            tables: tables.is_some().then_some(&all_tables),
        };
        let all_chunks = |give: &mut BlockCallback<'_, 'c>| give_all(chunks.clone(), give);
        head.block(thread, &all_chunks, room, out)
    }
}

/// Bytes of early calls before their rows.
const EARLY_CALLS_HEAD: usize = 16;

/// Hands out slices, as long as they are taken. Not generic, so the code behind it is compiled once.
type Slices<'f, 's> = dyn Fn(&mut BlockCallback<'_, 's>) -> bool + 'f;
type BlockCallback<'g, 's> = dyn FnMut(&'s [u8]) -> bool + 'g;

// Out of line, because each use of a closure has its code again.
#[inline(never)]
fn give_all<'s>(
    mut slices: impl Iterator<Item = &'s [u8]>,
    give: &mut BlockCallback<'_, 's>,
) -> bool {
    slices.all(give)
}

/// The head of a block: everything before the records.
struct Head<'a, 't> {
    info: &'a TraceInfo,
    reason: &'a str,
    /// In the first block.
    tables: Option<&'a Slices<'a, 't>>,
}

impl Head<'_, '_> {
    fn block(
        &self,
        thread: &CrashThread<'_>,
        chunks: &Slices<'_, '_>,
        room: &mut Room<'_>,
        out: &mut Out<'_>,
    ) -> Option<BlockSummary> {
        let mut bytes = 0;
        chunks(&mut |chunk| {
            bytes += chunk.len();
            true
        });
        let least = Room::size(bytes) / 3;
        if room.lists.iter().any(|list| list.len() < least) {
            return None;
        }
        let mut walk = walk_in(room);
        let mut valid = None;
        let end = self.info.end.filter(|_| !thread.ended);
        let sizes = measure(thread, chunks, &mut walk, &mut valid, end);
        self.write(thread, valid.unwrap_or_default(), &sizes, out)?;
        body(thread, chunks, &mut walk, self.info, &sizes, out)?;
        Some(sizes.summary)
    }

    fn write(
        &self,
        thread: &CrashThread<'_>,
        chunk: &[u8],
        sizes: &Sizes,
        out: &mut Out<'_>,
    ) -> Option<()> {
        let Head {
            info,
            reason,
            tables,
        } = *self;
        let ChunkStart { wall, cpu, tsc } = first(chunk, info);
        let valid = !chunk.is_empty();
        let start = info.start.map_or(tsc, |start| start.0);
        let summary = &sizes.summary;
        let counts = summary.thread_counts(thread.counts);
        let mut events = [
            ShortPayload::new(),
            ShortPayload::new(),
            ShortPayload::new(),
            ShortPayload::new(),
        ];
        let [of_thread, balance, about_process, about_clock] = &mut events;
        let latest = valid.then_some(Ticks(sizes.latest));
        payload::put_thread(of_thread, thread.name, Some(counts), latest);
        payload::put_balance(balance, summary.synthetic_entries, summary.synthetic_exits);
        payload::put_process(about_process, info, reason);
        payload::put_clock(about_clock, &info.clock);
        // The events about process and clock are in the block with the tables.
        let events = &events[..if tables.is_some() { 4 } else { 2 }];
        let process = info.process.map(|process| process as u32);

        let heads = METADATA_SIZE * (3 + usize::from(process.is_some()));
        let mut bytes = heads as u64 + sizes.bytes;
        for event in events {
            bytes += (METADATA_SIZE + event.bytes().len()) as u64;
        }
        let early = match valid {
            true => thread.early_calls,
            false => &[],
        };
        if !early.is_empty() {
            bytes += (METADATA_SIZE + early_calls_size(early)) as u64;
        }
        if let Some(tables) = tables {
            tables(&mut |table| {
                bytes += table.len() as u64;
                true
            });
        }

        metadata(&Record::BufferExtents { bytes }, out)?;
        metadata(&Record::NewBuffer { thread: thread.id }, out)?;
        let (seconds, micros) = wall;
        metadata(&Record::WallTime { seconds, micros }, out)?;
        if let Some(process) = process {
            metadata(&Record::Pid { process }, out)?;
        }
        metadata(&Record::NewCpu { cpu, tsc: start }, out)?;
        let [of_block, of_trace] = [events.get(..2), events.get(2..)];
        for event in of_block.into_iter().flatten() {
            accepted(custom(start, event.bytes(), out))?;
        }
        if !early.is_empty() {
            write_early_calls(early, start, out)?;
        }
        for event in of_trace.into_iter().flatten() {
            accepted(custom(start, event.bytes(), out))?;
        }
        accepted(tables.is_none_or(|tables| tables(&mut |table| out(table))))
    }
}

/// The bytes of the event's payload.
fn early_calls_size(calls: &[EarlyCall]) -> usize {
    EARLY_CALLS_HEAD + calls.len() * payload::EARLY_CALL_BYTES
}

fn write_early_calls(calls: &[EarlyCall], start: u64, out: &mut Out<'_>) -> Option<()> {
    let event = Record::Custom {
        size: early_calls_size(calls) as i32,
        when: RecordTime::Absolute(start),
        cpu: None,
    };
    metadata(&event, out)?;
    accepted(out(&payload::early_calls_head(calls.len() as u32)))?;
    for call in calls {
        accepted(out(&payload::early_call_row(call)))?;
    }
    Some(())
}

fn walk_in<'w>(room: &'w mut Room<'_>) -> Walk<&'w mut [u32]> {
    let [open, before, closed] = &mut room.lists;
    Walk::new(open, before, closed)
}

/// The first pass: the content of these chunks' block. `valid` becomes the first chunk with a head.
fn measure<'c>(
    thread: &CrashThread<'_>,
    chunks: &Slices<'_, 'c>,
    walk: &mut Walk<&mut [u32]>,
    valid: &mut Option<&'c [u8]>,
    end: Option<Ticks>,
) -> Sizes {
    let mut sizes = Sizes::default();
    chunks(&mut |chunk| {
        let end = walk.chunk(chunk, &mut |place, ids| {
            sizes.synthetic(ids.len(), place.entry);
            true
        });
        let end = end.unwrap_or(0);
        if end > 0 {
            valid.get_or_insert(chunk);
        }
        sizes.bytes += end.saturating_sub(PREAMBLE) as u64;
        sizes.summary.discarded_bytes += chunk.len().saturating_sub(end) as u64;
        true
    });
    if valid.is_some() {
        around(thread, walk);
    }
    sizes.synthetic(walk.stack.open_before().len(), true);
    sizes.synthetic(walk.stack.open().len(), false);
    sizes.summary.readable = walk.records;
    walk.until(end);
    (sizes.last, sizes.end, sizes.latest) = (walk.last, walk.end, walk.latest);
    if walk.stack.open().len() > 0 && sizes.end > sizes.last {
        sizes.bytes += METADATA_SIZE as u64;
    }
    sizes
}

/// Puts the calls that began before all chunks and have not ended around the calls of the chunks.
fn around(thread: &CrashThread<'_>, walk: &mut Walk<&mut [u32]>) {
    let calls = thread.early_calls.iter().rev();
    walk.stack.push_around(calls.map(|call| call.function.0));
}

/// The second pass: the chunks' records, with the missing ones between them.
fn body(
    thread: &CrashThread<'_>,
    chunks: &Slices<'_, '_>,
    walk: &mut Walk<&mut [u32]>,
    info: &TraceInfo,
    sizes: &Sizes,
    out: &mut Out<'_>,
) -> Option<()> {
    let mut begun = false;
    let mut one = |chunk: &[u8]| {
        let mut from = PREAMBLE;
        if !begun && has_head(chunk) {
            begun = true;
            if walk.stack.open_before().len() > 0 {
                // The base is this chunk's NewCPUId, which has the time of its first record.
                accepted(out(chunk.get(PREAMBLE..CHUNK_HEAD)?))?;
                from = CHUNK_HEAD;
                let mut before = walk.stack.open_before();
                synthetic(first(chunk, info).tsc, &mut before, true, out)?;
            }
            walk.restart();
        }
        let end = walk.chunk(chunk, &mut |place, ids| {
            let whole = out(chunk.get(from..place.offset).unwrap_or(&[]));
            from = place.offset;
            let mut ids = ids.iter().copied();
            whole && synthetic(place.time, &mut ids, place.entry, out).is_some()
        })?;
        accepted(out(chunk.get(from..end).unwrap_or(&[])))
    };
    accepted(chunks(&mut |chunk| one(chunk).is_some()))?;
    if begun {
        around(thread, walk);
    }
    if walk.stack.open().len() > 0 && sizes.end > sizes.last {
        // A delta has 32 bits.
        metadata(&Record::TscWrap { tsc: sizes.end }, out)?;
    }
    synthetic(sizes.end, &mut walk.stack.open(), false, out)
}

/// Function records that were not measured, and the event that marks them. Nothing if there are no such
/// records.
#[inline(never)]
fn synthetic(
    time: u64,
    ids: &mut dyn ExactSizeIterator<Item = u32>,
    entry: bool,
    out: &mut Out<'_>,
) -> Option<()> {
    if ids.len() == 0 {
        return Some(());
    }
    let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
    let mut event = ShortPayload::new();
    payload::put_synthetic(&mut event, count);
    accepted(custom(time, event.bytes(), out))?;
    let action = if entry { Action::Entry } else { Action::Exit };
    for id in ids {
        accepted(out(&record::encode_function(id, action, 0, RING.order)))?;
    }
    Some(())
}

#[inline(never)]
pub(super) fn custom(tsc: u64, payload: &[u8], out: &mut Out<'_>) -> bool {
    let event = Record::Custom {
        size: i32::try_from(payload.len()).unwrap_or(i32::MAX),
        when: RecordTime::Absolute(tsc),
        cpu: None,
    };
    metadata(&event, out).is_some() && out(payload)
}

#[inline(never)]
pub(super) fn metadata(record: &Record, out: &mut Out<'_>) -> Option<()> {
    accepted(out(&record::encode_metadata(record, RING)))
}

pub(super) fn accepted(yes: bool) -> Option<()> {
    yes.then_some(())
}
