//! Every command takes every format: the golden files of all of them, whole and damaged.

mod common;

use std::fs;
use std::path::Path;

use common::{Folder, convert, fdr, figures, goldens, stderr};
use fdr_formats::registry::{FORMATS, targets};
use serde_json::{Value, json};

#[test]
fn every_command_takes_every_format() {
    let folder = Folder::new("commands");
    let out = folder.file("out");
    let goldens = goldens();
    for format in FORMATS {
        let of = goldens.iter().filter(|(name, _)| *name == format.name);
        let traces: Vec<&str> = of.map(|(_, trace)| trace.as_str()).collect();
        assert!(!traces.is_empty(), "{} has no golden file", format.name);
        for trace in traces {
            let run = |arguments: &[&str], codes: &[i32]| {
                let output = fdr(arguments);
                let code = output.status.code().expect("an exit code");
                assert!(codes.contains(&code), "{arguments:?}: {output:?}");
                output
            };
            let info = run(&["info", "--functions", trace], &[0]);
            assert!(common::stdout(&info).contains("\nformat     "), "{info:?}");
            run(&["report", trace], &[0]);
            let records = run(&["records", trace], &[0]);
            assert!(common::stdout(&records).lines().count() > 0, "{trace}");
            run(&["verify", trace], &[0, 1]);
            let map = run(&["map", trace, "-o", &out], &[0, 2]);
            let nameless = stderr(&map).contains("no names of functions");
            assert_eq!(map.status.success(), !nameless, "{map:?}");
        }
    }
}

#[test]
fn golden_files_are_the_same_in_every_format() {
    let folder = Folder::new("goldens");
    let names = |report: &Value| -> Vec<Value> {
        let functions = report["functions"].as_array().expect("functions");
        let mut keys: Vec<Value> = functions
            .iter()
            .map(|function| {
                json!([
                    function["name"],
                    function["calls"],
                    function["total_ns"],
                    function["self_ns"]
                ])
            })
            .collect();
        keys.sort_by_key(Value::to_string);
        keys
    };
    for (at, (format, golden)) in goldens().into_iter().enumerate() {
        let report = figures(&golden);
        // What does not nest has no one reading: a format of calls that nest gives it another one. And
        // where records are missing, it is the writer that says when a call began.
        let nests = report["balance"]["exits_without_entry"] == 0
            && report["balance"]["entries_without_exit"] == 0
            && report["lost_records"] == 0;
        // Each into some: all pairs of formats are met.
        for (nth, target) in targets().enumerate() {
            if (at + nth) % 3 != 0 {
                continue;
            }
            let there = folder.file(&format!("{at}.{}", target.name));
            convert(&golden, target, &there);
            let found = figures(&there);
            let pair = format!("{format}: {golden} to {}", target.name);
            assert_eq!(found["records"], report["records"], "{pair}");
            if nests {
                assert_eq!(names(&found), names(&report), "{pair}");
            }
        }
    }
}

#[test]
fn damaged_files_of_every_format_are_read_as_far_as_they_go() {
    let folder = Folder::new("damaged");
    for (format, golden) in goldens() {
        if !Path::new(&golden).is_file() {
            continue;
        }
        let bytes = fs::read(&golden).unwrap();
        let trace = folder.file("damaged");
        let mut flipped = bytes.clone();
        let middle = bytes.len() / 2;
        flipped[middle..][..3.min(bytes.len() - middle)].fill(0xff);
        for damaged in [&bytes[..bytes.len() * 2 / 3], &flipped] {
            fs::write(&trace, damaged).unwrap();
            for command in ["info", "report", "records", "verify", "map", "convert"] {
                let out = folder.file("out");
                let more: &[&str] = match command {
                    "map" => &["-o", &out],
                    "convert" => &["--force", "--to", "xray", "-o", &out],
                    _ => &[],
                };
                let output = fdr(&[&[command, trace.as_str()], more].concat());
                let code = output.status.code();
                assert!(
                    code.is_some_and(|code| code <= 2),
                    "{format} {golden}: {output:?}"
                );
                assert!(
                    !stderr(&output).contains("panicked"),
                    "{golden}: {output:?}"
                );
            }
        }
    }
}
