//! The fast path for our own folders: calls are read by the place of each field, for a hundred million
//! events. The metadata alone decides whether it may run. It must give the same as reading field by field.
//! It stops at each event that is no call.

use super::record::flags;
use super::schema::{Kind, Stream};
use super::types::{Field, Integer, Node, Role};
use crate::model::{Call, Edge, FunctionId, Ticks};

/// The places of a call's fields. All fields are little-endian and whole bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    entry: u8,
    exit: u8,
    /// The bytes in front of the text, from the event's start, if the call has a text. Else the bytes in
    /// front of the fields.
    context: usize,
    has_text: bool,
    /// Bytes from the fields' start.
    function: usize,
    flags: Option<usize>,
    /// Bytes of the fields.
    size: usize,
}

/// Bytes of an event's class and time.
const HEADER: usize = 9;

impl Plan {
    /// `None`: the class of streams is not one of this project.
    pub(super) fn new(stream: &Stream) -> Option<Plan> {
        let parts = [&stream.event_header, &stream.event_context];
        let fields = stream.events.iter().map(|event| &event.fields);
        let mut all = parts.into_iter().chain(fields).flatten();
        if all.any(|part| part.align() > 8) {
            return None;
        }
        let [id, time] = stream.event_header.as_ref()?.fields() else {
            return None;
        };
        let (id, time) = (plain(id)?, plain(time)?);
        if (id.size, id.role, time.size, time.role) != (8, Role::EventId, 64, Role::Clock) {
            return None;
        }
        let context = stream.event_context.as_ref().map_or(&[][..], Node::fields);
        let (text, numbers) = match context.split_last() {
            Some((last, numbers)) if matches!(last.node, Node::Text(_)) => (true, numbers),
            _ => (false, context),
        };
        let mut plan = Plan {
            entry: 0,
            exit: 0,
            context: HEADER + places(numbers)?.1,
            has_text: text,
            function: 0,
            flags: None,
            size: 0,
        };
        let (mut found, mut shapes) = ([false; 2], Vec::new());
        for (id, event) in stream.numbered() {
            // The exits of polls are few, and have one more field.
            if event
                .fields
                .as_ref()
                .is_some_and(|fields| fields.number("task_id").is_some())
            {
                continue;
            }
            let (class, function, bits) = match event.kind {
                Kind::Entry { function, flags } => (0, function, flags),
                Kind::Exit {
                    function: Some(function),
                    flags,
                } => (1, function, flags),
                Kind::Exit { function: None, .. } => return None,
                _ => continue,
            };
            if event.context.is_some() || std::mem::replace(&mut found[class], true) {
                return None;
            }
            let id = u8::try_from(id).ok()?;
            *[&mut plan.entry, &mut plan.exit][class] = id;
            shapes.push(shape(event.fields.as_ref()?, function, bits)?);
        }
        let [one, other] = shapes[..] else {
            return None;
        };
        (plan.function, plan.flags, plan.size) = one;
        (one == other).then_some(plan)
    }

    /// Takes calls from the front of whole events, up to `most` in the batch. Returns the bytes taken.
    pub(super) fn calls(&self, view: &[u8], batch: &mut Vec<Call>, most: usize) -> usize {
        let (mut used, mut name) = (0, &[][..]);
        while batch.len() < most {
            let rest = view.get(used..).unwrap_or(&[]);
            let Some([class, time @ ..]) = rest.first_chunk::<HEADER>() else {
                break;
            };
            if *class != self.entry && *class != self.exit {
                break;
            }
            let mut at = self.context;
            if self.has_text {
                let text = rest.get(at..).unwrap_or(&[]);
                // The name is usually the same in each event of a thread.
                if name.is_empty() || !text.starts_with(name) {
                    let Some(end) = text.iter().position(|byte| *byte == 0) else {
                        break;
                    };
                    name = &text[..=end];
                }
                at += name.len();
            }
            let Some(fields) = rest.get(at..at + self.size) else {
                break;
            };
            let function = fields
                .get(self.function..)
                .and_then(|rest| rest.first_chunk());
            let flags = self.flags.and_then(|place| fields.get(place)).copied();
            let flags = flags.unwrap_or(0);
            let edge = match *class == self.entry {
                true => Edge::Entry,
                false if flags & flags::TAIL_EXIT != 0 => Edge::TailExit,
                false => Edge::Exit,
            };
            batch.push(Call {
                time: Ticks(u64::from_le_bytes(*time)),
                function: FunctionId(function.map_or(0, |bytes| u32::from_le_bytes(*bytes))),
                edge,
                synthetic: flags & flags::SYNTHETIC != 0,
                has_arguments: flags & flags::ARGUMENTS != 0,
            });
            used += at + self.size;
        }
        used
    }
}

/// A number of whole bytes, little-endian, anywhere.
fn plain(field: &Field) -> Option<Integer> {
    match field.node {
        Node::Integer(integer) | Node::Enum(integer, _)
            if integer.size % 8 == 0 && integer.align <= 8 && !integer.big =>
        {
            Some(integer)
        }
        _ => None,
    }
}

/// A field's slot, type, and place in bytes.
type Placed = (usize, Integer, usize);

/// The place of each field, and the size of all.
fn places(fields: &[Field]) -> Option<(Vec<Placed>, usize)> {
    let (mut list, mut at) = (Vec::new(), 0);
    for field in fields {
        let integer = plain(field)?;
        list.push((integer.slot, integer, at));
        at += (integer.size / 8) as usize;
    }
    Some((list, at))
}

/// Places of function and flags, and the size of all fields.
fn shape(
    fields: &Node,
    function: usize,
    flags: Option<usize>,
) -> Option<(usize, Option<usize>, usize)> {
    let (list, size) = places(fields.fields())?;
    let place = |slot: usize, bits: u32| {
        let found = list.iter().find(|(known, ..)| *known == slot)?;
        (found.1.size == bits).then_some(found.2)
    };
    let flags = match flags {
        Some(slot) => Some(place(slot, 8)?),
        None => None,
    };
    (size > 0).then_some((place(function, 32)?, flags, size))
}
