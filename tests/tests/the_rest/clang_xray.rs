//! Our reader on traces of LLVM's own runtime. clang instruments a C++ program, the runtime writes its trace, and our
//! tool counts what the program counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_formats::model::{Call, Edge, Mark};
use fdr_formats::source::drive;
use fdr_formats::{Diagnostic, Sink, Thread, registry};
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{json, verify};
use serde_json::Value;

/// Calls by function number.
type Calls = BTreeMap<u64, u64>;

const CHECK: &str = "the trace of a C++ program that clang instruments for XRay";

/// The compiler, if it has XRay's runtime.
fn compiler() -> Option<PathBuf> {
    let clang = fdr_tests::reader("clang++-19", CHECK)?;
    let output = Command::new(&clang).arg("-print-resource-dir").output();
    let folder = output.expect("clang runs").stdout;
    let folder = PathBuf::from(String::from_utf8_lossy(&folder).trim());
    let runtime = format!("libclang_rt.xray-fdr-{}.a", std::env::consts::ARCH);
    if !folder.join("lib/linux").join(runtime).exists() {
        fdr_tests::skip(&format!("{CHECK}: libclang-rt-19-dev is not installed"));
        return None;
    }
    Some(clang)
}

/// Compiles and runs the program: its trace, its count of each function by the runtime's number, and
/// the function's name in the source.
fn record(clang: &Path, folder: &Folder) -> (PathBuf, Calls, BTreeMap<u64, String>) {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/clang_xray.cpp");
    let program = folder.join("program");
    let arguments = "-std=c++17 -O1 -pthread -fxray-instrument -fxray-ignore-loops \
                     -fxray-instruction-threshold=100000 -o program";
    let mut arguments: Vec<&str> = arguments.split_whitespace().collect();
    arguments.push(source);
    let _ = Program::new(clang, folder).args(&arguments).run().ok();
    let outcome = Program::new(&program, folder)
        .env("XRAY_OPTIONS", "xray_logfile_base=log.")
        .args(&["100"])
        .run()
        .ok();
    let (mut calls, mut names) = (Calls::new(), BTreeMap::new());
    for line in outcome.stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse().expect("a number");
        calls.insert(number(0), number(1));
        names.insert(number(0), words[2].to_owned());
    }
    let files = folder.names();
    let log = files.iter().find(|name| name.starts_with("log."));
    let log = folder.join(log.unwrap_or_else(|| panic!("no log among {files:?}")));
    (log, calls, names)
}

/// Edges of each function, arguments, and payloads of custom events.
#[derive(Default)]
struct XrayCounts {
    edges: BTreeMap<(u64, &'static str), u64>,
    arguments: u64,
    payloads: Vec<Vec<u8>>,
}

impl Sink for XrayCounts {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            assert!(!call.synthetic);
            let edge = match call.edge {
                Edge::Entry => "entry",
                Edge::Exit => "exit",
                Edge::TailExit => "tail exit",
            };
            *self
                .edges
                .entry((call.function.0.into(), edge))
                .or_insert(0) += 1;
        }
    }

    fn mark(&mut self, mark: &Mark<'_>) {
        match mark {
            Mark::Argument { value } => self.arguments += value,
            Mark::Custom { data, .. } => self.payloads.push(data.to_vec()),
            _ => {}
        }
    }

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

#[test]
fn the_tool_counts_what_the_program_counted() {
    let Some(clang) = compiler() else { return };
    let folder = Folder::new("clang-xray");
    let (trace, calls, names) = record(&clang, &folder);
    assert_eq!(calls.len(), 5, "{calls:?}");
    assert!(calls.values().sum::<u64>() > 4_000, "{calls:?}");

    verify(&trace);
    let report = json("report", &[&trace]);
    let rows = report["functions"].as_array().expect("a list");
    let field = |row: &Value, name: &str| row[name].as_u64().expect("a number");
    let reported: Calls = rows
        .iter()
        .map(|row| (field(row, "id"), field(row, "calls")))
        .collect();
    assert_eq!(reported, calls);
    assert_eq!(rows.iter().map(|row| field(row, "clipped")).sum::<u64>(), 0);

    // What else the program did.
    let source = registry::open_path(&trace).expect("a trace");
    assert_eq!(source.diagnostics(), []);
    assert_eq!(source.info().threads.len(), 4);
    let mut counts = XrayCounts::default();
    drive(&*source, &mut counts, &|_| {}).expect("a readable trace");
    for (id, name) in &names {
        let left = |edge| counts.edges.get(&(*id, edge)).copied().unwrap_or(0);
        let all = calls[id];
        // `node` ends in a call of `tail`; the others return.
        let wanted = if name == "node" { (0, all) } else { (all, 0) };
        assert_eq!((left("exit"), left("tail exit")), wanted, "{name}");
    }
    // `tail` was given each number below 100 twice, below 200 and below 300.
    assert_eq!(counts.arguments, 2 * 4950 + 19_900 + 44_850);
    assert_eq!(counts.payloads, vec![b"halfway".to_vec(); 4]);
}
