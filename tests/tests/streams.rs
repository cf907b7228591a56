//! Records are handed over while they are made, in every way to a receiver. All arrive if the receiver is fast enough.
//! Here the rings hold all of them, so every machine is fast enough. Troubles have a file of their own.

use std::fs;
use std::path::Path;

use fdr_formats::registry;
use fdr_formats::writer::Kind;
use fdr_tests::plugin;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, Running};
use fdr_tests::support::receiver::{Connection, Listener};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

/// Rings that hold all that a thread of these tests records.
const LARGE: &str = "FDR=1 FDR_MODE=stream FDR_BUFFER=16M FDR_MEMORY=256M";

/// The names of all targets that can be streamed.
pub(crate) fn stream_targets() -> impl Iterator<Item = &'static str> {
    let targets = registry::recorded().filter(|target| target.kind == Kind::Stream);
    targets.map(|target| target.name)
}

/// Starts a wave, and waits until `number` waves have ended.
pub(crate) fn run_wave(folder: &Folder, running: &mut Running, number: usize) {
    run_wave_by(folder, running, "go", number);
}

/// The same, with another command to the program.
fn run_wave_by(folder: &Folder, running: &mut Running, command: &str, number: usize) {
    running.tell(command);
    until("the wave's end", || {
        let text = fs::read_to_string(folder.join("counts")).unwrap_or_default();
        (facts::all(&text, "wave").len() >= number).then_some(())
    });
}

fn streamer(folder: &Folder, out: &str, arguments: &str) -> Program {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Program::named("streamer", folder)
        .set(LARGE)
        .env("FDR_OUT", out)
        .args(&["counts"])
        .args(&arguments)
}

/// What the program says it called, after its last wave.
fn counted(folder: &Folder) -> u64 {
    let text = fs::read_to_string(folder.join("counts")).expect("its counts");
    let last = facts::all(&text, "wave").pop().expect("a wave");
    facts::number(&last[1])
}

/// Reads a trace that must have all calls of the streamer and no lost records.
fn complete(path: &Path, calls: u64) -> Trace {
    let trace = Trace::read(path);
    let name = path.display();
    let half = calls / 2;
    let wanted = [
        ("programs::streamer::inner".to_owned(), half),
        ("programs::streamer::outer".to_owned(), half),
    ];
    assert_eq!(
        trace.calls().into_iter().collect::<Vec<_>>(),
        wanted,
        "{name}"
    );
    assert_eq!((trace.records(), trace.lost()), (2 * calls, 0), "{name}");
    assert_eq!(trace.info.program, "programs", "{name}");
    for lane in &trace.threads {
        let thread = &lane.thread;
        let counts = thread
            .counts
            .unwrap_or_else(|| panic!("{name}: {thread:?}"));
        let records = lane.edges.len() as u64;
        assert_eq!(
            (counts.recorded, counts.readable),
            (records, records),
            "{name}"
        );
        assert_eq!((counts.overwritten, counts.dropped), (0, 0), "{name}");
        assert_eq!(lane.synthetic, [0, 0], "{name}");
        assert!(thread.name.starts_with("wave-"), "{name}: {thread:?}");
    }
    trace
}

/// The only line: how much was streamed to where.
fn check_only_message(outcome: &Outcome, records: u64, threads: u64, place: &str) {
    let wanted = format!("streamed {records} records of {threads} threads to {place}, 0 lost");
    assert_eq!(outcome.recorder_lines(), [wanted]);
}

#[test]
fn a_million_calls_of_four_threads_over_tcp() {
    let folder = Folder::new("stream-tcp");
    let listener = Listener::tcp();
    let running = streamer(&folder, &listener.address(), "4 250000 waves 1").start();
    let reading = listener.accept().read_to(folder.join("trace"));
    let outcome = running.end().ok();
    assert_eq!(counted(&folder), 1_000_000);
    let trace = complete(&reading.end(), 1_000_000);
    assert_eq!(trace.threads.len(), 4);
    check_only_message(&outcome, 2_000_000, 4, &listener.address());
    assert_eq!(folder.names(), ["counts", "trace"], "no ring is left");
}

#[test]
fn every_stream_over_tcp_and_over_a_socket() {
    for name in stream_targets() {
        let folder = Folder::new("stream-each");
        for listener in [Listener::tcp(), Listener::unix(&folder.join("socket"))] {
            let _ = fs::remove_file(folder.join("counts"));
            let program = streamer(&folder, &listener.address(), "3 2000 waves 4");
            let running = program.env("FDR_FORMAT", name).start();
            let reading = listener.accept().read_to(folder.join("trace"));
            let outcome = running.end().ok();
            let trace = complete(&reading.end(), 24_000);
            assert_eq!(trace.threads.len(), 12, "{name}");
            check_only_message(&outcome, 48_000, 12, &listener.address());
        }
    }
}

#[test]
fn every_format_into_a_file() {
    for target in registry::recorded() {
        let folder = Folder::new("stream-path");
        let program = streamer(&folder, "trace.%n", "4 20000 waves 1");
        let outcome = program.env("FDR_FORMAT", target.name).run().ok();
        let path = folder.join("trace.1");
        complete(&path, 80_000);
        check_only_message(&outcome, 160_000, 4, &path.display().to_string());
        assert_eq!(folder.names(), ["counts", "trace.1"], "{}", target.name);
    }
}

#[test]
fn growing_stream_files_are_readable() {
    for name in stream_targets() {
        let folder = Folder::new("stream-grows");
        let program = streamer(&folder, "trace", "2 1000").env("FDR_FORMAT", name);
        let mut running = program.start();
        run_wave(&folder, &mut running, 1);
        until("the wave in the file", || {
            let path = folder.join("trace");
            // It is there at once, but not its first byte.
            let begun = fs::metadata(&path).is_ok_and(|known| known.len() > 64);
            (begun && Trace::read_cut(&path).records() == 4000).then_some(())
        });
        let _ = running.end().ok();
        complete(&folder.join("trace"), 2000);
    }
}

#[test]
fn standard_output_as_file_and_as_pipe() {
    for name in stream_targets() {
        for script in ["exec \"$0\" \"$@\" > trace", "\"$0\" \"$@\" | cat > trace"] {
            let folder = Folder::new("stream-stdout");
            let program = Program::named_in_shell(script, "streamer", &folder)
                .args(&["counts", "4", "5000", "waves", "1"])
                .set(LARGE)
                .env("FDR_OUT", "-")
                .env("FDR_FORMAT", name);
            let outcome = program.run().ok();
            complete(&folder.join("trace"), 20_000);
            check_only_message(&outcome, 40_000, 4, "the standard output");
        }
    }
}

/// The port that the program says it listens on.
fn port(running: &mut Running) -> String {
    let line = running.wait_for_line("listening on tcp-listen://");
    line.rsplit("//").next().expect("a port").to_owned()
}

#[test]
fn clients_come_when_they_like() {
    for name in stream_targets() {
        let folder = Folder::new("stream-listen");
        let program = streamer(&folder, "tcp-listen://127.0.0.1:0", "2 1000");
        let mut running = program.env("FDR_FORMAT", name).start();
        let port = port(&mut running);
        // The first client connects after the first wave and still gets it, because the rings hold it.
        run_wave(&folder, &mut running, 1);
        let first = Connection::to(&port).read_to(folder.join("first"));
        until("the wave at the first client", || {
            let length = fs::metadata(folder.join("first")).map_or(0, |known| known.len());
            (length > 64 && Trace::read_cut(&folder.join("first")).records() == 4000).then_some(())
        });
        let second = Connection::to(&port).read_to(folder.join("second"));
        run_wave(&folder, &mut running, 2);
        let outcome = running.end().ok();
        complete(&first.end(), 4000);
        let late = Trace::read(&second.end());
        assert_eq!(late.records() % 4000, 0, "{name}");
        assert!(
            (4000..=8000).contains(&late.records()),
            "{name}: {}",
            late.records()
        );
        assert_eq!(late.calls().len(), 2, "{name}");
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(lines[1].starts_with("streamed 8000 records of 4 threads to tcp-listen://"));
        assert!(lines[1].ends_with(", 0 lost"), "{lines:?}");
    }
}

#[test]
fn a_call_of_dump_and_the_signal_flush() {
    let folder = Folder::new("stream-flush");
    let mut running = streamer(&folder, "trace.%n", "1 500").start();
    run_wave_by(&folder, &mut running, "dump", 1);
    let words = until("the dump's words", || {
        let text = fs::read_to_string(folder.join("counts")).ok()?;
        facts::all(&text, "dump").pop()
    });
    assert_eq!(
        words,
        ["1000", &*folder.join("trace.1").display().to_string()]
    );
    // The line at the signal includes the second wave: 2000 records.
    run_wave(&folder, &mut running, 2);
    running.signal("USR2");
    let line = running.wait_for_line("streamed 2000 records of 2 threads to ");
    assert!(line.ends_with("trace.1 so far, 0 lost"), "{line}");
    let outcome = running.end().ok();
    assert_eq!(outcome.recorder_lines().len(), 3, "{outcome:?}");
    assert_eq!(folder.names(), ["counts", "trace.1"]);
    complete(&folder.join("trace.1"), 1000);
}

#[test]
fn functions_loaded_later_have_names() {
    for target in registry::recorded() {
        let folder = Folder::new("stream-plugin");
        let open = format!("open:{}", plugin().display());
        let outcome = Program::new(env!("CARGO_BIN_EXE_traced_host"), &folder)
            .set(LARGE)
            .set("FDR_OUT=trace")
            .env("FDR_FORMAT", target.name)
            .args(&["own", &open, "work", "threads", "own"])
            .run()
            .ok();
        assert!(outcome.stdout.contains("done"), "{outcome:?}");
        let calls = Trace::read(&folder.join("trace")).calls();
        assert_eq!(calls["traced_host::own"], 2, "{}", target.name);
        assert!(calls["recorded_plugin::plugin_work"] >= 5, "{calls:?}");
    }
}

/// Many short threads in few rings. The streamed and the lost records together are all recorded ones.
#[test]
fn rings_that_go_from_thread_to_thread() {
    let folder = Folder::new("stream-reuse");
    let running = Program::named("crowd", &folder)
        .set("FDR=1 FDR_MODE=stream FDR_BUFFER=128K FDR_MEMORY=1M FDR_OUT=trace FDR_FORMAT=heph")
        .args(&["short", "2000", "4"])
        .start_until("waiting");
    let outcome = running.end().ok();
    let calls: u64 = outcome.fact("calls");
    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(facts::total(&statistics), 2 * calls);
    let trace = Trace::read(&folder.join("trace"));
    let [streamed, lost] = facts::streamed(outcome.recorder_lines()[0]);
    assert_eq!(streamed + lost, 2 * calls);
    assert_eq!(trace.records(), streamed);
}

#[test]
fn a_panic_flushes_and_the_end_is_whole() {
    let folder = Folder::new("stream-panic");
    let outcome = Program::named("endings", &folder)
        .set(LARGE)
        .set("FDR_PANIC=1 FDR_OUT=trace.%n")
        .args(&["caught"])
        .run()
        .ok();
    let lines = outcome.recorder_lines();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].contains(" so far, 0 lost") && lines[1].ends_with("trace.1, 0 lost"));
    assert_eq!(
        Trace::read(&folder.join("trace.1")).calls()["programs::endings::work"],
        23
    );
}

#[test]
fn the_end_in_a_signal_handler() {
    let folder = Folder::new("stream-handler");
    let running = streamer(&folder, "trace", "1 1000 handler").start();
    until("the wave's end", || {
        folder.join("counts").exists().then_some(())
    });
    running.signal("USR1");
    let outcome = running.end();
    assert_eq!(outcome.status.code(), Some(7));
    let trace = Trace::read(&folder.join("trace"));
    assert!(trace.records() >= 2000);
    let [streamed, lost] = facts::streamed(outcome.recorder_lines()[0]);
    assert_eq!((streamed, lost), (trace.records(), lost));
}

#[test]
fn forked_children_do_not_stream() {
    // It dumps at its end, over a connection of its own; which of the two is sooner is open.
    let folder = Folder::new("stream-fork");
    let listener = Listener::tcp();
    let running = Program::named("forks", &folder)
        .set(LARGE)
        .env("FDR_OUT", listener.address())
        .args(&["calls"])
        .start();
    let reading = ["one", "two"].map(|name| listener.accept().read_to(folder.join(name)));
    let outcome = running.end().ok();
    let mut records = reading.map(|reading| Trace::read(&reading.end()).records());
    records.sort_unstable();
    assert_eq!(records, [40, 400]);
    let mut lines = outcome.recorder_lines();
    lines.sort_unstable();
    assert!(lines[0].starts_with("streamed 40 records"), "{outcome:?}");
    let of_child = lines[1].starts_with("wrote ") && lines[1].contains(": 400 records");
    assert!(of_child && lines.len() == 2, "{outcome:?}");
}
