//! State histories, written: random programs with changes of CPU, calls that were open in a snapshot, and many calls.

use crate::common::function;
use crate::common::tcstate::{History, read_folder, write};
use crate::common::{Event, Random, enter, exit, program, synthetic, thread};
use fdr_formats::{Edge, Function, Thread, TraceInfo};

fn functions(count: u32) -> Vec<Function> {
    let function = |id| function(id, &format!("app::f{id}"), &format!("src/f{id}.rs"), id);
    (1..=count).map(function).collect()
}

fn info() -> TraceInfo {
    TraceInfo {
        functions: functions(40),
        ..TraceInfo::default()
    }
}

/// A random program, without what a state can't hold: at most one change per ns, and only CPUs on which no other thread
/// was. A change of the CPU is at a call.
fn holdable(random: &mut Random, cpus: &mut u32) -> Vec<Event> {
    let (mut out, mut ahead, mut last) = (Vec::new(), 0, 0);
    let mut moved = false;
    for event in program(random) {
        match event {
            Event::Wall(..) => out.push(event),
            Event::Cpu(..) => moved = true,
            Event::Call(call) => {
                ahead += u64::from(call.time.0 + ahead <= last);
                last = last.max(call.time.0 + ahead);
                if std::mem::take(&mut moved) {
                    *cpus += 1;
                    out.push(Event::Cpu(last, *cpus));
                }
                let edge = if call.edge == Edge::Entry {
                    Edge::Entry
                } else {
                    Edge::Exit
                };
                out.push(Event::Call(crate::common::call(
                    last,
                    call.function.0,
                    edge,
                )));
            }
            _ => {}
        }
    }
    out
}

#[test]
fn random_programs_come_back() {
    let mut random = Random(0x5eed);
    let mut cpus = 0;
    for round in 0..60 {
        let threads: Vec<(Thread, Vec<Event>)> = (0..1 + round % 4)
            .map(|nth| (thread(100 + nth), holdable(&mut random, &mut cpus)))
            .collect();
        // Thread after thread, then in turns.
        for size in [usize::MAX, 7] {
            let mut pieces: Vec<(Thread, Vec<Event>)> = Vec::new();
            let mut rest: Vec<(Thread, &[Event])> = threads
                .iter()
                .map(|(thread, events)| (thread.clone(), &events[..]))
                .collect();
            while rest.iter().any(|(_, events)| !events.is_empty()) {
                for (thread, events) in &mut rest {
                    let (piece, more) = events.split_at(size.min(events.len()));
                    pieces.push((thread.clone(), piece.to_vec()));
                    *events = more;
                }
            }
            let (folder, losses) = write(&info(), &pieces);
            assert_eq!(losses.to_string(), "");
            History::read(folder.path());
            let read = read_folder(folder.path()).expect("readable");
            assert_eq!(read.diagnostics, []);
            for (thread, events) in &threads {
                assert_eq!(read.log.events(thread.id.0), events, "round {round}");
            }
            assert_eq!(read.info.functions, info().functions);
            let written: Vec<Thread> = threads.iter().map(|(thread, _)| thread.clone()).collect();
            assert_eq!(read.info.threads, written);
        }
    }
}

#[test]
fn a_snapshot_keeps_what_was_open() {
    let events: Vec<Event> = [
        synthetic(enter(1000, 1)),
        synthetic(enter(1000, 2)),
        synthetic(enter(1000, 3)),
        exit(1000, 3),
        enter(1005, 4),
        synthetic(exit(1005, 4)),
        synthetic(exit(1005, 2)),
        synthetic(exit(1005, 1)),
    ]
    .map(Event::Call)
    .to_vec();
    let other = vec![Event::Call(enter(10, 5)), Event::Call(exit(2000, 5))];
    let (folder, losses) = write(&info(), &[(thread(7), events.clone()), (thread(8), other)]);
    assert_eq!(losses.to_string(), "");
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.log.events(7), events);
    let history = History::read(folder.path());
    let lines = |level: u32| &history.lines[&format!("Threads/7/CallStack/{level}")];
    let text = |value: &str| format!("String:app::{value}");
    assert_eq!(lines(1)[1..], [(999, 2000, text("f1"))]);
    let third = [
        (999, 999, text("f3")),
        (1000, 1004, "null".into()),
        (1005, 2000, text("f4")),
    ];
    assert_eq!(lines(3)[1..], third);
}

#[test]
fn many_calls_come_back_in_order() {
    // Several runs of the reader; outer calls last across them.
    let mut threads: Vec<(Thread, Vec<Event>)> = Vec::new();
    for nth in 0..3u64 {
        let (mut events, mut time) = (Vec::new(), 100 + nth);
        for round in 0..100 {
            events.push(Event::Call(enter(time, 1)));
            for inner in 0..200 {
                events.push(Event::Call(enter(time + 5, 2 + inner % 30)));
                events.push(Event::Call(exit(time + 15, 2 + inner % 30)));
                time += 20;
            }
            if round % 10 != 0 {
                events.push(Event::Call(exit(time, 1)));
                time += 10;
            }
        }
        threads.push((thread(nth), events));
    }
    let (folder, losses) = write(&info(), &threads);
    assert_eq!(losses.to_string(), "");
    let read = read_folder(folder.path()).expect("readable");
    for (thread, events) in &threads {
        assert!(
            read.log.events(thread.id.0) == events,
            "thread {}",
            thread.id
        );
    }
}
