//! The class of a note: what notes of one kind, one name and the same types of fields have in common. Formats that
//! describe their events first have a description for each class.
//!
//! A class is numbers: one for the note, and one for each field.
//!
//! | bits | of the note |
//! | --- | --- |
//! | 0 to 7 | its kind |
//! | 8 to 15 | its form |
//! | 16 to 23 | its level |
//! | 24 | there is a span |
//! | 25 | the value is the body of the note |
//! | 32 to 63 | its name, or the function of the call |
//!
//! | bits | of a field |
//! | --- | --- |
//! | 0 to 31 | its name |
//! | 32 to 39 | its type |
//! | 40 to 47 | its place |
//! | 48 | the text was cut |
//! | 49 | the text is no UTF-8, or has a zero |

use std::collections::BTreeSet;

use crate::notes::{Field, FieldValue, MAX_FIELDS, Note, NoteKind};
use crate::text::cut;

const HAS_SPAN: u64 = 1 << 24;
const IS_BODY: u64 = 1 << 25;
const IS_CUT: u64 = 1 << 48;
const IS_RAW: u64 = 1 << 49;

/// Bytes of a field's name in other people's descriptions.
pub(crate) const FIELD_NAME: usize = 64;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Unsigned,
    Signed,
    Float,
    Truth,
    Address,
    /// UTF-8 without a zero.
    Text,
    Bytes,
}

/// A number of a note that has no fields.
pub(crate) struct NoteNumber {
    pub(crate) name: &'static str,
    /// The bytes that hold every value.
    pub(crate) size: usize,
    of: Type,
}

const fn number(name: &'static str, size: usize) -> NoteNumber {
    let of = Type::Unsigned;
    NoteNumber { name, size, of }
}

static TASK: [NoteNumber; 8] = [
    number("task", 8),
    number("parent", 8),
    number("woken_by", 8),
    number("elapsed", 8),
    number("busy", 8),
    number("polls", 8),
    number("counted", 1),
    number("state", 1),
];

static THREAD_STATE: [NoteNumber; 6] = [
    NoteNumber {
        name: "object",
        size: 8,
        of: Type::Address,
    },
    number("holder", 8),
    number("waited", 8),
    number("function", 4),
    number("state", 1),
    number("reason", 1),
];

/// The numbers of a note beside its name, in the order in which formats have them as values. Empty: notes of this kind
/// have fields.
pub(crate) fn numbers(kind: NoteKind) -> &'static [NoteNumber] {
    match kind {
        NoteKind::Task => &TASK,
        NoteKind::ThreadState => &THREAD_STATE,
        NoteKind::Event | NoteKind::Arguments => &[],
    }
}

impl Note<'_> {
    /// The values of its [`numbers`].
    pub(crate) fn numbers(&self) -> Vec<u64> {
        match *self {
            Note::Task {
                task,
                parent,
                by,
                name: _,
                state,
                counted,
                elapsed,
                busy,
                polls,
            } => {
                let (counted, state) = (counted.into(), state.into());
                vec![task, parent, by, elapsed, busy, polls, counted, state]
            }
            Note::ThreadState {
                object,
                holder,
                name: _,
                state,
                reason,
                function,
                waited,
            } => {
                let (state, reason) = (state.into(), reason.into());
                vec![object, holder, waited, function.into(), state, reason]
            }
            Note::Event { .. } | Note::Arguments { .. } => Vec::new(),
        }
    }

    /// The note of a kind without fields, from its [`numbers`]. `None`: a number is missing or too large, or the kind
    /// has fields.
    pub(crate) fn from_numbers(
        kind: NoteKind,
        name: u32,
        mut next: impl FnMut() -> Option<u64>,
    ) -> Option<Note<'static>> {
        Some(match kind {
            NoteKind::Task => Note::Task {
                task: next()?,
                parent: next()?,
                by: next()?,
                elapsed: next()?,
                busy: next()?,
                polls: next()?,
                counted: u8::try_from(next()?).ok()?,
                state: u8::try_from(next()?).ok()?,
                name,
            },
            NoteKind::ThreadState => Note::ThreadState {
                object: next()?,
                holder: next()?,
                waited: next()?,
                function: u32::try_from(next()?).ok()?,
                state: u8::try_from(next()?).ok()?,
                reason: u8::try_from(next()?).ok()?,
                name,
            },
            NoteKind::Event | NoteKind::Arguments => return None,
        })
    }
}

/// The class of a note: kind, name, and the names and types of its fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NoteClass {
    /// The number of the note.
    pub(crate) event: u64,
    /// The numbers of its fields.
    pub(crate) fields: Vec<u64>,
}

impl NoteClass {
    /// The class of an event or of arguments. `None`: the note has another kind, or a type that this version does not
    /// know.
    pub(crate) fn from_note(note: &Note<'_>) -> Option<NoteClass> {
        let (event, fields) = match note {
            Note::Event {
                name,
                form,
                level,
                span,
                fields,
            } => {
                let about = u64::from(*form) << 8 | u64::from(*level) << 16;
                let has_span = if *span == 0 { 0 } else { HAS_SPAN };
                (about | has_span | u64::from(*name) << 32, &fields[..])
            }
            Note::Arguments { function, fields } => (u64::from(*function) << 32, &fields[..]),
            Note::Task { .. } | Note::ThreadState { .. } => return None,
        };
        Some(NoteClass {
            event: event | note.kind() as u64,
            fields: fields.iter().map(describe).collect::<Option<_>>()?,
        })
    }

    /// The class of notes whose only value is their body.
    pub(crate) fn of_body(kind: NoteKind) -> NoteClass {
        NoteClass {
            event: IS_BODY | kind as u64,
            fields: Vec::new(),
        }
    }

    pub(crate) fn kind(&self) -> Option<NoteKind> {
        NoteKind::from_number(self.event as u8)
    }

    /// The name of the notes, or the function of their calls.
    pub(crate) fn name(&self) -> u32 {
        (self.event >> 32) as u32
    }

    pub(crate) fn form(&self) -> u8 {
        (self.event >> 8) as u8
    }

    pub(crate) fn level(&self) -> u8 {
        (self.event >> 16) as u8
    }

    pub(crate) fn has_span(&self) -> bool {
        self.event & HAS_SPAN != 0
    }

    pub(crate) fn is_body(&self) -> bool {
        self.event & IS_BODY != 0
    }

    /// The types of its values. `None`: this version does not know one of them.
    pub(crate) fn types(&self) -> Option<Vec<Type>> {
        if self.is_body() {
            return Some(vec![Type::Bytes]);
        }
        let numbers = numbers(self.kind()?);
        if !numbers.is_empty() {
            return Some(numbers.iter().map(|number| number.of).collect());
        }
        let mut types = vec![Type::Unsigned; self.first_field()];
        for (at, &field) in self.fields.iter().enumerate() {
            types.extend(vec![Type::Unsigned; self.values_before(at)]);
            types.push(match kind(field) {
                0 => Type::Unsigned,
                1 => Type::Signed,
                2 => Type::Float,
                3 => Type::Truth,
                4 if is_string(field) => Type::Text,
                4 | 5 => Type::Bytes,
                6 => Type::Address,
                _ => return None,
            });
        }
        Some(types)
    }

    /// The number of values before the first field.
    pub(crate) fn first_field(&self) -> usize {
        usize::from(self.kind() == Some(NoteKind::Event) && self.has_span())
    }

    /// The number of values that belong to a field and come before it: 1 for a text that was cut, its size.
    pub(crate) fn values_before(&self, field: usize) -> usize {
        let field = self.fields.get(field).copied().unwrap_or(0);
        usize::from(matches!(kind(field), 4 | 5) && is_cut(field))
    }

    /// From here on, the text of that field is bytes.
    pub(crate) fn set_raw(&mut self, field: usize) {
        if let Some(field) = self.fields.get_mut(field) {
            *field |= IS_RAW;
        }
    }

    /// The class as a word: its numbers in hexadecimal digits.
    pub(crate) fn word(&self) -> String {
        let fields = self.fields.iter().map(|field| format!(".{field:x}"));
        let fields: String = fields.collect();
        format!("{:x}{fields}", self.event)
    }

    /// The class that the word encodes.
    pub(crate) fn parse(word: &str) -> Option<NoteClass> {
        let mut numbers = word.split('.').map(|digits| {
            let is_digit = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
            let is_number = (1..=16).contains(&digits.len()) && digits.bytes().all(is_digit);
            u64::from_str_radix(digits, 16).ok().filter(|_| is_number)
        });
        let event = numbers.next()??;
        let fields: Option<Vec<u64>> = numbers.take(MAX_FIELDS + 1).collect();
        let class = NoteClass {
            event,
            fields: fields.filter(|fields| fields.len() <= MAX_FIELDS)?,
        };
        class.kind().and(class.types()).is_some().then_some(class)
    }

    /// The class with other numbers for its names.
    pub(crate) fn renamed(&self, name: impl Fn(u32) -> u32) -> NoteClass {
        let other = |id: u64| match id {
            0 => 0,
            id => u64::from(name(id as u32)),
        };
        const LOW: u64 = u32::MAX as u64;
        let fields = self.fields.iter();
        NoteClass {
            event: self.event & LOW | other(self.event >> 32) << 32,
            fields: fields
                .map(|&field| field & !LOW | other(field & LOW))
                .collect(),
        }
    }
}

/// The type of a described field.
pub(crate) fn kind(field: u64) -> u8 {
    (field >> 32) as u8
}

/// Its place.
pub(crate) fn place(field: u64) -> u8 {
    (field >> 40) as u8
}

/// Whether its text was cut.
pub(crate) fn is_cut(field: u64) -> bool {
    field & IS_CUT != 0
}

/// Whether it is a text up to a zero.
fn is_string(field: u64) -> bool {
    kind(field) == 4 && field & IS_RAW == 0
}

/// The description of a field. `None`: this version does not know its type.
fn describe(field: &Field<'_>) -> Option<u64> {
    let kind = match field.value {
        FieldValue::Unsigned(_) => 0,
        FieldValue::Signed(_) => 1,
        FieldValue::Float(_) => 2,
        FieldValue::Truth(_) => 3,
        FieldValue::Text(..) => 4,
        FieldValue::Bytes(..) => 5,
        FieldValue::Address(_) => 6,
        FieldValue::Other(..) => return None,
    };
    let text = match field.value {
        FieldValue::Text(text, whole) | FieldValue::Bytes(text, whole) => {
            let is_cut = whole != text.len() as u64;
            // Readers take a zero for the end of a text.
            let is_raw = kind == 4 && (std::str::from_utf8(text).is_err() || text.contains(&0));
            (u64::from(is_cut) * IS_CUT) | (u64::from(is_raw) * IS_RAW)
        }
        _ => 0,
    };
    Some(u64::from(field.name) | kind << 32 | u64::from(field.place) << 40 | text)
}

/// A field's name as an identifier. It differs from every other field's name, and from the names of their lengths.
pub(crate) fn field_name(name: &str, taken: &mut BTreeSet<String>) -> String {
    let word = |char: char| {
        if char.is_ascii_alphanumeric() {
            char
        } else {
            '_'
        }
    };
    let name: String = match cut(name, FIELD_NAME) {
        "" => "value".to_owned(),
        name => name.chars().map(word).collect(),
    };
    let mut number = 1;
    loop {
        let name = match number {
            1 => name.clone(),
            number => format!("{name}_{number}"),
        };
        let all = [
            name.clone(),
            format!("_{name}_length"),
            format!("{name}_bytes"),
        ];
        if !all.iter().any(|name| taken.contains(name)) {
            taken.extend(all);
            return name;
        }
        number += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_words_come_back() {
        let many = format!("c{}", ".0".repeat(MAX_FIELDS));
        for word in ["c", "200010c.100000007.3ff0400000008", "200000d", &many] {
            let class = NoteClass::parse(word).expect("a class");
            assert_eq!(class.word(), word);
        }
        let more = format!("{many}.0");
        for word in [
            "",
            "1",
            "ff",
            "c.",
            ".c",
            "c.700000000",
            "C",
            "+c",
            "c.+1",
            "00000000000000000c",
            &more,
        ] {
            assert_eq!(NoteClass::parse(word), None, "{word}");
        }
    }
}
