//! Notes as entries, and back. ENTRACE's entries are spans and events with named values, so a note is an event: an
//! entry with a message and without a duration.
//!
//! The name of the entry is the event's; so are module, file, line and level. Its attributes are `start_ns`, `tid`,
//! `fdr.note`, and the values of `note_values` by their names: a truth is a Bool, an address a U64. `fdr.note` is the word
//! of the note's class (`note_class`), a colon, and for each value its place among the values' names in their order.

use std::collections::HashMap;

use super::facts;
use super::item::{EntryPosition, Item};
use super::record::{Entry, Level, Metadata, Value as RecordValue, Version, encode_entry};
use crate::model::Function;
use crate::note_class::{FIELD_NAME, NoteClass, Type};
use crate::note_values::{NoteNames, Value, join, split};
use crate::notes::{MAX_FIELDS, NoteKind};

/// The attribute that makes an entry a note.
const NOTE: &str = "fdr.note";
/// Names that an entry needs for itself.
const RESERVED_NAMES: &[&str] = &["start_ns", "tid"];
/// The most values: two for each field, and a span.
const MAX_VALUES: usize = 2 * MAX_FIELDS + 1;

/// The names of notes, and where in the program they are.
#[derive(Debug, Default)]
pub(super) struct NoteTable {
    names: NoteNames,
    places: HashMap<u32, (Box<str>, u32)>,
}

impl NoteTable {
    /// False: its number has a name.
    pub(super) fn add(&mut self, function: &Function) -> bool {
        let is_new = self.names.add(function);
        if is_new {
            let place = (function.file.as_str().into(), function.line);
            self.places.insert(function.id.0, place);
        }
        is_new
    }
}

/// Appends the entry of a note. `item` has its kind as a number.
pub(super) fn put(
    out: &mut Vec<u8>,
    version: Version,
    table: &NoteTable,
    item: &Item,
    at: EntryPosition,
    body: &[u8],
) {
    let kind = u8::try_from(item.number)
        .ok()
        .and_then(NoteKind::from_number);
    let Some(note) = kind.map(|kind| split(kind, body)) else {
        return;
    };
    let class = &note.class;
    let title = class.title(&table.names);
    let (file, line) = match table.places.get(&class.name()) {
        Some((file, line)) => (&**file, *line),
        None => ("", 0),
    };
    let types = class.types().unwrap_or_default();
    let names = class.names(&table.names, FIELD_NAME, RESERVED_NAMES);
    let mut order: Vec<usize> = (0..names.len().min(note.values.len())).collect();
    order.sort_by_key(|&nth| &names[nth]);
    let place_of = |nth: usize| order.iter().position(|&other| other == nth).unwrap_or(0);
    let places: Vec<String> = (0..order.len())
        .map(|nth| place_of(nth).to_string())
        .collect();
    let word = format!("{}:{}", class.word(), places.join("."));
    let values = note.values.iter().zip(&types);
    let values = values.map(|(value, of)| found(value, *of));
    let names = names.iter().map(String::as_str);
    let mut attributes: Vec<(&str, RecordValue<'_>)> = names.zip(values).collect();
    attributes.extend([
        (NOTE, RecordValue::String(&word)),
        ("start_ns", RecordValue::U64(item.time)),
        ("tid", RecordValue::U64(at.thread)),
    ]);
    attributes.sort_by_key(|&(name, _)| name);
    let entry = Entry {
        parent: at.parent,
        message: Some(&title),
        metadata: Metadata {
            level: match class.level() {
                1 => Level::Trace,
                2 => Level::Debug,
                4 => Level::Warn,
                5 => Level::Error,
                _ => Level::Info,
            },
            ..facts::metadata(&title, file, line)
        },
        attributes,
    };
    encode_entry(&entry, version, out);
}

fn found<'a>(value: &'a Value<'_>, of: Type) -> RecordValue<'a> {
    match value {
        Value::Unsigned(truth) if of == Type::Truth => RecordValue::Bool(*truth == 1),
        Value::Unsigned(number) => RecordValue::U64(*number),
        Value::Signed(number) => RecordValue::I64(*number),
        Value::Float(number) => RecordValue::Float(*number),
        Value::Text(text) => RecordValue::String(text),
        Value::Bytes(bytes) => RecordValue::Bytes(bytes),
    }
}

/// Whether an entry is a note.
pub(super) fn is_note(entry: &Entry<'_>) -> bool {
    entry.message.is_some() && matches!(entry.attribute(NOTE), Some(RecordValue::String(_)))
}

/// The note in an entry. `None`: it is damaged.
pub(super) fn note(entry: &Entry<'_>) -> Option<(NoteKind, Vec<u8>)> {
    let Some(RecordValue::String(word)) = entry.attribute(NOTE) else {
        return None;
    };
    let (word, places) = word.split_once(':')?;
    let class = NoteClass::parse(word)?;
    let own = |name: &str| name == NOTE || RESERVED_NAMES.contains(&name);
    let named = entry.attributes.iter();
    let named: Vec<RecordValue<'_>> = named
        .filter(|(name, _)| !own(name))
        .map(|&(_, value)| value)
        .take(MAX_VALUES + 1)
        .collect();
    let places = places.split('.').filter(|place| !place.is_empty());
    let values: Option<Vec<Value<'_>>> = places
        .take(MAX_VALUES + 1)
        .map(|place| {
            Some(match *named.get(place.parse::<usize>().ok()?)? {
                RecordValue::U64(number) => Value::Unsigned(number),
                RecordValue::Bool(truth) => Value::Unsigned(truth.into()),
                RecordValue::I64(number) => Value::Signed(number),
                RecordValue::Float(number) => Value::Float(number),
                RecordValue::String(text) => Value::Text(text.into()),
                RecordValue::Bytes(bytes) => Value::Bytes(bytes.into()),
                RecordValue::U128(_) | RecordValue::I128(_) => return None,
            })
        })
        .collect();
    join(&class, &values?)
}
