//! What outlives a process: the ring file, private while it runs, gone after a clean end, complete after a kill. A
//! reader of its own reads the ring here. The killed program kept in a page of memory how many records it had surely
//! made.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use fdr_tests::support::endless::{self, THREADS, only_ring, surely_made};
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::random::Random;
use fdr_tests::support::ring_file::{RingFile, RingThread};
use fdr_tests::support::script::{FUNCTIONS, Script};
use fdr_tests::support::trace::Trace;
use fdr_tests::support::wait::until;

/// A thread's records in the words of the script.
fn scripted(file: &RingFile, thread: &RingThread) -> Vec<u8> {
    let number = |edge: &u32| {
        let name = &file.functions[&(edge >> 1)];
        let known = FUNCTIONS
            .iter()
            .position(|known| *name == format!("programs::exact::{known}"));
        2 * known.unwrap_or_else(|| panic!("{name}")) as u8 + (edge & 1) as u8
    };
    thread.edges.iter().map(number).collect()
}

/// Kills the program after `records` records of its first thread, and checks the ring.
fn kill_after(records: u64, variables: &str) {
    let folder = Folder::new("kill");
    let program = endless::start(&folder, variables);
    until("records of every thread", || {
        let all = (0..4).all(|place| surely_made(&folder, place) > 0);
        (all && surely_made(&folder, 0) >= records).then_some(())
    });
    program.signal("KILL");
    let pid = program.id();
    assert!(program.end().status.code().is_none());

    let ring = only_ring(&folder);
    let file = RingFile::read(&ring);
    assert_eq!(file.pid, pid);
    for (place, (name, seed)) in THREADS.iter().enumerate() {
        let thread = file.threads.iter().find(|thread| thread.name == *name);
        let thread = thread.unwrap_or_else(|| panic!("no {name}: {:?}", file.threads.len()));
        let (sure, readable) = (surely_made(&folder, place), thread.edges.len() as u64);
        assert!(!thread.ended);
        let made = thread.before + readable;
        if !variables.contains("FDR_KEEP=0") && !variables.contains("FDR_MODE=full") {
            let attempted = made + thread.dropped + thread.summarised + thread.waiting;
            // A call that was being counted may be counted already, and still be open.
            assert!(
                (sure..=sure + 2).contains(&attempted),
                "{name}: {attempted} asked for, {sure} for sure: {thread:?}"
            );
            continue;
        }
        assert_eq!((thread.summarised, thread.waiting), (0, 0));
        let attempted = made + thread.dropped;
        assert!(
            attempted == sure || attempted == sure + 1,
            "{name}: {attempted} asked for, {sure} for sure"
        );
        let edges = Script::new(*seed, u64::MAX).edges(made);
        let expected = &edges[thread.before as usize..];
        assert!(
            scripted(&file, thread) == expected,
            "{name}: {made} records, {readable} kept"
        );
    }
}

#[test]
fn killed_processes_keep_committed_records() {
    let mut random = Random::new(9);
    // Within the first chunk, within the first round, after many rounds.
    for bound in [2_000, 15_000, 60_000, 500_000] {
        for variables in ["FDR_KEEP=0", "", "FDR_KEEP=0 FDR_CLOCK=monotonic"] {
            let variables = format!("FDR_BUFFER=256K {variables}");
            kill_after(1 + random.below(bound), &variables);
        }
    }
}

#[test]
fn full_mode_keeps_the_oldest_records() {
    for records in [10_000, 300_000] {
        kill_after(records, "FDR_BUFFER=128K FDR_MODE=full");
    }
}

#[test]
fn ring_files_are_private_and_removed() {
    let folder = Folder::new("kill-private");
    fs::create_dir(folder.join("rings")).expect("a folder");
    let program = Program::named("steady", &folder)
        .set("FDR=1 FDR_DIR=rings/ FDR_BUFFER=256K")
        .start_ready();
    let ring = only_ring(&folder);
    let name = ring
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let start = format!("programs.{}.", program.id());
    assert!(
        name.starts_with(&start) && name.ends_with(".fdr-ring"),
        "{name}"
    );
    let metadata = fs::metadata(&ring).expect("the ring");
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
    assert_eq!(metadata.nlink(), 1);
    let outcome = program.end().ok();
    assert!(!ring.exists(), "{outcome:?}");
    let trace = folder.ending(".fdr");
    assert_eq!((trace.len(), folder.names().len()), (1, 2));
    assert_eq!(Trace::read(&trace[0]).threads.len(), 4);
}

#[test]
fn the_file_is_not_larger_than_the_budget() {
    let folder = Folder::new("kill-budget");
    let mut program = Program::named("crowd", &folder)
        .set("FDR=1 FDR_BUFFER=128K FDR_MEMORY=2M")
        .args(&["short", "2000", "25"])
        .start();
    let mut output = String::new();
    loop {
        match program.line() {
            line if line == "waiting" => break,
            line => output = output + &line + "\n",
        }
    }
    let rings = folder.ending(".fdr-ring");
    let blocks = fs::metadata(&rings[0]).expect("the ring").blocks();
    // Its head and the function table's first part come on top.
    assert!(
        blocks * 512 <= (2 << 20) + (512 << 10),
        "{} KiB",
        blocks / 2
    );
    let statistics = facts::statistics(&output);
    let calls: u64 = facts::number(&facts::only_line(&output, "calls")[0]);
    assert_eq!(calls, 2000 * 3, "1 to 5 calls each");
    assert_eq!(facts::total(&statistics), 2 * calls, "{statistics:?}");
    assert!(statistics.threads.len() <= 16, "{statistics:?}");
    assert!(statistics.missing.threads > 0, "{statistics:?}");
    let file = RingFile::read(&rings[0]);
    let records: usize = file.threads.iter().map(|thread| thread.edges.len()).sum();
    let readable: u64 = statistics
        .threads
        .iter()
        .map(|thread| thread.readable)
        .sum();
    assert_eq!(records as u64, readable);
    let _ = program.end().ok();
}

#[test]
fn the_function_table_grows_with_the_ring() {
    // The table is written before the first record, and complete at any moment after it.
    let folder = Folder::new("kill-functions");
    let program = Program::named("steady", &folder)
        .set("FDR=1 FDR_BUFFER=128K")
        .start_ready();
    let ring = folder.ending(".fdr-ring").remove(0);
    program.stop();
    let file = RingFile::read(&ring);
    let names = file.functions.values().map(String::as_str);
    let mut names: Vec<&str> = names
        .filter(|name| name.starts_with("programs::steady::"))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "programs::steady::fib",
            "programs::steady::mix",
            "programs::steady::step"
        ]
    );
    program.signal("KILL");
}
