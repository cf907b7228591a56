//! This project's own events and attributes, for facts that Heph's document has no packet for. Decoded
//! here; `fact_encoder` encodes them. Decoding must never fail: a missing value is left empty.
//!
//! Each of our events has at most 128 bytes, and its attributes are scalars. The reason is Heph's own
//! converter: it refuses a trace because of one array, or one longer event. A payload that is no text is
//! the only array, and may have any length. The rest of a long event follows directly behind it, in events
//! `fdr:more`. Their attribute `of` names the event that they continue (its stream << 32 | its counter).
//! Their other attributes belong to that event. A long text goes on in more attributes of the same name.
//!
//! Facts are events without duration on stream 4,294,967,295, and so are `fdr:more` events. Their times
//! have no meaning: each has a microsecond of its own. The first fact is `fdr:trace`.
//!
//! | description | attributes |
//! | --- | --- |
//! | `fdr:trace` | `version` 2; where known: `program`, `process`, `reason`, `dump` (from 1), `retired_threads`, `retired_records`, `unplaced_records`, `clock` (name), `error_ppm` (f64), `constant` 1, `nonstop` 1, `anchor_time` (in ns as events have it), `anchor_unix` (the Unix time in ns at that time), `skew_ns`, `steps_back`, `ahead_ns` (i64), `wall_step_ns` (i64), `end_time` (the moment of the dump, in ns as events have it), `host`, `boot_id`, `build_id`, `program_version`, `tags` (texts) |
//! | `fdr:function` | `id`, `name`, `file`, `line`, `untimed` (1 where it is), `what` (1 the name of an event, 2 another name of notes); comes before the function's first call |
//! | `fdr:thread` | `stream`, `substream`; `thread`: the thread's number where it is not the stream's; `rows`: the substreams with these upper 32 bits are of the thread, too; `process`, `name`; of the records: `recorded` (always, if any is known), `readable`, `overwritten`, `dropped`, `synthetic_entries`, `synthetic_exits` (0 where left out); the last one of a thread holds |
//!
//! Marks are events without duration on the stream of their thread. Some marks have no time of their own.
//! They get the time of the thread's previous event, or the tick before its first event:
//!
//! | description | attributes |
//! | --- | --- |
//! | `fdr:wall` | `seconds` and `micros` since 1970 |
//! | `fdr:lost` | `records`: function records that are missing here; `skipped`: how many numbers of the stream's counter are left out before this event, one for each two missing records |
//! | `fdr:custom` | the payload; `cpu` |
//! | `fdr:typed` | the payload; `kind` |
//!
//! Heph's own converter prints texts into JSON as they are. If a text of an event would break JSON, `escaped` 1 stands in
//! front, and all texts of the event are escaped (`escape`).
//!
//! A payload in UTF-8 is `text`. If it goes on in `fdr:more` events, `bytes` stands in front and says how
//! many bytes there are. Any other payload is `bytes` and `data`: a u64 array, eight bytes in each, the
//! last one filled with zeros.
//!
//! A note is an event of its own, whose first attribute is `fdr:note`: the word of the note's class (`note_class`). Its
//! description is the event's name, shortened if it is long. The other attributes are the values of `note_values`, in
//! their order: a truth and an address are u64, bytes and a text that is no UTF-8 are escaped. An event of a task is on
//! the substream that has the task's number; if its thread has a substream too, `substream` is that.
//!
//! All other events are calls. An attribute that has nothing to state is left out:
//!
//! | attribute | meaning |
//! | --- | --- |
//! | `function_id` | `id` of the function; without it, it is the first that had this name |
//! | `cpu`, `exit_cpu` | the CPU at the start; that at the end, where it changed since the edge before |
//! | `flags` | 1: the entry was not measured; 2: the exit was not; 4: left by a tail call; 8: the arguments are in further events |
//! | `argument` | an argument of the call; as often as there are any |
//!
//! A description that does not fit is cut in its middle: `my_app::in~0123abcd~Index::add`. The digits are a
//! hash of the whole name. Such a call has its `function_id`.

use super::record::{Attribute, Event, Value};
use crate::escaped::{unescape, unescape_text};
use crate::facts::{self, Fact, Names};
use crate::identity::Part;
use crate::model::{Counts, CpuId, FunctionKind, TraceInfo};

/// The stream of facts. No thread is written to it.
pub(super) const FACTS: u32 = u32::MAX;
pub(super) const VERSION: u64 = 2;
/// The beginning of the descriptions of our own events.
pub(super) const PREFIX: &str = "fdr:";
pub(super) const TRACE: &str = "fdr:trace";
pub(super) const FUNCTION: &str = "fdr:function";
pub(super) const THREAD: &str = "fdr:thread";
pub(super) const WALL: &str = "fdr:wall";
pub(super) const LOST: &str = "fdr:lost";
pub(super) const CUSTOM: &str = "fdr:custom";
pub(super) const TYPED: &str = "fdr:typed";
pub(super) const MORE: &str = "fdr:more";
/// 1: the texts behind it are escaped.
pub(super) const ESCAPED: &str = "escaped";
/// The first attribute of a note.
pub(super) const NOTE: &str = "fdr:note";
/// A bit of a call's flags: its arguments are in `fdr:more` events.
pub(super) const FURTHER: u8 = 8;
/// The flags of the call itself: see `spans`.
pub(super) const CALL_FLAGS: u8 = 7;

/// Our own event that is no call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnEvent {
    Trace,
    Function,
    Thread,
    Wall,
    Lost,
    Custom,
    Typed,
    /// It continues the event in front of it.
    More,
    /// A note: what the program reports beside its calls.
    Note,
}

/// The name by which `fdr:more` refers to the event that it continues.
pub(super) fn event_key(stream: u32, counter: u32) -> u64 {
    u64::from(stream) << 32 | u64::from(counter)
}

/// The event that an `fdr:more` event continues.
pub(super) fn continued(event: &Event<'_>) -> Option<u64> {
    optional(event, "of")
}

/// The kind of our own event; `None`: a call.
#[inline]
pub(super) fn own(event: &Event<'_>) -> Option<OwnEvent> {
    if event.begins_with_text(NOTE.as_bytes()) {
        return Some(OwnEvent::Note);
    }
    if !event.description.starts_with(PREFIX.as_bytes()) {
        return None;
    }
    let own = match std::str::from_utf8(event.description).ok()? {
        TRACE => OwnEvent::Trace,
        FUNCTION => OwnEvent::Function,
        THREAD => OwnEvent::Thread,
        WALL => OwnEvent::Wall,
        LOST => OwnEvent::Lost,
        CUSTOM => OwnEvent::Custom,
        TYPED => OwnEvent::Typed,
        MORE => OwnEvent::More,
        _ => return None,
    };
    // A function may have any name. If its name is one of these, the writer gives its number.
    let call = attributes(event).any(|attribute| attribute.name == b"function_id");
    (!call).then_some(own)
}

/// The attributes up to the first damaged one.
pub(super) fn attributes<'a>(event: &Event<'a>) -> impl Iterator<Item = Attribute<'a>> {
    event.attributes().map_while(Result::ok)
}

/// The meaning of a call's attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Meaning {
    Function(u32),
    Cpu(CpuId),
    ExitCpu(CpuId),
    Flags(u8),
    Argument(u64),
    /// An attribute of another program.
    Foreign,
}

/// The meaning of a call's attribute in one of our traces.
#[inline]
pub(super) fn meaning(attribute: &Attribute<'_>) -> Meaning {
    let short = |value: u64| u32::try_from(value).ok();
    let meaning = match (attribute.name, attribute.value) {
        (b"function_id", Value::Unsigned(id)) => short(id).map(Meaning::Function),
        (b"cpu", Value::Unsigned(cpu)) => short(cpu).map(CpuId).map(Meaning::Cpu),
        (b"exit_cpu", Value::Unsigned(cpu)) => short(cpu).map(CpuId).map(Meaning::ExitCpu),
        (b"flags", Value::Unsigned(flags @ 0..=15)) => Some(Meaning::Flags(flags as u8)),
        (b"argument", Value::Unsigned(value)) => Some(Meaning::Argument(value)),
        _ => None,
    };
    meaning.unwrap_or(Meaning::Foreign)
}

/// Names of the attributes of `fdr:trace`, in their order.
pub(super) const TRACE_NAMES: &Names = &[
    (Fact::Program, "program"),
    (Fact::Process, "process"),
    (Fact::Reason, "reason"),
    (Fact::Dump, "dump"),
    (Fact::MissingThreads, "retired_threads"),
    (Fact::MissingOverwritten, "retired_records"),
    (Fact::MissingDropped, "unplaced_records"),
    (Fact::ClockName, "clock"),
    (Fact::ErrorPpm, "error_ppm"),
    (Fact::Constant, "constant"),
    (Fact::Nonstop, "nonstop"),
    (Fact::AnchorTime, "anchor_time"),
    (Fact::AnchorUnix, "anchor_unix"),
    (Fact::End, "end_time"),
    (Fact::SkewNs, "skew_ns"),
    (Fact::StepsBack, "steps_back"),
    (Fact::AheadNs, "ahead_ns"),
    (Fact::WallStepNs, "wall_step_ns"),
    (Fact::Identity(Part::Host), "host"),
    (Fact::Identity(Part::Boot), "boot_id"),
    (Fact::Identity(Part::Build), "build_id"),
    (Fact::Identity(Part::Version), "program_version"),
    (Fact::Identity(Part::Tags), "tags"),
];

/// The attributes of our own event, with those of the `fdr:more` events that continue it.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    list: Vec<(Vec<u8>, GatheredValue)>,
    /// About the bytes of the list.
    size: usize,
}

/// A value. Arrays are left out.
#[derive(Debug)]
pub(super) enum GatheredValue {
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// As it is in the file. If it is escaped, it may be longer than the fact may be.
    Text(Vec<u8>),
}

impl Gathered {
    /// Adds the attributes of an event but for the first ones. Returns whether there is room for more.
    pub(super) fn add(&mut self, event: &Event<'_>, skip: usize, most: usize) -> bool {
        for Attribute { name, value } in attributes(event).skip(skip) {
            if self.size > most {
                return false;
            }
            self.size += name.len() + size_of::<(Vec<u8>, GatheredValue)>();
            let value = match value {
                Value::Unsigned(number) => GatheredValue::Unsigned(number),
                Value::Signed(number) => GatheredValue::Signed(number),
                Value::Float(number) => GatheredValue::Float(number),
                Value::Text(text) => {
                    self.size += text.len();
                    match self.list.last_mut() {
                        // A text that one attribute can't hold goes on in the next attribute of its name.
                        Some((last, GatheredValue::Text(before))) if last == name => {
                            before.extend_from_slice(text);
                            continue;
                        }
                        _ => GatheredValue::Text(text.to_vec()),
                    }
                }
                _ => continue,
            };
            self.list.push((name.to_vec(), value));
        }
        self.size <= most
    }

    /// The values, in order.
    pub(super) fn values(&self) -> impl Iterator<Item = &GatheredValue> {
        self.list.iter().map(|(_, value)| value)
    }

    /// Takes back what was escaped, if the event says so.
    pub(super) fn unescape(&mut self) {
        let is_escaped = |(name, value): &(Vec<u8>, GatheredValue)| {
            name == ESCAPED.as_bytes() && matches!(value, GatheredValue::Unsigned(1))
        };
        if self.list.iter().any(is_escaped) {
            for (_, value) in &mut self.list {
                if let GatheredValue::Text(text) = value {
                    *text = unescape_text(text).into_bytes();
                }
            }
        }
    }

    /// Names and values.
    fn facts(&self) -> impl Iterator<Item = (&[u8], &GatheredValue)> {
        self.list.iter().map(|(name, value)| (&name[..], value))
    }

    /// The facts of `fdr:trace`.
    pub(super) fn trace(&self) -> TraceInfo {
        let mut info = TraceInfo::default();
        for (name, value) in self.facts() {
            let Some(fact) = facts::named(TRACE_NAMES, name) else {
                continue;
            };
            match value {
                GatheredValue::Text(text) => fact.set(&mut info, facts::Value::Text(&lossy(text))),
                GatheredValue::Unsigned(flag) if fact.is_flag() => {
                    fact.set(&mut info, facts::Value::Flag(*flag != 0));
                }
                GatheredValue::Unsigned(number) => {
                    fact.set(&mut info, facts::Value::Number(*number));
                }
                GatheredValue::Signed(number) => fact.set(&mut info, facts::Value::Signed(*number)),
                GatheredValue::Float(number) => fact.set(&mut info, facts::Value::Float(*number)),
            }
        }
        info
    }

    /// The facts of `fdr:function`.
    pub(super) fn function(&self) -> FunctionFacts {
        let mut function = FunctionFacts::default();
        for (name, value) in self.facts() {
            match (name, value) {
                (b"id", GatheredValue::Unsigned(id)) => function.id = u32::try_from(*id).ok(),
                (b"name", GatheredValue::Text(text)) => function.name = lossy(text),
                (b"file", GatheredValue::Text(text)) => function.file = lossy(text),
                (b"line", GatheredValue::Unsigned(line)) => {
                    function.line = u32::try_from(*line).unwrap_or(0);
                }
                (b"untimed", GatheredValue::Unsigned(untimed)) => function.untimed = *untimed == 1,
                (b"what", GatheredValue::Unsigned(what)) => {
                    let what = u8::try_from(*what).unwrap_or(u8::MAX);
                    function.kind = FunctionKind::from_number(what);
                }
                _ => {}
            }
        }
        function
    }

    /// The facts of `fdr:thread`.
    pub(super) fn thread(&self) -> ThreadFacts {
        let mut thread = ThreadFacts::default();
        for (name, value) in self.facts() {
            match (name, value) {
                (b"name", GatheredValue::Text(text)) => thread.name = Some(lossy(text)),
                (name, &GatheredValue::Unsigned(number)) => match name {
                    b"stream" => thread.stream = u32::try_from(number).ok(),
                    b"substream" => thread.substream = number,
                    b"thread" => thread.thread = Some(number),
                    b"rows" => thread.rows = Some(number),
                    b"process" => thread.process = Some(number),
                    _ => {
                        facts::set_count(&mut thread.counts, name, number);
                    }
                },
                _ => {}
            }
        }
        thread
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
    pub(super) kind: FunctionKind,
}

/// `fdr:thread`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ThreadFacts {
    pub(super) stream: Option<u32>,
    pub(super) substream: u64,
    pub(super) thread: Option<u64>,
    pub(super) rows: Option<u64>,
    pub(super) process: Option<u64>,
    pub(super) name: Option<String>,
    pub(super) counts: Option<Counts>,
}

/// A number of our own event; 0 if it has no such number.
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

/// The payload of a custom or typed event, as far as it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct Payload {
    pub(super) data: Vec<u8>,
    is_escaped: bool,
    /// The number of its bytes, if the event states it.
    size: Option<usize>,
}

impl Payload {
    /// Takes a part of the payload from an event, which may be `fdr:more`.
    pub(super) fn add(&mut self, event: &Event<'_>) {
        for Attribute { name, value } in attributes(event) {
            match (name, value) {
                (b"escaped", Value::Unsigned(escaped)) => self.is_escaped = escaped == 1,
                (b"text", Value::Text(text)) => self.data.extend_from_slice(text),
                (b"bytes", Value::Unsigned(count)) => {
                    self.size = Some(usize::try_from(count).unwrap_or(usize::MAX));
                }
                (b"data", Value::Unsigneds(words)) => {
                    self.data.extend(words.iter().flat_map(u64::to_be_bytes));
                }
                _ => {}
            }
        }
        self.data.truncate(self.size.unwrap_or(usize::MAX));
    }

    /// Takes back what was escaped.
    pub(super) fn unescape(&mut self) {
        if self.is_escaped {
            self.data = unescape(&self.data).into_owned();
        }
    }

    /// Whether `fdr:more` events have the rest of it.
    pub(super) fn is_cut(&self) -> bool {
        self.size.is_some_and(|size| self.data.len() < size)
    }
}

pub(super) fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
