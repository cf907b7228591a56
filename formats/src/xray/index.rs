//! The index pass: the place and thread of each block, and what the file states about itself. It reads only heads where
//! extents give the ends of blocks. It searches a damaged or cut file, and a version 1 file whose buffers are not at
//! the promised distance.

use std::collections::{BTreeMap, HashMap};
use std::io;

use super::payload::{self, Payload};
use super::record::{self, Extent, HEADER_SIZE, Header, Layout, METADATA_SIZE, Record};
use super::search::Search;
use crate::bytes::{ReadAt, Window};
use crate::error::{Diagnostic, DiagnosticList, Error};
use crate::model::{
    Clock, Estimate, Function, FunctionId, FunctionTotals, RecordingCost, Thread, ThreadId, Ticks,
    TraceInfo,
};

/// The most bytes of a payload that are given.
pub(super) const MAX_PAYLOAD: usize = 16 << 20;
/// The diagnostic for a custom event with our tag that can't be decoded.
pub(super) const DAMAGED_OWN: &str = "an event of fdr's own is damaged; it is skipped";

const RECORD: u64 = METADATA_SIZE as u64;
/// `NewBuffer`, `WallTime`, `NewCPUId`: no buffer is shorter.
const MIN_BUFFER: u64 = 3 * RECORD;
const HEAD_WINDOW: usize = 4096;
/// A repeated header and the first two records of a buffer.
const PEEK_WINDOW: usize = HEADER_SIZE + 2 * METADATA_SIZE;

/// One thread's run of records.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Byte offset of its `NewBuffer`.
    pub(super) start: u64,
    /// Byte offset after its last record (version 1: after its fill).
    pub(super) end: u64,
    /// The block should be longer: the file was cut, or another block begins early.
    pub(super) cut: bool,
    /// The latest tick of its records, if the file states it.
    pub(super) latest: Option<u64>,
    /// First time in it.
    pub(super) tsc: Option<u64>,
}

/// A file, indexed.
#[derive(Debug)]
pub(super) struct Index {
    pub(super) layout: Layout,
    pub(super) info: TraceInfo,
    /// In the order of the file.
    pub(super) blocks: Vec<Block>,
    /// Per thread of `info`: places in `blocks`, in order of time.
    pub(super) lanes: Vec<Vec<usize>>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

impl Index {
    /// Whether the index pass gave a diagnostic for the record at this byte.
    pub(super) fn has_diagnostic_at(&self, offset: u64) -> bool {
        self.diagnostics
            .iter()
            .any(|diagnostic| diagnostic.offset == offset)
    }
}

/// Reads header and heads.
pub(super) fn index(bytes: &dyn ReadAt) -> Result<Index, Error> {
    let mut head = [0; HEADER_SIZE];
    let count = bytes.read_at(0, &mut head)?;
    if count < HEADER_SIZE {
        let what = format!("the file ends inside the header of {HEADER_SIZE} bytes");
        return Err(Error::format(count as u64, what));
    }
    let Some(header) = record::decode_header(&head) else {
        let what = "no XRay flight data recorder header of version 1 to 5 (type 1)";
        return Err(Error::format(0, what));
    };
    let mut indexer = Indexer::new(bytes, header, head);
    let mut at = HEADER_SIZE as u64;
    while at < indexer.size {
        let next = match header.layout.version {
            1 => indexer.buffer(at)?,
            _ => indexer.extents(at)?,
        };
        debug_assert!(next > at, "the index pass must go on");
        at = next;
    }
    Ok(indexer.finish())
}

/// An index pass under way.
struct Indexer<'a> {
    bytes: &'a dyn ReadAt,
    /// For heads, which are read forward.
    window: Window<'a>,
    /// A second window, which reads the end of a block far ahead.
    peek: Window<'a>,
    search: Search<'a>,
    size: u64,
    head: [u8; HEADER_SIZE],
    header: Header,
    /// The file has our process event, so its version 1 buffers are at the promised distance.
    ours: bool,
    lane_of: HashMap<ThreadId, usize>,
    functions: BTreeMap<FunctionId, Function>,
    /// The latest tick of the current block's records, as its head states it.
    latest: Option<u64>,
    /// The problems that are shown, and the number of all.
    diagnostics: DiagnosticList,
    index: Index,
}

impl<'a> Indexer<'a> {
    fn new(bytes: &'a dyn ReadAt, header: Header, head: [u8; HEADER_SIZE]) -> Indexer<'a> {
        let layout = header.layout;
        let order = match layout.order {
            crate::bytes::ByteOrder::Little => "little-endian",
            crate::bytes::ByteOrder::Big => "big-endian",
        };
        let clock = Clock {
            frequency: if header.frequency == 0 {
                1_000_000_000
            } else {
                header.frequency
            },
            constant: header.constant,
            nonstop: header.nonstop,
            ..Clock::default()
        };
        let info = TraceInfo {
            format: format!("XRay FDR, version {}, {order}", layout.version),
            clock,
            ..TraceInfo::default()
        };
        let index = Index {
            layout,
            info,
            blocks: Vec::new(),
            lanes: Vec::new(),
            diagnostics: Vec::new(),
        };
        let mut indexer = Indexer {
            bytes,
            window: Window::new(bytes, HEAD_WINDOW),
            peek: Window::new(bytes, PEEK_WINDOW),
            search: Search::new(bytes, layout),
            size: bytes.size(),
            head,
            header,
            ours: false,
            lane_of: HashMap::new(),
            functions: BTreeMap::new(),
            latest: None,
            diagnostics: DiagnosticList::default(),
            index,
        };
        if header.frequency == 0 {
            indexer
                .diagnostics
                .add(8, "the header's clock frequency is 0 Hz; 1 GHz is assumed");
        }
        indexer
    }

    fn record_at(&mut self, at: u64) -> io::Result<Option<Record>> {
        let bytes = self.window.at(at, METADATA_SIZE, self.size)?;
        Ok(record::decode(bytes, self.header.layout).ok())
    }

    /// At least `PEEK_WINDOW` bytes from `at` on; the window of heads stays where it is.
    fn peek(&mut self, at: u64) -> io::Result<&[u8]> {
        let window = if self.window.holds(at, PEEK_WINDOW) {
            &mut self.window
        } else {
            &mut self.peek
        };
        window.at(at, PEEK_WINDOW, self.size)
    }

    /// A block of version 2 and up. Returns the possible place of the next one.
    fn extents(&mut self, at: u64) -> io::Result<u64> {
        let Some(Record::BufferExtents { bytes }) = self.record_at(at)? else {
            return self.skip(at);
        };
        let layout = self.header.layout;
        let start = at + RECORD;
        let end = start.saturating_add(bytes);
        if bytes == 0 {
            return Ok(start);
        }
        let whole = end == self.size
            || end < self.size
                && matches!(
                    record::decode(self.peek(end)?, layout),
                    Ok(Record::BufferExtents { .. })
                );
        if whole {
            self.block(start, end, false)?;
            return Ok(end);
        }
        // The block is cut or damaged. It ends where another block certainly begins.
        let found = self.search.block(start)?;
        let stop = end.min(self.size).min(found.unwrap_or(u64::MAX));
        if stop < end {
            let what = match found {
                Some(_) => "but another block begins here: it is read up to here".into(),
                None => format!("but the file ends {} bytes before that", end - self.size),
            };
            self.diagnostics.add(
                stop,
                format!("the block at byte {at} should have {bytes} bytes, {what}"),
            );
        }
        self.block(start, stop, stop < end)?;
        if stop < end {
            Ok(stop.max(start))
        } else {
            Ok(end)
        }
    }

    /// A buffer of version 1. Returns the possible place of the next one.
    fn buffer(&mut self, at: u64) -> io::Result<u64> {
        // The document allows another header in front of each buffer.
        let start = if self.repeats_header(at)? {
            at + HEADER_SIZE as u64
        } else {
            at
        };
        if !matches!(self.record_at(start)?, Some(Record::NewBuffer { .. })) {
            return self.skip(start);
        }
        let place = self.index.blocks.len();
        let size = self.header.buffer_size;
        let fixed = start.saturating_add(size);
        // An impossible size must not bound the head either.
        let most = if size >= MIN_BUFFER {
            fixed.min(self.size)
        } else {
            self.size
        };
        self.block(start, most, false)?;
        let confirmed =
            size >= MIN_BUFFER && (self.begins_buffer(fixed)? || fixed == self.size && self.ours);
        let (end, next, closed) = if confirmed {
            (fixed, fixed, true)
        } else {
            let (end, closed) = self.search.end_of_buffer(start)?;
            (end, self.after_buffer(start, end, closed)?, closed)
        };
        if let Some(block) = self.index.blocks.get_mut(place) {
            (block.end, block.cut) = (end, !closed);
        }
        Ok(next)
    }

    /// The place to continue after a version 1 buffer whose end had to be searched.
    fn after_buffer(&mut self, start: u64, end: u64, closed: bool) -> io::Result<u64> {
        let fixed = start.saturating_add(self.header.buffer_size);
        if !closed && end == self.size {
            let early = fixed.saturating_sub(self.size);
            if early > 0 {
                let size = self.header.buffer_size;
                let what = format!("the buffer at byte {start} should have {size} bytes");
                self.diagnostics.add(
                    end,
                    format!("{what}, but the file ends {early} bytes before that"),
                );
            }
            return Ok(end);
        }
        if self.begins_buffer(end)? || end == self.size {
            return Ok(end);
        }
        if fixed == self.size {
            return Ok(fixed);
        }
        match self.search.block(end)? {
            Some(next) => Ok(next),
            None => {
                self.diagnostics
                    .add(end, "no buffer begins after this one; the rest is skipped");
                Ok(self.size)
            }
        }
    }

    fn repeats_header(&mut self, at: u64) -> io::Result<bool> {
        let head = self.head;
        Ok(self.peek(at)?.starts_with(&head))
    }

    fn begins_buffer(&mut self, at: u64) -> io::Result<bool> {
        let (head, layout) = (self.head, self.header.layout);
        let bytes = self.peek(at)?;
        let second = bytes.get(METADATA_SIZE..).unwrap_or(&[]);
        Ok(bytes.starts_with(&head)
            || matches!(record::decode(bytes, layout), Ok(Record::NewBuffer { .. }))
                && matches!(record::decode(second, layout), Ok(Record::WallTime { .. })))
    }

    /// No block begins here. Searches for one further on.
    fn skip(&mut self, at: u64) -> io::Result<u64> {
        let next = self.search.block(at + 1)?.unwrap_or(self.size);
        let what = format!("no block begins here; {} bytes are skipped", next - at);
        self.diagnostics.add(at, what);
        Ok(next)
    }

    /// Reads the head of a block and adds the block to its thread.
    fn block(&mut self, start: u64, end: u64, cut: bool) -> io::Result<()> {
        let record = if end - start < RECORD {
            None
        } else {
            self.record_at(start)?
        };
        let Some(Record::NewBuffer { thread }) = record else {
            self.diagnostics
                .add(start, "the block has no NewBuffer record; it is skipped");
            return Ok(());
        };
        let id = ThreadId(u64::from(thread));
        let threads = &mut self.index.info.threads;
        let lane = *self.lane_of.entry(id).or_insert_with(|| {
            threads.push(Thread {
                id,
                ..Thread::default()
            });
            self.index.lanes.push(Vec::new());
            threads.len() - 1
        });
        let tsc = self.head(lane, start + RECORD, end)?;
        if let Some(blocks) = self.index.lanes.get_mut(lane) {
            blocks.push(self.index.blocks.len());
        }
        self.index.blocks.push(Block {
            start,
            end,
            cut,
            latest: self.latest,
            tsc,
        });
        Ok(())
    }

    /// Complains if the file has fewer bytes than it states. Returns whether it does. Only a file of ours states it.
    fn is_short(&mut self) -> bool {
        let stated = Extent::decode(&self.head).filter(|_| self.header.layout.version == 3);
        let Some(Extent { bytes, threads }) =
            stated.filter(|stated| self.ours && stated.bytes > self.size)
        else {
            return false;
        };
        let what = format!(
            "the trace states {bytes} bytes of {threads} threads, but the file ends {} bytes before that, with {} threads",
            bytes - self.size,
            self.index.info.threads.len()
        );
        self.diagnostics.add(self.size, what);
        true
    }

    /// Reads on behind `NewBuffer` while preamble records or our own events come. Returns the first
    /// time.
    fn head(&mut self, lane: usize, mut at: u64, end: u64) -> io::Result<Option<u64>> {
        let mut first = None;
        let mut balance = None;
        self.latest = None;
        while end.saturating_sub(at) >= RECORD {
            let (start, record) = (at, self.record_at(at)?);
            at += RECORD;
            match record {
                Some(Record::WallTime { .. }) if first.is_none() => {}
                Some(Record::Pid { process }) => {
                    let process = Some(u64::from(process));
                    self.index.info.process = process;
                    self.thread(lane).process = process;
                }
                Some(Record::NewCpu { tsc, .. }) if first.is_none() => first = Some(tsc),
                Some(Record::Custom { size, .. }) => {
                    let Some(payload) = self.payload(at, size, end)? else {
                        break;
                    };
                    at += payload.len() as u64;
                    match payload::decode(&payload, self.header.layout.order) {
                        Some(Payload::Balance { entries, exits }) => {
                            balance = Some((entries, exits))
                        }
                        Some(payload) => self.learn(lane, payload),
                        None => self.diagnostics.add(start, DAMAGED_OWN),
                    }
                }
                _ => break,
            }
        }
        if let (Some(counts), Some(balance)) = (&mut self.thread(lane).counts, balance) {
            (counts.synthetic_entries, counts.synthetic_exits) = balance;
        }
        Ok(first)
    }

    fn thread(&mut self, lane: usize) -> &mut Thread {
        // `lane` was just found or made by `block`.
        &mut self.index.info.threads[lane]
    }

    /// The payload at `at`, if it is ours and inside the block.
    fn payload(&mut self, at: u64, size: i32, end: u64) -> io::Result<Option<Vec<u8>>> {
        let size = usize::try_from(size).unwrap_or(0);
        let fits = size <= MAX_PAYLOAD && size as u64 <= end.saturating_sub(at);
        let tag = self.window.at(at, 8, end)?;
        if size == 0 || !fits || !payload::is_ours(tag) {
            return Ok(None);
        }
        let held = self.window.at(at, size, end)?;
        if let Some(payload) = held.get(..size) {
            return Ok(Some(payload.to_vec()));
        }
        let mut payload = vec![0; size];
        let count = self.bytes.read_at(at, &mut payload)?;
        Ok((count == size).then_some(payload))
    }

    fn learn(&mut self, lane: usize, payload: Payload) {
        match payload {
            Payload::Functions(list) => {
                for function in list {
                    self.functions.entry(function.id).or_insert(function);
                }
            }
            Payload::Thread {
                name,
                counts,
                latest,
            } => {
                self.latest = latest.map(|latest| latest.0);
                let thread = self.thread(lane);
                thread.name = name;
                thread.counts = counts;
            }
            Payload::Clock {
                name,
                error_ppm,
                anchor,
                until,
                faults,
            } => {
                let clock = &mut self.index.info.clock;
                (clock.name, clock.error_ppm, clock.anchor) = (name, error_ppm, anchor);
                (clock.until, clock.faults) = (until, faults);
            }
            Payload::Process {
                program,
                reason,
                process,
                dump,
                missing,
                end,
            } => {
                self.ours = true;
                let info = &mut self.index.info;
                (info.program, info.reason) = (program, reason);
                (info.dump, info.missing, info.end) = (dump, missing, end);
                info.process = process.or(info.process);
            }
            Payload::Identity(identity) => self.index.info.identity = identity,
            Payload::Moment(moment) => self.index.info.moments.push(moment),
            Payload::Schedule(part) => self.index.info.schedule.append(part),
            Payload::Totals {
                is_of_missing,
                rows,
            } => match is_of_missing {
                true => self.index.info.missing_totals.extend(rows),
                false => self.thread(lane).totals.extend(rows),
            },
            Payload::Estimates { cost, rows } => self.estimates(cost, rows),
            Payload::EarlyCalls(calls) => self.thread(lane).early_calls.extend(calls),
            Payload::Balance { .. }
            | Payload::Synthetic { .. }
            | Payload::Lost { .. }
            | Payload::Break { .. }
            | Payload::ShortCalls { .. }
            | Payload::Threshold { .. }
            | Payload::Note(_)
            | Payload::Unknown => {}
        }
    }

    /// Estimates are kept with the totals of ended threads, because both are of all threads.
    fn estimates(&mut self, cost: RecordingCost, rows: Vec<(FunctionId, Estimate)>) {
        let info = &mut self.index.info;
        info.recording_cost = Some(cost).filter(|cost| cost.budget > 0);
        for (function, estimate) in rows {
            let totals = &mut info.missing_totals;
            let at = totals.iter().position(|row| row.function == function);
            let at = at.unwrap_or_else(|| {
                let function = FunctionTotals {
                    function,
                    ..FunctionTotals::default()
                };
                totals.push(function);
                totals.len() - 1
            });
            if let Some(row) = totals.get_mut(at) {
                row.estimate = Some(Box::new(estimate));
            }
        }
    }

    fn finish(mut self) -> Index {
        let is_short = self.is_short();
        self.index.diagnostics = self.diagnostics.finish();
        let Index {
            info,
            blocks,
            lanes,
            ..
        } = &mut self.index;
        info.functions = self.functions.into_values().collect();
        let mut threads = std::mem::take(&mut info.threads);
        for thread in &mut threads {
            thread.name = info.whole_thread_name(&thread.name).to_owned();
        }
        info.threads = threads;
        if is_short || blocks.iter().any(|block| block.cut) {
            // Calls that are open where a block is cut need not have been open at the moment of the dump. A whole
            // block has exits of that moment.
            info.end = None;
        }
        info.start = blocks.iter().filter_map(|block| block.tsc).min().map(Ticks);
        // Programs write a thread's buffers in the order of their queue, which may have wrapped.
        let tsc = |&place: &usize| blocks.get(place).and_then(|block| block.tsc);
        for lane in lanes {
            if lane.iter().all(|place| tsc(place).is_some()) {
                lane.sort_by_key(tsc);
            }
        }
        self.index
    }
}
