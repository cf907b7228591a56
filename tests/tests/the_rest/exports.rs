//! Exports of a real program's trace, read by the programs that they are made for: Go's pprof, speedscope, Graphviz and
//! a collector of OpenTelemetry find the calls and the self times of the report.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use fdr_tests::support::folder::Folder;
use fdr_tests::support::program::Program;
use fdr_tests::support::tool::{fdr, json};
use fdr_tests::support::wait::until;
use fdr_tests::{example, skip};
use serde_json::Value;

/// Calls and own ns by name.
type Sums = BTreeMap<String, (u64, u64)>;

/// A trace with short calls, untimed calls and three threads, and what the report says of it.
fn recorded(folder: &Folder) -> (PathBuf, Sums) {
    let arguments = "--documents 10 --passes 1 --threads 3";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let _ = Program::new(example("index_builder"), folder)
        .set("FDR=1 FDR_OUT=index.fdr FDR_BUFFER=256K FDR_KEEP=1s")
        .args(&arguments)
        .run()
        .ok();
    let trace = folder.join("index.fdr");
    let report = json("report --window", &[&trace]);
    let rows = report["functions"].as_array().expect("functions").iter();
    let row = |row: &Value| {
        // An untimed function has no time.
        let number = |field: &str| row[field].as_u64().unwrap_or_default();
        let name = row["name"].as_str().expect("a name").to_owned();
        (name, (number("calls"), number("self_ns")))
    };
    let sums: Sums = rows.map(row).filter(|(_, (calls, _))| *calls > 0).collect();
    assert!(sums.len() > 3, "{sums:?}");
    (trace, sums)
}

fn exported(trace: &Path, name: &str, folder: &Folder) -> PathBuf {
    let path = folder.join(name);
    let _ = fdr(&format!("convert -q --to {name} -o"), &[&path, trace]);
    path
}

fn stdout_of(command: &mut Command) -> String {
    let output = command.env("LC_ALL", "C.UTF-8").output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn gos_pprof_agrees_with_the_report() {
    let Some(go) = fdr_tests::reader("go", "pprof reads an export (Debian package golang-go)")
    else {
        return;
    };
    let folder = Folder::new("exports-pprof");
    let (trace, wanted) = recorded(&folder);
    let profile = exported(&trace, "pprof", &folder);
    let top = |index: &str| -> BTreeMap<String, u64> {
        let all = ["-top", "-nodecount=1000000", "-nodefraction=0", "-unit=ns"];
        let text = stdout_of(
            Command::new(&go)
                .args(["tool", "pprof"])
                .args(all)
                .arg(format!("-sample_index={index}"))
                .arg(&profile)
                .env("HOME", folder.path()),
        );
        let rows = text
            .lines()
            .skip_while(|line| !line.contains("flat%"))
            .skip(1);
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            let flat = words.next()?.trim_end_matches("ns").parse().ok()?;
            let name = words.skip(4).collect::<Vec<_>>().join(" ");
            Some((name, flat))
        };
        rows.filter_map(row).collect()
    };
    let (calls, times) = (top("calls"), top("time"));
    for (name, &(count, own)) in &wanted {
        assert_eq!(calls.get(name), Some(&count), "{name}: {calls:?}");
        // Each path is rounded to a whole nanosecond.
        let found = times.get(name).copied().unwrap_or_default();
        assert!(found.abs_diff(own) < 100, "{name}: {found} and not {own}");
    }
}

#[test]
fn graphviz_draws_each_function_of_the_graph() {
    if fdr_tests::reader("dot", "Graphviz draws a graph (Debian package graphviz)").is_none() {
        return;
    }
    let folder = Folder::new("exports-graphviz");
    let (trace, _) = recorded(&folder);
    let picture = folder.join("graph.svg");
    let _ = fdr("graph --min 0% -o", &[&picture, &trace]);
    let svg = std::fs::read_to_string(&picture).expect("a picture");
    let wanted = json("graph --min 0%", &[&trace]);
    let functions = wanted["functions"].as_array().expect("functions");
    let edges = wanted["edges"].as_array().expect("edges");
    assert!(functions.len() > 3, "{wanted}");
    for function in functions {
        let name = function["name"].as_str().expect("a name");
        let name = name.replace('<', "&lt;").replace('>', "&gt;");
        assert!(svg.contains(&format!(">{name}</text>")), "{name}: {svg}");
    }
    assert_eq!(svg.matches("class=\"node\"").count(), functions.len());
    assert_eq!(svg.matches("class=\"edge\"").count(), edges.len());
}

/// What a program tells of a function: its calls, its own ns, and in how many pieces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Row {
    calls: u64,
    own: u64,
    pieces: u64,
}

/// The rows by name, with the sums of the calls and pieces so far.
#[derive(Default)]
struct RowSums(BTreeMap<String, Row>);

impl RowSums {
    fn call(&mut self, name: &str) {
        self.0.entry(name.to_owned()).or_default().calls += 1;
    }

    fn own(&mut self, name: &str, ns: u64) {
        let row = self.0.entry(name.to_owned()).or_default();
        row.own += ns;
        row.pieces += 1;
    }

    /// Counts another function's time as this one's.
    fn give(&mut self, name: &str, other: &str) {
        let moved = std::mem::take(self.0.get_mut(other).expect("the other function"));
        let row = self.0.get_mut(name).expect("the function");
        row.own += moved.own;
        row.pieces += moved.pieces;
        self.0.entry(other.to_owned()).or_default().calls = moved.calls;
    }

    /// Each piece was rounded to a whole nanosecond, at both of its ends.
    fn equals(&self, wanted: &Sums) {
        assert!(
            self.0.keys().eq(wanted.keys()),
            "{:?}, not {wanted:?}",
            self.0
        );
        for (name, &(calls, own)) in wanted {
            let row = self.0[name];
            let is_near = row.own.abs_diff(own) <= row.pieces;
            assert!(
                row.calls == calls && is_near,
                "{name}: {row:?}, not {calls} and {own}"
            );
        }
    }
}

#[test]
fn speedscope_agrees_with_the_report() {
    let check = "speedscope reads an export";
    let Some((page, browser)) = super::page::sources(check).zip(super::page::chromium(check))
    else {
        return;
    };
    let folder = Folder::new("exports-speedscope");
    let (trace, wanted) = recorded(&folder);
    let profile = exported(&trace, "chrome", &folder);
    let saved = folder.join("saved.json");
    let mut node = Command::new("node");
    let node = node.arg("test/speedscope.mjs").current_dir(page);
    let _ = stdout_of(node.arg(browser).arg(profile).arg(&saved));
    let saved: Value = serde_json::from_slice(&std::fs::read(saved).expect("what it saved"))
        .expect("what it saved is JSON");
    let exporter = saved["exporter"].as_str().expect("a program");
    assert!(exporter.starts_with("speedscope@"), "{exporter}");
    let frames = saved["shared"]["frames"].as_array().expect("frames");
    let mut found = RowSums::default();
    let profiles = saved["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.len(), 4, "a profile of each thread");
    for profile in profiles {
        let (mut open, mut before) = (Vec::<&str>::new(), 0);
        for event in profile["events"].as_array().expect("events") {
            // In microseconds.
            let at = (event["at"].as_f64().expect("a time") * 1000.0).round() as u64;
            if let Some(name) = open.last() {
                found.own(name, at - before);
            }
            before = at;
            let frame = event["frame"].as_u64().expect("a frame");
            let name = frames[usize::try_from(frame).unwrap()]["name"].as_str();
            let name = name.expect("a name");
            if event["type"] == "O" {
                found.call(name);
                open.push(name);
            } else {
                assert_eq!(open.pop(), Some(name));
            }
        }
        assert!(open.is_empty(), "{open:?}");
    }
    // On a time axis, an untimed call is as long as the records around it are apart.
    let caller = "index_builder::pool::Worker::index_batch";
    found.give(caller, "index_builder::tokens::is_stop_word");
    found.equals(&wanted);
}

/// What a server answers: the line with its status.
fn posted(address: Ipv4Addr, kind: &str, body: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect((address, COLLECTOR_PORT))?;
    let head = format!(
        "POST /v1/traces HTTP/1.1\r\nHost: {address}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

const COLLECTOR_PORT: u16 = 4318;

/// Has a collector receive messages; what it found in them.
fn collected(folder: &Folder, host: u8, kind: &str, messages: &[&[u8]]) -> Option<RowSums> {
    let Some(collector) = xtask::readers::collector() else {
        skip("a collector of OpenTelemetry receives an export: rotel is not installed");
        return None;
    };
    // An address that follows from this process's id, so no other program listens there.
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 100 + host, high, low);
    let collector = Program::new(collector, folder)
        .args(&["start", "--exporter", "blackhole"])
        .args(&["--debug-log", "traces", "--debug-log-verbosity", "detailed"])
        .args(&[
            "--otlp-http-endpoint",
            &format!("{address}:{COLLECTOR_PORT}"),
        ])
        .args(&["--otlp-grpc-endpoint", &format!("{address}:4317")])
        .start();
    let _ = until("the collector to listen", || {
        posted(address, kind, b"").ok()
    });
    for message in messages {
        let answer = posted(address, kind, message).expect("an answer");
        assert_eq!(answer, "HTTP/1.1 200 OK");
    }
    collector.signal("TERM");
    let output = collector.end();
    let (mut found, mut name) = (RowSums::default(), "");
    for line in output.stdout.lines() {
        if let Some((_, after)) = line.split_once("Name           : ") {
            name = after;
            found.call(name);
        } else if let Some((_, after)) = line.split_once("-> fdr.self_ns: Int(") {
            let ns = after.trim_end_matches(')').parse();
            found.own(name, ns.expect("a number"));
        }
    }
    Some(found)
}

#[test]
fn opentelemetry_collector_agrees_with_the_report() {
    let folder = Folder::new("exports-otlp");
    let (trace, wanted) = recorded(&folder);
    let messages = std::fs::read(exported(&trace, "otlp", &folder)).expect("the export");
    if let Some(found) = collected(&folder, 1, "application/x-protobuf", &[&messages]) {
        found.equals(&wanted);
    }
}

#[test]
fn the_collector_finds_the_same_in_json() {
    let folder = Folder::new("exports-otlp-json");
    let (trace, wanted) = recorded(&folder);
    let lines = std::fs::read(exported(&trace, "otlp-json", &folder)).expect("the export");
    let messages: Vec<&[u8]> = lines
        .trim_ascii_end()
        .split(|&byte| byte == b'\n')
        .collect();
    if let Some(found) = collected(&folder, 2, "application/json", &messages) {
        found.equals(&wanted);
    }
}
