//! The events that state the facts of a trace, its functions and its threads; `facts` has their layout and decodes them.

use super::event_parts::{FactPlaces, Parts};
use super::facts;
use super::tables::ThreadState;
use crate::escaped::escape;
use crate::facts::{Value, of_counts};
use crate::model::{Function, Thread, TraceInfo};

pub(super) fn trace_fact(
    info: &TraceInfo,
    earliest: u64,
    places: &mut FactPlaces,
    out: &mut Vec<u8>,
) {
    let mut parts = Parts::fact(out, earliest, facts::TRACE, places);
    parts.number("version", facts::VERSION);
    let values: Vec<_> = crate::facts::values(info, facts::TRACE_NAMES).collect();
    let escapes = parts.escapes(values.iter().filter_map(|(_, value)| match value {
        Value::Text(text) => Some(*text),
        _ => None,
    }));
    for (name, value) in values {
        match value {
            Value::Text(text) if escapes => parts.text(name, &escape(text.as_bytes())),
            Value::Text(text) => parts.text(name, text),
            Value::Number(number) => parts.number(name, number),
            Value::Signed(number) => parts.signed(name, number),
            Value::Float(number) => parts.float(name, number),
            Value::Flag(flag) => parts.number(name, flag.into()),
        }
    }
    parts.end();
}

pub(super) fn function_fact(
    function: &Function,
    earliest: u64,
    places: &mut FactPlaces,
    out: &mut Vec<u8>,
) {
    let mut parts = Parts::fact(out, earliest, facts::FUNCTION, places);
    parts.number("id", function.id.0.into());
    parts.names(&[("name", &function.name), ("file", &function.file)]);
    parts.count("line", function.line.into());
    parts.count("untimed", function.untimed.into());
    #[cfg(feature = "read")]
    parts.count("what", function.kind as u64);
    parts.end();
}

pub(super) fn thread_fact(
    state: &ThreadState,
    earliest: u64,
    places: &mut FactPlaces,
    out: &mut Vec<u8>,
) {
    let Thread {
        id,
        process,
        name,
        counts,
        totals: _,
        early_calls: _,
    } = &state.thread;
    let mut parts = Parts::fact(out, earliest, facts::THREAD, places);
    parts.number("stream", state.stream.into());
    parts.count("substream", state.substream);
    parts.optional("thread", state.renumbered().then_some(id.0));
    parts.optional("rows", state.rows.first);
    parts.optional("process", *process);
    parts.names(&[("name", name)]);
    if let Some(counts) = counts {
        let [(name, recorded), others @ ..] = of_counts(counts);
        parts.number(name, recorded);
        for (name, count) in others {
            parts.count(name, count);
        }
    }
    parts.end();
}
