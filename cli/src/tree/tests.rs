//! Folded lines of traces of a few calls. 1 tick = 1 ns.

use std::collections::BTreeMap;

use fdr_formats::calls::{Untimed, untimed};
use fdr_formats::model::State;
use fdr_formats::packed::Packed;
use fdr_formats::source::drive_parallel;
use fdr_formats::{Call, Function, FunctionId, Sink, Source, Thread, Ticks};

use super::call_tree::{Label, Node, Tree};
use super::folded_lines::write;
use super::folder::{Folder, gather};
use crate::off_cpu;
use crate::report::engine;
use crate::report::states_tests::{THREAD, schedule};
use crate::testing::functions;
use crate::testing::packed::batches;
use crate::testing::{MemoryTrace, entry, exit};

fn lines(source: &dyn Source, folders: Vec<Folder>) -> String {
    let folded = gather(folders);
    let mut out = Vec::new();
    write(&mut out, source.info(), &folded.tree, &|node| node.own).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

fn folded(trace: &MemoryTrace, per_thread: bool) -> String {
    let untimed = untimed(&trace.info);
    let make = || Folder::new(&untimed, per_thread).until(trace.info.end);
    let folders = drive_parallel(trace, 1, make, &|_| {}).expect("in memory");
    lines(trace, folders)
}

/// Own ticks by the function at a path's end, where there are any.
pub(crate) fn sums_of(source: &dyn Source) -> BTreeMap<u32, u64> {
    let mut sums = BTreeMap::new();
    let tree = tree_of(source);
    for (_, node) in tree.nodes() {
        if let (Label::Function(id), 1..) = (tree.label_of(node), node.own) {
            *sums.entry(id.0).or_default() += node.own;
        }
    }
    sums
}

/// The ticks of short calls without records.
pub(crate) fn short_of(source: &dyn Source) -> u64 {
    let tree = tree_of(source);
    let short = tree
        .nodes()
        .filter(|(_, node)| tree.label_of(node) == Label::Short);
    short.map(|(_, node)| node.own).sum()
}

fn tree_of(source: &dyn Source) -> Tree {
    let untimed = untimed(source.info());
    let make = || Folder::new(&untimed, false).until(source.info().end);
    let folders = drive_parallel(source, 1, make, &|_| {}).expect("readable");
    gather(folders).tree
}

#[test]
fn lines_are_paths_with_self_times() {
    let calls = [
        entry(0, 1),
        entry(10, 2),
        entry(15, 1),
        exit(25, 1),
        exit(40, 2),
        entry(50, 2),
        exit(70, 2),
        exit(100, 1),
        entry(110, 3),
        exit(111, 3),
    ];
    let mut trace = MemoryTrace::new(&[(7, &calls), (8, &[entry(0, 3), exit(4, 3)])]);
    trace.info.functions = functions(&[(1, "main"), (2, "b;c")]);
    assert_eq!(
        folded(&trace, false),
        "#3 5\nmain 50\nmain;b:c 40\nmain;b:c;main 10\n"
    );
    trace.info.threads[0].name = "worker".into();
    assert_eq!(
        folded(&trace, true),
        "(thread 8);#3 4\nworker (thread 7);#3 1\nworker (thread 7);main 50\n\
         worker (thread 7);main;b:c 40\nworker (thread 7);main;b:c;main 10\n"
    );
}

#[test]
fn a_deep_recursion_has_an_end() {
    let deep = 5000;
    let down = (0..deep).map(|time| entry(time, 1));
    let calls: Vec<Call> = down
        .chain((deep..2 * deep).map(|time| exit(time, 1)))
        .collect();
    let text = folded(&MemoryTrace::new(&[(1, &calls)]), false);
    let last = text.lines().max_by_key(|line| line.len()).expect("lines");
    assert!(last.contains("#1;[more] "), "{last}");
    assert_eq!(last.matches(';').count(), 999);
    let sum: u64 = text
        .lines()
        .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
        .sum();
    assert_eq!(sum, 2 * deep - 1);
}

#[test]
fn shallow_paths_stay_and_sums_hold() {
    // Every thread calls functions of its own, which call one another, so that each path is another one.
    let calls = |thread: u32| -> Vec<Call> {
        let calls_of = |nth: u32| {
            let (time, function) = (u64::from(nth) * 10, thread * 100 + nth);
            [
                entry(time, function),
                entry(time + 1, 1),
                entry(time + 3, function),
                exit(time + 6, function),
                exit(time + 7, 1),
                exit(time + 8, function),
            ]
        };
        (1..80).flat_map(calls_of).collect()
    };
    let lanes: Vec<(u64, Vec<Call>)> = (1..6).map(|id| (u64::from(id), calls(id))).collect();
    let lanes: Vec<_> = lanes.iter().map(|(id, calls)| (*id, &calls[..])).collect();
    let trace = MemoryTrace::new(&lanes);
    let none = Untimed::default();
    let tree = |jobs, most| {
        let make = || Folder::new(&none, false).with_most(most);
        let folders = drive_parallel(&trace, jobs, make, &|_| {}).expect("in memory");
        lines(&trace, folders)
    };
    let whole = tree(1, 5000);
    assert_eq!(whole.lines().count(), 3 * 5 * 79);
    let sum = |text: &str| -> u64 {
        let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        text.lines().filter_map(value).sum()
    };
    for most in [10, 395, 500, 1184, 1185] {
        let some = tree(1, most);
        assert_eq!((tree(2, most), tree(3, most)), (some.clone(), some.clone()));
        assert_eq!(sum(&some), sum(&whole));
        let stay: Vec<&str> = some.lines().filter(|line| !line.starts_with('[')).collect();
        assert_eq!(stay.len(), most);
        assert!(
            stay.iter()
                .all(|line| whole.lines().any(|other| other == *line))
        );
        let deepest = stay.iter().map(|line| line.matches(';').count()).max();
        assert_eq!(deepest, Some((most - 1) / 395), "{most}");
    }
}

#[test]
fn lines_add_up_to_self_times() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray");
    let mut compared = 0;
    for file in std::fs::read_dir(folder).expect("golden files").flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let Ok(source) = fdr_formats::registry::open(Box::new(bytes)) else {
            continue;
        };
        let make = || engine::Engine::new(&*source, false);
        let engines = drive_parallel(&*source, 1, make, &|_| {}).expect("readable");
        let figures = engine::gather(engines, false).unwrap();
        let folder = Folder::new(&untimed(source.info()), false);
        let mut folder = folder.until(source.info().end);
        for lane in 0..source.lanes() {
            source.decode(lane, &mut folder, &|_| {}).expect("readable");
        }
        let mut own: BTreeMap<FunctionId, u64> = BTreeMap::new();
        let tree = gather(vec![folder]).tree;
        for (_, node) in tree.nodes() {
            if let Label::Function(id) = tree.label_of(node) {
                *own.entry(id).or_default() += node.own;
            }
        }
        for (id, stats) in &figures.functions {
            assert_eq!(own.get(id), Some(&stats.own), "{:?} {id}", file.path());
            compared += 1;
        }
    }
    assert!(compared > 50, "{compared} functions");
}

#[test]
fn open_calls_have_lines_of_their_own() {
    let calls = [entry(0, 1), entry(10, 2), entry(12, 3), exit(15, 3)];
    let mut trace = MemoryTrace::new(&[(1, &calls)]);
    assert_eq!(folded(&trace, false), "#1 10\n#1;#2 2\n#1;#2;#3 3\n");
    trace.info.end = Some(Ticks(40));
    let open = "#1;#2;#3 3\n#1;#2;[open] 27\n#1;[open] 10\n";
    assert_eq!(folded(&trace, false), open);
    // A writer may have ended them then; what it ended before had ended.
    let end = |time, id| Call {
        synthetic: true,
        ..exit(time, id)
    };
    let ended = [&calls[..], &[end(40, 2), end(40, 1)]].concat();
    trace = MemoryTrace::new(&[(1, &ended)]);
    trace.info.end = Some(Ticks(40));
    assert_eq!(folded(&trace, false), open);
    let earlier = [&calls[..], &[end(15, 2), end(15, 1)]].concat();
    trace = MemoryTrace::new(&[(1, &earlier)]);
    trace.info.end = Some(Ticks(40));
    assert_eq!(folded(&trace, false), "#1 10\n#1;#2 2\n#1;#2;#3 3\n");
}

#[test]
fn without_dump_time_last_ends_mean_open() {
    let end = |time, id| Call {
        synthetic: true,
        ..exit(time, id)
    };
    let calls = [entry(0, 1), entry(10, 2), entry(12, 3), exit(15, 3)];
    let ended = [&calls[..], &[end(15, 2), end(15, 1)]].concat();
    let open = "#1;#2;#3 3\n#1;#2;[open] 2\n#1;[open] 10\n";
    assert_eq!(folded(&MemoryTrace::new(&[(1, &ended)]), false), open);
    // What comes after shows that they had been left.
    let left = [&ended[..], &[entry(20, 4), exit(21, 4)]].concat();
    let closed = "#1 10\n#1;#2 2\n#1;#2;#3 3\n#4 1\n";
    assert_eq!(folded(&MemoryTrace::new(&[(1, &left)]), false), closed);
    let again = [&left[..], &[entry(30, 1), end(34, 1)]].concat();
    assert_eq!(
        folded(&MemoryTrace::new(&[(1, &again)]), false),
        "#1 10\n#1;#2 2\n#1;#2;#3 3\n#1;[open] 4\n#4 1\n"
    );
}

#[test]
fn time_in_untimed_functions_is_their_callers() {
    // f2 is untimed, and calls f3.
    let calls = [
        entry(0, 1),
        entry(2, 2),
        entry(10, 3),
        exit(15, 3),
        exit(16, 2),
        entry(16, 2),
        exit(16, 2),
        exit(20, 1),
    ];
    let mut trace = MemoryTrace::new(&[(1, &calls)]);
    trace.info.functions = untimed_second();
    let untimed = untimed(&trace.info);
    let make = || Folder::new(&untimed, false);
    let folders = drive_parallel(&trace, 1, make, &|_| {}).expect("in memory");
    let tree = gather(folders).tree;
    let text = |value: &dyn Fn(&Node) -> u64| {
        let mut out = Vec::new();
        write(&mut out, trace.info(), &tree, value).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    };
    assert_eq!(text(&|node| node.own), "#1 15\n#1;f2;#3 5\n");
    assert_eq!(text(&|node| node.calls), "#1 1\n#1;f2 2\n#1;f2;#3 1\n");
}

fn untimed_second() -> Vec<Function> {
    vec![Function {
        id: FunctionId(2),
        name: "f2".into(),
        untimed: true,
        ..Function::default()
    }]
}

#[test]
fn early_untimed_calls_leave_time_to_callers() {
    // f1 and, in it, f2 were entered before the trace began.
    let calls = [entry(0, 3), exit(5, 3), exit(10, 2), exit(30, 1)];
    let mut trace = MemoryTrace::new(&[(1, &calls)]);
    trace.info.functions = untimed_second();
    assert_eq!(folded(&trace, false), "#1 25\n#3 5\n");
    // So it is in the report.
    let make = || engine::Engine::new(&trace, false);
    let engines = drive_parallel(&trace, 1, make, &|_| {}).expect("in memory");
    let figures = engine::gather(engines, false).unwrap();
    let own: Vec<u64> = figures.functions.values().map(|stats| stats.own).collect();
    assert_eq!(own, [25, 0, 5]);
}

#[test]
fn state_times_add_up_to_the_report() {
    let threads = Thread {
        id: THREAD,
        ..Thread::default()
    };
    for seed in (1..40).filter(|seed: &u64| !seed.is_multiple_of(3)) {
        let mut trace = MemoryTrace::default();
        trace.info.schedule = schedule(seed, 1 << 40);
        let states = off_cpu::states_of(&trace.info).expect("states");
        let batches = batches(seed, 0);
        let mut engine = engine::Engine::new(&trace, false);
        engine = engine.with_states(Some(states.clone()));
        engine.thread(&threads);
        for (base, words) in &batches {
            engine.packed(&Packed::new(*base, words.as_flattened()).0);
        }
        let figures = engine::gather(vec![engine], false).expect("little memory");
        for state in State::ALL {
            let folder = Folder::new(&Untimed::default(), false);
            let mut folder = folder.with_state(Some((state, states.clone())));
            folder.thread(&threads);
            for (base, words) in &batches {
                folder.packed(&Packed::new(*base, words.as_flattened()).0);
            }
            let tree = gather(vec![folder]).tree;
            let mut sums: BTreeMap<FunctionId, u64> = BTreeMap::new();
            for (_, node) in tree.nodes() {
                if let Label::Function(id) = tree.label_of(node) {
                    *sums.entry(id).or_default() += node.own;
                }
            }
            for (id, stats) in &figures.functions {
                let wanted = stats.own_away.part(state, stats.own);
                assert_eq!(sums[id], wanted, "{seed} {state:?} {id}");
            }
        }
    }
}
