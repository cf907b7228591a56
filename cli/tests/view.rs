//! `fdr view`: the answers of the page's server are the same as those of the other commands for the same trace.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use fdr_formats::{Call, CpuId, Mark, Sink, Ticks};
use serde_json::Value;

use crate::common::{self, Folder, assert_contains, in_folder, info, json, rich, rich_at, thread};

/// The command, which serves.
struct Viewer {
    child: Child,
    host: String,
    path: String,
}

impl Viewer {
    fn new(arguments: &[&str]) -> Viewer {
        let mut child = common::command()
            .args(["view", "--no-open"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("fdr runs");
        let mut line = String::new();
        let output = child.stdout.take().expect("a pipe");
        BufReader::new(output).read_line(&mut line).expect("a line");
        let (_, address) = line.trim().split_once("http://").expect("an address");
        let (host, path) = address.split_once('/').expect("a path");
        Viewer {
            child,
            host: host.to_owned(),
            path: format!("/{path}"),
        }
    }

    /// The head and the body of an answer.
    fn get(&self, path: &str) -> (String, Vec<u8>) {
        let mut stream = TcpStream::connect(&self.host).expect("a server");
        let (host, own) = (&self.host, &self.path);
        let request = format!("GET {own}{path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.expect("a head") + 4);
        (String::from_utf8(answer).expect("text"), body)
    }

    fn json(&self, path: &str) -> Value {
        let (head, body) = self.get(path);
        assert!(head.starts_with("HTTP/1.1 200 "), "{path}: {head}");
        serde_json::from_slice(&body).expect("JSON")
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Two threads, long enough that reading starts in the middle of their blocks. One thread has 180,000 calls, of which
/// some are long. The other one has few calls.
pub(crate) fn long(path: &str) {
    let info = info(&["app::run", "app::step", "app::leaf"]);
    let id = fdr_formats::FunctionId;
    let mut busy = vec![Call::entry(Ticks(1000), id(1))];
    let mut at = 1000;
    for nth in 0..60_000_u64 {
        busy.push(Call::entry(Ticks(at + 3), id(2)));
        for inner in 0..2 {
            busy.push(Call::entry(Ticks(at + 10 + inner * 20), id(3)));
            busy.push(Call::exit(Ticks(at + 15 + inner * 20 + nth % 7), id(3)));
        }
        at += if nth % 500 == 0 {
            30_000
        } else {
            60 + nth % 11
        };
        busy.push(Call::exit(Ticks(at), id(2)));
    }
    busy.push(Call::exit(Ticks(at + 100), id(1)));
    let calm = vec![
        Call::entry(Ticks(5000), id(1)),
        Call::entry(Ticks(700_000), id(3)),
        Call::exit(Ticks(900_000), id(3)),
        Call::exit(Ticks(1_500_000), id(1)),
    ];
    let mut writer = common::writer(path, &info);
    writer.thread(&thread(7, "busy"));
    for (nth, calls) in busy.chunks(250).enumerate() {
        // Another CPU is a place from which the trace can be read.
        let (time, cpu) = (calls[0].time, CpuId(nth as u32 % 4));
        writer.mark(&Mark::Cpu { time, cpu });
        writer.calls(calls);
    }
    writer.thread(&thread(8, "calm"));
    writer.calls(&calm);
    writer.finish().expect("a trace");
}

fn functions_of(report: &Value) -> &Value {
    assert!(
        report["functions"]
            .as_array()
            .is_some_and(|rows| !rows.is_empty())
    );
    &report["functions"]
}

#[test]
fn figures_of_a_stretch_equal_the_report() {
    let folder = Folder::new("view-figures");
    let (one, other) = (folder.file("long.fdr"), folder.file("rich.fdr"));
    long(&one);
    rich_at(&other, 3_000_000_000);
    let viewer = Viewer::new(&[&one, &other]);
    for (nth, trace) in [&one, &other].into_iter().enumerate() {
        let whole = json(&["report", "--json", "--window", trace]);
        let served = viewer.json(&format!("api/table?trace={nth}"));
        assert_eq!(functions_of(&served), functions_of(&whole), "{trace}");
        let end = whole["duration_ns"].as_u64().expect("a number");
        for (from, to) in [
            (0, end / 3),
            (end / 3, end / 2),
            (end / 2, end / 2 + 40),
            (end - 5, end),
        ] {
            let (since, until) = (format!("+{from}ns"), format!("+{to}ns"));
            let words = [
                "report", "--json", "--since", &since, "--until", &until, trace,
            ];
            let served = viewer.json(&format!("api/table?trace={nth}&from_ns={from}&to_ns={to}"));
            assert_eq!(
                functions_of(&served),
                functions_of(&json(&words)),
                "{words:?}"
            );
        }
    }
    let words = [
        "report", "--json", "--since", "+600us", "--until", "+800us", "-t", "calm", &one,
    ];
    let served = viewer.json("api/table?threads=1&from_ns=600000&to_ns=800000");
    assert_eq!(functions_of(&served), functions_of(&json(&words)));
}

/// The calls of a picture of one thread: depth, begin, end, function, and how many.
fn calls(body: &[u8]) -> Vec<(u32, f64, f64, u32, u32)> {
    let u32_at = |at: usize| u32::from_le_bytes(body[at..at + 4].try_into().expect("4 bytes"));
    let f64_at = |at: usize| f64::from_le_bytes(body[at..at + 8].try_into().expect("8 bytes"));
    let (mut at, mut found) = (24, Vec::new());
    for depth in 0..u32_at(4) {
        let count = u32_at(at) as usize;
        // The list's columns, one behind the other.
        let [begins, ends, functions, counts] = [0, 8, 16, 20].map(|bytes| at + 8 + bytes * count);
        for nth in 0..count {
            let (begin, end) = (f64_at(begins + nth * 8), f64_at(ends + nth * 8));
            let calls = u32_at(counts + nth * 4) & 0x3fff_ffff;
            found.push((depth, begin, end, u32_at(functions + nth * 4), calls));
        }
        at += 8 + 24 * count;
    }
    found
}

#[test]
fn pictures_count_every_call_at_each_zoom() {
    let (_folder, trace) = in_folder("view-picture", "long.fdr", long);
    let mut known_near = None;
    // Of the second one, the lowest levels are given up, and calls are read from the trace again.
    for memory in ["512M", "6M"] {
        let viewer = Viewer::new(&["--max-memory", memory, &trace]);
        let info = loop {
            let info = viewer.json("api/info");
            if info["traces"][0]["progress"] == 1.0 {
                break info;
            }
        };
        let known = &info["traces"][0];
        assert_eq!(known["threads"][0]["calls"], 180_001);
        let (begin, end) = (
            known["begin"].as_f64().unwrap(),
            known["end"].as_f64().unwrap(),
        );
        for pixel in [0, 1, 100, 100_000, 10_000_000] {
            let (head, body) = viewer.get(&format!(
                "api/lanes?threads=0&from={begin}&to={end}&pixel={pixel}"
            ));
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let sum: u32 = calls(&body).iter().map(|call| call.4).sum();
            assert_eq!(sum, 180_001, "{memory} {pixel}");
        }
        // A stretch in the middle has exactly its calls, and the ones around them with their own ends.
        let from = begin + (end - begin) * 0.6;
        let path = format!(
            "api/lanes?threads=0&from={from}&to={}&pixel=0",
            from + 40_000.0
        );
        let near = calls(&viewer.get(&path).1);
        assert!(near.len() > 300 && near.iter().all(|call| call.4 == 1));
        let known = known_near.get_or_insert_with(|| near.clone());
        assert!(*known == near, "{memory}: {} calls", near.len());
        let outer = near
            .iter()
            .find(|call| call.0 == 0)
            .expect("the call around");
        assert_eq!((outer.1, outer.2), (begin, end));
    }
}

#[test]
fn bad_requests_do_not_stop_the_server() {
    let (folder, trace) = in_folder("view-refused", "rich.fdr", rich);
    let viewer = Viewer::new(&[&trace]);
    for (path, status) in [
        ("api/info?trace=%2e%2e", 200),
        ("api/lanes", 400),
        ("api/lanes?from=NaN&to=1&pixel=1&threads=0", 400),
        ("api/lanes?from=0&to=inf&pixel=1&threads=0", 400),
        ("api/lanes?from=0&to=1&pixel=1&threads=x", 400),
        (
            "api/lanes?from=-1e300&to=1e300&pixel=-1&threads=0,99,18446744073709551615",
            200,
        ),
        ("api/lanes?from=5&to=1&pixel=1&threads=0", 200),
        ("api/curves", 400),
        ("api/curves?from=0&to=-1&pixel=0", 200),
        ("api/tasks?from=0&to=1&pixel=x&lanes=0", 400),
        (
            "api/tasks?from=0&to=1&pixel=1&lanes=0,99,18446744073709551615",
            200,
        ),
        ("api/task?at=0&lane=18446744073709551615", 404),
        ("api/task?at=0&task=18446744073709551615", 404),
        ("api/task?at=0&task=x", 400),
        ("api/table?trace=9", 404),
        ("api/table?from_ns=-1", 400),
        ("api/table?from_ns=18446744073709551615&to_ns=0", 200),
        ("../../etc/passwd", 404),
        ("api/../../etc/passwd", 404),
    ] {
        let (head, _) = viewer.get(path);
        assert!(
            head.starts_with(&format!("HTTP/1.1 {status} ")),
            "{path}: {head}"
        );
    }
    let (head, body) = viewer.get("");
    assert_contains(&head, "text/html");
    assert_contains(&head, "no-referrer");
    assert!(body.starts_with(b"<!doctype html>"));
    assert_eq!(common::contents(folder.path()), ["rich.fdr"]);
}

#[test]
fn unreadable_files_are_named() {
    let folder = Folder::new("view-error");
    let output = common::fdr(&["view", "--no-open", &folder.file("none.fdr")]);
    assert_eq!(output.status.code(), Some(2));
    assert_contains(common::stderr(&output), "none.fdr");
}

#[test]
fn calls_have_self_time_and_rank() {
    let (_folder, trace) = in_folder("view-call", "long.fdr", long);
    for memory in ["512M", "6M"] {
        let viewer = Viewer::new(&["--max-memory", memory, &trace]);
        let own = json(&["report", "--json", "--window", &trace]);
        let end = own["duration_ns"].as_u64().expect("a number");
        let rows = own["functions"].as_array().expect("functions");
        let row = |name: &str| rows.iter().find(|row| row["name"] == name).expect("a row");
        // The outermost call of the busy thread is the first of two.
        let survey = viewer.json(&format!(
            "api/survey?functions=1&thread=0&depth=0&start=0&end={end}&function=1&flags=0"
        ));
        assert_eq!(
            (&survey["calls"], &survey["before"]),
            (&row("app::run")["calls"], &0.into())
        );
        assert_eq!(survey["longer"], 0);
        assert_eq!(survey["equal"], 1);
        assert_eq!(survey["next"]["start"], 4000.0);
        assert_eq!(survey["next"]["thread"], 1);
        let one = viewer.json(&format!(
            "api/call?thread=0&depth=0&start=0&end={end}&function=1&flags=0"
        ));
        let other =
            viewer.json("api/call?thread=1&depth=0&start=4000&end=1499000&function=1&flags=0");
        assert_eq!(one["calls_inside"], 180_000);
        let sum = |field: &str| one[field].as_u64().unwrap() + other[field].as_u64().unwrap();
        assert_eq!(sum("self_ns"), row("app::run")["self_ns"].as_u64().unwrap());
        assert_eq!(
            sum("total_ns"),
            row("app::run")["total_ns"].as_u64().unwrap()
        );
        // Steps through all long calls: those at the top of the list.
        let steps = viewer.json("api/survey?functions=2");
        assert_eq!(steps["calls"], 60_000);
        assert_eq!(steps["measured"], 60_000);
        let slowest = steps["slowest"].as_array().expect("a list");
        let ticks = |call: &Value| call["end"].as_f64().unwrap() - call["start"].as_f64().unwrap();
        assert!(
            slowest.iter().all(|call| ticks(call) > 29_000.0),
            "{slowest:?}"
        );
        let sum = |list: &Value| {
            list.as_array()
                .unwrap()
                .iter()
                .map(|bucket| bucket[2].as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!(sum(&steps["buckets"]), 60_000);
        let first = &slowest[0];
        let query = format!(
            "thread=0&depth=1&start={}&end={}&function=2&flags=0",
            first["start"], first["end"]
        );
        let of_one = viewer.json(&format!("api/survey?functions=2&{query}"));
        assert_eq!(of_one["longer"], 0);
        let why = viewer.json(&format!("api/why?{query}"));
        let sentence = why["calls"][0]["sentence"].as_str().expect("a sentence");
        assert_contains(sentence, "app::step");
    }
}

#[test]
fn view_agrees_with_flame_and_slow() {
    let (_folder, trace) = in_folder("view-flame", "long.fdr", long);
    let viewer = Viewer::new(&[&trace]);
    for (query, words) in [
        ("", &[][..]),
        (
            "from_ns=600000&to_ns=800000",
            &["--since", "+600us", "--until", "+800us"],
        ),
    ] {
        let graph = viewer.json(&format!("api/flame?{query}"));
        let lines = common::answer(&[&["flame"], words, &[&trace]].concat());
        let paths = graph["paths"].as_array().expect("paths");
        for line in lines.lines() {
            let (path, own) = line.rsplit_once(' ').expect("a value");
            let mut at = 0;
            for name in path.split(';') {
                at = (0..paths.len())
                    .position(|nth| {
                        nth > 0 && paths[nth]["caller"] == at && paths[nth]["name"] == name
                    })
                    .unwrap_or_else(|| panic!("{name}: {graph}"));
            }
            assert_eq!(paths[at]["own"].to_string(), own, "{line}");
        }
        let tree = viewer.json(&format!("api/tree?{query}"));
        let of_tree = [
            &[
                "report", "--tree", "--json", "--min", "0.05%", "--limit", "20000",
            ],
            words,
            &[&trace],
        ];
        assert_eq!(tree, json(&of_tree.concat()), "{words:?}");
        let words = [&["slow", "--json"], words, &[&trace]].concat();
        let served = viewer.json(&format!("api/slow?{query}"));
        let names = |answer: &Value| {
            let calls = answer["calls"].as_array().expect("calls").iter();
            calls
                .map(|call| call["sentence"].clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&served), names(&json(&words)), "{words:?}");
    }
}
