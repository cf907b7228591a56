//! Traces that know when their threads ran, were preempted and waited: what the commands say of that.

use fdr_formats::model::{Account, CpuId, Schedule, State, Switch};
use fdr_formats::{ThreadId, Ticks, TraceInfo};

use crate::common::{
    Folder, answer, assert_contains, assert_documented, assert_lacks, assert_refused, calls, fdr,
    in_folder, info, json, stderr, stdout, thread, write,
};

const NAMES: &[&str] = &["app::serve", "app::read", "app::parse"];
const MS: u64 = 1_000_000;

/// What the system did with threads 7 and 8, which ran on CPUs 0 and 1.
pub(crate) fn switches(list: &[(u64, u64, Option<State>)]) -> Vec<Switch> {
    let switch = |&(time, thread, to): &(u64, u64, Option<State>)| Switch {
        time: Ticks(time),
        thread: ThreadId(thread),
        cpu: CpuId(thread as u32 % 7),
        to,
    };
    list.iter().map(switch).collect()
}

/// Thread 7 serves: it reads, which waits, and parses, which is preempted. Of thread 8, the states of its first half are
/// known.
pub(crate) fn trace(path: &str, schedule: Schedule) {
    let main = [
        (0, 1),
        (MS, 2),
        (90 * MS, -2),
        (91 * MS, 3),
        (99 * MS, -3),
        (100 * MS, -1),
    ];
    let worker = [(0, 3), (100 * MS, -3)];
    let threads = [
        (thread(7, "main"), calls(&main)),
        (thread(8, "worker"), calls(&worker)),
    ];
    let info = TraceInfo {
        schedule,
        ..info(NAMES)
    };
    write(path, &info, &threads);
}

pub(crate) fn schedule() -> Schedule {
    let (running, preempted, waiting) = (
        Some(State::Running),
        Some(State::Preempted),
        Some(State::Waiting),
    );
    let account = |time, run_delay_ns| Account {
        time: Ticks(time),
        thread: ThreadId(7),
        running_ns: time,
        run_delay_ns,
        times: 1,
    };
    Schedule {
        switches: switches(&[
            (0, 0, None),
            (2 * MS, 7, waiting),
            (82 * MS, 7, running),
            (92 * MS, 7, preempted),
            (94 * MS, 7, running),
            (0, 8, running),
            (50 * MS, 8, None),
            (200 * MS, 0, None),
        ]),
        accounts: vec![account(0, 5), account(100 * MS, 2 * MS + 5)],
        ..Schedule::default()
    }
}

fn with_schedule(path: &str) {
    trace(path, schedule());
}

#[test]
fn reports_have_states_of_functions_and_threads() {
    let (_folder, path) = in_folder("states-report", "t.fdr", with_schedule);
    let found = json(&["report", "--json", "--sort", "name", &path]);
    let functions = found["functions"].as_array().expect("functions");
    let states = |at: usize, state_name: &str| {
        let fields = ["running_ns", "preempted_ns", "waiting_ns", "unknown_ns"];
        fields.map(|field| {
            functions[at]["states"][state_name][field]
                .as_u64()
                .expect(field)
                / MS
        })
    };
    // app::parse, app::read, app::serve
    assert_eq!(states(0, "total"), [56, 2, 0, 50]);
    assert_eq!(states(0, "self"), [56, 2, 0, 50]);
    assert_eq!(states(1, "self"), [9, 0, 80, 0]);
    assert_eq!(states(2, "total"), [18, 2, 80, 0]);
    assert_eq!(states(2, "self"), [3, 0, 0, 0]);
    let main = &found["threads"][0];
    assert_eq!(main["states"]["waiting_ns"], 80 * MS);
    assert_eq!(main["coarse"]["run_delay_ns"], 2 * MS);
    assert_eq!(found["threads"][1]["states"]["unknown_ns"], 50 * MS);
    assert_documented(&main["states"]);
    assert_documented(&main["coarse"]);

    let table = answer(&["report", "--sort", "waiting", &path]);
    let rows: Vec<Vec<&str>> = table
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    let row = |name: &str| {
        rows.iter()
            .find(|row| row.last() == Some(&name))
            .expect(name)
            .join(" ")
    };
    let head = "running preempted waiting self running self preempted self waiting function";
    assert!(
        rows.iter().any(|row| row.join(" ").ends_with(head)),
        "{table}"
    );
    let of_serve = "18.0 % 2.0 % 80.0 % 100.0 % 0.0 % 0.0 % app::serve";
    assert!(row("app::serve").ends_with(of_serve), "{table}");
    // Shares of what is known.
    let of_parse = "96.6 % 3.4 % 0.0 % 96.6 % 3.4 % 0.0 % app::parse";
    assert!(row("app::parse").ends_with(of_parse), "{table}");
    let known = "known of 75.0 % of the self times";
    assert_contains(&table, known);

    let threads = answer(&["report", "--per-thread", &path]);
    let of_main = "running 18.0 % · preempted 2.0 % · waiting 80.0 % · run delay 2.000 ms";
    assert_contains(&threads, of_main);
    let of_worker = "running 100.0 % · preempted 0.0 % · waiting 0.0 % · not known 50.00 ms";
    assert_contains(&threads, of_worker);
    let csv = answer(&["report", "--csv", "--sort", "name", &path]);
    let read = csv
        .lines()
        .find(|line| line.starts_with("app::read,"))
        .expect("a row");
    assert!(
        read.ends_with(",0,,,9000000,0,80000000,0,9000000,0,80000000,0,false,false"),
        "{csv}"
    );
}

#[test]
fn accounts_alone_are_called_coarse() {
    let folder = Folder::new("states-coarse");
    let path = folder.file("t.fdr");
    let accounts = schedule().accounts;
    trace(
        &path,
        Schedule {
            accounts,
            ..Schedule::default()
        },
    );
    let table = answer(&["report", &path]);
    assert_lacks(&table, "waiting");
    let words =
        "states, coarse: all threads together ran for 100.0 ms and waited for a CPU for 2.000 ms";
    assert_contains(&table, words);
    let threads = answer(&["report", "--per-thread", &path]);
    assert_contains(&threads, "coarse: ran 100.0 ms · run delay 2.000 ms");
    trace(&path, Schedule::default());
    let table = answer(&["report", &path]);
    assert_lacks(&table, "states");
    assert_lacks(&table, "running");
    // Functions of a thread of which nothing is known have no figure.
    let only = switches(&[(0, 9, Some(State::Running))]);
    trace(
        &path,
        Schedule {
            switches: only,
            ..Schedule::default()
        },
    );
    let table = answer(&["report", &path]);
    let row = table
        .lines()
        .find(|line| line.ends_with("app::read"))
        .expect("a row");
    let cells: Vec<&str> = row.split_whitespace().rev().skip(1).take(6).collect();
    assert_eq!(cells, ["-"; 6], "{table}");
}

#[test]
fn flame_graphs_by_state_hold_self_times() {
    let (_folder, path) = in_folder("states-flame", "t.fdr", with_schedule);
    let lines = |by| {
        let output = fdr(&["flame", "--by", by, &path]);
        assert_contains(
            stderr(&output),
            "of 50.00 ms of its threads, no state is known",
        );
        stdout(&output).to_owned()
    };
    assert_eq!(lines("waiting"), "app::serve;app::read 80000000\n");
    assert_eq!(lines("preempted"), "app::serve;app::parse 2000000\n");
    let running = "app::parse 50000000\napp::serve 3000000\napp::serve;app::parse 6000000\napp::serve;app::read 9000000\n";
    assert_eq!(lines("running"), running);
    trace(&path, Schedule::default());
    assert_refused(&["flame", "--by", "waiting", &path], "knows no states");
}

#[test]
fn info_counts_switches_and_verify_checks_order() {
    let folder = Folder::new("states-info");
    let path = folder.file("t.fdr");
    let mut known = schedule();
    known.switches.extend(switches(&[(150 * MS, 0, None)]));
    trace(&path, known.clone());
    let text = answer(&["info", &path]);
    let line = "states     6 changes of 2 threads, over 200.0 ms, some lost at 1 place, 2 readings of the system's sums";
    let text: Vec<&str> = text.split_whitespace().collect();
    let line: Vec<&str> = line.split_whitespace().collect();
    assert!(
        text.windows(line.len()).any(|words| words == line),
        "{text:?}"
    );
    let found = json(&["info", "--json", &path]);
    assert_documented(&found["states"]);
    assert_eq!(found["states"]["gaps"], 1);
    let verdict = || {
        let output = fdr(&["verify", &path]);
        (output.status.code(), stdout(&output).to_owned())
    };
    assert_eq!(verdict().0, Some(0), "{:?}", verdict());
    known
        .switches
        .extend(switches(&[(50 * MS, 7, Some(State::Preempted))]));
    trace(&path, known.clone());
    let (code, text) = verdict();
    assert_eq!(code, Some(1), "{text}");
    let what =
        "thread 7: at tick 50000000 it leaves its CPU, and has none already: switches are missing";
    assert_contains(&text, what);
    // After a loss, all is possible.
    known.switches.extend(switches(&[(40 * MS, 0, None)]));
    trace(&path, known);
    assert_eq!(verdict().0, Some(0), "{:?}", verdict());
}

#[test]
fn states_survive_conversion_or_are_reported_lost() {
    let folder = Folder::new("states-convert");
    let (path, made, back) = (
        folder.file("t.fdr"),
        folder.file("t.ctf"),
        folder.file("u.fdr"),
    );
    trace(&path, schedule());
    let functions = |path: &str| json(&["report", "--json", path])["functions"].clone();
    answer(&["convert", &path, "--to", "ctf", "-o", &made]);
    answer(&["convert", &made, "--to", "xray", "-o", &back]);
    assert_eq!(functions(&made), functions(&path));
    assert_eq!(functions(&back), functions(&path));
    let lines = |path: &str| {
        answer(&["replay", "--records", path])
            .matches("fdr:switch")
            .count()
    };
    assert_eq!(lines(&made), 8);
    // A state history holds the states. The other data is counted as left out.
    let history = folder.file("t.tcstate");
    let output = fdr(&["convert", &path, "--to", "tcstate", "-o", &history]);
    let words = stderr(&output);
    assert_contains(words, "2 accounts (the system's sums");
    assert_lacks(words, "context switches");
    assert_eq!(functions(&history), functions(&path));
    let slow = |path: &str| json(&["slow", "--json", "--over", "1ms", path])["calls"].clone();
    assert_eq!(slow(&history), slow(&path));
    let calls = slow(&path);
    let waits = |call: &serde_json::Value| call["states"]["waiting_ns"] == 80 * MS;
    assert!(
        calls.as_array().expect("an array").iter().any(waits),
        "{calls}"
    );
    answer(&["verify", &history]);
    answer(&[
        "convert",
        &history,
        "--to",
        "xray",
        "-o",
        &folder.file("v.fdr"),
    ]);
    assert_eq!(functions(&folder.file("v.fdr")), functions(&path));
    let lost = fdr(&[
        "convert",
        &path,
        "--to",
        "heph",
        "-o",
        &folder.file("t.heph"),
    ]);
    assert_contains(stderr(&lost), "10 context switches, samples and accounts");
}

#[test]
fn saved_slow_calls_keep_all_thread_states() {
    let folder = Folder::new("states-save");
    let (path, saved) = (folder.file("t.fdr"), folder.file("slow.fdr"));
    trace(&path, schedule());
    let slow = [
        "slow",
        "--filter",
        "app::parse,-app::serve",
        "-n",
        "1",
        "--thread",
        "7",
        &path,
    ];
    let save = [&slow[..], &["--save", &saved]].concat();
    let output = fdr(&save);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fdr(&save).status.code(), Some(2), "it is there");
    assert!(fdr(&[&save[..], &["--force"]].concat()).status.success());
    // 91 to 99 ms: thread 7 was preempted for two of these.
    let found = json(&["report", "--json", &saved]);
    let parse = &found["functions"][0];
    assert_eq!(parse["name"], "app::parse");
    assert_eq!(parse["total_ns"], 8 * MS);
    assert_eq!(parse["states"]["total"]["preempted_ns"], 2 * MS);
    assert_eq!(parse["states"]["total"]["unknown_ns"], 0);
    assert_eq!(parse["clipped"], 0, "{parse}");
    let whole = [&[
        "slow", "--over", "50ms", "-n", "1", &path, "--save", &saved, "--force",
    ][..]]
    .concat();
    assert!(fdr(&whole).status.success());
    assert_eq!(
        json(&["info", "--json", &saved])["threads"]
            .as_array()
            .expect("threads")
            .len(),
        2
    );
}

#[test]
fn states_at_a_moment_show_running_threads() {
    let folder = Folder::new("states-at");
    let (path, history) = (folder.file("t.fdr"), folder.file("t.tcstate"));
    let mut known = schedule();
    // A thread that makes no call.
    known
        .switches
        .extend(switches(&[(60 * MS, 9, Some(State::Running))]));
    trace(&path, known);
    answer(&["convert", &path, "--to", "tcstate", "-o", &history]);
    let at = |time: &str, path: &str| answer(&["state", "--at", time, path]);
    let start = at("1000000", &path);
    assert_contains(
        &start,
        "main\n     running on CPU 0 for at least 1.000 ms\n  1  app::serve",
    );
    // The trace does not say since when thread 8 was on its CPU.
    assert_contains(
        &start,
        "worker\n     running on CPU 1 for at least 1.000 ms\n",
    );
    assert_lacks(&start, "thread 9");
    let wait = at("70000000", &path);
    assert_contains(&wait, "main\n     waiting for 68.00 ms, last on CPU 0\n");
    assert_contains(&wait, "worker\n     state not known\n");
    let silent =
        "\nthread 9\n     running on CPU 2 for 10.00 ms\n     no calls of it are recorded\n";
    assert_contains(&wait, silent);
    assert_lacks(&wait, "Current_cpu_rq");
    assert_lacks(&wait, "Threads/");
    let taken = at("93000000", &path);
    assert_contains(&taken, "main\n     preempted for 1.000 ms, last on CPU 0\n");
    let thread_8 = answer(&["state", "--at", "70000000", "--thread", "8", &path]);
    assert_lacks(&thread_8, "waiting");
    assert_lacks(&thread_8, "thread 9");
    for time in ["1000000", "70000000", "93000000", "end"] {
        assert_eq!(at(time, &history), at(time, &path));
    }
    let found = json(&["state", "--json", "--at", "70000000", &path]);
    let wanted = serde_json::json!({
        "thread": 7, "state": "waiting", "cpu": 0, "since_ns": 2 * MS, "at_least": false,
    });
    assert_eq!(found["states"][0], wanted);
    assert!(found["states"][1]["state"].is_null(), "{found}");
    assert_eq!(found["states"].as_array().expect("an array").len(), 3);
    let attributes = found["attributes"].as_array().expect("an array");
    let value = |path: &[&str]| {
        let found = attributes
            .iter()
            .find(|attribute| attribute["path"] == serde_json::json!(path));
        found.expect("an attribute")["value"].clone()
    };
    assert_eq!(value(&["Threads", "7"]), 1);
    assert_eq!(value(&["Threads", "9", "Current_cpu_rq"]), 2);
    assert_eq!(value(&["CPUs", "2"]), 1);
    assert!(value(&["CPUs", "0"]).is_null());
    let snapshot = folder.file("kernel.snapshot.json");
    answer(&["state", "--at", "70000000", "--snapshot", &snapshot, &path]);
    let text = std::fs::read_to_string(&snapshot).expect("a file");
    let status = r#"{"Path":["Threads","7"],"Value":{"start":70000000,"end":-9223372036854775808,"quark":1,"type":"java.lang.Integer","value":1}}"#;
    assert_contains(&text, status);
}

#[test]
fn calls_of_unknown_states_wait_as_others_do() {
    let folder = Folder::new("states-idle");
    let path = folder.file("t.fdr");
    let mut worker = vec![(0, 1)];
    for at in 1..100 {
        worker.extend([(at * 10_000, 2), (at * 10_000 + 100, -2)]);
    }
    // The states end between two slow calls.
    worker.extend([(10 * MS, 2), (50 * MS, -2), (70 * MS, 2), (100 * MS, -2)]);
    worker.push((120 * MS, -1));
    for (state, idle) in [(State::Waiting, 2), (State::Running, 0)] {
        let list = [
            (0, 7, Some(State::Running)),
            (10 * MS, 7, Some(state)),
            (50 * MS, 7, Some(State::Running)),
            (60 * MS, 7, None),
        ];
        let schedule = Schedule {
            switches: switches(&list),
            ..Schedule::default()
        };
        let info = TraceInfo {
            schedule,
            ..info(&["app::run", "app::next_job"])
        };
        write(&path, &info, &[(thread(7, "worker"), calls(&worker))]);
        let found = json(&["slow", "--json", &path]);
        let calls = found["waits_for_work"][0]["calls"].as_u64();
        assert_eq!(calls.unwrap_or(0), idle, "{found:#}");
        assert_eq!(found["calls"] == serde_json::json!([]), idle > 0);
    }
}
