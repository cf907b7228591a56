//! Slow tasks of a trace whose tasks are typed by hand. 1 tick = 1 ns.

use fdr_formats::model::FunctionTotals;
use fdr_formats::notes::task_state;
use fdr_formats::tasks::{BUSY, FINISHED};
use fdr_formats::{Thread, lengths};

use super::*;
use crate::commands::slow::tests::ALL;
use crate::testing::functions;

const REQUEST: FunctionId = FunctionId(1);
const QUERY: FunctionId = FunctionId(2);

fn task(function: FunctionId, parent: u64, time: u64, elapsed: u64, busy: u64) -> Task {
    Task {
        function,
        parent,
        state: task_state::FINISHED,
        counted: 0,
        time: Ticks(time),
        thread: ThreadId(1),
        elapsed,
        busy,
        polls: 2,
        value: None,
    }
}

/// 40 usual requests, and one with 5 ms that awaits a query for nearly all of it.
fn trace_tasks() -> TraceTasks {
    let mut tasks = TraceTasks::default();
    for id in 1..=40 {
        let usual = task(REQUEST, 0, id * 100_000, 20_000, 5_000);
        tasks.tasks.insert(id, usual);
    }
    let slow = task(REQUEST, 0, 10_000_000, 5_000_000, 6_000);
    tasks.tasks.insert(50, slow);
    let query = task(QUERY, 50, 9_990_000, 4_950_000, 4_000);
    tasks.tasks.insert(51, query);
    tasks
}

fn info() -> TraceInfo {
    TraceInfo {
        functions: functions(&[(REQUEST.0, "app::request"), (QUERY.0, "app::query")]),
        end: Some(Ticks(10_000_000)),
        ..TraceInfo::default()
    }
}

#[test]
fn the_slow_task_is_chosen_and_waited() {
    let tasks = trace_tasks();
    let table = table(&info(), &tasks, true).expect("rows");
    let of_requests = usual_tasks(&info(), &table)["app::request"];
    assert_eq!(of_requests.tasks, 41);
    assert!(of_requests.p50.abs_diff(20_000) < 1_500, "{of_requests:?}");
    let chosen = choose(&ALL, &info(), &tasks, &table, Ticks(0));
    let ids: Vec<u64> = chosen.iter().map(|slow| slow.id).collect();
    assert_eq!(ids, [50]);
    let slow = &chosen[0];
    assert_eq!((slow.busy, slow.waiting()), (6_000, 4_994_000));
    assert_eq!(slow.is_busy, Some(false));
    assert_eq!(
        (slow.start, slow.end),
        (Ticks(5_000_000), Ticks(10_000_000))
    );
}

#[test]
fn long_polls_differ_from_waits() {
    let mut tasks = trace_tasks();
    if let Some(slow) = tasks.tasks.get_mut(&50) {
        slow.busy = 4_900_000;
    }
    let table = table(&info(), &tasks, true).expect("rows");
    let chosen = choose(&ALL, &info(), &tasks, &table, Ticks(0));
    assert_eq!(chosen.first().and_then(|slow| slow.is_busy), Some(true));
}

#[test]
fn longest_poll_gap_names_the_awaited_task() {
    let tasks = trace_tasks();
    let table = table(&info(), &tasks, true).expect("rows");
    let chosen = choose(&ALL, &info(), &tasks, &table, Ticks(0));
    let poll = |number, start, end| Poll {
        number,
        thread: ThreadId(1),
        function: REQUEST,
        start: Ticks(start),
        end: Ticks(end),
    };
    let polls = [
        poll(1, 5_000_000, 5_003_000),
        poll(2, 5_010_000, 5_041_000),
        poll(3, 9_990_000, 10_000_000),
    ];
    let between = longest_between(&polls, &chosen[0], &tasks).expect("two polls");
    assert_eq!(between.after, 2);
    assert_eq!(
        (between.from, between.until),
        (Ticks(5_041_000), Ticks(9_990_000))
    );
    assert_eq!(between.awaited, Some((51, QUERY)));
    assert!(longest_between(&polls[..1], &chosen[0], &tasks).is_none());
}

#[test]
fn many_awaited_tasks_of_one_function_are_counted() {
    let mut tasks = trace_tasks();
    tasks.tasks.remove(&51);
    for id in 60..63 {
        let query = task(
            QUERY,
            50,
            5_000_000 + (id - 59) * 1_600_000,
            1_500_000,
            1_000,
        );
        tasks.tasks.insert(id, query);
    }
    let table = table(&info(), &tasks, true).expect("rows");
    let chosen = choose(&ALL, &info(), &tasks, &table, Ticks(0));
    let awaited = awaited_tasks(&tasks, &chosen[0]).map(|of| (of.function, of.tasks));
    assert_eq!(awaited, Some((QUERY, 3)));
}

#[test]
fn the_task_of_a_trigger_is_the_first() {
    let tasks = trace_tasks();
    let table = table(&info(), &tasks, true).expect("rows");
    let mut info = info();
    info.reason = "trigger app::request>10us: task 7 of app::request took 0.020000 ms in thread 1 (x), begun at \
                   2025-11-24T12:00:00.123456789Z"
        .to_owned();
    let chosen = choose(&ALL, &info, &tasks, &table, Ticks(0));
    let ids: Vec<u64> = chosen.iter().map(|slow| slow.id).collect();
    assert_eq!(ids, [7, 50]);
}

#[test]
fn lost_ends_do_not_make_tasks_open() {
    let mut tasks = trace_tasks();
    for task in tasks.tasks.values_mut() {
        task.counted = 3;
    }
    // The totals count its end, but its last note is older.
    if let Some(task) = tasks.tasks.get_mut(&3) {
        (task.state, task.time) = (task_state::WAITING, Ticks(2));
    }
    let mut info = info();
    let counted = [(11, FINISHED, 41, 0), (12, BUSY, 41, 41)];
    let names = counted.map(|(id, words, ..)| (id, format!("app::request{words}")));
    let names = names.each_ref().map(|(id, name)| (*id, name.as_str()));
    info.functions.extend(functions(&names));
    let totals = counted.map(|(id, _, calls, untimed)| FunctionTotals {
        function: FunctionId(id),
        calls,
        untimed,
        total: Ticks(20_000 * calls),
        own: Ticks(5_000 * calls),
        longest: Ticks(20_000),
        lengths: vec![(lengths::class(20_000) as u8, calls)],
        ..FunctionTotals::default()
    });
    info.threads = vec![Thread {
        totals: totals.into(),
        ..Thread::default()
    }];
    let table = table(&info, &tasks, true).expect("rows");
    let ids: Vec<u64> = choose(&ALL, &info, &tasks, &table, Ticks(0))
        .iter()
        .map(|slow| slow.id)
        .collect();
    assert_eq!(ids, [50]);
}

#[test]
fn inner_tasks_are_not_shown_twice() {
    let mut tasks = trace_tasks();
    // Three slow requests, of which two are shown, and usual queries.
    for id in 0..40 {
        let usual = task(QUERY, 0, 20_000_000 + id, 10_000, 4_000);
        tasks.tasks.insert(1_000 + id, usual);
    }
    for id in [60, 70] {
        let slow = task(REQUEST, 0, 10_000_000 - id, 5_000_000, 6_000);
        tasks.tasks.insert(id, slow);
        let query = task(QUERY, id, 9_990_000 - id, 4_950_000, 4_000);
        tasks.tasks.insert(id + 1, query);
    }
    let table = table(&info(), &tasks, true).expect("rows");
    let query = Query { of_each: 2, ..ALL };
    let chosen = choose(&query, &info(), &tasks, &table, Ticks(0));
    let ids: Vec<u64> = chosen.iter().map(|slow| slow.id).collect();
    assert_eq!(ids, [50, 60]);
    let query = Query {
        over: Some(1_000_000),
        ..query
    };
    let chosen = choose(&query, &info(), &tasks, &table, Ticks(0));
    assert_eq!(chosen.len(), 2);
}

#[test]
fn causes_need_no_records_of_polls() {
    let tasks = trace_tasks();
    let table = table(&info(), &tasks, true).expect("rows");
    let mut chosen = choose(&ALL, &info(), &tasks, &table, Ticks(0));
    let slow = &mut chosen[0];
    slow.between = longest_between(&[], slow, &tasks);
    slow.awaited = awaited_tasks(&tasks, slow);
    let sentence = show::sentence(&info(), slow);
    let wanted = "100.0 % of the excess is waiting, most of it in app::query (task 51).";
    assert_eq!(sentence, wanted);
}

#[test]
fn tasks_with_overwritten_ends_are_not_open() {
    let mut tasks = trace_tasks();
    if let Some(task) = tasks.tasks.get_mut(&50) {
        task.state = task_state::WAITING;
    }
    let table = table(&info(), &tasks, true).expect("rows");
    let ends = |whole_since| {
        let chosen = choose(&ALL, &info(), &tasks, &table, Ticks(whole_since));
        let ends: Vec<_> = chosen
            .iter()
            .map(|slow| (slow.id, slow.has_ended))
            .collect();
        ends
    };
    assert_eq!(ends(9_000_000), [(50, Some(false))]);
    // The trace has no totals. So its end may be among the overwritten records; the query inside of it has ended.
    assert_eq!(ends(10_000_001), []);
}
