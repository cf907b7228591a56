//! `fdr replay`: what a person and a script get to see of the calls one by one.

use fdr_formats::TraceInfo;
use fdr_formats::model::FunctionKind;
use fdr_formats::notes::{Field, FieldValue, Note};

use crate::common::{
    Folder, Item, answer, assert_contains, assert_documented, assert_lacks, assert_refused, calls,
    event, functions, in_folder, json, small, small_named, thread, write, write_noted,
};
use crate::states;
use crate::terminal::{on_terminal, width};

#[test]
fn calls_are_ordered_lines_below_their_callers() {
    let (_folder, trace) = in_folder("replay", "t.fdr", small);
    assert_eq!(
        answer(&["replay", &trace]),
        "small (process 7) · 4 calls\n       \
         seconds       took  thread      call\n   \
         0.000000000   1.000 µs  main (7)    app::run\n   \
         0.000000100     500 ns  main (7)      app::step ×2   longest 300 ns\n   \
         0.000000500     100 ns  worker (8)  app::step\n"
    );
    let each = answer(&["replay", "--each", &trace]);
    assert_eq!(each.lines().count(), 6, "{each}");
    assert_contains(&each, "0.000000400     300 ns  main (7)      app::step\n");
    // Two of four, the nearest to the end.
    let last = answer(&["replay", "--around", "end", "-n", "2", &trace]);
    assert!(
        last.starts_with("small (process 7) · the nearest 2 calls, 2 more (--limit)\n"),
        "{last}"
    );
    assert_contains(&last, "app::run");
    assert_contains(&last, "0.000000400");
    // What the selection leaves out is not there; a part of a call says so.
    let part = answer(&["replay", "-t", "main", "--since", "+200ns", &trace]);
    assert_contains(&part, "800 ns  main (7)  app::run   [began earlier]");
    assert_lacks(&part, "worker");
    assert_refused(
        &["replay", "--around", "+1s", &trace],
        "+1s is not in the trace, which",
    );
}

#[test]
fn replay_json_has_each_call() {
    let folder = Folder::new("replay-json");
    let trace = folder.file("t.fdr");
    states::trace(&trace, states::schedule());
    let document = json(&["replay", "--json", &trace]);
    let calls = document["calls"].as_array().expect("an array");
    let names: Vec<&str> = calls
        .iter()
        .map(|call| call["function"].as_str().expect("a name"))
        .collect();
    assert_eq!(
        names,
        ["app::serve", "app::parse", "app::read", "app::parse"]
    );
    let read = &calls[2];
    assert_eq!(read["depth"], 1);
    assert_eq!(read["start_ns"], 1_000_000);
    assert_eq!(read["states"]["waiting_ns"], 80_000_000);
    assert_eq!(calls[1]["states"]["unknown_ns"], 50_000_000);
    for value in [&document, read, &read["states"]] {
        assert_documented(value);
    }
    let lines = answer(&["replay", &trace]);
    assert_contains(&lines, "app::read   waiting 90 %\n");
    assert_contains(&lines, "app::parse   ? 50 %\n");
    // Of app::parse on the worker a half is not known, and the rest ran.
    let names = |words: &[&str]| -> Vec<String> {
        let document = json(&[&["replay", "--json"], words, &[&trace]].concat());
        let calls = document["calls"].as_array().expect("an array").clone();
        let name = |call: &serde_json::Value| call["function"].as_str().expect("a name").to_owned();
        calls.iter().map(name).collect()
    };
    assert_eq!(names(&["--state", "waiting"]), ["app::serve", "app::read"]);
    assert_eq!(names(&["--state", "running"]), ["app::parse", "app::parse"]);
    assert_eq!(
        names(&["--over", "89ms", "--state", "waiting"]),
        ["app::serve", "app::read"]
    );
    assert_eq!(
        names(&["--over", "89001us", "--state", "waiting"]),
        ["app::serve"]
    );
    let slow = json(&[
        "slow", "--json", "--over", "1ms", "--state", "waiting", "-t", "main", &trace,
    ]);
    assert_eq!(slow["calls"][0]["function"], "app::serve");
    let none = json(&[
        "slow",
        "--json",
        "--over",
        "1ms",
        "--state",
        "preempted",
        &trace,
    ]);
    assert_eq!(none["calls"].as_array().map(Vec::len), Some(0));
    small(&trace);
    assert_refused(
        &["replay", "--state", "waiting", &trace],
        "--state: the trace knows no states of its threads",
    );
}

#[test]
fn the_panicked_thread_comes_first() {
    let folder = Folder::new("replay-panic");
    let trace = folder.file("t.fdr");
    let info = TraceInfo {
        functions: functions(&["app::run", "app::step"]),
        reason: "panic in thread 8 (worker) at src/main.rs:7:9: no".into(),
        ..TraceInfo::default()
    };
    let main = calls(&[(0, 1), (10, 2), (20, -2), (900, -1)]);
    let worker = calls(&[(100, 1), (200, 2), (300, -2), (800, 2)]);
    write(
        &trace,
        &info,
        &[(thread(7, "main"), main), (thread(8, "worker"), worker)],
    );
    let screen = on_terminal(
        120,
        &[],
        &[
            "--color",
            "never",
            "--no-pager",
            "replay",
            "--before-panic",
            &trace,
        ],
    );
    let heads = screen
        .lines()
        .find(|line| line.contains("seconds"))
        .expect("heads");
    let (first, second) = (heads.find("worker (8)"), heads.find("main (7)"));
    assert!(first.is_some() && first < second, "{screen}");
    assert_contains(&screen, "panic in thread 8");
    // Those that were open have a mark, at the end of the column.
    let open = screen
        .lines()
        .filter(|line| line.trim_end().ends_with('!'))
        .count();
    assert_eq!(open, 2, "{screen}");
    small(&trace);
    assert_refused(
        &["replay", "--before-panic", &trace],
        "was written for no panic or crash",
    );
}

#[test]
fn fitting_threads_stand_side_by_side() {
    let folder = Folder::new("replay-wide");
    let trace = folder.file("t.fdr");
    small_named(
        &trace,
        &[
            "\u{1b}[2Japp::run",
            "app::a_step_with_a_name_that_is_much_longer_than_its_column_is",
        ],
    );
    for (columns, beside) in [(80, false), (100, true), (200, true)] {
        let screen = on_terminal(
            columns,
            &[],
            &["--color", "never", "--no-pager", "replay", &trace],
        );
        assert!(width(&screen) <= columns, "{columns}: {screen}");
        assert_eq!(screen.contains("took"), !beside, "{columns}: {screen}");
        assert!(!screen.contains('\u{1b}'), "{screen}");
        let lines = on_terminal(
            columns,
            &[],
            &[
                "--color",
                "never",
                "--no-pager",
                "replay",
                "--lines",
                &trace,
            ],
        );
        assert!(
            lines.contains("took") && width(&lines) <= columns,
            "{lines}"
        );
    }
}

/// What a call says of its arguments and its result.
fn says(function: u32, name: u32, value: u64) -> Note<'static> {
    let value = FieldValue::Unsigned(value);
    let field = Field {
        name,
        place: 0,
        value,
    };
    Note::Arguments {
        function,
        fields: vec![field],
    }
}

#[test]
fn all_notes_stand_at_their_calls() {
    let folder = Folder::new("replay-notes");
    let trace = folder.file("t.fdr");
    let mut all = functions(&["app::outer", "app::inner", "n", "result", "said"]);
    all[2].kind = FunctionKind::Name;
    all[3].kind = FunctionKind::Name;
    all[4].kind = FunctionKind::Event;
    let info = TraceInfo {
        functions: all,
        ..TraceInfo::default()
    };
    let thread = thread(7, "");
    // Arguments and results have the time of the record before them.
    let items = vec![
        Item::Call(100, 1),
        Item::Note(100, says(1, 3, 1)),
        Item::Call(200, 2),
        Item::Note(200, says(2, 3, 2)),
        Item::Note(200, says(2, 4, 4)),
        Item::Call(300, -2),
        Item::Note(300, says(1, 4, 14)),
        Item::Note(400, event(5, 0, 0, &[])),
        Item::Call(500, -1),
        Item::Note(600, event(5, 0, 0, &[])),
    ];
    write_noted(&trace, &info, &[(thread, items)]);
    let text = answer(&["replay", &trace]);
    let lines = text.lines().skip(2);
    let lines: Vec<&str> = lines.map(|line| line.split_at(35).1.trim_end()).collect();
    assert_eq!(
        lines,
        [
            "app::outer",
            "  * app::outer  n=1",
            "  app::inner",
            "    * app::inner  n=2",
            "    * app::inner  result=4",
            "  * app::outer  result=14",
            "  * said",
            "* said",
        ],
        "{text}"
    );
    for arguments in [
        &["--around", "+350ns"][..],
        &["--around", "end"],
        &["--since", "+150ns"],
    ] {
        let part = answer(&[&["replay"], arguments, &[trace.as_str()]].concat());
        assert_eq!(part.matches("* said").count(), 2, "{part}");
        assert_lacks(&part, "not shown");
    }
    let few = answer(&["replay", "-n", "1", &trace]);
    let shown = few.matches("* ").count();
    assert_contains(&few, &format!("{} notes not shown", 6 - shown));
    let few = json(&["replay", "--json", "-n", "1", &trace]);
    assert_eq!(few["notes_not_shown"], 6 - shown);
}
