//! Heph files of another program, and files made by hand to the byte, read completely. The expected contents come from
//! their makers and from Heph's own converter.

use crate::common::{self, Event, ReadTrace, call, enter, exit, list, with_arguments};
use fdr_formats::calls::CallStack;
use fdr_formats::{Edge, Thread, ThreadId, Ticks};

const EPOCH: u64 = 1_610_113_734_118_010_000;
fn golden(name: &str) -> Vec<u8> {
    common::golden(&format!("heph/{name}.heph"))
}

fn read_golden(name: &str) -> ReadTrace {
    common::read_golden(&format!("heph/{name}.heph"))
}

fn names(read: &ReadTrace) -> Vec<(u32, &str)> {
    let functions = read.info.functions.iter();
    functions
        .map(|function| (function.id.0, &*function.name))
        .collect()
}

#[test]
fn all_that_a_good_file_has() {
    let read = read_golden("good");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.info.format, "Heph, version 0.1.0");
    assert_eq!(read.info.clock.frequency, 1_000_000_000);
    assert_eq!(read.info.clock.anchor, Some((Ticks(0), EPOCH)));
    assert_eq!(read.info.start, Some(Ticks(1000)));
    assert_eq!(names(&read), [(1, "main"), (2, "fib"), (3, "worker")]);
    let worker = 1 << 63 | 7 << 32 | 2;
    let threads: Vec<_> = read
        .info
        .threads
        .iter()
        .map(|function| (function.id, &*function.name))
        .collect();
    let wanted = [
        (ThreadId(1), ""),
        (ThreadId(worker), "stream 2, substream 7"),
    ];
    assert_eq!(threads, wanted);
    let wanted = [
        Event::Call(enter(1000, 1)),
        with_arguments(enter(2000, 2)),
        Event::Argument(10),
        Event::Argument(3u64.wrapping_neg()),
        Event::Custom(2000, None, b"n=10 neg=-3 f=2.5 s=\"txt\"".to_vec()),
        Event::Call(exit(50_000, 2)),
        Event::Call(exit(90_000, 1)),
    ];
    assert_eq!(read.log.events(1), wanted);
    assert_eq!(read.log.calls(worker), [enter(5000, 3), exit(80_000, 3)]);
}

#[test]
fn a_file_without_an_epoch_has_no_date() {
    let read = read_golden("no_metadata");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.info.clock.anchor, None);
    let wanted = [
        enter(1000, 1),
        enter(2000, 2),
        exit(50_000, 2),
        exit(90_000, 1),
    ];
    assert_eq!(read.log.calls(1), wanted);
}

#[test]
fn an_epoch_is_for_the_events_after_it() {
    let read = read_golden("two_epochs");
    assert_eq!(read.diagnostics, []);
    assert_eq!(read.info.clock.anchor, Some((Ticks(0), EPOCH)));
    let later = 1_000_000_000;
    let wanted = [
        enter(1000, 1),
        exit(90_000, 1),
        enter(later + 1000, 2),
        exit(later + 90_000, 2),
    ];
    assert_eq!(read.log.calls(1), wanted);
}

#[test]
fn an_unknown_option_is_skipped_and_reported() {
    let read = read_golden("unknown_option");
    assert_eq!(read.log.calls(1), [enter(1000, 1), exit(90_000, 1)]);
    assert_eq!(read.offsets(), [23]);
    let message = &read.diagnostics[0].what;
    assert!(message.contains("\"thread_name\""), "{message}");
}

#[test]
fn the_examples_of_the_document() {
    let read = read_golden("seed_metadata_only");
    assert_eq!(read.info.clock.anchor, Some((Ticks(0), EPOCH)));
    assert_eq!((read.log.count(), read.diagnostics.len()), (0, 0));
    let read = read_golden("seed_event_array");
    assert_eq!(read.diagnostics, []);
    let text = b"Test=123 Test2=[123.456, 789.0]".to_vec();
    let wanted = [
        with_arguments(enter(100, 1)),
        Event::Argument(123),
        Event::Custom(100, None, text),
        Event::Call(exit(200, 1)),
    ];
    assert_eq!(read.log.events(1 << 63 | 1 << 32), wanted);
    assert_eq!(names(&read), [(1, "My event")]);
}

#[test]
fn a_cut_file_gives_what_is_whole() {
    let read = read_golden("truncated");
    assert_eq!(read.info.threads.len(), 1);
    assert_eq!(read.log.calls(1).len(), 4);
    assert_eq!(read.offsets(), [161]);
    let wanted = "at byte 161: the packet should have 48 bytes, but the file ends 5 bytes before \
                  that; 43 bytes are skipped";
    assert_eq!(read.diagnostics[0].to_string(), wanted);
}

#[test]
fn a_file_of_hephs_own() {
    let read = read_golden("heph_example");
    // What runs on stream 1 is asynchronous: its calls are not inside each other. That is no damage.
    assert_eq!(read.diagnostics, []);
    let lanes = &read.info.threads[3..];
    let is_lane = |thread: &Thread| thread.name.starts_with("thread 1, overlap ");
    assert!(!lanes.is_empty() && lanes.iter().all(is_lane), "{lanes:?}");
    let counts = |wanted: Edge| {
        let mut counts = [0; 3];
        for thread in &read.info.threads {
            let calls = read.log.calls(thread.id.0);
            let stream = if is_lane(thread) { 1 } else { thread.id.0 };
            counts[stream as usize] += calls.iter().filter(|call| call.edge == wanted).count();
        }
        counts
    };
    assert_eq!(counts(Edge::Entry), [12, 72, 6]);
    assert_eq!(counts(Edge::Exit), [12, 72, 6]);
    for thread in [0, 1, 2] {
        let calls = read.log.calls(thread);
        assert!(calls.is_sorted_by_key(|call| call.time), "thread {thread}");
    }
    assert_eq!(
        read.info.clock.anchor,
        Some((Ticks(0), 1_795_163_220_869_557_618))
    );
    // Calls and time of the asynchronous function are those that the events state.
    let receiving = read.info.functions.iter();
    let mut receiving = receiving.filter(|function| function.name == "receiving message");
    let receiving = receiving.next().map(|function| function.id);
    let (mut calls, mut total) = (0, 0);
    for thread in &read.info.threads {
        let mut stack: CallStack = CallStack::new();
        for call in read.log.calls(thread.id.0) {
            stack.call(&call, |ended| {
                let counts = Some(ended.call.function) == receiving && !ended.clipped;
                calls += u32::from(counts);
                total += if counts { ended.total() } else { 0 };
            });
        }
    }
    assert_eq!((calls, total), (21, 314_750_368));
    let printing = read
        .info
        .functions
        .iter()
        .find(|function| function.name == "printing message");
    let printing = printing.expect("a function of the example").id.0;
    let place = |event: &Event| *event == with_arguments(call(83_724_942, printing, Edge::Entry));
    let at = read
        .log
        .events(2)
        .iter()
        .position(place)
        .expect("its entry");
    let text = b"message=\"First message: Hello World!\"".to_vec();
    assert_eq!(
        read.log.events(2)[at + 1],
        Event::Custom(83_724_942, None, text)
    );
}

#[test]
fn the_listing_shows_each_record() {
    let lines = list(&golden("good"));
    let lines: Vec<(u64, &str, &str)> = lines
        .iter()
        .map(|(offset, _, kind, detail)| (*offset, &**kind, &**detail))
        .collect();
    let fib = "stream=1 counter=1 substream=0 start=2000 ns end=50000 ns \"fib\" n=10 neg=-3 f=2.5 \
               s=\"txt\"";
    assert_eq!(
        lines[0],
        (0, "Metadata", "epoch=1610113734118010000 ns since 1970")
    );
    assert_eq!(lines[2], (69, "Event", fib));
    let lines = list(&golden("truncated"));
    assert_eq!((lines[3].0, &*lines[3].2), (161, "Skipped"));
    let lines = list(&golden("heph_example"));
    assert_eq!(lines.len(), 91);
    assert!(
        lines[25]
            .3
            .contains("\"local amount\"=1 \"shared amount\"=0"),
        "{:?}",
        lines[25]
    );
}
