//! What the recorder's ring file looks like, as a reader finds it: pure decoding of its parts. The recorder's own
//! `ring/layout.rs` is the other half and checks its offsets against these. Nothing in here touches a file.
//!
//! Source: this project. Native byte order, little-endian on every machine that it runs on.
//!
//! | part | offset | field |
//! | --- | --- | --- |
//! | header | 0 | magic, `FDRRING` and the version, 1 |
//! | | 8, 12 | process, kind of the clock (u32 each) |
//! | | 16 | address of the file's start in the process |
//! | | 24, 32 | offset of the slots, bytes from slot to slot |
//! | | 40, 48 | offset and bytes of the function table |
//! | | 56, 64 | offset of the regions, bytes of one |
//! | | 72, 76 | slots that there can be, slots made (u32 each) |
//! | | 80, 88, 96 | start of the recording: tick, monotonic ns, Unix ns |
//! | | 104 | ticks per second as far as known, in Hz; 0 = not yet |
//! | | 112, 120 | records and number of threads whose regions others have now |
//! | | 128 | records of threads that have no region, besides those that CPUs count |
//! | | 136 | u32: 1 = the clock's rate is constant, 2 = it never stops |
//! | | 140, 144, 148 | u32 each, of a crash: signal (0 = none), its code, thread |
//! | | 152, 160 | of a crash: address, tick |
//! | | 168 | the program's name, 64 bytes, padded with NULs |
//! | | 232 | bytes from a slot to its open calls; 0 = the slots have none, as in older rings |
//! | | 240 | offset of the identity; 0 = none, as in older rings |
//! | | 248 | offset of the control block ([`super::control`]); 0 = none, as in older rings |
//! | | 256, 264 | offset of the first thread's totals, bytes from one thread's to the next's; 0 = there are none, as in older rings |
//! | | 272, 280 | offset and bytes of what is known of thread states ([`super::schedule`]); 0 = nothing, as in older rings |
//! | | 288, 296 | offset and bytes of the files that were loaded into the program, as payloads of XRay files have them ([`crate::xray::payload`], kind 21); 0 = none, as in older rings |
//! | identity, 784 bytes | | whom the ring is of, as [`Identity`](crate::identity::Identity) has it, padded with NULs |
//! | counter, one at each 128 bytes | 4096, up to the slots, at most 128 | records of threads that have no region, one CPU's; none in rings whose slots begin there |
//! | slot, 128 bytes | 0 | cursor: address of the next free byte |
//! | | 24, 32 | address of the region, the chunks that its owner goes round in: all that it has, or fewer where there was no space for the rest |
//! | | 40 | number of the current chunk, from 1; 0 = none yet |
//! | | 56, 64 | records dropped, steps back of the clock |
//! | | 72, 76 | state (u32: 3 its owner lives, 4 it has ended), owner (u32) |
//! | | 80 | generation: counts owners |
//! | | 96 | the owner's name, 16 bytes, padded with NULs |
//! | | 116 | u32: chunks that have space, from the region's start; 0 in rings whose regions have all of it |
//! | mark, 24 bytes, one per chunk behind its slot | 0 | number of the chunk that lies here; 0 while it changes |
//! | | 8, 16 | records made before it, bytes used once it is closed |
//! | open calls of a slot, 10,240 bytes; 8192 in older rings | 0, 1, 2 | how many calls are open; how many of them, the outermost ones, have their entry in a chunk (a byte each); calls that left no records (6 bytes) |
//! | | 16 | the cursor behind the record that is being published, or 0. If the slot's cursor has this value, the fields from 40 to 63 are true |
//! | | 24 | ticks of the shortest call that leaves records |
//! | | 40, 41 | how many calls have their entry in a chunk; the number of a frame |
//! | | 48, 56 | that frame's calls inside without records; the ticks that they took |
//! | | 64 | frames, 40 bytes each: the first stands for the thread, then one for each open call, outermost first |
//! | | 8192, 8200 | word of the arguments of open calls, and the arguments ([`super::arguments`]) |
//! | frame, 40 bytes | 0, 4, 8 | low half of the entry record, CPU (u32 each); tick of the entry |
//! | | 16, 24 | calls inside without records since the thread's record before; the ticks that they took |
//! | | 32 | ticks of all calls inside that have ended |
//! | totals, 64 KiB, one for each slot, and a last one for ended threads | 0 | u32: rows in use |
//! | | 128 | by function id, u32: number of the function's row, from 1; 0 = none |
//! | row, 2112 bytes, from 65536 behind the totals' start | 0 | u32: the function; 0 = all that have no row of their own |
//! | | 8, 16 | calls that have ended with a time, and without one |
//! | | 24, 32, 40 | ticks of the calls with a time: total, self, the longest |
//! | | 64 | 248 counts of calls by their length (`crate::lengths`) |
//! | function | 0, 4, 8 | bytes of the entry, a multiple of 8; id; line (u32 each) |
//! | | 12, 14 | bytes of name and path (u16 each) |
//! | | 16 | name, path, zeros up to a multiple of 8; where the entry goes on: u32 bit 0 = untimed, bits 1 and 2: 1 an event, 2 a name, u32 zero |
//!
//! Fields without a size have 8 bytes.

use super::schedule::Anchor;
#[cfg(feature = "read")]
use crate::bytes::{ByteOrder, Fields};
use crate::identity;
#[cfg(feature = "read")]
use crate::model::{Function, FunctionId, What};

/// First bytes of every ring file.
pub const MAGIC: [u8; 8] = *b"FDRRING\x01";

/// A line of advice if a file with these first bytes is a ring file of another version. `None`: it is not.
#[must_use]
pub fn other_version(head: &[u8]) -> Option<String> {
    let [name @ .., ours] = MAGIC;
    let version = *head.strip_prefix(&name)?.first()?;
    (version != ours).then(|| {
        format!(
            "a ring file of version {version}, and this fdr reads version {ours}: use the fdr of that version"
        )
    })
}
/// Bytes of a chunk.
pub const CHUNK: usize = 64 * 1024;
/// Bytes of the header that are looked at.
pub const HEADER_SIZE: usize = 304;
/// Bytes of the place of the identity.
pub const IDENTITY_SIZE: usize = 784;

const _: () = assert!(IDENTITY_SIZE >= identity::MOST_BYTES);
/// The place of the counters, up to the slots, and their distance from each other.
pub const COUNTERS_AT: usize = 4096;
/// Bytes from counter to counter.
pub const COUNTER_STRIDE: usize = 128;
/// More there never are.
pub const COUNTERS: usize = 128;
/// Bytes of a slot without its marks.
pub const SLOT_SIZE: usize = 128;
/// Bytes of a mark.
pub const MARK_SIZE: usize = 24;
/// Bytes of a function's entry before its name.
pub const FUNCTION_HEAD: usize = 16;
/// Of the flags behind a function's texts.
pub const UNTIMED: u32 = 1;
/// Of the same flags: from this bit on, what has no calls: 1 an event, 2 a name.
pub const WHAT_BIT: u32 = 1;
/// The places in the header that the recorder checks against its own structure.
pub const HEADER_OFFSETS: [usize; 35] = [
    0, 8, 12, 16, 24, 32, 40, 48, 56, 64, 72, 76, 80, 88, 96, 104, 112, 120, 128, 136, 140, 144,
    148, 152, 160, 168, 232, 240, 248, 256, 264, 272, 280, 288, 296,
];
/// The places of a slot's fields: cursor, region, chunks, current chunk, dropped, clock steps, state,
/// owner, generation, name, chunks with space.
pub const SLOT_OFFSETS: [usize; 11] = [0, 24, 32, 40, 56, 64, 72, 76, 80, 96, 116];

/// Bytes of a slot's open calls.
pub const OPEN_CALLS_SIZE: usize = 10_240;
/// How many frames they have.
pub const FRAMES: usize = 203;
/// The places of their fields: the word of their counts, the end of the record that is being published, threshold, the
/// state that is true then (a word, calls, ticks), frames, the word of the arguments, the arguments.
pub const OPEN_CALLS_OFFSETS: [usize; 9] = [0, 16, 24, 40, 48, 56, 64, 8192, 8200];
/// Bytes of a frame.
pub const FRAME_SIZE: usize = 40;
/// The places of a frame's fields: word, CPU, tick, calls without records, their ticks, ticks of all calls.
pub const FRAME_OFFSETS: [usize; 6] = [0, 4, 8, 16, 24, 32];
/// Bytes of totals without their rows.
pub const TOTALS_SIZE: usize = 1 << 16;
/// The places of their fields: rows, index.
pub const TOTALS_OFFSETS: [usize; 2] = [0, 128];
/// Bytes of a row.
pub const ROW_SIZE: usize = 2112;
/// The places of its fields: function, calls with and without a time, total, self, longest, lengths.
pub const ROW_OFFSETS: [usize; 7] = [0, 8, 16, 24, 32, 40, 64];
/// How many classes of lengths a row counts.
pub const LENGTHS: usize = crate::lengths::CLASSES;

/// The slot's owner lives.
pub const LIVE: u32 = 3;
/// The slot's owner has ended; its records are kept.
pub const ENDED: u32 = 4;

/// The file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The process.
    pub process: u32,
    /// Kind of the clock, as the recorder counts them.
    pub clock: u32,
    /// Address of the file's start in the process: cursors are addresses.
    pub base: u64,
    /// Offset of the first slot.
    pub slots: u64,
    /// Bytes from one slot to the next, marks included.
    pub slot_stride: u64,
    /// Offset of the function table.
    pub functions: u64,
    /// Its bytes.
    pub functions_length: u64,
    /// Offset of the first region.
    pub regions: u64,
    /// Bytes of a region.
    pub region_size: u64,
    /// How many slots there can be.
    pub capacity: u32,
    /// How many were made.
    pub made: u32,
    /// Start of the recording, in ticks.
    pub start_ticks: u64,
    /// CLOCK_MONOTONIC_RAW at the start, in ns.
    pub start_monotonic: u64,
    /// Unix time at the start, in ns.
    pub start_realtime: u64,
    /// Ticks per second, in Hz; 0 = not known.
    pub frequency: u64,
    /// Records of threads whose regions were given to others.
    pub missing_overwritten: u64,
    /// How many threads those are.
    pub missing_threads: u64,
    /// Records of threads without a region, except the records that CPUs count.
    pub missing_dropped: u64,
    /// The clock's rate is constant.
    pub clock_constant: bool,
    /// The clock never stops.
    pub clock_nonstop: bool,
    /// By how much the CPUs' counters certainly differ, in ns.
    pub clock_skew_ns: u64,
    /// What the process crashed of, if it did.
    pub crash: Option<Crash>,
    /// The program's name, padded with NULs.
    pub program: [u8; 64],
    /// Bytes from a slot to its open calls; 0: the slots have none.
    pub open_calls: u64,
    /// Offset of the identity. 0: the file has none.
    pub identity: u64,
    /// Offset of the control block; 0: there is none.
    pub control: u64,
    /// Offset of the first totals, and bytes from one to the next; 0: there are none.
    pub totals: u64,
    /// See `totals`.
    pub totals_size: u64,
    /// Offset and bytes of what is known of thread states; 0: nothing.
    pub schedule: u64,
    /// See `schedule`.
    pub schedule_size: u64,
    /// Offset and bytes of the files that were loaded into the program; 0: none.
    pub modules: u64,
    /// See `modules`.
    pub modules_size: u64,
}

impl Header {
    /// How many bytes counters take, from [`COUNTERS_AT`].
    #[must_use]
    pub fn counters(&self) -> usize {
        const MOST: u64 = (COUNTERS * COUNTER_STRIDE) as u64;
        self.slots.saturating_sub(COUNTERS_AT as u64).min(MOST) as usize
    }

    /// The start of the recording by both clocks.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        Anchor {
            ticks: self.start_ticks,
            ns: self.start_monotonic,
            frequency: self.frequency,
        }
    }
}

#[cfg(feature = "read")]
/// The sum of the counters in these bytes.
#[must_use]
pub fn sum_of_counters(bytes: &[u8]) -> u64 {
    let counters = bytes.chunks_exact(COUNTER_STRIDE);
    let count = |counter: &[u8]| counter.first_chunk().copied();
    let counts = counters.filter_map(count).map(u64::from_le_bytes);
    counts.fold(0, u64::saturating_add)
}

/// A crash, as the process noted it before it did anything else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Crash {
    /// The signal.
    pub signal: u32,
    /// The signal's `si_code`.
    pub code: i32,
    /// The thread, as the kernel counts.
    pub thread: u32,
    /// The address, if the signal has one.
    pub address: u64,
    /// When, in ticks.
    pub ticks: u64,
}

#[cfg(feature = "read")]
/// Decodes the head; `None` if it is no head of a ring.
#[must_use]
pub fn decode_header(bytes: &[u8]) -> Option<Header> {
    let mut fields = Fields::new(bytes.strip_prefix(&MAGIC)?, ByteOrder::Little);
    let (process, clock) = (fields.u32()?, fields.u32()?);
    let (base, slots, slot_stride) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (functions, functions_length) = (fields.u64()?, fields.u64()?);
    let (regions, region_size) = (fields.u64()?, fields.u64()?);
    let (capacity, made) = (fields.u32()?, fields.u32()?);
    let (start_ticks, start_monotonic, start_realtime) =
        (fields.u64()?, fields.u64()?, fields.u64()?);
    let frequency = fields.u64()?;
    let (missing_overwritten, missing_threads) = (fields.u64()?, fields.u64()?);
    let missing_dropped = fields.u64()?;
    let clock_flags = fields.u32()?;
    let crash = Crash {
        signal: fields.u32()?,
        code: fields.u32()? as i32,
        thread: fields.u32()?,
        address: fields.u64()?,
        ticks: fields.u64()?,
    };
    Some(Header {
        process,
        clock,
        base,
        slots,
        slot_stride,
        functions,
        functions_length,
        regions,
        region_size,
        capacity,
        made,
        start_ticks,
        start_monotonic,
        start_realtime,
        frequency,
        missing_overwritten,
        missing_threads,
        missing_dropped,
        clock_constant: clock_flags & 1 != 0,
        clock_nonstop: clock_flags & 2 != 0,
        clock_skew_ns: u64::from(clock_flags >> 8) * 1000,
        crash: (crash.signal != 0).then_some(crash),
        program: fields.bytes(64)?.try_into().ok()?,
        open_calls: fields.u64()?,
        identity: fields.u64()?,
        control: fields.u64()?,
        totals: fields.u64()?,
        totals_size: fields.u64()?,
        schedule: fields.u64()?,
        schedule_size: fields.u64()?,
        modules: fields.u64()?,
        modules_size: fields.u64()?,
    })
}

/// A thread's control block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slot {
    /// Address of the next free byte.
    pub cursor: u64,
    /// Address of the region.
    pub base: u64,
    /// The chunks that the owner uses in turns.
    pub chunks: u64,
    /// Number of the current chunk, from 1; 0 = none yet.
    pub chunk: u64,
    /// Records that the program asked for and that were not written.
    pub dropped: u64,
    /// How often the clock went back.
    pub clock_steps: u64,
    /// [`LIVE`], [`ENDED`], or nobody's.
    pub state: u32,
    /// The owner, as the kernel counts.
    pub thread: u32,
    /// Counts owners.
    pub generation: u64,
    /// The owner's name, padded with NULs.
    pub name: [u8; 16],
    /// Chunks of the region that have space.
    pub given: u32,
}

#[cfg(feature = "read")]
/// Decodes a slot.
#[must_use]
pub fn decode_slot(bytes: &[u8]) -> Option<Slot> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    let cursor = fields.u64()?;
    fields.bytes(16)?;
    let (base, chunks, chunk) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let _metadata = fields.u64()?;
    let (dropped, clock_steps) = (fields.u64()?, fields.u64()?);
    let (state, thread, generation) = (fields.u32()?, fields.u32()?, fields.u64()?);
    let _ended = fields.u64()?;
    let name = fields.bytes(16)?.try_into().ok()?;
    let _high = fields.u32()?;
    Some(Slot {
        cursor,
        base,
        chunks,
        chunk,
        dropped,
        clock_steps,
        state,
        thread,
        generation,
        name,
        given: fields.u32()?,
    })
}

/// The facts about one chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Number of the chunk; 0 while it changes.
    pub number: u64,
    /// Records that the thread had made before it.
    pub first: u64,
    /// Bytes used, once it is closed.
    pub end: u64,
}

#[cfg(feature = "read")]
/// Decodes a mark.
#[must_use]
pub fn decode_mark(bytes: &[u8]) -> Option<Mark> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    Some(Mark {
        number: fields.u64()?,
        first: fields.u64()?,
        end: fields.u64()?,
    })
}

#[cfg(feature = "read")]
/// Decodes the function at the front of `bytes`; also returns its size. `None`: it is damaged.
#[must_use]
pub fn decode_function(bytes: &[u8]) -> Option<(Function, usize)> {
    let mut fields = Fields::new(bytes, ByteOrder::Little);
    let (size, id, line) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (name, file) = (fields.u16()?, fields.u16()?);
    let size = usize::try_from(size).ok()?;
    let needed = FUNCTION_HEAD + usize::from(name) + usize::from(file);
    if size < needed || size % 8 != 0 || size > bytes.len() {
        return None;
    }
    let mut function = Function {
        id: FunctionId(id),
        name: fields.text(name.into())?,
        file: fields.text(file.into())?,
        line,
        untimed: false,
        what: What::Calls,
    };
    // Entries of functions with times end here.
    let flags = bytes.get(needed.next_multiple_of(8)..size);
    if let Some(flags) = flags.filter(|flags| !flags.is_empty()) {
        let flags = Fields::new(flags, ByteOrder::Little).u32()?;
        function.untimed = flags & UNTIMED != 0;
        function.what = What::of((flags >> WHAT_BIT & 3) as u8);
    }
    Some((function, size))
}

#[cfg(test)]
mod tests;
