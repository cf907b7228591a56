//! What the engine makes of places where records are missing. 1 tick = 1 ns.

use fdr_formats::{Call, Mark, Sink, Thread, ThreadId, TraceInfo};

use super::engine::{Engine, gather};
use super::function_rows::Row;
use super::rows::Report;
use super::stack::Flaws;
use crate::report::all::ALL;
use crate::testing::{MemoryTrace, entry, exit};

fn engine() -> Engine {
    Engine::new(&MemoryTrace::default(), false)
}

fn report(engine: Engine) -> Report {
    let figures = gather(vec![engine], false).unwrap();
    Report::new(&TraceInfo::default(), figures, &ALL).unwrap()
}

fn row(report: &Report, id: u32) -> &Row {
    let found = report.rows.iter().find(|row| row.id == id);
    found.expect("a row")
}

/// A thread with a gap between two runs of calls.
fn with_gap(before: &[Call], after: &[Call]) -> Report {
    let mut engine = engine();
    engine.calls(before);
    engine.mark(&Mark::Lost { records: 5 });
    engine.calls(after);
    report(engine)
}

#[test]
fn calls_open_at_a_gap_are_clipped() {
    // f2 may have ended in the gap, and another one begun there.
    let before = [entry(0, 1), entry(10, 2)];
    let after = [exit(1000, 2), entry(1010, 2), exit(1020, 2), exit(1100, 1)];
    let report = with_gap(&before, &after);
    assert_eq!(
        (
            row(&report, 1).calls,
            row(&report, 1).clipped,
            row(&report, 1).max_ns
        ),
        (1, 1, None)
    );
    assert_eq!(
        (
            row(&report, 2).calls,
            row(&report, 2).clipped,
            row(&report, 2).max_ns
        ),
        (2, 1, Some(10))
    );
    assert_eq!((report.lost(), report.is_complete()), (5, false));
    assert_eq!(report.flaws, Flaws::default());
}

#[test]
fn exits_after_gaps_begin_at_the_last_record() {
    let report = with_gap(
        &[entry(0, 2), exit(100, 2)],
        &[entry(120, 3), exit(130, 3), exit(150, 1)],
    );
    let f1 = row(&report, 1);
    assert_eq!(
        (f1.calls, f1.clipped, f1.total_ns, f1.self_ns),
        (1, 1, 20, 20)
    );
    // A gap before anything else says nothing of when it was.
    let report = with_gap(&[], &[exit(5000, 1)]);
    assert_eq!((report.rows[0].total_ns, report.rows[0].clipped), (0, 1));
}

#[test]
fn gaps_at_any_depth_take_linear_time() {
    let mut engine = engine();
    let deep = 200_000;
    engine.calls(&(0..deep).map(|time| entry(time, 1)).collect::<Vec<_>>());
    for time in 0..deep {
        engine.mark(&Mark::Lost { records: 1 });
        engine.calls(&[entry(deep + time, 2), exit(deep + time, 2)]);
    }
    engine.calls(
        &(0..deep)
            .map(|time| exit(2 * deep + time, 1))
            .collect::<Vec<_>>(),
    );
    let report = report(engine);
    assert_eq!(
        (row(&report, 1).calls, row(&report, 1).clipped),
        (deep, deep)
    );
    assert_eq!((row(&report, 2).calls, row(&report, 2).clipped), (deep, 0));
}

#[test]
fn gaps_stay_with_their_thread() {
    let thread = |id| Thread {
        id: ThreadId(id),
        ..Thread::default()
    };
    // Numbers with the same ending, too.
    let threads = [1, 2, 33, 65].map(thread);
    let mut engine = engine();
    let at = |thread: &Thread, time| time + thread.id.0;
    for thread in &threads {
        engine.thread(thread);
        engine.calls(&[entry(at(thread, 0), 1)]);
    }
    engine.thread(&threads[2]);
    engine.mark(&Mark::Lost { records: 3 });
    for thread in &threads {
        engine.thread(thread);
        engine.calls(&[exit(at(thread, 100), 1)]);
    }
    let report = report(engine);
    let lost: Vec<_> = report
        .threads
        .iter()
        .map(|thread| (thread.id, thread.lost))
        .collect();
    assert_eq!(lost, [(1, 0), (2, 0), (33, 3), (65, 0)]);
    let f1 = row(&report, 1);
    assert_eq!(
        (f1.calls, f1.clipped, f1.min_ns, f1.max_ns),
        (4, 1, Some(100), Some(100))
    );
}
