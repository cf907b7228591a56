//! What is written comes back: random programs, other formats' traces, odd names, every piece of the
//! trace's info; what the state can't tell is counted exactly.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::common::tcstate::{self, Folder, History, read_folder, write};
use crate::common::{Event, Random, enter, exit, program, push, synthetic, thread};
use fdr_formats::model::{Counts, Missing};
use fdr_formats::source::drive;
use fdr_formats::writer::Output;
use fdr_formats::{
    Call, Clock, Edge, Function, FunctionId, Thread, ThreadId, Ticks, TraceInfo, registry,
};

fn functions(count: u32) -> Vec<Function> {
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("app::f{id}"),
        file: format!("src/f{id}.rs"),
        line: id,
        untimed: false,
        kind: Default::default(),
    };
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

/// Without what a state has no place for.
fn as_state(events: &[Event]) -> Vec<Event> {
    let keep = |event: &Event| match event {
        Event::Call(call) => {
            let edge = if call.edge == Edge::TailExit {
                Edge::Exit
            } else {
                call.edge
            };
            Some(Event::Call(Call {
                edge,
                has_arguments: false,
                ..*call
            }))
        }
        Event::Cpu(..) | Event::Wall(..) => Some(event.clone()),
        _ => None,
    };
    events.iter().filter_map(keep).collect()
}

#[test]
fn files_of_another_format_come_back() {
    let cases: [(&str, &str); 4] = [
        (
            "v1-std",
            "2 arguments: left out; 1 custom events: left out; 1 tail exits: written as exits",
        ),
        (
            "v5-std",
            "2 arguments: left out; 1 custom events: left out; 1 typed events: left out; \
             1 tail exits: written as exits",
        ),
        ("v1-open", ""),
        ("v1-tid32", ""),
    ];
    for (name, wanted) in cases {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/xray");
        let path = PathBuf::from(folder).join(name).with_extension("fdr");
        let source = registry::open_path(&path).expect("a golden file");
        let written = Folder::new();
        let target = registry::target("tcstate").expect("the target");
        let output = Output::Folder(written.path().to_owned());
        let mut writer = (target.create)(output, source.info()).expect("a writer");
        drive(&*source, &mut writer, &|_| {}).expect("readable");
        assert_eq!(
            writer.finish().expect("space").to_string(),
            wanted,
            "{name}"
        );
        let read = read_folder(written.path()).expect("readable");
        assert_eq!(read.diagnostics, [], "{name}");
        let original = tcstate::read_source(&*source);
        for (id, events) in &original.log.threads {
            assert_eq!(read.log.events(id.0), as_state(events), "{name}");
        }
        assert_eq!(read.info.threads, original.info.threads);
        assert_eq!(read.info.start, original.info.start);
    }
}

const ODD_NAME: &str = "Größe \"quoted\" back\\slash \0 \u{1} \u{1b}[31m \n\r\t 😀 \u{2028}";

/// A trace with every fact, and with functions of odd names.
fn complete_info() -> TraceInfo {
    let odd = ODD_NAME.to_owned();
    let long = "x".repeat(100 * 1024);
    let mut functions = functions(3);
    functions[0].name.clone_from(&odd);
    functions[0].file.clone_from(&odd);
    functions[1].name.clone_from(&long);
    functions[2].name.clear();
    TraceInfo {
        functions,
        program: odd.clone(),
        process: Some(u64::MAX),
        reason: "panic".into(),
        dump: Some(7),
        missing: Missing {
            threads: 1,
            overwritten: 2,
            dropped: 3,
        },
        start: Some(Ticks(90)),
        end: Some(Ticks(9000)),
        clock: Clock {
            name: odd.clone(),
            error_ppm: Some(0.25),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(100), 1_700_000_000_123_456_789)),
            ..Clock::default()
        },
        ..TraceInfo::default()
    }
}

#[test]
fn info_comes_back() {
    let info = complete_info();
    let counts = Counts {
        recorded: u64::MAX,
        readable: 2,
        overwritten: 3,
        dropped: 4,
        synthetic_entries: 5,
        synthetic_exits: 6,
        summarised: 0,
    };
    let named = Thread {
        id: ThreadId(u64::MAX - 1),
        process: Some(3),
        name: ODD_NAME.to_owned(),
        counts: None,
        totals: Vec::new(),
        early_calls: Vec::new(),
    };
    let idle = thread(5);
    let events = [
        Event::Wall(5, 6),
        Event::Cpu(100, 2),
        Event::Call(enter(100, 1)),
        Event::Call(enter(101, 2)),
        Event::Call(enter(102, 3)),
        // No thread has a name for this function.
        Event::Call(enter(103, 1_000_000_000)),
    ];
    let late = Thread {
        counts: Some(counts),
        ..named.clone()
    };
    let pieces = [
        (named, events[..3].to_vec()),
        (idle.clone(), vec![]),
        (late.clone(), events[3..].to_vec()),
    ];
    let (folder, losses) = write(&info, &pieces);
    assert_eq!(losses.to_string(), "");
    History::read(folder.path());
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.log.events(late.id.0), events);
    assert_eq!(read.log.events(5), []);
    assert_eq!(read.info.threads, [late, idle]);
    let (found, wanted) = (&read.info, &info);
    assert_eq!(found.functions, wanted.functions);
    assert_eq!(found.clock, wanted.clock);
    assert_eq!(
        (&found.program, &found.reason),
        (&wanted.program, &wanted.reason)
    );
    assert_eq!((found.process, found.dump), (wanted.process, wanted.dump));
    assert_eq!((found.missing, found.start), (wanted.missing, wanted.start));
    assert_eq!(found.end, wanted.end);
}

#[test]
fn ticks_become_nanoseconds() {
    let clock = Clock {
        frequency: 3_000_000_000,
        anchor: Some((Ticks(3_000_000_000), 5_000_000_000)),
        ..Clock::default()
    };
    let info = TraceInfo { clock, ..info() };
    let events = vec![
        Event::Call(enter(3_000_000_000, 1)),
        Event::Call(exit(3_000_000_005, 1)),
    ];
    let (folder, losses) = write(&info, &[(thread(1), events)]);
    assert_eq!(losses.to_string(), "");
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(
        read.log.calls(1),
        [enter(1_000_000_000, 1), exit(1_000_000_002, 1)]
    );
    assert_eq!(
        read.info.clock.unix_nanos(Ticks(1_000_000_000)),
        Some(5_000_000_000)
    );
}

#[test]
fn nothing_at_all() {
    for pieces in [
        vec![],
        vec![(thread(3), vec![])],
        vec![(thread(3), vec![Event::Cpu(9, 1)])],
    ] {
        let (folder, _) = write(&TraceInfo::default(), &pieces);
        let history = History::read(folder.path());
        assert_eq!((history.start, history.end, history.paths.len()), (0, 0, 1));
        let read = read_folder(folder.path()).expect("readable");
        assert_eq!(read.diagnostics, []);
        assert_eq!(read.log.count(), 0);
        assert_eq!(read.info.threads.len(), pieces.len());
    }
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

#[test]
fn full_disks_are_errors_naming_the_file() {
    let events: Vec<Event> = vec![Event::Call(enter(1, 1)), Event::Call(exit(2, 1))];
    for name in [
        "types.json",
        "tree.json",
        "state.json",
        "meta.json",
        "history.bin",
    ] {
        let folder = Folder::new();
        symlink("/dev/full", folder.path().join(name)).expect("a link");
        let target = registry::target("tcstate").expect("the target");
        let output = Output::Folder(folder.path().to_owned());
        let mut writer = (target.create)(output, &info()).expect("a writer");
        writer.thread(&thread(1));
        events.iter().for_each(|event| push(&mut writer, event));
        let error = writer.finish().expect_err("no space").to_string();
        assert!(
            error.contains(name) && error.contains("No space"),
            "{error}"
        );
    }
}

#[test]
fn a_stream_is_refused() {
    let target = registry::target("tcstate").expect("the target");
    let begun = (target.create)(Output::Stream(Box::new(Vec::new())), &info());
    let error = begun.err().expect("a folder is needed").to_string();
    assert!(error.contains("a folder"), "{error}");
}
