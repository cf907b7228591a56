//! Decodes ring chunks, or parts of them, to events. With it the recorder reads its own rings while they are written. A
//! chunk is a little-endian block without the additions of files: `NewBuffer`, `WallTime`, `NewCPUId`, then function
//! records, `NewCPUId`, `TSCWrap`, `CallArgument`. The decoder keeps time and CPU between two parts.
//!
//! [`push_thread`] pushes a thread's chunks into any sink. The sink gets the events that a reader would
//! give of [`DumpWriter`](super::DumpWriter)'s file of the same chunks. So a dump can be written in any
//! format.

use super::chunk_scan::{self, CHUNK_HEAD, PREAMBLE, RING, Scan};
use super::dump::{self, BlockSummary};
use super::payload::{self, Payload};
use super::record::{self, Action, Bad, FUNCTION_SIZE, METADATA_SIZE, Record, RecordTime};
use super::time::{Running, Turn};
use crate::bytes::groups;
use crate::model::{Call, Counts, CpuId, Edge, FunctionId, Mark, Thread, Ticks, TraceInfo};
use crate::packed::EDGES;
use crate::sink::Sink;

/// Calls handed over at once. They are on the stack of the thread that asks for a dump.
const BATCH: usize = 128;

/// Decodes one thread's chunks, in order, in parts of whole records.
#[derive(Clone, Debug, Default)]
pub struct ChunkDecoder {
    time: Running,
    cpu: Option<CpuId>,
    unknown: u64,
}

impl ChunkDecoder {
    /// For a thread of which nothing was read yet.
    #[must_use]
    pub fn new() -> ChunkDecoder {
        ChunkDecoder::default()
    }

    /// The time of the last record in ticks, and its CPU. `None` before the first record that states
    /// them.
    #[must_use]
    pub fn place(&self) -> (Ticks, Option<CpuId>) {
        (Ticks(self.time.now().unwrap_or(0)), self.cpu)
    }

    /// Bytes so far that were no records of a ring chunk.
    #[must_use]
    pub fn unknown_bytes(&self) -> u64 {
        self.unknown
    }

    /// The trace begins at that tick.
    pub(super) fn begin(&mut self, tick: u64) {
        self.time.set(tick);
    }

    /// The clock is set to that tick.
    pub(super) fn set(&mut self, tick: u64, sink: &mut dyn Sink) {
        self.set_time(tick, &mut Batch::new(sink));
    }

    /// The clock jumped ahead by this many ticks.
    pub(super) fn jump(&mut self, ticks: u64, sink: &mut dyn Sink) {
        let time = Ticks(self.time.now().unwrap_or_default());
        sink.mark(&Mark::Break { time });
        self.time.jumped(ticks);
    }

    /// Calls of these functions at the time of the last record. They were not measured.
    pub(super) fn synthetic(
        &self,
        ids: impl Iterator<Item = u32>,
        edge: Edge,
        sink: &mut dyn Sink,
    ) {
        let mut batch = Batch::new(sink);
        for id in ids {
            batch.push(Call {
                time: Ticks(self.time.now().unwrap_or(0)),
                function: FunctionId(id),
                edge,
                synthetic: true,
                has_arguments: false,
            });
        }
        batch.settle();
    }

    /// Pushes the events of `bytes` into the sink. Returns the number of function records in them. A CPU
    /// that stays the same gives no event. The sink knows already which thread it is.
    pub fn decode(&mut self, bytes: &[u8], sink: &mut dyn Sink) -> u64 {
        let mut batch = Batch::new(sink);
        let (mut at, mut records) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let used = self.functions(rest, &mut batch);
            records += (used / FUNCTION_SIZE) as u64;
            at += used;
            if used == 0 {
                at += self.other(rest, &mut batch);
            }
        }
        batch.settle();
        records
    }

    /// The inner loop: function records up to any other record.
    fn functions(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> usize {
        let (mut used, mut time) = (0, self.time.now().unwrap_or(0));
        for bytes in groups::<FUNCTION_SIZE>(bytes) {
            let word = record::function_word::<false>(bytes);
            // Bit 0 shows a metadata record, bit 3 an action that does not exist.
            if word & 0b1001 != 0 {
                break;
            }
            time = time.wrapping_add(word >> 32);
            let action = (word >> 1) as usize & 3;
            batch.push(Call {
                time: Ticks(time),
                function: FunctionId(word as u32 >> 4),
                edge: EDGES[action],
                synthetic: false,
                has_arguments: action == Action::EntryArgs as usize,
            });
            used += FUNCTION_SIZE;
        }
        self.time.advance(time);
        used
    }

    /// Any other record; returns its size.
    fn other(&mut self, bytes: &[u8], batch: &mut Batch<'_>) -> usize {
        match record::decode(bytes, RING) {
            Ok(Record::NewCpu { cpu, tsc }) => {
                let (time, cpu) = (self.set_time(tsc, batch), CpuId(cpu.into()));
                if self.cpu.replace(cpu) != Some(cpu) {
                    batch.mark(&Mark::Cpu { time, cpu });
                }
                METADATA_SIZE
            }
            Ok(Record::TscWrap { tsc }) => {
                self.set_time(tsc, batch);
                METADATA_SIZE
            }
            Ok(Record::CallArgument { value }) => {
                batch.mark(&Mark::Argument { value });
                METADATA_SIZE
            }
            Ok(Record::Custom {
                size,
                when: RecordTime::Absolute(tsc),
                ..
            }) => self.event(bytes, (size, tsc), batch),
            // The reader of a ring knows the chunk's thread and time better.
            Ok(Record::NewBuffer { .. } | Record::WallTime { .. }) => METADATA_SIZE,
            Ok(_) | Err(Bad::Kind(_)) => self.skip(METADATA_SIZE),
            Err(Bad::Action(_)) => self.skip(FUNCTION_SIZE),
            Err(Bad::Short) => self.skip(bytes.len()),
        }
    }

    /// An event of the recorder; returns its size.
    fn event(&mut self, bytes: &[u8], (size, tsc): (i32, u64), batch: &mut Batch<'_>) -> usize {
        let size = usize::try_from(size).unwrap_or(0);
        let whole = METADATA_SIZE.saturating_add(size);
        let Some(data) = bytes.get(METADATA_SIZE..whole) else {
            return self.skip(bytes.len());
        };
        match payload::short_calls(data) {
            Some(Payload::ShortCalls { calls, ticks }) => {
                let time = Ticks(self.time.time_of(tsc));
                batch.mark(&Mark::ShortCalls { time, calls, ticks });
            }
            Some(Payload::Threshold { ticks }) => batch.mark(&Mark::Threshold { ticks }),
            _ => {
                let Some((kind, body)) = payload::note_of_ring(data) else {
                    return self.skip(whole);
                };
                let time = Ticks(self.time.time_of(tsc));
                batch.mark(&Mark::Note { time, kind, body });
            }
        }
        whole
    }

    fn set_time(&mut self, tick: u64, batch: &mut Batch<'_>) -> Ticks {
        let before = self.time.now().unwrap_or(tick);
        if self.time.set(tick) == Turn::Break {
            let time = Ticks(before);
            batch.mark(&Mark::Break { time });
        }
        Ticks(self.time.now().unwrap_or(tick))
    }

    fn skip(&mut self, bytes: usize) -> usize {
        self.unknown += bytes as u64;
        bytes
    }
}

/// Calls that wait to be handed over.
struct Batch<'a> {
    calls: [Call; BATCH],
    filled: usize,
    sink: &'a mut dyn Sink,
}

impl<'a> Batch<'a> {
    fn new(sink: &'a mut dyn Sink) -> Batch<'a> {
        Batch {
            calls: [Call::NONE; BATCH],
            filled: 0,
            sink,
        }
    }

    #[inline]
    fn push(&mut self, call: Call) {
        if self.filled == BATCH {
            self.settle();
        }
        self.calls[self.filled] = call;
        self.filled += 1;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.settle();
        self.sink.mark(mark);
    }

    fn settle(&mut self) {
        let calls = self.calls.get(..self.filled).unwrap_or(&[]);
        if !calls.is_empty() {
            self.sink.calls(calls);
        }
        self.filled = 0;
    }
}

/// Pushes one thread into the sink. The arguments are those of
/// [`DumpWriter::thread_with_gaps`](super::DumpWriter::thread_with_gaps). Not async-signal-safe.
///
/// # Examples
/// ```
/// use fdr_formats::{Call, Sink, Thread, TraceInfo, xray};
///
/// struct Count(usize);
///
/// impl Sink for Count {
///     fn calls(&mut self, calls: &[Call]) {
///         self.0 += calls.len();
///     }
/// }
///
/// let (info, thread) = (TraceInfo::default(), Thread::default());
/// let mut count = Count(0);
/// let summary = xray::push_thread(&info, &thread, &[], &[], false, &mut count);
/// assert_eq!((summary.readable, count.0), (0, 0));
/// ```
pub fn push_thread(
    info: &TraceInfo,
    thread: &Thread,
    chunks: &[&[u8]],
    gaps: &[u64],
    ended: bool,
    sink: &mut dyn Sink,
) -> BlockSummary {
    let (scan, summary) = dump::look(info, thread, chunks, gaps, ended);
    sink.thread(&Thread {
        process: thread.process.or(info.process),
        counts: thread.counts.map(|counts| Counts {
            synthetic_entries: summary.synthetic_entries,
            synthetic_exits: summary.synthetic_exits,
            ..summary.thread_counts(counts)
        }),
        ..thread.clone()
    });
    let first = chunk_scan::first(dump::valid(chunks, &scan).unwrap_or(&[]), info);
    let (seconds, micros) = first.wall;
    sink.mark(&Mark::Wall { seconds, micros });
    let mut decoder = ChunkDecoder::new();
    decoder.begin(info.start.map_or(first.tsc, |start| start.0));
    push_chunks(chunks, gaps, &scan, &mut decoder, sink);
    summary
}

fn push_chunks(
    chunks: &[&[u8]],
    gaps: &[u64],
    scan: &Scan,
    decoder: &mut ChunkDecoder,
    sink: &mut dyn Sink,
) {
    let before = scan.walk.stack.open_before();
    let mut outermost = Some(before).filter(|before| before.len() > 0);
    let mut repairs = scan.repairs.iter().peekable();
    for (nth, (chunk, &end)) in chunks.iter().zip(&scan.ends).enumerate() {
        if let Some(&records @ 1..) = gaps.get(nth).filter(|_| nth > 0) {
            sink.mark(&Mark::Lost { records });
        }
        let mut from = PREAMBLE;
        let mut push = |to: usize, decoder: &mut ChunkDecoder, sink: &mut dyn Sink| {
            decoder.decode(chunk.get(from..to).unwrap_or(&[]), sink);
            from = to;
        };
        if let Some(before) = outermost.take_if(|_| end >= CHUNK_HEAD) {
            // The chunk's NewCPUId has the time of its first record.
            push(CHUNK_HEAD, decoder, sink);
            decoder.synthetic(before, Edge::Entry, sink);
        }
        while let Some(repair) = repairs.next_if(|repair| repair.chunk == nth) {
            push(repair.offset, decoder, sink);
            if repair.jump > 0 {
                decoder.jump(repair.jump, sink);
                continue;
            }
            let ids = scan.repaired.iter().skip(repair.first);
            let edge = if repair.entry {
                Edge::Entry
            } else {
                Edge::Exit
            };
            decoder.synthetic(ids.take(repair.count).copied(), edge, sink);
        }
        if end > 0 {
            push(end, decoder, sink);
        }
    }
    if scan.walk.stack.open().len() > 0 {
        if scan.walk.end > scan.walk.last {
            decoder.set(scan.walk.end, sink);
        }
        decoder.synthetic(scan.walk.stack.open(), Edge::Exit, sink);
    }
}
