//! Writes events of any format into an ENTRACE file, entries of all threads in the order of their
//! times. A duration is known only when its call has ended, and sources give thread after thread, so
//! items are kept until the end: 64 MiB of them in memory, then in a temporary file. An ET takes 8
//! bytes of memory for each entry beside, for its pool.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use super::behind;
use super::container::{Container, Kind};
use super::entry::{Entry, ROOT, encode_entry};
use super::facts;
use super::item::{self, Item};
use super::lane::{Lane, Shelf};
use super::merge::{self, Strands};
use super::output::{Out, Tables, Take};
use super::shape::{self, Functions, MAX_ARGUMENTS};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::spool::Spool;
use crate::writer::{Writer, tell_kept};

#[cfg(test)]
mod tests;

/// Entries that are not worth a second thread.
const FEW: u32 = if cfg!(test) { 64 } else { 1 << 14 };

/// A sink that writes an ENTRACE file.
pub struct EntraceWriter {
    out: File,
    kind: Kind,
    info: TraceInfo,
    scale: Scale,
    functions: Functions,
    spool: Spool,
    lanes: Vec<(Lane, Strands)>,
    lane_of: HashMap<ThreadId, usize>,
    now: usize,
    losses: Losses,
    failed: Option<io::Error>,
}

/// A thread's part of the spool.
struct Shelves<'a> {
    spool: &'a mut Spool,
    strands: Strands,
    failed: &'a mut Option<io::Error>,
}

impl Shelves<'_> {
    /// Does something to the spool, which is no longer whole after the first error.
    #[inline(always)]
    fn with(&mut self, step: impl FnOnce(&mut Spool, Strands) -> io::Result<()>) {
        if self.failed.is_none()
            && let Err(error) = step(self.spool, self.strands)
        {
            *self.failed = Some(error);
        }
    }
}

impl Shelf for Shelves<'_> {
    // Called for every call: an item that stays in registers is not read back from memory.
    #[inline(always)]
    fn put(&mut self, item: &Item, payload: &[u8]) -> u64 {
        let place = self.spool.size(self.strands.items);
        self.with(|spool, strands| spool.push(strands.items, &item.encode()));
        if !payload.is_empty() {
            self.with(|spool, strands| spool.push(strands.extra, payload));
        }
        place
    }

    #[inline]
    fn end(&mut self, place: u64, item: &Item) {
        let at = place + item::END as u64;
        self.with(|spool, strands| spool.patch(strands.items, at, &item.encode()[item::END..]));
    }

    fn lose(&mut self, _: u64) {}

    fn argument(&mut self, place: u64, item: &Item, value: u64) -> bool {
        let at = place + item::EXTRA as u64;
        self.with(|spool, strands| {
            spool.patch(strands.items, at, &item.encode()[item::EXTRA..])?;
            spool.push(strands.extra, &value.to_le_bytes())
        });
        true
    }
}

impl EntraceWriter {
    /// Begins a file, which is empty. `info` gives clock, functions and program.
    #[must_use]
    pub fn new(out: File, kind: Kind, info: &TraceInfo) -> EntraceWriter {
        let mut writer = EntraceWriter {
            out,
            kind,
            info: TraceInfo {
                functions: Vec::new(),
                threads: Vec::new(),
                ..info.clone()
            },
            scale: Scale::new(info.clock.frequency),
            functions: Functions::default(),
            spool: Spool::default(),
            lanes: Vec::new(),
            lane_of: HashMap::new(),
            now: 0,
            losses: Losses::default(),
            failed: None,
        };
        writer.learn(&info.functions);
        writer
    }

    fn learn(&mut self, more: &[Function]) {
        for function in more {
            let function = shape::fitting(function, &mut self.losses);
            if self.functions.define(&function) {
                self.info.functions.push(function);
            }
        }
    }

    /// Runs `step` on the thread that the events belong to; a sink that was told no thread has none.
    #[inline]
    fn on_lane(
        &mut self,
        step: impl FnOnce(&mut Lane, &mut Functions, &mut Scale, &mut Shelves<'_>, &mut Losses),
    ) {
        let Some((lane, strands)) = self.lanes.get_mut(self.now) else {
            return;
        };
        let mut shelves = Shelves {
            spool: &mut self.spool,
            strands: *strands,
            failed: &mut self.failed,
        };
        step(
            lane,
            &mut self.functions,
            &mut self.scale,
            &mut shelves,
            &mut self.losses,
        );
    }

    /// Writes the file; returns what it could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        for nth in 0..self.lanes.len() {
            self.now = nth;
            let end = self.info.end;
            self.on_lane(|lane, _, scale, shelves, losses| {
                if let Some(end) = end {
                    lane.end(end, scale, shelves);
                }
                lane.finish(losses);
            });
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        let strands: Vec<Strands> = self.lanes.iter().map(|(_, strands)| *strands).collect();
        let items = strands
            .iter()
            .map(|strands| self.spool.size(strands.items) / item::SIZE as u64);
        let facts = 2 + self.info.functions.len() as u64 + self.lanes.len() as u64;
        let entries = facts.saturating_add(items.sum());
        let Some(entries) = u32::try_from(entries)
            .ok()
            .filter(|&entries| entries < u32::MAX)
        else {
            let what = format!("{entries} entries; ENTRACE files have less than 2^32");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what).into());
        };
        let source = Entries {
            kind: self.kind,
            info: &self.info,
            functions: &self.functions,
            spool: &self.spool,
            lanes: &self.lanes,
            strands: &strands,
        };
        behind::write(&self.out, entries > FEW, |behind| {
            let mut out = Out::new(behind, self.kind);
            if self.kind.container == Container::Et {
                let mut tables = Tables::new(&mut out, entries);
                source.each(&mut tables)?;
                tables.pool()?;
            }
            source.each(&mut out)?;
            out.flush()
        })?;
        Ok(self.losses)
    }
}

/// Everything that becomes entries, in order. It can be gone through more than once.
struct Entries<'a> {
    kind: Kind,
    info: &'a TraceInfo,
    functions: &'a Functions,
    spool: &'a Spool,
    lanes: &'a [(Lane, Strands)],
    strands: &'a [Strands],
}

impl Entries<'_> {
    fn each(&self, take: &mut impl Take) -> io::Result<()> {
        let version = self.kind.version;
        let mut own = 0;
        let mut fact = |entry: &Entry<'_>| {
            let mut bytes = Vec::new();
            encode_entry(entry, version, &mut bytes);
            let place = own;
            own += 1;
            let put = |out: &mut Vec<u8>| out.extend_from_slice(&bytes);
            take.entry(place, entry.parent, || bytes.len(), put)
        };
        fact(&ROOT)?;
        fact(&facts::encode_trace(self.info))?;
        for function in &self.info.functions {
            fact(&facts::encode_function(function, 1))?;
        }
        for (lane, _) in self.lanes {
            fact(&facts::encode_thread(&lane.thread, 1))?;
        }
        let functions = self.functions;
        merge::merge(self.spool, self.strands, own, |own, item, at, extra| {
            let size = || shape::size(version, functions, item, at, extra);
            take.entry(own, at.parent, size, |out| {
                shape::put(out, version, functions, item, at, extra);
            })
        })
    }
}

impl Sink for EntraceWriter {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&place) = self.lane_of.get(&thread.id) {
            self.now = place;
            if thread.counts.is_some() {
                self.lanes[place].0.thread = thread.clone();
            }
            return;
        }
        self.now = self.lanes.len();
        self.lane_of.insert(thread.id, self.now);
        let strands = Strands {
            thread: thread.id.0,
            items: self.spool.strand(),
            extra: self.spool.strand(),
        };
        self.lanes.push((Lane::new(thread), strands));
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.failed.is_some() {
            return;
        }
        self.on_lane(|lane, functions, scale, shelves, _| {
            for call in calls {
                let function = functions.place(call.function);
                lane.call(call, function, scale, shelves);
            }
        });
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.failed.is_some() {
            return;
        }
        self.on_lane(|lane, _, scale, shelves, losses| {
            lane.mark(mark, scale, MAX_ARGUMENTS, losses, shelves);
        });
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for EntraceWriter {
    fn functions(&mut self, more: &[Function]) {
        self.learn(more);
    }

    /// Nothing is written before the end: what comes first in the file is known last.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(tell_kept(&mut self.failed)?)
    }

    fn end(&mut self, end: Ticks) {
        self.info.end = Some(end);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        EntraceWriter::finish(*self)
    }
}
