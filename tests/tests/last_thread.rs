//! A program whose main thread ends before the others. The process ends with its last thread. Exit status and output
//! are those without the recorder, and there is a dump.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

/// The ways in which a main thread leaves, and the calls that are recorded.
const WAYS: [(&str, u64); 7] = [
    ("main-pthread-exit", 10),
    ("main-system-call", 10),
    ("worker-returns", 20),
    ("worker-system-call", 20),
    ("worker-returns-after-system-call", 10),
    ("nothing-recorded", 0),
    ("nothing-recorded-system-call", 0),
];

fn run(way: &str, variables: &str, folder: &Folder) -> Outcome {
    Program::new(env!("CARGO_BIN_EXE_last_thread"), folder)
        .args(&[way])
        .set(variables)
        .run()
}

/// Ends as without the recorder; returns the calls in the traces of the folder that `FDR_OUT` names.
fn calls_recorded(way: &str, variables: &str) -> u64 {
    let folder = Folder::new("last-thread");
    let untraced = run(way, "", &folder);
    let variables = format!("{variables} FDR_OUT=traces/");
    let traced = run(way, &variables, &folder);
    assert_eq!(traced.status, untraced.status, "{way}: {traced:?}");
    assert_eq!(traced.stdout, untraced.stdout, "{way}: {traced:?}");
    calls_in(&folder)
}

/// The calls of the traces in the folder `traces` of a folder, in which nothing else may be.
fn calls_in(folder: &Folder) -> u64 {
    let traces = folder.files("traces").into_iter();
    let calls = traces.map(|path| {
        let ends = path.extension().is_some_and(|end| end == "fdr");
        assert!(ends, "{} was left", path.display());
        Trace::read(&path).calls().values().sum::<u64>()
    });
    calls.sum()
}

#[test]
fn the_last_threads_end_is_the_processes_end() {
    for (way, calls) in WAYS {
        assert_eq!(calls_recorded(way, "FDR=1"), calls, "{way}");
    }
}

#[test]
fn no_signal_or_crash_handler_is_needed() {
    for (way, calls) in WAYS {
        let variables = "FDR=1 FDR_SIGNAL=none FDR_CRASH=0";
        assert_eq!(calls_recorded(way, variables), calls, "{way}");
    }
}

#[test]
fn a_stream_is_completed() {
    for (way, calls) in WAYS {
        let variables = "FDR=1 FDR_MODE=stream";
        assert_eq!(calls_recorded(way, variables), calls, "{way}");
    }
}

#[test]
fn a_worker_may_switch_the_recorder_on() {
    let folder = Folder::new("last-thread-enabled");
    let outcome = run("enabled-by-worker", "FDR_OUT=traces/", &folder);
    assert_eq!(outcome.ok().stdout, "315\n315\n");
    assert_eq!(calls_in(&folder), 10);
}
