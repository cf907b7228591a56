//! Heph, written: the bytes against packets put together by hand, and what the writer makes of clocks, functions,
//! threads, losses and odd names. A reader that comes late gets what it needs.

use crate::common::heph::{
    self, call_events, complete_info, event, number, text, through, write_threads,
};
use crate::common::heph_packets::convertible;
use crate::common::{
    Event, ReadTrace, Shared, call, enter, exit, function, intact, list, named, read, synthetic,
    with_arguments, write_with,
};
use crate::roundtrip::holds::Holds;
use crate::roundtrip::programs::restricted;
use crate::written::ODD_NAMES;
use fdr_formats::heph::HephWriter;
use fdr_formats::source::drive;
use fdr_formats::{Call, Clock, Edge, Sink, Ticks, TraceInfo, Writer, registry};

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

#[test]
fn what_was_not_measured_stays_so() {
    let calls = [
        synthetic(enter(10, 3)),
        enter(11, 9),
        call(12, 9, Edge::TailExit),
        synthetic(call(13, 3, Edge::TailExit)),
        enter(14, 3),
        synthetic(exit(15, 3)),
    ];
    let read = through(&complete_info(), &[(named(1, ""), call_events(&calls))]);
    assert_eq!(read.log.calls(1), calls);
}

#[test]
fn calls_that_do_not_nest_are_made_to() {
    // An exit without entry; calls that are left open, until the moment of the dump.
    let calls = [exit(10, 3), enter(20, 9), enter(30, 3)];
    let info = complete_info();
    let Ticks(end) = info.end.expect("an end");
    let read = through(&info, &[(named(1, ""), call_events(&calls))]);
    let wanted = [
        synthetic(enter(10, 3)),
        exit(10, 3),
        enter(20, 9),
        enter(30, 3),
        synthetic(exit(end, 3)),
        synthetic(exit(end, 9)),
    ];
    assert_eq!(read.log.calls(1), wanted);
}

#[test]
fn losses_have_their_place_and_skip_numbers() {
    let mut events = vec![Event::Lost(1)];
    events.extend(call_events(&[enter(10, 3), enter(20, 9)]));
    events.push(Event::Lost(4));
    events.extend(call_events(&[exit(30, 9)]));
    events.extend([Event::Lost(u64::MAX), Event::Lost(7)]);
    events.extend(call_events(&[exit(40, 3)]));
    events.push(Event::Lost(1 << 31));
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert_eq!(read.log.events(1), events);
}

#[test]
fn threads_that_no_stream_can_have() {
    let ids = [
        1 << 40,
        u64::from(u32::MAX),
        u64::from(u32::MAX - 1),
        u64::from(u32::MAX - 2),
        u64::MAX,
        0,
    ];
    let calls = call_events(&[enter(10, 3), exit(20, 3)]);
    let threads: Vec<_> = ids.map(|id| (named(id, "n"), calls.clone())).to_vec();
    let (bytes, losses) = write_threads(&complete_info(), &threads);
    // 2^40 takes the stream of u32::MAX - 1, the facts that of u32::MAX.
    let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [5], "{losses}");
    let read = intact(&bytes);
    let found = read.thread_ids();
    assert_eq!(found, ids);
    for id in ids {
        assert_eq!(read.log.calls(id).len(), 2, "{id}");
    }
}

#[test]
fn streams_and_substreams_come_back() {
    let places = [(2, 0), (2, 7), (2, u64::MAX), (9, 1 << 40), (3, 1)];
    let mut bytes = Vec::new();
    let mut counters = [0; 10];
    for (stream, substream) in places {
        let counter = counters[stream as usize];
        counters[stream as usize] += 1;
        bytes.extend(event((stream, counter, substream), (10, 20), b"work", &[]));
    }
    let first = intact(&bytes);
    let source = registry::open(Box::new(bytes)).expect("a trace");
    let (again, losses) = write_with("heph", source.info(), |writer| {
        drive(&*source, writer, &|_| {}).expect("bytes in memory");
    });
    assert!(losses.is_empty(), "{losses}");
    let lines = list(&again);
    let lines: Vec<&str> = lines.iter().map(|line| &*line.3).collect();
    for (stream, substream) in places {
        let place = format!("stream={stream} ");
        let sub = format!(" substream={substream} start=10 ns");
        let found = lines
            .iter()
            .any(|line| line.starts_with(&place) && line.contains(&sub));
        assert!(found, "{place}{sub}: {lines:#?}");
    }
    let second = intact(&again);
    let sorted = |read: &ReadTrace| {
        let mut threads = read.info.threads.clone();
        threads.sort_by_key(|thread| thread.id);
        threads
    };
    assert_eq!(sorted(&first), sorted(&second));
}

#[test]
fn texts_that_break_json_are_told() {
    for name in ODD_NAMES {
        let mut info = complete_info();
        info.program = name.into();
        info.reason = name.into();
        info.clock.name = name.into();
        info.functions = vec![function(3, name, name, 1)];
        let mut events = call_events(&[enter(1500, 3), exit(3000, 3)]);
        let text = name.as_bytes().to_vec();
        events.insert(1, Event::Custom(2000, None, text));
        let (bytes, losses) = write_threads(&info, &[(named(1, name), events)]);
        let _ = convertible(&bytes);
        let mut notes = losses.notes();
        let is_told = notes.any(|(what, _)| what.contains("quotation marks"));
        let is_plain =
            !name.contains(|letter: char| letter.is_control() || "\"\\".contains(letter));
        assert_eq!(is_told, !is_plain, "{name:?}");
    }
}

#[test]
fn many_arguments() {
    let mut events = vec![with_arguments(enter(10, 3))];
    events.extend((0..70_000).map(Event::Argument));
    events.push(Event::Call(exit(20, 3)));
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert!(read.log.events(1) == events, "an argument is another one");
    // After an exit there is no call that could have one.
    events.push(Event::Argument(1));
    let (_, losses) = write_threads(&complete_info(), &[(named(1, ""), events)]);
    let wanted = "1 arguments without a call that was kept: left out";
    assert_eq!(losses.to_string(), wanted);
}

#[test]
fn a_late_reader_gets_what_it_needs() {
    let out = Shared::default();
    let mut writer = HephWriter::new(out.clone(), &complete_info());
    writer.thread(&named(1, "one"));
    writer.calls(&[enter(1000, 3), enter(1100, 9), exit(1200, 9)]);
    writer.functions(&[function(20, "alpha", "again.rs", 1)]);
    Writer::flush(&mut writer).expect("room");
    let before = out.bytes();
    let early = read(&before).expect("what was flushed can be read");
    assert_eq!(early.log.calls(1), [enter(1100, 9), exit(1200, 9)]);
    let mut late = writer.restart().expect("Heph can be joined");
    writer.calls(&[enter(1300, 20), exit(1400, 20), exit(1500, 3)]);
    writer.thread(&named(2, "two"));
    writer.calls(&[enter(1350, 9), exit(1450, 9)]);
    writer.functions(&[function(21, "later", "", 0)]);
    let losses = Writer::finish(Box::new(writer)).expect("room");
    assert!(losses.is_empty(), "{losses}");
    late.extend(&out.bytes()[before.len()..]);
    let (whole, late) = (intact(&out.bytes()), intact(&late));
    let wanted = [
        enter(1000, 3),
        enter(1300, 20),
        exit(1400, 20),
        exit(1500, 3),
    ];
    assert_eq!(late.log.calls(1), wanted);
    assert_eq!(late.log.calls(2), whole.log.calls(2));
    assert_eq!(late.info.functions, whole.info.functions);
    assert_eq!(late.info.threads, whole.info.threads);
    assert_eq!(late.info.clock, whole.info.clock);
    assert_eq!(late.info.program, "demo");
}

#[test]
fn a_clock_error_that_is_no_number() {
    let mut info = complete_info();
    info.clock.error_ppm = Some(f64::NAN);
    let found = through(&info, &[]).info.clock.error_ppm;
    assert!(found.is_some_and(f64::is_nan), "{found:?}");
}
