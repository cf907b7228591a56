//! The states of threads in state histories: there and back, what the tree and the intervals have, and nothing in
//! histories of traces without them.

use crate::common::tcstate::{Folder, History, read_folder, write};
use crate::common::{Event, Random, enter, exit, thread};
use fdr_formats::model::{Account, Cause, Clock, CpuId, Module, Sample, Schedule, State, Switch};
use fdr_formats::states::{States, Stay};
use fdr_formats::{Thread, ThreadId, Ticks, TraceInfo};

const RUNNING: Option<State> = Some(State::Running);
const PREEMPTED: Option<State> = Some(State::Preempted);
const WAITING: Option<State> = Some(State::Waiting);

/// Time, thread, CPU and new state of each.
fn schedule(list: &[(u64, u64, u32, Option<State>)]) -> Schedule {
    let switch = |&(time, thread, cpu, to): &(u64, u64, u32, Option<State>)| Switch {
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

fn info(frequency: u64, schedule: Schedule) -> TraceInfo {
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
fn stays(info: &TraceInfo, thread: ThreadId) -> Vec<Stay> {
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

fn calls(from: u64) -> Vec<Event> {
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
    // States are no thread.
    assert_eq!(read.info.threads.len(), pieces.len());
    for (thread, events) in pieces {
        assert_eq!(&read.kept.events(thread.id.0), events);
    }
    folder
}

#[test]
fn states_come_back() {
    let lists: &[&[(u64, u64, u32, Option<State>)]] = &[
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
    for list in lists {
        let info = info(1_000_000_000, schedule(list));
        let folder = there_and_back(&info, &[(thread(7), calls(1000)), (thread(9), calls(1020))]);
        History::read(folder.path());
        there_and_back(&info, &[]);
    }
}

#[test]
fn any_list_comes_back() {
    let mut random = Random(7);
    for round in 0..3000 {
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
            let (mut thread, mut to) =
                (1 + random.below(threads), State::of(random.below(4) as u8));
            if random.below(12) == 0 {
                (thread, to) = (0, None);
            }
            list.push((time, thread, random.below(cpus) as u32, to));
        }
        if random.below(3) > 0 {
            list.insert(0, (3000, 0, 0, None));
        }
        there_and_back(&info(frequency, schedule(&list)), &[]);
    }
}
