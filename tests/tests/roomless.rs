//! Threads beyond the budget. Each of their records is counted, and every count that is shown agrees. A thread that
//! found no room records as soon as there is room.

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::ring_file::RingFile;
use fdr_tests::support::trace::Trace;

fn program(folder: &Folder, variables: &str, way: &str) -> Program {
    let program = Program::named("roomless", folder);
    program.set(variables).args(&[way])
}

/// Twelve threads with four regions: what each of the eight makes beforehand, and what seven make after one
/// of them got a region.
const BEFORE: u64 = 2 * (1 + 10_000);
const AFTER: u64 = 2 * 10;

#[test]
fn roomless_records_are_counted_exactly() {
    let folder = Folder::new("roomless-over");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=1M";
    let program = program(&folder, variables, "over").start_until("waiting");
    // All of them live: the sums are those of the moment, in the file as well.
    let rings = folder.ending(".fdr-ring");
    let ring = RingFile::read(&rings[0]);
    let read = Trace::read(&rings[0]);
    let outcome = program.end().ok();
    let records = outcome.fact("records");
    assert_eq!(outcome.fact("crowded"), 8 * BEFORE);
    let dropped = 8 * BEFORE + 7 * AFTER;
    assert_eq!(outcome.fact("later"), dropped);
    assert_eq!((ring.dropped, ring.asked_for()), (dropped, records));
    assert_eq!(read.info.missing.dropped, dropped);
    assert_eq!(read.asked_for(), records);

    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(facts::total(&statistics), records, "{statistics:?}");
    let missing = (statistics.missing.threads, statistics.missing.overwritten);
    assert_eq!(missing, (1, BEFORE), "{statistics:?}");
    let threads = statistics.threads.iter();
    let mut threads: Vec<_> = threads
        .map(|thread| (&*thread.name, thread.recorded))
        .collect();
    threads.sort_unstable();
    let whole = BEFORE + AFTER;
    // The dumper may be making the last region at the moment at which a thread asks for it. Then the next thread gets it.
    let recorded: Vec<u64> = threads.iter().map(|thread| thread.1).collect();
    assert_eq!(recorded, [whole, whole, whole, 200], "{threads:?}");
    assert_eq!((threads[0].0, threads[3].0), ("t0", "t7"));
    let trace = Trace::verified(&folder.only_trace());
    assert_eq!(trace.info.missing.dropped, dropped);
    assert_eq!(trace.asked_for(), records);
}

#[test]
fn full_mode_never_frees_room() {
    let folder = Folder::new("roomless-full");
    let variables = "FDR=1 FDR_BUFFER=128K FDR_MEMORY=512K FDR_MODE=full";
    let outcome = program(&folder, variables, "over").run().ok();
    assert_eq!(outcome.fact("crowded"), 8 * BEFORE);
    assert_eq!(outcome.fact("later"), 8 * BEFORE + 7 * AFTER + 200);
    let trace = Trace::read(&folder.only_trace());
    assert_eq!(trace.asked_for(), outcome.fact("records"));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn handlers_that_record_on_every_instruction_without_room() {
    handlers_that_record(&["rdtscp"]);
}

#[cfg(target_arch = "x86_64")]
mod the_rest {
    #[test]
    fn roomless_handlers_record_by_other_clocks() {
        super::handlers_that_record(&["rdtsc", "monotonic"]);
    }
}

#[cfg(target_arch = "x86_64")]
fn handlers_that_record(clocks: &[&str]) {
    for clock in clocks {
        let folder = Folder::new("roomless-stepped");
        let variables = format!("FDR=1 FDR_BUFFER=128K FDR_MEMORY=128K FDR_CLOCK={clock}");
        let outcome = program(&folder, &variables, "stepped").run().ok();
        assert!(outcome.fact("traps") > 20_000, "{}", outcome.stdout);
        let records = outcome.fact("records");
        let statistics = facts::statistics(&outcome.stdout);
        assert_eq!(
            facts::total(&statistics),
            records,
            "{clock}: {statistics:?}"
        );
        // The last thread to come had the room in the end, after forty holders and 39 others.
        assert_eq!(statistics.threads.len(), 1, "{statistics:?}");
        assert_eq!(statistics.threads[0].name, "steps39");
        assert_eq!(statistics.missing.threads, 79);
        assert_eq!(Trace::verified(&folder.only_trace()).asked_for(), records);
    }
}

#[test]
fn roomless_threads_reap_dead_threads() {
    let folder = Folder::new("roomless-reap");
    let variables = "FDR_BUFFER=128K FDR_MEMORY=128K";
    let outcome = program(&folder, variables, "reap").run().ok();
    assert_eq!(outcome.fact("crowded"), 2);
    assert_eq!(outcome.fact("later"), 0);
    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(facts::total(&statistics), outcome.fact("records"));
}
