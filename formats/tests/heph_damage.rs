//! Damaged Heph files: the reader gives all intact events, reports each fault once with its offset, and continues at
//! the next packet. Its time and memory are in proportion to the file's size.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::heph::{
    self, attribute, complete_info, epoch, event, number, option, plain, text,
};
use crate::common::{
    CountingBytes, Event, ReadTrace, enter, exit, function, intact, list, named, read, read_damaged,
};
use fdr_formats::{Ticks, registry};

#[test]
fn what_is_no_heph_file() {
    for bytes in [
        &b""[..],
        b"text",
        &plain(0, (1, 2), "a")[1..],
        &epoch(1)[..7],
        &[0xc1, 0xfc, 0x1f, 0xb7, 0, 0, 0, 41],
        &[0x75, 0xd1, 0x1d, 0x4d, 0, 0, 0, 9],
    ] {
        assert!(read(bytes).is_err(), "{bytes:?}");
        let opened = fdr_formats::heph::HephSource::open(Box::new(bytes.to_vec()));
        let error = opened.map(|_| ()).expect_err("no header");
        assert!(
            error.to_string().starts_with("at byte 0: no Heph"),
            "{error}"
        );
    }
}

#[test]
fn reading_goes_on_at_the_next_packet() {
    let good = || plain(1, (30, 40), "b");
    let sized = |size: u32| {
        let mut packet = event((1, 9, 0), (15, 16), b"damaged", &number("n", 7));
        packet[4..8].copy_from_slice(&size.to_be_bytes());
        packet
    };
    let cases = [
        (
            "bytes between packets",
            vec![0x55; 100],
            "no packet begins here; 100 bytes",
        ),
        (
            "too small for an event",
            sized(41),
            "a packet of 41 bytes is too short",
        ),
        ("nothing", sized(0), "a packet of 0 bytes is too short"),
        (
            "one byte short",
            sized(60),
            "size of 60 bytes leads to no packet; 61 bytes",
        ),
        (
            "one byte long",
            sized(62),
            "size of 62 bytes leads to no packet; 61 bytes",
        ),
        (
            "out of the file",
            sized(u32::MAX),
            "leads to no packet; 61 bytes",
        ),
        (
            "an empty option",
            option("", &[])[..9].to_vec(),
            "leads to no packet; 9 bytes",
        ),
        (
            "magic alone",
            vec![0xc1, 0xfc, 0x1f, 0xb7],
            "4 bytes are skipped",
        ),
    ];
    for (case, damage, message) in cases {
        let parts = [epoch(5), plain(0, (10, 20), "a"), damage, good()];
        let read = read_damaged(&parts.concat());
        assert_eq!(read.offsets(), [23 + 43], "{case}: {:?}", read.diagnostics);
        let problem = &read.diagnostics[0].what;
        assert!(problem.contains(message), "{case}: {problem}");
        let wanted = [enter(10, 1), exit(20, 1), enter(30, 2), exit(40, 2)];
        assert_eq!(read.log.calls(1), wanted, "{case}");
    }
}

#[test]
fn a_packet_whose_follower_is_damaged_is_kept() {
    let parts = [
        plain(0, (10, 20), "a"),
        vec![0x55; 10],
        plain(1, (30, 40), "b"),
        // No one confirms its size: it is the last but for rubbish.
        event((1, 2, 0), (50, 60), b"c", &text("s", "whole")),
        vec![0x55; 3],
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.log.calls(1).len(), 6);
    let last = parts.concat().len() as u64 - 3;
    assert_eq!(read.offsets(), [43, last]);
}

#[test]
fn packets_with_damaged_contents() {
    let long_text = {
        let mut packet = plain(1, (30, 40), "b");
        packet[40..42].copy_from_slice(&100u16.to_be_bytes());
        packet
    };
    let long_name = {
        let mut packet = option("n", &[1, 2, 3]);
        packet[9] = 200;
        packet
    };
    for damage in [long_text, long_name] {
        let parts = [plain(0, (10, 20), "a"), damage, plain(2, (50, 60), "c")];
        let read = read_damaged(&parts.concat());
        let calls = read.log.calls(1);
        assert_eq!((calls.len(), read.offsets()), (4, vec![43]));
    }
    // Attributes up to the damaged one are given, the event too.
    let attributes = [
        number("n", 7),
        attribute("x", 0x80, &[0, 0]),
        number("m", 8),
    ]
    .concat();
    let parts = [
        event((1, 0, 0), (10, 20), b"a", &attributes),
        plain(1, (30, 40), "b"),
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.offsets(), [0]);
    let message = &read.diagnostics[0].what;
    assert!(
        message.starts_with("the attribute at byte 55 of the event has type 128"),
        "{message}"
    );
    assert_eq!(
        read.log.events(1)[1..3],
        [Event::Argument(7), Event::Custom(10, None, b"n=7".to_vec()),]
    );
    assert_eq!(read.log.calls(1).len(), 4);
    let parts = [
        event((1, 0, 0), (10, 20), b"a", &attribute("x", 1, &[0; 7])),
        plain(1, (30, 40), "b"),
    ];
    let message = read_damaged(&parts.concat()).diagnostics[0].what.clone();
    assert!(message.contains("leaves the packet"), "{message}");
}

#[test]
fn events_that_are_missing_are_counted() {
    let parts = [
        plain(u32::MAX, (10, 20), "a"),
        plain(0, (30, 40), "a"),
        plain(3, (70, 80), "a"),
        event((2, 5, 0), (10, 20), b"a", &[]),
        plain(4, (90, 95), "a"),
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.offsets(), [86]);
    let wanted = "2 events of stream 1 are missing in front of this one: its number is 3, not 1";
    assert_eq!(read.diagnostics[0].what, wanted);
    let lost = read.log.events(1).iter();
    let lost: Vec<usize> = lost
        .enumerate()
        .filter(|(_, event)| **event == Event::Lost(4))
        .map(|(at, _)| at)
        .collect();
    assert_eq!(
        lost,
        [4],
        "two calls, their entries and exits, after the second call"
    );
}

#[test]
fn a_counter_that_goes_back_is_reported_once() {
    let parts = [
        plain(5, (10, 20), "a"),
        plain(5, (30, 40), "a"),
        plain(5, (50, 60), "a"),
        plain(2, (70, 80), "a"),
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.offsets(), [43]);
    assert_eq!(read.log.events(1).len(), 8, "nothing is missing");
}

#[test]
fn skipped_bytes_that_held_events_are_one_damage() {
    let parts = [
        plain(0, (10, 20), "a"),
        vec![0x55; 43],
        plain(2, (50, 60), "a"),
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.offsets(), [43]);
    assert_eq!(read.log.events(1)[2], Event::Lost(2));
}

#[test]
fn options_and_times_that_can_not_be() {
    let parts = [
        option("epoch", &[1, 2, 3]),
        plain(0, (20, 10), "a"),
        epoch(1000),
        plain(1, (1, u64::MAX), "b"),
        epoch(3000),
        plain(2, (2, u64::MAX), "c"),
    ];
    let read = read_damaged(&parts.concat());
    assert_eq!(read.offsets(), [0, 18, 18 + 43 + 23 + 43 + 23]);
    let calls = read.log.calls(1);
    assert_eq!(calls[0].time, Ticks(1));
    assert_eq!(calls[1..3], [enter(20, 1), exit(20, 1)]);
    assert_eq!(calls[3], enter(2002, 3));
    let last: Vec<u64> = calls[4..].iter().map(|call| call.time.0).collect();
    assert_eq!(last, [u64::MAX, u64::MAX]);
    assert_eq!(read.info.clock.anchor, Some((Ticks(0), 1000)));
}

#[test]
fn an_epoch_that_goes_back_moves_zero() {
    let parts = [
        plain(0, (10, 20), "a"),
        epoch(5000),
        plain(1, (30, 40), "a"),
        epoch(2000),
        plain(2, (50, 60), "a"),
    ];
    let read = intact(&parts.concat());
    assert_eq!(read.info.clock.anchor, Some((Ticks(0), 2000)));
    assert_eq!(read.info.start, Some(Ticks(50)));
    let times = read.log.times(1);
    // What is in front of the first epoch counts from it.
    assert_eq!(times, [50, 60, 3010, 3020, 3030, 3040]);
}

#[test]
fn stated_times_count_from_the_epoch() {
    let (trace, _) = heph::write_threads(&complete_info(), &[]);
    let plain = intact(&trace);
    let moved = intact(&[epoch(1_700_000_000_000_000_000 - 5000), trace].concat());
    let times = |read: &ReadTrace| {
        let (anchor, unix) = read.info.clock.anchor.expect("an anchor");
        (anchor.0, unix, read.info.end.expect("an end").0)
    };
    let (anchor, unix, end) = times(&plain);
    assert_eq!(times(&moved), (anchor + 5000, unix, end + 5000));
}

#[test]
fn two_traces_in_one_file_keep_their_functions() {
    let (first, _) = heph::write_threads(&complete_info(), &[]);
    let mut info = complete_info();
    info.program = "second".into();
    info.functions = vec![function(3, "gamma", "", 0), function(9, "beta", "", 0)];
    let calls = heph::call_events(&[enter(2000, 3), enter(2100, 9), exit(2200, 9), exit(2300, 3)]);
    let (second, _) = heph::write_threads(&info, &[(named(5, ""), calls)]);
    let read = read_damaged(&[first, second].concat());
    assert_eq!(read.info.program, "demo");
    let whats = read.problems();
    assert_eq!(whats.len(), 3, "{whats:#?}");
    assert!(
        whats[0].starts_with("stream 4294967295 goes back"),
        "{whats:#?}"
    );
    assert!(whats[1].starts_with("another trace begins here (program \"second\""));
    assert!(whats[2].starts_with("function #3 is described as another one"));
    let calls = read.log.calls(5);
    let name = |at: usize| &*read.info.function(calls[at].function).expect("a name").name;
    assert_eq!((name(0), name(1)), ("gamma", "beta"));
}

#[test]
fn facts_that_lack_what_they_must_have() {
    let (trace, _) = heph::write_threads(&complete_info(), &[]);
    let fact = |counter, name: &str, attributes: &[u8]| {
        event((u32::MAX, counter, 0), (0, 0), name.as_bytes(), attributes)
    };
    let thread = |id| [number("stream", id), number("thread", 77)].concat();
    // All but the epoch.
    let next = list(&trace).len() as u32 - 1;
    let parts = [
        trace,
        fact(next, "fdr:function", &text("name", "x")),
        fact(next + 1, "fdr:thread", &[]),
        fact(next + 2, "fdr:thread", &thread(1)),
        fact(next + 3, "fdr:thread", &thread(2)),
        fact(next + 4, "fdr:unheard of", &[]),
    ];
    let read = read_damaged(&parts.concat());
    let whats = read.problems();
    assert_eq!(whats.len(), 3, "{whats:#?}");
    assert!(whats[0].contains("without a number"), "{whats:#?}");
    assert!(whats[1].contains("without a stream"), "{whats:#?}");
    assert!(
        whats[2].contains("the thread id 77 of another one"),
        "{whats:#?}"
    );
    // What a later version may add is a call like any other.
    assert_eq!(read.log.calls(u32::MAX.into()).len(), 2);
}

#[test]
fn attributes_of_others_in_a_trace_of_ours() {
    let (trace, _) = heph::write_threads(&complete_info(), &[]);
    let attributes = [
        number("cpu", 3),
        number("flags", 16),
        text("note", "hi"),
        number("cpu", 1 << 32),
    ];
    let read = intact(
        &[
            trace,
            event((1, 0, 0), (2000, 3000), b"alpha", &attributes.concat()),
        ]
        .concat(),
    );
    let events = read.log.events(1);
    assert_eq!(events[0], Event::Cpu(2000, 3));
    let text = b"flags=16 note=\"hi\" cpu=4294967296".to_vec();
    let wanted = [
        Event::Argument(16),
        Event::Argument(1 << 32),
        Event::Custom(2000, None, text),
    ];
    assert_eq!(events[2..5], wanted);
}

#[test]
fn a_flood_of_damage_is_counted() {
    let part = [plain(0, (10, 20), "a"), vec![0x55; 5]].concat();
    let read = read_damaged(&[part.repeat(300)].concat());
    assert_eq!(read.diagnostics.len(), 101);
    assert_eq!(read.diagnostics[100].offset, read.diagnostics[99].offset);
    // A counter that goes back is reported once.
    let wanted = "201 more problems are not listed";
    assert_eq!(read.diagnostics[100].what, wanted);
    assert_eq!(read.log.calls(1).len(), 600);
}

#[test]
fn giant_packets_are_read_in_part() {
    let part = text("s", &"x".repeat(65_535));
    for (count, whole) in [(100, true), (600, false)] {
        let large = event((1, 0, 0), (10, 20), b"a", &part.repeat(count));
        let read = read_damaged(&[large, plain(1, (30, 40), "b")].concat());
        assert_eq!(read.diagnostics.is_empty(), whole, "{:?}", read.diagnostics);
        assert_eq!(read.log.calls(1).len(), 4);
    }
}

/// Files in which every place looks like the start of something long.
#[test]
fn hostile_files_are_read_few_times() {
    let head = epoch(1);
    let claim = |size: u32| {
        let mut bytes = vec![0xc1, 0xfc, 0x1f, 0xb7];
        bytes.extend(size.to_be_bytes());
        bytes
    };
    let sizes = [42, 1000, 1025, 300_000, 2_000_000, u32::MAX];
    for size in sizes {
        let mut bytes = head.clone();
        bytes.extend(claim(size).repeat(50_000));
        let total = bytes.len() as u64;
        let count = Arc::new(AtomicU64::new(0));
        let counted = CountingBytes(bytes, Arc::clone(&count));
        let source = registry::open(Box::new(counted)).expect("a trace");
        // Where such a size leads from one claim to another, it is a packet.
        assert!(source.info().threads.len() <= 1, "{size}");
        let read = count.load(Ordering::Relaxed);
        assert!(
            read <= 4 * total,
            "claims of {size} bytes: {read} of {total} bytes are read"
        );
    }
    // Each packet's attributes are whole up to the end of the file, but for the last one.
    let inner = |left: usize| event((1, 0, 0), (1, 2), b"", &vec![0; left]);
    let mut bytes = head;
    for nth in 0..2000 {
        let mut packet = inner(10);
        packet[4..8].copy_from_slice(&(1000 - nth % 7u32).to_be_bytes());
        bytes.extend(packet);
    }
    bytes.extend([0x55; 2000]);
    let read = read_damaged(&[bytes].concat());
    assert!(read.log.count() <= 8000);
}
