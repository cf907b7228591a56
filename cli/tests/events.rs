//! Events, counters and other notes: what each command shows of them, and what selections choose.

use crate::common::{
    self, Folder, Item, answer, assert_contains, assert_lacks, event, fdr, in_folder, json, named,
    stderr, task_note, thread,
};
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{Field, FieldValue, Note, RESULT};
use fdr_formats::{Function, TraceInfo};
use serde_json::{Value, json};

const RUN: i64 = 1;
const STEP: i64 = 2;
const ACCEPTED: u32 = 3;
const QUEUE: u32 = 4;
const ID: u32 = 5;
const PATH: u32 = 6;
const TASK: u32 = 7;
/// An event that the program has and that never happened.
const NEVER: u32 = 8;

/// Another place where the counter changes.
const QUEUE_TOO: u32 = 9;

/// Thread 7 runs `app::run` from 1000 to 9000 and `app::step` from 3000 to 5000; thread 8 has an event alone, at 11,000.
fn trace(folder: &Folder) -> String {
    let path = folder.file("t.fdr");
    let info = TraceInfo {
        functions: functions(),
        program: "noted".into(),
        ..TraceInfo::default()
    };
    let worker = vec![Item::Note(11_000, accepted(3))];
    let threads = [
        (thread(7, "main"), main_items()),
        (thread(8, "worker"), worker),
    ];
    common::write_noted(&path, &info, &threads);
    path
}

fn functions() -> Vec<Function> {
    named(&[
        (1, "app::run", FunctionKind::Calls),
        (2, "app::step", FunctionKind::Calls),
        (ACCEPTED, "app::accepted", FunctionKind::Event),
        (QUEUE, "app::queue", FunctionKind::Event),
        (ID, "id", FunctionKind::Name),
        (PATH, "path", FunctionKind::Name),
        (TASK, "app::task", FunctionKind::Name),
        (NEVER, "app::never", FunctionKind::Event),
        (QUEUE_TOO, "app::queue", FunctionKind::Event),
    ])
}

/// An accepted connection.
fn accepted(id: u64) -> Note<'static> {
    let path = FieldValue::Text(b"/tmp", 4);
    event(
        ACCEPTED,
        0,
        3,
        &[(ID, FieldValue::Unsigned(id)), (PATH, path)],
    )
}

/// What thread 7 does.
fn main_items() -> Vec<Item<'static>> {
    let queue = |value| event(QUEUE, 3, 0, &[(0, value)]);
    let argument = |place, value| {
        let (name, function) = (ID, RUN as u32);
        let fields = vec![Field { name, place, value }];
        Note::Arguments { function, fields }
    };
    let task = task_note(9, 1, TASK, 2);
    let state = Note::ThreadState {
        object: 0,
        holder: 8,
        name: 0,
        state: 2,
        reason: 1,
        function: 0,
        waited: 0,
    };
    vec![
        Item::Call(1000, RUN),
        Item::Note(1000, argument(0, FieldValue::Signed(-1))),
        Item::Note(2000, accepted(1)),
        Item::Note(2500, queue(FieldValue::Signed(-4))),
        Item::Call(3000, STEP),
        Item::Note(3000, event(2, 1, 0, &[(ID, FieldValue::Truth(true))])),
        Item::Note(4000, accepted(2)),
        Item::Note(4500, queue(FieldValue::Unsigned(10))),
        Item::Call(5000, -STEP),
        Item::Note(6000, event(QUEUE_TOO, 3, 0, &[(0, FieldValue::Float(1.5))])),
        Item::Note(6100, queue(FieldValue::Text(b"none", 4))),
        Item::Note(7000, task),
        Item::Note(8000, state),
        Item::Note(9000, argument(RESULT, FieldValue::Text(b"done", 9))),
        Item::Call(9000, -RUN),
    ]
}

/// The words of each record, with the time before, as far as the record has a note.
fn records(arguments: &[&str]) -> Vec<String> {
    let text = answer(&[&["replay", "--records"], arguments].concat());
    let lines = text.lines().filter_map(|line| line.split_once(" fdr "));
    let time = |line: &str| {
        line.split_whitespace()
            .nth(4)
            .unwrap_or_default()
            .to_owned()
    };
    lines
        .filter(|(line, _)| line.contains("CustomEvent") && !line.contains(" -  "))
        .map(|(line, words)| format!("{} {words}", time(line)))
        .collect()
}

#[test]
fn records_have_names_and_values() {
    let folder = Folder::new("events-records");
    let trace = trace(&folder);
    let all = records(&[&trace]);
    for wanted in [
        "+0 arguments: app::run  id=-1",
        "+1000 event: app::accepted (info)  id=1 path=\"/tmp\"",
        "+1500 event: app::queue (counter)  -4",
        "+2000 event: app::step (begin of a span)  id=true",
        "+6000 task: 9 app::task waiting  parent=1  polls=3 busy=5 ticks elapsed=7 ticks",
        "+7000 thread state: blocked (lock)  holder=8",
        "+8000 arguments: app::run  result id=\"done\" (of 9 bytes)",
        "+10000 event: app::accepted (info)  id=3 path=\"/tmp\"",
    ] {
        assert!(all.iter().any(|line| line == wanted), "{wanted}: {all:#?}");
    }
    // A filter chooses events as it chooses functions, and arguments with their call.
    let times = |arguments: &[&str]| -> Vec<String> {
        let lines = records(&[arguments, &[trace.as_str()]].concat());
        let time = |line: String| line.split(' ').next().unwrap_or_default().to_owned();
        lines.into_iter().map(time).collect()
    };
    assert_eq!(
        times(&["-f", "app::accepted"]),
        ["+1000", "+3000", "+10000"]
    );
    assert_eq!(
        times(&["-f", "app::accepted", "-t", "main"]),
        ["+1000", "+3000"]
    );
    assert_eq!(times(&["-f", "app::run"]), ["+0", "+8000"]);
    // What happens inside of calls, and the calls themselves.
    assert_eq!(times(&["-F", "app::step"]), ["+2000", "+3000", "+3500"]);
    let all = answer(&["replay", "--records", "-F", "app::step", &trace]);
    let edges = ["Entry", "Exit"].map(|edge| all.matches(&format!(" {edge} ")).count());
    assert_eq!(edges, [1, 1], "{all}");
    assert_eq!(
        times(&["-f", "app::accepted", "--since", "+2us"]),
        ["+3000", "+10000"]
    );
}

#[test]
fn records_as_json_have_levels_and_fields() {
    let folder = Folder::new("events-json");
    let trace = trace(&folder);
    let lines = answer(&[
        "replay",
        "--records",
        "--json",
        "-f",
        "app::accepted,app::run",
        &trace,
    ]);
    let lines: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let event = lines
        .iter()
        .find(|line| line["name"] == "app::accepted")
        .expect("an event");
    assert_eq!(event["level"], "info");
    assert_eq!(event["time_ns"], 2000);
    assert_eq!(
        event["fields"],
        json!([{"name": "id", "value": 1}, {"name": "path", "value": "/tmp"}])
    );
    let mut of_run = lines.iter().rev().filter(|line| line["name"] == "app::run");
    let result = of_run.find(|line| !line["fields"].is_null());
    let result = result.expect("the result");
    assert_eq!(
        result["fields"],
        json!([{"name": "id", "value": "done", "bytes": 9}])
    );
    // Records of calls have neither.
    assert!(lines[0].get("fields").is_none() && lines[0].get("level").is_none());
}

#[test]
fn info_counts_each_kind_of_record() {
    let folder = Folder::new("events-info");
    let trace = trace(&folder);
    let info = answer(&["info", "--functions", &trace]);
    let lines = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("{name}: {info}")).to_owned()
    };
    assert_eq!(lines("functions"), "functions  2 with a name");
    assert_eq!(lines("events"), "events     4 with a name");
    assert_eq!(lines("duration"), "duration   10.00 µs");
    let others = "3 events, 4 counter samples, 1 span note, 2 noted arguments, 1 task change, 1 thread state";
    assert_contains(info.replace("\n           ", " "), others);
    for name in ["path", "app::task", "app::accepted"] {
        assert_lacks(&info, name);
    }
    let json = json(&["info", "--json", "--functions", &trace]);
    assert_eq!(json["function_count"], 2);
    assert_eq!(json["functions"].as_array().map(Vec::len), Some(2));
    let others = &json["others"];
    let counts = ["notes", "events", "counter_samples", "spans_with_fields"];
    assert_eq!(
        counts.map(|name| others[name].as_u64()),
        [12, 3, 4, 1].map(Some)
    );
    let counts = ["noted_arguments", "task_changes", "thread_state_changes"];
    assert_eq!(
        counts.map(|name| others[name].as_u64()),
        [2, 1, 1].map(Some)
    );
    // The map has nothing else, either.
    let map = folder.file("m.elf");
    let output = fdr(&["convert", "--to", "map", &trace, "-o", &map]);
    assert!(
        stderr(&output).starts_with("fdr: 2 functions in "),
        "{output:?}"
    );
}

fn cells(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn reports_list_events_and_counters() {
    let folder = Folder::new("events-report");
    let trace = trace(&folder);
    let report = answer(&["report", &trace]);
    let lines: Vec<String> = report.lines().map(cells).collect();
    let from = lines.iter().position(|line| line.starts_with("count rate"));
    let from = from.unwrap_or_else(|| panic!("{report}"));
    assert_eq!(
        lines[from - 1..],
        [
            "",
            "count rate last threads event",
            "3 300,000/s +10.00 µs 2 app::accepted (info)",
            "",
            "samples min mean max last counter",
            "4 -4 2.5 10 1.5 app::queue",
        ]
    );
    // Fields of spans are no events, and names are no functions.
    assert_lacks(&report, "app::never");
    assert_lacks(&report, "path");
    let json = json(&["report", "--json", &trace]);
    assert_eq!(
        json["events"],
        json!([{
            "name": "app::accepted", "file": "src/a.rs", "line": 30, "id": 3, "level": "info", "count": 3,
            "rate": 300_000.0, "first_ns": 1000, "last_ns": 10_000, "threads": 2,
        }])
    );
    assert_eq!(
        json["counters"],
        json!([{
            "name": "app::queue", "file": "src/a.rs", "line": 40, "id": 4, "samples": 4, "min": -4, "mean": 2.5,
            "max": 10, "last": 1.5, "first_ns": 1500, "last_ns": 5100, "threads": 1,
        }])
    );
    assert_eq!(json["functions"].as_array().map(Vec::len), Some(2));
    assert_eq!(json["events_not_shown"], 0);
}

#[test]
fn a_selection_is_one_of_events_too() {
    let folder = Folder::new("events-selection");
    let trace = trace(&folder);
    let counted = |trace: &str, arguments: &[&str]| {
        let report = json(&[&["report", "--json"], arguments, &[trace]].concat());
        let sum = |list: &str, count: &str| -> u64 {
            let rows = report[list].as_array().expect("rows").iter();
            rows.filter_map(|row| row[count].as_u64()).sum()
        };
        (sum("events", "count"), sum("counters", "samples"))
    };
    assert_eq!(counted(&trace, &[]), (3, 4));
    assert_eq!(counted(&trace, &["--thread", "main"]), (2, 4));
    assert_eq!(counted(&trace, &["--filter", "app::acc*"]), (3, 0));
    assert_eq!(counted(&trace, &["--filter", "app::step"]), (0, 0));
    assert_eq!(
        counted(&trace, &["--since", "+2us", "--until", "+5us"]),
        (1, 2)
    );
    assert_eq!(counted(&trace, &["--function", "app::step"]), (1, 1));
    assert_eq!(counted(&trace, &["--last", "3us"]), (1, 2));
    // A part of the trace that is written, with the names of the fields.
    let part = folder.file("part.fdr");
    answer(&[
        "convert",
        &trace,
        "--to",
        "xray",
        "-f",
        "app::accepted",
        "-o",
        &part,
        "-q",
    ]);
    assert_eq!(counted(&part, &[]), (3, 0));
    let lines = records(&[&part]);
    let accepted = |line: &&String| line.contains("app::accepted (info)  id=");
    assert_eq!(lines.iter().filter(accepted).count(), 3, "{lines:?}");
    assert!(
        !lines.iter().any(|line| line.contains("app::queue")),
        "{lines:?}"
    );
}

#[test]
fn without_events_there_is_no_table_of_them() {
    let (_folder, trace) = in_folder("plain", "t.fdr", common::small);
    let report = answer(&["report", &trace]);
    assert_lacks(&report, "event");
    assert_lacks(&report, "counter");
    let info = answer(&["info", &trace]);
    assert_lacks(&info, "\nevents");
    let json = json(&["report", "--json", &trace]);
    assert_eq!(json["events"], json!([]));
    assert_eq!(json["counters"], json!([]));
}
