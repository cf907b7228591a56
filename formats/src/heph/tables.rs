//! Functions and threads of a trace that is written: the name, number, stream and substream of each in the file.

use std::borrow::Cow;

use super::facts::{FACTS, PREFIX};
use super::names::{self, label};
use super::rows::Rows;
use crate::escaped;
use crate::model::{Function, FunctionId, Thread, ThreadId, Ticks};
use crate::number_map::NumberMap;
use crate::sink::Losses;
use crate::text;

/// Bytes of the hash in the middle of a shortened name.
const HASH_SIZE: usize = 10;

/// How the calls of a function are written.
#[derive(Debug)]
pub(super) struct Label {
    /// The function was declared, and not only called.
    declared: bool,
    pub(super) description: Box<str>,
    /// The description alone does not identify the function.
    pub(super) numbered: bool,
    /// The description if only this many bytes fit.
    elided: Option<(usize, Box<str>)>,
}

impl Label {
    fn new(description: &str, numbered: bool) -> Label {
        Label {
            declared: false,
            description: description.into(),
            numbered,
            elided: None,
        }
    }

    /// The description, shortened to this many bytes if it is longer. There is at least room for the
    /// hash.
    pub(super) fn within(&mut self, room: usize) -> &str {
        if self.description.len() <= room {
            return &self.description;
        }
        let fits = |elided: &(usize, Box<str>)| elided.0 == room;
        let elided = self.elided.take().filter(fits);
        let make = || (room, elide(&self.description, room).into());
        &self.elided.insert(elided.unwrap_or_else(make)).1
    }
}

/// The beginning of a name, a hash of the whole name, and its end, which says the most. At most `room`
/// bytes.
pub(super) fn elide(name: &str, room: usize) -> String {
    let kept = room.saturating_sub(HASH_SIZE);
    let head = text::cut(name, kept / 3);
    let tail = text::last(name, kept - head.len());
    format!("{head}~{:08x}~{tail}", hash(name))
}

/// FNV-1a.
fn hash(name: &str) -> u32 {
    let step = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    name.bytes().fold(0x811c_9dc5, step)
}

/// FNV-1a, 64 bits.
fn long_hash(name: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    name.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// All functions so far, in the order in which they were declared.
#[derive(Debug, Default)]
pub(super) struct Functions {
    pub(super) declared: Vec<Function>,
    /// Hashes of names. If two names have the same hash, the second function gets a number, although it does not need
    /// one.
    names: NumberMap,
    labels: Vec<Label>,
    label_of: NumberMap,
}

impl Functions {
    /// Adds a function that was not declared before; false: another one has its number.
    pub(super) fn declare(&mut self, function: &Function) -> bool {
        let known = self.label_of.get(function.id.0.into());
        let known = known.and_then(|place| self.labels.get_mut(place));
        if known.as_ref().is_some_and(|label| label.declared) {
            return false;
        }
        let name = &function.name;
        // Heph's own converter prints a description as it is.
        let shown = escaped::label(name);
        let numbered = name.is_empty()
            || name.starts_with(PREFIX)
            || matches!(shown, Cow::Owned(_))
            || !self.names.insert(long_hash(name), 0);
        let mut label = if name.is_empty() {
            Label::new(&label(function.id.0), numbered)
        } else {
            Label::new(&shown, numbered)
        };
        label.declared = true;
        match known {
            Some(known) => *known = label,
            None => {
                self.add(function.id, label);
            }
        }
        self.declared.push(function.clone());
        true
    }

    /// How the calls of a function are written.
    #[inline]
    pub(super) fn label(&mut self, id: FunctionId) -> &mut Label {
        let known = self.label_of.get(id.0.into());
        let place = known.unwrap_or_else(|| self.add(id, Label::new(&label(id.0), true)));
        &mut self.labels[place]
    }

    #[cold]
    fn add(&mut self, id: FunctionId, label: Label) -> usize {
        let place = self.labels.len();
        self.label_of.insert(id.0.into(), place);
        self.labels.push(label);
        place
    }
}

/// A mark without a time of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Untimed {
    Wall { seconds: u64, micros: u32 },
    Lost { records: u64 },
}

/// A thread of the file.
#[derive(Debug)]
pub(super) struct ThreadState {
    pub(super) thread: Thread,
    pub(super) stream: u32,
    pub(super) substream: u64,
    /// Its stream in [`Threads::counters`].
    pub(super) counter: usize,
    /// Time of its last event.
    pub(super) last: Option<Ticks>,
    pub(super) rows: Rows,
    /// Marks in front of its first event.
    pub(super) waiting: Vec<Untimed>,
}

impl ThreadState {
    /// The substream of a row.
    pub(super) fn substream(&self, row: u32) -> u64 {
        match (row, self.rows.first) {
            (1.., Some(first)) => first | u64::from(row),
            _ => self.substream,
        }
    }

    /// Whether a reader would take another number for the thread's.
    pub(super) fn renumbered(&self) -> bool {
        names::derived(self.stream, self.substream) != Some(self.thread.id.0)
    }
}

/// All threads so far.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) states: Vec<ThreadState>,
    index_of: NumberMap,
    /// Streams and substreams that are taken, as [`key`] has them.
    places: NumberMap,
    counter_of: NumberMap,
    /// Events written per stream.
    pub(super) counters: Vec<u32>,
    /// Streams above this one are taken.
    free: u32,
}

impl Default for Threads {
    fn default() -> Threads {
        Threads {
            states: Vec::new(),
            index_of: NumberMap::default(),
            places: NumberMap::default(),
            counter_of: NumberMap::default(),
            counters: Vec::new(),
            free: FACTS - 1,
        }
    }
}

/// One number for a stream and a substream. Pairs with substream 0 all have different numbers. If two other pairs
/// have the same number, the second thread gets another stream.
fn key((stream, substream): (u32, u64)) -> u64 {
    u64::from(stream) ^ substream.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Threads {
    /// The index of a thread, and whether it has new facts.
    pub(super) fn merge(&mut self, thread: &Thread, losses: &mut Losses) -> (usize, bool) {
        let Some(place) = self.index_of.get(thread.id.0) else {
            return (self.begin(thread, losses), true);
        };
        let known = &mut self.states[place].thread;
        let name = if thread.name.is_empty() {
            known.name.clone()
        } else {
            thread.name.clone()
        };
        let merged = Thread {
            id: thread.id,
            process: thread.process.or(known.process),
            name,
            counts: thread.counts.or(known.counts),
            totals: Vec::new(),
            early_calls: Vec::new(),
        };
        let news = merged != *known;
        *known = merged;
        (place, news)
    }

    pub(super) fn position(&self, thread: ThreadId) -> Option<usize> {
        self.index_of.get(thread.0)
    }

    fn begin(&mut self, thread: &Thread, losses: &mut Losses) -> usize {
        let own = u32::try_from(thread.id.0).ok().filter(|&id| id != FACTS);
        let own = own.map(|stream| (stream, 0));
        let wanted = names::numbers(thread).or(own);
        let wanted =
            wanted.filter(|&place| place.0 != FACTS && self.places.get(key(place)).is_none());
        let (stream, substream) = wanted.unwrap_or_else(|| {
            let what = "thread ids that no stream can have (over 32 bits, or taken): other readers \
                        see another number";
            losses.add(what, 1);
            (self.unused(), 0)
        });
        self.places.insert(key((stream, substream)), 0);
        let known = self.counter_of.get(stream.into());
        let counter = known.unwrap_or(self.counters.len());
        if known.is_none() {
            self.counter_of.insert(stream.into(), counter);
            self.counters.push(0);
        }
        let place = self.states.len();
        self.index_of.insert(thread.id.0, place);
        self.states.push(ThreadState {
            thread: thread.clone(),
            stream,
            substream,
            counter,
            last: None,
            rows: Rows::default(),
            waiting: Vec::new(),
        });
        place
    }

    /// A stream that no thread uses.
    fn unused(&mut self) -> u32 {
        while self.counter_of.get(self.free.into()).is_some() {
            self.free = self.free.wrapping_sub(1);
        }
        self.free
    }
}
