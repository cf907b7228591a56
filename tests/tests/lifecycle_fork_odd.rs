//! Children made in odd ways and at odd moments, and programs that execute themselves. The files of each process hold
//! exactly the records that the process counted.

use std::fs;
use std::path::PathBuf;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::trace::Trace;

fn odd(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::named("forks_odd", folder);
    program.set(variables).args(&[way]).run().ok()
}

/// The trace of a process. It must have `records` records, and the process id `pid`.
fn trace_of(folder: &Folder, pid: u32, records: u64) -> Trace {
    let trace = Trace::verified(&folder.only_of_process(pid, ".fdr"));
    assert_eq!(trace.info.process, Some(u64::from(pid)));
    assert_eq!(trace.asked_for(), records);
    trace
}

fn ring_of(folder: &Folder, pid: u32) -> RingFile {
    RingFile::read(&folder.only_of_process(pid, ".fdr-ring"))
}

/// The ring of a child that a handler forked in the midst of a call. The child has made `records` records of its own.
#[cfg(target_arch = "x86_64")]
fn ring_of_interrupted(folder: &Folder, pid: u32, records: u64) -> RingFile {
    let ring = ring_of(folder, pid);
    assert_eq!(ring.pid, pid);
    // The two are of the call that the handler interrupted. Its exit is the child's, unless the exit was under way. Its
    // entry may be the parent's if the call was counted after the fork.
    let differs = ring.asked_for().abs_diff(records);
    assert!(differs <= 2, "{} of {records}", ring.asked_for());
    assert!(ring.threads.iter().all(|thread| thread.tid == pid));
    ring
}

#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_may_fork_at_every_instruction() {
    // With 128 KiB all threads but the first have no room.
    for (clock, way, memory) in [
        ("rdtscp", "handler", "4M"),
        ("rdtsc", "handler", "4M"),
        ("rdtscp", "handler-untimed", "4M"),
        ("rdtscp", "handler", "128K"),
    ] {
        let folder = Folder::new("fork-handler");
        let variables = format!("FDR=1 FDR_BUFFER=128K FDR_MEMORY={memory} FDR_CLOCK={clock}");
        let outcome = odd(&folder, &variables, way);
        assert_eq!(outcome.fact("failed"), 0);
        assert!(outcome.fact("traps") > 3000, "{}", outcome.stdout);
        let children = outcome.children();
        // Of more than 256 dead children the oldest have no ring any more.
        let count = children.len();
        assert!((80..=256).contains(&count), "{count} children");
        for (pid, records) in children {
            let ring = ring_of_interrupted(&folder, pid, records);
            assert!(ring.threads.len() == 1, "{} threads", ring.threads.len());
        }
        let pid = outcome.fact("pid") as u32;
        trace_of(&folder, pid, outcome.fact("records"));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn forks_beside_a_first_record_in_handlers() {
    // With 128 KiB no thread but the first has room.
    for memory in ["64M", "128K"] {
        let folder = Folder::new("fork-first");
        let variables = format!("FDR=1 FDR_BUFFER=128K FDR_MEMORY={memory}");
        let outcome = odd(&folder, &variables, "first");
        assert_eq!(outcome.fact("failed"), 0);
        let children = outcome.children();
        assert_eq!(children.len(), 250);
        for (pid, records) in children {
            let _ = ring_of_interrupted(&folder, pid, records);
        }
        let pid = outcome.fact("pid") as u32;
        trace_of(&folder, pid, outcome.fact("records"));
    }
}

#[test]
fn raw_fork_children_leave_the_parents_ring() {
    let folder = Folder::new("fork-raw");
    let outcome = odd(&folder, "FDR=1 FDR_CLOCK=rdtscp", "raw");
    let [(pid, records)] = outcome.children().try_into().expect("one child");
    let ring = ring_of(&folder, pid);
    let in_parents = records - ring.asked_for();
    // What is left of the chunk that its parent was in.
    assert!(in_parents < 8186, "{in_parents}");
    let parent = outcome.fact("pid") as u32;
    assert_eq!(
        Trace::verified(&folder.only_of_process(parent, ".fdr")).asked_for(),
        40 + in_parents
    );
}

#[test]
fn a_child_in_its_parents_memory_breaks_nothing() {
    let folder = Folder::new("fork-shared");
    let outcome = odd(&folder, "FDR=1", "shared");
    let trace = trace_of(&folder, outcome.fact("pid") as u32, outcome.fact("records"));
    let processes = trace.threads.iter().map(|lane| lane.thread.process);
    assert!(
        processes
            .into_iter()
            .all(|process| process == trace.info.process)
    );
    assert_eq!(
        trace.info.missing.dropped, 2,
        "the child's that came before its parent's first"
    );
    assert_eq!(folder.names().len(), 1);
}

#[test]
fn a_daemon_is_recorded() {
    for variables in [
        "FDR=1 FDR_OUT=some/traces/",
        "FDR=1 FDR_OUT=some/traces/ FDR_DIR=rings/",
    ] {
        let folder = Folder::new("fork-daemon");
        let outcome = odd(&folder, variables, "daemon");
        let children = outcome.children();
        assert_eq!(children.len(), 2);
        for (pid, records) in children {
            let trace = Trace::verified(&folder.join(&format!("some/traces/programs.{pid}.1.fdr")));
            assert_eq!(trace.info.process, Some(u64::from(pid)));
            assert_eq!(trace.asked_for(), records);
        }
        assert_eq!(
            fs::read_dir(folder.join("some/traces"))
                .expect("it")
                .count(),
            3
        );
    }
}

#[test]
fn forks_while_the_recorder_comes_up() {
    let folder = Folder::new("fork-installing");
    let variables = "FDR_BUFFER=128K FDR_MEMORY=1M FDR_LOG=quiet";
    let outcome = odd(&folder, variables, "installing");
    let children = outcome.children();
    assert_eq!(children.len(), 30);
    for (pid, records) in children {
        trace_of(&folder, pid, records);
    }
    assert_eq!(folder.ending(".fdr-ring"), [] as [PathBuf; 0]);
}

#[test]
fn a_program_that_executes_itself_leaves_its_ring() {
    let folder = Folder::new("fork-exec");
    let outcome = odd(&folder, "FDR=1", "exec");
    let pid = outcome.fact("pid") as u32;
    trace_of(&folder, pid, 40);
    let ring = ring_of(&folder, pid);
    assert_eq!((ring.pid, ring.asked_for()), (pid, 20));
    let folder = Folder::new("fork-exec-not");
    let other = odd(&folder, "FDR=1", "nothing");
    let open = other.fact("open");
    assert_eq!(
        outcome.fact("open"),
        open,
        "none of the former image's descriptors"
    );
}
