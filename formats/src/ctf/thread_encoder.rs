//! Puts one thread's events into packets. Times become monotonic, changes of CPU and losses become packet boundaries,
//! and arguments are collected. The open calls are known, because a call names its caller.

use super::packets::{Packets, Times};
use super::record::{COMM_SIZE, ENTRY, EXIT, NO_CPU, THREADS, Template, flags, plain};
use crate::calls::{Exit, Rule};
use crate::model::{Call, Edge, FunctionId, Mark, Thread, Ticks, TraceInfo};

/// The most bytes of a payload that are kept.
const MAX_PAYLOAD: usize = 8 << 20;
/// The most arguments of one event.
const MAX_ARGUMENTS: usize = 512;
/// The most marks without a time that wait for the first time.
const MAX_EARLY: usize = 1024;
/// The most calls that were open before the first event and are kept.
const MAX_BEFORE: usize = 4096;

/// A thread with calls that were open at its first event.
pub(super) struct OpenThread {
    pub(super) process: i32,
    pub(super) thread: i32,
    /// The number that the events of the thread carry.
    pub(super) comm: String,
    /// Functions, outermost first.
    pub(super) calls: Vec<u32>,
}

/// Counts the values that the format could not hold, and that were changed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CutShort {
    /// Times that went back.
    pub(super) back: u64,
    /// Payloads that were too long.
    pub(super) payloads: u64,
    /// CPUs whose number is the format's number for "no CPU".
    pub(super) cpus: u64,
}

/// A mark that has no time of its own.
#[derive(Clone, Copy, Debug)]
enum Untimed {
    Wall(u64, u32),
    Lost(u64),
    Argument(u64),
}

/// One thread.
#[derive(Debug)]
pub(super) struct ThreadEncoder {
    pub(super) thread: Thread,
    /// Name of its stream file.
    pub(super) file: String,
    pub(super) packets: Packets,
    /// Its first time, ns.
    pub(super) first: Option<u64>,
    template: Template,
    ids: (i32, i32),
    comm: String,
    early: Vec<Untimed>,
    cpu: u32,
    /// Time of a change of CPU that no packet states yet. The next event begins its packet.
    change: Option<u64>,
    arguments: Vec<u64>,
    /// Missing records, by the marks.
    lost: u64,
    /// Missing records, by the thread's counts. The records of marks are among them.
    missing: u64,
    open: Vec<u32>,
    rule: Rule,
    before: Vec<u32>,
    /// The task of the innermost open call, and the function of that call, if the note of a poll says so.
    poll: Option<(u64, u32)>,
}

impl ThreadEncoder {
    /// `number` is the thread's in 32 bits.
    pub(super) fn new(
        thread: Thread,
        number: u32,
        info: &TraceInfo,
        uuid: [u8; 16],
    ) -> ThreadEncoder {
        let process = thread.process.or(info.process).unwrap_or_default();
        let name = if thread.name.is_empty() {
            &info.program
        } else {
            &thread.name
        };
        let comm = plain(name, COMM_SIZE);
        let ids = (low_bits(process), number as i32);
        let mut encoder = ThreadEncoder {
            file: format!("thread-{}", thread.id.0),
            packets: Packets::new(uuid, THREADS, thread.id.0),
            first: None,
            template: Template::new(ids.0, ids.1, &comm),
            ids,
            comm,
            early: Vec::new(),
            cpu: NO_CPU,
            change: None,
            arguments: Vec::new(),
            lost: 0,
            missing: 0,
            open: Vec::new(),
            rule: Rule::default(),
            before: Vec::new(),
            poll: None,
            thread: Thread::default(),
        };
        encoder.know(thread);
        encoder
    }

    /// The thread as it is known now.
    pub(super) fn know(&mut self, thread: Thread) {
        let counts = thread.counts.unwrap_or_default();
        self.missing = self
            .missing
            .max(counts.overwritten.saturating_add(counts.dropped));
        self.thread = thread;
    }

    /// Records lost so far. Usually a mark's records are among the counts'.
    fn discarded(&self) -> u64 {
        self.lost.max(self.missing)
    }

    /// That time in ns, not before the previous event. Writes the marks that waited for a time.
    #[inline]
    fn reach(&mut self, time: Ticks, times: &mut Times, cut: &mut CutShort) -> u64 {
        let nanos = times.nanos(time);
        match self.packets.last() {
            Some(last) if last <= nanos => nanos,
            Some(last) => {
                cut.back += 1;
                last
            }
            None => {
                self.begin_at(nanos);
                nanos
            }
        }
    }

    #[cold]
    fn begin_at(&mut self, nanos: u64) {
        self.first = Some(nanos);
        for mark in std::mem::take(&mut self.early) {
            self.untimed(mark, nanos);
        }
        self.settle();
    }

    /// Opens a packet if an event needs one.
    #[inline]
    fn room(&mut self, time: u64) -> (&Template, &mut Vec<u8>) {
        if !self.packets.has_room() {
            self.begin_packet(time);
        }
        (&self.template, self.packets.event(time))
    }

    /// Begins a packet for an event of that time, or for the change of CPU before the event.
    #[cold]
    fn begin_packet(&mut self, time: u64) {
        let change = self.change.take();
        let begin = change.unwrap_or(time);
        self.packets
            .begin(begin, self.cpu, change.is_some(), self.discarded());
    }

    /// Writes a packet whose head has news. The packet has an event, because Trace Compass ends a stream
    /// at a packet without events.
    #[cold]
    fn head_alone(&mut self, time: u64) {
        self.packets.close(time);
        let (template, out) = self.room(time);
        template.head(time, out);
    }

    // This function has two callers. It must be inlined into the one that is the hot path.
    #[inline(always)]
    pub(super) fn call(&mut self, call: &Call, times: &mut Times, cut: &mut CutShort) {
        self.settle();
        let time = self.reach(call.time, times, cut);
        let id = call.function.0;
        let mut bits = 0;
        if call.synthetic {
            bits |= flags::SYNTHETIC;
        }
        if call.edge == Edge::TailExit {
            bits |= flags::TAIL_EXIT;
        }
        if call.has_arguments {
            bits |= flags::ARGUMENTS;
        }
        let caller = if call.edge == Edge::Entry {
            let caller = self.open.last().copied();
            self.open.push(id);
            self.rule.entered(1);
            caller
        } else {
            self.leave(id);
            self.open.last().copied()
        };
        let caller = caller.unwrap_or(0);
        if self.poll.is_some() && self.ends_poll(call.edge, time, id, caller, bits) {
            return;
        }
        let class = if call.edge == Edge::Entry {
            ENTRY
        } else {
            EXIT
        };
        let (template, out) = self.room(time);
        template.call(class, time, id, caller, bits, out);
    }

    #[inline]
    fn leave(&mut self, id: u32) {
        match self.rule.exit(&self.open, |&open| open == id) {
            Exit::Innermost => drop(self.open.pop()),
            Exit::Outer(inside) => self.open.truncate(self.open.len() - inside - 1),
            Exit::Before if self.before.len() < MAX_BEFORE => self.before.push(id),
            Exit::Before | Exit::Lone => {}
        }
    }

    pub(super) fn mark(&mut self, mark: &Mark<'_>, times: &mut Times, cut: &mut CutShort) {
        if !matches!(mark, Mark::Argument { .. }) {
            self.settle();
        }
        let untimed = match *mark {
            Mark::Cpu { time, cpu } => return self.change_cpu(time, cpu.0, times, cut),
            Mark::Custom { time, cpu, data } => {
                let time = self.reach(time, times, cut);
                let (template, out) = self.room(time);
                return template.custom(time, cpu.map(|cpu| cpu.0), shorter(data, cut), out);
            }
            Mark::Typed { time, kind, data } => {
                let time = self.reach(time, times, cut);
                let (template, out) = self.room(time);
                return template.typed(time, kind, shorter(data, cut), out);
            }
            Mark::Wall { seconds, micros } => Untimed::Wall(seconds, micros),
            Mark::Lost { records } => Untimed::Lost(records),
            // As `Mark::missing` reads it.
            Mark::Break { .. } => Untimed::Lost(0),
            Mark::Argument { value } => Untimed::Argument(value),
            Mark::ShortCalls { .. } | Mark::Threshold { .. } | Mark::Note { .. } => return,
        };
        match self.packets.last() {
            Some(last) => self.untimed(untimed, last),
            None if self.early.len() < MAX_EARLY => self.early.push(untimed),
            None => {
                // Too many marks wait for a time. They get the time of the trace's start.
                self.begin_at(0);
                self.untimed(untimed, 0);
            }
        }
    }

    /// Whether this edge is the exit of a poll whose task is known. Then it is written.
    #[cold]
    #[inline(never)]
    fn ends_poll(&mut self, edge: Edge, time: u64, function: u32, caller: u32, bits: u8) -> bool {
        let Some((task, _)) = self
            .poll
            .take()
            .filter(|poll| edge != Edge::Entry && poll.1 == function)
        else {
            return false;
        };
        let (template, out) = self.room(time);
        template.poll_exit(time, function, caller, bits, task, out);
        true
    }

    /// The innermost open call is a poll of that task, and has that function.
    pub(super) fn polled(&mut self, poll: (u64, u32)) {
        self.poll = Some(poll);
    }

    /// A note of that class.
    pub(super) fn note(
        &mut self,
        time: Ticks,
        class: u8,
        fields: &[u8],
        times: &mut Times,
        cut: &mut CutShort,
    ) {
        self.settle();
        let time = self.reach(time, times, cut);
        let (template, out) = self.room(time);
        template.note(time, class, fields, out);
    }

    fn change_cpu(&mut self, time: Ticks, cpu: u32, times: &mut Times, cut: &mut CutShort) {
        if cpu == NO_CPU {
            cut.cpus += 1;
            return;
        }
        let time = self.reach(time, times, cut);
        if let Some(before) = self.change {
            self.head_alone(before);
        }
        self.cpu = cpu;
        self.change = Some(time);
        self.packets.close(time);
    }

    fn untimed(&mut self, mark: Untimed, time: u64) {
        match mark {
            Untimed::Argument(value) => {
                self.arguments.push(value);
                if self.arguments.len() == MAX_ARGUMENTS {
                    self.write_arguments(time);
                }
            }
            Untimed::Lost(records) => {
                self.settle();
                self.poll = None;
                // Records that are missing before the first event are not in the middle.
                if self.first.is_some() {
                    self.rule.lost();
                }
                self.lost = self.lost.saturating_add(records);
                // The loss is between two packets, because other readers look for it there.
                if self.discarded() > self.packets.stated_lost() {
                    self.packets.close(time);
                }
                let (template, out) = self.room(time);
                template.lost(time, records, out);
            }
            Untimed::Wall(seconds, micros) => {
                self.settle();
                let (template, out) = self.room(time);
                template.wall(time, seconds, micros, out);
            }
        }
    }

    /// Writes the collected arguments.
    #[inline]
    pub(super) fn settle(&mut self) {
        if !self.arguments.is_empty() {
            self.write_arguments(self.packets.last().unwrap_or_default());
        }
    }

    #[cold]
    fn write_arguments(&mut self, time: u64) {
        let values = std::mem::take(&mut self.arguments);
        let (template, out) = self.room(time);
        template.arguments(time, &values, out);
        self.arguments = values;
        self.arguments.clear();
    }

    /// The trace ends then. Open calls last until then, and their exits were not measured.
    #[cold]
    #[inline(never)]
    pub(super) fn end(&mut self, end: Ticks, times: &mut Times, cut: &mut CutShort) {
        let nanos = times.nanos(end);
        // Otherwise they end with the last event.
        if self.packets.last() > Some(nanos) {
            return;
        }
        while let Some(&function) = self.open.last() {
            let exit = Call {
                synthetic: true,
                ..Call::exit(end, FunctionId(function))
            };
            self.call(&exit, times, cut);
        }
    }

    /// The thread's last packets. `start`: the time of marks that got no time.
    pub(super) fn finish(&mut self, start: u64) {
        if self.packets.last().is_none() && !self.early.is_empty() {
            self.begin_at(start);
        }
        self.settle();
        if self.change.is_some() || self.discarded() > self.packets.stated_lost() {
            self.head_alone(self.packets.last().unwrap_or(start));
        }
    }

    /// The calls that were open at the thread's first event. `None`: the thread has left all of them.
    pub(super) fn inside(&mut self) -> Option<OpenThread> {
        if self.before.is_empty() {
            return None;
        }
        let mut calls = std::mem::take(&mut self.before);
        calls.reverse();
        Some(OpenThread {
            process: self.ids.0,
            thread: self.ids.1,
            comm: self.comm.clone(),
            calls,
        })
    }
}

fn shorter<'a>(data: &'a [u8], cut: &mut CutShort) -> &'a [u8] {
    match data.get(..MAX_PAYLOAD) {
        Some(start) if data.len() > MAX_PAYLOAD => {
            cut.payloads += 1;
            start
        }
        _ => data,
    }
}

/// The contexts that Trace Compass reads have 32 bits. The packet's head has the whole number.
fn low_bits(number: u64) -> i32 {
    number as u32 as i32
}
