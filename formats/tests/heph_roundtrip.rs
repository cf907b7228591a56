//! Events through the Heph writer and back: random programs, files of XRay, threads in turns, losses,
//! substreams.

use crate::common::heph::{call_events, complete_info, event, through, write_threads};
use crate::common::{
    Event, ReadTrace, call, enter, exit, intact, list, named, synthetic, write_with,
};
use fdr_formats::source::drive;
use fdr_formats::{Edge, Ticks, registry};

#[test]
fn what_was_not_measured_stays_so() {
    let calls = [
        synthetic(enter(10, 3)),
        enter(11, 9),
        call(12, 9, Edge::TailExit),
        synthetic(call(13, 3, Edge::TailExit)),
        enter(14, 3),
        synthetic(exit(15, 3)),
    ];
    let read = through(&complete_info(), &[(named(1, ""), call_events(&calls))]);
    assert_eq!(read.log.calls(1), calls);
}

#[test]
fn calls_that_do_not_nest_are_made_to() {
    // An exit without entry; calls that are left open, until the moment of the dump.
    let calls = [exit(10, 3), enter(20, 9), enter(30, 3)];
    let info = complete_info();
    let Ticks(end) = info.end.expect("an end");
    let read = through(&info, &[(named(1, ""), call_events(&calls))]);
    let wanted = [
        synthetic(enter(10, 3)),
        exit(10, 3),
        enter(20, 9),
        enter(30, 3),
        synthetic(exit(end, 3)),
        synthetic(exit(end, 9)),
    ];
    assert_eq!(read.log.calls(1), wanted);
}

#[test]
fn losses_have_their_place_and_skip_numbers() {
    let mut events = vec![Event::Lost(1)];
    events.extend(call_events(&[enter(10, 3), enter(20, 9)]));
    events.push(Event::Lost(4));
    events.extend(call_events(&[exit(30, 9)]));
    events.extend([Event::Lost(u64::MAX), Event::Lost(7)]);
    events.extend(call_events(&[exit(40, 3)]));
    events.push(Event::Lost(1 << 31));
    let read = through(&complete_info(), &[(named(1, ""), events.clone())]);
    assert_eq!(read.log.events(1), events);
}

#[test]
fn threads_that_no_stream_can_have() {
    let ids = [
        1 << 40,
        u64::from(u32::MAX),
        u64::from(u32::MAX - 1),
        u64::from(u32::MAX - 2),
        u64::MAX,
        0,
    ];
    let calls = call_events(&[enter(10, 3), exit(20, 3)]);
    let threads: Vec<_> = ids.map(|id| (named(id, "n"), calls.clone())).to_vec();
    let (bytes, losses) = write_threads(&complete_info(), &threads);
    // 2^40 takes the stream of u32::MAX - 1, the facts that of u32::MAX.
    let counts: Vec<u64> = losses.iter().map(|(_, count)| count).collect();
    assert_eq!(counts, [5], "{losses}");
    let read = intact(&bytes);
    let found: Vec<u64> = read.info.threads.iter().map(|thread| thread.id.0).collect();
    assert_eq!(found, ids);
    for id in ids {
        assert_eq!(read.log.calls(id).len(), 2, "{id}");
    }
}

#[test]
fn streams_and_substreams_come_back() {
    let places = [(2, 0), (2, 7), (2, u64::MAX), (9, 1 << 40), (3, 1)];
    let mut bytes = Vec::new();
    let mut counters = [0; 10];
    for (stream, substream) in places {
        let counter = counters[stream as usize];
        counters[stream as usize] += 1;
        bytes.extend(event((stream, counter, substream), (10, 20), b"work", &[]));
    }
    let first = intact(&bytes);
    let source = registry::open(Box::new(bytes)).expect("a trace");
    let (again, losses) = write_with("heph", source.info(), |writer| {
        drive(&*source, writer, &|_| {}).expect("bytes in memory");
    });
    assert!(losses.is_empty(), "{losses}");
    let lines = list(&again);
    let lines: Vec<&str> = lines.iter().map(|line| &*line.3).collect();
    for (stream, substream) in places {
        let place = format!("stream={stream} ");
        let sub = format!(" substream={substream} start=10 ns");
        let found = lines
            .iter()
            .any(|line| line.starts_with(&place) && line.contains(&sub));
        assert!(found, "{place}{sub}: {lines:#?}");
    }
    let second = intact(&again);
    let sorted = |read: &ReadTrace| {
        let mut threads = read.info.threads.clone();
        threads.sort_by_key(|thread| thread.id);
        threads
    };
    assert_eq!(sorted(&first), sorted(&second));
}
