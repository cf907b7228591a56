//! Rings of threads whose short calls leave no records, put together by hand: their open calls are in the trace, and
//! damaged ones harm nothing else.

use crate::common::ring::{Ring, SLOTS, STRIDE, chunk, counts};
use crate::common::{Event, assert_nested, call, read};
use fdr_formats::Edge;

#[test]
fn open_calls_without_records_are_in_the_trace() {
    let mut ring = Ring::with_open_calls();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 3);
    // 9 calls left no records in all. Function 1 is published; 2 and 1 again are not.
    let at = SLOTS + STRIDE;
    ring.u64(at + 16, 9);
    let frames = [
        (0, 0, 0, 0, 0),
        (0x10, 3, 2005, 4, 40),
        (0x20, 0x2004, 2100, 0, 0),
        (0x10, 4, 2110, 5, 50),
    ];
    ring.open_calls(1, &frames);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    let counts = read.info.threads[0].counts.expect("counts");
    assert_eq!((counts.recorded, counts.readable), (1 + 2 + 3 + 18, 3));
    assert_eq!((counts.dropped, counts.summarised), (3, 18));
    let events = &read.kept.events(100)[1..];
    let entry = |time, function| Event::Call(call(time, function, Edge::Entry));
    let wanted = [
        Event::Cpu(2000, 3),
        entry(2005, 1),
        Event::Short(2100, 4, 40),
        Event::Cpu(2100, 4),
        entry(2100, 2),
        entry(2110, 1),
        Event::Short(2160, 5, 50),
    ];
    assert_eq!(events[..7], wanted);
    assert_nested(&read.kept.calls(100));
}

#[test]
fn damaged_open_calls_harm_nothing_else() {
    for (offset, value) in [(0, 254), (0, u32::MAX), (4, 2), (4, u32::MAX)] {
        let mut ring = Ring::with_open_calls();
        ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
        ring.open_calls(0, &[(0, 0, 0, 7, 70), (0x20, 3, 2006, 0, 0)]);
        ring.u32(SLOTS + STRIDE + offset, value);
        let read = read(&ring.0).expect("a ring");
        assert_eq!(counts(&read, 0), [1, 1, 0, 0], "{value} at {offset}");
    }
    // Frames that hold nonsense, and a place of the open calls that none can have.
    let mut ring = Ring::with_open_calls();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
    ring.open_calls(
        0,
        &[
            (0, 0, 0, u64::MAX, u64::MAX),
            (u32::MAX, u32::MAX, u64::MAX, 1, 1),
        ],
    );
    let _ = read(&ring.0).expect("a ring");
    for place in [1, STRIDE as u64 + 8192, u64::MAX] {
        ring.u64(232, place);
        let what = read(&ring.0).expect_err("no ring").to_string();
        assert!(what.contains("open calls"), "{what}");
    }
}
