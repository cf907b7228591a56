//! The interval sets that Trace Compass's own state system made of random calls, to be met exactly.

use std::collections::BTreeMap;

use crate::common::tcstate::{History, read_folder, write};
use crate::common::{Event, enter, exit, function, golden, push, thread};
use fdr_formats::tcstate::TcstateSource;
use fdr_formats::tcstate::state::{Attribute, State, StateAtTime, Value};
use fdr_formats::{Sink, Thread, TraceInfo};

fn vector(name: &str) -> String {
    let bytes = golden(&format!("tcstate/vectors/{name}"));
    String::from_utf8(bytes).expect("UTF-8")
}

/// The events, each with its thread. A change of the CPU is an event of its own.
fn events(name: &str) -> (TraceInfo, Vec<(u64, Vec<Event>)>) {
    let mut info = TraceInfo::default();
    let (mut cpus, mut out) = (BTreeMap::new(), Vec::new());
    for line in vector(name).lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let time: u64 = fields[0].parse().expect("a time");
        let tid: u64 = fields[1].parse().expect("a thread");
        let known = info
            .functions
            .iter()
            .position(|function| function.name == fields[3]);
        let place = known.unwrap_or_else(|| {
            let id = info.functions.len() as u32 + 1;
            info.functions.push(function(id, fields[3], "", 0));
            info.functions.len() - 1
        });
        let id = place as u32 + 1;
        let mut events = Vec::new();
        let cpu: u32 = fields[4].parse().expect("a CPU");
        if cpus.insert(tid, cpu) != Some(cpu) {
            events.push(Event::Cpu(time, cpu));
        }
        events.push(Event::Call(if fields[2] == "E" {
            enter(time, id)
        } else {
            exit(time, id)
        }));
        out.push((tid, events));
    }
    (info, out)
}

/// What Trace Compass made of it, by path.
fn intervals(name: &str) -> BTreeMap<String, Vec<(i64, i64, String)>> {
    let mut lines: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for line in vector(name).lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let time = |at: usize| fields[at].parse().expect("a time");
        let interval = (time(1), time(2), fields[3].to_owned());
        lines
            .entry(fields[0].to_owned())
            .or_default()
            .push(interval);
    }
    lines
}

fn pieces(events: &[(u64, Vec<Event>)]) -> Vec<(Thread, Vec<Event>)> {
    events
        .iter()
        .map(|(tid, events)| (thread(*tid), events.clone()))
        .collect()
}

#[test]
fn interval_sets_are_those_of_trace_compass() {
    for name in ["ev0", "ev1", "ev2"] {
        let (info, events) = events(&format!("{name}.tsv"));
        let wanted = intervals(&format!("{name}.intervals.tsv"));
        // Thread after thread, as most sources give them, and in turns.
        let mut by_thread: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
        for (tid, events) in &events {
            by_thread.entry(*tid).or_default().extend(events.clone());
        }
        let by_thread: Vec<_> = by_thread.into_iter().collect();
        for (parts, in_turns) in [(pieces(&events), true), (pieces(&by_thread), false)] {
            let (folder, _) = write(&info, &parts);
            let history = History::read(folder.path());
            let root = vec![(history.start, history.end, "null".to_owned())];
            let mut found = history.lines;
            assert_eq!(found.remove(""), Some(root), "{name}");
            for (path, wanted) in &wanted {
                // Two threads of ev2 are on one CPU in the same ns: thread after thread does not
                // tell who came first.
                if in_turns || name != "ev2" || !path.ends_with("Current_thread") {
                    assert!(found.get(path) == Some(wanted), "{name}: {path}");
                }
            }
            assert_eq!(found.len(), wanted.len(), "{name}");
        }
    }
}

#[test]
fn keys_are_quarks_moved_by_the_root() {
    let (info, events) = events("ev0.tsv");
    let (folder, _) = write(&info, &pieces(&events));
    let history = History::read(folder.path());
    let text = vector("ev0.intervals.tsv");
    let mut order: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let path = line.split('\t').next().expect("a path");
        if order.last() != Some(&path) {
            order.push(path);
        }
    }
    assert_eq!(history.paths[1..], order);
}

#[test]
fn what_a_vector_can_tell_comes_back() {
    let (info, events) = events("ev0.tsv");
    let (folder, losses) = write(&info, &pieces(&events));
    let read = read_folder(folder.path()).expect("readable");
    assert_eq!(read.diagnostics, []);
    let (main, foo, worker) = (1, 2, 3);
    let calls = [
        enter(1000, main),
        enter(1010, foo),
        exit(1020, foo),
        exit(1060, main),
    ];
    assert_eq!(read.log.calls(7), calls);
    let calls = [
        enter(1015, worker),
        enter(1030, main),
        exit(1040, main),
        exit(1050, worker),
    ];
    assert_eq!(read.log.calls(8), calls);
    let cpus = |thread| {
        let events = read.log.events(thread).iter().cloned();
        events
            .filter(|event| !matches!(event, Event::Call(_)))
            .collect::<Vec<_>>()
    };
    assert_eq!(cpus(7), [Event::Cpu(1000, 0)]);
    let losses: Vec<_> = losses.iter().collect();
    let wanted = [
        ("calls shorter than 1 ns: left out", 1),
        ("exits without an entry: left out", 1),
        // CPU 1 has had thread 8 all the time, by what its attribute says.
        (
            "changes of CPU that the state of the CPUs does not show, or not in time",
            1,
        ),
    ];
    assert_eq!(losses, wanted);
    assert_eq!(cpus(8), [Event::Cpu(1015, 1), Event::Cpu(1030, 0)]);
}

#[test]
fn a_snapshot_is_that_of_trace_compass() {
    let (info, events) = events("ev0.tsv");
    let (folder, _) = write(&info, &pieces(&events));
    let source = TcstateSource::open(folder.path()).expect("readable");
    assert_eq!(source.range(), (1000, 1060));
    let state = source.state(1020).expect("readable");
    let mut out = Vec::new();
    state
        .write_snapshot(&mut out, "callstack", 3)
        .expect("memory");
    let wanted = vector("ev0.at_1020.snapshot.json");
    assert_eq!(String::from_utf8(out).expect("UTF-8"), wanted);
}

/// By path; since when a thread is on a CPU is known to a history only.
fn by_path(state: &State) -> BTreeMap<String, (Option<i64>, Value)> {
    let attributes = state.attributes.iter();
    let line = |attribute: &Attribute| {
        let path = attribute.path.join("/");
        let known = !path.ends_with("Current_thread") || attribute.value == Value::Null;
        let since = attribute.since.filter(|_| known);
        (path, (since, attribute.value.clone()))
    };
    attributes.map(line).collect()
}

#[test]
fn states_of_traces_and_histories_agree() {
    for name in ["ev0", "ev1", "ev2"] {
        let (info, events) = events(&format!("{name}.tsv"));
        let (folder, _) = write(&info, &pieces(&events));
        let source = TcstateSource::open(folder.path()).expect("readable");
        let (start, end) = source.range();
        let step = (end - start) / 60;
        let mut times: Vec<i64> = (0..60).map(|nth| start + nth * step.max(1)).collect();
        times.extend([start, start + 1, end - 1, end]);
        for time in times.into_iter().filter(|time| *time <= end) {
            let mut sink = StateAtTime::new(time, &info);
            for (tid, events) in &events {
                sink.thread(&thread(*tid));
                for event in events {
                    push(&mut sink, event);
                }
            }
            let found = by_path(&sink.finish(&info));
            let wanted = by_path(&source.state(time).expect("readable"));
            assert_eq!(found, wanted, "{name} at {time}");
        }
    }
}
