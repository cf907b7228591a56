//! Each file of a folder, cut at every byte, and with every byte flipped. The reader does not panic, reports each
//! damage without a flood of messages, and gives no event that was not in the folder.

use std::fs;
use std::os::unix::fs::FileExt;

use crate::common::tcstate::{read_folder, write};
use crate::common::{Event, Folder, enter, exit, function, thread};
use fdr_formats::{Thread, ThreadId, Ticks, TraceInfo};

const FILES: [&str; 5] = [
    "types.json",
    "tree.json",
    "state.json",
    "meta.json",
    "history.bin",
];

/// Two threads, three functions, changes of CPU, a frame that stays open.
fn trace() -> Folder {
    let name = |id, name: &str| function(id, name, "src/main.rs", 7);
    let info = TraceInfo {
        functions: vec![name(3, "main"), name(5, "parse"), name(9, "wörk")],
        program: "app".into(),
        start: Some(Ticks(1_000_000_000)),
        ..TraceInfo::default()
    };
    let at = |time: u64| 1_000_000_000 + time;
    let mut first = vec![Event::Cpu(at(0), 3), Event::Call(enter(at(0), 3))];
    for round in 0..2 {
        let time = at(round * 1000);
        first.push(Event::Call(enter(time + 100, 5)));
        first.push(Event::Call(enter(time + 200, 17)));
        first.push(Event::Call(exit(time + 300, 17)));
        first.push(Event::Call(exit(time + 400, 5)));
    }
    let mut second = vec![Event::Cpu(at(50), 4)];
    for round in 0..2 {
        second.push(Event::Call(enter(at(round * 1000 + 50), 9)));
        second.push(Event::Call(exit(at(round * 1000 + 650), 9)));
    }
    second.push(Event::Call(enter(at(1900), 3)));
    second.push(Event::Call(enter(at(2000), 9)));
    let (folder, losses) = write(&info, &[(thread(7), first), (thread(8), second)]);
    assert_eq!(losses.to_string(), "");
    folder
}

type Threads = Vec<(ThreadId, Vec<Event>)>;

/// The events of each thread, and how many problems were reported.
fn events(folder: &Folder) -> Option<(Threads, usize)> {
    let read = read_folder(folder.path()).ok()?;
    let mut threads = read.log.threads;
    threads.sort_by_key(|(id, _)| *id);
    Some((threads, read.diagnostics.len()))
}

fn is_part(part: &[Event], whole: &[Event]) -> bool {
    let mut whole = whole.iter();
    part.iter().all(|event| whole.any(|other| other == event))
}

sampled! { cut_at_every_byte }

fn cut_at_every_byte(step: usize) {
    let folder = trace();
    let (whole, problems) = events(&folder).expect("readable");
    assert_eq!(problems, 0);
    for file in FILES {
        let bytes = folder.bytes(file);
        let cut = folder.patch(file);
        for end in (0..bytes.len()).rev().step_by(step) {
            cut.set_len(end as u64).expect("a file");
            let Some((part, problems)) = events(&folder) else {
                assert!(
                    file == "history.bin" && end < 64,
                    "{file} cut at byte {end}"
                );
                continue;
            };
            // All but a line feed is needed.
            assert!(
                problems > 0 || end + 1 == bytes.len(),
                "{file} cut at byte {end}: not reported"
            );
            if problems >= 12 {
                let read = read_folder(folder.path()).expect("readable");
                panic!("{file} cut at byte {end}: a flood: {:#?}", read.diagnostics);
            }
            // Without names, numbers are others.
            if file == "meta.json" {
                continue;
            }
            if file == "types.json" || file == "state.json" {
                assert_eq!(part, whole, "{file} cut at byte {end}");
            }
            for (id, part) in &part {
                let whole = whole.iter().find(|(known, _)| known == id);
                let whole = &whole.expect("no new thread").1;
                assert!(is_part(part, whole), "{file} cut at byte {end}: {part:?}");
            }
        }
        folder.put(file, &bytes);
    }
}

/// Bytes of history.bin that are the values of intervals: another value is no damage that can be
/// seen, but for strings that do not exist.
fn is_value(at: usize, intervals: &[(usize, usize)]) -> bool {
    let found = intervals
        .iter()
        .find(|(from, to)| (*from..*to).contains(&at));
    found.is_some_and(|(from, _)| at >= from + 20)
}

/// Where the intervals of the trace above are.
fn intervals(folder: &Folder) -> Vec<(usize, usize)> {
    let source = fdr_formats::registry::open_path(folder.path()).expect("readable");
    let mut list = Vec::new();
    let visit = &mut |record: &fdr_formats::source::Record<'_>| {
        if record.kind == "Interval" {
            let from = record.offset as usize;
            list.push((from, from + record.size as usize));
        }
        std::ops::ControlFlow::Continue(())
    };
    source.records(visit).expect("a readable file");
    list
}

sampled! { flipped_at_every_byte }

fn flipped_at_every_byte(step: usize) {
    let folder = trace();
    let (whole, _) = events(&folder).expect("readable");
    let all: usize = whole.iter().map(|(_, events)| events.len()).sum();
    let intervals = intervals(&folder);
    assert!(intervals.len() > 40);
    for file in FILES {
        let flipped = folder.patch(file);
        for (at, byte) in folder.bytes(file).into_iter().enumerate().step_by(step) {
            for mask in [0x01, 0x08, 0xff] {
                flipped.write_at(&[byte ^ mask], at as u64).expect("a file");
                if let Some((found, problems)) = events(&folder) {
                    let count: usize = found.iter().map(|(_, events)| events.len()).sum();
                    assert!(
                        count <= all + 4,
                        "{file} byte {at}: {count} events out of {all}"
                    );
                    if problems >= 12 {
                        let read = read_folder(folder.path()).expect("readable");
                        panic!("{file} byte {at}: a flood: {:#?}", read.diagnostics);
                    }
                    let is_reported = problems > 0 || is_value(at, &intervals);
                    // The version's minor number may be any.
                    let harmless = file != "history.bin" || (10..12).contains(&at);
                    assert!(
                        is_reported || harmless,
                        "{file} byte {at} ^ {mask:#x}: not reported"
                    );
                } else {
                    assert!(file == "history.bin" && at < 10, "{file} byte {at}");
                }
            }
            flipped.write_at(&[byte], at as u64).expect("a file");
        }
    }
    assert_eq!(events(&folder), Some((whole, 0)));
}

#[test]
fn damage_costs_one_interval_reported_once() {
    let folder = trace();
    let (whole, _) = events(&folder).expect("readable");
    let mut bytes = folder.bytes("history.bin");
    let mut worst = 0;
    for (from, _) in intervals(&folder) {
        // Key, start and end: each must be seen.
        for at in [from, from + 9, from + 16, from + 19] {
            bytes[at] ^= 0x2a;
            folder.put("history.bin", &bytes);
            let (found, problems) = events(&folder).expect("readable");
            let lost = |threads: &Threads| -> usize {
                threads.iter().map(|(_, events)| events.len()).sum()
            };
            worst = worst.max(lost(&whole).saturating_sub(lost(&found)));
            assert!(problems <= 2, "byte {at}: reported {problems} times");
            bytes[at] ^= 0x2a;
        }
    }
    assert!(worst <= 4, "{worst} events lost by one damage");
}

#[test]
fn hostile_numbers_take_no_memory() {
    let folder = trace();
    let whole = folder.bytes("history.bin");
    // Keys, intervals, strings, and where those are.
    for (at, size) in [(12, 4), (32, 8), (40, 4), (48, 8), (56, 8)] {
        let mut bytes = whole.clone();
        bytes[at..at + size].fill(0xff);
        folder.put("history.bin", &bytes);
        let (_, problems) = events(&folder).expect("readable");
        assert!((1..12).contains(&problems), "byte {at}");
    }
    folder.put("history.bin", &whole);
    let keys =
        "[{\"key\":4000000000,\"type\":\"int\"},{\"key\":-1},{\"key\":1e9,\"type\":\"int\"},7]";
    folder.put("types.json", keys);
    let tree =
        "{\"root\":{\"key\":0,\"children\":{\"a\":{\"key\":4000000000,\"children\":{\"b\":{}}}}}}";
    folder.put("tree.json", tree);
    let (_, problems) = events(&folder).expect("readable");
    assert!(problems > 0);
    let deep = "{\"root\":".to_owned() + &"{\"children\":{\"x\":".repeat(100_000);
    folder.put("tree.json", deep);
    assert!(events(&folder).is_some());
}

#[test]
fn times_may_be_any_number() {
    let folder = trace();
    let whole = folder.bytes("history.bin");
    let meta = folder.text("meta.json");
    for time in [i64::MIN, -1, 0, i64::MAX] {
        let begin = meta.replace(
            "\"first\":",
            &format!("\"before\":9,\"first\":{time},\"was\":"),
        );
        let end = begin.replace(
            "\"last\":",
            &format!("\"after\":9,\"last\":{time},\"was\":"),
        );
        folder.put("meta.json", &end);
        for at in [16, 24, 64, 72] {
            let mut bytes = whole.clone();
            bytes[at..at + 8].copy_from_slice(&time.to_le_bytes());
            folder.put("history.bin", &bytes);
            let (_, problems) = events(&folder).expect("readable");
            assert!(problems > 0, "{time} ns at byte {at}");
        }
        // All of it at one time.
        let mut bytes = whole.clone();
        for at in [16, 24] {
            bytes[at..at + 8].copy_from_slice(&time.to_le_bytes());
        }
        folder.put("history.bin", &bytes);
        fs::remove_file(folder.path().join("meta.json")).expect("a file");
        assert!(
            events(&folder).is_some_and(|(_, problems)| problems > 0),
            "{time} ns"
        );
        folder.put("history.bin", &whole);
    }
}

#[test]
fn a_thread_is_listed_once() {
    let folder = trace();
    let meta = folder.text("meta.json");
    let twice = meta.replace("\"id\":8", "\"id\":7");
    folder.put("meta.json", twice);
    let read = read_folder(folder.path()).expect("readable");
    let threads: Vec<&Thread> = read.info.threads.iter().collect();
    assert_eq!(threads.len(), 2);
}
