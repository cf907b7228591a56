//! A real program's trace, read by every installed version of `llvm-xray`, without `-k`. It counts the calls that our
//! tool counts, and that the program counted.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, fdr, verify};
use serde_json::Value;

type Calls = BTreeMap<String, u64>;

fn tools() -> Vec<PathBuf> {
    let tool = |version| {
        let check = format!(
            "llvm-xray {version} reads the real example's trace (Debian package llvm-{version})"
        );
        fdr_tests::reader(&format!("llvm-xray-{version}"), &check)
    };
    [14, 19].into_iter().filter_map(tool).collect()
}

/// Runs a tool, which must succeed without a word of complaint.
fn ask(tool: &Path, arguments: &[&str], trace: &Path) -> String {
    let output = Command::new(tool).args(arguments).arg(trace).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", tool.display()));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && errors.is_empty(),
        "{} {arguments:?}: {}\n{errors}",
        tool.display(),
        output.status
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Records the index builder with `documents` documents. Returns its trace, and its own counts.
fn record(folder: &Folder, documents: u32, variables: &str) -> (PathBuf, Calls) {
    let arguments = format!("--documents {documents} --passes 1 --threads 3 --counts counts.json");
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let program = example("index_builder");
    let plain = Program::new(&program, folder).args(&arguments).run().ok();
    let outcome = Program::new(&program, folder)
        .set("FDR=1 FDR_BUFFER=32M FDR_OUT=index.fdr")
        .set(variables)
        .args(&arguments)
        .run()
        .ok();
    assert_eq!(outcome.stdout, plain.stdout);
    let counts = fs::read(folder.join("counts.json")).expect("the counts");
    let counts: Value = serde_json::from_slice(&counts).expect("JSON");
    (folder.join("index.fdr"), calls(&counts["functions"]))
}

/// `[{"name", "calls"}, …]`.
fn calls(rows: &Value) -> Calls {
    let rows = rows.as_array().expect("a list");
    let call = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, row["calls"].as_u64().expect("a number"))
    };
    rows.iter().map(call).collect()
}

/// Calls per function in `account -f csv`: by name where a map is given, otherwise by id.
fn account(csv: &str, key: usize) -> Calls {
    let row = |row: &str| {
        // Our names hold commas and quotation marks; the columns before the last two do not.
        let columns: Vec<&str> = row.splitn(11, ',').collect();
        let (key, calls) = (columns[key], columns[1].parse());
        (key.trim_matches('"').to_owned(), calls.expect("a number"))
    };
    csv.lines().skip(1).map(row).collect()
}

fn reported(trace: &Path) -> Calls {
    let arguments = [
        OsStr::new("report"),
        OsStr::new("--json"),
        OsStr::new("--window"),
        trace.as_os_str(),
    ];
    let report: Value = serde_json::from_str(&fdr(&arguments)).expect("JSON");
    calls(&report["functions"])
}

/// Ids of a trace's functions.
fn ids(trace: &Path) -> BTreeMap<String, String> {
    let source = fdr_formats::registry::open_path(trace).expect("a trace");
    let id = |function: &fdr_formats::Function| (function.id.0.to_string(), function.name.clone());
    source.info().functions.iter().map(id).collect()
}

fn check(variables: &str) {
    let folder = Folder::new("llvm");
    let (trace, counts) = record(&folder, 30, variables);
    // Several chunks of each thread.
    assert!(
        counts.values().sum::<u64>() > 15_000,
        "a program that does something: {counts:?}"
    );
    verify(&trace);
    assert_eq!(reported(&trace), counts, "fdr report and the program");
    let map = folder.join("map.elf");
    let _ = fdr(&["convert", "--to", "map", "-o"]
        .map(OsStr::new)
        .into_iter()
        .chain([map.as_os_str(), trace.as_os_str()])
        .collect::<Vec<_>>());
    let (ids, map) = (ids(&trace), map.to_str().expect("UTF-8"));
    for tool in tools() {
        let _ = ask(&tool, &["fdr-dump", "--verify"], &trace);
        let records = 2 * counts.values().sum::<u64>();

        let yaml = ask(&tool, &["convert", "-f", "yaml"], &trace);
        let edges = yaml
            .lines()
            .filter(|line| line.contains("kind: function-"))
            .count();
        assert_eq!(edges as u64, records, "{} convert -f yaml", tool.display());

        let json = ask(&tool, &["convert", "-f", "trace_event"], &trace);
        let json: Value = serde_json::from_str(&json).expect("valid JSON");
        assert_eq!(
            json["traceEvents"].as_array().map(Vec::len),
            Some(records as usize)
        );

        let by_id = account(&ask(&tool, &["account", "-f", "csv"], &trace), 0);
        let by_id: Calls = by_id
            .into_iter()
            .map(|(id, calls)| (ids[&id].clone(), calls))
            .collect();
        assert_eq!(by_id, counts, "{} account", tool.display());

        let named = ask(&tool, &["account", "-f", "csv", "-m", map], &trace);
        for name in counts.keys() {
            assert!(named.contains(name), "{name} in {named}");
        }

        // Not --aggregate-threads: with it, llvm-xray crashes on many files, LLVM's own too.
        let stacks = ["stack", "--all-stacks", "--stack-format=flame"];
        let more = ["--aggregation-type=time", "--per-thread-stacks", "-m", map];
        let stacks = ask(&tool, &[&stacks[..], &more].concat(), &trace);
        assert!(stacks.contains("index_builder::build"), "{stacks:.500}");
        let graph = ask(&tool, &["graph", "-e", "sum", "-m", map], &trace);
        assert!(graph.contains("index_builder::tokens::stem"), "{graph}");
    }
}

#[test]
fn version_3() {
    check("FDR_FORMAT=xray");
}

#[test]
fn version_1() {
    check("FDR_FORMAT=xray1");
}

#[test]
fn a_snapshot_of_full_rings() {
    // Rings that were overwritten many times: calls are open at both ends of what is left.
    let folder = Folder::new("llvm-snapshot");
    let (trace, counts) = record(&folder, 100, "FDR_BUFFER=128K");
    verify(&trace);
    let ours = reported(&trace);
    assert!(
        ours.values().sum::<u64>() < counts.values().sum(),
        "something was overwritten"
    );
    let ids = ids(&trace);
    for tool in tools() {
        let _ = ask(&tool, &["fdr-dump", "--verify"], &trace);
        let theirs = account(&ask(&tool, &["account", "-f", "csv"], &trace), 0);
        for (id, calls) in theirs {
            let name = &ids[&id];
            // Ours tells calls that were cut apart from whole ones; theirs counts both.
            assert!(
                ours.get(name).is_some_and(|ours| *ours <= calls),
                "{name}: {calls}, {ours:?}"
            );
        }
    }
}
