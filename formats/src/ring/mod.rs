//! The recorder's ring file, read: the memory of a process that was killed, or that still records.
//!
//! | file | what it holds |
//! | --- | --- |
//! | [`layout`] | every part of the file, pure |
//! | `copy` | one thread's records, beside a writer that may be at work |
//! | `mod` | [`Ring`]: the whole file, and its way into a trace |
//!
//! What comes out is what a dump of the recorder gives: an XRay FDR trace with names, counts and
//! balanced calls. Nothing in a ring file is believed that can be checked; no process is looked for.

use std::io::{Read, Seek, Write};

use crate::bytes::{FileBytes, ReadAt, Window};
use crate::error::{Diagnostic, Error};
use crate::model::{Clock, Function, Missing, Thread, ThreadId, Ticks, TraceInfo};
use crate::registry::{Format, Opener};
use crate::spool;
use crate::xray::{DumpSummary, DumpWriter, Version, XraySource};

mod copy;
pub mod layout;
mod source;

use copy::Copy;
use layout::{CHUNK, HEADER_SIZE, Header, MARK_SIZE, SLOT_SIZE};

/// More slots than that no ring has.
const MOST_SLOTS: u32 = 1 << 16;
/// A larger region no ring has, bytes.
const LARGEST_REGION: u64 = 1 << 36;
/// Longer tables of functions no ring has, bytes.
const LONGEST_TABLE: u64 = 64 << 20;

/// The format. There is no way to write it: only the recorder does.
pub const FORMAT: Format = Format {
    name: "ring",
    title: "fdr ring",
    opener: Opener::File {
        probe: |head| head.starts_with(&layout::MAGIC),
        open: |bytes| Ok(Box::new(source::RingSource::open(bytes)?)),
    },
    targets: &[],
};

/// A ring file.
pub struct Ring {
    bytes: Box<dyn ReadAt>,
    header: Header,
    functions: Vec<Function>,
    diagnostics: Vec<Diagnostic>,
}

impl Ring {
    /// Reads the head and the table of functions.
    ///
    /// # Errors
    /// Where the file can't be read, is no ring, or its head makes no sense.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<Ring, Error> {
        let mut head = [0; HEADER_SIZE];
        let count = bytes.read_at(0, &mut head)?;
        let header = layout::decode_header(&head[..count]);
        let header = header.ok_or_else(|| Error::format(0, "not the head of a ring file"))?;
        check(&header)?;
        let mut ring = Ring {
            bytes,
            header,
            functions: Vec::new(),
            diagnostics: Vec::new(),
        };
        ring.read_functions()?;
        Ok(ring)
    }

    /// The process that records, or did.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.header.process
    }

    /// What was wrong at opening.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// What a trace of it says of itself, with the reason that the caller knows.
    #[must_use]
    pub fn info(&self, program: &str, reason: &str) -> TraceInfo {
        let header = &self.header;
        let start = Ticks(header.start_ticks);
        TraceInfo {
            clock: Clock {
                frequency: match header.frequency {
                    0 => 1_000_000_000,
                    known => known,
                },
                name: clock_name(header.clock).into(),
                constant: header.clock_constant,
                nonstop: header.clock_nonstop,
                anchor: Some((start, header.start_realtime)),
                ..Clock::default()
            },
            functions: self.functions.clone(),
            program: program.to_owned(),
            process: Some(header.process.into()),
            reason: reason.to_owned(),
            missing: Missing {
                retired_threads: header.retired_threads,
                retired_records: header.retired_records,
                unplaced_records: header.homeless_records,
            },
            start: Some(start),
            ..TraceInfo::default()
        }
    }

    /// Writes what the threads recorded as an XRay FDR trace, and says what could not be had. `out` is an
    /// empty file, open for writing and reading. Memory: one region, and what [`DumpWriter`] needs.
    ///
    /// # Errors
    /// Where the ring can't be read or the trace can't be written.
    pub fn write<W: Read + Write + Seek>(
        &self,
        out: W,
        version: Version,
        info: &TraceInfo,
    ) -> Result<(DumpSummary, Vec<Diagnostic>), Error> {
        let mut diagnostics = Vec::new();
        let mut writer = DumpWriter::new(out, version, info)?;
        let mut copy = Copy::default();
        // Anew: a process that runs has made more since.
        let mut head = [0; HEADER_SIZE];
        let count = self.bytes.read_at(0, &mut head)?;
        let made = layout::decode_header(&head[..count]).map_or(self.header.made, |now| now.made);
        for index in 0..made.min(self.header.capacity) {
            if !copy.take(&*self.bytes, &self.header, index)? || copy.counts.recorded == 0 {
                continue;
            }
            let name = copy.slot.name.split(|&byte| byte == 0).next();
            let thread = Thread {
                id: ThreadId(copy.slot.thread.into()),
                process: info.process,
                name: String::from_utf8_lossy(name.unwrap_or_default()).into_owned(),
                counts: Some(copy.counts),
            };
            if let Some(offset) = copy.hollow {
                let what = format!(
                    "the records of thread {} are not in the file: there was no space for them on \
                     the disk, and its memory is gone",
                    thread.id
                );
                diagnostics.push(Diagnostic { offset, what });
            }
            writer.thread(&thread, &copy.chunks())?;
        }
        Ok((writer.finish()?, diagnostics))
    }

    /// The trace of [`Ring::write`] in a temporary file, opened.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn to_trace(
        &self,
        program: &str,
        reason: &str,
    ) -> Result<(XraySource, Vec<Diagnostic>), Error> {
        let file = spool::unlinked()?;
        let info = self.info(program, reason);
        let (_, diagnostics) = self.write(&file, Version::V3, &info)?;
        let source = XraySource::open(Box::new(FileBytes::new(file)?))?;
        Ok((source, diagnostics))
    }

    fn read_functions(&mut self) -> Result<(), Error> {
        let Header {
            functions: start,
            functions_length,
            ..
        } = self.header;
        let end = start.saturating_add(functions_length.min(LONGEST_TABLE));
        let mut window = Window::new(&*self.bytes, 1 << 20);
        let mut at = start;
        while at < end {
            let view = window.at(
                at,
                layout::FUNCTION_HEAD + 2 * usize::from(u16::MAX) + 8,
                end,
            )?;
            let Some((function, size)) = layout::decode_function(view) else {
                let what = format!(
                    "the table of functions is damaged here; {} of its functions keep their names",
                    self.functions.len()
                );
                self.diagnostics.push(Diagnostic { offset: at, what });
                break;
            };
            self.functions.push(function);
            at += size as u64;
        }
        self.functions.sort_by_key(|function| function.id);
        self.functions.dedup_by_key(|function| function.id);
        Ok(())
    }
}

/// Whether the head's numbers can be a ring's.
fn check(header: &Header) -> Result<(), Error> {
    let chunks = header.region_size / CHUNK as u64;
    let wrong = |offset: u64, what: &str| {
        let what = format!("{what}: the file is damaged, or was never finished");
        Err(Error::format(offset, what))
    };
    if !header.region_size.is_multiple_of(CHUNK as u64)
        || !(2..=LARGEST_REGION / CHUNK as u64).contains(&chunks)
    {
        return wrong(64, "a region has a size that none has");
    }
    let least = SLOT_SIZE as u64 + chunks * MARK_SIZE as u64;
    if header.slot_stride < least || header.slot_stride > 2 * least {
        return wrong(32, "slots are too near or too far from one another");
    }
    if header.capacity > MOST_SLOTS || header.made > header.capacity {
        return wrong(72, "there are more slots than a ring has");
    }
    if header.functions < HEADER_SIZE as u64 || header.functions_length > LONGEST_TABLE {
        return wrong(40, "the table of functions is where none can be");
    }
    Ok(())
}

/// The clocks, as the recorder counts them.
fn clock_name(kind: u32) -> &'static str {
    match kind {
        0 => "rdtscp",
        1 => "rdtsc + rdpid",
        2 => "rdtsc + rseq",
        3 => "cntvct_el0",
        4 => "clock_gettime(CLOCK_MONOTONIC_RAW)",
        _ => "",
    }
}
