//! What the recorder writes as Heph, as dump and as stream, packet by packet: within the limits of Heph's
//! own converter. The packets are taken apart by code that shares nothing with the library.

use std::fs;
use std::path::Path;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::receiver::{Connection, Listener};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

use crate::heph_packets_by_hand::{FACTS, Value, convertible, packets};
use crate::streams::run_wave;

fn streamer(folder: &Folder, out: &str, arguments: &str) -> Program {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Program::named("streamer", folder)
        .set("FDR=1 FDR_FORMAT=heph FDR_BUFFER=16M FDR_MEMORY=256M")
        .env("FDR_OUT", out)
        .args(&["counts"])
        .args(&arguments)
}

/// The trace must begin with an epoch, and have `calls` calls, and the counts of each thread as scalars.
fn check(path: &Path, calls: usize, threads: usize) {
    let bytes = fs::read(path).expect("a trace");
    let (epoch, _) = packets(&bytes);
    assert!(epoch.is_some(), "{}", path.display());
    let packets = convertible(&bytes);
    assert_eq!(packets[0].description, "fdr:trace");
    let found = packets.iter().filter(|packet| packet.stream != FACTS);
    let found = found.filter(|packet| !packet.description.starts_with("fdr:"));
    assert_eq!(found.count(), calls, "{}", path.display());
    let counted = packets.iter().filter(|packet| {
        let mut attributes = packet.attributes.iter();
        packet.stream == FACTS
            && attributes.any(|(name, value)| {
                name == "recorded" && matches!(value, Value::Unsigned(records) if *records > 0)
            })
    });
    assert!(counted.count() >= threads, "{}", path.display());
    assert_eq!(Trace::read(path).records(), 2 * calls as u64);
}

#[test]
fn a_dump() {
    let folder = Folder::new("heph-dump");
    let _ = streamer(&folder, "trace", "3 2000 waves 2").run().ok();
    check(&folder.join("trace"), 12_000, 6);
}

#[test]
fn a_stream_into_a_file_and_over_tcp() {
    let folder = Folder::new("heph-stream");
    let stream = |out: &str| streamer(&folder, out, "3 2000 waves 2").set("FDR_MODE=stream");
    let _ = stream("trace").run().ok();
    check(&folder.join("trace"), 12_000, 6);
    fs::remove_file(folder.join("counts")).expect("its counts");
    let listener = Listener::tcp();
    let running = stream(&listener.address()).start();
    let reading = listener.accept().read_to(folder.join("received"));
    let _ = running.end().ok();
    check(&reading.end(), 12_000, 6);
}

#[test]
fn a_client_that_joins_late() {
    let folder = Folder::new("heph-late");
    let program = streamer(&folder, "tcp-listen://127.0.0.1:0", "2 1000").set("FDR_MODE=stream");
    let mut running = program.start();
    let line = running.wait_for_line("listening on tcp-listen://");
    let port = line.rsplit("//").next().expect("a port").to_owned();
    let first = Connection::to(&port).read_to(folder.join("first"));
    run_wave(&folder, &mut running, 1);
    until("the wave at the first client", || {
        let length = fs::metadata(folder.join("first")).map_or(0, |known| known.len());
        (length > 64 && Trace::read_cut(&folder.join("first")).records() == 4000).then_some(())
    });
    let second = Connection::to(&port).read_to(folder.join("second"));
    run_wave(&folder, &mut running, 2);
    let _ = running.end().ok();
    check(&first.end(), 4000, 4);
    let late = second.end();
    let calls = Trace::read(&late).records() as usize / 2;
    check(&late, calls, 2);
}
