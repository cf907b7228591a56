//! The rules, each on a trace of a few calls.

use fdr_formats::source::drive_parallel;

use super::super::finding::FindingLocation;
use super::*;
use crate::agreement_tests::Missing;
use crate::testing::{MemoryTrace, entry, exit, synthetic};

fn check(trace: &MemoryTrace, allow_open: bool, limit: usize) -> Verdict {
    let make = || Checker::new(allow_open, limit);
    let checkers = drive_parallel(trace, 2, make, &|_| {}).unwrap();
    conclude(checkers, &trace.info.threads, limit)
}

/// Edges that are missing, by what is found.
pub(crate) fn missing_of(source: &dyn fdr_formats::Source) -> Missing {
    let make = || Checker::new(false, usize::MAX);
    let checkers = drive_parallel(source, 1, make, &|_| {}).unwrap();
    let mut missing = Missing::default();
    for finding in conclude(checkers, &source.info().threads, usize::MAX).findings {
        match finding.what {
            FindingKind::NoEntry { .. } => missing.entries += 1,
            FindingKind::NoExit { .. } => missing.exits += 1,
            FindingKind::Open { .. } => missing.open += 1,
            _ => {}
        }
    }
    missing
}

fn findings(calls: &[Call]) -> Vec<(u64, FindingKind)> {
    let mut findings = check(&MemoryTrace::new(&[(7, calls)]), false, 100).findings;
    findings.sort();
    let number = |finding: Finding| match finding.place {
        FindingLocation::Record {
            thread: ThreadId(7),
            number,
        } => (number, finding.what),
        other => panic!("{other:?}"),
    };
    findings.into_iter().map(number).collect()
}

const F1: FunctionId = FunctionId(1);
const F2: FunctionId = FunctionId(2);

#[test]
fn a_whole_trace_has_no_findings() {
    let one = [entry(10, 1), entry(10, 2), exit(20, 2), exit(30, 1)];
    let two = [
        synthetic(entry(5, 1)),
        exit(6, 1),
        entry(7, 1),
        synthetic(exit(8, 1)),
    ];
    let verdict = check(&MemoryTrace::new(&[(1, &one), (2, &two)]), false, 100);
    assert_eq!(verdict.findings, []);
    assert_eq!((verdict.count, verdict.threads), (0, 2));
    assert_eq!((verdict.records, verdict.synthetic), (6, 2));
}

#[test]
fn time_that_goes_back() {
    assert_eq!(
        findings(&[entry(100, 1), exit(99, 1)]),
        [(
            2,
            FindingKind::TimeBack {
                from: Ticks(100),
                to: Ticks(99)
            }
        )]
    );
}

#[test]
fn an_exit_without_entry() {
    assert_eq!(
        findings(&[entry(1, 1), exit(2, 2), exit(3, 1)]),
        [(2, FindingKind::NoEntry { exit: F2 })]
    );
    assert_eq!(
        findings(&[exit(2, 2)]),
        [(1, FindingKind::NoEntry { exit: F2 })]
    );
}

#[test]
fn an_entry_without_exit() {
    assert_eq!(
        findings(&[entry(1, 1), entry(2, 2), exit(3, 1)]),
        [(
            2,
            FindingKind::NoExit {
                entry: F2,
                left: F1
            }
        )]
    );
    assert_eq!(
        findings(&[entry(1, 1), entry(2, 2), exit(3, 2)]),
        [(1, FindingKind::Open { entry: F1 })]
    );
}

#[test]
fn open_ends_can_be_allowed_and_nothing_else() {
    let open = [
        exit(1, 2),
        exit(2, 1),
        entry(3, 1),
        entry(4, 2),
        exit(5, 2),
        entry(6, 2),
    ];
    let trace = MemoryTrace::new(&[(7, &open)]);
    assert_eq!(check(&trace, true, 100).count, 0);
    assert_eq!(check(&trace, false, 100).count, 4);
    let inner = [entry(1, 1), exit(2, 2), exit(3, 1)];
    assert_eq!(check(&MemoryTrace::new(&[(7, &inner)]), true, 100).count, 1);
}

/// The findings of a thread with a gap between two runs of calls.
fn with_gap(before: &[Call], lost: u64, after: &[Call]) -> Vec<FindingKind> {
    let mut checker = Checker::new(false, 100);
    checker.thread(&Thread {
        id: ThreadId(7),
        ..Thread::default()
    });
    checker.calls(before);
    checker.mark(&Mark::Lost { records: lost });
    checker.calls(after);
    let verdict = conclude(vec![checker], &[], 100);
    assert_eq!(verdict.lost, lost);
    verdict
        .findings
        .into_iter()
        .map(|finding| finding.what)
        .collect()
}

#[test]
fn gaps_explain_open_calls_only() {
    let open = [entry(1, 1), entry(2, 2)];
    // Left in the gap, entered in the gap, both.
    assert_eq!(with_gap(&open, 2, &[]), []);
    assert_eq!(with_gap(&open, 1, &[exit(9, 1)]), []);
    assert_eq!(with_gap(&open, 1, &[exit(8, 3), exit(9, 1)]), []);
    assert_eq!(with_gap(&[], 1, &[exit(9, 1), exit(10, 2)]), []);
    assert_eq!(
        with_gap(&open, 1, &[entry(3, 1), exit(4, 2), exit(5, 1)]),
        [FindingKind::NoExit {
            entry: F1,
            left: F2
        }],
        "what was entered after it must be left"
    );
    assert_eq!(
        with_gap(&[], 1, &[entry(3, 1), exit(4, 2), exit(5, 1)]),
        [FindingKind::NoEntry { exit: F2 }]
    );
    assert_eq!(
        with_gap(&[], 1, &[entry(3, 1)]),
        [FindingKind::Open { entry: F1 }]
    );
    assert_eq!(
        with_gap(&[exit(1, 1)], 1, &[]),
        [FindingKind::NoEntry { exit: F1 }]
    );
}

#[test]
fn a_thread_of_two_lanes_is_one_thread() {
    let first = [entry(1, 1), exit(2, 1)];
    let second = [entry(3, 1), exit(4, 1)];
    let mut trace = MemoryTrace::new(&[(7, &first), (7, &second)]);
    let counts = |readable| Counts {
        recorded: readable,
        readable,
        ..Counts::default()
    };
    trace.info.threads[0].counts = Some(counts(4));
    let verdict = check(&trace, false, 100);
    assert_eq!((verdict.count, verdict.records), (0, 4));
    trace.info.threads[0].counts = Some(counts(2));
    assert_eq!(check(&trace, false, 100).count, 1);
}

#[test]
fn gaps_are_part_of_the_accounting() {
    let counts = Counts {
        recorded: 8,
        readable: 2,
        overwritten: 5,
        dropped: 1,
        ..Counts::default()
    };
    let findings = |lost| {
        let thread = Thread {
            id: ThreadId(7),
            counts: Some(counts),
            ..Thread::default()
        };
        let mut checker = Checker::new(false, 100);
        checker.thread(&thread);
        checker.calls(&[entry(1, 1), exit(2, 1)]);
        checker.mark(&Mark::Lost { records: lost });
        conclude(vec![checker], &[thread], 100).findings
    };
    assert_eq!(findings(6), []);
    assert_eq!(
        findings(7).pop().map(|finding| finding.what),
        Some(FindingKind::Gaps {
            lost: 7,
            overwritten: 5,
            dropped: 1
        })
    );
}

#[test]
fn counts_must_add_up_and_agree() {
    let calls = [synthetic(entry(1, 1)), exit(2, 1), entry(3, 1), exit(4, 1)];
    let mut trace = MemoryTrace::new(&[(7, &calls)]);
    let right = Counts {
        recorded: 10,
        readable: 3,
        overwritten: 5,
        dropped: 2,
        synthetic_entries: 1,
        synthetic_exits: 0,
        summarised: 0,
    };
    let mut verdict = |counts: Counts| {
        trace.info.threads = vec![Thread {
            id: ThreadId(7),
            counts: Some(counts),
            ..Thread::default()
        }];
        let findings = check(&trace, false, 100).findings;
        findings
            .into_iter()
            .map(|finding| finding.what)
            .collect::<Vec<_>>()
    };
    assert_eq!(verdict(right), []);
    assert_eq!(
        verdict(Counts {
            recorded: 11,
            ..right
        }),
        [FindingKind::Sum {
            recorded: 11,
            readable: 3,
            overwritten: 5,
            dropped: 2,
            summarised: 0
        }]
    );
    assert_eq!(
        verdict(Counts {
            readable: 2,
            overwritten: 6,
            ..right
        }),
        [FindingKind::Differs {
            what: "readable records",
            stated: 2,
            found: 3
        }]
    );
    assert_eq!(
        verdict(Counts {
            synthetic_exits: 4,
            ..right
        }),
        [FindingKind::Differs {
            what: "synthetic exits",
            stated: 4,
            found: 0
        }]
    );
    // No overflow, and a thread of which nothing is in the file.
    assert_eq!(
        verdict(Counts {
            overwritten: u64::MAX,
            ..right
        })
        .len(),
        1
    );
    trace.lanes.clear();
    assert_eq!(check(&trace, false, 100).count, 3);
}

#[test]
fn findings_are_limited_and_all_are_counted() {
    let calls: Vec<Call> = (0..1000).map(|time| exit(time, 1)).collect();
    let verdict = check(&MemoryTrace::new(&[(7, &calls)]), false, 10);
    assert_eq!((verdict.findings.len(), verdict.count), (10, 1000));
}

#[test]
fn an_absurd_depth_is_followed() {
    let deep = (1 << 20) + 5;
    let down = (0..deep).map(|time| entry(time, 1));
    let up = (deep..2 * deep).map(|time| exit(time, 1));
    let calls: Vec<Call> = down.chain(up).collect();
    assert_eq!(check(&MemoryTrace::new(&[(7, &calls)]), false, 10).count, 0);
    assert_eq!(
        check(&MemoryTrace::new(&[(7, &calls[1..])]), false, 10).count,
        1
    );
}

/// As other commands look for it: at any depth.
#[test]
fn deeply_buried_calls_are_found() {
    let deep = 5000;
    let calls: Vec<Call> = [entry(0, 1)]
        .into_iter()
        .chain((1..deep).map(|time| entry(time, 2)))
        .chain([exit(deep, 1)])
        .collect();
    let verdict = check(&MemoryTrace::new(&[(7, &calls)]), false, 10);
    assert_eq!(verdict.count, deep - 1);
    let is_no_exit = |finding: &Finding| matches!(finding.what, FindingKind::NoExit { .. });
    assert!(verdict.findings.iter().all(is_no_exit));
}

#[test]
fn findings_are_reported_in_words() {
    let name = |id: FunctionId| format!("f{}", id.0);
    assert_eq!(
        FindingKind::NoEntry { exit: F1 }.in_words(&name),
        "exit of f1 without its entry"
    );
    assert_eq!(
        FindingKind::TimeBack {
            from: Ticks(9),
            to: Ticks(4)
        }
        .in_words(&name),
        "time goes back by 5 ticks (from 9 to 4)"
    );
}
