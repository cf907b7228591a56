//! Calls that never return: unwound, jumped over, left behind on a stack that moved to another thread, ended with their
//! thread or process. Readers end such calls and mark them. Calls that did return keep their times.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{json, verify};
use fdr_tests::support::trace::Trace;
use fdr_tests::tool;
use serde_json::Value;

fn run(folder: &Folder, way: &str, times: u64) -> (Outcome, PathBuf) {
    run_with(folder, "", way, times)
}

fn run_with(folder: &Folder, variables: &str, way: &str, times: u64) -> (Outcome, PathBuf) {
    let outcome = Program::named("unwinding", folder)
        .set(&format!("FDR=1 FDR_OUT=%n.fdr {variables}"))
        .args(&[way.to_owned(), times.to_string()])
        .run();
    let trace = folder.join("1.fdr");
    assert!(trace.is_file(), "{way}: {outcome:?}");
    verify(&trace);
    (outcome, trace)
}

/// What `fdr report` says of each function: calls, and how many of them are clipped.
fn report(trace: &Path) -> (BTreeMap<String, (u64, u64)>, Value) {
    let report = json("report --window", &[trace]);
    let duration = report["duration_ns"].as_u64().expect("a number");
    let mut functions = BTreeMap::new();
    for row in report["functions"].as_array().expect("functions") {
        let number = |key: &str| row[key].as_u64().expect("a number");
        let (calls, clipped) = (number("calls"), number("clipped"));
        assert_eq!(row["max_ns"].is_null(), calls == clipped, "{row}");
        assert!(row["max_ns"].as_u64().unwrap_or(0) <= duration, "{row}");
        let name = row["name"].as_str().expect("a name").rsplit("::").next();
        let name = name.unwrap_or_default().to_owned();
        assert!(functions.insert(name, (calls, clipped)).is_none());
    }
    let all: u64 = functions.values().map(|(_, clipped)| clipped).sum();
    assert_eq!(report["balance"]["clipped_calls"], all);
    (functions, report)
}

fn calls(functions: &BTreeMap<String, (u64, u64)>) -> Vec<(&str, u64, u64)> {
    let row = |(name, &(calls, clipped)): (&'static str, &(u64, u64))| (name, calls, clipped);
    const NAMES: [&str; 8] = [
        "deep",
        "inner",
        "innermost",
        "leaf",
        "open",
        "outer",
        "throw",
        "wanders",
    ];
    let known = NAMES
        .iter()
        .filter_map(|name| Some((*name, functions.get(*name)?)));
    known.map(row).collect()
}

fn synthetic(trace: &Path, thread: &str) -> [u64; 2] {
    let trace = Trace::read(trace);
    let lane = trace.thread(thread);
    let _ = lane.checked_counts();
    lane.synthetic
}

#[test]
fn a_panic_ends_the_calls_that_it_unwinds() {
    let folder = Folder::new("unwinding-panics");
    let (outcome, trace) = run(&folder, "panics", 0);
    let _ = outcome.ok();
    assert_eq!(synthetic(&trace, "programs"), [0, 0]);
    let (functions, _) = report(&trace);
    let wanted = [("leaf", 11, 0), ("outer", 10, 0), ("throw", 100, 0)];
    assert_eq!(calls(&functions), wanted);
}

#[test]
fn jumped_calls_end_with_their_caller() {
    // More of them than a search would look at that does not pay.
    let times = 20_000;
    for (way, outer) in [("jumps", true), ("jumps-at-top", false)] {
        let folder = Folder::new(&format!("unwinding-{way}"));
        let (outcome, trace) = run(&folder, way, times);
        let _ = outcome.ok();
        assert_eq!(synthetic(&trace, "programs"), [0, 2 * times], "{way}");
        let (functions, _) = report(&trace);
        let mut wanted = vec![
            ("inner", times, times),
            ("innermost", times, times),
            ("leaf", times + 1 + u64::from(outer), 0),
        ];
        wanted.extend(outer.then_some(("outer", 1, 0)));
        assert_eq!(calls(&functions), wanted, "{way}");
    }
}

// Here a jump leaves a handler in the midst of a record, so the record is never finished.
#[cfg(target_arch = "x86_64")]
#[test]
fn jumps_out_of_records_cost_no_other() {
    jumps_cost_no_other(&[""]);
}

#[cfg(target_arch = "x86_64")]
mod the_rest {
    #[test]
    fn jumps_out_of_other_records_cost_none() {
        super::jumps_cost_no_other(&["FDR_KEEP=0", "FDR_CLOCK=monotonic"]);
    }
}

#[cfg(target_arch = "x86_64")]
fn jumps_cost_no_other(cases: &[&str]) {
    for (way, times) in [("cut", 10), ("cut-at-first", 31)] {
        for variables in cases {
            let folder = Folder::new(&format!("unwinding-{way}"));
            let buffer = if way == "cut" { "4M" } else { "128K" };
            let variables = format!("{variables} FDR_BUFFER={buffer}");
            let (outcome, path) = run_with(&folder, &variables, way, times);
            let outcome = outcome.ok();
            assert!(
                outcome.stderr.contains(" 0 overwritten, 0 dropped"),
                "{way} {variables}: {outcome:?}"
            );
            let made: u64 = outcome.stdout.trim().parse().expect("a number");
            assert!(made > 500, "{made}");
            let (functions, _) = report(&path);
            // Calls that a jump leaves are some more.
            let (calls, _) = functions["leaf"];
            assert!(
                (made..made + made / 5).contains(&calls),
                "{calls} of {made}"
            );
        }
    }
}

#[test]
fn moved_stacks_leave_halves_on_each() {
    let folder = Folder::new("unwinding-wanders");
    let (outcome, trace) = run(&folder, "wanders", 0);
    let _ = outcome.ok();
    assert_eq!(synthetic(&trace, "programs"), [0, 1]);
    assert_eq!(synthetic(&trace, "other"), [1, 0]);
    let (functions, _) = report(&trace);
    assert_eq!(calls(&functions), [("leaf", 6, 0), ("wanders", 2, 2)]);
}

#[test]
fn what_ends_within_a_call_leaves_it_open() {
    for (way, thread, leaves) in [
        ("thread-exit", "ends", 2),
        ("exit", "programs", 0),
        ("_exit", "programs", 0),
        ("abort", "programs", 0),
    ] {
        let folder = Folder::new(&format!("unwinding-{way}"));
        let (outcome, trace) = run(&folder, way, 0);
        assert_eq!(outcome.status.success(), way != "abort", "{outcome:?}");
        assert_eq!(synthetic(&trace, thread), [0, 1], "{way}");
        let (functions, _) = report(&trace);
        let mut wanted = vec![("leaf", leaves, 0), ("outer", 1, 1)];
        wanted.retain(|(_, calls, _)| *calls > 0);
        assert_eq!(calls(&functions), wanted, "{way}");
    }
}

/// Runs a command of the tool within 1 GB of addresses.
fn small(folder: &Folder, arguments: &[&str]) -> Outcome {
    let tool = tool();
    let limit = "ulimit -v 1000000; exec \"$0\" \"$@\"";
    let tool = tool.to_str().expect("UTF-8");
    Program::in_shell(limit, tool, folder)
        .args(arguments)
        .run()
        .ok()
}

#[test]
fn a_hundred_thousand_calls_deep() {
    let depth = 100_000;
    for (way, wanted) in [
        ("deep", [("deep", depth + 1, 0), ("leaf", 2, 0)]),
        ("open", [("leaf", 0, 0), ("open", depth, depth)]),
    ] {
        let folder = Folder::new(&format!("unwinding-deep-{way}"));
        let (outcome, trace) = run(&folder, way, depth);
        let _ = outcome.ok();
        let (functions, _) = report(&trace);
        let mut wanted = wanted.to_vec();
        wanted.retain(|(_, calls, _)| *calls > 0);
        assert_eq!(calls(&functions), wanted);
        let name = trace.to_str().expect("UTF-8");
        for arguments in [
            &["info"][..],
            &["report"],
            &["state"],
            &["verify"],
            &["replay", "--records", "--limit", "5"],
        ] {
            let _ = small(&folder, &[arguments, &[name]].concat());
        }
        for format in ["xray1", "heph", "htdump", "et", "iet", "ctf", "tcstate"] {
            let _ = small(&folder, &["convert", name, "--to", format, "-o", format]);
        }
    }
}
