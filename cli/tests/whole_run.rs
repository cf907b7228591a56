//! Figures of the whole run beside those of the records: which of the two a report shows, its remarks about them,
//! and its remarks if a part of the trace is missing.

use std::fs;

use crate::common::{
    Folder, Item, answer, assert_contains, assert_lacks, calls, event, fdr, functions, info, json,
    stderr, stdout, task_note, thread, write, write_noted,
};
use fdr_formats::model::{Counts, FunctionTotals, Missing};
use fdr_formats::notes::{Form, Note, reason, task_state, thread_state};
use fdr_formats::{FunctionId, Thread, ThreadId, Ticks, TraceInfo};
use serde_json::Value;

/// `calls` calls of a function, of 100 ticks each.
fn totals(function: u32, calls: u64, nests: bool) -> FunctionTotals {
    FunctionTotals {
        function: FunctionId(function),
        calls,
        total: Ticks(calls * 100),
        own: Ticks(calls * 50),
        longest: Ticks(100),
        lengths: vec![(6, calls)],
        nests,
        ..FunctionTotals::default()
    }
}

/// A trace of a thread with these totals and edges, and what is missing in it.
fn trace(path: &str, totals: Vec<FunctionTotals>, edges: &[(u64, i64)], missing: Missing) {
    let info = TraceInfo {
        functions: functions(&["app::down", "app::leaf"]),
        missing,
        ..TraceInfo::default()
    };
    let readable = edges.len() as u64;
    let ended: u64 = totals.iter().map(|totals| totals.calls).sum();
    let thread = Thread {
        id: ThreadId(7),
        counts: Some(Counts {
            recorded: 2 * ended,
            readable,
            overwritten: 2 * ended - readable,
            ..Counts::default()
        }),
        totals,
        ..Thread::default()
    };
    write(path, &info, &[(thread, calls(edges))]);
}

const RECURSION: [(u64, i64); 4] = [(0, 1), (100, 1), (200, -1), (300, -1)];

fn row<'a>(report: &'a Value, name: &str) -> &'a Value {
    let mut rows = report["functions"].as_array().expect("rows").iter();
    rows.find(|row| row["name"] == name).expect("a row")
}

#[test]
fn records_of_all_calls_are_the_whole_run() {
    let folder = Folder::new("whole-records");
    let path = folder.file("t.fdr");
    trace(
        &path,
        vec![totals(1, 2, true)],
        &RECURSION,
        Missing::default(),
    );
    let text = answer(&["report", &path]);
    let line = "figures of the whole run: the records of all its calls are in the trace";
    assert!(text.lines().any(|other| other == line), "{text}");
    let report = json(&["report", "--json", &path]);
    assert_eq!(report["scope"], "whole_run");
    let down = row(&report, "app::down");
    // The outermost call alone, and not that inside.
    assert_eq!(down["total_ns"], 300);
    assert_eq!(down["nests"], false);
    assert_eq!(
        json(&["report", "--hist", "--json", &path, "*"])["is_whole_run"],
        true
    );
}

#[test]
fn totals_with_inner_calls_are_marked() {
    let folder = Folder::new("whole-nests");
    let path = folder.file("t.fdr");
    let all = vec![totals(1, 20, true), totals(2, 5, false)];
    trace(&path, all, &RECURSION, Missing::default());
    let text = answer(&["report", &path]);
    assert_contains(&text, "  ≤2.000 µs  ");
    assert_contains(&text, "\n≤: the function calls itself");
    assert_contains(&text, "  500 ns  ");
    let report = json(&["report", "--json", &path]);
    assert_eq!(row(&report, "app::down")["nests"], true);
    assert_eq!(row(&report, "app::leaf")["nests"], false);
    let window = json(&["report", "--json", "--window", &path]);
    assert_eq!(window["scope"], "records");
    assert_eq!(row(&window, "app::down")["total_ns"], 300);
    // The records show what the recorder did not.
    trace(
        &path,
        vec![totals(1, 20, false)],
        &RECURSION,
        Missing::default(),
    );
    let report = json(&["report", "--json", &path]);
    assert_eq!(row(&report, "app::down")["nests"], true);
}

#[test]
fn functions_without_room_have_their_records() {
    let folder = Folder::new("whole-room");
    let path = folder.file("t.fdr");
    let edges = [(0, 1), (100, -1), (200, 2), (300, -2)];
    let all = vec![totals(0, 10, false), totals(1, 5, false)];
    trace(&path, all, &edges, Missing::default());
    let report = json(&["report", "--json", &path]);
    let leaf = row(&report, "app::leaf");
    assert_eq!(leaf["calls"], 1);
    assert_eq!(leaf["of_records"], true);
    assert_eq!(row(&report, "(functions without room)")["calls"], 9);
    let text = answer(&["report", &path]);
    assert_contains(&text, "  app::leaf (records)\n");
    assert_contains(&text, "(functions without room): one row of all");
    let found = json(&["report", "--hist", "--json", &path, "app::leaf"]);
    assert_eq!(found["functions"][0]["calls"], 1);
}

/// One event and one wait.
fn notes() -> Vec<Item<'static>> {
    let wait = |state, waited| Note::ThreadState {
        object: 77,
        holder: 0,
        name: 4,
        state,
        reason: reason::LOCK,
        function: 0,
        waited,
    };
    vec![
        Item::Call(0, 1),
        Item::Note(10, event(3, Form::Instant as u8, 0, &[])),
        Item::Note(20, wait(thread_state::BLOCKED, 0)),
        Item::Note(90, wait(thread_state::RUNNING, 70)),
        Item::Call(100, -1),
    ]
}

#[test]
fn each_table_says_its_scope() {
    let folder = Folder::new("whole-scope");
    let path = folder.file("t.fdr");
    let info = info(&["app::down", "app::leaf", "app::event", "queue"]);
    let with_totals = |calls| Thread {
        totals: vec![totals(1, calls, false)],
        ..thread(7, "")
    };
    let captions = ["\nevents in the records of ", "\nwaits in the records of "];
    write_noted(&path, &info, &[(with_totals(20), notes())]);
    let text = answer(&["report", &path]);
    assert_contains(&text, "\nfigures of the whole run (--window");
    for caption in captions {
        assert_contains(&text, caption);
    }
    assert_contains(answer(&["slow", &path]), "slow in the records, 100 ns\n\n");
    let scope = |words: &[&str], of: &str| {
        let text = answer(&[words, &[&path]].concat());
        assert_contains(&text, of);
        for caption in captions {
            assert_lacks(&text, caption);
        }
        // The tables are there all the same.
        assert_contains(&text, "app::event");
        assert_contains(&text, "queue (lock)");
    };
    scope(&["report", "--window"], "\nfigures of the records\n\n");
    write_noted(&path, &info, &[(with_totals(1), notes())]);
    let all = "\nfigures of the whole run: the records of all its calls are in the trace\n\n";
    scope(&["report"], all);
    let slow = "slow in the whole run, 100 ns: the records of all its calls are in the trace\n\n";
    assert_contains(answer(&["slow", &path]), slow);
    write_noted(&path, &info, &[(thread(7, ""), notes())]);
    scope(&["report"], "\nfigures of the records\n\n");
}

#[test]
fn tasks_and_functions_have_one_scope() {
    let folder = Folder::new("whole-tasks");
    let path = folder.file("t.fdr");
    let busy = format!("app::task{}", fdr_formats::tasks::BUSY);
    let info = info(&["app::down", "app::leaf", "app::task", &busy]);
    let has_totals = Thread {
        totals: vec![totals(1, 20, false), totals(4, 30, false)],
        ..thread(7, "")
    };
    let items = vec![
        Item::Call(0, 1),
        Item::Note(10, task_note(5, 0, 3, task_state::FINISHED)),
        Item::Call(100, -1),
    ];
    write_noted(&path, &info, &[(has_totals.clone(), items.clone())]);
    let whole = "\nfigures of the whole run (--window: ";
    for words in [&["report"][..], &["report", "--tasks"]] {
        assert_contains(answer(&[words, &[&path]].concat()), whole);
    }
    // The totals of one thread are missing, so those of the others are not the whole run.
    let other = Thread {
        counts: Some(Counts {
            recorded: 20,
            readable: 2,
            overwritten: 18,
            ..Counts::default()
        }),
        ..thread(8, "")
    };
    let calls = vec![Item::Call(0, 1), Item::Call(50, -1)];
    write_noted(&path, &info, &[(has_totals, items), (other, calls)]);
    assert_contains(answer(&["report", &path]), "\nfigures of the records\n");
    let tasks = answer(&["report", "--tasks", &path]);
    assert_contains(
        &tasks,
        "\nfigures of the tasks that have a note in the trace\n",
    );
    let overview = answer(&[&path]);
    assert_contains(&overview, "\nfigures of the records\n");
    assert_eq!(
        json(&["report", "--tasks", "--json", &path])["is_whole_run"],
        false
    );
}

#[test]
fn both_sides_of_a_comparison_have_one_scope() {
    let folder = Folder::new("whole-diff");
    let (whole, records) = (folder.file("whole.fdr"), folder.file("records.fdr"));
    let edges = [(0, 1), (100, -1)];
    trace(
        &whole,
        vec![totals(1, 20, false)],
        &edges,
        Missing::default(),
    );
    write(
        &records,
        &info(&["app::down"]),
        &[(thread(7, ""), calls(&edges))],
    );
    for (sides, words, scope, calls) in [
        (
            [&whole, &whole],
            "figures of the whole runs\n",
            "whole_run",
            20.0,
        ),
        (
            [&whole, &records],
            "figures of the records\n",
            "records",
            1.0,
        ),
        (
            [&records, &whole],
            "figures of the records\n",
            "records",
            1.0,
        ),
    ] {
        assert!(answer(&["diff", sides[0], sides[1]]).starts_with(words));
        let found = json(&["diff", "--json", sides[0], sides[1]]);
        assert_eq!(found["scope"], scope);
        for side in ["before", "after"] {
            assert_eq!(found["functions"][0][side]["calls"], calls, "{found}");
        }
    }
}

#[test]
fn a_function_is_never_the_nearest_to_itself() {
    let folder = Folder::new("whole-nearest");
    let path = folder.file("t.fdr");
    let edges = [(0, 1), (100, -1), (200, 2)];
    trace(&path, vec![totals(1, 5, false)], &edges, Missing::default());
    let output = fdr(&["report", "--hist", &path, "app::leaf"]);
    let messages = stderr(&output);
    assert_contains(
        messages,
        "app::leaf has no figures of the whole run (--window",
    );
}

#[test]
fn dropped_records_are_reported_by_all_lines() {
    let folder = Folder::new("whole-dropped");
    let path = folder.file("t.fdr");
    let missing = Missing {
        dropped: 30,
        ..Missing::default()
    };
    trace(&path, vec![totals(1, 20, false)], &RECURSION, missing);
    let text = answer(&["report", &path]);
    let head = "figures of the whole run, without calls of 30 dropped records (";
    assert_contains(&text, head);
    assert_lacks(&text, "each call that has ended");
    assert_contains(
        &text,
        "of 70 records: 36 overwritten by newer ones, 30 dropped\n",
    );
}

#[test]
fn a_missing_end_is_reported_by_all_commands() {
    let folder = Folder::new("whole-end");
    let path = folder.file("t.fdr");
    let thread = |id| thread(id, "");
    let threads = [1, 2, 3].map(|id| (thread(id), calls(&RECURSION)));
    let info = info(&["app::down"]);
    write(&path, &info, &threads);
    let bytes = fs::read(&path).expect("the trace");
    assert_contains(
        stdout(&fdr(&["verify", &path])),
        ": OK: 12 records in 3 threads",
    );
    // Each block begins with an extent of 16 bytes, which has the number of bytes behind it.
    let (mut at, mut cuts) = (32, Vec::new());
    while at < bytes.len() {
        let size: [u8; 8] = bytes[at + 1..at + 9].try_into().expect("a number");
        at += 16 + u64::from_le_bytes(size) as usize;
        cuts.push(at);
    }
    assert_eq!(cuts.pop(), Some(bytes.len()));
    assert_eq!(cuts.len(), 2);
    for cut in cuts {
        fs::write(&path, &bytes[..cut]).expect("a file");
        let verdict = fdr(&["verify", &path]);
        assert_eq!(verdict.status.code(), Some(1), "cut at {cut}");
        assert_contains(stdout(&verdict), "of 3 threads");
        for command in [
            &["report"][..],
            &["info"],
            &["slow"],
            &["flame"],
            &["state"],
            &["replay"],
        ] {
            let output = fdr(&[command, &[path.as_str()]].concat());
            assert!(output.status.success(), "{output:?}");
            assert!(
                stderr(&output).contains("the trace is damaged in 1 place"),
                "{command:?}: {output:?}"
            );
        }
    }
}
