//! What this project's own entries mean, as the table in [`super`] has it: the metadata of calls, and
//! the entries of target `fdr`, to bytes and back. Knows no file.

use super::entry::{Entry, Level, Metadata, Value};
use crate::model::{Counts, Function, FunctionId, Missing, Thread, ThreadId, Ticks, TraceInfo};

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
/// Name of an end that comes on its own.
pub(super) const EXIT: &str = "fdr:exit";

/// The bits of `flags`.
pub(super) mod flags {
    /// The entry was not measured.
    pub(in super::super) const SYNTHETIC_ENTRY: u8 = 1;
    /// The exit was not measured.
    pub(in super::super) const SYNTHETIC_EXIT: u8 = 2;
    /// The call was left by a tail call.
    pub(in super::super) const TAIL_EXIT: u8 = 4;
    /// Only an exit is known, at `start_ns`; its entry is missing.
    pub(in super::super) const LONE_EXIT: u8 = 8;
    /// The call was recorded with its arguments, but there are none.
    pub(in super::super) const NO_ARGUMENTS: u8 = 16;
}

/// The module part of a function's name: what is before the last `::` that is outside of brackets.
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

/// What a call of a function is written with. `label`: its name, or what stands for it.
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

/// What stands for the name of a function that has none.
pub(super) fn label(id: FunctionId) -> String {
    format!("#{}", id.0)
}

/// The number in such a label.
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

fn signed(name: &str, value: i64) -> Option<(&str, Value<'_>)> {
    (value != 0).then_some((name, Value::I64(value)))
}

fn text<'a>(name: &'a str, value: &'a str) -> Option<(&'a str, Value<'a>)> {
    (!value.is_empty()).then_some((name, Value::String(value)))
}

fn truth(name: &str, value: bool) -> Option<(&str, Value<'_>)> {
    value.then_some((name, Value::Bool(true)))
}

/// The entry about the trace. `nanos` turns ticks of the trace's clock into ns.
pub(super) fn encode_trace(info: &TraceInfo) -> Entry<'_> {
    let clock = &info.clock;
    let nanos = |tick| clock.nanos(tick).0;
    let (tick, unix) = clock
        .anchor
        .map_or((None, None), |(tick, unix)| (Some(tick), Some(unix)));
    let Missing {
        threads: missing_threads,
        overwritten: missing_overwritten,
        dropped: missing_dropped,
    } = info.missing;
    let (error, trouble) = (clock.error_ppm.map(Value::Float), clock.trouble);
    let list = [
        tick.and_then(|tick| number("anchor_ns", nanos(tick))),
        unix.and_then(|unix| number("anchor_unix_ns", unix)),
        text("clock", &clock.name),
        signed("clock_ahead_ns", trouble.ahead_ns),
        truth("clock_constant", clock.constant),
        error.map(|error| ("clock_error_ppm", error)),
        number("clock_hz", clock.frequency),
        truth("clock_nonstop", clock.nonstop),
        nonzero("clock_skew_ns", trouble.skew_ns),
        nonzero("clock_steps_back", trouble.steps_back),
        signed("clock_wall_step_ns", trouble.wall_step_ns),
        info.dump.and_then(|dump| number("dump", dump)),
        info.end.and_then(|end| number("end_ns", nanos(end))),
        nonzero("missing_retired_records", missing_overwritten),
        nonzero("missing_retired_threads", missing_threads),
        nonzero("missing_unplaced_records", missing_dropped),
        info.process.and_then(|process| number("process", process)),
        text("program", &info.program),
        text("reason", &info.reason),
        info.start
            .and_then(|start| number("start_ns", nanos(start))),
    ];
    entry(TRACE, 0, list)
}

/// Puts what the entry about the trace says where it belongs.
pub(super) fn decode_trace(entry: &Entry<'_>, info: &mut TraceInfo) {
    let (mut tick, mut unix) = (None, None);
    for &(name, value) in &entry.attributes {
        match (name, value) {
            ("anchor_ns", Value::U64(value)) => tick = Some(Ticks(value)),
            ("anchor_unix_ns", Value::U64(value)) => unix = Some(value),
            ("clock", Value::String(value)) => value.clone_into(&mut info.clock.name),
            ("clock_constant", Value::Bool(value)) => info.clock.constant = value,
            ("clock_error_ppm", Value::Float(value)) => info.clock.error_ppm = Some(value),
            ("clock_nonstop", Value::Bool(value)) => info.clock.nonstop = value,
            ("clock_ahead_ns", Value::I64(value)) => info.clock.trouble.ahead_ns = value,
            ("clock_skew_ns", Value::U64(value)) => info.clock.trouble.skew_ns = value,
            ("clock_steps_back", Value::U64(value)) => info.clock.trouble.steps_back = value,
            ("clock_wall_step_ns", Value::I64(value)) => info.clock.trouble.wall_step_ns = value,
            ("dump", Value::U64(value)) => info.dump = Some(value),
            ("end_ns", Value::U64(value)) => info.end = Some(Ticks(value)),
            ("missing_retired_records", Value::U64(value)) => info.missing.overwritten = value,
            ("missing_retired_threads", Value::U64(value)) => info.missing.threads = value,
            ("missing_unplaced_records", Value::U64(value)) => {
                info.missing.dropped = value;
            }
            ("process", Value::U64(value)) => info.process = Some(value),
            ("program", Value::String(value)) => value.clone_into(&mut info.program),
            ("reason", Value::String(value)) => value.clone_into(&mut info.reason),
            ("start_ns", Value::U64(value)) => info.start = Some(Ticks(value)),
            _ => {}
        }
    }
    info.clock.anchor = tick.zip(unix);
}

/// The entry about a function; `parent` is the place of that about the trace.
pub(super) fn encode_function(function: &Function, parent: u32) -> Entry<'_> {
    let list = [
        text("file", &function.file),
        number("function", function.id.0),
        nonzero("line", function.line.into()),
        text("name", &function.name),
        truth("untimed", function.untimed),
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
            _ => {}
        }
    }
    Some(function)
}

/// The entry about a thread; `parent` is the place of that about the trace.
pub(super) fn encode_thread(thread: &Thread, parent: u32) -> Entry<'_> {
    let count = |name, of: fn(&Counts) -> u64| {
        let counts = thread.counts.as_ref();
        counts.and_then(|counts| number(name, of(counts)))
    };
    let list = [
        count("dropped", |counts| counts.dropped),
        text("name", &thread.name),
        count("overwritten", |counts| counts.overwritten),
        thread
            .process
            .and_then(|process| number("process", process)),
        count("readable", |counts| counts.readable),
        count("recorded", |counts| counts.recorded),
        count("synthetic_entries", |counts| counts.synthetic_entries),
        count("synthetic_exits", |counts| counts.synthetic_exits),
        number("tid", thread.id.0),
    ];
    entry(THREAD, parent, list)
}

/// The thread that an entry is about.
pub(super) fn decode_thread(entry: &Entry<'_>) -> Option<Thread> {
    let mut thread = Thread {
        id: ThreadId(unsigned(entry, "tid")?),
        ..Thread::default()
    };
    let (mut counts, mut counted) = (Counts::default(), false);
    for &(name, value) in &entry.attributes {
        let count = match (name, value) {
            ("name", Value::String(value)) => {
                value.clone_into(&mut thread.name);
                continue;
            }
            ("process", Value::U64(value)) => {
                thread.process = Some(value);
                continue;
            }
            ("dropped", _) => &mut counts.dropped,
            ("overwritten", _) => &mut counts.overwritten,
            ("readable", _) => &mut counts.readable,
            ("recorded", _) => &mut counts.recorded,
            ("synthetic_entries", _) => &mut counts.synthetic_entries,
            ("synthetic_exits", _) => &mut counts.synthetic_exits,
            _ => continue,
        };
        if let Value::U64(value) = value {
            (*count, counted) = (value, true);
        }
    }
    thread.counts = counted.then_some(counts);
    Some(thread)
}

/// An attribute that must be an unsigned number.
pub(super) fn unsigned(entry: &Entry<'_>, name: &str) -> Option<u64> {
    match entry.attribute(name) {
        Some(Value::U64(value)) => Some(value),
        _ => None,
    }
}

/// Which argument an attribute is.
pub(super) fn argument(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("arg")?;
    let number = digits.parse().ok()?;
    let shortest = digits == "0" || !digits.starts_with(['0', '+']);
    shortest.then_some(number)
}
