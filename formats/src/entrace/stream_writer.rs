//! Writes events into a stream (IET, `IETPrefix`) that somebody may be reading already. An entry is sent
//! when its call has ended. It is sent earlier, without a duration, when its thread holds [`HELD`] items or
//! [`Writer::flush`] is called. Then an entry `fdr:exit` states the end later. Threads are mixed in the
//! order of arrival. The entries of one thread are in order.
//!
//! Memory is the held items, and the open calls of each thread. Must never grow with the events.

use std::collections::VecDeque;
use std::io::{self, Write};

use super::encode::{self, At};
use super::facts::{self, flags};
use super::record::{Container, Entry, Kind, PREFIX_SIZE, ROOT, encode_entry, encode_head};
use super::thread_encoder::{self, Encoders, Item, ItemStore, has};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, Ticks, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::writer::{Writer, tell_kept};

/// Items of a thread that wait for the end of a call.
const HELD: usize = 1024;
/// Bytes of their arguments and payloads.
const HELD_BYTES: usize = 256 * 1024;
/// Bytes that are collected before they are written.
const BUFFER: usize = 64 * 1024;

/// A sink that writes an ENTRACE stream.
pub struct EntraceStream {
    out: Box<dyn Write + Send>,
    encoders: Encoders,
    /// By thread.
    waiting: Vec<Waiting>,
    sent: Sent,
    failed: Option<io::Error>,
}

/// Entries on their way to the output.
struct Sent {
    kind: Kind,
    bytes: Vec<u8>,
    /// Place of the next entry, as the reader counts entries.
    next: u32,
    /// The number of entries has reached its limit.
    full: u64,
}

impl Sent {
    /// Appends the entry that `put` makes; returns its place.
    fn entry(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> u32 {
        if self.next == u32::MAX {
            self.full += 1;
            return 0;
        }
        if self.kind.container == Container::IetPrefix {
            self.bytes.extend_from_slice(&[0; PREFIX_SIZE]);
            let begin = self.bytes.len();
            put(&mut self.bytes);
            let size = (self.bytes.len() - begin) as u64;
            self.bytes[begin - PREFIX_SIZE..begin].copy_from_slice(&size.to_le_bytes());
        } else {
            put(&mut self.bytes);
        }
        self.next += 1;
        self.next - 1
    }

    fn fact(&mut self, entry: &Entry<'_>) {
        let version = self.kind.version;
        self.entry(|bytes| encode_entry(entry, version, bytes));
    }
}

/// The unsent items of a thread, and the sent calls that later entries can be in.
#[derive(Debug, Default)]
struct Waiting {
    items: VecDeque<Held>,
    /// Place of the first item among all items of the thread.
    first: u64,
    /// Bytes of their arguments and payloads.
    bytes: usize,
    /// The places of the entries of sent calls that were open before the first of `items`.
    open: Vec<(u32, Item)>,
}

#[derive(Debug)]
struct Held {
    item: Item,
    extra: Vec<u8>,
    /// The item will not change any more.
    ready: bool,
}

impl Waiting {
    fn held(&mut self, place: u64) -> Option<&mut Held> {
        let nth = place.checked_sub(self.first)?;
        self.items.get_mut(usize::try_from(nth).ok()?)
    }
}

impl ItemStore for Waiting {
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
            kind: thread_encoder::Kind::Exit,
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
            encoders: Encoders::new(info),
            waiting: Vec::new(),
            sent: Sent {
                kind,
                bytes: Vec::new(),
                next: 0,
                full: 0,
            },
            failed: None,
        };
        stream.begin();
        stream
    }

    /// The beginning of a stream. The places of entries begin anew.
    fn begin(&mut self) {
        let Self { sent, encoders, .. } = self;
        sent.next = 0;
        sent.bytes.extend_from_slice(&encode_head(sent.kind));
        sent.fact(&ROOT);
        sent.fact(&facts::encode_trace(&encoders.info));
        for function in &encoders.info.functions {
            sent.fact(&facts::encode_function(function, 1));
        }
        for encoder in &mut encoders.threads {
            // The counts are of records that the previous reader got.
            encoder.thread.counts = None;
            sent.fact(&facts::encode_thread(&encoder.thread, 1));
        }
    }

    /// Sends the items of a thread that are ready or held too long; `all`: every item that can be sent.
    fn send(&mut self, place: usize, all: bool) {
        let Some(waiting) = self.waiting.get_mut(place) else {
            return;
        };
        let encoder = &self.encoders.threads[place];
        // The arguments of a call are part of its entry.
        let keep = usize::from(encoder.awaits_arguments());
        while let Some(held) = waiting.items.front() {
            let many = waiting.items.len() > HELD || waiting.bytes > HELD_BYTES;
            let now = held.ready || ((all || many) && waiting.items.len() > keep);
            if !now {
                break;
            }
            waiting.open.truncate(held.item.depth as usize);
            let at = At {
                parent: waiting.open.last().map_or(0, |(entry, _)| *entry),
                thread: encoder.thread.id.0,
            };
            let version = self.sent.kind.version;
            let functions = &self.encoders.functions;
            let entry = self.sent.entry(|bytes| {
                encode::put(bytes, version, functions, &held.item, at, &held.extra);
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
        for place in 0..self.waiting.len() {
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

    /// Writes the rest; returns the losses of the stream.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        for (place, waiting) in self.waiting.iter_mut().enumerate() {
            self.encoders.finish(place, waiting);
        }
        self.send_all();
        let what = "entries after the first 2^32: left out";
        self.encoders.losses.add(what, self.sent.full);
        self.write();
        match self.failed {
            Some(error) => Err(error.into()),
            None => {
                self.out.flush()?;
                Ok(self.encoders.losses)
            }
        }
    }
}

impl Sink for EntraceStream {
    fn thread(&mut self, thread: &Thread) {
        if self.encoders.turn(thread) {
            self.waiting.push(Waiting::default());
        } else {
            let known = &mut self.encoders.threads[self.encoders.now].thread;
            if thread.counts.is_none() || thread == known {
                return;
            }
            known.clone_from(thread);
        }
        self.sent.fact(&facts::encode_thread(thread, 1));
    }

    fn calls(&mut self, calls: &[Call]) {
        for some in calls.chunks(HELD) {
            if let Some(waiting) = self.waiting.get_mut(self.encoders.now) {
                self.encoders.calls(some, waiting);
            }
            self.send(self.encoders.now, false);
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Some(waiting) = self.waiting.get_mut(self.encoders.now) {
            self.encoders.mark(mark, waiting);
        }
        self.send(self.encoders.now, false);
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for EntraceStream {
    fn functions(&mut self, more: &[Function]) {
        let known = self.encoders.info.functions.len();
        self.encoders.learn(more);
        for function in &self.encoders.info.functions[known..] {
            self.sent.fact(&facts::encode_function(function, 1));
        }
    }

    /// Sends all entries, also those of open calls.
    fn flush(&mut self) -> Result<(), Error> {
        self.send_all();
        self.write();
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
        Ok(tell_kept(&mut self.failed)?)
    }

    /// Head, root, facts, and the open calls that the previous reader has. Arguments are left out.
    fn restart(&mut self) -> Option<Vec<u8>> {
        let before = std::mem::take(&mut self.sent.bytes);
        if self.failed.is_none() {
            self.failed = self.out.write_all(&before).err();
        }
        self.begin();
        for (encoder, waiting) in self.encoders.threads.iter().zip(&mut self.waiting) {
            let depth = waiting
                .items
                .front()
                .map_or(encoder.open.len(), |held| held.item.depth as usize);
            waiting.open.truncate(depth);
            let mut parent = 0;
            for (entry, item) in &mut waiting.open {
                let at = At {
                    parent,
                    thread: encoder.thread.id.0,
                };
                let version = self.sent.kind.version;
                let functions = &self.encoders.functions;
                *entry = self.sent.entry(|bytes| {
                    encode::put(bytes, version, functions, item, at, &[]);
                });
                parent = *entry;
            }
        }
        Some(std::mem::take(&mut self.sent.bytes))
    }

    /// Repeats the facts of the trace, with its end.
    fn end(&mut self, end: Ticks) {
        self.encoders.info.end = Some(end);
        self.sent.fact(&facts::encode_trace(&self.encoders.info));
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        EntraceStream::finish(*self)
    }
}
