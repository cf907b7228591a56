//! The ring file, byte for byte: the parts that the recorder maps and that readers decode, described once. Pure: nothing
//! in here touches a file. Little-endian on every machine that it runs on; each part is `repr(C)`, without padding.
//!
//! Source: this project.
//!
//! | part | where |
//! | --- | --- |
//! | [`Header`], and the identity ([`IDENTITY_SIZE`] bytes, as [`Identity`](crate::identity::Identity) has it, padded with NULs) | 0: one page |
//! | counters: records of threads that have no region, one for each CPU | [`COUNTERS_AT`], up to the slots, [`COUNTER_STRIDE`] each |
//! | [`Control`], and behind it the named moments ([`super::moments`]) | [`Header::control`] |
//! | [`Slot`]s, each followed by its [`Mark`]s and its [`OpenCalls`] | [`Header::slots`] |
//! | function table: the entries below | [`Header::functions`] |
//! | regions: chunks of [`CHUNK`] bytes, each a valid XRay buffer | [`Header::regions`] |
//! | [`Totals`], each followed by its [`Row`]s; one for each slot, and a last one for ended threads | [`Header::totals`] |
//! | states of threads ([`super::schedule`]) | [`Header::schedule`] |
//! | files that are loaded into the program, as payloads of XRay files have them ([`crate::xray::payload`], kind 21) | [`Header::modules`] |
//!
//! An entry of the function table:
//!
//! | offset | field |
//! | --- | --- |
//! | 0, 4, 8 | bytes of the entry, a multiple of 8; id; line (u32 each) |
//! | 12, 14 | bytes of name and path (u16 each) |
//! | 16 | name, path, zeros up to a multiple of 8; where the entry goes on: u32 bit 0 = untimed, bits 1 and 2: 1 an event, 2 a name, u32 zero |

use super::control;
use super::schedule::Anchor;
#[cfg(feature = "read")]
use crate::bytes::{ByteOrder, Fields};
use crate::identity;
#[cfg(feature = "read")]
use crate::model::{Function, FunctionId, FunctionKind};
use crate::moments::MAX_BYTES;

/// The type of the words of a part: [`Plain`] in a reader's copies, atomic in the recorder's mapping.
pub trait Words {
    /// 32 bits.
    type U32;
    /// 64 bits.
    type U64;
}

/// The words of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;

impl Words for Plain {
    type U32 = u32;
    type U64 = u64;
}

/// A type that is decoded from a copy.
#[cfg(feature = "read")]
trait Field: Sized {
    fn read(fields: &mut Fields<'_>) -> Option<Self>;
}

#[cfg(feature = "read")]
impl Field for u32 {
    fn read(fields: &mut Fields<'_>) -> Option<u32> {
        fields.u32()
    }
}

#[cfg(feature = "read")]
impl Field for u64 {
    fn read(fields: &mut Fields<'_>) -> Option<u64> {
        fields.u64()
    }
}

#[cfg(feature = "read")]
impl<const COUNT: usize> Field for [u64; COUNT] {
    fn read(fields: &mut Fields<'_>) -> Option<[u64; COUNT]> {
        let mut words = [0; COUNT];
        for word in &mut words {
            *word = fields.u64()?;
        }
        Some(words)
    }
}

/// Parts of which a reader decodes copies.
macro_rules! decoded {
    ($($(#[$of_part:meta])* $name:ident {
        $($(#[$of_field:meta])* $field:ident: $type:ty,)+
    })+) => {$(
        $(#[$of_part])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[repr(C)]
        pub struct $name<W: Words = Plain> {
            $($(#[$of_field])* pub $field: $type,)+
        }

        #[cfg(feature = "read")]
        impl $name {
            /// Decodes the part at the front of the bytes. `None`: it is cut off.
            #[must_use]
            pub fn decode(bytes: &[u8]) -> Option<$name> {
                let mut fields = Fields::new(bytes, ByteOrder::Little);
                Some($name { $($field: Field::read(&mut fields)?,)+ })
            }
        }
    )+};
}

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
/// Bytes of the header.
pub const HEADER_SIZE: usize = size_of::<Header>();
/// Bytes of the place of the identity.
pub const IDENTITY_SIZE: usize = 784;

const _: () = assert!(IDENTITY_SIZE >= identity::MAX_BYTES);
/// The place of the counters, up to the slots.
pub const COUNTERS_AT: usize = 4096;
/// Bytes from counter to counter.
pub const COUNTER_STRIDE: usize = 128;
/// More there never are.
pub const COUNTERS: usize = 128;
/// Bytes of a slot without its marks.
pub const SLOT_SIZE: usize = size_of::<Slot>();
/// Bytes of a mark.
pub const MARK_SIZE: usize = size_of::<Mark>();
/// Bytes of a function's entry before its name.
pub const FUNCTION_HEAD: usize = 16;
/// A bit of the flags behind a function's texts.
pub const UNTIMED: u32 = 1;
/// In these flags, the first bit of the kind of an entry without calls: 1 an event, 2 a name.
pub const WHAT_BIT: u32 = 1;
/// Bytes of a slot's open calls.
pub const OPEN_CALLS_SIZE: usize = size_of::<OpenCalls>();
/// How many frames a slot's [`OpenCalls`] have: frame 0 for the thread itself, and one for each of 202 open calls.
pub const FRAMES: usize = 203;
/// Bytes of a frame.
pub const FRAME_SIZE: usize = size_of::<Frame>();
/// How many words there are for the arguments of open calls.
pub const ARGUMENTS: usize = 255;
/// Bytes of totals without their rows.
pub const TOTALS_SIZE: usize = size_of::<Totals>();
/// How many functions [`Totals`] have a place for, by their ids.
pub const TOTALS_IDS: usize = 16_352;
/// Bytes of a row.
pub const ROW_SIZE: usize = size_of::<Row>();
/// How many classes of lengths a row counts.
pub const LENGTHS: usize = crate::lengths::CLASSES;

const _: () = {
    assert!(HEADER_SIZE == 304 && SLOT_SIZE == 128 && MARK_SIZE == 24);
    assert!(FRAME_SIZE == 40 && OPEN_CALLS_SIZE == 10_240);
    assert!(TOTALS_SIZE == 1 << 16 && ROW_SIZE == 33 * 64);
    assert!(size_of::<Control>() == control::SIZE);
};

/// The slot's owner lives.
pub const LIVE: u32 = 3;
/// The slot's owner has ended; its records are kept.
pub const ENDED: u32 = 4;

decoded! {
    /// The head of the file: where everything else is, and which process made the file.
    Header {
        /// [`MAGIC`]. It is stored last, so a file without it is not complete.
        magic: W::U64,
        /// The process that records.
        pid: W::U32,
        /// `clock::Kind` of every record, as a number.
        clock: W::U32,
        /// Address of the file's start in the process, because cursors are addresses.
        base: W::U64,
        /// Offset of the first slot.
        slots: W::U64,
        /// Bytes from one slot to the next, marks and open calls included.
        slot_stride: W::U64,
        /// Offset of the function table.
        functions: W::U64,
        /// Bytes of complete entries in the function table.
        functions_length: W::U64,
        /// Offset of the first region.
        regions: W::U64,
        /// Bytes of a region.
        region_size: W::U64,
        /// How many slots there can be.
        capacity: W::U32,
        /// How many slots have been made.
        made: W::U32,
        /// The tick at the start of the recording.
        start_ticks: W::U64,
        /// CLOCK_MONOTONIC_RAW at that tick, in ns.
        start_monotonic: W::U64,
        /// Unix time at that tick, in ns.
        start_realtime: W::U64,
        /// Best known ticks per second, in Hz. It is measured at the start, and again from time to time and at each
        /// dump.
        frequency: W::U64,
        /// Records of threads whose regions were given to newer threads.
        missing_overwritten: W::U64,
        /// How many threads those are.
        missing_threads: W::U64,
        /// Records of threads without a region that are not in the counters of the CPUs.
        missing_dropped: W::U64,
        /// Bit 0: the clock's rate is constant. Bit 1: the clock never stops. From bit 8 on: the certain difference
        /// between the counters of the CPUs, in microseconds.
        clock_flags: W::U32,
        /// The signal of a crash, stored last. 0 = no crash.
        crash_signal: W::U32,
        /// The `si_code` of the crash.
        crash_code: W::U32,
        /// The kernel's id of the thread that crashed.
        crash_thread: W::U32,
        /// The address of the crash, if it has one.
        crash_address: W::U64,
        /// The tick of the crash.
        crash_ticks: W::U64,
        /// The program's name, UTF-8, padded with NULs.
        program: [W::U64; 8],
        /// Bytes from a slot to its [`OpenCalls`]. 0 = the slots have none.
        open_calls: W::U64,
        /// Offset of the identity. 0 = the process has not stored it yet.
        identity: W::U64,
        /// Offset of the [`Control`]. 0 = there is none.
        control: W::U64,
        /// Offset of the first [`Totals`]. 0 = there are none.
        totals: W::U64,
        /// Bytes of one totals with its rows.
        totals_size: W::U64,
        /// Offset and bytes of the states of threads ([`super::schedule`]). 0 = there are none.
        schedule: W::U64,
        /// Bytes of the states of threads.
        schedule_size: W::U64,
        /// Offset and bytes of the files that are loaded into the program. 0 = there are none.
        modules: W::U64,
        /// Bytes of the files.
        modules_size: W::U64,
    }

    /// A thread's control block. Only its owner writes the first line, at every record.
    #[repr(align(64))]
    Slot {
        /// Address of the next free byte. At a multiple of [`CHUNK`] the chunk before the cursor is full.
        cursor: W::U64,
        /// Ticks of the last record, lower and upper half. The upper half is `u32::MAX` if the next record must be
        /// uncommon.
        last_low: W::U32,
        /// The upper half.
        last_high: W::U32,
        /// CPU of the last record, as the clock gave it. While the owner makes a record, it is a number that no CPU has. So a
        /// handler that interrupts the owner finds another CPU, and drops and counts its record.
        cpu: W::U32,
        /// 1 = keep the oldest records, then stop (`FDR_MODE=full`).
        full: W::U32,
        /// Address of the region.
        base: W::U64,
        /// How many chunks the owner goes round in. It is fewer than the region has if the others got no space.
        chunks: W::U64,
        /// Number of the current chunk, counted from 1 for the life of the thread. 0 = no chunk yet.
        chunk: W::U64,

        /// Bytes of the current chunk that are metadata records.
        metadata: W::U64,
        /// Records that were asked for but not written.
        dropped: W::U64,
        /// How often the clock went back, because CPUs disagree or the clock was reset. If CPUs disagree, the
        /// record got the time of the last record.
        clock_steps: W::U64,
        /// [`LIVE`] or [`ENDED`]. A smaller value: the slot has no owner.
        state: W::U32,
        /// The kernel's id of the owner.
        tid: W::U32,
        /// Counts owners. If a reader sees it change, it has read two owners.
        generation: W::U64,
        /// Unix time in ns at which the owner ended. The slot that ended first is reused first.
        ended: W::U64,
        /// The owner's name, as the kernel keeps it, padded with NULs.
        name: [W::U64; 2],
        /// The upper half of the last record's ticks, which is never `u32::MAX`.
        high: W::U32,
        /// How many chunks have space, from the start of the region. It never falls, even if the owner changes.
        chunks_with_space: W::U32,
        /// Address of the slot's [`OpenCalls`]. 0: the slot has no totals, so each call leaves its records.
        open_calls: W::U64,
    }

    /// The mark of one chunk of a region.
    Mark {
        /// Number of the chunk in this place. 0 while the chunk changes.
        number: W::U64,
        /// How many function records the thread had made before this chunk.
        first: W::U64,
        /// Bytes used. It is set when the chunk is closed.
        end: W::U64,
    }
}

/// The commands and answers of `fdr ctl` and the dumper: [`super::control`] has the protocol.
#[repr(C, align(64))]
pub struct Control<W: Words = Plain> {
    /// Number of the newest command. The tool writes it, and the dumper sleeps on it.
    pub requested: W::U32,
    /// Number of the last command that has an answer, and of the last one that was read.
    pub answered: W::U32,
    /// Number of the last command that was read.
    pub received: W::U32,
    /// 1 = the process has a dumper.
    pub listens: W::U32,
    /// Bytes from here to the named moments ([`super::moments`]).
    pub moments: W::U32,
    /// Zero.
    pub also_unused: W::U32,
    /// Zero.
    pub unused: [W::U64; 5],
    /// The tool writes the command, and the dumper the answer.
    pub command: [W::U64; control::COMMAND_SIZE / 8],
    /// The answer.
    pub answer: [W::U64; control::ANSWER_SIZE / 8],
}

/// One of them.
#[repr(C)]
pub struct Moment<W: Words = Plain> {
    /// From 1. 0 = none, or it is being written.
    pub number: W::U64,
    /// The tick.
    pub ticks: W::U64,
    /// UTF-8, padded with NULs.
    pub name: [W::U64; MAX_BYTES / 8],
}

/// The open calls of a thread that makes more calls than its ring can hold for `FDR_KEEP`
/// ([`super::open_calls`]). Only the owner writes them.
#[repr(C, align(64))]
pub struct OpenCalls<W: Words = Plain> {
    /// Three counts that change in one step, see [`super::open_calls`]. How many calls are open: the frame
    /// of the innermost one has this index. How many of them, from the outermost on, have their entry record in
    /// the ring. How many calls left no records of their own.
    pub open: W::U64,
    /// Open calls that are deeper than the frames. Their records are in the ring.
    pub deeper: W::U32,
    /// The CPU of the last record in the ring.
    pub cpu: W::U32,
    /// The cursor behind the record that is being published, if it changes the open calls. 0 = no such record.
    pub publishing: W::U64,
    /// Ticks. A shorter call leaves no records of its own.
    pub threshold: W::U64,
    /// Address of the slot's [`Totals`], which the slot always has.
    pub totals: W::U64,
    /// The state that becomes true when the cursor has the value of `publishing`. Bits 0 to 7: how many calls have
    /// their entry record in the ring. Bits 8 to 15: the index of a frame whose short calls change; the next two fields
    /// have their number and their ticks.
    pub next: W::U64,
    /// The short calls of that frame.
    pub next_calls: W::U64,
    /// Their ticks.
    pub next_ticks: W::U64,
    /// The frame 0 stands for the thread itself, outside of all calls.
    pub frames: [Frame<W>; FRAMES],
    /// Ticks that a short call adds to the self time of its caller, in addition to the ticks that a recorded call adds.
    pub beside: W::U64,
    /// How many words of arguments are used ([`super::arguments`]), and the words.
    pub arguments: W::U64,
    /// The words.
    pub arguments_words: [W::U64; ARGUMENTS],
}

/// One open call.
#[repr(C)]
pub struct Frame<W: Words = Plain> {
    /// Low half of the entry record.
    pub word: W::U32,
    /// CPU of the entry, as the clock gave it.
    pub cpu: W::U32,
    /// Ticks of the entry.
    pub ticks: W::U64,
    /// Calls inside that left no records since the thread's last record, and the ticks that they took.
    pub short_calls: W::U64,
    /// The ticks of these calls.
    pub short_ticks: W::U64,
    /// Ticks of all calls inside that have ended.
    pub inside: W::U64,
}

/// The calls of each function since the thread began: their number and their times. Only the owner
/// writes them, except those of ended threads.
#[repr(C, align(128))]
pub struct Totals<W: Words = Plain> {
    /// How many rows are in use. The first one stands for all functions that have no row of their own.
    pub rows: W::U32,
    /// How many rows have space. This number never falls, even if the owner changes.
    pub rows_with_space: W::U32,
    /// Not 0 if the index has functions that share the first row, because there was no space.
    pub share: W::U64,
    /// All rows behind the first `reserved` rows are for functions whose first call is long. 0: no rows are reserved.
    pub reserved: W::U64,
    /// Only in the totals of ended threads: the present cost of recording, and the allowed cost, in millionths of the
    /// program's CPU time. 0: not known.
    pub cost: W::U64,
    /// See `cost`.
    pub budget: W::U64,
    /// Zero.
    pub unused: [W::U64; 11],
    /// By a function's id: the number of its row, from 1. 0 = none yet. The thread alone needs it. So the file may have no
    /// space for it, behind the first page.
    pub index: [W::U32; TOTALS_IDS],
}

/// The calls of one function.
#[repr(C)]
pub struct Row<W: Words = Plain> {
    /// The function's id. 0 = all functions without a row of their own.
    pub function: W::U32,
    /// Not 0 if a call was met inside of another call of the function.
    pub nests: W::U32,
    /// Calls that have ended, and whose time is known.
    pub calls: W::U64,
    /// Calls that have ended, and whose time is not known.
    pub untimed: W::U64,
    /// Sum of the ticks from entry to exit.
    pub total: W::U64,
    /// The same, without the ticks of the calls inside.
    pub own: W::U64,
    /// Ticks of the longest call.
    pub longest: W::U64,
    /// Only in the totals of ended threads, as `estimate`: how often the function was found as the innermost caller whose
    /// calls are timed.
    pub around: W::U64,
    /// Zero.
    pub also_unused: W::U64,
    /// How many calls had which length.
    pub lengths: [W::U64; LENGTHS],
    /// Only in the totals of ended threads, and only the dumper writes it. It also makes the row an odd number of cache
    /// lines. Otherwise the first lines of all rows would be in two sets of a cache.
    pub estimate: Estimate<W>,
}

/// The estimate for the calls of a function, on all threads, because of `FDR_BUDGET`. `model::Estimate` explains the
/// numbers.
#[repr(C)]
pub struct Estimate<W: Words = Plain> {
    /// How the calls are recorded now, as a number of `model::Level`.
    pub level: W::U64,
    /// The tick since when that is so.
    pub since: W::U64,
    /// Calls that were not recorded at all.
    pub missed: W::U64,
    /// Its standard error.
    pub missed_error: W::U64,
    /// Ticks of `sampled` calls without a time, from entry to exit.
    pub total: W::U64,
    /// The same, without the ticks of the calls inside.
    pub own: W::U64,
    /// The standard error of `own`.
    pub own_error: W::U64,
    /// The number of calls without a time that `total` and `own` cover.
    pub sampled: W::U64,
}

impl Header {
    /// The program's name.
    #[must_use]
    pub fn program(&self) -> String {
        text(&self.program)
    }

    /// The clock's rate is constant.
    #[must_use]
    pub fn is_clock_constant(&self) -> bool {
        self.clock_flags & 1 != 0
    }

    /// The clock never stops.
    #[must_use]
    pub fn is_clock_nonstop(&self) -> bool {
        self.clock_flags & 2 != 0
    }

    /// By how much the CPUs' counters certainly differ, in ns.
    #[must_use]
    pub fn clock_skew_ns(&self) -> u64 {
        u64::from(self.clock_flags >> 8) * 1000
    }

    /// The crash of the process, if it crashed.
    #[must_use]
    pub fn crash(&self) -> Option<Crash> {
        (self.crash_signal != 0).then_some(Crash {
            signal: self.crash_signal,
            code: self.crash_code as i32,
            thread: self.crash_thread,
            address: self.crash_address,
            ticks: self.crash_ticks,
        })
    }

    /// How many bytes counters take, from [`COUNTERS_AT`].
    #[must_use]
    pub fn counters(&self) -> usize {
        const MAX: u64 = (COUNTERS * COUNTER_STRIDE) as u64;
        self.slots.saturating_sub(COUNTERS_AT as u64).min(MAX) as usize
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

/// A text that is padded with NULs.
fn text(words: &[u64]) -> String {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = bytes.iter().position(|&byte| byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

impl Slot {
    /// The owner's name.
    #[must_use]
    pub fn name(&self) -> String {
        text(&self.name)
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

/// A crash. The process writes it before it does anything else.
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
        kind: FunctionKind::Calls,
    };
    // Entries of functions with times end here.
    let flags = bytes.get(needed.next_multiple_of(8)..size);
    if let Some(flags) = flags.filter(|flags| !flags.is_empty()) {
        let flags = Fields::new(flags, ByteOrder::Little).u32()?;
        function.untimed = flags & UNTIMED != 0;
        function.kind = FunctionKind::from_number((flags >> WHAT_BIT & 3) as u8);
    }
    Some((function, size))
}

#[cfg(all(test, feature = "read"))]
mod tests;
