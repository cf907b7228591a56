//! What the engine makes of functions without times of their own. 1 tick = 1 ns.

use fdr_formats::source::drive_parallel;
use fdr_formats::{Call, Function, FunctionId};

use super::engine::{Engine, gather};
use super::function_rows::{Row, arrange};
use super::rows::Report;
use super::{csv, json, notes, table, table_style};
use crate::report::all::ALL;
use crate::testing::{MemoryTrace, entry, exit, synthetic};

/// A trace of one thread in which f2 and f5 are untimed.
fn trace(calls: &[Call]) -> MemoryTrace {
    let mut trace = MemoryTrace::new(&[(1, calls)]);
    let function = |id| Function {
        id: FunctionId(id),
        name: format!("f{id}"),
        untimed: id == 2 || id == 5,
        ..Function::default()
    };
    trace.info.functions = (1..=6).map(function).collect();
    trace
}

fn report(trace: &MemoryTrace) -> Report {
    let make = || Engine::new(trace, false);
    let engines = drive_parallel(trace, 1, make, &|_| {}).expect("in memory");
    let figures = gather(engines, false).unwrap();
    Report::new(&trace.info, figures, &ALL).unwrap()
}

/// Id, calls, clipped calls, total and self.
fn figures(row: &Row) -> (u32, u64, u64, u64, u64) {
    (row.id, row.calls, row.clipped, row.total_ns, row.self_ns)
}

fn all(calls: &[Call]) -> Vec<(u32, u64, u64, u64, u64)> {
    report(&trace(calls)).rows.iter().map(figures).collect()
}

#[test]
fn untimed_time_goes_to_the_caller() {
    // f1 calls f2, which calls f3; then f2 twice more, once across the opening of a chunk.
    let calls = [
        entry(0, 1),
        entry(0, 2),
        entry(10, 3),
        exit(15, 3),
        exit(15, 2),
        entry(15, 2),
        exit(90, 2),
        entry(90, 2),
        exit(90, 2),
        exit(100, 1),
    ];
    assert_eq!(
        all(&calls),
        [(1, 1, 0, 100, 95), (3, 1, 0, 5, 5), (2, 3, 0, 0, 0)]
    );
}

#[test]
fn nested_untimed_calls_hand_on_time() {
    // f1 → f2 → f5 → f2 → f3 and f4.
    let calls = [
        entry(0, 1),
        entry(0, 2),
        entry(3, 5),
        entry(3, 2),
        entry(10, 3),
        exit(20, 3),
        entry(22, 4),
        exit(25, 4),
        exit(25, 2),
        exit(26, 5),
        exit(27, 2),
        exit(50, 1),
    ];
    let wanted = [
        (1, 1, 0, 50, 37),
        (3, 1, 0, 10, 10),
        (4, 1, 0, 3, 3),
        (2, 2, 0, 0, 0),
        (5, 1, 0, 0, 0),
    ];
    assert_eq!(all(&calls), wanted);
}

#[test]
fn partial_untimed_calls_are_counted() {
    // The trace begins in f2, which f1 had called, and ends in another.
    let balanced = [
        synthetic(entry(5, 1)),
        synthetic(entry(5, 2)),
        entry(6, 3),
        exit(8, 3),
        exit(9, 2),
        entry(9, 2),
        synthetic(exit(20, 2)),
        synthetic(exit(20, 1)),
    ];
    let wanted = [(1, 1, 1, 15, 13), (3, 1, 0, 2, 2), (2, 2, 2, 0, 0)];
    assert_eq!(all(&balanced), wanted);
    let measured: Vec<Call> = balanced
        .into_iter()
        .filter(|call| !call.synthetic)
        .collect();
    // Nothing says that f1 was there: what f2 called is all that is known.
    assert_eq!(all(&measured), [(3, 1, 0, 2, 2), (2, 2, 2, 0, 0)]);
}

#[test]
fn estimates_are_sorted_by_what_is_certain() {
    let trace = trace(&[entry(0, 1), exit(10, 1)]);
    let measured = report(&trace).rows.remove(0);
    let estimated = |id, self_ns, error_ns| Row {
        id,
        self_ns,
        error_ns: Some(error_ns),
        ..measured.clone()
    };
    let rows = vec![
        estimated(2, 1_000, 1_000_000),
        estimated(3, 900_000, 1_000_000),
        measured.clone(),
        estimated(4, 15, 2),
        estimated(5, 40, 20),
    ];
    let (sorted, _) = arrange(rows, &ALL, false);
    let ids: Vec<u32> = sorted.iter().map(|row| row.id).collect();
    assert_eq!(ids, [5, 4, 1, 3, 2]);
}

#[test]
fn outputs_say_so() {
    let trace = trace(&[entry(0, 1), entry(0, 2), exit(0, 2), exit(100, 1)]);
    let report = report(&trace);
    let notes = notes::notes(&report);
    assert!(
        notes[0].starts_with("untimed: the calls of 1 function are counted"),
        "{notes:?}"
    );
    let mut out = Vec::new();
    csv::write(&mut out, None, &report, true).expect("memory");
    let text = String::from_utf8(out).expect("UTF-8");
    assert!(
        text.contains("\nf2,,0,1,0,,,,,,,,,0,,,,,,,,,,,false,false\n"),
        "{text}"
    );
    let mut out = Vec::new();
    json::write(&mut out, "t", &trace.info, &report).expect("memory");
    let value: serde_json::Value = serde_json::from_slice(&out).expect("JSON");
    let [f1, f2] = [0, 1].map(|at| &value["functions"][at]);
    assert_eq!(
        (&f1["untimed"], &f1["self_ns"]),
        (&false.into(), &100.into())
    );
    assert_eq!((&f2["untimed"], &f2["calls"]), (&true.into(), &1.into()));
    for key in ["total_ns", "self_ns", "min_ns", "p50_ns", "max_ns"] {
        assert!(f2[key].is_null(), "{key}");
    }
    let look = table_style::TableStyle {
        places: false,
        colour: false,
        columns: None,
        timeless: false,
        ends_early: false,
    };
    let mut out = Vec::new();
    table::write(&mut out, &trace.info, &report, look).expect("memory");
    let text = String::from_utf8(out).expect("UTF-8");
    let line = text
        .lines()
        .find(|line| line.ends_with(" f2"))
        .expect("a row");
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(
        cells,
        ["1", "-", "-", "-", "-", "-", "-", "-", "-", "-", "f2"]
    );
}
