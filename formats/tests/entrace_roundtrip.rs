//! Events written as ENTRACE and read back: the same events at the same places, whatever the container,
//! the version and the order in which the threads came. `entrace_facts.rs` has what is no event.

use crate::common::entrace::{
    TARGETS, at_edges, feed, in_ns, read_own, round, threads, without_idle_cpus, write,
};
use crate::common::{Event, Random, call, enter, exit, golden, program, read, synthetic};
use fdr_formats::registry::open;
use fdr_formats::source::drive;
use fdr_formats::{Call, Edge, TraceInfo};

#[test]
fn random_programs_come_back() {
    for seed in 1..150 {
        let events = without_idle_cpus(program(&mut Random(seed)));
        for name in TARGETS {
            let found = round(name, &TraceInfo::default(), &events);
            assert_eq!(
                found.log.events(7),
                at_edges(&events),
                "seed {seed}, {name}"
            );
        }
    }
}

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
fn the_golden_files_of_other_formats_come_back() {
    let files = [
        "v1-std",
        "v2-std",
        "v3-std",
        "v4-std",
        "v5-std",
        "v1-mt",
        "v3-mt",
        "v5-mt",
        "v3-mt-epoch",
        "v1-min",
        "v1-tid32",
        "v1-open",
        "v1-strayexit",
        "llvm19-demo-v5",
    ];
    for file in files {
        let bytes = golden(&format!("xray/{file}.fdr"));
        let wanted = read(&bytes).expect("a golden file");
        let source = open(Box::new(bytes)).expect("a golden file");
        for name in TARGETS {
            let (bytes, losses) = write(name, source.info(), |writer| {
                drive(&*source, writer, &|_| {}).expect("a golden file");
            });
            let found = read_own(&bytes);
            let lost: u64 = losses.iter().map(|(_, count)| count).sum();
            for (thread, events) in threads(&wanted) {
                let cpus = |events: &[Event]| {
                    events
                        .iter()
                        .filter(|event| matches!(event, Event::Cpu(..)))
                        .count() as u64
                };
                let events = at_edges(&events);
                let wanted: Vec<Event> = events.iter().map(in_ns(&wanted.info)).collect();
                assert_eq!(found.log.events(thread.0), wanted, "{file}, {name}");
                assert!(cpus(&events) + lost > 0, "{file} has CPUs");
            }
            assert_eq!(found.info.process, wanted.info.process);
            assert_eq!(found.info.threads, wanted.info.threads, "{file}, {name}");
        }
    }
}

#[test]
fn threads_in_turns_are_merged_by_time() {
    let programs: Vec<Vec<Event>> = (10..15)
        .map(|seed| without_idle_cpus(program(&mut Random(seed))))
        .collect();
    for name in TARGETS {
        let (bytes, _) = write(name, &TraceInfo::default(), |writer| {
            for round in 0..40 {
                for (events, id) in programs.iter().zip(1..) {
                    let part = events.chunks(9).nth(round).unwrap_or(&[]);
                    feed(writer, id, part);
                }
            }
        });
        let found = read_own(&bytes);
        for (events, id) in programs.iter().zip(1..) {
            let wanted: Vec<Event> = at_edges(&events[..events.len().min(360)]);
            assert_eq!(found.log.events(id), wanted, "{name}, thread {id}");
        }
        // Entries are in order of time over all threads.
        let source = open(Box::new(bytes)).expect("our own file");
        let (mut last, mut timed) = (0, 0);
        let visit = &mut |record: &fdr_formats::source::Record<'_>| {
            if let Some(time) = record.time.filter(|_| record.kind == "Entry") {
                assert!(time.0 >= last, "{name}: {last} before {time}");
                (last, timed) = (time.0, timed + 1);
            }
            std::ops::ControlFlow::Continue(())
        };
        source.records(visit).expect("our own file");
        assert!(timed > 100, "{name}");
    }
}
