//! Writes events of any format as XRay FDR, version 1 or 3, so that unmodified llvm-xray reads it. There is one block
//! per thread, all blocks begin at the same tick, and calls nest. Synthetic records of the source stay where they nest,
//! and are replaced elsewhere. Threads may come in pieces. Their records are spooled and written at the end.

use std::io::{self, Read, Seek, Write};

use super::balance::Ids;
use super::chunk_scan::wall_time;
use super::dump::{EXACT_TICKS, tables};
use super::entry_spool::EntrySpool;
use super::frame::{Frame, Head, Version};
use super::payload::{self, encode_note};
use super::record::{self, Action, FUNCTION_LIMIT, FUNCTION_SIZE, Record, RecordTime};
use super::thread_state::{LAYOUT, ThreadState, action, highest_free, write_synthetic};
use crate::calls::Exit;
use crate::error::Error;
use crate::model::{
    Call, Counts, Edge, Function, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo,
};
use crate::number_map::NumberMap;
use crate::sink::{Losses, Sink};
use crate::thread_numbers::ThreadNumbers;
use crate::writer::Writer;

/// A sink that writes an XRay FDR file. `W` is an empty file, open for writing and reading.
pub struct XrayWriter<W: Read + Write + Seek> {
    frame: Frame<W>,
    info: TraceInfo,
    /// The number that replaces function id 0, because XRay's tools take 0 for the root of all calls.
    zero: u32,
    /// Function 0 is in the trace.
    has_zero: bool,
    /// Calls of a function without a name whose real number is `zero`.
    mistaken: u64,
    spool: EntrySpool,
    states: Vec<ThreadState>,
    state_of: NumberMap,
    now: usize,
    numbers: ThreadNumbers,
    closed: Ids,
    /// Records of ordinary calls, before they go to the spool.
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
        Ok(XrayWriter {
            frame: Frame::new(out, version, &info.clock)?,
            info,
            zero,
            has_zero,
            mistaken: 0,
            spool: EntrySpool::default(),
            states: Vec::new(),
            state_of: NumberMap::default(),
            now: 0,
            numbers: ThreadNumbers::default(),
            closed: Ids::default(),
            plain: Vec::new(),
            losses: Losses::default(),
            failed: None,
        })
    }

    /// Writes all blocks; returns the losses of version and format.
    ///
    /// # Errors
    /// The first error, of now or before.
    pub fn finish(mut self) -> Result<Losses, Error> {
        if let Some(error) = self.failed.take() {
            return Err(error.into());
        }
        if self.states.is_empty() {
            let id = ThreadId(self.info.process.unwrap_or_default());
            self.thread(&Thread {
                id,
                ..Thread::default()
            });
        }
        let timed = self.states.iter().filter(|state| state.first.is_some());
        let earliest = timed.map(|state| state.earliest).min().unwrap_or_default();
        let start = self.info.start.unwrap_or(Ticks(earliest));
        let start = start.0.min(earliest);
        for nth in 0..self.states.len() {
            self.block(nth, start)?;
        }
        self.frame.finish()?;
        let what = "thread ids over 32 bits, or taken: each thread has another number";
        self.losses.add(what, self.numbers.renumbered);
        let mut all = self.info.functions.iter();
        let is_named = all.any(|known| known.id.0 == self.zero && !known.name.is_empty());
        let what = "function #0 without a name: it has another number, as 0 is the root of calls";
        self.losses.add(what, (self.has_zero && !is_named).into());
        let what = "calls of the function whose number function 0 got: they look alike";
        let mistaken = self.mistaken * u64::from(self.has_zero);
        self.losses.add(what, mistaken);
        Ok(self.losses)
    }

    /// Function 0 gets its replacement number in the file.
    fn learn(&mut self, more: &[Function]) {
        self.has_zero |= more.iter().any(|function| function.id.0 == 0);
        for function in more {
            let mut function = function.clone();
            if function.id.0 == 0 {
                function.id = FunctionId(self.zero);
            }
            self.info.functions.push(function);
        }
        self.info.functions.sort_by_key(|function| function.id);
    }

    fn block(&mut self, nth: usize, start: u64) -> io::Result<()> {
        let Self {
            frame,
            info,
            spool,
            states,
            losses,
            numbers,
            ..
        } = self;
        let Some(state) = states.get_mut(nth) else {
            return Ok(());
        };
        let (first, cpu) = state.first.unwrap_or((start, 0));
        let wall = state.wall.unwrap_or_else(|| wall_time(&info.clock, first));
        let process = state.thread.process.or(info.process);
        frame.begin(&Head {
            thread: numbers.begin(state.thread.id),
            seconds: wall.0,
            micros: wall.1,
            process: process.and_then(|process| u32::try_from(process).ok()),
            start,
            cpu,
        })?;
        let counts = state.thread.counts;
        state.thread.counts = counts.map(|counts| Counts {
            readable: state.records,
            ..counts
        });
        let end = state.until(info.end);
        let latest = state.first.map(|_| Ticks(state.latest));
        frame.custom(start, &payload::encode_thread(&state.thread, latest))?;
        let (before, open) = (state.stack.open_before(), state.stack.open());
        let entries = before.len() as u64 + state.middle_entries;
        let exits = open.len() as u64 + state.middle_exits;
        frame.custom(start, &payload::encode_balance(entries, exits))?;
        frame.totals(start, &state.thread.totals, false)?;
        frame.early_calls(start, &state.thread.early_calls)?;
        if nth == 0 {
            tables(frame, info, start, losses)?;
        }
        frame.metadata(&Record::NewCpu { cpu, tsc: first })?;
        write_synthetic(frame, first, before, true)?;
        if state.lost > 0 {
            frame.custom(first, &payload::encode_lost(state.lost))?;
        }
        spool.each(state.strand, |bytes| frame.bytes(bytes))?;
        frame.reach(state.base, end)?;
        write_synthetic(frame, end, open, false)?;
        let large = "threads with times of 2^53 ticks or more: llvm-xray rounds them";
        losses.add(large, u64::from(state.latest >= EXACT_TICKS));
        frame.end()
    }

    fn push_plain(&mut self) {
        if let Some(state) = self.states.get(self.now).filter(|_| self.failed.is_none()) {
            self.failed = self.spool.calls(state.strand, &self.plain).err();
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        let Some(state) = self.states.get(self.now).filter(|_| self.failed.is_none()) else {
            return;
        };
        self.failed = self.spool.push(state.strand, bytes).err();
    }

    fn metadata(&mut self, record: &Record) {
        self.push(&record::encode_metadata(record, LAYOUT));
    }

    /// The state of the thread that the events belong to. `None`: the sink got no thread.
    fn state(&mut self) -> Option<&mut ThreadState> {
        self.states.get_mut(self.now)
    }

    /// Ticks from the running base to `time`, which becomes the base.
    fn delta(&mut self, time: u64) -> Option<u32> {
        let state = self.state()?;
        state.reach(time);
        let delta = time
            .checked_sub(state.base)
            .and_then(|delta| u32::try_from(delta).ok());
        state.rebase(time);
        if delta.is_none() {
            self.metadata(&Record::TscWrap { tsc: time });
        }
        Some(delta.unwrap_or(0))
    }

    /// Takes calls as long as they are ordinary; returns how many.
    fn plain(&mut self, calls: &[Call]) -> usize {
        let Some(state) = self.states.get_mut(self.now) else {
            return 0;
        };
        self.plain.clear();
        state.plain(calls, self.zero, &mut self.plain);
        self.push_plain();
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
        let Some(state) = self.state() else { return };
        state.arguments = !lost;
        if lost {
            return;
        }
        state.records += 1;
        let exit = match call.edge {
            Edge::Entry => {
                state.stack.enter(id);
                Exit::Innermost
            }
            Edge::Exit | Edge::TailExit => state.stack.exit(id, &mut closed),
        };
        match exit {
            Exit::Innermost | Exit::Before => {}
            Exit::Outer(count) => {
                state.middle_exits += count as u64;
                self.repair(closed.all(), Action::Exit);
            }
            Exit::Lone => {
                state.middle_entries += 1;
                if state.gap {
                    state.reach(call.time.0);
                    state.rebase(call.time.0);
                    self.metadata(&Record::TscWrap { tsc: call.time.0 });
                }
                self.repair(&[id], Action::Entry);
            }
        }
        self.closed = closed;
        if let Some(state) = self.state() {
            state.gap = false;
        }
        let Some(delta) = self.delta(call.time.0) else {
            return;
        };
        self.plain.clear();
        let record = record::encode_function(id, action(call), delta, LAYOUT.order);
        self.plain.push(record);
        self.push_plain();
    }

    /// Synthetic calls of the source, all at one time. An exit of any but the innermost call is left
    /// out, because this writer balances the calls itself.
    fn synthetic(&mut self, calls: &[Call]) {
        let (time, order) = (calls.first().map_or(0, |call| call.time.0), LAYOUT.order);
        let mut kept = Vec::new();
        for call in calls {
            let id = match call.function.0 {
                0 => self.zero,
                id => id,
            };
            let Some(state) = self.state() else { return };
            state.arguments = false;
            let nests = match call.edge {
                Edge::Entry => id < FUNCTION_LIMIT,
                Edge::Exit | Edge::TailExit => state.stack.open.last() == Some(id),
            };
            if !nests {
                continue;
            }
            if call.edge == Edge::Entry {
                state.stack.enter(id);
                state.middle_entries += 1;
            } else {
                state.stack.open.pop();
                state.middle_exits += 1;
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
        let Some(base) = self.state().map(|state| state.base) else {
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
            let what = "events without a payload, or of 2 GiB and more: left out";
            return self.losses.add(what, 1);
        }
        self.metadata(&Record::Custom {
            size,
            when: RecordTime::Absolute(tsc),
            cpu: None,
        });
        self.push(data);
    }

    fn cpu(&mut self, tsc: u64, cpu: u32) {
        let Ok(number) = u16::try_from(cpu) else {
            return self.losses.add("changes to CPUs above 65535: left out", 1);
        };
        let Some(state) = self.state() else { return };
        state.earliest = state.earliest.min(tsc);
        state.latest = state.latest.max(tsc);
        state.base = tsc;
        if state.first.is_none() {
            state.first = Some((tsc, number));
        } else {
            self.metadata(&Record::NewCpu { cpu: number, tsc });
        }
    }

    /// An event beside the calls. It must not be older than its block.
    fn event(&mut self, time: u64, data: &[u8]) {
        let Some(state) = self.state() else { return };
        state.reach(time);
        self.custom(time, data);
    }
}

impl<W: Read + Write + Seek> Sink for XrayWriter<W> {
    fn thread(&mut self, thread: &Thread) {
        if let Some(state) = self.state_of.get(thread.id.0) {
            self.now = state;
            if thread.counts.is_some() {
                self.states[state].thread = thread.clone();
            }
            return;
        }
        self.now = self.states.len();
        self.state_of.insert(thread.id.0, self.now);
        self.states
            .push(ThreadState::new(thread.clone(), self.spool.strand()));
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
            .state()
            .is_some_and(|state| std::mem::take(&mut state.arguments));
        match *mark {
            Mark::Cpu { time, cpu } => self.cpu(time.0, cpu.0),
            Mark::Wall { seconds, micros } => match self.states.get_mut(self.now) {
                Some(state) if state.wall.is_none() => state.wall = Some((seconds, micros)),
                _ => {
                    let what = "wall-clock times after a thread's first: left out";
                    self.losses.add(what, 1);
                }
            },
            Mark::Argument { value } if after_call => {
                self.metadata(&Record::CallArgument { value });
                if let Some(state) = self.state() {
                    state.arguments = true;
                }
            }
            Mark::Lost { records } => match self.state() {
                // A loss has no time of its own.
                Some(state) if state.first.is_none() => {
                    state.lost = state.lost.saturating_add(records);
                }
                Some(state) => {
                    let base = state.base;
                    // Records that are missing before the first record are not in the middle.
                    if state.records > 0 {
                        state.gap = true;
                        state.stack.gap();
                    }
                    self.event(base, &payload::encode_lost(records));
                }
                None => {}
            },
            Mark::Break { time } => {
                // Times continue over the break. It only shows which calls are in doubt.
                self.event(time.0, &payload::encode_break(0));
            }
            Mark::ShortCalls { time, calls, ticks } => {
                self.event(time.0, &payload::encode_short_calls(calls, ticks));
            }
            Mark::Threshold { ticks } => {
                let time = self.state().map_or(0, |state| state.base);
                self.event(time, &payload::encode_threshold(ticks));
            }
            Mark::Note { time, kind, body } => {
                let strand = self.state().map(|state| state.strand);
                let written = self.spool.arguments(strand, kind, body);
                self.failed = self.failed.take().or(written.err());
                self.event(time.0, &encode_note(kind, body));
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
}

impl<W: Read + Write + Seek + Send> Writer for XrayWriter<W> {
    fn functions(&mut self, more: &[Function]) {
        self.learn(more);
    }

    /// Does nothing, because a block states its size in front. So no part can be read before the end.
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
