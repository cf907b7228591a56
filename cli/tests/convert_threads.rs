//! `fdr convert` of threads and counts that a format has no room for. No two threads become one. What the new trace
//! says of itself is true. `fdr verify` is the judge.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use crate::common::{Folder, answer, assert_contains, calls, convert, fdr, info, stderr, write};
use fdr_formats::model::Counts;
use fdr_formats::registry::{self, target, targets};
use fdr_formats::source::drive;
use fdr_formats::{Call, Diagnostic, Edge, Mark, Sink, Thread, ThreadId};

/// Calls of each thread: entries, exits.
#[derive(Default)]
struct CallCounts {
    threads: BTreeMap<ThreadId, [u64; 2]>,
    now: ThreadId,
}

impl Sink for CallCounts {
    fn thread(&mut self, thread: &Thread) {
        self.now = thread.id;
        self.threads.entry(thread.id).or_default();
    }

    fn calls(&mut self, calls: &[Call]) {
        let counts = self.threads.entry(self.now).or_default();
        for call in calls {
            counts[usize::from(call.edge != Edge::Entry)] += 1;
        }
    }

    fn mark(&mut self, _: &Mark<'_>) {}

    fn diagnostic(&mut self, diagnostic: Diagnostic) {
        panic!("{diagnostic}");
    }
}

/// How many calls each thread has, in order.
fn counted(trace: &str) -> Vec<[u64; 2]> {
    let source = registry::open_path(trace.as_ref()).expect("a trace");
    assert_eq!(source.diagnostics(), [], "{trace}");
    let mut counted = CallCounts::default();
    drive(&*source, &mut counted, &|_| {}).expect("a readable trace");
    assert_eq!(counted.threads.len(), source.info().threads.len());
    let mut counts: Vec<_> = counted.threads.into_values().collect();
    counts.sort_unstable();
    counts
}

/// An event of Heph's, by the format's document.
fn event(place: (u32, u32, u64), times: (u64, u64), description: &str) -> Vec<u8> {
    let mut packet = 0xc1fc_1fb7_u32.to_be_bytes().to_vec();
    packet.extend((42 + description.len() as u32).to_be_bytes());
    packet.extend(place.0.to_be_bytes());
    packet.extend(place.1.to_be_bytes());
    packet.extend(place.2.to_be_bytes());
    packet.extend(times.0.to_be_bytes());
    packet.extend(times.1.to_be_bytes());
    packet.extend((description.len() as u16).to_be_bytes());
    packet.extend(description.bytes());
    packet
}

/// Substreams that take turns on stream 7, and streams with numbers that the tool could give to another thread.
/// They overlap, and have 1 to 6 calls.
fn substreams() -> Vec<u8> {
    let places = [
        (7, 0),
        (7, 1),
        (7, 2),
        (7, 1 << 40),
        (i32::MAX as u32, 0),
        (u32::MAX, 1 << 32),
    ];
    let mut bytes = Vec::new();
    let mut counters = BTreeMap::new();
    for round in 0..6 {
        for (nth, (stream, substream)) in places.into_iter().enumerate().skip(round) {
            let counter = counters.entry(stream).or_insert(0);
            let start = 1000 * round as u64 + 100 * nth as u64;
            let name = format!("work {}", round % 3);
            let place = (stream, *counter, substream);
            bytes.extend(event(place, (start, start + 700), &name));
            *counter += 1;
        }
    }
    bytes
}

#[test]
fn substreams_stay_threads_in_every_format() {
    let folder = Folder::new("substreams");
    let trace = folder.file("a.heph");
    fs::write(&trace, substreams()).expect("space");
    let wanted: Vec<[u64; 2]> = (1..=6).map(|count| [count, count]).collect();
    assert_eq!(counted(&trace), wanted);
    assert_contains(answer(&["verify", &trace]), "OK");
    for first in targets() {
        let there = folder.file(&format!("{}.first", first.name));
        let messages = convert(&trace, first, &there);
        let loss = match first.name {
            // Five: the stream that is taken by then, and four substreams.
            "xray" | "xray1" => {
                "5 thread ids over 32 bits, or taken: each thread has another number"
            }
            "htdump" | "htdump-be" | "ctf" => {
                "for other readers: 5 thread ids over 32 bits, or taken: other readers see"
            }
            _ => "",
        };
        assert!(messages.contains(loss), "{}: {messages}", first.name);
        for second in targets() {
            let back = folder.file(&format!("{}-{}", first.name, second.name));
            convert(&there, second, &back);
            for trace in [&there, &back] {
                let verdict = fdr(&["verify", trace]);
                assert!(verdict.status.success(), "{trace}: {}", stderr(&verdict));
                assert_eq!(counted(trace), wanted, "{trace}");
            }
        }
    }
}

#[test]
fn overlapping_events_are_exact_in_every_format() {
    let folder = Folder::new("overlaps");
    let trace = folder.file("a.heph");
    // As in the format's document: B is earlier than A, and ends within it.
    let events = [
        event((1, 0, 0), (5000, 15_000), "B"),
        event((1, 1, 0), (10_000, 20_000), "A"),
        event((1, 2, 0), (16_000, 17_000), "A"),
    ];
    fs::write(&trace, events.concat()).expect("space");
    let wanted = [("A", 2, 11_000), ("B", 1, 10_000)];
    let exact = |trace: &str| {
        assert_contains(answer(&["verify", trace]), "OK");
        let report: Value =
            serde_json::from_str(&answer(&["report", "--json", trace])).expect("JSON");
        let mut rows: Vec<(&str, u64, u64)> = report["functions"]
            .as_array()
            .expect("rows")
            .iter()
            .map(|row| {
                let number = |field: &str| row[field].as_u64().expect("a number");
                (
                    row["name"].as_str().expect("a name"),
                    number("calls"),
                    number("total_ns"),
                )
            })
            .collect();
        rows.sort_unstable();
        assert_eq!(rows, wanted, "{trace}");
    };
    exact(&trace);
    for target in targets() {
        let there = folder.file(&format!("there.{}", target.name));
        convert(&trace, target, &there);
        exact(&there);
    }
}

#[test]
fn trace_compass_sees_a_number_for_each_thread() {
    let folder = Folder::new("vtids");
    let trace = folder.file("a.heph");
    fs::write(&trace, substreams()).expect("space");
    let there = folder.file("ctf");
    convert(&trace, target("ctf").expect("a target"), &there);
    let mut numbers = Vec::new();
    for file in fs::read_dir(&there).expect("a folder").flatten() {
        if !file.file_name().to_string_lossy().starts_with("thread-") {
            continue;
        }
        let bytes = fs::read(file.path()).expect("a file");
        // In front of a thread's name, which is not empty for substreams, is its number.
        let name = b"stream ";
        let at = bytes.windows(name.len()).position(|bytes| bytes == name);
        numbers.extend(at.map(|at| bytes[at - 4..at].to_vec()));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4);
    assert!(numbers.iter().all(|number| number[3] < 0x80), "{numbers:?}");
}

/// A thread with calls that take less than a nanosecond, by a clock of 4 GHz.
fn short_calls(trace: &str) {
    let mut info = info(&["app::run", "app::leaf"]);
    info.clock.frequency = 4_000_000_000;
    let mut edges = vec![(4000, 1)];
    for nth in 0..100 {
        // One of four is long enough.
        let length = if nth % 4 == 0 { 8 } else { 0 };
        edges.extend([(4100 + 40 * nth, 2), (4100 + 40 * nth + length, -2)]);
    }
    edges.push((9000, -1));
    let readable = edges.len() as u64;
    let thread = Thread {
        id: ThreadId(7),
        counts: Some(Counts {
            recorded: readable + 10,
            readable,
            overwritten: 9,
            dropped: 1,
            ..Counts::default()
        }),
        ..Thread::default()
    };
    write(trace, &info, &[(thread, calls(&edges))]);
}

#[test]
fn counts_are_true_where_calls_are_left_out() {
    let folder = Folder::new("short");
    let trace = folder.file("a.fdr");
    short_calls(&trace);
    assert_contains(answer(&["verify", &trace]), "OK");
    let there = folder.file("a.tcstate");
    let messages = convert(&trace, target("tcstate").expect("a target"), &there);
    assert_contains(&messages, "75 calls shorter than 1 ns: left out");
    for second in targets() {
        let back = folder.file(second.name);
        convert(&there, second, &back);
        for trace in [&there, &back] {
            let verdict = fdr(&["verify", trace]);
            assert!(verdict.status.success(), "{trace}: {}", stderr(&verdict));
            assert_eq!(counted(trace), [[26, 26]], "{trace}");
        }
    }
    let source = registry::open_path(there.as_ref()).expect("a trace");
    let counts = source.info().threads[0].counts.expect("counts");
    assert_eq!((counts.recorded, counts.readable), (212, 52));
    assert_eq!((counts.overwritten, counts.dropped), (9, 151));
}
