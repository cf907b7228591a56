//! Spans of a program on tokio, on both of its runtimes. It is left out where tokio's sources are not on the machine.

use std::process::Command;

use fdr_tests::support::trace::Trace;

use crate::package::{Package, text_of};
use fdr_tests::support::tool::{json, verify};

#[test]
fn spans_on_both_runtimes_of_tokio() {
    let package = Package::copy_of("tokio_spans", "");
    let output = package.cargo("build", &[]);
    if text_of(&output).contains("no matching package named `tokio`")
        || text_of(&output).contains("attempting to make an HTTP request")
    {
        return fdr_tests::skip("spans of a program on tokio: its sources are not on this machine");
    }
    assert!(output.status.success(), "{}", text_of(&output));
    for words in [
        &["one"][..],
        &["many"],
        &["one", "layer"],
        &["many", "layer"],
    ] {
        for keep in ["10s", "0"] {
            let trace = package.built(&format!("tokio_spans.{}.fdr", words[0]));
            let output = Command::new(package.built("debug/tokio_spans"))
                .args(words)
                .env("FDR", "1")
                .env("FDR_KEEP", keep)
                .env("FDR_OUT", &trace)
                .output()
                .expect("it runs");
            assert!(output.status.success(), "{}", text_of(&output));
            assert_eq!(String::from_utf8_lossy(&output.stdout), "900 100\n");
            verify(&trace);
            let document = json("report --tasks", &[&trace]);
            let rows = document["tasks"].as_array().expect("rows");
            let ends: Vec<(&str, Vec<u64>)> = rows
                .iter()
                .map(|row| {
                    let ends = ["finished", "dropped", "unfinished"];
                    let ends = ends.map(|end| row[end].as_u64().expect("a count"));
                    (row["name"].as_str().expect("a name"), ends.to_vec())
                })
                .collect();
            for (name, count) in [
                ("serve", 1),
                ("request", 1_000),
                ("ask", 1_800),
                ("slow", 100),
            ] {
                let wanted = (&*format!("tokio_spans::{name}"), vec![count, 0, 0]);
                assert!(ends.contains(&wanted), "{wanted:?} in {ends:?}");
            }
            let trace = Trace::read(&trace);
            let events = trace.threads.iter().flat_map(|lane| trace.events(lane));
            let asked = events.filter(|event| event.contains("message=\"asked\""));
            assert_eq!(asked.count(), 900);
        }
    }
}
