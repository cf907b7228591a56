//! Forks whose hooks record or fork, and children with their parent's process number. Each process has its own records
//! in its own files, and its own signals.

use std::path::{Path, PathBuf};

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;

fn hooks(folder: &Folder, way: &str) -> Outcome {
    let program = Program::named("forks_hooks", folder);
    let variables = "FDR_BUFFER=128K FDR_MEMORY=64M";
    program.set(variables).args(&[way]).run().ok()
}

fn asked_for(path: &Path) -> u64 {
    verify(path);
    Trace::read(path).asked_for()
}

/// Each child's only trace has the number of records that the child reports, and no ring is left.
fn traces_of_children(way: &str, count: usize) {
    let folder = Folder::new(&format!("hooks-{way}"));
    let outcome = hooks(&folder, way);
    let children = outcome.children();
    assert_eq!(children.len(), count, "{outcome:?}");
    for (pid, records) in children {
        let traces = folder.of_process(pid, ".fdr");
        assert_eq!(traces.len(), 1, "{pid} in {:?}", folder.names());
        assert_eq!(asked_for(&traces[0]), records, "of {pid}");
    }
    assert_eq!(folder.ending(".fdr-ring"), [] as [PathBuf; 0]);
}

#[test]
fn child_hooks_may_record_early() {
    traces_of_children("records", 1);
}

#[test]
fn child_hooks_may_fork_early() {
    traces_of_children("forks", 2);
}

#[test]
fn raw_forks_beside_another_fork() {
    let folder = Folder::new("hooks-beside");
    let outcome = hooks(&folder, "beside");
    let children = outcome.children();
    assert_eq!(children.len(), 2);
    for (pid, records) in children {
        let traces = folder.of_process(pid, ".fdr");
        let rings = folder.of_process(pid, ".fdr-ring");
        // The one that leaves without its exit handlers leaves a ring.
        let asked_for = match (&traces[..], &rings[..]) {
            ([trace], []) => asked_for(trace),
            ([], [ring]) => RingFile::read(ring).asked_for(),
            _ => panic!("{:?}", folder.names()),
        };
        assert_eq!(asked_for, records);
    }
}

#[test]
fn raw_fork_children_take_dump_signals() {
    let folder = Folder::new("hooks-signal");
    let outcome = hooks(&folder, "signal");
    let [(pid, records)] = outcome.children().try_into().expect("one child");
    let traces = folder.of_process(pid, ".fdr");
    assert_eq!(traces.len(), 1, "{:?}", folder.names());
    assert_eq!((asked_for(&traces[0]), records), (6, 6));
}

#[test]
fn generations_with_the_same_process_number() {
    let folder = Folder::new("hooks-namespaces");
    let outcome = hooks(&folder, "namespaces");
    if facts::only_line(&outcome.stdout, "made") != ["true"] {
        fdr_tests::skip("children with their parent's process number: no namespaces are to be had");
        return;
    }
    let traces = folder.of_process(1, ".fdr");
    let mut records: Vec<u64> = traces.iter().map(|path| asked_for(path)).collect();
    records.sort_unstable();
    assert_eq!(records, [6, 10], "{:?}", folder.names());
    assert_eq!(folder.ending(".fdr-ring"), [] as [PathBuf; 0]);
    let parent = outcome.fact("pid") as u32;
    let own = folder.of_process(parent, ".fdr");
    assert_eq!((own.len(), asked_for(&own[0])), (1, 20));
}

#[test]
fn long_families_keep_address_space() {
    let folder = Folder::new("hooks-generations");
    let outcome = hooks(&folder, "generations");
    let mib: Vec<u64> = outcome.children().iter().map(|child| child.1).collect();
    assert_eq!(mib.len(), 9, "{outcome:?}");
    // The first ring's stay, as do those of the last two.
    assert!(mib[0] < mib[2], "{mib:?} MiB are inaccessible");
    assert!(mib[2..].iter().all(|&size| size == mib[2]), "{mib:?}");
}
