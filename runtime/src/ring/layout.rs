//! The ring file, as the recorder maps it. Nothing in this file touches memory.
//!
//! `fdr_formats::ring::layout` describes each part, for readers too. This file has how many of each there are, and
//! where.
//!
//! Slot *i* controls region *i* and has the totals *i*. The parts before the function table have their space on
//! the disk from the start. The table gets its space in steps, before anything touches it. A region gets its
//! space chunk by chunk (`chunks_with_space` of its slot), and so do totals (`rows_with_space`).

use core::ops::Deref;

use fdr_formats::moments::MAX_MOMENTS;
use fdr_formats::ring::layout::{self as parts, Words};
pub(crate) use fdr_formats::ring::layout::{ARGUMENTS, FRAMES, LENGTHS, TOTALS_IDS};
use fdr_formats::ring::schedule::MODULES_BYTES;

use super::schedule;
use crate::primitive::{AtomicU32, AtomicU64};

/// The words of the mapped file.
pub(crate) struct Shared;

impl Words for Shared {
    type U32 = AtomicU32;
    type U64 = AtomicU64;
}

pub(crate) type Header = parts::Header<Shared>;
pub(crate) type Control = parts::Control<Shared>;
pub(crate) type Moment = parts::Moment<Shared>;
pub(crate) type Slot = parts::Slot<Shared>;
pub(crate) type ChunkMark = parts::Mark<Shared>;
pub(crate) type Frame = parts::Frame<Shared>;
pub(crate) type Totals = parts::Totals<Shared>;
pub(crate) type Row = parts::Row<Shared>;
/// The fields of [`OpenCalls`].
pub(crate) type OpenCallsFields = parts::OpenCalls<Shared>;

/// The open calls of a thread (`ring::open_calls`, `ring::arguments` and `recorder::open_calls`).
#[repr(transparent)]
pub(crate) struct OpenCalls(OpenCallsFields);

impl Deref for OpenCalls {
    type Target = OpenCallsFields;

    fn deref(&self) -> &OpenCallsFields {
        &self.0
    }
}

/// Bytes of a chunk. Chunks are aligned to this size in memory, so the end of a chunk follows from the cursor.
#[cfg(not(all(test, any(loom, interpreted))))]
pub(crate) const CHUNK: usize = 64 * 1024;
/// A preamble and ten records. A model with larger chunks would not end in reasonable time.
#[cfg(all(test, loom))]
pub(crate) const CHUNK: usize = 128;
/// For Miri, under which a test that fills larger chunks takes minutes. The longest note fits into one.
#[cfg(all(test, interpreted, not(loom)))]
pub(crate) const CHUNK: usize = 2 * PAGE;
/// First bytes of every ring file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(parts::MAGIC);
/// Addresses for the function table. The table gets space as it grows.
pub(crate) const FUNCTIONS_ROOM: usize = 64 << 20;
/// Addresses for the function table in a small ring. Rings are small if the process's addresses are limited.
const MIN_FUNCTIONS_ROOM: usize = 8 << 20;
/// The table grows in steps of this size.
pub(crate) const FUNCTIONS_STEP: usize = 64 * 1024;
/// The most bytes of a thread's totals with their rows.
const MAX_TOTALS: usize = 64 << 20;
/// Two cache lines, because processors fetch lines in pairs. No two threads may share a pair.
pub(crate) const SLOT_ALIGN: usize = 128;
/// The page size of the layout, also on machines with larger pages.
pub(super) const PAGE: usize = 4096;
/// How many CPUs have a counter of their own for records of threads without a region. A power of two.
#[cfg(not(all(loom, test)))]
pub(crate) const COUNTERS: usize = 128;
#[cfg(all(loom, test))]
pub(crate) const COUNTERS: usize = 2;
/// Bytes from counter to counter. No two CPUs write the same pair of cache lines.
const COUNTER_STRIDE: usize = parts::COUNTER_STRIDE;

const _: () = {
    assert!(cfg!(all(test, any(loom, interpreted))) || CHUNK == parts::CHUNK);
    assert!(COUNTERS.is_power_of_two() && COUNTERS <= parts::COUNTERS);
    assert!(PAGE == parts::COUNTERS_AT && COUNTER_STRIDE == SLOT_ALIGN);
    assert!(size_of::<Slot>() == parts::SLOT_SIZE && size_of::<Row>() == parts::ROW_SIZE);
};

/// Whom the ring is of: texts, padded with NULs.
pub(crate) type IdentityTexts = [AtomicU64; parts::IDENTITY_SIZE / 8];

/// They are in the page of the header, behind room for its fields.
pub(crate) const IDENTITY_AT: usize = 1024;

const _: () = assert!(size_of::<Header>() <= IDENTITY_AT);
const _: () = assert!(IDENTITY_AT + size_of::<IdentityTexts>() <= PAGE);

/// The named moments: `fdr_formats::ring::moments` has their protocol. Only the dumper writes them.
pub(crate) type Moments = [Moment; MAX_MOMENTS];

/// The `cpu` of a slot while its owner makes a record. No CPU has this number. The kernel does not use it for
/// "not known" either, because it uses -1 and -2 for that.
pub(crate) const BUSY: u32 = 0x8000_0000;

/// The `cpu` of a slot that has no record yet.
pub(crate) const NO_CPU: u32 = 0x8000_0001;

/// The `last_high` of a slot that has stopped or whose chunk is full. No clock reaches this value, so the next
/// record is uncommon. The value is read after the slot is busy. So a handler that fills the chunk just before
/// is seen.
pub(crate) const NO_HIGH: u32 = u32::MAX;

/// The `full` of a slot that keeps the oldest records and has no more room.
pub(crate) const STOPPED: u32 = 2;

/// The states of a [`Slot`].
pub(crate) mod state {
    /// Its space is being made.
    pub(crate) const RAW: u32 = 0;
    /// It has space and no owner.
    pub(crate) const FREE: u32 = 1;
    /// A thread is taking it.
    pub(crate) const CLAIMED: u32 = 2;
    /// Its owner lives.
    pub(crate) const LIVE: u32 = super::parts::LIVE;
    /// Its owner has ended. Its records are kept until the space is needed.
    pub(crate) const ENDED: u32 = super::parts::ENDED;
}

/// The offsets and sizes of one ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Bytes of a region.
    pub(crate) region_size: usize,
    /// How many regions fit into the budget.
    pub(crate) capacity: usize,
    pub(crate) slots: usize,
    pub(crate) slot_stride: usize,
    /// Bytes from a slot to its open calls. 0 = the slots have none.
    pub(crate) open_calls: usize,
    pub(crate) functions: usize,
    pub(crate) regions: usize,
    /// Offset of the first [`Totals`], and bytes of one with its rows. 0 = there are none.
    pub(crate) totals: usize,
    pub(crate) totals_size: usize,
    /// Offset of the states of threads, and of the files that are loaded. 0 = there are none.
    pub(crate) schedule: usize,
    pub(crate) modules: usize,
    /// Bytes of the whole file, in addresses.
    pub(crate) length: usize,
}

/// Offset of the [`Control`].
pub(crate) const CONTROL_AT: usize = PAGE + COUNTERS * COUNTER_STRIDE;
/// Offset of the [`Moments`].
pub(crate) const MOMENTS_AT: usize = CONTROL_AT + size_of::<Control>();

impl Layout {
    /// The layout for rings of `buffer` bytes per thread within `memory` bytes. It has at least two chunks per
    /// thread and at least one thread. `keeps`: the slots have open calls and totals. Totals have half as many
    /// addresses as a region. `states`: there is a place for the states of threads.
    pub(crate) fn new(buffer: u64, memory: u64, keeps: bool, states: bool) -> Layout {
        let chunks = (buffer / CHUNK as u64).clamp(2, 1 << 20) as usize;
        let region_size = chunks * CHUNK;
        let marked = size_of::<Slot>() + chunks * size_of::<ChunkMark>();
        let marked = marked.next_multiple_of(SLOT_ALIGN);
        let (open_calls, slot_stride) = match keeps {
            true => (marked, marked + size_of::<OpenCalls>()),
            false => (0, marked),
        };
        let totals_size = match keeps {
            true => (chunks / 2).clamp(2, MAX_TOTALS / CHUNK) * CHUNK,
            false => 0,
        };
        let each = (region_size + totals_size) as u64;
        let capacity = (memory / each).clamp(1, 1 << 16) as usize;
        let slots = (MOMENTS_AT + size_of::<Moments>()).next_multiple_of(SLOT_ALIGN);
        let functions = (slots + capacity * slot_stride).next_multiple_of(PAGE);
        let room = (memory as usize).clamp(MIN_FUNCTIONS_ROOM, FUNCTIONS_ROOM);
        let regions = (functions + room).next_multiple_of(CHUNK);
        let behind = regions + capacity * region_size;
        let totals = if keeps { behind } else { 0 };
        // One more, for ended threads.
        let end = behind + (capacity + usize::from(keeps)) * totals_size;
        let (schedule, modules, length) = match states {
            true => {
                let modules = end + schedule::BYTES;
                (end, modules, modules + MODULES_BYTES)
            }
            false => (0, 0, end),
        };
        Layout {
            region_size,
            capacity,
            slots,
            slot_stride,
            open_calls,
            functions,
            regions,
            totals,
            totals_size,
            schedule,
            modules,
            length,
        }
    }

    /// Offset of the totals of that slot. Those of ended threads are behind the last slot's.
    pub(crate) fn totals(&self, index: usize) -> usize {
        self.totals + index * self.totals_size
    }

    /// How many rows totals can have.
    pub(crate) fn rows(&self) -> usize {
        self.totals_size.saturating_sub(size_of::<Totals>()) / size_of::<Row>()
    }

    /// Bytes that the function table may have.
    pub(crate) fn functions_room(&self) -> usize {
        (self.regions - self.functions).min(FUNCTIONS_ROOM)
    }

    /// Bytes from the start that get their space at once: everything before the function table, and the first
    /// step of the table.
    pub(crate) fn first_part(&self) -> usize {
        self.functions + FUNCTIONS_STEP
    }

    /// The end of the space of `slots` slots. It is at the end of a page, and before the function table.
    pub(crate) fn end_of_slots(&self, slots: usize) -> usize {
        self.slot(slots).next_multiple_of(CHUNK).min(self.functions)
    }

    pub(crate) fn chunks(&self) -> usize {
        self.region_size / CHUNK
    }

    /// Offset of the counter for threads without a region on `cpu`, as a clock gave it.
    pub(crate) fn counter(cpu: u32) -> usize {
        PAGE + (cpu as usize % COUNTERS) * COUNTER_STRIDE
    }

    pub(crate) fn slot(&self, index: usize) -> usize {
        self.slots + index * self.slot_stride
    }

    pub(crate) fn region(&self, index: usize) -> usize {
        self.regions + index * self.region_size
    }
}

#[cfg(test)]
mod tests;
