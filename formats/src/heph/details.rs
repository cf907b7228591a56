//! The details of a call or a mark: its attributes, read from the file when its turn comes.

use std::fmt::Write as _;

use super::decoder_state::{GAP, RECORDS_PER_EVENT};
use super::facts::{self, Gathered, Meaning, OwnEvent, Payload};
use super::index::Index;
use super::notes::{self, MAX_NOTE};
use super::record::{Attribute, Event, MAX_PAYLOAD, Value};
use super::scan::Packets;
use crate::bytes::ReadAt;
use crate::edges::{Details, Item, ItemContent};
use crate::error::Error;
use crate::function_numbers::FunctionNumbers;
use crate::model::{CpuId, Mark, NoteKind, Ticks};
use crate::sink::Sink;

/// Reads the details of an item.
pub(super) struct Attributes<'a> {
    packets: Packets<'a>,
    ours: Option<u64>,
    renumbered: &'a FunctionNumbers,
    text: String,
}

impl Details for Attributes<'_> {
    fn push(&mut self, item: &Item, sink: &mut dyn Sink) -> Result<(), Error> {
        if item.what == ItemContent::Mark && item.offset & GAP != 0 {
            let records = (item.offset & !GAP) * RECORDS_PER_EVENT;
            sink.mark(&Mark::Lost { records });
            return Ok(());
        }
        let Some((event, size)) = self.packets.event(item.offset)? else {
            return Ok(());
        };
        let next = item.offset.saturating_add(size);
        let key = facts::event_key(event.stream, event.counter);
        match facts::own(&event).filter(|_| item.what == ItemContent::Mark) {
            Some(own @ (OwnEvent::Custom | OwnEvent::Typed)) => {
                let number = match own {
                    OwnEvent::Custom => facts::optional(&event, "cpu"),
                    _ => facts::optional(&event, "kind"),
                };
                let mut payload = Payload::default();
                payload.add(&event);
                if payload.is_cut() {
                    self.further(next, key, |event| {
                        payload.add(event);
                        // An escaped byte has three.
                        payload.is_cut() && payload.data.len() < 3 * MAX_PAYLOAD
                    })?;
                }
                payload.unescape();
                push_payload(own, number, payload, item, sink);
            }
            Some(OwnEvent::Note) => {
                self.text.clear();
                let first = facts::attributes(&event);
                first.for_each(|attribute| describe(&mut self.text, &attribute, usize::MAX));
                let (time, cpu) = (item.start, None);
                match self.note(item.offset)? {
                    Some((kind, body)) => {
                        let body = &body;
                        sink.mark(&Mark::Note { time, kind, body });
                    }
                    None => {
                        let data = self.text.as_bytes();
                        sink.mark(&Mark::Custom { time, cpu, data });
                    }
                }
            }
            Some(own) => mark(&event, own, item.start, sink),
            None if item.what == ItemContent::Mark => {}
            None => {
                let ours = self.ours.is_some_and(|first| item.offset >= first);
                if arguments(&event, item, ours, &mut self.text, sink) {
                    self.further(next, key, |event| {
                        further_arguments(event, sink);
                        true
                    })?;
                }
            }
        }
        Ok(())
    }
}

impl<'a> Attributes<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt, index: &'a Index) -> Attributes<'a> {
        Attributes {
            packets: Packets::new(bytes),
            ours: index.ours,
            renumbered: &index.renumbered,
            text: String::new(),
        }
    }

    /// The note that begins at that place. `None`: it is damaged.
    pub(super) fn note(&mut self, offset: u64) -> Result<Option<(NoteKind, Vec<u8>)>, Error> {
        let mut gathered = Gathered::default();
        let Some((event, size)) = self.packets.event(offset)? else {
            return Ok(None);
        };
        let key = facts::event_key(event.stream, event.counter);
        if gathered.add(&event, 0, MAX_NOTE) {
            let next = offset.saturating_add(size);
            self.further(next, key, |event| gathered.add(event, 1, MAX_NOTE))?;
        }
        Ok(notes::note(&gathered, |number| {
            let function = self.renumbered.at(offset, number.into());
            function.map_or(number, |function| function.0)
        }))
    }

    /// Gives the `fdr:more` events of the event `key` that stand here, as long as `take` wants more.
    fn further(
        &mut self,
        mut offset: u64,
        key: u64,
        mut take: impl FnMut(&Event<'_>) -> bool,
    ) -> Result<(), Error> {
        while let Some((event, size)) = self.packets.event(offset)? {
            let more = facts::own(&event) == Some(OwnEvent::More);
            if !more || facts::continued(&event) != Some(key) || !take(&event) {
                break;
            }
            offset = offset.saturating_add(size);
        }
        Ok(())
    }
}

fn mark(event: &Event<'_>, own: OwnEvent, time: Ticks, sink: &mut dyn Sink) {
    let number = |name| facts::number(event, name);
    match own {
        OwnEvent::Wall => sink.mark(&Mark::Wall {
            seconds: number("seconds"),
            micros: u32::try_from(number("micros")).unwrap_or(0),
        }),
        OwnEvent::Lost => sink.mark(&Mark::missing(number("records"), time)),
        OwnEvent::Custom
        | OwnEvent::Typed
        | OwnEvent::Trace
        | OwnEvent::Function
        | OwnEvent::Thread
        | OwnEvent::More
        | OwnEvent::Note => {}
    }
}

fn push_payload(
    own: OwnEvent,
    number: Option<u64>,
    payload: Payload,
    item: &Item,
    sink: &mut dyn Sink,
) {
    let (mut data, time) = (payload.data, item.start);
    data.truncate(MAX_PAYLOAD);
    sink.mark(&match own {
        OwnEvent::Custom => Mark::Custom {
            time,
            cpu: number.and_then(|cpu| u32::try_from(cpu).ok()).map(CpuId),
            data: &data,
        },
        _ => Mark::Typed {
            time,
            kind: number
                .and_then(|kind| u16::try_from(kind).ok())
                .unwrap_or(0),
            data: &data,
        },
    });
}

/// The arguments of a call that are in an `fdr:more` event.
fn further_arguments(event: &Event<'_>, sink: &mut dyn Sink) {
    for attribute in facts::attributes(event) {
        if let Meaning::Argument(value) = facts::meaning(&attribute) {
            sink.mark(&Mark::Argument { value });
        }
    }
}

/// The arguments of a call. In traces of other programs, integers are arguments too, in order, and all
/// attributes become the text of a custom event, such as `id=7 name="relay"`. Returns whether `fdr:more`
/// events have arguments.
fn arguments(
    event: &Event<'_>,
    item: &Item,
    ours: bool,
    text: &mut String,
    sink: &mut dyn Sink,
) -> bool {
    text.clear();
    let mut further = false;
    for attribute in facts::attributes(event) {
        let meaning = if ours {
            facts::meaning(&attribute)
        } else {
            Meaning::Foreign
        };
        match meaning {
            Meaning::Argument(value) => sink.mark(&Mark::Argument { value }),
            Meaning::Foreign => {
                match attribute.value {
                    Value::Unsigned(value) => sink.mark(&Mark::Argument { value }),
                    Value::Signed(value) => {
                        let value = value as u64;
                        sink.mark(&Mark::Argument { value });
                    }
                    _ => {}
                }
                if text.len() < MAX_PAYLOAD {
                    describe(text, &attribute, usize::MAX);
                }
            }
            Meaning::Flags(flags) => further |= flags & facts::FURTHER != 0,
            Meaning::Function(_) | Meaning::Cpu(_) | Meaning::ExitCpu(_) => {}
        }
    }
    if !text.is_empty() {
        sink.mark(&Mark::Custom {
            time: item.start,
            cpu: None,
            data: text.as_bytes(),
        });
    }
    further
}

/// Adds `name=value` to a line, with at most `most` values of an array.
pub(super) fn describe(line: &mut String, attribute: &Attribute<'_>, most: usize) {
    if !line.is_empty() {
        line.push(' ');
    }
    let Attribute { name, value } = attribute;
    let name = String::from_utf8_lossy(name);
    let plain = |letter: char| letter.is_alphanumeric() || "_-.:".contains(letter);
    let _ = if !name.is_empty() && name.chars().all(plain) {
        write!(line, "{name}=")
    } else {
        write!(line, "{name:?}=")
    };
    let _ = match *value {
        Value::Unsigned(value) => write!(line, "{value}"),
        Value::Signed(value) => write!(line, "{value}"),
        Value::Float(value) => write!(line, "{value:?}"),
        Value::Text(text) => write!(line, "{:?}", String::from_utf8_lossy(text)),
        Value::Unsigneds(values) => list(line, values.iter().len(), values.iter(), most),
        Value::Signeds(values) => {
            let signed = values.iter().map(|value| value as i64);
            list(line, values.iter().len(), signed, most)
        }
        Value::Floats(values) => {
            let floats = values.iter().map(f64::from_bits);
            list(line, values.iter().len(), floats, most)
        }
        Value::Texts(texts) => {
            let texts_shown = texts.iter().map(String::from_utf8_lossy);
            list(line, texts.len(), texts_shown, most)
        }
    };
}

fn list<T: std::fmt::Debug>(
    line: &mut String,
    count: usize,
    values: impl Iterator<Item = T>,
    most: usize,
) -> std::fmt::Result {
    line.push('[');
    for (at, value) in values.take(most).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        write!(line, "{separator}{value:?}")?;
    }
    if let Some(more @ 1..) = count.checked_sub(most) {
        write!(line, ", … {more} more")?;
    }
    line.push(']');
    Ok(())
}
