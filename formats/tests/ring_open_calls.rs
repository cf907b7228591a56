//! Rings of threads whose short calls leave no records, put together by hand: their open calls are in the trace, and
//! damaged ones harm nothing else.

use std::io::{self, Cursor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::ring::{Ring, SLOTS, STRIDE, chunk, counts};
use crate::common::{self, Event, EventLog, assert_nested, call, read};
use fdr_formats::bytes::ReadAt;
use fdr_formats::model::{Estimate, FunctionTotals, Level, RecordingCost};
use fdr_formats::sink::Sink;
use fdr_formats::source::drive;
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Edge, FunctionId, Ticks, registry};

/// A ring whose thread makes progress between two reads.
struct GoesOn {
    /// The bytes for the first `readings` reads, and the bytes for later ones.
    moments: [Vec<u8>; 2],
    readings: usize,
    made: Arc<AtomicUsize>,
}

impl ReadAt for GoesOn {
    fn size(&self) -> u64 {
        self.moments[0].size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let is_later = self.made.fetch_add(1, Ordering::Relaxed) >= self.readings;
        self.moments[usize::from(is_later)].read_at(offset, buffer)
    }
}

#[test]
fn open_calls_without_records_are_in_the_trace() {
    let mut ring = Ring::with_open_calls();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 3);
    // More short calls than the first word of a summary holds.
    const MANY: u64 = (1 << 24) + 4;
    // 9 calls left no records in all. Function 1 is published; 2 and 1 again are not.
    let at = SLOTS + STRIDE;
    let frames = [
        (0, 0, 0, 0, 0),
        (0x10, 3, 2005, MANY, 40),
        (0x20, 0x2004, 2100, 0, 0),
        (0x10, 4, 2110, 5, 50),
    ];
    ring.open_calls(1, &frames);
    ring.u32(at + 2, 9);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    let counts = read.info.threads[0].counts.expect("counts");
    assert_eq!((counts.recorded, counts.readable), (1 + 2 + 3 + 18, 3));
    assert_eq!((counts.dropped, counts.summarised), (3, 18));
    let events = &read.log.events(100)[1..];
    let entry = |time, function| Event::Call(call(time, function, Edge::Entry));
    let wanted = [
        Event::Cpu(2000, 3),
        entry(2005, 1),
        Event::Short(2100, MANY, 40),
        Event::Cpu(2100, 4),
        entry(2100, 2),
        entry(2110, 1),
        Event::Short(2160, 5, 50),
    ];
    assert_eq!(events[..7], wanted);
    assert_nested(&read.log.calls(100));
}

#[test]
fn damaged_open_calls_harm_nothing_else() {
    for (offset, value) in [(0, 203), (0, 0xff), (1, 2), (1, 0xff)] {
        let mut ring = Ring::with_open_calls();
        ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
        ring.open_calls(0, &[(0, 0, 0, 7, 70), (0x20, 3, 2006, 0, 0)]);
        ring.0[SLOTS + STRIDE + offset] = value;
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

/// A process that was killed just after it published the entry of function 2, behind a summary: the frames say so to a
/// reader that finds the cursor there. No event is in the trace twice.
#[test]
fn early_published_entries_are_there_once() {
    let at = SLOTS + STRIDE;
    let chunk = || chunk(2000).enter(1, 5).enter(2, 95);
    let frames = [
        (0, 0, 0, 0, 0),
        (0x10, 3, 2005, 4, 40),
        (0x20, 3, 2100, 2, 20),
    ];
    for (is_there, readable, short) in [(true, 2, 2), (false, 3, 6)] {
        let mut ring = Ring::with_open_calls();
        ring.thread(0, &[(1, 0, chunk())], 0);
        ring.open_calls(1, &frames);
        let cursor = ring.0[SLOTS..SLOTS + 8].to_vec();
        ring.0[at + 16..at + 24].copy_from_slice(&cursor);
        if !is_there {
            ring.0[at + 16] ^= 8;
        }
        // Two calls have their entry, and the first one has no short calls left.
        ring.u64(at + 40, 1 << 8 | 2);
        let read = read(&ring.0).expect("a ring");
        let counts = read.info.threads[0].counts.expect("counts");
        assert_eq!((counts.recorded, counts.readable), (readable, readable));
        let events = read.log.events(100);
        let calls = |event: &Event| match event {
            Event::Short(_, calls, _) => *calls,
            _ => 0,
        };
        assert_eq!(events.iter().map(calls).sum::<u64>(), short);
    }
}

/// A thread leaves a call, opens a chunk for that, and enters another one, whose entry waits. Whenever it does so, no
/// record is missing before the entry.
#[test]
fn open_calls_keep_the_order_of_chunks() {
    let chunks = || [chunk(2000).enter(1, 5), chunk(2010).exit(1, 5)];
    let [first, second] = chunks();
    let mut before = Ring::with_open_calls();
    before.thread(0, &[(1, 0, first)], 0);
    before.open_calls(1, &[(0, 0, 0, 0, 0), (0x10, 3, 2005, 0, 0)]);
    let mut after = Ring::with_open_calls();
    let [first, _] = chunks();
    after.thread(0, &[(1, 0, first), (2, 1, second)], 0);
    after.open_calls(0, &[(0, 0, 0, 2, 1), (0x20, 3, 2020, 0, 0)]);
    after.u32(SLOTS + STRIDE + 2, 2);
    let course = [
        (2005, 1, Edge::Entry),
        (2015, 1, Edge::Exit),
        (2020, 2, Edge::Entry),
    ];
    let (mut readings, mut lengths) = (0, Vec::new());
    loop {
        let made = Arc::new(AtomicUsize::new(0));
        let moments = [before.0.clone(), after.0.clone()];
        let ring = GoesOn {
            moments,
            readings,
            made: Arc::clone(&made),
        };
        let source = registry::open(Box::new(ring)).expect("a ring");
        let mut log = EventLog::default();
        drive(&*source, &mut log, &|_| {}).expect("memory can be read");
        assert_eq!(source.diagnostics(), [], "after {readings} readings");
        let calls = log.calls(100);
        let calls = calls.iter().filter(|call| !call.synthetic);
        let found: Vec<_> = calls
            .map(|call| (call.time.0, call.function.0, call.edge))
            .collect();
        assert!(
            course.starts_with(&found),
            "after {readings} readings: {found:?}"
        );
        lengths.push(found.len());
        if made.load(Ordering::Relaxed) <= readings {
            break;
        }
        readings += 1;
    }
    lengths.dedup();
    assert_eq!((lengths[0], lengths.last()), (3, Some(&1)), "{lengths:?}");
}

fn totals(function: u32, calls: u64, longest: u64, lengths: &[(u8, u64)]) -> FunctionTotals {
    FunctionTotals {
        function: FunctionId(function),
        calls,
        untimed: 1,
        total: Ticks(900),
        own: Ticks(800),
        longest: Ticks(longest),
        lengths: lengths.to_vec(),
        nests: false,
        estimate: None,
    }
}

#[test]
fn totals_include_ended_threads() {
    let mut ring = Ring::with_open_calls();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
    let [own, ended] = ring.totals();
    // All further functions.
    ring.row(own, 0, [0, 2, 1, 900, 800, 500], &[(0, 1), (247, 1)]);
    ring.row(own, 1, [7, 3, 1, 900, 800, 600], &[(5, 3)]);
    ring.row(ended, 0, [7, 1, 1, 900, 800, 700], &[(3, 1)]);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    let threads = &read.info.threads;
    let wanted = [
        totals(0, 2, 500, &[(0, 1), (247, 1)]),
        totals(7, 3, 600, &[(5, 3)]),
    ];
    assert_eq!(threads[0].totals, wanted);
    assert_eq!(read.info.missing_totals, [totals(7, 1, 700, &[(3, 1)])]);
}

#[test]
fn estimates_are_in_ring_and_trace() {
    let mut ring = Ring::with_open_calls();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
    let [_, ended] = ring.totals();
    ring.row(ended, 0, [7, 0, 0, 0, 0, 0], &[]);
    ring.estimate(ended, 0, [2, 1500, 90, 9, 700, 600, 60, 100], 5);
    ring.cost(ended, 31_000, 100_000);
    let read = common::read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    let estimate = Estimate {
        level: Level::LookedAt,
        since: Ticks(1500),
        missed: 90,
        missed_error: 9,
        total: Ticks(700),
        own: Ticks(600),
        own_error: Ticks(60),
        sampled: 100,
        around: 5,
    };
    let cost = RecordingCost {
        share: 31_000,
        budget: 100_000,
    };
    let wanted = FunctionTotals {
        function: FunctionId(7),
        estimate: Some(Box::new(estimate)),
        ..FunctionTotals::default()
    };
    assert_eq!(read.info.missing_totals, std::slice::from_ref(&wanted));
    assert_eq!(read.info.recording_cost, Some(cost));
    let mut bytes = Cursor::new(Vec::new());
    let mut writer = XrayWriter::new(&mut bytes, Version::V3, &read.info).expect("a header");
    writer.thread(&read.info.threads[0]);
    writer.finish().expect("a trace");
    let again = common::read(&bytes.into_inner()).expect("a trace");
    assert_eq!(again.info.missing_totals, [wanted]);
    assert_eq!(again.info.recording_cost, Some(cost));
}

#[test]
fn damaged_totals_harm_nothing_else() {
    let ring = || {
        let mut ring = Ring::with_open_calls();
        ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
        let [own, _] = ring.totals();
        ring.row(own, 0, [1, 2, 1, 900, 800, 500], &[(0, 2)]);
        (ring, own)
    };
    // More rows than there is room for.
    let (mut many, own) = ring();
    many.u32(own, u32::MAX);
    let read_many = read(&many.0).expect("a ring");
    assert_eq!(read_many.info.threads[0].totals.len(), 1);
    // Lengths that are not as many as the calls: the process was killed as it counted.
    let (mut torn, own) = ring();
    torn.row(own, 0, [1, 5, 1, 900, 800, 500], &[(0, 4)]);
    let torn = read(&torn.0).expect("a ring");
    assert_eq!(torn.info.threads[0].totals, [totals(1, 5, 500, &[(0, 4)])]);
    // Places outside of the file.
    for (offset, value) in [(256, u64::MAX), (256, 1 << 40), (264, u64::MAX), (264, 0)] {
        let (mut ring, _) = ring();
        ring.u64(offset, value);
        let read = read(&ring.0).expect("a ring");
        assert_eq!(counts(&read, 0), [1, 1, 0, 0], "{value} at {offset}");
        assert_eq!(read.info.threads[0].totals, []);
    }
}
