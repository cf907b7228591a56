//! Ctrl-C and SIGTERM leave a trace with all calls, and the process ends by them as without the recorder.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::thread;
use std::time::{Duration, Instant};

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, Running};
use fdr_tests::support::tool::verify;
use fdr_tests::support::trace::Trace;

const INT: i32 = 2;
const TERM: i32 = 15;

/// The program with four threads, at work.
fn steady(folder: &Folder, variables: &str) -> Running {
    // The tests may be started with SIGINT ignored, and programs inherit that.
    let program = Program::new("env", folder);
    let program = program.args(&[
        "--default-signal=INT",
        env!("CARGO_BIN_EXE_programs"),
        "steady",
    ]);
    program.set(variables).start_ready()
}

/// What the signal leaves of it.
fn ended_by(folder: &Folder, variables: &str, signal: &str) -> Outcome {
    let running = steady(folder, variables);
    running.signal(signal);
    running.end()
}

#[test]
fn the_last_trace_is_made_and_named() {
    for (signal, number) in [("INT", INT), ("TERM", TERM)] {
        for format in ["", "FDR_FORMAT=htdump", "FDR_FORMAT=heph"] {
            let folder = Folder::new("end-signal");
            let outcome = ended_by(&folder, &format!("FDR=1 {format}"), signal);
            assert_eq!(outcome.status.signal(), Some(number), "{outcome:?}");
            let [line] = outcome.recorder_lines()[..] else {
                panic!("{outcome:?}");
            };
            assert!(line.starts_with("wrote "), "{line}");
            let [name] = &folder.names()[..] else {
                panic!("more than a trace is left: {:?}", folder.names());
            };
            if format.is_empty() {
                let trace = Trace::read(&folder.join(name));
                assert_eq!(trace.info.reason, format!("SIG{signal}"));
                assert!(trace.threads.len() >= 4, "{}", trace.threads.len());
                verify(&folder.join(name));
            }
        }
    }
}

#[test]
fn other_triggers_leave_the_signal_alone() {
    for triggers in ["exit", "term", "off", "panic"] {
        let folder = Folder::new("end-signal-off");
        let outcome = ended_by(&folder, &format!("FDR=1 FDR_TRIGGER={triggers}"), "INT");
        assert_eq!(outcome.status.signal(), Some(INT), "{outcome:?}");
        assert_eq!(outcome.stderr, "");
        assert!(
            folder.ending(".fdr-ring").len() == 1,
            "{:?}",
            folder.names()
        );
    }
}

/// The peer takes nothing, so the first signal waits.
#[test]
fn a_second_signal_ends_at_once() {
    let peer = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = peer.local_addr().expect("an address");
    let folder = Folder::new("end-signal-twice");
    let variables = format!("FDR=1 FDR_OUT=tcp://{address} FDR_BUFFER=4M");
    let running = steady(&folder, &variables);
    // More than the kernel keeps for a peer.
    thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    running.signal("INT");
    let outcome = running.end();
    assert_eq!(outcome.status.signal(), Some(INT), "{outcome:?}");
    assert!(
        begun.elapsed() < Duration::from_secs(4),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_stream_comes_to_its_end() {
    let folder = Folder::new("end-signal-stream");
    let variables = "FDR=1 FDR_MODE=stream FDR_FORMAT=htdump FDR_OUT=stream.htdump";
    let outcome = ended_by(&folder, variables, "TERM");
    assert_eq!(outcome.status.signal(), Some(TERM), "{outcome:?}");
    let [line] = outcome.recorder_lines()[..] else {
        panic!("{outcome:?}");
    };
    assert!(line.starts_with("streamed "), "{line}");
    assert_eq!(folder.names(), ["stream.htdump"]);
}
