//! How long a thread was in which state, by the [`Schedule`] of its trace. This file must never give a time for a stretch of which a part is not known.

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
    pub fn of(&self, state: State) -> Ticks {
        match state {
            State::Running => self.running,
            State::Preempted => self.preempted,
            State::Waiting => self.waiting,
        }
    }

    /// All of it.
    #[must_use]
    pub fn all(&self) -> Ticks {
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

/// What is known of a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// The time in each state.
    pub spent: Spent,
    /// The rest of the time.
    pub unknown: Ticks,
}

/// One thread's states, for a reader that goes along its time: no search as long as the thread stays in a state.
#[derive(Clone, Debug)]
pub struct Course {
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
    /// Of what the trace knows.
    #[must_use]
    pub fn new(schedule: &Schedule) -> States {
        let mut switches: Vec<&Switch> = schedule.switches.iter().collect();
        switches.sort_by_key(|switch| switch.time);
        let mut threads: HashMap<ThreadId, Line> = HashMap::new();
        // The latest place from which nothing was known of all threads: the list begins there anew.
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
            // A CPU runs one thread. One that seems to run on still has left it unseen: it may have ended.
            if switch.to == Some(State::Running) {
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
            if let (true, Some(before), Some(from)) = (is_unknown, before, anew) {
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

    /// Whether nothing is known of any thread.
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
        let line = self.threads.get(&thread);
        line.into_iter().flat_map(|line| &line.stays)
    }

    /// The states of a thread from its first moment on. Of a thread without switches, nothing is known.
    #[must_use]
    pub fn course(&self, thread: ThreadId) -> Course {
        let line = self.threads.get(&thread).cloned().unwrap_or_default();
        let now = line.stay(Ticks(0));
        Course { line, now }
    }

    /// What is known of a thread from one moment to another.
    #[must_use]
    pub fn known(&self, thread: ThreadId, from: Ticks, until: Ticks) -> Known {
        self.course(thread).known(from, until)
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

impl Course {
    /// The state of the moment that was reached last, and from when until when it lasts.
    #[inline]
    #[must_use]
    pub fn now(&self) -> &Stay {
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

    /// What is known of a stretch of time.
    #[must_use]
    pub fn known(&self, from: Ticks, until: Ticks) -> Known {
        let (first, last) = (self.line.sums(from), self.line.sums(until));
        Known {
            spent: last.spent.less(&first.spent),
            unknown: Ticks(last.unknown.saturating_sub(first.unknown)),
        }
    }
}

impl Line {
    /// The state at a moment. Before the first switch, nothing is known.
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
mod tests {
    use super::*;

    fn switch(time: u64, thread: u64, to: Option<State>) -> Switch {
        Switch {
            time: Ticks(time),
            thread: ThreadId(thread),
            cpu: CpuId(1),
            to,
        }
    }

    fn states(switches: &[Switch]) -> States {
        States::new(&Schedule {
            switches: switches.to_vec(),
            ..Schedule::default()
        })
    }

    fn spent(running: u64, preempted: u64, waiting: u64) -> Option<Spent> {
        Some(Spent {
            running: Ticks(running),
            preempted: Ticks(preempted),
            waiting: Ticks(waiting),
        })
    }

    #[test]
    fn the_time_in_each_state() {
        let list = [
            switch(0, 0, None),
            switch(10, 7, Some(State::Waiting)),
            switch(30, 7, Some(State::Running)),
            switch(35, 7, Some(State::Preempted)),
            switch(36, 7, Some(State::Running)),
            switch(50, 0, None),
        ];
        // In any order.
        let back: Vec<Switch> = list.iter().rev().copied().collect();
        for states in [states(&list), states(&back)] {
            let of = |from, until| states.spent(ThreadId(7), Ticks(from), Ticks(until));
            assert_eq!(of(0, 50), spent(29, 1, 20));
            assert_eq!(of(12, 12), spent(0, 0, 0));
            assert_eq!(of(12, 31), spent(1, 0, 18));
            assert_eq!(of(40, 51), None, "the list ends at 50");
            assert_eq!(of(60, 70), None);
            assert_eq!(states.spent(ThreadId(8), Ticks(0), Ticks(1)), None);
            let stay = states.at(ThreadId(7), Ticks(35)).unwrap();
            assert_eq!(stay.state, Some(State::Preempted));
            assert_eq!((stay.from, stay.until), (Ticks(35), Ticks(36)));
        }
    }

    #[test]
    fn nothing_is_guessed_where_switches_were_lost() {
        let states = states(&[
            switch(0, 0, None),
            switch(10, 7, Some(State::Waiting)),
            switch(20, 0, None),
            switch(30, 7, Some(State::Running)),
            switch(35, 0, None),
            switch(45, 7, Some(State::Waiting)),
            switch(60, 0, None),
        ]);
        let of = |from, until| states.spent(ThreadId(7), Ticks(from), Ticks(until));
        assert_eq!(of(0, 20), spent(10, 0, 10));
        assert_eq!(of(0, 21), None);
        assert_eq!(of(20, 30), None);
        assert_eq!(of(30, 35), spent(5, 0, 0));
        // It leaves its CPU at 45, so it had it from 35 on.
        assert_eq!(of(30, 60), spent(15, 0, 15));
    }

    #[test]
    fn a_course_tells_what_is_known_and_how_much_is_not() {
        let states = states(&[
            switch(10, 0, None),
            switch(20, 7, Some(State::Waiting)),
            switch(30, 7, Some(State::Running)),
            switch(50, 0, None),
            switch(60, 7, Some(State::Running)),
        ]);
        let mut course = states.course(ThreadId(7));
        assert_eq!((course.now().state, course.now().until), (None, Ticks(10)));
        course.reach(Ticks(25));
        assert_eq!(course.now().state, Some(State::Waiting));
        assert!(course.lasts(Ticks(29)) && !course.lasts(Ticks(30)));
        // And back.
        course.reach(Ticks(12));
        assert_eq!(course.now().state, Some(State::Running));
        let known = |from, until| {
            let known = course.known(Ticks(from), Ticks(until));
            let spent = known.spent;
            [spent.running, spent.preempted, spent.waiting, known.unknown].map(|ticks| ticks.0)
        };
        assert_eq!(known(4, 70), [40, 0, 10, 16]);
        assert_eq!(known(4, 8), [0, 0, 0, 4]);
        assert_eq!(known(25, 26), [0, 0, 1, 0]);
        let between: Vec<(u64, u64)> = states
            .between(ThreadId(7), Ticks(15), Ticks(35))
            .map(|stay| (stay.from.0, stay.until.0))
            .collect();
        assert_eq!(between, [(15, 20), (20, 30), (30, 35)]);
        assert_eq!(states.between(ThreadId(7), Ticks(5), Ticks(10)).count(), 0);
        assert_eq!(states.threads(), [ThreadId(7)]);
        let none = states.known(ThreadId(8), Ticks(3), Ticks(9));
        assert_eq!((none.spent, none.unknown), (Spent::default(), Ticks(6)));
    }

    #[test]
    fn a_thread_that_ended_unseen_leaves_its_cpu_to_the_next() {
        let on = |cpu, switch: Switch| Switch {
            cpu: CpuId(cpu),
            ..switch
        };
        let running = Some(State::Running);
        let states = states(&[
            switch(0, 0, None),
            switch(10, 7, running),
            on(2, switch(10, 9, running)),
            switch(20, 8, running),
            switch(30, 8, Some(State::Waiting)),
            switch(30, 9, running),
        ]);
        let of = |thread, from, until| states.spent(ThreadId(thread), Ticks(from), Ticks(until));
        assert_eq!(of(7, 10, 20), spent(10, 0, 0));
        assert_eq!(of(7, 10, 21), None);
        // One that left it is where it said, and one on another CPU goes on.
        assert_eq!(of(8, 20, 40), spent(10, 0, 10));
        assert_eq!(of(9, 10, 40), spent(30, 0, 0));
    }

    #[test]
    fn a_thread_that_begins_has_no_state_before() {
        let states = states(&[switch(0, 0, None), switch(10, 7, Some(State::Running))]);
        assert_eq!(states.spent(ThreadId(7), Ticks(5), Ticks(12)), None);
        assert_eq!(
            states.spent(ThreadId(7), Ticks(10), Ticks(12)),
            spent(2, 0, 0)
        );
    }
}
