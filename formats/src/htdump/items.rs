//! What a record means in the neutral vocabulary: a call or a mark with its thread and its time, and its
//! details. Both passes over a file make items here, so they must never see different items.

use std::fmt::Write as _;

use super::fields::Kind;
use super::klass::{TRACE_BITS, TRACE_NAMES, known};
use super::names::{FunctionMap, Naming};
use super::note_reader;
use super::scan::{Event, RecordContent, Tables, Walker};
use super::schema::{Label, Meaning};
use crate::bytes::ReadAt;
use crate::edges::{Details, Item, ItemContent};
use crate::error::Error;
use crate::escaped::{unescape, unescape_text};
use crate::facts::{self, Fact, Value};
use crate::model::{
    self, CpuId, Function, FunctionId, Mark, NoteKind, Thread, ThreadId, Ticks, TraceInfo,
};
use crate::sink::Sink;

/// The thread's number in the file, and the item of a record. `None`: the record is neither a call nor a
/// mark. Records without a thread are of thread 0, a number that HawkTracer never gives.
pub(super) fn item<'w>(
    event: &Event<'w>,
    function: impl FnOnce(Naming<'w>) -> FunctionId,
) -> Option<(u64, Item)> {
    let start = Ticks(event.header.time);
    let mut end = start;
    let (thread, what) = match &event.layout.meaning {
        Meaning::Call {
            duration,
            thread,
            label,
            flags,
            arguments,
        } => {
            end.0 = end.0.saturating_add(event.number(*duration));
            let naming = match *label {
                Label::None => Naming::Label(event.layout.name.as_bytes()),
                Label::Identifier(at) => Naming::Identifier(event.number(at)),
                Label::Text(at) => Naming::Label(event.bytes(at)),
            };
            let what = ItemContent::Span {
                function: function(naming),
                flags: flags.map_or(0, |at| event.number(at) as u8),
                cpu: None,
                exit_cpu: None,
                arguments: !arguments.is_empty(),
            };
            (event.number(*thread), what)
        }
        Meaning::Cpu => {
            let cpu = CpuId(event.named("cpu") as u32);
            (event.named("thread_id"), ItemContent::Cpu(cpu))
        }
        Meaning::Other => (event.named("thread_id"), ItemContent::Mark),
        Meaning::Wall | Meaning::Lost | Meaning::Custom | Meaning::Typed | Meaning::Note(_) => {
            let what = if event.named("inside") == 0 {
                ItemContent::MarkBefore
            } else {
                ItemContent::Mark
            };
            (event.named("thread_id"), what)
        }
        _ => return None,
    };
    let offset = event.offset;
    let item = Item {
        start,
        end,
        what,
        offset,
    };
    Some((thread, item))
}

/// Whether the time of the record comes from the program. Other marks have no time of their own: they get the time of
/// their thread, or no time.
pub(super) fn is_timed(meaning: &Meaning) -> bool {
    use Meaning as M;
    matches!(
        meaning,
        M::Call { .. } | M::Cpu | M::Custom | M::Typed | M::Note(_)
    )
}

/// Gives the arguments of calls, and the marks. It reads them from their places.
pub(super) struct Lookup<'f> {
    walker: Walker<'f>,
    tables: &'f Tables,
    ties: &'f FunctionMap,
    text: String,
}

impl<'f> Lookup<'f> {
    pub(super) fn new(
        file: &'f dyn ReadAt,
        tables: &'f Tables,
        ties: &'f FunctionMap,
    ) -> Lookup<'f> {
        // Items are in order of time, records in order of completion. So places are near, but back and
        // forth.
        const WINDOW: usize = 32 * 1024;
        Lookup {
            walker: Walker::new(file, WINDOW),
            tables,
            ties,
            text: String::new(),
        }
    }
}

impl Details for Lookup<'_> {
    fn push(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error> {
        if let RecordContent::Event(event) = self.walker.at(item.offset, self.tables)? {
            match &event.layout.meaning {
                Meaning::Call { arguments, .. } => {
                    for &at in arguments {
                        let value = event.number(at);
                        sink.mark(&Mark::Argument { value });
                    }
                }
                _ => mark(&event, self.ties, &mut self.text, sink),
            }
        }
        Ok(())
    }
}

/// The note in a record, if it is one and is not damaged.
pub(super) fn note(event: &Event<'_>, ties: &FunctionMap) -> Option<(NoteKind, Vec<u8>)> {
    match &event.layout.meaning {
        Meaning::Note(class) => note_reader::note(event, class, |id| {
            let function = ties.identifiers.at(event.offset, id.into());
            function.map_or(id, |function| function.0)
        }),
        _ => None,
    }
}

fn mark(event: &Event<'_>, ties: &FunctionMap, text: &mut String, sink: &mut dyn Sink) {
    let time = Ticks(event.header.time);
    if let Some((kind, body)) = note(event, ties) {
        let body = &body;
        return sink.mark(&Mark::Note { time, kind, body });
    }
    match event.layout.meaning {
        Meaning::Wall => sink.mark(&Mark::Wall {
            seconds: event.named("seconds"),
            micros: event.named("micros").min(999_999) as u32,
        }),
        Meaning::Lost => {
            let records = event.named("records");
            sink.mark(&Mark::missing(records, time));
        }
        Meaning::Custom => {
            let cpu = CpuId(event.named("cpu") as u32);
            sink.mark(&Mark::Custom {
                time,
                cpu: (event.named("known") & known::CPU != 0).then_some(cpu),
                data: &unescape(event.text("payload")),
            });
        }
        Meaning::Typed => sink.mark(&Mark::Typed {
            time,
            kind: event.named("kind") as u16,
            data: &unescape(event.text("payload")),
        }),
        _ => {
            text.clear();
            text.push_str(&event.layout.name);
            describe(event, text);
            sink.mark(&Mark::Custom {
                time,
                cpu: None,
                data: text.as_bytes(),
            });
        }
    }
}

/// Appends ` field=value` for each field of a record. Names longer than any program's are left out,
/// because a record of 20 bytes can have 1024 of them.
pub(super) fn describe(event: &Event<'_>, text: &mut String) {
    const MAX_NAMES: usize = 16 * 1024;
    let mut names = 0;
    for (at, place) in event.layout.places.iter().enumerate() {
        names += place.name.len();
        if names > MAX_NAMES {
            text.push_str(" …");
            return;
        }
        let bytes = event.bytes(at);
        let number = event.number(at);
        let _ = write!(text, " {}=", place.name);
        let _ = match place.kind {
            Kind::Unsigned => write!(text, "{number}"),
            Kind::Signed => write!(text, "{}", number as i64),
            Kind::Pointer => write!(text, "0x{number:x}"),
            Kind::Float => write!(text, "{}", f32::from_bits(number as u32)),
            Kind::Double => write!(text, "{}", f64::from_bits(number)),
            Kind::Text => write!(text, "{:?}", String::from_utf8_lossy(bytes)),
            Kind::Opaque => {
                text.push_str("0x");
                bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}"))
            }
        };
    }
}

/// The facts of the trace in our klass.
pub(super) fn trace(event: &Event<'_>, info: &mut TraceInfo) {
    let bits = event.named("known");
    for &(fact, name) in TRACE_NAMES {
        let bit = TRACE_BITS.iter().find(|(known, _)| *known == fact);
        if bit.is_some_and(|(_, bit)| bits & bit == 0) {
            continue;
        }
        let text;
        let value = match fact {
            fact if fact.is_text() => {
                text = unescape_text(event.text(name));
                Value::Text(&text)
            }
            Fact::ErrorPpm => Value::Float(f64::from_bits(event.named(name))),
            _ => Value::Number(event.named(name)),
        };
        fact.set(info, value);
    }
    info.clock.constant = bits & known::CONSTANT != 0;
    info.clock.nonstop = bits & known::NONSTOP != 0;
}

/// The moment of the dump, if our klass states it.
pub(super) fn end(event: &Event<'_>) -> Option<Ticks> {
    let is_known = event.named("known") & known::END != 0;
    is_known.then(|| Ticks(event.named("end_time")))
}

/// The facts of a thread in our klass: its number in the file, and the thread.
pub(super) fn thread(event: &Event<'_>) -> (u64, Thread) {
    let bits = event.named("known");
    let counts = facts::counts_of(|name| event.named(name));
    let thread = Thread {
        id: ThreadId(event.named("thread")),
        process: (bits & known::PROCESS != 0).then(|| event.named("process")),
        name: unescape_text(event.text("thread_name")),
        counts: (bits & known::COUNTS != 0).then_some(counts),
        totals: Vec::new(),
        early_calls: Vec::new(),
    };
    (event.named("thread_id"), thread)
}

/// The facts of a function in our klass: its identifier in the file, and the function.
pub(super) fn function(event: &Event<'_>) -> (u64, Function) {
    let bits = event.named("known");
    let kind = match (bits & known::EVENT, bits & known::NAME) {
        (0, 0) => model::FunctionKind::Calls,
        (_, 0) => model::FunctionKind::Event,
        _ => model::FunctionKind::Name,
    };
    let function = Function {
        id: FunctionId(event.named("function") as u32),
        name: unescape_text(event.text("function_name")),
        file: unescape_text(event.text("file")),
        line: event.named("line") as u32,
        untimed: false,
        kind,
    };
    (event.named("identifier"), function)
}
