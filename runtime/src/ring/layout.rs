//! The ring file, byte for byte. Nothing in this file touches memory.
//!
//! Source: our own. Native byte order, which is little-endian, because each chunk is an XRay buffer.
//!
//! | part | offset | size |
//! | --- | --- | --- |
//! | [`Header`] | 0 | one page |
//! | records of threads that have no region, counted by [`COUNTERS`] CPUs | one page | [`COUNTER_STRIDE`] each |
//! | [`Slot`]s, each followed by its [`ChunkMark`]s and, with `FDR_KEEP`, its [`OpenCalls`] | `slots` | `slot_stride` each |
//! | function table, append-only | `functions` | `functions_room` |
//! | regions: 64 KiB chunks, each a valid XRay buffer | `regions` | `region_size` each |
//!
//! Slot *i* controls region *i*. The parts before the function table have their space on the disk from the
//! start. The table gets its space in steps, before anything touches it. A region gets its space chunk by chunk
//! (`given` of its slot).

use fdr_formats::ring::layout as reader;

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
/// Two cache lines, because processors fetch lines in pairs. No two threads may share a pair.
const SLOT_ALIGN: usize = 128;
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
}

const _: () = assert!(size_of::<Header>() <= PAGE);

/// This layout and the one in `fdr-formats` describe the same bytes.
const _: () = {
    macro_rules! same {
        ($type:ty, $offsets:expr, $($field:ident)*) => {{
            let (ours, theirs) = ([$(core::mem::offset_of!($type, $field)),*], $offsets);
            let mut at = 0;
            while at < theirs.len() {
                assert!(ours[at] == theirs[at]);
                at += 1;
            }
            assert!(ours.len() == theirs.len());
        }};
    }
    same!(
        Header, reader::HEADER_OFFSETS,
        magic pid clock base slots slot_stride functions functions_length regions region_size capacity
        made start_ticks start_monotonic start_realtime frequency missing_overwritten missing_threads
        missing_dropped clock_flags crash_signal crash_code crash_thread crash_address crash_ticks
        program open_calls
    );
    assert!(size_of::<Header>() == reader::HEADER_SIZE);
    same!(
        Slot, reader::SLOT_OFFSETS,
        cursor base chunks chunk dropped clock_steps state tid generation name given
    );
    same!(
        OpenCalls, reader::OPEN_CALLS_OFFSETS,
        depth published summarised threshold frames
    );
    same!(Frame, reader::FRAME_OFFSETS, word cpu ticks short_calls short_ticks);
    assert!(size_of::<OpenCalls>() == reader::OPEN_CALLS_SIZE && FRAMES == reader::FRAMES);
    assert!(cfg!(loom) || CHUNK == reader::CHUNK);
    assert!(COUNTERS.is_power_of_two() && COUNTERS <= reader::COUNTERS);
    assert!(PAGE == reader::COUNTERS_AT && COUNTER_STRIDE == reader::COUNTER_STRIDE);
    assert!(state::LIVE == reader::LIVE && state::ENDED == reader::ENDED);
};

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
pub(crate) const FRAMES: usize = 254;

/// The open calls of a thread that makes more calls than its ring can hold for `FDR_KEEP`
/// (`recorder::open_calls`). Only the owner writes them.
#[repr(C, align(64))]
pub(crate) struct OpenCalls {
    /// How many calls are open. The frame of the innermost one has this index.
    pub(crate) depth: AtomicU32,
    /// How many of them, from the outermost on, have their entry record in the ring.
    pub(crate) published: AtomicU32,
    /// Open calls that are deeper than the frames. Their records are in the ring.
    pub(crate) deeper: AtomicU32,
    /// The CPU of the last record in the ring.
    pub(crate) cpu: AtomicU32,
    /// Calls that left no records of their own.
    pub(crate) summarised: AtomicU64,
    /// Ticks. A shorter call leaves no records of its own.
    pub(crate) threshold: AtomicU64,
    unused: [AtomicU64; 4],
    /// The frame 0 stands for the thread itself, which no call is around.
    pub(crate) frames: [Frame; FRAMES],
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
}

const _: () = assert!(size_of::<Frame>() == 32 && size_of::<OpenCalls>() == 8192);

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
    /// Bytes of the whole file, in addresses.
    pub(crate) length: usize,
}

impl Layout {
    /// The layout for rings of `buffer` bytes per thread within `memory` bytes. It has at least two chunks per
    /// thread and at least one thread. `keeps`: the slots have open calls.
    pub(crate) fn new(buffer: u64, memory: u64, keeps: bool) -> Layout {
        let chunks = (buffer / CHUNK as u64).clamp(2, 1 << 20) as usize;
        let region_size = chunks * CHUNK;
        let marked = size_of::<Slot>() + chunks * size_of::<ChunkMark>();
        let marked = marked.next_multiple_of(SLOT_ALIGN);
        let (open_calls, slot_stride) = match keeps {
            true => (marked, marked + size_of::<OpenCalls>()),
            false => (0, marked),
        };
        let capacity = (memory / region_size as u64).clamp(1, 1 << 16) as usize;
        let slots = PAGE + COUNTERS * COUNTER_STRIDE;
        let functions = (slots + capacity * slot_stride).next_multiple_of(PAGE);
        let regions = (functions + FUNCTIONS_ROOM).next_multiple_of(CHUNK);
        let length = regions + capacity * region_size;
        Layout {
            region_size,
            capacity,
            slots,
            slot_stride,
            open_calls,
            functions,
            regions,
            length,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_layout_is_what_the_documents_say() {
        let layout = Layout::new(4 << 20, 1 << 30, false);
        assert_eq!(layout.chunks(), 64);
        assert_eq!(layout.slot_stride, 1664);
        assert_eq!(layout.capacity, 256);
        assert_eq!(layout.region(0) % CHUNK, 0);
        assert_eq!(layout.region(1) - layout.region(0), 4 << 20);
        assert!(layout.slot(255) + layout.slot_stride <= layout.functions);
        assert_eq!(layout.region(255) + layout.region_size, layout.length);
    }

    #[test]
    fn no_two_threads_write_one_pair_of_lines() {
        use core::mem::offset_of;
        // What every record reads or writes of a slot is in one line.
        for end in [
            offset_of!(Slot, cursor) + 8,
            offset_of!(Slot, last_low) + 4,
            offset_of!(Slot, last_high) + 4,
            offset_of!(Slot, cpu) + 4,
        ] {
            assert!(end <= 64);
        }
        for (buffer, memory) in [
            (0, 0),
            (128 << 10, 1 << 20),
            (4 << 20, 1 << 30),
            (1 << 32, 1 << 40),
        ] {
            let layout = Layout::new(buffer, memory, true);
            // The file is mapped at a multiple of CHUNK.
            for place in [
                layout.slots,
                layout.slot_stride,
                layout.functions,
                layout.regions,
            ] {
                assert_eq!(place % SLOT_ALIGN, 0, "{layout:?}");
            }
            let counters = (0..300).map(Layout::counter);
            for place in counters {
                assert_eq!(place % SLOT_ALIGN, 0);
                assert!((PAGE..layout.slots).contains(&place));
            }
            let marks = layout.chunks() * size_of::<ChunkMark>();
            assert!(layout.slot_stride >= size_of::<Slot>() + marks);
            assert!(layout.slots >= size_of::<Header>().next_multiple_of(SLOT_ALIGN));
            assert_eq!(layout.region_size % CHUNK, 0);
        }
    }

    #[test]
    fn hostile_sizes_still_make_a_layout() {
        for (buffer, memory) in [(0, 0), (u64::MAX, 0), (1, u64::MAX), (u64::MAX, u64::MAX)] {
            let layout = Layout::new(buffer, memory, true);
            assert!(layout.capacity >= 1 && layout.chunks() >= 2);
            assert!(layout.length >= layout.region_size);
        }
    }
}
