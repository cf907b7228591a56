//! Writes events of any format into an ENTRACE file. Entries are in order of time over all threads. A
//! source gives thread after thread, and a duration is known at the exit. So items are kept until the end:
//! 64 MiB in memory, the rest in a temporary file. An ET also needs 8 bytes of memory an entry, for its
//! pool. Must never keep more in memory.

use std::collections::HashMap;
use std::fs::File;
use std::io;

use super::encode::{self, Functions, MAX_ARGUMENTS};
use super::facts;
use super::output::{self, Out, Strands, Tables, Take};
use super::record::{Container, Entry, Kind, ROOT, encode_entry};
use super::thread_encoder::{self, Item, ItemStore, ThreadEncoder};
use crate::error::{Diagnostic, Error};
use crate::model::{Call, Function, Mark, Thread, ThreadId, Ticks, TraceInfo};
use crate::scale::Scale;
use crate::sink::{Losses, Sink};
use crate::spool::Spool;
use crate::writer::{Writer, tell_kept};

/// Fewer entries are not worth a second thread.
const FEW: u32 = if cfg!(test) { 64 } else { 1 << 14 };

/// A sink that writes an ENTRACE file.
pub struct EntraceWriter {
    out: File,
    kind: Kind,
    info: TraceInfo,
    scale: Scale,
    functions: Functions,
    spool: Spool,
    encoders: Vec<(ThreadEncoder, Strands)>,
    encoder_of: HashMap<ThreadId, usize>,
    now: usize,
    losses: Losses,
    failed: Option<io::Error>,
}

/// A thread's part of the spool.
struct SpoolStore<'a> {
    spool: &'a mut Spool,
    strands: Strands,
    failed: &'a mut Option<io::Error>,
}

impl SpoolStore<'_> {
    /// Changes the spool, unless an error has damaged it.
    #[inline(always)]
    fn with(&mut self, step: impl FnOnce(&mut Spool, Strands) -> io::Result<()>) {
        if self.failed.is_none() {
            *self.failed = step(self.spool, self.strands).err();
        }
    }
}

impl ItemStore for SpoolStore<'_> {
    // This runs for every call. An item that stays in registers is not read back from memory.
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
        let at = place + thread_encoder::END as u64;
        self.with(|spool, strands| {
            spool.patch(strands.items, at, &item.encode()[thread_encoder::END..])
        });
    }

    fn lose(&mut self, _: u64) {}

    fn argument(&mut self, place: u64, item: &Item, value: u64) -> bool {
        let at = place + thread_encoder::EXTRA as u64;
        self.with(|spool, strands| {
            spool.patch(strands.items, at, &item.encode()[thread_encoder::EXTRA..])?;
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
            encoders: Vec::new(),
            encoder_of: HashMap::new(),
            now: 0,
            losses: Losses::default(),
            failed: None,
        };
        writer.learn(&info.functions);
        writer
    }

    fn learn(&mut self, more: &[Function]) {
        for function in more {
            let function = encode::fitting(function, &mut self.losses);
            if self.functions.define(&function) {
                self.info.functions.push(function);
            }
        }
    }

    /// Runs `step` on the thread that the events belong to. Without a thread, nothing happens.
    #[inline]
    fn on_encoder(
        &mut self,
        step: impl FnOnce(
            &mut ThreadEncoder,
            &mut Functions,
            &mut Scale,
            &mut SpoolStore<'_>,
            &mut Losses,
        ),
    ) {
        let Some((encoder, strands)) = self.encoders.get_mut(self.now) else {
            return;
        };
        let mut store = SpoolStore {
            spool: &mut self.spool,
            strands: *strands,
            failed: &mut self.failed,
        };
        step(
            encoder,
            &mut self.functions,
            &mut self.scale,
            &mut store,
            &mut self.losses,
        );
    }

    /// Writes the file; returns the losses.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        for nth in 0..self.encoders.len() {
            self.now = nth;
            let end = self.info.end;
            self.on_encoder(|encoder, _, scale, store, losses| {
                if let Some(end) = end {
                    encoder.end(end, scale, store);
                }
                encoder.finish(losses);
            });
        }
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        let strands: Vec<Strands> = self.encoders.iter().map(|(_, strands)| *strands).collect();
        let items = strands
            .iter()
            .map(|strands| self.spool.size(strands.items) / thread_encoder::SIZE as u64);
        let facts = 2 + self.info.functions.len() as u64 + self.encoders.len() as u64;
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
            encoders: &self.encoders,
            strands: &strands,
        };
        output::write(&self.out, entries > FEW, |write_thread| {
            let mut out = Out::new(write_thread, self.kind);
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

/// The source of all entries, in order. It can be read more than once.
struct Entries<'a> {
    kind: Kind,
    info: &'a TraceInfo,
    functions: &'a Functions,
    spool: &'a Spool,
    encoders: &'a [(ThreadEncoder, Strands)],
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
        for (encoder, _) in self.encoders {
            fact(&facts::encode_thread(&encoder.thread, 1))?;
        }
        let functions = self.functions;
        output::merge(self.spool, self.strands, own, |own, item, at, extra| {
            let size = || encode::size(version, functions, item, at, extra);
            take.entry(own, at.parent, size, |out| {
                encode::put(out, version, functions, item, at, extra);
            })
        })
    }
}

impl Sink for EntraceWriter {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&place) = self.encoder_of.get(&thread.id) {
            self.now = place;
            if thread.counts.is_some() {
                self.encoders[place].0.thread = thread.clone();
            }
            return;
        }
        self.now = self.encoders.len();
        self.encoder_of.insert(thread.id, self.now);
        let strands = Strands {
            thread: thread.id.0,
            items: self.spool.strand(),
            extra: self.spool.strand(),
        };
        self.encoders.push((ThreadEncoder::new(thread), strands));
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.failed.is_some() {
            return;
        }
        self.on_encoder(|encoder, functions, scale, store, _| {
            for call in calls {
                let function = functions.place(call.function);
                encoder.call(call, function, scale, store);
            }
        });
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if self.failed.is_some() {
            return;
        }
        self.on_encoder(|encoder, _, scale, store, losses| {
            encoder.mark(mark, scale, MAX_ARGUMENTS, losses, store);
        });
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl Writer for EntraceWriter {
    fn functions(&mut self, more: &[Function]) {
        self.learn(more);
    }

    /// Writes nothing, because the beginning of the file is known only at the end.
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

/// Larger traces than the spool keeps in memory: the spool's file, the merge and the write thread are used.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::FileBytes;
    use crate::entrace::EntraceSource;
    use crate::entrace::record::Version;
    use crate::model::{Edge, FunctionId, Ticks};
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
    struct Kept {
        calls: [Vec<Call>; THREADS as usize],
        now: usize,
    }

    impl Sink for Kept {
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
                let mut kept = Kept::default();
                drive(&source, &mut kept, &|_| {}).expect("a readable file");
                for (thread, found) in (0..).zip(&kept.calls) {
                    assert!(*found == calls(thread), "{kind}: thread {thread}");
                }
            }
        }
    }
}
