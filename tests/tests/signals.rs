//! Signals on every instruction of a child's first record, errno, and ends of the process at any moment. Each record is
//! recorded or counted, nothing hangs, and no incomplete file has a final name.

use std::fs;
use std::path::PathBuf;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::tool::verify;

fn signalled(folder: &Folder, variables: &str, ways: &[&str]) -> Outcome {
    let program = Program::named("signalled", folder);
    program.set(variables).args(ways).run()
}

/// Each child's ring holds or counts every record that it says it made.
fn rings_of_children(folder: &Folder, outcome: &Outcome, count: usize) {
    let children = outcome.children();
    assert_eq!(children.len(), count);
    for (pid, records) in children {
        let ring = RingFile::read(&folder.only_of_process(pid, ".fdr-ring"));
        assert_eq!((ring.pid, ring.asked_for()), (pid, records));
        assert!(ring.threads.iter().any(|thread| !thread.edges.is_empty()));
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_step_through_a_childs_first_record() {
    for clock in ["rdtscp", "rdtsc", "monotonic"] {
        let folder = Folder::new("signals-first");
        let variables = format!("FDR=1 FDR_BUFFER=128K FDR_CLOCK={clock}");
        let outcome = signalled(&folder, &variables, &["first-records"]).ok();
        rings_of_children(&folder, &outcome, 3);
    }
}

/// A handler's entry and exit are both recorded, or both dropped. The record that it interrupts is never dropped.
#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_step_through_a_threads_first_record() {
    for variables in ["", "FDR_KEEP=0 FDR_CLOCK=rdtsc"] {
        let folder = Folder::new("signals-first-of-threads");
        let variables = format!("FDR=1 FDR_BUFFER=128K FDR_MEMORY=256M {variables}");
        let outcome = signalled(&folder, &variables, &["first-of-threads"]).ok();
        let statistics = facts::statistics(&outcome.stdout);
        let dropped = statistics.threads.iter().map(|thread| thread.dropped);
        let odd = dropped.filter(|dropped| dropped % 2 == 1).count();
        assert_eq!(odd, 0, "{variables}");
        assert_eq!(statistics.missing.dropped % 2, 0, "{variables}");
        let records = outcome.fact("records");
        assert_eq!(facts::total(&statistics), records, "{variables}");
    }
}

#[test]
fn one_of_many_makes_a_childs_ring() {
    let folder = Folder::new("signals-races");
    let outcome = signalled(&folder, "FDR=1 FDR_BUFFER=128K FDR_MEMORY=4M", &["races"]).ok();
    assert_eq!(facts::only_line(&outcome.stdout, "wrong"), ["0"]);
    rings_of_children(&folder, &outcome, 30);
}

#[test]
fn errno_is_kept() {
    let folder = Folder::new("signals-errno");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_LOG=quiet";
    let outcome = signalled(&folder, variables, &["errno"]).ok();
    assert_eq!(facts::only_line(&outcome.stdout, "wrong"), ["0"]);
    for trace in folder.ending(".fdr") {
        verify(&trace);
    }
    assert_eq!(folder.ending(".fdr-ring"), [] as [PathBuf; 0]);
}

#[test]
fn exits_in_handlers_await_the_dump() {
    for micros in [300, 2000, 20_000] {
        let folder = Folder::new("signals-exit");
        let variables = "FDR=1 FDR_OUT=last.fdr FDR_LOG=quiet";
        let ways = ["exit-in-dump", &micros.to_string()];
        let outcome = signalled(&folder, variables, &ways);
        assert_eq!(outcome.status.code(), Some(3), "{outcome:?}");
        verify(&folder.only_trace());
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn exits_in_handlers_within_calls_dump() {
    exits_in_the_midst_of_a_call(10);
}

mod the_rest {
    #[test]
    fn exits_at_many_steps_of_calls_dump() {
        super::exits_in_the_midst_of_a_call(40);
    }
}

fn exits_in_the_midst_of_a_call(times: u64) {
    let run = |step: u64| {
        let folder = Folder::new("signals-exit-in-call");
        let ways = ["exit-in-call", &step.to_string()];
        let outcome = signalled(&folder, "FDR=1 FDR_OUT=last.fdr", &ways);
        verify(&folder.only_trace());
        outcome
    };
    let all = run(i64::MAX as u64).ok();
    let steps: u64 = all.fact("traps");
    assert!(steps > 100, "{steps}");
    for step in (0..steps).step_by(steps.div_ceil(times) as usize) {
        let outcome = run(step);
        assert_eq!(outcome.status.code(), Some(3), "{step}: {outcome:?}");
        assert_eq!(outcome.recorder_lines().len(), 1, "{step}: {outcome:?}");
    }
}

#[test]
fn simultaneous_exits_keep_the_records() {
    for _ in 0..4 {
        let folder = Folder::new("signals-two");
        let outcome = signalled(&folder, "FDR=1 FDR_LOG=quiet", &["two-exits"]);
        assert_eq!(outcome.status.code(), Some(5), "{outcome:?}");
        let traces = folder.ending(".fdr");
        traces.iter().for_each(|trace| verify(trace));
        let rings = folder.ending(".fdr-ring");
        assert!(traces.len() + rings.len() > 0, "{:?}", folder.names());
    }
}

#[test]
fn a_quick_exit_leaves_the_ring() {
    let folder = Folder::new("signals-quick");
    let outcome = signalled(&folder, "FDR=1", &["quick-exit"]);
    assert_eq!(outcome.status.code(), Some(6), "{outcome:?}");
    assert_eq!(outcome.stderr, "");
    let names = folder.names();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(RingFile::read(&folder.join(&names[0])).asked_for(), 20);
    fs::remove_file(folder.join(&names[0])).expect("the ring");
}
