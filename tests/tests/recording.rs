//! Records of unusual places: signal handlers, thread destructors, threads that Rust did not make, many threads. Every
//! call is recorded or counted, whatever interrupts it. A function that sleeps 10 ms shows that the clocks are right.

use std::thread;

use fdr_tests::example;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::{Outcome, Program};
use fdr_tests::support::tool::{json, row};
use fdr_tests::support::trace::Trace;

fn run(program: &str, folder: &Folder, variables: &str, arguments: &[&str]) -> Outcome {
    let program = Program::named(program, folder).set("FDR=1").set(variables);
    program.args(arguments).run().ok()
}

/// The trace of a program that counted `calls` calls: whole, and agreeing with its statistics.
fn checked(folder: &Folder, outcome: &Outcome, calls: u64) -> Trace {
    let statistics = facts::statistics(&outcome.stdout);
    assert_eq!(facts::total(&statistics), 2 * calls, "{statistics:?}");
    let trace = Trace::verified(&folder.only_trace());
    for lane in &trace.threads {
        let counts = lane.checked_counts();
        let thread = statistics
            .threads
            .iter()
            .find(|thread| thread.id == lane.thread.id.0);
        let thread = thread.unwrap_or_else(|| panic!("{:?} has no statistics", lane.thread));
        assert_eq!(
            (
                counts.recorded,
                counts.readable,
                counts.overwritten,
                counts.dropped,
                counts.summarised
            ),
            (
                thread.recorded,
                thread.readable,
                thread.overwritten,
                thread.dropped,
                thread.summarised
            )
        );
    }
    trace
}

/// The four records of each handler are together. The first ones may be overwritten.
fn handlers_are_whole(trace: &Trace) {
    const HANDLER: [&str; 4] = ["outer in", "inner in", "inner out", "outer out"];
    let edge = |edge: &u32| {
        let way = if edge & 1 == 0 { "in" } else { "out" };
        format!(
            "{} {way}",
            &trace.name_of(*edge)["programs::handlers::".len()..]
        )
    };
    let edges: Vec<String> = trace.threads[0].edges.iter().map(edge).collect();
    let is_begin = |edge: &String| edge.starts_with("work") || edge == HANDLER[0];
    let mut left = &edges[edges.iter().position(is_begin).unwrap_or(0)..];
    while let Some(first) = left.first() {
        let is_own = first.starts_with("work");
        assert!(is_own || left.starts_with(&HANDLER.map(str::to_owned)));
        left = &left[if is_own { 1 } else { HANDLER.len() }..];
    }
}

#[test]
fn a_timers_handler_calls_traced_functions() {
    for variables in [
        "FDR_BUFFER=4M",
        "FDR_BUFFER=4M FDR_KEEP=0",
        "FDR_BUFFER=128K",
        "FDR_BUFFER=128K FDR_KEEP=0",
        "FDR_BUFFER=128K FDR_MODE=full",
        "FDR_BUFFER=256K FDR_CLOCK=rdtsc",
        "FDR_BUFFER=256K FDR_CLOCK=monotonic",
    ] {
        let folder = Folder::new("record-timer");
        let outcome = run("handlers", &folder, variables, &["timer"]);
        let (worked, handled) = (outcome.fact("worked"), outcome.fact("handled"));
        assert!(handled >= 1000, "{variables}: {handled}");
        let trace = checked(&folder, &outcome, worked + handled);
        assert_eq!(trace.threads.len(), 1, "{variables}");
        if !variables.contains("full") {
            let calls = trace.calls();
            assert!(
                calls["programs::handlers::outer"] > 0,
                "{variables}: {calls:?}"
            );
            // A handler's records are there together or not at all, unless short calls leave none.
            if trace.threads[0].checked_counts().summarised == 0 {
                handlers_are_whole(&trace);
            }
            // The four records of a handler may be dropped, the thread's own never.
            if variables.contains("FDR_KEEP=0") {
                let dropped = trace.threads[0].checked_counts().dropped;
                assert!(
                    dropped.is_multiple_of(4) && dropped <= 2 * handled,
                    "{dropped}"
                );
            }
        }
    }
}

#[test]
fn handlers_come_in_the_midst_of_first_records() {
    let folder = Folder::new("record-first");
    let variables = "FDR_BUFFER=128K FDR_MEMORY=8M";
    let outcome = run("handlers", &folder, variables, &["first-records"]);
    let (worked, handled) = (outcome.fact("worked"), outcome.fact("handled"));
    assert_eq!(worked, 2000);
    let _ = checked(&folder, &outcome, worked + handled);
}

#[test]
fn destructors_of_threads_call_traced_functions() {
    let folder = Folder::new("record-destructors");
    let variables = "FDR_BUFFER=128K";
    let outcome = run("crowd", &folder, variables, &["destructors"]);
    // Rust's destructor of each thread, 1 to 4 rounds of the C library's, and 15 ordinary calls.
    let calls = outcome.fact("calls");
    assert_eq!(calls, 20 + 50 + 15);
    let statistics = facts::statistics(&outcome.stdout);
    // The slot is given back in the third of four rounds, before the program's own destructor: its
    // last two rounds are counted, not recorded.
    assert_eq!(statistics.missing.dropped, 2 * (10 + 5), "{statistics:?}");
    let trace = checked(&folder, &outcome, calls);
    assert!(trace.threads.len() == 20, "{:?}", trace.names());
    assert!(
        trace.calls()["programs::crowd::last_work"] >= 50,
        "{:?}",
        trace.calls()
    );
    assert!(
        statistics.threads.iter().all(|thread| thread.ended),
        "{statistics:?}"
    );
}

#[test]
fn threads_that_rust_did_not_make() {
    let folder = Folder::new("record-foreign");
    let outcome = run("crowd", &folder, "", &["foreign"]);
    assert_eq!(outcome.fact("calls"), 400);
    let trace = checked(&folder, &outcome, 400);
    assert_eq!(
        trace.names(),
        ["programs"; 4],
        "they are called as the program"
    );
    assert!(trace.threads.iter().all(|lane| lane.edges.len() == 200));
}

/// A function that sleeps 10 ms takes 10 ms on every clock. A machine makes a sleep longer, never shorter, so the
/// median is a little more at most.
#[test]
fn ten_milliseconds_are_ten_milliseconds() {
    let sleeper = example("sleeper");
    thread::scope(|scope| {
        for clock in ["rdtscp", "rdtsc", "monotonic"] {
            let sleeper = &sleeper;
            scope.spawn(move || {
                let folder = Folder::new("record-sleep");
                let variables = format!("FDR=1 FDR_CLOCK={clock}");
                let _ = Program::new(sleeper, &folder).set(&variables).run().ok();
                let path = folder.only_trace();
                let report = json("report", &[&path]);
                let sleep = row(&report["functions"], "sleeper::sleep_10_ms");
                let sleep = sleep.expect("the function");
                assert_eq!(sleep["calls"], 100);
                let number = |key: &str| sleep[key].as_u64().expect("a number");
                assert!(number("min_ns") >= 9_999_000, "{clock}: {sleep}");
                assert!(
                    (9_999_000..10_500_000).contains(&number("p50_ns")),
                    "{clock}: {sleep}"
                );
            });
        }
    });
}
