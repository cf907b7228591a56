//! Dumps in every format that the recorder writes: at the end and by signal, as files, and whole dumps over connections.
//! The other formats are made of them. Each dump has the calls that the program counted. A dump replaces a file of its
//! name if that file was a trace, and leaves any other file alone.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fdr_formats::registry;
use fdr_formats::writer::{Kind, Target};
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::receiver::{Connection, Listener};
use fdr_tests::support::trace::Trace;

fn endings(folder: &Folder, target: &Target, out: &str, way: &str) -> Program {
    Program::named("endings", folder)
        .set("FDR=1")
        .env("FDR_FORMAT", target.name)
        .env("FDR_OUT", out)
        .args(&[way])
}

fn works(path: &Path) -> u64 {
    Trace::read(path).calls()["programs::endings::work"]
}

fn of_kind(kind: Kind) -> impl Iterator<Item = &'static Target> {
    registry::recorded().filter(move |target| target.kind == kind)
}

#[test]
fn at_the_end_under_the_default_name() {
    for target in registry::recorded() {
        let folder = Folder::new("formats-end");
        let outcome = endings(&folder, target, "", "return").run().ok();
        let paths = folder.ending(&format!(".1.{}", target.extension));
        assert_eq!(
            (paths.len(), folder.names().len()),
            (1, 1),
            "{:?}",
            folder.names()
        );
        let trace = Trace::read(&paths[0]);
        assert_eq!(
            trace.calls(),
            BTreeMap::from([("programs::endings::work".to_owned(), 10)])
        );
        assert_eq!(trace.threads.len(), 1, "{}", target.name);
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let wrote = format!("wrote {}: 20 records of 1 thread, ", paths[0].display());
        assert!(lines[0].starts_with(&wrote), "{lines:?}");
    }
}

/// Converts a trace of the recorder into the formats that the recorder does not write. Also returns the output of the
/// tool.
fn converted(folder: &Folder, trace: &str) -> Vec<(&'static Target, PathBuf, Outcome)> {
    let others = registry::targets().filter(|target| registry::is_converted(target.name));
    let convert = |target: &'static Target| {
        let words = ["convert", trace, "--to", target.name, "-o", target.name];
        let outcome = Program::new(fdr_tests::tool(), folder)
            .args(&words)
            .run()
            .ok();
        (target, folder.join(target.name), outcome)
    };
    others.map(convert).collect()
}

#[test]
fn program_facts_are_in_every_format() {
    let folder = Folder::new("formats-info");
    let record = |target: &'static Target| {
        let _ = endings(&folder, target, target.name, "return").run().ok();
        (target, folder.join(target.name))
    };
    let mut traces: Vec<_> = registry::recorded().map(record).collect();
    let others = converted(&folder, "xray").into_iter();
    traces.extend(others.map(|(target, path, _)| (target, path)));
    for (target, path) in traces {
        let info = Trace::read(&path).info;
        assert_eq!(
            (&*info.program, &*info.reason),
            ("programs", "exit"),
            "{}",
            target.name
        );
        assert_eq!(info.dump, Some(1), "{}", target.name);
        assert!(
            info.process.is_some() && info.clock.anchor.is_some(),
            "{}",
            target.name
        );
        let work = info
            .functions
            .iter()
            .find(|known| known.name == "programs::endings::work");
        let work = work.unwrap_or_else(|| panic!("{}: {info:?}", target.name));
        assert!(
            work.file.ends_with("endings.rs") && work.line > 0,
            "{}: {work:?}",
            target.name
        );
    }
}

#[test]
fn dumps_by_signal_and_at_the_end() {
    for target in registry::recorded() {
        let folder = Folder::new("formats-signal");
        let running = Program::named("crowd", &folder)
            .set("FDR=1 FDR_OUT=trace.%n")
            .env("FDR_FORMAT", target.name)
            .args(&["short", "20", "4"])
            .start_until("waiting");
        running.signal("USR2");
        let _ = running.wait_for_line("wrote ");
        let outcome = running.end().ok();
        let calls = outcome.fact("calls");
        for number in 1..=2 {
            let trace = Trace::read(&folder.join(&format!("trace.{number}")));
            let wanted = BTreeMap::from([("programs::crowd::work".to_owned(), calls)]);
            assert_eq!(trace.calls(), wanted, "{} {number}", target.name);
            assert_eq!(trace.threads.len(), 20, "{}", target.name);
        }
        assert_eq!(folder.names(), ["trace.1", "trace.2"], "{}", target.name);
    }
}

#[test]
fn wrapped_rings_are_equal_in_every_format() {
    let folder = Folder::new("formats-round");
    let record = |target: &'static Target| {
        let outcome = Program::named("exact", &folder)
            .set("FDR=1 FDR_KEEP=0 FDR_BUFFER=128K FDR_LOG=info")
            .env("FDR_OUT", target.name)
            .env("FDR_FORMAT", target.name)
            .args(&["a:1:30000,b:2:20000"])
            .run()
            .ok();
        (target, outcome)
    };
    let recorded: Vec<_> = registry::recorded().map(record).collect();
    for (target, outcome) in &recorded {
        let path = folder.join(target.name);
        as_the_program_counted(target, &path, &outcome.stdout, &outcome.stderr);
    }
    let (xray, outcome) = &recorded[0];
    for (target, path, output) in converted(&folder, xray.name) {
        as_the_program_counted(target, &path, &outcome.stdout, &output.stderr);
    }
}

/// `said` has the messages about the trace.
fn as_the_program_counted(target: &Target, path: &Path, counted: &str, messages: &str) {
    let trace = Trace::read(path);
    for thread in &facts::statistics(counted).threads {
        let mut lanes = trace.threads.iter();
        let lane = lanes.find(|lane| lane.thread.id.0 == thread.id);
        let lane = lane.unwrap_or_else(|| panic!("{}: no {}", target.name, thread.name));
        let counts = lane.thread.counts;
        let counts = counts.unwrap_or_else(|| panic!("{}", target.name));
        let there = lane.edges.len() as u64;
        if target.name == "tcstate" {
            // The format has no states of length zero, and most untimed calls have this length. A message says so.
            assert!(
                messages.contains("calls shorter than 1 ns: left out"),
                "{messages}"
            );
            assert!((1..thread.readable).contains(&there), "{}", thread.name);
        } else {
            assert_eq!(there, thread.readable, "{} {}", target.name, thread.name);
        }
        assert_eq!(
            (
                counts.recorded,
                counts.readable,
                counts.overwritten,
                counts.dropped
            ),
            (
                thread.recorded,
                there,
                thread.overwritten,
                // What the format leaves out counts as dropped.
                thread.dropped + (thread.readable - there)
            ),
            "{}",
            target.name
        );
        assert_eq!(counts.summarised, thread.summarised, "{}", target.name);
        assert_eq!(lane.thread.name, thread.name, "{}", target.name);
    }
}

#[test]
fn unnumbered_dumps_replace_each_other() {
    for target in registry::recorded() {
        let folder = Folder::new("formats-replace");
        let outcome = endings(&folder, target, "trace", "dump-3").run().ok();
        assert_eq!(folder.names(), ["trace"], "{}", target.name);
        assert_eq!(works(&folder.join("trace")), 10);
        let lines = outcome.recorder_lines();
        let replaced = lines.iter().filter(|line| line.starts_with("replaced "));
        assert_eq!((lines.len(), replaced.count()), (4, 3), "{lines:?}");
    }
}

#[test]
fn another_runs_trace_is_replaced_too() {
    for target in registry::recorded() {
        let folder = Folder::new("formats-again");
        for _ in 0..2 {
            // The name is that of a folder only when the placeholder is filled in.
            let _ = endings(&folder, target, "%e.trace", "return").run().ok();
        }
        assert_eq!(folder.names(), ["programs.trace"], "{}", target.name);
        assert_eq!(works(&folder.join("programs.trace")), 10);
    }
}

#[test]
fn foreign_files_are_left_unchanged() {
    for target in registry::recorded() {
        let folder = Folder::new("formats-foreign");
        let path = folder.join("programs.trace");
        let refused = |outcome: &Outcome| {
            let lines = outcome.recorder_lines();
            assert!(lines[0].starts_with("no trace was written: "), "{lines:?}");
            assert!(lines[0].contains("left as it is"), "{lines:?}");
            // What was recorded is not lost.
            assert!(
                lines[0].contains(", the records are still in "),
                "{lines:?}"
            );
            assert_eq!(lines.len(), 1, "{lines:?}");
            assert_eq!(folder.ending(".fdr-ring").len(), 1, "{lines:?}");
            fs::remove_file(&folder.ending(".fdr-ring")[0]).expect("the ring");
        };
        fs::create_dir(&path).expect("a folder");
        fs::write(path.join("notes"), "notes").expect("a file");
        refused(&endings(&folder, target, "%e.trace", "return").run().ok());
        let notes = fs::read_to_string(path.join("notes")).expect("the file");
        assert_eq!(notes, "notes");
        assert_eq!(folder.names(), ["programs.trace"], "{}", target.name);
    }
}

#[test]
fn each_dump_has_its_own_connection() {
    for target in of_kind(Kind::Stream) {
        let folder = Folder::new("formats-connect");
        let listener = Listener::tcp();
        let running = endings(&folder, target, &listener.address(), "dump-3").start();
        for number in 0..4 {
            let path = folder.join(&format!("dump-{number}"));
            let path = listener.accept().read_to(path).end();
            assert_eq!(works(&path), 10, "{} {number}", target.name);
        }
        let outcome = running.end().ok();
        let wrote = format!("wrote {}: 20 records of 1 thread, ", listener.address());
        assert!(
            outcome
                .recorder_lines()
                .iter()
                .all(|line| line.starts_with(&wrote)),
            "{outcome:?}"
        );
    }
}

#[test]
fn clients_that_wait_get_the_dump() {
    for target in of_kind(Kind::Stream) {
        let folder = Folder::new("formats-listen");
        let mut running = Program::named("crowd", &folder)
            .set("FDR=1 FDR_OUT=tcp-listen://127.0.0.1:0")
            .env("FDR_FORMAT", target.name)
            .args(&["short", "8", "4"])
            .start();
        let said = running.wait_for_line("listening on tcp-listen://");
        let port = said.rsplit("//").next().expect("a port");
        while running.line() != "waiting" {}
        let clients = ["a", "b"].map(|name| Connection::to(port).read_to(folder.join(name)));
        running.signal("USR2");
        let paths: Vec<PathBuf> = clients.map(|client| client.end()).into();
        let _ = running.wait_for_line("wrote tcp-listen://");
        let outcome = running.end().ok();
        let calls = outcome.fact("calls");
        for path in paths {
            let wanted = BTreeMap::from([("programs::crowd::work".to_owned(), calls)]);
            assert_eq!(Trace::read(&path).calls(), wanted, "{}", target.name);
        }
        // At the end no client is connected. A line says so, and the ring keeps the records.
        let lines = outcome.recorder_lines();
        assert!(lines[2].contains("no client is there"), "{lines:?}");
        assert_eq!(folder.ending(".fdr-ring").len(), 1);
    }
}

#[test]
fn a_dump_on_standard_output() {
    for target in of_kind(Kind::Stream) {
        let folder = Folder::new("formats-stdout");
        let outcome = Program::named_in_shell("\"$0\" \"$@\" | cat > trace", "streamer", &folder)
            .set("FDR=1 FDR_OUT=-")
            .env("FDR_FORMAT", target.name)
            .args(&["counts", "2", "500", "waves", "1"])
            .run()
            .ok();
        assert_eq!(
            Trace::read(&folder.join("trace")).records(),
            2000,
            "{outcome:?}"
        );
    }
}

#[test]
fn the_tool_sends_snapshots_in_every_format() {
    let folder = Folder::new("formats-running");
    let running = Program::named("crowd", &folder)
        .set("FDR=1 FDR_OUT=/dev/null FDR_DIR=.")
        .args(&["short", "20", "4"])
        .start_until("waiting");
    let process = running.id().to_string();
    let others = converted(&folder, &process).into_iter();
    let mut traces: Vec<PathBuf> = others.map(|(_, path, _)| path).collect();
    let listener = Listener::tcp();
    let address = listener.address();
    let words = ["convert", &process, "--to", "iet-prefix2", "-o", &address];
    let tool = Program::new(fdr_tests::tool(), &folder)
        .args(&words)
        .start();
    let reading = listener.accept().read_to(folder.join("sent"));
    let outcome = tool.end().ok();
    assert!(outcome.stderr.contains(&address), "{outcome:?}");
    traces.push(reading.end());
    let outcome = running.end().ok();
    let calls = outcome.fact("calls");
    for path in traces {
        let wanted = BTreeMap::from([("programs::crowd::work".to_owned(), calls)]);
        assert_eq!(Trace::read(&path).calls(), wanted, "{}", path.display());
    }
}

#[test]
fn tool_only_formats_fall_back_to_xray() {
    for name in ["ctf", "IET2", "tcstate"] {
        let folder = Folder::new("formats-of-the-tool");
        let program = Program::named("endings", &folder).set("FDR=1");
        let program = program.env("FDR_FORMAT", name).env("FDR_OUT", "trace.%n");
        let outcome = program.args(&["return"]).run().ok();
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 2, "{lines:?}");
        let command = format!("`fdr convert --to {}`", name.to_lowercase());
        assert!(lines[0].contains(&command), "{lines:?}");
        let source = registry::open_path(&folder.join("trace.1")).expect("a trace");
        assert!(source.info().format.contains("XRay"), "{lines:?}");
        assert_eq!(works(&folder.join("trace.1")), 10);
    }
}

#[test]
fn mistakes_in_formats_are_one_line() {
    let file = registry::recorded().find(|target| target.kind != Kind::Stream);
    let file = file.expect("a format that is no stream").name;
    for (out, format, what) in [
        ("-", file, "can't be sent as a stream"),
        ("tcp://localhost", "", "no port"),
        ("http://localhost:80", "", "tcp-listen://host:port"),
        (
            "tcp-listen://192.0.2.1:0",
            "",
            "FDR_OUT: tcp-listen://192.0.2.1:0: ",
        ),
        ("trace", "jpeg", file),
    ] {
        let folder = Folder::new("formats-mistakes");
        let program = Program::named("endings", &folder).set("FDR=1");
        let program = program.env("FDR_OUT", out).env("FDR_FORMAT", format);
        let outcome = program.args(&["return"]).run().ok();
        let lines = outcome.recorder_lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].contains(what) && lines[0].ends_with("; recording is off"),
            "{lines:?}"
        );
        assert_eq!(outcome.stdout, "315\n");
        assert_eq!(folder.names(), [] as [&str; 0]);
    }
}
