//! Items to entries: the bytes of each, as `facts` has it. Knows the functions and the version, not
//! the file that the entry goes to.

use crate::text;
use std::collections::{HashMap, HashSet};

use super::bincode::{put_bytes, put_u64, size_of_u64};
use super::container::Version;
use super::entry::{Entry, MAX_ATTRIBUTES, Value, encode_entry, encode_metadata};
use super::facts;
use super::frames::MAX_ENTRY;
use super::item::{Item, Kind, has};
use super::numbers::{Numbers, ROOM, U64, with_room};
use crate::model::{Function, FunctionId};
use crate::sink::Losses;

/// Bytes of a payload; more would make an entry that is too long to be read.
pub(super) const MAX_PAYLOAD: usize = MAX_ENTRY - 4096;
/// Arguments of a call.
pub(super) const MAX_ARGUMENTS: usize = MAX_ATTRIBUTES - 16;
/// Bytes of a name.
const MAX_NAME: usize = 1 << 20;
/// Bytes of a payload that is shown as text.
const MAX_TEXT: usize = 256;
/// Function numbers below it are found by place.
const DENSE: u32 = 1 << 20;

/// A function, ready to be written.
#[derive(Debug)]
struct Ready {
    id: FunctionId,
    /// No message, and the metadata; then room for the numbers of a call.
    head: Box<[u8]>,
    /// The metadata is another function's too: calls carry the number.
    numbered: bool,
}

/// The functions that calls are of.
#[derive(Debug, Default)]
pub(super) struct Functions {
    list: Vec<Ready>,
    /// By number, if it is low; a place and 1.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
    heads: HashSet<Box<[u8]>>,
}

impl Functions {
    /// A function that has a name; false if its number is taken.
    pub(super) fn define(&mut self, function: &Function) -> bool {
        let known = self.known(function.id.0).is_some();
        if !known {
            self.add(function);
        }
        !known
    }

    /// The place of a function in this list.
    #[inline]
    pub(super) fn place(&mut self, id: FunctionId) -> u32 {
        match self.low.get(id.0 as usize) {
            Some(&place) if place > 0 => place - 1,
            _ => self.rare(id),
        }
    }

    fn known(&self, id: u32) -> Option<u32> {
        let low = self
            .low
            .get(id as usize)
            .copied()
            .filter(|&place| place > 0);
        low.map(|place| place - 1)
            .or_else(|| self.high.get(&id).copied())
    }

    #[cold]
    fn rare(&mut self, id: FunctionId) -> u32 {
        self.known(id.0).unwrap_or_else(|| {
            self.add(&Function {
                id,
                ..Function::default()
            })
        })
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
        let numbered = !self.heads.insert(head.as_slice().into());
        head.extend_from_slice(&[0; ROOM]);
        let head = head.into();
        let place = self.list.len() as u32;
        let id = function.id;
        self.list.push(Ready { id, head, numbered });
        if id.0 < DENSE {
            let end = id.0 as usize + 1;
            self.low.resize(self.low.len().max(end), 0);
            self.low[id.0 as usize] = place + 1;
        } else {
            self.high.insert(id.0, place);
        }
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
        id: function.id,
        name: cut(&function.name),
        file: cut(&function.file),
        line: function.line,
        untimed: function.untimed,
    }
}

/// Where an entry is, beside its place in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct At {
    pub(super) parent: u32,
    pub(super) thread: u64,
}

/// Appends the entry of an item. `extra`: its arguments, 8 bytes each, or its payload.
#[inline]
pub(super) fn put(
    out: &mut Vec<u8>,
    version: Version,
    functions: &Functions,
    item: &Item,
    at: At,
    extra: &[u8],
) {
    if item.kind == Kind::Call {
        put_call(out, version, functions, item, at, extra);
    } else {
        put_fact(out, version, item, at, extra);
    }
}

/// Bytes that [`put`] appends.
#[inline]
pub(super) fn size(
    version: Version,
    functions: &Functions,
    item: &Item,
    at: At,
    extra: &[u8],
) -> usize {
    let function = functions.list.get(item.number as usize);
    let Some(function) = function.filter(|_| item.kind == Kind::Call && extra.is_empty()) else {
        let mut bytes = Vec::new();
        put(&mut bytes, version, functions, item, at, extra);
        return bytes.len();
    };
    let numbers = function.numbers(item, at, extra);
    size_of_u64(at.parent.into()) + (function.head.len() - ROOM) + numbers.size(version)
}

impl Ready {
    /// The numbers of a call of it.
    #[inline]
    fn numbers<'a>(&self, item: &'a Item, at: At, extra: &[u8]) -> Numbers<'a> {
        Numbers {
            item,
            function: self.numbered.then_some(self.id.0),
            thread: at.thread,
            no_arguments: extra.is_empty(),
        }
    }
}

#[inline]
fn put_call(
    out: &mut Vec<u8>,
    version: Version,
    functions: &Functions,
    item: &Item,
    at: At,
    extra: &[u8],
) {
    let Some(function) = functions.list.get(item.number as usize) else {
        return;
    };
    let numbers = function.numbers(item, at, extra);
    put_u64(out, at.parent.into());
    out.extend_from_slice(&function.head);
    if extra.is_empty() {
        numbers.put(out, version);
    } else {
        out.truncate(out.len() - ROOM);
        put_with_arguments(out, version, &numbers, extra);
    }
}

#[cold]
fn put_with_arguments(out: &mut Vec<u8>, version: Version, numbers: &Numbers<'_>, extra: &[u8]) {
    let values = extra.chunks_exact(8).zip(0u32..).map(|(value, number)| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(value);
        (format!("arg{number}"), u64::from_le_bytes(bytes))
    });
    let mut values: Vec<(String, u64)> = values.collect();
    values.sort_unstable();
    let count = values.len() as u64 + u64::from(numbers.count());
    put_u64(out, count);
    match version {
        Version::V1 => {
            for (name, value) in &values {
                put_bytes(out, name.as_bytes());
                out.push(U64);
                put_u64(out, *value);
            }
            with_room(out, |room| numbers.pairs(room));
        }
        Version::V2 => {
            for (name, _) in &values {
                put_bytes(out, name.as_bytes());
            }
            with_room(out, |room| numbers.names(room));
            put_u64(out, count);
            for (_, value) in &values {
                out.push(U64);
                put_u64(out, *value);
            }
            with_room(out, |room| numbers.values(room));
        }
    }
}

fn put_fact(out: &mut Vec<u8>, version: Version, item: &Item, at: At, extra: &[u8]) {
    let number = |name, value: u64| (name, Value::U64(value));
    let optional = |is: u8, name, value: u64| item.has(is).then(|| number(name, value));
    let cpu = optional(has::CPU, "cpu", item.cpu.into());
    let start = optional(has::TIME, "start_ns", item.time);
    let thread = Some(number("tid", at.thread));
    let data = Some(("data", Value::Bytes(extra)));
    let (name, list) = match item.kind {
        Kind::Call => return,
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
        Kind::Exit => {
            let cpu = optional(has::EXIT_CPU, "exit_cpu", item.exit_cpu.into());
            let flags = (item.flags != 0).then(|| number("flags", item.flags.into()));
            (facts::EXIT, [cpu, flags, start, thread])
        }
    };
    let entry = Entry {
        parent: at.parent,
        message: shown(extra),
        metadata: facts::own(name),
        attributes: list.into_iter().flatten().collect(),
    };
    encode_entry(&entry, version, out);
}

/// A payload as a viewer would show it, where it is text.
fn shown(data: &[u8]) -> Option<&str> {
    let short = (1..=MAX_TEXT).contains(&data.len());
    let text = std::str::from_utf8(data).ok().filter(|_| short)?;
    (!text.chars().any(char::is_control)).then_some(text)
}
