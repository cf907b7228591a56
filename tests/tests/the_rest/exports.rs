//! Exports of a real program's trace, read by the programs that they are made for: Go's pprof and `callgrind_annotate`
//! find the self times of the report. Must never read an export with our own code.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, fdr};
use serde_json::Value;

/// Calls and own ns by name.
type Sums = BTreeMap<String, (u64, u64)>;

/// A trace with short calls, untimed calls and three threads, and what the report says of it.
fn recorded(folder: &Folder) -> (PathBuf, Sums) {
    let arguments = "--documents 10 --passes 1 --threads 3";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let _ = Program::new(example("index_builder"), folder)
        .set("FDR=1 FDR_OUT=index.fdr FDR_BUFFER=256K FDR_KEEP=1s")
        .args(&arguments)
        .run()
        .ok();
    let trace = folder.join("index.fdr");
    let report = ["report", "--json", "--window"].map(OsStr::new);
    let report = fdr(&[&report[..], &[trace.as_os_str()]].concat());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let rows = report["functions"].as_array().expect("functions").iter();
    let row = |row: &Value| {
        // An untimed function has no time.
        let number = |field: &str| row[field].as_u64().unwrap_or_default();
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, (number("calls"), number("self_ns")))
    };
    let sums: Sums = rows.map(row).filter(|(_, (calls, _))| *calls > 0).collect();
    assert!(sums.len() > 3, "{sums:?}");
    (trace, sums)
}

fn exported(trace: &Path, name: &str, folder: &Folder) -> PathBuf {
    let path = folder.join(name);
    let (to, out) = (
        ["convert", "-q", "--to", name].map(OsStr::new),
        OsStr::new("-o"),
    );
    let rest = [out, path.as_os_str(), trace.as_os_str()];
    let _ = fdr(&[&to[..], &rest].concat());
    path
}

fn said(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn gos_pprof_finds_the_calls_and_the_self_times_of_the_report() {
    let Some(go) = fdr_tests::reader("go", "pprof reads an export (Debian package golang-go)")
    else {
        return;
    };
    let folder = Folder::new("exports-pprof");
    let (trace, wanted) = recorded(&folder);
    let profile = exported(&trace, "pprof", &folder);
    let top = |index: &str| -> BTreeMap<String, u64> {
        let all = ["-top", "-nodecount=1000000", "-nodefraction=0", "-unit=ns"];
        let text = said(
            Command::new(&go)
                .args(["tool", "pprof"])
                .args(all)
                .arg(format!("-sample_index={index}"))
                .arg(&profile)
                .env("HOME", folder.path()),
        );
        let rows = text
            .lines()
            .skip_while(|line| !line.contains("flat%"))
            .skip(1);
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let flat = words.next()?.trim_end_matches("ns").parse().ok()?;
            let name = words.skip(4).collect::<Vec<_>>().join(" ");
            Some((name, flat))
        };
        rows.filter_map(row).collect()
    };
    let (calls, times) = (top("calls"), top("time"));
    for (name, &(count, own)) in &wanted {
        assert_eq!(calls.get(name), Some(&count), "{name}: {calls:?}");
        // Each path is rounded to a whole nanosecond.
        let found = times.get(name).copied().unwrap_or_default();
        assert!(found.abs_diff(own) < 100, "{name}: {found} and not {own}");
    }
}

#[test]
fn callgrind_annotate_finds_the_self_times_of_the_report() {
    let check = "callgrind_annotate reads an export (Debian package valgrind)";
    let Some(tool) = fdr_tests::reader("callgrind_annotate", check) else {
        return;
    };
    let folder = Folder::new("exports-callgrind");
    let (trace, wanted) = recorded(&folder);
    let profile = exported(&trace, "callgrind", &folder);
    let output = Command::new(&tool)
        .args(["--threshold=100", "--auto=no"])
        .arg(&profile)
        .output();
    let output = output.expect("callgrind_annotate runs");
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let mut found = BTreeMap::new();
    for line in text.lines() {
        // 83,269,158 (54.32%)  examples/service.rs:service::spin
        let Some((number, rest)) = line.trim().split_once(" (") else {
            continue;
        };
        let Ok(number) = number.replace(',', "").parse::<u64>() else {
            continue;
        };
        if let Some((_, name)) = rest.split_once(".rs:") {
            found.insert(name.to_owned(), number);
        }
    }
    for (name, &(_, own)) in wanted.iter().filter(|(_, (_, own))| *own > 0) {
        assert_eq!(found.get(name), Some(&own), "{name}: {text}");
    }
}
