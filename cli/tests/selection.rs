//! `--thread`, `--function`, `--since`, `--until`, `--last` and `--filter`: the same part of a trace in every
//! command that reads one, and in every format.

use crate::common::{
    answer, assert_contains, assert_lacks, assert_refused, fdr, in_folder, json, lossy, small,
    stderr, stdout,
};
use fdr_formats::registry::targets;
use serde_json::{Value, json};

/// Name, calls, clipped ones, total and self time of each function.
fn figures(report: &Value) -> Value {
    let functions = report["functions"].as_array().expect("functions");
    let row = |function: &Value| {
        let field = |name: &str| function[name].clone();
        json!([
            field("name"),
            field("calls"),
            field("clipped"),
            field("total_ns"),
            field("self_ns")
        ])
    };
    functions.iter().map(row).collect()
}

fn report(words: &[&str], trace: &str) -> Value {
    let all = ["report", "--json", "--sort", "name"];
    figures(&json(&[&all, words, &[trace]].concat()))
}

/// What follows the last `;` and its time, of all lines, added up by name.
fn flame(words: &[&str], trace: &str) -> Vec<(String, u64)> {
    let mut sums: Vec<(String, u64)> = Vec::new();
    for line in answer(&[&["flame"], words, &[trace]].concat()).lines() {
        let (path, value) = line.rsplit_once(' ').expect("a value");
        let name = path.rsplit(';').next().unwrap_or_default().to_owned();
        let value: u64 = value.parse().expect("a number");
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value,
            None => sums.push((name, value)),
        }
    }
    sums.sort();
    sums
}

/// f1 runs from 0 to 1000 ns on `main`, f2 in it from 100 to 300 and 400 to 700; on `worker` from 500 to 600.
const WINDOW: &[&str] = &["--since", "150ns", "--until", "-450ns"];

#[test]
fn windows_clip_calls_in_every_command() {
    let (folder, trace) = in_folder("window", "t.fdr", small);
    let wanted = json!([["app::run", 1, 1, 400, 100], ["app::step", 3, 3, 350, 350]]);
    assert_eq!(report(WINDOW, &trace), wanted);
    let sums = [("app::run".to_owned(), 100), ("app::step".to_owned(), 350)];
    assert_eq!(flame(WINDOW, &trace), sums);
    for target in targets() {
        let out = folder.file(&format!("window.{}", target.name));
        answer(
            &[
                &["convert", &trace, "--to", target.name, "-o", &out],
                WINDOW,
            ]
            .concat(),
        );
        let own = json(&["report", "--json", "--sort", "name", &out]);
        let times = |figures: &Value| {
            let rows = figures.as_array().expect("rows").iter();
            let rows = rows.map(|row| json!([row[0], row[1], row[3], row[4]]));
            rows.collect::<Vec<_>>()
        };
        assert_eq!(times(&figures(&own)), times(&wanted), "{}", target.name);
        let verdict = fdr(&["verify", "--allow-open", &out]);
        assert!(verdict.status.success(), "{}: {verdict:?}", target.name);
    }
    let verdict = answer(&[&["verify", &trace], WINDOW].concat());
    assert_contains(&verdict, "OK: 3 records in 2 threads, 5 synthetic");
    let info = answer(&[&["info", &trace], WINDOW].concat());
    assert_contains(&info, "duration   400 ns");
    let records = answer(&[&["replay", "--records", &trace], WINDOW].concat());
    let calls = records.lines().filter(|line| line.contains("function="));
    assert_eq!(calls.count(), 3, "{records}");
    let state = answer(&[&["state", &trace], WINDOW].concat());
    let open: Vec<&str> = state
        .lines()
        .filter(|line| line.contains("app::"))
        .collect();
    let names = [
        "  1  app::run  for ",
        "  2  app::step  for 150 ns",
        "  1  app::step  for 50 ns",
    ];
    assert!(
        open.len() == 3 && (0..3).all(|at| open[at].starts_with(names[at])),
        "{open:?}"
    );
}

#[test]
fn moments_count_from_both_ends_or_by_day() {
    let (folder, trace) = in_folder("moments", "t.fdr", small);
    let step = |words: &[&str]| report(words, &trace)[1][3].clone();
    assert_eq!(step(&["--last", "450ns"]), json!(200));
    assert_eq!(step(&["--since", "-450ns"]), json!(200));
    assert_eq!(step(&["--since", "1550"]), json!(200));
    assert_eq!(step(&["--last", "450ns", "--until", "-300ns"]), json!(450));
    assert_eq!(step(&["--last", "7h"]), json!(600), "all there is");
    assert_eq!(step(&["--since", "start", "--until", "end"]), json!(600));
    let dated = folder.file("dated.fdr");
    lossy(&dated);
    let until = ["--until", "2023-11-14T22:13:20.0000055Z"];
    let times = report(&until, &dated);
    assert_eq!(times[0][3], json!(500), "{times}");
    for (words, wanted) in [
        (
            ["--since", "2us"],
            "--since 2us is not in the trace, which is of 1.000 µs: from 1000 to 2000 ns",
        ),
        (
            ["--until", "999"],
            "--until 999 is not in the trace, which is of 1.000 µs",
        ),
        (
            ["--since", "12:30"],
            "the trace does not know the time of day: use +1.5ms or -2s",
        ),
        (
            ["--last", "5"],
            "a length of time is 2s, 1.5ms, 300us or 10min",
        ),
    ] {
        assert_refused(&["report", words[0], words[1], &trace], wanted);
    }
    let output = fdr(&["report", "--since", "500ns", "--until", "400ns", &trace]);
    assert_contains(stderr(&output), "--since is after --until");
}

#[test]
fn threads_are_numbers_or_globs_in_every_command() {
    let (folder, trace) = in_folder("threads", "t.fdr", small);
    let of_worker = json!([["app::step", 1, 0, 100, 100]]);
    for glob in ["8", "worker", "w*", "?orker"] {
        assert_eq!(report(&["--thread", glob], &trace), of_worker, "{glob}");
        assert_eq!(
            flame(&["-t", glob], &trace),
            [("app::step".to_owned(), 100)]
        );
    }
    let both = report(&["-t", "7", "-t", "worker"], &trace);
    assert_eq!(both, report(&[], &trace));
    let out = folder.file("worker.fdr");
    answer(&[
        "convert", &trace, "--to", "xray1", "-o", &out, "-t", "worker",
    ]);
    assert_eq!(report(&[], &out), of_worker);
    assert_contains(
        answer(&["verify", "-t", "8", &trace]),
        "OK: 2 records in 1 thread,",
    );
    // The folder's name may be anything.
    let is_of_main = |line: &str| line.ends_with("main");
    let info = answer(&["info", "-t", "8", &trace]);
    assert!(!info.lines().any(is_of_main), "{info}");
    assert_lacks(
        answer(&["replay", "--records", "-t", "8", &trace]),
        "app::run",
    );
    let state = answer(&["state", "-t", "8", &trace]);
    assert!(!state.lines().any(is_of_main), "{state}");
    for command in [
        "report",
        "report --hist *",
        "slow",
        "flame",
        "verify",
        "info",
        "state",
        "replay",
        "replay --records",
        "graph",
    ] {
        let words = command.split(' ').chain(["-t", "worke", &trace]);
        let words: Vec<&str> = words.collect();
        let output = fdr(&words);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let wanted =
            "no thread \"worke\" in the trace; the nearest: worker, main (fdr info lists them)";
        assert_contains(stderr(&output), wanted);
    }
}

#[test]
fn functions_are_chosen_with_or_without_callees() {
    let (folder, trace) = in_folder("functions", "t.fdr", small);
    let step = json!([["app::step", 3, 0, 600, 600]]);
    assert_eq!(report(&["--function", "app::step"], &trace), step);
    let inside = json!([["app::run", 1, 0, 1000, 500], ["app::step", 2, 0, 500, 500]]);
    assert_eq!(report(&["-F", "app::r*"], &trace), inside);
    // Figures of the functions that are shown are those of the whole trace.
    let run = json!([["app::run", 1, 0, 1000, 500]]);
    assert_eq!(report(&["--filter", "app::r*"], &trace), run);
    assert_eq!(
        flame(&["-f", "app::r*"], &trace),
        [("app::run".to_owned(), 500)]
    );
    // A trace that has these calls alone has the time of the others in them.
    let out = folder.file("run.fdr");
    answer(&[
        "convert",
        &trace,
        "--to",
        "xray",
        "-o",
        &out,
        "-f",
        "-app::step",
    ]);
    assert_eq!(report(&[], &out), json!([["app::run", 1, 0, 1000, 1000]]));
    assert_lacks(answer(&["info", "--functions", &out]), "app::step");
    let records = answer(&["replay", "--records", "-f", "*::run", &trace]);
    assert_eq!(records.lines().count(), 2, "{records}");
    let output = fdr(&["verify", "-f", "app::rum", &trace]);
    let wanted = "fdr: --filter matches none of 2 functions; the nearest: app::run, app::step\n";
    assert_eq!(stderr(&output), wanted);
    assert_contains(stdout(&output), "OK: 0 records");
}
