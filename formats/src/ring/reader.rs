//! A whole ring file, and its way into a trace: [`Ring`].

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::mem::{self, offset_of};

use super::copy::{Copy, SlotContent};
use super::file_slot::FileSlot;
use super::layout::{
    self, CHUNK, Crash, HEADER_SIZE, Header, MARK_SIZE, OPEN_CALLS_SIZE, SLOT_SIZE,
};
use super::{moments, schedule_reader, totals};
use crate::bytes::{FileBytes, ReadAt, Window};
use crate::error::{Diagnostic, Error};
use crate::format::Opened;
use crate::model::{
    Counts, Function, FunctionTotals, Identity, Missing, Thread, ThreadId, Ticks, TraceInfo,
};
use crate::temporary;
use crate::xray::{DumpSummary, DumpWriter, Version, XraySource};

/// More slots than that no ring has.
const MAX_SLOTS: u32 = 1 << 16;
/// A larger region no ring has, bytes.
const MAX_REGION: u64 = 1 << 36;
/// Longer tables of functions no ring has, bytes.
const MAX_TABLE: u64 = 64 << 20;

/// Opens a ring file as a trace, for the reason that the caller knows: `killed`, `snapshot`. Where its
/// process runs, `now` is as for [`Ring::lasts_until`]. The ring is copied once, because its process may go on
/// recording: offsets of records are those of the copy.
///
/// # Errors
/// As [`Ring::write`].
pub fn open_source(bytes: Box<dyn ReadAt>, reason: &str, now: Option<u64>) -> Opened {
    let mut ring = Ring::open(bytes)?;
    ring.now = now;
    let info = ring.take_info(reason);
    let (file, mut copied) = ring.to_file(&info, &|_| u64::MAX)?;
    // The copy has it, too.
    drop(info);
    let mut copy = XraySource::open(Box::new(FileBytes::new(file)?))?;
    let process = ring.process();
    let mut diagnostics = ring.diagnostics;
    diagnostics.append(&mut copied.diagnostics);
    copy.is_copy_of(&format!("ring of process {process}"), diagnostics);
    Ok(Box::new(copy))
}

/// The number of records of threads without a region, as the counters of the CPUs have it. The counters take
/// `size` bytes.
fn counted(bytes: &dyn ReadAt, size: usize) -> Result<u64, Error> {
    const PIECE: usize = 1024;
    let mut counted = 0_u64;
    for at in (0..size).step_by(PIECE) {
        let mut piece = [0; PIECE];
        let piece = &mut piece[..PIECE.min(size - at)];
        let count = bytes.read_at((layout::COUNTERS_AT + at) as u64, piece)?;
        counted = counted.saturating_add(layout::sum_of_counters(&piece[..count]));
    }
    Ok(counted)
}

/// A ring file.
pub struct Ring {
    pub(super) bytes: Box<dyn ReadAt>,
    pub(super) header: Header,
    pub(super) functions: Vec<Function>,
    diagnostics: Vec<Diagnostic>,
    /// The time that [`Ring::lasts_until`] has set.
    pub(super) now: Option<u64>,
}

impl Ring {
    /// Reads the head and the table of functions.
    ///
    /// # Errors
    /// Where the file can't be read, is no ring, or its head makes no sense.
    pub fn open(bytes: Box<dyn ReadAt>) -> Result<Ring, Error> {
        let mut head = [0; HEADER_SIZE];
        let count = bytes.read_at(0, &mut head)?;
        let header = Header::decode(&head[..count]);
        let mut header = header.ok_or_else(|| match head.starts_with(&layout::MAGIC) {
            true => Error::format(count as u64, "the ring file ends within its head"),
            false => Error::format(0, "not the head of a ring file"),
        })?;
        check(&header)?;
        let counted = counted(&*bytes, header.counters())?;
        header.missing_dropped = header.missing_dropped.saturating_add(counted);
        if let Some(crash) = header.crash() {
            if crash.was_survived(&*bytes, &header)? {
                header.crash_signal = 0;
            }
        }
        let mut ring = Ring {
            bytes,
            header,
            functions: Vec::new(),
            diagnostics: Vec::new(),
            now: None,
        };
        ring.read_functions()?;
        // A process that was killed while it made the ring has no times.
        if header.frequency == 0 && header.made > 0 {
            let what = "the clock's rate is not known: times are as if it were 1 GHz";
            let (offset, what) = (offset_of!(Header, frequency) as u64, what.into());
            ring.diagnostics.push(Diagnostic { offset, what });
        }
        Ok(ring)
    }

    /// The id of the process that records or recorded, in its own namespace.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.header.pid
    }

    /// The program's name; empty where the file has none.
    #[must_use]
    pub fn program(&self) -> String {
        self.header.program()
    }

    /// The identity of the recording. Empty: the file has none, or it can't be read.
    #[must_use]
    pub fn identity(&self) -> Identity {
        let mut texts = [0; layout::IDENTITY_SIZE];
        let count = match self.header.identity {
            0 => 0,
            at => self.bytes.read_at(at, &mut texts).unwrap_or(0),
        };
        Identity::from_bytes(texts.get(..count).unwrap_or(&[]))
    }

    /// Unix time at the start of the recording, in ns.
    #[must_use]
    pub fn started(&self) -> u64 {
        self.header.start_realtime
    }

    /// The crash that the process noted, unless the crashed thread continued to record.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        self.header.crash()
    }

    /// The damage that was found at opening.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The facts that a trace of the ring states about itself. Its reason is the crash if the process crashed,
    /// else the caller's `reason`. The functions are moved out of the ring, because there may be many.
    #[must_use]
    pub fn take_info(&mut self, reason: &str) -> TraceInfo {
        let functions = mem::take(&mut self.functions);
        let end = self.end();
        let header = &self.header;
        let start = Ticks(header.start_ticks);
        let crash = header.crash().map(|crash| crash.to_string());
        TraceInfo {
            clock: self.clock(),
            functions,
            program: self.program(),
            identity: self.identity(),
            moments: moments::read(&*self.bytes, header.control),
            schedule: schedule_reader::schedule(&*self.bytes, header),
            process: Some(header.pid.into()),
            reason: crash.unwrap_or_else(|| reason.to_owned()),
            missing: Missing {
                threads: header.missing_threads,
                overwritten: header.missing_overwritten,
                dropped: header.missing_dropped,
            },
            missing_totals: totals::read(&*self.bytes, header, header.capacity).unwrap_or_default(),
            recording_cost: totals::cost(&*self.bytes, header, header.capacity).unwrap_or_default(),
            start: Some(start),
            end,
            ..TraceInfo::default()
        }
    }

    /// How many threads have records in the file, and how many records they made.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub fn census(&self) -> Result<(u64, u64), Error> {
        let (mut threads, mut records) = (0, 0u64);
        let mut copy = Copy::default();
        for index in 0..self.count_slots()? {
            let found = copy.take(&*self.bytes, &self.header, index, 1)?;
            if found == SlotContent::CutOff {
                break;
            }
            if found == SlotContent::Thread && copy.counts.recorded > 0 {
                threads += 1;
                records = records.saturating_add(copy.counts.recorded);
            }
        }
        Ok((threads, records))
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
    ) -> Result<Copied, Error> {
        self.write_newest(out, version, info, &|_| u64::MAX)
    }

    /// As [`Ring::write`], with at most `most(slot)` of the newest chunks of each slot.
    fn write_newest<W: Read + Write + Seek>(
        &self,
        out: W,
        version: Version,
        info: &TraceInfo,
        most: &dyn Fn(u32) -> u64,
    ) -> Result<Copied, Error> {
        let mut copied = Copied::default();
        let mut writer = DumpWriter::new(out, version, info)?;
        let mut copy = Copy::default();
        let mut moved = Moved::new(self)?;
        for index in 0..self.count_slots()? {
            let found = copy.take(&*self.bytes, &self.header, index, most(index))?;
            moved.look(index, found, &copy.slot);
            match found {
                SlotContent::Thread => {
                    copied.diagnostics.extend(copy.damage());
                }
                SlotContent::Nobody => continue,
                SlotContent::Changing => {
                    copied.moved += 1;
                    continue;
                }
                SlotContent::Damaged => {
                    let what = "a slot in a state that none has: its thread is left out";
                    copied.diagnostics.push(self.about_slot(index, what));
                    continue;
                }
                SlotContent::Unowned => {
                    let what = "a slot has records, and its state says that it is nobody's (damaged, or \
                                the process ended as it gave it away): they are left out";
                    copied.diagnostics.push(self.about_slot(index, what));
                    continue;
                }
                SlotContent::CutOff => {
                    let what = "the file ends here, and there were more threads";
                    copied.diagnostics.push(self.about_slot(index, what));
                    break;
                }
            }
            let totals = self.totals(index, &copy.slot)?;
            // It may have calls that are only counted.
            if copy.counts.recorded == 0 && totals.is_empty() {
                continue;
            }
            let thread = Thread {
                id: ThreadId(copy.slot.tid.into()),
                process: info.process,
                name: copy.slot.name(),
                counts: Some(copy.counts),
                totals,
                early_calls: copy.early_calls(),
            };
            let (chunks, gaps) = copy.chunks();
            let ended = copy.slot.state == layout::ENDED;
            writer.thread_with_gaps(&thread, &chunks, &gaps, ended)?;
            copied.add(&copy.counts);
        }
        copied.moved += moved.count;
        copied.dump = writer.finish()?;
        Ok(copied)
    }

    /// The trace of [`Ring::write`] in a temporary file, opened.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn to_trace(&self, info: &TraceInfo) -> Result<(XraySource, Copied), Error> {
        self.newest_to_trace(info, &|_| u64::MAX)
    }

    /// As [`Ring::to_trace`], with at most `most(slot)` of the newest chunks of each slot.
    ///
    /// # Errors
    /// As [`Ring::write`].
    pub fn newest_to_trace(
        &self,
        info: &TraceInfo,
        most: &dyn Fn(u32) -> u64,
    ) -> Result<(XraySource, Copied), Error> {
        let (file, copied) = self.to_file(info, most)?;
        let source = XraySource::open(Box::new(FileBytes::new(file)?))?;
        Ok((source, copied))
    }

    /// Writes the trace to a temporary file, and does not open it.
    fn to_file(
        &self,
        info: &TraceInfo,
        most: &dyn Fn(u32) -> u64,
    ) -> Result<(File, Copied), Error> {
        let file = temporary::unlinked()?;
        let copied = self.write_newest(&file, Version::V3, info, most);
        let copied = copied.map_err(|error| match error {
            // The ring is only read.
            Error::Io(full) if full.kind() == io::ErrorKind::StorageFull => {
                Error::Io(temporary::about(full))
            }
            other => other,
        })?;
        Ok((file, copied))
    }

    /// The totals of a slot's owner. Empty if the slot has another owner by now.
    fn totals(&self, index: u32, slot: &layout::Slot) -> io::Result<Vec<FunctionTotals>> {
        let totals = totals::read(&*self.bytes, &self.header, index)?;
        let now = FileSlot::new(&*self.bytes, &self.header, index).slot()?;
        let is_same = now.generation == slot.generation;
        Ok(totals).map(|totals| if is_same { totals } else { Vec::new() })
    }

    /// Slots that were made by now: a process that runs makes more.
    pub(super) fn count_slots(&self) -> io::Result<u32> {
        let mut head = [0; HEADER_SIZE];
        let count = self.bytes.read_at(0, &mut head)?;
        let now = Header::decode(&head[..count]);
        let made = now.map_or(self.header.made, |now| now.made);
        Ok(made.min(self.header.capacity))
    }

    fn about_slot(&self, index: u32, what: &str) -> Diagnostic {
        let slots = u64::from(index).saturating_mul(self.header.slot_stride);
        Diagnostic {
            offset: self.header.slots.saturating_add(slots),
            what: what.into(),
        }
    }

    fn read_functions(&mut self) -> Result<(), Error> {
        let Header {
            functions: start,
            functions_length,
            ..
        } = self.header;
        let end = start.saturating_add(functions_length.min(MAX_TABLE));
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

/// The result of a copy of a ring.
#[derive(Clone, Debug, Default)]
pub struct Copied {
    /// The trace.
    pub dump: DumpSummary,
    /// The counts of all threads in the trace.
    pub counts: Counts,
    /// The damage that was found, with offsets in the ring.
    pub diagnostics: Vec<Diagnostic>,
    /// Threads that ended while the ring was copied, and whose space a newer thread got before it was copied.
    /// They are neither in the trace nor in its counts.
    pub moved: u64,
}

impl Copied {
    fn add(&mut self, more: &Counts) {
        let counts = &mut self.counts;
        for (sum, more) in [
            (&mut counts.recorded, more.recorded),
            (&mut counts.readable, more.readable),
            (&mut counts.overwritten, more.overwritten),
            (&mut counts.dropped, more.dropped),
        ] {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Slots that get another owner between the head's counts and the copy.
struct Moved {
    /// The generation of each slot at the beginning; 0 if the slot had no owner yet.
    generations: Vec<u64>,
    count: u64,
}

impl Moved {
    fn new(ring: &Ring) -> io::Result<Moved> {
        let mut generations = Vec::new();
        for index in 0..ring.header.made {
            let slots = u64::from(index).saturating_mul(ring.header.slot_stride);
            let mut slot = [0; SLOT_SIZE];
            let offset = ring.header.slots.saturating_add(slots);
            let count = ring.bytes.read_at(offset, &mut slot)?;
            let Some(slot) = layout::Slot::decode(&slot[..count]) else {
                break;
            };
            generations.push(slot.generation);
        }
        Ok(Moved {
            generations,
            count: 0,
        })
    }

    fn look(&mut self, index: u32, found: SlotContent, slot: &layout::Slot) {
        let before = self.generations.get(index as usize).copied();
        let (Some(before @ 1..), SlotContent::Thread) = (before, found) else {
            return;
        };
        let owners = slot.generation.saturating_sub(before);
        self.count = self.count.saturating_add(owners);
    }
}

/// Whether the head's numbers can be a ring's.
fn check(header: &Header) -> Result<(), Error> {
    let chunks = header.region_size / CHUNK as u64;
    let wrong = |offset: usize, what: &str| {
        let what = format!("{what}: the file is damaged, or was never finished");
        Err(Error::format(offset as u64, what))
    };
    if header.region_size % (CHUNK as u64) != 0
        || !(2..=MAX_REGION / CHUNK as u64).contains(&chunks)
    {
        return wrong(
            offset_of!(Header, region_size),
            "a region has a size that none has",
        );
    }
    let least = SLOT_SIZE as u64 + chunks * MARK_SIZE as u64;
    let open_calls = header.open_calls;
    if open_calls > 0 && !(least..=2 * least).contains(&open_calls) {
        return wrong(
            offset_of!(Header, open_calls),
            "the open calls of a slot are too near or too far from it",
        );
    }
    let (least, most) = match open_calls {
        0 => (least, 2 * least),
        at => (
            at + OPEN_CALLS_SIZE as u64,
            2 * (at + OPEN_CALLS_SIZE as u64),
        ),
    };
    if header.slot_stride < least || header.slot_stride > most {
        return wrong(
            offset_of!(Header, slot_stride),
            "slots are too near or too far from one another",
        );
    }
    if header.capacity > MAX_SLOTS || header.made > header.capacity {
        return wrong(
            offset_of!(Header, capacity),
            "there are more slots than a ring has",
        );
    }
    if header.functions < HEADER_SIZE as u64 || header.functions_length > MAX_TABLE {
        return wrong(
            offset_of!(Header, functions),
            "the table of functions is where none can be",
        );
    }
    Ok(())
}
