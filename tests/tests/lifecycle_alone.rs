//! A program of one thread stays one while it records: what the system does only for such programs, it does with the
//! recorder, too. The end of the program and the dump signal make traces all the same.

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program, verify};
use fdr_tests::support::trace::Trace;

const HOST: &str = env!("CARGO_BIN_EXE_odd_host");

fn run(folder: &Folder, variables: &str, way: &str) -> Outcome {
    let program = Program::new(HOST, folder).set(variables);
    program.args(&[way]).run().ok()
}

/// The same output as without the recorder, and a trace of the one thread.
fn same(way: &str) -> Trace {
    let (off, on) = (Folder::new("alone-off"), Folder::new("alone-on"));
    let (off, outcome) = (run(&off, "", way), run(&on, "FDR=1", way));
    assert_eq!(outcome.stdout, off.stdout, "{way}");
    let path = on.only_trace();
    verify(&path);
    let trace = Trace::read(&path);
    assert!(!trace.threads.is_empty(), "{way}");
    trace
}

#[test]
fn a_program_of_one_thread_stays_one() {
    for way in ["count-of-threads", "count-of-threads-later"] {
        assert_eq!(same(way).threads.len(), 1, "{way}");
        let outcome = run(&Folder::new("alone-count"), "FDR=1", way);
        assert_eq!(outcome.stdout, "1\n", "{way}");
    }
}

#[test]
fn what_only_one_thread_may_do_works() {
    for way in [
        "namespace-of-users",
        "memory-of-its-own",
        "threads-of-its-own",
    ] {
        let _ = same(way);
    }
}

/// Its user may have two threads: the program's, and a child's.
#[test]
fn the_limit_of_processes_is_the_programs_own() {
    let (off, on) = (Folder::new("alone-limit"), Folder::new("alone-limit"));
    let off = run(&off, "", "limit-of-processes");
    if off.stdout.contains("not permitted") {
        fdr_tests::skip("the limit of processes: no right to become another user");
        return;
    }
    let outcome = run(&on, "FDR=1", "limit-of-processes");
    assert_eq!(outcome.stdout, off.stdout, "{outcome:?}");
}

/// Nobody but the thread itself is there to write it.
#[test]
fn the_dump_signal_needs_no_other_thread() {
    let folder = Folder::new("alone-signal");
    let mut program = Program::new(env!("CARGO_BIN_EXE_triggered"), &folder)
        .set("FDR=1")
        .start();
    program.tell("quick 1000");
    assert_eq!(program.line(), "done");
    program.signal("USR2");
    let said = program.said("wrote ");
    program.tell("quick 1000");
    assert_eq!(program.line(), "done");
    let _ = program.end().ok();
    assert!(said.contains("triggered."), "{said}");
    let traces = folder.ending(".fdr");
    assert_eq!(traces.len(), 2, "{traces:?}");
    traces.iter().for_each(|path| verify(path));
}
