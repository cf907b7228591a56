//! `fdr ctl PID mark`: a named moment is in each trace of the ring, however the process ended, and in every tool's answer.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Running;
use fdr_tests::support::tool::{fdr, json, verify};
use serde_json::Value;

use super::control::{self, call, ctl, try_ctl};

fn start(folder: &Folder, variables: &str) -> Running {
    control::start(folder, variables, &[])
}

/// The marks of a trace that is whole: what `fdr info` and `fdr report` agree on.
fn marks(path: &Path) -> Vec<(u64, String, i64)> {
    verify(path);
    let (info, report) = (json("info", &[path]), json("report", &[path]));
    assert_eq!(info["marks"], report["marks"]);
    assert_eq!(info["earlier_marks"], report["earlier_marks"]);
    let columns = |mark: &Value| {
        let name = mark["name"].as_str().expect("a name").to_owned();
        let number = mark["number"].as_u64().expect("a number");
        let since = mark["since_first_ns"].as_i64().expect("a time");
        assert!(mark["unix_ns"].as_u64() > Some(1_700_000_000_000_000_000));
        (number, name, since)
    };
    let marks = info["marks"].as_array().expect("marks");
    marks.iter().map(columns).collect()
}

fn names(path: &Path) -> Vec<(u64, String)> {
    let marks = marks(path).into_iter();
    marks.map(|(number, name, _)| (number, name)).collect()
}

fn only_trace(folder: &Folder) -> PathBuf {
    folder.files("out").remove(0)
}

#[test]
fn marks_are_in_each_trace() {
    let folder = Folder::new("marks");
    let mut program = start(&folder, "");
    call(&mut program, 3);
    assert_eq!(
        ctl(&program, &["mark", " here I clicked "]),
        "mark 1: here I clicked"
    );
    assert_eq!(ctl(&program, &["mark", "größer 🦀"]), "mark 2: größer 🦀");
    let path = PathBuf::from(ctl(&program, &["dump"]));
    let found = marks(&path);
    let wanted = [(1, "here I clicked"), (2, "größer 🦀")];
    let wanted = wanted.map(|(number, name)| (number, name.to_owned()));
    assert_eq!(names(&path), wanted);
    // They were named one after the other, behind the calls.
    assert!(0 < found[0].2 && found[0].2 < found[1].2, "{found:?}");
    for command in ["info", "report"] {
        let text = fdr(command, &[&path]);
        assert!(text.contains("here I clicked ("), "{text}");
    }
    // From outside, and from XRay to XRay.
    let snapshot = folder.join("snapshot.fdr");
    let id = program.id();
    let _ = fdr(&format!("dump {id} -o"), &[&snapshot]);
    assert_eq!(names(&snapshot), wanted);
    let copy = folder.join("copy.fdr");
    let _ = fdr("convert --to xray1 -o", &[&copy, &path]);
    assert_eq!(names(&copy), wanted);
    // A selection of time has those of its time.
    let early = json("report --until +0ns", &[&path]);
    assert_eq!(early["marks"].as_array().map(Vec::len), Some(0));
    // Another format has no place, and the tool says so.
    let mut convert = Command::new(fdr_tests::tool());
    let convert = convert
        .args(["convert", "--to", "heph", "-o"])
        .arg(folder.join("trace.heph"));
    let output = convert.arg(&path).output().expect("fdr runs");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("2 named moments: left out"), "{messages}");
    let _ = program.end().ok();
}

#[test]
fn recorded_formats_report_moments_left_out() {
    let folder = Folder::new("marks-format");
    let mut program = start(&folder, "FDR_FORMAT=htdump FDR_LOG=info");
    call(&mut program, 3);
    ctl(&program, &["mark", "a"]);
    let outcome = program.end().ok();
    assert!(
        outcome.stderr.contains("1 named moments: left out"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn the_newest_marks_are_kept() {
    let folder = Folder::new("marks-many");
    let mut program = start(&folder, "");
    call(&mut program, 3);
    let lines: Vec<String> = (1..=70)
        .map(|number| format!("mark mark {number}"))
        .collect();
    let input = folder.join("commands");
    fs::write(&input, lines.join("\n")).expect("a file");
    let mut tool = Command::new(fdr_tests::tool());
    let tool = tool.arg("ctl").arg(program.id().to_string()).arg("-");
    let output = tool.stdin(fs::File::open(&input).expect("a file")).output();
    assert!(output.expect("fdr runs").status.success());
    let path = PathBuf::from(ctl(&program, &["dump"]));
    let wanted = (39..=70).map(|number| (number, format!("mark {number}")));
    assert_eq!(names(&path), wanted.collect::<Vec<_>>());
    assert_eq!(json("info", &[&path])["earlier_marks"], 38);
    let text = fdr("info", &[&path]);
    assert!(
        text.contains("38 earlier marks were replaced by newer ones"),
        "{text}"
    );
    let _ = program.end().ok();
}

/// A program with two marks that has done this, and its trace.
fn ends(folder: &Folder, end: impl FnOnce(&mut Running)) {
    let mut program = start(folder, "");
    call(&mut program, 3);
    for name in ["first", "last words"] {
        ctl(&program, &["mark", name]);
    }
    end(&mut program);
    let outcome = program.end();
    assert!(!outcome.status.success(), "{outcome:?}");
}

fn are_there(path: &Path, reason: &str) {
    let wanted = [(1, "first".to_owned()), (2, "last words".to_owned())];
    assert_eq!(names(path), wanted);
    let found = &json("info", &[path])["reason"];
    assert!(
        found
            .as_str()
            .is_some_and(|found| found.starts_with(reason)),
        "{found}"
    );
}

#[test]
fn marks_survive_a_kill() {
    let folder = Folder::new("marks-kill");
    ends(&folder, |program| program.signal("KILL"));
    let (ring, trace) = (only_ring(&folder), folder.join("recovered.fdr"));
    are_there(&ring, "killed");
    let _ = fdr("dump -o", &[&trace, &ring]);
    are_there(&trace, "killed");
}

#[test]
fn marks_survive_a_crash() {
    let folder = Folder::new("marks-crash");
    ends(&folder, |program| program.tell("crash"));
    are_there(&only_trace(&folder), "crash: SIGSEGV");
}

#[test]
fn what_is_no_name_is_refused() {
    let folder = Folder::new("marks-refused");
    let program = start(&folder, "");
    for (text, why) in [
        ("", "with what name"),
        (" ", "without a name"),
        ("a\nb", "line break"),
        ("a\u{1b}[2J", "line break"),
        (&"x".repeat(65), "64 bytes are the most"),
    ] {
        let output = try_ctl(program.id(), &["mark", text]);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let messages = String::from_utf8_lossy(&output.stderr);
        assert!(
            messages.contains(why) && messages.lines().count() == 1,
            "{messages}"
        );
    }
    let _ = program.end();
}
