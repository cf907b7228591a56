//! The API in a program without the recorder's variables: enabling, filters, off and on in the middle of calls, dumps
//! with and without records, and errors.

use std::path::Path;

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{fdr, verify};
use fdr_tests::support::trace::Trace;

fn api(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::named("api", folder);
    program.set(variables).args(&[way]).run().ok()
}

/// The trace of the dump that the program called so: `NAME threads records path`.
fn dumped(outcome: &Outcome, name: &str) -> Trace {
    let words = facts::only_line(&outcome.stdout, name);
    let path = Path::new(&words[2]);
    verify(path);
    let trace = Trace::read(path);
    let edges: usize = trace.threads.iter().map(|lane| lane.edges.len()).sum();
    let numbers: [usize; 2] = [facts::number(&words[0]), facts::number(&words[1])];
    assert_eq!(numbers, [trace.threads.len(), edges], "{name}");
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
        format!("{sign}{}", name.trim_start_matches("programs::api::"))
    };
    let edges: Vec<String> = trace.threads[0].edges.iter().map(edge).collect();
    edges.join(" ")
}

fn called(trace: &Trace) -> Vec<String> {
    trace.calls().into_keys().collect()
}

#[test]
fn a_program_names_moments_and_dumps() {
    let folder = Folder::new("api-named");
    let outcome = api(&folder, "", "named");
    let trace = dumped(&outcome, "because");
    assert_eq!(trace.info.reason, "call: the cart is lost");
    let moments = trace.info.moments.iter();
    let names: Vec<&str> = moments.clone().map(|moment| &*moment.name).collect();
    assert_eq!(names, ["warm", "hot", "warm"]);
    let times: Vec<_> = moments.map(|moment| moment.time).collect();
    assert!(times.is_sorted());
    // The first one is behind the first call, and before the second one.
    let calls = &trace.threads[0].times;
    assert!(calls[1] < times[0].0 && times[0].0 < calls[2]);
    assert!(
        outcome.stderr.contains("; the cart is lost"),
        "{}",
        outcome.stderr
    );
    let path = facts::only_line(&outcome.stdout, "because")[2].clone();
    let info = fdr("info", &[path.as_ref()]);
    assert!(info.contains("by call (the cart is lost)"), "{info}");
}

#[test]
fn a_tour() {
    let folder = Folder::new("api-tour");
    let outcome = api(&folder, "", "tour");
    let errors = |name| facts::only_line(&outcome.stdout, name).join(" ");
    assert_eq!(
        errors("never"),
        "error nothing was recorded: set FDR=1 or call fdr::enable()"
    );
    let unused = errors("unused");
    assert!(
        unused.starts_with("error nothing was recorded: none of the ")
            && unused.ends_with(" functions that are on was called"),
        "{unused}"
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
fn wrong_environments_are_errors_of_the_call() {
    let folder = Folder::new("api-broken");
    let outcome = api(&folder, "FDR_MODE=sideways", "broken");
    let why = facts::only_line(&outcome.stdout, "refused").join(" ");
    assert!(
        why.contains("FDR_MODE=\"sideways\": accepted are ring, full"),
        "{why}"
    );
    let error = facts::only_line(&outcome.stdout, "broken").join(" ");
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
        .recorder_lines()
        .iter()
        .filter(|line| line.starts_with("replaced "))
        .count();
    assert_eq!(replaced, 3, "{outcome:?}");
}

#[test]
fn the_code_says_how_and_where() {
    let folder = Folder::new("api-chosen");
    let outcome = api(&folder, "", "chosen");
    assert_eq!(facts::only_line(&outcome.stdout, "on"), ["2"]);
    let trace = Trace::read(&folder.join("chosen.fdr"));
    verify(&folder.join("chosen.fdr"));
    assert_eq!(trace.info.clock.frequency, 1_000_000_000, "the clock");
    assert_eq!(
        called(&trace),
        ["programs::api::hot::inner", "programs::api::work"]
    );
    // 128 KiB of the oldest records, and the rest is dropped.
    let counts = trace.threads[0].checked_counts();
    assert!(
        counts.overwritten == 0 && counts.dropped > 20_000,
        "{counts:?}"
    );
    assert!(trace.info.reason == "exit" && folder.join("rings").is_dir());
}

#[test]
fn the_environment_wins_over_the_code() {
    let folder = Folder::new("api-wins");
    let variables = "FDR_OUT=theirs.fdr FDR_BUFFER=1M FDR_CLOCK=rdtsc";
    let outcome = api(&folder, variables, "chosen");
    assert_eq!(facts::only_line(&outcome.stdout, "on"), ["2"]);
    let trace = Trace::read(&folder.join("theirs.fdr"));
    assert_ne!(trace.info.clock.frequency, 1_000_000_000);
    assert_eq!(trace.threads[0].checked_counts().dropped, 0);
    assert_eq!(folder.names(), ["rings", "theirs.fdr"]);

    // The environment turns recording on at the start. A line reports the program's later settings.
    let folder = Folder::new("api-wins-start");
    let outcome = api(
        &folder,
        "FDR=programs::api::hot::* FDR_OUT=theirs.fdr",
        "chosen",
    );
    assert_eq!(facts::only_line(&outcome.stdout, "on"), ["1"]);
    let trace = Trace::read(&folder.join("theirs.fdr"));
    assert_eq!(called(&trace), ["programs::api::hot::inner"]);
    let lines = outcome.recorder_lines();
    assert!(lines[0].contains("only its filter counts"), "{lines:?}");
}

#[test]
fn who_runs_the_program_can_turn_it_off() {
    for way in ["chosen", "handed"] {
        let folder = Folder::new("api-kept-off");
        let outcome = api(&folder, "FDR=off", way);
        assert!(!outcome.stdout.contains("up true"), "{outcome:?}");
        let names = folder.names();
        assert_eq!(names, [] as [&str; 0], "{way}");
    }
}

#[test]
fn late_differing_choices_are_reported_once() {
    let folder = Folder::new("api-late");
    let outcome = api(&folder, "", "late");
    let late: Vec<&str> = outcome
        .recorder_lines()
        .into_iter()
        .filter(|line| line.contains("Config"))
        .collect();
    assert_eq!(late.len(), 1, "{outcome:?}");
    let why = facts::only_line(&outcome.stdout, "refused").join(" ");
    assert!(why.starts_with("Config::buffer(\"4\"): too small"), "{why}");
}

#[test]
fn a_trace_goes_to_any_writer() {
    for format in ["xray", "xray1", "htdump", "heph"] {
        let folder = Folder::new("api-handed");
        let outcome = api(&folder, &format!("FDR_FORMAT={format}"), "handed");
        let never = facts::only_line(&outcome.stdout, "never").join(" ");
        assert!(never.starts_with("error nothing was recorded: "), "{never}");
        let body = folder.join("body");
        verify(&body);
        let trace = Trace::read(&body);
        assert_eq!(trace.threads[0].edges.len(), 4, "{format}");
        assert_eq!(facts::only_line(&outcome.stdout, "body")[1], "4");
        let narrow = facts::only_line(&outcome.stdout, "narrow").join(" ");
        assert!(
            narrow.contains("whole trace; look") && narrow.ends_with("broken pipe"),
            "{narrow}"
        );
        // No number was taken: the next dump is the first.
        let first = folder
            .names()
            .into_iter()
            .filter(|name| name.contains(".1."));
        assert_eq!(first.count(), 1, "{format}");
    }
}

#[test]
fn traces_go_to_writers_beside_streams() {
    let folder = Folder::new("api-handed-null");
    let outcome = api(&folder, "FDR_OUT=/dev/null", "handed");
    assert_eq!(facts::only_line(&outcome.stdout, "body")[1], "4");
    assert_eq!(folder.names(), ["body"]);
    verify(&folder.join("body"));
    let folder = Folder::new("api-handed-stream");
    let outcome = api(&folder, "FDR_MODE=stream FDR_OUT=s.fdr", "handed");
    assert_eq!(facts::only_line(&outcome.stdout, "body")[1], "4");
    verify(&folder.join("body"));
    assert_eq!(Trace::read(&folder.join("s.fdr")).threads[0].edges.len(), 4);
}

#[test]
fn errors_have_the_systems_error_as_source() {
    let folder = Folder::new("api-unwritable");
    std::fs::create_dir(folder.join("gone")).expect("a folder");
    let outcome = api(&folder, "FDR_OUT=gone/%n.fdr FDR_DIR=.", "unwritable");
    assert_eq!(
        facts::only_line(&outcome.stdout, "kind"),
        ["Some(NotFound)"]
    );
    let error = facts::only_line(&outcome.stdout, "error").join(" ");
    assert!(
        error.ends_with("gone/1.fdr; make its folder, or end FDR_OUT with a /"),
        "{error}"
    );
    // At exit the line on stderr has both.
    let lines = outcome.recorder_lines();
    assert!(
        lines
            .iter()
            .any(|line| line.contains("(os error 2); make its folder")),
        "{lines:?}"
    );
}
