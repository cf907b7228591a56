//! Receivers that stall, go away, come back or do not exist. The program goes on and ends as without the recorder.
//! Every record is received, or is counted as lost. No test here depends on how fast anything is.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::receiver::{Connection, Listener};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

use crate::streams::{run_wave, stream_targets};

/// The smallest rings: records that the receiver does not take at once are soon overwritten.
const SMALL: &str = "FDR=1 FDR_MODE=stream FDR_BUFFER=128K";

fn streamer(folder: &Folder, out: &str, arguments: &str) -> Program {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Program::named("streamer", folder)
        .set(SMALL)
        .env("FDR_OUT", out)
        .args(&["counts"])
        .args(&arguments)
}

/// What the last line says was streamed and lost: together all that the program recorded.
fn account(outcome: &Outcome, folder: &Folder) -> [u64; 2] {
    let text = fs::read_to_string(folder.join("counts")).expect("its counts");
    let last = facts::all(&text, "wave").pop().expect("a wave");
    let recorded: u64 = facts::number(&last[2]);
    let lines = outcome.recorder_lines();
    let [streamed, lost] = facts::streamed(lines.last().expect("a line"));
    assert_eq!(streamed + lost, recorded, "{lines:?}");
    assert_eq!(folder.ending(".fdr-ring").len(), 0);
    [streamed, lost]
}

/// A whole trace of a receiver that was there from the beginning, or not: its counts agree with it.
fn consistent(trace: &Trace, name: &str) {
    for lane in &trace.threads {
        let thread = &lane.thread;
        let Some(counts) = thread.counts else {
            panic!("{name}: {thread:?}");
        };
        let measured = lane.edges.len() as u64;
        assert_eq!(counts.readable, measured, "{name}: {thread:?}");
        let sum = counts.readable + counts.overwritten + counts.dropped;
        assert_eq!(counts.recorded, sum, "{name}: {thread:?}");
    }
}

#[test]
fn nobody_is_there() {
    let folder = Folder::new("fault-nobody");
    let untraced = Program::named("streamer", &folder).args(&["counts", "2", "1000", "waves", "3"]);
    let untraced = untraced.run().ok();
    for out in [
        format!("unix:{}", folder.join("no-socket").display()),
        // No program serves this port any more, and the tests use others.
        "tcp://127.0.0.1:1".to_owned(),
        "tcp-listen://localhost:0".to_owned(),
    ] {
        fs::remove_file(folder.join("counts")).expect("the counts");
        let outcome = streamer(&folder, &out, "2 1000 waves 3").run();
        assert_eq!(
            (outcome.status, &outcome.stdout),
            (untraced.status, &untraced.stdout)
        );
        let [streamed, lost] = account(&outcome, &folder);
        assert_eq!((streamed, lost), (0, 12_000));
        assert_eq!(
            outcome.recorder_lines().len(),
            2,
            "one line of trouble: {outcome:?}"
        );
    }
}

/// CPU time of a process so far, in ticks: 100 a second.
fn ticks(id: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).expect("its numbers");
    let (_, rest) = stat.rsplit_once(") ").expect("its name");
    let fields: Vec<&str> = rest.split(' ').collect();
    facts::number::<u64>(fields[11]) + facts::number::<u64>(fields[12])
}

#[test]
fn who_waits_for_a_receiver_rests() {
    let socket = Folder::new("fault-rests-socket").join("no-socket");
    for out in [
        format!("unix:{}", socket.display()),
        "tcp-listen://localhost:0".to_owned(),
    ] {
        let folder = Folder::new("fault-rests");
        let program = streamer(&folder, &out, "1 1000").set("FDR_BUFFER=16M");
        let mut running = program.start();
        run_wave(&folder, &mut running, 1);
        // What the recorder does at its start may still go on in the first second.
        let rests = (0..5).any(|_| {
            let before = ticks(running.id());
            std::thread::sleep(std::time::Duration::from_secs(1));
            ticks(running.id()) - before < 20
        });
        assert!(rests, "{out}");
        let _ = running.end().ok();
    }
}

#[test]
fn somebody_comes_later() {
    let folder = Folder::new("fault-later");
    let socket = folder.join("socket");
    let out = format!("unix:{}", socket.display());
    let mut running = streamer(&folder, &out, "1 100000").start();
    run_wave(&folder, &mut running, 1);
    let listener = Listener::unix(&socket);
    let reading = listener.accept().read_to(folder.join("trace"));
    run_wave(&folder, &mut running, 2);
    let outcome = running.end().ok();
    let [streamed, lost] = account(&outcome, &folder);
    let trace = Trace::read(&reading.end());
    assert_eq!(trace.records(), streamed);
    // Of the first wave, the ring has kept 128 KiB at most.
    assert!(lost >= 200_000 - 16_384, "{lost}");
    assert!(streamed > 0);
    assert_eq!(trace.lost(), lost);
    consistent(&trace, "later");
}

#[test]
fn a_receiver_that_stalls_and_goes_on() {
    for name in stream_targets() {
        let folder = Folder::new("fault-stalls");
        let listener = Listener::tcp();
        let program = streamer(&folder, &listener.address(), "2 200000");
        let mut running = program.env("FDR_FORMAT", name).start();
        // Nothing is read until all is recorded: the connection holds some megabytes, the rings 256 KiB.
        let connection = listener.accept();
        for number in 1..=3 {
            run_wave(&folder, &mut running, number);
        }
        let reading = connection.read_to(folder.join("trace"));
        let outcome = running.end().ok();
        let [streamed, lost] = account(&outcome, &folder);
        let trace = Trace::read(&reading.end());
        assert_eq!(trace.records(), streamed, "{name}");
        assert!(
            lost > 0 && trace.lost() == lost,
            "{name}: {lost} {}",
            trace.lost()
        );
        consistent(&trace, name);
    }
}

#[test]
fn a_receiver_that_stalls_for_good() {
    let folder = Folder::new("fault-stuck");
    let listener = Listener::tcp();
    let running = streamer(&folder, &listener.address(), "2 200000 waves 3").start();
    let connection = listener.accept();
    // The program ends although its receiver never reads.
    let outcome = running.end().ok();
    let [_, lost] = account(&outcome, &folder);
    assert!(lost > 0);
    drop(connection);
}

#[test]
fn one_client_of_two_stalls() {
    let folder = Folder::new("fault-one-of-two");
    let large = "FDR_BUFFER=16M";
    let program = streamer(&folder, "tcp-listen://127.0.0.1:0", "2 200000").set(large);
    let mut running = program.start();
    let line = running.wait_for_line("listening on tcp-listen://");
    let port = line.rsplit("//").next().expect("a port").to_owned();
    let stuck = Connection::to(&port);
    let reading = Connection::to(&port).read_to(folder.join("trace"));
    // Both are served before anything is recorded.
    until("the beginning at the second client", || {
        let length = fs::metadata(folder.join("trace")).map_or(0, |known| known.len());
        (length > 0).then_some(())
    });
    for number in 1..=3 {
        run_wave(&folder, &mut running, number);
    }
    let outcome = running.end().ok();
    drop(stuck);
    assert_eq!(account(&outcome, &folder), [2_400_000, 0]);
    let trace = Trace::read(&reading.end());
    assert_eq!(
        trace.records(),
        2_400_000,
        "it misses nothing of what the other does not take"
    );
    consistent(&trace, "the other");
}

#[test]
fn a_receiver_that_dies_and_comes_back() {
    for name in stream_targets() {
        let folder = Folder::new("fault-dies");
        let listener = Listener::tcp();
        let program = streamer(&folder, &listener.address(), "2 50000");
        let mut running = program.env("FDR_FORMAT", name).start();
        let mut first = listener.accept();
        run_wave(&folder, &mut running, 1);
        // It goes away with input that it has not read: the connection is reset.
        first.read_some(100_000, &folder.join("first"));
        drop(first);
        let mut number = 1;
        // The loss of the connection shows when something is sent.
        let lost_line = loop {
            number += 1;
            run_wave(&folder, &mut running, number);
            let message = running.said_already("tcp://");
            if let Some(line) = message {
                break line;
            }
        };
        assert!(
            lost_line.contains("the connection is lost; trying again"),
            "{lost_line}"
        );
        let reading = listener.accept().read_to(folder.join("second"));
        run_wave(&folder, &mut running, number + 1);
        let outcome = running.end().ok();
        let [streamed, lost] = account(&outcome, &folder);
        let second = Trace::read(&reading.end());
        let first = Trace::read_cut(&folder.join("first"));
        assert!(first.records() > 0 && second.records() > 0, "{name}");
        // The second stream has the entries of calls that were open between the two streams: at most two in each
        // thread.
        let open = 2 * second.threads.len() as u64;
        // For the second one, all that came before it is missing, and it says so.
        let (readable, known) = known(&second);
        assert!(readable <= streamed, "{name}: {readable} of {streamed}");
        // What the first one read of a batch that it did not take whole is counted as lost.
        let whole = streamed - readable;
        assert!(first.records() <= whole + MAX_BATCH, "{name}: {whole}");
        assert!(
            (readable..=readable + open).contains(&second.records()),
            "{name}: {readable}"
        );
        assert_eq!(second.lost() + readable, known, "{name}");
        assert!(lost <= second.lost(), "{name}: {lost}");
        assert_eq!(outcome.recorder_lines().len(), 2, "{outcome:?}");
    }
}

/// Records that the stream hands over together, at most: up to 32 Ki, and the chunk that reaches that.
const MAX_BATCH: u64 = (32 << 10) + (64 << 10) / 8;

/// Records that a trace says it was given, and that were made, of all its threads.
fn known(trace: &Trace) -> (u64, u64) {
    let counts = || {
        let lanes = trace.threads.iter();
        lanes.filter_map(|lane| lane.thread.counts)
    };
    let readable = counts().map(|counts| counts.readable).sum();
    (readable, counts().map(|counts| counts.recorded).sum())
}

#[test]
fn full_file_systems_end_only_the_trace() {
    let folder = Folder::new("fault-full");
    // 120 blocks of 512 bytes: the ring itself is refused as well, and is in memory then.
    let outcome = Program::named_in_shell("ulimit -f 120; exec \"$0\" \"$@\"", "streamer", &folder)
        .set(SMALL)
        .set("FDR_OUT=trace FDR_FORMAT=htdump")
        .args(&["counts", "2", "20000", "waves", "2"])
        .run()
        .ok();
    let lines = outcome.recorder_lines();
    // The ring's, the trace's, and the stream's own.
    assert!(
        lines.len() == 3 && lines[0].contains("File too large"),
        "{lines:?}"
    );
    let is_cut = lines[1].contains("/trace: ") && lines[1].ends_with(": what follows is lost");
    assert!(is_cut, "{lines:?}");
    let [streamed, lost] = facts::streamed(lines[2]);
    assert!(
        streamed < 160_000 && streamed + lost == 160_000,
        "{lines:?}"
    );
    // What there is of the trace ends with a whole record.
    assert!(Trace::read(&folder.join("trace")).records() <= streamed);
    let text = fs::read_to_string(folder.join("counts")).expect("its counts");
    assert_eq!(facts::all(&text, "wave").len(), 2);
}

#[test]
fn a_reader_of_standard_output_that_goes_away() {
    let folder = Folder::new("fault-stdout");
    let script = "\"$0\" \"$@\" | head -c 100 > trace";
    let outcome = Program::named_in_shell(script, "streamer", &folder)
        .set(SMALL)
        .set("FDR_OUT=-")
        .args(&["counts", "2", "20000", "waves", "5"])
        .run()
        .ok();
    let _ = account(&outcome, &folder);
    assert_eq!(outcome.recorder_lines().len(), 2, "{outcome:?}");
}

#[test]
fn another_users_socket_gets_nothing() {
    let folder = Folder::new("fault-stranger");
    fs::create_dir(folder.join("shared")).expect("a folder");
    let rights = fs::Permissions::from_mode(0o1777);
    fs::set_permissions(folder.join("shared"), rights).expect("a folder for all");
    let socket = folder.join("shared/socket");
    let listener = Command::new(fdr_tests::tool())
        .args(["listen", &format!("unix:{}", socket.display()), "-o"])
        .arg(folder.join("shared/taken"))
        .uid(54_321)
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut listener) = listener else {
        fdr_tests::skip("sockets of other users: no right to be another user");
        return;
    };
    until("the other user's socket", || fs::metadata(&socket).ok());
    let address = format!("unix:{}", socket.display());
    for (out, mode) in [(&address, "stream"), (&address, "ring")] {
        let program = streamer(&folder, out, "2 1000 waves 1").env("FDR_MODE", mode);
        let outcome = program.run();
        assert!(outcome.status.success(), "{outcome:?}");
        let why = "user 54321 made the socket, and nothing is sent to another user";
        assert!(outcome.stderr.contains(why), "{mode}: {outcome:?}");
    }
    let _ = listener.kill();
    let _ = listener.wait();
    let shared = folder.files("shared");
    assert_eq!(shared.len(), 1, "nothing but the socket");
}
