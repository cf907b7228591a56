//! What Heph's own converter wants of a file, packet by packet: the files of the writer are taken apart by
//! code that shares nothing with it. And nothing is lost by it: names, payloads and arguments of any
//! length come back.

use crate::common::heph::{call_events, complete_info, epoch, event, number, text, write_threads};
use crate::common::heph_packets::{FACTS, Packet, Value, convertible, packets};
use crate::common::{
    self, Event, Random, Shared, call, enter, exit, function, intact, named, synthetic, write_with,
};
use fdr_formats::heph::HephWriter;
use fdr_formats::model::{ClockFaults, Counts, Missing};
use fdr_formats::{Call, Edge, Function, Sink, Thread, Ticks, TraceInfo, Writer};

/// A name of `bytes` bytes, with letters of 1 to 4 bytes. Each seed has another name.
fn name(bytes: usize, seed: usize) -> String {
    let mut name = format!("{seed}::");
    let letters = ['a', 'é', '五', '𝄞', ':'];
    for at in seed.. {
        let letter = letters[at % letters.len()];
        if name.len() + letter.len_utf8() > bytes {
            break;
        }
        name.push(letter);
    }
    while name.len() < bytes {
        name.push('z');
    }
    name
}

/// Lengths around all bounds, and some far beyond.
fn lengths() -> impl Iterator<Item = usize> {
    (4..300).chain([511, 1000, 4096, 5001, 65_535, 65_536, 70_000])
}

/// A trace that says all there is to say, with one text everywhere.
fn info(name: &str) -> TraceInfo {
    let mut info = complete_info();
    info.program = name.into();
    info.reason = name.into();
    info.clock.name = name.into();
    info.clock.faults = ClockFaults {
        skew_ns: 1,
        steps_back: u64::MAX,
        ahead_ns: -7,
        wall_step_ns: i64::MIN,
    };
    info.missing = Missing {
        threads: u64::MAX,
        overwritten: 3,
        dropped: 4,
    };
    info.functions = vec![
        function(3, name, name, u32::MAX),
        Function {
            untimed: true,
            ..function(u32::MAX - 1, &format!("{name}!"), "", 0)
        },
        function(5, name, "other.rs", 1),
    ];
    info
}

fn thread(id: u64, name: &str) -> Thread {
    Thread {
        process: Some(u64::MAX),
        counts: Some(Counts {
            recorded: u64::MAX,
            readable: 14,
            overwritten: u64::MAX - 15,
            dropped: 1,
            synthetic_entries: 2,
            synthetic_exits: 3,
            summarised: 0,
        }),
        ..named(id, name)
    }
}

#[test]
fn short_packets_hold_names_of_any_length() {
    for length in lengths() {
        let name = name(length, 0);
        let info = info(&name);
        let events = [
            Event::Wall(u64::MAX, 999_999),
            Event::Cpu(5000, u32::MAX - 1),
            Event::Call(enter(5000, 3)),
            Event::Call(enter(15_000, u32::MAX - 1)),
            Event::Cpu(25_000, 1),
            Event::Call(synthetic(call(25_000, u32::MAX - 1, Edge::TailExit))),
            Event::Lost(u64::MAX),
            Event::Custom(35_000, Some(u32::MAX), name.clone().into_bytes()),
            Event::Typed(45_000, u16::MAX, name.clone().into_bytes()),
            Event::Call(enter(55_000, 5)),
            Event::Call(exit(65_000, 5)),
            Event::Call(exit(75_000, 3)),
        ];
        let thread = thread(1 << 40, &name);
        let (bytes, losses) = write_threads(&info, &[(thread.clone(), events.to_vec())]);
        // The thread's number, and nothing else.
        assert_eq!(losses.iter().count(), 1, "{losses}");
        let packets = convertible(&bytes);
        // The first one's own name is a function's whole name, in the listing of another program.
        let described = packets.iter().filter(|packet| packet.description == name);
        assert_eq!(
            described.count(),
            if length <= 50 {
                2
            } else {
                usize::from(length <= 72)
            }
        );
        let read = intact(&bytes);
        assert_eq!(read.log.events(1 << 40), events, "{length}");
        assert_eq!(read.info.threads, [thread], "{length}");
        let mut functions = info.functions.clone();
        functions.sort_by_key(|function| function.id);
        assert_eq!(read.info.functions, functions, "{length}");
        assert_eq!(read.info.clock, info.clock, "{length}");
        assert_eq!(read.info.missing, info.missing, "{length}");
        assert_eq!((&read.info.program, &read.info.reason), (&name, &name));
        assert_eq!(
            (read.info.process, read.info.dump),
            (info.process, info.dump)
        );
    }
}

#[test]
fn calls_with_all_that_they_can_have() {
    let mut info = complete_info();
    info.functions = (0..130)
        .map(|at| function(at + 1, &name(4 + at as usize, at as usize), "", 0))
        .collect();
    let (mut events, mut time) = (Vec::new(), 1000);
    for id in 1..=130 {
        for bits in 0..16_u64 {
            for arguments in [0_u64, 1, 2, 3, 9] {
                time += 10_000;
                let has_bit = |bit: u64| bits >> bit & 1 == 1;
                let entry = Call {
                    has_arguments: arguments > 0,
                    synthetic: has_bit(0),
                    ..enter(time, id)
                };
                let edge = if has_bit(1) {
                    Edge::TailExit
                } else {
                    Edge::Exit
                };
                let left = Call {
                    synthetic: has_bit(2),
                    ..call(time + 5000, id, edge)
                };
                events.push(Event::Call(entry));
                let value = |nth| u64::MAX - bits - 100 * nth;
                events.extend((0..arguments).map(|nth| Event::Argument(value(nth))));
                if has_bit(3) {
                    events.push(Event::Cpu(time + 5000, (time / 10_000) as u32));
                }
                events.push(Event::Call(left));
            }
        }
    }
    let (bytes, losses) = write_threads(&info, &[(named(9, "main"), events.clone())]);
    assert!(losses.is_empty(), "{losses}");
    let packets = convertible(&bytes);
    assert_eq!(
        packets.iter().filter(|packet| packet.stream == 9).count(),
        130 * 16 * 5
    );
    assert!(
        intact(&bytes).log.events(9) == events,
        "a call is another one"
    );
}

#[test]
fn payloads_of_text_are_cut_between_letters() {
    let mut events = Vec::new();
    for (at, length) in (1..).zip(lengths()) {
        let text = name(length, at);
        events.push(Event::Custom(10_000 * at as u64, None, text.into_bytes()));
    }
    events.push(Event::Custom(90_000_000, Some(1), Vec::new()));
    let (bytes, losses) = write_threads(&complete_info(), &[(named(9, "main"), events.clone())]);
    assert!(losses.is_empty() && losses.notes().count() == 0);
    let _ = convertible(&bytes);
    assert!(
        intact(&bytes).log.events(9) == events,
        "a payload is another one"
    );
}

#[test]
fn arrays_are_payloads_and_no_text() {
    let events = vec![Event::Custom(2000, None, vec![0xff; 500])];
    let (bytes, losses) = write_threads(&complete_info(), &[(named(9, "main"), events)]);
    assert!(losses.is_empty());
    let notes: Vec<u64> = losses.notes().map(|(_, count)| count).collect();
    assert_eq!(notes, [1]);
    let (epoch, packets) = packets(&bytes);
    assert!(epoch.is_some());
    let arrays: Vec<_> = packets.iter().filter(|packet| packet.is_array()).collect();
    assert_eq!(arrays.len(), 1);
    assert_eq!(arrays[0].description, "fdr:custom");
}

#[test]
fn a_function_is_described_before_its_call() {
    let mut info = complete_info();
    let long = name(3000, 7);
    info.functions = vec![function(3, &long, "", 0)];
    let calls = call_events(&[enter(2000, 3), exit(9000, 3)]);
    let (bytes, _) = write_threads(&info, &[(named(9, "main"), calls)]);
    let packets = convertible(&bytes);
    let first = packets
        .iter()
        .position(|packet| packet.description == "fdr:function");
    let first = first.expect("a function");
    let fact = &packets[first];
    let event_id = u64::from(FACTS) << 32 | u64::from(fact.counter);
    let further = packets[first + 1..].iter();
    let further: Vec<_> = further
        .take_while(|packet| packet.description == "fdr:more")
        .collect();
    for packet in &further {
        assert_eq!(packet.stream, FACTS);
        assert_eq!(
            packet.attributes[0],
            ("of".into(), Value::Unsigned(event_id))
        );
    }
    let parts = further.iter().map(|packet| packet.text("name"));
    let whole: String = [fact.text("name")].into_iter().chain(parts).collect();
    assert_eq!(whole, long);
    let call = packets.last().expect("a call");
    let (head, tail) = (&call.description[..3], call.description.rsplit_once('~'));
    assert!(long.starts_with(head) && long.ends_with(tail.expect("a hash").1));
    assert_eq!(
        call.attributes,
        [("function_id".into(), Value::Unsigned(3))]
    );
}

#[test]
fn no_two_events_begin_in_one_microsecond() {
    // The epoch is 500 ns after a whole microsecond: one begins at 500 ns of the trace's own time.
    let mut info = complete_info();
    info.clock.anchor = Some((Ticks(0), 1_700_000_000_000_000_500));
    let calls = [
        enter(10_400, 3),
        enter(10_499, 9),
        exit(10_500, 9),
        enter(10_500, 9),
        exit(11_499, 9),
        exit(11_499, 3),
        enter(11_499, 3),
        exit(11_500, 3),
        enter(11_500, 3),
        exit(90_000, 3),
    ];
    let mut events = call_events(&calls);
    events.push(Event::Custom(90_000, None, b"text".to_vec()));
    events.push(Event::Lost(7));
    let other = call_events(&[enter(10_400, 3), exit(10_500, 3)]);
    let threads = [(named(1, ""), events), (named(2, ""), other)];
    let (bytes, losses) = write_threads(&info, &threads);
    // One entry, one entry, the loss: each is on a row, which is a substream.
    let packets = convertible(&bytes);
    let is_row = |packet: &&Packet| packet.stream == 1 && packet.substream >> 63 == 1;
    let on_rows: Vec<&Packet> = packets.iter().filter(is_row).collect();
    assert_eq!(on_rows.len(), 3, "{on_rows:#?}");
    let read = intact(&bytes);
    assert_eq!(read.info.threads.len(), 2);
    assert_eq!(read.log.events(1), threads[0].1);
    let notes: Vec<_> = losses.notes().collect();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert_eq!(notes[0].1, 3);
    assert!(notes[0].0.contains("convert_trace"));
    assert!(losses.is_empty(), "nothing is lost by it");
    // No two begin together: there is nothing to tell.
    let calls = call_events(&[
        enter(10_400, 3),
        enter(10_500, 9),
        exit(10_600, 9),
        exit(10_600, 3),
    ]);
    let (bytes, losses) = write_threads(&info, &[(named(1, ""), calls)]);
    let _ = convertible(&bytes);
    assert_eq!(losses.notes().count(), 0);
}

/// Calls of a few ns. `whole`: they nest, and time never goes back.
fn dense(random: &mut Random, whole: bool) -> Vec<Event> {
    let (mut time, mut open, mut events) = (1_000_000, Vec::new(), Vec::new());
    for _ in 0..500 {
        time += random.below(90);
        let id = 3 + 6 * random.below(2) as u32;
        match random.below(10) {
            0 => events.push(Event::Custom(time, None, b"text".to_vec())),
            1 if !whole => time -= random.below(3000),
            2 if !whole => events.push(Event::Call(exit(time, id))),
            3 if !whole => events.push(Event::Lost(random.below(5))),
            4..7 => {
                if let Some(id) = open.pop() {
                    time += 1;
                    events.push(Event::Call(exit(time, id)));
                }
            }
            _ => {
                time += 1;
                open.push(id);
                events.push(Event::Call(enter(time, id)));
            }
        }
    }
    while let Some(id) = open.pop().filter(|_| whole) {
        time += 1;
        events.push(Event::Call(exit(time, id)));
    }
    events
}

#[test]
fn dense_calls_are_exact_and_apart() {
    for seed in 1..60 {
        let mut random = Random(seed * 0x9e37_79b9);
        let whole = seed % 2 == 0;
        let threads = [1, 2, 1 << 40].map(|id| (named(id, ""), dense(&mut random, whole)));
        let (bytes, losses) = write_threads(&complete_info(), &threads);
        let _ = convertible(&bytes);
        assert!(
            losses
                .notes()
                .any(|(what, _)| what.contains("same microsecond"))
        );
        let read = common::read(&bytes).expect("readable");
        assert_eq!(read.info.threads.len(), 3, "seed {seed}");
        for (thread, events) in threads.iter().filter(|_| whole) {
            assert_eq!(&read.log.events(thread.id.0), events, "seed {seed}");
        }
    }
}

#[test]
fn a_late_reader_gets_short_packets_too() {
    let out = Shared::default();
    let long = name(2000, 1);
    let mut writer = HephWriter::new(out.clone(), &info(&long));
    writer.thread(&thread(7, &long));
    writer.calls(&[enter(10_000, 3), exit(20_000, 3)]);
    Writer::flush(&mut writer).expect("room");
    let before = out.bytes().len();
    let mut late = writer.restart().expect("Heph can be joined");
    writer.calls(&[enter(30_000, 3), exit(40_000, 3)]);
    writer.functions(&[function(77, &name(200, 2), "", 0)]);
    writer.thread(&named(8, &long));
    writer.calls(&[enter(30_000, 77), exit(40_000, 77)]);
    let losses = Writer::finish(Box::new(writer)).expect("room");
    assert!(losses.is_empty(), "{losses}");
    late.extend(&out.bytes()[before..]);
    for bytes in [&late, &out.bytes()] {
        let packets = convertible(bytes);
        let facts = packets.iter().filter(|packet| packet.stream == FACTS);
        let numbers: Vec<u32> = facts.map(|packet| packet.counter).collect();
        assert!(
            numbers
                .windows(2)
                .all(|two| two[1] == two[0].wrapping_add(1))
        );
        assert_eq!(intact(bytes).info.functions.len(), 4);
    }
    let read = intact(&late);
    assert_eq!(read.log.calls(7), [enter(30_000, 3), exit(40_000, 3)]);
    assert_eq!(read.info.threads[0].name, long);
    assert_eq!(read.info.threads[0].counts, None);
}

#[test]
fn what_continues_nothing_is_reported_and_skipped() {
    let event_id =
        |stream: u32, counter: u32| number("of", u64::from(stream) << 32 | u64::from(counter));
    let more = |counter, event_id: Vec<u8>, attribute: Vec<u8>| {
        let attributes = [event_id, attribute].concat();
        event((FACTS, counter, 0), (0, 0), b"fdr:more", &attributes)
    };
    let name = |counter, attributes: &[Vec<u8>]| {
        let place = (FACTS, counter, 0);
        event(place, (0, 0), b"fdr:function", &attributes.concat())
    };
    let flags = number("flags", 8);
    let parts = [
        epoch(5),
        more(0, event_id(FACTS, 9), text("name", "nobody's")),
        name(1, &[number("id", 3), text("name", "al")]),
        more(2, event_id(FACTS, 1), text("name", "ph")),
        more(3, event_id(FACTS, 1), text("name", "a")),
        more(4, event_id(FACTS, 4), text("name", "itself")),
        event((1, 0, 0), (10, 20), b"alpha", &flags),
        more(5, event_id(1, 1), number("argument", 1)),
        event((1, 1, 0), (30, 40), b"alpha", &flags),
        more(6, event_id(1, 1), number("argument", 2)),
        more(7, event_id(1, 1), number("argument", 3)),
        event((1, 2, 0), (50, 60), b"alpha", &flags),
    ];
    let read = common::read(&parts.concat()).expect("a trace");
    let what = read.problems();
    let wanted = "the event that this one continues is not in front of it; it is skipped";
    assert_eq!(what, [wanted; 3]);
    let offset = |nth: usize| parts[..nth].concat().len() as u64;
    let offsets = read.offsets();
    assert_eq!(offsets, [1, 5, 7].map(offset));
    assert_eq!(read.info.functions, [function(3, "alpha", "", 0)]);
    let arguments = read.log.events(1).iter();
    let arguments: Vec<&Event> = arguments
        .filter(|event| matches!(event, Event::Argument(_)))
        .collect();
    assert_eq!(arguments, [&Event::Argument(2), &Event::Argument(3)]);
}

#[test]
fn undated_traces_begin_at_stated_times() {
    let mut info = complete_info();
    info.clock.anchor = None;
    let (bytes, _) = write_with("heph", &info, |writer| writer.thread(&named(1, "")));
    let (epoch, events) = packets(&bytes);
    assert_eq!(epoch, None);
    assert_eq!(events[0].description, "fdr:trace");
    let _ = convertible(&bytes);
}
