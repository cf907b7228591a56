//! Events written as ENTRACE and read back: the same events at the same places, whatever the container,
//! the version and the order in which the threads came. `entrace_facts.rs` has what is no event.

use crate::common::entrace::{TARGETS, round};
use crate::common::{Event, call, enter, exit, synthetic};
use fdr_formats::{Call, Edge, TraceInfo};

#[test]
fn unnested_calls_come_back_unchanged() {
    let tail = |time, function| call(time, function, Edge::TailExit);
    let cases: [&[Call]; 10] = [
        // Never entered, never left.
        &[exit(5, 1)],
        &[enter(5, 1)],
        &[enter(1, 1), enter(2, 2)],
        // An exit is missing, an entry is missing.
        &[
            enter(1, 1),
            enter(2, 2),
            enter(3, 3),
            exit(7, 1),
            enter(8, 4),
            exit(9, 4),
        ],
        &[enter(1, 1), enter(2, 2), exit(3, 9), exit(7, 1)],
        &[exit(1, 9), tail(1, 8), enter(1, 9), exit(1, 9)],
        // Not measured.
        &[
            synthetic(enter(1, 1)),
            enter(2, 2),
            synthetic(tail(3, 2)),
            synthetic(exit(3, 1)),
        ],
        &[synthetic(exit(3, 1))],
        // All at once.
        &[
            enter(5, 1),
            enter(5, 1),
            exit(5, 1),
            enter(5, 1),
            exit(5, 1),
            exit(5, 1),
            tail(5, 1),
        ],
        // The clock goes back.
        &[
            enter(100, 1),
            enter(90, 2),
            exit(80, 2),
            exit(70, 1),
            enter(u64::MAX, 3),
            exit(0, 3),
        ],
    ];
    for (nth, calls) in cases.iter().enumerate() {
        let events: Vec<Event> = calls.iter().map(|call| Event::Call(*call)).collect();
        for name in TARGETS {
            let found = round(name, &TraceInfo::default(), &events);
            assert_eq!(found.log.events(7), events, "case {nth}, {name}");
        }
    }
}

#[test]
fn every_event_kind_keeps_its_place() {
    let arguments = |call: Call| {
        Event::Call(Call {
            has_arguments: true,
            ..call
        })
    };
    let mut events = vec![
        Event::Wall(1_700_000_000, 999_999),
        Event::Lost(3),
        Event::Custom(5, Some(9), b"before any call".to_vec()),
        Event::Cpu(10, 3),
        arguments(enter(10, 1)),
    ];
    // In order, though `arg10` is sorted before `arg2`.
    events.extend((0..25).map(|value| Event::Argument(value * 7 % 11)));
    events.extend([
        Event::Custom(11, None, Vec::new()),
        Event::Typed(11, u16::MAX, vec![0xff; 300]),
        Event::Call(enter(12, 2)),
        Event::Lost(u64::MAX),
        Event::Cpu(13, u32::MAX),
        Event::Call(exit(13, 2)),
        Event::Custom(13, None, "text with ünïcode".into()),
        arguments(enter(14, 2)),
        Event::Call(exit(15, 2)),
        Event::Wall(0, 0),
        Event::Call(exit(16, 1)),
        Event::Typed(17, 0, b"\0".to_vec()),
    ]);
    for name in TARGETS {
        let found = round(name, &TraceInfo::default(), &events);
        assert_eq!(found.log.events(7), events, "{name}");
    }
}
