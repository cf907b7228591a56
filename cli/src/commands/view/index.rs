//! What the page knows of a trace: the calls of each thread at several resolutions, gaps, events, and places from which
//! the trace can be read again. It is made in one pass over the trace, while pictures of what is known already are drawn.
//! Must never match calls by itself, nor hold a lock while the trace is read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use fdr_formats::calls::{CallStack, EdgeStatus, Ended, Open, Untimed, untimed};
use fdr_formats::notes::{FieldValue, Form, Note, NoteKind};
use fdr_formats::source::{Complaints, Part, Position};
use fdr_formats::{Call, Diagnostic, Edge, Error, Mark, Sink, Source, Thread, ThreadId, Ticks};

use super::pyramid::{CLIPPED, Item, OPEN, Pyramid};
use crate::damage::KEPT;
use crate::{trace, ui};

/// Bytes of the trace from one place to the next from which it can be read.
const STRETCH: u64 = 256 << 10;
/// Parts that a worker decodes before it looks where work is due.
const TURN: usize = 16;
/// Events, counters and gaps of a thread that are kept.
const MOST_SIGNS: usize = 200_000;

/// A call that is open at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) start: u64,
    pub(super) function: u32,
    pub(super) is_measured: bool,
}

/// A place from which a lane can be read.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) position: Position,
    /// The time of the last record before.
    pub(super) time: u64,
    pub(super) open: Box<[Frame]>,
    pub(super) cpu: Option<u32>,
}

/// What stands beside the calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Sign {
    /// So many records are missing up to that time.
    Gap { until: u64, records: u64 },
    /// The clock began anew.
    Break,
    /// An event.
    Event { name: u32 },
    /// A counter's new value.
    Counter { name: u32, value: f64 },
}

/// One thread.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) pyramid: Pyramid,
    /// In order of time, as far as the thread's records are.
    pub(super) places: Vec<Place>,
    pub(super) signs: Vec<(u64, Sign)>,
    /// Signs that were too many to keep.
    pub(super) more_signs: u64,
    /// Calls that are open at the end of what was read.
    pub(super) open: Vec<Frame>,
    /// Its first and last entry or exit.
    pub(super) first: Option<u64>,
    pub(super) last: u64,
    /// The first and the last of its notes.
    pub(super) noted: Option<(u64, u64)>,
    pub(super) calls: u64,
    pub(super) is_done: bool,
}

/// All of a trace.
pub(super) struct Index {
    /// As in [`fdr_formats::TraceInfo::threads`].
    lines: Vec<Mutex<Line>>,
    by_id: HashMap<ThreadId, usize>,
    /// The thread of a lane that can be read from places.
    of_lane: Mutex<HashMap<usize, usize>>,
    /// Bytes that were read, and all.
    done: AtomicU64,
    bytes: u64,
    is_done: AtomicBool,
    trouble: Mutex<Trouble>,
}

/// What went wrong.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble {
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) more: u64,
    /// Why reading ended.
    pub(super) error: Option<String>,
}

impl Index {
    /// An empty one, for so many items in all.
    pub(super) fn new(source: &dyn Source, most: usize) -> Index {
        let threads = &source.info().threads;
        let of_lane: Vec<u64> = (0..source.lanes())
            .map(|lane| source.lane_bytes(lane))
            .collect();
        let bytes: u64 = of_lane.iter().sum();
        let is_lane_a_thread = of_lane.len() == threads.len();
        let line = |(nth, _): (usize, &Thread)| {
            let share = match is_lane_a_thread {
                true => of_lane[nth] as f64 / bytes.max(1) as f64,
                false => 1.0 / threads.len() as f64,
            };
            let most = (most as f64 * share) as usize;
            Mutex::new(Line {
                pyramid: Pyramid::new(most.max(10_000)),
                places: Vec::new(),
                signs: Vec::new(),
                more_signs: 0,
                open: Vec::new(),
                first: None,
                last: 0,
                noted: None,
                calls: 0,
                is_done: false,
            })
        };
        let diagnostics = source.diagnostics().to_vec();
        Index {
            lines: threads.iter().enumerate().map(line).collect(),
            by_id: threads
                .iter()
                .enumerate()
                .map(|(nth, thread)| (thread.id, nth))
                .collect(),
            of_lane: Mutex::default(),
            done: AtomicU64::new(0),
            bytes: bytes.max(1),
            is_done: AtomicBool::new(false),
            trouble: Mutex::new(Trouble {
                diagnostics,
                ..Trouble::default()
            }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// A thread, for a moment.
    pub(super) fn line(&self, thread: usize) -> Option<MutexGuard<'_, Line>> {
        let line = self.lines.get(thread)?;
        Some(line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// How much of the trace was read; 1 is all.
    pub(super) fn progress(&self) -> f64 {
        // Relaxed: a number for people.
        let share = self.done.load(Ordering::Relaxed) as f64 / self.bytes as f64;
        match self.is_done() {
            true => 1.0,
            false => share.min(0.999),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done.load(Ordering::Acquire)
    }

    pub(super) fn trouble(&self) -> MutexGuard<'_, Trouble> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread of a lane, if the lane was read and can be read again from places within.
    pub(super) fn thread_of_lane(&self, lane: usize) -> Option<usize> {
        let of_lane = self.of_lane.lock().unwrap_or_else(PoisonError::into_inner);
        of_lane.get(&lane).copied()
    }

    /// The lane of such a thread.
    pub(super) fn lane_of_thread(&self, thread: usize) -> Option<usize> {
        let of_lane = self.of_lane.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lanes = of_lane.iter();
        lanes.find(|(_, of)| **of == thread).map(|(lane, _)| *lane)
    }

    /// First and last tick of the trace: of its calls, or else of its notes.
    pub(super) fn span(&self) -> Option<(u64, u64)> {
        let join = |one: (u64, u64), other: (u64, u64)| (one.0.min(other.0), one.1.max(other.1));
        let lines = || (0..self.len()).filter_map(|nth| self.line(nth));
        let calls = lines().filter_map(|line| Some((line.first?, line.last)));
        let noted = || lines().filter_map(|line| line.noted).reduce(join);
        calls.reduce(join).or_else(noted)
    }

    /// Reads the whole trace.
    pub(super) fn build(&self, source: &dyn Source) {
        let jobs = (0..source.lanes()).map(|lane| Job::new(self, source, lane));
        let jobs = Mutex::new(jobs.collect::<Vec<_>>());
        let work = || {
            loop {
                // The one that is behind the others, so that the picture grows evenly.
                let job = {
                    let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                    let share = |job: &Job<'_>| job.read as f64 / job.bytes.max(1) as f64;
                    let least = (0..jobs.len())
                        .min_by(|&one, &other| share(&jobs[one]).total_cmp(&share(&jobs[other])));
                    least.map(|nth| jobs.swap_remove(nth))
                };
                let Some(mut job) = job else { return };
                match job.turn(self, source) {
                    Ok(true) => jobs
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(job),
                    Ok(false) => {}
                    Err(error) => self.trouble().error = Some(error.to_string()),
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..ui::jobs() {
                scope.spawn(work);
            }
            work();
        });
        for nth in 0..self.len() {
            if let Some(mut line) = self.line(nth) {
                line.is_done = true;
            }
        }
        self.is_done.store(true, Ordering::Release);
    }
}

/// The reading of a lane.
struct Job<'a> {
    lane: usize,
    bytes: u64,
    read: u64,
    at: Position,
    /// Where parts may end, in order, the next one last.
    cuts: Option<Vec<Position>>,
    complaints: Complaints,
    filler: Filler<'a>,
}

impl<'a> Job<'a> {
    fn new(index: &'a Index, source: &dyn Source, lane: usize) -> Job<'a> {
        Job {
            lane,
            bytes: source.lane_bytes(lane),
            read: 0,
            at: Position::default(),
            cuts: None,
            complaints: Complaints::default(),
            filler: Filler {
                index,
                end: source.info().end,
                one_by_one: trace::has_lane_for_each_thread(source),
                untimed: untimed(source.info()),
                threads: Vec::new(),
                by_id: HashMap::new(),
                current: None,
                has_places: false,
            },
        }
    }

    /// Reads on for a while. Returns whether there is more.
    fn turn(&mut self, index: &Index, source: &dyn Source) -> Result<bool, Error> {
        if self.cuts.is_none() {
            let mut cuts = source.cuts(self.lane, STRETCH)?;
            cuts.reverse();
            self.filler.has_places = !cuts.is_empty();
            self.cuts = Some(cuts);
        }
        let read = AtomicU64::new(0);
        let progress = |bytes: u64| {
            // Relaxed: both are numbers for people.
            read.fetch_add(bytes, Ordering::Relaxed);
            index.done.fetch_add(bytes, Ordering::Relaxed);
        };
        let mut more = true;
        for _ in 0..TURN {
            if !more {
                break;
            }
            self.filler.put_place(self.at);
            let to = self.cuts.as_mut().and_then(Vec::pop);
            let part = Part {
                lane: self.lane,
                from: self.at,
                to,
            };
            self.at =
                source.decode_part(&part, &mut self.filler, &mut self.complaints, &progress)?;
            more = to.is_some();
        }
        self.read += read.into_inner();
        if !more {
            if let Some(rest) = self.complaints.rest() {
                self.filler.diagnostic(rest);
            }
            self.filler.finish_all();
            if let (true, [reading]) = (self.filler.has_places, &self.filler.threads[..]) {
                let mut of_lane = index.of_lane.lock().unwrap_or_else(PoisonError::into_inner);
                of_lane.insert(self.lane, reading.line);
            }
        }
        Ok(more)
    }
}

/// Puts the events of a lane into the index.
struct Filler<'a> {
    index: &'a Index,
    end: Option<Ticks>,
    /// A thread has ended when another one begins.
    one_by_one: bool,
    untimed: Untimed,
    threads: Vec<Reading>,
    by_id: HashMap<ThreadId, usize>,
    current: Option<usize>,
    has_places: bool,
}

/// A thread that is being read.
struct Reading {
    id: ThreadId,
    line: usize,
    stack: CallStack<()>,
    cpu: Option<u32>,
    /// The records that are missing before the next one.
    gap: Option<(u64, u64)>,
}

impl Filler<'_> {
    /// The lane can be read from here.
    fn put_place(&mut self, position: Position) {
        if !self.has_places {
            return;
        }
        let place = |reading: Option<&Reading>| Place {
            position,
            time: reading.map_or(0, |reading| reading.stack.latest().0),
            open: reading.map_or(Box::default(), |reading| frames(&reading.stack).collect()),
            cpu: reading.and_then(|reading| reading.cpu),
        };
        match &self.threads[..] {
            // Which thread it is will be known when the lane begins.
            [] => {}
            [reading] => {
                if let Some(mut line) = self.index.line(reading.line) {
                    if line.places.is_empty() {
                        line.places.push(Place {
                            position: Position::default(),
                            ..place(None)
                        });
                    }
                    line.places.push(place(Some(reading)));
                }
            }
            _ => self.has_places = false,
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
        let mut keep = |ended: Ended<()>, _: &mut [Open<()>]| keep(line, &ended, end);
        reading.stack.finish(end, &mut keep);
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
        let Some(Note::Event {
            name, form, fields, ..
        }) = Note::decode(kind, body)
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
        match (Form::of(form), value) {
            (Some(Form::Counter), Some(value)) => {
                line.put_sign(time.0, Sign::Counter { name, value });
            }
            (Some(Form::Begin | Form::End), _) => {}
            _ => line.put_sign(time.0, Sign::Event { name }),
        }
    }
}

impl Line {
    fn put_sign(&mut self, time: u64, sign: Sign) {
        if self.signs.len() >= MOST_SIGNS {
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
pub(super) fn item_of<T>(ended: &Ended<T>, end: Option<Ticks>) -> Item {
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

fn keep(line: &mut Line, ended: &Ended<()>, end: Option<Ticks>) {
    line.calls += 1;
    line.pyramid.add(ended.depth, item_of(ended, end));
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
        let line = self.index.by_id.get(&thread.id).copied();
        self.current = known.or_else(|| {
            self.threads.push(Reading {
                id: thread.id,
                line: line?,
                stack: CallStack::new().with_untimed(self.untimed.clone()),
                cpu: None,
                gap: None,
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
        for call in calls {
            if call.edge == Edge::Entry {
                reading.stack.enter(call, ());
            } else {
                let mut keep = |ended: Ended<()>, _: &mut [Open<()>]| keep(line, &ended, end);
                reading.stack.exit(call, &mut keep);
            }
        }
        line.first = reading.stack.first().map(|first| first.0);
        line.last = reading.stack.latest().0;
        line.open.clear();
        line.open.extend(frames(&reading.stack));
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        let index = self.index;
        let Some(reading) = self.reading() else {
            return;
        };
        match *mark {
            Mark::Cpu { cpu, .. } => reading.cpu = Some(cpu.0),
            Mark::Lost { records } => {
                // Before the first record nothing is in the middle: the thread begins later.
                if let Some(before) = reading.stack.before() {
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
                let from = reading.stack.before().unwrap_or(time).0;
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
        match trouble.diagnostics.len() < KEPT {
            true => trouble.diagnostics.push(diagnostic),
            false => trouble.more += 1,
        }
    }
}
