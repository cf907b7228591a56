//! Writes events of any format as XRay FDR, version 1 or 3, so that unmodified llvm-xray reads it
//! right: one block per thread, every block begins at the same tick, calls nest. What is synthetic
//! in the source is kept where it nests, and made anew elsewhere. Threads may come in pieces: their records are spooled (64 MiB in
//! memory, then a temporary file) and written at the end; an open call takes 4 bytes.

use std::collections::HashMap;
use std::io::{self, Read, Seek, Write};

use super::dump::{EXACT_TICKS, tables, wall_time};
use super::frame::{Frame, Head, Version};
use super::ids::Ids;
use super::lane::{LAYOUT, Lane, action, highest_free, write_synthetic};
use super::payload;
use super::record::{self, Action, FUNCTION_LIMIT, FUNCTION_SIZE, Record, When};
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
    lanes: Vec<Lane>,
    lane_of: HashMap<ThreadId, usize>,
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
            lanes: Vec::new(),
            lane_of: HashMap::new(),
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
        if self.lanes.is_empty() {
            let id = ThreadId(self.info.process.unwrap_or_default());
            self.thread(&Thread {
                id,
                ..Thread::default()
            });
        }
        let timed = self.lanes.iter().filter(|lane| lane.first.is_some());
        let earliest = timed.map(|lane| lane.earliest).min().unwrap_or_default();
        let start = self
            .info
            .start
            .map_or(earliest, |start| start.0.min(earliest));
        for nth in 0..self.lanes.len() {
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
            lanes,
            losses,
            numbers,
            ..
        } = self;
        let Some(lane) = lanes.get_mut(nth) else {
            return Ok(());
        };
        let (first, cpu) = lane.first.unwrap_or((start, 0));
        let wall = lane.wall.unwrap_or_else(|| wall_time(&info.clock, first));
        let process = lane.thread.process.or(info.process);
        frame.begin(&Head {
            thread: numbers.begin(lane.thread.id),
            seconds: wall.0,
            micros: wall.1,
            process: process.and_then(|process| u32::try_from(process).ok()),
            start,
            cpu,
        })?;
        let counts = lane.thread.counts;
        lane.thread.counts = counts.map(|counts| Counts {
            readable: lane.records,
            ..counts
        });
        let end = lane.until(info.end);
        let latest = lane.first.map(|_| Ticks(lane.latest));
        frame.custom(start, &payload::encode_thread(&lane.thread, latest))?;
        let (before, open) = (lane.stack.before(), lane.stack.open());
        let entries = before.len() as u64 + lane.middle_entries;
        let exits = open.len() as u64 + lane.middle_exits;
        frame.custom(start, &payload::encode_balance(entries, exits))?;
        if nth == 0 {
            tables(frame, info, start, losses)?;
        }
        frame.metadata(&Record::NewCpu { cpu, tsc: first })?;
        write_synthetic(frame, first, before, true)?;
        if lane.lost > 0 {
            frame.custom(first, &payload::encode_lost(lane.lost))?;
        }
        spool.each(lane.strand, |bytes| frame.bytes(bytes))?;
        frame.reach(lane.base, end)?;
        write_synthetic(frame, end, open, false)?;
        let large = "threads with times of 2^53 ticks or more: llvm-xray rounds them";
        losses.add(large, u64::from(lane.latest >= EXACT_TICKS));
        frame.end()
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(lane) = self.lanes.get(self.now).filter(|_| self.failed.is_none()) else {
            return;
        };
        self.failed = self.spool.push(lane.strand, bytes).err();
    }

    fn metadata(&mut self, record: &Record) {
        self.push(&record::encode_metadata(record, LAYOUT));
    }

    /// The lane that the events belong to; a sink that was told no thread has none.
    fn lane(&mut self) -> Option<&mut Lane> {
        self.lanes.get_mut(self.now)
    }

    /// Ticks from the running base to `time`, which becomes the base.
    fn delta(&mut self, time: u64) -> Option<u32> {
        let lane = self.lane()?;
        lane.reach(time);
        let delta = time
            .checked_sub(lane.base)
            .and_then(|delta| u32::try_from(delta).ok());
        lane.rebase(time);
        if delta.is_none() {
            self.metadata(&Record::TscWrap { tsc: time });
        }
        Some(delta.unwrap_or(0))
    }

    /// Takes calls as long as they are plain; returns how many.
    fn plain(&mut self, calls: &[Call]) -> usize {
        let Some(lane) = self.lanes.get_mut(self.now) else {
            return 0;
        };
        self.plain.clear();
        lane.plain(calls, self.zero, &mut self.plain);
        if self.failed.is_none() {
            let bytes = self.plain.as_flattened();
            self.failed = self.spool.push(lane.strand, bytes).err();
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
        let Some(lane) = self.lane() else { return };
        lane.arguments = !lost;
        if lost {
            return;
        }
        lane.records += 1;
        let exit = match call.edge {
            Edge::Entry => {
                lane.stack.enter(id);
                Exit::Innermost
            }
            Edge::Exit | Edge::TailExit => lane.stack.exit(id, &mut closed),
        };
        match exit {
            Exit::Innermost | Exit::Before => {}
            Exit::Outer(count) => {
                lane.middle_exits += count as u64;
                self.repair(closed.all(), Action::Exit);
            }
            Exit::Lone => {
                lane.middle_entries += 1;
                if lane.gap {
                    lane.reach(call.time.0);
                    lane.rebase(call.time.0);
                    self.metadata(&Record::TscWrap { tsc: call.time.0 });
                }
                self.repair(&[id], Action::Entry);
            }
        }
        self.closed = closed;
        if let Some(lane) = self.lane() {
            lane.gap = false;
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
            let Some(lane) = self.lane() else { return };
            lane.arguments = false;
            let nests = match call.edge {
                Edge::Entry => id < FUNCTION_LIMIT,
                Edge::Exit | Edge::TailExit => lane.stack.open.last() == Some(id),
            };
            if !nests {
                continue;
            }
            if call.edge == Edge::Entry {
                lane.stack.enter(id);
                lane.middle_entries += 1;
            } else {
                lane.stack.open.pop();
                lane.middle_exits += 1;
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
        let Some(base) = self.lane().map(|lane| lane.base) else {
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
        let Some(lane) = self.lane() else { return };
        lane.earliest = lane.earliest.min(tsc);
        lane.latest = lane.latest.max(tsc);
        lane.base = tsc;
        if lane.first.is_none() {
            lane.first = Some((tsc, number));
        } else {
            self.metadata(&Record::NewCpu { cpu: number, tsc });
        }
    }

    /// An event beside the calls: it must not be older than its block.
    fn event(&mut self, time: u64, data: &[u8]) {
        let Some(lane) = self.lane() else { return };
        lane.reach(time);
        self.custom(time, data);
    }
}

impl<W: Read + Write + Seek> Sink for XrayWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        if let Some(&lane) = self.lane_of.get(&thread.id) {
            self.now = lane;
            if thread.counts.is_some() {
                self.lanes[lane].thread = thread.clone();
            }
            return;
        }
        self.now = self.lanes.len();
        self.lane_of.insert(thread.id, self.now);
        self.lanes
            .push(Lane::new(thread.clone(), self.spool.strand()));
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
            .lane()
            .is_some_and(|lane| std::mem::take(&mut lane.arguments));
        match *mark {
            Mark::Cpu { time, cpu } => self.cpu(time.0, cpu.0),
            Mark::Wall { seconds, micros } => {
                let lane = self
                    .lanes
                    .get_mut(self.now)
                    .filter(|lane| lane.wall.is_none());
                match lane {
                    Some(lane) => lane.wall = Some((seconds, micros)),
                    None => self
                        .losses
                        .add("wall-clock times after a thread's first: left out", 1),
                }
            }
            Mark::Argument { value } if after_call => {
                self.metadata(&Record::CallArgument { value });
                if let Some(lane) = self.lane() {
                    lane.arguments = true;
                }
            }
            Mark::Lost { records } => match self.lane() {
                // It has no time of its own.
                Some(lane) if lane.first.is_none() => {
                    lane.lost = lane.lost.saturating_add(records);
                }
                Some(lane) => {
                    let base = lane.base;
                    // What is missing before the first record is not in the middle.
                    if lane.records > 0 {
                        lane.gap = true;
                        lane.stack.gap();
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
