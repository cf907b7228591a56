//! Heph packets put together without the library's encoder, and what a Heph file makes of events.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use fdr_formats::heph::HephWriter;
use fdr_formats::model::Missing;
use fdr_formats::sink::Losses;
use fdr_formats::{
    Call, Clock, Function, FunctionId, Sink, Thread, ThreadId, Ticks, TraceInfo, Writer,
};

use crate::common::{Event, ReadTrace, push, read};

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

/// An output whose bytes can be looked at while it is written, and that may become full.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    pub bytes: Arc<Mutex<Vec<u8>>>,
    pub room: Option<usize>,
}

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().expect("no panic before").clone()
    }
}

impl Write for Shared {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        let mut bytes = self.bytes.lock().expect("no panic before");
        if self
            .room
            .is_some_and(|room| bytes.len() + more.len() > room)
        {
            return Err(io::ErrorKind::StorageFull.into());
        }
        bytes.extend(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a trace; returns its bytes and what was lost.
pub fn write(info: &TraceInfo, feed: impl FnOnce(&mut Box<dyn Writer>)) -> (Vec<u8>, Losses) {
    let out = Shared::default();
    let mut writer: Box<dyn Writer> = Box::new(HephWriter::new(out.clone(), info));
    feed(&mut writer);
    let losses = writer.finish().expect("room in memory");
    (out.bytes(), losses)
}

/// Writes threads one after the other.
pub fn write_threads(info: &TraceInfo, threads: &[(Thread, Vec<Event>)]) -> (Vec<u8>, Losses) {
    write(info, |writer| {
        for (thread, events) in threads {
            writer.thread(thread);
            feed(writer, events);
        }
    })
}

pub fn feed(sink: &mut dyn Sink, events: &[Event]) {
    events.iter().for_each(|event| push(sink, event));
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

/// Reads a file with which nothing is wrong.
pub fn intact(bytes: &[u8]) -> ReadTrace {
    let read = read(bytes).expect("a readable trace");
    assert_eq!(read.diagnostics, []);
    read
}

/// Writes, reads, and wants nothing to be wrong or lost.
pub fn through(info: &TraceInfo, threads: &[(Thread, Vec<Event>)]) -> ReadTrace {
    let (bytes, losses) = write_threads(info, threads);
    assert!(losses.is_empty(), "{losses}");
    intact(&bytes)
}

pub fn function(id: u32, name: &str, file: &str, line: u32) -> Function {
    Function {
        id: FunctionId(id),
        name: name.into(),
        file: file.into(),
        line,
        untimed: false,
        kind: Default::default(),
    }
}

pub fn named(id: u64, name: &str) -> Thread {
    Thread {
        id: ThreadId(id),
        name: name.into(),
        ..Thread::default()
    }
}

/// Events as a format of calls gives them back. A change of the CPU comes at the next entry or exit, if it is still a
/// change there. A call has arguments if arguments follow its entry.
pub fn as_calls(events: &[Event]) -> Vec<Event> {
    let (mut out, mut wanted, mut current) = (Vec::new(), None, None);
    for (at, event) in events.iter().enumerate() {
        match event {
            Event::Cpu(_, cpu) => wanted = Some(*cpu),
            Event::Call(call) => {
                if wanted != current {
                    current = wanted;
                    out.extend(wanted.map(|cpu| Event::Cpu(call.time.0, cpu)));
                }
                let mut call = *call;
                call.has_arguments = matches!(events.get(at + 1), Some(Event::Argument(_)));
                out.push(Event::Call(call));
            }
            other => out.push(other.clone()),
        }
    }
    out
}
