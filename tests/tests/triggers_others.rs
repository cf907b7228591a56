//! Triggers that wait for something else than a call, and what becomes of all triggers when the disk or the value is
//! bad.

use std::fs;

use fdr_formats::trigger::Occurrence;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, Running};
use fdr_tests::support::tool::{fdr, verify};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

pub(super) fn start(folder: &Folder, variables: &str, trigger: &str) -> Running {
    let program = Program::named("triggered", folder);
    let program = program.set("FDR=1").set(variables);
    program.env("FDR_TRIGGER", trigger).start()
}

pub(super) fn tell(program: &mut Running, line: &str) {
    program.tell(line);
    assert_eq!(program.line(), "done");
}

/// The reasons of all traces in the folder, in which nothing else is left.
fn reasons(folder: &Folder) -> Vec<String> {
    let traces = folder.ending(".fdr");
    assert_eq!(traces.len(), folder.names().len(), "{:?}", folder.names());
    traces.iter().for_each(|path| verify(path));
    let reasons = traces.iter().map(|path| Trace::read(path).info.reason);
    reasons.collect()
}

/// Does what the lines say, and ends.
fn run(folder: &Folder, variables: &str, trigger: &str, lines: &[&str]) -> Outcome {
    let mut program = start(folder, variables, trigger);
    lines.iter().for_each(|line| tell(&mut program, line));
    program.end().ok()
}

fn count(outcome: &Outcome, beginning: &str) -> usize {
    let lines = outcome.recorder_lines();
    lines
        .iter()
        .filter(|line| line.starts_with(beginning))
        .count()
}

#[test]
fn the_exit() {
    for (trigger, wanted) in [
        ("exit", &["exit"][..]),
        ("off", &[]),
        ("panic, rss>1G", &[]),
    ] {
        let folder = Folder::new("trigger-exit");
        let outcome = run(&folder, "", trigger, &["quick 10"]);
        assert_eq!(reasons(&folder), wanted, "{trigger}");
        let unfired = count(&outcome, &format!("no trigger fired: {trigger}"));
        assert_eq!(
            unfired,
            usize::from(trigger.starts_with("panic")),
            "{outcome:?}"
        );
    }
    // The default.
    let folder = Folder::new("trigger-exit-default");
    let program = Program::named("triggered", &folder);
    let mut program = program.set("FDR=1").start();
    tell(&mut program, "quick 10");
    let _ = program.end().ok();
    assert_eq!(reasons(&folder), ["exit"]);
}

#[test]
fn a_panic() {
    for (trigger, traces) in [("panic", 1), ("panic /0", 2), ("panic +9m", 1)] {
        let folder = Folder::new("trigger-panic");
        let _ = run(&folder, "", trigger, &["panic", "panic"]);
        let reasons = reasons(&folder);
        assert_eq!(reasons.len(), traces, "{trigger}: {reasons:?}");
        for reason in &reasons {
            assert!(
                reason.starts_with("panic in thread ") && reason.ends_with("on purpose"),
                "{reason}"
            );
        }
    }
    // Each panic dumps with FDR_PANIC=1, whatever the trigger says.
    let folder = Folder::new("trigger-panic-too");
    let _ = run(&folder, "FDR_PANIC=1", "panic", &["panic", "panic"]);
    assert_eq!(reasons(&folder).len(), 2);
    let folder = Folder::new("trigger-panic-fork");
    let _ = run(&folder, "FDR_PANIC=0", "panic", &["quick 1"]);
    assert_eq!(reasons(&folder).len(), 0);
}

#[test]
fn memory() {
    let folder = Folder::new("trigger-rss");
    let mut program = start(&folder, "FDR_DIR=/dev/shm", "rss>200M /0");
    tell(&mut program, "quick 10");
    tell(&mut program, "grow 256");
    let line = program.wait_for_line("wrote");
    assert!(line.contains("rss>200M"), "{line}");
    // It does not fire again while the memory stays.
    tell(&mut program, "grow 1");
    let _ = program.end().ok();
    let traces = folder.ending(".fdr");
    assert_eq!(traces.len(), 1);
    let info = Trace::read(&traces[0]).info;
    let reason = info.trigger().expect("a trigger made it");
    let Occurrence::Other(words) = reason.occurrence else {
        panic!("{reason:?}")
    };
    let bytes: u64 = words
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect(words);
    assert!(
        bytes > 200 << 20 && words.ends_with("bytes are in memory"),
        "{words}"
    );
}

#[test]
fn time() {
    let folder = Folder::new("trigger-every");
    let variables = "FDR_LOG=info FDR_OUT_MOST=2";
    let mut program = start(&folder, variables, "every 100ms");
    tell(&mut program, "quick 10");
    let _ = program.wait_for_line("removed");
    let _ = program.end().ok();
    assert_eq!(reasons(&folder), ["trigger every 100ms"; 2]);
}

#[test]
fn the_signal() {
    for (trigger, wanted) in [("signal +9m", 1), ("off", 1)] {
        let folder = Folder::new("trigger-signal");
        let mut program = start(&folder, "FDR_KEEP=0", trigger);
        tell(&mut program, "quick 10");
        program.signal("USR2");
        if trigger == "off" {
            let _ = program.wait_for_line("wrote");
        } else {
            // The dumper has read the signal once it answers a later one.
            let _ = until("the signal to be read", || {
                Some(fdr(&format!("ctl {} status", program.id()), &[]))
            });
            tell(&mut program, "quick 10");
        }
        let _ = program.end().ok();
        assert_eq!(reasons(&folder), vec!["signal"; wanted], "{trigger}");
        let trace = Trace::read(&folder.only_trace());
        let handled = trace.calls()["programs::triggered::handle"];
        assert_eq!(handled, if trigger == "off" { 10 } else { 20 }, "{trigger}");
    }
}

#[test]
fn missing_folders_are_reported_once() {
    let folder = Folder::new("trigger-gone");
    let places = "FDR_LOG=info FDR_DIR=rings/ FDR_OUT=traces/%p.%n.fdr";
    fs::create_dir(folder.join("traces")).expect("a folder");
    let mut program = start(
        &folder,
        places,
        "every 100ms, programs::triggered::handle>50ms /0",
    );
    // The recorder has come up before the program answers, and wanted the folder to be there.
    tell(&mut program, "release");
    fs::remove_dir(folder.join("traces")).expect("removed");
    tell(&mut program, "quick 10");
    let _ = program.wait_for_line("no trace was written: ");
    // Lines about further tries appear only with `FDR_LOG=info`.
    let _ = until("further tries", || {
        program.said_already(&format!("{}/traces", folder.path().display()))
    });
    tell(&mut program, "slow 100");
    let outcome = program.end().ok();
    assert_eq!(count(&outcome, "no trace was written: "), 1, "{outcome:?}");
    assert_eq!(folder.files("rings").len(), 1, "for `fdr dump`");
    // A quieter recorder says it once.
    let folder = Folder::new("trigger-gone-quiet");
    fs::create_dir(folder.join("traces")).expect("a folder");
    let places = "FDR_DIR=rings/ FDR_OUT=traces/%p.%n.fdr";
    let mut program = start(&folder, places, "programs::triggered::handle>10us /0");
    tell(&mut program, "release");
    fs::remove_dir(folder.join("traces")).expect("removed");
    tell(&mut program, "many 4 500");
    let outcome = program.end().ok();
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
}

#[test]
fn a_full_disk_is_reported_once() {
    // Nothing fits there, however early the first trace is made.
    let mount = "mkdir small && mount -t tmpfs -o size=64K none small && ! cat /dev/zero >small/full 2>small.log";
    if !crate::faults_support::may("a full disk", mount) {
        return;
    }
    let folder = Folder::new("trigger-full");
    let words = crate::faults_support::UNSHARE;
    let script = format!("{mount}; exec \"$0\" triggered");
    let program = Program::new(words[0], &folder).args(&words[1..]);
    let program = program.args(&["sh", "-c", &script, env!("CARGO_BIN_EXE_programs")]);
    let program = program.set("FDR=1 FDR_DIR=/dev/shm FDR_OUT=small/%n.fdr FDR_KEEP=0");
    let mut program = program
        .env("FDR_TRIGGER", "programs::triggered::handle>10us /0")
        .start();
    tell(&mut program, "quick 20000");
    tell(&mut program, "many 4 500");
    let outcome = program.end().ok();
    let lines = outcome.recorder_lines();
    assert!(
        lines.len() == 1 && lines[0].contains("No space left"),
        "{outcome:?}"
    );
    let left = lines[0].rsplit(' ').next().expect("the ring");
    fs::remove_file(left).expect("the ring is left");
}

#[test]
fn bad_triggers_are_one_line() {
    for (variable, value, wanted) in [
        (
            "FDR_TRIGGER",
            "programs::triggered::handle",
            "my_app::function>50ms",
        ),
        (
            "FDR_TRIGGER",
            "programs::triggered::handle>50",
            "my_app::function>50ms",
        ),
        ("FDR_TRIGGER", "exit, rss>2T", "my_app::function>50ms"),
        ("FDR_OUT_MOST", "ten", "10,1G"),
    ] {
        let folder = Folder::new("trigger-bad");
        let program = Program::named("triggered", &folder);
        let mut program = program.set("FDR=1").env(variable, value).start();
        tell(&mut program, "slow 100");
        let outcome = program.end().ok();
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 1, "{outcome:?}");
        assert!(
            lines[0].starts_with(&format!("{variable}={value:?}: ")),
            "{outcome:?}"
        );
        assert!(
            lines[0].contains(wanted) && lines[0].ends_with("recording is off"),
            "{outcome:?}"
        );
        assert!(folder.names().is_empty());
    }
    let folder = Folder::new("trigger-stream");
    let outcome = run(
        &folder,
        "FDR_MODE=stream FDR_OUT=stream",
        "programs::triggered::handle>1ms",
        &["slow 10"],
    );
    let recorder_lines = outcome.recorder_lines();
    assert!(
        recorder_lines.len() == 1 && recorder_lines[0].contains("FDR_MODE=stream hands over all"),
        "{outcome:?}"
    );
}

#[test]
fn triggers_that_never_fire_are_reported() {
    for (trigger, filter, wanted) in [
        (
            "programs::triggered::handel>50ms",
            "1",
            "nearest: programs::triggered::handle",
        ),
        (
            "programs::triggered::untimed>50ms",
            "1",
            "no function with durations",
        ),
        (
            "programs::triggered::handle>50ms",
            "*,-*::handle",
            "FDR excludes",
        ),
    ] {
        let folder = Folder::new("trigger-never");
        let outcome = run(
            &folder,
            &format!("FDR={filter}"),
            trigger,
            &["slow 100", "untimed"],
        );
        let lines = outcome.recorder_lines();
        let begins = format!("trigger {trigger}: ");
        let tells = lines[0].starts_with(&begins) && lines[0].contains(wanted);
        assert!(tells, "{outcome:?}");
        assert_eq!(lines[1..], [format!("no trigger fired: {trigger}")]);
        assert!(folder.names().is_empty(), "{:?}", folder.names());
    }
}
