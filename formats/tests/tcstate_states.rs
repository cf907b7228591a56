//! The states of threads in state histories: there and back, what the tree and the intervals have, and nothing in
//! histories of traces without them.

use std::collections::BTreeMap;

use crate::common::tcstate::{History, read_folder, write};
use crate::common::{Event, Folder, Random, enter, exit, push, thread};
use fdr_formats::model::{Account, Cause, Clock, CpuId, Module, Sample, Schedule, State, Switch};
use fdr_formats::states::{States, Stay};
use fdr_formats::tcstate::TcstateSource;
use fdr_formats::tcstate::state::{State as Whole, StateAtTime, Value};
use fdr_formats::{Sink, Thread, ThreadId, Ticks, TraceInfo};

pub(crate) const RUNNING: Option<State> = Some(State::Running);
pub(crate) const PREEMPTED: Option<State> = Some(State::Preempted);
pub(crate) const WAITING: Option<State> = Some(State::Waiting);

/// Time, thread, CPU and new state.
type Line = (u64, u64, u32, Option<State>);

/// Of these switches.
pub(crate) fn schedule(list: &[Line]) -> Schedule {
    let switch = |&(time, thread, cpu, to): &Line| Switch {
        time: Ticks(time),
        thread: ThreadId(thread),
        cpu: CpuId(cpu),
        to,
    };
    Schedule {
        switches: list.iter().map(switch).collect(),
        ..Schedule::default()
    }
}

pub(crate) fn info(frequency: u64, schedule: Schedule) -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency,
            ..Clock::default()
        },
        schedule,
        ..TraceInfo::default()
    }
}

/// The states of a thread in whole ns. What lasted for less than 1 ns is in no history.
pub(crate) fn stays(info: &TraceInfo, thread: ThreadId) -> Vec<Stay> {
    let in_ns = |ticks| match ticks {
        Ticks(u64::MAX) => ticks,
        ticks => Ticks(info.clock.nanos(ticks).0),
    };
    let states = States::new(&info.schedule);
    let mut out: Vec<Stay> = Vec::new();
    for stay in states.stays(thread) {
        let (from, until) = (in_ns(stay.from), in_ns(stay.until));
        let stay = Stay {
            from,
            until,
            ..*stay
        };
        match out.last_mut() {
            _ if from == until => {}
            Some(last) if (last.state, last.cpu) == (stay.state, stay.cpu) => last.until = until,
            _ => out.push(stay),
        }
    }
    out
}

pub(crate) fn calls(from: u64) -> Vec<Event> {
    vec![Event::Call(enter(from, 1)), Event::Call(exit(from + 50, 1))]
}

/// Writes a trace, and holds what comes back against it. Returns the folder.
fn there_and_back(info: &TraceInfo, pieces: &[(Thread, Vec<Event>)]) -> Folder {
    let (folder, _) = write(info, pieces);
    let read = read_folder(folder.path()).expect("our own folder");
    assert_eq!(read.diagnostics, []);
    let known = States::new(&info.schedule).threads();
    assert_eq!(States::new(&read.info.schedule).threads(), known);
    for thread in known {
        let (wanted, found) = (stays(info, thread), stays(&read.info, thread));
        assert_eq!(
            found, wanted,
            "thread {thread}: {:?}\n{:?}",
            info.schedule.switches, read.info.schedule.switches
        );
    }
    // XRay files and CTF folders do not say that the list is complete. It then gives fewer states, and no others.
    let (complete, mut other) = (States::new(&read.info.schedule), read.info.schedule.clone());
    other.is_complete = false;
    let other = States::new(&other);
    for thread in other.threads() {
        let stays = other.stays(thread);
        for stay in stays.filter(|stay| stay.state.is_some() && stay.from < stay.until) {
            let state = complete.at(thread, stay.from).and_then(|stay| stay.state);
            assert_eq!(state, stay.state, "thread {thread} at {}", stay.from);
        }
    }
    // States are no thread.
    assert_eq!(read.info.threads.len(), pieces.len());
    for (thread, events) in pieces {
        assert_eq!(&read.log.events(thread.id.0), events);
    }
    folder
}

/// By path: since when it has which value.
fn by_path(state: &Whole) -> BTreeMap<String, (Option<i64>, Value)> {
    let attributes = state.attributes.iter();
    let line = attributes.map(|attribute| {
        // A CPU's previous thread is forgotten.
        let is_known = !attribute.path.ends_with(&["Current_thread".to_owned()]);
        let since = attribute.since.filter(|_| is_known);
        (attribute.path.join("/"), (since, attribute.value.clone()))
    });
    line.collect()
}

/// The state of the history at a time is that of the trace.
fn is_the_same_at(folder: &Folder, info: &TraceInfo, pieces: &[(Thread, Vec<Event>)], time: i64) {
    let source = TcstateSource::open(folder.path()).expect("our own folder");
    let of_history = by_path(&source.state(time).expect("readable"));
    let mut at = StateAtTime::new(time, info);
    for (thread, events) in pieces {
        at.thread(thread);
        events.iter().for_each(|event| push(&mut at, event));
    }
    let of_trace = at.finish(info);
    let mut known: Vec<&[String]> = vec![&[]];
    for attribute in &of_trace.attributes {
        let (_, parent) = attribute.path.split_last().expect("a name");
        assert!(known.contains(&parent), "{parent:?} comes later");
        known.push(&attribute.path);
    }
    assert_eq!(
        of_history,
        by_path(&of_trace),
        "at {time}: {:?}",
        info.schedule.switches
    );
}

/// What may happen at the edges of lists, in holes, and at equal times.
const LISTS: &[&[Line]] = &[
    // A list with its beginning, a hole and its end. Thread 8 has no calls, thread 7 changes its CPU.
    &[
        (1000, 0, 0, None),
        (1010, 7, 1, WAITING),
        (1030, 7, 1, RUNNING),
        (1040, 7, 1, PREEMPTED),
        (1044, 7, 0, RUNNING),
        (1050, 8, 3, RUNNING),
        (1060, 0, 0, None),
        (1070, 7, 2, WAITING),
        (1090, 8, 3, RUNNING),
        (1200, 0, 0, None),
    ],
    // Without a beginning and an end.
    &[(1010, 7, 1, WAITING), (1030, 7, 1, RUNNING)],
    &[(1010, 7, 1, RUNNING)],
    &[(1010, 7, 1, None)],
    // At equal times: thread 8 gets the CPU that thread 7 leaves, in both orders.
    &[
        (1000, 0, 0, None),
        (1010, 7, 1, PREEMPTED),
        (1010, 8, 1, RUNNING),
        (1020, 8, 1, WAITING),
        (1020, 7, 1, RUNNING),
    ],
    &[
        (1000, 0, 0, None),
        (1010, 8, 1, RUNNING),
        (1010, 7, 1, PREEMPTED),
        (1020, 7, 1, RUNNING),
        (1020, 8, 1, WAITING),
    ],
    // Thread 8 is seen on the CPU that thread 7 has not left.
    &[
        (1000, 0, 0, None),
        (1001, 7, 1, RUNNING),
        (1010, 8, 1, RUNNING),
        (1015, 8, 2, RUNNING),
        (1030, 7, 1, WAITING),
    ],
    &[
        (1000, 0, 0, None),
        (1001, 7, 1, RUNNING),
        (1010, 8, 1, RUNNING),
        (1030, 9, 1, RUNNING),
    ],
    // Thread 8 lost its CPU to thread 7, and was on it until the end of the list and beyond.
    &[
        (1000, 0, 0, None),
        (1001, 8, 1, RUNNING),
        (1010, 7, 1, RUNNING),
        (1020, 7, 0, PREEMPTED),
        (1030, 8, 1, PREEMPTED),
        (1030, 8, 1, RUNNING),
    ],
    // A state that goes on over a hole.
    &[
        (1000, 7, 1, WAITING),
        (1010, 0, 0, None),
        (1010, 7, 1, WAITING),
        (1020, 7, 1, RUNNING),
        (1030, 0, 0, None),
        (1030, 7, 1, RUNNING),
    ],
    // A wait that begins where the list begins, behind a time of which nothing was known.
    &[
        (1000, 7, 1, None),
        (1010, 7, 1, WAITING),
        (1010, 0, 0, None),
        (1010, 7, 1, WAITING),
    ],
    // All in one ns.
    &[
        (1010, 7, 1, WAITING),
        (1010, 7, 2, RUNNING),
        (1010, 7, 3, PREEMPTED),
    ],
    // The end of a window.
    &[
        (0, 0, 0, None),
        (1000, 7, 1, RUNNING),
        (1010, 8, 0, WAITING),
        (u64::MAX, 0, 0, None),
    ],
];

#[test]
fn states_come_back() {
    for list in LISTS {
        let info = info(1_000_000_000, schedule(list));
        let pieces = [(thread(7), calls(1000)), (thread(9), calls(1020))];
        let folder = there_and_back(&info, &pieces);
        let history = History::read(folder.path());
        for time in history.start..=history.end {
            is_the_same_at(&folder, &info, &pieces, time);
        }
        there_and_back(&info, &[]);
    }
}

#[test]
fn any_list_comes_back() {
    let mut random = Random(7);
    for round in 0..400 {
        // Few ticks and CPUs, so that much happens at once. With 3 GHz, several ticks are one ns.
        let frequency = if round % 2 == 0 {
            1_000_000_000
        } else {
            3_000_000_000
        };
        let (threads, cpus, range) = (
            1 + random.below(4),
            1 + random.below(3),
            4 + random.below(60),
        );
        let mut list = Vec::new();
        for _ in 0..random.below(40) {
            let time = 3000 + random.below(range);
            let (mut thread, mut to) = (
                1 + random.below(threads),
                State::from_number(random.below(4) as u8),
            );
            if random.below(12) == 0 {
                (thread, to) = (0, None);
            }
            list.push((time, thread, random.below(cpus) as u32, to));
        }
        if random.below(3) > 0 {
            list.insert(0, (3000, 0, 0, None));
        }
        let info = info(frequency, schedule(&list));
        let folder = there_and_back(&info, &[]);
        let history = History::read(folder.path());
        let time = history.start + random.below(history.end.abs_diff(history.start) + 1) as i64;
        is_the_same_at(&folder, &info, &[], time);
    }
}

#[test]
fn histories_use_trace_compass_names() {
    let list = [
        (1000, 0, 0, None),
        (1010, 7, 1, WAITING),
        (1030, 7, 1, RUNNING),
        (1035, 7, 1, PREEMPTED),
        (1035, 8, 1, RUNNING),
        (1050, 0, 0, None),
    ];
    let info = info(1_000_000_000, schedule(&list));
    let mut events = calls(1000);
    events.insert(0, Event::Cpu(1000, 1));
    let (folder, losses) = write(&info, &[(thread(7), events)]);
    assert_eq!(losses.to_string(), "");
    let history = History::read(folder.path());
    let line = |path: &str| -> Vec<(i64, i64, &str)> {
        let line = history.lines[path].iter();
        line.map(|(start, end, value)| (*start, *end, &**value))
            .collect()
    };
    let of_7 = [
        (1000, 1009, "Integer:2"),
        (1010, 1029, "Integer:1"),
        (1030, 1034, "Integer:2"),
        (1035, 1049, "Integer:5"),
        (1050, 1050, "null"),
    ];
    assert_eq!(line("Threads/7"), of_7);
    assert_eq!(
        line("Threads/7/Current_cpu_rq"),
        [(1000, 1050, "Integer:1")]
    );
    let of_8 = [
        (1000, 1034, "null"),
        (1035, 1049, "Integer:2"),
        (1050, 1050, "null"),
    ];
    assert_eq!(line("Threads/8"), of_8);
    assert_eq!(
        line("Threads/8/Current_cpu_rq"),
        [(1000, 1034, "null"), (1035, 1050, "Integer:1")]
    );
    // The CPU goes from one thread to the other without a break. The trace does not say what the CPU does while thread
    // 7 waits.
    let of_cpu = [
        (1000, 1009, "Integer:1"),
        (1010, 1029, "null"),
        (1030, 1049, "Integer:1"),
        (1050, 1050, "null"),
    ];
    assert_eq!(line("CPUs/1"), of_cpu);
    assert_eq!(line("CPUs/1/Current_thread"), [(1000, 1050, "Integer:7")]);
    assert!(
        !history.lines.contains_key("Threads/8/CallStack"),
        "it has no calls"
    );
}

#[test]
fn invalid_states_are_counted() {
    let mut known = schedule(&[(1000, 7, 1, RUNNING)]);
    let sample = Sample {
        time: Ticks(1001),
        thread: ThreadId(7),
        cpu: CpuId(1),
        cause: Cause::Time,
        address: 9,
    };
    let account = Account {
        time: Ticks(1002),
        thread: ThreadId(7),
        running_ns: 1,
        run_delay_ns: 2,
        times: 3,
    };
    (known.samples, known.accounts, known.modules) =
        (vec![sample; 3], vec![account; 2], vec![Module::default()]);
    let without = Schedule {
        switches: Vec::new(),
        ..known.clone()
    };
    let wanted = "3 samples of where threads were: left out; 2 accounts (the system's sums of a thread's times): left \
                  out; 1 files that samples point into: left out";
    let pieces = [(thread(7), calls(1000))];
    let (folder, losses) = write(&info(1_000_000_000, known), &pieces);
    assert_eq!(losses.to_string(), wanted);
    assert!(folder.text("tree.json").contains("Current_cpu_rq"));
    let (folder, losses) = write(&info(1_000_000_000, without), &pieces);
    assert_eq!(losses.to_string(), wanted);
    let (plain, _) = write(&info(1_000_000_000, Schedule::default()), &pieces);
    for file in [
        "types.json",
        "tree.json",
        "state.json",
        "meta.json",
        "history.bin",
    ] {
        assert_eq!(folder.bytes(file), plain.bytes(file), "{file}");
    }
}
