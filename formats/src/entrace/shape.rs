//! Items to entries: the bytes of each, as `facts` has it. Knows the functions and the version, not
//! the file that the entry goes to.

use std::collections::{HashMap, HashSet};

use super::bincode::{put_bytes, put_u64, size_of_u64, zigzag};
use super::container::Version;
use super::entry::{Entry, MAX_ATTRIBUTES, Value, encode_entry, encode_metadata};
use super::facts::{self, flags};
use super::frames::MAX_ENTRY;
use super::item::{Item, Kind, has};
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
    /// No message, and the metadata.
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
        let head: Box<[u8]> = head.into();
        let numbered = !self.heads.insert(head.clone());
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
        let end = text.floor_char_boundary(MAX_NAME);
        let what = "names of functions and files of more than 1 MiB: cut";
        losses.add(what, u64::from(end < text.len()));
        text[..end].to_owned()
    };
    Function {
        id: function.id,
        name: cut(&function.name),
        file: cut(&function.file),
        line: function.line,
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
    let numbers = Numbers::new(item, function, at, true);
    let attributes = numbers.list().iter();
    let attributes = attributes.map(|(name, _, value)| name.len() + 1 + size_of_u64(*value));
    let counts = match version {
        Version::V1 => 1,
        Version::V2 => 2,
    };
    size_of_u64(at.parent.into()) + function.head.len() + counts + attributes.sum::<usize>()
}

/// An attribute that is a number: its name with the length in front, its kind, its value.
type Number = (&'static [u8], u8, u64);
const U64: u8 = 4;
const I64: u8 = 5;

/// The attributes of a call that are no arguments.
struct Numbers {
    list: [Number; 7],
    count: usize,
}

impl Numbers {
    #[inline]
    fn new(item: &Item, function: &Ready, at: At, no_arguments: bool) -> Numbers {
        let mut numbers = Numbers {
            list: [(b"", 0, 0); 7],
            count: 0,
        };
        if item.has(has::CPU) {
            numbers.add(b"\x03cpu", U64, item.cpu.into());
        }
        if item.has(has::END) {
            match item.end.checked_sub(item.time) {
                Some(duration) => numbers.add(b"\x0bduration_ns", U64, duration),
                None => {
                    let back = i64::try_from(item.time - item.end).unwrap_or(i64::MAX);
                    numbers.add(b"\x0bduration_ns", I64, zigzag(-back));
                }
            }
        }
        if item.has(has::EXIT_CPU) {
            numbers.add(b"\x08exit_cpu", U64, item.exit_cpu.into());
        }
        let mut flags = item.flags;
        if item.has(has::ARGUMENTS) && no_arguments {
            flags |= flags::NO_ARGUMENTS;
        }
        if flags != 0 {
            numbers.add(b"\x05flags", U64, flags.into());
        }
        if function.numbered {
            numbers.add(b"\x08function", U64, function.id.0.into());
        }
        numbers.add(b"\x08start_ns", U64, item.time);
        numbers.add(b"\x03tid", U64, at.thread);
        numbers
    }

    #[inline]
    fn add(&mut self, name: &'static [u8], kind: u8, value: u64) {
        self.list[self.count] = (name, kind, value);
        self.count += 1;
    }

    #[inline]
    fn list(&self) -> &[Number] {
        &self.list[..self.count]
    }
}

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
    let numbers = Numbers::new(item, function, at, extra.is_empty());
    put_u64(out, at.parent.into());
    out.extend_from_slice(&function.head);
    if extra.is_empty() {
        put_numbers(out, version, numbers.list());
    } else {
        put_with_arguments(out, version, numbers.list(), extra);
    }
}

#[inline]
fn put_numbers(out: &mut Vec<u8>, version: Version, numbers: &[Number]) {
    out.push(numbers.len() as u8);
    match version {
        Version::V1 => {
            for &(name, kind, value) in numbers {
                out.extend_from_slice(name);
                out.push(kind);
                put_u64(out, value);
            }
        }
        Version::V2 => {
            for (name, ..) in numbers {
                out.extend_from_slice(name);
            }
            out.push(numbers.len() as u8);
            for &(_, kind, value) in numbers {
                out.push(kind);
                put_u64(out, value);
            }
        }
    }
}

fn put_with_arguments(out: &mut Vec<u8>, version: Version, numbers: &[Number], extra: &[u8]) {
    let values = extra.chunks_exact(8).zip(0u32..).map(|(value, number)| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(value);
        (format!("arg{number}"), u64::from_le_bytes(bytes))
    });
    let mut values: Vec<(String, u64)> = values.collect();
    values.sort_unstable();
    let count = (values.len() + numbers.len()) as u64;
    put_u64(out, count);
    match version {
        Version::V1 => {
            for (name, value) in &values {
                put_bytes(out, name.as_bytes());
                out.push(U64);
                put_u64(out, *value);
            }
            for &(name, kind, value) in numbers {
                out.extend_from_slice(name);
                out.push(kind);
                put_u64(out, value);
            }
        }
        Version::V2 => {
            for (name, _) in &values {
                put_bytes(out, name.as_bytes());
            }
            for (name, ..) in numbers {
                out.extend_from_slice(name);
            }
            put_u64(out, count);
            for (_, value) in &values {
                out.push(U64);
                put_u64(out, *value);
            }
            for &(_, kind, value) in numbers {
                out.push(kind);
                put_u64(out, value);
            }
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
