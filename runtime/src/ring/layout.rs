//! The ring file, byte for byte. Nothing in this file touches memory.
//!
//! Source: our own. Native byte order, which is little-endian, because each chunk is an XRay buffer.
//!
//! | part | offset | size |
//! | --- | --- | --- |
//! | [`Header`], and [`IdentityTexts`] | 0 | one page |
//! | records of threads that have no region, counted by [`COUNTERS`] CPUs | one page | [`COUNTER_STRIDE`] each |
//! | [`Control`], what `fdr ctl` and the dumper write to each other | `control` | 8 KiB |
//! | [`Moments`], which `fdr ctl` named | behind the control block | 2560 |
//! | [`Slot`]s, each followed by its [`ChunkMark`]s and, with `FDR_KEEP`, its [`OpenCalls`] | `slots` | `slot_stride` each |
//! | function table, append-only | `functions` | `functions_room` |
//! | regions: 64 KiB chunks, each a valid XRay buffer | `regions` | `region_size` each |
//! | with `FDR_KEEP`: [`Totals`], each followed by its [`Row`]s; one for each slot, and one for ended threads | `totals` | `totals_size` each |
//! | with `FDR_SCHED`: the states of threads (`ring::schedule`) | `schedule` | 4 MiB |
//! | with `FDR_SCHED`: the files that are loaded into the program | `modules` | 64 KiB |
//!
//! Slot *i* controls region *i* and has the totals *i*. The parts before the function table have their space on
//! the disk from the start. The table gets its space in steps, before anything touches it. A region gets its
//! space chunk by chunk (`given` of its slot), and so do totals (their own `given`).

use fdr_formats::moments::{MOST, MOST_BYTES};
use fdr_formats::ring::schedule::MODULES_BYTES;
use fdr_formats::ring::{control, layout as reader};

use super::schedule;
use crate::primitive::{AtomicU32, AtomicU64};

/// Bytes of a chunk. Chunks are aligned to this size in memory, so the end of a chunk follows from the cursor.
#[cfg(not(all(loom, test)))]
pub(crate) const CHUNK: usize = 64 * 1024;
/// A preamble and ten records. A model with larger chunks would not end in reasonable time.
#[cfg(all(loom, test))]
pub(crate) const CHUNK: usize = 128;
/// First bytes of every ring file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"FDRRING\x01");
/// Addresses for the function table. The table gets space as it grows.
pub(crate) const FUNCTIONS_ROOM: usize = 64 << 20;
/// The table grows in steps of this size.
pub(crate) const FUNCTIONS_STEP: usize = 256 * 1024;
/// The most bytes of a thread's totals with their rows.
const MOST_TOTALS: usize = 64 << 20;
/// Two cache lines, because processors fetch lines in pairs. No two threads may share a pair.
pub(crate) const SLOT_ALIGN: usize = 128;
/// The page size of the layout, also on machines with larger pages.
const PAGE: usize = 4096;
/// How many CPUs have a counter of their own for records of threads without a region. A power of two.
#[cfg(not(all(loom, test)))]
pub(crate) const COUNTERS: usize = 128;
#[cfg(all(loom, test))]
pub(crate) const COUNTERS: usize = 2;
/// Bytes from counter to counter. No two CPUs write the same pair of cache lines.
const COUNTER_STRIDE: usize = SLOT_ALIGN;

/// The head of the file: where everything else is, and which process made the file.
#[repr(C)]
pub(crate) struct Header {
    /// [`MAGIC`]. It is stored last, so a file without it is not complete.
    pub(crate) magic: AtomicU64,
    /// The process that records.
    pub(crate) pid: AtomicU32,
    /// `clock::Kind` of every record, as a number.
    pub(crate) clock: AtomicU32,
    /// Address of the file's start in the process, because cursors are addresses.
    pub(crate) base: AtomicU64,
    pub(crate) slots: AtomicU64,
    pub(crate) slot_stride: AtomicU64,
    pub(crate) functions: AtomicU64,
    /// Bytes of complete entries in the function table.
    pub(crate) functions_length: AtomicU64,
    pub(crate) regions: AtomicU64,
    pub(crate) region_size: AtomicU64,
    /// How many slots there can be.
    pub(crate) capacity: AtomicU32,
    /// How many slots have been made.
    pub(crate) made: AtomicU32,
    /// Start of the recording: the tick, and CLOCK_MONOTONIC_RAW and Unix time at that tick, both in ns.
    pub(crate) start_ticks: AtomicU64,
    pub(crate) start_monotonic: AtomicU64,
    pub(crate) start_realtime: AtomicU64,
    /// Best known ticks per second, in Hz. It is measured at the start, and again from time to time and at each
    /// dump.
    pub(crate) frequency: AtomicU64,
    /// Records of threads whose regions were given to newer threads.
    pub(crate) missing_overwritten: AtomicU64,
    /// How many threads those are.
    pub(crate) missing_threads: AtomicU64,
    /// Records of threads that have no region, without those that the CPUs count.
    pub(crate) missing_dropped: AtomicU64,
    /// Bit 0: the clock's rate is constant. Bit 1: the clock never stops. From bit 8 on: the certain difference
    /// between the counters of the CPUs, in microseconds.
    pub(crate) clock_flags: AtomicU32,
    /// The signal of a crash, stored last. 0 = no crash.
    pub(crate) crash_signal: AtomicU32,
    /// The `si_code` of the crash, and the kernel's id of its thread.
    pub(crate) crash_code: AtomicU32,
    pub(crate) crash_thread: AtomicU32,
    /// The address of the crash, if it has one, and its tick.
    pub(crate) crash_address: AtomicU64,
    pub(crate) crash_ticks: AtomicU64,
    /// The program's name, UTF-8, padded with NULs.
    pub(crate) program: [AtomicU64; 8],
    /// Bytes from a slot to its [`OpenCalls`]. 0 = the slots have none.
    pub(crate) open_calls: AtomicU64,
    /// Offset of the [`IdentityTexts`]. 0 = the process has not stored them yet.
    pub(crate) identity: AtomicU64,
    /// Offset of the [`Control`]. 0 = there is none.
    pub(crate) control: AtomicU64,
    /// Offset of the first [`Totals`], and bytes of one with its rows. 0 = there are none.
    pub(crate) totals: AtomicU64,
    pub(crate) totals_size: AtomicU64,
    /// Offset and bytes of the states of threads (`ring::schedule`). 0 = there are none.
    pub(crate) schedule: AtomicU64,
    pub(crate) schedule_size: AtomicU64,
    /// Offset and bytes of the files that are loaded into the program. 0 = there are none.
    pub(crate) modules: AtomicU64,
    pub(crate) modules_size: AtomicU64,
}

/// Whom the ring is of: texts, padded with NULs.
pub(crate) type IdentityTexts = [AtomicU64; reader::IDENTITY_SIZE / 8];

/// They are in the page of the header, behind room for its fields.
pub(crate) const IDENTITY_AT: usize = 1024;

const _: () = assert!(size_of::<Header>() <= IDENTITY_AT);
const _: () = assert!(IDENTITY_AT + size_of::<IdentityTexts>() <= PAGE);

/// What `fdr ctl` and the dumper write to each other: `fdr_formats::ring::control` has the protocol.
#[repr(C, align(64))]
pub(crate) struct Control {
    /// Number of the newest command. The tool writes it, and the dumper sleeps on it.
    pub(crate) asked: AtomicU32,
    /// Number of the last command that has an answer, and of the last one that was read.
    pub(crate) answered: AtomicU32,
    pub(crate) taken: AtomicU32,
    /// 1 = the process has a dumper.
    pub(crate) listens: AtomicU32,
    /// Bytes from here to the [`Moments`].
    pub(crate) moments: AtomicU32,
    also_unused: AtomicU32,
    unused: [AtomicU64; 5],
    /// The tool writes the command, and the dumper the answer.
    pub(crate) command: [AtomicU64; control::COMMAND_SIZE / 8],
    pub(crate) answer: [AtomicU64; control::ANSWER_SIZE / 8],
}

const _: () = assert!(size_of::<Control>() == control::SIZE);

/// The named moments: `fdr_formats::ring::moments` has their protocol. Only the dumper writes them.
pub(crate) type Moments = [Moment; MOST];

/// One of them.
#[repr(C)]
pub(crate) struct Moment {
    /// From 1. 0 = none, or it is being written.
    pub(crate) number: AtomicU64,
    pub(crate) ticks: AtomicU64,
    /// UTF-8, padded with NULs.
    pub(crate) name: [AtomicU64; MOST_BYTES / 8],
}

/// A thread's control block. Only its owner writes the first line, at every record.
#[repr(C, align(64))]
pub(crate) struct Slot {
    /// Address of the next free byte. At a multiple of [`CHUNK`] the chunk before the cursor is full.
    pub(crate) cursor: AtomicU64,
    /// Ticks of the last record, lower and upper half. The upper half is [`NO_HIGH`] if the next record must be
    /// uncommon.
    pub(crate) last_low: AtomicU32,
    pub(crate) last_high: AtomicU32,
    /// CPU of the last record, as the clock gave it. It is [`BUSY`] while a record is made. So the test for
    /// "the same CPU" fails for a handler that interrupts the owner.
    pub(crate) cpu: AtomicU32,
    /// 1 = keep the oldest records, then stop (`FDR_MODE=full`).
    pub(crate) full: AtomicU32,
    /// Address of the region.
    pub(crate) base: AtomicU64,
    /// How many chunks the owner goes round in. It is fewer than the region has if the others got no space.
    pub(crate) chunks: AtomicU64,
    /// Number of the current chunk, counted from 1 for the life of the thread. 0 = no chunk yet.
    pub(crate) chunk: AtomicU64,

    /// Bytes of the current chunk that are metadata records.
    pub(crate) metadata: AtomicU64,
    /// Records that were asked for but not written.
    pub(crate) dropped: AtomicU64,
    /// How often the clock went back, because CPUs disagree or the clock was reset. If CPUs disagree, the
    /// record got the time of the last record.
    pub(crate) clock_steps: AtomicU64,
    /// One of [`state`].
    pub(crate) state: AtomicU32,
    /// The kernel's id of the owner.
    pub(crate) tid: AtomicU32,
    /// Counts owners. If a reader sees it change, it has read two owners.
    pub(crate) generation: AtomicU64,
    /// Unix time in ns at which the owner ended. The slot that ended first is reused first.
    pub(crate) ended: AtomicU64,
    /// The owner's name, as the kernel keeps it, padded with NULs.
    pub(crate) name: [AtomicU64; 2],
    /// The upper half of the last record's ticks, which is never [`NO_HIGH`].
    pub(crate) high: AtomicU32,
    /// How many chunks have space, from the start of the region. It never falls, even if the owner changes.
    pub(crate) given: AtomicU32,
    /// Address of the slot's [`OpenCalls`]. 0 as long as each call of the owner leaves its records.
    pub(crate) open_calls: AtomicU64,
}

const _: () = assert!(size_of::<Slot>() == 128);

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
    pub(crate) const TAKEN: u32 = 2;
    /// Its owner lives.
    pub(crate) const LIVE: u32 = 3;
    /// Its owner has ended. Its records are kept until the space is needed.
    pub(crate) const ENDED: u32 = 4;
}

/// The mark of one chunk of a region.
#[repr(C)]
pub(crate) struct ChunkMark {
    /// Number of the chunk in this place. 0 while the chunk changes.
    pub(crate) number: AtomicU64,
    /// How many function records the thread had made before this chunk.
    pub(crate) first: AtomicU64,
    /// Bytes used. It is set when the chunk is closed.
    pub(crate) end: AtomicU64,
}

const _: () = assert!(size_of::<ChunkMark>() == 24);

/// How many calls a slot's [`OpenCalls`] hold, with the place below the outermost call.
pub(crate) const FRAMES: usize = 203;
/// How many words there are for the arguments of open calls.
pub(crate) const ARGUMENTS: usize = 255;

/// The open calls of a thread that makes more calls than its ring can hold for `FDR_KEEP`
/// (`recorder::open_calls`). Only the owner writes them.
#[repr(C, align(64))]
pub(crate) struct OpenCalls {
    /// Three counts that change in one step, see `fdr_formats::ring::open_calls`. How many calls are open: the frame
    /// of the innermost one has this index. How many of them, from the outermost on, have their entry record in
    /// the ring. How many calls left no records of their own.
    pub(crate) open: AtomicU64,
    /// Open calls that are deeper than the frames. Their records are in the ring.
    pub(crate) deeper: AtomicU32,
    /// The CPU of the last record in the ring.
    pub(crate) cpu: AtomicU32,
    /// The cursor behind the record that is being published, if it changes the open calls. 0 = no such record.
    pub(crate) publishing: AtomicU64,
    /// Ticks. A shorter call leaves no records of its own.
    pub(crate) threshold: AtomicU64,
    /// Address of the slot's [`Totals`], which the slot always has.
    pub(crate) totals: AtomicU64,
    /// The state that is true once the cursor has that value: how many calls have their entry record in the ring
    /// (bits 0 to 7), and the short calls of one frame (its index: bits 8 to 15), with their ticks.
    pub(crate) next: AtomicU64,
    pub(crate) next_calls: AtomicU64,
    pub(crate) next_ticks: AtomicU64,
    /// The frame 0 stands for the thread itself, outside of all calls.
    pub(crate) frames: [Frame; FRAMES],
    /// Ticks that a short call adds to the self time of its caller, beside those that a recorded call adds.
    pub(crate) beside: AtomicU64,
    /// How many words of arguments are used (`ring::arguments`), and the words.
    pub(crate) arguments: AtomicU64,
    pub(crate) arguments_words: [AtomicU64; ARGUMENTS],
}

/// One open call.
#[repr(C)]
pub(crate) struct Frame {
    /// Low half of the entry record.
    pub(crate) word: AtomicU32,
    /// CPU of the entry, as the clock gave it.
    pub(crate) cpu: AtomicU32,
    /// Ticks of the entry.
    pub(crate) ticks: AtomicU64,
    /// Calls inside that left no records since the thread's last record, and the ticks that they took.
    pub(crate) short_calls: AtomicU64,
    pub(crate) short_ticks: AtomicU64,
    /// Ticks of all calls inside that have ended.
    pub(crate) inside: AtomicU64,
}

const _: () = assert!(size_of::<Frame>() == 40 && size_of::<OpenCalls>() == 10_240);

/// How many functions [`Totals`] have a place for, by their ids.
pub(crate) const TOTALS_IDS: usize = 16_352;

/// The calls of each function since the thread began: their number and their times (`ring::totals`). Only the owner
/// writes them, except those of ended threads.
#[repr(C, align(128))]
pub(crate) struct Totals {
    /// How many rows are in use. The first one stands for all functions that have no row of their own.
    pub(crate) rows: AtomicU32,
    /// How many rows have space. This number never falls, even if the owner changes.
    pub(crate) given: AtomicU32,
    /// Not 0 if the index has functions that share the first row, because there was no space.
    pub(crate) share: AtomicU64,
    /// Behind so many rows, all others are for functions whose first call is long. 0: there are none of this kind.
    pub(crate) reserved: AtomicU64,
    unused: [AtomicU64; 13],
    /// By a function's id: the number of its row, from 1. 0 = none yet.
    pub(crate) index: [AtomicU32; TOTALS_IDS],
}

/// The number of classes in which lengths of calls are counted: eight for each power of two, from 128 ticks on. Below
/// 128 ticks, a class is 16 ticks wide. The last class has all longer calls.
pub(crate) const LENGTHS: usize = 248;

/// The calls of one function.
#[repr(C)]
pub(crate) struct Row {
    /// The function's id. 0 = all functions without a row of their own.
    pub(crate) function: AtomicU32,
    /// Not 0 if a call was met inside of another call of the function.
    pub(crate) nests: AtomicU32,
    /// Calls that have ended, and whose time is known.
    pub(crate) calls: AtomicU64,
    /// Calls that have ended, and whose time is not known.
    pub(crate) untimed: AtomicU64,
    /// Sum of the ticks from entry to exit.
    pub(crate) total: AtomicU64,
    /// The same, without the ticks of the calls inside.
    pub(crate) own: AtomicU64,
    /// Ticks of the longest call.
    pub(crate) longest: AtomicU64,
    also_unused: [AtomicU64; 2],
    /// How many calls had which length.
    pub(crate) lengths: [AtomicU64; LENGTHS],
    /// Makes the row an odd number of cache lines. Otherwise the first lines of all rows would be in two sets of a cache.
    filler: [AtomicU64; 8],
}

/// How many rows get their space with a chunk. A row may begin in one chunk and end in the next one.
#[cfg(not(all(loom, test)))]
pub(crate) const ROWS_OF_CHUNK: usize = CHUNK / size_of::<Row>();
/// A model's chunk holds no row, and a model's rows have their space from the beginning.
#[cfg(all(loom, test))]
pub(crate) const ROWS_OF_CHUNK: usize = 1;

const _: () = assert!(size_of::<Totals>() == 1 << 16 && size_of::<Row>() == 33 * 64);

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
            true => (chunks / 2).clamp(2, MOST_TOTALS / CHUNK) * CHUNK,
            false => 0,
        };
        let each = (region_size + totals_size) as u64;
        let capacity = (memory / each).clamp(1, 1 << 16) as usize;
        let slots = (MOMENTS_AT + size_of::<Moments>()).next_multiple_of(SLOT_ALIGN);
        let functions = (slots + capacity * slot_stride).next_multiple_of(PAGE);
        let regions = (functions + FUNCTIONS_ROOM).next_multiple_of(CHUNK);
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
        self.totals_size.saturating_sub(size_of::<Totals>()) / CHUNK * ROWS_OF_CHUNK
    }

    /// Bytes from the start that get their space at once: everything before the function table, and the first
    /// step of the table.
    pub(crate) fn first_part(&self) -> usize {
        self.functions + FUNCTIONS_STEP
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

mod readers;
#[cfg(test)]
mod tests;
