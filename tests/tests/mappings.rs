//! How much of a process's memory the recorder makes accessible: what is in use, and not the room that there
//! may be. Tools that walk mappings (valgrind's search for leaks) do bounded work then. No time is looked at.

use std::fs;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

const CHUNK: u64 = 64 * 1024;
/// Places that are kept ready for threads at most, a chunk each.
const SPARES: u64 = 64;
/// Header, slots of 170 regions with their open calls, and the first part of the function table: under 2 MiB.
const HEAD: u64 = 2 << 20;
/// What a thread's totals take as long as it calls few functions.
const TOTALS: u64 = 2 * CHUNK;

fn run(folder: &Folder, variables: &str, arguments: &[&str]) -> Outcome {
    let program = Program::named("mapped", folder);
    program.set(variables).args(arguments).run().ok()
}

#[test]
fn what_is_not_in_use_is_not_accessible() {
    const THREADS: u64 = 8;
    let folder = Folder::new("mapped");
    let outcome = run(&folder, "FDR=1", &["8"]);
    // A GiB, but for what is less than a ring with its totals, and the function table's room are reserved.
    assert!(
        outcome.fact("ring") >= (1 << 30) - (6 << 20) + (64 << 20),
        "{outcome:?}"
    );
    // Of one thread, five chunks are in use, and up to four times as many ready. Ended threads have totals, too.
    let most = HEAD + (THREADS + SPARES + 4 * 8) * CHUNK + (THREADS + SPARES + 1) * TOTALS;
    assert!(outcome.fact("accessible") <= most, "{outcome:?}");
    assert!(
        outcome.fact("accessible") >= (THREADS + 5) * CHUNK,
        "{outcome:?}"
    );
    // A region is two: its first chunks and the rest. Totals are four: head, index, first rows and the rest.
    assert!(
        outcome.fact("mappings") <= 6 * (THREADS + SPARES + 1) + 2,
        "{outcome:?}"
    );
    assert_eq!(outcome.fact("in_cores"), 0, "{outcome:?}");
}

#[test]
fn a_ring_in_memory_is_no_larger() {
    let folder = Folder::new("mapped-memory");
    let off = run(&folder, "", &["8"]);
    let on = run(&folder, "FDR=1 FDR_DIR=/proc/nowhere FDR_LOG=quiet", &["8"]);
    let more = on.fact("all_accessible") - off.fact("all_accessible");
    // Beside the ring: what a crash's trace is made in, the dumper's stack, the allocator's memory.
    assert!(more <= 64 << 20, "{more} {on:?}");
}

#[test]
fn a_thousand_threads_take_few_mappings() {
    let folder = Folder::new("mapped-many");
    // States of threads: three buffers of each CPU, and their part of the ring.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let states = 3 * cpus + 2;
    for (variables, most) in [
        ("FDR=1 FDR_MEMORY=8G", 6 * (1000 + SPARES + 1) + 2),
        (
            "FDR=1 FDR_BUFFER=128K FDR_MEMORY=1G",
            6 * (1000 + SPARES + 1) + 2,
        ),
        ("FDR=1 FDR_KEEP=0 FDR_MEMORY=8G", 2 * (1000 + SPARES) + 2),
    ] {
        let outcome = run(&folder, variables, &["1000"]);
        assert!(
            outcome.fact("mappings") <= most + states,
            "{variables} {outcome:?}"
        );
        // 12 KiB of marks, counts and open calls in the head for each of the threads that there may be.
        let threads = if variables.contains("128K") {
            4096
        } else {
            2048
        };
        let most = HEAD
            + threads * (12 << 10)
            + (1000 + SPARES + 4 * 8) * CHUNK
            + (1000 + SPARES + 1) * TOTALS;
        assert!(
            outcome.fact("accessible") <= most,
            "{variables} {outcome:?}"
        );
    }
}

/// Threads record all of their calls where the kernel gives no mapping more.
#[test]
fn records_are_made_without_mappings_left() {
    let limit = fs::read_to_string("/proc/sys/vm/max_map_count").expect("the limit");
    if limit.trim().parse::<u64>().expect("a number") > 100_000 {
        return fdr_tests::skip("a process without mappings: vm.max_map_count is too large");
    }
    let folder = Folder::new("mapped-crowded");
    let outcome = run(&folder, "FDR=1", &["100", "crowded"]);
    assert!(outcome.fact("taken") > 10_000, "{outcome:?}");
    let trace = Trace::verified(&folder.only_trace());
    assert_eq!(trace.threads.len(), 100);
    let counts = trace.threads.iter().map(|lane| lane.checked_counts());
    let (readable, dropped) = counts.fold((0, 0), |(readable, dropped), counts| {
        (readable + counts.readable, dropped + counts.dropped)
    });
    assert_eq!((readable, dropped), (2 * (99 * 100 + 20_000), 0));
    assert_eq!(trace.info.missing.dropped, 0);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
}

/// The search for leaks reads whatever can be read and written. It is left a minute; it took more than two at the
/// default size, when all of the ring's room could be.
#[test]
fn valgrind_finds_no_leak_and_ends() {
    let Some(valgrind) = fdr_tests::reader("valgrind", "the search for leaks") else {
        return;
    };
    let folder = Folder::new("mapped-valgrind");
    let outcome = Program::new(valgrind, &folder)
        .args(&[
            "--leak-check=full",
            "--error-exitcode=99",
            "--errors-for-leak-kinds=definite",
        ])
        .args(&[env!("CARGO_BIN_EXE_programs"), "mapped", "4"])
        .set("FDR=1")
        .run()
        .ok();
    assert_eq!(outcome.fact("calls"), 20_300);
    let trace = Trace::read(&folder.only_trace());
    assert_eq!(trace.threads.len(), 4);
    assert!(
        outcome.stderr.contains("LEAK SUMMARY") || outcome.stderr.contains("no leaks are possible")
    );
}
