//! The custom events that this project adds to XRay files, so that a file describes itself: names of functions and
//! threads, counts, clock, program, and the records that were not measured. Pure.
//!
//! Each payload has a multiple of 8 bytes, filled with zeros, in the byte order of its file. Readers ignore
//! unknown versions and kinds. They also ignore bytes behind the fields that they know. Source: this
//! project.
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 4 | tag: `fdr` and a zero byte |
//! | 4 | 1 | version, 1 |
//! | 5 | 1 | kind |
//! | 6 | 2 | zero |
//! | 8 | | body |
//!
//! | kind | body |
//! | --- | --- |
//! | 1 functions | u32 count, u32 bit 0 = some are untimed, bit 1 = some have no calls; count times: u32 id, u32 line (0 unknown), u32 bytes of name, u32 bytes of file, name, file (UTF-8); with any bit: zeros up to a multiple of 8; with bit 0: u32 how many are untimed, and for each u32 its place among these functions, from 0; with bit 1: u32 how many have no calls, and for each u32 bits 0 to 23: its place, bits 24 to 31: 1 an event, 2 a name |
//! | 2 thread | u32 bit 0 = counts are known, u32 bytes of name; u64 recorded, u64 readable, u64 overwritten, u64 dropped (function records); name, zeros up to a multiple of 8; with bit 1: u64 the latest tick of a record of the block; with bit 2: u64 records of calls that left none |
//! | 3 clock | u32 bit 0 = error known, bit 1 = anchor known, bit 2 = its trouble known, bit 3 = second anchor known, u32 bytes of name; f64 error in ppm; u64 anchor tick, u64 anchor in Unix ns; name, zeros up to a multiple of 8; with bit 2: u64 skew of CPUs in ns, u64 steps back, i64 ns ahead, i64 ns by which the time of day was moved, u64 tick and u64 Unix ns of the second anchor |
//! | 4 process | u32 bit 0 = process id known, bit 1 = dump number known, bit 2 = missing records known, bit 3 = end known, u32 bytes of program, u32 bytes of reason, u32 zero; u64 process id, u64 dump number; program, reason, zeros up to a multiple of 8; with bit 2: u64 retired threads, u64 retired records, u64 unplaced records, u64 the tick of the dump or of the process's death (with bit 3) |
//! | 5 balance | u64 synthetic entries, u64 synthetic exits: totals of this block |
//! | 6 synthetic | u32 count, u32 zero: the next count function records of this block were not measured |
//! | 7 lost | u64 number of function records of this thread that are missing at this place |
//! | 8 break | u64 ticks by which the clock jumped ahead between the record before and the next `NewCPUId` or `TSCWrap`: they are taken from all ticks of this block from here on |
//! | 9 short calls | calls that left no records since the previous record of the thread; the innermost open call made them. u64 bits 0 to 23: how many they are; bits 24 to 63: the ticks that they took; a second u64, only if a number is larger: the higher bits of both, at the same places |
//! | 10 threshold | u64 ticks: from here on, shorter calls of this thread may leave no records |
//! | 11 identity | u32 bytes, u32 zero; whom the trace is of, as [`Identity`] has it |
//! | 12, 13, 14, 16 | an event, a task, an argument, a state of the thread: see [`notes`](crate::notes) |
//! | 15 moment | u64 tick, u64 number, from 1; u32 bytes, u32 zero; its name (UTF-8) |
//! | 17 totals | u32 count, u32 bit 0 = of ended threads that are not in the trace, else of the thread of this block; count times what the calls of a function took since the thread began: u32 id (0 = all others), u32 number of lengths, u64 calls with a time, u64 calls without one, u64 ticks in total, u64 self ticks, u64 ticks of the longest; for each length u64 bits 0 to 7: its class (`lengths`), bits 8 to 63: calls |
//! | 18 switches | u32 count, u32 zero; count times: u64 tick, u32 thread (0 = all), u16 CPU, u8 state from here on: 0 running, 1 preempted, 2 waiting, 3 not known; u8 zero |
//! | 19 samples | u32 count, u32 zero; count times: u64 tick, u32 thread, u16 CPU, u8 cause: 0 processor time, 1 page fault; u8 zero; u64 program counter |
//! | 20 accounts | u32 count, u32 zero; count times: u64 tick, u32 thread, u32 zero, u64 ns on a CPU, u64 ns of waiting for a CPU, u64 how often it got one |
//! | 21 modules | u32 bytes, u32 zero; for each file that was loaded into the program: u64 first address, u64 the address behind it, u64 bias: an address less the bias is the address in the file, u32 bytes of its build id, u32 bytes of its path, build id, path (UTF-8), zeros up to a multiple of 8 |
//! | 22 early calls | u32 count, u32 zero; count times, the outermost first: u64 tick, u32 id, u32 zero: calls of the thread of this block that began then, before its first record, and were open when the trace was written |
//! | 23 estimates | u32 count, u32 zero, u64 cost of recording and u64 the budget, both in millionths of the CPU time; count times the estimate of a function: u32 id (0 = outside of all functions), u32 level of its calls at the end: 0 timed, 1 counted, 2 looked at, u64 tick since when it has that level, u64 calls that were not recorded, u64 standard error of that number, u64 total ticks, u64 self ticks and u64 standard error of the self ticks, u64 number of calls without a time that these ticks cover, u64 how often the function was found as the innermost timed caller of calls without a time |

use crate::bytes::{ByteOrder, Fields};
#[cfg(feature = "read")]
use crate::model::FunctionKind;
use crate::model::{
    ClockFaults, Counts, EarlyCall, Estimate, Function, FunctionId, FunctionTotals, Identity,
    Missing, Moment, RecordingCost, Ticks,
};
use crate::notes::{MAX_BYTES, Note, NoteKind};

pub use draft::{
    TotalsRow, encode_balance, encode_break, encode_clock, encode_early_calls, encode_estimates,
    encode_functions, encode_identity, encode_lost, encode_moment, encode_process,
    encode_short_calls, encode_synthetic, encode_thread, encode_threshold, encode_totals,
};

pub use schedule::{
    MODULES, SAMPLES, SWITCHES, account_row, encode as encode_schedule, head as schedule_head,
    put_module, sample_row, switch_row,
};

pub(super) use draft::{
    EARLY_CALL_BYTES, ESTIMATE_BYTES, PayloadBuffer, ShortPayload, early_call_row,
    early_calls_head, estimate_row, estimates_head, put_balance, put_clock, put_moment,
    put_process, put_synthetic, put_thread, put_totals_row, totals_head,
};

mod draft;
pub(crate) mod schedule;
mod totals;

const TAG: [u8; 4] = *b"fdr\0";
const VERSION: u8 = 1;

// The numbers of kinds: 12, 13, 14 and 16 are notes (`NoteKind`), 18 to 21 are in `schedule`, and the others are here. The
// next free number is 24.
const FUNCTIONS: u8 = 1;
/// The bits of a place among functions that have no calls, and all of them set.
const PLACE_BITS: u32 = 24;
const MAX_PLACES: u32 = (1 << PLACE_BITS) - 1;
const THREAD: u8 = 2;
const CLOCK: u8 = 3;
const PROCESS: u8 = 4;
const BALANCE: u8 = 5;
const SYNTHETIC: u8 = 6;
const LOST: u8 = 7;
const BREAK: u8 = 8;
/// The kind of a summary of calls that left no records.
pub const SHORT_CALLS: u8 = 9;
/// The largest counts that a summary's first word holds: 24 bits of calls, and 40 bits of ticks. A second word, if there
/// is one, holds the higher bits of both.
pub const MAX_CALLS: u64 = (1 << 24) - 1;
/// See [`MAX_CALLS`].
pub const MAX_TICKS: u64 = (1 << 40) - 1;
/// The kind of a threshold.
pub const THRESHOLD: u8 = 10;
const IDENTITY: u8 = 11;
/// A named moment.
const MOMENT: u8 = 15;

/// The kind of totals.
const TOTALS: u8 = 17;
/// The kind of early calls.
const EARLY_CALLS: u8 = 22;
/// The kind of estimates.
const ESTIMATES: u8 = 23;

/// The first bytes of a payload of that kind. Async-signal-safe.
#[must_use]
pub const fn head(kind: u8) -> [u8; 8] {
    let [a, b, c, d] = TAG;
    [a, b, c, d, VERSION, kind, 0, 0]
}

/// Whether a payload is one of ours, of any version and kind.
#[must_use]
pub fn is_ours(payload: &[u8]) -> bool {
    payload.starts_with(&TAG)
}

/// A payload of ours, decoded.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// Some functions.
    Functions(Vec<Function>),
    /// The thread of this block. [`Payload::Balance`] has the counts of synthetic records.
    Thread {
        /// Its name.
        name: String,
        /// Its counts.
        counts: Option<Counts>,
        /// The latest tick of its records.
        latest: Option<Ticks>,
    },
    /// The facts about the clock that the header does not hold.
    Clock {
        /// Its name.
        name: String,
        /// Error of the frequency in parts per million.
        error_ppm: Option<f64>,
        /// A tick and the Unix time in nanoseconds at that tick.
        anchor: Option<(Ticks, u64)>,
        /// A second pair, taken when the trace was written.
        until: Option<(Ticks, u64)>,
        /// The faults of the clock.
        faults: ClockFaults,
    },
    /// Where the trace comes from.
    Process {
        /// Name of the program.
        program: String,
        /// Why it was written.
        reason: String,
        /// Process id.
        process: Option<u64>,
        /// Number of the dump, from 1.
        dump: Option<u64>,
        /// Records of threads that are not in the trace; zeros if the event does not state them.
        missing: Missing,
        /// The moment of the dump, or of the process's death.
        end: Option<Ticks>,
    },
    /// Whom the trace is of.
    Identity(Identity),
    /// A named moment.
    Moment(Moment),
    /// The records of the block that were not measured.
    Balance {
        /// Entries.
        entries: u64,
        /// Exits.
        exits: u64,
    },
    /// The next function records were not measured.
    Synthetic {
        /// How many.
        count: u32,
    },
    /// Function records are missing here.
    Lost {
        /// How many.
        records: u64,
    },
    /// The clock jumped between the previous record and the next absolute tick.
    Break {
        /// The ticks by which it jumped ahead. 0: the ticks of the file do not show the jump.
        ticks: u64,
    },
    /// Calls that left no records since the thread's record before.
    ShortCalls {
        /// How many.
        calls: u64,
        /// The ticks that they took.
        ticks: u64,
    },
    /// From here on, shorter calls may leave no records.
    Threshold {
        /// The ticks of the shortest call that leaves records.
        ticks: u64,
    },
    /// A note: what the program reports beside its calls. [`note`] has its body.
    Note(NoteKind),
    /// The totals of functions since their threads began.
    Totals {
        /// Whether these are the totals of ended threads that are not in the trace.
        is_of_missing: bool,
        /// Each function.
        rows: Vec<FunctionTotals>,
    },
    /// The estimates of functions, on all threads.
    Estimates {
        /// The cost of recording.
        cost: RecordingCost,
        /// Each function that has an estimate.
        rows: Vec<(FunctionId, Estimate)>,
    },
    /// Calls of the thread of this block that began before its first record and had not ended.
    EarlyCalls(Vec<EarlyCall>),
    /// The known states of threads.
    Schedule(crate::model::Schedule),
    /// A payload of an unknown version or kind.
    Unknown,
}

impl Payload {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Payload::Functions(_) => "functions",
            Payload::Thread { .. } => "thread",
            Payload::Clock { .. } => "clock",
            Payload::Process { .. } => "process",
            Payload::Identity(_) => "identity",
            Payload::Moment(_) => "moment",
            Payload::Balance { .. } => "balance",
            Payload::Synthetic { .. } => "synthetic",
            Payload::Lost { .. } => "lost",
            Payload::Break { .. } => "break",
            Payload::ShortCalls { .. } => "short calls",
            Payload::Threshold { .. } => "threshold",
            Payload::EarlyCalls(_) => "early calls",
            Payload::Note(kind) => kind.name(),
            Payload::Totals { .. } => "totals",
            Payload::Estimates { .. } => "estimates",
            Payload::Schedule(_) => "thread states",
            Payload::Unknown => "unknown kind",
        }
    }
}

#[cfg(feature = "read")]
/// Decodes a payload. `None`: it is not ours, or it is damaged.
#[must_use]
pub fn decode(payload: &[u8], order: ByteOrder) -> Option<Payload> {
    let mut fields = Fields::new(payload.strip_prefix(&TAG)?, order);
    let (version, kind, _zero) = (fields.u8()?, fields.u8()?, fields.u16()?);
    if version != VERSION {
        return Some(Payload::Unknown);
    }
    Some(match kind {
        FUNCTIONS => Payload::Functions(functions(fields)?),
        THREAD => thread(fields)?,
        CLOCK => clock(fields)?,
        PROCESS => process(fields)?,
        IDENTITY => {
            let (bytes, _zero) = (fields.u32()?, fields.u32()?);
            Payload::Identity(Identity::from_bytes(fields.bytes(bytes as usize)?))
        }
        MOMENT => {
            let (time, number) = (Ticks(fields.u64()?), fields.u64()?);
            let (bytes, _zero) = (fields.u32()?, fields.u32()?);
            let name = fields.text(bytes)?;
            Payload::Moment(Moment { number, time, name })
        }
        BALANCE => Payload::Balance {
            entries: fields.u64()?,
            exits: fields.u64()?,
        },
        SYNTHETIC => Payload::Synthetic {
            count: fields.u32()?,
        },
        LOST => Payload::Lost {
            records: fields.u64()?,
        },
        BREAK => Payload::Break {
            ticks: fields.u64()?,
        },
        TOTALS => totals::totals(fields)?,
        EARLY_CALLS => Payload::EarlyCalls(totals::early_calls(fields)?),
        ESTIMATES => totals::estimates(fields)?,
        SWITCHES..=MODULES => Payload::Schedule(schedule::decode(kind, fields)?),
        SHORT_CALLS | THRESHOLD => about_short_calls(kind, &mut fields)?,
        kind => match NoteKind::from_number(kind) {
            Some(kind) => {
                Note::decode(kind, note(payload)?)?;
                Payload::Note(kind)
            }
            None => Payload::Unknown,
        },
    })
}

/// The body of a payload that is a note.
#[must_use]
pub fn note(payload: &[u8]) -> Option<&[u8]> {
    payload.get(8..)
}

/// Whether a ring may contain a payload with these first bytes and this length: one about short calls, or a note.
/// Async-signal-safe.
#[must_use]
pub(crate) fn is_of_ring(first: [u8; 8], bytes: usize) -> bool {
    let [.., kind, _, _] = first;
    let is_sized = match kind {
        SHORT_CALLS | THRESHOLD => matches!(bytes, 16 | 24),
        kind => {
            let is_sized = (8..=8 + MAX_BYTES).contains(&bytes) && bytes % 8 == 0;
            is_sized && NoteKind::from_number(kind).is_some()
        }
    };
    is_sized && first == head(kind)
}

/// A note in a little-endian payload: its kind and its body. `None`: it is another payload, or it is damaged.
pub(super) fn note_of_ring(payload: &[u8]) -> Option<(NoteKind, &[u8])> {
    let (first, body) = payload.split_first_chunk()?;
    let kind = NoteKind::from_number(first[5]).filter(|&kind| *first == head(kind as u8))?;
    Note::decode(kind, body)?;
    Some((kind, body))
}

/// A note: its kind and its body.
#[must_use]
pub fn encode_note(kind: NoteKind, body: &[u8]) -> Vec<u8> {
    [&head(kind as u8), body].concat()
}

/// Decodes a little-endian payload about short calls. `None`: it is another one, or it is damaged.
pub(super) fn short_calls(payload: &[u8]) -> Option<Payload> {
    let kind = [SHORT_CALLS, THRESHOLD];
    let kind = kind
        .into_iter()
        .find(|&kind| payload.starts_with(&head(kind)))?;
    let mut fields = Fields::new(payload.get(8..)?, ByteOrder::Little);
    about_short_calls(kind, &mut fields)
}

fn about_short_calls(kind: u8, fields: &mut Fields<'_>) -> Option<Payload> {
    let number = fields.u64()?;
    Some(match kind {
        SHORT_CALLS => {
            let high = fields.u64().unwrap_or(0);
            Payload::ShortCalls {
                calls: number & MAX_CALLS | (high & MAX_CALLS) << 24,
                ticks: number >> 24 | (high >> 24) << 40,
            }
        }
        _ => Payload::Threshold { ticks: number },
    })
}

/// The body of a summary: one word, or two if the numbers are large. Async-signal-safe.
pub(crate) fn summary_words(calls: u64, ticks: u64) -> ([u64; 2], usize) {
    let low = calls & MAX_CALLS | (ticks & MAX_TICKS) << 24;
    let high = calls >> 24 & MAX_CALLS | (ticks >> 40) << 24;
    ([low, high], 1 + usize::from(high != 0))
}

#[cfg(feature = "read")]
fn functions(mut fields: Fields<'_>) -> Option<Vec<Function>> {
    let (count, flags) = (fields.u32()?, fields.u32()?);
    let (mut list, mut texts) = (Vec::new(), 0_u32);
    for _ in 0..count {
        let (id, line) = (fields.u32()?, fields.u32()?);
        let (name, file) = (fields.u32()?, fields.u32()?);
        texts = texts.wrapping_add(name).wrapping_add(file);
        let (name, file) = (fields.text(name)?, fields.text(file)?);
        list.push(Function {
            id: FunctionId(id),
            name,
            file,
            line,
            untimed: false,
            kind: FunctionKind::Calls,
        });
    }
    if flags & 3 != 0 {
        skip_to_8(&mut fields, texts)?;
    }
    if flags & 1 != 0 {
        for _ in 0..fields.u32()? {
            let place = fields.u32()? as usize;
            list.get_mut(place)?.untimed = true;
        }
    }
    if flags & 2 != 0 {
        for _ in 0..fields.u32()? {
            let what = fields.u32()?;
            let place = (what & MAX_PLACES) as usize;
            list.get_mut(place)?.kind = FunctionKind::from_number((what >> PLACE_BITS) as u8);
        }
    }
    Some(list)
}

#[cfg(feature = "read")]
fn thread(mut fields: Fields<'_>) -> Option<Payload> {
    let (flags, name_bytes) = (fields.u32()?, fields.u32()?);
    let mut counts = Counts {
        recorded: fields.u64()?,
        readable: fields.u64()?,
        overwritten: fields.u64()?,
        dropped: fields.u64()?,
        ..Counts::default()
    };
    let name = fields.text(name_bytes)?;
    let mut latest = None;
    if flags & (2 | 4) != 0 {
        skip_to_8(&mut fields, name_bytes)?;
    }
    if flags & 2 != 0 {
        latest = Some(Ticks(fields.u64()?));
    }
    if flags & 4 != 0 {
        counts.summarised = fields.u64()?;
    }
    Some(Payload::Thread {
        name,
        counts: (flags & 1 != 0).then_some(counts),
        latest,
    })
}

#[cfg(feature = "read")]
fn clock(mut fields: Fields<'_>) -> Option<Payload> {
    let (flags, name_bytes) = (fields.u32()?, fields.u32()?);
    let error = f64::from_bits(fields.u64()?);
    let anchor = (Ticks(fields.u64()?), fields.u64()?);
    let name = fields.text(name_bytes)?;
    let (mut faults, mut until) = (ClockFaults::default(), None);
    if flags & 4 != 0 {
        skip_to_8(&mut fields, name_bytes)?;
        faults = ClockFaults {
            skew_ns: fields.u64()?,
            steps_back: fields.u64()?,
            ahead_ns: fields.u64()? as i64,
            wall_step_ns: fields.u64()? as i64,
        };
        let pair = (Ticks(fields.u64()?), fields.u64()?);
        until = (flags & 8 != 0).then_some(pair);
    }
    Some(Payload::Clock {
        name,
        error_ppm: (flags & 1 != 0).then_some(error),
        anchor: (flags & 2 != 0).then_some(anchor),
        until,
        faults,
    })
}

#[cfg(feature = "read")]
/// The zeros behind a text of this many bytes.
fn skip_to_8(fields: &mut Fields<'_>, text: u32) -> Option<()> {
    let zeros = u64::from(text).next_multiple_of(8) - u64::from(text);
    fields.bytes(zeros as usize).map(|_| ())
}

#[cfg(feature = "read")]
fn process(mut fields: Fields<'_>) -> Option<Payload> {
    let flags = fields.u32()?;
    let (program_bytes, reason_bytes, _zero) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (process, dump) = (fields.u64()?, fields.u64()?);
    let (program, reason) = (fields.text(program_bytes)?, fields.text(reason_bytes)?);
    let (mut missing, mut end) = (Missing::default(), None);
    if flags & 4 != 0 {
        let text = u64::from(program_bytes) + u64::from(reason_bytes);
        fields.bytes((text.next_multiple_of(8) - text) as usize)?;
        missing = Missing {
            threads: fields.u64()?,
            overwritten: fields.u64()?,
            dropped: fields.u64()?,
        };
        if flags & 8 != 0 {
            end = Some(Ticks(fields.u64()?));
        }
    }
    Some(Payload::Process {
        program,
        reason,
        process: (flags & 1 != 0).then_some(process),
        dump: (flags & 2 != 0).then_some(dump),
        missing,
        end,
    })
}
