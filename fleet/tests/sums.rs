//! Ten traces of three programs on two hosts: the sums are those of `fdr report`, and a trace counts once.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{
    Folder, Process, export, file_of, files, fleet, fleet_ok, number, report, rows, texts, trace,
};

fn ten(folder: &Folder) -> Vec<(PathBuf, Process)> {
    let row = |nth: u64| {
        let program = ["api", "db", "worker"][nth as usize % 3];
        let host = ["alpha", "beta.example.org"][nth as usize % 2];
        let process = Process::new(program, host, 1000 * (nth + 1));
        let path = trace(
            folder,
            &format!("{nth}.fdr"),
            &process,
            77 + nth,
            1 + nth % 3,
            300 + 70 * nth,
        );
        (path, process)
    };
    (0..10).map(row).collect()
}

fn paths(traces: &[(PathBuf, Process)]) -> Vec<PathBuf> {
    traces.iter().map(|(path, _)| path.clone()).collect()
}

#[test]
fn sums_are_those_of_the_reports() {
    let folder = Folder::new();
    let traces = ten(&folder);
    assert_eq!(
        export(&folder, &paths(&traces)),
        "10 exported, 0 were there already, 0 failed\n"
    );
    let mut sums: BTreeMap<(String, String), [i64; 3]> = BTreeMap::new();
    for (path, process) in &traces {
        for (name, figures) in report(path) {
            let host = process.host.to_owned();
            let sum = sums.entry((host, name)).or_default();
            sum.iter_mut()
                .zip(figures)
                .for_each(|(sum, more)| *sum += more);
        }
    }
    let sql = "SELECT s.host, f.name, SUM(s.calls), SUM(s.total_ns), SUM(s.self_ns) FROM function_stats s \
               JOIN functions f ON s.function_key = f.function_key GROUP BY s.host, f.name ORDER BY 1, 2";
    let wanted: Vec<String> = sums
        .iter()
        .map(|((host, name), [calls, total, own])| format!("{host},{name},{calls},{total},{own}"))
        .collect();
    assert_eq!(rows(&folder, sql), wanted);
    // Of single calls, each length is rounded by itself.
    let sql = "SELECT f.name, COUNT(*), SUM(s.self_ns) FROM spans s JOIN functions f ON s.function_key = f.function_key \
               WHERE s.host = 'alpha' GROUP BY f.name ORDER BY f.name";
    let found = rows(&folder, sql);
    let wanted = sums.iter().filter(|((host, _), _)| host == "alpha");
    assert_eq!(found.len(), wanted.clone().count());
    for (row, ((_, name), [calls, _, own])) in found.iter().zip(wanted) {
        let parts: Vec<&str> = row.split(',').collect();
        assert_eq!((parts[0], parts[1].parse()), (name.as_str(), Ok(*calls)));
        let self_ns: i64 = parts[2].parse().unwrap();
        assert!(
            (self_ns - own).abs() <= *calls,
            "{name}: {self_ns} and {own}"
        );
    }
    // Every measured call is in a bucket.
    let measured = number(&folder, "SELECT SUM(calls) FROM function_lengths");
    assert_eq!(
        measured,
        number(
            &folder,
            "SELECT SUM(calls) - SUM(clipped) FROM function_stats"
        )
    );
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM processes"), 10);
    assert_eq!(
        rows(&folder, "SELECT host_name FROM hosts ORDER BY 1"),
        ["alpha", "beta.example.org"]
    );
}

#[test]
fn exported_twice_is_exported_once() {
    let folder = Folder::new();
    let traces = paths(&ten(&folder)[..4]);
    export(&folder, &traces);
    let before = files(&folder.path("store"));
    assert_eq!(
        export(&folder, &traces),
        "0 exported, 4 were there already, 0 failed\n"
    );
    assert_eq!(files(&folder.path("store")), before);
    // Under another name, and packed.
    let packed = folder.path("packed.fdr.zst");
    let tool = std::env::var_os("FDR_TOOL").map_or_else(
        || std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/debug/fdr"),
        PathBuf::from,
    );
    let done = Command::new(tool)
        .arg("pack")
        .arg(&traces[0])
        .arg("-o")
        .arg(&packed)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", texts(&done).1);
    assert_eq!(
        export(&folder, &[packed]),
        "0 exported, 1 were there already, 0 failed\n"
    );
    assert_eq!(files(&folder.path("store")), before);
    // Elsewhere, the rows are the same.
    let other = Folder::new();
    export(&other, &traces);
    for table in [
        "spans",
        "function_stats",
        "function_lengths",
        "functions",
        "threads",
        "processes",
        "losses",
    ] {
        let all = |folder: &Folder| {
            let mut rows = rows(folder, &format!("SELECT * FROM raw_{table}"));
            rows.sort_unstable();
            rows
        };
        assert_eq!(all(&folder), all(&other), "{table}");
    }
}

#[test]
fn statistics_come_first_and_spans_later() {
    let folder = Folder::new();
    let (path, _) = ten(&folder).remove(0);
    let place = folder.place();
    fleet_ok(&[
        "export",
        "--only-stats",
        path.to_str().unwrap(),
        "--to",
        &place,
    ]);
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM spans"), 0);
    let calls = number(&folder, "SELECT SUM(calls) FROM function_stats");
    assert_eq!(calls, 300);
    assert_eq!(
        export(&folder, &[path]),
        "1 exported, 0 were there already, 0 failed\n"
    );
    assert_eq!(number(&folder, "SELECT COUNT(*) FROM spans"), calls);
    assert_eq!(
        number(&folder, "SELECT SUM(calls) FROM function_stats"),
        calls
    );
}

#[test]
fn rows_of_spans_are_calls() {
    let folder = Folder::new();
    let (path, process) = ten(&folder).remove(4);
    export(&folder, &[path]);
    let wrong = "SELECT COUNT(*) FROM spans WHERE clipped OR synthetic OR dur_ns < self_ns OR dur_ns < 0 \
                 OR (depth = 0) <> (parent_seq IS NULL) OR parent_seq >= seq OR date <> '2026-03-01'";
    assert_eq!(number(&folder, wrong), 0);
    // The self time of a call and the times of its children add up to its time, except for rounding.
    let own = "SELECT COUNT(*) FROM (SELECT p.tid, p.seq, MAX(p.dur_ns - p.self_ns) AS inside, SUM(c.dur_ns) AS children, \
               COUNT(*) AS n FROM spans p JOIN spans c ON c.tid = p.tid AND c.parent_seq = p.seq GROUP BY p.tid, p.seq) t \
               WHERE ABS(inside - children) > n + 1";
    assert_eq!(number(&folder, own), 0);
    let start = number(&folder, "SELECT MIN(start_ns) FROM spans");
    assert!(start > process.start as i64 && start < process.start as i64 + 1_000_000_000);
    let keys = "SELECT COUNT(*) FROM (SELECT DISTINCT process_key, tid, seq FROM raw_spans) t";
    assert_eq!(
        number(&folder, keys),
        number(&folder, "SELECT COUNT(*) FROM raw_spans")
    );
}

#[test]
fn reports_and_formats() {
    let folder = Folder::new();
    let traces = ten(&folder);
    export(&folder, &paths(&traces));
    let place = folder.place();
    for name in ["top", "slow", "regressions", "hosts", "losses"] {
        let text = fleet_ok(&["query", &place, "--report", name, "--format", "csv"]);
        let rows = text.lines().count() - 1;
        assert!(name == "regressions" || rows > 0, "{name}: {text}");
    }
    let top = fleet_ok(&[
        "query",
        &place,
        "--report",
        "top",
        "--set",
        "limit=2",
        "--set",
        "program=db",
    ]);
    assert!(
        top.contains("db::function_") && !top.contains("api::"),
        "{top}"
    );
    assert_eq!(top.lines().count(), 6, "{top}");
    let slowest = fleet_ok(&[
        "query", &place, "--report", "slow", "--set", "limit=1", "--format", "json",
    ]);
    let slowest: serde_json::Value = serde_json::from_str(&slowest).unwrap();
    assert_eq!(
        slowest[0]["dur_ns"],
        number(&folder, "SELECT MAX(dur_ns) FROM spans")
    );
    let file = folder.path("answer.parquet");
    let sql = "SELECT name, calls FROM function_stats s JOIN functions f ON s.function_key = f.function_key";
    fleet_ok(&[
        "query",
        &place,
        sql,
        "--format",
        "parquet",
        "-o",
        file.to_str().unwrap(),
    ]);
    assert_eq!(&std::fs::read(&file).unwrap()[..4], b"PAR1");
    let list = fleet_ok(&["query", &place, "--report", "list"]);
    assert!(list.contains("--set limit = 30"), "{list}");
    for (words, what) in [
        (
            vec!["query", &place, "SELECT nothing FROM spans"],
            "nothing",
        ),
        (
            vec!["query", &place, "DROP TABLE spans"],
            "DDL not supported",
        ),
        (
            vec!["query", &place, "COPY spans TO 'x.csv'"],
            "DML not supported",
        ),
        (
            vec!["query", &place, "--report", "bottom"],
            "no such report",
        ),
        (
            vec!["query", &place, "--report", "top", "--set", "limit=many"],
            "not a number",
        ),
        (
            vec!["query", "/no/such/place", "SELECT 1"],
            "no such folder",
        ),
    ] {
        let done = fleet(&words);
        let (out, error) = texts(&done);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {out}{error}");
        assert!(error.contains(what), "{words:?}: {error}");
    }
}

#[test]
fn the_prompt_answers_until_its_input_ends() {
    use std::io::Write;
    let folder = Folder::new();
    let (path, _) = ten(&folder).remove(0);
    export(&folder, &[path]);
    let mut child = Command::new(crate::support::FLEET)
        .args(["query", &folder.place(), "--format", "csv"])
        .env("XDG_STATE_HOME", folder.path("state"))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let lines = b"SELECT SUM(calls) AS all_calls\nFROM function_stats;\nSELECT wrong;\n\\d\n\\r losses limit=1\n";
    child.stdin.take().unwrap().write_all(lines).unwrap();
    let done = child.wait_with_output().unwrap();
    let (out, error) = texts(&done);
    assert!(done.status.success(), "{out}{error}");
    assert!(
        out.contains("all_calls\n300\n") && out.contains("function_lengths\n"),
        "{out}"
    );
    assert!(out.contains("share_lost\n"), "{out}");
    assert!(error.contains("wrong"), "{error}");
    let history = std::fs::read_to_string(folder.path("state/fdr/fleet-history")).unwrap();
    assert!(history.contains("FROM function_stats;"), "{history}");
}

#[test]
fn a_host_folder_is_plain() {
    let folder = Folder::new();
    let process = Process::new("api", "a/b c", 5);
    let path = trace(&folder, "odd.fdr", &process, 3, 1, 10);
    export(&folder, &[path]);
    file_of(&folder, "spans", "host=a_b_c");
    assert_eq!(
        rows(&folder, "SELECT host, host_name FROM processes"),
        ["a_b_c,a/b c"]
    );
}
