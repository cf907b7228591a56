//! Finds the calls and notes that are nearest to a moment, in one pass over the trace that keeps a bounded number of
//! them. The distance of a call is that of its nearest moment. So the calls around a call are at least as near as that
//! call, and are kept with it.

use std::collections::{BinaryHeap, HashMap, VecDeque};

use fdr_formats::calls::{EdgeStatus, EndedCall};
use fdr_formats::model::CpuId;
use fdr_formats::notes::NoteKind;
use fdr_formats::{Diagnostic, FunctionId, ThreadId, Ticks};

use crate::damage::Damage;
use crate::selection::call_options::ChosenCalls;
use crate::stacks::Pass;

/// The bytes of a note that are kept, and the most notes.
const BODY: usize = 4096;
const MAX_NOTES: usize = 10_000;

/// Which calls are kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct NearestQuery<'a> {
    /// The moment.
    pub(super) moment: Ticks,
    /// Nothing that begins after it.
    pub(super) only_before: bool,
    /// The most calls that are kept. As many notes are kept, up to [`MAX_NOTES`].
    pub(super) most: usize,
    /// A thread that has priority. Up to `most` of its calls are kept in addition.
    pub(super) first: Option<ThreadId>,
    /// Calls that `--over` and `--state` leave. `None`: all.
    pub(super) chosen: Option<&'a ChosenCalls>,
}

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Call,
    /// This many calls left no records.
    Short(u64),
}

/// A call. The nearest come first in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NearCall {
    distance: u64,
    /// Open calls around it, as far as they are known.
    pub(super) depth: u32,
    pub(super) thread: ThreadId,
    pub(super) start: Ticks,
    pub(super) end: Ticks,
    /// The call's duration. For an untimed function: the time of the calls inside.
    pub(super) total: u64,
    pub(super) function: FunctionId,
    pub(super) kind: Kind,
    /// It was open when the trace was written.
    pub(super) is_open: bool,
    /// Its entry was measured.
    pub(super) has_entry: bool,
    /// Its exit was measured.
    pub(super) has_exit: bool,
    pub(super) untimed: bool,
    /// At its entry and at its exit.
    pub(super) cpus: [Option<CpuId>; 2],
}

/// A note of the program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NearNote {
    distance: u64,
    pub(super) thread: ThreadId,
    pub(super) time: Ticks,
    /// Its place among the notes of the trace, because notes of a call may have one time.
    pub(super) place: u64,
    /// Open calls around it, as far as they are known.
    pub(super) depth: u32,
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
}

/// What the pass knows of an open call.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenCallFacts {
    cpu: Option<CpuId>,
    /// Open calls with this one.
    depth: u32,
}

/// The nearest items, up to a given number.
#[derive(Debug)]
struct NearestHeap<T> {
    heap: BinaryHeap<T>,
    examined: u64,
}

impl<T: Ord> NearestHeap<T> {
    fn new() -> NearestHeap<T> {
        NearestHeap {
            heap: BinaryHeap::new(),
            examined: 0,
        }
    }

    fn add(&mut self, most: usize, item: T) {
        self.examined += 1;
        if self.heap.len() < most {
            self.heap.push(item);
        } else if let Some(mut farthest) = self.heap.peek_mut()
            && item < *farthest
        {
            *farthest = item;
        }
    }
}

/// The pass.
pub(super) struct Nearest<'a> {
    query: NearestQuery<'a>,
    calls: NearestHeap<NearCall>,
    /// The nearest calls of the thread that has priority.
    first: NearestHeap<NearCall>,
    notes: NearestHeap<NearNote>,
    /// Notes so far, and those that were dropped while they waited.
    place: u64,
    dropped: u64,
    damage: Damage,
    /// Notes of open calls, until it is known whether the call is kept. Empty where all calls are.
    waiting: HashMap<ThreadId, VecDeque<NearNote>>,
    thread: ThreadId,
    cpu: Option<CpuId>,
    cpus: HashMap<ThreadId, Option<CpuId>>,
}

/// What all workers found.
#[derive(Debug, Default)]
pub(super) struct NearestEvents {
    pub(super) calls: Vec<NearCall>,
    pub(super) notes: Vec<NearNote>,
    /// Calls that were looked at.
    pub(super) examined: u64,
    /// Notes that are not shown.
    pub(super) notes_hidden: u64,
    pub(super) damage: Damage,
}

impl<'a> Nearest<'a> {
    pub(super) fn new(query: NearestQuery<'a>) -> Nearest<'a> {
        Nearest {
            query,
            calls: NearestHeap::new(),
            first: NearestHeap::new(),
            notes: NearestHeap::new(),
            place: 0,
            dropped: 0,
            damage: Damage::default(),
            waiting: HashMap::new(),
            thread: ThreadId::default(),
            cpu: None,
            cpus: HashMap::new(),
        }
    }

    /// The nearest of all workers.
    pub(super) fn gather(workers: Vec<Nearest<'_>>, query: &NearestQuery<'_>) -> NearestEvents {
        let mut found = NearestEvents::default();
        let (mut calls, mut first, mut notes) = (Vec::new(), Vec::new(), Vec::new());
        for worker in workers {
            found.examined += worker.calls.examined + worker.first.examined;
            found.notes_hidden += worker.notes.examined + worker.dropped;
            found.damage.join(worker.damage);
            calls.extend(worker.calls.heap);
            first.extend(worker.first.heap);
            notes.extend(worker.notes.heap);
        }
        calls.sort_unstable();
        first.sort_unstable();
        notes.sort_unstable();
        calls.truncate(query.most);
        first.truncate(query.most);
        notes.truncate(query.most);
        // Drops earlier calls of the other threads.
        if let Some(begin) = first.iter().map(|call| call.end).min() {
            calls.retain(|call| call.end >= begin);
        }
        calls.append(&mut first);
        // A note beyond the farthest kept call would stand among calls that are left out.
        if found.examined > calls.len() as u64 {
            let far = calls.iter().map(|call| call.distance).max().unwrap_or(0);
            notes.retain(|note: &NearNote| note.distance <= far);
        }
        found.notes_hidden -= notes.len() as u64;
        (found.calls, found.notes) = (calls, notes);
        found
    }

    fn most_notes(&self) -> usize {
        self.query.most.min(MAX_NOTES)
    }

    fn distance(&self, start: Ticks, end: Ticks) -> Option<u64> {
        let moment = self.query.moment;
        if start > moment {
            return (!self.query.only_before).then(|| start.since(moment).0);
        }
        Some(moment.since(end).0)
    }

    fn is_chosen(&self, near_call: &NearCall) -> bool {
        let has = |chosen: &ChosenCalls| {
            chosen.has(
                near_call.thread,
                near_call.start,
                near_call.end,
                near_call.total,
            )
        };
        self.query.chosen.is_none_or(has)
    }

    fn add(&mut self, near_call: NearCall) {
        match self.query.first == Some(near_call.thread) {
            true => self.first.add(self.query.most, near_call),
            false => self.calls.add(self.query.most, near_call),
        }
    }
}

impl Pass for Nearest<'_> {
    type Data = OpenCallFacts;

    fn thread(&mut self, thread: ThreadId) {
        if thread != self.thread {
            self.cpus.insert(self.thread, self.cpu);
            self.cpu = self.cpus.get(&thread).copied().flatten();
            self.thread = thread;
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        self.damage.add(diagnostic);
    }

    fn cpu(&mut self, cpu: CpuId) {
        self.cpu = Some(cpu);
    }

    fn entered(&mut self, _: FunctionId, caller: OpenCallFacts) -> OpenCallFacts {
        OpenCallFacts {
            cpu: self.cpu,
            depth: caller.depth.saturating_add(1),
        }
    }

    fn ended(&mut self, ended: &EndedCall<OpenCallFacts>, is_open: bool) {
        let (start, end) = (ended.call.start, ended.end.max(ended.call.start));
        // The notes since the call's entry that belong to no call inside it.
        let waiting = self.waiting.get_mut(&self.thread);
        let notes = waiting.map(|notes| {
            let before = notes.partition_point(|note| note.time < start);
            notes.split_off(before)
        });
        let Some(distance) = self.distance(start, end) else {
            return;
        };
        let near_call = NearCall {
            distance,
            depth: u32::try_from(ended.depth).unwrap_or(u32::MAX),
            thread: self.thread,
            start,
            end,
            total: ended.total(),
            function: ended.call.function,
            kind: Kind::Call,
            is_open,
            has_entry: ended.call.entry() == EdgeStatus::Measured,
            has_exit: ended.exit == EdgeStatus::Measured,
            untimed: ended.untimed,
            cpus: [ended.call.data.cpu, self.cpu],
        };
        if self.is_chosen(&near_call) {
            for note in notes.into_iter().flatten() {
                self.notes.add(self.most_notes(), note);
            }
            self.add(near_call);
        }
    }

    fn note(&mut self, caller: OpenCallFacts, time: Ticks, kind: NoteKind, body: &[u8]) {
        self.place += 1;
        if let (Some(distance), Some(body)) =
            (self.distance(time, time), body.get(..body.len().min(BODY)))
        {
            let note = NearNote {
                distance,
                thread: self.thread,
                time,
                place: self.place,
                depth: caller.depth,
                kind: kind as u8,
                body: body.to_vec(),
            };
            if self.query.chosen.is_none_or(ChosenCalls::has_all) {
                self.notes.add(self.most_notes(), note);
                return;
            }
            let waiting = self.waiting.entry(self.thread).or_default();
            if waiting.len() == MAX_NOTES {
                waiting.pop_front();
                self.dropped += 1;
            }
            waiting.push_back(note);
        }
    }

    fn short_calls(&mut self, _: OpenCallFacts, time: Ticks, calls: u64, ticks: u64) {
        let Some(distance) = self.distance(time, time) else {
            return;
        };
        let near_call = NearCall {
            distance,
            depth: u32::MAX,
            thread: self.thread,
            start: time,
            end: time,
            total: ticks,
            function: FunctionId(0),
            kind: Kind::Short(calls),
            is_open: false,
            has_entry: true,
            has_exit: true,
            untimed: false,
            cpus: [self.cpu; 2],
        };
        if self.is_chosen(&near_call) {
            self.add(near_call);
        }
    }
}
