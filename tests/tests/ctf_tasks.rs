//! Tasks in CTF folders: babeltrace2 shows the task of each poll at the poll's exit, and no task is lost on the way.

use std::collections::BTreeMap;
use std::path::Path;

use fdr_formats::notes::task_state;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use serde_json::Value;

use crate::babeltrace::{babeltrace, words};
use fdr_tests::support::tool::{fdr, json};

/// The number behind a field's name.
fn number(line: &str, field: &str) -> Option<u64> {
    let text = line.split_once(&format!(" {field} = "))?.1;
    let text = text.split([',', ' ']).next()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// The name of each function with tasks, and its counts. Their times are rounded to nanoseconds on the way.
fn tasks(trace: &Path) -> Vec<(String, Vec<u64>)> {
    const COUNTS: [&str; 5] = ["tasks", "finished", "dropped", "unfinished", "never_polled"];
    let report = json("report --tasks", &[trace]);
    let row = |row: &Value| {
        let name = row["name"].as_str().expect("a name").to_owned();
        let counts = COUNTS.map(|count| row[count].as_u64().expect("a count"));
        (name, counts.to_vec())
    };
    let mut rows: Vec<_> = report["tasks"]
        .as_array()
        .expect("rows")
        .iter()
        .map(row)
        .collect();
    rows.sort();
    rows
}

#[test]
fn the_exit_of_a_poll_has_its_task() {
    let Some(tool) = babeltrace() else { return };
    let folder = Folder::new("ctf-tasks");
    let program = Program::named("tasks", &folder);
    let _ = program
        .set("FDR=* FDR_KEEP=0 FDR_FORMAT=xray FDR_OUT=tasks.fdr")
        .args(&["kinds"])
        .run()
        .ok();
    let (first, ctf, back) = (
        folder.join("tasks.fdr"),
        folder.join("tasks.ctf"),
        folder.join("back.fdr"),
    );
    for (from, format, to) in [(&first, "ctf", &ctf), (&ctf, "xray", &back)] {
        let _ = fdr(&format!("convert --to {format} -o"), &[to, from]);
    }
    assert!(tasks(&first).len() > 3);
    assert_eq!(tasks(&back), tasks(&first), "there and back");

    // The open calls of each thread: each exit has the task that the last note inside of its call had.
    let (mut notes, mut polls): (BTreeMap<u64, u64>, BTreeMap<u64, u64>) = Default::default();
    let mut open: BTreeMap<u64, Vec<Option<u64>>> = BTreeMap::new();
    for line in words(&tool, &ctf) {
        let Some(thread) = number(&line, "vtid") else {
            continue;
        };
        let open = open.entry(thread).or_default();
        if line.contains("cyg_profile:func_entry:") {
            assert_eq!(number(&line, "task_id"), None, "{line}");
            open.push(None);
        } else if line.contains("cyg_profile:func_exit:") {
            let task = number(&line, "task_id");
            assert_eq!(task, open.pop().flatten(), "{line}");
            if let Some(task) = task {
                *notes.entry(task).or_default() += 1;
            }
        } else if line.contains("fdr:task:")
            && number(&line, "state") != Some(task_state::DROPPED.into())
        {
            let task = number(&line, "task").expect("a task");
            *open.last_mut().expect("a poll") = Some(task);
            polls.insert(task, number(&line, "polls").expect("polls"));
        }
    }
    assert!(notes.values().sum::<u64>() > 20, "{notes:?}");
    assert_eq!(notes, polls, "each poll of each task");
}
