//! Children: one that `fork` made has nothing of its parent's recording, may have a recording of its
//! own, and never touches its parent's ring, dumps or files. One that is another program is recorded
//! if it is built with the recorder, under its own process id.

use std::fs;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, verify};
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::trace::Trace;

fn forks(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::new(env!("CARGO_BIN_EXE_forks"), folder);
    program.set(variables).args(&[way]).run().ok()
}

/// The parent's trace in the folder, which must hold its own twenty calls and nothing else.
fn parents_trace(folder: &Folder) -> Trace {
    let path = folder.only_trace();
    verify(&path);
    let trace = Trace::read(&path);
    assert_eq!(
        trace.calls().into_iter().collect::<Vec<_>>(),
        [("forks::work".to_owned(), 20)]
    );
    assert_eq!(trace.threads.len(), 1);
    assert_eq!(trace.threads[0].checked_counts().recorded, 40);
    trace
}

#[test]
fn a_child_that_goes_on_is_not_recorded_and_leaves_nothing() {
    let folder = Folder::new("fork-calls");
    let untraced = forks(&folder, "", "calls");
    assert_eq!(folder.names(), ["child"]);
    let outcome = forks(&folder, "FDR=1 FDR_PANIC=1", "calls");
    assert_eq!(
        outcome.stdout,
        untraced.stdout.replace("enabled false", "enabled true")
    );
    assert_eq!(
        outcome.said().len(),
        1,
        "only the parent says something: {outcome:?}"
    );
    let child = fs::read_to_string(folder.join("child")).expect("the child's words");
    let statistics = facts::statistics(&child);
    assert_eq!(facts::one(&child, "enabled"), ["false"]);
    assert_eq!(
        (facts::total(&statistics), statistics.threads.len()),
        (0, 0),
        "{child}"
    );
    fs::remove_file(folder.join("child")).expect("the child's words");
    let trace = parents_trace(&folder);
    assert_eq!(
        trace.threads[0].thread.id.0,
        trace.info.process.expect("a process")
    );
}

#[test]
fn a_child_may_have_a_recording_of_its_own() {
    let folder = Folder::new("fork-enables");
    let outcome = forks(&folder, "FDR=1", "enables");
    let child = fs::read_to_string(folder.join("child")).expect("the child's words");
    fs::remove_file(folder.join("child")).expect("the child's words");
    let pid = facts::one(&child, "pid").remove(0);
    let ring = RingFile::read(&folder.join("child-ring"));
    fs::remove_file(folder.join("child-ring")).expect("the copy");
    assert_eq!(ring.pid.to_string(), pid);
    assert_eq!(ring.threads[0].edges.len(), 20);
    let names: Vec<&String> = ring.functions.values().collect();
    assert_eq!(names.len(), 2, "its ring has the names: {names:?}");
    // `work` and `childs_work`, five times each; all functions are on.
    assert_eq!(facts::one(&child, "records"), ["20"], "{child}");
    assert_eq!(facts::total(&facts::statistics(&child)), 20);
    let of_child: Vec<_> = folder
        .ending(".fdr")
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(&format!("forks.{pid}.")))
        .collect();
    // By call and at exit; by signal as well unless the call's dump came first.
    assert!(
        (2..=3).contains(&of_child.len()),
        "{of_child:?} {outcome:?}"
    );
    for path in of_child {
        verify(&path);
        let trace = Trace::read(&path);
        assert_eq!(trace.info.process, Some(facts::number(&pid)));
        let calls = trace.calls();
        assert_eq!((calls["forks::work"], calls["forks::childs_work"]), (5, 5));
        assert_eq!(trace.threads[0].checked_counts().recorded, 20);
        fs::remove_file(path).expect("a trace");
    }
    let _ = parents_trace(&folder);
}

#[test]
fn children_beside_dumps_neither_hang_nor_interfere() {
    let folder = Folder::new("fork-many");
    let outcome = forks(&folder, "FDR=1 FDR_BUFFER=128K FDR_OUT=last.fdr", "many");
    assert_eq!(folder.names(), ["last.fdr"], "{outcome:?}");
    let path = folder.only_trace();
    verify(&path);
    let trace = Trace::read(&path);
    assert!(
        !trace.calls().contains_key("forks::childs_work"),
        "{:?}",
        trace.calls()
    );
    assert_eq!(trace.threads.len(), 2);
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
}

#[test]
fn programs_that_it_starts_are_recorded_apart_or_not_at_all() {
    let folder = Folder::new("fork-spawn");
    let outcome = forks(&folder, "FDR=1", "spawn");
    assert_eq!(facts::one(&outcome.stdout, "again"), ["true"]);
    assert_eq!(
        facts::one(&outcome.stdout, "inherited"),
        ["false"],
        "the ring's descriptor"
    );
    let paths = folder.ending(".fdr");
    assert_eq!(
        (paths.len(), folder.names().len()),
        (2, 2),
        "{:?}",
        folder.names()
    );
    let mut processes: Vec<Option<u64>> = Vec::new();
    for path in paths {
        verify(&path);
        let trace = Trace::read(&path);
        assert_eq!(trace.calls()["forks::work"], 20);
        processes.push(trace.info.process);
    }
    assert_ne!(processes[0], processes[1]);
}
