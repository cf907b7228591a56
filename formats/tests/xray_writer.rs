//! `XrayWriter`: the reader gets the events that were written, also those of random programs. Calls that do not nest
//! are made to nest. Events that XRay can't hold are reported. Other tests compare with llvm-xray.

use std::io::Cursor;

use crate::common::{
    Event, Random, ReadTrace, assert_nested, call, enter, exit, golden, push, read, synthetic,
    thread, with_arguments, write_with,
};
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{
    Call, Edge, Function, FunctionId, Losses, Sink, Ticks, TraceInfo, registry, source,
};

const VERSIONS: [Version; 2] = [Version::V1, Version::V3];

/// Writes threads in turns of `turn` events.
fn write(
    version: Version,
    info: &TraceInfo,
    threads: &[(u64, Vec<Event>)],
    turn: usize,
) -> (Vec<u8>, Losses) {
    let mut file = Cursor::new(Vec::new());
    let mut writer = XrayWriter::new(&mut file, version, info).expect("memory can be written");
    let longest = threads
        .iter()
        .map(|(_, events)| events.len())
        .max()
        .unwrap_or(0);
    for from in (0..longest.max(1)).step_by(turn) {
        for (id, events) in threads {
            writer.thread(&thread(*id));
            events
                .iter()
                .skip(from)
                .take(turn)
                .for_each(|event| push(&mut writer, event));
        }
    }
    let losses = writer.finish().expect("memory can be written");
    (file.into_inner(), losses)
}

#[test]
fn any_mess_of_calls_is_made_to_nest() {
    let mut random = Random(0xbad);
    for _ in 0..200 {
        let mut time = 500;
        let mess: Vec<Call> = (0..random.below(60))
            .map(|_| {
                time += random.below(10);
                let edge = if random.below(2) == 0 {
                    Edge::Entry
                } else {
                    Edge::Exit
                };
                call(time, 1 + random.below(4) as u32, edge)
            })
            .collect();
        let events = mess.iter().copied().map(Event::Call).collect();
        let (bytes, losses) = write(Version::V3, &TraceInfo::default(), &[(1, events)], 7);
        assert!(losses.is_empty(), "{losses}");
        let calls = read(&bytes).expect("readable").log.calls(1);
        assert_nested(&calls);
        let (added, measured): (Vec<Call>, Vec<Call>) =
            calls.iter().partition(|call| call.synthetic);
        assert_eq!(
            measured, mess,
            "measured calls are neither changed nor left out"
        );
        assert!(
            calls.windows(2).all(|pair| pair[0].time <= pair[1].time),
            "{calls:?}"
        );
        // Written again, the same calls are found to be missing.
        let events = calls.iter().copied().map(Event::Call).collect();
        let (again, _) = write(Version::V1, &TraceInfo::default(), &[(1, events)], 9);
        let again = read(&again).expect("readable").log.calls(1);
        assert_eq!(again, calls, "{added:?}");
    }
}

fn rewrite(bytes: &[u8], target: &str) -> (ReadTrace, ReadTrace, Losses) {
    let source = registry::open(Box::new(bytes.to_vec())).expect("readable");
    let (written, losses) = write_with(target, source.info(), |writer| {
        source::drive(&*source, writer, &|_| {}).expect("readable");
    });
    let before = read(bytes).expect("readable");
    (before, read(&written).expect("readable"), losses)
}

#[test]
fn golden_files_are_rewritten_without_loss() {
    for name in [
        "v1-std", "v2-std", "v3-std", "v1-mt", "v3-mt", "v1-min", "v1-tid32",
    ] {
        let bytes = golden(&format!("xray/{name}.fdr"));
        for target in ["xray1", "xray"] {
            let (before, after, losses) = rewrite(&bytes, target);
            assert!(losses.is_empty(), "{name}: {losses}");
            assert_eq!(after.log, before.log, "{name} as {target}");
            assert_eq!(after.info.clock, before.info.clock);
            assert_eq!(after.info.start, before.info.start);
        }
    }
    let bytes = golden("xray/v4-std.fdr");
    let (_, _, losses) = rewrite(&bytes, "xray");
    assert_eq!(losses.to_string(), "1 CPUs of custom events: left out");
    let bytes = golden("xray/v5-std.fdr");
    let (_, after, losses) = rewrite(&bytes, "xray");
    let wanted = "1 typed events: written as custom events, without type";
    assert_eq!(losses.to_string(), wanted);
    let typed = Event::Custom(1_002_200, None, b"typed!".to_vec());
    assert!(after.log.events(101).contains(&typed));
}

#[test]
fn what_the_format_cannot_hold_is_reported() {
    let beyond = 1 << 28;
    let events = vec![
        Event::Cpu(10, 70_000),
        with_arguments(enter(10, beyond)),
        Event::Argument(1),
        Event::Call(exit(11, beyond)),
        Event::Custom(12, None, vec![]),
        Event::Typed(13, 2, b"abc".to_vec()),
        Event::Wall(1, 1),
        Event::Wall(2, 2),
        Event::Call(enter(1 << 53, 1)),
    ];
    let (bytes, losses) = write(Version::V3, &TraceInfo::default(), &[(1 << 33, events)], 50);
    let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [1, 2, 1, 1, 1, 1, 1, 1], "{losses}");
    let read = read(&bytes).expect("readable");
    // Another number than its own: the highest of 31 bits.
    assert_eq!(read.log.calls((1 << 31) - 1).len(), 2);
}

/// A table of functions with these ids.
fn table(ids: &[u32]) -> TraceInfo {
    let function = |&id: &u32| Function {
        id: FunctionId(id),
        name: format!("function {id}"),
        ..Function::default()
    };
    TraceInfo {
        functions: ids.iter().map(function).collect(),
        ..TraceInfo::default()
    }
}

#[test]
fn function_0_gets_a_number_that_tools_take() {
    const LAST: u32 = (1 << 28) - 1;
    let cases: [(&[u32], u32); 3] = [
        (&[], LAST),
        (&[0, 6], LAST),
        (&[0, 6, LAST - 2, LAST - 1, LAST], LAST - 3),
    ];
    for (ids, number) in cases {
        // Among functions without a name, whose numbers it must not take.
        let calls = [enter(1, 0), enter(2, 1), exit(3, 1), exit(4, 0)];
        let events = calls.map(Event::Call).to_vec();
        let (bytes, losses) = write(Version::V3, &table(ids), &[(1, events)], 9);
        // Without a name, people see that number.
        let counts: u64 = losses.iter().map(|(_, count)| count).sum();
        assert_eq!(counts, u64::from(!ids.contains(&0)), "{losses}");
        let read = read(&bytes).expect("readable");
        let wanted = [enter(1, number), enter(2, 1), exit(3, 1), exit(4, number)];
        assert_eq!(read.log.calls(1), wanted);
        let named = ids.contains(&0).then_some("function 0");
        let function = read.info.function(FunctionId(number));
        assert_eq!(function.map(|function| &*function.name), named);
    }
}

#[test]
fn calls_that_look_like_function_0_are_reported() {
    const LAST: u32 = (1 << 28) - 1;
    let zero = [enter(1, 0), exit(2, 0)];
    let last = [enter(3, LAST), exit(4, LAST)];
    let cases: [(&[u32], &[Call], usize); 4] = [
        // Without function 0, nothing is mixed up, in whatever order they come.
        (&[], &last, 0),
        (&[0], &last, 2),
        (&[], &[zero, last].concat(), 2),
        (&[], &[last, zero].concat(), 2),
    ];
    for (ids, calls, wanted) in cases {
        let events = calls.iter().copied().map(Event::Call).collect();
        let (_, losses) = write(Version::V3, &table(ids), &[(1, events)], 9);
        let alike = losses
            .iter()
            .filter(|(what, _)| what.ends_with("look alike"));
        let counts: u64 = alike.map(|(_, count)| count).sum();
        assert_eq!(counts, wanted as u64, "{ids:?}: {losses}");
    }
}

#[test]
fn times_that_go_back_are_kept() {
    let events = [enter(100, 1), enter(90, 2), exit(95, 2), exit(80, 1)];
    let events: Vec<Event> = events.map(Event::Call).to_vec();
    let (bytes, _) = write(
        Version::V3,
        &TraceInfo::default(),
        &[(1, events.clone())],
        9,
    );
    let read = read(&bytes).expect("readable");
    assert_eq!(
        read.info.start,
        Some(Ticks(80)),
        "the block begins at the earliest"
    );
    assert_eq!(read.log.events(1)[2..], events);
}

#[test]
fn synthetic_calls_stay_synthetic() {
    let events = [
        synthetic(enter(10, 1)),
        exit(12, 1),
        enter(13, 2),
        synthetic(exit(14, 2)),
    ];
    let round_trip = |calls: &[Call]| {
        let events: Vec<Event> = calls.iter().copied().map(Event::Call).collect();
        let (bytes, _) = write(Version::V3, &TraceInfo::default(), &[(1, events)], 9);
        let read = read(&bytes).expect("readable");
        assert_eq!(read.diagnostics, []);
        read.log.calls(1)
    };
    assert_eq!(round_trip(&events), events, "with their times");
    // What does not nest is made anew.
    let odd = [
        enter(10, 1),
        enter(11, 2),
        synthetic(exit(12, 1)),
        exit(13, 1),
    ];
    let wanted = [odd[0], odd[1], synthetic(exit(11, 2)), odd[3]];
    assert_eq!(round_trip(&odd), wanted);
}

#[test]
fn open_calls_last_as_in_the_source() {
    // More than the 32 bits of a delta, and a synthetic exit in the middle, which says nothing of the end.
    let far = 1 << 40;
    let events = |last| {
        let events = [
            enter(10, 1),
            enter(11, 2),
            enter(12, 3),
            synthetic(exit(12, 3)),
            exit(20, 2),
            synthetic(exit(last, 1)),
        ];
        events.map(Event::Call).to_vec()
    };
    for version in VERSIONS {
        for last in [20, far] {
            let threads = [(1, events(last))];
            let (bytes, _) = write(version, &TraceInfo::default(), &threads, 9);
            let read = read(&bytes).expect("readable");
            assert_eq!(read.diagnostics, []);
            assert_eq!(read.log.calls(1).last(), Some(&synthetic(exit(last, 1))));
        }
    }
}

#[test]
fn exits_behind_gaps_begin_behind_them() {
    let events = vec![
        Event::Call(enter(10, 1)),
        Event::Call(exit(20, 1)),
        Event::Lost(30),
        Event::Call(exit(1000, 2)),
        Event::Call(exit(1005, 3)),
        Event::Call(enter(1010, 1)),
        Event::Call(exit(1020, 1)),
    ];
    for version in VERSIONS {
        let (bytes, losses) = write(version, &TraceInfo::default(), &[(1, events.clone())], 9);
        assert!(losses.is_empty(), "{losses}");
        let read = read(&bytes).expect("readable");
        assert_eq!(read.diagnostics, []);
        assert!(read.log.events(1).contains(&Event::Lost(30)));
        let wanted = [
            enter(10, 1),
            exit(20, 1),
            synthetic(enter(1000, 2)),
            exit(1000, 2),
            synthetic(enter(1000, 3)),
            exit(1005, 3),
            enter(1010, 1),
            exit(1020, 1),
        ];
        assert_eq!(read.log.calls(1), wanted);
    }
}
