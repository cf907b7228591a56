//! The calls of one thread as a state system takes them: pushes and pops of a call stack. They always match, and their
//! times in ns never go back. This file decides, and counts what a state cannot tell.
//!
//! - Frames that were open before the thread's first record have synthetic entries at its beginning. They
//!   are pushed 1 ns before that record, so that they are visible even if that record is their exit.
//! - Frames that are open at the end stay open, because people want to see the state at the end. Synthetic
//!   exits at the end do not close them.
//! - The rule of [`crate::calls`] decides which frame an exit ends. As in Trace Compass, frames inside end
//!   at the exit's own time, and an exit of a frame that is not open is left out.

use super::record::Value;
use crate::calls::{Exit, Rule};
use crate::model::{Call, Counts, CpuId, Edge, FunctionId, Nanos, NoteKind, Ticks};
use crate::notes::{FieldValue, Form, Note};
use crate::scale::Scale;
use crate::sink::Losses;

/// Times of the state system end here, in ns.
const LATEST: u64 = i64::MAX as u64;

/// A change of a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Push(FunctionId),
    Pop,
    /// The thread left a call that is not on its stack.
    Seen,
    /// From the next change on, the thread runs on this CPU.
    Cpu(u32),
    /// The counter of that name has this value from here on.
    Counter(FunctionId, Number),
}

/// The value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number {
    /// It has a fraction.
    pub(super) is_double: bool,
    pub(super) bits: u64,
}

impl Number {
    pub(super) fn new(is_double: bool, bits: u64) -> Number {
        Number { is_double, bits }
    }

    pub(super) fn value(self) -> Value {
        match self.is_double {
            true => Value::Double(f64::from_bits(self.bits)),
            false => Value::Int(self.bits as i64),
        }
    }
}

/// The name and the value of a counter. `None`: the note is no counter, or its value is no number that a state can
/// hold.
fn counter(kind: NoteKind, body: &[u8]) -> Option<(FunctionId, Number)> {
    let Some(Note::Event {
        name, form, fields, ..
    }) = Note::decode(kind, body)
    else {
        return None;
    };
    let [field] = &fields[..] else { return None };
    let number = match field.value {
        FieldValue::Unsigned(number) if number <= LATEST => Number::new(false, number),
        FieldValue::Signed(number) => Number::new(false, number as u64),
        FieldValue::Truth(truth) => Number::new(false, truth.into()),
        FieldValue::Float(number) => Number::new(true, number.to_bits()),
        _ => return None,
    };
    (form == Form::Counter as u8).then_some((FunctionId(name), number))
}

/// The losses of a state, counted over all threads.
#[derive(Clone, Debug, Default)]
pub(super) struct StateLosses {
    pub(super) tail_exits: u64,
    pub(super) synthetic: u64,
    pub(super) short: u64,
    pub(super) unmatched: u64,
    pub(super) unended: u64,
    pub(super) backwards: u64,
    pub(super) late: u64,
    pub(super) cpus: u64,
    pub(super) counters: u64,
}

impl StateLosses {
    pub(super) fn losses(&self, losses: &mut Losses) {
        losses.add("tail exits: written as exits", self.tail_exits);
        losses.add(
            "synthetic entries and exits in the middle of a thread: written as measured ones",
            self.synthetic,
        );
        losses.add("calls shorter than 1 ns: left out", self.short);
        losses.add("exits without an entry: left out", self.unmatched);
        losses.add(
            "calls without an exit: they end with the call around them",
            self.unended,
        );
        losses.add(
            "entries and exits whose clock went back: written at the time of the one before",
            self.backwards,
        );
        losses.add(
            "entries and exits after 2^63 ns: written at that time",
            self.late,
        );
        losses.add(
            "changes of CPU without an entry or exit before the next one: left out",
            self.cpus,
        );
        losses.add(
            "samples of counters: written as states of their threads, not as events",
            self.counters,
        );
    }
}

/// A frame that is open.
#[derive(Clone, Copy, Debug)]
struct Frame {
    function: FunctionId,
    entered: i64,
}

/// One thread.
#[derive(Debug, Default)]
pub(super) struct ThreadEncoder {
    open: Vec<Frame>,
    rule: Rule,
    /// Time of its first entry or exit.
    pub(super) first: Option<i64>,
    /// Time of its last entry or exit.
    pub(super) last: i64,
    /// Times of its first and last counters.
    pub(super) counted: Option<(i64, i64)>,
    /// Time of its last change: none may be earlier.
    reached: i64,
    /// Frames that were open before the first record.
    pub(super) before: u32,
    /// A measured entry or exit came.
    begun: bool,
    /// The number of innermost frames with synthetic exits at the end so far, all at `last`.
    pub(super) after: u32,
    cpu: Option<u32>,
    /// The CPU changed after the last entry or exit.
    moved: bool,
    /// The measured entries and exits of the source.
    measured: u64,
    /// The other entries and exits of the source.
    synthetic: [u64; 2],
    /// The entries and exits of the history, without those of `before` and `after`.
    held: u64,
}

impl ThreadEncoder {
    /// The thread runs on this CPU from here on.
    pub(super) fn cpu(&mut self, CpuId(cpu): CpuId, state_losses: &mut StateLosses) {
        if self.cpu != Some(cpu) {
            state_losses.cpus += u64::from(self.moved);
            (self.cpu, self.moved) = (Some(cpu), true);
        }
    }

    /// A note. The time, name and value of a counter; `None`: it is another note.
    pub(super) fn note(
        &mut self,
        (time, kind, body): (Ticks, NoteKind, &[u8]),
        scale: &mut Scale,
        state_losses: &mut StateLosses,
    ) -> Option<(i64, FunctionId, Number)> {
        let (name, number) = counter(kind, body)?;
        let Nanos(nanos) = scale.nanos(time);
        let time = (nanos.min(LATEST) as i64).max(self.reached);
        let (first, _) = self.counted.unwrap_or((time, time));
        self.counted = Some((first, time));
        self.reached = time;
        state_losses.counters += 1;
        Some((time, name, number))
    }

    /// Whether a frame is open.
    pub(super) fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The thread is over.
    pub(super) fn finish(&mut self, state_losses: &mut StateLosses) {
        state_losses.cpus += u64::from(std::mem::take(&mut self.moved));
    }

    /// The recorder's counts, changed by the difference between history and source. A record that was
    /// left out counts as dropped. An entry or exit that was added counts as recorded.
    pub(super) fn counts(&self, counts: Counts) -> Counts {
        let added = self.held.saturating_sub(self.measured);
        let left_out = self.measured.saturating_sub(self.held);
        Counts {
            recorded: counts.recorded.saturating_add(added),
            readable: counts
                .readable
                .saturating_add(added)
                .saturating_sub(left_out),
            dropped: counts.dropped.saturating_add(left_out),
            synthetic_entries: counts
                .synthetic_entries
                .saturating_add(self.before.into())
                .saturating_sub(self.synthetic[0]),
            synthetic_exits: counts
                .synthetic_exits
                .saturating_add(self.after.into())
                .saturating_sub(self.synthetic[1]),
            ..counts
        }
    }

    /// An entry or an exit. `out` gets its effects on the stack, with their times in ns.
    #[inline]
    pub(super) fn call(
        &mut self,
        call: &Call,
        scale: &mut Scale,
        state_losses: &mut StateLosses,
        out: &mut impl FnMut(i64, Op),
    ) {
        let Nanos(nanos) = scale.nanos(call.time);
        let mut time = nanos.min(LATEST) as i64;
        state_losses.late += u64::from(nanos > LATEST);
        self.first.get_or_insert(time);
        if time < self.reached {
            state_losses.backwards += 1;
            time = self.reached;
        }
        self.reached = time;
        if call.synthetic {
            return self.synthetic(call, time, state_losses, out);
        }
        if self.after > 0 {
            self.close(state_losses, out);
        }
        self.begun = true;
        self.measured += 1;
        self.at(call, time, state_losses, out);
    }

    #[inline]
    fn at(
        &mut self,
        call: &Call,
        time: i64,
        state_losses: &mut StateLosses,
        out: &mut impl FnMut(i64, Op),
    ) {
        self.last = time;
        if self.moved {
            self.moved = false;
            out(time, Op::Cpu(self.cpu.unwrap_or_default()));
        }
        let function = call.function;
        match call.edge {
            Edge::Entry => {
                let entered = time;
                self.held += 1;
                self.rule.entered(1);
                self.open.push(Frame { function, entered });
                return out(time, Op::Push(function));
            }
            Edge::TailExit => state_losses.tail_exits += 1,
            Edge::Exit => {}
        }
        let is = |frame: &Frame| frame.function == function;
        match self.rule.exit(&self.open, is) {
            Exit::Innermost => {}
            Exit::Outer(inside) => {
                for _ in 0..inside {
                    state_losses.unended += 1;
                    self.pop(time, state_losses, out);
                }
            }
            Exit::Before | Exit::Lone => {
                state_losses.unmatched += 1;
                return out(time, Op::Seen);
            }
        }
        self.pop(time, state_losses, out);
    }

    #[inline]
    fn pop(&mut self, time: i64, state_losses: &mut StateLosses, out: &mut impl FnMut(i64, Op)) {
        if let Some(frame) = self.open.pop() {
            if frame.entered == time {
                // A call without length is not in the history: neither its entry nor its exit.
                state_losses.short += 1;
                self.held -= 1;
            } else {
                self.held += 1;
            }
            out(time, Op::Pop);
        }
    }

    /// An entry or exit that was not measured.
    #[cold]
    fn synthetic(
        &mut self,
        call: &Call,
        time: i64,
        state_losses: &mut StateLosses,
        out: &mut impl FnMut(i64, Op),
    ) {
        let function = call.function;
        self.synthetic[usize::from(call.edge != Edge::Entry)] += 1;
        let is_first = !self.begun && Some(time) == self.first && self.counted.is_none();
        if call.edge == Edge::Entry && is_first {
            self.before += 1;
            self.last = time;
            let entered = time - 1;
            self.open.push(Frame { function, entered });
            return out(entered, Op::Push(function));
        }
        let inner = self.open.iter().rev().nth(self.after as usize);
        let fits = inner.is_some_and(|frame| frame.function == function);
        if call.edge == Edge::Exit && fits && (self.after == 0 || time == self.last) {
            self.after += 1;
            self.last = time;
            self.begun = true;
            return;
        }
        self.close(state_losses, out);
        state_losses.synthetic += 1;
        self.begun = true;
        self.at(call, time, state_losses, out);
    }

    /// Ends the frames with synthetic exits, because these exits were not the last records.
    #[cold]
    fn close(&mut self, state_losses: &mut StateLosses, out: &mut impl FnMut(i64, Op)) {
        let count = std::mem::take(&mut self.after);
        // A counter may have come behind them.
        let at = self
            .counted
            .map_or(self.last, |(_, counted)| counted.max(self.last));
        for _ in 0..count {
            state_losses.synthetic += 1;
            self.pop(at, state_losses, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(time: u64, function: u32) -> Call {
        Call::entry(Ticks(time), FunctionId(function))
    }

    fn exit(time: u64, function: u32) -> Call {
        Call::exit(Ticks(time), FunctionId(function))
    }

    fn synthetic(call: Call) -> Call {
        Call {
            synthetic: true,
            ..call
        }
    }

    fn push(time: i64, function: u32) -> (i64, Op) {
        (time, Op::Push(FunctionId(function)))
    }

    fn pop(time: i64) -> (i64, Op) {
        (time, Op::Pop)
    }

    type Counts = Vec<(&'static str, u64)>;

    fn run(calls: &[Call]) -> (Vec<(i64, Op)>, ThreadEncoder, Counts) {
        let (mut encoder, mut state_losses, mut ops) =
            (ThreadEncoder::default(), StateLosses::default(), Vec::new());
        let mut scale = Scale::new(1_000_000_000);
        for call in calls {
            encoder.call(call, &mut scale, &mut state_losses, &mut |time, op| {
                ops.push((time, op))
            });
        }
        encoder.finish(&mut state_losses);
        let mut losses = Losses::default();
        state_losses.losses(&mut losses);
        (ops, encoder, losses.iter().collect())
    }

    #[test]
    fn frames_from_before_and_after_the_records() {
        let calls = [
            synthetic(enter(10, 1)),
            synthetic(enter(10, 2)),
            exit(10, 2),
            enter(15, 3),
            synthetic(exit(15, 3)),
            synthetic(exit(15, 1)),
        ];
        let (ops, encoder, losses) = run(&calls);
        assert_eq!(ops, [push(9, 1), push(9, 2), pop(10), push(15, 3)]);
        assert_eq!((encoder.first, encoder.last), (Some(10), 15));
        assert_eq!((encoder.before, encoder.after, losses), (2, 2, vec![]));
    }

    #[test]
    fn synthetic_ones_in_the_middle_are_reported() {
        let calls = [enter(1, 1), enter(2, 2), synthetic(exit(3, 2)), exit(9, 1)];
        let (ops, encoder, losses) = run(&calls);
        assert_eq!(ops, [push(1, 1), push(2, 2), pop(3), pop(9)]);
        assert_eq!((encoder.before, encoder.after), (0, 0));
        assert_eq!(losses.iter().map(|loss| loss.1).collect::<Vec<_>>(), [1]);
        let (ops, _, losses) = run(&[enter(1, 1), synthetic(enter(3, 2)), exit(4, 2)]);
        assert_eq!(ops, [push(1, 1), push(3, 2), pop(4)]);
        assert!(losses[0].0.starts_with("synthetic") && losses[0].1 == 1);
    }

    #[test]
    fn what_does_not_nest() {
        let calls = [
            exit(1, 9),
            enter(2, 1),
            enter(3, 2),
            enter(4, 3),
            exit(5, 9),
            exit(6, 1),
        ];
        let (ops, _, losses) = run(&calls);
        assert_eq!(
            ops,
            [
                (1, Op::Seen),
                push(2, 1),
                push(3, 2),
                push(4, 3),
                (5, Op::Seen),
                pop(6),
                pop(6),
                pop(6)
            ]
        );
        let wanted = [
            ("exits without an entry: left out", 2),
            (
                "calls without an exit: they end with the call around them",
                2,
            ),
        ];
        assert_eq!(losses, wanted);
    }

    #[test]
    fn backward_and_out_of_range_times_are_counted() {
        let calls = [enter(5, 1), enter(9, 2), exit(3, 2), exit(u64::MAX, 1)];
        let (ops, _, losses) = run(&calls);
        assert_eq!(ops, [push(5, 1), push(9, 2), pop(9), pop(i64::MAX)]);
        let what: Vec<_> = losses
            .iter()
            .map(|(what, count)| (&what[..7], *count))
            .collect();
        assert_eq!(what, [("calls s", 1), ("entries", 1), ("entries", 1)]);
        let calls = [enter(5, 1), exit(3, 1)];
        assert_eq!(run(&calls).0, [push(5, 1), pop(5)]);
    }
}
