//! A signal on every instruction of a record, whose handler makes records: nothing is corrupted, and
//! everything is recorded or counted.
#![cfg(target_arch = "x86_64")]

use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Program, verify};
use fdr_tests::support::trace::Trace;

#[test]
fn handlers_that_record_on_every_instruction_of_a_record() {
    for variables in [
        "FDR_BUFFER=128K",
        "FDR_BUFFER=128K FDR_CLOCK=rdtsc",
        "FDR_BUFFER=128K FDR_CLOCK=monotonic",
        "FDR_BUFFER=128K FDR_MODE=full",
        "FDR_BUFFER=128K FDR_MEMORY=128K FDR_CLOCK=rdtsc",
        "FDR_BUFFER=4M",
    ] {
        for seed in 1..=2 {
            let folder = Folder::new("record-stepped");
            let program = Program::new(env!("CARGO_BIN_EXE_stepped"), &folder);
            let outcome = program
                .set("FDR=1")
                .set(variables)
                .args(&[seed.to_string(), "9".to_owned()])
                .run()
                .ok();
            let fact = |key| facts::number::<u64>(&facts::one(&outcome.stdout, key)[0]);
            assert!(fact("traps") > 5_000, "{}", outcome.stdout);
            let statistics = facts::statistics(&outcome.stdout);
            assert_eq!(
                facts::total(&statistics),
                2 * (fact("stepped") + fact("handled")),
                "{variables}, seed {seed}: {statistics:?}"
            );
            let path = folder.only_trace();
            verify(&path);
            let trace = Trace::read(&path);
            let readable: u64 = trace
                .threads
                .iter()
                .map(|lane| lane.checked_counts().readable)
                .sum();
            let threads = statistics.threads.iter();
            assert_eq!(readable, threads.map(|thread| thread.readable).sum::<u64>());
        }
    }
}
