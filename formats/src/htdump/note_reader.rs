//! The note in a record; `notes` has the layout.

use std::borrow::Cow;

use super::notes::FIELDS;
use super::scan::Event;
use crate::escaped::unescape;
use crate::note_class::{NoteClass, Type};
use crate::note_values::{Value, join_renamed};
use crate::notes::NoteKind;

/// The note in a record of that class. `name` gives the number of a name of the file. `None`: it is damaged.
pub(super) fn note(
    event: &Event<'_>,
    class: &NoteClass,
    name: impl Fn(u32) -> u32,
) -> Option<(NoteKind, Vec<u8>)> {
    let mut values = Vec::new();
    for (nth, of) in class.types()?.into_iter().enumerate() {
        let at = FIELDS + nth;
        let text = || std::str::from_utf8(event.bytes(at)).ok();
        values.push(match of {
            Type::Unsigned | Type::Truth | Type::Address => Value::Unsigned(event.number(at)),
            Type::Signed => Value::Signed(text()?.parse().ok()?),
            Type::Float => Value::Float(parse_float(text()?)?),
            Type::Text => match unescape(event.bytes(at)) {
                Cow::Borrowed(text) => Value::Text(std::str::from_utf8(text).ok()?.into()),
                Cow::Owned(text) => Value::Text(String::from_utf8(text).ok()?.into()),
            },
            Type::Bytes => Value::Bytes(unescape(event.bytes(at))),
        });
    }
    join_renamed(class, &values, name)
}

fn parse_float(text: &str) -> Option<f64> {
    let bits = text
        .strip_prefix("NaN(")
        .and_then(|rest| rest.strip_suffix(')'));
    match (bits, text) {
        (Some(bits), _) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits),
        (None, "NaN") => Some(f64::NAN),
        (None, text) => text.parse().ok(),
    }
}
