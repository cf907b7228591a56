//! Perfetto's own format: a list of packets. Calls are slices of their thread's track. Flows join a task's polls.
//! Counters have tracks of their own. The states of threads are written as context switches of Linux's ftrace, so that
//! Perfetto shows them as for any other program. Packets are written as the trace is read; Perfetto sorts them by time.
//!
//! Source of the messages: `protos/perfetto/trace/` of github.com/google/perfetto. Each has the fields that are used.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use fdr_formats::model::State;
use fdr_formats::{FunctionId, Losses, ThreadId};
use prost::Message;

use super::facts::{Facts, Lane};
use super::perfetto_messages::{
    Annotation, Bundle, Clock, ClockSnapshot, CounterDescriptor, EventName, FtraceEvent, Interned,
    Packet, ProcessDescriptor, SchedSwitch, SourceLocation, ThreadDescriptor, Trace,
    TrackDescriptor, TrackEvent, kind,
};
use super::receiver::{Happening, HappeningKind, ReceivedCall, Receiver, UnrecordedCalls};
use super::value::{Value, Values};
use super::{Capabilities, Export, Make, Out, target};

/// The format.
pub(super) const EXPORT: Export = Export {
    target: target("perfetto", "Perfetto", "perfetto-trace"),
    holds: Capabilities {
        cpus: false,
        sums: false,
        ..Capabilities::ALL
    },
    make: Make::Calls(|out, facts| Ok(Box::new(Packets::new(out, facts)?))),
};

/// The sequence of all packets: numbers of names are valid in it.
const SEQUENCE: u32 = 1;
/// Numbers of names are forgotten before this packet.
const CLEARED: u32 = 1;
/// The packet uses numbers of names.
const NEEDED: u32 = 2;
/// The system's clocks, as Perfetto numbers them.
const REALTIME: u32 = 1;
const BOOTTIME: u32 = 6;
/// The track of the process.
const PROCESS: u64 = 1;
/// Tracks of threads and of counters come from here on.
const THREADS: u64 = 0x1_0000_0000;
const COUNTERS: u64 = 0x2_0000_0000;

struct Packets {
    out: Out,
    facts: Arc<Facts>,
    names: HashMap<Option<FunctionId>, u64>,
    /// Tracks of counters, by thread and name.
    counters: HashMap<(usize, String), u64>,
    /// Counters whose value is no number.
    texts: u64,
}

impl Packets {
    fn new(out: Out, facts: &Arc<Facts>) -> io::Result<Packets> {
        let mut packets = Packets {
            out,
            facts: facts.clone(),
            names: HashMap::new(),
            counters: HashMap::new(),
            texts: 0,
        };
        let mut clocks = vec![Clock {
            clock_id: BOOTTIME,
            timestamp: facts.start_ns(),
        }];
        clocks.extend(facts.start_unix_ns().map(|timestamp| Clock {
            clock_id: REALTIME,
            timestamp,
        }));
        packets.put(Packet {
            sequence_flags: CLEARED,
            clock_snapshot: Some(ClockSnapshot { clocks }),
            ..packets.packet(0)
        })?;
        packets.put(Packet {
            track_descriptor: Some(TrackDescriptor {
                uuid: PROCESS,
                process: Some(ProcessDescriptor {
                    pid: facts.process() as i32,
                    process_name: facts.title(),
                }),
                ..TrackDescriptor::default()
            }),
            ..packets.packet(0)
        })?;
        packets.switches()?;
        Ok(packets)
    }

    /// A packet of that moment.
    fn packet(&self, at: u64) -> Packet {
        Packet {
            timestamp: self.facts.start_ns().saturating_add(at),
            trusted_packet_sequence_id: SEQUENCE,
            sequence_flags: NEEDED,
            ..Packet::default()
        }
    }

    /// Writes the packet as a `Trace` message of one packet. Concatenated `Trace` messages are one trace.
    fn put(&mut self, packet: Packet) -> io::Result<()> {
        let packet = vec![packet];
        self.out.write_all(&Trace { packet }.encode_to_vec())
    }

    fn event(&mut self, at: u64, event: TrackEvent, interned: Option<Interned>) -> io::Result<()> {
        let packet = Packet {
            track_event: Some(event),
            interned_data: interned,
            ..self.packet(at)
        };
        self.put(packet)
    }

    /// The number of a function's name and place, and both if they are new.
    fn name(&mut self, function: Option<FunctionId>) -> (u64, Option<Interned>) {
        if let Some(&known) = self.names.get(&function) {
            return (known, None);
        }
        let iid = self.names.len() as u64 + 1;
        self.names.insert(function, iid);
        let name = function.map_or("[short]".to_owned(), |id| self.facts.name(id));
        let place = function.and_then(|id| self.facts.place(id));
        let place = place.map(|(file, line)| SourceLocation {
            iid,
            file_name: file.to_owned(),
            function_name: name.clone(),
            line_number: line,
        });
        let interned = Interned {
            event_names: vec![EventName { iid, name }],
            source_locations: place.into_iter().collect(),
        };
        (iid, Some(interned))
    }

    fn begin(
        &mut self,
        lane: &Lane,
        function: Option<FunctionId>,
        at: u64,
        annotations: Vec<Annotation>,
    ) -> io::Result<()> {
        let (iid, interned) = self.name(function);
        let place = function.and_then(|id| self.facts.place(id));
        let event = TrackEvent {
            kind: kind::BEGIN,
            track_uuid: track(lane),
            name_iid: iid,
            source_location_iid: place.map_or(0, |_| iid),
            debug_annotations: annotations,
            ..TrackEvent::default()
        };
        self.event(at, event, interned)
    }

    fn end(&mut self, lane: &Lane, at: u64, debug_annotations: Vec<Annotation>) -> io::Result<()> {
        let event = TrackEvent {
            kind: kind::END,
            track_uuid: track(lane),
            debug_annotations,
            ..TrackEvent::default()
        };
        self.event(at, event, None)
    }

    fn counter(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let Some((_, value)) = what.values.iter().next() else {
            return Ok(());
        };
        let (whole, float) = match *value {
            Value::Unsigned(number) => match i64::try_from(number) {
                Ok(number) => (Some(number), None),
                Err(_) => (None, Some(number as f64)),
            },
            Value::Signed(number) => (Some(number), None),
            Value::Float(number) => (None, Some(number)),
            Value::Truth(truth) => (Some(truth.into()), None),
            Value::Text(_) => {
                self.texts += 1;
                return Ok(());
            }
        };
        let next = COUNTERS + self.counters.len() as u64;
        let key = (lane.at, what.name.to_owned());
        let uuid = *self.counters.entry(key).or_insert(next);
        if uuid == next {
            self.put(Packet {
                track_descriptor: Some(TrackDescriptor {
                    uuid,
                    name: what.name.to_owned(),
                    parent_uuid: track(lane),
                    counter: Some(CounterDescriptor {}),
                    ..TrackDescriptor::default()
                }),
                ..self.packet(0)
            })?;
        }
        let event = TrackEvent {
            kind: kind::COUNTER,
            track_uuid: uuid,
            counter_value: whole,
            double_counter_value: float,
            ..TrackEvent::default()
        };
        self.event(what.at, event, None)
    }

    /// The context switches of all threads, of each CPU in the order of time.
    fn switches(&mut self) -> io::Result<()> {
        let facts = self.facts.clone();
        let Some(states) = &facts.states else {
            return Ok(());
        };
        let mut edges = Vec::new();
        for thread in states.threads() {
            let mut stays = states.between(thread, facts.start, facts.end).peekable();
            while let Some(stay) = stays.next() {
                let (Some(State::Running), Some(cpu)) = (stay.state, stay.cpu) else {
                    continue;
                };
                let next = stays.peek().and_then(|next| next.state);
                edges.push((cpu.0, stay.from, true, thread, None));
                if stay.until < facts.end {
                    edges.push((cpu.0, stay.until, false, thread, next));
                }
            }
        }
        // On a CPU, a thread leaves before the next one comes.
        edges.sort_by_key(|&(cpu, time, enters, ..)| (cpu, time, enters));
        let mut edges = edges.into_iter().peekable();
        while let Some((cpu, time, enters, thread, next)) = edges.next() {
            let other =
                edges.next_if(|&(other, at, comes, ..)| (other, at, comes) == (cpu, time, !enters));
            let other = other.map(|(.., thread, _)| thread);
            let (from, to) = match enters {
                true => (other, Some(thread)),
                false => (Some(thread), other),
            };
            let event = FtraceEvent {
                timestamp: facts.start_ns().saturating_add(facts.ns(time)),
                pid: number(from) as u32,
                sched_switch: Some(SchedSwitch {
                    prev_comm: self.comm(from),
                    prev_pid: Some(number(from)),
                    prev_prio: 120,
                    // Whether it would run on, or sleeps.
                    prev_state: Some(i64::from(next != Some(State::Preempted))),
                    next_comm: self.comm(to),
                    next_pid: Some(number(to)),
                    next_prio: 120,
                }),
            };
            let bundle = Bundle {
                cpu: Some(cpu),
                event: vec![event],
            };
            self.put(Packet {
                ftrace_events: Some(bundle),
                ..Packet::default()
            })?;
        }
        Ok(())
    }

    fn comm(&self, thread: Option<ThreadId>) -> String {
        let Some(id) = thread else {
            return "swapper".to_owned();
        };
        let mut threads = self.facts.info.threads.iter();
        let thread = threads.find(|thread| thread.id == id);
        thread.map_or(String::new(), |thread| thread.name.clone())
    }
}

/// A thread's number; 0 for a CPU that runs none of the trace.
fn number(thread: Option<ThreadId>) -> i32 {
    thread.map_or(0, |id| i32::try_from(id.0).unwrap_or(i32::MAX))
}

fn track(lane: &Lane) -> u64 {
    THREADS + lane.at as u64
}

fn annotations(values: &Values) -> Vec<Annotation> {
    let annotation = |(name, value): (&str, &Value)| {
        let mut annotation = Annotation {
            name: name.to_owned(),
            ..Annotation::default()
        };
        match value {
            Value::Unsigned(number) => annotation.uint_value = Some(*number),
            Value::Signed(number) => annotation.int_value = Some(*number),
            Value::Float(number) => annotation.double_value = Some(*number),
            Value::Truth(truth) => annotation.bool_value = Some(*truth),
            Value::Text(text) => annotation.string_value = Some(text.clone()),
        }
        annotation
    };
    values.iter().map(annotation).collect()
}

impl Receiver for Packets {
    fn thread(&mut self, lane: &Lane) -> io::Result<()> {
        let packet = Packet {
            track_descriptor: Some(TrackDescriptor {
                uuid: track(lane),
                parent_uuid: PROCESS,
                thread: Some(ThreadDescriptor {
                    pid: lane.process as i32,
                    tid: lane.number as i32,
                    thread_name: lane.name.clone(),
                }),
                ..TrackDescriptor::default()
            }),
            ..self.packet(0)
        };
        self.put(packet)
    }

    fn entered(&mut self, lane: &Lane, function: FunctionId, at: u64) -> io::Result<()> {
        self.begin(lane, Some(function), at, Vec::new())
    }

    fn left(&mut self, lane: &Lane, call: &ReceivedCall<'_>) -> io::Result<()> {
        let mut all = annotations(call.arguments);
        if call.clipped {
            all.push(Annotation {
                name: "clipped".to_owned(),
                bool_value: Some(true),
                ..Annotation::default()
            });
        }
        self.end(lane, call.at, all)
    }

    fn short(&mut self, lane: &Lane, short: &UnrecordedCalls) -> io::Result<()> {
        let calls = Annotation {
            name: "calls".to_owned(),
            uint_value: Some(short.calls),
            ..Annotation::default()
        };
        self.begin(lane, None, short.from, vec![calls])?;
        self.end(lane, short.until, Vec::new())
    }

    fn happened(&mut self, lane: &Lane, what: &Happening<'_>) -> io::Result<()> {
        let track_uuid = match what.what {
            HappeningKind::Cpu => return Ok(()),
            HappeningKind::Counter => return self.counter(lane, what),
            HappeningKind::Moment => PROCESS,
            _ => track(lane),
        };
        let (flow_ids, terminating_flow_ids) = match what.what {
            HappeningKind::Task { id, ended: false } => (vec![id], Vec::new()),
            HappeningKind::Task { id, ended: true } => (Vec::new(), vec![id]),
            _ => (Vec::new(), Vec::new()),
        };
        let event = TrackEvent {
            kind: kind::INSTANT,
            track_uuid,
            name: what.name.to_owned(),
            categories: vec![what.what.word().to_owned()],
            debug_annotations: annotations(what.values),
            flow_ids,
            terminating_flow_ids,
            ..TrackEvent::default()
        };
        self.event(what.at, event, None)
    }

    fn losses(&self, losses: &mut Losses) {
        losses.add(
            "values of counters that are no numbers: left out",
            self.texts,
        );
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.out.flush()
    }
}
