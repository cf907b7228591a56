//! Faults around a recording: no folder, no space, no descriptors, no addresses, no reader of standard error, values
//! without a meaning. The program must run on as without the recorder, with the same output and the same end. For each
//! trouble, one clear line must say what to do.

use std::fs;
use std::path::Path;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::verify;

const SUM: &str = "315\n";

fn endings(folder: &Folder, variables: &[(&str, &str)], way: &str) -> Outcome {
    let mut program = Program::named("endings", folder).args(&[way]);
    for (name, value) in variables {
        program = program.env(name, value);
    }
    undisturbed(program.run(), way)
}

/// The program's own output and exit code.
fn undisturbed(outcome: Outcome, way: &str) -> Outcome {
    let code = if way == "exit" { 42 } else { 0 };
    assert_eq!(outcome.status.code(), Some(code), "{outcome:?}");
    assert_eq!(outcome.stdout, SUM, "{outcome:?}");
    outcome
}

#[test]
fn values_that_mean_nothing() {
    let folder = Folder::new("fault-values");
    for (name, value, accepted) in [
        ("FDR", "-", "write a function name or glob after it"),
        ("FDR", "off,x::*", "`off` can't be combined"),
        (
            "FDR",
            ",",
            "accepted are `1`, `on`, `*`, `off`, or a list of globs",
        ),
        (
            "FDR_BUFFER",
            "4T",
            "accepted are bytes, or a number with K, M or G",
        ),
        ("FDR_BUFFER", "64K", "the least is 128K"),
        ("FDR_BUFFER", "2G", "exceeds the budget FDR_MEMORY"),
        (
            "FDR_MEMORY",
            "-1",
            "accepted are bytes, or a number with K, M or G",
        ),
        ("FDR_MODE", "fulll", "accepted are ring, full"),
        ("FDR_CLOCK", "tsc", "accepted are rdtscp, rdtsc, monotonic"),
        ("FDR_FORMAT", "json", "accepted are xray, xray1"),
        ("FDR_LOG", "debug", "accepted are quiet, warn, info"),
        ("FDR_PANIC", "yes", "accepted are 1, 0, on, off"),
        ("FDR_SIGNAL", "KILL", "accepted are a name such as USR2"),
        ("FDR_SIGNAL", "USR3", "accepted are a name such as USR2"),
        ("FDR_SIGNAL", "65", "accepted are a name such as USR2"),
        ("FDR_OUT", "x.%q", "known are %e (program)"),
        ("FDR_OUT", "%n/x", "can't be part of a folder's name"),
    ] {
        let outcome = endings(&folder, &[("FDR", "1"), (name, value)], "exit");
        let lines: Vec<&str> = outcome.stderr.lines().collect();
        assert_eq!(lines.len(), 1, "{name}={value}: {lines:?}");
        let start = format!("fdr: {name}={value:?}: ");
        assert!(
            lines[0].starts_with(&start)
                && lines[0].contains(accepted)
                && lines[0].contains("recording is off"),
            "{lines:?}"
        );
        assert_eq!(folder.names(), [] as [&str; 0], "{name}={value}");
    }
}

#[test]
fn several_mistakes_are_one_line() {
    let folder = Folder::new("fault-several");
    let two = [("FDR", "1"), ("FDR_MODE", "x"), ("FDR_CLOCK", "y")];
    let outcome = endings(&folder, &two, "return");
    let lines = outcome.recorder_lines();
    assert!(
        lines.len() == 1 && lines[0].contains("FDR_MODE=\"x\": "),
        "{lines:?}"
    );
    assert!(lines[0].contains("FDR_CLOCK=\"y\": "), "{lines:?}");
    let typo = [("FDR", "1"), ("FDR_BUFER", "1M")];
    let outcome = endings(&folder, &typo, "return");
    assert!(
        outcome.recorder_lines()[0].contains("FDR_BUFER"),
        "{outcome:?}"
    );
    assert!(
        outcome.recorder_lines()[0].ends_with("the nearest is FDR_BUFFER"),
        "{outcome:?}"
    );
    verify(&folder.only_trace());
}

#[test]
fn off_is_off_whatever_else_is_set() {
    let folder = Folder::new("fault-off");
    for value in ["off", "0", ""] {
        let outcome = endings(
            &folder,
            &[("FDR", value), ("FDR_OUT", "no/where")],
            "return",
        );
        assert_eq!(outcome.stderr, "", "FDR={value}");
        assert_eq!(folder.names(), [] as [&str; 0]);
    }
}

#[test]
fn no_folder_for_rings_costs_only_their_afterlife() {
    let folder = Folder::new("fault-dir");
    fs::write(folder.join("file"), "").expect("a file");
    for dir in ["file", "file/x", "/proc"] {
        let outcome = endings(&folder, &[("FDR", "1"), ("FDR_DIR", dir)], "exit");
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains(dir) && lines[0].contains("the ring is in memory only"),
            "{lines:?}"
        );
        let traces = folder.ending(".fdr");
        assert_eq!(folder.names().len(), 2, "{:?}", folder.names());
        verify(&traces[0]);
        fs::remove_file(&traces[0]).expect("the trace");
    }
}

#[test]
fn named_missing_folders_are_made() {
    let folder = Folder::new("fault-missing");
    let variables = [("FDR", "1"), ("FDR_OUT", "a/b/"), ("FDR_DIR", "c/d/")];
    let outcome = endings(&folder, &variables, "exit");
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    folder.files("a/b").iter().for_each(|trace| verify(trace));
    assert_eq!(folder.names(), ["a", "c"]);
    // The names of these folders contain the pid, so the user can't make them beforehand. Only the folder before them
    // must exist.
    let variables = [("FDR", "1"), ("FDR_OUT", "a/%e-%p/%e/t.%n")];
    let outcome = endings(&folder, &variables, "exit");
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    assert_eq!(folder.files("a").len(), 2);
}

#[test]
fn other_missing_folders_are_reported_and_not_made() {
    let folder = Folder::new("fault-absent");
    fs::write(folder.join("file"), "").expect("a file");
    for (out, missing) in [
        ("/nonexistent/a/b", "/nonexistent/a/"),
        ("no/such/x.fdr", "/no/such/"),
        ("no/%n.fdr", "/no/"),
        ("no/%p/x.fdr", "/no/"),
        ("file/x.fdr", "/file/"),
    ] {
        let outcome = endings(&folder, &[("FDR", "1"), ("FDR_OUT", out)], "exit");
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with("FDR_OUT: there is no folder "),
            "{lines:?}"
        );
        assert!(
            lines[0].contains(&format!("{missing}; make it, or")),
            "{lines:?}"
        );
        assert_eq!(folder.names(), ["file"]);
    }
    assert!(!Path::new("/nonexistent").exists());
    // The ring's own folder: a recording all the same.
    let outcome = endings(&folder, &[("FDR", "1"), ("FDR_DIR", "c/d")], "exit");
    let recorder_lines = outcome.recorder_lines();
    assert_eq!(recorder_lines.len(), 2, "{recorder_lines:?}");
    assert!(
        recorder_lines[0].contains("/c/d/programs."),
        "{recorder_lines:?}"
    );
    assert!(
        recorder_lines[0].ends_with("; an FDR_DIR with a / at its end is made"),
        "{recorder_lines:?}"
    );
    assert_eq!(folder.names().len(), 2);
    folder.ending(".fdr").iter().for_each(|path| verify(path));
}

#[test]
fn no_folder_for_traces() {
    let folder = Folder::new("fault-out");
    fs::create_dir(folder.join("rings")).expect("a folder");
    fs::write(folder.join("file"), "").expect("a file");
    for out in ["file/", "/proc/%n.fdr"] {
        let variables = [("FDR", "1"), ("FDR_OUT", out), ("FDR_DIR", "rings")];
        let outcome = endings(&folder, &variables, "exit");
        let lines = outcome.recorder_lines();
        assert!(
            lines.len() == 1 && lines[0].starts_with("no trace was written: "),
            "{lines:?}"
        );
        assert!(lines[0].contains(&out.replace("%n", "1")), "{lines:?}");
        assert!(lines[0].contains("; "), "{lines:?}");
        // The records are not lost: the ring stays, and a line has its path.
        let ring = folder.only_file("rings", "");
        assert!(lines[0].contains(&*ring.to_string_lossy()), "{lines:?}");
        fs::remove_file(ring).expect("the ring");
    }
    assert_eq!(folder.names(), ["file", "rings"]);
}

/// With little room for addresses, rings have less, and a line says so.
#[test]
fn limits_of_addresses_are_named() {
    let folder = Folder::new("fault-limits");
    let script = "ulimit -v 500000; exec \"$0\" \"$@\"";
    let program = Program::named_in_shell(script, "endings", &folder);
    let outcome = undisturbed(program.args(&["exit"]).set("FDR=1").run(), "exit");
    let messages = outcome.recorder_lines().join("\n");
    let wanted = "the limit of 500000 KiB of addresses leaves 62464 KiB for all rings";
    assert!(messages.contains(wanted), "{messages}");
    verify(&folder.only_trace());
}

/// The program's threads find addresses beside the recorder's, however few there are.
#[test]
fn few_addresses_harm_nothing() {
    for limit in (20..=60).step_by(4) {
        let folder = Folder::new("fault-addresses");
        let script = format!("ulimit -v {}; exec \"$0\" \"$@\"", limit << 10);
        let run = |variable| {
            Program::named_in_shell(&script, "steady", &folder)
                .set(variable)
                .run()
        };
        let alone = run("");
        assert!(alone.status.success(), "{limit} MiB: {alone:?}");
        let recorded = run("FDR=1");
        assert!(recorded.status.success(), "{limit} MiB: {recorded:?}");
        let lines = recorded.recorder_lines().join("\n");
        // No recording, no trace beside the ring, or a trace.
        let told = ["recording is off", "the records are still in", "wrote "];
        assert!(
            told.iter().any(|told| lines.contains(told)),
            "{limit} MiB: {recorded:?}"
        );
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn traps_of_floating_point_numbers() {
    let folder = Folder::new("fault-float");
    let _ = endings(&folder, &[("FDR", "1")], "inexact");
    assert_eq!(
        folder.ending(".fdr").len(),
        2,
        "by the program, and at its end"
    );
}

#[test]
fn nobody_listens_to_standard_error() {
    let folder = Folder::new("fault-stderr");
    // A pipe without a reader. A write to it raises SIGPIPE, which ends a program that does not ignore it. Before
    // `main` no program has ignored it yet. `fifo` is such a pipe: its only reader is gone when the program starts.
    let unread =
        "mkfifo fifo; exec 4<>fifo 5>fifo 4>&-; rm fifo; \"$0\" \"$@\" 2>&5; echo \"code $?\"";
    let closed = "exec 2>&-; \"$0\" \"$@\"; echo \"code $?\"";
    for variables in ["FDR=1", "FDR=1 FDR_LOG=info FDR_DIR=/proc", "FDR=x,-"] {
        for script in [unread, closed] {
            let program = Program::named_in_shell(script, "endings", &folder);
            let outcome = program.args(&["exit"]).set(variables).run();
            let expected = format!("{SUM}code 42\n");
            assert_eq!(
                outcome.stdout, expected,
                "{variables}, {script}: {outcome:?}"
            );
        }
    }
    assert_eq!(folder.ending(".fdr").len(), 4);
}
