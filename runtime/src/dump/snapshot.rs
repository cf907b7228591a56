//! Copies one thread's records out of the ring while the thread goes on recording.
//!
//! The copy follows the reader's part of the protocol at the head of `recorder::chunk_writer`. It copies the chunks
//! from the newest to the oldest. It stops at the first chunk that was overwritten meanwhile, or that holds
//! zeros. So the copy must always be an unbroken run of records that ends when the copy began.
//!
//! Async-signal-safe in a buffer that [`Snapshot::new`] made, because that buffer never grows.

use fdr_formats::model::EarlyCall;
use fdr_formats::ring::open_calls;
use fdr_formats::{FunctionId, Ticks};

use crate::primitive::{Ordering, fence};
use crate::ring::counts::{Counts, Owner, count, used, used_at};
use crate::ring::layout::{CHUNK, FRAMES, OpenCalls, Slot, state};
use crate::ring::open_calls::SIZE;
use crate::ring::record::{self, PAIR, PREAMBLE, SINGLE};
use crate::ring::{self, chunk};

/// Offset of the first record's tick in a chunk: in its `NewCPUId`.
const CHUNK_TICK: usize = 35;

/// How often a copy is tried while the slot changes its owner, or the thread overwrites its newest chunk.
const MAX_COPIES: u32 = if cfg!(loom) { 1 } else { 16 };

/// A buffer for copies. It is used again for each thread.
#[derive(Default)]
pub(crate) struct Snapshot {
    /// Copied chunks, newest first, CHUNK bytes each. Behind the newest one is room for the records of open
    /// calls. Behind all of them are the bytes of earlier copies.
    bytes: Vec<u8>,
    /// Used bytes of each copied chunk.
    used: Vec<usize>,
    /// The thread's open calls, and the slot's cursor at the same moment. `None`: they were not copied.
    open: Vec<u8>,
    cursor: Option<u64>,
    /// The calls that began before the oldest copied record and have not ended, the outermost first.
    pub(crate) early_calls: Vec<EarlyCall>,
    pub(crate) counts: Counts,
    pub(crate) owner: Owner,
    /// Whether a chunk had zeros in the place of records: the file was cut short, and then made longer again.
    pub(crate) has_zeros: bool,
}

/// Why a chunk is not in a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotCopied {
    /// The chunk was overwritten meanwhile.
    Overwritten,
    /// Zeros are in the place of the chunk's records. `behind`: how many function records the thread had made up to
    /// the end of this chunk, if the zeros stand for function records only.
    Zeros { behind: u64 },
}

impl Snapshot {
    /// A buffer for a region of `region_size` bytes. `None` if there is no memory. The allocation may fail
    /// without ending the program.
    pub(crate) fn new(region_size: usize) -> Option<Snapshot> {
        let mut snapshot = Snapshot::default();
        let size = region_size + open_calls::MAX_BYTES;
        snapshot.bytes.try_reserve_exact(size).ok()?;
        snapshot.open.try_reserve_exact(SIZE).ok()?;
        snapshot.early_calls.try_reserve_exact(FRAMES).ok()?;
        let chunks = region_size / CHUNK;
        snapshot.used.try_reserve_exact(chunks).ok()?;
        Some(snapshot)
    }

    /// A buffer whose bytes are there already. To make them one by one is what takes longest under Miri.
    #[cfg(test)]
    pub(crate) fn with_bytes(chunks: usize) -> Snapshot {
        Snapshot {
            bytes: vec![0; place_of(chunks)],
            open: vec![0; SIZE],
            ..Snapshot::default()
        }
    }

    /// Copies the slot's records, or only its counts if the thread overwrites its chunks faster than they are
    /// copied. False if the slot has no owner or changes its owner too often.
    pub(crate) fn take(&mut self, slot: &Slot) -> bool {
        self.take_while(slot, &|| true)
    }

    /// Copies the slot's records. Once `on` returns false, older chunks are left out and count as overwritten.
    pub(crate) fn take_while(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> bool {
        // Counts have models of their own.
        (0..MAX_COPIES).any(|_| self.try_take(slot, on)) || (!cfg!(loom) && self.take_counts(slot))
    }

    /// No record can be copied, so all of them count as overwritten.
    fn take_counts(&mut self, slot: &Slot) -> bool {
        let Some((owner, counts)) = count(slot) else {
            return false;
        };
        self.used.clear();
        self.early_calls.clear();
        self.owner = owner;
        self.counts = Counts {
            readable: 0,
            overwritten: counts.overwritten + counts.readable,
            ..counts
        };
        true
    }

    fn try_take(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> bool {
        self.used.clear();
        self.early_calls.clear();
        self.counts = Counts::default();
        self.has_zeros = false;
        // A thread without chunks has no cursor, and the cursor of the former owner is not valid for it.
        self.cursor = None;
        let generation = slot.generation.load(Ordering::Acquire);
        let state = slot.state.load(Ordering::Acquire);
        if state != state::LIVE && state != state::ENDED {
            return false;
        }
        self.owner = Owner::of_slot(slot, state == state::ENDED);
        let dropped = slot.dropped.load(Ordering::Relaxed);
        let calls = ring::open_calls::of_slot(slot);
        let Some((committed, oldest)) = self.copy_chunks(slot, on) else {
            return false;
        };
        self.counts = Counts {
            recorded: committed.saturating_add(dropped),
            readable: committed.saturating_sub(oldest),
            overwritten: oldest,
            dropped,
            summarised: 0,
        };
        if let Some(calls) = calls {
            self.note_early_calls();
            self.append_open(calls);
        }
        fence(Ordering::Acquire);
        slot.generation.load(Ordering::Relaxed) == generation
    }

    /// Whether the thread of the slot has recorded nothing: no edge of a call, no note, and no call that is only counted.
    pub(crate) fn is_empty(&self, slot: &Slot) -> bool {
        self.counts.recorded == 0 && self.used.is_empty() && !ring::counts::has_calls(slot)
    }

    /// Whether the open calls were copied, or there are none.
    #[cfg(all(loom, test))]
    pub(crate) fn has_open_calls(&self) -> bool {
        self.cursor.is_some()
    }

    /// The copied chunks, oldest first.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = &[u8]> + Clone {
        let chunks = self.used.iter().enumerate().rev();
        chunks.map(|(nth, &used)| {
            let at = place_of(nth);
            self.bytes.get(at..at + used).unwrap_or_default()
        })
    }

    /// Notes the calls that began before the oldest copied record, and are still open. They are in no chunk.
    fn note_early_calls(&mut self) {
        let mut early = core::mem::take(&mut self.early_calls);
        let open = self.cursor.and_then(|cursor| ring_open(&self.open, cursor));
        let oldest = self.chunks().next();
        let tick = oldest.and_then(|chunk| chunk.get(CHUNK_TICK..)?.first_chunk());
        if let (Some(open), Some(tick)) = (open, tick) {
            for (function, begin) in open.early(u64::from_le_bytes(*tick)) {
                early.push(EarlyCall {
                    function: FunctionId(function),
                    begin: Ticks(begin),
                });
            }
        }
        self.early_calls = early;
    }

    /// Appends the entries that open calls have not yet published to the newest chunk.
    fn append_open(&mut self, calls: &OpenCalls) {
        let (entries, summarised) = self.append_records_of_open();
        let summarised = match summarised {
            Some(summarised) => summarised,
            None => ring::open_calls::summarised(calls),
        };
        let counts = &mut self.counts;
        counts.recorded += entries + 2 * summarised;
        counts.readable += entries;
        counts.summarised = 2 * summarised;
    }

    /// Returns how many entries were appended, and how many calls left no records. `None`: not known.
    fn append_records_of_open(&mut self) -> (u64, Option<u64>) {
        let Some(open) = self.cursor.and_then(|cursor| ring_open(&self.open, cursor)) else {
            return (0, None);
        };
        let bytes = &mut self.bytes;
        let Some(used) = self.used.first_mut() else {
            return (0, Some(open.summarised));
        };
        let last = last_tick(bytes.get(..*used).unwrap_or_default());
        bytes.resize(bytes.len().max(CHUNK + open_calls::MAX_BYTES), 0);
        open.records(last, true, |record| {
            if let Some(place) = bytes.get_mut(*used..*used + record.len()) {
                place.copy_from_slice(record);
                *used += record.len();
            }
        });
        (open.unpublished() as u64, Some(open.summarised))
    }

    /// Returns how many function records the thread has made, and how many of them come before the oldest
    /// copied chunk. `None` if even the newest chunk was overwritten while it was copied.
    fn copy_chunks(&mut self, slot: &Slot, on: &dyn Fn() -> bool) -> Option<(u64, u64)> {
        // Acquire: pairs with the Release in `open_chunk`.
        let head = slot.chunk.load(Ordering::Acquire);
        let chunks = slot.chunks.load(Ordering::Relaxed);
        let (mut committed, mut oldest) = (0, 0);
        for number in (head.saturating_sub(chunks)..head)
            .rev()
            .map(|before| before + 1)
        {
            if !self.used.is_empty() && !on() {
                break;
            }
            let copied = match self.used.is_empty() {
                true => self.copy_newest(slot, number),
                false => self.copy_chunk(slot, number, None),
            };
            let (first, used) = match copied {
                Ok(copied) => copied,
                Err(NotCopied::Overwritten) => break,
                // Records before the zeros count as overwritten, because the run of records is broken.
                Err(NotCopied::Zeros { behind }) => {
                    self.has_zeros = true;
                    if self.used.is_empty() {
                        return Some((behind, behind));
                    }
                    break;
                }
            };
            if self.used.is_empty() {
                committed = first + count_records(self.bytes.get(..used).unwrap_or(&[]));
            }
            oldest = first;
            self.used.push(used);
        }
        (head == 0 || !self.used.is_empty()).then_some((committed, oldest))
    }

    /// Copies the newest chunk, as far as it was written when the open calls were copied.
    fn copy_newest(&mut self, slot: &Slot, number: u64) -> Result<(u64, usize), NotCopied> {
        let Some(calls) = ring::open_calls::of_slot(slot) else {
            return self.copy_chunk(slot, number, None);
        };
        self.open.resize(SIZE, 0);
        if let Some(open) = self.open.first_chunk_mut() {
            self.cursor = ring::open_calls::copy(slot, calls, open);
        }
        // Relaxed: the cursor was loaded with Acquire, after the number of its chunk had been stored.
        if slot.chunk.load(Ordering::Relaxed) != number {
            return Err(NotCopied::Overwritten);
        }
        self.copy_chunk(slot, number, self.cursor)
    }

    /// Copies one chunk behind the chunks copied before. Returns how many function records come before the
    /// chunk, and its bytes. `cursor` is the slot's cursor at an earlier moment. `None`: the cursor is read now.
    fn copy_chunk(
        &mut self,
        slot: &Slot,
        number: u64,
        cursor: Option<u64>,
    ) -> Result<(u64, usize), NotCopied> {
        let place = chunk::place(slot, number);
        let mark = place.mark;
        // Acquire: pairs with the Release in `open_chunk`.
        if mark.number.load(Ordering::Acquire) != number {
            return Err(NotCopied::Overwritten);
        }
        let first = mark.first.load(Ordering::Relaxed);
        let used = match cursor {
            Some(cursor) => used_at(cursor, place),
            None => used(slot, place),
        };
        let used = used.ok_or(NotCopied::Overwritten)?;
        let at = place_of(self.used.len());
        if self.bytes.len() < at + CHUNK {
            self.bytes.resize(at + CHUNK, 0);
        }
        let target = self.bytes.get_mut(at..at + used);
        let target = target.ok_or(NotCopied::Overwritten)?;
        chunk::copy(place, 0, target);
        let is_zeros = begins_or_ends_with_zeros(target);
        // Acquire: pairs with the Release fence in `open_chunk`.
        fence(Ordering::Acquire);
        if mark.number.load(Ordering::Relaxed) != number {
            return Err(NotCopied::Overwritten);
        }
        if is_zeros {
            let records = (used as u64 - PREAMBLE) / SINGLE;
            return Err(NotCopied::Zeros {
                behind: first + records,
            });
        }
        Ok((first, used))
    }
}

/// The place of a copied chunk, counted from the newest.
fn place_of(nth: usize) -> usize {
    match nth {
        0 => 0,
        nth => nth * CHUNK + open_calls::MAX_BYTES,
    }
}

fn ring_open(bytes: &[u8], cursor: u64) -> Option<open_calls::OpenCalls<'_>> {
    open_calls::OpenCalls::decode(bytes, cursor)
}

/// Whether a chunk's preamble or its last record is zeros. No record is zeros.
fn begins_or_ends_with_zeros(chunk: &[u8]) -> bool {
    let is_zeros = |bytes: Option<&[u8; PAIR as usize]>| {
        bytes.is_some_and(|bytes| *bytes == [0; PAIR as usize])
    };
    is_zeros(chunk.first_chunk()) || is_zeros(chunk.last_chunk())
}

/// The tick of the last record of a copied chunk.
fn last_tick(chunk: &[u8]) -> u64 {
    let (mut at, mut tick) = (0, 0);
    while let Some(first) = chunk.get(at..).and_then(<[u8]>::first_chunk) {
        let first = u64::from_le_bytes(*first);
        let second = chunk.get(at + 8..).and_then(<[u8]>::first_chunk);
        tick = record::tick(
            first,
            second.map_or(0, |word| u64::from_le_bytes(*word)),
            tick,
        );
        at += record::words(first) * SINGLE as usize;
    }
    tick
}

/// Function records in a copied chunk, counted by walking it.
fn count_records(chunk: &[u8]) -> u64 {
    let (mut at, mut count) = (0, 0);
    while let Some(word) = chunk.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(*word);
        count += u64::from(word & 1 == 0);
        at += record::words(word) * SINGLE as usize;
    }
    count
}
