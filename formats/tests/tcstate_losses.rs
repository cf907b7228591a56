//! What a state can't tell is counted exactly, and the rest comes back.

use std::path::Path;

use crate::common::tcstate::{History, read_folder, write};
use crate::common::{Event, Random, call, enter, exit, program, synthetic, thread};
use fdr_formats::model::Counts;
use fdr_formats::{Call, Edge, Function, FunctionId, Thread, TraceInfo};

fn info() -> TraceInfo {
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("app::f{id}"),
        ..Function::default()
    };
    TraceInfo {
        functions: (1..=9).map(function).collect(),
        ..TraceInfo::default()
    }
}

/// Something of everything that a state can't tell.
fn events_with_losses() -> Vec<Event> {
    let tail = call(60, 2, Edge::TailExit);
    let arguments = Call {
        has_arguments: true,
        ..enter(20, 2)
    };
    vec![
        Event::Wall(1, 1),
        Event::Call(enter(10, 1)),
        Event::Wall(2, 2),
        Event::Call(arguments),
        Event::Argument(1),
        Event::Argument(2),
        Event::Custom(25, None, b"x".to_vec()),
        Event::Typed(26, 3, b"y".to_vec()),
        Event::Lost(1000),
        // In one ns.
        Event::Call(enter(30, 3)),
        Event::Call(enter(30, 4)),
        Event::Call(exit(30, 4)),
        Event::Call(exit(30, 3)),
        // An exit of a call that has no entry.
        Event::Call(exit(40, 9)),
        Event::Call(synthetic(enter(50, 5))),
        Event::Call(exit(55, 5)),
        Event::Call(tail),
        Event::Call(enter(70, 8)),
        Event::Call(exit(71, 8)),
        Event::Call(enter(72, 9)),
        Event::Call(exit(73, 9)),
        // 6 is never left, and the clock goes back.
        Event::Call(enter(80, 6)),
        Event::Call(exit(79, 1)),
    ]
}

const LOSSES: &[(&str, u64)] = &[
    ("wall-clock times in the middle of a thread: left out", 1),
    ("arguments: left out", 2),
    ("custom events: left out", 1),
    ("typed events: left out", 1),
    ("missing records: their place is left out", 1000),
    ("tail exits: written as exits", 1),
    (
        "synthetic entries and exits in the middle of a thread: written as measured ones",
        1,
    ),
    ("calls shorter than 1 ns: left out", 3),
    ("exits without an entry: left out", 1),
    (
        "calls without an exit: they end with the call around them",
        1,
    ),
    (
        "entries and exits whose clock went back: written at the time of the one before",
        1,
    ),
    (
        "calls of functions that have the name of another: told as calls of that one",
        1,
    ),
];

#[test]
fn losses_are_counted() {
    let mut info = info();
    // The same name twice.
    info.functions[8].name = "app::f8".into();
    let (folder, losses) = write(&info, &[(thread(1), events_with_losses())]);
    let losses: Vec<_> = losses.iter().collect();
    assert_eq!(losses, LOSSES);
    History::read(folder.path());
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.diagnostics, []);
    let calls = [
        enter(10, 1),
        enter(20, 2),
        enter(50, 5),
        exit(55, 5),
        exit(60, 2),
        enter(70, 8),
        exit(71, 8),
        enter(72, 8),
        exit(73, 8),
        exit(80, 1),
    ];
    assert_eq!(read.log.calls(1), calls);
}

/// What a thread's counts say of what is in the folder, and what is there.
fn counts_and_found(events: Vec<Event>, counts: Counts) -> (Counts, Counts) {
    let thread = Thread {
        counts: Some(counts),
        ..thread(1)
    };
    let (folder, _) = write(&info(), &[(thread, events)]);
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.diagnostics, []);
    let calls = read.log.calls(1);
    let synthetic = |entries: bool| {
        let matches = |call: &&Call| call.synthetic && (call.edge == Edge::Entry) == entries;
        calls.iter().filter(matches).count() as u64
    };
    let found = Counts {
        readable: calls.iter().filter(|call| !call.synthetic).count() as u64,
        synthetic_entries: synthetic(true),
        synthetic_exits: synthetic(false),
        ..counts
    };
    (read.info.threads[0].counts.expect("counts"), found)
}

/// As many records as are readable, and 100 others.
fn counts(readable: u64) -> Counts {
    Counts {
        recorded: readable + 100,
        readable,
        overwritten: 93,
        dropped: 7,
        ..Counts::default()
    }
}

fn call_events(calls: &[Call]) -> Vec<Event> {
    calls.iter().map(|&call| Event::Call(call)).collect()
}

/// Nothing is left out: two frames from before, one still open.
fn calls_without_losses() -> Vec<Event> {
    call_events(&[
        synthetic(enter(10, 1)),
        synthetic(enter(10, 2)),
        exit(10, 2),
        enter(15, 3),
        exit(18, 3),
        enter(19, 4),
        synthetic(exit(19, 4)),
        synthetic(exit(19, 1)),
    ])
}

#[test]
fn counts_without_losses_stay() {
    let stated = Counts {
        synthetic_entries: 2,
        synthetic_exits: 2,
        ..counts(4)
    };
    let (read, found) = counts_and_found(calls_without_losses(), stated);
    assert_eq!((read, found), (stated, stated));
    // A thread of which nothing is stated.
    let (folder, _) = write(&info(), &[(thread(1), calls_without_losses())]);
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.info.threads[0].counts, None);
}

#[test]
fn counts_leave_lost_calls_out() {
    // Two calls without a length, an exit that nobody entered.
    let short = [
        enter(10, 1),
        enter(20, 2),
        exit(20, 2),
        enter(20, 2),
        exit(20, 2),
        exit(30, 9),
        exit(40, 1),
    ];
    let (read, found) = counts_and_found(call_events(&short), counts(7));
    let wanted = Counts {
        readable: 2,
        dropped: 12,
        ..counts(7)
    };
    assert_eq!(read, wanted);
    assert_eq!(found.readable, 2);
    // What is stated wrong stays wrong.
    let wrong = Counts {
        readable: 9,
        synthetic_exits: 3,
        ..counts(7)
    };
    let (read, _) = counts_and_found(call_events(&short), wrong);
    let wanted = Counts {
        readable: 4,
        dropped: 12,
        ..wrong
    };
    assert_eq!(read, wanted);
}

#[test]
fn synthetic_edges_count_as_measured_ones() {
    // Some were not measured in the middle, and some end with the call around them.
    let calls = [
        enter(10, 1),
        synthetic(enter(20, 2)),
        exit(30, 2),
        enter(40, 3),
        exit(50, 1),
        enter(60, 4),
        synthetic(exit(60, 4)),
        enter(70, 5),
        exit(80, 5),
    ];
    let stated = Counts {
        synthetic_entries: 1,
        synthetic_exits: 1,
        ..counts(7)
    };
    let (read, found) = counts_and_found(call_events(&calls), stated);
    // 4 has no length: its entry is left out, its exit never counted.
    let wanted = Counts {
        recorded: 108,
        readable: 8,
        ..counts(7)
    };
    assert_eq!(read, wanted);
    assert_eq!((found.readable, found.synthetic_exits), (8, 0));
}

#[test]
fn counts_agree_after_random_programs() {
    let mut random = Random(0x5ca1_ab1e);
    for round in 0..200 {
        let mut events = program(&mut random);
        // Times that are so close that a state can't separate them, and missing edges.
        for event in &mut events {
            if let Event::Call(call) = event {
                call.time.0 /= 1 + random.below(2) * 50;
            }
        }
        events.retain(|event| !matches!(event, Event::Call(_)) || random.below(20) > 0);
        let measured = |event: &&Event| matches!(event, Event::Call(call) if !call.synthetic);
        let readable = events.iter().filter(measured).count() as u64;
        let synthetic = |entry: bool| {
            let is = |event: &&Event| matches!(event, Event::Call(call) if call.synthetic && (call.edge == Edge::Entry) == entry);
            events.iter().filter(is).count() as u64
        };
        let counts = Counts {
            recorded: readable + 5,
            readable,
            dropped: 5,
            synthetic_entries: synthetic(true),
            synthetic_exits: synthetic(false),
            ..Counts::default()
        };
        let (read, found) = counts_and_found(events, counts);
        let Counts {
            recorded,
            readable,
            dropped,
            synthetic_entries,
            synthetic_exits,
            ..
        } = read;
        assert_eq!(readable, found.readable, "round {round}");
        assert_eq!(recorded, readable + dropped, "round {round}");
        assert_eq!(synthetic_entries, found.synthetic_entries, "round {round}");
        assert_eq!(synthetic_exits, found.synthetic_exits, "round {round}");
    }
}

#[test]
fn invisible_cpu_changes_are_counted() {
    let at = |time: u64, cpu: u32| [Event::Cpu(time, cpu), Event::Call(enter(time, 1))];
    // To CPU 1 and back to CPU 0, on which no other thread was meanwhile. Then to other CPUs without a call.
    let first = [at(10, 0), at(20, 1), at(30, 0)].concat();
    let first: Vec<Event> = first
        .into_iter()
        .chain([Event::Cpu(40, 2), Event::Cpu(50, 3)])
        .collect();
    let (folder, losses) = write(&info(), &[(thread(1), first)]);
    let losses: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(losses, [2, 1]);
    let cpus = |folder: &Path, id| -> Vec<Event> {
        let read = read_folder(folder).expect("readable");
        let events = read.log.events(id).iter();
        events
            .filter(|event| matches!(event, Event::Cpu(..)))
            .cloned()
            .collect()
    };
    assert_eq!(
        cpus(folder.path(), 1),
        [Event::Cpu(10, 0), Event::Cpu(20, 1)]
    );
    // Where another thread was in between it is seen; who comes in the same ns takes its place.
    let first = [at(10, 0), at(20, 1), at(30, 0), at(40, 5)].concat();
    let second = [at(25, 0), at(40, 5)].concat();
    let (folder, losses) = write(&info(), &[(thread(1), first), (thread(2), second)]);
    assert_eq!(
        losses.iter().map(|(_, count)| count).collect::<Vec<_>>(),
        [1]
    );
    let wanted = [Event::Cpu(10, 0), Event::Cpu(20, 1), Event::Cpu(30, 0)];
    assert_eq!(cpus(folder.path(), 1), wanted);
    assert_eq!(
        cpus(folder.path(), 2),
        [Event::Cpu(25, 0), Event::Cpu(40, 5)]
    );
}
