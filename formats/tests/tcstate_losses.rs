//! What a state can't tell is counted exactly, and the rest comes back.
mod common;
#[path = "common/tcstate.rs"]
mod tcstate;

use std::path::Path;

use common::{Event, call, enter, exit, synthetic, thread};
use fdr_formats::{Call, Edge, Function, FunctionId, TraceInfo};
use tcstate::{History, read_folder, write};

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

#[test]
fn losses_are_counted() {
    let mut info = info();
    // The same name twice.
    info.functions[8].name = "app::f8".into();
    let tail = call(60, 2, Edge::TailExit);
    let arguments = Call {
        has_arguments: true,
        ..enter(20, 2)
    };
    let events = vec![
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
        // Nobody entered it.
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
    ];
    let (folder, losses) = write(&info, &[(thread(1), events)]);
    let losses: Vec<_> = losses.iter().collect();
    let wanted = [
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
    assert_eq!(losses, wanted);
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
    assert_eq!(read.kept.calls(1), calls);
}

#[test]
fn changes_of_cpu_that_can_not_be_seen_are_counted() {
    let at = |time: u64, cpu: u32| [Event::Cpu(time, cpu), Event::Call(enter(time, 1))];
    // To CPU 1 and back, where nobody was in between; then away without a call.
    let one = [at(10, 0), at(20, 1), at(30, 0)].concat();
    let one: Vec<Event> = one
        .into_iter()
        .chain([Event::Cpu(40, 2), Event::Cpu(50, 3)])
        .collect();
    let (folder, losses) = write(&info(), &[(thread(1), one)]);
    let losses: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(losses, [2, 1]);
    let cpus = |folder: &Path, id| -> Vec<Event> {
        let read = read_folder(folder).expect("readable");
        let events = read.kept.events(id).iter();
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
    let one = [at(10, 0), at(20, 1), at(30, 0), at(40, 5)].concat();
    let two = [at(25, 0), at(40, 5)].concat();
    let (folder, losses) = write(&info(), &[(thread(1), one), (thread(2), two)]);
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
