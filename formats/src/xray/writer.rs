//! Writes events of any format as XRay FDR, version 1 or 3, so that unmodified llvm-xray reads it
//! right: one block per thread, every block begins at the same tick, calls nest. What is synthetic
//! in the source is kept where it nests, and made anew elsewhere. Threads may come in pieces: their records are spooled (64 MiB in
//! memory, then a temporary file) and written at the end; an open call takes 4 bytes.

use std::collections::HashMap;
use std::io::{self, Read, Seek, Write};

use super::balance::Ids;
use super::dump::{EXACT_TICKS, tables, wall_time};
use super::frame::{Frame, Head, Version};
use super::payload;
use super::record::{self, Action, FUNCTION_LIMIT, FUNCTION_SIZE, Record, When};
use super::thread_encoder::{LAYOUT, ThreadEncoder, action, highest_free, write_synthetic};
use crate::calls::Exit;
use crate::error::{Diagnostic, Error};
use crate::model::{
    Call, Counts, Edge, Function, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo,
};
use crate::sink::{Losses, Sink};
use crate::spool::Spool;
use crate::thread_numbers::ThreadNumbers;
use crate::writer::Writer;

/// A sink that writes an XRay FDR file. `W` is an empty file, open for writing and reading.
pub struct XrayWriter<W: Read + Write + Seek> {
    frame: Frame<W>,
    info: TraceInfo,
    /// What function id 0 is written as: XRay's tools take 0 for the root of all calls.
    zero: u32,
    /// Function 0 is in the trace.
    has_zero: bool,
    /// Calls of a function without a name that really has the number `zero`.
    mistaken: u64,
    spool: Spool,
    encoders: Vec<ThreadEncoder>,
    encoder_of: HashMap<ThreadId, usize>,
    now: usize,
    numbers: ThreadNumbers,
    closed: Ids,
    /// Records of plain calls on their way.
    plain: Vec<[u8; FUNCTION_SIZE]>,
    losses: Losses,
    failed: Option<io::Error>,
}

impl<W: Read + Write + Seek> XrayWriter<W> {
    /// Writes the header; `info` gives clock, functions and program. Without `info.start`, the
    /// blocks begin at the earliest event.
    ///
    /// # Errors
    /// Where the file can't be written.
    pub fn new(out: W, version: Version, info: &TraceInfo) -> Result<XrayWriter<W>, Error> {
        let mut info = info.clone();
        let (zero, has_zero) = (highest_free(&info), info.function(FunctionId(0)).is_some());
        for function in info
            .functions
            .iter_mut()
            .filter(|function| function.id.0 == 0)
        {
            function.id = FunctionId(zero);
        }
        let frame = Frame::new(out, version, &info.clock)?;
        Ok(XrayWriter {
            frame,
            info,
            zero,
            has_zero,
            mistaken: 0,
            spool: Spool::default(),
            encoders: Vec::new(),
            encoder_of: HashMap::new(),
            now: 0,
            numbers: ThreadNumbers::default(),
            closed: Ids::default(),
            plain: Vec::new(),
            losses: Losses::default(),
            failed: None,
        })
    }

    /// Writes all blocks; returns what version and format could not hold.
    ///
    /// # Errors
    /// The first one that was met, now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if self.encoders.is_empty() {
            let id = ThreadId(self.info.process.unwrap_or_default());
            self.thread(&Thread {
                id,
                ..Thread::default()
            });
        }
        let timed = self
            .encoders
            .iter()
            .filter(|encoder| encoder.first.is_some());
        let earliest = timed
            .map(|encoder| encoder.earliest)
            .min()
            .unwrap_or_default();
        let start = self
            .info
            .start
            .map_or(earliest, |start| start.0.min(earliest));
        for nth in 0..self.encoders.len() {
            self.block(nth, start)?;
        }
        self.frame.finish()?;
        let what = "thread ids over 32 bits, or taken: each thread has another number";
        self.losses.add(what, self.numbers.renumbered);
        if self.has_zero {
            let what =
                "calls of the function whose number function 0 was given: they look like its calls";
            self.losses.add(what, self.mistaken);
        }
        Ok(self.losses)
    }

    /// Function 0 gets the number that stands for it in the file.
    fn learn(&mut self, more: &[Function]) {
        self.has_zero |= more.iter().any(|function| function.id.0 == 0);
        for function in more {
            let id = if function.id.0 == 0 {
                self.zero
            } else {
                function.id.0
            };
            let function = Function {
                id: FunctionId(id),
                ..function.clone()
            };
            self.info.functions.push(function);
        }
        self.info.functions.sort_by_key(|function| function.id);
    }

    fn block(&mut self, nth: usize, start: u64) -> io::Result<()> {
        let Self {
            frame,
            info,
            spool,
            encoders,
            losses,
            numbers,
            ..
        } = self;
        let Some(encoder) = encoders.get_mut(nth) else {
            return Ok(());
        };
        let (first, cpu) = encoder.first.unwrap_or((start, 0));
        let wall = encoder
            .wall
            .unwrap_or_else(|| wall_time(&info.clock, first));
        let process = encoder.thread.process.or(info.process);
        frame.begin(&Head {
            thread: numbers.begin(encoder.thread.id),
            seconds: wall.0,
            micros: wall.1,
            process: process.and_then(|process| u32::try_from(process).ok()),
            start,
            cpu,
        })?;
        let counts = encoder.thread.counts;
        encoder.thread.counts = counts.map(|counts| Counts {
            readable: encoder.records,
            ..counts
        });
        let end = encoder.until(info.end);
        let latest = encoder.first.map(|_| Ticks(encoder.latest));
        frame.custom(start, &payload::encode_thread(&encoder.thread, latest))?;
        let (before, open) = (encoder.stack.before(), encoder.stack.open());
        let entries = before.len() as u64 + encoder.middle_entries;
        let exits = open.len() as u64 + encoder.middle_exits;
        frame.custom(start, &payload::encode_balance(entries, exits))?;
        if nth == 0 {
            tables(frame, info, start, losses)?;
        }
        frame.metadata(&Record::NewCpu { cpu, tsc: first })?;
        write_synthetic(frame, first, before, true)?;
        if encoder.lost > 0 {
            frame.custom(first, &payload::encode_lost(encoder.lost))?;
        }
        spool.each(encoder.strand, |bytes| frame.bytes(bytes))?;
        frame.reach(encoder.base, end)?;
        write_synthetic(frame, end, open, false)?;
        let large = "threads with times of 2^53 ticks or more: llvm-xray rounds them";
        losses.add(large, u64::from(encoder.latest >= EXACT_TICKS));
        frame.end()
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(encoder) = self
            .encoders
            .get(self.now)
            .filter(|_| self.failed.is_none())
        else {
            return;
        };
        self.failed = self.spool.push(encoder.strand, bytes).err();
    }

    fn metadata(&mut self, record: &Record) {
        self.push(&record::encode_metadata(record, LAYOUT));
    }

    /// The encoder of the thread that the events belong to; a sink that was told no thread has none.
    fn encoder(&mut self) -> Option<&mut ThreadEncoder> {
        self.encoders.get_mut(self.now)
    }

    /// Ticks from the running base to `time`, which becomes the base.
    fn delta(&mut self, time: u64) -> Option<u32> {
        let encoder = self.encoder()?;
        encoder.reach(time);
        let delta = time
            .checked_sub(encoder.base)
            .and_then(|delta| u32::try_from(delta).ok());
        encoder.base = time;
        if delta.is_none() {
            self.metadata(&Record::TscWrap { tsc: time });
        }
        Some(delta.unwrap_or(0))
    }

    /// Takes calls as long as they are plain; returns how many.
    fn plain(&mut self, calls: &[Call]) -> usize {
        let Some(encoder) = self.encoders.get_mut(self.now) else {
            return 0;
        };
        self.plain.clear();
        encoder.plain(calls, self.zero, &mut self.plain);
        if self.failed.is_none() {
            let bytes = self.plain.as_flattened();
            self.failed = self.spool.push(encoder.strand, bytes).err();
        }
        self.plain.len()
    }

    fn call(&mut self, call: &Call) {
        let id = if call.function.0 == 0 {
            self.has_zero = true;
            self.zero
        } else {
            self.mistaken += u64::from(call.function.0 == self.zero);
            call.function.0
        };
        let lost = id >= FUNCTION_LIMIT;
        self.losses.add(
            "calls of functions with ids of 2^28 and above: left out",
            lost.into(),
        );
        let mut closed = std::mem::take(&mut self.closed);
        closed.truncate(0);
        let Some(encoder) = self.encoder() else {
            return;
        };
        encoder.arguments = !lost;
        if lost {
            return;
        }
        encoder.records += 1;
        let exit = match call.edge {
            Edge::Entry => {
                encoder.stack.enter(id);
                Exit::Innermost
            }
            Edge::Exit | Edge::TailExit => encoder.stack.exit(id, &mut closed),
        };
        match exit {
            Exit::Innermost | Exit::Before => {}
            Exit::Outer(count) => {
                encoder.middle_exits += count as u64;
                self.repair(closed.all(), Action::Exit);
            }
            Exit::Lone => {
                encoder.middle_entries += 1;
                if encoder.gap {
                    encoder.reach(call.time.0);
                    encoder.base = call.time.0;
                    self.metadata(&Record::TscWrap { tsc: call.time.0 });
                }
                self.repair(&[id], Action::Entry);
            }
        }
        self.closed = closed;
        if let Some(encoder) = self.encoder() {
            encoder.gap = false;
        }
        let Some(delta) = self.delta(call.time.0) else {
            return;
        };
        self.push(&record::encode_function(
            id,
            action(call),
            delta,
            LAYOUT.order,
        ));
    }

    /// Synthetic calls of the source, all of one time. An exit of any but the innermost call is left out:
    /// this writer balances anew.
    fn synthetic(&mut self, calls: &[Call]) {
        let (time, order) = (calls.first().map_or(0, |call| call.time.0), LAYOUT.order);
        let mut kept = Vec::new();
        for call in calls {
            let id = match call.function.0 {
                0 => self.zero,
                id => id,
            };
            let Some(encoder) = self.encoder() else {
                return;
            };
            encoder.arguments = false;
            let nests = match call.edge {
                Edge::Entry => id < FUNCTION_LIMIT,
                Edge::Exit | Edge::TailExit => encoder.stack.open.last() == Some(id),
            };
            if !nests {
                continue;
            }
            if call.edge == Edge::Entry {
                encoder.stack.enter(id);
                encoder.middle_entries += 1;
            } else {
                encoder.stack.open.pop();
                encoder.middle_exits += 1;
            }
            self.has_zero |= call.function.0 == 0;
            kept.push((id, action(call)));
        }
        if kept.is_empty() {
            return;
        }
        let Some(delta) = self.delta(time) else {
            return;
        };
        let count = u32::try_from(kept.len()).unwrap_or(u32::MAX);
        self.custom(time, &payload::encode_synthetic(count));
        for (nth, (id, action)) in kept.into_iter().enumerate() {
            let delta = if nth == 0 { delta } else { 0 };
            self.push(&record::encode_function(id, action, delta, order));
        }
    }

    fn repair(&mut self, ids: &[u32], action: Action) {
        let Some(base) = self.encoder().map(|encoder| encoder.base) else {
            return;
        };
        let count = u32::try_from(ids.len()).unwrap_or(u32::MAX);
        self.custom(base, &payload::encode_synthetic(count));
        for &id in ids {
            self.push(&record::encode_function(id, action, 0, LAYOUT.order));
        }
    }

    fn custom(&mut self, tsc: u64, data: &[u8]) {
        let size = i32::try_from(data.len()).unwrap_or(0);
        if size == 0 {
            self.losses.add(
                "events without a payload, or of 2 GiB and more: left out",
                1,
            );
            return;
        }
        self.metadata(&Record::Custom {
            size,
            when: When::Absolute(tsc),
            cpu: None,
        });
        self.push(data);
    }

    fn cpu(&mut self, tsc: u64, cpu: u32) {
        let Ok(number) = u16::try_from(cpu) else {
            return self.losses.add("changes to CPUs above 65535: left out", 1);
        };
        let Some(encoder) = self.encoder() else {
            return;
        };
        encoder.earliest = encoder.earliest.min(tsc);
        encoder.latest = encoder.latest.max(tsc);
        encoder.base = tsc;
        if encoder.first.is_none() {
            encoder.first = Some((tsc, number));
        } else {
            self.metadata(&Record::NewCpu { cpu: number, tsc });
        }
    }

    /// An event beside the calls: it must not be older than its block.
    fn event(&mut self, time: u64, data: &[u8]) {
        let Some(encoder) = self.encoder() else {
            return;
        };
        encoder.reach(time);
        self.custom(time, data);
    }
}

impl<W: Read + Write + Seek> Sink for XrayWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&encoder) = self.encoder_of.get(&thread.id) {
            self.now = encoder;
            if thread.counts.is_some() {
                self.encoders[encoder].thread = thread.clone();
            }
            return;
        }
        self.now = self.encoders.len();
        self.encoder_of.insert(thread.id, self.now);
        self.encoders
            .push(ThreadEncoder::new(thread.clone(), self.spool.strand()));
    }

    fn calls(&mut self, calls: &[Call]) {
        let mut rest = calls;
        loop {
            rest = rest.get(self.plain(rest)..).unwrap_or(&[]);
            let Some((call, behind)) = rest.split_first() else {
                return;
            };
            if call.synthetic {
                let same = |other: &&Call| other.synthetic && other.time == call.time;
                let count = rest.iter().take_while(same).count();
                let (these, behind) = rest.split_at(count);
                self.synthetic(these);
                rest = behind;
                continue;
            }
            self.call(call);
            rest = behind;
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let after_call = self
            .encoder()
            .is_some_and(|encoder| std::mem::take(&mut encoder.arguments));
        match *mark {
            Mark::Cpu { time, cpu } => self.cpu(time.0, cpu.0),
            Mark::Wall { seconds, micros } => {
                let encoder = self
                    .encoders
                    .get_mut(self.now)
                    .filter(|encoder| encoder.wall.is_none());
                match encoder {
                    Some(encoder) => encoder.wall = Some((seconds, micros)),
                    None => self
                        .losses
                        .add("wall-clock times after a thread's first: left out", 1),
                }
            }
            Mark::Argument { value } if after_call => {
                self.metadata(&Record::CallArgument { value });
                if let Some(encoder) = self.encoder() {
                    encoder.arguments = true;
                }
            }
            Mark::Lost { records } => match self.encoder() {
                // It has no time of its own.
                Some(encoder) if encoder.first.is_none() => {
                    encoder.lost = encoder.lost.saturating_add(records);
                }
                Some(encoder) => {
                    let base = encoder.base;
                    // What is missing before the first record is not in the middle.
                    if encoder.records > 0 {
                        encoder.gap = true;
                        encoder.stack.gap();
                    }
                    self.event(base, &payload::encode_lost(records));
                }
                None => {}
            },
            Mark::Break { time } => {
                // Times are continuous over it: it only says which calls are in doubt.
                self.event(time.0, &payload::encode_break(0));
            }
            Mark::Argument { .. } => {
                self.losses
                    .add("arguments without a call that was kept: left out", 1);
            }
            Mark::Custom { time, cpu, data } => {
                self.losses
                    .add("CPUs of custom events: left out", u64::from(cpu.is_some()));
                self.event(time.0, data);
            }
            Mark::Typed { time, data, .. } => {
                self.losses
                    .add("typed events: written as custom events, without type", 1);
                self.event(time.0, data);
            }
        }
    }

    fn diagnostic(&mut self, _: Diagnostic) {}
}

impl<W: Read + Write + Seek + Send> Writer for XrayWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        self.learn(more);
    }

    /// Nothing can be read before the end: blocks have their sizes in front.
    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn end(&mut self, end: Ticks) {
        self.info.end = Some(end);
    }

    fn finish(self: Box<Self>) -> Result<Losses, Error> {
        XrayWriter::finish(*self)
    }
}
