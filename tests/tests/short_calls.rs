//! `FDR_KEEP`: short calls leave no records, and nothing else is lost. Every call is counted, and the self times with
//! the time of short calls are all of the time, however the trace was made.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use fdr_formats::registry;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, fdr, verify};
use fdr_tests::support::wait::until;
use serde_json::Value;

/// A ring of two chunks, which a thread fills in less than a millisecond.
const VARIABLES: &str = "FDR=1 FDR_KEEP=300ms FDR_BUFFER=128K FDR_DIR=rings/ FDR_OUT=out/";

fn program(folder: &Folder, arguments: &[&str]) -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_short_calls"), folder);
    program.set(VARIABLES).args(arguments)
}

fn report(path: &Path) -> Value {
    let arguments = ["report".as_ref(), "--json".as_ref(), path.as_os_str()];
    serde_json::from_str(&fdr(&arguments)).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// The sum over all threads, or functions.
fn sum(report: &Value, list: &str, of: &str) -> u64 {
    let list = report[list].as_array().expect("a list");
    list.iter().map(|one| number(&one[of])).sum()
}

/// The trace is whole, and no count is missing.
fn is_whole(path: &Path) -> Value {
    verify(path);
    let report = report(path);
    let parts = ["readable", "overwritten", "dropped", "summarised"];
    let parts: u64 = parts.iter().map(|part| sum(&report, "threads", part)).sum();
    assert_eq!(parts, sum(&report, "threads", "recorded"));
    report
}

/// Every moment of a thread's window is self time of some call, or the time of short calls. `thread` lasts all the
/// time, and has its exit.
fn all_time_is_told(report: &Value) {
    let functions = report["functions"].as_array().expect("functions");
    let is_outermost = |function: &&Value| function["name"] == "short_calls::thread";
    let outermost = functions.iter().find(is_outermost);
    let outermost = outermost.expect("the function `thread`");
    let all = sum(report, "functions", "self_ns") + sum(report, "threads", "short_ns");
    // Each sum is rounded.
    let differs = number(&outermost["total_ns"]).abs_diff(all);
    assert!(differs <= 20, "{differs} ns: {report:#}");
}

fn only_trace(folder: &Folder) -> PathBuf {
    let mut files = std::fs::read_dir(folder.join("out")).expect("a folder");
    let file = files.next().expect("a trace").expect("an entry").path();
    assert!(files.next().is_none());
    file
}

/// The number behind a word of the program's output.
fn said(stdout: &str, word: &str) -> u64 {
    let line = stdout.lines().find_map(|line| line.strip_prefix(word));
    line.and_then(|number| number.trim().parse().ok())
        .expect("a number")
}

#[test]
fn every_call_is_counted_and_all_time_is_told() {
    let folder = Folder::new("short-calls");
    let outcome = program(&folder, &["2", "700"]).run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let path = only_trace(&folder);
    let report = is_whole(&path);
    all_time_is_told(&report);
    assert_eq!(
        sum(&report, "threads", "recorded"),
        2 * said(&outcome.stdout, "calls")
    );
    assert!(sum(&report, "threads", "summarised") > 0);
    let info = fdr(&["info".as_ref(), path.as_os_str()]);
    assert!(info.contains("left no records in the whole run"), "{info}");
    let flame = fdr(&["flame".as_ref(), path.as_os_str()]);
    assert!(flame.contains(";[short] "), "{flame}");
    // Other formats can't tell of them. What they hold is right nevertheless.
    for target in registry::targets() {
        let to = folder.join(&format!("as-{}", target.name));
        let words = ["convert", "--quiet", "--to", target.name, "-o"].map(OsStr::new);
        let _ = fdr(&[&words[..], &[to.as_os_str(), path.as_os_str()]].concat());
        verify(&to);
    }
    let again = is_whole(&folder.join("as-xray"));
    for of in ["short_calls", "short_ns", "summarised"] {
        assert_eq!(
            sum(&again, "threads", of),
            sum(&report, "threads", of),
            "{of}"
        );
    }
}

#[test]
fn a_crash_a_kill_and_a_snapshot_have_the_open_calls() {
    let folder = Folder::new("short-calls-killed");
    let outcome = program(&folder, &["2", "300", "abort"]).run();
    assert!(!outcome.status.success());
    let report = is_whole(&only_trace(&folder));
    all_time_is_told(&report);
    assert_eq!(
        sum(&report, "threads", "recorded"),
        2 * said(&outcome.stdout, "calls")
    );

    let folder = Folder::new("short-calls-killed-9");
    let running = program(&folder, &["2", "100000"]).start();
    let rings = folder.join("rings");
    until("a ring", || {
        let mut files = std::fs::read_dir(&rings).ok()?;
        files.next().map(|_| ())
    });
    let ring = only_ring(&folder);
    let trace = folder.join("snapshot.fdr");
    let is_short = || {
        let pid = running.id().to_string();
        let words = ["snapshot", "--quiet", "--force", &pid, "-o"].map(OsStr::new);
        let _ = fdr(&[&words[..], &[trace.as_os_str()]].concat());
        let report = is_whole(&trace);
        (sum(&report, "threads", "summarised") > 0).then_some(())
    };
    until("short calls", is_short);
    running.signal("KILL");
    let _ = running.end();
    let to = folder.join("recovered.fdr");
    let words = ["recover", "--quiet", "-o"].map(OsStr::new);
    let _ = fdr(&[&words[..], &[to.as_os_str(), ring.as_os_str()]].concat());
    let report = is_whole(&to);
    assert!(sum(&report, "threads", "summarised") > 0);
}

#[test]
fn calls_of_threads_whose_rings_were_reused_are_counted() {
    let folder = Folder::new("short-calls-reused");
    // Two rings for four threads.
    let outcome = program(&folder, &["4", "150", "in-turn"])
        .set("FDR_MEMORY=256K")
        .run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = is_whole(&only_trace(&folder));
    let missing = &report["missing"];
    assert!(number(&missing["threads"]) > 0, "{missing}");
    let made = sum(&report, "threads", "recorded")
        + number(&missing["overwritten"])
        + number(&missing["dropped"]);
    assert_eq!(made, 2 * said(&outcome.stdout, "calls"));
}
