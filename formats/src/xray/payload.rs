//! The custom events that this project adds to XRay files, so that one file explains itself: names
//! of functions and threads, counts, clock, program, and which records were not measured. Pure
//! bytes: this file must never decide where an event goes or what a reader does with it.
//!
//! Every payload is a multiple of 8 bytes long (zeros at its end), in the byte order of its file.
//! Readers ignore versions and kinds that they do not know, and what follows the fields that they
//! know. Source: this project.
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
//! | 1 functions | u32 count, u32 zero; count times: u32 id, u32 line (0 unknown), u32 bytes of name, u32 bytes of file, name, file (UTF-8) |
//! | 2 thread | u32 bit 0 = counts are known, u32 bytes of name; u64 recorded, u64 readable, u64 overwritten, u64 dropped (function records); name |
//! | 3 clock | u32 bit 0 = error known, bit 1 = anchor known, u32 bytes of name; f64 error in ppm; u64 anchor tick, u64 anchor in Unix ns; name |
//! | 4 process | u32 bit 0 = process id known, bit 1 = dump number known, bit 2 = missing records known, u32 bytes of program, u32 bytes of reason, u32 zero; u64 process id, u64 dump number; program, reason, zeros up to a multiple of 8; with bit 2: u64 retired threads, u64 retired records, u64 unplaced records |
//! | 5 balance | u64 synthetic entries, u64 synthetic exits: totals of this block |
//! | 6 synthetic | u32 count, u32 zero: the next count function records of this block were not measured |
//! | 7 lost | u64 count: so many function records of this thread are missing at this place |

use crate::bytes::{ByteOrder, Fields};
use crate::model::{Clock, Counts, Function, FunctionId, Missing, Thread, Ticks, TraceInfo};

const TAG: [u8; 4] = *b"fdr\0";
const VERSION: u8 = 1;
/// A batch of functions is closed when it is longer than this.
const BATCH_BYTES: usize = 32 * 1024;

const FUNCTIONS: u8 = 1;
const THREAD: u8 = 2;
const CLOCK: u8 = 3;
const PROCESS: u8 = 4;
const BALANCE: u8 = 5;
const SYNTHETIC: u8 = 6;
const LOST: u8 = 7;

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
    /// The thread of this block. Counts of synthetic records are in [`Payload::Balance`].
    Thread {
        /// Its name.
        name: String,
        /// Its counts.
        counts: Option<Counts>,
    },
    /// More about the clock than the header holds.
    Clock {
        /// Its name.
        name: String,
        /// Error of the frequency in parts per million.
        error_ppm: Option<f64>,
        /// A tick and the Unix time in nanoseconds at that tick.
        anchor: Option<(Ticks, u64)>,
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
        /// Records of threads that are not in the trace; zeros where it does not say.
        missing: Missing,
    },
    /// How many records of the block were not measured.
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
    /// Of a version or kind that this reader does not know.
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
            Payload::Balance { .. } => "balance",
            Payload::Synthetic { .. } => "synthetic",
            Payload::Lost { .. } => "lost",
            Payload::Unknown => "unknown kind",
        }
    }
}

/// Decodes a payload; `None` where it is not ours, or of ours and damaged.
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
        _ => Payload::Unknown,
    })
}

fn functions(mut fields: Fields<'_>) -> Option<Vec<Function>> {
    let (count, _zero) = (fields.u32()?, fields.u32()?);
    let mut list = Vec::new();
    for _ in 0..count {
        let (id, line) = (fields.u32()?, fields.u32()?);
        let (name, file) = (fields.u32()?, fields.u32()?);
        let (name, file) = (fields.text(name)?, fields.text(file)?);
        list.push(Function {
            id: FunctionId(id),
            name,
            file,
            line,
        });
    }
    Some(list)
}

fn thread(mut fields: Fields<'_>) -> Option<Payload> {
    let (flags, name) = (fields.u32()?, fields.u32()?);
    let counts = Counts {
        recorded: fields.u64()?,
        readable: fields.u64()?,
        overwritten: fields.u64()?,
        dropped: fields.u64()?,
        ..Counts::default()
    };
    Some(Payload::Thread {
        name: fields.text(name)?,
        counts: (flags & 1 != 0).then_some(counts),
    })
}

fn clock(mut fields: Fields<'_>) -> Option<Payload> {
    let (flags, name) = (fields.u32()?, fields.u32()?);
    let error = f64::from_bits(fields.u64()?);
    let anchor = (Ticks(fields.u64()?), fields.u64()?);
    Some(Payload::Clock {
        name: fields.text(name)?,
        error_ppm: (flags & 1 != 0).then_some(error),
        anchor: (flags & 2 != 0).then_some(anchor),
    })
}

fn process(mut fields: Fields<'_>) -> Option<Payload> {
    let flags = fields.u32()?;
    let (program_bytes, reason_bytes, _zero) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (process, dump) = (fields.u64()?, fields.u64()?);
    let (program, reason) = (fields.text(program_bytes)?, fields.text(reason_bytes)?);
    let missing = if flags & 4 == 0 {
        Missing::default()
    } else {
        let text = u64::from(program_bytes) + u64::from(reason_bytes);
        fields.bytes((text.next_multiple_of(8) - text) as usize)?;
        Missing {
            retired_threads: fields.u64()?,
            retired_records: fields.u64()?,
            unplaced_records: fields.u64()?,
        }
    };
    Some(Payload::Process {
        program,
        reason,
        process: (flags & 1 != 0).then_some(process),
        dump: (flags & 2 != 0).then_some(dump),
        missing,
    })
}

/// A payload under construction, little-endian as every file that we write.
struct Draft(Vec<u8>);

impl Draft {
    fn new(kind: u8) -> Draft {
        let mut bytes = TAG.to_vec();
        bytes.extend([VERSION, kind, 0, 0]);
        Draft(bytes)
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    fn length(&mut self, text: &str) {
        self.u32(u32::try_from(clip(text).len()).unwrap_or(0));
    }

    fn text(&mut self, text: &str) {
        self.0.extend(clip(text).bytes());
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
    }

    fn finish(mut self) -> Vec<u8> {
        self.align();
        self.0
    }
}

/// Names are kept whole up to a length that no real name has.
fn clip(text: &str) -> &str {
    &text[..text.floor_char_boundary(64 * 1024)]
}

/// The function table, in as many payloads as it needs.
pub fn encode_functions(functions: &[Function]) -> impl Iterator<Item = Vec<u8>> + '_ {
    let mut rest = functions;
    std::iter::from_fn(move || {
        let (mut count, mut bytes) = (0u32, 0);
        for function in rest {
            if bytes > BATCH_BYTES {
                break;
            }
            count += 1;
            bytes += 16 + function.name.len() + function.file.len();
        }
        let (batch, later) = rest
            .split_at_checked(count as usize)
            .filter(|_| count > 0)?;
        rest = later;
        let mut draft = Draft::new(FUNCTIONS);
        draft.u32(count);
        draft.u32(0);
        for function in batch {
            draft.u32(function.id.0);
            draft.u32(function.line);
            draft.length(&function.name);
            draft.length(&function.file);
            draft.text(&function.name);
            draft.text(&function.file);
        }
        Some(draft.finish())
    })
}

/// The thread of a block.
#[must_use]
pub fn encode_thread(thread: &Thread) -> Vec<u8> {
    let counts = thread.counts.unwrap_or_default();
    let mut draft = Draft::new(THREAD);
    draft.u32(u32::from(thread.counts.is_some()));
    draft.length(&thread.name);
    for count in [
        counts.recorded,
        counts.readable,
        counts.overwritten,
        counts.dropped,
    ] {
        draft.u64(count);
    }
    draft.text(&thread.name);
    draft.finish()
}

/// What the header has no room for.
#[must_use]
pub fn encode_clock(clock: &Clock) -> Vec<u8> {
    let (tick, nanos) = clock.anchor.unwrap_or_default();
    let mut draft = Draft::new(CLOCK);
    draft.u32(u32::from(clock.error_ppm.is_some()) | u32::from(clock.anchor.is_some()) << 1);
    draft.length(&clock.name);
    draft.u64(clock.error_ppm.unwrap_or_default().to_bits());
    draft.u64(tick.0);
    draft.u64(nanos);
    draft.text(&clock.name);
    draft.finish()
}

/// Where the trace comes from.
#[must_use]
pub fn encode_process(info: &TraceInfo) -> Vec<u8> {
    let mut draft = Draft::new(PROCESS);
    draft.u32(u32::from(info.process.is_some()) | u32::from(info.dump.is_some()) << 1 | 4);
    draft.length(&info.program);
    draft.length(&info.reason);
    draft.u32(0);
    draft.u64(info.process.unwrap_or_default());
    draft.u64(info.dump.unwrap_or_default());
    draft.text(&info.program);
    draft.text(&info.reason);
    draft.align();
    draft.u64(info.missing.retired_threads);
    draft.u64(info.missing.retired_records);
    draft.u64(info.missing.unplaced_records);
    draft.finish()
}

/// How many records of a block were not measured.
#[must_use]
pub fn encode_balance(entries: u64, exits: u64) -> Vec<u8> {
    let mut draft = Draft::new(BALANCE);
    draft.u64(entries);
    draft.u64(exits);
    draft.finish()
}

/// Says that the next `count` function records were not measured.
#[must_use]
pub fn encode_synthetic(count: u32) -> Vec<u8> {
    let mut draft = Draft::new(SYNTHETIC);
    draft.u32(count);
    draft.u32(0);
    draft.finish()
}

/// Says that so many function records are missing at this place.
#[must_use]
pub fn encode_lost(records: u64) -> Vec<u8> {
    let mut draft = Draft::new(LOST);
    draft.u64(records);
    draft.finish()
}
