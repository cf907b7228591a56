//! Notes from events of our own classes, by the descriptions among the facts.

use std::collections::HashMap;
use std::io;

use super::schema::{Event as Class, Kind};
use super::stream::Reader;
use super::types::{Integer, Node, Slot};
use crate::note_class::{NoteClass, Type, numbers};
use crate::note_values::{Value, join};
use crate::notes::{Note, NoteKind};

/// Descriptions, by the numbers of their classes.
pub(super) type Classes = HashMap<u64, NoteClass>;

/// A note's kind and body. `None`: the event is no note.
pub(super) type NoteResult = io::Result<Option<(NoteKind, Vec<u8>)>>;

/// The note in an event of that class.
pub(super) fn note(class: &Class, classes: &Classes, reader: &mut Reader<'_>) -> NoteResult {
    let none = Node::Struct {
        align: 1,
        fields: Vec::new(),
    };
    let fields = class.fields.as_ref().unwrap_or(&none);
    match class.kind {
        Kind::RawNote { kind, data } => raw(kind, data, reader),
        Kind::Note(kind) => of_kind(kind, fields, reader),
        _ => match classes.get(&class.id) {
            Some(class) => described(class, fields, reader),
            None => Ok(None),
        },
    }
}

/// The note in an event of a described class.
fn described(class: &NoteClass, fields: &Node, reader: &mut Reader<'_>) -> NoteResult {
    let is_known = !class.is_body() && class.kind().is_some_and(|kind| numbers(kind).is_empty());
    let Some(types) = class.types().filter(|_| is_known) else {
        return Ok(None);
    };
    let mut nodes = fields.fields().iter();
    let mut values = Vec::new();
    for of in types {
        if of == Type::Bytes {
            // Their number.
            nodes.next();
        }
        values.push(match (of, nodes.next().map(|field| &field.node)) {
            (Type::Text | Type::Bytes, Some(Node::Row { slot, .. } | Node::Text(slot))) => {
                Value::Bytes(reader.row(*slot)?.to_vec().into())
            }
            (
                _,
                Some(
                    Node::Integer(Integer { slot, .. })
                    | Node::Enum(Integer { slot, .. }, _)
                    | Node::Float { slot, .. },
                ),
            ) => {
                let number = reader.values.number(*slot);
                match of {
                    Type::Signed => Value::Signed(number as i64),
                    Type::Float => Value::Float(f64::from_bits(number)),
                    Type::Truth => Value::Unsigned((number != 0).into()),
                    _ => Value::Unsigned(number),
                }
            }
            _ => return Ok(None),
        });
    }
    Ok(join(class, &values))
}

/// The note in an event of one of the classes that every trace with notes has.
fn of_kind(known: NoteKind, fields: &Node, reader: &mut Reader<'_>) -> NoteResult {
    let value = |name: &str| {
        let slot = fields.number(name);
        slot.map_or(0, |slot| reader.values.number(slot))
    };
    let mut values = numbers(known).iter().map(|number| match number.size {
        8 => value(number.name),
        // The name of a field with an id ends so.
        4 => value(&format!("{}_id", number.name)) & u64::from(u32::MAX),
        _ => value(number.name) & u64::from(u8::MAX),
    });
    let note = Note::from_numbers(known, value("name_id") as u32, || values.next());
    Ok(note.and_then(|note| Some((known, note.encode()?))))
}

/// The note in an event that has its bytes.
fn raw(kind: Slot, data: Slot, reader: &mut Reader<'_>) -> NoteResult {
    let kind = NoteKind::from_number(reader.values.number(kind) as u8);
    let body = reader.row(data)?.to_vec();
    let is_note = kind.filter(|&kind| Note::decode(kind, &body).is_some());
    Ok(is_note.map(|kind| (kind, body)))
}
