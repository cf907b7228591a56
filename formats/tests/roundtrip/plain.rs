//! A trace in the form in which two are compared: by the names of functions, times from its first event
//! on, threads by their numbers. What a format can't hold by nature (see `holds`) is left out.

use std::collections::BTreeMap;

use fdr_formats::model::{Clock, Counts, Identity, Missing, TraceInfo};
use fdr_formats::source::drive;
use fdr_formats::{Edge, FunctionId, Sink, Source, Thread, Ticks};

use super::holds::{Cpus, Holds};
use super::programs::restricted;
use crate::common::{Event, EventLog};

/// One event, with ns from the trace's first one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PlainEvent {
    Call {
        at: u64,
        function: String,
        edge: Edge,
        synthetic: bool,
        arguments: Vec<u64>,
    },
    Cpu(u64, u32),
    Wall(u64, u32),
    Lost(u64),
    Custom(u64, Option<u32>, Vec<u8>),
    Typed(u64, u16, Vec<u8>),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PlainThread {
    pub(crate) name: String,
    pub(crate) process: Option<u64>,
    pub(crate) counts: Option<Counts>,
    pub(crate) events: Vec<PlainEvent>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plain {
    pub(crate) program: String,
    pub(crate) process: Option<u64>,
    pub(crate) identity: Identity,
    pub(crate) dump: Option<(String, Option<u64>, Missing)>,
    pub(crate) clock: Option<Clock>,
    /// Unix time of the first event, in ns.
    pub(crate) unix: Option<u64>,
    /// File and line of the functions that are called, and whether they are untimed.
    pub(crate) lines: BTreeMap<String, (String, u32, bool)>,
    pub(crate) threads: BTreeMap<u64, PlainThread>,
}

/// Events and threads as they come to a sink. A thread may come in turns.
#[derive(Default)]
pub(crate) struct ThreadedLog {
    log: EventLog,
    threads: Vec<Thread>,
}

impl ThreadedLog {
    /// Leaves out what is not held.
    pub(crate) fn restrict(&mut self, holds: Holds) {
        for (_, events) in &mut self.log.threads {
            *events = restricted(std::mem::take(events), holds);
        }
    }
}

impl Sink for ThreadedLog {
    fn thread(&mut self, thread: &Thread) {
        self.threads.push(thread.clone());
        self.log.thread(thread);
    }

    fn calls(&mut self, calls: &[fdr_formats::Call]) {
        Sink::calls(&mut self.log, calls);
    }

    fn mark(&mut self, mark: &fdr_formats::Mark<'_>) {
        self.log.mark(mark);
    }

    fn diagnostic(&mut self, diagnostic: fdr_formats::Diagnostic) {
        self.log.diagnostic(diagnostic);
    }
}

impl Plain {
    /// Of a source, which must have nothing to complain about.
    pub(crate) fn read(source: &dyn Source, holds: Holds) -> Plain {
        let mut log = ThreadedLog::default();
        drive(source, &mut log, &|_| {}).expect("a readable source");
        assert_eq!(source.diagnostics(), []);
        assert_eq!(log.log.diagnostics, []);
        Plain::new(source.info(), &log, holds)
    }

    /// The plain form of the events that a sink got.
    pub(crate) fn new(info: &TraceInfo, log: &ThreadedLog, holds: Holds) -> Plain {
        let events = || log.log.threads.iter().flat_map(|(_, events)| events);
        let first = events().filter_map(time).min().unwrap_or(0);
        let mut threads: BTreeMap<u64, PlainThread> = BTreeMap::new();
        for (id, events) in &log.log.threads {
            let mut log_threads = log.threads.iter().rev();
            let thread = log_threads.find(|thread| thread.id == *id);
            let thread = thread.expect("a thread before its events");
            let plain = threads.entry(id.0).or_default();
            plain.name.clone_from(&thread.name);
            plain.process = thread.process.filter(|_| holds.processes);
            // The synthetic ones are those among the events; not every writer counts them.
            let counts = thread.counts.filter(|_| holds.counts);
            plain.counts = counts.map(|counts| Counts {
                synthetic_entries: 0,
                synthetic_exits: 0,
                ..counts
            });
            let mut cpu = None;
            let held = events.iter().filter(|event| match event {
                Event::Cpu(..) => holds.cpus != Cpus::None,
                Event::Wall(..) => holds.wall,
                _ => true,
            });
            for event in held {
                add(&mut plain.events, &mut cpu, event, info, first);
            }
        }
        for thread in &info.threads {
            assert!(threads.contains_key(&thread.id.0), "a thread without lane");
        }
        let anchor = info.clock.anchor.is_some();
        Plain {
            program: info.program.clone(),
            process: info.process,
            identity: info.identity.clone(),
            dump: holds
                .dump
                .then(|| (info.reason.clone(), info.dump, info.missing)),
            clock: holds.clock.then(|| Clock {
                anchor: None,
                // Formats in ns have 1 GHz.
                frequency: 0,
                ..info.clock.clone()
            }),
            unix: anchor
                .then(|| info.clock.unix_nanos(Ticks(first)))
                .flatten(),
            lines: if holds.lines {
                lines(info, events())
            } else {
                BTreeMap::new()
            },
            threads,
        }
    }
}

fn lines<'a>(
    info: &TraceInfo,
    events: impl Iterator<Item = &'a Event>,
) -> BTreeMap<String, (String, u32, bool)> {
    let called = events.filter_map(|event| match event {
        Event::Call(call) => info.function(call.function),
        _ => None,
    });
    let line = |function: &fdr_formats::Function| {
        let place = (function.file.clone(), function.line, function.untimed);
        (function.name.clone(), place)
    };
    called.map(line).collect()
}

fn time(event: &Event) -> Option<u64> {
    match event {
        Event::Call(call) => Some(call.time.0),
        Event::Cpu(time, _)
        | Event::Custom(time, ..)
        | Event::Typed(time, ..)
        | Event::Short(time, ..) => Some(*time),
        Event::Wall(..)
        | Event::Argument(_)
        | Event::Lost(_)
        | Event::Break(_)
        | Event::Note(..)
        | Event::Threshold(_) => None,
    }
}

/// Adds an event; a change to the CPU where the thread is already is none.
fn add(
    events: &mut Vec<PlainEvent>,
    cpu: &mut Option<u32>,
    event: &Event,
    info: &TraceInfo,
    first: u64,
) {
    let nanos = |time| info.clock.nanos(Ticks(time)).0;
    let since = |time: u64| nanos(time) - nanos(first);
    events.push(match event {
        Event::Call(call) => PlainEvent::Call {
            at: since(call.time.0),
            function: label(info, call.function),
            edge: call.edge,
            synthetic: call.synthetic,
            arguments: Vec::new(),
        },
        Event::Argument(value) => {
            let Some(PlainEvent::Call { arguments, .. }) = events.last_mut() else {
                panic!("an argument without its call");
            };
            return arguments.push(*value);
        }
        Event::Cpu(_, number) if *cpu == Some(*number) => return,
        Event::Cpu(time, number) => {
            *cpu = Some(*number);
            PlainEvent::Cpu(since(*time), *number)
        }
        Event::Wall(seconds, micros) => PlainEvent::Wall(*seconds, *micros),
        Event::Lost(records) => PlainEvent::Lost(*records),
        // What most formats make of it.
        Event::Break(_) => PlainEvent::Lost(0),
        // Only XRay has them: `xray_events`.
        Event::Short(..) | Event::Threshold(_) | Event::Note(..) => return,
        Event::Custom(time, cpu, data) => PlainEvent::Custom(since(*time), *cpu, data.clone()),
        Event::Typed(time, kind, data) => PlainEvent::Typed(since(*time), *kind, data.clone()),
    });
}

/// The function's name, or its number for people.
fn label(info: &TraceInfo, id: FunctionId) -> String {
    match info.function(id) {
        Some(function) if !function.name.is_empty() => function.name.clone(),
        _ => id.to_string(),
    }
}
