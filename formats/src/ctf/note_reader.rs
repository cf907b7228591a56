//! Notes from events of our own classes, by the descriptions among the facts.

use std::collections::HashMap;
use std::io;

use super::schema::{Event as Class, Kind};
use super::stream::Reader;
use super::types::{Field as Typed, Node, Slot};
use crate::note_class::{NoteClass, is_cut, is_string, kind, numbers};
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
    let has_fields = matches!(
        class.kind(),
        Some(NoteKind::Event | NoteKind::Arguments) if !class.is_body()
    );
    Ok(match has_fields {
        true => values(class, fields, reader)?.and_then(|values| join(class, &values)),
        false => None,
    })
}

/// The values of such an event, in their order. `None`: it has no such values.
fn values(
    class: &NoteClass,
    fields: &Node,
    reader: &mut Reader<'_>,
) -> io::Result<Option<Vec<Value<'static>>>> {
    let mut nodes = fields.fields().iter();
    let mut values = Vec::new();
    if class.first_field() > 0 {
        values.push(next(&mut nodes, reader).map(Value::Unsigned));
    }
    for &field in &class.fields {
        if !matches!(kind(field), 4 | 5) {
            let number = next(&mut nodes, reader);
            values.push(number.map(|number| match kind(field) {
                1 => Value::Signed(number as i64),
                2 => Value::Float(f64::from_bits(number)),
                3 => Value::Unsigned((number != 0).into()),
                _ => Value::Unsigned(number),
            }));
            continue;
        }
        if !is_string(field) && next(&mut nodes, reader).is_none() {
            return Ok(None);
        }
        if is_cut(field) {
            values.push(next(&mut nodes, reader).map(Value::Unsigned));
        }
        values.push(match nodes.next().map(|field| &field.node) {
            Some(Node::Row { slot, .. } | Node::Text(slot)) => {
                Some(Value::Bytes(reader.row(*slot)?.to_vec().into()))
            }
            _ => None,
        });
    }
    Ok(values.into_iter().collect())
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

/// The number in the next field.
fn next(nodes: &mut std::slice::Iter<'_, Typed>, reader: &Reader<'_>) -> Option<u64> {
    match nodes.next()?.node {
        Node::Integer(integer) | Node::Enum(integer, _) => Some(integer.slot),
        Node::Float { slot, .. } => Some(slot),
        _ => None,
    }
    .map(|slot| reader.values.number(slot))
}
