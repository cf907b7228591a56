//! HTDUMP files made by other programs or by hand to the byte, read completely. The expected contents come from their
//! makers and from HawkTracer's own converters, not from this library.

use crate::common::{self, Event, ReadTrace, assert_nested, enter, exit, list, name_of};
use fdr_formats::{Edge, Ticks};

fn golden(name: &str) -> Vec<u8> {
    common::golden(&format!("htdump/{name}.htdump"))
}

fn read_golden(name: &str) -> ReadTrace {
    common::read_golden(&format!("htdump/{name}.htdump"))
}

/// Thread, name, start and duration in ns of each call, in the order of their exits.
fn calls(read: &ReadTrace) -> Vec<(u64, String, u64, u64)> {
    let mut found = Vec::new();
    for (thread, _) in &read.log.threads {
        let calls = read.log.calls(thread.0);
        assert_nested(&calls);
        let mut open = Vec::new();
        for call in calls {
            if call.edge == Edge::Entry {
                open.push(call);
                continue;
            }
            let entry = open.pop().expect("nested");
            let duration = call.time.since(entry.time).0;
            let name = name_of(read, call.function);
            found.push((thread.0, name, entry.time.0, duration));
        }
    }
    found
}

fn call(thread: u64, name: &str, start: u64, duration: u64) -> (u64, String, u64, u64) {
    (thread, name.to_owned(), start, duration)
}

#[test]
fn a_file_of_hawktracers_library() {
    let read = read_golden("core");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.info.format, "HawkTracer HTDUMP, little-endian");
    let mut found = calls(&read);
    assert_eq!(found.len(), 22);
    // Thread 1 went three times through `inner`, thread 2 twice, and through the others there.
    for (thread, rounds) in [(1, 3), (2, 2)] {
        let count = |start: &str| {
            let is_one =
                |call: &&(u64, String, u64, u64)| call.0 == thread && call.1.starts_with(start);
            found.iter().filter(is_one).count()
        };
        for name in ["static-label", "dyn ", "plain string", "inner"] {
            assert_eq!(count(name), rounds, "{name} of thread {thread}");
        }
        assert_eq!(count("outer"), 1);
    }
    found.sort_by_key(|call| call.2);
    assert_eq!(found[0], call(1, "outer", 499_784_501_227, 43_415));
    assert_eq!(found[21].1, "plain string");
    let threads = read.thread_ids();
    assert_eq!(threads, [2, 1], "in the order of the file");
    assert_eq!(read.info.start, Some(Ticks(499_784_501_227)));
}

#[test]
fn files_of_others_are_read() {
    let read = read_golden("rust_hawktracer");
    assert_eq!(read.diagnostics, []);
    let found = calls(&read);
    assert_eq!(found.len(), 2000);
    assert!(found.iter().all(|call| call.0 == 1 && call.1 == "attr_fn"));
    assert_eq!(found[0], call(1, "attr_fn", 927_637_493_312, 100));

    let read = read_golden("test_trace");
    assert_eq!(read.diagnostics, []);
    let found = calls(&read);
    let (last, inner) = found.split_last().expect("calls");
    assert_eq!(*last, call(1, "_test", 71_608_470_312_643, 112_912_649));
    assert_eq!(inner.len(), 10);
    assert!(inner.iter().all(|call| call.1 == "_second_tracepoint"));
    let first = call(1, "_second_tracepoint", 71_608_480_422_332, 10_353_280);
    assert_eq!(inner[0], first);
}

#[test]
fn files_made_by_hand() {
    for (name, offset) in [("good_le", 2507), ("min_klasses_le", 1242)] {
        let read = read_golden(name);
        let wanted = [
            call(41, "fib", 1_002_000, 3000),
            call(41, "main", 1_000_000, 9000),
            call(42, "string label", 1_006_000, 1500),
            call(42, "fib", 1_010_000, 2000),
        ];
        assert_eq!(calls(&read), wanted, "{name}");
        // The numbers of the klass with more fields are arguments; its text has no place.
        let events = read.log.events(42);
        assert_eq!(events[3..5], [Event::Argument(7), Event::Argument(3)]);
        let messages = read.messages();
        let wanted = format!(
            "at byte {offset}: calls of klass TRACED_CallEvent have fields that are no numbers: \
             file; left out"
        );
        assert_eq!(messages, [wanted], "{name}");
    }
    let read = read_golden("mapping_after_use");
    assert_eq!(read.diagnostics, []);
    let late = |start| call(1, "late mapping", start, 5000);
    assert_eq!(calls(&read), [late(1_000_000), late(2_000_000)]);
    let read = read_golden("utf8_and_empty_label");
    assert_eq!(read.diagnostics, []);
    let names: Vec<String> = calls(&read).into_iter().map(|call| call.1).collect();
    assert_eq!(names, ["fn core::fmt::λ<T>", "", "after"]);
}

#[test]
fn klasses_that_nobody_knows() {
    let read = read_golden("base_after_derived");
    assert_eq!(read.diagnostics, []);
    assert_eq!(calls(&read), [call(1, "after", 2_000_000, 5000)]);
    let text = b"Derived cpu=9 label=\"base klass after derived\"";
    let wanted = [Event::Custom(1_000_000, None, text.to_vec())];
    assert_eq!(read.log.events(0), wanted);
    let read = read_golden("field_int64");
    assert_eq!(read.diagnostics, []);
    let names: Vec<String> = calls(&read).into_iter().map(|call| call.1).collect();
    assert_eq!(names, ["before", "defined", "after"]);
    let wanted = [Event::Custom(
        1_000_000,
        None,
        b"K label=\"own\" v=-5".to_vec(),
    )];
    assert_eq!(read.log.events(0), wanted);
}

#[test]
fn a_cut_file_gives_its_whole_records() {
    let read = read_golden("truncated");
    let wanted = [enter(1_006_000, 3), exit(1_007_500, 3)];
    assert_eq!(read.log.calls(42), wanted);
    assert_eq!(read.log.calls(41).len(), 4);
    let messages = read.messages();
    let wanted = "at byte 2507: the file ends within a record of klass 100: 52 bytes are left out, \
                  up to the end";
    assert_eq!(messages, [wanted]);
}

#[test]
fn the_listing_shows_each_record() {
    let lines = list(&golden("truncated"));
    let last = (
        2507,
        52,
        "Skipped".to_owned(),
        "bytes=52 that are no records".to_owned(),
    );
    assert_eq!(lines.last(), Some(&last));
    let (_, _, kind, detail) = &lines[lines.len() - 3];
    assert_eq!(kind, "HT_CallstackIntEvent");
    assert_eq!(
        detail,
        "id=47 duration=3000 thread_id=41 label=2 function=#2 fib"
    );
}
