//! The frame of a file that is written: header, blocks with their heads, and the ends that each version needs. Version
//! 3 has exact extents. Version 1 has `EndOfBuffer` and fill up to one fixed size. Little-endian. Knows nothing of a
//! block's content.
//!
//! A version 1 buffer size is known only when all blocks are known. So blocks are written without fill. At
//! the end they are moved apart, the last one first, through a buffer of 1 MiB.

use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};

use super::payload;
use super::record::{
    self, Action, Extent, HEADER_SIZE, Header, Layout, METADATA_SIZE, Record, RecordTime,
};
use crate::bytes::ByteOrder;
use crate::model::{Clock, EarlyCall, FunctionTotals};

/// A version that can be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The version of the published document: each buffer has the size of the largest one.
    V1,
    /// With exact extents and the process id; the best choice for llvm-xray.
    #[default]
    V3,
}

/// Fewer bytes than a ring chunk's records, so these go to the file without a copy.
const BUFFER: usize = 32 * 1024;
const MOVE: usize = 1 << 20;
const RECORD: u64 = METADATA_SIZE as u64;
/// The shortest end of a version 1 buffer: `EndOfBuffer`, and an event of 8 bytes as fill.
const MIN_END: u64 = 2 * RECORD + 8;
/// The longest event that fills a version 1 buffer; a size has 31 bits.
const MAX_FILL: u64 = 1 << 30;

/// The content of a block's head.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub(super) thread: u32,
    pub(super) seconds: u64,
    pub(super) micros: u32,
    pub(super) process: Option<u32>,
    /// Time and CPU of the first record. Tools need the same time in each block.
    pub(super) start: u64,
    pub(super) cpu: u16,
}

/// A file under construction.
pub(super) struct Frame<W: Write + Seek> {
    out: BufWriter<W>,
    layout: Layout,
    at: u64,
    /// Offset and size of each finished block (version 1 only: to move them).
    blocks: Vec<(u64, u64)>,
    block: u64,
    /// Blocks so far: one for each thread.
    threads: u64,
}

impl<W: Read + Write + Seek> Frame<W> {
    /// Writes the header at the file's first byte.
    pub(super) fn new(mut out: W, version: Version, clock: &Clock) -> io::Result<Frame<W>> {
        out.seek(SeekFrom::Start(0))?;
        let version = match version {
            Version::V1 => 1,
            Version::V3 => 3,
        };
        let layout = Layout {
            order: ByteOrder::Little,
            version,
        };
        let header = Header {
            layout,
            constant: clock.constant,
            nonstop: clock.nonstop,
            frequency: clock.frequency,
            buffer_size: 0,
        };
        let out = BufWriter::with_capacity(BUFFER, out);
        let mut frame = Frame {
            out,
            layout,
            at: 0,
            blocks: Vec::new(),
            block: 0,
            threads: 0,
        };
        frame.bytes(&record::encode_header(&header))?;
        Ok(frame)
    }

    /// Whole records, as they are.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    #[inline(never)]
    pub(super) fn metadata(&mut self, record: &Record) -> io::Result<()> {
        self.bytes(&record::encode_metadata(record, self.layout))
    }

    /// Sets the time of the next records to `to`, if that is after the time `from` of the last record.
    pub(super) fn reach(&mut self, from: u64, to: u64) -> io::Result<()> {
        match to > from {
            true => self.metadata(&Record::TscWrap { tsc: to }),
            false => Ok(()),
        }
    }

    /// A function record at the time of the previous record.
    pub(super) fn function(&mut self, id: u32, entry: bool) -> io::Result<()> {
        let action = if entry { Action::Entry } else { Action::Exit };
        self.bytes(&record::encode_function(id, action, 0, self.layout.order))
    }

    #[inline(never)]
    pub(super) fn custom(&mut self, tsc: u64, payload: &[u8]) -> io::Result<()> {
        let size = i32::try_from(payload.len()).unwrap_or(i32::MAX);
        let when = RecordTime::Absolute(tsc);
        self.metadata(&Record::Custom {
            size,
            when,
            cpu: None,
        })?;
        self.bytes(payload.get(..size as usize).unwrap_or(payload))
    }

    /// Writes the totals of functions. `is_of_missing`: they are of threads that are not in the trace.
    pub(super) fn totals(
        &mut self,
        tsc: u64,
        rows: &[FunctionTotals],
        is_of_missing: bool,
    ) -> io::Result<()> {
        let mut payloads = payload::encode_totals(rows, is_of_missing);
        payloads.try_for_each(|payload| self.custom(tsc, &payload))
    }

    /// Calls that began before the block and have not ended.
    pub(super) fn early_calls(&mut self, tsc: u64, calls: &[EarlyCall]) -> io::Result<()> {
        let payload = payload::encode_early_calls(calls);
        payload.map_or(Ok(()), |payload| self.custom(tsc, &payload))
    }

    pub(super) fn begin(&mut self, head: &Head) -> io::Result<()> {
        if self.layout.version > 1 {
            self.metadata(&Record::BufferExtents { bytes: 0 })?;
        }
        self.block = self.at;
        self.metadata(&Record::NewBuffer {
            thread: head.thread,
        })?;
        self.metadata(&Record::WallTime {
            seconds: head.seconds,
            micros: head.micros,
        })?;
        if let Some(process) = head.process.filter(|_| self.layout.version > 1) {
            self.metadata(&Record::Pid { process })?;
        }
        self.metadata(&Record::NewCpu {
            cpu: head.cpu,
            tsc: head.start,
        })
    }

    pub(super) fn end(&mut self) -> io::Result<()> {
        let bytes = self.at - self.block;
        self.threads += 1;
        if self.layout.version == 1 {
            self.blocks.push((self.block, bytes));
            return Ok(());
        }
        let extents = record::encode_metadata(&Record::BufferExtents { bytes }, self.layout);
        self.out.seek(SeekFrom::Start(self.block - RECORD))?;
        self.out.write_all(&extents)?;
        self.out.seek(SeekFrom::Start(self.at))?;
        Ok(())
    }

    /// Completes the file; returns its size in bytes.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        if self.layout.version == 1 {
            self.spread()?;
        } else {
            let (bytes, threads) = (self.at, self.threads);
            self.out.seek(SeekFrom::Start(record::EXTENT_AT))?;
            self.out.write_all(&Extent { bytes, threads }.encode())?;
        }
        self.out.flush()?;
        Ok(self.at)
    }

    /// Moves the blocks of version 1 to their places in the final size.
    fn spread(&mut self) -> io::Result<()> {
        self.out.flush()?;
        let longest = self
            .blocks
            .iter()
            .map(|&(_, bytes)| bytes)
            .max()
            .unwrap_or(0);
        let size = longest.next_multiple_of(8) + MIN_END;
        let mut buffer = vec![0; MOVE];
        for (nth, (from, bytes)) in std::mem::take(&mut self.blocks)
            .into_iter()
            .enumerate()
            .rev()
        {
            let to = HEADER_SIZE as u64 + nth as u64 * size;
            shift(self.out.get_mut(), from, to, bytes, &mut buffer)?;
            self.out.seek(SeekFrom::Start(to + bytes))?;
            self.fill(size - bytes)?;
            // The next move does not use this buffer.
            self.out.flush()?;
            self.at = self.at.max(to + size);
        }
        self.out.seek(SeekFrom::Start(16))?;
        self.out.write_all(&size.to_le_bytes())
    }

    /// `EndOfBuffer`, then events of zeros. The document skips them, and llvm-xray 8 and up reads them.
    fn fill(&mut self, mut left: u64) -> io::Result<()> {
        self.out
            .write_all(&record::encode_metadata(&Record::EndOfBuffer, self.layout))?;
        left -= RECORD;
        while left > 0 {
            // The rest must have room for a record and a payload.
            let most = if left - RECORD > MAX_FILL {
                MAX_FILL - 64
            } else {
                left - RECORD
            };
            let size = i32::try_from(most).unwrap_or(i32::MAX);
            let event = Record::Custom {
                size,
                when: RecordTime::Absolute(0),
                cpu: None,
            };
            self.out
                .write_all(&record::encode_metadata(&event, self.layout))?;
            let mut zeros = most;
            while zeros > 0 {
                let part = zeros.min(ZEROS.len() as u64);
                self.out.write_all(&ZEROS[..part as usize])?;
                zeros -= part;
            }
            left -= RECORD + most;
        }
        Ok(())
    }
}

/// A part of what fills a block.
static ZEROS: [u8; 256] = [0; 256];

/// Moves bytes towards the end of the file; the two places may overlap.
fn shift<W: Read + Write + Seek>(
    file: &mut W,
    from: u64,
    to: u64,
    bytes: u64,
    buffer: &mut [u8],
) -> io::Result<()> {
    debug_assert!(to >= from, "blocks only move up");
    let mut left = if from == to { 0 } else { bytes };
    while left > 0 {
        let count = usize::try_from(left)
            .unwrap_or(buffer.len())
            .min(buffer.len());
        let part = &mut buffer[..count];
        left -= count as u64;
        file.seek(SeekFrom::Start(from + left))?;
        file.read_exact(part)?;
        file.seek(SeekFrom::Start(to + left))?;
        file.write_all(part)?;
    }
    Ok(())
}
