//! HTDUMP before HawkTracer's own programs: its Rust parser and converter and its C++ converter read what we write, its
//! library writes what we read. They exit without an error on most failures, so everything is counted and compared.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use fdr_formats::notes::Note;
use fdr_formats::source::Record;
use fdr_formats::{FunctionId, registry};
use fdr_tests::example;
use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use serde_json::Value;

use crate::the_rest::hawktracer_support::{
    Row, chains, convert, converted, converter_of_hawktracer, debug_events, debug_rows, foreign,
    parsed, recorded, rows,
};
use fdr_tests::support::tool::{calls, json, verify};

/// Records of all kinds in a file.
fn records(path: &Path) -> u64 {
    let source = registry::open_path(path).expect("our own file");
    let mut count = 0;
    let visit = &mut |_: &Record<'_>| {
        count += 1;
        std::ops::ControlFlow::Continue(())
    };
    source.records(visit).expect("a readable file");
    count
}

#[test]
fn the_rust_parser_reads_what_we_write() {
    let check = "hawktracer-parser reads a real program's HTDUMP";
    let Some(parse) = foreign("parse", check) else {
        return;
    };
    let folder = Folder::new("hawktracer-parser");
    let (file, wanted) = recorded(&folder, "htdump");
    let (found, events) = parsed(&parse, &file);
    assert_eq!(found, wanted);
    assert_eq!(events, records(&file), "every record is an event");
}

#[test]
fn the_rust_parser_has_the_fields_of_events() {
    let check = "hawktracer-parser has the fields of events and counters";
    let Some(parse) = foreign("parse", check) else {
        return;
    };
    let folder = Folder::new("hawktracer-fields");
    let program = Program::new(example("queue"), &folder);
    let set = program.set("FDR=1 FDR_KEEP=0 FDR_OUT=queue.fdr");
    let _ = set.run().ok();
    let file = convert(&folder.join("queue.fdr"), "htdump");
    let output = Command::new(&parse).arg(&file).arg("fields").output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let found = String::from_utf8(output.stdout).expect("UTF-8");
    let mut found: Vec<Vec<&str>> = found
        .lines()
        .map(|line| line.split('\t').collect())
        .collect();
    // The same by our reader of the XRay file.
    let wanted = noted(&folder.join("queue.fdr"));
    let mut wanted: Vec<Vec<&str>> = wanted
        .iter()
        .map(|line| line.split('\t').collect())
        .collect();
    assert!(wanted.len() > 100, "{}", wanted.len());
    for line in &mut found {
        let of_file = [
            "id=",
            "inside=",
            "thread_id=",
            "timestamp=",
            "type=",
            "span_id=",
        ];
        line.retain(|field| !of_file.iter().any(|own| field.starts_with(own)));
    }
    found.sort();
    wanted.sort();
    assert_eq!(found, wanted);
}

/// The events, counters and fields of spans in a trace, as `parse` has them.
fn noted(path: &Path) -> Vec<String> {
    let source = registry::open_path(path).expect("our own file");
    let info = source.info();
    let name = |id| info.function(FunctionId(id)).map_or("", |name| &name.name);
    let mut lines = Vec::new();
    let visit = &mut |record: &Record<'_>| {
        let note = record
            .note
            .and_then(|(kind, body)| Note::decode(kind, body));
        if let Some(Note::Event {
            name: id, fields, ..
        }) = note
        {
            let mut words: Vec<String> = fields
                .iter()
                .map(|field| {
                    let key = match name(field.name) {
                        "" => "value",
                        // The header has a field of that name.
                        "id" => "id_2",
                        key => key,
                    };
                    format!("{key}={}", field.value)
                })
                .collect();
            words.sort();
            words.insert(0, name(id).to_owned());
            lines.push(words.join("\t"));
        }
        std::ops::ControlFlow::Continue(())
    };
    source.records(visit).expect("a readable file");
    lines
}

#[test]
fn the_rust_converter_reads_what_we_write() {
    let check = "hawktracer-converter-rs reads a real program's HTDUMP";
    let Some(converter) = fdr_tests::reader("hawktracer-converter-rs", check) else {
        return;
    };
    let folder = Folder::new("hawktracer-converter");
    let (file, wanted) = recorded(&folder, "htdump");
    let source = file.to_str().expect("UTF-8");
    let events = debug_events(&converted(&converter, source, "json_debug", &folder));
    assert_eq!(debug_rows(&events), wanted);
    assert_eq!(
        events.len() as u64,
        records(&file),
        "every record is an event"
    );
    let flames = converted(&converter, source, "flamegraph", &folder);
    let found = flame_chains(&flames);
    let trace = registry::open_path(&file).expect("our own file");
    assert_eq!(
        with_length(&found),
        with_length(&chains(&*trace)),
        "calls lie in one another as they did"
    );
    let chrome = converted(&converter, source, "chrome-tracing", &folder);
    let chrome = format!("{}]", chrome.trim_end_matches(','));
    let chrome: Value = serde_json::from_str(&chrome).expect("JSON but for its last bracket");
    // One slice a call, and none of any other record.
    assert_eq!(chrome.as_array().expect("a list").len(), wanted.len());
}

/// Without the example's untimed function, because the converter goes by times alone. It takes a call of no length for
/// a child of the call that ended at that moment.
fn with_length(chains: &BTreeSet<Vec<String>>) -> BTreeSet<Vec<String>> {
    let is_timed = |name: &&String| !name.ends_with("::is_stop_word");
    let timed = |chain: &Vec<String>| chain.iter().filter(is_timed).cloned().collect();
    chains.iter().map(timed).collect()
}

/// The chains of a flame graph: `{ name: "a", value: 5, children: [{ … }, ] }`.
fn flame_chains(page: &str) -> BTreeSet<Vec<String>> {
    let (_, mut rest) = page.split_once(".datum({ children: [").expect("its data");
    let (mut chain, mut chains) = (Vec::new(), BTreeSet::new());
    loop {
        if let Some(after) = rest.strip_prefix("{ name: \"") {
            let (name, after) = after.split_once('"').expect("the end of a name");
            chain.push(name.to_owned());
            chains.insert(chain.clone());
            rest = after.split_once("children: [").expect("its children").1;
        } else if let Some(after) = rest.strip_prefix("] }") {
            chain.pop().expect("as many ends as beginnings");
            rest = after;
        } else if let Some(after) = rest.strip_prefix(',') {
            rest = after;
        } else {
            assert!(rest.starts_with("]}") && chain.is_empty(), "{rest:.80}");
            return chains;
        }
    }
}

/// Thread, start and duration in µs, name, sorted.
fn slices(file: &Path) -> Vec<Row> {
    let text = fs::read_to_string(file).expect("the converter's output");
    let json: Value = serde_json::from_str(&text).expect("JSON");
    let events = json["traceEvents"].as_array().expect("a list").iter();
    let mut slices: Vec<Row> = events
        .map(|event| {
            let number = |name: &str| event[name].as_u64().expect("a number");
            let name = event["name"].as_str().expect("a name").to_owned();
            (number("tid"), number("ts"), number("dur"), name)
        })
        .collect();
    slices.sort();
    slices
}

fn in_micros(rows: Vec<Row>) -> Vec<Row> {
    let rows = rows.into_iter();
    let mut rows: Vec<Row> = rows
        .map(|(thread, start, duration, name)| (thread, start / 1000, duration / 1000, name))
        .collect();
    rows.sort();
    rows
}

#[test]
fn hawktracers_converter_reads_both_byte_orders() {
    let check = "HawkTracer's own converter reads a real program's HTDUMP in both byte orders";
    let Some(converter) = converter_of_hawktracer(check) else {
        return;
    };
    for target in ["htdump", "htdump-be"] {
        let folder = Folder::new(target);
        let (file, wanted) = recorded(&folder, target);
        let out = folder.join("chrome.json");
        let output = Command::new(&converter)
            .args(["--format", "chrome-tracing", "--source"])
            .args([&file, Path::new("--output"), &out])
            .stdin(Stdio::null())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(slices(&out), in_micros(wanted), "{target}");
    }
}

#[test]
fn converted_hawktracer_files_are_read() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/htdump");
    let source = registry::open_path(&folder.join("core.htdump")).expect("a golden file");
    let wanted = slices(&folder.join("vectors/core.json"));
    assert_eq!(in_micros(rows(&*source)), wanted);
}

#[test]
fn we_read_what_hawktracers_library_writes() {
    let Some(write) = foreign("write", "HTDUMP of HawkTracer's own library is read") else {
        return;
    };
    let folder = Folder::new("hawktracer-library");
    let file = folder.join("library.htdump");
    let output = Command::new(write).arg(&file).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let count = |line: &str| {
        let (name, count) = line.split_once('\t').expect("name and count");
        (name.to_owned(), count.parse().expect("a number"))
    };
    let wanted: BTreeMap<String, u64> = text.lines().map(count).collect();
    assert_eq!(wanted.len(), 3);
    verify(&file);
    let report = json("report", &[&file]);
    assert_eq!(calls(&report["functions"]), wanted);
    // Its calls lie in one another as they did: `step` in `work`, `fib` in `step` and in itself.
    let source = registry::open_path(&file).expect("HawkTracer's file");
    let chains = chains(&*source);
    let deepest = chains.iter().map(Vec::len).max();
    assert_eq!(deepest, Some(2 + 6), "{chains:?}");
    assert!(
        chains
            .iter()
            .all(|chain| chain[0] == "work" && chain.get(1).is_none_or(|name| name == "step"))
    );
}
