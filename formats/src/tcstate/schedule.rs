//! The states of threads as attributes, with the names and numbers of Trace Compass's kernel analysis. A trace that
//! knows no context switch has none of these attributes.
//!
//! | attribute | its value |
//! | --- | --- |
//! | `Threads/<tid>` | its status: 1 it waits, 2 it runs, 5 it was preempted; null: not known |
//! | `Threads/<tid>/Current_cpu_rq` | the CPU on which it runs, or ran last |
//! | `CPUs/<n>` | 1: a thread of the program runs there; null: not known, because others may |
//!
//! A stay of less than 1 ns is in no history: of several states in one ns, the last counts.
//!
//! Source of the numbers: `StateValues` of Trace Compass's kernel analysis. It calls them *wait blocked* (1), *run in
//! user mode* (2) and *wait for CPU* (5). A program does not see its system calls and interrupts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashSet};

use super::record::{Kind, Value};
use super::state_system::{Builder, Name, own};
use crate::model::{Clock, State, ThreadId, Ticks, TraceInfo};
use crate::states::{States, Stay};

/// A CPU runs a thread in user mode.
const CPU_RUNS: i64 = 1;

/// The status of a thread.
pub(super) fn status(state: Option<State>) -> Value {
    match state {
        Some(State::Waiting) => Value::Int(1),
        Some(State::Running) => Value::Int(2),
        Some(State::Preempted) => Value::Int(5),
        None => Value::Null,
    }
}

/// A thread is in this state from here on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) time: i64,
    /// The thread's place in the list.
    pub(super) thread: usize,
    pub(super) state: Option<State>,
    pub(super) cpu: Option<u32>,
}

/// One thread's changes.
struct Line<'a> {
    thread: usize,
    stays: &'a [Stay],
    clock: &'a Clock,
}

impl Iterator for Line<'_> {
    type Item = Change;

    fn next(&mut self) -> Option<Change> {
        loop {
            let (stay, rest) = self.stays.split_first()?;
            self.stays = rest;
            let time = nanos(self.clock, stay.from);
            let is_last = |next: &Stay| nanos(self.clock, next.from) > time;
            if stay.from < stay.until && rest.first().is_none_or(is_last) {
                return Some(Change {
                    time,
                    thread: self.thread,
                    state: stay.state,
                    cpu: stay.cpu.map(|cpu| cpu.0),
                });
            }
        }
    }
}

fn nanos(clock: &Clock, ticks: Ticks) -> i64 {
    i64::try_from(clock.nanos(ticks).0).unwrap_or(i64::MAX)
}

/// The changes of all threads in order of time. Memory is one change for each thread.
pub(super) struct Timelines<'a> {
    lines: Vec<(Line<'a>, Option<Change>)>,
    /// Time and place of each thread that has more.
    heap: BinaryHeap<Reverse<(i64, usize)>>,
    changes: Vec<Change>,
}

impl<'a> Timelines<'a> {
    /// Of these threads.
    pub(super) fn new(states: &'a States, clock: &'a Clock, threads: &[ThreadId]) -> Timelines<'a> {
        let (mut lines, mut heap) = (Vec::with_capacity(threads.len()), BinaryHeap::new());
        for (place, thread) in threads.iter().enumerate() {
            let mut line = Line {
                thread: place,
                stays: states.stay_list(*thread),
                clock,
            };
            let first = line.next();
            heap.extend(first.map(|first| Reverse((first.time, place))));
            lines.push((line, first));
        }
        Timelines {
            lines,
            heap,
            changes: Vec::new(),
        }
    }

    /// All changes of the earliest time that still has some, at or before this one.
    pub(super) fn until(&mut self, time: i64) -> Option<(i64, &[Change])> {
        let Reverse((now, _)) = *self.heap.peek().filter(|next| next.0.0 <= time)?;
        self.changes.clear();
        while let Some(Reverse((_, place))) = self.heap.peek().filter(|next| next.0.0 == now) {
            let place = *place;
            self.heap.pop();
            let (line, next) = &mut self.lines[place];
            self.changes.extend(*next);
            *next = line.next();
            self.heap
                .extend(next.map(|next| Reverse((next.time, place))));
        }
        Some((now, &self.changes))
    }
}

/// The first and the last time of a change, and the CPUs on which a thread runs at some time.
pub(super) fn extent(
    states: &States,
    clock: &Clock,
    threads: &[ThreadId],
) -> (Option<(i64, i64)>, HashSet<u32>) {
    let mut times: Option<(i64, i64)> = None;
    let mut cpus = HashSet::new();
    for thread in threads {
        let stays = states.stay_list(*thread);
        for change in (Line {
            thread: 0,
            stays,
            clock,
        }) {
            let (first, last) = times.unwrap_or((change.time, change.time));
            times = Some((first.min(change.time), last.max(change.time)));
            if change.state == Some(State::Running) {
                cpus.extend(change.cpu);
            }
        }
    }
    (times, cpus)
}

impl Builder {
    /// Writes the changes of threads at `time`, which is not before an earlier change.
    pub(super) fn states(&mut self, time: i64, changes: &[Change]) {
        self.engine.advance(time);
        // The CPUs that a thread comes to or leaves. Their values are computed after all threads have moved.
        let mut touched = Vec::new();
        for change in changes {
            let runs = change.state == Some(State::Running);
            let cpu = change.cpu.filter(|_| runs).map(|cpu| self.cpu(cpu));
            let Some(thread) = self.threads.get_mut(change.thread) else {
                continue;
            };
            own(thread, &mut self.engine, &mut self.threads_key);
            if thread.run_queue == 0 {
                let word = Name::Word("Current_cpu_rq");
                thread.run_queue = self.engine.create(thread.own, word, Kind::Int);
            }
            self.engine.set(thread.own, status(change.state));
            self.engine.set(thread.run_queue, cpu_value(change.cpu));
            let before = std::mem::replace(&mut thread.runs_on, cpu);
            if before == cpu {
                continue;
            }
            if let Some(place) = before {
                self.cpus[place].running -= 1;
                touched.push(place);
            }
            if let Some(place) = cpu {
                self.cpus[place].running += 1;
                touched.push(place);
            }
        }
        for place in touched {
            let cpu = &self.cpus[place];
            self.engine.set(cpu.own, cpu_status(cpu.running));
        }
    }
}

/// A value, and since when it is that: `None`: since the start.
pub(super) type Since = (Option<i64>, Value);

/// The attributes of states at a time: all that the trace ever has.
#[derive(Debug, Default)]
pub(super) struct StatesAt {
    /// The first time at which a state is known.
    pub(super) first: Option<i64>,
    /// By thread: its status, and its CPU.
    pub(super) threads: BTreeMap<ThreadId, [Since; 2]>,
    /// By number: a CPU's status.
    pub(super) cpus: BTreeMap<u32, Since>,
}

impl StatesAt {
    /// The state of a trace at a time in ns.
    pub(super) fn new(info: &TraceInfo, time: i64) -> StatesAt {
        let states = States::new(&info.schedule);
        let threads = states.threads();
        let (extent, cpus) = extent(&states, &info.clock, &threads);
        let start = extent.map_or(0, |(first, _)| first);
        let with_status = threads.iter().map(|id| (*id, true));
        let mut builder = Builder::new(start, with_status, cpus.clone());
        let mut timelines = Timelines::new(&states, &info.clock, &threads);
        let mut then = None;
        while let Some((now, changes)) = timelines.until(i64::MAX) {
            if now > time && then.is_none() {
                then = Some(builder.engine.attributes().to_vec());
            }
            builder.states(now, changes);
            builder.engine.bytes.clear();
        }
        let all = builder.engine.attributes();
        let then = then.as_deref().unwrap_or(all);
        let value = |key: u32| match then.get(key as usize) {
            Some(known) if known.value != Value::Null || known.since > start => {
                (Some(known.since), known.value)
            }
            _ => (None, Value::Null),
        };
        // A thread without a key has no state for as long as 1 ns.
        let threads = builder.threads.iter().filter(|thread| thread.own != 0);
        let cpus = cpus.into_iter();
        StatesAt {
            first: extent.map(|(first, _)| first),
            threads: threads
                .map(|thread| (thread.id, [value(thread.own), value(thread.run_queue)]))
                .collect(),
            cpus: cpus
                .map(|number| {
                    (
                        number,
                        builder.cpu_key(number).map_or((None, Value::Null), value),
                    )
                })
                .collect(),
        }
    }
}

/// The CPU of a thread.
fn cpu_value(cpu: Option<u32>) -> Value {
    cpu.map_or(Value::Null, |cpu| Value::Int(cpu.into()))
}

/// The status of a CPU on which `running` threads of the program run.
fn cpu_status(running: u32) -> Value {
    match running {
        0 => Value::Null,
        _ => Value::Int(CPU_RUNS),
    }
}
