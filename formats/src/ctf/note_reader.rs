//! Notes from events of our own classes, by the descriptions among the facts.

use std::collections::HashMap;
use std::io;

use super::schema::{Event as Class, Kind};
use super::stream::Reader;
use super::types::{Field as Typed, Node, Slot};
use crate::note_class::{NoteClass, is_cut, is_string, kind, place};
use crate::notes::{Field, FieldValue, Note, NoteKind};

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
    let mut nodes = fields.fields().iter();
    let span = match class.has_span() {
        true => next(&mut nodes, reader),
        false => Some(0),
    };
    let Some(span) = span else { return Ok(None) };
    let mut values = Vec::new();
    for &field in &class.fields {
        let is_text = matches!(kind(field), 4 | 5);
        let mut number = match is_text && is_string(field) {
            true => None,
            false => next(&mut nodes, reader),
        };
        let mut text = Vec::new();
        if is_text {
            if is_cut(field) {
                number = next(&mut nodes, reader);
            }
            let node = nodes.next().map(|field| &field.node);
            let Some(Node::Row { slot, .. } | Node::Text(slot)) = node else {
                return Ok(None);
            };
            text = reader.row(*slot)?.to_vec();
            if !is_cut(field) {
                number = Some(text.len() as u64);
            }
        }
        let Some(number) = number else {
            return Ok(None);
        };
        values.push((field, number, text));
    }
    let fields = values.iter().map(|(about, number, text)| {
        let value = value(kind(*about), *number, text)?;
        let (name, place) = (*about as u32, place(*about));
        Some(Field { name, place, value })
    });
    let Some(fields) = fields.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let note = match class.kind() {
        Some(NoteKind::Event) => Note::Event {
            name: (class.event >> 32) as u32,
            form: (class.event >> 8) as u8,
            level: (class.event >> 16) as u8,
            span,
            fields,
        },
        Some(NoteKind::Arguments) => Note::Arguments {
            function: (class.event >> 32) as u32,
            fields,
        },
        _ => return Ok(None),
    };
    Ok(encoded(&note))
}

fn value(kind: u8, number: u64, text: &[u8]) -> Option<FieldValue<'_>> {
    Some(match kind {
        0 => FieldValue::Unsigned(number),
        1 => FieldValue::Signed(number as i64),
        2 => FieldValue::Float(f64::from_bits(number)),
        3 => FieldValue::Truth(number != 0),
        4 => FieldValue::Text(text, number),
        5 => FieldValue::Bytes(text, number),
        6 => FieldValue::Address(number),
        _ => return None,
    })
}

/// The note in an event of one of the classes that every trace with notes has.
fn of_kind(known: NoteKind, fields: &Node, reader: &mut Reader<'_>) -> NoteResult {
    let number = |name: &str| {
        fields
            .number(name)
            .map_or(0, |slot| reader.values.number(slot))
    };
    let name = number("name_id") as u32;
    let state = number("state") as u8;
    let note = match known {
        NoteKind::Task => Note::Task {
            task: number("task"),
            parent: number("parent"),
            by: number("woken_by"),
            name,
            state,
            counted: number("counted") as u8,
            elapsed: number("elapsed"),
            busy: number("busy"),
            polls: number("polls"),
        },
        _ => Note::ThreadState {
            object: number("object"),
            holder: number("holder"),
            name,
            state,
            reason: number("reason") as u8,
            function: number("function_id") as u32,
            waited: number("waited"),
        },
    };
    Ok(encoded(&note))
}

/// The note in an event that has its bytes.
fn raw(kind: Slot, data: Slot, reader: &mut Reader<'_>) -> NoteResult {
    let kind = NoteKind::from_number(reader.values.number(kind) as u8);
    let body = reader.row(data)?.to_vec();
    let is_note = kind.filter(|&kind| Note::decode(kind, &body).is_some());
    Ok(is_note.map(|kind| (kind, body)))
}

fn encoded(note: &Note<'_>) -> Option<(NoteKind, Vec<u8>)> {
    Some((note.kind(), note.encode()?))
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
