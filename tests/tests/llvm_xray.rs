//! A real program's trace, read by every installed version of `llvm-xray`, without `-k`. It counts the calls that our
//! tool counts, and that the program counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use fdr_formats::registry;
use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{calls, fdr, json, verify};
use serde_json::Value;

use crate::llvm_xray_formats::{account, check, run, tools};

type Calls = BTreeMap<String, u64>;

/// Records the index builder with `documents` documents. Returns its trace, and its own counts.
fn record(folder: &Folder, documents: u32, variables: &str) -> (PathBuf, Calls) {
    let arguments = format!("--documents {documents} --passes 1 --threads 3 --counts counts.json");
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let program = example("index_builder");
    let plain = Program::new(&program, folder).args(&arguments).run().ok();
    let outcome = Program::new(&program, folder)
        .set("FDR=1 FDR_BUFFER=32M FDR_OUT=index.fdr")
        .set(variables)
        .args(&arguments)
        .run()
        .ok();
    assert_eq!(outcome.stdout, plain.stdout);
    let counts = fs::read(folder.join("counts.json")).expect("the counts");
    let counts: Value = serde_json::from_slice(&counts).expect("JSON");
    (folder.join("index.fdr"), calls(&counts["functions"]))
}

fn reported(trace: &Path) -> Calls {
    calls(&json("report --window", &[trace])["functions"])
}

fn check_recorded(variables: &str) {
    let folder = Folder::new("llvm");
    let (trace, counts) = record(&folder, 30, variables);
    // Several chunks of each thread.
    assert!(
        counts.values().sum::<u64>() > 15_000,
        "a program that does something: {counts:?}"
    );
    verify(&trace);
    assert_eq!(reported(&trace), counts, "fdr report and the program");
    let source = registry::open_path(&trace).expect("a trace");
    check(&trace, source.info().clock.frequency as f64);
    // With the names of functions.
    let map = folder.join("map.elf");
    let _ = fdr("convert --to map -o", &[&map, &trace]);
    let map = map.to_str().expect("UTF-8");
    for tool in tools() {
        let named = |words: &str| run(tool, &format!("{words} -m {map}"), &trace);
        let account = named("account -f csv");
        for name in counts.keys() {
            assert!(account.contains(name), "{name} in {account}");
        }
        // Not --aggregate-threads: with it, llvm-xray crashes on many files, LLVM's own too.
        let stacks = "stack --all-stacks --stack-format=flame --aggregation-type=time";
        let stacks = named(&format!("{stacks} --per-thread-stacks"));
        assert!(stacks.contains("index_builder::build"), "{stacks:.500}");
        let graph = named("graph -e sum");
        assert!(graph.contains("index_builder::tokens::stem"), "{graph}");
    }
}

#[test]
fn version_3() {
    check_recorded("FDR_FORMAT=xray");
}

#[test]
fn version_1() {
    check_recorded("FDR_FORMAT=xray1");
}

#[test]
fn a_snapshot_of_full_rings() {
    // Rings that were overwritten many times: calls are open at both ends of what is left.
    let folder = Folder::new("llvm-snapshot");
    let (trace, counts) = record(&folder, 100, "FDR_BUFFER=128K");
    verify(&trace);
    let ours = reported(&trace);
    assert!(
        ours.values().sum::<u64>() < counts.values().sum(),
        "something was overwritten"
    );
    let source = registry::open_path(&trace).expect("a trace");
    for tool in tools() {
        let _ = run(tool, "fdr-dump --verify", &trace);
        for (id, (calls, _)) in account(&run(tool, "account -f csv", &trace)) {
            let function = source
                .info()
                .functions
                .iter()
                .find(|known| known.id.0 == id);
            let name = &function.expect("its name").name;
            // Ours tells calls that were cut apart from whole ones; theirs counts both.
            assert!(
                ours.get(name).is_some_and(|ours| *ours <= calls),
                "{name}: {calls}, {ours:?}"
            );
        }
    }
}
