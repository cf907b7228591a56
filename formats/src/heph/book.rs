//! What a trace that is being written has said so far, and the packets for what comes: functions,
//! threads, counters, the clock's scale. Packets go to the end of a buffer; must never write itself.

use super::decode::MAX_PAYLOAD;
use super::encode::{self, EventPacket, MAX_TEXT, Place};
use super::facts::{self, FACTS};
use super::tables::{Functions, Label, Lane, Threads, Untimed};
use crate::model::{Function, Nanos, Thread, Ticks, TraceInfo, Trouble};
use crate::scale::Scale;
use crate::sink::Losses;
use crate::spans::Span;

/// Arguments of one call; nobody has more.
const MAX_ARGUMENTS: usize = 1 << 20;
/// Numbers of a counter that are left out at most for one `fdr:lost`.
const MAX_SKIPPED: u64 = 1 << 30;
/// Marks in front of a thread's first event that wait for its time.
const MAX_WAITING: usize = 64;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// See above.
pub(super) struct Book {
    /// Without its functions and threads, which are in the tables.
    info: TraceInfo,
    pub(super) functions: Functions,
    pub(super) threads: Threads,
    pub(super) losses: Losses,
    /// Events on the stream of facts.
    facts: u32,
    /// Time of the last event of all, in ns.
    latest: u64,
    scale: Scale,
}

impl Book {
    pub(super) fn new(info: &TraceInfo) -> Book {
        let start = info.start.unwrap_or_default();
        let info = TraceInfo {
            format: String::new(),
            clock: info.clock.clone(),
            functions: Vec::new(),
            threads: Vec::new(),
            program: info.program.clone(),
            reason: info.reason.clone(),
            ..*info
        };
        let scale = Scale::new(info.clock.frequency);
        let mut book = Book {
            info,
            functions: Functions::default(),
            threads: Threads::default(),
            losses: Losses::default(),
            facts: 0,
            latest: 0,
            scale,
        };
        book.latest = book.nanos(start);
        book
    }

    /// A tick in ns since tick 0.
    #[inline]
    pub(super) fn nanos(&mut self, tick: Ticks) -> u64 {
        let Nanos(nanos) = self.scale.nanos(tick);
        if nanos == u64::MAX && self.info.clock.frequency != NANOS_PER_SECOND {
            self.losses.add("times over 2^64 ns: cut", 1);
        }
        nanos
    }

    /// The first packets: epoch and trace.
    pub(super) fn begin(&mut self, out: &mut Vec<u8>) {
        let anchored = self.info.clock.anchor.is_some();
        let epoch = self.epoch();
        let what = "epochs before 1970: left out, other readers see no wall-clock time";
        self.losses
            .add(what, u64::from(anchored && epoch.is_none()));
        let TraceInfo {
            program, reason, ..
        } = &self.info;
        for text in [program, reason, &self.info.clock.name] {
            let long = text.len() > MAX_TEXT;
            self.losses.add("names over 65,535 bytes: cut", long.into());
        }
        self.head(out);
    }

    /// Unix time at tick 0.
    fn epoch(&self) -> Option<u64> {
        let (tick, unix) = self.info.clock.anchor?;
        unix.checked_sub(self.info.clock.checked_nanos(tick)?)
    }

    fn head(&mut self, out: &mut Vec<u8>) {
        if let Some(epoch) = self.epoch() {
            out.extend(encode::epoch(epoch));
        }
        let place = self.fact();
        let TraceInfo {
            clock,
            program,
            process,
            reason,
            dump,
            missing,
            ..
        } = &self.info;
        let mut packet = EventPacket::begin(out, place, facts::TRACE);
        packet.number("version", facts::VERSION);
        text(&mut packet, "program", program);
        optional(&mut packet, "process", *process);
        text(&mut packet, "reason", reason);
        optional(&mut packet, "dump", *dump);
        let missing = [
            missing.retired_threads,
            missing.retired_records,
            missing.unplaced_records,
        ];
        if missing != [0; 3] {
            packet.numbers("missing", &missing);
        }
        text(&mut packet, "clock", &clock.name);
        if let Some(error) = clock.error_ppm {
            packet.float("error_ppm", error);
        }
        optional(&mut packet, "constant", clock.constant.then_some(1));
        optional(&mut packet, "nonstop", clock.nonstop.then_some(1));
        if let Some((tick, unix)) = clock.anchor
            && let Some(time) = clock.checked_nanos(tick)
        {
            packet.numbers("anchor", &[time, unix]);
        }
        let Trouble {
            skew_ns,
            steps_back,
            ahead_ns,
            wall_step_ns,
        } = clock.trouble;
        let signed = [ahead_ns, wall_step_ns].map(i64::cast_unsigned);
        if clock.trouble != Trouble::default() {
            packet.numbers("trouble", &[skew_ns, steps_back, signed[0], signed[1]]);
        }
        packet.end();
    }

    /// The place of the next fact.
    fn fact(&mut self) -> Place {
        let counter = self.facts;
        self.facts = counter.wrapping_add(1);
        Place {
            stream: FACTS,
            counter,
            substream: 0,
            start: self.latest,
            end: self.latest,
        }
    }

    /// A function that may be called from here on.
    pub(super) fn function(&mut self, function: &Function, out: &mut Vec<u8>) {
        if !self.functions.declare(function, &mut self.losses) {
            let what = "functions whose number was described before: the first description holds";
            return self.losses.add(what, 1);
        }
        let place = self.fact();
        if let Some(function) = self.functions.declared.last() {
            function_packet(function, place, out);
        }
    }

    /// The events that follow are this thread's; returns its lane.
    pub(super) fn thread(&mut self, thread: &Thread, out: &mut Vec<u8>) -> usize {
        let (lane, news) = self.threads.lane(thread, &mut self.losses);
        if news {
            let place = self.fact();
            if let Some(lane) = self.threads.lanes.get(lane) {
                thread_packet(lane, place, out);
            }
        }
        lane
    }

    /// Everything that was said so far, for a reader that comes now. The numbers of the facts end
    /// where those of the trace are.
    pub(super) fn restart(&mut self) -> Vec<u8> {
        let facts = self.facts;
        let count = 1 + self.functions.declared.len() + self.threads.lanes.len();
        self.facts = facts.wrapping_sub(count as u32);
        let mut out = Vec::new();
        self.head(&mut out);
        for at in 0..self.functions.declared.len() {
            let place = self.fact();
            function_packet(&self.functions.declared[at], place, &mut out);
        }
        for at in 0..self.threads.lanes.len() {
            let place = self.fact();
            // They are of what the reader before was given.
            self.threads.lanes[at].thread.counts = None;
            thread_packet(&self.threads.lanes[at], place, &mut out);
        }
        debug_assert_eq!(self.facts, facts, "every fact has its number");
        out
    }

    /// A thread's next event has a time: what waits for one gets the tick before.
    #[inline]
    pub(super) fn arrive(&mut self, lane: usize, time: Ticks, out: &mut Vec<u8>) {
        if self.threads.lanes[lane].last.replace(time).is_none() {
            // The ticks of a ns at least: one tick may be rounded away.
            let nano = self.info.clock.frequency.div_ceil(NANOS_PER_SECOND);
            self.settle(lane, Ticks(time.0.saturating_sub(nano)), out);
        }
    }

    /// A thread's last event was then.
    pub(super) fn reach(&mut self, lane: usize, time: Ticks) {
        self.threads.lanes[lane].last = Some(time);
    }

    fn settle(&mut self, lane: usize, time: Ticks, out: &mut Vec<u8>) {
        for mark in std::mem::take(&mut self.threads.lanes[lane].waiting) {
            self.untimed(lane, time, mark, out);
        }
    }

    /// Writes what waits still, when no event will come.
    pub(super) fn finish(&mut self, out: &mut Vec<u8>) {
        for lane in 0..self.threads.lanes.len() {
            self.settle(lane, self.info.start.unwrap_or_default(), out);
        }
    }

    /// A call that has ended. Its times are in ns.
    pub(super) fn span(&mut self, lane: usize, span: &Span, out: &mut Vec<u8>) {
        let place = self.place(lane, span.start.0, span.end.0, 0);
        let Label {
            description,
            numbered,
        } = self.functions.label(span.function);
        let mut packet = EventPacket::begin(out, place, description);
        if *numbered {
            packet.number("function_id", span.function.0.into());
        }
        optional(&mut packet, "cpu", span.cpu.map(|cpu| cpu.0.into()));
        optional(
            &mut packet,
            "exit_cpu",
            span.exit_cpu.map(|cpu| cpu.0.into()),
        );
        let flags = u64::from(span.flags);
        optional(&mut packet, "flags", (flags != 0).then_some(flags));
        let most = span.arguments.len().min(MAX_ARGUMENTS);
        packet.numbers("arguments", &span.arguments[..most]);
        packet.end();
        let more = (span.arguments.len() - most) as u64;
        self.losses
            .add("arguments of a call after the 1,048,576th: left out", more);
    }

    /// The place of the next event of a thread. `skipped`: numbers of its stream to leave out.
    fn place(&mut self, lane: usize, start: u64, end: u64, skipped: u32) -> Place {
        let Threads {
            lanes, counters, ..
        } = &mut self.threads;
        let lane = &lanes[lane];
        let next = &mut counters[lane.counter];
        let counter = next.wrapping_add(skipped);
        *next = counter.wrapping_add(1);
        self.latest = end;
        Place {
            stream: lane.stream,
            counter,
            substream: lane.substream,
            start,
            end,
        }
    }

    /// A mark without a time: it stands at the thread's last event, or in front of all.
    pub(super) fn mark(&mut self, lane: usize, mark: Untimed, out: &mut Vec<u8>) {
        let Lane { last, waiting, .. } = &mut self.threads.lanes[lane];
        match *last {
            Some(time) => self.untimed(lane, time, mark, out),
            None if waiting.len() < MAX_WAITING => waiting.push(mark),
            None => {
                self.arrive(lane, Ticks(0), out);
                self.untimed(lane, Ticks(0), mark, out);
            }
        }
    }

    fn untimed(&mut self, lane: usize, time: Ticks, mark: Untimed, out: &mut Vec<u8>) {
        let time = self.nanos(time);
        match mark {
            Untimed::Wall { seconds, micros } => {
                let place = self.place(lane, time, time, 0);
                let mut packet = EventPacket::begin(out, place, facts::WALL);
                packet.number("seconds", seconds);
                packet.number("micros", micros.into());
                packet.end();
            }
            Untimed::Lost { records } => {
                let skipped = Some(records / 2);
                let skipped = skipped.filter(|&events| (1..=MAX_SKIPPED).contains(&events));
                let place = self.place(lane, time, time, skipped.unwrap_or(0) as u32);
                let mut packet = EventPacket::begin(out, place, facts::LOST);
                packet.number("records", records);
                optional(&mut packet, "skipped", skipped);
                packet.end();
            }
        }
    }

    /// A custom or typed event, with a number that belongs to it.
    pub(super) fn payload(
        &mut self,
        lane: usize,
        time: Ticks,
        number: Option<(&str, u64)>,
        data: &[u8],
        typed: bool,
        out: &mut Vec<u8>,
    ) {
        let most = data.len().min(MAX_PAYLOAD);
        self.losses
            .add("payloads over 16 MiB: cut", u64::from(most < data.len()));
        let data = &data[..most];
        self.arrive(lane, time, out);
        let time = self.nanos(time);
        let place = self.place(lane, time, time, 0);
        let description = if typed { facts::TYPED } else { facts::CUSTOM };
        let mut packet = EventPacket::begin(out, place, description);
        if let Some((name, number)) = number {
            packet.number(name, number);
        }
        match std::str::from_utf8(data) {
            Ok(text) => packet.long_text("text", text),
            Err(_) => {
                packet.number("bytes", data.len() as u64);
                let word = |bytes: &[u8]| {
                    let mut word = [0; 8];
                    word[..bytes.len()].copy_from_slice(bytes);
                    u64::from_be_bytes(word)
                };
                let words: Vec<u64> = data.chunks(8).map(word).collect();
                packet.numbers("data", &words);
            }
        }
        packet.end();
    }
}

fn function_packet(function: &Function, place: Place, out: &mut Vec<u8>) {
    let mut packet = EventPacket::begin(out, place, facts::FUNCTION);
    packet.number("id", function.id.0.into());
    text(&mut packet, "name", &function.name);
    text(&mut packet, "file", &function.file);
    let line = (function.line > 0).then(|| function.line.into());
    optional(&mut packet, "line", line);
    optional(&mut packet, "untimed", function.untimed.then_some(1));
    packet.end();
}

fn thread_packet(lane: &Lane, place: Place, out: &mut Vec<u8>) {
    let Thread {
        id,
        process,
        name,
        counts,
    } = &lane.thread;
    let mut packet = EventPacket::begin(out, place, facts::THREAD);
    packet.number("stream", lane.stream.into());
    let substream = (lane.substream > 0).then_some(lane.substream);
    optional(&mut packet, "substream", substream);
    optional(&mut packet, "thread", lane.renumbered().then_some(id.0));
    optional(&mut packet, "process", *process);
    text(&mut packet, "name", name);
    if let Some(counts) = counts {
        let counts = [
            counts.recorded,
            counts.readable,
            counts.overwritten,
            counts.dropped,
            counts.synthetic_entries,
            counts.synthetic_exits,
        ];
        packet.numbers("counts", &counts);
    }
    packet.end();
}

fn text(packet: &mut EventPacket<'_>, name: &str, value: &str) {
    if !value.is_empty() {
        packet.text(name, value);
    }
}

fn optional(packet: &mut EventPacket<'_>, name: &str, value: Option<u64>) {
    if let Some(value) = value {
        packet.number(name, value);
    }
}
