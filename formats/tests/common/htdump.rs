//! What the tests of HTDUMP share: streams typed by hand or built without the library's encoder, and
//! sources to write from.
#![allow(dead_code, unreachable_pub, missing_docs)]

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use fdr_formats::model::Function;
use fdr_formats::writer::{Output, Writer};
use fdr_formats::{Call, FunctionId, Losses, Thread, ThreadId, TraceInfo, registry};

use crate::common::{Event, EventLog, ReadTrace, list, push, read};

/// Somewhere to write to that can be looked at.
#[derive(Clone, Default)]
pub struct Shared(pub Arc<Mutex<Vec<u8>>>);

impl Shared {
    pub fn bytes(&self) -> Vec<u8> {
        self.0.lock().expect("no writer panicked").clone()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no writer panicked").extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A writer of that name, and what it writes.
pub fn begin(target: &str, info: &TraceInfo) -> (Box<dyn Writer>, Shared) {
    let target = registry::target(target).expect("a target of that name");
    let shared = Shared::default();
    let output = Output::Stream(Box::new(shared.clone()));
    let writer = (target.create)(output, info).expect("nothing is written yet");
    (writer, shared)
}

/// Writes threads with their events; returns the bytes and what was lost.
pub fn write(
    target: &str,
    info: &TraceInfo,
    threads: &[(Thread, Vec<Event>)],
) -> (Vec<u8>, Losses) {
    let (mut writer, shared) = begin(target, info);
    for (thread, events) in threads {
        writer.thread(thread);
        for event in events {
            push(&mut writer, event);
        }
    }
    let losses = writer.finish().expect("memory is never full");
    (shared.bytes(), losses)
}

/// The events of each thread, in one piece: a source may give a thread in several.
pub fn joined(log: &EventLog) -> Vec<(ThreadId, Vec<Event>)> {
    let mut threads: Vec<(ThreadId, Vec<Event>)> = Vec::new();
    for (id, events) in &log.threads {
        match threads.iter_mut().find(|(known, _)| known == id) {
            Some((_, all)) => all.extend(events.iter().cloned()),
            None => threads.push((*id, events.clone())),
        }
    }
    threads
}

/// The name of a function as a person sees it.
pub fn name_of(read: &ReadTrace, id: FunctionId) -> String {
    match read.info.function(id) {
        Some(function) => function.name.clone(),
        None => id.to_string(),
    }
}

/// Edges by thread, time, kind and name, without their order: a cut file lacks the calls around those
/// that it has, so its events are no beginning of the whole file's.
fn bag(read: &ReadTrace) -> BTreeMap<(u64, u64, String), u64> {
    let mut bag = BTreeMap::new();
    for (thread, event) in read
        .log
        .threads
        .iter()
        .flat_map(|(thread, events)| events.iter().map(|event| (thread.0, event)))
    {
        let key = match event {
            Event::Call(call) => {
                let name = name_of(read, call.function);
                (thread, call.time.0, format!("{:?} {name}", call.edge))
            }
            other => (thread, 0, format!("{other:?}")),
        };
        *bag.entry(key).or_insert(0) += 1;
    }
    bag
}

/// The file cut at every byte after `from`: an error only where not even the byte order is whole, and nothing that
/// the whole file does not have. (A name may come after its call: then the number stands for it.)
pub fn cut_everywhere(bytes: &[u8], from: usize, step: usize) {
    let whole = bag(&read(bytes).expect("the whole file is readable"));
    for end in (from..bytes.len()).step_by(step) {
        let Ok(part) = read(&bytes[..end]) else {
            assert!(end < 21, "cut at byte {end}: the byte order was whole");
            continue;
        };
        if part
            .diagnostics
            .iter()
            .any(|diagnostic| diagnostic.what.contains("no string is mapped"))
        {
            continue;
        }
        for (edge, count) in bag(&part) {
            let all = whole.get(&edge).copied().unwrap_or(0);
            assert!(
                all >= count,
                "cut at byte {end}: {edge:?} is not in the file"
            );
        }
        let lines = list(&bytes[..end]);
        let listed: u64 = lines.iter().map(|(_, size, _, _)| size).sum();
        assert_eq!(listed, end as u64, "cut at byte {end}");
    }
}

pub fn function(id: u32, name: &str) -> Function {
    Function {
        id: FunctionId(id),
        name: name.to_owned(),
        ..Function::default()
    }
}

/// As the programs of the tests are, but with times that differ: of two edges in the same
/// nanosecond a file of whole calls can't tell which was first.
pub fn spread(events: Vec<Event>) -> Vec<Event> {
    let (mut last, mut shift) = (0, 0);
    let mut time = |time: u64| {
        if time + shift <= last {
            shift = last + 1 - time;
        }
        last = time + shift;
        last
    };
    let mut events: Vec<Event> = events
        .into_iter()
        .map(|event| match event {
            Event::Call(call) => Event::Call(Call {
                time: fdr_formats::Ticks(time(call.time.0)),
                ..call
            }),
            Event::Cpu(at, cpu) => Event::Cpu(time(at), cpu),
            Event::Custom(at, cpu, data) => Event::Custom(time(at), cpu, data),
            Event::Typed(at, kind, data) => Event::Typed(time(at), kind, data),
            other => other,
        })
        .collect();
    // A call that should have arguments has some, or it does not say so.
    let followed: Vec<bool> = (0..events.len())
        .map(|at| matches!(events.get(at + 1), Some(Event::Argument(_))))
        .collect();
    for (event, followed) in events.iter_mut().zip(followed) {
        if let Event::Call(call) = event {
            call.has_arguments = followed;
        }
    }
    events
}

/// A stream in either byte order, built record by record without the library's encoder.
pub struct Stream {
    pub bytes: Vec<u8>,
    big: bool,
}

impl Stream {
    /// Begins with the byte order.
    pub fn new(big: bool) -> Stream {
        let mut stream = Stream {
            bytes: Vec::new(),
            big,
        };
        stream.endianness();
        stream
    }

    fn number(&mut self, value: u64, size: usize) {
        let little = value.to_le_bytes();
        let digits = &little[..size];
        if self.big {
            self.bytes.extend(digits.iter().rev());
        } else {
            self.bytes.extend(digits);
        }
    }

    fn endianness(&mut self) {
        self.bytes.extend([0; 20]);
        self.bytes.push(u8::from(self.big));
    }

    /// From here on in the other byte order.
    pub fn turn(&mut self) -> &mut Stream {
        self.big = !self.big;
        self.endianness();
        self
    }

    pub fn header(&mut self, klass: u32, time: u64) -> &mut Stream {
        self.number(klass.into(), 4);
        self.number(time, 8);
        self.number(7, 8);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Stream {
        self.number(value.into(), 1);
        self
    }

    pub fn u16(&mut self, value: u16) -> &mut Stream {
        self.number(value.into(), 2);
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Stream {
        self.number(value.into(), 4);
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Stream {
        self.number(value, 8);
        self
    }

    pub fn text(&mut self, text: &[u8]) -> &mut Stream {
        self.bytes.extend(text);
        self.bytes.push(0);
        self
    }

    pub fn klass(&mut self, id: u32, name: &str, fields: u8) -> &mut Stream {
        self.header(2, 1).u32(id).text(name.as_bytes()).u8(fields)
    }

    /// A field of `size` bytes: kind 1 is a klass, 2 text, 3 signed, 4 and 5 floats, 6 a pointer,
    /// 99 unsigned.
    pub fn field(
        &mut self,
        klass: u32,
        kind: u8,
        size: u64,
        type_name: &str,
        name: &str,
    ) -> &mut Stream {
        self.header(3, 1).u32(klass).text(type_name.as_bytes());
        self.text(name.as_bytes()).u64(size).u8(kind)
    }

    /// A klass with these unsigned fields of 8 bytes, derived from `base`.
    pub fn derived(&mut self, id: u32, name: &str, base: &str, fields: &[&str]) -> &mut Stream {
        self.klass(id, name, 1 + fields.len() as u8);
        self.field(id, 1, 24, base, "base");
        for field in fields {
            self.field(id, 99, 8, "uint64_t", field);
        }
        self
    }

    /// The klass that HawkTracer announces first.
    pub fn core(&mut self) -> &mut Stream {
        self.klass(0, "HT_EndiannessInfoEvent", 2);
        self.field(0, 1, 24, "HT_Event", "base");
        self.field(0, 99, 1, "uint8_t", "endianness")
    }

    /// Klasses 4 to 7, as HawkTracer announces them.
    pub fn hawktracer(&mut self) -> &mut Stream {
        self.klass(4, "HT_CallstackBaseEvent", 3);
        self.field(4, 1, 24, "HT_Event", "base");
        self.field(4, 99, 8, "HT_DurationNs", "duration");
        self.field(4, 99, 4, "HT_ThreadId", "thread_id");
        self.derived(
            5,
            "HT_CallstackIntEvent",
            "HT_CallstackBaseEvent",
            &["label"],
        );
        self.klass(6, "HT_CallstackStringEvent", 2);
        self.field(6, 1, 40, "HT_CallstackBaseEvent", "base");
        self.field(6, 2, 8, "const char*", "label");
        self.klass(7, "HT_StringMappingEvent", 3);
        self.field(7, 1, 24, "HT_Event", "base");
        self.field(7, 99, 8, "uint64_t", "identifier");
        self.field(7, 2, 8, "const char*", "label")
    }

    pub fn mapping(&mut self, identifier: u64, label: &str) -> &mut Stream {
        self.header(7, 1).u64(identifier).text(label.as_bytes())
    }

    /// A call with the identifier of its label.
    pub fn call(&mut self, start: u64, duration: u64, thread: u32, label: u64) -> &mut Stream {
        self.header(5, start).u64(duration).u32(thread).u64(label)
    }

    /// A call with its label.
    pub fn named(&mut self, start: u64, duration: u64, thread: u32, label: &str) -> &mut Stream {
        let record = self.header(6, start).u64(duration).u32(thread);
        record.text(label.as_bytes())
    }
}

/// Reads a stream with which nothing is wrong.
pub fn clean(bytes: &[u8]) -> ReadTrace {
    let read = read(bytes).expect("a readable stream");
    assert_eq!(read.diagnostics, []);
    read
}
