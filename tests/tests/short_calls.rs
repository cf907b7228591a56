//! `FDR_KEEP`: short calls leave no records, and nothing else is lost. Every call is counted, also in the totals of its
//! function. The self times with the time of short calls are all of the time, however the trace was made.

use std::path::{Path, PathBuf};

use fdr_formats::registry;
use fdr_tests::support::facts::number_behind;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json, number, sum, verify};
use fdr_tests::support::wait::until;
use serde_json::Value;

/// A ring of two chunks, which a thread fills in less than a millisecond.
pub(super) const VARIABLES: &str =
    "FDR=1 FDR_KEEP=300ms FDR_BUFFER=128K FDR_DIR=rings/ FDR_OUT=out/";

pub(super) fn program(folder: &Folder, arguments: &[&str]) -> Program {
    let program = Program::new(env!("CARGO_BIN_EXE_short_calls"), folder);
    program.set(VARIABLES).args(arguments)
}

pub(super) fn report(path: &Path) -> Value {
    json("report --window", &[path])
}

/// The trace is whole, and no count is missing.
pub(super) fn is_whole(path: &Path) -> Value {
    verify(path);
    let report = report(path);
    let parts = ["readable", "overwritten", "dropped", "summarised"];
    let parts: u64 = parts.iter().map(|part| sum(&report["threads"], part)).sum();
    assert_eq!(parts, sum(&report["threads"], "recorded"));
    report
}

/// Every moment of a thread's window is self time of some call, or the time of short calls. `thread` lasts all the
/// time, and has its exit.
fn check_all_time(report: &Value) {
    let functions = report["functions"].as_array().expect("functions");
    let is_outermost = |function: &&Value| function["name"] == "short_calls::thread";
    let outermost = functions.iter().find(is_outermost);
    let outermost = outermost.expect("the function `thread`");
    let all = sum(&report["functions"], "self_ns") + sum(&report["threads"], "short_ns");
    // Each sum is rounded.
    let differs = number(&outermost["total_ns"]).abs_diff(all);
    assert!(differs <= 20, "{differs} ns: {report:#}");
}

/// The self times of all functions add up to the total time of the outermost function, less the part of it that short
/// calls take in addition to recorded ones. The table for people has the same numbers of calls.
fn the_whole_run_is_shown(path: &Path, report: &Value) {
    let whole = report["whole_run"].as_array().expect("figures");
    let outermost = |row: &&Value| row["name"] == "short_calls::thread";
    let outermost = whole.iter().find(outermost).expect("the function `thread`");
    let own = sum(&report["whole_run"], "self_ns");
    // Each sum is rounded. The time that a short call takes in addition to a recorded one is in no self time. That is
    // 3 % of this program's time, also of the time in which another process has the CPU.
    let total = number(&outermost["total_ns"]);
    let beside = total + 10 - own;
    assert!(beside <= 20 + total / 20, "{beside} of {total} ns");
    let csv = fdr("report --csv", &[path]);
    for row in whole {
        let calls = format!(",{},", row["calls"]);
        assert!(csv.contains(&calls), "{calls} in {csv}");
    }
    assert_ne!(fdr("report --csv --window", &[path]), csv);
}

pub(super) fn only_trace(folder: &Folder) -> PathBuf {
    folder.only_file("out", "")
}

#[test]
fn every_call_and_all_time_is_counted() {
    let folder = Folder::new("short-calls");
    let outcome = program(&folder, &["2", "700"]).run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let path = only_trace(&folder);
    let report = is_whole(&path);
    check_all_time(&report);
    assert_eq!(
        sum(&report["threads"], "recorded"),
        2 * number_behind(&outcome.stdout, "calls")
    );
    assert!(sum(&report["threads"], "summarised") > 0);
    assert_eq!(
        sum(&report["whole_run"], "calls"),
        number_behind(&outcome.stdout, "calls")
    );
    the_whole_run_is_shown(&path, &report);
    let info = fdr("info", &[&path]);
    assert!(
        info.contains("left no records in the whole run; the threshold"),
        "{info}"
    );
    assert!(
        info.contains(" summary records") && !info.contains("callss"),
        "{info}"
    );
    let flame = fdr("flame", &[&path]);
    assert!(flame.contains(";[short] "), "{flame}");
    // Other formats can't tell of them. What they hold is right nevertheless.
    for target in registry::targets() {
        let to = folder.join(&format!("as-{}", target.name));
        let _ = fdr(
            &format!("convert -q --to {} -o", target.name),
            &[&to, &path],
        );
        verify(&to);
    }
    let again = is_whole(&folder.join("as-xray"));
    assert_eq!(again["whole_run"], report["whole_run"]);
    for field in ["short_calls", "short_ns", "summarised"] {
        assert_eq!(
            sum(&again["threads"], field),
            sum(&report["threads"], field),
            "{field}"
        );
    }
}

#[test]
fn crash_kill_and_snapshot_have_open_calls() {
    let folder = Folder::new("short-calls-killed");
    let outcome = program(&folder, &["2", "300", "abort"]).run();
    assert!(!outcome.status.success());
    let report = is_whole(&only_trace(&folder));
    check_all_time(&report);
    assert_eq!(
        sum(&report["threads"], "recorded"),
        2 * number_behind(&outcome.stdout, "calls")
    );
    assert_eq!(
        sum(&report["whole_run"], "calls"),
        number_behind(&outcome.stdout, "calls")
    );

    let folder = Folder::new("short-calls-killed-9");
    let running = program(&folder, &["2", "100000"]).start();
    let ring = until("a ring", || folder.files("rings").pop());
    let trace = folder.join("snapshot.fdr");
    let is_short = || {
        let _ = fdr(&format!("dump -q --force {} -o", running.id()), &[&trace]);
        // The ring may have no thread yet.
        let records = self::report(&trace)["threads"][0]["recorded"].as_u64();
        let report = records.map(|_| is_whole(&trace))?;
        (sum(&report["threads"], "summarised") > 0).then_some(())
    };
    until("short calls", is_short);
    running.signal("KILL");
    let _ = running.end();
    let to = folder.join("recovered.fdr");
    let _ = fdr("dump -q -o", &[&to, &ring]);
    let report = is_whole(&to);
    assert!(sum(&report["threads"], "summarised") > 0);
    // Each thread has at most four calls open, and may have been counting one when it was killed.
    let ended = 2 * sum(&report["whole_run"], "calls");
    let recorded = sum(&report["threads"], "recorded");
    assert!(recorded.abs_diff(ended) <= 2 * (4 + 2), "{report:#}");
}

/// The calls of the whole run are those that the program made, but for the error that the report states.
fn check_calls(report: &Value, made: u64) {
    let calls = sum(&report["whole_run"], "calls");
    let rows = report["whole_run"].as_array().expect("figures");
    let errors = rows
        .iter()
        .map(|row| row["calls_error"].as_f64().unwrap_or(0.0));
    let error = errors.map(|error| error * error).sum::<f64>().sqrt();
    // Five standard errors, and what a short run adds. Without an error the number is exact.
    let differs = calls.abs_diff(made) as f64;
    let most = 5.0 * error + made as f64 / 10.0;
    let most = if error > 0.0 { most } else { 0.0 };
    assert!(differs <= most, "{calls} of {made}, ± {error}: {report:#}");
}

/// The report of a program that ran until the calls of functions were only counted or only looked at, and timed for a
/// moment.
fn counted(folder: &Folder, variables: &str, arguments: &[&str]) -> Value {
    let program = Program::named("controlled", folder);
    let program = program.set(VARIABLES).set(variables).args(arguments);
    let running = program.start_ready();
    let status = || json(&format!("ctl {} status", running.id()), &[]);
    until("functions that are only counted", || {
        let status = status();
        let levels = ["counted_functions", "looked_at_functions"];
        let functions: u64 = levels.iter().map(|level| number(&status[*level])).sum();
        (functions > 0).then_some(())
    });
    let recorded = number(&status()["recorded"]);
    until("timed calls of such functions", || {
        (number(&status()["recorded"]) > recorded + 1000).then_some(())
    });
    // Known after some CPU time of the recorder.
    until("what recording costs", || status()["cost"].as_u64());
    let outcome = running.end().ok();
    let report = is_whole(&only_trace(folder));
    let made = number_behind(&outcome.stdout, "calls");
    check_calls(&report, made);
    let calls = sum(&report["whole_run"], "calls");
    let counted = sum(&report["whole_run"], "counted");
    assert!(counted > 0);
    let recorded = sum(&report["threads"], "recorded");
    assert_eq!(recorded, 2 * (calls - counted), "{report:#}");
    report
}

#[test]
fn calls_over_budget_are_only_counted() {
    let folder = Folder::new("short-calls-budget");
    let report = counted(&folder, "FDR_BUDGET=1%", &["load"]);
    let whole = report["whole_run"].as_array().expect("figures");
    for row in whole.iter().filter(|row| number(&row["counted"]) > 0) {
        assert!(number(&row["total_ns"]) > number(&row["self_ns"]) / 2);
        assert!(row["error_ns"].is_u64(), "{row}");
    }
    let text = fdr("report", &[&only_trace(&folder)]);
    assert!(text.contains("FDR_BUDGET=1.0 %"), "{text}");
}

#[test]
fn threads_of_only_counted_calls_are_recorded() {
    for end in ["", "abort"] {
        let folder = Folder::new("short-calls-late");
        // The recorder looks after a second again, if a busy machine let the program do next to nothing at first.
        let outcome = program(&folder, &["1", "1500", "late", end])
            .set("FDR_BUDGET=0.0001% FDR_MEMORY=256M")
            .run();
        let report = is_whole(&only_trace(&folder));
        let made = number_behind(&outcome.stdout, "calls");
        let calls = sum(&report["whole_run"], "calls");
        let rows = report["whole_run"].as_array().expect("figures");
        let is_estimate = rows.iter().any(|row| row["calls_error"].is_u64());
        assert!(calls == made || is_estimate, "{end}: {report:#}");
        let counted = sum(&report["whole_run"], "counted");
        let recorded = sum(&report["threads"], "recorded");
        assert_eq!(recorded, 2 * (calls - counted), "{end}: {report:#}");
        let threads = report["threads"].as_array().expect("threads");
        let has_no_records = |thread: &&Value| number(&thread["recorded"]) == 0;
        assert!(
            threads.iter().any(|thread| has_no_records(&thread)),
            "{end}"
        );
    }
}

/// Most of these threads live between two slices, while their functions are off, so they have no slot.
#[test]
fn calls_of_threads_between_slices_are_estimated() {
    let folder = Folder::new("short-calls-brief");
    let outcome = program(&folder, &["0", "1500", "brief"])
        .set("FDR_BUDGET=0.0001% FDR_MEMORY=32M")
        .run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = is_whole(&only_trace(&folder));
    check_calls(&report, number_behind(&outcome.stdout, "calls"));
}

#[test]
fn manual_marks_are_timed() {
    let folder = Folder::new("short-calls-auto");
    let report = counted(&folder, "", &["load", "auto"]);
    for row in report["whole_run"].as_array().expect("figures") {
        let is_counted = number(&row["counted"]) > 0;
        assert_eq!(
            is_counted,
            row["name"] == "programs::controlled::unnamed",
            "{row}"
        );
    }
}

#[test]
fn calls_of_reused_rings_are_counted() {
    let folder = Folder::new("short-calls-reused");
    // Two rings for four threads.
    let outcome = program(&folder, &["4", "150", "in-turn"])
        .set("FDR_MEMORY=512K")
        .run();
    assert!(outcome.status.success(), "{}", outcome.stderr);
    let report = is_whole(&only_trace(&folder));
    let missing = &report["missing"];
    assert!(number(&missing["threads"]) > 0, "{missing}");
    let made = sum(&report["threads"], "recorded")
        + number(&missing["overwritten"])
        + number(&missing["dropped"]);
    assert_eq!(made, 2 * number_behind(&outcome.stdout, "calls"));
    let counted = sum(&report["whole_run"], "calls");
    assert_eq!(counted, number_behind(&outcome.stdout, "calls"));
}
