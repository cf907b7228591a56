//! Writes events into a stream that somebody may be reading already (IET, `IETPrefix`). An entry goes
//! out when its call has ended, but does not wait for that longer than [`HELD`] items of its thread, or
//! than [`Writer::flush`]: then it goes without a duration, and an entry `fdr:exit` tells its end
//! later. Threads lie mixed in the order in which they came; each thread's entries are in order.
//!
//! Memory is what is held, and the open calls of each thread.

use std::collections::{HashMap, VecDeque};
use std::io::{self, Write};

use super::container::{Container, HEAD_SIZE, Kind, encode_head, put_entry};
use super::entry::{Entry, ROOT, encode_entry};
use super::facts::{self, flags};
use super::item::{self, Item, has};
use super::lane::{Lane, Shelf};
use super::shape::{self, At, Functions, MAX_ARGUMENTS};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::writer::{Writer, tell_kept};

/// Items of a thread that wait for the end of a call.
const HELD: usize = 1024;
/// Bytes of arguments and payloads that wait with them.
const HELD_BYTES: usize = 256 * 1024;
/// Bytes that are collected before they are written.
const BUFFER: usize = 64 * 1024;

/// A sink that writes an ENTRACE stream.
pub struct EntraceStream {
    out: Box<dyn Write + Send>,
    info: TraceInfo,
    scale: Scale,
    functions: Functions,
    lanes: Vec<(Lane, Waiting)>,
    lane_of: HashMap<ThreadId, usize>,
    now: usize,
    losses: Losses,
    sent: Sent,
    failed: Option<io::Error>,
}

/// Entries that are on their way out.
struct Sent {
    kind: Kind,
    bytes: Vec<u8>,
    /// Place of the next entry among those that the reader has.
    next: u32,
    /// There were as many entries as there can be.
    full: u64,
}

impl Sent {
    /// Appends an entry that `put` makes; returns its place.
    fn entry(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> u32 {
        if self.next == u32::MAX {
            self.full += 1;
            return 0;
        }
        let prefixed = self.kind.container == Container::IetPrefix;
        put_entry(&mut self.bytes, prefixed, put);
        self.next += 1;
        self.next - 1
    }

    fn fact(&mut self, entry: &Entry<'_>) {
        let version = self.kind.version;
        self.entry(|bytes| encode_entry(entry, version, bytes));
    }
}

/// What of a thread is not sent yet, and what of it later entries can be in.
#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Held>,
    /// Place of the first of them among all items of the thread.
    first: u64,
    /// Bytes of what belongs to them.
    bytes: usize,
    /// Calls that were sent and have not ended before the first of `items`; their entries' places.
    open: Vec<(u32, Item)>,
}

#[derive(Debug)]
struct Held {
    item: Item,
    extra: Vec<u8>,
    /// It will not change any more.
    ready: bool,
}

impl Waiting {
    fn held(&mut self, place: u64) -> Option<&mut Held> {
        let nth = place.checked_sub(self.first)?;
        self.items.get_mut(usize::try_from(nth).ok()?)
    }
}

impl Shelf for Waiting {
    fn put(&mut self, item: &Item, payload: &[u8]) -> u64 {
        let place = self.first + self.items.len() as u64;
        self.bytes += payload.len();
        self.items.push_back(Held {
            item: *item,
            extra: payload.to_vec(),
            ready: !item.holds_others(),
        });
        place
    }

    fn end(&mut self, place: u64, item: &Item) {
        if let Some(held) = self.held(place) {
            (held.item, held.ready) = (*item, true);
            return;
        }
        let exit = Item {
            kind: item::Kind::Exit,
            time: item.end,
            depth: item.depth.saturating_add(1),
            exit_cpu: item.exit_cpu,
            flags: item.flags & (flags::SYNTHETIC_EXIT | flags::TAIL_EXIT),
            has: has::TIME | item.has & has::EXIT_CPU,
            ..Item::default()
        };
        self.put(&exit, &[]);
    }

    fn lose(&mut self, place: u64) {
        if let Some(held) = self.held(place) {
            held.ready = true;
        }
    }

    fn argument(&mut self, place: u64, item: &Item, value: u64) -> bool {
        let Some(held) = self.held(place) else {
            return false;
        };
        held.item = *item;
        held.extra.extend_from_slice(&value.to_le_bytes());
        self.bytes += 8;
        true
    }
}

impl EntraceStream {
    /// Begins a stream. `info` gives clock, functions and program.
    #[must_use]
    pub fn new(out: Box<dyn Write + Send>, kind: Kind, info: &TraceInfo) -> EntraceStream {
        let mut stream = EntraceStream {
            out,
            info: TraceInfo {
                functions: Vec::new(),
                threads: Vec::new(),
                ..info.clone()
            },
            scale: Scale::new(info.clock.frequency),
            functions: Functions::default(),
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            now: 0,
            losses: Losses::default(),
            sent: Sent {
                kind,
                bytes: Vec::new(),
                next: 0,
                full: 0,
            },
            failed: None,
        };
        for function in &info.functions {
            stream.learn(function);
        }
        stream.begin();
        stream
    }

    /// Adds a function; false if it is known.
    fn learn(&mut self, function: &Function) -> bool {
        let function = shape::fitting(function, &mut self.losses);
        let new = self.functions.define(&function);
        if new {
            self.info.functions.push(function);
        }
        new
    }

    /// What a stream begins with. Entries' places begin anew.
    fn begin(&mut self) {
        let Self { sent, info, .. } = self;
        sent.next = 0;
        let head: [u8; HEAD_SIZE] = encode_head(sent.kind);
        sent.bytes.extend_from_slice(&head);
        sent.fact(&ROOT);
        sent.fact(&facts::encode_trace(info));
        for function in &info.functions {
            sent.fact(&facts::encode_function(function, 1));
        }
        for (lane, _) in &mut self.lanes {
            // They are of what the reader before was given.
            lane.thread.counts = None;
            sent.fact(&facts::encode_thread(&lane.thread, 1));
        }
    }

    /// Sends what of a thread is ready, or is held too long; `all`: whatever can be sent.
    fn send(&mut self, place: usize, all: bool) {
        let Some((lane, waiting)) = self.lanes.get_mut(place) else {
            return;
        };
        // Its arguments are part of the entry.
        let keep = usize::from(lane.awaits_arguments());
        while let Some(held) = waiting.items.front() {
            let many = waiting.items.len() > HELD || waiting.bytes > HELD_BYTES;
            let now = held.ready || ((all || many) && waiting.items.len() > keep);
            if !now {
                break;
            }
            waiting.open.truncate(held.item.depth as usize);
            let at = At {
                parent: waiting.open.last().map_or(0, |(entry, _)| *entry),
                thread: lane.thread.id.0,
            };
            let version = self.sent.kind.version;
            let functions = &self.functions;
            let entry = self.sent.entry(|bytes| {
                shape::put(bytes, version, functions, &held.item, at, &held.extra);
            });
            if held.item.holds_others() {
                waiting.open.push((entry, held.item));
            }
            waiting.bytes -= held.extra.len();
            waiting.items.pop_front();
            waiting.first += 1;
        }
        if self.sent.bytes.len() >= BUFFER {
            self.write();
        }
    }

    fn send_all(&mut self) {
        for place in 0..self.lanes.len() {
            self.send(place, true);
        }
    }

    /// Hands the bytes over.
    fn write(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(&self.sent.bytes).err();
        }
        self.sent.bytes.clear();
    }

    /// Writes what is left; returns what the stream could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        for (lane, waiting) in &mut self.lanes {
            lane.awaits_nothing();
            if let Some(end) = self.info.end {
                lane.end(end, &mut self.scale, waiting);
            }
        }
        self.send_all();
        for (lane, _) in &self.lanes {
            lane.finish(&mut self.losses);
        }
        let what = "entries after the first 2^32: left out";
        self.losses.add(what, self.sent.full);
        self.write();
        match self.failed {
            Some(error) => Err(error.into()),
            None => {
                self.out.flush()?;
                Ok(self.losses)
            }
        }
    }
}

impl Sink for EntraceStream {
    fn thread(&mut self, thread: &Thread) {
        let place = self.lane_of.get(&thread.id).copied();
        if let Some(place) = place {
            self.now = place;
            let known = &mut self.lanes[place].0.thread;
            if thread.counts.is_none() || thread == known {
                return;
            }
            known.clone_from(thread);
        } else {
            self.now = self.lanes.len();
            self.lane_of.insert(thread.id, self.now);
            self.lanes.push((Lane::new(thread), Waiting::default()));
        }
        self.sent.fact(&facts::encode_thread(thread, 1));
    }

    fn calls(&mut self, calls: &[Call]) {
        for some in calls.chunks(HELD) {
            let Some((lane, waiting)) = self.lanes.get_mut(self.now) else {
                return;
            };
            for call in some {
                let function = self.functions.place(call.function);
                lane.call(call, function, &mut self.scale, waiting);
            }
            self.send(self.now, false);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let Some((lane, waiting)) = self.lanes.get_mut(self.now) else {
            return;
        };
        lane.mark(
            mark,
            &mut self.scale,
            MAX_ARGUMENTS,
            &mut self.losses,
            waiting,
        );
        self.send(self.now, false);
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for EntraceStream {
    fn functions(&mut self, more: &[Function]) {
        for function in more {
            if self.learn(function)
                && let Some(function) = self.info.functions.last()
            {
                self.sent.fact(&facts::encode_function(function, 1));
            }
        }
    }

    /// Sends all entries, also of calls that have not ended.
    fn flush(&mut self) -> Result<(), Error> {
        self.send_all();
        self.write();
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        Ok(tell_kept(&mut self.failed)?)
    }

    /// Head, root, facts, and the open calls that the reader before has; their arguments are left
    /// out.
    fn restart(&mut self) -> Option<Vec<u8>> {
        let before = std::mem::take(&mut self.sent.bytes);
        if self.failed.is_none() {
            self.failed = self.out.write_all(&before).err();
        }
        self.begin();
        for (lane, waiting) in &mut self.lanes {
            let depth = waiting
                .items
                .front()
                .map_or(lane.open.len(), |held| held.item.depth as usize);
            waiting.open.truncate(depth);
            let mut parent = 0;
            for (entry, item) in &mut waiting.open {
                let at = At {
                    parent,
                    thread: lane.thread.id.0,
                };
                let version = self.sent.kind.version;
                let functions = &self.functions;
                *entry = self.sent.entry(|bytes| {
                    shape::put(bytes, version, functions, item, at, &[]);
                });
                parent = *entry;
            }
        }
        Some(std::mem::take(&mut self.sent.bytes))
    }

    /// Says once more what the trace says of itself, with its end.
    fn end(&mut self, end: Ticks) {
        self.info.end = Some(end);
        self.sent.fact(&facts::encode_trace(&self.info));
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        EntraceStream::finish(*self)
    }
}
