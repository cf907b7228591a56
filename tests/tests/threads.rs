//! Threads in numbers and of odd kinds: memory, mappings and descriptors stay bounded, and every record is
//! in a ring or counted.

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::trace::Trace;

fn strands(folder: &Folder, variables: &str, ways: &[&str]) -> Outcome {
    let program = Program::new(env!("CARGO_BIN_EXE_strands"), folder);
    program.set(variables).args(ways).run().ok()
}

fn numbers(outcome: &Outcome, key: &str) -> Vec<u64> {
    let words = facts::only_line(&outcome.stdout, key);
    words.iter().map(|word| facts::number(word)).collect()
}

/// Every call is in the statistics, and in the trace at the end; `others`: records besides the calls'.
fn all_counted(folder: &Folder, outcome: &Outcome, others: u64) -> Trace {
    let calls = numbers(outcome, "calls")[0];
    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(
        facts::total(&statistics),
        2 * calls + others,
        "{}",
        outcome.stdout
    );
    let trace = Trace::verified(&folder.only_trace());
    let lanes = trace.threads.iter();
    let recorded: u64 = lanes.map(|lane| lane.checked_counts().recorded).sum();
    let missing = trace.info.missing;
    let all = recorded + missing.overwritten + missing.dropped;
    assert!(all >= 2 * calls + others, "{all} of {calls}");
    trace
}

/// Records of the constructor, which runs before or after the recorder's own.
fn early(outcome: &Outcome) -> u64 {
    let calls = numbers(outcome, "calls")[0];
    let total = facts::total(&facts::statistics(&outcome.stdout));
    assert!(
        total == 2 * calls || total == 2 * calls + 2,
        "{total} of {calls}"
    );
    total - 2 * calls
}

#[test]
fn ten_thousand_threads_reuse_few_rings() {
    many_threads(10_000);
}

mod the_rest {
    #[test]
    fn a_hundred_thousand_threads_reuse_few_rings() {
        super::many_threads(100_000);
    }
}

fn many_threads(count: u64) {
    let folder = Folder::new("threads-short");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=2M";
    let outcome = strands(&folder, variables, &["short", &count.to_string()]);
    let (first, last) = (numbers(&outcome, "first"), numbers(&outcome, "last"));
    let [maps, open, memory] = [0, 1, 2].map(|at| (first[at], last[at]));
    // The C library keeps arenas and stacks for as many threads as ever ran at a time, which depends on
    // the machine's load. One mapping, or 50 bytes, left by each of the threads would be far more.
    assert!(maps.1 <= maps.0 + 32, "mappings: {maps:?}");
    assert_eq!(open.0, open.1, "descriptors");
    assert!(memory.1 <= memory.0 + 4096, "KiB: {memory:?}");
    all_counted(&folder, &outcome, early(&outcome));
    let statistics = facts::statistics(&outcome.stdout);
    assert!(statistics.threads.len() <= 16);
    assert!(statistics.missing.threads > count - 1000, "{statistics:?}");
    // 16 regions, and at any time fewer threads.
    assert_eq!(statistics.missing.dropped, 0);
}

#[test]
fn cancelled_threads_give_rings_back() {
    let folder = Folder::new("threads-foreign");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=1M";
    let outcome = strands(&folder, variables, &["foreign"]);
    assert_eq!(
        numbers(&outcome, "reached"),
        [100],
        "none ended in a record"
    );
    assert_eq!(numbers(&outcome, "calls"), [300]);
    all_counted(&folder, &outcome, early(&outcome));
    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(statistics.missing.dropped, 0, "{statistics:?}");
}

#[test]
fn rings_are_reaped_without_thread_keys() {
    let folder = Folder::new("threads-keys");
    let variables = "FDR_BUFFER=128K FDR_MEMORY=1M";
    let outcome = strands(&folder, variables, &["keys"]);
    assert!(numbers(&outcome, "keys")[0] > 900);
    all_counted(&folder, &outcome, 0);
    let statistics = facts::statistics(&outcome.stdout);
    assert!(statistics.missing.threads > 700, "{statistics:?}");
    // A thread that asks while another one looks for rings goes without.
    assert!(statistics.missing.dropped < 40, "{statistics:?}");
}

#[test]
fn calls_before_and_after_main() {
    let folder = Folder::new("threads-around");
    let outcome = strands(&folder, "FDR=1", &["around"]);
    let trace = all_counted(&folder, &outcome, early(&outcome));
    assert_eq!(trace.calls()["strands::work"], 1);
    assert_eq!(trace.calls()["strands::late_work"], 1, "registered in main");
}

/// The kernel keeps 15 bytes of a name. That of a program is known in full, also for threads that have no other.
#[test]
fn names_of_main_threads_are_whole() {
    let folder = Folder::new("threads-names");
    let path = folder.join("a-service-with-a-long-name");
    std::fs::copy(fdr_tests::programs(), &path).expect("a copy");
    let program = Program::new(&path, &folder).set("FDR=1 FDR_OUT=app.fdr");
    let _ = program.args(&["spans", "threads"]).run().ok();
    let trace = Trace::verified(&folder.join("app.fdr"));
    let mut names = trace.names();
    names.sort_unstable();
    assert_eq!(names, ["a-service-with-a-long-name", "one", "two"]);
}
