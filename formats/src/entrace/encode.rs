//! Encodes items as entries, as `facts` defines them. This file knows the functions and the version.

use std::collections::{HashMap, HashSet};

use super::bincode::put_u64;
use super::facts::{self, flags};
use super::item::{EntryPosition, Item, Kind, has};
use super::notes::{self, NoteTable};
use super::record::{
    Entry, MAX_ATTRIBUTES, MAX_ENTRY, Value, Version, encode_attributes, encode_entry,
    encode_metadata,
};
use crate::bytes::groups;
use crate::model::{Function, FunctionId};
use crate::sink::Losses;
use crate::text;

/// Bytes of the longest payload. A longer one would make an entry that is too long to be read.
pub(super) const MAX_PAYLOAD: usize = MAX_ENTRY - 4096;
/// Arguments of a call.
pub(super) const MAX_ARGUMENTS: usize = MAX_ATTRIBUTES - 16;
/// Bytes of a name.
const MAX_NAME: usize = 1 << 20;
/// Bytes of a payload that is shown as text.
const MAX_TEXT: usize = 256;

/// A function, ready to be written.
#[derive(Debug)]
struct Ready {
    id: FunctionId,
    /// The bytes for no message, and the metadata.
    head: Box<[u8]>,
    /// Another function has the same metadata, so calls carry the number.
    numbered: bool,
}

/// The functions that calls are of.
#[derive(Debug, Default)]
pub(super) struct Functions {
    list: Vec<Ready>,
    place_of: HashMap<FunctionId, u32>,
    heads: HashSet<Box<[u8]>>,
    notes: NoteTable,
}

impl Functions {
    /// Adds a function that has a name, or a name of notes. False: its number is taken.
    pub(super) fn define(&mut self, function: &Function) -> bool {
        let is_new = self.notes.add(function);
        if !function.is_called() {
            return is_new;
        }
        let known = self.place_of.contains_key(&function.id);
        if !known {
            self.add(function);
        }
        !known
    }

    /// The place of a function in this list.
    pub(super) fn place(&mut self, id: FunctionId) -> u32 {
        match self.place_of.get(&id) {
            Some(&place) => place,
            None => self.add(&Function {
                id,
                ..Function::default()
            }),
        }
    }

    fn add(&mut self, function: &Function) -> u32 {
        let label = facts::label(function.id);
        let label = if function.name.is_empty() {
            &label
        } else {
            &function.name
        };
        let mut head = vec![0];
        encode_metadata(
            &facts::metadata(label, &function.file, function.line),
            &mut head,
        );
        let head: Box<[u8]> = head.into();
        let numbered = !self.heads.insert(head.clone());
        let place = self.list.len() as u32;
        let id = function.id;
        self.list.push(Ready { id, head, numbered });
        self.place_of.insert(id, place);
        place
    }
}

/// A function whose texts are short enough to be written.
pub(super) fn fitting(function: &Function, losses: &mut Losses) -> Function {
    let mut cut = |text: &str| {
        let kept = text::cut(text, MAX_NAME);
        let what = "names of functions and files of more than 1 MiB: cut";
        losses.add(what, u64::from(kept.len() < text.len()));
        kept.to_owned()
    };
    Function {
        name: cut(&function.name),
        file: cut(&function.file),
        ..function.clone()
    }
}

/// Appends the entry of an item. `extra`: its arguments, 8 bytes each, or its payload.
pub(super) fn put(
    out: &mut Vec<u8>,
    version: Version,
    functions: &Functions,
    item: &Item,
    at: EntryPosition,
    extra: &[u8],
) {
    match item.kind {
        Kind::Call => put_call(out, version, functions, item, at, extra),
        Kind::Note => notes::put(out, version, &functions.notes, item, at, extra),
        _ => put_fact(out, version, item, at, extra),
    }
}

fn put_call(
    out: &mut Vec<u8>,
    version: Version,
    functions: &Functions,
    item: &Item,
    at: EntryPosition,
    extra: &[u8],
) {
    let Some(function) = functions.list.get(item.number as usize) else {
        return;
    };
    put_u64(out, at.parent.into());
    out.extend_from_slice(&function.head);
    // The names of arguments come before all others, but `arg10` comes before `arg2`.
    let mut arguments: Vec<(String, Value<'_>)> = groups::<8>(extra)
        .zip(0u32..)
        .map(|(value, number)| {
            let value = Value::U64(u64::from_le_bytes(value));
            (format!("arg{number}"), value)
        })
        .collect();
    arguments.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    let arguments = arguments.iter().map(|(name, value)| (&**name, *value));
    let mut flags = item.flags;
    if item.has_all(has::ARGUMENTS) && extra.is_empty() {
        flags |= flags::NO_ARGUMENTS;
    }
    let number = |is: bool, name, value: u64| is.then_some((name, Value::U64(value)));
    let duration = item.has_all(has::END).then(|| {
        let back = || -i64::try_from(item.time - item.end).unwrap_or(i64::MAX);
        let duration = item.end.checked_sub(item.time);
        duration.map_or_else(|| Value::I64(back()), Value::U64)
    });
    let numbers = [
        number(item.has_all(has::CPU), "cpu", item.cpu.into()),
        duration.map(|duration| ("duration_ns", duration)),
        number(
            item.has_all(has::EXIT_CPU),
            "exit_cpu",
            item.exit_cpu.into(),
        ),
        number(flags != 0, "flags", flags.into()),
        number(function.numbered, "function", function.id.0.into()),
        number(true, "start_ns", item.time),
        number(true, "tid", at.thread),
    ];
    let attributes: Vec<(&str, Value<'_>)> =
        arguments.chain(numbers.into_iter().flatten()).collect();
    encode_attributes(&attributes, version, out);
}

fn put_fact(out: &mut Vec<u8>, version: Version, item: &Item, at: EntryPosition, extra: &[u8]) {
    let number = |name, value: u64| (name, Value::U64(value));
    let optional = |is: u8, name, value: u64| item.has_all(is).then(|| number(name, value));
    let cpu = optional(has::CPU, "cpu", item.cpu.into());
    let start = optional(has::TIME, "start_ns", item.time);
    let thread = Some(number("tid", at.thread));
    let data = Some(("data", Value::Bytes(extra)));
    let (name, list) = match item.kind {
        Kind::Call | Kind::Note => return,
        Kind::Custom => (facts::CUSTOM, [cpu, data, start, thread]),
        Kind::Typed => {
            let kind = Some(number("type", item.number.into()));
            (facts::TYPED, [data, start, thread, kind])
        }
        Kind::Lost => {
            let records = Some(number("records", item.end));
            (facts::LOST, [records, start, thread, None])
        }
        Kind::Wall => {
            let micros = Some(number("micros", item.number.into()));
            let seconds = Some(number("seconds", item.end));
            (facts::WALL, [micros, seconds, start, thread])
        }
    };
    let entry = Entry {
        parent: at.parent,
        message: printable_text(extra),
        metadata: facts::own(name),
        attributes: list.into_iter().flatten().collect(),
    };
    encode_entry(&entry, version, out);
}

/// A payload as a viewer would show it, if it is text.
fn printable_text(data: &[u8]) -> Option<&str> {
    let short = (1..=MAX_TEXT).contains(&data.len());
    let text = std::str::from_utf8(data).ok().filter(|_| short)?;
    (!text.chars().any(char::is_control)).then_some(text)
}
