//! `fdr ctl`: a program is controlled through its ring file. Each trace is whole and each record is counted, however
//! many commands come meanwhile, and whatever another process writes into the file.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use fdr_formats::ring::{control, layout};
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::facts::number_behind;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{CONTAINED, Program, Running};
use fdr_tests::support::random::Random;
use fdr_tests::support::tool::{fdr, json, number, row, sum, verify};
use fdr_tests::support::wait::until;
use serde_json::Value;

/// Small rings in a folder of their own.
pub(crate) const VARIABLES: &str =
    "FDR=1 FDR_BUFFER=128K FDR_DIR=rings/ FDR_OUT=out/ FDR_SIGNAL=none";

pub(crate) fn start(folder: &Folder, variables: &str, arguments: &[&str]) -> Running {
    let program = Program::named("controlled", folder);
    let program = program.set(VARIABLES).set(variables).args(arguments);
    program.start_ready()
}

pub(crate) fn call(program: &mut Running, count: u64) {
    program.tell(&format!("call {count}"));
    assert_eq!(program.line(), "done");
}

pub(crate) fn try_ctl(process: u32, words: &[&str]) -> Output {
    let mut command = Command::new(fdr_tests::tool());
    let command = command.arg("ctl").arg(process.to_string()).args(words);
    command.output().expect("fdr runs")
}

/// The answer without its end of line.
pub(crate) fn ctl(program: &Running, words: &[&str]) -> String {
    let output = try_ctl(program.id(), words);
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout)
        .expect("UTF-8")
        .trim_end()
        .to_owned()
}

/// How many functions and events an answer says are off: `5 of 6 functions and events`.
fn functions_off(answer: &str) -> u64 {
    let numbers = answer.split(' ').filter_map(|word| word.parse().ok());
    let [on, all]: [u64; 2] = numbers.collect::<Vec<_>>().try_into().expect(answer);
    all - on
}

/// What the tool complains of.
fn refused(process: u32, words: &[&str]) -> String {
    let output = try_ctl(process, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}: {output:?}");
    String::from_utf8(output.stderr).expect("UTF-8")
}

fn status(program: &Running) -> Value {
    serde_json::from_str(&ctl(program, &["status", "--json"])).expect("JSON")
}

fn report(path: &Path) -> Value {
    verify(path);
    json("report", &[path])
}

/// The trace is whole and no count is missing. Returns the report.
fn is_exact(path: &Path) -> Value {
    let report = report(path);
    let parts = ["readable", "overwritten", "dropped", "summarised"];
    let parts: u64 = parts.iter().map(|part| sum(&report["threads"], part)).sum();
    assert_eq!(
        parts,
        sum(&report["threads"], "recorded"),
        "{}",
        path.display()
    );
    report
}

/// The calls of a function in a trace.
fn calls(report: &Value, name: &str) -> u64 {
    row(&report["functions"], name).map_or(0, |function| number(&function["calls"]))
}

#[test]
fn recording_is_turned_off_and_on() {
    let folder = Folder::new("ctl-switch");
    let mut program = start(&folder, "", &[]);
    call(&mut program, 3);
    assert_eq!(ctl(&program, &["off"]), "recording is off");
    assert_eq!(status(&program)["recording"], false);
    call(&mut program, 100);
    let on = ctl(&program, &["on"]);
    assert!(on.starts_with("recording is on: "), "{on}");
    assert_eq!(functions_off(&on), 0);
    call(&mut program, 20);
    let path = PathBuf::from(ctl(&program, &["dump"]));
    assert_eq!(folder.files("out"), std::slice::from_ref(&path));
    let report = is_exact(&path);
    assert_eq!(calls(&report, "programs::controlled::exactly"), 23);
    assert_eq!(sum(&report["threads"], "recorded"), 46);
    let info = fdr("info", &[&path]);
    assert!(info.contains("by fdr ctl"), "{info}");
    let status = status(&program);
    assert_eq!(
        (&status["recording"], &status["recorded"]),
        (&true.into(), &46.into())
    );
    assert_eq!(status["threads"], 1);
    assert_eq!(status["program"], "programs");
    assert_eq!(status["process"], program.id());
    let next = status["next_dump"].as_str().expect("a path");
    assert!(
        next.ends_with(&format!("/out/programs.{}.2.fdr", program.id())),
        "{next}"
    );
    let _ = program.end().ok();
}

#[test]
fn a_filter_chooses_functions() {
    let folder = Folder::new("ctl-filter");
    let mut program = start(&folder, "", &[]);
    let answer = ctl(&program, &["filter", "-programs::controlled::exactly"]);
    assert_eq!(functions_off(&answer), 1);
    assert_eq!(status(&program)["filter"], "-programs::controlled::exactly");
    call(&mut program, 10);
    let answer = ctl(&program, &["filter", "programs::controlled::ex*"]);
    assert!(answer.starts_with("1 of "), "{answer}");
    call(&mut program, 7);
    let partly = ctl(
        &program,
        &[
            "filter",
            "programs::controlled::exactly,programs::controlled::exatly",
        ],
    );
    assert!(partly.starts_with("1 of "), "{partly}");
    let wanted = "functions and events; no function matches `programs::controlled::exatly` (nearest: programs::controlled::exactly";
    assert!(partly.contains(wanted), "{partly}");
    let off = ctl(&program, &["filter", "off"]);
    assert!(off.starts_with("0 of "), "{off}");
    call(&mut program, 10);
    let wrong = refused(program.id(), &["filter", "a,off"]);
    assert!(wrong.contains("`off` can't be combined"), "{wrong}");
    // The filter of before stays.
    assert_eq!(status(&program)["filter"], "off");
    let report = is_exact(Path::new(&ctl(&program, &["dump"])));
    assert_eq!(calls(&report, "programs::controlled::exactly"), 7);
    let text = ctl(&program, &[]);
    assert!(text.contains("recording  on: 0 of "), "{text}");
    let long = "x".repeat(control::MAX_TEXT + 1);
    let wrong = refused(program.id(), &["filter", &long]);
    assert!(
        wrong.contains(&format!("at most {} fit", control::MAX_TEXT)),
        "{wrong}"
    );
    let _ = program.end().ok();
}

#[test]
fn a_filter_without_a_match_is_refused() {
    let folder = Folder::new("ctl-typo");
    let mut program = start(&folder, "", &[]);
    let why = refused(program.id(), &["filter", "programs::controlled::exatly"]);
    let wanted = "no function matches `programs::controlled::exatly`, so nothing would be recorded; did you mean \
                  `programs::controlled::exactly`, ";
    assert!(why.contains(wanted), "{why}");
    let why = refused(program.id(), &["filter", "-*"]);
    assert!(why.contains("excludes all of "), "{why}");
    assert_eq!(status(&program)["filter"], "*");
    call(&mut program, 3);
    let report = is_exact(Path::new(&ctl(&program, &["dump"])));
    assert_eq!(calls(&report, "programs::controlled::exactly"), 3);
    let _ = program.end().ok();
}

/// In a container, because a test that runs beside this one starts programs that record, too.
#[test]
fn commands_take_the_only_recorder() {
    let folder = Folder::new("ctl-only");
    let script = r#"
        "$1" ctl 2>&1; echo "status $?"
        (sleep 60 | "$0" controlled > first) &
        until grep -q ready first; do sleep 0.01; done
        "$1" ctl --json 2>&1
        "$1" ctl off
        "$1" dump -q -o now.fdr
        "$1" top --once --every 20ms --json > top.json
        (sleep 60 | "$0" controlled > second) &
        until grep -q ready second; do sleep 0.01; done
        "$1" ctl dump 2>&1; echo "status $?"
    "#;
    let program = env!("CARGO_BIN_EXE_programs");
    let outcome = Program::new("unshare", &folder)
        .args(&CONTAINED)
        .args(&["sh", "-c", script, program])
        .args(&[fdr_tests::tool()])
        .set(VARIABLES)
        .run();
    if outcome.stdout.is_empty() && !outcome.status.success() {
        return fdr_tests::skip(
            "the only recorder: no right to make a container (unshare --user --pid)",
        );
    }
    let (alone, rest) = outcome
        .stdout
        .split_once("status 2\n")
        .expect("none records");
    assert!(alone.starts_with("fdr: no program records"), "{alone}");
    let (one, rest) = rest.split_once('\n').expect("one records");
    assert!(
        one.starts_with("fdr: the only program that records: process "),
        "{one}"
    );
    assert!(one.contains(", programs, started "), "{one}");
    let (status, rest) = rest.split_once("\n}\n").expect("JSON");
    let status: Value = serde_json::from_str(&format!("{status}}}")).expect("JSON");
    assert_eq!(status["program"], "programs");
    let process = number(&status["process"]);
    let several = rest.strip_prefix("recording is off\n").expect("it is off");
    assert!(
        several.contains(&format!("\nfdr: process {process}, programs, ")),
        "{several}"
    );
    assert!(
        several.contains("fdr: 2 programs record: name one, as fdr ctl "),
        "{several}"
    );
    assert!(several.ends_with("\nstatus 2\n"), "{several}");
    verify(&folder.join("now.fdr"));
    let top = fs::read_to_string(folder.join("top.json")).expect("a document");
    let top: Value = serde_json::from_str(&top).expect("JSON");
    assert_eq!(top["process"], process);
}

/// One tool with all these commands. Returns what it printed.
fn obeyed(process: u32, lines: &str) -> String {
    let mut tool = Command::new(fdr_tests::tool())
        .args(["ctl", &process.to_string(), "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("fdr runs");
    let (mut input, lines) = (tool.stdin.take().expect("piped"), lines.to_owned());
    let writes = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = tool.wait_with_output().expect("its output");
    writes.join().expect("a thread").expect("it reads");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn filters_change_ten_thousand_times_under_load() {
    let folder = Folder::new("ctl-flips");
    let program = start(&folder, "", &["load"]);
    let filters = [
        "programs::controlled::near::*",
        "*",
        "-programs::controlled::far::leaf",
        "off",
        "programs::controlled::*::tree",
    ];
    let mut lines = String::new();
    for nth in 0..10_000 {
        lines += &format!("filter {}\n", filters[nth % filters.len()]);
        match nth % 1000 {
            99 => lines += "off\n",
            101 => lines += "on\n",
            200 => lines += "keep 100ms\n",
            700 => lines += "keep 0\n",
            501 => lines += "dump\n",
            _ => {}
        }
    }
    let answers = obeyed(program.id(), &lines);
    assert_eq!(answers.lines().count(), 10_000 + 5 * 10);
    let _ = program.end().ok();
    // One at the exit, too.
    let traces = folder.files("out");
    assert_eq!(traces.len(), 11);
    for trace in traces {
        let report = is_exact(&trace);
        assert!(sum(&report["threads"], "recorded") > 0);
    }
}

#[test]
fn keep_changes_while_the_program_runs() {
    let folder = Folder::new("ctl-keep");
    // The ring always holds so little, so every call leaves its records.
    let program = start(&folder, "FDR_KEEP=1ns", &["load"]);
    let threshold = || number(&status(&program)["threshold_ns"]);
    let full = || number(&status(&program)["overwritten"]) > 0;
    until("full rings", || full().then_some(()));
    assert_eq!(threshold(), 0);
    ctl(&program, &["keep", "500ms"]);
    assert_eq!(number(&status(&program)["keep_ns"]), 500_000_000);
    until("a threshold", || (threshold() > 0).then_some(()));
    until("short calls", || {
        (number(&status(&program)["summarised"]) > 0).then_some(())
    });
    let report = is_exact(Path::new(&ctl(&program, &["dump"])));
    assert!(sum(&report["threads"], "summarised") > 0);
    ctl(&program, &["keep", "0"]);
    until("no threshold", || (threshold() == 0).then_some(()));
    // From here on each call leaves its records.
    let before = number(&status(&program)["summarised"]);
    let recorded = number(&status(&program)["recorded"]);
    until("new records", || {
        (number(&status(&program)["recorded"]) > recorded + 1_000_000).then_some(())
    });
    assert_eq!(number(&status(&program)["summarised"]), before);
    let report = is_exact(Path::new(&ctl(&program, &["dump"])));
    assert_eq!(sum(&report["threads"], "summarised"), before);
    // It can be turned on again.
    ctl(&program, &["keep", "500ms"]);
    until("a threshold", || (threshold() > 0).then_some(()));
    let outcome = program.end().ok();
    let mut traces = folder.files("out");
    traces.sort();
    let report = is_exact(traces.last().expect("a trace"));
    assert_eq!(
        sum(&report["threads"], "recorded"),
        2 * number_behind(&outcome.stdout, "calls ")
    );
}

#[test]
fn keep_says_what_it_needs() {
    for (variables, wanted) in [
        ("FDR_KEEP=0", "start the program with FDR_KEEP"),
        ("FDR_FORMAT=heph", "start the program with FDR_KEEP"),
        (
            "FDR_KEEP=1s FDR_MODE=full",
            "only a program with FDR_MODE=ring",
        ),
    ] {
        let folder = Folder::new("ctl-keep-not");
        let program = start(&folder, variables, &[]);
        let why = refused(program.id(), &["keep", "1s"]);
        assert!(why.contains(wanted), "{why}");
    }
    let folder = Folder::new("ctl-keep-wrong");
    let program = start(&folder, "", &[]);
    assert_eq!(number(&status(&program)["keep_ns"]), 10_000_000_000);
    let why = refused(program.id(), &["keep", "10"]);
    assert!(why.contains("not a time"), "{why}");
}

/// The file of the program's ring, and where its control block is.
fn block(folder: &Folder) -> (File, u64) {
    let file = File::options()
        .read(true)
        .write(true)
        .open(only_ring(folder))
        .expect("the ring");
    let mut head = [0; layout::HEADER_SIZE];
    file.read_exact_at(&mut head, 0).expect("a head");
    let at = layout::Header::decode(&head).expect("a head").control;
    (file, at)
}

#[test]
fn what_is_no_command_does_no_harm() {
    let folder = Folder::new("ctl-hostile");
    let mut program = start(&folder, "", &[]);
    let (file, at) = block(&folder);
    let mut random = Random::new(19);
    let mut command = vec![0; control::COMMAND_SIZE];
    for number in 1..300u32 {
        for bytes in command.chunks_mut(8) {
            bytes.copy_from_slice(&random.bits().to_le_bytes()[..bytes.len()]);
        }
        // Lengths that make sense but for the check, and a whole command of no kind.
        match number % 3 {
            0 => command[4..8].copy_from_slice(&(number % 64).to_le_bytes()),
            1 => {
                let whole = control::encode_command(number, control::Kind::Off, "x");
                let whole = whole.expect("a short text");
                command[..whole.len()].copy_from_slice(&whole);
                command[0] = 77;
            }
            _ => {}
        }
        file.write_all_at(&command, at + control::COMMAND_AT as u64)
            .expect("room");
        file.write_all_at(&(number << 8).to_le_bytes(), at)
            .expect("room");
        if number % 50 == 0 {
            // The tool takes no notice of it.
            let filter = ctl(&program, &["filter", "*"]);
            assert_eq!(functions_off(&filter), 0);
        }
    }
    // Half a command of a tool that was killed, and numbers and texts that only the recorder writes.
    file.write_all_at(&command[..100], at + control::COMMAND_AT as u64)
        .expect("room");
    file.write_all_at(&[0xff; 8], at + 4).expect("room");
    file.write_all_at(
        &[0xff; control::ANSWER_SIZE],
        at + control::ANSWER_AT as u64,
    )
    .expect("room");
    call(&mut program, 5);
    assert_eq!(status(&program)["recording"], true);
    let report = is_exact(Path::new(&ctl(&program, &["dump"])));
    assert_eq!(calls(&report, "programs::controlled::exactly"), 5);
    let _ = program.end().ok();
}

#[test]
fn rings_without_a_block_are_reported() {
    let folder = Folder::new("ctl-old");
    let program = start(&folder, "", &[]);
    let (file, at) = block(&folder);
    file.write_all_at(&[0; 8], 248).expect("room");
    let why = refused(program.id(), &["status"]);
    assert!(
        why.contains("has an older version of the recorder"),
        "{why}"
    );
    // Every other command reads such a ring.
    let snapshot = folder.join("old.fdr");
    let _ = fdr(&format!("dump {} -o", program.id()), &[&snapshot]);
    verify(&snapshot);
    file.write_all_at(&u64::MAX.to_le_bytes(), 248)
        .expect("room");
    let why = refused(program.id(), &["status"]);
    assert!(why.contains("is damaged: its control block"), "{why}");
    file.write_all_at(&at.to_le_bytes(), 248).expect("room");
    let _ = status(&program);
    let _ = program.end().ok();
}

#[test]
fn a_stopped_program_does_not_obey_later() {
    let folder = Folder::new("ctl-stopped");
    let program = start(&folder, "", &[]);
    assert_eq!(status(&program)["recording"], true);
    program.stop();
    let why = refused(program.id(), &["off"]);
    let remedy = format!("it is stopped; kill -CONT {}", program.id());
    assert!(
        why.contains("did not answer in 2 s") && why.contains(&remedy),
        "{why}"
    );
    program.signal("CONT");
    assert_eq!(status(&program)["recording"], true);
    let _ = program.end().ok();
}

#[test]
fn several_tools_take_turns() {
    let folder = Folder::new("ctl-several");
    let program = start(&folder, "", &["load"]);
    let (process, lines) = (
        program.id(),
        "filter *\nfilter programs::controlled::near::*\n".repeat(500),
    );
    std::thread::scope(|scope| {
        let tools = [(); 3].map(|()| scope.spawn(|| obeyed(process, &lines)));
        for _ in 0..20 {
            let mut killed = Command::new(fdr_tests::tool())
                .args(["ctl", &program.id().to_string(), "dump"])
                .stdout(Stdio::null())
                .spawn()
                .expect("fdr runs");
            killed.kill().expect("it is there");
            killed.wait().expect("it ends");
        }
        for tool in tools {
            assert_eq!(tool.join().expect("a tool").lines().count(), 1000);
        }
    });
    let _ = is_exact(Path::new(&ctl(&program, &["dump"])));
    let _ = program.end().ok();
}

#[test]
fn forked_children_obey_with_a_dumper_only() {
    let folder = Folder::new("ctl-fork");
    let mut program = start(&folder, "", &[]);
    program.tell("fork");
    let child: u32 = program.line().parse().expect("a process");
    assert_eq!(program.line(), "done");
    let own = format!("/programs.{child}.");
    let has_ring = || {
        let rings = folder.files("rings");
        let is_own = |ring: &PathBuf| ring.to_string_lossy().contains(&own);
        rings.iter().any(is_own).then_some(())
    };
    until("the child's ring", has_ring);
    let why = refused(child, &["status"]);
    assert!(why.contains("it is the child of a fork"), "{why}");
    program.tell("fork enable");
    let child = program.line();
    assert_eq!(program.line(), "done");
    let child: u32 = child.parse().expect("a process");
    let of_child = until("an answer", || {
        let output = try_ctl(child, &["status", "--json"]);
        let status: Option<Value> = serde_json::from_slice(&output.stdout).ok();
        status.filter(|_| output.status.success())
    });
    assert_eq!(
        (&of_child["process"], &of_child["recorded"]),
        (&child.into(), &2.into())
    );
    // The parent's is its own.
    let off = try_ctl(child, &["off"]);
    assert!(off.status.success(), "{off:?}");
    assert_eq!(status(&program)["recording"], true);
    assert_eq!(status(&program)["recorded"], 0);
    let _ = program.end().ok();
}

#[test]
fn what_can_not_be_controlled_is_reported() {
    let folder = Folder::new("ctl-none");
    let off = Program::named("controlled", &folder);
    let off = off.start_ready();
    let why = refused(off.id(), &["status"]);
    assert!(why.contains("it was started without FDR"), "{why}");
    let gone = u32::MAX;
    let why = refused(gone, &["on"]);
    assert!(
        why.contains(&format!("there is no process {gone}")),
        "{why}"
    );
    let _ = off.end().ok();

    let mut program = start(&folder, "", &[]);
    // After the first record the recorder is ready for a ring that is cut.
    call(&mut program, 1);
    for (words, wanted) in [
        (&["stats"][..], "no such command; the nearest is status"),
        (&["filter"], "filter what?"),
        (&["keep"], "keep what time?"),
        (&["on", "x"], "this command has no text"),
        (&["on", "--json"], "--json is for the command status"),
        (&["-", "x"], "takes its commands from standard input"),
    ] {
        let why = refused(program.id(), words);
        assert!(why.contains(wanted), "{why}");
    }
    let ring = File::options()
        .write(true)
        .open(only_ring(&folder))
        .expect("the ring");
    ring.set_len(100).expect("it can be cut");
    let why = refused(program.id(), &["status"]);
    assert!(why.contains("ring"), "{why}");
}
