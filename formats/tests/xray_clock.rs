//! Clocks that begin anew, jump, stop, or lie: hand-made ring chunks go through the dump and its reader,
//! and no time may go back by much, nor a duration hold a jump. A time of day that is set is none of
//! the ticks' trouble.

use std::io::Cursor;

use crate::common::dump::dumped;
use crate::common::named;
use crate::common::{self, Chunk, Event, ReadTrace, intact, read};
use fdr_formats::model::{ClockFaults, Counts};
use fdr_formats::xray::{Version, XrayWriter};
use fdr_formats::{Call, Clock, Edge, Mark, Sink, Thread, ThreadId, Ticks, TraceInfo};

/// Ticks a second.
const HZ: u64 = 1_000_000_000;
/// Steps back of up to 2^32 ticks are shown as they are.
const FAR: u64 = 1 << 33;
/// Unix seconds at the start.
const START: u64 = 1_700_000_000;

fn info(until: Option<(u64, u64)>, faults: ClockFaults) -> TraceInfo {
    TraceInfo {
        clock: Clock {
            frequency: HZ,
            name: "rdtscp".into(),
            constant: true,
            anchor: Some((Ticks(1000), START * HZ)),
            until: until.map(|(tick, seconds)| (Ticks(tick), seconds * HZ)),
            faults,
            ..Clock::default()
        },
        process: Some(7),
        start: Some(Ticks(1000)),
        ..TraceInfo::default()
    }
}

/// The chunk, with a time of day that is `seconds` after the start.
fn at(mut chunk: Chunk, seconds: i64) -> Chunk {
    let wall = START.saturating_add_signed(seconds);
    chunk.0[17..25].copy_from_slice(&wall.to_le_bytes());
    chunk.0[25..29].fill(0);
    chunk
}

fn dump(info: &TraceInfo, chunks: &[Chunk]) -> Vec<u8> {
    let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| &*chunk.0).collect();
    let thread = Thread {
        counts: Some(Counts::default()),
        ..named(7, "")
    };
    dumped(Version::V3, info, &thread, &chunks, false).0
}

fn whole(info: &TraceInfo, chunks: &[Chunk]) -> ReadTrace {
    intact(&dump(info, chunks))
}

fn breaks(read: &ReadTrace) -> Vec<u64> {
    let events = read.log.events(7).iter();
    let time = |event: &Event| match event {
        Event::Break(time) => Some(*time),
        _ => None,
    };
    events.filter_map(time).collect()
}

fn times(read: &ReadTrace) -> Vec<u64> {
    read.log.times(7)
}

#[test]
fn restarted_clocks_go_on() {
    let chunks = [
        Chunk::new(7, 0, 20 * FAR).enter(1, 0).enter(2, 50),
        Chunk::new(7, 0, 500).exit(2, 0).enter(2, 10).exit(2, 20),
        Chunk::new(7, 1, 900).exit(1, 5),
    ];
    let read = whole(&info(None, ClockFaults::default()), &chunks);
    assert_eq!(breaks(&read), [20 * FAR + 50]);
    let base = 20 * FAR + 50;
    let wanted = [20 * FAR, base, base, base + 10, base + 30, base + 405];
    assert_eq!(times(&read), wanted);
    // The change of the CPU has the same time as the calls there.
    assert!(read.log.events(7).contains(&Event::Cpu(base + 400, 1)));
}

#[test]
fn a_clock_that_jumped_ahead_is_set_back() {
    // Ten seconds passed by the time of day, and an hour by the ticks.
    let hour = 3600 * HZ;
    let chunks = || {
        [
            at(
                Chunk::new(7, 0, 1000)
                    .enter(1, 0)
                    .wrap(1000 + 3 * HZ)
                    .enter(2, 0)
                    .wrap(1000 + hour + 5 * HZ)
                    .exit(2, 0),
                0,
            ),
            at(Chunk::new(7, 0, 1000 + hour + 10 * HZ).exit(1, 0), 10),
        ]
    };
    // What the recorder knows of it, or (the process was killed) not.
    let known = ClockFaults {
        ahead_ns: hour as i64,
        ..ClockFaults::default()
    };
    let until = Some((1000 + hour + 11 * HZ, START + 11));
    for info in [info(None, ClockFaults::default()), info(until, known)] {
        let read = whole(&info, &chunks());
        let wanted = [0, 3, 5, 10].map(|seconds| 1000 + seconds * HZ);
        assert_eq!(times(&read), wanted);
        assert_eq!(breaks(&read), [1000 + 3 * HZ]);
    }
}

#[test]
fn jumps_between_and_within_chunks_are_found() {
    let hour = 3600 * HZ;
    let chunks = [
        at(Chunk::new(7, 0, 1000).enter(1, 0), 0),
        at(Chunk::new(7, 0, 1000 + hour + HZ).enter(2, 0), 1),
    ];
    let read = whole(&info(None, ClockFaults::default()), &chunks);
    assert_eq!(times(&read)[..2], [1000, 1000 + HZ]);

    let known = ClockFaults {
        ahead_ns: hour as i64,
        ..ClockFaults::default()
    };
    let until = Some((1000 + hour + 2 * HZ, START + 2));
    let chunks = [at(
        Chunk::new(7, 0, 1000)
            .enter(1, 0)
            .wrap(1000 + hour + HZ)
            .exit(1, 0),
        0,
    )];
    let read = whole(&info(until, known), &chunks);
    assert_eq!(times(&read), [1000, 1000 + HZ]);
}

#[test]
fn setting_the_time_of_day_breaks_nothing() {
    // Set back by an hour, while a thread works as if nothing had been, or sleeps for a while.
    for pause in [1, 7 * HZ] {
        let chunks = [
            at(
                Chunk::new(7, 0, 1000)
                    .enter(1, 0)
                    .wrap(1000 + pause)
                    .exit(1, 0),
                0,
            ),
            at(Chunk::new(7, 0, 1000 + 8 * HZ).enter(1, 0), 8 - 3600),
        ];
        let read = whole(&info(None, ClockFaults::default()), &chunks);
        assert_eq!(breaks(&read), [0_u64; 0]);
        assert_eq!(times(&read)[..2], [1000, 1000 + pause]);
    }
    // And where it slept for longer than the hour, the recorder's own comparison is what counts.
    let chunks = || {
        [
            at(
                Chunk::new(7, 0, 1000)
                    .enter(1, 0)
                    .wrap(1000 + 5000 * HZ)
                    .exit(1, 0),
                0,
            ),
            at(Chunk::new(7, 0, 1000 + 5001 * HZ).enter(1, 0), 5001 - 3600),
        ]
    };
    let set = ClockFaults {
        wall_step_ns: -3600 * HZ as i64,
        ..ClockFaults::default()
    };
    let until = Some((1000 + 5002 * HZ, START + 5002 - 3600));
    assert_eq!(breaks(&whole(&info(until, set), &chunks())), [0_u64; 0]);
    // A time daemon's 500 ppm over two hours are nothing at all.
    let chunks = [
        at(
            Chunk::new(7, 0, 1000)
                .enter(1, 0)
                .wrap(1000 + 7200 * HZ)
                .exit(1, 0),
            0,
        ),
        at(Chunk::new(7, 0, 1000 + 7203 * HZ).enter(1, 0), 7200),
    ];
    assert_eq!(
        breaks(&whole(&info(None, ClockFaults::default()), &chunks)),
        [0_u64; 0]
    );
}

#[test]
fn what_the_recorder_found_is_in_the_file() {
    let faults = ClockFaults {
        skew_ns: 5100,
        steps_back: 12,
        ahead_ns: -7_000_000_000,
        wall_step_ns: 3_600_000_000_001,
    };
    let info = info(Some((9000, START + 60)), faults);
    let read = whole(&info, &[Chunk::new(7, 0, 1000).enter(1, 0)]);
    assert_eq!(read.info.clock, info.clock);
    // Through the other writer also.
    let mut file = Cursor::new(Vec::new());
    let writer = XrayWriter::new(&mut file, Version::V1, &info).expect("memory");
    writer.finish().expect("memory");
    let again = common::read(file.get_ref()).expect("readable");
    assert_eq!(again.info.clock, info.clock);
}

#[test]
fn conversions_keep_breaks_in_place() {
    let call = |time, edge| Call {
        time: Ticks(time),
        edge,
        ..common::enter(time, 1)
    };
    let mut file = Cursor::new(Vec::new());
    let info = info(None, ClockFaults::default());
    let mut writer = XrayWriter::new(&mut file, Version::V3, &info).expect("memory");
    writer.thread(&Thread {
        id: ThreadId(7),
        ..Thread::default()
    });
    writer.calls(&[call(1000, Edge::Entry)]);
    writer.mark(&Mark::Break { time: Ticks(1000) });
    writer.calls(&[call(1000 + 3 * FAR, Edge::Exit)]);
    writer.finish().expect("memory");
    let read = read(file.get_ref()).expect("readable");
    assert_eq!(
        (times(&read), breaks(&read)),
        (vec![1000, 1000 + 3 * FAR], vec![1000])
    );
}

#[test]
fn damaged_ticks_give_no_absurd_time() {
    let chunks = [
        Chunk::new(7, 0, 1000).enter(1, 0).enter(2, 50),
        Chunk::new(7, 1, 2000).exit(2, 0).wrap(3000).exit(1, 0),
    ];
    let bytes = dump(&info(None, ClockFaults::default()), &chunks);
    let places = |what: &[u8]| {
        let found = bytes.windows(what.len()).rposition(|part| part == what);
        found.expect("the record is there")
    };
    for (record, tick) in [(0x05_u8, 2000_u64), (0x07, 3000)] {
        let place = match record {
            0x05 => places(&[&[0x05, 1, 0], &2000_u64.to_le_bytes()[..]].concat()) + 3,
            _ => places(&[&[0x07], &3000_u64.to_le_bytes()[..]].concat()) + 1,
        };
        for bit in 12..64 {
            let mut bytes = bytes.clone();
            let damaged = tick ^ 1 << bit;
            bytes[place..place + 8].copy_from_slice(&damaged.to_le_bytes());
            let read = read(&bytes).expect("readable");
            assert!(!read.diagnostics.is_empty(), "bit {bit} of {record:#x}");
            let latest = times(&read).into_iter().max();
            assert!(latest <= Some(3000), "bit {bit} of {record:#x}: {latest:?}");
        }
    }
    // A delta that is too long: the time is that of the last record.
    let place = places(&[0x20, 0, 0, 0, 50, 0, 0, 0]);
    let mut bytes = bytes.clone();
    bytes[place + 7] = 0xff;
    let read = read(&bytes).expect("readable");
    assert_eq!(read.diagnostics.len(), 1);
    assert_eq!(times(&read)[..2], [1000, 3000]);
}
