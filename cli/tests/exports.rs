//! `fdr convert --to` with formats that are only written: paths of outputs, selections, failures, and the error for a
//! command that tries to read such a file. Sums, names and losses are tested beside the writers.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use crate::common::{
    answer, assert_contains, assert_full_disk_is_an_error, assert_gone_reader_is_no_error,
    assert_refused, contents, fdr, in_folder, json, rich, stderr, stdout,
};

/// Names and extensions.
const EXPORTS: [(&str, &str); 8] = [
    ("perfetto", "perfetto-trace"),
    ("chrome", "chrome.json"),
    ("firefox", "firefox.json"),
    ("folded", "folded"),
    ("pprof", "pb.gz"),
    ("otlp", "otlp.pb"),
    ("otlp-json", "otlp.jsonl"),
    ("csv", "csv"),
];

/// Calls and self time by name, of calls in CSV.
fn sums(text: &str) -> BTreeMap<String, [u64; 2]> {
    let mut sums = BTreeMap::<String, [u64; 2]>::new();
    for row in csv::Reader::from_reader(text.as_bytes()).deserialize() {
        let row: HashMap<String, String> = row.expect("a row");
        if row["type"] == "call" {
            let [calls, own] = sums.entry(row["name"].clone()).or_default();
            *calls += 1;
            *own += row["self_ns"].parse::<u64>().expect("ns");
        }
    }
    sums
}

#[test]
fn exports_go_beside_the_trace_or_elsewhere() {
    let (folder, trace) = in_folder("exports", "app.7.1.fdr", rich);
    for (name, extension) in EXPORTS {
        let there = folder.file(&format!("app.7.1.{extension}"));
        let output = fdr(&["convert", &trace, "--to", name]);
        assert!(output.status.success(), "{output:?}");
        assert!(
            stderr(&output).starts_with(&format!("fdr: {there}: ")),
            "{output:?}"
        );
        let bytes = fs::read(&there).expect("the export");
        assert_refused(
            &["convert", &trace, "--to", name],
            "exists; --force replaces it",
        );
        let output = fdr(&["convert", &trace, "--to", name, "-o", "-"]);
        assert!(output.stdout == bytes, "{name}");
        let read = fdr(&["report", &there]);
        assert_eq!(read.status.code(), Some(2), "{read:?}");
        let text = stderr(&read);
        let says = text.contains("is an export (") && text.contains("which fdr does not read");
        assert!(says, "{text}");
        fs::remove_file(&there).unwrap();
    }
    assert_eq!(contents(folder.path()), ["app.7.1.fdr"]);
    let output = fdr(&["convert", &trace, "--to", "chrome", "-q", "-o", "-"]);
    assert_eq!(stderr(&output), "");
    assert_refused(
        &["dump", "1", "--to", "chrome"],
        "only `fdr convert` writes this",
    );
}

#[test]
fn exported_selections_equal_the_report() {
    let (_folder, trace) = in_folder("exports-selection", "a.fdr", rich);
    let report = json(&["report", "--json", &trace]);
    let thread = report["threads"][0]["id"].as_u64().unwrap().to_string();
    let name = report["functions"][0]["name"].as_str().unwrap().to_owned();
    let half = format!("{}ns", report["duration_ns"].as_u64().unwrap() / 2);
    let all: [&[&str]; 6] = [
        &[],
        &["--thread", &thread],
        &["--function", &name],
        &["--since", &half],
        &["--until", &half],
        &["--last", &half],
    ];
    let mut different = Vec::new();
    for selection in all {
        let report = json(&[&["report", "--json", &trace], selection].concat());
        let rows = report["functions"].as_array().unwrap().iter();
        let rows = rows.filter(|row| row["calls"] != 0).map(|row| {
            let number = |field: &str| row[field].as_u64().unwrap();
            let name = row["name"].as_str().unwrap().to_owned();
            (name, [number("calls"), number("self_ns")])
        });
        let wanted: BTreeMap<String, [u64; 2]> = rows.collect();
        let to = ["convert", &trace, "--to", "csv", "-o", "-"];
        let found = sums(&answer(&[&to, selection].concat()));
        assert_eq!(found, wanted, "{selection:?}");
        different.push(found);
    }
    different.dedup();
    assert_eq!(
        different.len(),
        all.len(),
        "each selection leaves something else"
    );
    let output = fdr(&[
        "convert", &trace, "--to", "csv", "-o", "-", "--filter", &name,
    ]);
    let found = sums(stdout(&output));
    assert_eq!(found.keys().collect::<Vec<_>>(), [&name]);
}

#[test]
fn failed_exports_leave_no_file() {
    let (folder, trace) = in_folder("exports-failure", "a.fdr", rich);
    for (name, _) in EXPORTS {
        let script = "ulimit -f 0; exec \"$0\" convert \"$1\" --to \"$2\" -o \"$3\"";
        let output = std::process::Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_fdr"), &trace, name])
            .arg(folder.file("out"))
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}: {output:?}");
        let text = stderr(&output);
        assert_contains(text, "/out: ");
        assert_contains(text, "File too large");
        assert_eq!(contents(folder.path()), ["a.fdr"], "{name}");
        let to_stdout = ["convert", &trace, "--to", name, "-q", "-o", "-"];
        assert_full_disk_is_an_error(&to_stdout);
        let messages = assert_gone_reader_is_no_error(&to_stdout);
        assert_eq!(messages, "", "{name}");
    }
}
