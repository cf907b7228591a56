//! A program calls every kind of traced function a known number of times; the trace that the real
//! recorder writes must hold exactly these calls, under these names, at these lines.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use crate::package::{Package, text_of};
use fdr_formats::model::{Edge, Mark};
use fdr_formats::{Call, Diagnostic, FunctionId, Sink, Thread, registry, source};

/// Entries and exits of each function.
#[derive(Default)]
struct Calls(BTreeMap<FunctionId, [u64; 2]>);

impl Sink for Calls {
    fn thread(&mut self, _: &Thread) {}

    fn calls(&mut self, calls: &[Call]) {
        for call in calls {
            assert!(
                !call.synthetic,
                "every call of the program is whole: {call:?}"
            );
            let [entries, exits] = self.0.entry(call.function).or_default();
            *(if call.edge == Edge::Entry {
                entries
            } else {
                exits
            }) += 1;
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic:?}");
    }
}

#[test]
fn every_call_is_in_the_trace_once() {
    let package = Package::copy_of("counted", "");
    let output = package.cargo("build", &[]);
    assert!(output.status.success(), "{}", text_of(&output));
    let trace = package.built("counted.fdr");
    let mut run = Command::new(package.built("debug/counted"));
    let output = run
        .env("FDR", "1")
        .env("FDR_OUT", &trace)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", text_of(&output));

    let opened = registry::open_path(&trace)
        .unwrap_or_else(|error| panic!("{}: {error}\n{}", trace.display(), text_of(&output)));
    fs::remove_file(&trace).expect("the trace can be removed");
    let mut calls = Calls::default();
    source::drive(&*opened, &mut calls, &|_| {}).expect("the trace is read");
    let mut recorded = Vec::new();
    for (id, [entries, exits]) in calls.0 {
        let function = opened
            .info()
            .function(id)
            .expect("every function has a name");
        assert_eq!(entries, exits, "{function:?}");
        assert!(function.file.ends_with("src/main.rs"), "{function:?}");
        recorded.push(format!("{entries} {} {}", function.name, function.line));
    }
    let stdout = String::from_utf8_lossy(&output.stdout);
    let mut expected: Vec<&str> = stdout.lines().collect();
    expected.sort_unstable();
    recorded.sort_unstable();
    assert_eq!(recorded, expected);
    assert_eq!(expected.len(), 16);
}
