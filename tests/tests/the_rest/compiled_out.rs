//! With `default-features = false`, the program has no section, symbol, string or dependency of the recorder, and does
//! the same as before. The same program with the recorder shows that the test would find it.

use std::fs;
use std::process::Command;

use crate::package::{Package, text_of};
use object::{Object, ObjectSection, ObjectSymbol};

struct Built {
    program: Vec<u8>,
    stdout: String,
    stderr: String,
    /// It left a trace file when it ended.
    trace: bool,
}

/// Builds the program in release mode and runs it, recording nothing.
fn build(features: &str) -> Built {
    let package = Package::copy_of("compiled_out", "");
    let output = package.cargo("build", &["--release", "--features", features]);
    assert!(output.status.success(), "{}", text_of(&output));
    let path = package.built("release/fdr-tests-compiled-out");
    let trace = package.built("compiled_out.fdr");
    // What an interrupted run left would seem to be this one's.
    let _ = fs::remove_file(&trace);
    let mut run = Command::new(&path);
    run.env_remove("FDR")
        .env("FDR_LOG", "quiet")
        .env("FDR_OUT", &trace);
    let output = run.output().expect("it runs");
    assert!(output.status.success(), "{}", text_of(&output));
    Built {
        program: fs::read(path).expect("the program"),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        trace: fs::remove_file(trace).is_ok(),
    }
}

/// Every place where the program holds something of the recorder.
fn traces_of_it(program: &[u8]) -> Vec<String> {
    let file = object::File::parse(program).expect("an ELF file");
    let mut found = Vec::new();
    for section in file.sections() {
        let name = section.name().expect("a section's name");
        if name.contains("fdr") {
            found.push(format!("section {name}"));
        }
    }
    for symbol in file.symbols().chain(file.dynamic_symbols()) {
        let name = symbol.name().expect("a symbol's name");
        // The program's own crate is called fdr_tests_….
        if name.contains("3fdr") || name.contains("fdr_formats") || name.contains("fdr_sites") {
            found.push(format!("symbol {name}"));
        }
    }
    for text in [
        "FDR_OUT",
        "FDR_BUFFER",
        "FDR_SIGNAL",
        "__FdrHere",
        "counted by name",
    ] {
        if program
            .windows(text.len())
            .any(|bytes| bytes == text.as_bytes())
        {
            found.push(format!("string {text}"));
        }
    }
    found
}

/// Bytes of code of the function `leaf`.
fn size_of_leaf(program: &[u8]) -> u64 {
    let file = object::File::parse(program).expect("an ELF file");
    let mut symbols = file.symbols();
    let is_leaf = |symbol: &object::Symbol<'_, '_>| {
        let name = symbol.name().unwrap_or_default();
        name.contains("fdr_tests_compiled_out4leaf") && symbol.kind() == object::SymbolKind::Text
    };
    symbols
        .find(is_leaf)
        .expect("the function `leaf` has a symbol")
        .size()
}

/// The crates that are linked into the program.
fn linked() -> Vec<String> {
    let package = Package::copy_of("compiled_out", "");
    let arguments = [
        "--edges",
        "no-proc-macro,normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ];
    let output = package.cargo("tree", &arguments);
    assert!(output.status.success(), "{}", text_of(&output));
    let tree = String::from_utf8_lossy(&output.stdout);
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    names.map(String::from).collect()
}

// One test: it works in one folder.
#[test]
fn nothing_is_left() {
    let with = build("record");
    let found = traces_of_it(&with.program);
    for kind in [
        "section fdr_sites",
        "symbol ",
        "string FDR_OUT",
        "string counted by name",
    ] {
        assert!(
            found.iter().any(|line| line.starts_with(kind)),
            "no {kind} in {found:#?}"
        );
    }
    // A panic is an event of the recorder's own.
    assert_eq!(with.stderr, "on 6 functions 7\n");

    let without = build("");
    assert_eq!(traces_of_it(&without.program), [""; 0]);
    assert_eq!(without.stdout, with.stdout);
    assert_eq!(
        without.stdout,
        "sum Ok(6) true\ncount 1\nleaf 5\nlater 7\npanics true\n"
    );
    assert_eq!(without.stderr, "on 0 functions 0\n");
    let sizes = [&with, &without].map(|built| size_of_leaf(&built.program));
    println!(
        "a traced leaf: {} bytes, without the recorder: {} bytes",
        sizes[0], sizes[1]
    );
    assert!(
        sizes[1] > 0 && sizes[0] <= sizes[1] + 100,
        "bytes of code: {sizes:?}"
    );
    assert!(with.trace && !without.trace);
    assert_eq!(linked(), ["fdr-tests-compiled-out", "fdr"]);
}
