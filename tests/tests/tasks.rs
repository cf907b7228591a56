//! Tasks: which ones there are, how they end, whose children they are, and that the sums are the program's own.

use std::collections::BTreeMap;

use fdr_formats::notes::{Note, NoteKind, task_state};
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{by_name, fdr, json};
use fdr_tests::support::trace::Trace;
use serde_json::Value;

/// A task as its last note has it.
#[derive(Clone, Debug)]
struct Task {
    name: String,
    parent: u64,
    state: u8,
    polls: u64,
    elapsed: u64,
    busy: u64,
    /// The threads that polled it, as far as notes tell.
    threads: Vec<String>,
}

/// The tasks of a trace, by their ids. Each note must stand in a call of its function, unless its task was dropped.
fn tasks_of(trace: &Trace) -> BTreeMap<u64, Task> {
    let mut tasks: BTreeMap<u64, Task> = BTreeMap::new();
    for lane in &trace.threads {
        let mut open = Vec::new();
        let mut done = 0;
        for (edges, _, kind, body) in &lane.notes {
            for edge in &lane.edges[done..*edges] {
                match edge & 1 {
                    0 => open.push(edge >> 1),
                    _ => drop(open.pop()),
                }
            }
            done = *edges;
            let note = Note::decode(*kind, body).expect("a note");
            let Note::Task {
                task,
                parent,
                by,
                name,
                state,
                elapsed,
                busy,
                polls,
                ..
            } = note
            else {
                continue;
            };
            assert!(
                (by, *kind) == (0, NoteKind::Task) && busy <= elapsed,
                "{note:?}"
            );
            if state != task_state::DROPPED
                && lane
                    .thread
                    .counts
                    .is_some_and(|counts| counts.overwritten == 0)
            {
                assert_eq!(open.last(), Some(&name), "{note:?}");
            }
            let known = tasks.entry(task).or_insert(Task {
                name: trace.name_of(name << 1),
                parent,
                state,
                polls,
                elapsed,
                busy,
                threads: Vec::new(),
            });
            assert_eq!(
                (known.parent, &known.name),
                (parent, &trace.name_of(name << 1))
            );
            known.threads.push(lane.thread.name.clone());
            if known.polls <= polls {
                (known.state, known.polls) = (state, polls);
                (known.elapsed, known.busy) = (elapsed, busy);
            }
        }
    }
    tasks
}

/// Runs the program, and gives its trace and what it printed.
fn run(folder: &Folder, variables: &str, words: &[&str]) -> (Trace, String) {
    let program = Program::named("tasks", folder);
    let outcome = program.set(variables).args(words).run().ok();
    (Trace::verified(&folder.only_trace()), outcome.stdout)
}

/// The rows of `fdr report --tasks --json`, by name.
fn report(folder: &Folder, more: &str) -> BTreeMap<String, Value> {
    let report = json(&format!("report --tasks {more}"), &[&folder.only_trace()]);
    by_name(&report["tasks"])
}

/// Finished, dropped, and unfinished tasks.
fn ends(row: &Value) -> [u64; 3] {
    ["finished", "dropped", "unfinished"].map(|end| row[end].as_u64().expect("a count"))
}

const FINISHED: u8 = task_state::FINISHED;
const DROPPED: u8 = task_state::DROPPED;

/// Tasks by the names of their functions.
struct NamedTasks {
    tasks: BTreeMap<u64, Task>,
}

impl NamedTasks {
    fn all(&self, name: &str) -> Vec<(u64, &Task)> {
        let name = format!("programs::tasks::{name}");
        let tasks = self.tasks.iter().filter(|(_, task)| task.name == name);
        tasks.map(|(id, task)| (*id, task)).collect()
    }

    fn only(&self, name: &str) -> (u64, &Task) {
        let tasks = self.all(name);
        assert_eq!(tasks.len(), 1, "{name} {tasks:?}");
        tasks[0]
    }

    fn id(&self, name: &str) -> u64 {
        self.only(name).0
    }

    fn parent(&self, name: &str) -> u64 {
        self.only(name).1.parent
    }

    /// The state at the end, and the polls until then.
    fn end(&self, name: &str) -> (u8, u64) {
        let (_, task) = self.only(name);
        (task.state, task.polls)
    }
}

#[test]
fn tasks_have_names_parents_polls_and_ends() {
    for variables in ["FDR_KEEP=0", "", "FDR_CLOCK=monotonic"] {
        println!("{variables}");
        let folder = Folder::new("tasks-kinds");
        let (trace, _) = run(&folder, &format!("FDR=* {variables}"), &["kinds"]);
        let tasks = tasks_of(&trace);
        let tasks = NamedTasks { tasks };
        check_awaited_tasks(&tasks);
        check_combined_tasks(&tasks);
        check_moved_tasks(&tasks);
        // One of each was never polled. It has a note if it is in no totals.
        for (name, polls) in [("boxes", 3), ("makes", 5)] {
            let ends: Vec<_> = tasks
                .all(name)
                .iter()
                .map(|(_, task)| (task.state, task.polls))
                .collect();
            let wanted = [(FINISHED, polls), (DROPPED, 0)];
            let count = if variables == "FDR_KEEP=0" { 2 } else { 1 };
            assert_eq!(ends, wanted[..count], "{name}");
        }
        check_report(&folder);
    }
}

/// The one that is awaited alone, and the two inside of `outer`.
fn check_awaited_tasks(tasks: &NamedTasks) {
    let (outer, task) = tasks.only("outer");
    assert_eq!((task.state, task.polls, task.parent), (FINISHED, 4, 0));
    let waits: Vec<_> = tasks
        .all("waits")
        .iter()
        .map(|(_, task)| (task.parent, task.state, task.polls))
        .collect();
    assert_eq!(
        waits,
        [(0, FINISHED, 3), (outer, FINISHED, 3), (outer, FINISHED, 2)]
    );
}

/// Tasks of `select!` and `join!`, and one that panics.
fn check_combined_tasks(tasks: &NamedTasks) {
    let selects = tasks.id("selects");
    assert_eq!(
        (tasks.end("slow"), tasks.parent("slow")),
        ((DROPPED, 2), selects)
    );
    assert_eq!(
        (tasks.end("quick"), tasks.parent("quick")),
        ((FINISHED, 2), selects)
    );
    let joins = tasks.id("joins");
    assert_eq!(
        (tasks.end("joins"), tasks.end("left"), tasks.end("right")),
        ((FINISHED, 5), (FINISHED, 3), (FINISHED, 5))
    );
    assert_eq!(
        (tasks.parent("left"), tasks.parent("right")),
        (joins, joins)
    );
    assert_eq!(tasks.end("panics"), (DROPPED, 2));
}

/// Tasks that are spawned, boxed, dropped, moved and left open, and functions without tasks.
fn check_moved_tasks(tasks: &NamedTasks) {
    assert_eq!(tasks.all("untimed").len(), 0);
    let spawns = tasks.id("spawns");
    assert_eq!((tasks.parent("child"), tasks.parent("orphan")), (spawns, 0));
    assert_eq!(
        (tasks.end("boxed"), tasks.end("dropped")),
        ((FINISHED, 2), (DROPPED, 1))
    );
    assert_eq!(tasks.all("makes_untimed").len(), 0);
    let (_, moves) = tasks.only("moves");
    assert_eq!((moves.state, moves.polls), (FINISHED, 4));
    assert_eq!(moves.threads.len(), 4);
    let of_trait = tasks
        .tasks
        .values()
        .filter(|task| task.name.ends_with("Service>::call"));
    assert_eq!(of_trait.count(), 1);
    assert_eq!(tasks.end("left_open"), (task_state::WAITING, 2));
}

fn check_report(folder: &Folder) {
    let rows = report(folder, "");
    for (name, wanted) in [
        ("waits", [3, 0, 0]),
        ("slow", [0, 1, 0]),
        ("panics", [0, 1, 0]),
        ("never polled", [0, 1, 0]),
        ("moves", [1, 0, 0]),
        ("boxes", [1, 1, 0]),
        ("makes", [1, 1, 0]),
        ("left_open", [0, 0, 1]),
    ] {
        assert_eq!(
            ends(&rows[&format!("programs::tasks::{name}")]),
            wanted,
            "{name}"
        );
    }
    for name in ["never polled", "boxes", "makes"] {
        let row = &rows[&format!("programs::tasks::{name}")];
        assert_eq!(row["never_polled"], 1, "{name}");
    }
    let trace = folder.only_trace();
    let table = fdr("report --tasks", &[&trace]);
    assert!(
        table.contains("3 tasks never polled: 1 of programs::tasks::"),
        "{table}"
    );
    // What is counted of tasks is no function of the other report.
    let table = fdr("report", &[&trace]);
    assert!(
        !table.contains("tasks}") && table.contains("(--tasks)"),
        "{table}"
    );
}

/// A number that the program printed.
fn printed(text: &str, label: &str) -> u64 {
    let mut words = text.split_whitespace();
    let _ = words.find(|word| *word == label);
    words
        .next()
        .and_then(|word| word.parse().ok())
        .expect(label)
}

/// Tasks that leave no note are counted, so the sums are exact whatever the ring holds.
#[test]
fn sums_of_many_tasks_agree() {
    sums_of_tasks(20_000);
}

mod the_rest {
    #[test]
    fn sums_of_100000_tasks_agree() {
        super::sums_of_tasks(100_000);
    }
}

fn sums_of_tasks(count: u64) {
    for variables in [
        "FDR_KEEP=3600s FDR_BUFFER=128K",
        "",
        "FDR_KEEP=0 FDR_BUFFER=64M",
    ] {
        let folder = Folder::new("tasks-many");
        let (trace, text) = run(
            &folder,
            &format!("FDR=* {variables}"),
            &["many", &count.to_string(), "2"],
        );
        let rows = report(&folder, "");
        let row = &rows["programs::tasks::request"];
        let (finished, dropped) = (printed(&text, "finished"), printed(&text, "dropped"));
        assert_eq!(finished + dropped, count);
        assert_eq!(ends(row), [finished, dropped, 0], "{variables}");
        assert_eq!(row["tasks"], count, "{variables}");
        // What the program measures of a poll is around what the recorder measures.
        let number = |field: &str| row[field].as_u64().expect("a number");
        let [busy, elapsed] = ["busy_ns", "elapsed_ns"].map(number);
        assert!(
            busy > 0 && busy <= printed(&text, "busy_ns"),
            "{variables}: {busy} {text}"
        );
        assert!(
            elapsed > 0 && elapsed <= printed(&text, "elapsed_ns"),
            "{variables}: {text}"
        );
        assert!(number("waiting_ns") > 0 && number("elapsed_max_ns") <= elapsed);
        // The notes alone know of fewer tasks, if the ring is small.
        let noted = report(&folder, "--window");
        let noted = noted["programs::tasks::request"]["tasks"]
            .as_u64()
            .expect("a count");
        assert_eq!(
            noted < count,
            !variables.contains("KEEP=0"),
            "{variables}: {noted}"
        );
        let edges = trace
            .threads
            .iter()
            .map(|lane| lane.checked_counts().recorded);
        assert_eq!(
            edges.sum::<u64>(),
            2 * printed(&text, "polls"),
            "{variables}"
        );
    }
}

#[test]
fn a_kill_leaves_tasks_unfinished() {
    let folder = Folder::new("tasks-kill");
    std::fs::create_dir(folder.join("rings")).expect("a folder");
    let program = Program::named("tasks", &folder);
    let outcome = program.set("FDR=* FDR_DIR=rings/").args(&["kill"]).run();
    assert!(!outcome.status.success());
    let ring = only_ring(&folder);
    let found = by_name(&json("report --tasks", &[&ring])["tasks"]);
    assert_eq!(ends(&found["programs::tasks::waits"]), [1, 0, 0]);
    assert_eq!(ends(&found["programs::tasks::left_open"]), [0, 0, 1]);
}

#[test]
fn state_shows_what_hung_tasks_await() {
    let folder = Folder::new("tasks-hang");
    std::fs::create_dir(folder.join("rings")).expect("a folder");
    let program = Program::named("tasks", &folder);
    let program = program.set("FDR=* FDR_DIR=rings/ FDR_KEEP=0");
    assert!(!program.args(&["hang", "10"]).run().status.success());
    let ring = only_ring(&folder);
    let tasks = &json("state", &[&ring])["tasks"];
    assert_eq!(tasks["open"], 3 + 9 * 2);
    assert_eq!(tasks["without_records"], serde_json::json!([]));
    let short = |name: &Value| {
        name.as_str()
            .expect("a name")
            .replace("programs::tasks::", "")
    };
    let stacks = tasks["stacks"].as_array().expect("stacks").iter();
    let stacks: BTreeMap<String, &Value> = stacks
        .map(|stack| {
            let functions = stack["functions"].as_array().expect("names").iter();
            (functions.map(short).collect::<Vec<_>>().join(" "), stack)
        })
        .collect();
    let names: Vec<&str> = stacks.keys().map(String::as_str).collect();
    let hung = "connection locked_request lock";
    assert_eq!(names, [hung, "connection read_frame"]);
    assert_eq!(stacks["connection read_frame"]["count"], 9);
    let hung = &stacks[hung];
    assert_eq!(hung["count"], 1);
    let stack = hung["longest"][0].as_array().expect("tasks");
    assert_eq!(stack[0]["arguments"][0]["fields"][0]["value"], 0);
    assert_eq!(stack[1]["last_event"]["fields"][0]["value"], "accounts");
    let polls: Vec<_> = stack.iter().map(|task| task["polls"].as_u64()).collect();
    assert_eq!(polls, [Some(2); 3]);
    let waits = stack[2]["waits_ns"].as_u64();
    assert!(waits.is_some() && waits <= stack[2]["open_ns"].as_u64());
    // By default, a short poll may leave no records. The counts of open tasks are exact.
    let folder = Folder::new("tasks-hang-default");
    std::fs::create_dir(folder.join("rings")).expect("a folder");
    let program = Program::named("tasks", &folder);
    let program = program.set("FDR=* FDR_DIR=rings/ FDR_BUFFER=256K");
    assert!(!program.args(&["hang", "2000"]).run().status.success());
    let tasks = &json("state", &[&only_ring(&folder)])["tasks"];
    assert_eq!(tasks["open"], 3 + 1999 * 2);
}

#[test]
fn tasks_of_a_panic_are_a_stack() {
    let folder = Folder::new("tasks-panic");
    let program = Program::named("tasks", &folder);
    let program = program.set("FDR=* FDR_TRIGGER=panic");
    let _ = program.args(&["panic"]).run().ok();
    let trace = folder.only_trace();
    let tasks = &json("replay --before-panic", &[&trace])["tasks"];
    assert_eq!(
        (&tasks["open"], &tasks["without_records"]),
        (&8.into(), &serde_json::json!([]))
    );
    let first = &tasks["stacks"][0];
    let wanted = ["programs::tasks::handle", "programs::tasks::check"];
    assert_eq!(first["functions"], serde_json::json!(wanted));
    let stack = first["longest"][0].as_array().expect("tasks");
    assert_eq!(stack[0]["arguments"][0]["fields"][0]["value"], 7);
    assert!(stack[0]["id"].is_u64() && stack[0]["polls"] == 2);
    // It has no note yet.
    assert!(stack[1]["id"].is_null() && stack[1]["polled_ns"].is_u64());
    assert_eq!(tasks["stacks"][1]["count"], 3);
    let text = fdr("replay --before-panic", &[&trace]);
    assert!(text.contains("\n8 tasks open\n"), "{text}");
    assert!(json("replay", &[&trace])["tasks"].is_null());
}

#[test]
fn off_means_that_no_task_is_made() {
    let folder = Folder::new("tasks-off");
    let program = Program::named("tasks", &folder);
    let _ = program.args(&["many", "100", "1"]).run().ok();
    assert_eq!(folder.names().len(), 0);
    // A filter that leaves the functions out leaves nothing of their tasks either.
    let (trace, _) = run(
        &folder,
        "FDR=programs::tasks::no_such*,programs::tasks::waits",
        &["kinds"],
    );
    let names: Vec<_> = tasks_of(&trace)
        .into_values()
        .map(|task| (task.name, task.parent))
        .collect();
    let wanted = vec![("programs::tasks::waits".to_owned(), 0); 3];
    assert_eq!(names, wanted);
}

#[test]
fn functions_whose_tasks_were_not_all_counted_are_named() {
    let folder = Folder::new("tasks-budget");
    let program = Program::named("tasks", &folder).args(&["many", "100000", "2"]);
    let program = program.set("FDR=1 FDR_OUT=app.fdr FDR_BUDGET=0.0001% FDR_BUFFER=256K");
    drop(program.run().ok());
    let tasks = json("report --tasks", &[&folder.join("app.fdr")]);
    let request = "programs::tasks::request";
    assert_eq!(tasks["only_counted"], serde_json::json!([request]));
    assert_eq!(by_name(&tasks["tasks"])[request]["unfinished"], 0);
}
