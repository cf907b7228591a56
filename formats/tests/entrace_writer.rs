//! ENTRACE, written: calls that do not nest, events at their places, and losses.

use crate::common::entrace::{TARGETS, round};
use crate::common::{
    Event, call, enter, exit, intact, synthetic, thread, with_arguments, write_pieces,
};
use fdr_formats::{Call, Edge, Ticks, TraceInfo};

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

#[test]
fn losses_are_reported_exactly() {
    for name in TARGETS {
        let events = [
            Event::Argument(1),
            Event::Call(enter(1, 1)),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Argument(3),
            Event::Cpu(3, 1),
            Event::Cpu(3, 2),
            Event::Cpu(4, 3),
            Event::Custom(5, None, vec![b'x'; 16 << 20]),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        let pieces = [(thread(7), events.to_vec())];
        let (bytes, losses) = write_pieces(name, &TraceInfo::default(), &pieces);
        let wanted = "2 arguments without a call that can still take them: left out; \
                      3 changes of CPU without a call before the next one: left out; \
                      1 events with payloads of nearly 16 MiB and more: left out";
        let mut found: Vec<String> = losses.to_string().split("; ").map(Into::into).collect();
        let mut wanted: Vec<&str> = wanted.split("; ").collect();
        found.sort();
        wanted.sort_unstable();
        assert_eq!(found, wanted, "{name}");
        let read = intact(&bytes);
        let wanted = [
            with_arguments(enter(1, 1)),
            Event::Argument(2),
            Event::Call(exit(2, 1)),
            Event::Custom(6, None, vec![b'y'; 1 << 20]),
        ];
        assert!(read.log.events(7) == wanted, "{name}");
    }
}

#[test]
fn calls_keep_all_arguments_an_entry_holds() {
    for name in ["et", "iet-prefix2"] {
        let mut events = vec![with_arguments(enter(1, 1))];
        events.extend((0..70_000).map(Event::Argument));
        events.push(Event::Call(exit(2, 1)));
        let info = TraceInfo::default();
        let pieces = [(thread(7), events.clone())];
        let (bytes, losses) = write_pieces(name, &info, &pieces);
        let found = intact(&bytes);
        let arguments = found.log.events(7).len() - 2;
        assert!(arguments > 65_000, "{arguments}");
        let lost = 70_000 - arguments;
        let wanted = format!("{lost} arguments without a call that can still take them: left out");
        assert_eq!(losses.to_string(), wanted);
        assert!(found.log.events(7)[..=arguments] == events[..=arguments]);
    }
}

#[test]
fn open_calls_last_until_the_end() {
    // A trace begins with its earliest event.
    let info = TraceInfo {
        start: Some(Ticks(50)),
        end: Some(Ticks(5000)),
        ..TraceInfo::default()
    };
    for name in TARGETS {
        let found = round(name, &info, &[Event::Call(enter(1, 2))]);
        let wanted = [enter(1, 2), synthetic(exit(5000, 2))];
        assert_eq!(found.log.calls(7), wanted, "{name}");
        assert_eq!(found.info.start, Some(Ticks(1)), "{name}");
    }
}
