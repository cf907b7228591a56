//! Folded lines of traces of a few calls. 1 tick = 1 ns.

use std::collections::BTreeMap;

use fdr_formats::pieces::{Division, Share, drive_pieces};
use fdr_formats::{Call, Function, FunctionId, Source};

use super::folder::{Folder, gather};
use super::*;
use crate::report::engine;
use crate::testing::pieces::same_in_pieces;
use crate::testing::{MemoryTrace, entry, exit};

const ONE: Division = Division {
    jobs: 1,
    piece: u64::MAX,
};

fn lines(source: &dyn Source, folders: Vec<Folder>) -> String {
    let folded = gather(folders);
    let mut out = Vec::new();
    write(&mut out, source.info(), &folded.tree, &|node| node.own).expect("memory");
    String::from_utf8(out).expect("UTF-8")
}

fn folded(trace: &MemoryTrace, per_thread: bool) -> String {
    let make = |share| Folder::new(per_thread, share);
    let folders = drive_pieces(trace, ONE, make, &|_| {}).expect("in memory");
    lines(trace, folders)
}

#[test]
fn a_line_is_a_path_and_its_own_time() {
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
    let named = |(id, name): (u32, &str)| Function {
        id: FunctionId(id),
        name: name.into(),
        ..Function::default()
    };
    trace.info.functions = [(1, "main"), (2, "b;c")].map(named).to_vec();
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
fn a_trace_in_pieces_is_as_in_one() {
    same_in_pieces(|share| Folder::new(false, share), lines);
    same_in_pieces(|share| Folder::new(true, share), lines);
}

#[test]
fn lines_of_a_function_add_up_to_its_self_time() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/xray");
    let mut compared = 0;
    for file in std::fs::read_dir(folder).expect("golden files").flatten() {
        let bytes = std::fs::read(file.path()).unwrap_or_default();
        let Ok(source) = fdr_formats::registry::open(Box::new(bytes)) else {
            continue;
        };
        let make = |share| engine::Engine::new(&*source, false, share);
        let engines = drive_pieces(&*source, ONE, make, &|_| {}).expect("readable");
        let figures = engine::gather(engines, false);
        let mut folder = Folder::new(false, Share::Lanes);
        for lane in 0..source.lanes() {
            source.decode(lane, &mut folder, &|_| {}).expect("readable");
        }
        let mut own: BTreeMap<FunctionId, u64> = BTreeMap::new();
        for (_, node) in gather(vec![folder]).tree.nodes() {
            if let Label::Function(id) = node.label {
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
    let trace = MemoryTrace::new(&[(1, &calls)]);
    let make = |share| Folder::new(false, share);
    let folders = drive_pieces(&trace, ONE, make, &|_| {}).expect("in memory");
    let mut tree = gather(folders).tree;
    tree.give_to_callers(&|id| id.0 == 2);
    let text = |value: &dyn Fn(&Node) -> u64| {
        let mut out = Vec::new();
        write(&mut out, trace.info(), &tree, value).expect("memory");
        String::from_utf8(out).expect("UTF-8")
    };
    assert_eq!(text(&|node| node.own), "#1 15\n#1;#2;#3 5\n");
    assert_eq!(text(&|node| node.calls), "#1 1\n#1;#2 2\n#1;#2;#3 1\n");
}
