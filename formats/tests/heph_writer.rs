//! Heph, written: the bytes against packets put together by hand, and what a trace says of itself, its
//! clock and its functions through the writer and back.

use crate::common::heph::{
    self, call_events, complete_info, event, number, text, through, write_threads,
};
use crate::common::{Event, call, enter, exit, function, intact, list, named, write_with};
use crate::roundtrip::holds::Holds;
use crate::roundtrip::programs::restricted;
use fdr_formats::{Call, Clock, Edge, Ticks, TraceInfo};

/// A trace of one function.
fn info_of_packets() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            anchor: Some((Ticks(500), 1_610_113_734_118_010_500)),
            ..Clock::default()
        },
        functions: vec![function(3, "alpha", "a.rs", 7)],
        program: "demo".into(),
        process: Some(42),
        start: Some(Ticks(1000)),
        ..TraceInfo::default()
    }
}

/// One event of each kind.
fn events_of_packets() -> Vec<Event> {
    let with_argument = Call {
        has_arguments: true,
        ..enter(2000, 3)
    };
    let inner = Call {
        synthetic: true,
        ..call(2500, 5, Edge::TailExit)
    };
    vec![
        Event::Wall(7, 8),
        Event::Cpu(1500, 1),
        Event::Call(with_argument),
        Event::Argument(77),
        Event::Call(enter(2100, 5)),
        Event::Cpu(2200, 2),
        Event::Call(inner),
        Event::Lost(5),
        Event::Custom(2600, Some(4), b"hi".to_vec()),
        Event::Typed(2700, 6, vec![0xff, 1, 2, 3, 4, 5, 6, 7, 8]),
        Event::Call(exit(3000, 3)),
    ]
}

/// A packet of the stream of facts. Each has its own microsecond.
fn facts_packet(counter: u32, name: &str, attributes: &[Vec<u8>]) -> Vec<u8> {
    let place = (u32::MAX, counter, 0);
    let time = 1000 + 1000 * u64::from(counter);
    event(place, (time, time), name.as_bytes(), &attributes.concat())
}

/// A packet of the thread's stream. The first event of a microsecond is on no row.
fn thread_packet(
    counter: u32,
    row: u64,
    times: (u64, u64),
    name: &str,
    attributes: &[Vec<u8>],
) -> Vec<u8> {
    let substream = if row == 0 { 0 } else { 1u64 << 63 | row };
    let place = (1, counter, substream);
    event(place, times, name.as_bytes(), &attributes.concat())
}

fn array(name: &str, values: &[u64]) -> Vec<u8> {
    let mut value = (values.len() as u16).to_be_bytes().to_vec();
    value.extend(values.iter().flat_map(|value| value.to_be_bytes()));
    heph::attribute(name, 0x81, &value)
}

/// What stands before the first event.
fn typed_packets_of_trace() -> Vec<Vec<u8>> {
    vec![
        heph::epoch(1_610_113_734_118_010_000),
        facts_packet(
            0,
            "fdr:trace",
            &[
                number("version", 2),
                text("program", "demo"),
                number("process", 42),
                number("anchor_time", 500),
            ],
        ),
        facts_packet(
            1,
            "fdr:more",
            &[
                number("of", u64::from(u32::MAX) << 32),
                number("anchor_unix", 1_610_113_734_118_010_500),
            ],
        ),
        facts_packet(
            2,
            "fdr:function",
            &[
                number("id", 3),
                text("name", "alpha"),
                text("file", "a.rs"),
                number("line", 7),
            ],
        ),
        facts_packet(
            3,
            "fdr:thread",
            &[number("stream", 1), text("name", "main")],
        ),
    ]
}

fn typed_packets_of_events() -> Vec<Vec<u8>> {
    let words = [0xff01_0203_0405_0607, 0x0800_0000_0000_0000];
    vec![
        thread_packet(
            0,
            0,
            (1999, 1999),
            "fdr:wall",
            &[number("seconds", 7), number("micros", 8)],
        ),
        facts_packet(
            4,
            "fdr:thread",
            &[
                number("stream", 1),
                number("rows", 1 << 63),
                text("name", "main"),
            ],
        ),
        thread_packet(
            1,
            1,
            (2100, 2500),
            "#5",
            &[
                number("function_id", 5),
                number("cpu", 1),
                number("exit_cpu", 2),
                number("flags", 6),
            ],
        ),
        // Two events are left out for five records: numbers 2 and 3.
        thread_packet(
            4,
            2,
            (2500, 2500),
            "fdr:lost",
            &[number("records", 5), number("skipped", 2)],
        ),
        thread_packet(
            5,
            3,
            (2600, 2600),
            "fdr:custom",
            &[number("cpu", 4), text("text", "hi")],
        ),
        thread_packet(
            6,
            4,
            (2700, 2700),
            "fdr:typed",
            &[number("kind", 6), number("bytes", 9), array("data", &words)],
        ),
        thread_packet(
            7,
            0,
            (2000, 3000),
            "alpha",
            &[number("cpu", 1), number("argument", 77)],
        ),
    ]
}

#[test]
fn every_packet_as_typed_by_hand() {
    let events = events_of_packets();
    let threads = [(named(1, "main"), events.clone())];
    let (bytes, losses) = write_threads(&info_of_packets(), &threads);
    assert!(losses.is_empty(), "{losses}");
    let notes: Vec<_> = losses
        .notes()
        .map(|(what, count)| (&what[..8], count))
        .collect();
    assert_eq!(notes, [("payloads", 1), ("events t", 4)]);
    let wanted = [typed_packets_of_trace(), typed_packets_of_events()].concat();
    let packets: Vec<_> = list(&bytes);
    assert_eq!(packets.len(), wanted.len());
    for ((offset, size, _, detail), wanted) in packets.iter().zip(&wanted) {
        let found = &bytes[*offset as usize..(*offset + *size) as usize];
        assert_eq!(found, wanted, "{detail}");
    }
    let read = intact(&bytes);
    assert_eq!(
        read.log.events(1),
        restricted(events, Holds::for_target("heph"))
    );
}

#[test]
fn times_are_converted_by_the_clock() {
    let second = 2_500_000_000;
    let mut info = complete_info();
    info.clock.frequency = second;
    // At 1 s since tick 0 it was that time.
    info.clock.anchor = Some((Ticks(second), 1_700_000_001_000_000_000));
    info.start = Some(Ticks(0));
    let far = second * 3600 * 24 * 365;
    let calls = [
        enter(5, 3),
        enter(second + 6, 9),
        exit(second + 7, 9),
        exit(far, 3),
    ];
    let read = through(&info, &[(named(1, ""), call_events(&calls))]);
    assert_eq!(read.info.clock.frequency, 1_000_000_000);
    let anchor = Some((Ticks(1_000_000_000), 1_700_000_001_000_000_000));
    assert_eq!(read.info.clock.anchor, anchor);
    let year = 3600 * 24 * 365 * 1_000_000_000;
    // 2.4 and 2.8 ns are rounded.
    let wanted = [
        enter(2, 3),
        enter(1_000_000_002, 9),
        exit(1_000_000_003, 9),
        exit(year, 3),
    ];
    assert_eq!(read.log.calls(1), wanted);
    // A kilohertz, up to where nanoseconds leave 64 bits.
    info.clock.frequency = 1000;
    info.clock.anchor = None;
    let last = u64::MAX / 1_000_000;
    let calls = call_events(&[
        enter(1, 3),
        enter(last, 9),
        exit(last + 1, 9),
        exit(u64::MAX, 3),
    ]);
    let (bytes, losses) = write_threads(&info, &[(named(1, ""), calls)]);
    assert_eq!(losses.to_string(), "2 times over 2^64 ns: cut");
    let ends = [(1_000_000, u64::MAX), (last * 1_000_000, u64::MAX)];
    let found = intact(&bytes).log.calls(1);
    assert_eq!(found[0].time.0, ends[0].0);
    assert_eq!(found[1].time.0, ends[1].0);
    assert_eq!((found[2].time.0, found[3].time.0), (u64::MAX, u64::MAX));
}

#[test]
fn epochs_before_1970_are_ours_only() {
    let mut info = complete_info();
    info.clock.anchor = Some((Ticks(2000), 1500));
    let (bytes, losses) = write_threads(&info, &[]);
    let wanted = "1 epochs before 1970: left out, other readers see no wall-clock time";
    assert_eq!(losses.to_string(), wanted);
    assert_eq!(list(&bytes)[0].2, "Event");
    assert_eq!(intact(&bytes).info.clock, info.clock);
}

#[test]
fn ambiguous_functions_are_kept_by_number() {
    let mut info = complete_info();
    info.functions = vec![
        function(1, "same", "a.rs", 1),
        function(2, "same", "b.rs", 2),
        function(3, "", "c.rs", 3),
        function(4, "fdr:trace", "", 0),
        function(5, "#77", "", 0),
        function(0, "zero", "", 0),
        function(u32::MAX, "last", "", u32::MAX),
    ];
    // 77 has no name; 8 and 9 come later.
    let order = [1, 2, 3, 4, 5, 77, 0, u32::MAX, 8, 9];
    let calls: Vec<Call> = (0..)
        .zip(order)
        .flat_map(|(at, id)| [enter(10 + 2 * at, id), exit(11 + 2 * at, id)])
        .collect();
    let later = [
        function(8, "late", "d.rs", 4),
        function(9, "same", "e.rs", 5),
    ];
    let (bytes, losses) = write_with("heph", &info, |writer| {
        writer.thread(&named(1, ""));
        writer.calls(&calls[..16]);
        writer.functions(&later);
        writer.calls(&calls[16..]);
    });
    assert!(losses.is_empty(), "{losses}");
    let read = intact(&bytes);
    assert_eq!(read.log.calls(1), calls);
    let mut wanted = [info.functions, later.to_vec()].concat();
    wanted.sort_by_key(|function| function.id);
    assert_eq!(read.info.functions, wanted);
    let described = |name: &str| {
        list(&bytes)
            .iter()
            .filter(|line| line.3.contains(name))
            .count()
    };
    assert_eq!(
        described("function_id="),
        5,
        "2, 3, 4, 77 and 9 need their number, not 1"
    );
}

#[test]
fn repeated_functions_keep_their_first_name() {
    let (bytes, losses) = write_with("heph", &complete_info(), |writer| {
        writer.functions(&[function(3, "other", "", 0)]);
    });
    assert_eq!(losses.iter().map(|(_, count)| count).sum::<u64>(), 1);
    assert_eq!(intact(&bytes).info.functions[0].name, "alpha");
}
