//! The classes of a trace's streams and events, ready for reading: the fields of time, thread and function. It knows
//! LTTng's and this project's names, and the underscores that babeltrace2 puts in front of them.

use std::collections::HashMap;

use super::metadata::{LAYOUT_KEY, LAYOUT_VERSION};
use super::tsdl::types::{self, Metadata};
use super::types::{Compiler, Node, Root, Slot};
use crate::bytes::ByteOrder;
use crate::model::{Clock, NoteKind, Ticks};
use crate::scale;

/// The most bytes in front of a packet's first event.
const MAX_HEAD: u64 = 1024;

/// Everything that the reading of stream files needs.
#[derive(Debug, Default)]
pub(super) struct Schema {
    pub(super) big: bool,
    pub(super) uuid: Option<[u8; 16]>,
    pub(super) clock: Clock,
    pub(super) packet_header: Option<Node>,
    pub(super) head: HeaderSlots,
    pub(super) streams: Vec<Stream>,
    stream_of: HashMap<u64, usize>,
    /// Slots that the values of any event need.
    pub(super) slots: usize,
    /// This project wrote it: flags, facts and thread numbers have the meaning of `record`.
    pub(super) ours: bool,
    /// Some exits do not name their function.
    pub(super) bare_exits: bool,
    pub(super) program: String,
    /// Of the environment.
    pub(super) process: Option<u64>,
}

/// Fields of a packet's header.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeaderSlots {
    pub(super) magic: Option<Slot>,
    pub(super) uuid: Option<Slot>,
    pub(super) stream: Option<Slot>,
    pub(super) instance: Option<Slot>,
}

/// Fields of a packet's context.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ContextSlots {
    pub(super) begin: Option<Slot>,
    pub(super) content: Option<Slot>,
    pub(super) size: Option<Slot>,
    pub(super) sequence: Option<Slot>,
    pub(super) discarded: Option<Slot>,
    pub(super) cpu: Option<Slot>,
    pub(super) cpu_seen: Option<Slot>,
}

/// A class of streams.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) packet_context: Option<Node>,
    pub(super) packet: ContextSlots,
    pub(super) event_header: Option<Node>,
    pub(super) event_context: Option<Node>,
    pub(super) context: ThreadSlots,
    pub(super) events: Vec<Event>,
    event_of: HashMap<u64, usize>,
    /// It states functions and threads, as our own stream of facts does.
    pub(super) facts: bool,
}

/// Fields that state the thread of an event.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ThreadSlots {
    pub(super) thread: Option<Slot>,
    pub(super) process: Option<Slot>,
    pub(super) name: Option<Slot>,
}

/// A class of events.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) id: u64,
    pub(super) name: String,
    pub(super) context: Option<Node>,
    pub(super) fields: Option<Node>,
    pub(super) thread: ThreadSlots,
    pub(super) kind: Kind,
}

/// The meaning of an event for this reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Entry {
        function: Slot,
        flags: Option<Slot>,
    },
    Exit {
        function: Option<Slot>,
        flags: Option<Slot>,
    },
    Arguments {
        values: Slot,
        big: bool,
    },
    Custom {
        cpu: Slot,
        data: Slot,
    },
    Typed {
        kind: Slot,
        data: Slot,
    },
    Lost {
        records: Slot,
    },
    Wall {
        seconds: Slot,
        micros: Slot,
    },
    /// A note of that kind, by the names of its fields.
    Note(NoteKind),
    /// A note with its bytes.
    RawNote {
        kind: Slot,
        data: Slot,
    },
    Fact(Fact),
    /// The head of the packet already has all facts of this event.
    Head,
    /// A field with an unknown meaning.
    Other,
}

/// A kind of facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fact {
    Trace,
    Function,
    Thread,
    /// A class of notes.
    Class,
    /// A fact about the states of threads.
    Switch,
    Sample,
    Account,
    Module,
    /// An entry of the table of functions that has no calls.
    Name,
}

impl Schema {
    /// The schema of a metadata text. The error names the class of events that is not understood, and
    /// the reason.
    pub(super) fn new(metadata: &Metadata) -> Result<Schema, String> {
        let mut compiler = Compiler::new(metadata);
        let header = metadata.packet_header.as_ref();
        let packet_header = compiler
            .part(Root::PacketHeader, header)
            .map_err(|what| format!("the packets' header: {what}"))?;
        let ours = metadata.number(LAYOUT_KEY) == Some(LAYOUT_VERSION.into());
        bounded(packet_header.as_ref()).map_err(|what| format!("the packets' header: {what}"))?;
        let mut schema = Schema {
            big: metadata.order == ByteOrder::Big,
            uuid: metadata.uuid,
            // A trace of another program states the rate of a clock, and nothing else about its quality. Our own
            // traces have a fact for that.
            clock: Clock {
                constant: !ours && !metadata.clocks.is_empty(),
                ..clock(metadata)
            },
            head: packet_header
                .as_ref()
                .map_or_else(HeaderSlots::default, head),
            packet_header,
            streams: Vec::new(),
            stream_of: HashMap::new(),
            slots: 0,
            ours,
            bare_exits: false,
            program: metadata
                .text("program")
                .or(metadata.text("procname"))
                .unwrap_or("")
                .into(),
            process: metadata
                .number("vpid")
                .and_then(|process| u64::try_from(process).ok()),
        };
        let mut events: HashMap<u64, Vec<&types::Event>> = HashMap::new();
        for event in &metadata.events {
            events.entry(event.stream).or_default().push(event);
        }
        let none = types::Stream::default();
        // Without a stream block there is one class, without any facts.
        let alone = metadata.streams.is_empty().then_some(&none);
        for stream in metadata.streams.iter().chain(alone) {
            let events = events.remove(&stream.id).unwrap_or_default();
            schema.stream(&mut compiler, stream, &events)?;
        }
        schema.slots = compiler.slots;
        Ok(schema)
    }

    fn stream(
        &mut self,
        compiler: &mut Compiler<'_>,
        stream: &types::Stream,
        events: &[&types::Event],
    ) -> Result<(), String> {
        let id = stream.id;
        let fail = |part: &str, what| format!("{part} of stream class {id}: {what}");
        let packet_context = compiler
            .part(Root::PacketContext, stream.packet_context.as_ref())
            .map_err(|what| fail("the packets' context", what))?;
        bounded(packet_context.as_ref()).map_err(|what| fail("the packets' context", what))?;
        let event_header = compiler
            .part(Root::EventHeader, stream.event_header.as_ref())
            .map_err(|what| fail("the events' header", what))?;
        let event_context = compiler
            .part(Root::StreamContext, stream.event_context.as_ref())
            .map_err(|what| fail("the events' context", what))?;
        let mut made = Stream {
            packet: packet_context
                .as_ref()
                .map_or_else(ContextSlots::default, context),
            packet_context,
            event_header,
            context: threads(event_context.as_ref()),
            event_context,
            events: Vec::new(),
            event_of: HashMap::new(),
            facts: false,
        };
        for event in events {
            let fail = |what| format!("event class {:.80?}: {what}", event.name);
            let context = compiler.part(Root::EventContext, event.context.as_ref());
            let context = context.map_err(fail)?;
            let fields = compiler.part(Root::Fields, event.fields.as_ref());
            let fields = fields.map_err(fail)?;
            let kind = kind(&event.name, fields.as_ref(), self.ours);
            made.facts |= matches!(kind, Kind::Fact(_));
            self.bare_exits |= matches!(kind, Kind::Exit { function: None, .. });
            let place = made.events.len();
            made.event_of.entry(event.id).or_insert(place);
            made.events.push(Event {
                id: event.id,
                name: event.name.clone(),
                thread: threads(context.as_ref()),
                context,
                fields,
                kind,
            });
        }
        self.stream_of.entry(id).or_insert(self.streams.len());
        self.streams.push(made);
        Ok(())
    }

    /// The place of a class of streams; `None` in the packet: the only class.
    pub(super) fn stream_of(&self, id: Option<u64>) -> Option<usize> {
        match id {
            Some(id) => self.stream_of.get(&id).copied(),
            None => (self.streams.len() == 1).then_some(0),
        }
    }
}

impl Stream {
    /// The place of a class of events.
    pub(super) fn event_of(&self, id: u64) -> Option<usize> {
        self.event_of.get(&id).copied()
    }
}

/// The head of a packet. Damaged files are searched for it, so it must be quick at every place.
fn bounded(node: Option<&Node>) -> Result<(), String> {
    match node.map_or(Some(0), Node::most_bits) {
        Some(bits) if bits <= MAX_HEAD * 8 => Ok(()),
        Some(_) => Err(format!("longer than {MAX_HEAD} bytes")),
        None => Err("its size is not fixed, which is not supported".into()),
    }
}

/// Ticks and Unix time of the trace's first clock.
fn clock(metadata: &Metadata) -> Clock {
    let Some(declared) = metadata.clocks.first() else {
        return Clock::default();
    };
    let frequency = declared.frequency.unwrap_or(1_000_000_000);
    let nanos = |ticks| scale::nanos_between(Ticks(0), Ticks(ticks), frequency);
    let part = nanos(declared.offset.unsigned_abs()) * i128::from(declared.offset.signum());
    let offset = i128::from(declared.offset_seconds) * 1_000_000_000 + part;
    // If the clock's zero is before 1970, the first tick after 1970 is taken.
    let tick = if offset < 0 {
        scale::ticks_in(-offset, frequency) + 1
    } else {
        0
    };
    let tick = u64::try_from(tick).ok().filter(|_| offset != 0);
    let anchor = tick.and_then(|tick| {
        let unix = u64::try_from(offset + nanos(tick)).ok()?;
        Some((Ticks(tick), unix))
    });
    Clock {
        frequency,
        name: declared.name.clone(),
        anchor,
        ..Clock::default()
    }
}

fn head(node: &Node) -> HeaderSlots {
    HeaderSlots {
        magic: node.number("magic"),
        uuid: node.row("uuid", 8),
        stream: node.number("stream_id"),
        instance: node.number("stream_instance_id"),
    }
}

fn context(node: &Node) -> ContextSlots {
    ContextSlots {
        begin: node.number("timestamp_begin"),
        content: node.number("content_size"),
        size: node.number("packet_size"),
        sequence: node.number("packet_seq_num"),
        discarded: node.number("events_discarded"),
        cpu: node.number("cpu_id"),
        cpu_seen: node.number("cpu_seen"),
    }
}

fn threads(node: Option<&Node>) -> ThreadSlots {
    let Some(node) = node else {
        return ThreadSlots::default();
    };
    ThreadSlots {
        thread: node.number("vtid").or(node.number("tid")),
        process: node.number("vpid").or(node.number("pid")),
        name: node.row("procname", 8),
    }
}

fn kind(name: &str, fields: Option<&Node>, ours: bool) -> Kind {
    let none = Node::Struct {
        align: 1,
        fields: Vec::new(),
    };
    let fields = fields.unwrap_or(&none);
    let flags = if ours { fields.number("flags") } else { None };
    let known = match name {
        "lttng_ust_cyg_profile:func_entry" | "lttng_ust_cyg_profile_fast:func_entry" => fields
            .number("addr")
            .map(|function| Kind::Entry { function, flags }),
        "lttng_ust_cyg_profile:func_exit" | "lttng_ust_cyg_profile_fast:func_exit" => {
            let function = fields.number("addr");
            Some(Kind::Exit { function, flags })
        }
        _ if ours => own(name, fields),
        _ => None,
    };
    known.unwrap_or(Kind::Other)
}

fn own(name: &str, fields: &Node) -> Option<Kind> {
    Some(match name.strip_prefix("fdr:")? {
        "arguments" => Kind::Arguments {
            values: fields.row("values", 64)?,
            big: matches!(
                fields.fields().iter().find(|field| field.name == "values"),
                Some(super::types::Field { node: Node::Row { element, .. }, .. }) if element.big
            ),
        },
        "custom" => Kind::Custom {
            cpu: fields.number("cpu")?,
            data: fields.row("data", 8)?,
        },
        "typed" => Kind::Typed {
            kind: fields.number("type")?,
            data: fields.row("data", 8)?,
        },
        "lost" => Kind::Lost {
            records: fields.number("records")?,
        },
        "wall" => Kind::Wall {
            seconds: fields.number("seconds")?,
            micros: fields.number("micros")?,
        },
        "task" => Kind::Note(NoteKind::Task),
        "thread_state" => Kind::Note(NoteKind::ThreadState),
        "note" => Kind::RawNote {
            kind: fields.number("kind")?,
            data: fields.row("data", 8)?,
        },
        "class" => Kind::Fact(Fact::Class),
        "name" => Kind::Fact(Fact::Name),
        "switch" => Kind::Fact(Fact::Switch),
        "sample" => Kind::Fact(Fact::Sample),
        "account" => Kind::Fact(Fact::Account),
        "module" => Kind::Fact(Fact::Module),
        "head" => Kind::Head,
        "trace" => Kind::Fact(Fact::Trace),
        "function" => Kind::Fact(Fact::Function),
        "thread" => Kind::Fact(Fact::Thread),
        _ => return None,
    })
}
