//! Dumps by signal: at any moment, any number of times, and by any signal. They change nothing in what the program
//! does. A file is whole from the moment at which it has its name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, Running};
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

/// The program with four threads, at work.
fn steady(folder: &Folder, variables: &str) -> Running {
    let program = Program::named("steady", folder);
    program.set(variables).start_ready()
}

/// What it prints when nothing disturbs it.
fn undisturbed(folder: &Folder) -> String {
    let outcome = steady(folder, "").end().ok();
    assert_eq!(outcome.stderr, "");
    assert_eq!(outcome.stdout.lines().count(), 5);
    outcome.stdout
}

/// Waits until there are at least `count` traces.
fn traces(folder: &Folder, count: usize) -> Vec<PathBuf> {
    until(&format!("{count} traces"), || {
        let traces = folder.ending(".fdr");
        (traces.len() >= count).then_some(traces)
    })
}

/// Nothing but traces is left, each of them was announced, and each is whole.
fn all_whole(folder: &Folder, outcome: &Outcome) {
    let traces = folder.ending(".fdr");
    assert_eq!(folder.names().len(), traces.len(), "{:?}", folder.names());
    let lines = outcome.recorder_lines();
    let wrote: BTreeSet<PathBuf> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("wrote ")?.split(": ").next())
        .map(PathBuf::from)
        .collect();
    assert_eq!(wrote, traces.iter().cloned().collect(), "{lines:?}");
    traces.iter().for_each(|path| verify(path));
}

#[test]
fn a_storm_of_signals_to_the_very_end() {
    let folder = Folder::new("signal-storm");
    let output = undisturbed(&folder);
    for round in 0..2 {
        let mut program = steady(&folder, "FDR=1 FDR_BUFFER=1M");
        let kill = format!(
            "while kill -s USR2 {} 2>/dev/null; do :; done",
            program.id()
        );
        let mut storm = Command::new("sh")
            .args(["-c", &kill])
            .spawn()
            .expect("sh runs");
        traces(&folder, 1);
        program.tell("");
        let outcome = program.end().ok();
        let ended = storm.wait().expect("the storm ends");
        assert!(ended.success() && outcome.stdout == output, "{outcome:?}");
        let left: Vec<String> = folder
            .names()
            .into_iter()
            .filter(|name| !name.ends_with(".fdr"))
            .collect();
        assert_eq!(left, [] as [&str; 0], "round {round}");
        all_whole(&folder, &outcome);
        for path in folder.ending(".fdr") {
            fs::remove_file(path).expect("a trace");
        }
    }
}

#[test]
fn signals_that_were_chosen() {
    let folder = Folder::new("signal-chosen");
    for (chosen, sent) in [
        ("USR1", "USR1"),
        ("10", "USR1"),
        ("sigusr2", "USR2"),
        ("RTMIN+1", "35"),
    ] {
        let program = steady(
            &folder,
            &format!("FDR=1 FDR_BUFFER=128K FDR_SIGNAL={chosen}"),
        );
        program.signal(sent);
        let trace = Trace::read(&traces(&folder, 1)[0]);
        assert_eq!(trace.info.reason, "signal", "{chosen}");
        let outcome = program.end().ok();
        assert_eq!(folder.names().len(), 2, "{chosen}: {outcome:?}");
        all_whole(&folder, &outcome);
        for path in folder.ending(".fdr") {
            fs::remove_file(path).expect("a trace");
        }
    }
}

#[test]
fn without_a_signal_it_keeps_its_meaning() {
    let folder = Folder::new("signal-none");
    for variables in ["FDR=1 FDR_SIGNAL=none", "FDR=1 FDR_SIGNAL=USR1", ""] {
        let program = steady(&folder, variables);
        program.signal("USR2");
        let outcome = program.end();
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(
            outcome.status.signal(),
            Some(12),
            "{variables}: USR2 ends a program"
        );
        assert_eq!(folder.ending(".fdr"), [] as [PathBuf; 0]);
    }
}

fn handlers(folder: &Folder, variables: &str, way: &str) -> Running {
    let program = Program::named("handlers", folder);
    program
        .set(variables)
        .args(&[way, "wait"])
        .start_until("waiting")
}

/// The program's handler was there first: both run.
#[test]
fn a_handler_installed_before_is_called_too() {
    let folder = Folder::new("signal-before");
    let program = handlers(&folder, "", "before");
    assert_eq!(Trace::read(&traces(&folder, 1)[0]).info.reason, "signal");
    let outcome = program.end().ok();
    assert_eq!(facts::only_line(&outcome.stdout, "handled"), ["1"]);
    all_whole(&folder, &outcome);
}

/// The program's handler takes the place of the recorder's: the program is as it would be without,
/// and the trace is written at exit.
#[test]
fn a_handler_installed_after_takes_the_signal() {
    let folder = Folder::new("signal-after");
    let outcome = handlers(&folder, "FDR=1", "after").end().ok();
    assert_eq!(facts::only_line(&outcome.stdout, "handled"), ["1"]);
    assert_eq!(Trace::read(&folder.only_trace()).info.reason, "exit");
}

/// Unless it calls the handler that it found.
#[test]
fn later_handlers_may_pass_signals_on() {
    let folder = Folder::new("signal-next");
    let program = handlers(&folder, "FDR=1", "after-and-next");
    assert_eq!(Trace::read(&traces(&folder, 1)[0]).info.reason, "signal");
    let outcome = program.end().ok();
    assert_eq!(facts::only_line(&outcome.stdout, "handled"), ["1"]);
    all_whole(&folder, &outcome);
}
