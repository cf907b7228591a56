//! `fdr state`: what was running at a moment, of every kind of trace.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{
    Folder, answer, assert_contains, assert_lacks, assert_refused, calls, convert, fdr, golden,
    in_folder, info, json, rich, rich_at, small, small_named, stderr, stdout, write,
};
use fdr_formats::model::Counts;
use fdr_formats::writer::Output;
use fdr_formats::{
    Call, CpuId, Edge, Function, FunctionId, Mark, Thread, ThreadId, Ticks, TraceInfo, registry,
};
use serde_json::Value;

fn tcstate(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/golden/tcstate");
    Path::new(folder).join(name)
}

fn by_hand() -> String {
    tcstate("by_hand").to_str().expect("UTF-8").to_owned()
}

#[test]
fn people_see_stacks_and_cpus() {
    let (_folder, trace) = in_folder("state-text", "t.fdr", small);
    let wanted = "\
small (process 7) · +550 ns of 1.000 µs (1550 ns)

thread 7 main
  1  app::run  for 550 ns
  2  app::step  for 150 ns

thread 8 worker
  1  app::step  for 50 ns
";
    let shown = answer(&["state", "--at", "1550", &trace]);
    // The writer had no CPUs, so it put each thread on the first one.
    let (stacks, cpus) = shown
        .split_once("\nthe last record on\nCPU")
        .expect("a line for the CPU");
    assert_eq!(stacks, wanted);
    assert_eq!(cpus, " 0  thread 8 worker\n");
    assert_eq!(answer(&["state", "--at", "+550", &trace]), shown);
    assert_eq!(answer(&["state", "--at", "-450ns", &trace]), shown);
    let worker = answer(&["state", "--at", "1550", "--thread", "worker", &trace]);
    assert_lacks(&worker, "app::run");
    assert_contains(&worker, "  1  app::step  for 50 ns");
    let end = answer(&["state", &trace]);
    assert_eq!(end.matches("nothing is open").count(), 2, "{end}");
}

#[test]
fn overwritten_entries_give_minimum_times() {
    let folder = Folder::new("state-least");
    let trace = folder.file("t.fdr");
    let info = info(&["app::run", "app::step"]);
    let counts = |overwritten| {
        Some(Counts {
            recorded: 4 + overwritten,
            readable: 4,
            overwritten,
            ..Counts::default()
        })
    };
    let thread = |id, overwritten| Thread {
        id: ThreadId(id),
        counts: counts(overwritten),
        ..Thread::default()
    };
    let edges = || calls(&[(1000, 1), (1200, 2), (1500, -2), (1600, -1)]);
    write(
        &trace,
        &info,
        &[(thread(7, 8), edges()), (thread(8, 0), edges())],
    );
    let text = answer(&["state", "--at", "1300", &trace]);
    let [_, cut, whole] = text.split("thread ").collect::<Vec<_>>()[..3] else {
        panic!("{text}")
    };
    assert!(cut.contains("app::run  for at least 300 ns\n"), "{text}");
    assert!(cut.contains("app::step  for 100 ns\n"), "{text}");
    assert!(whole.contains("app::run  for 300 ns\n"), "{text}");
}

#[test]
fn calls_open_at_the_end_last_until_then() {
    let state = json(&["state", "--json", &by_hand()]);
    let attributes = state["attributes"].as_array().expect("attributes");
    let open = attributes
        .iter()
        .find(|attribute| attribute["value"] == "Größe \"x\"\n")
        .expect("a call that is open");
    assert_eq!(state["time_ns"], 200);
    assert_eq!(open["since_ns"], 150);
    let report = json(&["report", "--json", &by_hand()]);
    let functions = report["functions"].as_array().expect("functions");
    let row = functions
        .iter()
        .find(|row| row["name"] == "Größe \"x\"\n")
        .expect("a row");
    assert_eq!(row["total_ns"], 50);
    assert_eq!(report["open_calls"][0]["open_ns"], 50);
    let folded = answer(&["flame", &by_hand()]);
    assert_contains(&folded, ";[open] 50\n");
    // A cut history says nothing of calls that are open at the cut.
    let folder = Folder::new("state-cut");
    let copy = folder.path().join("cut");
    fs::create_dir(&copy).unwrap();
    for file in fs::read_dir(by_hand()).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
    }
    let history = fs::read(copy.join("history.bin")).unwrap();
    fs::write(copy.join("history.bin"), &history[..history.len() / 2]).unwrap();
    let folded = answer(&["flame", copy.to_str().unwrap()]);
    assert_lacks(&folded, "[open]");
}

#[test]
fn json_names_are_escaped() {
    let folder = Folder::new("state-names");
    let trace = folder.file("t.fdr");
    small_named(&trace, &["app::\u{9b}2J", "app::</script>"]);
    let text = answer(&["state", "--at", "1550", "--json", &trace]);
    assert_contains(&text, "app::\\u009b2J");
    assert_contains(&text, "app::\\u003c/script>");
}

#[test]
fn a_history_shows_what_else_it_has() {
    let wanted = "\
+70 ns of 100 ns (170 ns)

thread 390
  1  main  for 60 ns
  2  parse  for 10 ns

thread 1823
  1  Größe \"x\"\\n  for 20 ns

the last record on
CPU 0  thread 1823
CPU 1  thread 390

Threads/390/Exec_name  lttng-sessiond
Threads/390/Prio  -17
Variable  -17.25
Load  1
Up  true
";
    assert_eq!(answer(&["state", "--at", "170", &by_hand()]), wanted);
    let wanted = "\
+70 ns of 100 ns (170 ns)

thread 1823
  1  Größe \"x\"\\n  for 20 ns

the last record on
CPU 0  thread 1823
";
    let shown = answer(&["state", "--at", "+70", "--thread", "1823", &by_hand()]);
    assert_eq!(shown, wanted);
}

#[test]
fn json_has_paths_and_times() {
    let state = json(&["state", "--json", "--at", "end", &by_hand()]);
    assert_eq!(state["time_ns"], 200);
    assert_eq!(state["start_ns"], 100);
    assert_eq!(state["end_ns"], 200);
    let attributes = state["attributes"].as_array().expect("a list");
    assert_eq!(attributes.len(), 18, "the root is not one");
    let attribute = |path: &str| {
        let found = attributes.iter().find(|attribute| {
            let names = attribute["path"].as_array().expect("names").iter();
            let names: Vec<&str> = names.map(|name| name.as_str().expect("a name")).collect();
            names.join("/") == path
        });
        found.unwrap_or_else(|| panic!("no {path}"))
    };
    let level = attribute("Threads/1823/CallStack/1");
    assert_eq!(level["value"], "Größe \"x\"\n");
    assert_eq!(level["since_ns"], 150);
    assert_eq!(attribute("Variable")["value"], true);
    assert_eq!(attribute("Load")["value"], 1.0);
    assert_eq!(attribute("Threads/390/CallStack")["value"], Value::Null);
}

/// The events of a vector, as a state history.
fn history_of_vector(name: &str, folder: &str) {
    fs::create_dir(folder).expect("a folder");
    let text = fs::read_to_string(tcstate("vectors").join(name)).expect("a vector");
    let lines: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    let mut names: Vec<&str> = lines.iter().map(|fields| fields[3]).collect();
    names.sort_unstable();
    names.dedup();
    let functions = names.iter().enumerate().map(|(at, name)| Function {
        id: FunctionId(at as u32),
        name: (*name).to_owned(),
        ..Function::default()
    });
    let info = TraceInfo {
        functions: functions.collect(),
        ..TraceInfo::default()
    };
    let target = registry::target("tcstate").expect("the target");
    let mut writer = (target.create)(Output::Folder(folder.into()), &info).expect("a writer");
    for fields in &lines {
        let time = Ticks(fields[0].parse().expect("a time"));
        writer.thread(&Thread {
            id: ThreadId(fields[1].parse().expect("a thread")),
            ..Thread::default()
        });
        let cpu = CpuId(fields[4].parse().expect("a CPU"));
        writer.mark(&Mark::Cpu { time, cpu });
        let function = names.binary_search(&fields[3]).expect("a name");
        writer.calls(&[Call {
            time,
            function: FunctionId(function as u32),
            edge: if fields[2] == "E" {
                Edge::Entry
            } else {
                Edge::Exit
            },
            synthetic: false,
            has_arguments: false,
        }]);
    }
    writer.finish().expect("space");
}

#[test]
fn a_snapshot_is_that_of_trace_compass() {
    let folder = Folder::new("state-snapshot");
    let (history, file) = (
        folder.file("t.tcstate"),
        folder.file("callstack.snapshot.json"),
    );
    history_of_vector("ev0.tsv", &history);
    let arguments = ["state", "--at", "1020", "--snapshot", &file, &history];
    assert_eq!(answer(&arguments), "");
    let wanted = fs::read(tcstate("vectors/ev0.at_1020.snapshot.json")).expect("a vector");
    assert_eq!(fs::read(&file).expect("a file"), wanted);
    // It does not replace a file.
    assert_refused(&arguments, "callstack.snapshot.json: File exists");
}

/// By path: value, and since when, where a trace can tell it.
fn attributes(state: &Value) -> BTreeMap<String, (Value, Value)> {
    let attributes = state["attributes"].as_array().expect("a list").iter();
    let line = |attribute: &Value| {
        let known = attribute["path"].to_string();
        let since = match known.contains("Current_thread") && !attribute["value"].is_null() {
            true => Value::Null,
            false => attribute["since_ns"].clone(),
        };
        (known, (attribute["value"].clone(), since))
    };
    attributes.map(line).collect()
}

#[test]
fn traces_and_histories_give_equal_states() {
    let folder = Folder::new("state-same");
    let (slow, fast) = (folder.file("slow.fdr"), folder.file("fast.fdr"));
    rich(&slow);
    rich_at(&fast, 2_900_000_000);
    let files = [
        "v1-open.fdr",
        "v3-mt.fdr",
        "v1-strayexit.fdr",
        "llvm19-demo-v5.fdr",
    ];
    let traces = files.map(golden).into_iter().chain([slow, fast]);
    let target = registry::target("tcstate").expect("the target");
    for (nth, trace) in traces.enumerate() {
        let history = folder.file(&format!("{nth}.tcstate"));
        convert(&trace, target, &history);
        let whole = json(&["state", "--json", "--at", "start", &trace]);
        let number = |name: &str| whole[name].as_i64().expect("ns");
        let (start, end) = (number("start_ns"), number("end_ns"));
        let step = (end - start) / 7 + 1;
        let mut at = start;
        while at <= end {
            let time = at.to_string();
            let of_trace = json(&["state", "--json", "--at", &time, &trace]);
            let of_history = json(&["state", "--json", "--at", &time, &history]);
            assert_eq!(
                attributes(&of_trace),
                attributes(&of_history),
                "{trace} at {time}"
            );
            at += step;
        }
    }
}

#[test]
fn calls_open_at_the_end_are_shown_open() {
    let (_folder, trace) = in_folder("state-end", "t.fdr", rich);
    let state = json(&["state", "--json", &trace]);
    let open = attributes(&state);
    let depth = |thread: u32| &open[&format!("[\"Threads\",\"{thread}\",\"CallStack\"]")].0;
    assert_eq!(
        [4242, 4243, 4244].map(depth),
        [2, 2, 2].map(Value::from).each_ref()
    );
    let text = answer(&["state", "--at", "end", &trace]);
    assert!(text.starts_with("rich (process 4242) · +"), "{text}");
    assert_contains(&text, "\nthread 4243 worker-1\n  1  app::main  for ");
}

#[test]
fn moments_of_the_day() {
    let (_folder, trace) = in_folder("state-day", "t.fdr", rich);
    // 1,000,000 ns of the clock are 22:13:20 UTC; the trace begins 1 ms later.
    let text = answer(&["state", "--at", "22:13:20.001", &trace]);
    assert!(
        text.lines()
            .next()
            .expect("a line")
            .ends_with("(2000000 ns) · 2023-11-14T22:13:20.001000Z"),
        "{text}"
    );
    assert_eq!(
        answer(&["state", "--at", "2023-11-14T22:13:20.001Z", &trace]),
        text
    );
}

#[test]
fn wrong_usage_says_what_to_do() {
    let cases: [(&[&str], &str); 5] = [
        (&["--at", "soon"], "a moment is start, end, 1.5ms or +1.5ms"),
        (
            &["--at", "12:00"],
            "does not know the time of day: use +1.5ms or -2s",
        ),
        (
            &["--at", "+1s"],
            "is not in the trace, which is of 100 ns: from 100 to 200 ns",
        ),
        (&["--thread", "nobody"], "no thread \"nobody\" in the trace"),
        (&["--json", "--snapshot", "x"], "cannot be used with"),
    ];
    for (arguments, wanted) in cases {
        let hand = by_hand();
        let arguments: Vec<&str> = ["state"]
            .iter()
            .chain(arguments)
            .copied()
            .chain([&*hand])
            .collect();
        let output = fdr(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert!(
            stderr(&output).contains(wanted),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_damaged_history_gives_what_is_left() {
    let folder = Folder::new("state-damage");
    for entry in fs::read_dir(by_hand()).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_str().expect("UTF-8");
        fs::copy(&path, folder.file(name)).expect("space");
    }
    let history = folder.file("history.bin");
    let mut bytes = fs::read(&history).expect("a file");
    bytes[70] ^= 0x55;
    fs::write(&history, bytes).expect("space");
    let output = fdr(&[
        "state",
        "--at",
        "170",
        folder.path().to_str().expect("UTF-8"),
    ]);
    assert!(output.status.success());
    assert_contains(stderr(&output), "the trace is damaged in 1 place");
    assert_contains(stdout(&output), "  2  parse  for 10 ns");
}
