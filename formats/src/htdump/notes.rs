//! Notes as records of klasses of their own: one klass for each class of notes. The klass has the name of the event,
//! and a typed field for each value, so any viewer of HawkTracer's shows both. A counter is a klass with the field
//! `value`.
//!
//! | field | type | what it holds |
//! | --- | --- | --- |
//! | `base` | `HT_Event` | the header, with the time |
//! | `thread_id` | `HT_ThreadId` | the thread |
//! | `inside` | `FDR_Note:` and the word of the class (`note_class`), 1 byte | 1: the note stands behind an entry of the same time |
//! | the others | see below | a value each, in the order of `note_values` |
//!
//! | type of the value | the field |
//! | --- | --- |
//! | unsigned | 8 bytes, `uint64_t` |
//! | signed | a text of digits, `int64_t`, because a parser stops at signed numbers |
//! | float | a text, `double`, because a parser stops at floats; a NaN that is not the usual one is `NaN(7ff8000000000001)` |
//! | truth | 1 byte, `bool` |
//! | address | 8 bytes, `uintptr_t` |
//! | text | an escaped text, `const char*` |
//! | bytes | an escaped text, `const uint8_t*` |

use std::collections::BTreeMap;

use super::fields::{FieldLayout, Kind};
use super::klass::{INSIDE, THREAD_ID, names_of_viewers};
use super::record::{Builder, Encoder, STRUCT, TEXT, UNSIGNED};
use crate::escaped::{escape, label};
use crate::note_class::{FIELD_NAME, NoteClass, Type};
use crate::note_values::{NoteNames, NoteValues, Value};
use crate::text::cut;

/// The first klass of notes.
const FIRST: u32 = 1024;
/// The most klasses of notes. There are four more, of notes as bytes.
const MAX_KLASSES: usize = 4096;
/// Bytes of a klass's name.
const NAME: usize = 256;
/// The beginning of the type's name of `inside`.
const PREFIX: &str = "FDR_Note:";
/// Fields in front of the values, without the base.
pub(super) const FIELDS: usize = 2;

/// The klasses of a stream that is written, and the names for them.
#[derive(Debug, Default)]
pub(super) struct Klasses {
    pub(super) names: NoteNames,
    klass_of: BTreeMap<NoteClass, u32>,
}

impl Klasses {
    /// The klass of a class, and whether it is new. `None`: there are too many.
    pub(super) fn klass(&mut self, class: &NoteClass) -> Option<(u32, bool)> {
        if let Some(&klass) = self.klass_of.get(class) {
            return Some((klass, false));
        }
        if self.klass_of.len() >= MAX_KLASSES && !class.is_body() {
            return None;
        }
        let klass = FIRST + self.klass_of.len() as u32;
        self.klass_of.insert(class.clone(), klass);
        Some((klass, true))
    }

    /// Announces a klass.
    pub(super) fn announce(
        &self,
        klass: u32,
        class: &NoteClass,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) {
        let title = class.title(&self.names);
        let own = ["HT_", "FDR_"];
        let before = match own.iter().any(|own| title.starts_with(own)) {
            true => "_",
            false => "",
        };
        let name = format!("{before}{}", label(cut(&title, NAME)));
        let types = class.types().unwrap_or_default();
        let fields = 1 + FIELDS + types.len();
        encoder.klass(out, klass, &name, fields as u8);
        encoder.field(out, klass, (STRUCT, 24, "HT_Event"), "base");
        encoder.field(out, klass, (UNSIGNED, 4, "HT_ThreadId"), THREAD_ID);
        let word = format!("{PREFIX}{}", class.word());
        encoder.field(out, klass, (UNSIGNED, 1, &word), INSIDE.name);
        let names = class.names(&self.names, FIELD_NAME, names_of_viewers());
        for (name, &of) in names.iter().zip(&types) {
            encoder.field(out, klass, described(of), name);
        }
    }
}

/// The kind of a value's field, its bytes, and the name of its type.
fn described(of: Type) -> (u8, u64, &'static str) {
    match of {
        Type::Unsigned => (UNSIGNED, 8, "uint64_t"),
        Type::Signed => (TEXT, 8, "int64_t"),
        Type::Float => (TEXT, 8, "double"),
        Type::Truth => (UNSIGNED, 1, "bool"),
        Type::Address => (UNSIGNED, 8, "uintptr_t"),
        Type::Text => (TEXT, 8, "const char*"),
        Type::Bytes => (TEXT, 8, "const uint8_t*"),
    }
}

/// Puts the values of a note behind `inside`.
pub(super) fn put(mut record: Builder<'_>, note: &NoteValues<'_>) {
    let types = note.class.types().unwrap_or_default();
    for (value, of) in note.values.iter().zip(types) {
        record = match value {
            Value::Unsigned(truth) if of == Type::Truth => record.u8((*truth == 1).into()),
            Value::Unsigned(number) => record.u64(*number),
            Value::Signed(number) => record.text(&number.to_string()),
            Value::Float(number) => record.text(&float(*number)),
            Value::Text(text) => record.text(&escape(text.as_bytes())),
            Value::Bytes(bytes) => record.text(&escape(bytes)),
        };
    }
}

fn float(number: f64) -> String {
    match number.to_bits() == f64::NAN.to_bits() || !number.is_nan() {
        true => format!("{number:?}"),
        false => format!("NaN({:016x})", number.to_bits()),
    }
}

/// The class of a klass with these fields, if it is one of notes. `type_of_inside`: the name of that field's type.
pub(super) fn class(places: &[FieldLayout], type_of_inside: &str) -> Option<NoteClass> {
    let class = NoteClass::parse(type_of_inside.strip_prefix(PREFIX)?)?;
    let (fields, values) = places.split_at_checked(FIELDS)?;
    let named = |at: usize, name: &str| fields.get(at).is_some_and(|place| &*place.name == name);
    let types = class.types()?;
    let fits = |(place, of): (&FieldLayout, &Type)| match described(*of) {
        (TEXT, ..) => place.kind == Kind::Text,
        (_, size, _) => place.kind == Kind::Unsigned && u64::from(place.size) == size,
    };
    let is_note = named(0, THREAD_ID)
        && named(1, INSIDE.name)
        && values.len() == types.len()
        && values.iter().zip(&types).all(fits);
    is_note.then_some(class)
}
