//! Writes a dump in a crashed process, where nothing may be allocated. [`CrashWriter`] gives, as a stream,
//! the bytes that [`DumpWriter`](super::DumpWriter) writes in version 3. It makes two passes over a
//! thread's chunks. The first pass counts, because the block's size must be known before its first byte.
//! The second pass writes. It does not look for jumps of the clock. Must never allocate, lock, panic, or
//! touch a file itself.

use super::chunk_scan::{CHUNK_HEAD, PREAMBLE, Walk, has_head};
use super::dump::{BlockSummary, First, first};
use super::payload::{self, Place, Short};
use super::record::{
    self, Action, Extent, HEADER_SIZE, Header, Layout, METADATA_SIZE, Record, When,
};
use crate::bytes::ByteOrder;
use crate::model::{Counts, Function, Identity, Sample, Switch, Ticks, TraceInfo};
use crate::moments;
use crate::ring::open_calls::OpenCalls;

pub(super) const LAYOUT: Layout = Layout {
    order: ByteOrder::Little,
    version: 3,
};

/// The receiver of the bytes. False: it could not take them, and must get no more.
pub type Out<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// The header of a file. Async-signal-safe.
#[must_use]
pub fn header(info: &TraceInfo) -> [u8; HEADER_SIZE] {
    record::encode_header(&Header {
        layout: LAYOUT,
        constant: info.clock.constant,
        nonstop: info.clock.nonstop,
        frequency: info.clock.frequency,
        buffer_size: 0,
    })
}

/// The place in the file, and the bytes, of what a whole file states about itself. They are written when all else is, so
/// that a file of a crash that was cut states nothing. Async-signal-safe.
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

/// Whom the trace is of, in the same way.
#[must_use]
pub fn identity(identity: &Identity, start: Ticks) -> Vec<u8> {
    customs(start, &mut payload::encode_identity(identity).into_iter())
}

/// A named moment, in the same way. Async-signal-safe. False: `out` refused bytes.
pub fn moment(number: u64, time: Ticks, name: &str, start: Ticks, out: &mut Out<'_>) -> bool {
    let mut moment = Short::new();
    payload::put_moment(&mut moment, number, time, name);
    custom(start.0, moment.bytes(), out)
}

/// Context switches, in the same way: they are written to `place`. Returns how many bytes of it are used. Those that
/// have no room are left out, and so a reader takes what comes later as not known. Async-signal-safe.
pub fn switches(all: &mut dyn Iterator<Item = Switch>, start: Ticks, place: &mut [u8]) -> usize {
    let mut row = |to: &mut [u8]| {
        let switch = all.next();
        switch.map(|switch| to.copy_from_slice(&payload::switch_row(&switch)))
    };
    rows(payload::SWITCHES, SWITCH_BYTES, &mut row, start, place)
}

/// Samples, in the same way. Async-signal-safe.
pub fn samples(all: &mut dyn Iterator<Item = Sample>, start: Ticks, place: &mut [u8]) -> usize {
    let mut row = |to: &mut [u8]| {
        let sample = all.next();
        sample.map(|sample| to.copy_from_slice(&payload::sample_row(&sample)))
    };
    rows(payload::SAMPLES, SAMPLE_BYTES, &mut row, start, place)
}

/// Payloads of rows of that size, for as long as there are rows and there is room.
fn rows(
    kind: u8,
    size: usize,
    next: &mut dyn FnMut(&mut [u8]) -> Option<()>,
    start: Ticks,
    place: &mut [u8],
) -> usize {
    let mut used = 0;
    loop {
        let Some(room) = place.get_mut(used + ROWS_HEAD..) else {
            return used;
        };
        let mut rows = 0;
        for row in room.chunks_exact_mut(size).take(BATCH) {
            if next(row).is_none() {
                break;
            }
            rows += 1;
        }
        if rows == 0 {
            return used;
        }
        put_head(
            kind,
            rows * size,
            rows as u32,
            start,
            place.get_mut(used..).unwrap_or(&mut []),
        );
        used += ROWS_HEAD + rows * size;
    }
}

/// The head of a payload about states, of so many bytes behind it.
fn put_head(kind: u8, bytes: usize, rows: u32, start: Ticks, place: &mut [u8]) {
    let event = Record::Custom {
        size: (SCHEDULE_HEAD + bytes) as i32,
        when: When::Absolute(start.0),
        cpu: None,
    };
    let metadata = record::encode_metadata(&event, LAYOUT);
    let words = payload::schedule_head(kind, rows);
    for (to, from) in [(0, &metadata[..]), (METADATA_SIZE, &words[..])] {
        if let Some(to) = place.get_mut(to..to + from.len()) {
            to.copy_from_slice(from);
        }
    }
}

/// The bytes of modules, as a ring has them, as one payload. Async-signal-safe.
pub fn modules(bytes: &[u8], start: Ticks, place: &mut [u8]) -> usize {
    let Some(room) = place.get_mut(ROWS_HEAD..ROWS_HEAD + bytes.len()) else {
        return 0;
    };
    if bytes.is_empty() {
        return 0;
    }
    room.copy_from_slice(bytes);
    put_head(
        payload::MODULES,
        bytes.len(),
        bytes.len() as u32,
        start,
        place,
    );
    ROWS_HEAD + bytes.len()
}

/// Bytes of a payload about states before its rows, and with the record around it.
const SCHEDULE_HEAD: usize = 16;
const ROWS_HEAD: usize = METADATA_SIZE + SCHEDULE_HEAD;
/// Bytes of a row.
const SWITCH_BYTES: usize = 16;
const SAMPLE_BYTES: usize = 24;
/// The most rows of a payload.
const BATCH: usize = 2048;

/// The most bytes that so many [`switches`] and [`samples`] together take, and [`modules`] of so many bytes.
#[must_use]
pub const fn states_bytes(count: usize, modules: usize) -> usize {
    count * SAMPLE_BYTES + (count / BATCH + 3) * ROWS_HEAD + modules
}

/// The most bytes that [`moment`] gives.
pub const MOMENT_BYTES: usize = METADATA_SIZE + 32 + moments::MOST_BYTES;

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
    /// The thread's open calls, and the tick of its first record: the calls that began before it have not ended.
    pub open: Option<(OpenCalls<'a>, u64)>,
}

impl<'a> CrashThread<'a> {
    /// The calls that began before the first record, the outermost first.
    fn early_calls(
        &self,
    ) -> impl DoubleEndedIterator<Item = (u32, u64)> + ExactSizeIterator + Clone + use<'a> {
        let none = OpenCalls::default();
        let (calls, first) = self.open.unwrap_or((none, 0));
        calls.early(first)
    }
}

/// Writes blocks behind a [`header`]. Async-signal-safe, if the caller's own iterators and sinks are.
pub struct CrashWriter<'a, T> {
    info: &'a TraceInfo,
    reason: &'a str,
    /// The result of [`functions`]; the first block takes it.
    tables: Option<T>,
}

/// What the first pass found.
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
        let all_tables = |give: &mut Give<'_, 't>| tables.clone().into_iter().flatten().all(give);
        let head = Head {
            info: self.info,
            reason: self.reason,
            tables: tables.is_some().then_some(&all_tables),
        };
        let all_chunks = |give: &mut Give<'_, 'c>| chunks.clone().all(give);
        head.block(thread, &all_chunks, room, out)
    }
}

/// Bytes of early calls before their rows.
const EARLY_CALLS_HEAD: usize = 16;

/// Hands out slices, as long as they are taken. Not generic, so the code behind it is compiled once.
type Slices<'f, 's> = dyn Fn(&mut Give<'_, 's>) -> bool + 'f;
type Give<'g, 's> = dyn FnMut(&'s [u8]) -> bool + 'g;

/// What a block says before the records.
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
        let First { wall, cpu, tsc } = first(chunk, info);
        let valid = !chunk.is_empty();
        let start = info.start.map_or(tsc, |start| start.0);
        let summary = &sizes.summary;
        let counts = summary.counted(thread.counts);
        let mut events = [Short::new(), Short::new(), Short::new(), Short::new()];
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
        let early = thread
            .early_calls()
            .take(if valid { usize::MAX } else { 0 });
        let early_bytes = EARLY_CALLS_HEAD + early.len() * payload::EARLY_CALL_BYTES;
        if early.len() > 0 {
            bytes += (METADATA_SIZE + early_bytes) as u64;
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
            taken(custom(start, event.bytes(), out))?;
        }
        if early.len() > 0 {
            let event = Record::Custom {
                size: early_bytes as i32,
                when: When::Absolute(start),
                cpu: None,
            };
            metadata(&event, out)?;
            taken(out(&payload::early_calls_head(early.len() as u32)))?;
            for (function, begin) in early {
                taken(out(&payload::early_call_row(function, begin)))?;
            }
        }
        for event in of_trace.into_iter().flatten() {
            taken(custom(start, event.bytes(), out))?;
        }
        taken(tables.is_none_or(|tables| tables(&mut |table| out(table))))
    }
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
    sizes.synthetic(walk.stack.before().len(), true);
    sizes.synthetic(walk.stack.open().len(), false);
    sizes.summary.readable = walk.records;
    walk.until(end);
    (sizes.last, sizes.end, sizes.latest) = (walk.last, walk.end, walk.latest);
    if walk.stack.open().len() > 0 && sizes.end > sizes.last {
        sizes.bytes += METADATA_SIZE as u64;
    }
    sizes
}

/// The calls that began before all chunks and have not ended are around those that the chunks have.
fn around(thread: &CrashThread<'_>, walk: &mut Walk<&mut [u32]>) {
    let calls = thread.early_calls().rev();
    walk.stack.around(calls.map(|(function, _)| function));
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
            if walk.stack.before().len() > 0 {
                // The base is this chunk's NewCPUId, which has the time of its first record.
                taken(out(chunk.get(PREAMBLE..CHUNK_HEAD)?))?;
                from = CHUNK_HEAD;
                let mut before = walk.stack.before();
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
        taken(out(chunk.get(from..end).unwrap_or(&[])))
    };
    taken(chunks(&mut |chunk| one(chunk).is_some()))?;
    if begun {
        around(thread, walk);
    }
    if walk.stack.open().len() > 0 && sizes.end > sizes.last {
        // A delta has 32 bits.
        metadata(&Record::TscWrap { tsc: sizes.end }, out)?;
    }
    synthetic(sizes.end, &mut walk.stack.open(), false, out)
}

/// Function records that were not measured, and the event that says so; nothing if there are none.
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
    let mut event = Short::new();
    payload::put_synthetic(&mut event, count);
    taken(custom(time, event.bytes(), out))?;
    let action = if entry { Action::Entry } else { Action::Exit };
    for id in ids {
        taken(out(&record::encode_function(id, action, 0, LAYOUT.order)))?;
    }
    Some(())
}

pub(super) fn custom(tsc: u64, payload: &[u8], out: &mut Out<'_>) -> bool {
    let event = Record::Custom {
        size: i32::try_from(payload.len()).unwrap_or(i32::MAX),
        when: When::Absolute(tsc),
        cpu: None,
    };
    metadata(&event, out).is_some() && out(payload)
}

pub(super) fn metadata(record: &Record, out: &mut Out<'_>) -> Option<()> {
    taken(out(&record::encode_metadata(record, LAYOUT)))
}

pub(super) fn taken(yes: bool) -> Option<()> {
    yes.then_some(())
}
