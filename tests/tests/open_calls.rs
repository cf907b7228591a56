//! Reports that could mislead: a program that hangs, one that panics, and one whose threads' rings hold
//! different stretches of time. What is open lasts until the dump in every command and every format.

use std::fs;
use std::path::{Path, PathBuf};

use fdr_formats::registry;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, Running};
use fdr_tests::support::tool::{fdr, json, number, row, verify};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;
use serde_json::Value;

/// How long the worker is in `apply` at least before `entered` is printed, ms.
const PAUSE_MS: u64 = 200;

fn start(folder: &Folder, variables: &str, arguments: &[&str], line: &str) -> Running {
    let program = Program::named("open_calls", folder);
    fs::create_dir(folder.join("rings")).expect("a folder");
    let program = program.env("FDR_DIR", "rings/");
    let mut running = program.set(variables).args(arguments).start();
    assert_eq!(running.line(), line);
    running
}

/// A program whose thread `worker-3` has been in `apply` for [`PAUSE_MS`].
fn hanging(folder: &Folder) -> Running {
    let pause = PAUSE_MS.to_string();
    start(folder, "FDR=1", &["hang", &pause], "entered")
}

/// All commands say of the trace that `apply` was open in `worker-3`, and for how long; returns that in ns.
fn agreed(path: &Path) -> u64 {
    let report = json("report", &[path]);
    let open = report["open_calls"].as_array().expect("open calls");
    assert_eq!(open.len(), 1, "{open:?}");
    let open = &open[0];
    assert_eq!(open["function"], "programs::open_calls::apply");
    assert_eq!(open["thread_name"], "worker-3");
    assert_eq!(
        (&open["depth"], &open["entered"]),
        (&2.into(), &true.into())
    );
    let open_ns = number(&open["open_ns"]);
    let same = |ns: u64| assert!(ns.abs_diff(open_ns) <= 1, "{ns} ns, {open_ns} ns");

    let apply = row(&report["functions"], "programs::open_calls::apply").expect("apply");
    same(number(&apply["total_ns"]));
    assert_eq!(apply["clipped"], 1, "{}", report["format"]);
    let self_ns = number(&apply["self_ns"]);

    let folded = fdr("flame", &[path]);
    let line = folded.lines().find_map(|line| {
        line.strip_prefix("programs::open_calls::serve;programs::open_calls::apply;[open] ")
    });
    assert_eq!(line, Some(&*self_ns.to_string()), "{folded}");

    let state = json("state", &[path]);
    let attributes = state["attributes"].as_array().expect("attributes");
    let apply = attributes
        .iter()
        .find(|attribute| attribute["value"] == "programs::open_calls::apply")
        .unwrap_or_else(|| panic!("apply in {attributes:?}"));
    let ns = |value: &Value| value.as_i64().unwrap_or_else(|| panic!("{value}"));
    same(ns(&state["time_ns"]).abs_diff(ns(&apply["since_ns"])));
    open_ns
}

/// The same of the trace, and of what each format makes of it.
fn agreed_in_every_format(folder: &Folder, path: &Path) -> u64 {
    verify(path);
    let open_ns = agreed(path);
    let targets = registry::FORMATS.iter().flat_map(|format| format.targets);
    for target in targets.filter(|target| !target.name.contains("stream")) {
        let copy = folder.join(&format!("copy-{}.{}", target.name, target.extension));
        let _ = fdr(
            &format!("convert -q --to {} -o", target.name),
            &[&copy, path],
        );
        let copied = agreed(&copy);
        assert!(
            copied.abs_diff(open_ns) <= 1,
            "{}: {copied} ns",
            target.name
        );
        verify(&copy);
    }
    open_ns
}

fn one_trace(folder: &Folder) -> PathBuf {
    until("a trace", || folder.ending(".fdr").pop())
}

#[test]
fn a_hang_is_seen_by_a_dump() {
    let folder = Folder::new("open-dump");
    let program = hanging(&folder);
    program.signal("USR2");
    let path = one_trace(&folder);
    let open_ns = agreed_in_every_format(&folder, &path);
    assert!(open_ns >= PAUSE_MS * 1_000_000, "{open_ns} ns");
    // The trace says when it is of, and that is where the open calls end.
    let trace = Trace::read(&path);
    assert!(
        trace
            .info
            .end
            .is_some_and(|end| Some(end) > trace.info.start)
    );
    for command in ["report", "info"] {
        let text = fdr(command, &[&path]);
        let wanted = "when it was dumped: programs::open_calls::apply in worker-3 for ";
        assert!(text.contains(wanted), "{text}");
    }
    let _ = program.end().ok();
}

#[test]
fn hangs_show_in_dumps_of_other_formats() {
    for target in registry::recorded() {
        let folder = Folder::new("open-format");
        let pause = PAUSE_MS.to_string();
        let variables = format!("FDR=1 FDR_OUT=trace FDR_FORMAT={}", target.name);
        let program = start(&folder, &variables, &["hang", &pause], "entered");
        program.signal("USR2");
        let path = folder.join("trace");
        until("a trace", || path.exists().then_some(()));
        verify(&path);
        let open_ns = agreed(&path);
        let least = PAUSE_MS * 1_000_000;
        assert!(open_ns >= least, "{}: {open_ns} ns", target.name);
        let _ = program.end().ok();
    }
}

#[test]
fn a_hang_is_seen_from_outside() {
    let folder = Folder::new("open-snapshot");
    let program = hanging(&folder);
    let path = folder.join("snapshot.fdr");
    let _ = fdr(&format!("dump -q {} -o", program.id()), &[&path]);
    let open_ns = agreed_in_every_format(&folder, &path);
    assert!(open_ns >= PAUSE_MS * 1_000_000, "{open_ns} ns");
    // And the ring itself, which each command reads at a later moment.
    let report = json("report", &[&only_ring(&folder)]);
    assert!(
        number(&report["open_calls"][0]["open_ns"]) >= open_ns,
        "{report}"
    );
    let _ = program.end().ok();
}

#[test]
fn hangs_show_after_a_kill() {
    let folder = Folder::new("open-kill");
    let program = hanging(&folder);
    program.signal("KILL");
    let _ = program.end();
    // `main` has made a record after the pause: the latest that is known.
    let open_ns = agreed_in_every_format(&folder, &only_ring(&folder));
    assert!(open_ns >= PAUSE_MS * 1_000_000, "{open_ns} ns");
    let text = fdr("report", &[&only_ring(&folder)]);
    assert!(
        text.contains("open when it was killed: programs::open_calls::apply in worker-3 for "),
        "{text}"
    );
}

#[test]
fn a_hang_is_seen_in_a_crash() {
    let folder = Folder::new("open-crash");
    let program = hanging(&folder);
    program.signal("ABRT");
    let _ = program.end();
    let open_ns = agreed_in_every_format(&folder, &one_trace(&folder));
    assert!(open_ns >= PAUSE_MS * 1_000_000, "{open_ns} ns");
}

#[test]
fn hangs_show_in_streams() {
    for target in registry::recorded() {
        let folder = Folder::new("open-stream");
        let variables = "FDR=1 FDR_MODE=stream FDR_OUT=trace";
        let program = Program::named("open_calls", &folder);
        let program = program.set(variables).env("FDR_FORMAT", target.name);
        let pause = PAUSE_MS.to_string();
        let mut program = program.args(&["leave", &pause]).start();
        assert_eq!(program.line(), "entered", "{}", target.name);
        program.tell("");
        let _ = program.end().ok();
        let open_ns = agreed(&folder.join("trace"));
        let least = PAUSE_MS * 1_000_000;
        assert!(open_ns >= least, "{}: {open_ns} ns", target.name);
    }
}

#[test]
fn panics_are_named_and_come_first() {
    let folder = Folder::new("open-panic");
    let program = Program::named("open_calls", &folder);
    let program = program.set("FDR=1 FDR_PANIC=1").env("FDR_OUT", "%n.fdr");
    let outcome = program.args(&["panic"]).run().ok();
    assert_eq!(outcome.stdout, "true\n");
    // The program's own hook says it, too.
    assert!(outcome.stderr.contains("thread 'worker-3'"), "{outcome:?}");
    let path = folder.join("1.fdr");
    let trace = Trace::verified(&path);
    let thrower = trace.thread("worker-3").thread.id;
    assert_eq!(trace.info.failed_thread(), Some(thrower));
    assert_eq!(trace.names()[0], "worker-3");
    let reason = &trace.info.reason;
    let begin =
        format!("panic in thread {thrower} (worker-3) at tests/src/bin/programs/open_calls.rs:");
    let end = ": index out of bounds: the len is 1 but the index is 1";
    assert!(
        reason.starts_with(&begin) && reason.ends_with(end),
        "{reason}"
    );
    for command in ["report --per-thread", "info"] {
        let text = fdr(command, &[&path]);
        assert!(text.contains(reason), "{text}");
        let at = |part: &str| text.rfind(part).unwrap_or_else(|| panic!("{part}: {text}"));
        let thread = |name: &str| trace.thread(name).thread.id.to_string();
        assert!(at(&thread("worker-3")) < at(&thread("waiter")), "{text}");
    }
    let report = json("report", &[&path]);
    assert_eq!(report["failed_thread"], thrower.0);
    assert_eq!(report["threads"][0]["id"], thrower.0);
    assert!(
        Trace::read(&folder.join("2.fdr"))
            .info
            .failed_thread()
            .is_none()
    );
}

#[test]
fn a_panic_may_say_anything() {
    let folder = Folder::new("open-odd-panic");
    let program = Program::named("open_calls", &folder);
    let program = program.set("FDR=1 FDR_PANIC=1").env("FDR_OUT", "%n.fdr");
    let outcome = program.args(&["panic-oddly"]).run().ok();
    assert_eq!(outcome.stdout, "true\ntrue\n");
    let reason = |name: &str| Trace::read(&folder.join(name)).info.reason;
    let value = reason("2.fdr");
    assert!(value.ends_with(": (a value that is no text)"), "{value}");
    let long = reason("1.fdr");
    assert!(
        long.contains(": \x1b[31m\u{e9}") && long.ends_with("\u{e9}…"),
        "{long}"
    );
    assert!(long.len() < 800, "{} bytes", long.len());
    for command in ["report", "info"] {
        let text = fdr(command, &[&folder.join("1.fdr")]);
        assert!(
            text.contains("panic in thread ") && !text.contains('\x1b'),
            "{text}"
        );
    }
}

#[test]
fn differing_windows_are_reported_and_can_be_cut() {
    let folder = Folder::new("open-windows");
    let variables = "FDR=1 FDR_BUFFER=128K";
    let program = start(&folder, variables, &["windows"], "made");
    program.signal("USR2");
    let path = one_trace(&folder);
    let busy = Trace::read(&path).thread("busy").thread.id;
    let report = json("report --window", &[&path]);
    let note = report["window_note"].as_str().expect("windows differ");
    let wanted = format!("older records of busy (thread {busy}) are overwritten");
    assert!(note.contains(&wanted), "{note}");
    assert!(row(&report["functions"], "programs::open_calls::early").is_some());
    for command in ["report --window", "info"] {
        assert!(fdr(command, &[&path]).contains(note), "{command}");
    }
    // Only `busy` has records of the end.
    let common = json("report --common", &[&path]);
    assert!(
        row(&common["functions"], "programs::open_calls::early").is_none(),
        "{common}"
    );
    let calls = |report: &Value| {
        number(&row(&report["functions"], "programs::open_calls::late").expect("it")["calls"])
    };
    assert_eq!(calls(&common), calls(&report));
    let folded = fdr("flame", &[&path]);
    assert!(folded.contains("programs::open_calls::early"));
    let folded = fdr("flame --common", &[&path]);
    assert!(!folded.contains("programs::open_calls::early"), "{folded}");
    // Each thread's window.
    for thread in report["threads"].as_array().expect("threads") {
        let (first, last) = (number(&thread["first_ns"]), number(&thread["last_ns"]));
        // Each is rounded by itself.
        let difference = (last - first).abs_diff(number(&thread["duration_ns"]));
        assert!(difference <= 1, "{thread}");
        assert_eq!(first > 0, thread["id"] == busy.0, "{thread}");
    }
    let table = fdr("report --per-thread", &[&path]);
    assert_eq!(
        table.matches(", older ones overwritten").count(),
        1,
        "{table}"
    );
    // At the trace's beginning nothing is known of `busy`.
    let state = fdr("state --at start", &[&path]);
    assert_eq!(
        state.matches("overwritten: its records begin at +").count(),
        1,
        "{state}"
    );
    assert!(state.contains("programs::open_calls::early"), "{state}");
    let state = json("state --at start", &[&path]);
    assert_eq!(state["overwritten"][0]["thread"], busy.0);
    let state = fdr("state", &[&path]);
    assert!(!state.contains("overwritten"), "{state}");
    let _ = program.end().ok();
}

/// The calls around all records are known, with the times at which they began.
fn begin_is_known(path: &Path) {
    verify(path);
    let report = json("report --window", &[path]);
    let inner = &report["open_calls"][0];
    assert_eq!(
        inner["function"], "programs::open_calls::inner",
        "{report:#}"
    );
    assert_eq!(
        (&inner["depth"], &inner["entered"]),
        (&2.into(), &true.into())
    );
    let records_ns = number(&report["duration_ns"]);
    assert!(number(&inner["open_ns"]) > records_ns, "{inner}");
    let counts = &report["threads"][0];
    assert!(number(&counts["overwritten"]) > 0, "{counts}");
    let state = json("state", &[path]);
    let since = |name: &str| {
        let mut all = state["attributes"].as_array().expect("a list").iter();
        let frame = all.find(|attribute| attribute["value"] == name);
        frame.expect("a frame")["since_ns"]
            .as_i64()
            .expect("a time")
    };
    let (outer, inner) = (
        since("programs::open_calls::outer"),
        since("programs::open_calls::inner"),
    );
    let last = state["time_ns"].as_i64().expect("a time");
    assert!(
        outer <= inner && last - inner > records_ns as i64,
        "{state:#}"
    );
    let replay = fdr("replay -n 3", &[path]);
    assert!(
        replay.contains("programs::open_calls::inner   [open for "),
        "{replay}"
    );
}

#[test]
fn calls_around_overwritten_records_stay_known() {
    for way in ["USR2", "snapshot", "KILL", "ABRT"] {
        let folder = Folder::new("open-around");
        let variables = "FDR=1 FDR_BUFFER=128K FDR_KEEP=1ns";
        let program = start(&folder, variables, &["around"], "made");
        let path = match way {
            "snapshot" => {
                let path = folder.join("snapshot.fdr");
                let _ = fdr(&format!("dump -q {} -o", program.id()), &[&path]);
                path
            }
            "USR2" => {
                program.signal(way);
                one_trace(&folder)
            }
            signal => {
                program.signal(signal);
                until("its end", || match signal {
                    "KILL" => Some(only_ring(&folder)),
                    _ => folder.ending(".fdr").pop(),
                })
            }
        };
        if way == "KILL" {
            let _ = program.end();
            begin_is_known(&path);
            continue;
        }
        begin_is_known(&path);
        let copy = folder.join("copy.fdr");
        let _ = fdr("convert -q --to xray -o", &[&copy, &path]);
        begin_is_known(&copy);
        let _ = program.end();
    }
}
