//! Writes ring chunks to a file. Ring chunks are blocks already, so a dump copies them. It adds one head
//! per thread, names and counts as custom events, and the synthetic records that make calls nest. It
//! allocates and makes blocking writes. So it must never run on a crash path or in a signal handler: there
//! `crash_dump` runs.

use std::io::{self, Read, Seek, Write};

use super::chunk_scan::{self, CHUNK_HEAD, ChunkStart, PREAMBLE, RING, Scan, first};
use super::frame::{Frame, Head, Version};
use super::payload;
use super::record::{self, FUNCTION_LIMIT, Record};
use crate::error::Error;
use crate::model::{Counts, Thread, ThreadId, Ticks, TraceInfo};
use crate::sink::Losses;

/// llvm-xray keeps ticks as doubles in some places. Larger ticks are rounded there.
pub(super) const EXACT_TICKS: u64 = 1 << 53;

/// The records that were written for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BlockSummary {
    /// Function records that were copied.
    pub readable: u64,
    /// Entries added for calls whose entry is not in the chunks.
    pub synthetic_entries: u64,
    /// Exits added for calls whose exit is not in the chunks.
    pub synthetic_exits: u64,
    /// Bytes of chunks that were no records and were left out: a torn end, or a chunk without a valid
    /// head.
    pub discarded_bytes: u64,
}

impl BlockSummary {
    /// The counts of the thread. If the recorder counted more records as readable than were found, the
    /// rest count as overwritten.
    pub(super) fn thread_counts(&self, stated: Counts) -> Counts {
        let kept = self.readable.saturating_add(stated.dropped);
        let kept = kept.saturating_add(stated.summarised);
        Counts {
            readable: self.readable,
            overwritten: stated.overwritten.max(stated.recorded.saturating_sub(kept)),
            ..stated
        }
    }
}

/// The result of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpSummary {
    /// Size of the file.
    pub bytes: u64,
    /// Threads.
    pub threads: u64,
    /// Function records, without synthetic ones.
    pub records: u64,
    /// The data that the file could not hold.
    pub losses: Losses,
}

/// Writes ring chunks to a trace file, one block per thread.
///
/// `W` is an empty file, open for writing and reading (version 1 reads back the blocks that it moves),
/// or `&File`. Memory is one look-ahead over each thread's calls (4 bytes per open call) and a buffer of
/// 32 KiB. Version 1 also has a buffer of 1 MiB at the end. Not async-signal-safe.
///
/// # Examples
/// ```
/// use fdr_formats::xray::{DumpWriter, Version};
/// use fdr_formats::{Thread, TraceInfo};
///
/// let mut file = std::io::Cursor::new(Vec::new());
/// let info = TraceInfo { program: "demo".into(), ..TraceInfo::default() };
/// let mut writer = DumpWriter::new(&mut file, Version::V3, &info)?;
/// writer.thread(&Thread { name: "main".into(), ..Thread::default() }, &[])?;
/// assert_eq!(writer.finish()?.threads, 1);
/// # Ok::<(), fdr_formats::Error>(())
/// ```
pub struct DumpWriter<'a, W: Read + Write + Seek> {
    frame: Frame<W>,
    info: &'a TraceInfo,
    /// The next block is the first one. It carries the tables.
    first: bool,
    summary: DumpSummary,
}

impl<'a, W: Read + Write + Seek> DumpWriter<'a, W> {
    /// Writes the header. `info.start` is the tick at which each thread's block begins. No record may be
    /// older, because llvm-xray's `account` and `stack` refuse such a file. Calls that are still open
    /// last until `info.end`.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn new(out: W, version: Version, info: &'a TraceInfo) -> Result<Self, Error> {
        let frame = Frame::new(out, version, &info.clock)?;
        Ok(DumpWriter {
            frame,
            info,
            first: true,
            summary: DumpSummary::default(),
        })
    }

    /// Writes one thread that lives. `chunks` are its ring chunks, oldest first. Each goes from its
    /// `NewBuffer` to its last record, little-endian. `thread.counts` gives recorded, overwritten and
    /// dropped; the other counts are found here.
    ///
    /// # Errors
    /// If the file can't be written. Damaged chunks are cut and counted.
    pub fn thread(&mut self, thread: &Thread, chunks: &[&[u8]]) -> Result<BlockSummary, Error> {
        self.thread_with_gaps(thread, chunks, &[], false)
    }

    /// The same if records are missing between chunks: `gaps` has the number before each chunk. Records
    /// missing before the first chunk are no gap, because the trace begins after them. Calls of a thread
    /// that has `ended` last until its last record.
    ///
    /// # Errors
    /// As [`DumpWriter::thread`].
    pub fn thread_with_gaps(
        &mut self,
        thread: &Thread,
        chunks: &[&[u8]],
        gaps: &[u64],
        ended: bool,
    ) -> Result<BlockSummary, Error> {
        let (scan, summary) = look(self.info, thread, chunks, gaps, ended);
        self.head(thread, chunks, &scan, &summary)?;
        self.body(chunks, gaps, &scan)?;
        self.frame.end()?;
        self.summary.threads += 1;
        self.summary.records += summary.readable;
        let losses = &mut self.summary.losses;
        losses.add(
            "bytes of ring chunks that were no records: left out",
            scan.discarded,
        );
        losses.add(
            "threads with times of 2^53 ticks or more: llvm-xray rounds them",
            u64::from(scan.walk.last >= EXACT_TICKS),
        );
        Ok(summary)
    }

    /// The head of a thread's block. Also the tick of the first record.
    fn block_head(&mut self, thread: &Thread, valid: Option<&[u8]>) -> (Head, u64) {
        let ChunkStart { wall, cpu, tsc } = first(valid.unwrap_or(&[]), self.info);
        let process = thread.process.or(self.info.process);
        let head = Head {
            thread: narrow(
                thread.id.0,
                "thread ids over 32 bits: cut",
                &mut self.summary.losses,
            ),
            seconds: wall.0,
            micros: wall.1,
            process: process.and_then(|process| u32::try_from(process).ok()),
            start: self.info.start.map_or(tsc, |start| start.0),
            cpu,
        };
        (head, tsc)
    }

    fn head(
        &mut self,
        thread: &Thread,
        chunks: &[&[u8]],
        scan: &Scan,
        summary: &BlockSummary,
    ) -> io::Result<()> {
        let valid = valid(chunks, scan);
        let valid_head = valid.is_some();
        let (head, tsc) = self.block_head(thread, valid);
        let start = head.start;
        let early = valid_head && tsc < start;
        self.summary.losses.add(
            "threads older than the start of the trace: llvm-xray's account and stack refuse them",
            u64::from(early),
        );
        self.frame.begin(&head)?;
        let described = Thread {
            name: thread.name.clone(),
            counts: thread.counts.map(|counts| summary.thread_counts(counts)),
            ..Thread::default()
        };
        let latest = valid_head.then_some(Ticks(scan.walk.latest));
        self.frame
            .custom(start, &payload::encode_thread(&described, latest))?;
        let (entries, exits) = (summary.synthetic_entries, summary.synthetic_exits);
        self.frame
            .custom(start, &payload::encode_balance(entries, exits))?;
        self.frame.totals(start, &thread.totals, false)?;
        if valid_head {
            self.frame.early_calls(start, &thread.early_calls)?;
        }
        if std::mem::take(&mut self.first) {
            tables(&mut self.frame, self.info, start, &mut self.summary.losses)?;
        }
        Ok(())
    }

    fn body(&mut self, chunks: &[&[u8]], gaps: &[u64], scan: &Scan) -> io::Result<()> {
        let before = scan.walk.stack.open_before();
        let mut outermost = Some(before).filter(|before| before.len() > 0);
        let mut repairs = scan.repairs.iter().peekable();
        for (nth, (chunk, &end)) in chunks.iter().zip(&scan.ends).enumerate() {
            let mut from = PREAMBLE;
            if let Some(&lost @ 1..) = gaps.get(nth).filter(|_| nth > 0) {
                let time = first(chunk, self.info).tsc;
                self.frame.custom(time, &payload::encode_lost(lost))?;
            }
            if let Some(before) = outermost.take_if(|_| end >= CHUNK_HEAD) {
                // The base is this chunk's NewCPUId, which has the time of its first record.
                self.frame
                    .bytes(chunk.get(PREAMBLE..CHUNK_HEAD).unwrap_or(&[]))?;
                from = CHUNK_HEAD;
                let tsc = match record::decode(&chunk[PREAMBLE..], RING) {
                    Ok(Record::NewCpu { tsc, .. }) => tsc,
                    _ => 0,
                };
                self.synthetic(tsc, before, true)?;
            }
            while let Some(repair) = repairs.next_if(|repair| repair.chunk == nth) {
                self.frame
                    .bytes(chunk.get(from..repair.offset).unwrap_or(&[]))?;
                from = repair.offset;
                if repair.jump > 0 {
                    let event = payload::encode_break(repair.jump);
                    self.frame.custom(repair.time, &event)?;
                    continue;
                }
                let ids = scan
                    .repaired
                    .iter()
                    .skip(repair.first)
                    .take(repair.count)
                    .copied();
                self.synthetic(repair.time, ids, repair.entry)?;
            }
            self.frame.bytes(chunk.get(from..end).unwrap_or(&[]))?;
        }
        if scan.walk.stack.open().len() > 0 {
            if scan.walk.end > scan.walk.last {
                // A delta has 32 bits.
                let tsc = scan.walk.end;
                self.frame.metadata(&Record::TscWrap { tsc })?;
            }
            self.synthetic(scan.walk.end, scan.walk.stack.open(), false)?;
        }
        Ok(())
    }

    fn synthetic(
        &mut self,
        time: u64,
        ids: impl ExactSizeIterator<Item = u32>,
        entry: bool,
    ) -> io::Result<()> {
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.frame.custom(time, &payload::encode_synthetic(count))?;
        for id in ids {
            self.frame.function(id, entry)?;
        }
        Ok(())
    }

    /// Completes the file. If no thread was written, a block without records carries the tables.
    ///
    /// # Errors
    /// If the file can't be written, or version 1 can't be read back.
    pub fn finish(mut self) -> Result<DumpSummary, Error> {
        if self.first {
            let id = ThreadId(self.info.process.unwrap_or_default());
            self.thread(
                &Thread {
                    id,
                    ..Thread::default()
                },
                &[],
            )?;
            self.summary.threads = 0;
        }
        self.summary.bytes = self.frame.finish()?;
        Ok(self.summary)
    }
}

/// Goes through a thread's chunks before they are copied, and finds the missing records.
pub(super) fn look(
    info: &TraceInfo,
    thread: &Thread,
    chunks: &[&[u8]],
    gaps: &[u64],
    ended: bool,
) -> (Scan, BlockSummary) {
    let mut scan = Scan::new(chunks, gaps);
    if scan.ends.iter().any(|end| *end > 0) {
        let around = thread.early_calls.iter().rev().map(|call| call.function.0);
        scan.walk.stack.push_around(around);
    }
    let jumps = chunk_scan::find(chunks, &scan.ends, info);
    scan.jumps(&jumps.inside);
    let end = info.end.filter(|_| !ended);
    let end = end.map(|end| Ticks(end.0.saturating_sub(jumps.behind)));
    scan.walk.until(end);
    let middle = |entry: bool| -> usize {
        let repairs = scan.repairs.iter().filter(|repair| repair.entry == entry);
        repairs.map(|repair| repair.count).sum()
    };
    let summary = BlockSummary {
        readable: scan.walk.records,
        synthetic_entries: (scan.walk.stack.open_before().len() + middle(true)) as u64,
        synthetic_exits: (scan.walk.stack.open().len() + middle(false)) as u64,
        discarded_bytes: scan.discarded,
    };
    (scan, summary)
}

/// The first chunk that has a valid head.
pub(super) fn valid<'a>(chunks: &[&'a [u8]], scan: &Scan) -> Option<&'a [u8]> {
    let mut both = chunks.iter().zip(&scan.ends);
    both.find(|(_, end)| **end > 0).map(|(chunk, _)| *chunk)
}

/// The part of the first block that is for the whole file.
pub(super) fn tables<W: Read + Write + Seek>(
    frame: &mut Frame<W>,
    info: &TraceInfo,
    start: u64,
    losses: &mut Losses,
) -> io::Result<()> {
    frame.custom(start, &payload::encode_process(info))?;
    frame.custom(start, &payload::encode_clock(&info.clock))?;
    if let Some(identity) = payload::encode_identity(&info.identity) {
        frame.custom(start, &identity)?;
    }
    for moment in &info.moments {
        frame.custom(start, &payload::encode_moment(moment))?;
    }
    for batch in payload::encode_schedule(&info.schedule) {
        frame.custom(start, &batch)?;
    }
    for batch in payload::encode_functions(&info.functions) {
        frame.custom(start, &batch)?;
    }
    frame.totals(start, &info.missing_totals, true)?;
    for batch in payload::encode_estimates(info) {
        frame.custom(start, &batch)?;
    }
    let beyond = info
        .functions
        .iter()
        .filter(|function| function.id.0 >= FUNCTION_LIMIT);
    losses.add(
        "functions with ids of 2^28 and above: no record can name them",
        beyond.count() as u64,
    );
    Ok(())
}

/// The low 32 bits. Any higher bit counts as a loss.
fn narrow(number: u64, what: &'static str, losses: &mut Losses) -> u32 {
    losses.add(what, u64::from(u32::try_from(number).is_err()));
    number as u32
}
