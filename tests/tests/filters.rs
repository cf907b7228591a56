//! Programs that forbid system calls to themselves. Whatever the filter does with a call that it does not allow, the
//! program ends as it does without the recorder.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};

fn run(variables: &str, way: &str) -> Outcome {
    let folder = Folder::new("filters");
    let program = Program::new(env!("CARGO_BIN_EXE_odd_host"), &folder).args(&[way]);
    program.set(variables).run()
}

/// With the recorder, the program ends and prints as without it.
fn check(ways: [&str; 2]) {
    for way in ways {
        let off = run("", way);
        assert!(off.stdout.contains("seccomp: done"), "{off:?}");
        for variables in ["FDR=1", "FDR=1 FDR_KEEP=0", "FDR=1 FDR_SCHED=1"] {
            let outcome = run(variables, way);
            let result = (outcome.status, &outcome.stdout);
            assert_eq!(result, (off.status, &off.stdout), "{way} {variables}");
        }
    }
}

/// Without end, if another thread waited for the one that is gone. A program of one thread ends alone.
#[test]
fn an_end_whose_calls_kill_the_thread() {
    check(["ends-kill-the-thread", "ends-kill-the-only-thread"]);
}

#[test]
fn an_end_whose_calls_kill_the_process() {
    check(["ends-kill-the-process", "ends-kill-the-only-process"]);
}

/// Rings grow, too, by a thread that was there before the filter.
#[test]
fn calls_that_kill_whoever_makes_files() {
    check(["calls-kill-the-thread", "calls-kill-the-process"]);
}
