//! What is known of a few threads.

use super::*;
use crate::model::{Cause, Sample};

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
        let time_spent = |from, until| states.spent(ThreadId(7), Ticks(from), Ticks(until));
        assert_eq!(time_spent(0, 50), spent(29, 1, 20));
        assert_eq!(time_spent(12, 12), spent(0, 0, 0));
        assert_eq!(time_spent(12, 31), spent(1, 0, 18));
        assert_eq!(time_spent(40, 51), None, "the list ends at 50");
        assert_eq!(time_spent(60, 70), None);
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
    let time_spent = |from, until| states.spent(ThreadId(7), Ticks(from), Ticks(until));
    assert_eq!(time_spent(0, 20), spent(10, 0, 10));
    assert_eq!(time_spent(0, 21), None);
    assert_eq!(time_spent(20, 30), None);
    assert_eq!(time_spent(30, 35), spent(5, 0, 0));
    // It leaves its CPU at 45, so it had it from 35 on.
    assert_eq!(time_spent(30, 60), spent(15, 0, 15));
}

#[test]
fn courses_tell_known_and_unknown_time() {
    let states = states(&[
        switch(10, 0, None),
        switch(20, 7, Some(State::Waiting)),
        switch(30, 7, Some(State::Running)),
        switch(50, 0, None),
        switch(60, 7, Some(State::Running)),
    ]);
    let mut cursor = states.cursor(ThreadId(7));
    assert_eq!(
        (cursor.current().state, cursor.current().until),
        (None, Ticks(10))
    );
    cursor.reach(Ticks(25));
    assert_eq!(cursor.current().state, Some(State::Waiting));
    assert!(cursor.lasts(Ticks(29)) && !cursor.lasts(Ticks(30)));
    // And back.
    cursor.reach(Ticks(12));
    assert_eq!(cursor.current().state, Some(State::Running));
    let known = |from, until| {
        let known = cursor.in_stretch(Ticks(from), Ticks(until));
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
    let none = states.in_stretch(ThreadId(8), Ticks(3), Ticks(9));
    assert_eq!((none.spent, none.unknown), (Spent::default(), Ticks(6)));
}

#[test]
fn unseen_ends_free_the_cpu() {
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
    let time_spent =
        |thread, from, until| states.spent(ThreadId(thread), Ticks(from), Ticks(until));
    assert_eq!(time_spent(7, 10, 20), spent(10, 0, 0));
    assert_eq!(time_spent(7, 10, 21), None);
    // Thread 8 left the CPU with a known state, which stays. Thread 9 runs on another CPU, so it still runs.
    assert_eq!(time_spent(8, 20, 40), spent(10, 0, 10));
    assert_eq!(time_spent(9, 10, 40), spent(30, 0, 0));
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

#[test]
fn cut_schedules_agree_within_the_stretch() {
    let schedule = Schedule {
        switches: vec![
            switch(0, 0, None),
            switch(10, 7, Some(State::Waiting)),
            switch(30, 7, Some(State::Running)),
            switch(35, 8, None),
            switch(36, 9, Some(State::Preempted)),
            switch(50, 7, Some(State::Preempted)),
            switch(60, 0, None),
        ],
        samples: [19, 20, 40, 41].map(sample).to_vec(),
        ..Schedule::default()
    };
    let whole = States::new(&schedule);
    let cut = whole.cut(&schedule, Ticks(20), Ticks(40));
    assert_eq!(cut.samples, [20, 40].map(sample));
    assert!(
        cut.switches
            .iter()
            .all(|switch| (20..=40).contains(&switch.time.0))
    );
    let part = States::new(&cut);
    for thread in [7, 8, 9].map(ThreadId) {
        for (from, until) in [(20, 40), (25, 33), (33, 40), (36, 39)] {
            let in_stretch = |states: &States| states.in_stretch(thread, Ticks(from), Ticks(until));
            assert_eq!(
                in_stretch(&part),
                in_stretch(&whole),
                "{thread} {from} {until}"
            );
        }
    }
    assert_eq!(
        part.in_stretch(ThreadId(7), Ticks(40), Ticks(50)).unknown,
        Ticks(10)
    );
    assert_eq!(
        part.in_stretch(ThreadId(7), Ticks(10), Ticks(20)).unknown,
        Ticks(10)
    );
    // Without an end, nothing is added there.
    let rest = whole.cut(&schedule, Ticks(20), Ticks(u64::MAX));
    assert_eq!(
        rest.switches.last().map(|switch| switch.time),
        Some(Ticks(60))
    );
}

fn sample(time: u64) -> Sample {
    Sample {
        time: Ticks(time),
        thread: ThreadId(7),
        cpu: CpuId(1),
        cause: Cause::Time,
        address: 1,
    }
}
