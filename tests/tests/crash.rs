//! Crashes of every kind, on every kind of thread. The process ends as it does without the recorder, and leaves a whole
//! trace. There the crashing function is open and innermost. The reason names signal, thread and address. No ring and
//! no temporary file stays. Nothing takes two seconds.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use fdr_tests::support::crashed::Crasher;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;

const CRASHER: Crasher = Crasher(env!("CARGO_BIN_EXE_crasher"));

/// Checks that the program ended by `signal`, with the same output as without the recorder.
fn same_end(outcome: &Outcome, arguments: &[&str], signal: i32) {
    let plain = CRASHER.ended_as_untraced(outcome, arguments, signal);
    assert_eq!(plain.stdout, outcome.stdout, "{plain:?}");
}

/// Checks the whole course of the thread: ten steps, and then the calls that lead to the crash.
fn check_course(trace: &Trace, thread: &str) {
    let lane = trace.thread(thread);
    let _ = lane.checked_counts();
    let names: Vec<String> = lane.edges.iter().map(|edge| trace.name_of(*edge)).collect();
    assert_eq!(lane.edges.len(), 22, "{names:?}");
    assert_eq!(names[0], "crasher::work");
    assert!(
        names[1..21].iter().all(|name| name == "crasher::step"),
        "{names:?}"
    );
    // The last record is the entry of the function that crashed, and what is open is closed by the writer.
    assert_eq!(
        (names[21].as_str(), lane.edges[21] & 1),
        ("crasher::crash", 0)
    );
    assert_eq!(lane.synthetic, [0, 2]);
}

/// The only thing in the folder: a trace that is whole.
fn only_whole_trace(folder: &Folder) -> Trace {
    Trace::verified(&folder.only_trace())
}

/// The reason, without the numbers of this very run.
fn reason(trace: &Trace) -> String {
    let mut text = trace.info.reason.clone();
    for lane in &trace.threads {
        text = text.replace(&format!("thread {}", lane.thread.id), "thread N");
    }
    text
}

/// Crashes on the thread of `place`, whose name is `thread`; the reason is `expected` before the thread.
fn check_crash(place: &str, way: &str, signal: i32, thread: &str, expected: &str) {
    let folder = Folder::new("crash");
    let arguments = [place, way];
    let outcome = CRASHER.run(&folder, "FDR=1", &arguments);
    same_end(&outcome, &arguments, signal);
    let trace = only_whole_trace(&folder);
    check_course(&trace, thread);
    let (reason, messages) = (reason(&trace), outcome.recorder_lines().join("\n"));
    let (before, after) = expected.split_once('*').unwrap_or((expected, ""));
    assert!(reason.starts_with(&format!("crash: {before}")), "{reason}");
    let end = format!("{after} in thread N ({thread})");
    assert!(reason.ends_with(&end), "{reason}");
    assert_eq!(outcome.recorder_lines().len(), 1, "{outcome:?}");
    let counted = if messages.contains("1 thread ") {
        "22 records of 1 thread are in "
    } else {
        ""
    };
    let path = folder.only_trace();
    assert!(messages.starts_with(before), "{messages}");
    assert!(
        messages.contains(&format!("{counted}{}", path.display())),
        "{messages}"
    );
    assert_eq!(trace.info.dump, Some(1));
    assert_eq!(trace.info.program, "crasher");
}

#[test]
fn faults_on_the_main_thread() {
    for (way, signal, reason) in [
        ("null", libc::SIGSEGV, "SIGSEGV at 0x10"),
        ("read", libc::SIGSEGV, "SIGSEGV at 0x123000"),
        // The kernel does not say the address of one that is none.
        ("wild", libc::SIGSEGV, "SIGSEGV"),
        ("bus", libc::SIGBUS, "SIGBUS at 0x*"),
        ("illegal", libc::SIGILL, "SIGILL at 0x*"),
        ("divide", libc::SIGFPE, "SIGFPE at 0x*"),
        ("trap", libc::SIGTRAP, "SIGTRAP"),
        ("sys", libc::SIGSYS, "SIGSYS at 0x*"),
        ("abort", libc::SIGABRT, "SIGABRT"),
        // The same signals as the program sends them to itself.
        ("4", libc::SIGILL, "SIGILL"),
        ("8", libc::SIGFPE, "SIGFPE"),
        ("31", libc::SIGSYS, "SIGSYS"),
    ] {
        check_crash("main", way, signal, "crasher", reason);
    }
}

#[test]
fn faults_on_other_threads() {
    // One of the standard library's, and one that it knows nothing of, without an alternate stack.
    check_crash("std", "null", libc::SIGSEGV, "worker", "SIGSEGV at 0x10");
    check_crash("std", "abort", libc::SIGABRT, "worker", "SIGABRT");
    check_crash("raw", "null", libc::SIGSEGV, "crasher", "SIGSEGV at 0x10");
}

#[test]
fn stack_overflows() {
    // The standard library's message and its abort come after the trace, as ever.
    for (place, thread) in [("main", "crasher"), ("std", "worker")] {
        check_crash(place, "overflow", libc::SIGABRT, thread, "SIGSEGV at 0x*");
        let folder = Folder::new("crash-overflow");
        let outcome = CRASHER.run(&folder, "FDR=1", &[place, "overflow"]);
        let name = if place == "main" { "main" } else { "worker" };
        let wanted = format!("thread '{name}'");
        assert!(
            outcome.stderr.contains(&wanted) && outcome.stderr.contains("has overflowed its stack"),
            "{outcome:?}"
        );
    }
    // Without a stack of ours for the handler there would be nothing.
    check_crash(
        "raw",
        "overflow",
        libc::SIGSEGV,
        "crasher",
        "SIGSEGV at 0x*",
    );
}

#[test]
fn inside_malloc_with_its_lock_held() {
    for place in ["main", "std", "raw"] {
        let thread = if place == "std" { "worker" } else { "crasher" };
        check_crash(place, "malloc", libc::SIGSEGV, thread, "SIGSEGV at 0x10");
    }
}

#[test]
fn inside_the_recorder_at_any_instruction() {
    for round in 0..30 {
        let folder = Folder::new("crash-anywhere");
        let after = (50 + 137 * round).to_string();
        let outcome = CRASHER.run(&folder, "FDR=1 FDR_BUFFER=256K", &["anywhere", &after]);
        assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome:?}");
        let trace = only_whole_trace(&folder);
        let lane = trace.thread("crasher");
        let counts = lane.checked_counts();
        assert!(lane.synthetic.iter().sum::<u64>() <= 2, "{counts:?}");
        assert_eq!(reason(&trace), "crash: SIGABRT in thread N (crasher)");
    }
}

#[test]
fn handler_faults_end_with_the_first_signal() {
    for place in ["main", "std"] {
        let folder = Folder::new("crash-broken");
        let outcome = CRASHER.run(&folder, "FDR=1", &[place, "broken"]);
        same_end(&outcome, &[place, "broken"], libc::SIGTRAP);
        // What was recorded is still there.
        let names = folder.names();
        assert!(
            names.len() == 1 && names[0].ends_with(".fdr-ring"),
            "{names:?}"
        );
    }
}

#[test]
fn unreadable_records_stay_in_the_ring() {
    let folder = Folder::new("crash-unreadable");
    let outcome = CRASHER.run(&folder, "FDR=1", &["std", "unreadable"]);
    same_end(&outcome, &["std", "unreadable"], libc::SIGSEGV);
    let [line] = outcome.recorder_lines()[..] else {
        panic!("{outcome:?}");
    };
    assert!(
        line.contains(
            "; memory of the ring can't be read; for `fdr dump`, the records are still in "
        ),
        "{line}"
    );
    verify(&folder.ending(".fdr").remove(0));
    let ring = Trace::read(&folder.ending(".fdr-ring").remove(0));
    let names: Vec<String> = ring
        .thread("worker")
        .edges
        .iter()
        .map(|edge| ring.name_of(*edge))
        .collect();
    assert_eq!(names.last().map(String::as_str), Some("crasher::crash"));
    assert_eq!(names.len(), 22);
}

#[test]
fn two_threads_at_once() {
    for _ in 0..10 {
        let folder = Folder::new("crash-two");
        let outcome = CRASHER.run(&folder, "FDR=1", &["two", "null"]);
        assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
        let trace = only_whole_trace(&folder);
        assert!((1..=2).contains(&trace.threads.len()), "{trace:?}");
        for lane in &trace.threads {
            let _ = lane.checked_counts();
        }
        // The one that crashed first is the first one, and whole.
        let lane = &trace.threads[0];
        assert_eq!(
            trace.name_of(*lane.edges.last().expect("records")),
            "crasher::crash"
        );
        assert!(reason(&trace).starts_with("crash: SIGSEGV at 0x10 in thread N ("));
    }
}

#[test]
fn a_panic_during_a_panic() {
    let folder = Folder::new("crash-twice");
    let outcome = CRASHER.run(&folder, "FDR=1", &["twice", ""]);
    assert_eq!(outcome.status.signal(), Some(libc::SIGABRT), "{outcome:?}");
    let trace = only_whole_trace(&folder);
    let lane = trace.thread("crasher");
    assert_eq!(trace.name_of(lane.edges[0]), "crasher::twice");
    assert_eq!((lane.edges.len(), lane.synthetic), (1, [0, 1]));
}

#[test]
fn the_programs_earlier_handler_runs_after_ours() {
    let folder = Folder::new("crash-own");
    let arguments = ["main", "null", "own"];
    let outcome = CRASHER.run(&folder, "FDR=1", &arguments);
    assert_eq!(outcome.status.code(), Some(77), "{outcome:?}");
    // The handler got the address that the kernel gives.
    assert_eq!(outcome.stdout, "own 0x10\n");
    assert_eq!(CRASHER.untraced(&arguments).stdout, outcome.stdout);
    // Such a handler might have mended it: the ring stays as well.
    let traces = folder.ending(".fdr");
    assert_eq!((traces.len(), folder.names().len()), (1, 2), "{folder:?}");
    check_course(&Trace::read(&traces[0]), "crasher");
}

#[test]
fn later_handlers_replace_ours() {
    let folder = Folder::new("crash-later");
    let arguments = ["main", "null", "recorded", "own"];
    let outcome = CRASHER.run(&folder, "FDR=1", &arguments);
    assert_eq!(
        (outcome.status.code(), outcome.stdout.as_str()),
        (Some(77), "own 0x10\n")
    );
    // Nothing is lost: the ring is there.
    assert_eq!(folder.ending(".fdr-ring").len(), 1, "{:?}", folder.names());
}

#[test]
fn a_signal_from_outside() {
    let folder = Folder::new("crash-outside");
    let program = Program::new(CRASHER.0, &folder).args(&["main", "wait", "recorded", "wait"]);
    let mut running = program.set("FDR=1").start_ready();
    running.tell("go");
    // When it says nothing more it waits inside `crash`; its own records tell.
    let ring = &folder.ending(".fdr-ring")[0];
    fdr_tests::support::wait::until("the call of `crash`", || {
        let ring = fdr_tests::support::ring_file::RingFile::read(ring);
        (ring.threads.first()?.edges.len() == 24).then_some(())
    });
    running.signal("ILL");
    let outcome = running.end();
    assert_eq!(outcome.status.signal(), Some(libc::SIGILL), "{outcome:?}");
    let trace = only_whole_trace(&folder);
    let text = reason(&trace);
    assert!(text.starts_with("crash: SIGILL from process "), "{text}");
}

#[test]
fn a_signal_that_the_process_survives() {
    // The standard library's handler lets a SIGSEGV that was sent pass, once.
    let folder = Folder::new("crash-survived");
    let outcome = CRASHER.run(&folder, "FDR=1", &["main", "11"]).ok();
    assert_eq!(CRASHER.untraced(&["main", "11"]).status.code(), Some(0));
    let traces = folder.ending(".fdr");
    assert_eq!(traces.len(), 2, "{:?}", folder.names());
    traces.iter().for_each(|path| verify(path));
    check_course(&Trace::read(&traces[0]), "crasher");
    let last = Trace::read(&traces[1]);
    assert_eq!(
        (last.info.reason.as_str(), last.info.dump),
        ("exit", Some(2))
    );
    assert_eq!(last.thread("crasher").edges.len(), 24);
    assert_eq!(outcome.recorder_lines().len(), 2, "{outcome:?}");
}

#[test]
fn nothing_recorded_or_not_wanted() {
    for variables in ["FDR=1 FDR_CRASH=0", "FDR=1 FDR_CRASH=off FDR_LOG=info"] {
        let folder = Folder::new("crash-off");
        let outcome = CRASHER.run(&folder, variables, &["main", "null"]);
        same_end(&outcome, &["main", "null"], libc::SIGSEGV);
        // The ring is left for `fdr dump`.
        let names = folder.names();
        assert!(
            names.len() == 1 && names[0].ends_with(".fdr-ring"),
            "{names:?}"
        );
    }
    let folder = Folder::new("crash-nothing");
    let outcome = CRASHER.run(&folder, "FDR=1", &["unrecorded", ""]);
    assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
    assert_eq!(folder.ending(".fdr").len(), 0);
    assert_eq!(outcome.recorder_lines().len(), 0, "{outcome:?}");
}

#[test]
fn files_are_called_as_the_pattern_says() {
    for (out, expected) in [
        ("one.fdr", "one.fdr"),
        ("x%%y.%e.%n.trace", "x%y.crasher.1.trace"),
        ("new/%e/t.%n.fdr", "new/crasher/t.1.fdr"),
    ] {
        let folder = Folder::new("crash-names");
        fs::create_dir(folder.join("new")).expect("a folder");
        let variables = format!("FDR=1 FDR_OUT={out} FDR_DIR=rings/ FDR_LOG=quiet");
        let outcome = CRASHER.run(&folder, &variables, &["main", "null"]);
        assert_eq!(outcome.stderr, "");
        check_course(&Trace::read(&folder.join(expected)), "crasher");
        assert_eq!(folder.files("rings").len(), 0);
    }
    // Another format: a trace of the recorder's own all the same.
    let folder = Folder::new("crash-format");
    let outcome = CRASHER.run(&folder, "FDR=1 FDR_FORMAT=htdump", &["main", "null"]);
    assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV));
    check_course(&only_whole_trace(&folder), "crasher");
    // A number that is taken is left alone; a file without a number is replaced.
    let folder = Folder::new("crash-taken");
    fs::write(folder.join("t.1.fdr"), "mine").expect("a file");
    let _ = CRASHER.run(&folder, "FDR=1 FDR_OUT=t.%n.fdr", &["main", "null"]);
    assert_eq!(fs::read(folder.join("t.1.fdr")).expect("it"), b"mine");
    let second = Trace::read(&folder.join("t.2.fdr"));
    assert_eq!(second.info.dump, Some(2));
    assert_eq!(folder.names(), ["t.1.fdr", "t.2.fdr"]);
}

/// What ends without a trace ends as ever, keeps its ring, and leaves nothing else.
fn check_kept(folder: &Folder, outcome: &Outcome, why: &str) {
    assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
    let messages = outcome.recorder_lines().join("\n");
    assert!(
        messages.contains("no trace was written") && messages.contains(why),
        "{outcome:?}"
    );
    let (_, ring) = messages
        .split_once("the records are still in ")
        .expect("the ring");
    let ring = Path::new(ring.trim_end());
    assert!(ring.is_file(), "{messages}");
    assert_eq!(folder.ending(".tmp").len(), 0, "{:?}", folder.names());
    assert_eq!(folder.ending(".fdr").len(), 0, "{:?}", folder.names());
}

#[test]
fn a_file_that_cannot_be_written() {
    let null = ["main", "null"];
    let folder = Folder::new("crash-device");
    let outcome = CRASHER.run(&folder, "FDR=1 FDR_OUT=/dev/full FDR_DIR=.", &null);
    check_kept(&folder, &outcome, "/dev/full: not a file");

    let folder = Folder::new("crash-no-folder");
    let outcome = CRASHER.run(&folder, "FDR=1 FDR_OUT=/proc/x.fdr FDR_DIR=.", &null);
    check_kept(&folder, &outcome, "there is no such folder");
}

#[test]
fn a_limit_on_the_size_of_files() {
    // A line about the ring, at the start, and one about the trace.
    let folder = Folder::new("crash-fsize");
    let script = "ulimit -f 0; exec \"$0\" \"$@\"";
    let program = Program::in_shell(script, CRASHER.0, &folder).args(&["main", "null"]);
    let outcome = program.set("FDR=1").run();
    assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
    let lines = outcome.recorder_lines();
    assert!(
        lines.len() == 2 && lines[0].contains("File too large"),
        "{lines:?}"
    );
    let lost = lines[1].contains("no trace was written: ") && lines[1].contains("(ulimit -f)");
    assert!(lost, "{lines:?}");
    assert_eq!(folder.names(), [] as [&str; 0]);
}

#[test]
fn no_descriptors() {
    for option in ["full", "closed"] {
        let folder = Folder::new("crash-descriptors");
        let outcome = CRASHER.run(&folder, "FDR=1", &["main", "null", option]);
        assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
        check_course(&only_whole_trace(&folder), "crasher");
    }
}

#[test]
fn a_folder_that_is_gone() {
    let folder = Folder::new("crash-gone");
    let program = Program::new(CRASHER.0, &folder).args(&["main", "null", "wait"]);
    let running = program.set("FDR=1 FDR_OUT=sub/").start_ready();
    fs::remove_dir_all(folder.join("sub")).expect("the folder");
    let outcome = running.end();
    assert_eq!(outcome.status.signal(), Some(libc::SIGSEGV), "{outcome:?}");
    // It is made anew.
    assert_eq!(folder.files("sub").len(), 1);
}
