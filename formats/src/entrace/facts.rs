//! The meaning of this project's own entries, as the table in [`super`] defines it: the metadata of calls, and the
//! entries of target `fdr`. Encodes and decodes them.

use super::record::{Entry, Level, Metadata, Value};
use crate::facts::{self, Fact, Names};
use crate::identity::Part;
use crate::model::{Function, FunctionId, FunctionKind, Thread, ThreadId, Ticks, TraceInfo};

/// Target of the entries that are no calls.
pub(super) const TARGET: &str = "fdr";
/// Name of the entry about the trace.
pub(super) const TRACE: &str = "fdr:trace";
/// Name of an entry about a function.
pub(super) const FUNCTION: &str = "fdr:function";
/// Name of an entry about a thread.
pub(super) const THREAD: &str = "fdr:thread";
/// Name of an event.
pub(super) const CUSTOM: &str = "fdr:custom";
/// Name of an event with a type.
pub(super) const TYPED: &str = "fdr:typed";
/// Name of a gap.
pub(super) const LOST: &str = "fdr:lost";
/// Name of a wall-clock time.
pub(super) const WALL: &str = "fdr:wall";
/// The bits of `flags`.
pub(super) mod flags {
    /// The entry was not measured.
    pub(in super::super) const SYNTHETIC_ENTRY: u8 = 1;
    /// The exit was not measured.
    pub(in super::super) const SYNTHETIC_EXIT: u8 = 2;
    /// The call was left by a tail call.
    pub(in super::super) const TAIL_EXIT: u8 = 4;
    /// Only an exit is known, at `start_ns`; the entry is missing.
    pub(in super::super) const LONE_EXIT: u8 = 8;
    /// The call was recorded with its arguments, but no argument is known.
    pub(in super::super) const NO_ARGUMENTS: u8 = 16;
}

/// The module part of a function's name: the part before the last `::` outside of brackets.
pub(super) fn module(name: &str) -> &str {
    let (mut depth, mut end) = (0usize, 0);
    let mut colon = false;
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'<' | b'(' | b'[' | b'{' => depth += 1,
            b'>' | b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b':' if colon && depth == 0 => end = at - 1,
            _ => {}
        }
        colon = byte == b':' && !colon;
    }
    name.get(..end).unwrap_or("")
}

/// The metadata of a function's calls. `label`: the function's name, or its replacement.
pub(super) fn metadata<'a>(label: &'a str, file: &'a str, line: u32) -> Metadata<'a> {
    let module = module(label);
    Metadata {
        name: label,
        target: module,
        level: Level::Info,
        module_path: Some(module).filter(|module| !module.is_empty()),
        file: Some(file).filter(|file| !file.is_empty()),
        line: Some(line).filter(|&line| line != 0),
    }
}

/// The label of a function without a name.
pub(super) fn label(id: FunctionId) -> String {
    format!("#{}", id.0)
}

/// The function's number in such a label.
pub(super) fn labelled(metadata: &Metadata<'_>) -> Option<FunctionId> {
    let digits = metadata.name.strip_prefix('#')?;
    let id = digits.parse().ok().map(FunctionId)?;
    (label(id) == metadata.name && metadata.target.is_empty()).then_some(id)
}

/// Metadata of an entry that is no call.
pub(super) fn own(name: &'static str) -> Metadata<'static> {
    Metadata {
        name,
        target: TARGET,
        level: Level::Info,
        ..Metadata::default()
    }
}

fn entry<'a>(
    name: &'static str,
    parent: u32,
    attributes: impl IntoIterator<Item = Option<(&'a str, Value<'a>)>>,
) -> Entry<'a> {
    Entry {
        parent,
        message: None,
        metadata: own(name),
        attributes: attributes.into_iter().flatten().collect(),
    }
}

fn number(name: &str, value: impl Into<u64>) -> Option<(&str, Value<'_>)> {
    Some((name, Value::U64(value.into())))
}

fn nonzero(name: &str, value: u64) -> Option<(&str, Value<'_>)> {
    (value != 0).then_some((name, Value::U64(value)))
}

fn text<'a>(name: &'a str, value: &'a str) -> Option<(&'a str, Value<'a>)> {
    (!value.is_empty()).then_some((name, Value::String(value)))
}

fn truth(name: &str, value: bool) -> Option<(&str, Value<'_>)> {
    value.then_some((name, Value::Bool(true)))
}

/// Names of the attributes of the entry about the trace, in their order.
const TRACE_NAMES: &Names = &[
    (Fact::AnchorTime, "anchor_ns"),
    (Fact::AnchorUnix, "anchor_unix_ns"),
    (Fact::Identity(Part::Boot), "boot_id"),
    (Fact::Identity(Part::Build), "build_id"),
    (Fact::ClockName, "clock"),
    (Fact::AheadNs, "clock_ahead_ns"),
    (Fact::Constant, "clock_constant"),
    (Fact::ErrorPpm, "clock_error_ppm"),
    (Fact::Frequency, "clock_hz"),
    (Fact::Nonstop, "clock_nonstop"),
    (Fact::SkewNs, "clock_skew_ns"),
    (Fact::StepsBack, "clock_steps_back"),
    (Fact::WallStepNs, "clock_wall_step_ns"),
    (Fact::Dump, "dump"),
    (Fact::End, "end_ns"),
    (Fact::Identity(Part::Host), "host"),
    (Fact::MissingOverwritten, "missing_retired_records"),
    (Fact::MissingThreads, "missing_retired_threads"),
    (Fact::MissingDropped, "missing_unplaced_records"),
    (Fact::Process, "process"),
    (Fact::Program, "program"),
    (Fact::Identity(Part::Version), "program_version"),
    (Fact::Reason, "reason"),
    (Fact::Start, "start_ns"),
    (Fact::Identity(Part::Tags), "tags"),
];

/// The entry about the trace.
pub(super) fn encode_trace(info: &TraceInfo) -> Entry<'_> {
    let facts = facts::values(info, TRACE_NAMES).map(|(name, value)| {
        let value = match value {
            facts::Value::Text(text) => Value::String(text),
            facts::Value::Number(number) => Value::U64(number),
            facts::Value::Signed(number) => Value::I64(number),
            facts::Value::Float(number) => Value::Float(number),
            facts::Value::Flag(flag) => Value::Bool(flag),
        };
        Some((name, value))
    });
    entry(TRACE, 0, facts)
}

/// Puts the facts of the entry about the trace into `info`.
pub(super) fn decode_trace(entry: &Entry<'_>, info: &mut TraceInfo) {
    for &(name, value) in &entry.attributes {
        let value = match value {
            Value::String(text) => facts::Value::Text(text),
            Value::U64(number) => facts::Value::Number(number),
            Value::I64(number) => facts::Value::Signed(number),
            Value::Float(number) => facts::Value::Float(number),
            Value::Bool(flag) => facts::Value::Flag(flag),
            Value::Bytes(_) | Value::U128(_) | Value::I128(_) => continue,
        };
        if let Some(fact) = facts::named(TRACE_NAMES, name.as_bytes()) {
            fact.set(info, value);
        }
    }
    let (time, unix) = (
        unsigned(entry, "anchor_ns"),
        unsigned(entry, "anchor_unix_ns"),
    );
    info.clock.anchor = time.map(Ticks).zip(unix);
}

/// The entry about a function; `parent` is the place of the entry about the trace.
pub(super) fn encode_function(function: &Function, parent: u32) -> Entry<'_> {
    let list = [
        text("file", &function.file),
        number("function", function.id.0),
        nonzero("line", function.line.into()),
        text("name", &function.name),
        truth("untimed", function.untimed),
        nonzero("what", function.kind as u64),
    ];
    entry(FUNCTION, parent, list)
}

/// The function that an entry is about.
pub(super) fn decode_function(entry: &Entry<'_>) -> Option<Function> {
    let mut function = Function {
        id: FunctionId(u32::try_from(unsigned(entry, "function")?).ok()?),
        ..Function::default()
    };
    for &(name, value) in &entry.attributes {
        match (name, value) {
            ("file", Value::String(value)) => value.clone_into(&mut function.file),
            ("line", Value::U64(value)) => function.line = u32::try_from(value).unwrap_or(0),
            ("name", Value::String(value)) => value.clone_into(&mut function.name),
            ("untimed", Value::Bool(value)) => function.untimed = value,
            ("what", Value::U64(value)) => {
                function.kind = FunctionKind::from_number(u8::try_from(value).unwrap_or(u8::MAX));
            }
            _ => {}
        }
    }
    Some(function)
}

/// The entry about a thread; `parent` is the place of the entry about the trace.
pub(super) fn encode_thread(thread: &Thread, parent: u32) -> Entry<'_> {
    let counts = thread.counts.as_ref().map(facts::of_counts);
    let counts = counts
        .into_iter()
        .flatten()
        .map(|(name, count)| number(name, count));
    let others = [
        text("name", &thread.name),
        thread
            .process
            .and_then(|process| number("process", process)),
        number("tid", thread.id.0),
    ];
    let mut list: Vec<_> = counts.chain(others).flatten().collect();
    list.sort_by_key(|&(name, _)| name);
    let list = list.into_iter().map(Some);
    entry(THREAD, parent, list)
}

/// The thread that an entry is about.
pub(super) fn decode_thread(entry: &Entry<'_>) -> Option<Thread> {
    let mut thread = Thread {
        id: ThreadId(unsigned(entry, "tid")?),
        ..Thread::default()
    };
    for &(name, value) in &entry.attributes {
        match (name, value) {
            ("name", Value::String(value)) => value.clone_into(&mut thread.name),
            ("process", Value::U64(value)) => thread.process = Some(value),
            (name, Value::U64(value)) => {
                facts::set_count(&mut thread.counts, name.as_bytes(), value);
            }
            _ => {}
        }
    }
    Some(thread)
}

/// An attribute that must be an unsigned number.
pub(super) fn unsigned(entry: &Entry<'_>, name: &str) -> Option<u64> {
    match entry.attribute(name) {
        Some(Value::U64(value)) => Some(value),
        _ => None,
    }
}

/// The number of the argument that an attribute is.
pub(super) fn argument(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("arg")?;
    let number = digits.parse().ok()?;
    let shortest = digits == "0" || !digits.starts_with(['0', '+']);
    shortest.then_some(number)
}
