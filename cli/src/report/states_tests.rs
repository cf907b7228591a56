//! The states of calls: what the engine adds up on its way against a search for each call.

use std::collections::BTreeMap;

use fdr_formats::calls::{CallHandler, CallStack, EndedCall, Exit, OpenCall};
use fdr_formats::model::{Account, CpuId, Schedule, State, Switch};
use fdr_formats::packed::Packed;
use fdr_formats::states::States;
use fdr_formats::{Call, Edge, Function, FunctionId, Sink, Thread, ThreadId, Ticks};

use super::all::ALL as EVERYTHING;
use super::engine::{Engine, Figures, gather};
use super::query::{Key, Selection};
use super::rows::Report;
use super::states::InStates;
use crate::off_cpu::{OffCpu, states_of};
use crate::testing::packed::batches;
use crate::testing::{MemoryTrace, entry, exit, synthetic};

pub(crate) const THREAD: ThreadId = ThreadId(7);

fn switch(time: u64, to: Option<State>) -> Switch {
    let thread = THREAD;
    let (time, cpu) = (Ticks(time), CpuId(0));
    Switch {
        time,
        thread,
        cpu,
        to,
    }
}

/// Changes of state from `from` on, some of them very close, in any order of states.
pub(crate) fn schedule(seed: u64, from: u64) -> Schedule {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |limit: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % limit
    };
    let mut time = from + next(1 << 20);
    let switches = (0..600).map(|_| {
        let most = if next(3) == 0 { 900 } else { 60_000 };
        time += next(most);
        let state = [
            Some(State::Running),
            Some(State::Running),
            Some(State::Preempted),
            Some(State::Waiting),
            None,
        ][next(5) as usize];
        switch(time, state)
    });
    Schedule {
        switches: switches.collect(),
        ..Schedule::default()
    }
}

/// A search for each call.
struct Oracle<'a> {
    states: &'a States,
    untimed: FunctionId,
    root: OffCpu,
    own: BTreeMap<FunctionId, OffCpu>,
    total: BTreeMap<FunctionId, OffCpu>,
}

impl CallHandler<OffCpu> for Oracle<'_> {
    fn missing(&mut self, function: FunctionId, exit: Exit, _: Option<&OffCpu>) -> OffCpu {
        if exit != Exit::Before {
            return OffCpu::default();
        }
        self.total.insert(function, OffCpu::default());
        std::mem::take(&mut self.root)
    }

    fn ended(&mut self, ended: EndedCall<OffCpu>, open: &mut [OpenCall<OffCpu>]) {
        let function = ended.call.function;
        let known: OffCpu = self
            .states
            .in_stretch(THREAD, ended.call.start, ended.end)
            .into();
        let mut around = known;
        if function == self.untimed {
            around = ended.call.data;
        } else {
            let own = self.own.entry(function).or_default();
            own.add(&known);
            own.take(&ended.call.data);
        }
        match open.last_mut() {
            Some(caller) => caller.data.add(&around),
            None => self.root.add(&around),
        }
        if open.iter().all(|open| open.function != function) {
            self.total.entry(function).or_default().add(&known);
        }
    }
}

fn trace(seed: u64, untimed: FunctionId) -> MemoryTrace {
    let mut trace = MemoryTrace::default();
    trace.info.schedule = schedule(seed, 1 << 40);
    trace.info.functions = vec![Function {
        id: untimed,
        untimed: true,
        ..Function::default()
    }];
    trace
}

fn engine(trace: &MemoryTrace) -> Engine {
    let engine = Engine::new(trace, false).with_states(states_of(&trace.info));
    let mut engine = engine;
    engine.thread(&Thread {
        id: THREAD,
        ..Thread::default()
    });
    engine
}

type Sums = BTreeMap<FunctionId, (OffCpu, OffCpu)>;

fn sums(engine: Engine, untimed: FunctionId) -> Sums {
    let figures: Figures = gather(vec![engine], false).expect("little memory");
    let of_each = figures.functions.iter().filter(|(id, _)| **id != untimed);
    of_each
        .map(|(id, stats)| (*id, (stats.own_away, stats.total_away)))
        .collect()
}

#[test]
fn running_sums_equal_searches_by_call() {
    // Where the clock goes back, no sum is right: those seeds are for the next test.
    for seed in (1..90).filter(|seed: &u64| !seed.is_multiple_of(3)) {
        let untimed = FunctionId(if seed % 4 == 0 { 3 } else { 0 });
        let trace = trace(seed, untimed);
        let states = States::new(&trace.info.schedule);
        let mut oracle = Oracle {
            states: &states,
            untimed,
            root: OffCpu::default(),
            own: BTreeMap::new(),
            total: BTreeMap::new(),
        };
        let mut stack = CallStack::new();
        let (mut packed, mut some) = (engine(&trace), engine(&trace));
        for (base, words) in batches(seed, 5000) {
            let (all, _) = Packed::new(base, words.as_flattened());
            packed.packed(&all);
            let mut calls: Vec<Call> = Vec::new();
            all.unpack(|more| calls.extend_from_slice(more));
            calls.chunks(37).for_each(|calls| some.calls(calls));
            for call in &calls {
                match call.edge {
                    Edge::Entry => stack.enter(call, OffCpu::default()),
                    _ => drop(stack.exit(call, &mut oracle)),
                }
            }
        }
        stack.finish(None, &mut oracle);
        let mut wanted = Sums::new();
        for (id, own) in oracle.own {
            wanted.insert(id, (own, oracle.total[&id]));
        }
        assert!(
            wanted
                .values()
                .any(|(own, _)| own.0.iter().all(|ticks| *ticks > 0))
        );
        assert_eq!(sums(packed, untimed), wanted, "{seed}");
        assert_eq!(sums(some, untimed), wanted, "{seed}");
    }
}

#[test]
fn a_clock_that_goes_back_breaks_nothing() {
    for seed in (3..60).step_by(3) {
        let trace = trace(seed, FunctionId(0));
        let mut engine = engine(&trace);
        for (base, words) in batches(seed, 5000) {
            engine.packed(&Packed::new(base, words.as_flattened()).0);
        }
        assert!(!sums(engine, FunctionId(0)).is_empty());
    }
}

const ALL: Selection = Selection {
    sort: Key::Waiting,
    per_thread: true,
    ..EVERYTHING
};

fn report(trace: &MemoryTrace) -> Report {
    let path = std::path::Path::new("memory");
    let figures = Figures::read(path, trace, true).expect("in memory");
    Report::new(&trace.info, figures, &ALL).expect("little memory")
}

fn in_states(spent: [u64; 4]) -> InStates {
    let [running_ns, preempted_ns, waiting_ns, unknown_ns] = spent;
    InStates {
        running_ns,
        preempted_ns,
        waiting_ns,
        unknown_ns,
    }
}

#[test]
fn calls_include_the_states_of_callees() {
    let calls = [
        entry(100, 1),
        entry(200, 2),
        exit(500, 2),
        entry(600, 3),
        exit(650, 3),
        entry(700, 1),
        exit(800, 1),
        synthetic(exit(1000, 1)),
    ];
    let mut trace = MemoryTrace::new(&[(7, &calls), (8, &[entry(100, 2), exit(200, 2)])]);
    trace.info.clock.frequency = 1_000_000_000;
    let all = Switch {
        thread: ThreadId(0),
        ..switch(50, None)
    };
    trace.info.schedule.switches = vec![
        all,
        switch(250, Some(State::Waiting)),
        switch(450, Some(State::Running)),
        switch(720, Some(State::Preempted)),
        switch(730, Some(State::Running)),
        switch(900, None),
    ];
    let report = report(&trace);
    let row = |id: u32| {
        report
            .rows
            .iter()
            .find(|row| row.id == id)
            .expect("it was called")
    };
    let one = row(1).states.expect("states");
    assert_eq!(one.total, in_states([590, 10, 200, 100]));
    assert_eq!(one.own, in_states([440, 10, 0, 100]));
    // Of the other thread, nothing is known.
    let two = row(2).states.expect("states");
    assert_eq!(two.total, in_states([100, 0, 200, 100]));
    assert_eq!(row(3).states.expect("states").own, in_states([50, 0, 0, 0]));
    assert_eq!(report.rows[0].id, 1, "most waiting first, then by name");
    let thread = &report.threads[0];
    assert_eq!(thread.states.spent, Some(in_states([590, 10, 200, 100])));
    assert_eq!(
        report.threads[1].states.spent,
        Some(in_states([0, 0, 0, 100]))
    );
}

#[test]
fn accounts_are_differences_of_first_and_last() {
    let calls = [entry(100, 1), exit(200, 1)];
    let mut trace = MemoryTrace::new(&[(7, &calls)]);
    trace.info.clock.frequency = 1_000_000_000;
    let account = |time, running_ns, run_delay_ns| Account {
        time: Ticks(time),
        thread: THREAD,
        running_ns,
        run_delay_ns,
        times: time,
    };
    trace.info.schedule.accounts = vec![account(900, 5000, 70), account(100, 4000, 50)];
    let alone = report(&trace);
    assert!(!alone.has_states() && alone.rows[0].states.is_none());
    let coarse = alone.threads[0].states.coarse.expect("accounts");
    assert_eq!((coarse.running_ns, coarse.run_delay_ns), (1000, 20));
    assert_eq!((coarse.times, coarse.over_ns), (800, Some(800)));
    trace.info.schedule.accounts.truncate(1);
    let coarse = report(&trace).threads[0].states.coarse.expect("an account");
    assert_eq!((coarse.running_ns, coarse.over_ns), (5000, None));
}
