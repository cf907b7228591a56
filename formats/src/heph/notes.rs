//! Notes as events with attributes, and back; `facts` has their layout.

use super::event_parts::Parts;
use super::facts::{self, Gathered, GatheredValue, NOTE};
use super::record::{Event, Value as RecordValue};
use super::tables::elide;
use crate::escaped::{escape, label, plain, unescape};
use crate::note_class::{NoteClass, Type};
use crate::note_values::{NoteNames, NoteValues, Value, join_renamed};
use crate::notes::{MAX_BYTES, NoteKind};

/// Bytes of a description. The word of a task's class and the task's number fit behind it.
pub(super) const DESCRIPTION: usize = 40;
/// Bytes of a field's name, so that it fits an `fdr:more` event with its value.
const NAME: usize = 32;
/// The most bytes that are read of a note. An escaped byte has three.
pub(super) const MAX_NOTE: usize = 3 * MAX_BYTES + 8192;
/// The attribute of an `fdr:more` event that names what it continues.
const RESERVED_NAMES: &[&str] = &["of"];

/// The description of the event of a note.
pub(super) fn description(class: &NoteClass, names: &NoteNames) -> String {
    let title = class.title(names);
    let title = label(&title).into_owned();
    match title.len() > DESCRIPTION {
        true => elide(&title, DESCRIPTION),
        false => title,
    }
}

/// The task's number, if the note says so in values.
pub(super) fn task(note: &NoteValues<'_>) -> Option<u64> {
    let is_task = note.class.kind() == Some(NoteKind::Task) && !note.class.is_body();
    match note.values.first() {
        Some(Value::Unsigned(task)) if is_task => Some(*task),
        _ => None,
    }
}

/// Escapes texts that Heph's own converter can't print. Returns how many.
pub(super) fn escape_texts(note: &mut NoteValues<'_>) -> u64 {
    let (mut escaped, mut at) = (0, note.class.first_field());
    for field in 0..note.class.fields.len() {
        at += note.class.values_before(field);
        if let Some(Value::Text(text)) = note.values.get(at) {
            if !text.chars().all(plain) {
                let bytes = text.as_bytes().to_vec();
                note.values[at] = Value::Bytes(bytes.into());
                note.class.set_raw(field);
                escaped += 1;
            }
        }
        at += 1;
    }
    escaped
}

/// Puts the attributes of a note.
pub(super) fn put(parts: &mut Parts<'_>, note: &NoteValues<'_>, names: &NoteNames) {
    parts.text(NOTE, &note.class.word());
    let names = note.class.names(names, NAME, RESERVED_NAMES);
    for (name, value) in names.iter().zip(&note.values) {
        match value {
            Value::Unsigned(number) => parts.number(name, *number),
            Value::Signed(number) => parts.signed(name, *number),
            Value::Float(number) => parts.float(name, *number),
            Value::Text(text) => parts.text(name, text),
            Value::Bytes(bytes) => parts.text(name, &escape(bytes)),
        }
    }
}

/// The substream of the thread that a note is of. A task's note is on the substream of its task.
pub(super) fn substream(event: &Event<'_>) -> u64 {
    let word = facts::attributes(event).next().map(|word| word.value);
    let class = match word {
        Some(RecordValue::Text(word)) => std::str::from_utf8(word).ok().and_then(NoteClass::parse),
        _ => None,
    };
    let is_task =
        class.is_some_and(|class| class.kind() == Some(NoteKind::Task) && !class.is_body());
    match is_task && facts::optional(event, "task") == Some(event.substream) {
        true => 0,
        false => event.substream,
    }
}

/// The note with these attributes. `name` gives the number of a name of the file. `None`: it is damaged.
pub(super) fn note(
    attributes: &Gathered,
    name: impl Fn(u32) -> u32,
) -> Option<(NoteKind, Vec<u8>)> {
    let mut values = attributes.values();
    let GatheredValue::Text(word) = values.next()? else {
        return None;
    };
    let class = NoteClass::parse(std::str::from_utf8(word).ok()?)?;
    let types = class.types()?.into_iter();
    let given: Option<Vec<Value<'_>>> = types
        .map(|of| {
            Some(match (of, values.next()?) {
                (Type::Text, GatheredValue::Text(text)) => {
                    Value::Text(std::str::from_utf8(text).ok()?.into())
                }
                (Type::Bytes, GatheredValue::Text(text)) => Value::Bytes(unescape(text)),
                (_, GatheredValue::Unsigned(number)) => Value::Unsigned(*number),
                (_, GatheredValue::Signed(number)) => Value::Signed(*number),
                (_, GatheredValue::Float(number)) => Value::Float(*number),
                (_, GatheredValue::Text(_)) => return None,
            })
        })
        .collect();
    let given = given.filter(|_| values.next().is_none())?;
    join_renamed(&class, &given, name)
}
