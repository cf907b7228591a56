//! The tool beside LLVM's own reader of XRay traces: same counts, and our names through the map.
//! Skipped, with a word, where llvm-xray is not installed; a failure in CI.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::Command;

use crate::common::{
    self, Folder, answer, assert_contains, calls, functions, golden, info, json, task_note, thread,
    write, write_thread,
};
use fdr_formats::notes::{Field, FieldValue, Note};
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Function, FunctionId, Mark, Sink, Ticks, TraceInfo};

/// Every llvm-xray that is tried.
const READERS: [&str; 2] = ["llvm-xray-14", "llvm-xray-19"];

/// The readers that are installed.
fn readers() -> Vec<&'static str> {
    let installed = |reader: &&str| Command::new(reader).arg("--version").output().is_ok();
    let (here, missing): (Vec<_>, Vec<_>) = READERS.into_iter().partition(installed);
    for reader in &missing {
        skipped(&format!("fdr beside llvm-xray: {reader} is not installed"));
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(missing.is_empty() || !in_ci, "not installed: {missing:?}");
    here
}

/// Says it past the test harness's capture, and in the list that the whole run keeps.
fn skipped(what: &str) {
    let line = format!("SKIPPED: {what}\n");
    let _ = io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os("FDR_SKIPS") {
        let list = OpenOptions::new().append(true).create(true).open(list);
        list.and_then(|mut list| list.write_all(line.as_bytes()))
            .expect("the list of skips");
    }
}

/// What `account` says: id, then (count, sum in seconds, place, name).
type Accounts = BTreeMap<u32, (u64, f64, String, String)>;

fn account(reader: &str, trace: &str, map: Option<&str>) -> Accounts {
    let mut command = Command::new(reader);
    command.args(["account", "-f", "csv"]);
    if let Some(map) = map {
        command.args(["-m", map]);
    }
    let output = command.arg(trace).output().expect("it runs");
    assert!(output.status.success(), "{reader}: {output:?}");
    let mut rows = csv::Reader::from_reader(output.stdout.as_slice());
    let row = |row: csv::StringRecord| {
        let field = |at: usize| row.get(at).expect("a field").to_owned();
        let number = |at: usize| field(at).parse::<f64>().expect("a number");
        (
            number(0) as u32,
            (number(1) as u64, number(7), field(8), field(9)),
        )
    };
    rows.records()
        .map(|record| row(record.expect("CSV")))
        .collect()
}

/// The same, by fdr: id, then (calls, name).
fn report(trace: &str) -> BTreeMap<u32, (u64, String)> {
    let report = json(&["report", "--json", trace]);
    let functions = report["functions"].as_array().expect("functions").iter();
    let row = |function: &serde_json::Value| {
        let number = |key: &str| function[key].as_u64().expect("a number");
        (
            number("id") as u32,
            (
                number("calls"),
                function["name"].as_str().unwrap().to_owned(),
            ),
        )
    };
    functions.map(row).collect()
}

fn counts(accounts: &Accounts) -> BTreeMap<u32, u64> {
    accounts
        .iter()
        .map(|(id, (count, ..))| (*id, *count))
        .collect()
}

fn our_counts(trace: &str) -> BTreeMap<u32, u64> {
    report(trace)
        .into_iter()
        .map(|(id, (calls, _))| (id, calls))
        .collect()
}

#[test]
fn calls_are_what_account_counts() {
    for reader in readers() {
        for name in [
            "v1-std.fdr",
            "v1-tid32.fdr",
            "v2-std.fdr",
            "v3-std.fdr",
            "v5-std.fdr",
        ] {
            // llvm-xray 14 does not know the records of version 5 and its successors.
            if reader == "llvm-xray-14" && name == "v5-std.fdr" {
                continue;
            }
            let accounts = account(reader, &golden(name), None);
            assert_eq!(
                our_counts(&golden(name)),
                counts(&accounts),
                "{reader} {name}"
            );
        }
    }
}

#[test]
fn a_snapshot_is_counted_alike() {
    // f2 was entered before the trace began, f1 and f3 are still open at its end.
    let folder = Folder::new("snapshot");
    let trace = folder.file("t.fdr");
    let edges = calls(&[(10, -2), (20, 1), (30, 1), (40, -1), (50, 3), (60, 3)]);
    let thread = thread(7, "");
    write(&trace, &TraceInfo::default(), &[(thread, edges)]);
    assert_eq!(our_counts(&trace), BTreeMap::from([(1, 2), (2, 1), (3, 2)]));
    for reader in readers() {
        assert_eq!(
            our_counts(&trace),
            counts(&account(reader, &trace, None)),
            "{reader}"
        );
    }
}

#[test]
fn names_come_through_the_map() {
    let folder = Folder::new("names");
    let (trace, map) = (folder.file("t.fdr"), folder.file("map.elf"));
    let names = [
        "app::run",
        "<app::Vec<T, 4> as core::ops::Drop>::drop",
        "größe::{closure#0}",
        "_ZN3foo",
        "quo\"te\\and\u{1b}[31m",
    ];
    let mut table = functions(&names);
    // Ids need not be dense.
    table.push(Function {
        id: FunctionId(1000),
        name: "far".into(),
        ..Function::default()
    });
    let info = TraceInfo {
        functions: table,
        ..TraceInfo::default()
    };
    let ids = [1, 2, 3, 4, 5, 1000, 1];
    let edges: Vec<(u64, i64)> = ids
        .iter()
        .zip(1..)
        .flat_map(|(&id, at)| [(at * 100, id), (at * 100 + 50, -id)])
        .collect();
    write_thread(&trace, &info, &edges);
    assert_eq!(answer(&["convert", "--to", "map", &trace, "-o", &map]), "");
    for reader in readers() {
        let accounts = account(reader, &trace, Some(&map));
        let got: Vec<(u32, u64, &str)> = accounts
            .iter()
            .map(|(id, (count, _, _, name))| (*id, *count, name.as_str()))
            .collect();
        let expected = [
            (1, 2, names[0]),
            (2, 1, names[1]),
            (3, 1, names[2]),
            (4, 1, names[3]),
            (5, 1, "quo'te/and?[31m"),
            (1000, 1, "far"),
        ];
        assert_eq!(got, expected, "{reader}");
        assert!(
            accounts[&2].2.starts_with("2.rs:20"),
            "{reader}: {:?}",
            accounts[&2]
        );
        assert!(
            (accounts[&1].1 - 100e-9).abs() < 1e-12,
            "{reader}: {:?}",
            accounts[&1]
        );
    }
}

/// A trace with a note of each kind among its calls.
fn with_notes(trace: &str, version: Version) {
    let info = info(&["app::outer", "app::inner"]);
    let value = FieldValue::Text(b"a text", 6);
    let field = Field {
        name: 2,
        place: 0,
        value,
    };
    let notes = [
        Note::Event {
            name: 1,
            form: 0,
            level: 3,
            span: 0,
            fields: vec![field; 3],
        },
        task_note(1, 0, 2, 1),
        Note::Arguments {
            function: 2,
            fields: vec![field],
        },
        Note::ThreadState {
            object: 0x10,
            holder: 8,
            name: 0,
            state: 2,
            reason: 1,
            function: 2,
            waited: 3,
        },
    ];
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(true);
    let file = options.open(trace).expect("a file");
    let mut writer = XrayWriter::new(&file, version, &info).expect("a writer");
    writer.thread(&thread(7, ""));
    writer.calls(&calls(&[(100, 1)]));
    for (note, time) in notes.iter().zip((200..).step_by(100)) {
        let body = note.encode().expect("a note within bounds");
        writer.calls(&calls(&[(time, 2)]));
        writer.mark(&Mark::Note {
            time: Ticks(time + 10),
            kind: note.kind(),
            body: &body,
        });
        writer.calls(&calls(&[(time + 50, -2)]));
    }
    writer.calls(&calls(&[(900, -1)]));
    assert_eq!(writer.finish().expect("a file").to_string(), "");
}

const NOTES: [&str; 4] = ["event: ", "task: ", "arguments: ", "thread state: "];

#[test]
fn llvm_xray_skips_notes_and_fdr_keeps_them() {
    let folder = Folder::new("notes");
    for (version, target) in [(Version::V1, "xray1"), (Version::V3, "xray")] {
        let [trace, again, other] =
            ["t", "again", "other"].map(|name| folder.file(&format!("{name}.{target}")));
        with_notes(&trace, version);
        answer(&["verify", &trace]);
        answer(&["convert", &trace, "--to", target, "-o", &again]);
        for trace in [&trace, &again] {
            for reader in readers() {
                let accounts = account(reader, trace, None);
                assert_eq!(counts(&accounts), [(1, 1), (2, 4)].into(), "{reader}");
            }
            assert_eq!(our_counts(trace), [(1, 1), (2, 4)].into());
            assert_eq!(json(&["info", "--json", trace])["others"]["notes"], 4);
            let records = answer(&["replay", "--records", trace]);
            for note in [
                "fdr event: app::outer (info)  app::inner=\"a text\" app::inner=\"a text\" app::inner=\"a text\"\n",
                "fdr task: 1 app::inner running  polls=3 busy=5 ticks elapsed=7 ticks\n",
                "fdr arguments: app::inner  app::inner=\"a text\"\n",
                "fdr thread state: blocked (lock)  object=0x10  holder=8 in app::inner  waited=3 ticks\n",
            ] {
                assert_contains(&records, note);
            }
        }
        // There and back.
        for format in ["htdump", "heph", "iet2"] {
            let (there, back) = (format!("{other}.{format}"), format!("{other}.{format}.fdr"));
            answer(&["convert", &trace, "--to", format, "-o", &there]);
            assert_eq!(json(&["info", "--json", &there])["others"]["notes"], 4);
            answer(&["convert", &there, "--to", target, "-o", &back]);
            let notes = |trace: &str| {
                let records = answer(&["replay", "--records", trace]);
                let lines = records.lines().filter_map(|line| line.split_once("fdr "));
                let notes =
                    lines.filter(|(_, note)| NOTES.iter().any(|kind| note.starts_with(kind)));
                notes
                    .map(|(_, note)| note.to_owned())
                    .collect::<Vec<String>>()
            };
            assert_eq!(notes(&trace).len(), 4);
            assert_eq!(notes(&trace), notes(&back), "{format}");
        }
        let output = common::fdr(&["convert", &trace, "--to", "tcstate", "-o", &other]);
        assert_contains(common::stderr(&output), "4 notes");
    }
}

#[test]
fn a_map_of_a_hundred_thousand_functions_loads() {
    let folder = Folder::new("many");
    let (trace, map) = (folder.file("t.fdr"), folder.file("map.elf"));
    let names: Vec<String> = (1..=100_000).map(|id| format!("app::step_{id}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let info = info(&names);
    write_thread(&trace, &info, &[(1, 99_999), (5, -99_999)]);
    answer(&["convert", "--to", "map", &trace, "-o", &map]);
    for reader in readers() {
        let accounts = account(reader, &trace, Some(&map));
        assert_eq!(accounts[&99_999].3, "app::step_99999", "{reader}");
    }
}

#[test]
fn what_cannot_be_mapped_is_reported() {
    let folder = Folder::new("unmapped");
    let output = common::fdr(&[
        "convert",
        "--to",
        "map",
        &golden("v3-std.fdr"),
        "-o",
        &folder.file("map.elf"),
    ]);
    assert_eq!(output.status.code(), Some(2));
    assert_contains(
        common::stderr(&output),
        "v3-std.fdr: the trace has no names of functions",
    );
    let trace = folder.file("t.fdr");
    common::small_named(&trace, &["a", "b"]);
    let before = std::fs::read(&trace).unwrap();
    assert_eq!(
        common::fdr(&["convert", "--to", "map", &trace, "-o", &trace])
            .status
            .code(),
        Some(2)
    );
    assert_eq!(std::fs::read(&trace).unwrap(), before);
}
