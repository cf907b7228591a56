//! How long a thread was in which state, by the [`Schedule`] of its trace. If the states of a stretch of time are known
//! only in part, this file must never give times for it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::model::{CpuId, Schedule, State, Switch, ThreadId, Ticks};

/// The time that a thread spent in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On a CPU.
    pub running: Ticks,
    /// Taken from its CPU.
    pub preempted: Ticks,
    /// Waiting, for something or then for a CPU.
    pub waiting: Ticks,
}

impl Spent {
    /// The time in that state.
    #[must_use]
    pub fn in_state(&self, state: State) -> Ticks {
        match state {
            State::Running => self.running,
            State::Preempted => self.preempted,
            State::Waiting => self.waiting,
        }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Ticks {
        Ticks(self.running.0 + self.preempted.0 + self.waiting.0)
    }

    /// This and the other.
    #[must_use]
    pub fn plus(&self, other: &Spent) -> Spent {
        Spent {
            running: Ticks(self.running.0 + other.running.0),
            preempted: Ticks(self.preempted.0 + other.preempted.0),
            waiting: Ticks(self.waiting.0 + other.waiting.0),
        }
    }

    /// This less the other; 0 where that is more.
    #[must_use]
    pub fn less(&self, other: &Spent) -> Spent {
        Spent {
            running: self.running.since(other.running),
            preempted: self.preempted.since(other.preempted),
            waiting: self.waiting.since(other.waiting),
        }
    }
}

/// A stretch of time in which a thread was in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    /// From when.
    pub from: Ticks,
    /// Until when.
    pub until: Ticks,
    /// The state. `None`: not known.
    pub state: Option<State>,
    /// The CPU: where the thread runs, or where it ran last.
    pub cpu: Option<CpuId>,
}

/// The states of all threads. 24 bytes of memory for each switch.
#[derive(Clone, Debug, Default)]
pub struct States {
    threads: HashMap<ThreadId, Arc<Line>>,
}

/// The known states in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StretchStates {
    /// The time in each state.
    pub spent: Spent,
    /// The rest of the time.
    pub unknown: Ticks,
}

/// One thread's states, for a reader that goes along its time: no search as long as the thread stays in a state.
#[derive(Clone, Debug)]
pub struct StateCursor {
    line: Arc<Line>,
    now: Stay,
}

/// One thread. `sums` at a place is the time in each state before that place's time.
#[derive(Clone, Debug, Default)]
struct Line {
    stays: Vec<Stay>,
    sums: Vec<Sums>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    spent: Spent,
    unknown: u64,
}

impl States {
    /// The states of all threads, from a trace's schedule.
    #[must_use]
    pub fn new(schedule: &Schedule) -> States {
        let mut switches: Vec<&Switch> = schedule.switches.iter().collect();
        switches.sort_by_key(|switch| switch.time);
        let mut threads: HashMap<ThreadId, Line> = HashMap::new();
        // The latest time from which the state of every thread was unknown: the list begins there again.
        let mut anew = None;
        let mut on_cpu: HashMap<CpuId, ThreadId> = HashMap::new();
        for switch in switches {
            if switch.thread == ThreadId(0) {
                for line in threads.values_mut() {
                    line.go_on(switch.time, switch.to, None);
                }
                anew = Some(switch.time);
                on_cpu.clear();
                continue;
            }
            // A CPU runs one thread at a time. If another thread still seems to run there, it has left the CPU without
            // a switch in the trace. It may have ended.
            if switch.to == Some(State::Running) && !schedule.is_complete {
                let last = on_cpu.insert(switch.cpu, switch.thread);
                if let Some(last) = last.filter(|last| *last != switch.thread) {
                    threads
                        .entry(last)
                        .or_default()
                        .left(switch.time, switch.cpu);
                }
            }
            let line = threads.entry(switch.thread).or_default();
            // A thread that leaves a CPU had it until then.
            let before = match switch.to {
                Some(State::Preempted | State::Waiting) => Some(State::Running),
                Some(State::Running) | None => None,
            };
            let is_unknown = line.stays.last().is_none_or(|stay| stay.state.is_none());
            let is_implied = is_unknown && !schedule.is_complete;
            if let (true, Some(before), Some(from)) = (is_implied, before, anew) {
                let from = line.stays.last().map_or(from, |stay| stay.from);
                line.stays.pop();
                line.go_on(from, Some(before), Some(switch.cpu));
            }
            line.go_on(switch.time, switch.to, Some(switch.cpu));
        }
        let threads = threads.into_iter().map(|(thread, mut line)| {
            line.add_up();
            (thread, Arc::new(line))
        });
        States {
            threads: threads.collect(),
        }
    }

    /// Whether no state of any thread is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// The threads of which anything is known, in the order of their numbers.
    #[must_use]
    pub fn threads(&self) -> Vec<ThreadId> {
        let mut threads: Vec<ThreadId> = self.threads.keys().copied().collect();
        threads.sort_unstable();
        threads
    }

    /// The stays of a thread that overlap a stretch of time, cut to it.
    pub fn between(
        &self,
        thread: ThreadId,
        from: Ticks,
        until: Ticks,
    ) -> impl Iterator<Item = Stay> + '_ {
        let line = self.threads.get(&thread);
        let first = line.map_or(0, |line| line.place(from).unwrap_or(0));
        let stays = line.and_then(|line| line.stays.get(first..)).unwrap_or(&[]);
        let stays = stays.iter().take_while(move |stay| stay.from < until);
        let stays = stays.map(move |stay| Stay {
            from: stay.from.max(from),
            until: stay.until.min(until),
            ..*stay
        });
        stays.filter(|stay| stay.from < stay.until)
    }

    /// The states of a thread in order of time, each until the next one begins.
    pub fn stays(&self, thread: ThreadId) -> impl Iterator<Item = &Stay> {
        self.stay_list(thread).iter()
    }

    /// The same as a slice.
    pub(crate) fn stay_list(&self, thread: ThreadId) -> &[Stay] {
        let line = self.threads.get(&thread);
        line.map_or(&[], |line| &line.stays)
    }

    /// The states of a thread from its first moment on. If a thread has no switches, its states are unknown.
    #[must_use]
    pub fn cursor(&self, thread: ThreadId) -> StateCursor {
        let line = self.threads.get(&thread).cloned().unwrap_or_default();
        let now = line.stay(Ticks(0));
        StateCursor { line, now }
    }

    /// The known states of a thread from one moment to another.
    #[must_use]
    pub fn in_stretch(&self, thread: ThreadId, from: Ticks, until: Ticks) -> StretchStates {
        self.cursor(thread).in_stretch(from, until)
    }

    /// The part of a schedule that lies in a stretch of time. `schedule` is the one that these states were made from.
    /// The states at the beginning of the stretch become switches there. At its end, all states become unknown, unless
    /// `until` is [`u64::MAX`].
    #[must_use]
    pub fn cut(&self, schedule: &Schedule, from: Ticks, until: Ticks) -> Schedule {
        let all = |time| Switch {
            time,
            thread: ThreadId(0),
            cpu: CpuId(0),
            to: None,
        };
        let mut cut = Schedule {
            is_complete: schedule.is_complete,
            ..Schedule::default()
        };
        if !schedule.switches.is_empty() {
            cut.switches.push(all(from));
            let begin = self.threads().into_iter().filter_map(|thread| {
                let stay = self.at(thread, from)?;
                Some(Switch {
                    time: from,
                    thread,
                    cpu: stay.cpu?,
                    to: Some(stay.state?),
                })
            });
            cut.switches.extend(begin);
            let is_inside = |switch: &&Switch| from < switch.time && switch.time < until;
            let inside = schedule.switches.iter().filter(is_inside);
            cut.switches.extend(inside);
            if until < Ticks(u64::MAX) {
                cut.switches.push(all(until));
            }
        }
        let is_inside = |time: Ticks| from <= time && time <= until;
        let samples = schedule.samples.iter();
        cut.samples
            .extend(samples.filter(|sample| is_inside(sample.time)));
        cut.modules.clone_from(&schedule.modules);
        let accounts = schedule.accounts.iter();
        cut.accounts
            .extend(accounts.filter(|account| is_inside(account.time)));
        cut
    }

    /// The state at a moment, and from when until when it lasts.
    #[must_use]
    pub fn at(&self, thread: ThreadId, time: Ticks) -> Option<&Stay> {
        let line = self.threads.get(&thread)?;
        line.stays.get(line.place(time)?)
    }

    /// The time that a thread spent in each state from one moment to another. `None`: a part of it is not known.
    #[must_use]
    pub fn spent(&self, thread: ThreadId, from: Ticks, until: Ticks) -> Option<Spent> {
        let line = self.threads.get(&thread)?;
        let first = line.until(from)?;
        let last = line.until(until)?;
        (first.unknown == last.unknown).then(|| last.spent.less(&first.spent))
    }
}

impl StateCursor {
    /// The state of the moment that was reached last, and from when until when it lasts.
    #[inline]
    #[must_use]
    pub fn current(&self) -> &Stay {
        &self.now
    }

    /// Whether the thread is still in that state.
    #[inline]
    #[must_use]
    pub fn lasts(&self, time: Ticks) -> bool {
        self.now.from <= time && time < self.now.until
    }

    /// Goes to that moment.
    pub fn reach(&mut self, time: Ticks) {
        if !self.lasts(time) {
            self.now = self.line.stay(time);
        }
    }

    /// The known states in a stretch of time.
    #[must_use]
    pub fn in_stretch(&self, from: Ticks, until: Ticks) -> StretchStates {
        let (first, last) = (self.line.sums(from), self.line.sums(until));
        StretchStates {
            spent: last.spent.less(&first.spent),
            unknown: Ticks(last.unknown.saturating_sub(first.unknown)),
        }
    }
}

impl Line {
    /// The state at a moment. Before the first switch, the state is unknown.
    fn stay(&self, time: Ticks) -> Stay {
        let place = self.place(time).and_then(|place| self.stays.get(place));
        place.copied().unwrap_or(Stay {
            from: Ticks(0),
            until: self
                .stays
                .first()
                .map_or(Ticks(u64::MAX), |first| first.from),
            state: None,
            cpu: None,
        })
    }

    /// The sums of all time before `time`, with that before the first switch.
    fn sums(&self, time: Ticks) -> Sums {
        self.until(time).unwrap_or(Sums {
            unknown: time.0,
            ..Sums::default()
        })
    }

    /// From `time` on, the thread is in that state.
    fn go_on(&mut self, time: Ticks, state: Option<State>, cpu: Option<CpuId>) {
        let cpu = cpu.or_else(|| self.stays.last()?.cpu);
        if let Some(last) = self.stays.last_mut() {
            last.until = time;
            if last.state == state && last.cpu == cpu {
                last.until = Ticks(u64::MAX);
                return;
            }
        }
        self.stays.push(Stay {
            from: time,
            until: Ticks(u64::MAX),
            state,
            cpu,
        });
    }

    /// Another thread runs on that CPU.
    fn left(&mut self, time: Ticks, cpu: CpuId) {
        let is_there = |stay: &Stay| stay.state == Some(State::Running) && stay.cpu == Some(cpu);
        if self.stays.last().is_some_and(is_there) {
            self.go_on(time, None, None);
        }
    }

    fn add_up(&mut self) {
        let mut sums = Sums {
            unknown: self.stays.first().map_or(0, |first| first.from.0),
            ..Sums::default()
        };
        self.sums = Vec::with_capacity(self.stays.len());
        for stay in &self.stays {
            self.sums.push(sums);
            sums.add(stay.state, stay.until.since(stay.from).0);
        }
    }

    /// The stay of that moment: the last that begins at or before it.
    fn place(&self, time: Ticks) -> Option<usize> {
        let behind = self.stays.partition_point(|stay| stay.from <= time);
        behind.checked_sub(1)
    }

    /// The sums of all time before `time`.
    fn until(&self, time: Ticks) -> Option<Sums> {
        let place = self.place(time)?;
        let (stay, mut sums) = (self.stays.get(place)?, *self.sums.get(place)?);
        sums.add(stay.state, time.since(stay.from).0);
        Some(sums)
    }
}

impl Sums {
    fn add(&mut self, state: Option<State>, ticks: u64) {
        let sum = match state {
            Some(State::Running) => &mut self.spent.running.0,
            Some(State::Preempted) => &mut self.spent.preempted.0,
            Some(State::Waiting) => &mut self.spent.waiting.0,
            None => &mut self.unknown,
        };
        *sum = sum.saturating_add(ticks);
    }
}

#[cfg(test)]
mod tests;
