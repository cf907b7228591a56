//! Which calls a replay keeps, and how they nest. 1 tick = 1 ns.

use fdr_formats::{Call, FunctionId, ThreadId, Ticks};

use super::lines::{Line, lines};
use super::nearest::{Nearest, NearestQuery};
use crate::selection::call_options::ChosenCalls;
use crate::stacks;
use crate::testing::random_trace::RandomTrace;
use crate::testing::{MemoryTrace, entry, exit, synthetic};

const ALL: NearestQuery<'static> = NearestQuery {
    moment: Ticks(0),
    only_before: false,
    most: 1000,
    first: None,
    chosen: None,
};

/// Thread, start, depth, function, and how many calls, of each line.
fn shown(
    trace: &MemoryTrace,
    wanted: NearestQuery<'_>,
    grouped: bool,
) -> Vec<(u64, u64, usize, u32, u64)> {
    let workers = stacks::run(trace, || Nearest::new(wanted)).expect("in memory");
    let found = Nearest::gather(workers, &wanted);
    let line = |line: Line| match line {
        Line::Call(shown) => {
            let call = shown.call;
            (
                call.thread.0,
                call.start.0,
                shown.depth,
                call.function.0,
                shown.calls,
            )
        }
        Line::Note(..) => panic!("the trace has no notes"),
    };
    lines(found, grouped).into_iter().map(line).collect()
}

fn trace() -> MemoryTrace {
    let worker = [
        entry(100, 1),
        entry(110, 2),
        exit(120, 2),
        entry(130, 2),
        exit(150, 2),
        entry(160, 3),
        exit(190, 3),
        exit(200, 1),
        entry(300, 1),
        exit(400, 1),
    ];
    MemoryTrace::new(&[(7, &worker), (8, &[entry(115, 3), exit(350, 3)])])
}

#[test]
fn threads_stand_side_by_side_in_time() {
    let each = [
        (7, 100, 0, 1, 1),
        (7, 110, 1, 2, 1),
        (8, 115, 0, 3, 1),
        (7, 130, 1, 2, 1),
        (7, 160, 1, 3, 1),
        (7, 300, 0, 1, 1),
    ];
    assert_eq!(shown(&trace(), ALL, false), each);
    // Two calls of 2 follow each other on their thread: one line.
    let grouped = shown(&trace(), ALL, true);
    assert_eq!(grouped[1], (7, 110, 1, 2, 2));
    assert_eq!(grouped.len(), each.len() - 1);
}

#[test]
fn nearest_calls_keep_their_callers() {
    let near = |moment, most| {
        shown(
            &trace(),
            NearestQuery {
                moment: Ticks(moment),
                most,
                ..ALL
            },
            false,
        )
    };
    assert_eq!(near(0, 2), [(7, 100, 0, 1, 1), (7, 110, 1, 2, 1)]);
    assert_eq!(
        near(170, 3),
        [(7, 100, 0, 1, 1), (8, 115, 0, 3, 1), (7, 160, 1, 3, 1)]
    );
    // 4 more ticks away, the call of 2 before is next.
    let four = near(152, 3);
    assert_eq!(
        four,
        [(7, 100, 0, 1, 1), (8, 115, 0, 3, 1), (7, 130, 1, 2, 1)]
    );
    let before = NearestQuery {
        moment: Ticks(299),
        only_before: true,
        ..ALL
    };
    assert!(
        shown(&trace(), before, false)
            .iter()
            .all(|line| line.1 < 299)
    );
}

#[test]
fn the_failed_thread_is_not_crowded_out() {
    let busy: Vec<Call> = (0..500)
        .flat_map(|at| [entry(1000 + 2 * at, 2), exit(1001 + 2 * at, 2)])
        .collect();
    let failed = [
        entry(100, 1),
        entry(1500, 3),
        exit(1510, 3),
        synthetic(exit(2100, 1)),
    ];
    let mut trace = MemoryTrace::new(&[(7, &failed), (8, &busy)]);
    trace.info.end = Some(Ticks(2100));
    let wanted = NearestQuery {
        moment: Ticks(2100),
        only_before: true,
        most: 20,
        first: Some(ThreadId(7)),
        ..ALL
    };
    let lines = shown(&trace, wanted, false);
    assert_eq!(lines.iter().filter(|line| line.0 == 7).count(), 2);
    // And of the other thread the last ones.
    let others: Vec<u64> = lines
        .iter()
        .filter(|line| line.0 == 8)
        .map(|line| line.1)
        .collect();
    assert_eq!(
        others,
        (480..500).map(|at| 1000 + 2 * at).collect::<Vec<u64>>()
    );
}

#[test]
fn shorter_calls_are_left_out_with_over() {
    let chosen = ChosenCalls::over(100);
    let over = NearestQuery {
        chosen: Some(&chosen),
        ..ALL
    };
    assert_eq!(
        shown(&trace(), over, false),
        [(7, 100, 0, 1, 1), (8, 115, 0, 3, 1), (7, 300, 0, 1, 1)]
    );
}

#[test]
fn random_traces_keep_callers_of_kept_calls() {
    for seed in 0..40 {
        let trace = RandomTrace::new(seed, 1, 0);
        let wanted = |most| NearestQuery {
            moment: Ticks(1_200_000),
            most,
            ..ALL
        };
        let run = |wanted| {
            let workers = stacks::run(&trace, || Nearest::new(wanted)).expect("in memory");
            Nearest::gather(workers, &wanted)
        };
        let all = run(wanted(100_000));
        let total = all.calls.len();
        let some = run(wanted(30));
        assert_eq!(some.calls.len(), total.min(30), "{seed}");
        assert_eq!(some.examined, all.examined, "{seed}");
        // The kept calls are the nearest ones of all calls.
        assert_eq!(some.calls, all.calls[..some.calls.len()], "{seed}");
        for selected in &some.calls {
            let is_around = |call: &&super::nearest::NearCall| {
                call.thread == selected.thread
                    && call.start < selected.start
                    && selected.end < call.end
            };
            for around in all.calls.iter().filter(is_around) {
                let is_kept = some.calls.contains(around);
                // Of calls that are as near, the outer ones come first, unless their depth is not known.
                assert!(
                    is_kept || around.depth >= selected.depth,
                    "{seed}: {selected:?} {around:?}"
                );
            }
        }
        assert!(
            some.calls
                .iter()
                .all(|call| call.function != FunctionId(99))
        );
    }
}
