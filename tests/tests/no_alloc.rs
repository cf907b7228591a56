//! The recorder allocates nothing where a signal may arrive: in any record, in the dump signal's handler, and in the
//! crash handler. The records include a thread's first, one that opens a chunk, one at a thread's end, and the first in
//! a forked child. The test's program ends at once when the recorder allocates. A first test shows that it does.

use std::os::unix::process::ExitStatusExt;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

fn run(way: &str, folder: &Folder) -> Outcome {
    Program::new(env!("CARGO_BIN_EXE_no_alloc"), folder)
        .args(&[way])
        // A region of two chunks, so that chunks are soon used again.
        .set("FDR=1 FDR_BUFFER=128K FDR_OUT=trace.fdr")
        .run()
}

/// How many records the trace says were asked for; its counts add up.
fn recorded(folder: &Folder) -> u64 {
    let trace = Trace::read(&folder.join("trace.fdr"));
    let lanes = trace.threads.iter();
    lanes.map(|lane| lane.checked_counts().recorded).sum()
}

#[test]
fn what_allocates_is_caught() {
    for (way, what) in [("rust", "Rust's alloc"), ("c", "malloc")] {
        let folder = Folder::new("no-alloc");
        let outcome = run(way, &folder);
        assert_eq!(outcome.status.code(), Some(99), "{way}: {outcome:?}");
        assert!(
            outcome.stderr.contains(&format!("caught: {what}")),
            "{outcome:?}"
        );
    }
}

#[test]
fn records_allocate_nothing() {
    for way in ["first-record", "thread", "fork", "dump-signal"] {
        let folder = Folder::new("no-alloc");
        let outcome = run(way, &folder);
        assert!(outcome.status.success(), "{way}: {outcome:?}");
        assert_eq!(outcome.stdout, "done\n", "{way}");
        // It did record: the interposer saw the real thing.
        assert!(recorded(&folder) >= 2, "{way}");
    }
}

#[test]
fn the_crash_handler_allocates_nothing() {
    for (way, signal) in [("crash", libc::SIGSEGV), ("abort", libc::SIGABRT)] {
        let folder = Folder::new("no-alloc");
        let outcome = run(way, &folder);
        assert_eq!(outcome.status.signal(), Some(signal), "{way}: {outcome:?}");
        assert!(recorded(&folder) >= 2, "{way}");
    }
}
