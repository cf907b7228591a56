//! Tasks as the tool shows them: `--task`, which leaves what happens inside of one, and `fdr slow --tasks`.

use std::collections::BTreeMap;

use fdr_formats::notes::Note;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{self, fdr, json};
use fdr_tests::support::trace::Trace;
use serde_json::Value;

/// Runs the program, with each call in the trace.
fn run(folder: &Folder, mode: &str) -> Trace {
    let program = Program::named("tasks", folder);
    let _ = program.set("FDR=* FDR_KEEP=0").args(&[mode]).run().ok();
    Trace::verified(&folder.only_trace())
}

/// Calls by function, of what is inside of a task.
fn calls(folder: &Folder, task: &str, more: &str) -> BTreeMap<String, u64> {
    let words = format!("report --task {task} {more}");
    let found = json(&words, &[&folder.only_trace()]);
    let calls = tool::calls(&found["functions"]).into_iter();
    calls
        .map(|(name, calls)| (name.replace("programs::tasks::", ""), calls))
        .collect()
}

fn counts(all: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let all = all.iter();
    all.map(|(name, calls)| ((*name).to_owned(), *calls))
        .collect()
}

#[test]
fn calls_of_a_task_are_shown_alone() {
    let folder = Folder::new("tasks-inside");
    let trace = run(&folder, "kinds");
    let numbers: BTreeMap<String, String> = trace
        .threads
        .iter()
        .flat_map(|lane| &lane.notes)
        .filter_map(|(_, _, kind, body)| match Note::decode(*kind, body)? {
            Note::Task { task, name, .. } => Some((trace.name_of(name << 1), task.to_string())),
            _ => None,
        })
        .collect();
    let counts_of = |name: &str, more: &str| {
        calls(&folder, &numbers[&format!("programs::tasks::{name}")], more)
    };
    // `waits` was polled thrice for a task outside, too.
    assert_eq!(
        counts_of("outer", ""),
        counts(&[("outer", 4), ("waits", 5)])
    );
    assert_eq!(
        counts_of("outer", "--filter *waits"),
        counts(&[("waits", 5)])
    );
    let nested = counts_of("outer", "--function *waits");
    assert_eq!(nested, counts(&[("waits", 5)]));
    assert_eq!(counts_of("moves", ""), counts(&[("moves", 4)]));
    assert_eq!(
        counts_of("selects", ""),
        counts(&[("quick", 2), ("selects", 2), ("slow", 2)])
    );
    assert_eq!(counts_of("panics", ""), counts(&[("panics", 2)]));
    // The child was polled outside of its parent, so the orphan has no parent.
    assert_eq!(
        counts_of("spawns", ""),
        counts(&[("child", 2), ("spawns", 2)])
    );
    // Records are those of the polls, too.
    let outer = &numbers["programs::tasks::outer"];
    let words = format!("replay --records --task {outer}");
    let records = fdr(&words, &[&folder.only_trace()]);
    let is_edge = |line: &&str| line.contains(" Entry ") || line.contains(" Exit ");
    let of_outer = |line: &&str| line.contains("programs::tasks::outer");
    let edges = records.lines().filter(is_edge).filter(of_outer);
    assert_eq!(edges.count(), 8, "{records}");
    assert!(!records.contains("programs::tasks::moves"), "{records}");
}

#[test]
fn slow_tasks_are_explained() {
    let folder = Folder::new("tasks-slow");
    let _ = run(&folder, "slow");
    let trace = folder.only_trace();
    let found = json("slow --tasks --by route -n 2", &[&trace]);
    let tasks = found["tasks"].as_array().expect("tasks");
    assert_eq!(tasks.len(), 2, "{found}");
    for task in tasks {
        assert_eq!(task["by"], "even");
        // Its own arguments and events, and none of another task.
        let number = &task["arguments"][0]["fields"][0]["value"];
        assert!(number.as_u64().is_some_and(|n| n % 100 == 0), "{task}");
        assert_eq!(task["events"][0]["fields"][0]["value"], "even");
        assert_eq!(task["events_in_all"], 1);
        let sentence = task["sentence"].as_str().expect("a sentence");
        if task["busy_ns"].as_u64() > task["waiting_ns"].as_u64() {
            assert!(sentence.contains("programs::tasks::compute"), "{sentence}");
        } else {
            assert_eq!(
                task["between"]["awaited"], "programs::tasks::query",
                "{task}"
            );
            assert_eq!(
                task["between"]["meanwhile"]["function"], "programs::tasks::compact",
                "{task}"
            );
            assert_eq!(task["between"]["meanwhile"]["thread_name"], "compactor");
        }
    }
    let busy = |task: &&Value| task["busy_ns"].as_u64() > task["waiting_ns"].as_u64();
    assert_eq!(tasks.iter().filter(busy).count(), 1, "{found}");
    let calls_of = json("slow -f *serve -n 1", &[&trace]);
    let call = &calls_of["calls"][0];
    assert_eq!(call["arguments"][0]["fields"][0]["value"], 100, "{call}");
    assert_eq!(
        call["events"][0]["name"], "programs::tasks::serve",
        "{call}"
    );
    assert_eq!(call["events"][0]["fields"][0]["value"], "even");
    assert_eq!(
        (&call["events"][0]["times"], &call["events_in_all"]),
        (&1.into(), &1.into())
    );
    // Chooses tasks by a field of an event inside them. The calls and tasks inside are chosen, too.
    let number = tasks[0]["id"].to_string();
    let of_one = calls(&folder, &number, "");
    assert_eq!(
        of_one["serve"],
        tasks[0]["polls"].as_u64().expect("a count")
    );
    let odd = calls(&folder, "route=odd", "");
    assert_eq!(
        odd,
        counts(&[("compute", 150), ("query", 300), ("serve", 300)])
    );
    assert_eq!(calls(&folder, "route=*", "")["compute"], 300);
}
