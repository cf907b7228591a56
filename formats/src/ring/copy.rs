//! Copies one thread's records out of a ring file, whether its process lives or not. This is the reader's half of the
//! recorder's protocol. Chunks are copied from the newest to the oldest. The first chunk that was overwritten meanwhile
//! ends the copy. So the copy is the unbroken run of records up to the moment at which it began. A killed process is
//! one that stopped at some point of the protocol.
//!
//! The reader uses `pread`, which is no atomic load. So bytes that are copied beside a writer may be a
//! mixture. The reader relies on the order of its calls (an Acquire fence stands between them) and on three
//! facts:
//! - The chunk's number is read, then the cursor, then the bytes below it, then the number again. Bytes
//!   below a cursor change only after the chunk's number did.
//! - A cursor only grows within a chunk. It is read twice, and the lower value counts. A value that was
//!   read in two halves may be too high; the second reading is not.
//! - A slot is read three times around its owner's generation, and once more after the copy.
//!
//! Each chunk must also be one of this thread's, and hold nothing but records. Damaged bytes are left out,
//! reported, and counted as dropped.

use std::io;
use std::sync::atomic::{Ordering, fence};

use super::file_slot::{FileSlot, cut_off};
use super::layout::{CHUNK, ENDED, Header, LIVE, Slot};
use super::open_calls::OpenCalls;
use super::walk::{PREAMBLE, opened_at, walk};
use crate::bytes::ReadAt;
use crate::error::Diagnostic;
use crate::model::{Counts, EarlyCall, FunctionId, Ticks};
use crate::xray;

/// The number of attempts to copy beside a thread that overwrites the chunks, or while the slot changes
/// owners.
const MAX_TRIES: u32 = 16;

/// How often the newest chunk is copied until it and the open calls are of one moment.
const MAX_NEWEST_COPIES: u32 = 4;

/// The content of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotContent {
    /// No records: no thread owns the slot.
    Nobody,
    /// The records of a thread. There are none if they were overwritten faster than they could be read.
    Thread,
    /// The slot had another owner at each look.
    Changing,
    /// A state that no slot has.
    Damaged,
    /// There are records, but the state of the slot says that it has no owner.
    Unowned,
    /// The file ends before the slot does.
    CutOff,
}

/// A copied chunk.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// The place of its bytes in the copy, and the number of bytes that are records.
    start: usize,
    length: usize,
    /// Function records that the thread had made before it, and the records in it.
    first: u64,
    records: u64,
    /// The function records that seem to have been behind them, if the chunk is the newest.
    behind: u64,
}

/// A buffer for copies, used again for each thread.
#[derive(Debug, Default)]
pub(super) struct Copy {
    bytes: Vec<u8>,
    /// Newest first.
    parts: Vec<Part>,
    /// The thread's open calls, copied before its newest chunk and again after it. Empty if the slot has none.
    open: [Vec<u8>; 2],
    /// The slot's cursor at these moments.
    cursors: [u64; 2],
    /// The thread published nothing between the two copies.
    is_exact: bool,
    /// The thread had opened a later chunk when its open calls were copied. So open calls without an entry in a chunk
    /// come after records that are not in the copy.
    is_later: bool,
    /// The slot of these records.
    pub(super) slot: Slot,
    /// The counts of recorded, readable and lost records.
    pub(super) counts: Counts,
    /// The first fault, in the order of copying, and the number of chunks with faults.
    wrong: Option<Diagnostic>,
    wrong_chunks: u64,
}

impl Copy {
    /// Copies the slot with that index, or only this many of its newest chunks.
    pub(super) fn take(
        &mut self,
        bytes: &dyn ReadAt,
        header: &Header,
        index: u32,
        most: u64,
    ) -> io::Result<SlotContent> {
        let mut place = FileSlot::new(bytes, header, index);
        let (mut found, mut before) = (SlotContent::Changing, None);
        for _ in 0..MAX_TRIES {
            self.clear();
            let Some(slot) = place.settled()? else {
                found = SlotContent::Changing;
                continue;
            };
            // Also for a dead owner, because its chunks are still in place.
            place.chunks = place.round(&slot)?;
            match unowned(&place, &slot)? {
                None => {}
                // It may be about to be given away.
                Some(SlotContent::Unowned) => {
                    found = SlotContent::Unowned;
                    continue;
                }
                Some(other) => return Ok(other),
            }
            self.slot = slot;
            self.check_slot(&place);
            let whole = self.chunks_of(&place, slot.chunk, most)?;
            let is_behind = place.is_behind(&slot)?;
            let now = place.slot()?;
            if now.generation != slot.generation {
                found = SlotContent::Changing;
            } else if whole && !(is_behind && now == slot) {
                self.count();
                self.append_open();
                return Ok(SlotContent::Thread);
            } else if now == slot && before == Some(slot) {
                return self.mend(&place, most);
            } else {
                found = SlotContent::Thread;
                before = Some(slot);
            }
        }
        if found == SlotContent::Thread {
            self.clear();
            self.count_without(&place)?;
        }
        Ok(found)
    }

    /// Copies the slot of a thread that has stopped, if the slot does not name its newest chunk.
    fn mend(&mut self, place: &FileSlot<'_>, most: u64) -> io::Result<SlotContent> {
        self.clear();
        self.check_slot(place);
        let Some(newest) = place.newest(&self.slot)? else {
            let what = "the number of its newest chunk is damaged, and no chunk has one";
            self.complain(place.offset() + 40, what);
            self.count_without(place)?;
            return Ok(SlotContent::Thread);
        };
        if newest.marked == newest.number {
            let what = "the number of its newest chunk is damaged; the chunks tell which it is";
            self.complain(place.offset() + 40, what);
        } else {
            let what = "the newest chunk's number is damaged; the slot tells which it is";
            self.complain(place.mark_offset(newest.number), what);
        }
        self.slot.chunk = newest.number;
        if self.chunks_of(place, newest.marked, most)? {
            self.count();
        } else {
            self.count_without(place)?;
        }
        Ok(SlotContent::Thread)
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.parts.clear();
        self.counts = Counts::default();
        self.wrong = None;
        self.wrong_chunks = 0;
    }

    /// The copied chunks with records, oldest first. Also the number of records that are missing before
    /// each of them and after the previous one.
    pub(super) fn chunks(&self) -> (Vec<&[u8]>, Vec<u64>) {
        let (mut chunks, mut gaps) = (Vec::new(), Vec::new());
        let mut next = None;
        for part in self.parts.iter().rev().filter(|part| part.length > 0) {
            let gap = next.map_or(0, |next| part.first.saturating_sub(next));
            let bytes = self.bytes.get(part.start..part.start + part.length);
            chunks.push(bytes.unwrap_or(&[]));
            gaps.push(gap);
            next = Some(part.first.saturating_add(part.records));
        }
        (chunks, gaps)
    }

    /// The calls that began before the oldest of these chunks and are still open. Empty if the open calls are not known.
    pub(super) fn early_calls(&self) -> Vec<EarlyCall> {
        let [before, after] = [0, 1].map(|at| OpenCalls::decode(&self.open[at], self.cursors[at]));
        let oldest = self.parts.iter().rev().find(|part| part.length > 0);
        let (Some(before), Some(after), Some(oldest)) = (before, after, oldest) else {
            return Vec::new();
        };
        let chunk = self.bytes.get(oldest.start..).unwrap_or_default();
        let first = opened_at(chunk, self.slot.tid).unwrap_or_default();
        let calls = before.lasting(&after).early(first);
        let calls = calls.map(|(function, begin)| EarlyCall {
            function: FunctionId(function),
            begin: Ticks(begin),
        });
        calls.collect()
    }

    /// The faults of the copy, in one line.
    pub(super) fn damage(&self) -> Option<Diagnostic> {
        let first = self.wrong.clone()?;
        let more = match self.wrong_chunks.saturating_sub(1) {
            0 => String::new(),
            1 => ", and 1 more chunk like this".to_owned(),
            more => format!(", and {more} more chunks like this"),
        };
        let what = format!("thread {}: {}{more}", self.slot.tid, first.what);
        Some(Diagnostic { what, ..first })
    }

    fn complain(&mut self, offset: u64, what: impl Into<String>) {
        let what = what.into();
        self.wrong.get_or_insert(Diagnostic { offset, what });
        self.wrong_chunks += 1;
    }

    fn check_slot(&mut self, place: &FileSlot<'_>) {
        let base = place.header.base.wrapping_add(place.region());
        if self.slot.base != base || self.slot.chunks != place.chunks {
            let what = "the slot says that its chunks are where they can't be; those of its place \
                        were taken";
            self.complain(place.offset() + 24, what);
        }
    }

    /// The counts of the copy. The sums are right whatever the file states.
    fn count(&mut self) {
        let (newest, oldest) = (self.parts.first(), self.parts.last());
        let readable = self.parts.iter().map(|part| part.records).sum();
        let overwritten = oldest.map_or(0, |part| part.first);
        let end = |part: &Part| {
            let behind = part.records + part.behind;
            part.first.saturating_add(behind)
        };
        let committed = newest
            .map_or(0, end)
            .max(overwritten.saturating_add(readable));
        let lost = committed
            .saturating_sub(overwritten)
            .saturating_sub(readable);
        let dropped = self.slot.dropped;
        self.counts = Counts {
            recorded: committed.saturating_add(dropped),
            readable,
            overwritten,
            dropped: dropped.saturating_add(lost),
            ..Counts::default()
        };
    }

    /// Appends the entries that open calls have not yet published to the newest chunk.
    fn append_open(&mut self) {
        let [before, after] = [0, 1].map(|at| OpenCalls::decode(&self.open[at], self.cursors[at]));
        let (Some(before), Some(after), Some(&newest)) = (before, after, self.parts.first()) else {
            return;
        };
        let open = before.lasting(&after);
        if self.is_later {
            return self.count_short(open.summarised);
        }
        let (start, from) = (self.bytes.len(), newest.start);
        self.bytes.extend_from_within(from..from + newest.length);
        let last = xray::latest(&self.bytes[start..]).map_or(0, |last| last.0);
        let bytes = &mut self.bytes;
        open.records(last, self.is_exact, |record| {
            bytes.extend_from_slice(record)
        });
        let entries = open.unpublished() as u64;
        self.parts[0] = Part {
            start,
            length: self.bytes.len() - start,
            records: newest.records.saturating_add(entries),
            ..newest
        };
        self.counts.readable = self.counts.readable.saturating_add(entries);
        self.counts.recorded = self.counts.recorded.saturating_add(entries);
        self.count_short(open.summarised);
    }

    /// Counts the records that short calls did not leave.
    fn count_short(&mut self, calls: u64) {
        let summarised = calls.saturating_mul(2);
        self.counts.summarised = summarised;
        self.counts.recorded = self.counts.recorded.saturating_add(summarised);
    }

    /// The counts if the thread overwrites its chunks faster than they are copied. All records but the
    /// newest chunk's are known to have been made, and none could be copied.
    fn count_without(&mut self, place: &FileSlot<'_>) -> io::Result<()> {
        let slot = place.slot()?;
        let first = place.mark(slot.chunk.max(1))?.first;
        self.counts = Counts {
            recorded: first.saturating_add(slot.dropped),
            overwritten: first,
            dropped: slot.dropped,
            ..Counts::default()
        };
        Ok(())
    }

    /// False if even the newest chunk, with the mark `marked`, was overwritten meanwhile.
    fn chunks_of(&mut self, place: &FileSlot<'_>, marked: u64, most: u64) -> io::Result<bool> {
        let newest = self.slot.chunk;
        let oldest = newest.saturating_sub(place.chunks.min(most));
        for number in (oldest..newest).rev().map(|before| before + 1) {
            let marked = if number == newest { marked } else { number };
            let part = match number == newest {
                true => self.newest_chunk(place, number, marked)?,
                false => self.chunk(place, number, marked)?,
            };
            let Some(part) = part else {
                self.check_missing(place, number)?;
                break;
            };
            self.parts.push(part);
        }
        Ok(newest == 0 || !self.parts.is_empty())
    }

    /// Reports a missing chunk that can't have been overwritten yet.
    fn check_missing(&mut self, place: &FileSlot<'_>, number: u64) -> io::Result<()> {
        let there = place.mark(number)?.number;
        let now = place.slot()?;
        let opened = now.chunk.max(self.slot.chunk).saturating_add(1);
        // The thread may have got no more space meanwhile, and started again at its first chunk.
        let chunks = place.round(&now)?;
        // During overwriting the number is 0, and then a later number of this place.
        let later = there > number && (there - number).checked_rem(chunks) == Some(0);
        let fits = there == 0 || (later && there <= opened);
        if !fits || number.saturating_add(chunks) > opened {
            let what = "a chunk is not there, nor what was before it: its number is another one";
            self.complain(place.mark_offset(number), what);
        }
        Ok(())
    }

    /// Copies the newest chunk, and the open calls at the same moment if the thread does not publish too fast.
    fn newest_chunk(
        &mut self,
        place: &FileSlot<'_>,
        number: u64,
        marked: u64,
    ) -> io::Result<Option<Part>> {
        let mut tries = 0;
        loop {
            place.open_calls(&mut self.open[0])?;
            self.cursors[0] = place.slot()?.cursor;
            let (bytes, wrong) = (self.bytes.len(), (self.wrong.clone(), self.wrong_chunks));
            let part = self.chunk(place, number, marked)?;
            place.open_calls(&mut self.open[1])?;
            let now = place.slot()?;
            self.cursors[1] = now.cursor;
            self.is_exact = now.cursor == self.cursors[0];
            self.is_later = now.chunk != self.slot.chunk;
            tries += 1;
            let is_last = tries == MAX_NEWEST_COPIES || self.is_later;
            if self.is_exact || part.is_none() || self.open[0].is_empty() || is_last {
                return Ok(part);
            }
            self.bytes.truncate(bytes);
            (self.wrong, self.wrong_chunks) = wrong;
        }
    }

    /// Copies one chunk behind the others. `None`: it was overwritten meanwhile.
    fn chunk(
        &mut self,
        place: &FileSlot<'_>,
        number: u64,
        marked: u64,
    ) -> io::Result<Option<Part>> {
        let mark = place.mark(number)?;
        if mark.number != marked {
            return Ok(None);
        }
        let used = match place.up_to_cursor(&self.slot, number)? {
            Some(used) => Some(used),
            None => Some(place.mark(number)?.end),
        };
        let used = used.filter(|used| (PREAMBLE..=CHUNK as u64).contains(used));
        let start = self.bytes.len();
        self.bytes.resize(start + CHUNK, 0);
        let offset = place.region().saturating_add(place.within(number));
        let wanted = used.map_or(CHUNK, |used| used as usize);
        let target = &mut self.bytes[start..start + wanted];
        let got = place.bytes.read_at(offset, target)?;
        fence(Ordering::Acquire);
        let after = place.mark(number)?;
        if after.number != marked || after.first != mark.first {
            self.bytes.truncate(start);
            return Ok(None);
        }
        let part = self.examine(number, offset, (start, got), used, mark.first);
        // Bytes that are no records take no memory.
        self.bytes.truncate(start + part.length);
        Ok(Some(part))
    }

    /// The valid part of a copied chunk: `got` bytes from `start` of the copy on. The file may not state
    /// `used`.
    fn examine(
        &mut self,
        number: u64,
        offset: u64,
        (start, got): (usize, usize),
        used: Option<u64>,
        first: u64,
    ) -> Part {
        let newest = number == self.slot.chunk;
        // The next chunk states the number of its records. Without a next chunk, its end is unknown.
        let expected = (self.parts.last()).map(|next| next.first.saturating_sub(first));
        let bytes = self.bytes.get(start..start + got).unwrap_or(&[]);
        let limit = match used {
            Some(_) => u64::MAX,
            None if newest => 0,
            None => expected.unwrap_or(0),
        };
        let walked = walk(bytes, self.slot.tid, limit);
        let mut part = Part {
            start,
            length: walked.bytes,
            first,
            records: walked.records,
            behind: 0,
        };
        let at = offset.saturating_add(walked.bytes as u64);
        match used {
            None => self.complain(offset, "a chunk whose end is not known"),
            Some(used) if (walked.bytes as u64) < used => {
                let left = used - (walked.bytes as u64).max(PREAMBLE);
                part.behind = if newest { left / 8 } else { 0 };
                let rest = self.bytes.get(start + walked.bytes..start + got);
                let what = match rest.unwrap_or(&[]) {
                    _ if got == 0 => {
                        "the file ends before this chunk's records: there was no space for them on \
                         the disk, and only the process has them in memory, or the file was cut off"
                    }
                    // The last bytes may be a part of a record.
                    rest if (got as u64) < used && rest.len() < 16 => {
                        "the file ends here, and its records do not"
                    }
                    rest if rest.iter().all(|&byte| byte == 0) => {
                        "zeros instead of records: there was no space for them on the disk, and \
                         only the process has them in memory, or the file is damaged"
                    }
                    _ => "no record of this thread's: the file is damaged",
                };
                self.complain(at, what);
            }
            Some(_) if expected.is_some_and(|expected| expected != walked.records) => {
                self.complain(at, "the counts of records do not fit what is there");
            }
            Some(_) => {}
        }
        part
    }
}

/// The state of a slot without an owner; `None` if it has an owner.
fn unowned(place: &FileSlot<'_>, slot: &Slot) -> io::Result<Option<SlotContent>> {
    Ok(match slot.state {
        LIVE | ENDED => None,
        _ if *slot == cut_off() => Some(SlotContent::CutOff),
        // A slot that was given back has never had a chunk.
        ..LIVE if slot.generation > 0 && slot.chunk > 0 => {
            let is_there = place.mark(slot.chunk)?.number == slot.chunk;
            Some(if is_there {
                SlotContent::Unowned
            } else {
                SlotContent::Nobody
            })
        }
        ..LIVE => Some(SlotContent::Nobody),
        _ => Some(SlotContent::Damaged),
    })
}
