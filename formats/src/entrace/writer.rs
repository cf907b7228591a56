//! Writes events of any format into an ENTRACE file. Entries are in order of time over all threads. A source gives
//! thread after thread, and a duration is known at the exit. So items are kept until the end: 64 MiB in memory, the
//! rest in a temporary file. Then the items of all threads are merged by time. An ET's tables stand in front of the
//! entries and need the size and parent of each, so the writer goes through all entries twice. It also needs 8 bytes of
//! memory an entry.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use super::bincode::put_u64;
use super::encode;
use super::facts;
use super::item::{self, EntryPosition, Item, has};
use super::record::{Container, Entry, Kind, ROOT, encode_entry, encode_head};
use super::thread_encoder::{Encoders, Store, Strands};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Mark, Thread, TraceInfo};
use crate::sink::{Losses, Sink};
use crate::spool::{self, Cursor, Spool};
use crate::writer::Writer;

/// Bytes that are collected before they are written.
const BUFFER: usize = 128 * 1024;
/// No entry.
const NONE: u32 = u32::MAX;

/// A sink that writes an ENTRACE file.
pub struct EntraceWriter {
    out: File,
    kind: Kind,
    encoders: Encoders,
    spool: Spool,
    /// By thread.
    strands: Vec<Strands>,
    failed: Option<io::Error>,
}

impl EntraceWriter {
    /// Begins a file, which is empty. `info` gives clock, functions and program.
    #[must_use]
    pub fn new(out: File, kind: Kind, info: &TraceInfo) -> EntraceWriter {
        EntraceWriter {
            out,
            kind,
            encoders: Encoders::new(info),
            spool: Spool::default(),
            strands: Vec::new(),
            failed: None,
        }
    }

    /// Runs `step` with the store of a thread. Without the thread, nothing happens.
    fn with_store(&mut self, place: usize, step: impl FnOnce(&mut Encoders, &mut Store<'_>)) {
        if let Some(&strands) = self.strands.get(place) {
            let mut store = Store {
                spool: &mut self.spool,
                strands,
                failed: &mut self.failed,
            };
            step(&mut self.encoders, &mut store);
        }
    }

    /// Writes the file; returns the losses.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        for place in 0..self.strands.len() {
            self.with_store(place, |encoders, store| encoders.finish(place, store));
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        let entries = self.count()?;
        let prefixed = self.kind.container == Container::IetPrefix;
        let mut out = BufWriter::with_capacity(BUFFER, &self.out);
        out.write_all(&encode_head(self.kind))?;
        if self.kind.container == Container::Et {
            self.write_tables(&mut out, entries)?;
        }
        self.each(&mut |_, _, entry| {
            if prefixed {
                out.write_all(&(entry.len() as u64).to_le_bytes())?;
            }
            out.write_all(entry)
        })?;
        out.flush()?;
        drop(out);
        Ok(self.encoders.losses)
    }

    /// The number of entries.
    fn count(&self) -> io::Result<u32> {
        let strands = self.strands.iter();
        let items = strands.map(|strands| self.spool.size(strands.items) / item::SIZE as u64);
        let facts = 2 + self.encoders.info.functions.len() as u64 + self.strands.len() as u64;
        let entries = facts.saturating_add(items.sum());
        let fits = u32::try_from(entries).ok().filter(|&count| count < NONE);
        fits.ok_or_else(|| {
            let what = format!("{entries} entries; ENTRACE files have less than 2^32");
            io::Error::new(io::ErrorKind::FileTooLarge, what)
        })
    }

    /// Writes an ET's table of offsets, and the children of each entry in ascending order.
    fn write_tables(&self, out: &mut impl Write, entries: u32) -> io::Result<()> {
        let number = |out: &mut dyn Write, number: u64| {
            let mut bytes = Vec::with_capacity(9);
            put_u64(&mut bytes, number);
            out.write_all(&bytes)
        };
        // The last child of each entry. For each entry, the previous child of the same parent.
        let mut last = vec![NONE; entries as usize];
        let mut before = last.clone();
        let mut offset = 0;
        number(out, entries.into())?;
        self.each(&mut |own, parent, entry| {
            if own > 0 {
                before[own as usize] = std::mem::replace(&mut last[parent as usize], own);
            }
            number(out, offset)?;
            offset += entry.len() as u64;
            Ok(())
        })?;
        number(out, entries.into())?;
        for mut at in last {
            // The chain is turned, so that it goes up.
            let (mut first, mut count) = (NONE, 0);
            while at != NONE {
                let next = std::mem::replace(&mut before[at as usize], first);
                (first, at, count) = (at, next, count + 1);
            }
            number(out, count)?;
            while first != NONE {
                number(out, first.into())?;
                first = before[first as usize];
            }
        }
        Ok(())
    }

    /// Hands each entry to `take`, in the order of the file: its own place, its parent's place, its bytes.
    fn each(&self, take: &mut impl FnMut(u32, u32, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let version = self.kind.version;
        let (mut own, mut bytes) = (0, Vec::new());
        let mut fact = |entry: &Entry<'_>| {
            bytes.clear();
            encode_entry(entry, version, &mut bytes);
            own += 1;
            take(own - 1, entry.parent, &bytes)
        };
        fact(&ROOT)?;
        fact(&facts::encode_trace(&self.encoders.info))?;
        for function in &self.encoders.info.functions {
            fact(&facts::encode_function(function, 1))?;
        }
        for encoder in &self.encoders.threads {
            fact(&facts::encode_thread(&encoder.thread, 1))?;
        }
        let functions = &self.encoders.functions;
        self.merge(own, |own, item, at, extra| {
            bytes.clear();
            encode::put(&mut bytes, version, functions, item, at, extra);
            take(own, at.parent, &bytes)
        })
    }

    /// Hands each item to `give`, in order of time, with its own place in the file, from `own` on. At the
    /// same time, the first thread is first.
    fn merge(
        &self,
        mut own: u32,
        mut give: impl FnMut(u32, &Item, EntryPosition, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let threads = self.encoders.threads.iter().zip(&self.strands);
        let mut runs: Vec<Run<'_>> = threads
            .map(|(encoder, strands)| Run::new(encoder.thread.id.0, &self.spool, *strands))
            .collect();
        spool::merge(&mut runs, |_, run| {
            if let Some(item) = run.item {
                run.take_extra(item.extra as usize)?;
                run.open.truncate(item.depth as usize);
                let at = EntryPosition {
                    parent: run.open.last().copied().unwrap_or(0),
                    thread: run.thread,
                };
                give(own, &item, at, &run.payload)?;
                if item.holds_others() {
                    run.open.push(own);
                }
                own += 1;
            }
            run.next()
        })
    }
}

/// The items of a thread during the merge.
struct Run<'a> {
    thread: u64,
    items: Cursor<'a>,
    extra: Cursor<'a>,
    /// The next item, and its arguments or payload.
    item: Option<Item>,
    payload: Vec<u8>,
    /// The places in the file of the open calls that the next item may be in.
    open: Vec<u32>,
    /// The thread's time so far. If its clock goes back, the order stays.
    time: u64,
}

impl<'a> Run<'a> {
    fn new(thread: u64, spool: &'a Spool, strands: Strands) -> Run<'a> {
        Run {
            thread,
            items: Cursor::new(spool, strands.items),
            extra: Cursor::new(spool, strands.extra),
            item: None,
            payload: Vec::new(),
            open: Vec::new(),
            time: 0,
        }
    }

    /// Goes on to the next item; returns its time.
    fn next(&mut self) -> io::Result<Option<u64>> {
        self.item = self.items.rest()?.first_chunk().map(Item::decode);
        let Some(item) = self.item else {
            return Ok(None);
        };
        self.items.skip(item::SIZE);
        if item.has_all(has::TIME) {
            self.time = self.time.max(item.time);
        }
        Ok(Some(self.time))
    }

    fn take_extra(&mut self, count: usize) -> io::Result<()> {
        self.payload.clear();
        while self.payload.len() < count {
            let more = self.extra.rest()?;
            let more = &more[..more.len().min(count - self.payload.len())];
            if more.is_empty() {
                break;
            }
            self.payload.extend_from_slice(more);
            let taken = more.len();
            self.extra.skip(taken);
        }
        Ok(())
    }
}

impl Sink for EntraceWriter {
    fn thread(&mut self, thread: &Thread) {
        if self.encoders.turn(thread) {
            self.strands.push(Strands {
                items: self.spool.strand(),
                extra: self.spool.strand(),
            });
        } else if thread.counts.is_some() {
            let known = &mut self.encoders.threads[self.encoders.now].thread;
            known.clone_from(thread);
        }
    }

    fn calls(&mut self, calls: &[Call]) {
        self.with_store(self.encoders.now, |encoders, store| {
            encoders.calls(calls, store);
        });
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.with_store(self.encoders.now, |encoders, store| {
            encoders.mark(mark, store);
        });
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for EntraceWriter {
    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        EntraceWriter::finish(*self)
    }
}

/// Larger traces than the spool keeps in memory: the spool's file and the merge are used.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::FileBytes;
    use crate::entrace::EntraceSource;
    use crate::entrace::record::Version;
    use crate::model::{Edge, FunctionId, ThreadId, Ticks};
    use crate::source::{Source, drive};
    use crate::temporary::unlinked;

    const THREADS: u64 = 3;

    /// Calls of every depth up to 5, with durations of every size. The steps differ by thread.
    fn calls(thread: u64) -> Vec<Call> {
        let (mut calls, mut open, mut time) = (Vec::new(), Vec::new(), thread);
        for round in 0..6000u64 {
            time += match round % 7 {
                0 => 70_000,
                1 if round % 777 == 1 => 5_000_000_000,
                step => step * 40 + thread,
            };
            let enters = open.is_empty() || (open.len() < 5 && round % 3 > 0);
            let function = FunctionId((round % 11 + thread) as u32);
            let (edge, function) = if enters {
                open.push(function);
                (Edge::Entry, function)
            } else {
                (Edge::Exit, open.pop().unwrap_or_default())
            };
            calls.push(Call {
                time: Ticks(time),
                function,
                edge,
                synthetic: false,
                has_arguments: false,
            });
        }
        calls
    }

    /// The calls that a file gives back, by thread.
    #[derive(Default)]
    struct CallList {
        calls: [Vec<Call>; THREADS as usize],
        now: usize,
    }

    impl Sink for CallList {
        fn thread(&mut self, thread: &Thread) {
            self.now = thread.id.0 as usize;
        }

        fn calls(&mut self, calls: &[Call]) {
            self.calls[self.now].extend_from_slice(calls);
        }

        fn mark(&mut self, mark: &Mark<'_>) {
            panic!("none was written: {mark:?}");
        }

        fn diagnostic(&mut self, diagnostic: Diagnostic) {
            panic!("{diagnostic}");
        }
    }

    #[test]
    fn what_went_through_the_temporary_file_comes_back() {
        for version in [Version::V1, Version::V2] {
            for container in [Container::Et, Container::Iet, Container::IetPrefix] {
                let file = unlinked().expect("a folder for temporary files");
                let kind = Kind { version, container };
                let out = file.try_clone().expect("a file");
                let mut writer = EntraceWriter::new(out, kind, &TraceInfo::default());
                for id in (0..THREADS).map(ThreadId) {
                    let thread = Thread {
                        id,
                        ..Thread::default()
                    };
                    writer.thread(&thread);
                    writer.calls(&calls(id.0));
                }
                assert!(writer.spool.has_spilled(), "the test must spill");
                writer.finish().expect("room");

                let bytes = FileBytes::new(file).expect("a file");
                let source = EntraceSource::open(Box::new(bytes)).expect("a trace");
                assert_eq!(source.diagnostics(), [], "{kind}");
                let mut kept = CallList::default();
                drive(&source, &mut kept, &|_| {}).expect("a readable file");
                for (thread, found) in (0..).zip(&kept.calls) {
                    assert!(*found == calls(thread), "{kind}: thread {thread}");
                }
            }
        }
    }
}
