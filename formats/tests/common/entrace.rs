//! ENTRACE bytes put together without the library's encoder, and events written into memory.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::io::{Read, Seek, SeekFrom};

use fdr_formats::registry::target;
use fdr_formats::sink::Losses;
use fdr_formats::writer::{Output, Writer};
use fdr_formats::{Call, Function, FunctionId, ThreadId, Ticks, TraceInfo};

use crate::common::{Event, ReadTrace as Trace, list, push, read, thread};

/// Every target.
pub const TARGETS: [&str; 6] = ["et", "iet", "iet-prefix", "et2", "iet2", "iet-prefix2"];

/// Writes a file of that target; returns it and what was lost.
pub fn write(
    name: &str,
    info: &TraceInfo,
    feed: impl FnOnce(&mut Box<dyn Writer>),
) -> (Vec<u8>, Losses) {
    let mut file = tempfile::tempfile().expect("a temporary file");
    let output = Output::File(file.try_clone().expect("a second handle"));
    let target = target(name).unwrap_or_else(|| panic!("no target {name}"));
    let mut writer = (target.create)(output, info).expect("a writer");
    feed(&mut writer);
    let losses = writer.finish().expect("a file on a disk with room");
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).expect("a file");
    file.read_to_end(&mut bytes).expect("a file");
    (bytes, losses)
}

/// Gives a thread's events to a writer.
pub fn feed(writer: &mut Box<dyn Writer>, id: u64, events: &[Event]) {
    writer.thread(&thread(id));
    for event in events {
        push(writer, event);
    }
}

/// Events as calls with their arguments hold them: a change of CPU stands at the next edge, and is
/// there only if it is one.
pub fn at_edges(events: &[Event]) -> Vec<Event> {
    let (mut out, mut last_cpu, mut cpu) = (Vec::new(), None, None);
    for event in events {
        match event {
            Event::Cpu(_, new) => cpu = Some(*new),
            Event::Call(call) => {
                if let Some(cpu) = cpu.filter(|&cpu| last_cpu != Some(cpu)) {
                    last_cpu = Some(cpu);
                    out.push(Event::Cpu(call.time.0, cpu));
                }
                out.push(event.clone());
            }
            other => out.push(other.clone()),
        }
    }
    out
}

/// All of a trace: its events by thread, without those of CPUs.
pub fn threads(trace: &Trace) -> Vec<(ThreadId, Vec<Event>)> {
    let mut threads = trace.log.threads.clone();
    threads.sort_by_key(|(id, _)| *id);
    threads
}

/// Reads what this library wrote: nothing may be wrong with it, and the listing has each byte once.
pub fn read_own(bytes: &[u8]) -> Trace {
    let read = read(bytes).expect("a readable file");
    assert_eq!(read.diagnostics, []);
    let mut at = 0;
    for (offset, size, ..) in list(bytes) {
        assert_eq!(offset, at);
        at += size;
    }
    assert_eq!(at, bytes.len() as u64);
    read
}

/// Writes one thread's events to a file of that target, and reads them.
pub fn round(name: &str, info: &TraceInfo, events: &[Event]) -> Trace {
    let (bytes, losses) = write(name, info, |writer| feed(writer, 7, events));
    assert_eq!(losses.to_string(), "", "{name}");
    read_own(&bytes)
}

/// The events without changes of the CPU that no call follows. The format can't hold these, so the writer counts them
/// as losses.
pub fn without_idle_cpus(mut events: Vec<Event>) -> Vec<Event> {
    let mut out = Vec::new();
    let (mut pending, mut last) = (false, None);
    events.reverse();
    // From the back: a change that no call follows before the next one is left out.
    for event in events {
        match event {
            Event::Cpu(..) if !pending => {}
            Event::Cpu(..) => {
                pending = false;
                out.push(event);
            }
            Event::Call(_) => {
                pending = true;
                out.push(event);
            }
            _ => out.push(event),
        }
    }
    out.reverse();
    out.retain(|event| match event {
        Event::Cpu(_, cpu) => last.replace(*cpu) != Some(*cpu),
        _ => true,
    });
    out
}

pub fn in_ns(info: &TraceInfo) -> impl Fn(&Event) -> Event {
    let clock = info.clock.clone();
    let nanos = move |time: u64| clock.nanos(Ticks(time)).0;
    move |event| match event.clone() {
        Event::Call(call) => Event::Call(Call {
            time: Ticks(nanos(call.time.0)),
            ..call
        }),
        Event::Cpu(time, cpu) => Event::Cpu(nanos(time), cpu),
        Event::Custom(time, cpu, data) => Event::Custom(nanos(time), cpu, data),
        Event::Typed(time, kind, data) => Event::Typed(nanos(time), kind, data),
        other => other,
    }
}

pub fn function(id: u32, name: &str, file: &str, line: u32) -> Function {
    Function {
        id: FunctionId(id),
        name: name.to_owned(),
        file: file.to_owned(),
        line,
        untimed: false,
        kind: Default::default(),
    }
}

/// A number of bincode, typed by its document.
pub fn number(value: u64) -> Vec<u8> {
    match value {
        0..251 => vec![value as u8],
        251..0x1_0000 => [&[251][..], &(value as u16).to_le_bytes()].concat(),
        0x1_0000..0x1_0000_0000 => [&[252][..], &(value as u32).to_le_bytes()].concat(),
        _ => [&[253][..], &value.to_le_bytes()].concat(),
    }
}

pub fn text(text: &str) -> Vec<u8> {
    [&number(text.len() as u64)[..], text.as_bytes()].concat()
}

/// An entry of version 2 with unsigned attributes, level Info, no module, file and line.
pub fn entry(parent: u64, name: &str, target: &str, attributes: &[(&str, u64)]) -> Vec<u8> {
    let mut bytes = [number(parent), vec![0], text(name), text(target)].concat();
    bytes.extend([2, 0, 0, 0]);
    bytes.extend(number(attributes.len() as u64));
    for (name, _) in attributes {
        bytes.extend(text(name));
    }
    bytes.extend(number(attributes.len() as u64));
    for (_, value) in attributes {
        bytes.push(4);
        bytes.extend(number(*value));
    }
    bytes
}

pub fn root() -> Vec<u8> {
    [&[0, 0, 4][..], b"root", &[0, 0, 0, 0, 0, 0, 0]].concat()
}

/// A call of thread 7.
pub fn call(parent: u64, name: &str, start: u64, duration: u64) -> Vec<u8> {
    let attributes = [("duration_ns", duration), ("start_ns", start), ("tid", 7)];
    entry(parent, name, "", &attributes)
}

/// A file of version 2: head, and entries in that container (1 IET, 2 `IETPrefix`).
pub fn file(container: u8, entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = [&b"\0ENTRACE\x02"[..], &[container]].concat();
    for entry in entries {
        if container == 2 {
            bytes.extend((entry.len() as u64).to_le_bytes());
        }
        bytes.extend(entry);
    }
    bytes
}

/// An ET of version 2; the pool as given.
pub fn et(entries: &[Vec<u8>], pool: &[&[u64]]) -> Vec<u8> {
    let mut bytes = b"\0ENTRACE\x02\x00".to_vec();
    bytes.extend(number(entries.len() as u64));
    let mut offset = 0;
    for entry in entries {
        bytes.extend(number(offset));
        offset += entry.len() as u64;
    }
    bytes.extend(number(pool.len() as u64));
    for children in pool {
        bytes.extend(number(children.len() as u64));
        children
            .iter()
            .for_each(|&child| bytes.extend(number(child)));
    }
    bytes.extend(entries.concat());
    bytes
}
