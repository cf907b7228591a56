//! Puts the events of lanes into the index: a sink with a call stack for each thread.

use std::collections::HashMap;

use fdr_formats::calls::{CallStack, EdgeStatus, EndedCall, OpenCall, Untimed, untimed};
use fdr_formats::notes::{FieldValue, Form, Note, NoteKind};
use fdr_formats::source::drive_parallel;
use fdr_formats::{Call, Diagnostic, Edge, Mark, Sink, Source, Thread, ThreadId, Ticks};

use super::index::{Checkpoint, Frame, Index, Line, Sign};
use super::pyramid::{CLIPPED, Item, OPEN};
use super::thread_tasks::Poll;
use crate::damage::MAX_DIAGNOSTICS;
use crate::report::tasks::polls::LastNote;
use crate::report::tasks::task_table::Task;
use crate::{trace, ui};

/// Events and gaps of a thread that are kept.
const MAX_SIGNS: usize = 200_000;
/// Entries and exits of a thread from one place to the next.
const STRETCH: u64 = 32 << 10;

/// Reads a whole trace into its index.
pub(super) fn fill(index: &Index, source: &dyn Source) {
    let make = || Filler::new(index, source);
    match drive_parallel(source, ui::jobs(), make, &|bytes| index.advance(bytes)) {
        Ok(mut fillers) => fillers.iter_mut().for_each(Filler::finish_all),
        Err(error) => index.trouble().error = Some(error.to_string()),
    }
    index.finish();
}

/// Puts the events of lanes into the index.
struct Filler<'a> {
    index: &'a Index,
    end: Option<Ticks>,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    untimed: Untimed,
    threads: Vec<Reading>,
    by_id: HashMap<ThreadId, usize>,
    current: Option<usize>,
}

/// A thread that is being read.
struct Reading {
    id: ThreadId,
    line: usize,
    stack: CallStack<()>,
    cpu: Option<u32>,
    /// Entries and exits so far, and those before the last place.
    number: u64,
    place: u64,
    /// Records that are missing before the next one: the time of the last record before them, and their number.
    gap: Option<(u64, u64)>,
    last_note: LastNote,
}

impl<'a> Filler<'a> {
    fn new(index: &'a Index, source: &dyn Source) -> Filler<'a> {
        Filler {
            index,
            end: source.info().end,
            one_by_one: trace::has_lane_for_each_thread(source),
            untimed: untimed(source.info()),
            threads: Vec::new(),
            by_id: HashMap::new(),
            current: None,
        }
    }

    fn reading(&mut self) -> Option<&mut Reading> {
        self.threads.get_mut(self.current?)
    }

    fn finish(&mut self, nth: usize) {
        let Some(reading) = self.threads.get_mut(nth) else {
            return;
        };
        let Some(mut line) = self.index.line(reading.line) else {
            return;
        };
        let end = self.end;
        let line = &mut *line;
        // A call that is open at the end has had no note yet.
        let mut keep = |ended: EndedCall<()>, _: &mut [OpenCall<()>]| {
            keep(line, &ended, end, &mut LastNote::default());
        };
        reading.stack.finish(end, &mut keep);
        line.waits.finish(end.map_or(line.last, |end| end.0));
        line.open = Vec::new();
        line.pyramid.finish();
        line.is_done = true;
    }

    fn finish_all(&mut self) {
        for nth in 0..self.threads.len() {
            self.finish(nth);
        }
    }

    fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        let Some(reading) = self.reading() else {
            return;
        };
        let nth = reading.line;
        let Some(mut line) = self.index.line(nth) else {
            return;
        };
        let noted = line.noted.unwrap_or((time.0, time.0));
        line.noted = Some((noted.0.min(time.0), noted.1.max(time.0)));
        let Some(note) = Note::decode(kind, body) else {
            return;
        };
        line.waits.note(time.0, &note);
        if let Some((id, task)) = Task::from_note(&note, time, ThreadId::default()) {
            let (function, polls) = (task.function, task.polls);
            line.tasks.note(id, task);
            drop(line);
            if let Some(reading) = self.reading() {
                reading.last_note.take(id, function, polls);
            }
            return;
        }
        let Note::Event {
            name, form, fields, ..
        } = note
        else {
            return;
        };
        let value = fields.first().and_then(|field| match field.value {
            FieldValue::Unsigned(value) => Some(value as f64),
            FieldValue::Signed(value) => Some(value as f64),
            FieldValue::Float(value) => Some(value).filter(|value| value.is_finite()),
            FieldValue::Truth(value) => Some(f64::from(u8::from(value))),
            _ => None,
        });
        match (Form::from_number(form), value) {
            (Some(Form::Counter), Some(value)) => {
                line.counters.add(name, time.0, value);
            }
            (Some(Form::Begin | Form::End), _) => {}
            _ => line.put_sign(time.0, Sign::Event { name }),
        }
    }
}

impl Line {
    fn put_sign(&mut self, time: u64, sign: Sign) {
        if self.signs.len() >= MAX_SIGNS {
            self.more_signs += 1;
            return;
        }
        let time = self.signs.last().map_or(time, |(last, _)| time.max(*last));
        self.signs.push((time, sign));
    }
}

/// The open calls of a stack.
pub(super) fn frames<T>(stack: &CallStack<T>) -> impl Iterator<Item = Frame> + '_ {
    stack.open().iter().map(|open| Frame {
        start: open.start.0,
        function: open.function.0,
        is_measured: open.is_measured(),
    })
}

/// A call that has ended, as an item.
pub(super) fn item_of<T>(ended: &EndedCall<T>, end: Option<Ticks>) -> Item {
    let is_last = end.is_none_or(|end| ended.end >= end);
    let is_open = ended.exit != EdgeStatus::Measured && is_last;
    let mut flags = if ended.clipped { CLIPPED } else { 0 };
    flags |= if is_open { OPEN } else { 0 };
    Item::call(
        ended.call.start.0,
        ended.end.0,
        ended.call.function.0,
        flags,
    )
}

/// Keeps a call that has ended.
fn keep(line: &mut Line, ended: &EndedCall<()>, end: Option<Ticks>, last_note: &mut LastNote) {
    line.calls += 1;
    let item = item_of(ended, end);
    line.pyramid.add(ended.depth, item);
    if let Some((task, number)) = last_note.ended(ended.call.function) {
        line.tasks.poll(Poll {
            task,
            number,
            depth: ended.depth,
            item,
        });
    }
}

impl Sink for Filler<'_> {
    fn thread(&mut self, thread: &Thread) {
        if self
            .reading()
            .is_some_and(|reading| reading.id == thread.id)
        {
            return;
        }
        if let (true, Some(current)) = (self.one_by_one, self.current) {
            self.finish(current);
        }
        let known = self.by_id.get(&thread.id).copied();
        let line = self.index.thread_of(thread.id);
        self.current = known.or_else(|| {
            self.threads.push(Reading {
                id: thread.id,
                line: line?,
                stack: CallStack::new().with_untimed(self.untimed.clone()),
                cpu: None,
                number: 0,
                place: 0,
                gap: None,
                last_note: LastNote::default(),
            });
            self.by_id.insert(thread.id, self.threads.len() - 1);
            Some(self.threads.len() - 1)
        });
    }

    fn calls(&mut self, calls: &[Call]) {
        let (index, end) = (self.index, self.end);
        let Some(reading) = self.reading() else {
            return;
        };
        let Some(mut line) = index.line(reading.line) else {
            return;
        };
        let line = &mut *line;
        if let (Some((from, records)), Some(next)) = (reading.gap.take(), calls.first()) {
            let until = next.time.0.max(from);
            line.put_sign(from, Sign::Gap { until, records });
        }
        let last_note = &mut reading.last_note;
        for call in calls {
            if call.edge == Edge::Entry {
                reading.stack.enter(call, ());
            } else {
                let mut keep = |ended: EndedCall<()>, _: &mut [OpenCall<()>]| {
                    keep(line, &ended, end, last_note);
                };
                reading.stack.exit(call, &mut keep);
            }
        }
        line.first = reading.stack.first().map(|first| first.0);
        line.last = reading.stack.latest().0;
        line.open.clear();
        line.open.extend(frames(&reading.stack));
        reading.number += calls.len() as u64;
        if reading.number - reading.place >= STRETCH {
            reading.place = reading.number;
            line.places.push(Checkpoint {
                number: reading.number,
                time: line.last,
                open: line.open.as_slice().into(),
                cpu: reading.cpu,
            });
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let index = self.index;
        let Some(reading) = self.reading() else {
            return;
        };
        match *mark {
            Mark::Cpu { time, cpu } => {
                reading.cpu = Some(cpu.0);
                let line = reading.line;
                if let Some(mut line) = index.line(line) {
                    line.cpus.add(time.0, cpu.0);
                }
            }
            Mark::Lost { records } => {
                // Before the first record nothing is in the middle: the thread begins later.
                if let Some(before) = reading.stack.previous_edge() {
                    let (from, known) = reading.gap.unwrap_or((before.0, 0));
                    reading.gap = Some((from, known.saturating_add(records)));
                }
                reading.stack.lose();
            }
            Mark::Break { time } => {
                reading.stack.doubt();
                let line = reading.line;
                if let Some(mut line) = index.line(line) {
                    line.put_sign(time.0, Sign::Break);
                }
            }
            Mark::ShortCalls { time, calls, ticks } => {
                let from = reading.stack.previous_edge().unwrap_or(time).0;
                let depth = reading.stack.open().len();
                reading.stack.short_calls(time, ticks);
                let item = Item::short(from, time.0.max(from), calls);
                if let Some(mut line) = index.line(reading.line) {
                    line.pyramid.add(depth, item);
                }
            }
            Mark::Note { time, kind, body } => self.note(time, kind, body),
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        let mut trouble = self.index.trouble();
        match trouble.diagnostics.len() < MAX_DIAGNOSTICS {
            true => trouble.diagnostics.push(diagnostic),
            false => trouble.more += 1,
        }
    }
}
