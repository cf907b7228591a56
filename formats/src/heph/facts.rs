//! What the document has no packet for and this project needs, as events and attributes of its own.
//! Decoded here; `book` encodes them. Must never fail: what is missing is left empty.
//!
//! Facts are events without duration on stream 4,294,967,295. The first is `fdr:trace`.
//!
//! | description | attributes |
//! | --- | --- |
//! | `fdr:trace` | `version` 1; where known: `program`, `process`, `reason`, `dump` (from 1), `missing` (u64 array: threads that ended, their records, records without a place), `clock` (name), `error_ppm` (f64), `constant` 1, `nonstop` 1, `anchor` (u64 array: a time in ns as events have it, the Unix time in ns at that time), `trouble` of the clock (u64 array: skew of CPUs in ns, steps back; as two's complements: ns ahead, ns by which the time of day was moved) |
//! | `fdr:function` | `id`, `name`, `file`, `line`, `untimed` (1 where it is); comes before the function's first call |
//! | `fdr:thread` | `stream`, `substream`; `thread`: the thread's number where it is not the stream's; `process`, `name`, `counts` (u64 array: records asked for, readable, overwritten, dropped, synthetic entries, synthetic exits); the last one of a thread holds |
//!
//! Marks are events without duration on their thread's stream. Those without a time of their own have
//! that of the thread's event before, or the tick before its first event:
//!
//! | description | attributes |
//! | --- | --- |
//! | `fdr:wall` | `seconds` and `micros` since 1970 |
//! | `fdr:lost` | `records`: function records that are missing here; `skipped`: so many numbers of the stream's counter are left out in front of this event for them, one for each two records |
//! | `fdr:custom` | the payload; `cpu` |
//! | `fdr:typed` | the payload; `kind` |
//!
//! A payload is `text`, where it is UTF-8, or `bytes` (how many) and `data` (u64 array, eight bytes in
//! each, the last filled with zeros). Texts and arrays that one attribute can't hold go on in more
//! attributes of the same name.
//!
//! Calls are the other events. Their attributes, each left out where it says nothing:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `function_id` | `id` of the function; without it, it is the first that had this name |
//! | `cpu`, `exit_cpu` | the CPU at the start; that at the end, where it changed since the edge before |
//! | `flags` | 1: the entry was not measured; 2: the exit was not; 4: left by a tail call |
//! | `arguments` | u64 array: the call's arguments |

use super::record::{Attribute, Event, Value};
use crate::model::{Counts, CpuId, Missing, Trouble};

/// The stream of facts. No thread is written to it.
pub(super) const FACTS: u32 = u32::MAX;
pub(super) const VERSION: u64 = 1;
/// What the descriptions of our own events begin with.
pub(super) const PREFIX: &str = "fdr:";
pub(super) const TRACE: &str = "fdr:trace";
pub(super) const FUNCTION: &str = "fdr:function";
pub(super) const THREAD: &str = "fdr:thread";
pub(super) const WALL: &str = "fdr:wall";
pub(super) const LOST: &str = "fdr:lost";
pub(super) const CUSTOM: &str = "fdr:custom";
pub(super) const TYPED: &str = "fdr:typed";

/// An event of ours that is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    Trace,
    Function,
    Thread,
    Wall,
    Lost,
    Custom,
    Typed,
}

/// Which of ours an event is; `None`: a call.
#[inline]
pub(super) fn own(event: &Event<'_>) -> Option<Own> {
    if !event.description.starts_with(PREFIX.as_bytes()) {
        return None;
    }
    let own = match std::str::from_utf8(event.description).ok()? {
        TRACE => Own::Trace,
        FUNCTION => Own::Function,
        THREAD => Own::Thread,
        WALL => Own::Wall,
        LOST => Own::Lost,
        CUSTOM => Own::Custom,
        TYPED => Own::Typed,
        _ => return None,
    };
    // A function may have any name: the writer gives those of such names their number.
    let call = attributes(event).any(|attribute| attribute.name == b"function_id");
    (!call).then_some(own)
}

/// The attributes up to the first damaged one.
pub(super) fn attributes<'a>(event: &Event<'a>) -> impl Iterator<Item = Attribute<'a>> {
    event.attributes().map_while(Result::ok)
}

/// What an attribute of a call says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning<'a> {
    Function(u32),
    Cpu(CpuId),
    ExitCpu(CpuId),
    Flags(u8),
    Arguments(super::record::Numbers<'a>),
    /// Not ours: some other program's.
    Foreign,
}

/// What an attribute of a call says in a trace of ours.
#[inline]
pub(super) fn meaning<'a>(attribute: &Attribute<'a>) -> Meaning<'a> {
    let short = |value: u64| u32::try_from(value).ok();
    let meaning = match (attribute.name, attribute.value) {
        (b"function_id", Value::Unsigned(id)) => short(id).map(Meaning::Function),
        (b"cpu", Value::Unsigned(cpu)) => short(cpu).map(CpuId).map(Meaning::Cpu),
        (b"exit_cpu", Value::Unsigned(cpu)) => short(cpu).map(CpuId).map(Meaning::ExitCpu),
        (b"flags", Value::Unsigned(flags @ 0..=7)) => Some(Meaning::Flags(flags as u8)),
        (b"arguments", Value::Unsigneds(values)) => Some(Meaning::Arguments(values)),
        _ => None,
    };
    meaning.unwrap_or(Meaning::Foreign)
}

/// `fdr:trace`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TraceFacts {
    pub(super) program: String,
    pub(super) process: Option<u64>,
    pub(super) reason: String,
    pub(super) dump: Option<u64>,
    pub(super) missing: Missing,
    pub(super) clock: String,
    /// Bits of an f64, which compare even if it is no number.
    pub(super) error_ppm: Option<u64>,
    pub(super) constant: bool,
    pub(super) nonstop: bool,
    /// A time as events have it, and the Unix time at it, in ns.
    pub(super) anchor: Option<(u64, u64)>,
    pub(super) trouble: Trouble,
}

impl TraceFacts {
    pub(super) fn decode(event: &Event<'_>) -> TraceFacts {
        let mut facts = TraceFacts::default();
        for Attribute { name, value } in attributes(event) {
            match (name, value) {
                (b"program", Value::Text(text)) => facts.program = lossy(text),
                (b"process", Value::Unsigned(process)) => facts.process = Some(process),
                (b"reason", Value::Text(text)) => facts.reason = lossy(text),
                (b"dump", Value::Unsigned(dump)) => facts.dump = Some(dump),
                (b"missing", Value::Unsigneds(values)) => {
                    let [threads, records, unplaced] = first(values.iter());
                    facts.missing = Missing {
                        retired_threads: threads,
                        retired_records: records,
                        unplaced_records: unplaced,
                    };
                }
                (b"clock", Value::Text(text)) => facts.clock = lossy(text),
                (b"error_ppm", Value::Float(error)) => {
                    facts.error_ppm = Some(error.to_bits());
                }
                (b"trouble", Value::Unsigneds(values)) => {
                    let [skew_ns, steps_back, ahead_ns, wall_step_ns] = first(values.iter());
                    facts.trouble = Trouble {
                        skew_ns,
                        steps_back,
                        ahead_ns: ahead_ns.cast_signed(),
                        wall_step_ns: wall_step_ns.cast_signed(),
                    };
                }
                (b"constant", Value::Unsigned(constant)) => facts.constant = constant != 0,
                (b"nonstop", Value::Unsigned(nonstop)) => facts.nonstop = nonstop != 0,
                (b"anchor", Value::Unsigneds(values)) if values.iter().len() == 2 => {
                    let [time, unix] = first(values.iter());
                    facts.anchor = Some((time, unix));
                }
                _ => {}
            }
        }
        facts
    }
}

/// `fdr:function`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FunctionFacts {
    pub(super) id: Option<u32>,
    pub(super) name: String,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) untimed: bool,
}

impl FunctionFacts {
    pub(super) fn decode(event: &Event<'_>) -> FunctionFacts {
        let mut facts = FunctionFacts::default();
        for Attribute { name, value } in attributes(event) {
            match (name, value) {
                (b"id", Value::Unsigned(id)) => facts.id = u32::try_from(id).ok(),
                (b"name", Value::Text(text)) => facts.name = lossy(text),
                (b"file", Value::Text(text)) => facts.file = lossy(text),
                (b"line", Value::Unsigned(line)) => facts.line = u32::try_from(line).unwrap_or(0),
                (b"untimed", Value::Unsigned(untimed)) => facts.untimed = untimed == 1,
                _ => {}
            }
        }
        facts
    }
}

/// `fdr:thread`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadFacts {
    pub(super) stream: Option<u32>,
    pub(super) substream: u64,
    pub(super) thread: Option<u64>,
    pub(super) process: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) counts: Option<Counts>,
}

impl ThreadFacts {
    pub(super) fn decode(event: &Event<'_>) -> ThreadFacts {
        let mut facts = ThreadFacts::default();
        for Attribute { name, value } in attributes(event) {
            match (name, value) {
                (b"stream", Value::Unsigned(stream)) => facts.stream = u32::try_from(stream).ok(),
                (b"substream", Value::Unsigned(substream)) => facts.substream = substream,
                (b"thread", Value::Unsigned(thread)) => facts.thread = Some(thread),
                (b"process", Value::Unsigned(process)) => facts.process = Some(process),
                (b"name", Value::Text(text)) => facts.name = Some(lossy(text)),
                (b"counts", Value::Unsigneds(values)) => {
                    let values = first(values.iter());
                    let [recorded, readable, overwritten, dropped, entries, exits] = values;
                    facts.counts = Some(Counts {
                        recorded,
                        readable,
                        overwritten,
                        dropped,
                        synthetic_entries: entries,
                        synthetic_exits: exits,
                    });
                }
                _ => {}
            }
        }
        facts
    }
}

/// A number of an event of ours; 0 where it has none of the name.
pub(super) fn number(event: &Event<'_>, wanted: &str) -> u64 {
    optional(event, wanted).unwrap_or(0)
}

/// A number of an event of ours.
pub(super) fn optional(event: &Event<'_>, wanted: &str) -> Option<u64> {
    attributes(event).find_map(|Attribute { name, value }| match value {
        Value::Unsigned(number) if name == wanted.as_bytes() => Some(number),
        _ => None,
    })
}

/// The payload of a custom or typed event.
pub(super) fn payload(event: &Event<'_>) -> Vec<u8> {
    let mut data = Vec::new();
    let mut bytes = usize::MAX;
    for Attribute { name, value } in attributes(event) {
        match (name, value) {
            (b"text", Value::Text(text)) => data.extend_from_slice(text),
            (b"bytes", Value::Unsigned(count)) => {
                bytes = usize::try_from(count).unwrap_or(usize::MAX);
            }
            (b"data", Value::Unsigneds(words)) => {
                data.extend(words.iter().flat_map(u64::to_be_bytes));
            }
            _ => {}
        }
    }
    data.truncate(bytes);
    data
}

pub(super) fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// The first values of an array, zeros where it is shorter.
fn first<const N: usize>(values: impl Iterator<Item = u64>) -> [u64; N] {
    let mut array = [0; N];
    array
        .iter_mut()
        .zip(values)
        .for_each(|(place, value)| *place = value);
    array
}
