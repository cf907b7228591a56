//! Dumps at the end of the program, by a call of the API, and in a panic. The tests check the path and the name of the
//! trace, and that only complete files appear. Dumps by signals are tested in another file.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use fdr_formats::notes::Note;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{fdr, verify};
use fdr_tests::support::trace::Trace;

/// What `endings` prints before it ends: the sum of ten calls.
const SUM: &str = "315\n";

fn endings(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::named("endings", folder);
    program.set(variables).args(&[way]).run()
}

/// Runs it without and with the recorder: the same output and the same end. Returns the latter.
fn like_untraced(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let untraced = endings(folder, "", way);
    assert_eq!(folder.names(), [] as [&str; 0]);
    assert_eq!(untraced.recorder_lines(), [] as [&str; 0], "{untraced:?}");
    let traced = endings(folder, variables, way);
    assert_eq!(traced.status, untraced.status, "{traced:?}");
    assert_eq!(traced.stdout, untraced.stdout);
    traced
}

/// Calls of `work` in a trace, which is looked over.
fn works(path: &Path) -> u64 {
    verify(path);
    let trace = Trace::read(path);
    for lane in &trace.threads {
        let _ = lane.checked_counts();
    }
    trace.calls()["programs::endings::work"]
}

#[test]
fn at_the_end_of_main() {
    let folder = Folder::new("dump-return");
    let outcome = like_untraced(&folder, "FDR=1", "return");
    let path = folder.only_trace();
    assert_eq!(works(&path), 10);
    assert_eq!(outcome.stdout, SUM);
    let lines = outcome.recorder_lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with(&format!(
        "wrote {}: 20 records of 1 thread, ",
        path.display()
    )));
    let trace = Trace::read(&path);
    assert_eq!(
        (&*trace.info.program, &*trace.info.reason),
        ("programs", "exit")
    );
    assert_eq!(trace.names(), ["programs"]);
    assert_eq!(
        fs::metadata(&path).expect("the trace").permissions().mode() & 0o7777,
        0o600
    );
}

#[test]
fn at_exit_with_a_code() {
    let folder = Folder::new("dump-exit");
    assert_eq!(
        like_untraced(&folder, "FDR=1", "exit").status.code(),
        Some(42)
    );
    assert_eq!(works(&folder.only_trace()), 10);
}

#[test]
fn at_exit_from_another_thread() {
    let folder = Folder::new("dump-exit-thread");
    let outcome = like_untraced(&folder, "FDR=1", "exit-from-a-thread");
    assert_eq!(outcome.status.code(), Some(41));
    let path = folder.only_trace();
    assert_eq!(works(&path), 20);
    assert_eq!(Trace::read(&path).names(), ["programs", "other"]);
}

#[test]
fn at_a_panic_that_ends_the_program() {
    let folder = Folder::new("dump-panic");
    assert_eq!(
        like_untraced(&folder, "FDR=1", "panic").status.code(),
        Some(101)
    );
    // Without FDR_PANIC, only at exit. The panic is in that trace nevertheless.
    let trace = folder.only_trace();
    assert_eq!(works(&trace), 10);
    assert!(fdr("overview", &[&trace]).contains("the last panic: panic in thread "));
    assert!(fdr("replay --before-panic", &[&trace]).contains("programs::endings::fail"));
    fs::remove_file(folder.only_trace()).expect("the trace");
    assert_eq!(
        like_untraced(&folder, "FDR=1 FDR_PANIC=1", "panic")
            .status
            .code(),
        Some(101)
    );
    let reasons = reasons(&folder);
    assert!(reasons[0].starts_with("panic in thread "), "{reasons:?}");
    assert_eq!(reasons[1..], ["exit"]);
}

#[test]
fn a_panics_place_is_within_its_crate() {
    let folder = Folder::new("dump-panic-place");
    let outcome = like_untraced(&folder, "FDR=1 FDR_PANIC=1", "panic-in-std");
    assert_eq!(outcome.status.code(), Some(101));
    // The program's own hook says the whole path.
    assert!(
        outcome.stderr.contains("/library/alloc/src/"),
        "{outcome:?}"
    );
    assert!(reasons(&folder)[0].contains(" at alloc/src/"), "{folder:?}");
    for path in folder.ending(".fdr") {
        let bytes = fs::read(&path).expect("the trace");
        let has = |text: &str| {
            bytes
                .windows(text.len())
                .any(|part| part == text.as_bytes())
        };
        assert!(has("alloc/src/") && !has("/library/"), "{path:?}");
    }
}

/// Why each trace was written, in the order of their numbers.
fn reasons(folder: &Folder) -> Vec<String> {
    let mut traces: Vec<Trace> = folder
        .ending(".fdr")
        .iter()
        .map(|path| Trace::read(path))
        .collect();
    traces.sort_by_key(|trace| trace.info.dump);
    traces.into_iter().map(|trace| trace.info.reason).collect()
}

#[test]
fn at_a_panic_that_is_caught() {
    for variables in ["FDR=1 FDR_PANIC=1", "FDR=1 FDR_TRIGGER=panic,exit"] {
        dump_at_a_caught_panic(variables);
    }
}

#[test]
fn a_trace_without_calls_says_why() {
    let folder = Folder::new("dump-no-calls");
    let outcome = like_untraced(&folder, "FDR=nothing::*", "caught");
    // The panic is recorded all the same.
    let parts = [
        ": 0 records of 1 thread, ",
        "fdr: no call was recorded: no function matches `nothing::*` (nearest: ",
    ];
    for words in parts {
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    let trace = Trace::read(&folder.only_trace());
    assert_eq!(trace.thread("thrower").notes.len(), 1);
}

fn dump_at_a_caught_panic(variables: &str) {
    let folder = Folder::new("dump-caught");
    let outcome = like_untraced(&folder, variables, "caught");
    assert_eq!(outcome.stdout, format!("{SUM}caught true\n{SUM}"));
    assert!(
        outcome.stderr.contains("this panic is wanted"),
        "{outcome:?}"
    );
    let paths = folder.ending(".fdr");
    assert_eq!(folder.names().len(), 2, "{paths:?}");
    // The first one was made inside `fail`, before it was left: its exit is not there yet.
    assert_eq!(works(&paths[0]), 10 + 3);
    let first = Trace::read(&paths[0]);
    let thrower = first.thread("thrower");
    assert_eq!(
        (thrower.edges.len(), thrower.synthetic),
        (2 * 7 - 1, [0, 1])
    );
    assert_eq!(works(&paths[1]), 10 + 3 + 10);
    let second = Trace::read(&paths[1]);
    let thrower = second.thread("thrower");
    assert_eq!((thrower.edges.len(), thrower.synthetic), (2 * 7, [0, 0]));
    let reason = format!(
        "panic in thread {} (thrower) at ",
        first.threads[0].thread.id
    );
    assert!(first.info.reason.starts_with(&reason), "{:?}", first.info);
    assert_eq!(first.threads[0].thread.name, "thrower");
    assert!(first.info.reason.ends_with(": this panic is wanted"));
    assert_eq!(second.info.reason, "exit");
    // The panic is an event of its thread, in both.
    for trace in [&first, &second] {
        let [(.., kind, body)] = trace.thread("thrower").notes.as_slice() else {
            panic!("{:?}", trace.thread("thrower").notes);
        };
        let event = Note::decode(*kind, body).expect("a note");
        let text = event.words(&trace.info).to_string();
        assert!(
            text.starts_with("panic (error)  message=\"this panic is wanted\" at=\""),
            "{text}"
        );
        assert!(text.contains(".rs:"), "{text}");
    }
}

#[test]
fn at_a_panic_in_a_panic() {
    let folder = Folder::new("dump-twice");
    let outcome = like_untraced(&folder, "FDR=1 FDR_PANIC=1", "twice");
    assert_eq!(outcome.status.code(), None, "it aborts");
    // Each call of the panic hook dumped, and then the abort.
    let traces = folder.ending(".fdr");
    assert!(traces.len() >= 3, "{:?}", folder.names());
    assert_eq!(folder.names().len(), traces.len());
    traces.iter().for_each(|path| assert_eq!(works(path), 10));
}

#[test]
fn by_a_call() {
    let folder = Folder::new("dump-call");
    let outcome = endings(&folder, "FDR=1", "dump-3").ok();
    let dumped = facts::all(&outcome.stdout, "dumped");
    assert_eq!(dumped.len(), 3, "{outcome:?}");
    let mut paths: Vec<PathBuf> = Vec::new();
    for (words, number) in dumped.iter().zip(1..) {
        let path = PathBuf::from(&words[1]);
        assert_eq!((&*words[0], works(&path)), ("20", 10));
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            name.starts_with("programs.") && name.ends_with(&format!(".{number}.fdr")),
            "{name}"
        );
        let trace = Trace::read(&path);
        assert_eq!(
            (&*trace.info.reason, trace.info.dump),
            ("call", Some(number))
        );
        paths.push(path);
    }
    // And one at exit.
    assert_eq!(folder.names().len(), 4, "{:?}", folder.names());
    assert_eq!(reasons(&folder), ["call", "call", "call", "exit"]);
}

#[test]
fn from_two_threads_and_by_signal_at_once() {
    let folder = Folder::new("dump-at-once");
    let outcome = endings(&folder, "FDR=1", "at-once").ok();
    let dumped = facts::all(&outcome.stdout, "dumped");
    let mut paths: Vec<&String> = dumped.iter().map(|words| &words[1]).collect();
    paths.sort();
    paths.dedup();
    assert_eq!(
        paths.len(),
        10,
        "each call has a file of its own: {dumped:?}"
    );
    let wrote = outcome
        .recorder_lines()
        .iter()
        .filter(|line| line.starts_with("wrote "))
        .count();
    let traces = folder.ending(".fdr");
    assert_eq!(
        (traces.len(), folder.names().len()),
        (wrote, wrote),
        "{:?}",
        folder.names()
    );
    // Ten calls and the exit; of the signals, those that came before a dump began are one dump.
    assert!(traces.len() >= 11, "{traces:?}");
    let mut numbers: Vec<Option<u64>> = Vec::new();
    for path in traces {
        assert!(works(&path) >= 10);
        numbers.push(Trace::read(&path).info.dump);
    }
    numbers.sort();
    assert_eq!(numbers, (1..=wrote as u64).map(Some).collect::<Vec<_>>());
}

#[test]
fn one_file_is_replaced_by_each_dump() {
    let folder = Folder::new("dump-replaced");
    let outcome = endings(&folder, "FDR=1 FDR_OUT=last.fdr", "dump-3").ok();
    assert_eq!(folder.names(), ["last.fdr"]);
    let lines = outcome.recorder_lines();
    let words: Vec<&str> = lines
        .iter()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(words, ["wrote", "replaced", "replaced", "replaced"]);
    let trace = Trace::read(&folder.only_trace());
    assert_eq!((&*trace.info.reason, trace.info.dump), ("exit", Some(4)));
}

#[test]
fn names_are_made_of_the_pattern() {
    let folder = Folder::new("dump-names");
    fs::create_dir(folder.join("sub")).expect("a folder");
    fs::create_dir(folder.join("programs")).expect("a folder");
    let is_time = |text: &str| {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        text.len() == 16 && &text[8..9] == "T" && digits(&text[..8]) && digits(&text[9..15])
    };
    for (pattern, place, ends) in [
        ("a%%b.%n", "", "a%b.1"),
        ("sub", "sub", "1.fdr"),
        ("sub/", "sub", "1.fdr"),
        ("sub/x-%e-%n", "sub", "x-programs-1"),
        ("./%e/%n.trace", "programs", "1.trace"),
        ("%t", "", "Z"),
    ] {
        let outcome = endings(&folder, &format!("FDR=1 FDR_OUT={pattern}"), "return").ok();
        let lines = outcome.recorder_lines();
        let path = lines[0]
            .strip_prefix("wrote ")
            .and_then(|line| line.split(": ").next());
        let path = PathBuf::from(path.unwrap_or_else(|| panic!("{lines:?}")));
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert_eq!(
            fs::canonicalize(path.parent().expect("a folder")).expect("it is there"),
            fs::canonicalize(folder.join(place)).expect("it is there"),
            "{pattern}"
        );
        assert!(name.ends_with(ends), "{pattern}: {name}");
        assert!(pattern != "%t" || is_time(&name), "{name}");
        assert_eq!(works(&path), 10);
        fs::remove_file(path).expect("the trace");
    }
    assert_eq!(folder.names(), ["programs", "sub"], "nothing else is left");
}

#[test]
fn outputs_stay_in_the_first_folder() {
    let folder = Folder::new("dump-elsewhere");
    let outcome = endings(&folder, "FDR=1", "elsewhere").ok();
    assert_eq!(folder.names().len(), 2, "{outcome:?}");
    folder
        .ending(".fdr")
        .iter()
        .for_each(|path| assert_eq!(works(path), 10));
}

#[test]
fn a_planted_link_is_replaced_and_not_followed() {
    let folder = Folder::new("dump-link");
    let target = folder.join("precious");
    fs::write(&target, "precious").expect("a file");
    symlink(&target, folder.join("out.fdr")).expect("a link");
    let inode = fs::metadata(&target).expect("it is there").ino();
    let _ = endings(&folder, "FDR=1 FDR_OUT=out.fdr", "return").ok();
    assert_eq!(folder.names(), ["out.fdr", "precious"]);
    let now = fs::metadata(&target).expect("it is there");
    assert_eq!(
        (fs::read(&target).expect("it is there"), now.ino()),
        (b"precious".to_vec(), inode)
    );
    let out = folder.join("out.fdr");
    assert!(fs::symlink_metadata(&out).expect("the trace").is_file());
    assert_eq!(works(&out), 10);
}

#[test]
fn what_is_no_file_is_not_replaced() {
    let folder = Folder::new("dump-special");
    let made = std::process::Command::new("mkfifo")
        .arg(folder.join("pipe"))
        .status();
    assert!(made.expect("mkfifo runs").success());
    let outcome = endings(&folder, "FDR=1 FDR_OUT=pipe", "return").ok();
    assert_eq!(outcome.stdout, SUM);
    let messages = outcome.recorder_lines().join("\n");
    assert!(messages.contains("no trace was written: "), "{messages}");
    // The records are kept, and the line says where.
    let rings = folder.ending(".fdr-ring");
    assert!(
        rings.len() == 1 && messages.contains(&*rings[0].to_string_lossy()),
        "{messages}"
    );
    fs::remove_file(&rings[0]).expect("the ring");
    assert_eq!(folder.names(), ["pipe"]);
    let pipe = fs::symlink_metadata(folder.join("pipe")).expect("it is there");
    assert!(!pipe.is_file(), "the pipe became a file");
}

#[test]
fn numbers_of_existing_files_are_skipped() {
    let folder = Folder::new("dump-taken");
    fs::write(folder.join("t.1"), "precious").expect("it can be written");
    let outcome = endings(&folder, "FDR=1 FDR_OUT=t.%n", "return").ok();
    assert!(outcome.recorder_lines().join("").contains("wrote "));
    assert_eq!(folder.names(), ["t.1", "t.2"]);
    assert_eq!(
        fs::read(folder.join("t.1")).expect("it is there"),
        b"precious"
    );
    assert_eq!(works(&folder.join("t.2")), 10);
}

#[test]
fn with_nothing_recorded_it_says_why() {
    for (variables, why) in [
        ("FDR=1", " functions that are on was called"),
        ("FDR=1 FDR_PANIC=1", " functions that are on was called"),
        (
            "FDR=programs::endings::wrok",
            "no function matches `programs::endings::wrok` (nearest: programs::endings::work",
        ),
        ("FDR=-*", "nothing was recorded: "),
    ] {
        let folder = Folder::new("dump-nothing");
        let outcome = endings(&folder, variables, "idle").ok();
        assert_eq!(folder.names(), [] as [&str; 0], "{variables}");
        let lines = outcome.recorder_lines();
        assert!(
            lines.len() == 1 && lines[0].contains(why),
            "{variables}: {lines:?}"
        );
    }
}

#[test]
fn a_quiet_recorder_says_nothing() {
    let folder = Folder::new("dump-quiet");
    let outcome = endings(&folder, "FDR=1 FDR_LOG=quiet", "return").ok();
    assert_eq!((&*outcome.stdout, &*outcome.stderr), (SUM, ""));
    assert_eq!(works(&folder.only_trace()), 10);
    let outcome = endings(&folder, "FDR=1 FDR_LOG=info", "return").ok();
    assert!(
        outcome.recorder_lines()[0].starts_with("recording with "),
        "{outcome:?}"
    );
}

#[test]
fn other_panic_hooks_are_not_disturbed() {
    let folder = Folder::new("dump-silent");
    let outcome = like_untraced(&folder, "FDR=1 FDR_PANIC=1", "silent");
    assert!(outcome.status.success());
    assert_eq!(works(&folder.only_trace()), 10);
}

#[test]
fn aborted_processes_leave_trace_or_ring() {
    let folder = Folder::new("dump-abort");
    let outcome = like_untraced(&folder, "FDR=1", "abort");
    assert_eq!(outcome.status.code(), None);
    assert_eq!(works(&folder.only_trace()), 10);

    let folder = Folder::new("dump-abort");
    let outcome = like_untraced(&folder, "FDR=1 FDR_CRASH=0", "abort");
    assert_eq!(outcome.status.code(), None);
    let names = folder.names();
    assert!(
        names.len() == 1 && names[0].ends_with(".fdr-ring"),
        "{names:?}"
    );
}
