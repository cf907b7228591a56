//! The states of threads, read: two timelines of each thread become context switches, of which [`crate::states`] makes
//! the same states again.
//!
//! A history does not contain the list of switches, but only the states that follow from it. A list that is made from
//! the states must give these states again. Three rules of [`crate::states`] would change them, and this file adds
//! switches against each:
//!
//! - At a time of `states_anew` (meta.json), the state of every thread becomes unknown. So a thread that keeps its
//!   state gets a switch to this state at that time. A thread that leaves its CPU next needs no such switch.
//! - A thread that leaves a CPU is taken to have run there since its state became unknown. If the history does not say
//!   so, the thread gets a switch to the CPU at the moment at which it leaves it.
//! - A thread that gets a CPU takes it from the thread that has it. If both have the CPU in the history, the next
//!   change of one of them states that it had the CPU until then. If that change can't state it, a wait of no length
//!   does.

use std::collections::{HashMap, HashSet};

use super::record::{Interval, Value};
use super::tree::Role;
use crate::model::{CpuId, State, Switch, ThreadId, Ticks};

/// The state of a status. `None`: no status has this number.
fn state_of(status: i64) -> Option<Option<State>> {
    Some(match status {
        // Unknown.
        0 => None,
        // Blocked; of unknown reason.
        1 | 6 => Some(State::Waiting),
        // In user mode; in a system call; interrupted, on its CPU.
        2..=4 => Some(State::Running),
        5 => Some(State::Preempted),
        _ => return None,
    })
}

/// A value until another time, inclusive.
#[derive(Clone, Copy, Debug)]
struct Span<T> {
    start: i64,
    end: i64,
    value: T,
}

/// The timelines of one thread.
#[derive(Clone, Debug, Default)]
struct Lines {
    states: Vec<Span<State>>,
    cpus: Vec<Span<u32>>,
    /// Where the first status is, in history.bin.
    offset: u64,
}

/// A change of a thread's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Change {
    time: u64,
    state: Option<State>,
    cpu: u32,
}

/// Collects the timelines.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    threads: &'a [u64],
    /// A value of a run queue was no number of a CPU.
    lines: HashMap<u32, Lines>,
    /// A value for a CPU was no number of a CPU.
    has_bad_cpu: bool,
}

impl<'a> Collector<'a> {
    /// For the threads of a tree.
    pub(super) fn new(threads: &'a [u64]) -> Collector<'a> {
        Collector {
            threads,
            lines: HashMap::new(),
            has_bad_cpu: false,
        }
    }

    /// Takes the next interval of the history. Returns the fault of the interval, if it has one.
    #[inline]
    pub(super) fn add(&mut self, role: Role, interval: &Interval, offset: u64) -> Option<String> {
        match role {
            Role::Status(thread) | Role::RunQueue(thread) if interval.value != Value::Null => {
                self.take(thread, role, interval, offset)
            }
            _ => None,
        }
    }

    fn take(
        &mut self,
        thread: u32,
        role: Role,
        interval: &Interval,
        offset: u64,
    ) -> Option<String> {
        let &id = self.threads.get(thread as usize)?;
        let (start, end) = (interval.start, interval.end);
        let wrong = |what: &str| Some(format!("thread {id} has {what}; that is left out"));
        if id == 0 {
            return Some("thread 0 is no thread of a program; its state is left out".into());
        }
        let Value::Int(number) = interval.value else {
            return wrong("a status that is no whole number");
        };
        let lines = self.lines.entry(thread).or_default();
        if matches!(role, Role::RunQueue(_)) {
            let Ok(value) = u32::try_from(number) else {
                self.has_bad_cpu = true;
                return wrong(&format!("CPU {number}"));
            };
            if lines.cpus.last().is_some_and(|last| last.end >= start) {
                return wrong("two CPUs at once");
            }
            lines.cpus.push(Span { start, end, value });
            return None;
        }
        let Some(state) = state_of(number) else {
            return wrong(&format!("status {number}, which is none of 0 to 6"));
        };
        if let Some(value) = state {
            if lines.states.last().is_some_and(|last| last.end >= start) {
                return wrong("two states at once");
            }
            if lines.states.is_empty() {
                lines.offset = offset;
            }
            lines.states.push(Span { start, end, value });
        }
        None
    }

    /// The offset of the first thread that has a state at a time at which its CPU is unknown. `None` also if a wrong
    /// CPU was already reported.
    pub(super) fn without_cpu(&self) -> Option<u64> {
        if self.has_bad_cpu {
            return None;
        }
        let lacks = |lines: &&Lines| {
            let mut cpus = lines.cpus.iter().peekable();
            lines.states.iter().any(|state| {
                let mut at = state.start;
                while let Some(cpu) = cpus.peek().filter(|cpu| cpu.start <= at) {
                    if cpu.end >= state.end {
                        return false;
                    }
                    at = at.max(cpu.end.saturating_add(1));
                    cpus.next();
                }
                true
            })
        };
        let found = self.lines.values().filter(lacks);
        found.map(|lines| lines.offset).min()
    }

    /// The switches, in order of time. `end`: the end of the history. `anew`: the times from which all states were
    /// unknown.
    pub(super) fn switches(self, end: i64, anew: &[u64]) -> Vec<Switch> {
        let mut threads: Vec<(ThreadId, Vec<Change>)> = Vec::with_capacity(self.lines.len());
        for (thread, lines) in &self.lines {
            if let Some(id) = self.threads.get(*thread as usize) {
                threads.push((ThreadId(*id), lines.changes(end)));
            }
        }
        threads.sort_unstable_by_key(|(id, _)| *id);
        if threads.iter().all(|(_, changes)| changes.is_empty()) {
            return Vec::new();
        }
        Maker::new(&threads, anew).make()
    }
}

/// The values of a timeline as changes. `None`: from then on there is no value.
fn edges<T: Copy + PartialEq>(spans: &[Span<T>], end: i64) -> Vec<(i64, Option<T>)> {
    let mut out: Vec<(i64, Option<T>)> = Vec::with_capacity(spans.len());
    for (nth, span) in spans.iter().enumerate() {
        if out.last().is_none_or(|(_, last)| *last != Some(span.value)) {
            out.push((span.start, Some(span.value)));
        }
        let next = spans.get(nth + 1).map(|next| next.start);
        let after = span.end.saturating_add(1);
        // A value at the end of the history does not end there.
        if next.map_or(span.end < end, |next| next > after) {
            out.push((after, None));
        }
    }
    out
}

impl Lines {
    fn changes(&self, end: i64) -> Vec<Change> {
        let (states, cpus) = (edges(&self.states, end), edges(&self.cpus, end));
        let (mut states, mut cpus) = (states.into_iter().peekable(), cpus.into_iter().peekable());
        let (mut state, mut cpu, mut last) = (None, None, None);
        let mut out: Vec<Change> = Vec::new();
        loop {
            let times = [
                states.peek().map(|next| next.0),
                cpus.peek().map(|next| next.0),
            ];
            let Some(now) = times.into_iter().flatten().min() else {
                return out;
            };
            while let Some((_, next)) = states.next_if(|next| next.0 == now) {
                state = next;
            }
            while let Some((_, next)) = cpus.next_if(|next| next.0 == now) {
                cpu = next;
            }
            last = cpu.or(last);
            let Some(last) = last else { continue };
            let change = Change {
                time: u64::try_from(now).unwrap_or(0),
                state: state.filter(|_| cpu.is_some()),
                cpu: last,
            };
            match out.last_mut() {
                Some(before) if before.time == change.time => *before = change,
                Some(before) if (before.state, before.cpu) == (change.state, change.cpu) => {}
                _ => out.push(change),
            }
        }
    }
}

/// Makes the list of switches.
struct Maker<'a> {
    threads: &'a [(ThreadId, Vec<Change>)],
    anew: &'a [u64],
    /// The place of each thread's last change so far.
    now: Vec<Option<usize>>,
    /// Whether the list has that change.
    is_listed: Vec<bool>,
    /// The latest time from which all states were unknown.
    lost: Option<u64>,
    /// The time of the last change.
    last: u64,
    /// Threads that run, although the list states this only with their next change.
    deferred: Vec<bool>,
    /// A CPU that no thread has at any time.
    no_cpu: u32,
    /// The thread that got each CPU last.
    on_cpu: HashMap<u32, usize>,
    out: Vec<Switch>,
    /// How many more switches may repeat a state. A list that was written once needs few.
    repeats: usize,
}

/// A thread and the place of one of its changes.
type ChangePosition = (usize, usize);

impl<'a> Maker<'a> {
    fn new(threads: &'a [(ThreadId, Vec<Change>)], anew: &'a [u64]) -> Maker<'a> {
        let changes = || threads.iter().flat_map(|(_, changes)| changes);
        let all = changes().count();
        let cpus: HashSet<u32> = changes().map(|change| change.cpu).collect();
        Maker {
            threads,
            anew,
            now: vec![None; threads.len()],
            is_listed: vec![false; threads.len()],
            lost: None,
            last: changes().map(|change| change.time).max().unwrap_or(0),
            deferred: vec![false; threads.len()],
            no_cpu: (0..=u32::MAX)
                .rev()
                .find(|cpu| !cpus.contains(cpu))
                .unwrap_or(0),
            on_cpu: HashMap::new(),
            out: Vec::with_capacity(all),
            repeats: all.saturating_mul(4).saturating_add(1 << 12),
        }
    }

    fn change(&self, (thread, nth): ChangePosition) -> Option<Change> {
        self.threads.get(thread)?.1.get(nth).copied()
    }

    /// Whether a thread that runs from this change on leaves that CPU next, and so says that it ran.
    fn leaves(&self, at: ChangePosition) -> bool {
        let (Some(now), Some(next)) = (self.change(at), self.change((at.0, at.1 + 1))) else {
            return false;
        };
        let waits = matches!(next.state, Some(State::Waiting | State::Preempted));
        now.state == Some(State::Running) && waits && next.cpu == now.cpu
    }

    /// Whether the next change of a thread can still state that it ran. Without a next change, the end of all changes
    /// counts.
    fn can_defer(&self, (thread, nth): ChangePosition) -> bool {
        let next = self.change((thread, nth + 1));
        let time = next.map_or(self.last, |next| next.time);
        self.anew.first().is_some_and(|first| *first <= time)
    }

    fn push(&mut self, time: u64, thread: usize, cpu: u32, to: Option<State>) {
        let thread = self.threads[thread].0;
        self.out.push(Switch {
            time: Ticks(time),
            thread,
            cpu: CpuId(cpu),
            to,
        });
    }

    fn make(mut self) -> Vec<Switch> {
        let mut all: Vec<(u64, ChangePosition)> = Vec::with_capacity(self.out.capacity());
        for (thread, (_, changes)) in self.threads.iter().enumerate() {
            let places = changes.iter().enumerate();
            all.extend(places.map(|(nth, change)| (change.time, (thread, nth))));
        }
        all.sort_unstable();
        let mut rest = &all[..];
        let mut anew = self.anew.iter().copied().peekable();
        loop {
            let next = rest.first().map(|(time, _)| *time);
            let Some(time) = [next, anew.peek().copied()].into_iter().flatten().min() else {
                return self.out;
            };
            let count = rest.partition_point(|(at, _)| *at == time);
            let (group, later) = rest.split_at(count);
            rest = later;
            let mut group: Vec<ChangePosition> = group.iter().map(|(_, at)| *at).collect();
            if anew.next_if_eq(&time).is_some() {
                self.all_lost(time, &mut group);
            }
            // Threads leave CPUs before others get them.
            group.sort_by_key(|at| {
                let change = self.change(*at);
                change.is_some_and(|change| change.state == Some(State::Running))
            });
            for (thread, nth) in &group {
                self.now[*thread] = Some(*nth);
                self.is_listed[*thread] = false;
            }
            for at in group {
                self.switch(time, at);
            }
            if time == self.last {
                self.push_deferred(time);
            }
        }
    }

    /// Threads that run until the end.
    fn push_deferred(&mut self, time: u64) {
        for thread in 0..self.threads.len() {
            let now = self.now[thread].and_then(|nth| self.change((thread, nth)));
            if let Some(now) = now.filter(|_| std::mem::take(&mut self.deferred[thread])) {
                self.push(time, thread, now.cpu, Some(State::Waiting));
                self.push(time, thread, now.cpu, now.state);
                self.on_cpu.insert(now.cpu, thread);
            }
        }
    }

    /// At `time` all states become unknown. `group` has the changes of that time. The states that continue are added to
    /// it.
    fn all_lost(&mut self, time: u64, group: &mut Vec<ChangePosition>) {
        let mut changed = vec![false; self.threads.len()];
        for (thread, _) in group.iter() {
            changed[*thread] = true;
        }
        let (mut again, mut later) = (Vec::new(), Vec::new());
        for (thread, is_changed) in changed.into_iter().enumerate() {
            let known = self.now[thread].map(|nth| (thread, nth));
            let known = known.filter(|_| !is_changed && !self.deferred[thread]);
            match known.and_then(|at| Some((at, self.change(at)?.state?))) {
                Some((at, _)) if self.leaves(at) => later.push(thread),
                Some((at, _)) => again.push(at),
                None => {}
            }
        }
        if again.len() > self.repeats {
            return;
        }
        self.repeats -= again.len();
        group.append(&mut again);
        for thread in later {
            self.deferred[thread] = true;
        }
        self.out.push(Switch {
            time: Ticks(time),
            thread: ThreadId(0),
            cpu: CpuId(0),
            to: None,
        });
        self.on_cpu.clear();
        self.lost = Some(time);
    }

    fn switch(&mut self, time: u64, at: ChangePosition) {
        let Some(change) = self.change(at) else {
            return;
        };
        let (thread, cpu) = (at.0, change.cpu);
        self.is_listed[thread] = true;
        let before = at.1.checked_sub(1);
        let before = before.and_then(|nth| self.change((thread, nth)));
        let state_before = before.and_then(|before| before.state);
        let was_unknown = before.is_some() && state_before.is_none();
        let leaves = matches!(change.state, Some(State::Waiting | State::Preempted));
        if let Some(before) = before.filter(|_| std::mem::take(&mut self.deferred[thread])) {
            if !leaves || before.cpu != cpu {
                self.push(time, thread, before.cpu, Some(State::Waiting));
            }
        } else if state_before == Some(State::Running) && change.state == state_before {
            // No switch states that the thread left its CPU.
            self.push(time, thread, before.map_or(cpu, |before| before.cpu), None);
        }
        let other = self.other_on(cpu, thread);
        // Before its first change it had a CPU since that time, too.
        let began = match before {
            Some(_) => self.anew.first().is_some_and(|first| *first <= time),
            None => self.lost.is_some_and(|lost| lost < time),
        };
        if leaves && state_before.is_none() && began {
            let cpu = other.map_or(cpu, |_| self.no_cpu);
            self.push(time, thread, cpu, Some(State::Running));
            self.on_cpu.insert(cpu, thread);
        }
        if change.state == Some(State::Running) {
            match other {
                Some(other) if !self.can_defer(other) && self.can_defer(at) => {
                    if was_unknown {
                        self.push(time, thread, self.no_cpu, change.state);
                    }
                    self.deferred[thread] = true;
                    return self.push(time, thread, cpu, None);
                }
                Some((other, _)) => self.deferred[other] = true,
                None => {}
            }
            self.on_cpu.insert(cpu, thread);
        }
        self.push(time, thread, cpu, change.state);
    }

    /// The other thread that has that CPU and would lose it.
    fn other_on(&self, cpu: u32, thread: usize) -> Option<ChangePosition> {
        let other = self.on_cpu.get(&cpu).copied()?;
        let at = (other, self.now[other]?);
        let has = |change: Change| change.cpu == cpu && change.state == Some(State::Running);
        let is_there = self.is_listed[other] && !self.deferred[other];
        (other != thread && is_there && has(self.change(at)?)).then_some(at)
    }
}
