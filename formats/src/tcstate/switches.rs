//! The states of threads, read: two timelines of each thread become context switches. Their list is complete
//! ([`Schedule::is_complete`]), because a history has each state, and not what it follows from.

use std::collections::HashMap;

use super::record::{Interval, Value};
use super::tree::Role;
use crate::model::{CpuId, Schedule, State, Switch, ThreadId, Ticks};

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

/// Collects the timelines.
#[derive(Debug)]
pub(super) struct Collector<'a> {
    threads: &'a [u64],
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
            Role::Thread(thread) | Role::RunQueue(thread) if interval.value != Value::Null => {
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
            lines.cpus.push(Span { start, end, value });
            return None;
        }
        let Some(state) = state_of(number) else {
            return wrong(&format!("status {number}, which is none of 0 to 6"));
        };
        if let Some(value) = state {
            if lines.states.is_empty() {
                lines.offset = offset;
            }
            lines.states.push(Span { start, end, value });
        }
        None
    }

    /// The switches, in order of time, and the offset of the first thread that has a state without a CPU. `end`: the end
    /// of the history. Without an offset also if a wrong CPU was already reported.
    pub(super) fn finish(self, end: i64) -> (Schedule, Option<u64>) {
        let mut schedule = Schedule {
            is_complete: true,
            ..Schedule::default()
        };
        let mut without_cpu = None;
        for (thread, lines) in &self.lines {
            let Some(id) = self.threads.get(*thread as usize) else {
                continue;
            };
            if !lines.put_switches(ThreadId(*id), end, &mut schedule.switches) {
                without_cpu = without_cpu.into_iter().chain([lines.offset]).min();
            }
        }
        let switches = &mut schedule.switches;
        switches.sort_by_key(|switch| (switch.time, switch.thread));
        (schedule, without_cpu.filter(|_| !self.has_bad_cpu))
    }
}

fn is_running(switch: &Switch) -> bool {
    switch.to == Some(State::Running)
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
    /// Adds the switches of a thread. Returns whether each of its states has a CPU.
    fn put_switches(&self, thread: ThreadId, end: i64, out: &mut Vec<Switch>) -> bool {
        let (states, cpus) = (edges(&self.states, end), edges(&self.cpus, end));
        let (mut states, mut cpus) = (states.into_iter().peekable(), cpus.into_iter().peekable());
        let (mut state, mut cpu, mut last) = (None, None, None);
        let mut has_cpus = true;
        let mut before: Option<Switch> = None;
        loop {
            let times = [
                states.peek().map(|next| next.0),
                cpus.peek().map(|next| next.0),
            ];
            let Some(now) = times.into_iter().flatten().min() else {
                out.extend(before);
                return has_cpus;
            };
            while let Some((_, next)) = states.next_if(|next| next.0 == now) {
                state = next;
            }
            while let Some((_, next)) = cpus.next_if(|next| next.0 == now) {
                cpu = next;
            }
            has_cpus &= state.is_none() || cpu.is_some();
            last = cpu.or(last);
            let Some(last) = last else { continue };
            let next = Switch {
                time: Ticks(u64::try_from(now).unwrap_or(0)),
                thread,
                cpu: CpuId(last),
                to: state.filter(|_| cpu.is_some()),
            };
            let is_same =
                before.is_some_and(|before| (before.to, before.cpu) == (next.to, next.cpu));
            if !is_same {
                // Of several at one time, as times before 0 are, the last counts.
                out.extend(before.filter(|before| before.time < next.time));
                // A thread leaves a CPU before it gets another one.
                let leaves = before.filter(|before| before.to == next.to && is_running(&next));
                out.extend(leaves.map(|before| Switch {
                    time: next.time,
                    to: None,
                    ..before
                }));
                before = Some(next);
            }
        }
    }
}
