//! `fdr report`, `info`, `records`: what people and scripts get to see.

use crate::common::{
    self, Folder, answer, assert_contains, assert_refused, fdr, golden, in_folder, json, small,
    small_named, stderr, stdout,
};
use serde_json::json;

#[test]
fn a_table_has_units_and_names() {
    let (_folder, trace) = in_folder("table", "t.fdr", small);
    let table = answer(&["report", "--files", &trace]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(
        lines[0],
        "small (process 7) · XRay FDR, version 3, little-endian · 1.000 µs · 2 threads · 8 records"
    );
    assert_eq!(lines[1..3], ["figures of the records", ""]);
    let cells = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        cells(lines[3]),
        "calls total self self % min mean p50 p90 p99 max function source"
    );
    // f2: 200, 300 and 100 ns; no cell of the histogram moves them.
    assert_eq!(
        cells(lines[4]),
        "3 600 ns 600 ns 54.5 % 100 ns 200 ns 200 ns 300 ns 300 ns 300 ns app::step src/2.rs:20"
    );
    assert_eq!(
        cells(lines[5]),
        "1 1.000 µs 500 ns 45.5 % 1.000 µs 1.000 µs 1.000 µs 1.000 µs 1.000 µs 1.000 µs app::run \
         src/1.rs:10"
    );
}

#[test]
fn json_has_the_documented_shape() {
    let (_folder, trace) = in_folder("json", "t.fdr", small);
    let report = json(&["report", "--json", "--sort", "total", &trace]);
    assert_eq!(
        report["functions"][0],
        json!({
            "name": "app::run", "file": "src/1.rs", "line": 10, "id": 1, "calls": 1, "clipped": 0,
            "untimed": false, "counted": 0, "level": "timed", "calls_error": null, "error_ns": null, "nests": false, "of_records": false,
            "total_ns": 1000, "self_ns": 500, "min_ns": 1000, "mean_ns": 1000, "p50_ns": 1000,
            "p90_ns": 1000, "p99_ns": 1000, "max_ns": 1000, "states": null,
        })
    );
    assert_eq!(report["functions"].as_array().unwrap().len(), 2);
    assert_eq!(report["file"], trace.as_str());
    assert_eq!(report["format"], "XRay FDR, version 3, little-endian");
    assert_eq!(report["clock"]["frequency_hz"], 1_000_000_000);
    assert_eq!(report["threads"][1]["name"], "worker");
    assert_eq!(report["threads"][1]["records"], 2);
    assert_eq!(report["records"], 8);
    assert_eq!(report["duration_ns"], 1000);
    assert_eq!(report["diagnostics"], json!([]));
    assert!(report["threads"][0].get("functions").is_none());

    let report = json(&["report", "--json", "--per-thread", &trace]);
    let of_worker = &report["threads"][1]["functions"];
    assert_eq!(
        (of_worker[0]["name"].as_str(), &of_worker[0]["calls"]),
        (Some("app::step"), &json!(1))
    );
}

#[test]
fn shares_are_of_all_functions_whichever_are_shown() {
    let (_folder, trace) = in_folder("shares", "t.fdr", small);
    // `main` was in both functions for 500 ns, `worker` in one for 100 ns.
    let shares = |arguments: &[&str]| -> Vec<String> {
        let table = answer(&[&["report", "--per-thread", &*trace], arguments].concat());
        let rows = table.lines().filter(|line| line.contains("app::"));
        let share = |row: &str| row.split_once(" %").map(|(row, _)| row.to_owned());
        let last = |row: String| row.split_whitespace().last().map(str::to_owned);
        rows.filter_map(share).filter_map(last).collect()
    };
    assert_eq!(shares(&[]), ["50.0", "50.0", "100.0", "54.5", "45.5"]);
    assert_eq!(shares(&["--limit", "1"]), ["50.0", "100.0", "54.5"]);
    assert_eq!(shares(&["--filter", "app::run"]), ["50.0", "45.5"]);
    let report = json(&["report", "--json", "--per-thread", "--limit", "1", &trace]);
    assert_eq!(report["threads"][0]["self_ns"], 1000);
}

#[test]
fn a_call_that_never_ended_is_clipped() {
    let report = json(&["report", "--json", &golden("v1-open.fdr")]);
    for function in report["functions"].as_array().unwrap() {
        assert_eq!(function["calls"], 1);
        assert_eq!(function["clipped"], 1);
        assert_eq!(
            (&function["min_ns"], &function["p99_ns"]),
            (&json!(null), &json!(null))
        );
    }
    assert_eq!(report["balance"]["entries_without_exit"], 2);
    assert_contains(
        answer(&["report", &golden("v1-open.fdr")]),
        "2 × entry without an exit",
    );
}

#[test]
fn csv_is_quoted_and_holds_no_formula() {
    let folder = Folder::new("csv");
    let trace = folder.file("t.fdr");
    small_named(&trace, &["=cmd|' /C calc'!A0", "a,\"b\"\nc"]);
    let text = answer(&["report", "--csv", "--sort", "total", &trace]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            "name,file,line,calls,clipped,total_ns,self_ns,min_ns,mean_ns,p50_ns,p90_ns,p99_ns,max_ns,counted,calls_error,error_ns,\
             running_ns,preempted_ns,waiting_ns,unknown_ns,self_running_ns,self_preempted_ns,self_waiting_ns,self_unknown_ns,nests,of_records",
            "'=cmd|' /C calc'!A0,src/1.rs,10,1,0,1000,500,1000,1000,1000,1000,1000,1000,0,,,,,,,,,,,false,false",
            "\"a,\"\"b\"\"\\nc\",src/2.rs,20,3,0,600,600,100,200,200,300,300,300,0,,,,,,,,,,,false,false",
        ]
    );
    assert_eq!(stderr(&fdr(&["report", "--csv", &trace])), "");
    let cut = fdr(&["report", "--csv", &golden("v3-trunc.fdr")]);
    assert_contains(stderr(&cut), "fdr: damaged: at byte 2");
    let threads = answer(&["report", "--csv", "--per-thread", &trace]);
    assert_eq!(threads.lines().count(), 4);
    assert!(threads.starts_with("thread,thread_name,name,file,line,"));
    assert_contains(
        &threads,
        "\n8,worker,\"a,\"\"b\"\"\\nc\",src/2.rs,20,1,0,100,",
    );
}

#[test]
fn rows_can_be_chosen() {
    let folder = Folder::new("rows");
    let trace = folder.file("t.fdr");
    small_named(&trace, &["app::run", "lib::step"]);
    let filtered = json(&["report", "--json", "--filter", "-lib::*", &trace]);
    assert_eq!(filtered["functions"].as_array().unwrap().len(), 1);
    assert_eq!(filtered["functions"][0]["name"], "app::run");
    let first = json(&["report", "--json", "--limit", "1", "--sort", "name", &trace]);
    assert_eq!(first["functions"][0]["name"], "app::run");
    assert_eq!(first["functions_not_shown"], 1);
}

#[test]
fn info_tells_threads_and_clock() {
    let (_folder, trace) = in_folder("info", "t.fdr", small);
    let info = answer(&["info", "--functions", &trace]);
    for part in [
        "format     XRay FDR, version 3, little-endian\n",
        "1000.000000 MHz",
        "program    small\n",
        "process    7\n",
        "duration   1.000 µs\n",
        "records    8 of functions, 0 synthetic",
        "functions  2 with a name\n",
        "threads    2\n",
        "app::step  src/2.rs:20\n",
    ] {
        assert!(info.contains(part), "{part:?} is not in {info}");
    }
    let worker = info
        .lines()
        .find(|line| line.ends_with("worker"))
        .expect("a line");
    assert_eq!(
        worker.split_whitespace().collect::<Vec<_>>(),
        [
            "8", "-", "2", "-", "-", "0", "+500", "ns", "+600", "ns", "worker"
        ]
    );
}

#[test]
fn gaps_are_shown() {
    let (_folder, trace) = in_folder("gaps", "t.fdr", common::rich);
    let table = answer(&["report", &trace]);
    let note = "120 records lost in the middle: calls that were open there are clipped\n";
    assert_contains(&table, note);
    let report = json(&["report", "--json", &trace]);
    assert_eq!(report["lost_records"], 120);
    assert_eq!(report["threads"][1]["lost_records"], 40);
    let info = answer(&["info", &trace]);
    assert_contains(&info, "3 gaps (120 records lost there)\n");
    assert_contains(&info, "150 arguments, 3 custom events");
}

#[test]
fn timeless_traces_have_timeless_reports() {
    let timeless =
        |trace: &(&str, String)| json(&["report", "--json", &trace.1])["has_times"] == json!(false);
    let traces: Vec<_> = common::goldens().into_iter().filter(timeless).collect();
    assert!(!traces.is_empty(), "an ENTRACE file of another program");
    for (_, trace) in traces {
        let table = answer(&["report", "--per-thread", &trace]);
        let note = "the trace has the order of its calls, and no times\n";
        assert!(table.ends_with(note), "{table}");
        for unit in [" ns ", " µs ", " ms ", " % "] {
            // The head names the share's unit.
            let lines = table.lines().filter(|line| !line.contains("self %"));
            assert!(lines.clone().all(|line| !line.contains(unit)), "{table}");
        }
        assert_contains(answer(&["info", &trace]), "duration   unknown: ");
        let folder = Folder::new("timeless");
        let there = folder.file("x");
        let output = fdr(&["convert", &trace, "--to", "xray", "-o", &there]);
        assert_contains(stderr(&output), "1 ns for each step");
    }
}

#[test]
fn records_are_one_line_each() {
    let trace = golden("v3-std.fdr");
    let all = answer(&["replay", "--records", &trace]);
    assert_eq!(all.lines().count(), 23);
    let entry = all
        .lines()
        .find(|line| line.starts_with("0x00000078"))
        .expect("a record");
    assert_contains(entry, " 8 B ");
    assert_contains(entry, " 101 ");
    assert_contains(entry, "+100 ns");
    assert_contains(entry, "Entry");
    assert_contains(entry, "#2");
    let some = answer(&[
        "replay",
        "--records",
        "--from",
        "0x78",
        "--limit",
        "2",
        &trace,
    ]);
    assert_eq!(some.lines().next(), Some(entry));
    assert_eq!(some.lines().count(), 2);

    let threads = golden("v3-mt.fdr");
    let rows_of = |thread: &str| {
        answer(&["replay", "--records", "--thread", thread, &threads])
            .lines()
            .count()
    };
    assert!(rows_of("101") > 12 && rows_of("101") == rows_of("102"));
    assert_refused(
        &["replay", "--records", "--thread", "nobody", &threads],
        "nobody",
    );
}

#[test]
fn several_traces_are_reported_one_after_the_other() {
    let folder = Folder::new("several");
    let (first, second) = (folder.file("a.fdr"), folder.file("b.fdr"));
    small(&first);
    small_named(&second, &["app::go", "app::step"]);
    let both = answer(&["report", &first, &second]);
    let alone = |trace: &str| format!("{trace}\n{}", answer(&["report", trace]));
    assert_eq!(both, format!("{}\n{}", alone(&first), alone(&second)));
    let infos = answer(&["info", &first, &second]);
    let info = |trace: &str| answer(&["info", trace]);
    assert_eq!(infos, format!("{}\n{}", info(&first), info(&second)));
    let report = |words: &[&str]| answer(&[&["report"], words].concat());
    let documents = report(&["--json", &first, &second]);
    let each = [report(&["--json", &first]), report(&["--json", &second])];
    assert_eq!(documents, each.concat());
    let csv = report(&["--csv", &first, &second]);
    let traces: Vec<&str> = csv
        .lines()
        .filter_map(|line| line.split(',').next())
        .collect();
    assert_eq!(traces, ["trace", &first, &first, &second, &second]);
    let unread = fdr(&["report", "/no/such/file", &second]);
    assert_eq!(unread.status.code(), Some(2));
    assert_contains(stdout(&unread), "app::go");
}

#[test]
fn a_filter_that_matches_nothing_names_the_nearest() {
    let (_folder, trace) = in_folder("nearest", "t.fdr", small);
    let output = fdr(&["report", "--filter", "app::stpe", &trace]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        stderr(&output),
        "fdr: --filter matches none of 2 called functions; the nearest: app::step, app::run\n"
    );
    let none = fdr(&["report", "--filter", "-*", &trace]);
    assert_contains(stderr(&none), "it excludes all");
}

/// The tool takes what the recorder takes as `FDR`, in the same words.
#[test]
fn a_filter_has_the_recorders_words() {
    let (_folder, trace) = in_folder("words", "t.fdr", small);
    let rows = |filter| {
        let report = json(&["report", "--json", "--filter", filter, &trace]);
        report["functions"].as_array().expect("rows").len()
    };
    assert_eq!([rows("on"), rows("1"), rows("on,-*::step")], [2, 2, 1]);
    for (filter, why) in [
        ("off", "names no function"),
        ("off,app::*", "can't be combined"),
    ] {
        assert_refused(&["report", "--filter", filter, &trace], why);
    }
}

#[test]
fn limits_of_nothing_are_refused_in_words() {
    let trace = golden("v3-std.fdr");
    for subcommand in ["report", "replay --records", "verify"] {
        for (limit, message) in [("0", "1 or more"), ("x", "whole number")] {
            let words = subcommand.split(' ').chain(["--limit", limit, &trace]);
            assert_refused(&words.collect::<Vec<_>>(), message);
        }
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let commands = [
        "record", "info", "report", "replay", "verify", "dump", "convert", "listen",
    ];
    for subcommand in commands {
        let help = answer(&[subcommand, "--help"]);
        assert!(help.contains("Examples:\n  "), "{subcommand}");
        assert!(
            help.lines().all(|line| line.chars().count() <= 100),
            "{subcommand}"
        );
    }
    let help = answer(&["--help"]);
    assert_contains(&help, "Exit codes:");
    for subcommand in commands {
        assert_contains(&help, &format!("\n  {subcommand} "));
    }
    // Formats that help speaks of are there.
    let convert = answer(&["convert", "--help"]);
    let (list, _) = convert.split_once("Examples:").unwrap();
    let list = list.to_owned();
    let both = [help, convert];
    let examples = both.map(|help| help.split_once("Examples:").unwrap().1.to_owned());
    for rest in examples.concat().split("--to ").skip(1) {
        let name = rest.split_whitespace().next().unwrap();
        assert_contains(&list, &format!("\n  {name} "));
    }
}
