//! The calls and events of a trace as rows. A call's row is made at its entry and completed at its exit, so rows are in
//! the order of entries. Calls that outlive their batch of rows come behind.
//!
//! An entry is numbered by how many records its thread made before it. This number is the same in each dump of a
//! process. If the entry is not in the trace, the number is negative: minus the number of the exit, or, without an
//! exit, a number that follows from the depth.

use std::collections::HashMap;
use std::sync::mpsc::SyncSender;

use fdr_formats::calls::{
    CallHandler, CallStack, EdgeStatus, EndedCall, Exit, OpenCall, Untimed, untimed,
};
use fdr_formats::model::Counts;
use fdr_formats::note_words;
use fdr_formats::notes::{Note, NoteKind};
use fdr_formats::states::States;
use fdr_formats::{Call, Edge, FunctionId, Mark, Sink, Source, Thread, ThreadId, Ticks, TraceInfo};

/// Rows of a batch.
pub(crate) const BATCH: usize = 1 << 17;
/// Events of a batch: they have texts.
const EVENTS: usize = 1 << 14;
/// No slot: the row comes at the exit.
const NO_SLOT: u32 = u32::MAX;
/// A call without entry and exit in the trace has this number, less its depth.
const NO_EDGE: i64 = -(1 << 62);

/// A call. Times are ticks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Row {
    pub(crate) tid: u64,
    pub(crate) seq: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) start: u64,
    pub(crate) total: u64,
    pub(crate) own: u64,
    pub(crate) function: u32,
    pub(crate) depth: u32,
    /// Below 0: not known.
    pub(crate) cpu: i32,
    pub(crate) clipped: bool,
    pub(crate) synthetic: bool,
    /// It has ended. Rows of calls that are still open are left out of their batch.
    pub(crate) is_whole: bool,
}

/// The values that only few calls have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extra {
    /// Ticks of running and waiting.
    pub(crate) states: Option<(u64, u64)>,
    pub(crate) task: Option<u64>,
    pub(crate) arguments: Option<String>,
}

/// Calls, with what few of them have, by the place of the row.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub(crate) rows: Vec<Row>,
    pub(crate) extras: Vec<(u32, Extra)>,
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) tid: u64,
    pub(crate) seq: i64,
    pub(crate) nth: i32,
    pub(crate) time: u64,
    pub(crate) name: String,
    pub(crate) form: String,
    pub(crate) level: Option<String>,
    pub(crate) fields: Option<String>,
}

/// What goes to the encoders.
#[derive(Debug)]
pub(crate) enum Batch {
    Calls(Calls),
    Events(Vec<Event>),
}

/// The numbers of a thread's records.
#[derive(Clone, Copy, Debug, Default)]
struct Numbers {
    /// Of the next record.
    next: i64,
    /// Events since the record before.
    events: i32,
}

/// What is known of an open call.
#[derive(Debug, Default)]
struct Data {
    seq: Option<i64>,
    cpu: Option<i32>,
    /// Its row, in the batch with that number.
    slot: u32,
    batch: u32,
    extra: Option<Box<Extra>>,
}

/// A thread.
struct ThreadState {
    id: ThreadId,
    stack: CallStack<Data>,
    numbers: Numbers,
    cpu: Option<i32>,
}

/// A worker's sink.
pub(crate) struct SpanSink<'a> {
    info: &'a TraceInfo,
    untimed: Untimed,
    states: Option<&'a States>,
    one_by_one: bool,
    threads: Vec<ThreadState>,
    by_id: HashMap<ThreadId, usize>,
    current: usize,
    out: Out,
}

/// The batches of a worker.
struct Out {
    calls: Calls,
    /// The number of the batch.
    number: u32,
    events: Vec<Event>,
    sender: SyncSender<Batch>,
    /// No encoder takes batches any more, because one has failed.
    is_closed: bool,
}

impl Out {
    fn flush(&mut self) {
        self.number = self.number.wrapping_add(1);
        let calls = std::mem::take(&mut self.calls);
        self.send(Batch::Calls(calls));
        self.calls.rows.reserve_exact(BATCH);
    }

    fn send(&mut self, batch: Batch) {
        if !self.is_closed {
            self.is_closed = self.sender.send(batch).is_err();
        }
    }

    fn slot(&mut self) -> (u32, u32) {
        if self.calls.rows.len() >= BATCH {
            self.flush();
        }
        self.calls.rows.push(Row::default());
        (self.calls.rows.len() as u32 - 1, self.number)
    }

    fn event(&mut self, event: Event) {
        self.events.push(event);
        if self.events.len() >= EVENTS {
            let events = std::mem::take(&mut self.events);
            self.send(Batch::Events(events));
        }
    }
}

/// The receiver of a thread's ended calls.
struct Receiver<'a> {
    out: &'a mut Out,
    tid: ThreadId,
    states: Option<&'a States>,
    /// The number of the record that ends a call.
    record: i64,
}

impl CallHandler<Data> for Receiver<'_> {
    fn missing(&mut self, _: FunctionId, _: Exit, _: Option<&Data>) -> Data {
        Data {
            slot: NO_SLOT,
            ..Data::default()
        }
    }

    fn ended(&mut self, ended: EndedCall<Data>, open: &mut [OpenCall<Data>]) {
        let data = &ended.call.data;
        let is_exit = ended.exit == EdgeStatus::Measured;
        let seq = data.seq.unwrap_or(match is_exit {
            true => -1 - self.record,
            false => NO_EDGE - ended.depth as i64,
        });
        let extra = self.extra(&ended);
        let row = Row {
            tid: self.tid.0,
            seq,
            parent: open.last().and_then(|caller| caller.data.seq),
            start: ended.call.start.0,
            total: ended.total(),
            own: ended.own(),
            function: ended.call.function.0,
            depth: ended.depth as u32,
            cpu: data.cpu.unwrap_or(-1),
            clipped: ended.clipped,
            synthetic: data.seq.is_none() || !is_exit,
            is_whole: true,
        };
        let (slot, batch) = match (data.slot, data.batch == self.out.number) {
            (slot, true) if slot != NO_SLOT => (slot, data.batch),
            _ => self.out.slot(),
        };
        debug_assert_eq!(batch, self.out.number);
        if let Some(place) = self.out.calls.rows.get_mut(slot as usize) {
            *place = row;
        }
        if let Some(extra) = extra {
            self.out.calls.extras.push((slot, extra));
        }
    }
}

impl Receiver<'_> {
    fn extra(&self, ended: &EndedCall<Data>) -> Option<Extra> {
        let own = ended.call.data.extra.as_deref();
        let states = self.states.filter(|_| !ended.untimed).and_then(|states| {
            let known = states.in_stretch(self.tid, ended.call.start, ended.end);
            let is_known = known.unknown == Ticks(0);
            is_known.then_some((known.spent.running.0, known.spent.waiting.0))
        });
        if own.is_none() && states.is_none() {
            return None;
        }
        Some(Extra {
            states,
            ..own.cloned().unwrap_or_default()
        })
    }
}

impl<'a> SpanSink<'a> {
    pub(crate) fn new(
        source: &'a dyn Source,
        states: Option<&'a States>,
        sender: SyncSender<Batch>,
    ) -> SpanSink<'a> {
        let info = source.info();
        SpanSink {
            info,
            untimed: untimed(info),
            states,
            one_by_one: source.lanes() > 1 && source.lanes() == info.threads.len(),
            threads: Vec::new(),
            by_id: HashMap::new(),
            current: 0,
            out: Out {
                calls: Calls::default(),
                number: 0,
                events: Vec::new(),
                sender,
                is_closed: false,
            },
        }
    }

    fn end_thread(&mut self, place: usize) {
        let Some(thread) = self.threads.get_mut(place) else {
            return;
        };
        let mut receiver = Receiver {
            out: &mut self.out,
            tid: thread.id,
            states: self.states,
            record: thread.numbers.next,
        };
        thread.stack.finish(self.info.end, &mut receiver);
    }

    /// Ends all threads.
    pub(crate) fn finish(mut self) {
        (0..self.threads.len()).for_each(|place| self.end_thread(place));
        self.out.flush();
        let events = std::mem::take(&mut self.out.events);
        self.out.send(Batch::Events(events));
    }

    fn note(&mut self, time: Ticks, kind: NoteKind, body: &[u8]) {
        let (Some(thread), Some(note)) =
            (self.threads.get_mut(self.current), Note::decode(kind, body))
        else {
            return;
        };
        let innermost = thread.stack.open_mut().last_mut();
        let extra = innermost.map(|open| open.data.extra.get_or_insert_default());
        let info = self.info;
        match &note {
            Note::Arguments { fields, .. } => {
                if let Some(extra) = extra {
                    let text = extra.arguments.get_or_insert_default();
                    for field in fields {
                        let gap = if text.is_empty() { "" } else { " " };
                        *text += &format!("{gap}{}", field.words(info));
                    }
                }
            }
            Note::Task { task, .. } => {
                if let Some(extra) = extra {
                    extra.task = Some(*task);
                }
            }
            Note::Event {
                name,
                form,
                level,
                fields,
                ..
            } => {
                let fields: Vec<String> = fields
                    .iter()
                    .map(|field| field.words(info).to_string())
                    .collect();
                let event = Event {
                    tid: thread.id.0,
                    seq: thread.numbers.next,
                    nth: thread.numbers.events,
                    time: time.0,
                    name: note_words::name(info, *name).into_owned(),
                    form: note_words::form(*form).into_owned(),
                    level: note_words::level(*level).map(|level| level.into_owned()),
                    fields: (!fields.is_empty()).then(|| fields.join(" ")),
                };
                thread.numbers.events += 1;
                self.out.event(event);
            }
            Note::ThreadState { .. } => {}
        }
    }
}

impl Sink for SpanSink<'_> {
    fn thread(&mut self, thread: &Thread) {
        let known = self.threads.get(self.current);
        if known.is_some_and(|known| known.id == thread.id) {
            return;
        }
        if self.one_by_one {
            self.end_thread(self.current);
        }
        let (threads, untimed) = (&mut self.threads, &self.untimed);
        self.current = *self.by_id.entry(thread.id).or_insert_with(|| {
            let next = first_number(thread.counts.as_ref());
            threads.push(ThreadState {
                id: thread.id,
                stack: CallStack::new().with_untimed(untimed.clone()),
                numbers: Numbers { next, events: 0 },
                cpu: None,
            });
            threads.len() - 1
        });
    }

    fn calls(&mut self, calls: &[Call]) {
        if self.threads.is_empty() {
            self.thread(&Thread::default());
        }
        if self.out.is_closed {
            return;
        }
        let thread = &mut self.threads[self.current];
        let mut receiver = Receiver {
            out: &mut self.out,
            tid: thread.id,
            states: self.states,
            record: thread.numbers.next,
        };
        for call in calls {
            if call.edge == Edge::Entry {
                let (slot, batch) = receiver.out.slot();
                let data = Data {
                    seq: (!call.synthetic).then_some(receiver.record),
                    cpu: thread.cpu,
                    slot,
                    batch,
                    extra: None,
                };
                thread.stack.enter(call, data);
            } else {
                thread.stack.exit(call, &mut receiver);
            }
            receiver.record += i64::from(!call.synthetic);
        }
        thread.numbers.next = receiver.record;
        thread.numbers.events = 0;
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        if let Mark::Note { time, kind, body } = *mark {
            return self.note(time, kind, body);
        }
        let Some(thread) = self.threads.get_mut(self.current) else {
            return;
        };
        match *mark {
            Mark::Cpu { cpu, .. } => thread.cpu = i32::try_from(cpu.0).ok(),
            Mark::Lost { records } => {
                thread.stack.lose();
                let records = i64::try_from(records).unwrap_or(i64::MAX);
                thread.numbers.next = thread.numbers.next.saturating_add(records).min(1 << 60);
            }
            Mark::Break { .. } => thread.stack.doubt(),
            Mark::ShortCalls { time, ticks, .. } => {
                thread.stack.short_calls(time, ticks);
            }
            _ => {}
        }
    }
}

/// The number of a thread's first record that is in the trace: those before it are overwritten.
pub(crate) fn first_number(counts: Option<&Counts>) -> i64 {
    let overwritten = counts.map_or(0, |counts| counts.overwritten);
    i64::try_from(overwritten).unwrap_or(i64::MAX).min(1 << 60)
}
