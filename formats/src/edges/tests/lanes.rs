//! Calls that overlap: the lanes that they get, and the problem that is reported when no lane is left.

use super::*;

#[test]
fn overlapping_calls_get_lanes_of_their_own() {
    let items = [
        (1, item(5, 15, 2)),
        (1, item(10, 20, 1)),
        (1, item(12, 18, 1)),
        (1, item(16, 17, 3)),
        (1, item(20, 40, 4)),
        (1, item(30, 50, 1)),
    ];
    let (log, _) = nest(&items);
    let wanted = [(5, 2), (15, -2), (16, 3), (17, -3), (20, 4), (40, -4)];
    assert_eq!(edges(&log.calls[1]), wanted);
    assert_eq!(edges(&log.calls[3]), [(10, 1), (20, -1), (30, 1), (50, -1)]);
    assert_eq!(edges(&log.calls[4]), [(12, 1), (18, -1)]);
    let highest = u64::from(u32::MAX >> 1);
    let wanted = [
        (highest - 1, "thread 1, overlap 1".to_owned()),
        (highest, "thread 1, overlap 2".to_owned()),
    ];
    assert_eq!(log.lanes, wanted);
    assert_eq!(log.diagnostics, [""; 0]);
}

#[test]
fn lanes_hold_whatever_the_order_of_the_file() {
    // Three rows of calls, each of which begins in the middle of the others.
    let mut items: Vec<_> = (0..300u64)
        .map(|nth| (0, item(nth * 10, nth * 10 + 25, 1 + (nth % 3) as u32)))
        .collect();
    items.push((2, item(3, 4, 9)));
    let mut reversed = items.clone();
    reversed.reverse();
    for items in [items, reversed] {
        let (log, plan) = nest(&items);
        assert_eq!(plan.lanes, [(3, 2), (5, 0), (5, 0)]);
        assert_eq!(log.diagnostics, [""; 0]);
        let mut found: Vec<(u64, i64)> = Vec::new();
        for calls in &log.calls {
            let mut open = Vec::new();
            for (time, edge) in edges(calls) {
                match edge {
                    1.. => open.push((time, edge)),
                    _ => {
                        let (start, function) = open.pop().expect("a call");
                        assert_eq!(function, -edge);
                        assert_eq!(time - start, if function == 9 { 1 } else { 25 });
                        found.push((start, function));
                    }
                }
            }
        }
        assert_eq!(found.len(), 301);
    }
}

#[test]
fn arguments_follow_their_call_onto_its_lane() {
    let with = |start, end, offset| Item {
        what: ItemContent::Span {
            function: FunctionId(1),
            flags: 0,
            cpu: Some(CpuId(7)),
            exit_cpu: None,
            arguments: true,
        },
        offset,
        ..item(start, end, 1)
    };
    let items = [
        (0, with(1, 9, 80)),
        (0, with(5, 12, 81)),
        (0, with(13, 14, 82)),
    ];
    let (log, _) = nest(&items);
    assert_eq!(log.marks, [80, 82, 81]);
    assert_eq!(log.cpus, [(1, 7), (5, 7)]);
    assert_eq!(edges(&log.calls[3]), [(5, 1), (12, -1)]);
}

#[test]
fn calls_without_a_lane_share_one() {
    // Eight calls at once, and four lanes besides the thread.
    let items: Vec<_> = (0..8u64)
        .map(|nth| {
            let mut item = item(nth, 100 + nth, 1 + nth as u32);
            item.offset = 70 + nth;
            (1, item)
        })
        .collect();
    let (log, plan) = nest(&items);
    assert_eq!(plan.lanes[1], (3, 5));
    assert_eq!(log.diagnostics.len(), 1);
    let what = &log.diagnostics[0];
    assert!(
        what.starts_with("at byte 75: 3 calls of thread 1 overlap"),
        "{what}"
    );
    let counts: Vec<usize> = log.calls.iter().map(Vec::len).collect();
    assert_eq!(counts, [0, 2, 0, 2, 2, 2, 2, 6]);
    // They are whole, one after the other.
    let wanted = [(5, 6), (105, -6), (6, 7), (106, -7), (7, 8), (107, -8)];
    assert_eq!(edges(&log.calls[7]), wanted);
}

#[test]
fn files_of_nested_calls_are_read_twice() {
    let planned = |items: &[Item]| {
        let mut planner = Planner::default();
        items.iter().for_each(|item| planner.add(0, item));
        planner.finish().may_overlap()
    };
    // Long rows of siblings, which are joined in pairs, and a parent of the same start.
    let mut nested: Vec<Item> = (10..200u64)
        .map(|nth| item(nth * 10, nth * 10 + 5, 1))
        .collect();
    nested.extend([item(100, 2000, 2), item(100, 105, 3), item(2000, 2000, 1)]);
    nested.push(item(1, 2001, 1));
    assert!(!planned(&nested));
    nested.push(item(2000, 2002, 1));
    assert!(planned(&nested));
    assert!(planned(&[item(5, 15, 1), item(10, 20, 1)]));
    // In another order, only a further pass can tell.
    assert!(planned(&[item(5, 15, 1), item(6, 7, 1)]));
}
