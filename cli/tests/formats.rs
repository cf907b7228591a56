//! Every command takes every format: the golden files of all of them, whole and damaged.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{self, Folder, assert_contains, convert, fdr, figures, goldens, stderr};
use fdr_formats::registry::{FORMATS, targets};
use serde_json::Value;

#[test]
fn every_command_takes_every_format() {
    let folder = Folder::new("commands");
    let out = folder.file("out");
    let goldens = goldens();
    for format in FORMATS {
        let files = goldens.iter().filter(|(name, _)| *name == format.name);
        let traces: Vec<&str> = files.map(|(_, trace)| trace.as_str()).collect();
        assert!(!traces.is_empty(), "{} has no golden file", format.name);
        for trace in traces {
            let run = |arguments: &[&str], codes: &[i32]| {
                let output = fdr(arguments);
                let code = output.status.code().expect("an exit code");
                assert!(codes.contains(&code), "{arguments:?}: {output:?}");
                output
            };
            let info = run(&["info", "--functions", trace], &[0]);
            assert_contains(common::stdout(&info), "\nformat     ");
            run(&["report", trace], &[0]);
            let records = run(&["replay", "--records", trace], &[0]);
            assert!(common::stdout(&records).lines().count() > 0, "{trace}");
            run(&["verify", trace], &[0, 1]);
            let map = run(
                &["convert", "--to", "map", trace, "--force", "-o", &out],
                &[0, 2],
            );
            let nameless = stderr(&map).contains("no names of functions");
            assert_eq!(map.status.success(), !nameless, "{map:?}");
        }
    }
}

/// How many synthetic entries and exits a conversion has written as measured ones, by its own message.
fn as_measured(messages: &str) -> u64 {
    let what = " in the middle of a thread: written as measured ones";
    let line = messages.lines().find_map(|line| {
        let line = line.strip_suffix(what)?;
        let one = || line.strip_suffix(" synthetic entry or exit");
        line.strip_suffix(" synthetic entries and exits")
            .or_else(one)
    });
    let count = line.and_then(|line| line.rsplit(' ').next());
    count.map_or(0, |count| count.parse().expect("a number"))
}

#[test]
fn golden_files_are_the_same_in_every_format() {
    let folder = Folder::new("goldens");
    let names = |report: &Value| -> Vec<(String, [u64; 3])> {
        let functions = report["functions"].as_array().expect("functions");
        let number = |value: &Value| value.as_u64().expect("a number");
        let mut rows: Vec<_> = functions
            .iter()
            .map(|function| {
                let figures = ["calls", "total_ns", "self_ns"].map(|key| number(&function[key]));
                (function["name"].to_string(), figures)
            })
            .collect();
        rows.sort();
        rows
    };
    // Where a tick is no ns, each call is rounded once more.
    let same = |(name, [calls, total, own]): &(String, [u64; 3]), other: &(String, [u64; 3])| {
        let [others_calls, others_total, others_own] = other.1;
        *name == other.0
            && *calls == others_calls
            && total.abs_diff(others_total) <= *calls
            && own.abs_diff(others_own) <= *calls
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
            let messages = convert(&golden, target, &there);
            let found = figures(&there);
            let pair = format!("{format}: {golden} to {}", target.name);
            let records = report["records"].as_u64().expect("a number");
            assert_eq!(found["records"], records + as_measured(&messages), "{pair}");
            if nests {
                let (found, wanted) = (names(&found), names(&report));
                let equal = found.len() == wanted.len()
                    && found
                        .iter()
                        .zip(&wanted)
                        .all(|(one, other)| same(one, other));
                assert!(equal, "{pair}: {found:?}, not {wanted:?}");
            }
        }
    }
}

/// The files of a trace: one, or those of a folder.
fn files_of(trace: &Path) -> Vec<PathBuf> {
    if trace.is_file() {
        return vec![PathBuf::new()];
    }
    let names = common::contents(trace).into_iter().map(PathBuf::from);
    names.filter(|name| trace.join(name).is_file()).collect()
}

/// A copy of a trace, of which one file is changed.
fn damaged(trace: &Path, file: &Path, bytes: &[u8], copy: &Path) {
    let _ = fs::remove_dir_all(copy);
    let _ = fs::remove_file(copy);
    if trace.is_file() {
        return fs::write(copy, bytes).unwrap();
    }
    fs::create_dir(copy).unwrap();
    for name in files_of(trace) {
        let bytes = match name == file {
            true => bytes.to_vec(),
            false => fs::read(trace.join(&name)).unwrap(),
        };
        fs::write(copy.join(name), bytes).unwrap();
    }
}

#[test]
fn damaged_traces_are_read_up_to_damage() {
    let folder = Folder::new("damaged");
    let (copy, out) = (folder.path().join("damaged"), folder.file("out"));
    let copy_text = copy.to_str().unwrap();
    for (_, golden) in goldens() {
        let golden = Path::new(&golden);
        for file in files_of(golden) {
            let path = if golden.is_file() {
                golden.to_owned()
            } else {
                golden.join(&file)
            };
            let bytes = fs::read(path).unwrap();
            let mut flipped = bytes.clone();
            let middle = bytes.len() / 2;
            flipped[middle..]
                .iter_mut()
                .take(3)
                .for_each(|byte| *byte ^= 0xff);
            for bytes in [&bytes[..bytes.len() * 2 / 3], &flipped] {
                damaged(golden, &file, bytes, &copy);
                for arguments in [
                    &["info", copy_text][..],
                    &["report", copy_text],
                    &["replay", "--records", copy_text],
                    &["verify", copy_text],
                    &["convert", "--to", "map", copy_text, "--force", "-o", &out],
                    &["convert", copy_text, "--force", "--to", "xray", "-o", &out],
                ] {
                    let output = fdr(arguments);
                    let code = output.status.code();
                    let case = format!("{}: {arguments:?}: {output:?}", golden.display());
                    assert!(code.is_some_and(|code| code <= 2), "{case}");
                    assert!(!stderr(&output).contains("panicked"), "{case}");
                    let refused = code == Some(2);
                    assert!(!refused || stderr(&output).starts_with("fdr: "), "{case}");
                }
            }
        }
    }
    assert!(
        common::contents(folder.path())
            .iter()
            .all(|name| !name.starts_with('.'))
    );
}
