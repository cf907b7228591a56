//! Ring files, put together by hand from the documented layout: what a killed process leaves at any
//! moment of its protocol, and what no process leaves. `ring_live` reads one beside its writer.

use crate::common::ring::{BASE, CHUNK, FUNCTIONS, REGIONS, Ring, SLOTS, STRIDE, chunk, counts};
use crate::common::{self, Chunk, Event, ReadTrace, assert_nested, read, synthetic};
use fdr_formats::identity::Part;
use fdr_formats::model::Missing;
use fdr_formats::{Call, Edge, FunctionId, ThreadId, Ticks};

fn call(time: u64, function: u32, edge: Edge) -> Call {
    common::call(time, function, edge)
}

#[test]
fn a_whole_ring_becomes_a_balanced_trace() {
    let mut ring = Ring::new();
    // The first chunk was overwritten by the third: 7 records are gone, among them an entry.
    let second = chunk(2000).enter(2, 5).exit(2, 5).exit(1, 10);
    let third = chunk(3000).enter(1, 1).enter(2, 1);
    ring.thread(0, &[(2, 7, second), (3, 10, third)], 4);
    ring.thread(1, &[], 0);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics, []);
    assert!(read.info.format.starts_with("ring of process 4242"));
    assert_eq!(read.info.process, Some(4242));
    assert_eq!(
        read.info.function(FunctionId(2)).map(|f| f.name.as_str()),
        Some("app::two")
    );
    // A thread without records is not in the trace.
    assert_eq!(read.info.threads.len(), 1);
    assert_eq!(read.info.threads[0].name, "worker");
    assert_eq!(counts(&read, 0), [16, 5, 7, 4]);
    let anchor = (Ticks(1000), 1_700_000_000_000_000_000);
    assert_eq!(read.info.clock.anchor, Some(anchor));
    let calls = read.log.calls(100);
    assert_nested(&calls);
    let wanted = [
        synthetic(call(2000, 1, Edge::Entry)),
        call(2005, 2, Edge::Entry),
        call(2010, 2, Edge::Exit),
        call(2020, 1, Edge::Exit),
        call(3001, 1, Edge::Entry),
        call(3002, 2, Edge::Entry),
        synthetic(call(3002, 2, Edge::Exit)),
        synthetic(call(3002, 1, Edge::Exit)),
    ];
    assert_eq!(calls, wanted);
    assert!(matches!(read.log.events(100)[0], Event::Wall(..)));
}

/// When the call ends that thread 100 is in since tick 2005; thread 101 has a later record. `prepare` has the
/// ring, and where its process runs, the time of CLOCK_MONOTONIC_RAW.
fn open_until(prepare: impl Fn(&mut Ring) -> Option<u64>) -> Ticks {
    let mut ring = Ring::new();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5))], 0);
    let later = Chunk::new(101, 0, 7000).enter(2, 0).exit(2, 1);
    ring.thread(1, &[(1, 0, later)], 0);
    let now = prepare(&mut ring);
    let source = fdr_formats::ring::open_source(Box::new(ring.0), "", now).expect("a ring");
    let mut log = common::EventLog::default();
    fdr_formats::source::drive(&*source, &mut log, &|_| {}).expect("bytes in memory can be read");
    let calls = log.calls(100);
    assert_nested(&calls);
    assert_eq!(calls.len(), 2);
    assert!(calls[1].synthetic);
    calls[1].time
}

#[test]
fn open_calls_last_until_the_known_end() {
    // It was killed: up to the latest record of any thread.
    assert_eq!(open_until(|_| None), Ticks(7001));
    // Its thread had ended before.
    let ended = |ring: &mut Ring| {
        ring.u32(SLOTS + 72, 4);
        None
    };
    assert_eq!(open_until(ended), Ticks(2005));
    // It runs: up to now, 9 us after the start at tick 1000, at 1 GHz.
    let runs = |ring: &mut Ring| {
        ring.u64(88, 500_000);
        Some(509_000)
    };
    assert_eq!(open_until(runs), Ticks(10_000));
    // Its records are later than that, by an error of the rate.
    let inexact = |ring: &mut Ring| {
        ring.u64(88, 500_000);
        Some(500_001)
    };
    assert_eq!(open_until(inexact), Ticks(7001));
    // Nothing that makes sense: a time before the start, and no rate.
    let before = |ring: &mut Ring| {
        ring.u64(88, 500_000);
        Some(0)
    };
    assert_eq!(open_until(before), Ticks(7001));
    let rateless = |ring: &mut Ring| {
        ring.u64(104, 0);
        Some(u64::MAX)
    };
    assert_eq!(open_until(rateless), Ticks(7001));
    // It crashed, at tick 8000.
    let crashed = |ring: &mut Ring| {
        ring.u32(140, 11);
        ring.u32(148, 999);
        ring.u64(160, 8000);
        Some(1)
    };
    assert_eq!(open_until(crashed), Ticks(8000));
}

#[test]
fn death_while_opening_a_chunk_is_read() {
    let mut ring = Ring::new();
    let first = chunk(2000).enter(1, 5).exit(1, 5);
    ring.thread(0, &[(1, 0, first)], 0);
    let slot = SLOTS;
    // The next chunk's mark is 0 and its preamble is written, as the cursor says.
    ring.u64(slot, BASE + (REGIONS + CHUNK + 48) as u64);
    ring.u64(slot + 128 + 16, 64);
    ring.u64(slot + 128 + 24, 0);
    let next = chunk(2500);
    ring.0[REGIONS + CHUNK..][..48].copy_from_slice(&next.0);
    let before = read(&ring.0).expect("a ring");
    assert_eq!(counts(&before, 0), [2, 2, 0, 0]);
    // A moment later: the mark has its number, the slot has not.
    ring.u64(slot + 128 + 24, 2);
    ring.u64(slot + 128 + 24 + 8, 2);
    let after = read(&ring.0).expect("a ring");
    assert_eq!(counts(&after, 0), [2, 2, 0, 0]);
    // And another: the chunk is open and has no record.
    ring.u64(slot + 40, 2);
    let open = read(&ring.0).expect("a ring");
    assert_eq!(counts(&open, 0), [2, 2, 0, 0]);
    assert_eq!(open.log.calls(100), after.log.calls(100));
}

#[test]
fn what_is_in_no_thread_is_counted() {
    let mut ring = Ring::new();
    ring.u64(112, 30);
    ring.u64(120, 2);
    ring.u64(128, 9);
    let read = read(&ring.0).expect("a ring");
    let wanted = Missing {
        threads: 2,
        overwritten: 30,
        dropped: 9,
    };
    assert_eq!(read.info.missing, wanted);
}

#[test]
fn what_each_cpu_counted_is_counted() {
    let mut ring = Ring::new();
    ring.u64(128, 9);
    // The slots are two counters further on.
    let counters = SLOTS;
    ring.0.splice(counters..counters, [0; 256]);
    for (at, offset) in [(24, SLOTS), (40, FUNCTIONS), (56, REGIONS)] {
        ring.u64(at, offset as u64 + 256);
    }
    ring.u64(counters, 20);
    ring.u64(counters + 128, 300);
    ring.u64(counters + 8, 4000);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.info.missing.dropped, 329);
    // More than can be: none is added to become fewer.
    ring.u64(counters, u64::MAX);
    let read = common::read(&ring.0).expect("a ring");
    assert_eq!(read.info.missing.dropped, u64::MAX);
}

#[test]
fn an_identity_stands_where_the_head_says() {
    let mut ring = Ring::new();
    ring.0[1024..1040].copy_from_slice(b"h\0b\0i\x001.2\0a=b,c\0");
    assert!(read(&ring.0).expect("a ring").info.identity.is_empty());
    ring.u64(240, 1024);
    let whole = read(&ring.0).expect("a ring").info.identity;
    let all = Part::ALL.map(|part| whole.get(part).to_owned());
    assert_eq!(all, ["h", "b", "i", "1.2", "a=b,c"]);
    // A place that is not in the file, and one that holds other things.
    for lie in [u64::MAX, ring.0.len() as u64 - 1, 7] {
        ring.u64(240, lie);
        let identity = read(&ring.0).expect("a ring").info.identity;
        assert!(identity.get(Part::Host).len() <= Part::Host.most_bytes());
    }
}

#[test]
fn lost_regions_are_reported() {
    let mut ring = Ring::new();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5).exit(1, 5))], 1);
    ring.0[REGIONS..].fill(0);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics.len(), 1, "{:?}", read.diagnostics);
    assert_eq!(read.diagnostics[0].offset, REGIONS as u64);
    assert_eq!(counts(&read, 0), [3, 0, 0, 3]);
    assert_eq!(read.log.calls(100), []);
}

#[test]
fn names_that_are_damaged_are_reported() {
    let mut ring = Ring::new();
    ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5).exit(1, 5))], 0);
    ring.u32(FUNCTIONS + 24, 3);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics.len(), 1);
    assert_eq!(read.diagnostics[0].offset, (FUNCTIONS + 24) as u64);
    assert!(read.info.function(FunctionId(1)).is_some());
    assert_eq!(read.log.calls(100).len(), 2);
}

#[test]
fn every_byte_that_matters_may_be_wrong() {
    let mut ring = Ring::new();
    let second = chunk(2000).enter(2, 5).exit(2, 5);
    ring.thread(0, &[(2, 7, second), (3, 9, chunk(3000).enter(1, 1))], 4);
    let whole = read(&ring.0).expect("a ring");
    let places = (0..136).chain(SLOTS..SLOTS + 176);
    let places = places.chain(FUNCTIONS..FUNCTIONS + 48);
    for place in places.chain(REGIONS..REGIONS + 72) {
        for mask in [0x01, 0x80, 0xff] {
            ring.0[place] ^= mask;
            if let Ok(read) = read(&ring.0) {
                assert!(read.log.count() < 40, "byte {place}: events out of nothing");
                // Of the slot: all but what nothing else in the file tells of, and the name.
                let slot = place.wrapping_sub(SLOTS);
                let alone = (56..64).contains(&slot) || (96..112).contains(&slot);
                assert!(
                    !(0..176).contains(&slot)
                        || alone
                        || !read.diagnostics.is_empty()
                        || (times(&read), counts(&read, 0)) == (times(&whole), counts(&whole, 0)),
                    "byte {place} ^ {mask:#x}: nothing is said"
                );
                for thread in &read.info.threads {
                    assert!(thread.id != ThreadId(0) || place / 4 == (SLOTS + 76) / 4);
                }
            }
            ring.0[place] ^= mask;
        }
    }
    for end in (0..400).chain((400..ring.0.len()).step_by(997)) {
        let _ = read(&ring.0[..end]);
    }
}

/// A ring whose thread has a closed chunk of six records and an open one of two.
fn two_chunks() -> Ring {
    let mut ring = Ring::new();
    let calls = chunk(2000).enter(1, 5).enter(2, 5).exit(2, 5);
    let calls = calls.enter(2, 5).exit(2, 5).exit(1, 5);
    let open = chunk(3000).enter(2, 1).exit(2, 1);
    ring.thread(0, &[(1, 0, calls), (2, 6, open)], 4);
    ring
}

/// Times of measured calls.
fn times(read: &ReadTrace) -> Vec<u64> {
    let threads = read.log.threads.iter();
    let events = threads.flat_map(|(_, events)| events);
    let time = |event: &Event| match event {
        Event::Call(call) if !call.synthetic => Some(call.time.0),
        _ => None,
    };
    events.filter_map(time).collect()
}

#[test]
fn damaged_records_are_counted_others_kept() {
    let whole = read(&two_chunks().0).expect("a ring");
    assert_eq!(whole.diagnostics, []);
    let all = times(&whole);
    assert_eq!(all.len(), 8);
    let mut ring = two_chunks();
    // The fourth record of the closed chunk.
    let place = REGIONS + 48 + 3 * 8;
    ring.0[place..place + 8].fill(0);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.diagnostics.len(), 1, "{:?}", read.diagnostics);
    assert_eq!(read.diagnostics[0].offset, place as u64);
    assert_eq!(times(&read), [&all[..3], &all[6..]].concat());
    assert_eq!(counts(&read, 0), [12, 5, 0, 7]);
    let lost = read.log.events(100).iter();
    let lost: Vec<&Event> = lost
        .filter(|event| matches!(event, Event::Lost(_)))
        .collect();
    assert_eq!(lost, [&Event::Lost(3)]);
    assert_nested(&read.log.calls(100));
}

#[test]
fn what_a_mark_says_wrongly_is_not_believed() {
    let all = times(&read(&two_chunks().0).expect("a ring"));
    let (slot, mark) = (SLOTS, SLOTS + 128);
    // (place, value, records that are read, counts)
    let cases = [
        // The end of the closed chunk. The mark of the next chunk gives the number of its records.
        (mark + 16, u64::MAX, &all[..], [12, 8, 0, 4]),
        // The number of the newest chunk, in its mark and in the slot. Each follows from the other one, and from the
        // chunk before.
        (mark + 24, 0, &all[..], [12, 8, 0, 4]),
        (mark + 24, 2 | 1 << 40, &all[..], [12, 8, 0, 4]),
        (mark + 24, 3, &all[..], [12, 8, 0, 4]),
        (slot + 40, 0, &all[..], [12, 8, 0, 4]),
        (slot + 40, 1, &all[..], [12, 8, 0, 4]),
        (slot + 40, 3, &all[..], [12, 8, 0, 4]),
        (slot + 40, u64::MAX, &all[..], [12, 8, 0, 4]),
        // Its number: what was before the newest chunk is gone.
        (mark, 77, &all[6..], [12, 2, 6, 4]),
        // The cursor. Without it, nothing shows how much of the newest chunk is new.
        (slot, 0, &all[..6], [10, 6, 0, 4]),
        // The region's address: the cursor is nowhere.
        (slot + 24, BASE, &all[..6], [10, 6, 0, 4]),
        // The number of chunks follows from the head.
        (slot + 32, 1 << 40, &all[..], [12, 8, 0, 4]),
    ];
    for (place, value, wanted, sums) in cases {
        let mut ring = two_chunks();
        ring.u64(place, value);
        let read = read(&ring.0).expect("a ring");
        assert_eq!(times(&read), wanted, "byte {place}");
        assert_eq!(counts(&read, 0), sums, "byte {place}");
        assert!(!read.diagnostics.is_empty(), "byte {place}");
    }
}

#[test]
fn single_chunk_threads_are_found_both_ways() {
    for (place, value) in [(40, 0), (40, 2), (40, 3), (128, 0), (128, 2), (128, 3)] {
        let mut ring = Ring::new();
        ring.thread(0, &[(1, 0, chunk(2000).enter(1, 5).exit(1, 5))], 0);
        ring.u64(SLOTS + place, value);
        let read = read(&ring.0).expect("a ring");
        assert_eq!(counts(&read, 0), [2, 2, 0, 0], "{value} at {place}");
        assert_eq!(read.diagnostics.len(), 1, "{:?}", read.diagnostics);
        let offset = read.diagnostics[0].offset;
        assert_eq!(offset, (SLOTS + place) as u64);
    }
}

#[test]
fn records_of_unowned_slots_are_reported() {
    for state in [0, 1, 2] {
        let mut ring = two_chunks();
        ring.u32(SLOTS + 72, state);
        let read = read(&ring.0).expect("a ring");
        assert!(times(&read).is_empty());
        assert_eq!(read.diagnostics.len(), 1, "state {state}");
        assert_eq!(read.diagnostics[0].offset, SLOTS as u64);
        // One that was given back unused has none.
        ring.u64(SLOTS + 40, 0);
        ring.u64(SLOTS + 128, 0);
        assert_eq!(self::read(&ring.0).expect("a ring").diagnostics, []);
    }
}

#[test]
fn one_threads_chunk_is_not_taken_for_anothers() {
    let mut ring = two_chunks();
    ring.0[REGIONS + CHUNK + 1] = 101;
    let read = read(&ring.0).expect("a ring");
    assert_eq!(times(&read).len(), 6);
    assert_eq!(read.diagnostics[0].offset, (REGIONS + CHUNK) as u64);
    assert_eq!(counts(&read, 0), [12, 6, 0, 6]);
}

#[test]
fn a_file_may_be_cut_anywhere() {
    let mut ring = two_chunks();
    ring.0.truncate(REGIONS + CHUNK + 64);
    let all = times(&read(&ring.0).expect("a ring"));
    assert_eq!(all.len(), 8);
    let near = |place: usize| place.saturating_sub(80)..place + 80;
    let places = (0..ring.0.len()).step_by(331).chain(0..300);
    let places = places.chain(near(SLOTS + STRIDE)).chain(near(FUNCTIONS));
    let places = places.chain(REGIONS..REGIONS + 200);
    for end in places.chain(REGIONS + CHUNK..ring.0.len()) {
        let Ok(read) = read(&ring.0[..end]) else {
            assert!(
                end < fdr_formats::ring::layout::HEADER_SIZE,
                "cut at byte {end}: only a cut head may be an error"
            );
            continue;
        };
        let found = times(&read);
        assert!(
            found.len() < all.len() && all.starts_with(&found),
            "cut at byte {end}"
        );
        assert!(
            !read.diagnostics.is_empty(),
            "cut at byte {end}: nothing is said"
        );
    }
}

#[test]
fn a_crash_is_the_reason() {
    let mut ring = two_chunks();
    ring.u32(140, 11);
    ring.u32(144, 1);
    ring.u32(148, 100);
    ring.u64(152, 0x10);
    let read = read(&ring.0).expect("a ring");
    assert_eq!(read.info.reason, "crash: SIGSEGV at 0x10 in thread 100");
    // Another thread went on for long, or this one for moments; and then this one.
    let later = || chunk(11_000_000_000).enter(1, 5);
    let others = Chunk::new(101, 3, 11_000_000_000).enter(1, 5);
    ring.thread(1, &[(1, 0, others)], 0);
    for (ticks, wanted) in [(999_999_999, ""), (1_000_000_000, &*read.info.reason)] {
        ring.thread(0, &[(1, 0, later())], 0);
        ring.u64(160, ticks);
        assert_eq!(self::read(&ring.0).expect("a ring").info.reason, wanted);
    }
}

fn golden(name: &str) -> ReadTrace {
    let bytes = common::golden(&format!("ring/{name}"));
    read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_file_made_by_hand() {
    let read = golden("by_hand.fdr-ring");
    assert_eq!(read.diagnostics, []);
    let info = &read.info;
    assert_eq!(
        (info.program.as_str(), info.process),
        ("golden", Some(4_200_000))
    );
    assert_eq!(info.reason, "crash: SIGSEGV at 0x10 in thread 101");
    let names: Vec<&str> = info
        .functions
        .iter()
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(
        names,
        ["golden::f1", "golden::f2", "<golden::T as golden::U>::f3"]
    );
    assert_eq!(
        (info.functions[1].file.as_str(), info.functions[1].line),
        ("src/main.rs", 12)
    );
    assert_eq!(counts(&read, 0), [21, 7, 10, 4]);
    let missing = Missing {
        threads: 1,
        overwritten: 6,
        dropped: 2,
    };
    assert_eq!(info.missing, missing);
    let far = 9_000_000_000;
    let wanted = [
        synthetic(call(5_000_000, 1, Edge::Entry)),
        call(5_000_000, 2, Edge::Entry),
        call(5_000_040, 2, Edge::Exit),
        call(5_000_050, 1, Edge::Exit),
        call(5_001_000, 1, Edge::Entry),
        call(far, 3, Edge::Entry),
        call(far + 5, 2, Edge::Entry),
        call(far + 11, 2, Edge::Exit),
        // Open until the crash, which the head has.
        synthetic(call(far + 20, 3, Edge::Exit)),
        synthetic(call(far + 20, 1, Edge::Exit)),
    ];
    assert_eq!(read.log.calls(101), wanted);
}

#[test]
fn a_file_that_the_recorder_left() {
    let read = golden("killed.fdr-ring");
    assert_eq!(read.diagnostics, []);
    let info = &read.info;
    assert_eq!(
        (info.program.as_str(), info.reason.as_str()),
        ("endings", "")
    );
    assert!(info.clock.constant && info.clock.nonstop);
    let names: Vec<&str> = info
        .functions
        .iter()
        .map(|function| function.name.as_str())
        .collect();
    assert_eq!(names, ["endings::fail", "endings::work"]);
    assert_eq!(info.threads.len(), 1);
    assert_eq!(info.threads[0].name, "endings");
    assert_eq!(counts(&read, 0), [20, 20, 0, 0]);
    let calls = read.log.calls(info.threads[0].id.0);
    assert_nested(&calls);
    assert!(
        calls
            .iter()
            .all(|call| call.function == FunctionId(2) && !call.synthetic)
    );
}
