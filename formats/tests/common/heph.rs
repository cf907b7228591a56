//! Heph packets put together without the library's encoder, and what a Heph file makes of events.
#![allow(dead_code, unreachable_pub, missing_docs)]

use fdr_formats::model::Missing;
use fdr_formats::{Call, Clock, Losses, Thread, Ticks, TraceInfo};

use crate::common::{Event, ReadTrace, function, intact, write_pieces};

/// A metadata packet.
pub fn option(name: &str, value: &[u8]) -> Vec<u8> {
    let size = 10 + name.len() + value.len();
    let mut packet = vec![0x75, 0xd1, 0x1d, 0x4d];
    packet.extend((size as u32).to_be_bytes());
    packet.extend((name.len() as u16).to_be_bytes());
    packet.extend(name.bytes());
    packet.extend(value);
    packet
}

pub fn epoch(unix_ns: u64) -> Vec<u8> {
    option("epoch", &unix_ns.to_be_bytes())
}

/// An event packet with attributes as they stand in the file.
pub fn event(
    place: (u32, u32, u64),
    times: (u64, u64),
    description: &[u8],
    attributes: &[u8],
) -> Vec<u8> {
    let (stream, counter, substream) = place;
    let size = 42 + description.len() + attributes.len();
    let mut packet = vec![0xc1, 0xfc, 0x1f, 0xb7];
    packet.extend((size as u32).to_be_bytes());
    packet.extend(stream.to_be_bytes());
    packet.extend(counter.to_be_bytes());
    packet.extend(substream.to_be_bytes());
    packet.extend(times.0.to_be_bytes());
    packet.extend(times.1.to_be_bytes());
    packet.extend((description.len() as u16).to_be_bytes());
    packet.extend(description);
    packet.extend(attributes);
    packet
}

/// A call of stream 1 that nothing is wrong with.
pub fn plain(counter: u32, times: (u64, u64), description: &str) -> Vec<u8> {
    event((1, counter, 0), times, description.as_bytes(), &[])
}

/// The start of an attribute.
pub fn attribute(name: &str, kind: u8, value: &[u8]) -> Vec<u8> {
    let mut bytes = (name.len() as u16).to_be_bytes().to_vec();
    bytes.extend(name.bytes());
    bytes.push(kind);
    bytes.extend(value);
    bytes
}

pub fn number(name: &str, value: u64) -> Vec<u8> {
    attribute(name, 1, &value.to_be_bytes())
}

pub fn text(name: &str, value: &str) -> Vec<u8> {
    let mut bytes = (value.len() as u16).to_be_bytes().to_vec();
    bytes.extend(value.bytes());
    attribute(name, 4, &bytes)
}

/// Writes threads one after the other.
pub fn write_threads(info: &TraceInfo, threads: &[(Thread, Vec<Event>)]) -> (Vec<u8>, Losses) {
    write_pieces("heph", info, threads)
}

/// Writes, reads, and wants nothing to be wrong or lost.
pub fn through(info: &TraceInfo, threads: &[(Thread, Vec<Event>)]) -> ReadTrace {
    let (bytes, losses) = write_threads(info, threads);
    assert!(losses.is_empty(), "{losses}");
    intact(&bytes)
}

pub fn call_events(calls: &[Call]) -> Vec<Event> {
    calls.iter().map(|&call| Event::Call(call)).collect()
}

/// A trace that says everything of itself.
pub fn complete_info() -> TraceInfo {
    TraceInfo {
        clock: Clock {
            name: "tsc".into(),
            error_ppm: Some(0.5),
            constant: true,
            nonstop: true,
            anchor: Some((Ticks(500), 1_700_000_000_000_000_500)),
            ..Clock::default()
        },
        functions: vec![
            function(3, "alpha", "src/a.rs", 7),
            function(9, "beta", "", 0),
        ],
        program: "demo".into(),
        process: Some(4242),
        reason: "signal".into(),
        dump: Some(2),
        missing: Missing {
            threads: 1,
            overwritten: 2,
            dropped: 3,
        },
        start: Some(Ticks(1000)),
        end: Some(Ticks(2000)),
        ..TraceInfo::default()
    }
}
