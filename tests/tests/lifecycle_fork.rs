//! Children. A child of `fork` records separately, under its own process id, and never touches its parent's
//! ring, dumps or files. A child that executes another program is recorded if that program has the
//! recorder. Each child reports how many records it made, and the tests compare its trace with this number.

use std::fs;
use std::os::unix::fs::MetadataExt;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;

/// For programs whose children leave many rings: few slots each, or hundreds of MiB of the disk are needed.
const SMALL: &str = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=4M";

fn forks(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::named("forks", folder);
    program.set(variables).args(&[way]).run().ok()
}

/// The reports of the children: process and number of records.
fn children(outcome: &Outcome) -> Vec<(String, u64)> {
    facts::children(&outcome.stdout)
}

/// Every record that a trace knows of, wherever it went; it is whole, and of that process.
fn asked_for(path: &std::path::Path, pid: &str) -> u64 {
    verify(path);
    let trace = Trace::read(path);
    assert_eq!(trace.info.process, Some(facts::number(pid)));
    trace.asked_for()
}

/// The only file with that beginning and end; it is removed from the list.
fn take(names: &mut Vec<String>, beginning: &str, end: &str) -> String {
    let ours = |name: &String| name.starts_with(beginning) && name.ends_with(end);
    let found: Vec<usize> = (0..names.len()).filter(|&at| ours(&names[at])).collect();
    assert_eq!(found.len(), 1, "{beginning}…{end} in {names:?}");
    names.remove(found[0])
}

/// The parent's trace in the folder, which must hold its own twenty calls and nothing else.
fn parents_trace(folder: &Folder) -> Trace {
    let trace = Trace::verified(&folder.only_trace());
    assert_eq!(
        trace.calls().into_iter().collect::<Vec<_>>(),
        [("programs::forks::work".to_owned(), 20)]
    );
    assert_eq!(trace.threads.len(), 1);
    assert_eq!(trace.threads[0].checked_counts().recorded, 40);
    trace
}

#[test]
fn a_child_that_goes_on_records_by_itself() {
    let folder = Folder::new("fork-calls");
    let untraced = forks(&folder, "", "calls");
    assert_eq!(folder.names(), ["child"]);
    let outcome = forks(&folder, "FDR=1 FDR_PANIC=1", "calls");
    let [(pid, records)] = children(&outcome).try_into().expect("one child");
    assert_eq!(records, 400);
    let plain = |outcome: &Outcome| {
        let lines = outcome
            .stdout
            .lines()
            .filter(|line| !line.starts_with("child"));
        lines.map(str::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        plain(&outcome),
        plain(&untraced).replace("enabled false", "enabled true")
    );
    assert_eq!(
        outcome.recorder_lines().len(),
        2,
        "a line of each: {outcome:?}"
    );
    let child = fs::read_to_string(folder.join("child")).expect("the child's words");
    assert_eq!(facts::only_line(&child, "enabled"), ["true"]);
    let statistics = facts::statistics(&child);
    assert_eq!(facts::total(&statistics), records, "{child}");
    assert_eq!(statistics.threads.len(), 1, "it has no thread of ours");
    fs::remove_file(folder.join("child")).expect("the child's words");
    let path = folder.join(&format!("programs.{pid}.1.fdr"));
    assert_eq!(asked_for(&path, &pid), records);
    let trace = Trace::read(&path);
    assert_eq!(trace.threads[0].thread.id.0.to_string(), pid);
    let calls = trace.calls();
    assert_eq!(
        (
            calls["programs::forks::work"],
            calls["programs::forks::childs_work"]
        ),
        (100, 100)
    );
    fs::remove_file(path).expect("the child's trace");
    let trace = parents_trace(&folder);
    let parent = trace.info.process.expect("a process");
    assert_eq!(trace.threads[0].thread.id.0, parent);
}

#[test]
fn children_may_have_their_own_dumper() {
    let folder = Folder::new("fork-enables");
    // The child copies its ring's file, which is as long as the budget.
    let outcome = forks(&folder, "FDR=1 FDR_MEMORY=16M", "enables");
    let child = fs::read_to_string(folder.join("child")).expect("the child's words");
    fs::remove_file(folder.join("child")).expect("the child's words");
    let pid = facts::only_line(&child, "pid").remove(0);
    assert_eq!(children(&outcome), [(pid.clone(), 40)]);
    let ring = RingFile::read(&folder.join("child-ring"));
    fs::remove_file(folder.join("child-ring")).expect("the copy");
    assert_eq!(ring.pid.to_string(), pid);
    assert_eq!(ring.threads[0].edges.len(), 40);
    for name in ["work", "childs_work"] {
        let name = format!("programs::forks::{name}");
        assert!(ring.functions.values().any(|known| *known == name));
    }
    // `work` and `childs_work`, ten times each; all functions are on.
    assert_eq!(facts::only_line(&child, "records"), ["40"], "{child}");
    assert_eq!(facts::total(&facts::statistics(&child)), 40);
    let of_child: Vec<_> = folder
        .ending(".fdr")
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(&format!("programs.{pid}.")))
        .collect();
    // By call and at exit; by signal as well unless the call's dump came first.
    assert!(
        (2..=3).contains(&of_child.len()),
        "{of_child:?} {outcome:?}"
    );
    for path in of_child {
        assert_eq!(asked_for(&path, &pid), 40);
        let calls = Trace::read(&path).calls();
        assert_eq!(
            (
                calls["programs::forks::work"],
                calls["programs::forks::childs_work"]
            ),
            (10, 10)
        );
        fs::remove_file(path).expect("a trace");
    }
    let _ = parents_trace(&folder);
}

#[test]
fn a_child_that_records_nothing_leaves_nothing() {
    let folder = Folder::new("fork-silent");
    let outcome = forks(&folder, "FDR=1 FDR_PANIC=1", "silent");
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    let child = fs::read_to_string(folder.join("child")).expect("the child's words");
    fs::remove_file(folder.join("child")).expect("the child's words");
    assert_eq!(
        facts::only_line(&child, "mapped"),
        ["false"],
        "its parent's ring would live as long as it"
    );
    assert_eq!(facts::only_line(&child, "open"), ["0"]);
    assert_eq!(facts::only_line(&child, "threads"), ["1"]);
    let _ = parents_trace(&folder);
}

#[test]
fn children_of_a_parent_over_its_budget_record() {
    let folder = Folder::new("fork-over-budget");
    // The parent's functions are only looked at, so they are off most of the time.
    let outcome = forks(
        &folder,
        &format!("{SMALL} FDR_BUDGET=0.0001%"),
        "over-budget",
    );
    let children = children(&outcome);
    assert_eq!(children.len(), 20);
    let mut names = folder.names();
    for (pid, records) in children {
        let ring = take(&mut names, &format!("programs.{pid}."), ".fdr-ring");
        let ring = RingFile::read(&folder.join(&ring));
        assert_eq!((ring.pid.to_string(), ring.asked_for()), (pid, records));
    }
}

#[test]
fn children_beside_dumps_neither_hang_nor_interfere() {
    let folder = Folder::new("fork-many");
    let outcome = forks(&folder, &format!("{SMALL} FDR_OUT=last.fdr"), "many");
    let mut names = folder.names();
    let children = children(&outcome);
    assert_eq!(children.len(), 450);
    let recorded: Vec<_> = children
        .into_iter()
        .filter(|(_, records)| *records > 0)
        .collect();
    // The newest rings of dead children stay.
    let (gone, left) = recorded.split_at(recorded.len() - 256);
    assert!(gone.len() > 40);
    for (pid, _) in gone {
        let begin = format!("programs.{pid}.");
        assert!(!names.iter().any(|name| name.starts_with(&begin)), "{pid}");
    }
    for (pid, records) in left.iter().cloned() {
        // It left without its exit handlers, as if it had been killed.
        let ring = take(&mut names, &format!("programs.{pid}."), ".fdr-ring");
        let metadata = fs::metadata(folder.join(&ring)).expect("a ring");
        assert!(metadata.blocks() * 512 < 1 << 20, "{metadata:?}");
        let ring = RingFile::read(&folder.join(&ring));
        assert_eq!((ring.pid.to_string(), ring.asked_for()), (pid, records));
        assert_eq!(ring.threads.len(), 1);
        assert_eq!(ring.threads[0].tid, ring.pid);
        assert_eq!(ring.threads[0].edges.len() as u64, records);
    }
    assert_eq!(names, ["last.fdr"], "{outcome:?}");
    let trace = Trace::verified(&folder.join("last.fdr"));
    assert!(
        !trace.calls().contains_key("programs::forks::childs_work"),
        "{:?}",
        trace.calls()
    );
    assert_eq!(trace.threads.len(), 2);
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
}

#[test]
fn every_generation_has_its_own() {
    let folder = Folder::new("fork-generations");
    fs::create_dir(folder.join("traces")).expect("a folder");
    let outcome = forks(
        &folder,
        "FDR=1 FDR_BUFFER=128K FDR_OUT=traces/%p/t",
        "generations",
    );
    let children = children(&outcome);
    assert_eq!(children.len(), 6);
    for (pid, records) in children {
        let path = folder.join(&format!("traces/{pid}/t"));
        assert_eq!(asked_for(&path, &pid), records);
        let files = folder.files(&format!("traces/{pid}"));
        assert_eq!(files, [path], "no ring beside the trace");
    }
    assert_eq!(folder.files("traces").len(), 7);
    assert_eq!(outcome.recorder_lines().len(), 7);
}

#[test]
fn forks_in_any_thread_while_others_record() {
    let folder = Folder::new("fork-threads");
    let outcome = forks(&folder, "FDR=1 FDR_BUFFER=128K FDR_OUT=all.fdr", "threads");
    let children = children(&outcome);
    assert_eq!(children.len(), 20);
    let mut names = folder.names();
    for (pid, records) in children {
        // The pattern has no place for the process, and its parent's file must stay.
        let name = take(&mut names, &format!("all.{pid}."), "fdr");
        assert_eq!(asked_for(&folder.join(&name), &pid), records);
        let trace = Trace::read(&folder.join(&name));
        let pid: u64 = facts::number(&pid);
        let mut ids: Vec<u64> = trace.threads.iter().map(|lane| lane.thread.id.0).collect();
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() == 2 && ids.contains(&pid), "{ids:?} of {pid}");
    }
    assert_eq!(names, ["all.fdr"]);
    let trace = Trace::read(&folder.join("all.fdr"));
    let parent = trace.info.process.expect("a process").to_string();
    let records = outcome.fact("records");
    assert_eq!(asked_for(&folder.join("all.fdr"), &parent), records);
    assert!(!trace.calls().contains_key("programs::forks::childs_work"));
}

#[test]
fn children_inherit_no_held_lock() {
    let folder = Folder::new("fork-locks");
    let variables = format!("{SMALL} FDR_LOG=quiet FDR_OUT=%e.%p.fdr");
    let outcome = forks(&folder, &variables, "locks");
    let children = children(&outcome);
    assert_eq!(children.len(), 60);
    for (pid, records) in children {
        let path = folder.join(&format!("programs.{pid}.fdr"));
        assert_eq!(asked_for(&path, &pid), records);
        let functions = Trace::read(&path).info.functions;
        let own = functions
            .iter()
            .filter(|known| known.name.starts_with("programs::forks::"));
        assert_eq!(own.count(), 2);
    }
}

#[test]
fn a_stream_stays_its_parents() {
    let folder = Folder::new("fork-stream");
    let variables = "FDR=1 FDR_MODE=stream FDR_FORMAT=xray FDR_OUT=stream.fdr";
    let outcome = forks(&folder, variables, "calls");
    let [(pid, records)] = children(&outcome).try_into().expect("one child");
    fs::remove_file(folder.join("child")).expect("the child's words");
    let path = folder.join(&format!("stream.{pid}.fdr"));
    assert_eq!(asked_for(&path, &pid), records);
    fs::remove_file(path).expect("the child's trace");
    let trace = Trace::read(&folder.only_trace());
    assert_eq!(trace.calls()["programs::forks::work"], 20);
}

#[test]
fn started_programs_are_recorded_apart() {
    let folder = Folder::new("fork-spawn");
    let outcome = forks(&folder, "FDR=1", "spawn");
    assert_eq!(facts::only_line(&outcome.stdout, "again"), ["true"]);
    assert_eq!(
        facts::only_line(&outcome.stdout, "inherited"),
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
        let trace = Trace::verified(&path);
        assert_eq!(trace.calls()["programs::forks::work"], 20);
        processes.push(trace.info.process);
    }
    assert_ne!(processes[0], processes[1]);
}
