//! Crashes of programs that have handlers of their own: handlers that call ours, handlers that repair the fault, and an
//! `exit` at the same time. The process ends, or continues, as it would without the recorder. No case takes two
//! seconds.

use std::os::unix::process::ExitStatusExt;

use fdr_tests::support::crashed::Crasher;
use fdr_tests::support::folder::Folder;

use fdr_tests::support::tool::{fdr, verify};
use fdr_tests::support::trace::Trace;

const CRASHER: Crasher = Crasher(env!("CARGO_BIN_EXE_crasher"));

/// The only things in the folder: traces for these reasons, in this order, as far as the first word.
fn reasons(folder: &Folder) -> Vec<String> {
    let traces = folder.ending(".fdr");
    assert_eq!(traces.len(), folder.names().len(), "{:?}", folder.names());
    let first_word = |path| {
        verify(path);
        let reason = Trace::read(path).info.reason;
        let reason = reason.strip_prefix("crash: ").unwrap_or(&reason);
        reason.split(' ').next().unwrap_or_default().to_owned()
    };
    traces.iter().map(|path| first_word(path)).collect()
}

#[test]
fn later_handlers_may_call_ours() {
    for (way, signal, reason) in [
        ("null", libc::SIGSEGV, "SIGSEGV"),
        ("abort", libc::SIGABRT, "SIGABRT"),
        ("6", libc::SIGABRT, "SIGABRT"),
    ] {
        let folder = Folder::new("crash-chained");
        let arguments = ["main", way, "recorded", "chain"];
        let outcome = CRASHER.run(&folder, "FDR=1", &arguments);
        let _ = CRASHER.ended_as_untraced(&outcome, &arguments, signal);
        assert_eq!(reasons(&folder), [reason]);
        let trace = Trace::read(&folder.only_trace());
        assert_eq!(trace.thread("crasher").edges.len(), 24);
        assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    }
    // The standard library's handler lets a SIGSEGV that was sent pass, once.
    let arguments = ["main", "11", "recorded", "chain"];
    assert_eq!(CRASHER.untraced(&arguments).status.code(), Some(0));
    let folder = Folder::new("crash-chained-sent");
    let _ = CRASHER.run(&folder, "FDR=1", &arguments).ok();
    assert_eq!(reasons(&folder), ["SIGSEGV", "exit"]);
}

#[test]
fn a_fault_that_the_programs_handler_mends() {
    // The process continues: it records, keeps its ring, and may crash again by another fault.
    let folder = Folder::new("crash-mended");
    let arguments = ["main", "0", "mend", "mended"];
    assert_eq!(CRASHER.untraced(&arguments).status.code(), Some(0));
    let _ = CRASHER.run(&folder, "FDR=1", &arguments).ok();
    assert_eq!(reasons(&folder), ["SIGSEGV", "exit"]);

    let folder = Folder::new("crash-mended-abort");
    let arguments = ["main", "abort", "mend", "mended"];
    let outcome = CRASHER.run(&folder, "FDR=1", &arguments);
    let _ = CRASHER.ended_as_untraced(&outcome, &arguments, libc::SIGABRT);
    assert_eq!(reasons(&folder), ["SIGSEGV", "SIGABRT"]);

    let folder = Folder::new("crash-mended-killed");
    let outcome = CRASHER.run(&folder, "FDR=1", &["main", "9", "mend", "mended"]);
    assert_eq!(outcome.status.signal(), Some(libc::SIGKILL), "{outcome:?}");
    let rings = folder.ending(".fdr-ring");
    assert_eq!(rings.len(), 1, "{:?}", folder.names());
    // The reason is the signal that killed the process, not the one that it survived.
    let listed = fdr("rings", &[folder.path()]);
    assert!(!listed.contains("SIGSEGV"), "{listed}");
}

#[test]
fn a_system_call_that_the_programs_handler_makes() {
    let folder = Folder::new("crash-emulated");
    let _ = CRASHER
        .run(&folder, "FDR=1", &["main", "emulated", "emulate"])
        .ok();
    assert_eq!(reasons(&folder), ["exit"]);
}

#[test]
fn an_exit_while_another_thread_crashes() {
    for _ in 0..5 {
        let folder = Folder::new("crash-exit");
        let outcome = CRASHER.run(&folder, "FDR=1", &["exit", ""]);
        assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
        assert_eq!(reasons(&folder), ["SIGSEGV"]);
    }
}
