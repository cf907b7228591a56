//! Encodes items as entries, as `facts` defines them. This file knows the functions and the version. It
//! must never know the file that an entry goes to.
//!
//! Most bytes of a file are the numbers of calls. Each number is written as a block of constant size, and
//! the next number overwrites the surplus. So no branch depends on the size of a number.

use std::collections::{HashMap, HashSet};

use super::bincode::{self, put_bytes, put_u64, size_of_u64, zigzag};
use super::facts::{self, flags};
use super::record::{
    Entry, MAX_ATTRIBUTES, MAX_ENTRY, Value, Version, encode_entry, encode_metadata,
};
use super::thread_encoder::{Item, Kind, has};
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
/// Functions with a number below this one are found by index.
const DENSE: u32 = 1 << 20;

/// A function, ready to be written.
#[derive(Debug)]
struct Ready {
    id: FunctionId,
    /// The bytes for no message, and the metadata. Room for the numbers of a call follows.
    head: Box<[u8]>,
    /// Another function has the same metadata, so calls carry the number.
    numbered: bool,
}

/// The functions that calls are of.
#[derive(Debug, Default)]
pub(super) struct Functions {
    list: Vec<Ready>,
    /// Place + 1 by number, for low numbers.
    low: Vec<u32>,
    high: HashMap<u32, u32>,
    heads: HashSet<Box<[u8]>>,
    #[cfg(feature = "read")]
    pub(super) notes: super::notes::NoteTable,
}

impl Functions {
    /// A function that has a name, or a name of notes, where notes are written; false if its number is taken, or it is
    /// left out.
    pub(super) fn define(&mut self, function: &Function) -> bool {
        #[cfg(feature = "read")]
        let is_new = self.notes.add(function);
        #[cfg(not(feature = "read"))]
        let is_new = false;
        if !function.is_called() {
            return is_new;
        }
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
        name: cut(&function.name),
        file: cut(&function.file),
        ..function.clone()
    }
}

/// The position of an entry in its thread and tree.
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
    match item.kind {
        Kind::Call => put_call(out, version, functions, item, at, extra),
        #[cfg(feature = "read")]
        Kind::Note => super::notes::put(out, version, &functions.notes, item, at, extra),
        _ => put_fact(out, version, item, at, extra),
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
    /// The numbers of a call of this function.
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

/// A payload as a viewer would show it, if it is text.
fn shown(data: &[u8]) -> Option<&str> {
    let short = (1..=MAX_TEXT).contains(&data.len());
    let text = std::str::from_utf8(data).ok().filter(|_| short)?;
    (!text.chars().any(char::is_control)).then_some(text)
}

/// The kind of a value that is unsigned.
pub(super) const U64: u8 = 4;
/// The kind of a value that is signed.
const I64: u8 = 5;

/// Attributes of a call that are no arguments.
const MOST: usize = 7;
/// Bytes that are written for a name: at least the bytes of the longest name.
const BLOCK: usize = 16;
/// The most bytes that all of them take: two counts, and the surplus at the end.
pub(super) const ROOM: usize = 2 + MOST * (BLOCK + bincode::MOST_OF_U64) + BLOCK;

/// A name with its length in front, and the kind of its value behind it.
struct Name {
    block: [u8; BLOCK],
    size: usize,
}

impl Name {
    const fn new(name: &str, kind: u8) -> Name {
        let name = name.as_bytes();
        assert!(name.len() + 2 <= BLOCK);
        let mut block = [0; BLOCK];
        block[0] = name.len() as u8;
        let mut at = 0;
        while at < name.len() {
            block[1 + at] = name[at];
            at += 1;
        }
        block[1 + at] = kind;
        let size = name.len() + 2;
        Name { block, size }
    }
}

static CPU: Name = Name::new("cpu", U64);
static DURATION: Name = Name::new("duration_ns", U64);
static BACKWARDS: Name = Name::new("duration_ns", I64);
static EXIT_CPU: Name = Name::new("exit_cpu", U64);
static FLAGS: Name = Name::new("flags", U64);
static FUNCTION: Name = Name::new("function", U64);
static START: Name = Name::new("start_ns", U64);
static THREAD: Name = Name::new("tid", U64);

/// The part of a call that is numbers.
pub(super) struct Numbers<'a> {
    pub(super) item: &'a Item,
    /// The function's number, if the metadata do not identify the function.
    pub(super) function: Option<u32>,
    pub(super) thread: u64,
    /// No attribute has a value.
    pub(super) no_arguments: bool,
}

impl Numbers<'_> {
    /// Every attribute, sorted by name.
    #[inline(always)]
    fn each(&self, mut take: impl FnMut(&'static Name, u64)) {
        let item = self.item;
        if item.has(has::CPU) {
            take(&CPU, item.cpu.into());
        }
        if item.has(has::END) {
            match item.end.checked_sub(item.time) {
                Some(duration) => take(&DURATION, duration),
                None => {
                    let back = i64::try_from(item.time - item.end).unwrap_or(i64::MAX);
                    take(&BACKWARDS, zigzag(-back));
                }
            }
        }
        if item.has(has::EXIT_CPU) {
            take(&EXIT_CPU, item.exit_cpu.into());
        }
        let mut flags = item.flags;
        if item.has(has::ARGUMENTS) && self.no_arguments {
            flags |= flags::NO_ARGUMENTS;
        }
        if flags != 0 {
            take(&FLAGS, flags.into());
        }
        if let Some(function) = self.function {
            take(&FUNCTION, function.into());
        }
        take(&START, item.time);
        take(&THREAD, self.thread);
    }

    /// The number of attributes with a value.
    #[inline]
    pub(super) fn count(&self) -> u8 {
        let mut count = 0;
        self.each(|_, _| count += 1);
        count
    }

    /// The number of bytes that [`put`](Self::put) leaves.
    #[inline]
    pub(super) fn size(&self, version: Version) -> usize {
        let counts = match version {
            Version::V1 => 1,
            Version::V2 => 2,
        };
        let mut size = counts;
        self.each(|name, value| size += name.size + size_of_u64(value));
        size
    }

    /// Writes the attributes of an entry that has no others, over the [`ROOM`] last bytes.
    #[inline]
    pub(super) fn put(&self, out: &mut Vec<u8>, version: Version) {
        let count = self.count();
        over_last(out, |room| {
            room.byte(count);
            match version {
                Version::V1 => self.pairs(room),
                Version::V2 => {
                    self.names(room);
                    room.byte(count);
                    self.values(room);
                }
            }
        });
    }

    /// Each name with its value, as version 1 has them.
    #[inline]
    pub(super) fn pairs(&self, room: &mut Room<'_>) {
        self.each(|name, value| {
            room.block(&name.block, name.size);
            room.number(value);
        });
    }

    /// The names, which come first in version 2.
    #[inline]
    pub(super) fn names(&self, room: &mut Room<'_>) {
        self.each(|name, _| room.block(&name.block, name.size - 1));
    }

    /// The values.
    #[inline]
    pub(super) fn values(&self, room: &mut Room<'_>) {
        self.each(|name, value| {
            room.byte(name.block[name.size - 1]);
            room.number(value);
        });
    }
}

/// The block that the numbers of one call are written to.
pub(super) struct Room<'a> {
    bytes: &'a mut [u8; ROOM],
    at: usize,
}

/// Appends the bytes that `put` writes: at most the numbers of one call.
pub(super) fn with_room(out: &mut Vec<u8>, put: impl FnOnce(&mut Room<'_>)) {
    out.extend_from_slice(&[0; ROOM]);
    over_last(out, put);
}

/// The same, but over the [`ROOM`] last bytes.
#[inline]
fn over_last(out: &mut Vec<u8>, put: impl FnOnce(&mut Room<'_>)) {
    let size = out.len();
    if let Some(bytes) = out.last_chunk_mut() {
        let mut room = Room { bytes, at: 0 };
        put(&mut room);
        let end = size - ROOM + room.at;
        out.truncate(end);
    }
}

impl Room<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.at] = byte;
        self.at += 1;
    }

    /// The first `size` bytes of a block.
    #[inline]
    fn block(&mut self, block: &[u8; BLOCK], size: usize) {
        self.bytes[self.at..self.at + BLOCK].copy_from_slice(block);
        self.at += size;
    }

    #[inline]
    fn number(&mut self, value: u64) {
        let (first, size) = bincode::shortest(value);
        self.bytes[self.at] = first;
        self.bytes[self.at + 1..self.at + bincode::MOST_OF_U64]
            .copy_from_slice(&value.to_le_bytes());
        self.at += size;
    }
}
