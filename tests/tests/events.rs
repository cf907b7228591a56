//! Events, counters and spans: what is recorded, where it stands among the calls, and what costs nothing.

use fdr_tests::example;
use fdr_tests::support::endless::only_ring;
use fdr_tests::support::facts;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json, verify};
use fdr_tests::support::trace::{Lane, Trace};
use serde_json::{Value, json};

fn program(folder: &Folder, variables: &str) -> Program {
    Program::named("events", folder).set(variables)
}

/// The trace of a program that makes so many rounds, and what it prints. It evaluates nothing that is off.
pub(crate) fn record_rounds(program: Program, folder: &Folder, rounds: u64) -> (Trace, String) {
    let outcome = program.args(&[&rounds.to_string()]).run().ok();
    assert!(!outcome.stdout.contains("evaluated"), "{}", outcome.stdout);
    let trace = Trace::verified(&folder.only_trace());
    let statistics = facts::statistics(&outcome.stdout);
    assert!(facts::total(&statistics) <= trace.asked_for());
    (trace, outcome.stdout)
}

fn record(folder: &Folder, variables: &str, rounds: u64) -> Trace {
    let (trace, stdout) = record_rounds(program(folder, variables), folder, rounds);
    // Its argument left the function before the event could be made, if the event was on.
    assert_eq!(stdout.contains("left true"), variables.contains(ALL));
    trace
}

const ALL: &str = "FDR=*,-programs::events::*left?out*";

/// The edges around each note: names, entries with `+`.
fn inside(trace: &Trace, lane: &Lane, note: usize) -> Vec<String> {
    let mut open = Vec::new();
    for edge in &lane.edges[..lane.notes[note].0] {
        match edge & 1 {
            0 => open.push(trace.name_of(*edge)),
            _ => drop(open.pop()),
        }
    }
    open
}

#[test]
fn events_have_names_levels_and_typed_values() {
    let folder = Folder::new("events-forms");
    let trace = record(&folder, ALL, 0);
    let main = trace.thread("programs");
    let wanted = [
        "programs::events::forms 0 1 id=7 signed=Signed(-1) float=Float(0.5) truth=Truth(true) id=\"7\" \
         path=\"\\\"/a\\\"\" type=\"raw\"",
        "programs::events::texts 0 2 owned=\"x\" display=\"1.5\" debug=\"Some(1)\" letter=\"c\"",
        "programs::events::hostile 0 3 text=\"<b>\\u{202e}\\0\\u{1b}[31m\\n#\"",
        "programs::events::long 0 5 text=[1024 of 65536] after=Signed(7)",
        "programs::events::no fields 0 4",
        "programs::events::unwound 1 0 value=Signed(1)",
    ];
    assert_eq!(trace.events(main), wanted);
    // The unwinding ended the span.
    assert_eq!(main.synthetic, [0, 0]);
    assert_eq!(trace.calls()["programs::events::unwound"], 1);
}

#[test]
fn threads_with_only_events_are_recorded() {
    for variables in ["", "FDR_KEEP=0"] {
        let folder = Folder::new("events-only");
        let trace = record(
            &folder,
            &format!("FDR=programs::events::only* {variables}"),
            10,
        );
        let events: Vec<String> = trace
            .threads
            .iter()
            .flat_map(|lane| trace.events(lane))
            .collect();
        assert_eq!(
            events,
            ["programs::events::only an event 0 0"],
            "{variables}"
        );
        assert_eq!(
            (trace.asked_for(), trace.threads.len()),
            (0, 1),
            "{variables}"
        );
    }
}

#[test]
fn events_stand_in_calls_at_any_threshold() {
    for variables in [
        "FDR_KEEP=0",
        "FDR_KEEP=3600s FDR_BUFFER=128K",
        "FDR_BUFFER=128K FDR_CLOCK=monotonic FDR_KEEP=3600s",
    ] {
        let folder = Folder::new("events-inside");
        let rounds = 2_000;
        let trace = record(&folder, &format!("{ALL} {variables}"), rounds);
        let main = trace.thread("programs");
        let events = trace.events(main);
        assert!(events.len() >= 106);
        // A ring that is full may begin inside of a call.
        for (nth, event) in events.iter().enumerate().skip(events.len() - 100) {
            assert_eq!(
                inside(&trace, main, nth),
                ["programs::events::round", "programs::events::inside"],
                "{variables}: {event}"
            );
        }
        let last = format!("programs::events::rounds 3 0 ={}", rounds - 1);
        assert_eq!(events.last(), Some(&last));
        // The short calls without notes are summarised once the ring is full.
        let counts = main.checked_counts();
        assert_eq!(
            counts.summarised > 0,
            variables.contains("3600s"),
            "{counts:?}"
        );
    }
}

#[test]
fn events_survive_a_kill() {
    let folder = Folder::new("events-kill");
    let rounds = 500;
    std::fs::create_dir(folder.join("rings")).expect("a folder");
    let outcome = program(&folder, &format!("{ALL} FDR_BUFFER=4M FDR_DIR=rings/"))
        .args(&[&rounds.to_string(), "kill"])
        .run();
    assert!(!outcome.status.success());
    let ring = folder.join("found.fdr");
    let _ = fdr("dump -o", &[&ring, &only_ring(&folder)]);
    verify(&ring);
    let trace = Trace::read(&ring);
    let main = trace.thread("programs");
    let events = trace.events(main);
    let rounds_found = events
        .iter()
        .filter(|event| event.starts_with("programs::events::round "))
        .count();
    assert_eq!(rounds_found, rounds);
}

#[test]
fn events_are_in_each_recorded_format() {
    let folder = Folder::new("events-example");
    let program = Program::new(example("queue"), &folder);
    let _ = program.set("FDR=1 FDR_OUT=queue.fdr").run().ok();
    let recorded = folder.join("queue.fdr");
    for format in ["xray", "ctf"] {
        let trace = folder.join(format);
        let _ = fdr(
            &format!("convert -q --to {format} -o"),
            &[&trace, &recorded],
        );
        let report = json("report", &[&trace]);
        let figures = |list: &str, fields: &[&str]| -> Vec<Vec<Value>> {
            let rows = report[list].as_array().expect("a list").iter();
            let figures = |row: &Value| fields.iter().map(|&field| row[field].clone()).collect();
            rows.map(figures).collect()
        };
        let events = figures("events", &["name", "level", "count", "threads"]);
        let wanted = json!([["queue::rejected", "warning", 20, 1]]);
        assert_eq!(json!(events), wanted, "{format}");
        let counters = figures(
            "counters",
            &["name", "samples", "min", "mean", "max", "last"],
        );
        let wanted = json!([["queue::waiting", 160, 0, 4.0, 8, 0]]);
        assert_eq!(json!(counters), wanted, "{format}");
        let functions = figures("functions", &["name", "calls"]);
        for wanted in [
            json!(["queue::Server::accept", 100]),
            json!(["queue::Server::answer", 10]),
            json!(["queue::render", 80]),
        ] {
            let found = functions.iter().any(|row| json!(row) == wanted);
            assert!(found, "{format}: {wanted} {functions:?}");
        }
        assert_eq!(functions.len(), 3, "{format}: {functions:?}");
        let state = fdr("state --at=end", &[&trace]);
        let tells = state.contains("\n     counter queue::waiting: 0\n");
        assert!(tells && !state.contains("Threads/"), "{format}: {state}");
    }
}
