//! A thread's ring gets its space chunk by chunk. The tests cover the space of few records, threads that find no more
//! space, owners that inherit space, and rings of dead processes. Counts must be exact in each case. The program must
//! show nothing of the recorder but its one line.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::faults_support::{Leftovers, UNSHARE, may, steadfast};
use fdr_formats::model::Counts;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, verify};
use fdr_tests::support::trace::{Lane, Trace};

/// Function records in a chunk: one of 64 KiB, without its three metadata records.
const PER_CHUNK: u64 = (65536 - 48) / 8;
/// What the step `much` records, and `next` in a thread of its own.
const MUCH: u64 = 400_000;
const WORK: u64 = 20;

/// Puts the rings on their own file system of `kib` KiB, and the traces elsewhere. A ring that the program leaves is
/// kept. If there are at most two rings, the recorder prepares none, so each step finds a certain state.
fn on_a_small_disk(kib: u32, variables: &str, steps: &str) -> (Leftovers, Folder) {
    let before = format!(
        "mkdir small && mount -t tmpfs -o size={kib}K none small && cd small && mkdir traces"
    );
    let variables = format!("FDR=1 FDR_KEEP=0 FDR_OUT=$home/out/ FDR_DIR=traces {variables}");
    let folder = Folder::new("region-disk");
    let left = steadfast(&variables, &before, steps).check_in(&folder, UNSHARE);
    (left, folder)
}

/// The trace that was written in the end.
fn trace_in(folder: &Folder) -> Trace {
    Trace::verified(&folder.only_file("out", ".fdr"))
}

/// The trace of the ring that a dead process left.
fn recovered(folder: &Folder) -> Trace {
    let ring = folder.only_file("traces", ".fdr-ring");
    let out = folder.join("recovered.fdr");
    let _ = fdr("dump -o", &[&out, &ring]);
    verify(&out);
    Trace::read(&out)
}

/// The only thread's counts, of which the sum is right.
fn of_one_thread(trace: &Trace, recorded: u64) -> Counts {
    let [lane] = trace.threads.as_slice() else {
        panic!("one thread: {:?}", trace.info)
    };
    let counts = lane.checked_counts();
    assert_eq!(counts.recorded, recorded);
    counts
}

/// The least number of whole chunks that the kept records fill, without the newest chunk.
fn chunks(counts: &Counts) -> u64 {
    counts.readable.div_ceil(PER_CHUNK) - 1
}

#[test]
fn threads_without_space_reuse_their_chunks() {
    if !may("a full disk", "mkdir small && mount -t tmpfs none small") {
        return;
    }
    // Some chunks, as many as the dumper came to give: more than were used, fewer than are needed.
    let (left, folder) = on_a_small_disk(
        32_000,
        "FDR_BUFFER=16M FDR_MEMORY=32M",
        "much fill much much much much much exit",
    );
    assert_eq!(left.warnings, 1, "{left:?}");
    let line = &left.lines[0];
    assert!(line.contains("it keeps fewer records"), "{line}");
    let counts = of_one_thread(&trace_in(&folder), 6 * MUCH);
    assert_eq!(counts.dropped, 0);
    let had = MUCH / PER_CHUNK;
    assert!((had..5 * had).contains(&chunks(&counts)), "{counts:?}");
}

#[test]
fn full_mode_stops_where_space_ends() {
    if !may("a full disk", "mkdir small && mount -t tmpfs none small") {
        return;
    }
    let variables = "FDR_BUFFER=16M FDR_MEMORY=32M FDR_MODE=full";
    let (left, folder) =
        on_a_small_disk(32_000, variables, "much fill much much much much much exit");
    assert_eq!(left.warnings, 1, "{left:?}");
    let counts = of_one_thread(&trace_in(&folder), 6 * MUCH);
    assert_eq!(counts.overwritten, 0);
    assert!(
        counts.readable >= MUCH && counts.dropped > MUCH,
        "{counts:?}"
    );
}

#[test]
fn threads_always_have_two_chunks() {
    if !may("a full disk", "mkdir small && mount -t tmpfs none small") {
        return;
    }
    let (left, folder) = on_a_small_disk(8_000, "FDR_MEMORY=8M", "work fill much exit");
    assert_eq!(left.warnings, 1, "{left:?}");
    let counts = of_one_thread(&trace_in(&folder), WORK + MUCH);
    assert_eq!((chunks(&counts), counts.dropped), (1, 0), "{counts:?}");
}

#[test]
fn processes_without_space_leave_whole_traces() {
    if !may("a full disk", "mkdir small && mount -t tmpfs none small") {
        return;
    }
    let variables = "FDR_BUFFER=16M FDR_MEMORY=32M FDR_CRASH=0";
    let (left, folder) = on_a_small_disk(
        32_000,
        variables,
        "much fill much much much much much abort",
    );
    assert!(left.warnings <= 1, "{left:?}");
    let counts = of_one_thread(&recovered(&folder), 6 * MUCH);
    assert_eq!(counts.dropped, 0);
    let had = MUCH / PER_CHUNK;
    assert!((had..5 * had).contains(&chunks(&counts)), "{counts:?}");
    // A crash's trace is made from the same memory by the process itself.
    let (_, folder) = on_a_small_disk(
        32_000,
        "FDR_BUFFER=16M FDR_MEMORY=32M",
        "much fill much much much much much crash",
    );
    let of_crash = of_one_thread(&trace_in(&folder), 6 * MUCH);
    assert!((had..5 * had).contains(&chunks(&of_crash)), "{of_crash:?}");
}

#[test]
fn space_is_inherited() {
    if !may("a full disk", "mkdir small && mount -t tmpfs none small") {
        return;
    }
    // One ring, of 16 chunks: the second thread has all that the first one had, and needs no more.
    let variables = "FDR_BUFFER=1M FDR_MEMORY=1M";
    let (left, folder) = on_a_small_disk(8_000, variables, "next fill next exit");
    assert_eq!(left.warnings, 0, "{left:?}");
    let trace = trace_in(&folder);
    let counts = of_one_thread(&trace, MUCH);
    assert_eq!(chunks(&counts), 15, "{counts:?}");
    let missing = &trace.info.missing;
    assert_eq!((missing.threads, missing.overwritten), (1, MUCH));
    // Where space is there again, the next thread takes what the first one did not find.
    let steps = "brief fill next dump shrink next exit";
    let (left, folder) = on_a_small_disk(8_000, variables, steps);
    assert_eq!(left.warnings, 1, "{left:?}");
    let files = folder.files("out");
    let counts = files
        .iter()
        .map(|path| chunks(&of_one_thread(&Trace::verified(path), MUCH)));
    assert_eq!(counts.collect::<Vec<u64>>(), [1, 15]);
}

/// A program that closes all descriptors has rings of full length in their file all the same.
#[test]
fn a_ring_grows_without_the_programs_descriptors() {
    let folder = Folder::new("region-shut");
    let row = steadfast(
        "FDR=1 FDR_OUT=out/ FDR_DIR=traces",
        "mkdir traces",
        "work shut much exit",
    );
    let left = row.check_in(&folder, &[]);
    assert_eq!((left.warnings, left.lines.len()), (0, 1), "{left:?}");
    let counts = of_one_thread(&trace_in(&folder), WORK + MUCH);
    assert_eq!((counts.overwritten, counts.dropped), (0, 0));
}

/// Disks that are full from some moment on, for the dumper's writes or for threads, and kernels that touch no pages.
#[test]
fn calls_for_space_that_fail() {
    let Some(_) = fdr_tests::reader("strace", "system calls that fail") else {
        return;
    };
    // The failing call, its error, from which call of a thread on it fails, how many lines are printed, and the least
    // number of whole chunks.
    for (call, error, from, warnings, least) in [
        ("pwritev", "EINTR", 3, 0, 48),
        ("pwritev", "ENOSPC", 1, 1, 1),
        ("pwritev", "ENOSPC", 3, 1, 1),
        ("pwritev", "EDQUOT", 5, 1, 1),
        ("madvise", "EINVAL", 1, 0, 48),
        ("madvise", "EFAULT", 3, 1, 1),
    ] {
        // EINTR once: the call is made again.
        let when = if error == "EINTR" {
            format!("{from}")
        } else {
            format!("{from}+")
        };
        let inject = format!(
            "strace -f -qq -o /dev/null -e trace={call} -e inject={call}:error={error}:when={when}"
        );
        let folder = Folder::new("region-calls");
        let row = steadfast(
            "FDR=1 FDR_OUT=out/ FDR_DIR=traces",
            "mkdir traces",
            "work much exit",
        );
        let left = row.with_injection(&inject).check_in(&folder, &[]);
        assert!(left.warnings <= warnings, "{call} {error} {from}: {left:?}");
        let counts = of_one_thread(&trace_in(&folder), WORK + MUCH);
        assert_eq!(counts.dropped, 0, "{call} {error} {from}");
        assert!(
            chunks(&counts) >= least,
            "{call} {error} {from}: {counts:?}"
        );
    }
}

/// Bytes that a file takes on its disk.
fn taken(path: &PathBuf) -> u64 {
    512 * std::fs::metadata(path).expect("a ring").blocks()
}

#[test]
fn simultaneous_threads_record_everything() {
    const AT_ONCE: u64 = 64;
    let folder = Folder::new("region-burst");
    let at_once = AT_ONCE.to_string();
    let mut program = Program::named("crowd", &folder)
        .set("FDR=1 FDR_DIR=. FDR_MEMORY=2G FDR_SCHED=0")
        .args(&["short", "192", &at_once])
        .start();
    let mut text = String::new();
    loop {
        let line = program.line();
        if line == "waiting" {
            break;
        }
        text += &(line + "\n");
    }
    let ring = folder.ending(".fdr-ring").remove(0);
    let bytes = taken(&ring);
    program.tell("");
    let _ = program.end().ok();
    let calls = facts::number::<u64>(&facts::only_line(&text, "calls")[0]);
    let statistics = facts::statistics(&text);
    assert_eq!(facts::total(&statistics), 2 * calls);
    let trace = Trace::verified(&folder.only_trace());
    assert_eq!(trace.threads.len(), 192);
    let counts = trace.threads.iter().map(Lane::checked_counts);
    let readable: u64 = counts.map(|counts| counts.readable).sum();
    assert_eq!(readable, 2 * calls);
    assert_eq!(trace.info.missing.dropped, 0);
    // A chunk and three pages of totals for each thread and each place that is ready; and the head with its tables.
    // Whole regions would be 768 MiB.
    let most = (192 + 64) * (65536 + 3 * 4096) + (5 << 20);
    assert!(bytes <= most, "{bytes} bytes");
}
