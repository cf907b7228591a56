//! Waits for the locks and conditions of `fdr_parking_lot`: the holder of the lock, and its function. The tests in
//! `locks` cover other formats and commands, because the notes are the same.

use fdr_formats::notes::reason;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::trace::Trace;
use serde_json::json;

use crate::locks::{State, check_busy, check_quiet, lock, waiting, waits};
use fdr_tests::support::tool::{fdr, json};

fn program(folder: &Folder, variables: &str, scenario: &str) -> Program {
    let program = Program::named("parking_locks", folder);
    program.set(variables).args(&[scenario])
}

/// Runs the program, and reads its trace.
fn record(scenario: &str, variables: &str) -> (Folder, Trace) {
    let folder = Folder::new(&format!("parking-locks-{scenario}"));
    let _ = program(&folder, variables, scenario).run().ok();
    let trace = Trace::verified(&folder.only_trace());
    (folder, trace)
}

/// Checks that the one thread with the name `thread` has one wait: for the lock `name`, whose holder was in `function`.
fn one_wait(trace: &Trace, thread: &str, name: &str, function: &str) {
    let function = format!("programs::parking_locks::{function}");
    let wanted = [lock(name, "programs", &function)];
    assert_eq!(waits(trace, thread), wanted, "{thread}");
}

#[test]
fn waits_name_lock_holder_and_its_function() {
    for variables in ["FDR=*", "FDR=* FDR_KEEP=1ns", "FDR=* FDR_CLOCK=monotonic"] {
        let (folder, trace) = record("mutex", variables);
        let turns = ["flush", "inner", "flush", "flush", "inner"];
        let wanted = turns.map(|turn| {
            lock(
                "queue",
                "programs",
                &format!("programs::parking_locks::{turn}"),
            )
        });
        assert_eq!(waits(&trace, "waiter"), wanted, "{variables}");
        let report = json("report", &[&folder.only_trace()]);
        let row = &report["waits"][0];
        assert_eq!(
            [&row["name"], &row["reason"], &row["waits"], &row["threads"]],
            [&json!("queue"), &json!("lock"), &json!(5), &json!(5)]
        );
    }
}

#[test]
fn every_kind_of_lock_knows_its_holder() {
    let (_folder, trace) = record("kinds", "FDR=*");
    one_wait(&trace, "fair", "turns", "flush");
    one_wait(&trace, "again", "again", "inner");
    one_wait(&trace, "raw", "RawMutex", "flush");
    one_wait(&trace, "bumped", "queue", "flush");
    let [unnamed] = &waits(&trace, "unnamed")[..] else {
        panic!("one wait");
    };
    let (name, line) = unnamed.name.split_once(" (").expect("a place");
    assert_eq!(name, "Mutex<Vec<u8>>");
    assert!(
        line.contains("src/bin/programs/parking_locks.rs:"),
        "{line}"
    );
    let (_folder, trace) = record("mapped", "FDR=*");
    one_wait(&trace, "waiter", "pair", "flush");
}

#[test]
fn writers_and_the_only_reader_are_holders() {
    let (_folder, trace) = record("rwlock", "FDR=*");
    one_wait(&trace, "reader", "routes", "flush");
    one_wait(&trace, "writer", "routes", "inner");
    assert_eq!(waits(&trace, "writers"), [lock("routes", "", "")]);
    one_wait(&trace, "downgraded", "routes", "flush");
}

#[test]
fn upgradable_readers_hold_and_wait() {
    let (_folder, trace) = record("upgrade", "FDR=*");
    one_wait(&trace, "second", "routes", "flush");
    one_wait(&trace, "upgrades", "routes", "inner");
    one_wait(&trace, "writer", "routes", "flush");
}

#[test]
fn conditions_name_notifiers_and_restore_holders() {
    let (_folder, trace) = record("condition", "FDR=*");
    let wanted = State {
        reason: reason::CONDITION,
        ..lock("filled", "programs", "")
    };
    assert_eq!(waits(&trace, "waiter"), [wanted]);
    let [next] = &waits(&trace, "next")[..] else {
        panic!("one wait");
    };
    assert!(next.name.starts_with("Mutex<bool> ("), "{next:?}");
    assert_eq!(
        (next.holder.as_str(), next.function.as_str()),
        ("waiter", "programs::parking_locks::flush")
    );
}

#[test]
fn timed_out_waits_have_both_notes() {
    let (_folder, trace) = record("timeout", "FDR=*");
    let wanted = [lock("queue", "programs", "")];
    assert_eq!(waits(&trace, "waiter"), wanted);
    for lane in &trace.threads {
        match lane.thread.name.as_str() {
            "waiter" => {}
            // An attempt without time may leave a wait of that time.
            "programs" => assert!(lane.notes.len() <= 2),
            _ => assert_eq!(lane.notes.len(), 0, "{:?}", lane.thread),
        }
    }
}

#[test]
fn locks_taken_while_off_have_no_holder() {
    let (_folder, trace) = record("later", "FDR=*");
    one_wait(&trace, "known", "routes", "flush");
    assert_eq!(waits(&trace, "either"), [lock("routes", "", "")]);
    one_wait(&trace, "alone again", "routes", "inner");
}

#[test]
fn a_deadlock_is_seen_while_it_lasts() {
    let folder = Folder::new("parking-locks-deadlock");
    let running = program(&folder, "FDR=* FDR_DIR=rings/", "deadlock").start_ready();
    let both = "programs::parking_locks::both";
    let wanted = [
        ["audit", "accounts", "pay", both].map(str::to_owned),
        ["pay", "journal", "audit", both].map(str::to_owned),
    ];
    let ring = only_ring(&folder);
    assert_eq!(waiting(&json("state", &[&ring])), wanted);
    running.signal("KILL");
    let _ = running.end();
    let trace = folder.join("after.fdr");
    let _ = fdr("dump -q -o", &[&trace, &ring]);
    assert_eq!(waiting(&json("report", &[&trace])), wanted);
}

#[test]
fn locks_that_nobody_waits_for_leave_nothing() {
    check_quiet(
        "parking_locks",
        program,
        &["queue", "turns", "again", "routes"],
    );
}

#[test]
fn contended_waits_have_both_notes() {
    check_busy("parking_locks", program, "3200\n3200 3200\ntrue\n");
}
