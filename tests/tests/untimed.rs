//! `#[traced(untimed)]` in a whole program. Every call is in its place, without a time of its own. Its time is its
//! caller's, in the trace and in the tool's reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{by_name, fdr, json};
use fdr_tests::support::trace::Trace;
use fdr_tests::tool;
use serde_json::Value;

/// Rounds whose records do not fill a chunk: the clock is read for the first record and for timed ones.
const FEW: u64 = 10;
/// Some dozens of chunks.
const MANY: u64 = 2000;

fn record(folder: &Folder, rounds: u64, variables: &str) -> PathBuf {
    let program = Program::named("leaves", folder)
        .set("FDR=1 FDR_BUFFER=16M FDR_OUT=leaves.fdr")
        .set(variables)
        .args(&[rounds.to_string()]);
    let _ = program.run().ok();
    folder.join("leaves.fdr")
}

fn report(trace: &Path) -> BTreeMap<String, Value> {
    by_name(&json("report", &[trace])["functions"])
}

/// The edges of a round.
fn round() -> Vec<&'static str> {
    let mut edges = vec!["work", "through", "inner", "/inner", "/through"];
    (0..100).for_each(|_| edges.extend(["leaf", "/leaf"]));
    edges.push("/work");
    edges
}

#[test]
fn untimed_calls_take_no_others_time() {
    for variables in [
        "",
        "FDR_CLOCK=rdtsc",
        "FDR_CLOCK=monotonic",
        "FDR_FORMAT=xray1",
    ] {
        for rounds in [FEW, MANY] {
            let folder = Folder::new("untimed-order");
            let trace = Trace::verified(&record(&folder, rounds, variables));
            let lane = trace.threads.first().expect("a thread");
            assert_eq!(
                lane.checked_counts().recorded,
                rounds * round().len() as u64
            );
            let wanted = round();
            for (at, edge) in lane.edges.iter().enumerate() {
                let name = trace.name_of(*edge);
                let name = name.strip_prefix("programs::leaves::").unwrap_or(&name);
                let wanted = wanted[at % wanted.len()];
                assert_eq!(
                    name,
                    wanted.trim_start_matches('/'),
                    "{variables}: record {at}"
                );
                assert_eq!(
                    edge & 1 == 1,
                    wanted.starts_with('/'),
                    "{variables}: record {at}"
                );
            }
            assert!(lane.times.is_sorted(), "{variables}");
            for function in &trace.info.functions {
                if let Some(name) = function.name.strip_prefix("programs::leaves::") {
                    assert_eq!(
                        function.untimed,
                        ["leaf", "through"].contains(&name),
                        "{name}"
                    );
                }
            }
        }
    }
}

#[test]
fn callers_keep_the_untimed_time() {
    let folder = Folder::new("untimed-report");
    for rounds in [FEW, MANY] {
        let trace = record(&folder, rounds, "");
        let rows = report(&trace);
        let row = |name: &str| &rows[&format!("programs::leaves::{name}")];
        let number = |name: &str, key: &str| row(name)[key].as_u64().expect(key);
        for (name, calls) in [("work", 1), ("inner", 1), ("through", 1), ("leaf", 100)] {
            assert_eq!(number(name, "calls"), calls * rounds, "{name}");
        }
        for name in ["leaf", "through"] {
            assert_eq!(row(name)["untimed"], true);
            for key in ["total_ns", "self_ns", "min_ns", "p99_ns", "max_ns"] {
                assert!(row(name)[key].is_null(), "{name} {key}");
            }
        }
        // What passed in `work` passed in itself, or in `inner`. Each is rounded to ns.
        let whole = number("work", "total_ns");
        let parts = number("work", "self_ns") + number("inner", "total_ns");
        assert!(whole.abs_diff(parts) <= 1, "{whole} {parts}");
        assert_eq!(number("inner", "total_ns"), number("inner", "self_ns"));

        let flame = fdr("flame", &[&trace]);
        let paths: Vec<&str> = flame
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let inner = "programs::leaves::work;programs::leaves::through;programs::leaves::inner";
        assert_eq!(paths, ["programs::leaves::work", inner]);
        let calls = fdr("flame --calls", &[&trace]);
        let leaf = format!(
            "programs::leaves::work;programs::leaves::leaf {}",
            100 * rounds
        );
        assert!(calls.lines().any(|line| line == leaf), "{calls}");
    }
}

#[test]
fn readers_say_which_functions_are_untimed() {
    let folder = Folder::new("untimed-readers");
    // Otherwise an untimed function has the time of each call in its record.
    let trace = record(&folder, FEW, "FDR_KEEP=0");
    let table = fdr("report", &[&trace]);
    let row = table
        .lines()
        .find(|line| line.ends_with(" programs::leaves::leaf"));
    let cells: Vec<&str> = row.expect("a row").split_whitespace().collect();
    assert_eq!(cells[..2], ["1,000", "-"]);
    assert!(
        table.contains("untimed: the calls of 2 functions are counted"),
        "{table}"
    );
    let info = fdr("info --functions", &[&trace]);
    let own = info
        .lines()
        .filter(|line| line.contains("programs::leaves::"));
    assert_eq!(own.clone().count(), 4, "{info}");
    let untimed = own.filter(|line| line.contains("(untimed)"));
    assert_eq!(untimed.count(), 2, "{info}");
    let records = fdr("replay --records", &[&trace]);
    let leaves: Vec<&str> = records
        .lines()
        .filter(|line| line.contains("::leaf "))
        .collect();
    assert_eq!(leaves.len() as u64, 200 * FEW);
    for line in leaves {
        assert!(
            line.ends_with("programs::leaves::leaf delta=0 ticks untimed"),
            "{line}"
        );
    }
}

#[test]
fn conversions_keep_untimed_or_report_it() {
    let folder = Folder::new("untimed-convert");
    let trace = record(&folder, FEW, "");
    for (target, keeps) in [
        ("xray1", true),
        ("heph", true),
        ("et2", true),
        ("htdump", false),
        ("ctf", false),
    ] {
        let out = folder.join(target);
        let output = Command::new(tool())
            .args(["convert", "--to", target, "-o"])
            .args([&out, &trace])
            .output()
            .expect("the tool");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{messages}");
        let lost = messages.contains("2 functions that are untimed");
        assert_eq!(lost, !keeps, "{target}: {messages}");
        let rows = report(&out);
        let leaf = &rows["programs::leaves::leaf"];
        assert_eq!(
            (&leaf["calls"], &leaf["untimed"]),
            (&(100 * FEW).into(), &keeps.into())
        );
    }
}
