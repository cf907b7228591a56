//! Turns entries and exits into spans, for formats whose record is a whole call. A span is given when its call has
//! ended. So children come before their parent. Calls with the same start are the exception: their parent comes first,
//! because viewers take the first one for the parent. The memory is for open calls, and for calls that began in the
//! same tick as a call that is still open.
//!
//! Calls that do not nest are made to nest, by the rule of [`crate::calls`]. [`Span::flags`] marks the
//! edges that were added.

use std::collections::VecDeque;

use crate::calls::{CallHandler, CallStack, EdgeStatus, EndedCall, Exit, OpenCall};
use crate::model::{Call, CpuId, Edge, FunctionId, ThreadId, Ticks};
use crate::number_map::NumberMap;
use crate::sink::Losses;

/// The bits of [`Span::flags`]. Formats that carry them leave the field out if it is 0.
pub(crate) mod flags {
    /// The entry was not measured.
    pub(crate) const ENTRY_SYNTHETIC: u8 = 1;
    /// The exit was not measured.
    pub(crate) const EXIT_SYNTHETIC: u8 = 2;
    /// The call was left by a tail call.
    pub(crate) const TAIL_EXIT: u8 = 4;
}

/// A call from its entry to its exit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    /// Its entry, in ticks of the source's clock.
    pub(crate) start: Ticks,
    /// Its exit, not before the entry.
    pub(crate) end: Ticks,
    /// Which function.
    pub(crate) function: FunctionId,
    /// See [`flags`].
    pub(crate) flags: u8,
    /// The CPU at its entry, if known.
    pub(crate) cpu: Option<CpuId>,
    /// The CPU at its exit, if it changed since the previous edge.
    pub(crate) exit_cpu: Option<CpuId>,
    /// Its arguments.
    pub(crate) arguments: Vec<u64>,
    /// As the writer gave it for the entry; [`NO_ROW`] if the entry is missing.
    pub(crate) row: u32,
}

/// The row of calls whose entry is missing.
pub(crate) const NO_ROW: u32 = u32::MAX;

/// The part of an open call that every call has. It is small, because each call is moved.
#[derive(Debug, Default)]
struct CallEntry {
    /// The CPU at its entry.
    cpu: Option<CpuId>,
    /// See [`Span::row`].
    row: u32,
    more: Option<Box<CallDetails>>,
}

/// The part of an open call that few calls have.
#[derive(Debug, Default)]
struct CallDetails {
    arguments: Vec<u64>,
    /// Its children that began in the same tick.
    held: VecDeque<Span>,
}

impl CallEntry {
    fn new(cpu: Option<CpuId>, row: u32) -> CallEntry {
        let more = None;
        CallEntry { cpu, row, more }
    }

    fn more(&mut self) -> &mut CallDetails {
        self.more.get_or_insert_default()
    }
}

impl CallDetails {
    /// Adds a child and the spans that the child holds. The shorter list is added to the longer one. So
    /// a span is rarely moved, however deep and wide a tick is.
    fn hold(&mut self, child: Span, mut held: VecDeque<Span>) {
        if held.len() <= self.held.len() {
            self.held.push_back(child);
            self.held.append(&mut held);
        } else {
            held.push_front(child);
            while let Some(earlier) = self.held.pop_back() {
                held.push_front(earlier);
            }
            self.held = held;
        }
    }
}

/// One thread.
#[derive(Debug, Default)]
struct Stack {
    thread: ThreadId,
    calls: CallStack<CallEntry>,
    cpu: Option<CpuId>,
    /// The CPUs at the first and the last edge.
    first_cpu: Option<CpuId>,
    last_cpu: Option<CpuId>,
    /// The CPU changed after the last edge.
    moved: bool,
    /// Arguments belong to the innermost open call.
    arguments: bool,
}

/// The open calls of all threads.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    stacks: Vec<Stack>,
    stack_of: NumberMap,
    now: usize,
    /// Edges whose clock went back.
    moved: u64,
    unheard_cpus: u64,
}

impl Spans {
    /// All further events belong to this thread.
    pub(crate) fn thread(&mut self, thread: ThreadId) {
        let known = self.stack_of.get(thread.0);
        self.now = known.unwrap_or(self.stacks.len());
        if known.is_none() {
            self.stack_of.insert(thread.0, self.now);
            self.stacks.push(Stack {
                thread,
                ..Stack::default()
            });
        }
    }

    /// When a span begins whose entry has that time and comes next.
    #[inline]
    pub(crate) fn begin(&self, time: Ticks) -> Ticks {
        let stack = self.stacks.get(self.now);
        let before = stack.and_then(|stack| stack.calls.previous_edge());
        before.map_or(time, |before| before.max(time))
    }

    /// One edge of a call. `out` gets the spans that it completes.
    #[inline]
    pub(crate) fn call(&mut self, call: &Call, out: &mut impl FnMut(&Span)) {
        self.call_in_row(call, 0, out);
    }

    /// The same. `row` is the row of the call, if the call is an entry.
    #[inline]
    pub(crate) fn call_in_row(&mut self, call: &Call, row: u32, out: &mut impl FnMut(&Span)) {
        let Some(stack) = self.stacks.get_mut(self.now) else {
            return;
        };
        if stack.calls.first().is_none() {
            stack.first_cpu = stack.cpu;
        }
        let mut call = *call;
        if let Some(before) = stack
            .calls
            .previous_edge()
            .filter(|&before| call.time < before)
        {
            // A reader knows the order of calls by their times alone.
            call.time = before;
            self.moved += 1;
        }
        if call.edge == Edge::Entry {
            stack.arguments = true;
            stack.calls.enter(&call, CallEntry::new(stack.cpu, row));
        } else {
            stack.exit(&call, out);
        }
        stack.last_cpu = stack.cpu;
        stack.moved = false;
    }

    /// One argument of the previous call; false if no call can hold it.
    pub(crate) fn argument(&mut self, value: u64) -> bool {
        let Some(stack) = self.stacks.get_mut(self.now) else {
            return false;
        };
        let innermost = stack.calls.open_mut().last_mut();
        match innermost.filter(|_| stack.arguments) {
            Some(open) => open.data.more().arguments.push(value),
            None => return false,
        }
        true
    }

    /// The thread runs on this CPU from here on.
    pub(crate) fn cpu(&mut self, cpu: CpuId) {
        let stack = self.stacks.get_mut(self.now);
        if let Some(stack) = stack.filter(|stack| stack.cpu != Some(cpu)) {
            self.unheard_cpus += u64::from(stack.moved);
            stack.moved = true;
            stack.cpu = Some(cpu);
        }
    }

    /// Records of the thread are missing here.
    pub(crate) fn lost(&mut self) {
        if let Some(stack) = self.stacks.get_mut(self.now) {
            stack.calls.lose();
        }
    }

    /// Ends all open calls, innermost first: at `end`, the moment of the dump, if it is known. Their
    /// exits were not measured.
    pub(crate) fn finish(&mut self, end: Option<Ticks>, out: &mut dyn FnMut(ThreadId, &Span)) {
        for stack in &mut self.stacks {
            let thread = stack.thread;
            let mut closer = Closer {
                exit_cpu: None,
                cpus: (None, None),
                out: &mut |span: &Span| out(thread, span),
            };
            stack.calls.finish(end, &mut closer);
            self.unheard_cpus += u64::from(std::mem::take(&mut stack.moved));
        }
    }

    /// Adds the facts that spans can't hold.
    pub(crate) fn losses(&self, losses: &mut Losses) {
        let what =
            "entries and exits whose clock went back: moved up to the time of the one before";
        losses.add(what, self.moved);
        let what = "changes of CPU without a call before the next one: left out";
        losses.add(what, self.unheard_cpus);
    }
}

impl Stack {
    #[inline]
    fn exit(&mut self, call: &Call, out: &mut impl FnMut(&Span)) {
        self.arguments = false;
        let mut closer = Closer {
            exit_cpu: self.cpu.filter(|_| self.moved),
            cpus: (self.first_cpu, self.last_cpu),
            out,
        };
        self.calls.exit(call, &mut closer);
    }
}

/// Completes the calls that an edge, or the end, ends.
struct Closer<'a, F> {
    /// The CPU at the exit, if it changed since the previous edge.
    exit_cpu: Option<CpuId>,
    /// The CPUs at the first and the last edge.
    cpus: (Option<CpuId>, Option<CpuId>),
    out: &'a mut F,
}

impl<F: FnMut(&Span)> CallHandler<CallEntry> for Closer<'_, F> {
    fn missing(&mut self, _: FunctionId, exit: Exit, _: Option<&CallEntry>) -> CallEntry {
        // The CPU of the thread at that moment, not at the exit.
        let cpu = match exit {
            Exit::Before => self.cpus.0,
            _ => self.cpus.1,
        };
        CallEntry::new(cpu, NO_ROW)
    }

    #[inline]
    fn ended(&mut self, ended: EndedCall<CallEntry>, open: &mut [OpenCall<CallEntry>]) {
        let call = ended.call;
        let mut flags = 0;
        for (flag, is_so) in [
            (flags::ENTRY_SYNTHETIC, call.entry() != EdgeStatus::Measured),
            (flags::EXIT_SYNTHETIC, ended.exit != EdgeStatus::Measured),
            (flags::TAIL_EXIT, ended.tail),
        ] {
            flags |= flag * u8::from(is_so);
        }
        let CallEntry { cpu, row, more } = call.data;
        let mut span = Span {
            start: call.start,
            end: ended.end.max(call.start),
            function: call.function,
            flags,
            cpu,
            exit_cpu: self.exit_cpu.filter(|_| ended.exit != EdgeStatus::Missing),
            arguments: Vec::new(),
            row,
        };
        let mut held = VecDeque::new();
        if let Some(more) = more {
            (span.arguments, held) = (more.arguments, more.held);
        }
        match open.last_mut() {
            Some(parent) if parent.start == span.start => parent.data.more().hold(span, held),
            _ => {
                (self.out)(&span);
                held.iter().for_each(|span| (self.out)(span));
            }
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

    /// Function, start, end, flags of each span, in order.
    fn spans(calls: &[Call]) -> Vec<(u32, u64, u64, u8)> {
        let mut spans = Spans::default();
        let mut found = Vec::new();
        let mut note =
            |span: &Span| found.push((span.function.0, span.start.0, span.end.0, span.flags));
        spans.thread(ThreadId(1));
        for call in calls {
            spans.call(call, &mut note);
        }
        spans.finish(None, &mut |_, span| note(span));
        found
    }

    #[test]
    fn children_come_before_their_parent() {
        let calls = [enter(1, 1), enter(2, 2), exit(3, 2), exit(5, 1)];
        assert_eq!(spans(&calls), [(2, 2, 3, 0), (1, 1, 5, 0)]);
    }

    #[test]
    fn of_the_same_start_the_parent_comes_first() {
        let calls = [
            enter(1, 1),
            enter(1, 2),
            enter(1, 3),
            exit(2, 3),
            enter(3, 4),
            exit(4, 4),
            exit(5, 2),
            exit(9, 1),
        ];
        let wanted = [(4, 3, 4, 0), (1, 1, 9, 0), (2, 1, 5, 0), (3, 1, 2, 0)];
        assert_eq!(spans(&calls), wanted);
    }

    #[test]
    fn what_does_not_nest_is_made_to() {
        // An exit without entry.
        assert_eq!(
            spans(&[enter(5, 1), exit(6, 1), exit(9, 2)]),
            [(1, 5, 6, 0), (2, 5, 9, 1)]
        );
        // An exit was lost.
        let calls = [enter(1, 1), enter(2, 2), enter(3, 3), exit(7, 1)];
        assert_eq!(spans(&calls), [(3, 3, 3, 2), (2, 2, 3, 2), (1, 1, 7, 0)]);
        // An entry was lost: the call begins at the previous event, as the open call does.
        let calls = [enter(1, 1), enter(2, 2), exit(3, 9), exit(7, 1)];
        assert_eq!(spans(&calls), [(2, 2, 3, 2), (9, 2, 3, 1), (1, 1, 7, 0)]);
        // The end came first.
        assert_eq!(
            spans(&[enter(1, 1), enter(4, 2)]),
            [(2, 4, 4, 2), (1, 1, 4, 2)]
        );
    }

    #[test]
    fn calls_from_gaps_do_not_begin_earlier() {
        let mut spans = Spans::default();
        let mut found = Vec::new();
        spans.thread(ThreadId(1));
        let mut note = |span: &Span| found.push((span.function.0, span.start.0, span.end.0));
        spans.call(&enter(1, 1), &mut note);
        spans.call(&exit(2, 1), &mut note);
        spans.lost();
        spans.call(&exit(1000, 2), &mut note);
        spans.call(&exit(1003, 3), &mut note);
        spans.call(&enter(1004, 4), &mut note);
        spans.lost();
        spans.call(&exit(2000, 5), &mut note);
        spans.call(&exit(2001, 4), &mut note);
        let wanted = [
            (1, 1, 2),
            (2, 1000, 1000),
            (3, 1000, 1003),
            (5, 2000, 2000),
            (4, 1004, 2001),
        ];
        assert_eq!(found, wanted);
    }

    #[test]
    fn flags_and_cpus_are_kept() {
        let mut spans = Spans::default();
        let mut found = Vec::new();
        spans.thread(ThreadId(1));
        spans.cpu(CpuId(3));
        let mut note = |span: &Span| found.push(span.clone());
        spans.call(&enter(1, 1), &mut note);
        assert!(spans.argument(77));
        let synthetic = Call {
            synthetic: true,
            ..enter(2, 2)
        };
        spans.call(&synthetic, &mut note);
        spans.cpu(CpuId(4));
        let tail = Call {
            edge: Edge::TailExit,
            ..exit(3, 2)
        };
        spans.call(&tail, &mut note);
        assert!(!spans.argument(78));
        spans.call(&exit(2, 1), &mut note);
        let inner = Span {
            start: Ticks(2),
            end: Ticks(3),
            function: FunctionId(2),
            flags: flags::ENTRY_SYNTHETIC | flags::TAIL_EXIT,
            cpu: Some(CpuId(3)),
            exit_cpu: Some(CpuId(4)),
            ..Span::default()
        };
        let outer = Span {
            start: Ticks(1),
            // Its clock went back.
            end: Ticks(3),
            function: FunctionId(1),
            cpu: Some(CpuId(3)),
            arguments: vec![77],
            ..Span::default()
        };
        assert_eq!(found, [inner, outer]);
    }

    #[test]
    fn threads_are_apart_and_losses_are_reported() {
        let mut spans = Spans::default();
        let mut found = Vec::new();
        spans.thread(ThreadId(1));
        spans.call(&enter(5, 1), &mut |_| {});
        spans.thread(ThreadId(2));
        spans.call(&enter(6, 1), &mut |_| {});
        spans.thread(ThreadId(1));
        spans.call(&exit(4, 1), &mut |span| found.push(span.clone()));
        assert_eq!((found[0].start, found[0].end), (Ticks(5), Ticks(5)));
        spans.cpu(CpuId(1));
        spans.cpu(CpuId(2));
        let mut open = Vec::new();
        spans.finish(None, &mut |thread, span| open.push((thread, span.flags)));
        assert_eq!(open, [(ThreadId(2), flags::EXIT_SYNTHETIC)]);
        let mut losses = Losses::default();
        spans.losses(&mut losses);
        let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [1, 2]);
    }

    #[test]
    fn lost_order_is_reported() {
        let mut spans = Spans::default();
        spans.thread(ThreadId(1));
        for call in [enter(5, 1), enter(3, 2), exit(9, 2), exit(8, 1)] {
            spans.call(&call, &mut |_| {});
        }
        let mut losses = Losses::default();
        spans.losses(&mut losses);
        let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
        assert_eq!(counts, [2]);
    }
}
