//! The engine on traces of a few calls, with figures worked out by hand. 1 tick = 1 ns.

use std::collections::BTreeMap;

use fdr_formats::filter::Filter;
use fdr_formats::model::Counts;
use fdr_formats::source::drive_parallel;
use fdr_formats::{Call, Clock, Thread, ThreadId};

use super::engine::{Engine, Figures, gather};
use super::function_rows::Row;
use super::query::{Key, Selection};
use super::rows::Report;
use super::stack::Flaws;
use crate::report::all::ALL;
use crate::testing::functions;
use crate::testing::{MemoryTrace, entry, exit, synthetic, tail_exit};

fn figures(trace: &MemoryTrace, per_thread: bool) -> Figures {
    let engines = drive_parallel(trace, 2, || Engine::new(trace, per_thread), &|_| {}).unwrap();
    gather(engines, per_thread).unwrap()
}

fn report(trace: &MemoryTrace, selection: &Selection) -> Report {
    let figures = figures(trace, selection.per_thread);
    Report::new(&trace.info, figures, selection).unwrap()
}

/// (calls, clipped, total, self) by function, and what was wrong.
fn sums(calls: &[Call]) -> (BTreeMap<u32, [u64; 4]>, Flaws) {
    let report = report(&MemoryTrace::new(&[(1, calls)]), &ALL);
    let four = |row: &Row| (row.id, [row.calls, row.clipped, row.total_ns, row.self_ns]);
    (report.rows.iter().map(four).collect(), report.flaws)
}

const NO_FLAWS: Flaws = Flaws {
    missing_exits: 0,
    missing_entries: 0,
    open: 0,
};

#[test]
fn self_time_is_total_less_callees() {
    let calls = [
        entry(0, 1),
        entry(10, 2),
        entry(15, 3),
        exit(25, 3),
        exit(40, 2),
        entry(50, 2),
        exit(70, 2),
        exit(100, 1),
    ];
    let (rows, flaws) = sums(&calls);
    assert_eq!(rows[&1], [1, 0, 100, 50]);
    assert_eq!(rows[&2], [2, 0, 50, 40]);
    assert_eq!(rows[&3], [1, 0, 10, 10]);
    assert_eq!(flaws, NO_FLAWS);
}

#[test]
fn functions_with_large_ids_are_followed_like_others() {
    // The table finds ids up to 2^20 in another way.
    let far = (1 << 28) - 1;
    let calls = [
        entry(0, far),
        entry(10, 2),
        entry(20, far),
        exit(50, far),
        exit(60, 2),
        exit(100, far),
    ];
    let (rows, flaws) = sums(&calls);
    assert_eq!(rows[&far], [2, 0, 100, 80]);
    assert_eq!(rows[&2], [1, 0, 50, 20]);
    assert_eq!(flaws, NO_FLAWS);
}

#[test]
fn recursive_totals_count_outermost_calls() {
    // f1 { f1 { f2 { f1 } } }, then f1.
    let calls = [
        entry(0, 1),
        entry(10, 1),
        entry(20, 2),
        entry(30, 1),
        exit(35, 1),
        exit(60, 2),
        exit(80, 1),
        exit(100, 1),
        entry(200, 1),
        exit(207, 1),
    ];
    let trace = MemoryTrace::new(&[(1, &calls)]);
    let rows = report(&trace, &ALL).rows;
    let f1 = &rows[0];
    assert_eq!((f1.id, f1.calls, f1.total_ns, f1.self_ns), (1, 4, 107, 72));
    // 100, 70, 5 and 7, one by one.
    assert_eq!(
        (f1.min_ns, f1.max_ns, f1.mean_ns),
        (Some(5), Some(100), Some(46))
    );
    assert_eq!(
        (f1.p50_ns, f1.p90_ns, f1.p99_ns),
        (Some(7), Some(100), Some(100))
    );
    assert_eq!((rows[1].id, rows[1].total_ns, rows[1].self_ns), (2, 40, 35));
}

#[test]
fn a_tail_exit_is_an_exit() {
    let (rows, flaws) = sums(&[entry(0, 1), tail_exit(5, 1), entry(5, 2), exit(9, 2)]);
    assert_eq!(rows[&1], [1, 0, 5, 5]);
    assert_eq!(rows[&2], [1, 0, 4, 4]);
    assert_eq!(flaws, NO_FLAWS);
}

#[test]
fn clipped_calls_poison_no_figure() {
    // The trace covers 100 to 200; f1 was open all the time, f2 at its beginning and its end.
    let calls = [
        synthetic(entry(100, 1)),
        synthetic(entry(100, 2)),
        exit(130, 2),
        entry(140, 2),
        exit(150, 2),
        entry(190, 2),
        synthetic(exit(200, 2)),
        synthetic(exit(200, 1)),
    ];
    let rows = report(&MemoryTrace::new(&[(1, &calls)]), &ALL).rows;
    let (f1, f2) = (&rows[0], &rows[1]);
    assert_eq!(
        (f1.calls, f1.clipped, f1.total_ns, f1.self_ns),
        (1, 1, 100, 50)
    );
    assert_eq!(
        (f1.min_ns, f1.mean_ns, f1.p50_ns, f1.max_ns),
        (None, None, None, None)
    );
    assert_eq!(
        (f2.calls, f2.clipped, f2.total_ns, f2.self_ns),
        (3, 2, 50, 50)
    );
    assert_eq!(
        (f2.min_ns, f2.p99_ns, f2.max_ns),
        (Some(10), Some(10), Some(10))
    );
}

#[test]
fn an_unbalanced_snapshot_gives_the_same_times() {
    // As above, by a recorder that does not balance: f1's ends and f2's are missing.
    let calls = [
        entry(100, 3),
        exit(100, 3),
        exit(130, 2),
        entry(140, 2),
        exit(150, 2),
        exit(200, 1),
    ];
    let (rows, flaws) = sums(&calls);
    assert_eq!(rows[&1], [1, 1, 100, 60]);
    assert_eq!(rows[&2], [2, 1, 40, 40]);
    assert_eq!(
        flaws,
        Flaws {
            missing_entries: 2,
            ..NO_FLAWS
        }
    );
    let (rows, flaws) = sums(&[
        entry(100, 1),
        entry(140, 2),
        exit(150, 2),
        entry(190, 2),
        exit(200, 2),
    ]);
    assert_eq!(rows[&1], [1, 1, 100, 80]);
    assert_eq!(rows[&2], [2, 0, 20, 20]);
    assert_eq!(
        flaws,
        Flaws {
            open: 1,
            ..NO_FLAWS
        }
    );
}

#[test]
fn an_unseen_recursion_counts_once() {
    // f1 { f1 {, from before the trace; inside, at 20, f1 was called and left.
    let calls = [
        entry(10, 2),
        exit(15, 2),
        entry(20, 1),
        exit(25, 1),
        exit(30, 1),
        exit(50, 1),
    ];
    let (rows, flaws) = sums(&calls);
    assert_eq!(rows[&1], [3, 2, 40, 35]);
    assert_eq!(rows[&2], [1, 0, 5, 5]);
    assert_eq!(flaws.missing_entries, 2);
}

#[test]
fn missing_exits_end_with_the_record_before() {
    let (rows, flaws) = sums(&[entry(0, 1), entry(10, 2), entry(20, 3), exit(50, 1)]);
    assert_eq!(rows[&1], [1, 0, 50, 40]);
    assert_eq!(rows[&2], [1, 1, 10, 10]);
    assert_eq!(rows[&3], [1, 1, 0, 0]);
    assert_eq!(
        flaws,
        Flaws {
            missing_exits: 2,
            ..NO_FLAWS
        }
    );
}

#[test]
fn stray_exits_begin_with_the_record_before() {
    let (rows, flaws) = sums(&[entry(0, 1), exit(10, 9), exit(50, 1)]);
    assert_eq!(rows[&1], [1, 0, 50, 40]);
    assert_eq!(rows[&9], [1, 1, 10, 10]);
    assert_eq!(
        flaws,
        Flaws {
            missing_entries: 1,
            ..NO_FLAWS
        }
    );
}

#[test]
fn time_that_goes_back_is_no_time() {
    let (rows, _) = sums(&[entry(100, 1), exit(50, 1)]);
    assert_eq!(rows[&1], [1, 0, 0, 0]);
}

#[test]
fn an_absurd_depth_is_followed() {
    let deep = (1 << 20) + 3;
    let calls: Vec<Call> = (0..deep)
        .map(|t| entry(t, 1))
        .chain((deep..2 * deep).map(|t| exit(t, 1)))
        .collect();
    let (rows, flaws) = sums(&calls);
    assert_eq!(flaws, NO_FLAWS);
    assert_eq!(rows[&1][..3], [deep, 0, 2 * deep - 1]);
}

#[test]
fn any_depth_may_be_open_at_the_end() {
    // Steps of every length before the last one: where a step ends, the next one's room is not made yet.
    for pairs in [0, 1, 127, 128, 129, 256] {
        for deep in [1, 255, 256, 257, 511, 512, 768, 1025, (1 << 20) + 3] {
            let pair = |nth| [entry(nth, 2), exit(nth, 2)];
            let calls: Vec<Call> = (0..pairs)
                .flat_map(pair)
                .chain((0..deep).map(|nth| entry(1000 + nth, 1)))
                .collect();
            let (rows, flaws) = sums(&calls);
            assert_eq!(rows[&1][0], deep);
            assert_eq!(flaws.open, deep, "{pairs} pairs, depth {deep}");
        }
    }
}

#[test]
fn threads_are_summed_or_shown_apart() {
    let one = [entry(0, 1), exit(10, 1)];
    let two = [entry(5, 1), exit(35, 1), entry(40, 2), exit(41, 2)];
    let mut trace = MemoryTrace::new(&[(11, &one), (12, &two)]);
    let counts = Counts {
        recorded: 9,
        readable: 4,
        overwritten: 3,
        dropped: 2,
        ..Counts::default()
    };
    trace.info.threads = vec![Thread {
        id: ThreadId(12),
        name: "w".into(),
        counts: Some(counts),
        process: None,
        totals: Vec::new(),
        early_calls: Vec::new(),
    }];
    let report = report(
        &trace,
        &Selection {
            per_thread: true,
            ..ALL
        },
    );
    assert_eq!((report.rows[0].calls, report.rows[0].total_ns), (2, 40));
    assert_eq!(report.threads[0].rows.as_ref().unwrap()[0].total_ns, 10);
    assert_eq!(report.threads[1].rows.as_ref().unwrap()[0].total_ns, 30);
    assert_eq!(report.threads[1].rows.as_ref().unwrap()[1].id, 2);
    assert_eq!(
        (report.threads[1].name.as_str(), report.threads[1].records),
        ("w", 4)
    );
    assert_eq!((report.duration_ns, report.records()), (41, 6));
    assert_eq!(report.counts(), Some(counts));
}

#[test]
fn a_thread_of_two_lanes_is_one_thread() {
    let trace = MemoryTrace::new(&[
        (1, &[entry(0, 1), exit(10, 1)]),
        (1, &[entry(20, 1), exit(50, 1)]),
    ]);
    let report = report(
        &trace,
        &Selection {
            per_thread: true,
            ..ALL
        },
    );
    assert_eq!(report.threads.len(), 1);
    assert_eq!(
        (report.threads[0].records, report.threads[0].duration_ns),
        (4, 50)
    );
    assert_eq!(report.threads[0].rows.as_ref().unwrap()[0].total_ns, 40);
    assert_eq!(report.rows[0].calls, 2);
}

#[test]
fn ticks_become_nanoseconds_once() {
    let mut trace = MemoryTrace::new(&[(1, &[entry(0, 1), exit(7, 1), entry(10, 1), exit(17, 1)])]);
    trace.info.clock = Clock {
        frequency: 3_000_000_000,
        ..Clock::default()
    };
    let row = report(&trace, &ALL).rows.remove(0);
    // 7 ticks are 2.33 ns, 14 are 4.67 ns.
    assert_eq!((row.min_ns, row.total_ns), (Some(2), 5));
}

fn named() -> MemoryTrace {
    let calls = [
        entry(0, 1),
        exit(9, 1),
        entry(10, 2),
        exit(15, 2),
        entry(20, 2),
        exit(25, 2),
        entry(30, 3),
        exit(31, 3),
    ];
    let mut trace = MemoryTrace::new(&[(1, &calls)]);
    trace.info.functions = functions(&[(1, "b::slow"), (2, "a::often")]);
    for function in &mut trace.info.functions {
        (function.file, function.line) = ("src/x.rs".to_owned(), function.id.0);
    }
    trace
}

fn names(selection: &Selection) -> Vec<String> {
    report(&named(), selection)
        .rows
        .into_iter()
        .map(|row| row.name)
        .collect()
}

#[test]
fn rows_are_sorted_filtered_and_limited() {
    assert_eq!(names(&ALL), ["a::often", "b::slow", "#3"]);
    assert_eq!(
        names(&Selection {
            sort: Key::Max,
            ..ALL
        }),
        ["b::slow", "a::often", "#3"]
    );
    assert_eq!(
        names(&Selection {
            sort: Key::Name,
            ..ALL
        }),
        ["#3", "a::often", "b::slow"]
    );
    assert_eq!(
        names(&Selection {
            sort: Key::Calls,
            ..ALL
        }),
        ["a::often", "#3", "b::slow"]
    );
    let filter = Some(Filter::parse("*::*").unwrap());
    assert_eq!(names(&Selection { filter, ..ALL }), ["a::often", "b::slow"]);
    let first = Selection {
        limit: Some(1),
        ..ALL
    };
    assert_eq!(names(&first), ["a::often"]);
    let report = report(&named(), &first);
    assert_eq!((report.hidden, report.self_ns), (2, 20));
    assert_eq!(
        (report.rows[0].file.as_str(), report.rows[0].line),
        ("src/x.rs", 2)
    );
}
