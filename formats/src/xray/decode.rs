//! Turns the records of one thread into events: the state machine, and the inner loop for a hundred million records.
//! Keeps one batch of calls and one window of the file.

use super::index::{Block, DAMAGED_OWN, Index, MAX_PAYLOAD};
use super::payload::{self, Payload};
use super::record::{self, Action, Bad, FUNCTION_SIZE, METADATA_SIZE, Record, RecordTime};
use super::time::{Running, Turn};
use crate::bytes::{ByteOrder, Window, groups};
use crate::error::{Diagnostic, DiagnosticCount, Error};
use crate::model::{Call, CpuId, FunctionId, Mark, Ticks};
use crate::packed::{EDGES, Packed, WORD, Word};
use crate::sink::Sink;

/// The most calls that are handed over at once.
const BATCH: usize = 512;
/// The most big-endian calls that are handed over at once. Their bytes are swapped.
const TURNED: usize = 64;

/// Why a run of records stopped.
enum Stop {
    /// The next record is not complete in these bytes.
    More,
    /// The last record has a payload of this many bytes. Fewer than 1 are not valid.
    Payload(Record, i32),
    /// `EndOfBuffer` of version 1.
    End,
}

/// Decodes the records of one thread, block by block.
pub(super) struct Decoder<'a> {
    index: &'a Index,
    sink: &'a mut dyn Sink,
    /// Faults of the thread so far.
    faults: DiagnosticCount,
    time: Running,
    /// The latest possible tick of a call: that of [`Running::limit`].
    limit: u64,
    /// The number of late calls since a record set the time.
    late: u64,
    /// Byte offset of the block.
    start: u64,
    /// The number of next function records that were not measured.
    synthetic: u32,
    /// A `CallArgument` may follow.
    arguments: bool,
    /// A change of CPU that is not handed over yet. In front of our own events it is no change.
    cpu: Option<(u64, u16)>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(index: &'a Index, sink: &'a mut dyn Sink) -> Decoder<'a> {
        Decoder {
            index,
            sink,
            faults: DiagnosticCount::default(),
            time: Running::default(),
            limit: u64::MAX,
            late: 0,
            start: 0,
            synthetic: 0,
            arguments: false,
            cpu: None,
        }
    }

    /// Decodes a block. No earlier record of the thread matters.
    pub(super) fn block(
        &mut self,
        window: &mut Window<'_>,
        block: &Block,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<(), Error> {
        let Block {
            start,
            end,
            mut cut,
            latest,
            ..
        } = *block;
        let mut at = start.saturating_add(METADATA_SIZE as u64);
        progress(at - start);
        self.time = Running::new(latest);
        (self.start, self.limit) = (start, self.time.limit());
        (self.synthetic, self.arguments) = (0, false);
        let mut closed = self.index.layout.version > 1;
        while at < end {
            let before = at;
            let view = window.at(at, METADATA_SIZE, end)?;
            let (used, stop) = self.run(view, at);
            at += used as u64;
            match stop {
                Stop::End => {
                    closed = true;
                    progress(end - before);
                    break;
                }
                Stop::More if used == 0 => {
                    let what = format!("{} bytes are no whole record; they are skipped", end - at);
                    self.complain(at, what);
                    progress(end - at);
                    (closed, cut) = (true, true);
                    break;
                }
                Stop::More => {}
                Stop::Payload(record, size) => {
                    let next = self.payload(window, record, size, at, end)?;
                    // In a cut block, the rest is the event's. Otherwise the event's size is damaged.
                    at = next.unwrap_or(if cut { end } else { at });
                }
            }
            progress(at - before);
        }
        if !closed {
            cut = true;
            self.complain(end, "the buffer has no EndOfBuffer record".into());
        }
        if cut {
            // A change of CPU at the end may be the start of a head of ours.
            self.cpu = None;
        }
        self.settle();
        self.report_late_calls();
        Ok(())
    }

    /// Takes whole records from the front of `view`. Returns the number of their bytes, and why it
    /// stopped.
    fn run(&mut self, view: &[u8], offset: u64) -> (usize, Stop) {
        let layout = self.index.layout;
        let mut used = 0;
        loop {
            let rest = view.get(used..).unwrap_or(&[]);
            if self.time.now().is_some() && self.synthetic == 0 {
                let fast = match layout.order {
                    ByteOrder::Little => self.functions::<false>(rest),
                    ByteOrder::Big => self.functions::<true>(rest),
                };
                if fast > 0 {
                    used += fast;
                    continue;
                }
            }
            let at = offset + used as u64;
            match record::decode(rest, layout) {
                Err(Bad::Short) => return (used, Stop::More),
                Err(Bad::Action(action)) => {
                    self.complain(at, format!("function action {action} is unknown; skipped"));
                    used += FUNCTION_SIZE;
                }
                Err(Bad::Kind(kind)) => {
                    self.complain(
                        at,
                        format!("metadata kind {kind} is unknown; 16 bytes skipped"),
                    );
                    used += METADATA_SIZE;
                }
                Ok(Record::EndOfBuffer) if layout.version == 1 => return (used, Stop::End),
                Ok(record) => {
                    used += record.size();
                    if let Record::Custom { size, .. } | Record::Typed { size, .. } = record {
                        return (used, Stop::Payload(record, size));
                    }
                    self.record(record, at);
                }
            }
        }
    }

    /// The inner loop: function records up to any other record, or to the end of `bytes`.
    fn functions<const BIG: bool>(&mut self, bytes: &[u8]) -> usize {
        let Some(mut time) = self.time.now() else {
            return 0;
        };
        let (mut used, mut turned) = (0, [Word::default(); TURNED]);
        while let Some(rest) = bytes.get(used * WORD..).filter(|rest| rest.len() >= WORD) {
            let most = if BIG { TURNED } else { BATCH };
            let mut rest = rest.get(..most * WORD).unwrap_or(rest);
            let words = rest.len() / WORD;
            if BIG {
                for (turned, word) in turned.iter_mut().zip(groups(rest)) {
                    *turned = record::function_word::<BIG>(word).to_le_bytes();
                }
                rest = turned.get(..words).unwrap_or(&[]).as_flattened();
            }
            let (calls, ticks) = Packed::new(Ticks(time), rest);
            if calls.is_empty() {
                break;
            }
            self.settle();
            used += calls.len();
            time = time.wrapping_add(ticks);
            self.hand_over(&calls, time);
            if calls.len() < words {
                break;
            }
        }
        if used > 0 {
            self.arguments = true;
            self.time.advance(time);
        }
        used * FUNCTION_SIZE
    }

    /// Any record without a payload.
    fn record(&mut self, record: Record, at: u64) {
        let after_call = std::mem::replace(&mut self.arguments, false);
        match record {
            Record::Function { id, action, delta } => self.call(id, action, delta, at),
            Record::CallArgument { value } if after_call => {
                self.arguments = true;
                self.mark(&Mark::Argument { value });
            }
            Record::CallArgument { .. } => {
                self.complain(at, "an argument without a call before it; skipped".into());
            }
            Record::NewCpu { cpu, tsc } => {
                self.set_time(tsc, at);
                self.cpu = self.time.now().map(|time| (time, cpu));
            }
            Record::TscWrap { tsc } => self.set_time(tsc, at),
            Record::WallTime { seconds, micros } => self.mark(&Mark::Wall { seconds, micros }),
            Record::Pid { .. } => {}
            Record::NewBuffer { .. } | Record::EndOfBuffer | Record::BufferExtents { .. } => {
                self.complain(at, format!("{} inside a block; skipped", record.name()));
            }
            Record::Custom { .. } | Record::Typed { .. } => {}
        }
    }

    fn call(&mut self, id: u32, action: Action, delta: u32, at: u64) {
        let synthetic = self.synthetic > 0;
        self.synthetic = self.synthetic.saturating_sub(1);
        let Some(now) = self.time.now() else {
            self.complain(
                at,
                "a call before any NewCPUId record has no time; skipped".into(),
            );
            return;
        };
        let time = Ticks(now.wrapping_add(u64::from(delta)));
        self.time.advance(time.0);
        self.settle();
        self.arguments = true;
        let mut call = [Call {
            time,
            function: FunctionId(id),
            edge: EDGES[action as usize],
            synthetic,
            has_arguments: action == Action::EntryArgs,
        }];
        self.give(&mut call);
    }

    /// An event whose payload of `size` bytes begins at `at`. Returns the payload's end, if it fits.
    fn payload(
        &mut self,
        window: &mut Window<'_>,
        record: Record,
        size: i32,
        at: u64,
        end: u64,
    ) -> Result<Option<u64>, Error> {
        self.arguments = false;
        // Problems are reported at the record, not at its payload.
        let told_at = at - METADATA_SIZE as u64;
        let left = end.saturating_sub(at);
        let size = match u64::try_from(size) {
            Ok(size) if size > 0 && size <= left => size,
            _ => {
                let what = format!("an event of {size} bytes, where {left} are left; skipped");
                self.complain(told_at, what);
                return Ok(None);
            }
        };
        let held = usize::try_from(size)
            .unwrap_or(MAX_PAYLOAD)
            .min(MAX_PAYLOAD);
        if (held as u64) < size {
            let what = format!("an event of {size} bytes; only the first {held} are kept");
            self.complain(told_at, what);
        }
        let view = window.at(at, held, end)?;
        if let Some(data) = view.get(..held) {
            self.event(record, data, told_at);
        } else {
            let mut data = vec![0; held];
            let count = window.source().read_at(at, &mut data)?;
            self.event(record, data.get(..count).unwrap_or(&[]), told_at);
        }
        Ok(Some(at + size))
    }

    /// An event whose record is at `at`.
    fn event(&mut self, record: Record, data: &[u8], at: u64) {
        match record {
            Record::Custom { when, cpu, .. } => {
                // This comes first, because in version 5 it moves the running base.
                let Some(time) = self.when(when, at) else {
                    return;
                };
                if payload::is_ours(data) {
                    return self.own(data, time, at);
                }
                let cpu = cpu.map(|cpu| CpuId(cpu.into()));
                self.mark(&Mark::Custom { time, cpu, data });
            }
            Record::Typed { delta, kind, .. } => {
                let Some(time) = self.when(RecordTime::Delta(delta), at) else {
                    return;
                };
                self.mark(&Mark::Typed { time, kind, data });
            }
            _ => {}
        }
    }

    fn when(&mut self, when: RecordTime, at: u64) -> Option<Ticks> {
        match (when, self.time.now()) {
            (RecordTime::Absolute(tsc), _) => Some(Ticks(self.time.time_of(tsc))),
            (RecordTime::Delta(delta), Some(now)) => {
                let now = now.wrapping_add_signed(i64::from(delta));
                self.time.advance(now);
                Some(Ticks(now))
            }
            (RecordTime::Delta(_), None) => {
                self.complain(
                    at,
                    "an event before any NewCPUId has no time; skipped".into(),
                );
                None
            }
        }
    }

    /// Our own event. The index pass has read all events but those about single records.
    fn own(&mut self, data: &[u8], time: Ticks, at: u64) {
        match payload::decode(data, self.index.layout.order) {
            Some(Payload::Synthetic { count }) => self.synthetic = count,
            Some(Payload::Lost { records }) => self.mark(&Mark::Lost { records }),
            Some(Payload::Break { ticks }) => self.jump(ticks),
            Some(Payload::ShortCalls { calls, ticks }) => {
                self.mark(&Mark::ShortCalls { time, calls, ticks });
            }
            Some(Payload::Threshold { ticks }) => self.mark(&Mark::Threshold { ticks }),
            Some(Payload::Note(kind)) => {
                let body = payload::note(data).unwrap_or_default();
                self.mark(&Mark::Note { time, kind, body });
            }
            // The NewCPUId in front of it gives the block its start, and is no change of CPU.
            Some(_) => self.cpu = None,
            // The index pass has reported damage in a head.
            None if self.index.has_diagnostic_at(at) => {}
            None => self.complain(at, DAMAGED_OWN.into()),
        }
    }

    /// A record sets the time.
    fn set_time(&mut self, tick: u64, at: u64) {
        self.settle();
        self.report_late_calls();
        let before = self.time.now().unwrap_or(tick);
        match self.time.set(tick) {
            Turn::Plain => {}
            Turn::Break => self.sink.mark(&Mark::Break {
                time: Ticks(before),
            }),
            Turn::Late => {
                let what = "a time after the last one of its block; the one before is taken";
                self.complain(at, what.into());
            }
        }
        self.limit = self.time.limit();
    }

    /// The writer found that the clock jumped ahead by this many ticks before the next absolute tick.
    fn jump(&mut self, ticks: u64) {
        let time = Ticks(self.time.now().unwrap_or_default());
        self.mark(&Mark::Break { time });
        self.time.jumped(ticks);
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        self.settle();
        self.sink.mark(mark);
    }

    /// Hands over a waiting change of CPU.
    fn settle(&mut self) {
        if let Some((tsc, cpu)) = self.cpu.take() {
            self.sink.mark(&Mark::Cpu {
                time: Ticks(tsc),
                cpu: CpuId(cpu.into()),
            });
        }
    }

    /// Some calls. The last one is at that time.
    #[inline]
    fn hand_over(&mut self, calls: &Packed<'_>, last: u64) {
        if calls.base.0 <= last && last <= self.limit {
            return self.sink.packed(calls);
        }
        let mut given = Vec::new();
        calls.unpack(|calls| given.extend_from_slice(calls));
        self.give(&mut given);
    }

    /// Gives calls one by one, because some may be too late.
    fn give(&mut self, calls: &mut [Call]) {
        let limit = Ticks(self.limit);
        for call in calls.iter_mut().filter(|call| call.time > limit) {
            call.time = limit;
            self.late += 1;
        }
        self.sink.calls(calls);
    }

    /// Reports late calls where the time is set, and at a block's end.
    fn report_late_calls(&mut self) {
        let late = std::mem::take(&mut self.late);
        if late > 0 {
            let what = format!("{late} times after the last one of the block; that is taken");
            self.complain(self.start, what);
        }
    }

    fn complain(&mut self, offset: u64, what: String) {
        if self.faults.shows(offset) {
            self.sink.diagnostic(Diagnostic { offset, what });
        }
    }

    /// Reports how many faults were not reported one by one.
    pub(super) fn finish(self) {
        if let Some(rest) = self.faults.rest() {
            self.sink.diagnostic(rest);
        }
    }
}
