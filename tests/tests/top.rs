//! `fdr top`: its figures are the same as those of a trace of the same moment, and as the counts of the program itself.
//! When it ends, the terminal is as before.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::wait::until;
use serde_json::Value;

use crate::control::{self, VARIABLES, call};
use fdr_tests::support::tool::{self, fdr, json, number};

fn start(program: Program, variables: &str, arguments: &[&str]) -> Running {
    let program = program.set(VARIABLES).set(variables);
    program.args(arguments).start_ready()
}

/// `fdr top` of that process. It runs until the process ends.
fn top(folder: &Folder, process: u32, options: &[&str]) -> Program {
    let program = Program::new(fdr_tests::tool(), folder);
    program.args(&["top", &process.to_string()]).args(options)
}

/// One document.
fn once(folder: &Folder, process: u32, options: &[&str]) -> Value {
    let options = [&["--once", "--json", "--every", "20ms"], options].concat();
    let outcome = top(folder, process, &options).run().ok();
    serde_json::from_str(&outcome.stdout).expect("JSON")
}

fn documents(text: &str) -> Vec<Value> {
    let documents = serde_json::Deserializer::from_str(text).into_iter();
    documents.map(|document| document.expect("JSON")).collect()
}

/// The row of a function; null: it has none.
fn row<'a>(rows: &'a Value, name: &str) -> &'a Value {
    tool::row(rows, name).unwrap_or(&Value::Null)
}

fn sum(rows: &Value, number: impl Fn(&Value) -> u64) -> u64 {
    rows.as_array().expect("rows").iter().map(number).sum()
}

/// The names of all fields.
fn fields(document: &Value) -> Vec<String> {
    match document {
        Value::Array(all) => all.iter().flat_map(fields).collect(),
        Value::Object(all) => {
            let inner = all.values().flat_map(fields);
            all.keys().cloned().chain(inner).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn top_agrees_with_a_simultaneous_trace() {
    for variables in ["", "FDR_KEEP=1ns", "FDR_CLOCK=monotonic"] {
        let folder = Folder::new("top-moment");
        let mut program = control::start(&folder, variables, &[]);
        call(&mut program, 12_345);
        let found = once(&folder, program.id(), &[]);
        let trace = folder.join("now.fdr");
        let _ = fdr(&format!("dump -q {} -o", program.id()), &[&trace]);
        let report = json("report", &[&trace]);
        let name = "programs::controlled::exactly";
        let (ours, theirs) = (
            row(&found["functions"], name),
            row(&report["whole_run"], name),
        );
        assert_eq!(ours["calls"], 12_345);
        for field in ["calls", "file", "line"] {
            assert_eq!(ours[field], theirs[field], "{variables}: {field}");
        }
        // The clock's rate may have been measured again in between.
        for (our, their) in [
            ("total_ns", "total_ns"),
            ("self_ns", "self_ns"),
            ("longest_ns", "max_ns"),
        ] {
            let (our, their) = (number(&ours[our]), number(&theirs[their]));
            let error = 1 + our / 10_000;
            assert!(our.abs_diff(their) <= error, "{variables}: {our} {their}");
        }
        // Nothing happened meanwhile.
        assert_eq!(number(&ours["interval"]["calls"]), 0);
        assert_eq!(ours["interval"]["p99_ns"], Value::Null);
        assert_eq!(found["program"], "programs");
    }
}

#[test]
fn samples_lose_no_call_until_the_end() {
    for (arguments, calls) in [(&[][..], 2_000), (&["load"], 500), (&["load", "auto"], 500)] {
        let folder = Folder::new("top-exact");
        // Each call is counted, and none is estimated.
        let mut program = control::start(&folder, "FDR_BUDGET=0", arguments);
        let options = ["--json", "--every", "20ms"];
        let mut looking = top(&folder, program.id(), &options).start();
        // It has looked once at least.
        assert_eq!(looking.line(), "{");
        let before = once(&folder, program.id(), &[]);
        (0..4).for_each(|_| call(&mut program, calls / 4));
        let after = once(&folder, program.id(), &[]);
        let outcome = program.end().ok();
        let counted = outcome
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("calls "));
        let counted: u64 = counted.expect("a count").parse().expect("a number");
        let shown = looking.end().ok();
        let documents = documents(&shown.stdout);
        let (last, all) = (documents.last().expect("one"), documents.len());
        assert!(
            last["over"]
                .as_str()
                .is_some_and(|over| over.ends_with("has ended"))
        );
        assert!(
            documents[..all - 1]
                .iter()
                .all(|document| document["over"].is_null())
        );
        assert_eq!(
            sum(&last["functions"], |row| number(&row["calls"])),
            counted
        );
        // All intervals together are what happened since the first look.
        let exactly = |document: &Value, number_of: &dyn Fn(&Value) -> u64| {
            let row = row(&document["functions"], "programs::controlled::exactly");
            if row.is_null() { 0 } else { number_of(row) }
        };
        let of_intervals = |row: &Value| number(&row["interval"]["calls"]);
        let new: u64 = documents
            .iter()
            .map(|document| exactly(document, &of_intervals))
            .sum();
        assert_eq!(new, calls);
        let runs =
            [&before, &after].map(|document| exactly(document, &|row| number(&row["calls"])));
        assert_eq!(runs[1] - runs[0], calls);
    }
}

#[test]
fn functions_have_states_where_the_process_tells_them() {
    let folder = Folder::new("top-states");
    let program = start(
        Program::named("states", &folder),
        "FDR_SCHED=1",
        &["endless"],
    );
    let with_states = || {
        let options = ["--json", "--every", "200ms", "--limit", "6"];
        let outcome = top(&folder, program.id(), &options).run().ok();
        // The first look may come before the first switches. Then the first interval with states begins before they are
        // known.
        let documents = documents(&outcome.stdout).into_iter();
        let mut known = documents.filter(|document| !document["states_over_ns"].is_null());
        known.nth(1)
    };
    // On a busy machine the recorder brings switches into the ring late.
    let Some(found) = (0..5).find_map(|_| with_states()) else {
        let outcome = program.end().ok();
        assert!(
            outcome.stderr.contains(super::thread_states::REFUSED),
            "{outcome:?}"
        );
        return;
    };
    let over = number(&found["states_over_ns"]);
    let documented = include_str!("../../docs/json.md");
    for field in fields(&found) {
        assert!(documented.contains(&format!("`{field}`")), "{field}");
    }
    let times = |rows: &Value, name: &str| {
        let states = &row(rows, name)["interval"]["states"]["self"];
        ["running_ns", "preempted_ns", "waiting_ns", "unknown_ns"]
            .map(|state| number(&states[state]))
    };
    let all = &found["functions"];
    let spin = times(all, "programs::states::spin");
    let sleep = times(all, "programs::states::sleep");
    for [running, preempted, waiting, unknown] in [spin, sleep] {
        let known = running + preempted + waiting;
        assert_eq!(unknown, 0, "{found:#}");
        assert!(known <= over && known > over / 2, "{found:#}");
    }
    assert!(spin[0] + spin[1] > 10 * spin[2], "{spin:?}");
    assert!(sleep[2] > 10 * sleep[0], "{sleep:?}");
    let threads = found["threads"].as_array().expect("threads");
    for (thread, name, wanted) in [
        ("spinner", "programs::states::spin", spin),
        ("sleeper", "programs::states::sleep", sleep),
    ] {
        let mut threads = threads.iter();
        let thread = threads.find(|row| row["name"] == thread).expect("a thread");
        assert_eq!(times(&thread["functions"], name), wanted, "{thread:#}");
    }
    // Without the states, these fields are null.
    let program = Program::named("states", &folder);
    let program = start(program, "FDR_SCHED=0", &["endless"]);
    let found = once(&folder, program.id(), &[]);
    assert!(found["states_over_ns"].is_null(), "{found:#}");
    let spin = row(&found["functions"], "programs::states::spin");
    assert!(spin["interval"]["states"].is_null(), "{spin:#}");
}

#[test]
fn open_calls_count_and_threads_have_states() {
    let folder = Folder::new("top-open");
    let program = start(Program::named("locks", &folder), "", &["deadlock"]);
    let found = once(&folder, program.id(), &["--threads"]);
    let documented = include_str!("../../docs/json.md");
    for field in fields(&found) {
        assert!(
            documented.contains(&format!("`{field}`")),
            "{field} is not in docs/json.md"
        );
    }
    let interval = number(&found["interval_ns"]);
    let functions = &found["functions"];
    let [first, second] =
        ["programs::locks::first", "programs::locks::second"].map(|name| row(functions, name));
    let times = |row: &Value| {
        let interval = &row["interval"];
        (number(&interval["total_ns"]), number(&interval["self_ns"]))
    };
    // Two threads are in it, and it calls nothing.
    let (total, own) = times(first);
    assert!(total > 0 && total == own, "{first}");
    assert_eq!(
        (number(&first["calls"]), number(&first["total_ns"])),
        (0, 0)
    );
    // All its time is in the call inside.
    let (total, own) = times(second);
    assert!(total > 0 && own == 0, "{second}");
    for name in ["pay", "audit"] {
        let thread = row(&found["threads"], name);
        assert_eq!(thread["function"], "programs::locks::first");
        assert!(number(&thread["open_ns"]) > 0);
        let states = ["running_ns", "ready_ns", "waiting_ns"].map(|state| number(&thread[state]));
        assert_eq!(states.iter().sum::<u64>(), interval);
        assert_eq!(
            row(&thread["functions"], "programs::locks::first")["id"],
            first["id"]
        );
    }
}

#[test]
fn unwatchable_processes_are_reported() {
    let folder = Folder::new("top-refused");
    let refused = |process: u32| {
        let outcome = top(&folder, process, &["--once"]).run();
        assert_eq!(outcome.status.code(), Some(2), "{outcome:?}");
        outcome.stderr
    };
    let program = control::start(&folder, "FDR_KEEP=0", &[]);
    let why = refused(program.id());
    assert!(why.contains("keeps no sums of its calls"), "{why}");
    let why = refused(std::process::id());
    assert!(why.contains("does not record"), "{why}");
    drop(program);
    // A child of a fork has the ring of its parent, or its own one.
    let mut parent = control::start(&folder, "", &[]);
    let mut fork = |line: &str| -> u32 {
        parent.tell(line);
        let child = parent.line().parse().expect("a number");
        assert_eq!(parent.line(), "done");
        child
    };
    let child = fork("fork enable");
    let found = until("the child's ring", || {
        let outcome = top(&folder, child, &["--once", "--json", "--every", "20ms"]).run();
        serde_json::from_str::<Value>(&outcome.stdout).ok()
    });
    assert_eq!(found["process"], child);
    call(&mut parent, 7);
    let found = once(&folder, parent.id(), &[]);
    assert_eq!(
        row(&found["functions"], "programs::controlled::exactly")["calls"],
        7
    );
}

#[test]
fn names_are_no_more_than_text() {
    let folder = Folder::new("top-hostile");
    let hostile = Program::new(env!("CARGO_BIN_EXE_hostile"), &folder);
    let program = start(hostile, "", &["wait"]);
    for options in [&["--once"][..], &["--once", "--threads"]] {
        let outcome = top(&folder, program.id(), options)
            .args(&["--every", "20ms"])
            .run()
            .ok();
        let is_harmless = |character: char| character == '\n' || !character.is_control();
        assert!(
            outcome.stdout.chars().all(is_harmless),
            "{:?}",
            outcome.stdout
        );
        assert!(outcome.stdout.lines().count() > 2, "{:?}", outcome.stdout);
        assert!(!outcome.stdout.contains(['\u{202e}', '\u{200b}']));
    }
}

/// `fdr top` on a terminal, of util-linux's `script`.
struct OnTerminal<'a> {
    folder: &'a Folder,
    script: Child,
}

impl OnTerminal<'_> {
    fn start(folder: &Folder, process: u32) -> OnTerminal<'_> {
        let tool = fdr_tests::tool();
        let tool = tool.to_str().expect("UTF-8");
        let line = format!(
            "stty cols 80 rows 24; stty -g > before; \
             sh -c 'echo $$ > pid; exec env --default-signal=HUP {tool} top {process} --every 50ms'; \
             echo $? > code; stty -g > after"
        );
        let output = File::create(folder.join("screen")).expect("a file");
        let script = Command::new("script")
            .args(["-qec", &line, "/dev/null"])
            .current_dir(folder.path())
            .env("TERM", "xterm")
            .stdin(Stdio::piped())
            .stdout(output)
            .spawn();
        OnTerminal {
            folder,
            script: script.expect("script, of util-linux, is there"),
        }
    }

    fn screen(&self) -> String {
        let bytes = fs::read(self.folder.join("screen")).expect("a file");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn shows(&self, what: &str) {
        until(what, || self.screen().contains(what).then_some(()));
    }

    fn press(&mut self, keys: &str) {
        let input = self.script.stdin.as_mut().expect("piped");
        input.write_all(keys.as_bytes()).expect("it reads");
    }

    fn signal(&self, signal: &str) {
        let pid = fs::read_to_string(self.folder.join("pid")).expect("a number");
        let status = Command::new("kill").args([signal, pid.trim()]).status();
        assert!(status.is_ok_and(|status| status.success()));
    }

    /// Waits for the end. The terminal is as before. Returns the exit code.
    fn ended(mut self) -> String {
        let code = until("its end", || {
            fs::read_to_string(self.folder.join("after"))
                .ok()
                .filter(|after| !after.is_empty())?;
            fs::read_to_string(self.folder.join("code")).ok()
        });
        let _ = self.script.wait();
        let read = |name| fs::read_to_string(self.folder.join(name)).expect(name);
        assert_eq!(read("before"), read("after"));
        let screen = self.screen();
        let times = |what| screen.matches(what).count();
        assert_eq!((times("\x1b[?1049h"), times("\x1b[?1049l") > 0), (1, true));
        let (enters, leaves) = (screen.find("\x1b[?1049h"), screen.rfind("\x1b[?1049l"));
        assert!(
            enters < leaves && screen.contains("\x1b[?25h"),
            "{screen:?}"
        );
        code.trim().to_owned()
    }
}

#[test]
fn the_terminal_is_given_back() {
    for (how, wanted) in [("q", "0"), ("\x03", "0"), ("-TERM", "143"), ("-HUP", "129")] {
        let folder = Folder::new("top-terminal");
        let program = control::start(&folder, "", &["load"]);
        let mut terminal = OnTerminal::start(&folder, program.id());
        terminal.shows("near::leaf");
        terminal.press("\t");
        terminal.shows("running");
        match how.starts_with('-') {
            true => terminal.signal(how),
            false => terminal.press(how),
        }
        assert_eq!(terminal.ended(), wanted, "{how:?}");
    }
}

#[test]
fn dumps_and_process_ends_are_shown() {
    let folder = Folder::new("top-ended");
    let mut program = control::start(&folder, "", &[]);
    call(&mut program, 3);
    let mut terminal = OnTerminal::start(&folder, program.id());
    terminal.shows("programs::controlled::exactly");
    terminal.press("d");
    terminal.shows("trace: ");
    assert_eq!(folder.files("out").len(), 1);
    let _ = program.end().ok();
    terminal.shows("ended");
    assert!(
        folder.join("pid").exists() && !folder.join("code").exists(),
        "it stays"
    );
    terminal.press("q");
    assert_eq!(terminal.ended(), "0");
}
