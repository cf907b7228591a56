//! What the Heph writer is given at the edges of what it can hold, and by whom it is read or not: odd
//! names, payloads of any bytes, readers that come late, disks that are full.

use crate::common::heph::{
    Shared, call_events, complete_info, feed, function, intact, named, through, write_threads,
};
use crate::common::heph_packets::convertible;
use crate::common::{Event, Random, enter, exit, read};
use fdr_formats::heph::HephWriter;
use fdr_formats::registry::target;
use fdr_formats::writer::Output;
use fdr_formats::{Call, Sink, Writer};

#[test]
fn odd_names_come_back() {
    let long = "é".repeat(50_000);
    let odd = [
        "fünf → 五 🦀",
        "\"quoted\\back\" 'slashed'",
        "50 %22",
        "nul\0and\u{1}control\r\n\t\u{7f}\u{202e}",
        " ",
        "fdr:custom",
        "#3",
        "stream 2, substream 7",
    ];
    for name in odd {
        let mut info = complete_info();
        info.program = name.into();
        info.reason = name.into();
        info.clock.name = name.into();
        info.functions = vec![function(3, name, name, 1)];
        let custom = Event::Custom(2000, None, name.as_bytes().to_vec());
        let mut events = call_events(&[enter(1500, 3), exit(3000, 3)]);
        events.insert(1, custom);
        let (bytes, losses) = write_threads(&info, &[(named(1, name), events.clone())]);
        let _ = convertible(&bytes);
        let is_told = losses
            .notes()
            .any(|(what, _)| what.contains("quotation marks"));
        let plain = !name.contains(|letter: char| letter.is_control() || "\"\\".contains(letter));
        assert_eq!(is_told, !plain, "{name:?}");
        let read = intact(&bytes);
        assert_eq!(read.log.events(1), events, "{name:?}");
        assert_eq!(read.info.functions, info.functions);
        assert_eq!(
            (&read.info.program, &read.info.reason),
            (&info.program, &info.reason)
        );
        assert_eq!(
            (&read.info.clock.name, &read.info.threads[0].name),
            (&info.clock.name, &info.program)
        );
    }
    let mut info = complete_info();
    info.functions = vec![function(3, &long, &long, 1), function(4, &long, "", 0)];
    info.program.clone_from(&long);
    let calls = [enter(1500, 4), exit(1600, 4), enter(1700, 3), exit(1800, 3)];
    let (bytes, losses) = write_threads(&info, &[(named(1, &long), call_events(&calls))]);
    assert!(losses.is_empty(), "{losses}");
    let read = intact(&bytes);
    assert_eq!(read.log.calls(1), calls);
    assert_eq!(
        (&read.info.program, &read.info.threads[0].name),
        (&long, &long)
    );
    assert_eq!(read.info.functions, info.functions);
}

#[test]
fn payloads_of_any_bytes_and_sizes() {
    let mut random = Random(5);
    let mut payloads: Vec<Vec<u8>> = [0, 1, 7, 8, 9, 65_535, 65_536, 600_001]
        .map(|size| (0..size).map(|_| random.next() as u8).collect())
        .to_vec();
    payloads.extend(["", "text", &"ö".repeat(100_000), "nul\0"].map(|text| text.into()));
    let events: Vec<Event> = (0..)
        .zip(&payloads)
        .flat_map(|(at, data)| {
            let time = 1000 + 10 * at;
            let cpu = (at % 2 == 0).then_some(at as u32);
            [
                Event::Custom(time, cpu, data.clone()),
                Event::Typed(time + 5, u16::MAX - at as u16, data.clone()),
            ]
        })
        .collect();
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert!(read.log.events(1) == events, "a payload is another one");
    let large = vec![b'x'; (16 << 20) + 3];
    let (bytes, losses) = write_threads(
        &complete_info(),
        &[(named(1, ""), vec![Event::Custom(1, None, large.clone())])],
    );
    assert_eq!(losses.to_string(), "1 payloads over 16 MiB: cut");
    let read = intact(&bytes);
    assert!(read.log.events(1) == [Event::Custom(1, None, large[3..].to_vec())]);
}

#[test]
fn many_arguments() {
    let mut events = vec![Event::Call(Call {
        has_arguments: true,
        ..enter(10, 3)
    })];
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
fn full_disks_are_errors_at_finish() {
    let many: Vec<Event> = (0..10_000)
        .flat_map(|at| call_events(&[enter(10 * at, 3), exit(10 * at + 5, 3)]))
        .collect();
    for room in [0, 100, 70_000] {
        let room = Some(room);
        let bytes = Shared::default().bytes;
        let mut writer = Box::new(HephWriter::new(Shared { bytes, room }, &complete_info()));
        Writer::functions(&mut *writer, &[function(30, "x", "", 0)]);
        Sink::thread(&mut *writer, &named(1, ""));
        feed(&mut *writer, &many);
        let error = Writer::finish(writer).expect_err("it is full");
        assert!(error.to_string().contains("storage"), "{error}");
    }
    let target = target("heph").expect("a target");
    let full = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/full");
    let output = Output::File(full.expect("a device that is always full"));
    let begun = (target.create)(output, &complete_info());
    let finished = begun.and_then(Writer::finish);
    assert!(
        matches!(finished, Err(fdr_formats::Error::Io(_))),
        "{finished:?}"
    );
}

#[test]
fn a_clock_error_that_is_no_number() {
    let mut info = complete_info();
    info.clock.error_ppm = Some(f64::NAN);
    let found = through(&info, &[]).info.clock.error_ppm;
    assert!(found.is_some_and(f64::is_nan), "{found:?}");
}
