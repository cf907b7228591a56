//! The API in a program whose environment says nothing of the recorder: bringing it up, filters, off
//! and on in the middle of calls, dumps with and without records, and errors that say what to do.

use std::path::Path;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, verify};
use fdr_tests::support::trace::Trace;

fn api(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::new(env!("CARGO_BIN_EXE_api"), folder);
    program.set(variables).args(&[way]).run().ok()
}

/// The trace of the dump that the program called so: `NAME threads records path`.
fn dumped(outcome: &Outcome, name: &str) -> Trace {
    let words = facts::one(&outcome.stdout, name);
    let path = Path::new(&words[2]);
    verify(path);
    let trace = Trace::read(path);
    let edges: usize = trace.threads.iter().map(|lane| lane.edges.len()).sum();
    let said: [usize; 2] = [facts::number(&words[0]), facts::number(&words[1])];
    assert_eq!(said, [trace.threads.len(), edges], "{name}");
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
    trace
}

/// The measured edges of the only thread, short: `+work -work`.
fn edges(trace: &Trace) -> String {
    let edge = |edge: &u32| {
        let sign = if edge & 1 == 0 { '+' } else { '-' };
        let name = trace.name_of(*edge);
        format!("{sign}{}", name.trim_start_matches("api::"))
    };
    let edges: Vec<String> = trace.threads[0].edges.iter().map(edge).collect();
    edges.join(" ")
}

#[test]
fn a_tour() {
    let folder = Folder::new("api-tour");
    let outcome = api(&folder, "", "tour");
    let errors = |name| facts::one(&outcome.stdout, name).join(" ");
    assert_eq!(
        errors("never"),
        "error nothing was recorded: set FDR=1 or call fdr::enable()"
    );
    assert_eq!(
        errors("unused"),
        "error nothing was recorded: none of the 4 functions that are on was called"
    );
    let used = "+hot::inner +work -work -hot::inner";
    assert_eq!(edges(&dumped(&outcome, "used")), used);
    let stopped = format!("{used} +stop +work -work -stop");
    assert_eq!(edges(&dumped(&outcome, "stopped")), stopped);
    let started = format!("{stopped} +work -work");
    assert_eq!(edges(&dumped(&outcome, "started")), started);
    // Three dumps by calls and one at exit; no ring is left.
    assert_eq!((folder.ending(".fdr").len(), folder.names().len()), (4, 4));
    let exit = Trace::read(&folder.ending(".4.fdr")[0]);
    assert_eq!((edges(&exit), &*exit.info.reason), (started, "exit"));
}

#[test]
fn filters() {
    let folder = Folder::new("api-filters");
    let outcome = api(&folder, "", "filters");
    assert_eq!(
        facts::all(&outcome.stdout, "refused").len(),
        5,
        "{outcome:?}"
    );
    assert!(
        outcome
            .stdout
            .contains("accepted are `1`, `on`, `*`, `off`"),
        "{outcome:?}"
    );
    let trace = dumped(&outcome, "filtered");
    let inner = "+hot::inner -hot::inner";
    assert_eq!(
        edges(&trace),
        format!("+work -work {inner} {inner} +work -work")
    );
}

#[test]
fn a_wrong_environment_is_an_error_of_the_call() {
    let folder = Folder::new("api-broken");
    let outcome = api(&folder, "FDR_MODE=sideways", "broken");
    let why = facts::one(&outcome.stdout, "refused").join(" ");
    assert!(
        why.contains("FDR_MODE=\"sideways\": accepted are ring, full"),
        "{why}"
    );
    let error = facts::one(&outcome.stdout, "broken").join(" ");
    assert!(error.starts_with("error nothing was recorded"), "{error}");
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn the_environment_says_where_and_the_call_when() {
    let folder = Folder::new("api-variables");
    let outcome = api(
        &folder,
        "FDR_OUT=one.fdr FDR_BUFFER=128K FDR_CLOCK=monotonic",
        "tour",
    );
    assert_eq!(folder.names(), ["one.fdr"]);
    let trace = Trace::read(&folder.only_trace());
    assert_eq!(trace.info.clock.frequency, 1_000_000_000);
    let replaced = outcome
        .said()
        .iter()
        .filter(|line| line.starts_with("replaced "))
        .count();
    assert_eq!(replaced, 3, "{outcome:?}");
}
