//! A note as a class and some values with names, for formats whose events have such values. Every note has exactly one
//! such form, and comes back from it byte for byte, except for the recorder's filler. A body that this version does not
//! know is a single value, `data`.
//!
//! | note | values, in their order |
//! | --- | --- |
//! | event | `span_id` if it has a span; its fields |
//! | arguments | their fields |
//! | task | `task`, `parent`, `woken_by`, `elapsed`, `busy`, `polls`, `counted`, `state` |
//! | thread state | `object`, `holder`, `waited`, `function`, `state`, `reason` |
//! | any other body | `data` |
//!
//! A text that was cut has the bytes of the whole text in front, as `…_bytes`.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::model::{Function, FunctionId, Ticks};
use crate::note_class::{NoteClass, field_name, is_cut, kind, numbers, place};
use crate::notes::{ERROR, Field, FieldValue, Note, NoteKind, RESULT};
use crate::scale;
use crate::text::cut;

/// Bytes of a note's name in other people's readers.
const TITLE: usize = 256;
/// The recorder puts this word behind a body that ends with zeros. It has no meaning.
const FILLER: [u8; 8] = [0xff; 8];

/// A value of a note.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    /// Of the types unsigned, truth and address.
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
}

/// The class and the values of a note.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NoteValues<'a> {
    pub(crate) class: NoteClass,
    pub(crate) values: Vec<Value<'a>>,
}

/// The class and the values of a note.
pub(crate) fn split(kind: NoteKind, body: &[u8]) -> NoteValues<'_> {
    let is_whole = |note: &Note<'_>| {
        let known = note.encode();
        let behind = known.and_then(|known| body.strip_prefix(&known[..]));
        behind.is_some_and(|behind| behind.is_empty() || *behind == FILLER)
    };
    let note = Note::decode(kind, body).filter(is_whole);
    note.and_then(|note| values_of(&note))
        .unwrap_or_else(|| body_alone(kind, body))
}

/// The note as a single value, its body. For notes without a class.
pub(crate) fn body_alone(kind: NoteKind, body: &[u8]) -> NoteValues<'_> {
    NoteValues {
        class: NoteClass::of_body(kind),
        values: vec![Value::Bytes(body.into())],
    }
}

fn values_of<'a>(note: &Note<'a>) -> Option<NoteValues<'a>> {
    let mut values = Vec::new();
    let class = match note {
        Note::Event { span, fields, .. } => {
            if *span != 0 {
                values.push(Value::Unsigned(*span));
            }
            fields.iter().for_each(|field| put(field, &mut values));
            NoteClass::from_note(note)?
        }
        Note::Arguments { fields, .. } => {
            fields.iter().for_each(|field| put(field, &mut values));
            NoteClass::from_note(note)?
        }
        Note::Task { .. } | Note::ThreadState { .. } => {
            values.extend(note.numbers().into_iter().map(Value::Unsigned));
            NoteClass {
                event: u64::from(note.name()) << 32 | note.kind() as u64,
                fields: Vec::new(),
            }
        }
    };
    Some(NoteValues { class, values })
}

fn put<'a>(field: &Field<'a>, values: &mut Vec<Value<'a>>) {
    let (text, whole) = match field.value {
        FieldValue::Unsigned(number) | FieldValue::Address(number) => {
            return values.push(Value::Unsigned(number));
        }
        FieldValue::Signed(number) => return values.push(Value::Signed(number)),
        FieldValue::Float(number) => return values.push(Value::Float(number)),
        FieldValue::Truth(truth) => return values.push(Value::Unsigned(truth.into())),
        FieldValue::Text(text, whole) | FieldValue::Bytes(text, whole) => (text, whole),
        // Such a note has no class.
        FieldValue::Other(..) => return,
    };
    if whole != text.len() as u64 {
        values.push(Value::Unsigned(whole));
    }
    let is_text = matches!(field.value, FieldValue::Text(..)) && !text.contains(&0);
    values.push(match std::str::from_utf8(text) {
        Ok(text) if is_text => Value::Text(text.into()),
        _ => Value::Bytes(text.into()),
    });
}

/// The kind and the body of a note. `None`: the values do not fit the class, or the note is too large.
pub(crate) fn join(class: &NoteClass, values: &[Value<'_>]) -> Option<(NoteKind, Vec<u8>)> {
    let kind = class.kind()?;
    let mut values = values.iter();
    if class.is_body() {
        let body = match values.next()? {
            Value::Bytes(body) => body.to_vec(),
            _ => return None,
        };
        Note::decode(kind, &body)?;
        return values.next().is_none().then_some((kind, body));
    }
    let name = class.name();
    let note = match kind {
        NoteKind::Event => Note::Event {
            name,
            form: class.form(),
            level: class.level(),
            span: match class.has_span() {
                true => number(values.next()?)?,
                false => 0,
            },
            fields: fields(class, &mut values)?,
        },
        NoteKind::Arguments => Note::Arguments {
            function: name,
            fields: fields(class, &mut values)?,
        },
        NoteKind::Task | NoteKind::ThreadState => {
            Note::from_numbers(kind, name, || number(values.next()?))?
        }
    };
    let body = note.encode()?;
    values.next().is_none().then_some((kind, body))
}

/// As [`join`], for a stream whose names have other numbers. `name` converts a number.
pub(crate) fn join_renamed(
    class: &NoteClass,
    values: &[Value<'_>],
    name: impl Fn(u32) -> u32,
) -> Option<(NoteKind, Vec<u8>)> {
    let (kind, mut body) = join(&class.renamed(&name), values)?;
    let function = body
        .get_mut(24..28)
        .filter(|_| kind == NoteKind::ThreadState && !class.is_body());
    if let Some(function) = function {
        // The function that the holder was in.
        let mut bytes = [0; 4];
        bytes.copy_from_slice(function);
        let id = u32::from_le_bytes(bytes);
        let id = if id == 0 { 0 } else { name(id) };
        function.copy_from_slice(&id.to_le_bytes());
    }
    Some((kind, body))
}

type ValueIter<'v, 'a> = std::slice::Iter<'v, Value<'a>>;

fn fields<'v>(class: &NoteClass, values: &mut ValueIter<'v, '_>) -> Option<Vec<Field<'v>>> {
    let fields = class.fields.iter();
    fields.map(|&field| take(field, values)).collect()
}

fn number(value: &Value<'_>) -> Option<u64> {
    match value {
        Value::Unsigned(number) => Some(*number),
        _ => None,
    }
}

fn take<'v>(field: u64, values: &mut ValueIter<'v, '_>) -> Option<Field<'v>> {
    let whole = match (kind(field), is_cut(field)) {
        (4 | 5, true) => Some(number(values.next()?)?),
        _ => None,
    };
    let text = |text: &'v [u8]| (text, whole.unwrap_or(text.len() as u64));
    let value = match (kind(field), values.next()?) {
        (0, Value::Unsigned(number)) => FieldValue::Unsigned(*number),
        (1, Value::Signed(number)) => FieldValue::Signed(*number),
        (2, Value::Float(number)) => FieldValue::Float(*number),
        (3, Value::Unsigned(number @ 0..=1)) => FieldValue::Truth(*number == 1),
        (kind @ (4 | 5), value) => {
            let (text, whole) = match value {
                Value::Text(value) => text(value.as_bytes()),
                Value::Bytes(value) => text(value),
                _ => return None,
            };
            match kind {
                4 => FieldValue::Text(text, whole),
                _ => FieldValue::Bytes(text, whole),
            }
        }
        (6, Value::Unsigned(number)) => FieldValue::Address(*number),
        _ => return None,
    };
    Some(Field {
        name: field as u32,
        place: place(field),
        value,
    })
}

impl NoteClass {
    /// The names of the values: words of letters, digits and underscores, made of at most `most` bytes of a field's
    /// name. Each name is unique, and none is in `taken`.
    pub(crate) fn names(&self, known: &NoteNames, most: usize, taken: &[&str]) -> Vec<String> {
        let Some(of_note) = self.kind().filter(|_| !self.is_body()) else {
            return vec!["data".to_owned()];
        };
        let numbers = numbers(of_note);
        if !numbers.is_empty() {
            let names = numbers.iter().map(|number| number.name.to_owned());
            return names.collect();
        }
        let mut taken: BTreeSet<String> = taken.iter().map(|&name| name.to_owned()).collect();
        taken.insert("span_id".to_owned());
        let mut names = Vec::new();
        if self.has_span() {
            names.push("span_id".to_owned());
        }
        for &field in &self.fields {
            let of_result = match place(field) {
                RESULT if field as u32 == 0 => "result",
                ERROR if field as u32 == 0 => "error",
                _ => known.get(field as u32),
            };
            let name = field_name(cut(of_result, most), &mut taken);
            if matches!(kind(field), 4 | 5) && is_cut(field) {
                names.push(format!("{name}_bytes"));
            }
            names.push(name);
        }
        names
    }

    /// The title of the notes for other programs' readers.
    pub(crate) fn title(&self, known: &NoteNames) -> String {
        let name = match known.get(self.name()) {
            "" => FunctionId(self.name()).to_string(),
            name => name.to_owned(),
        };
        let of_call = match self.fields.first().map(|&field| place(field)) {
            Some(RESULT) => "result",
            Some(ERROR) => "error",
            _ => "arguments",
        };
        match (self.is_body(), self.kind()) {
            (false, Some(NoteKind::Event)) => name,
            (false, Some(NoteKind::Task)) => format!("task {name}"),
            (false, Some(NoteKind::Arguments)) => format!("{of_call} of {name}"),
            (false, Some(NoteKind::ThreadState)) => "thread state".to_owned(),
            (true, _) | (_, None) => "note".to_owned(),
        }
    }
}

/// The names of a table of functions.
#[derive(Clone, Debug, Default)]
pub(crate) struct NoteNames(HashMap<u32, Box<str>>);

impl NoteNames {
    /// The first name of a number holds; false: it has one.
    pub(crate) fn add(&mut self, function: &Function) -> bool {
        let is_new = !self.0.contains_key(&function.id.0);
        let name = || cut(&function.name, TITLE).into();
        self.0.entry(function.id.0).or_insert_with(name);
        is_new
    }

    /// Empty: the number has no name.
    pub(crate) fn get(&self, id: u32) -> &str {
        self.0.get(&id).map_or("", |name| name)
    }
}

/// A note of a trace whose clock has that frequency, with its times in nanoseconds.
pub(crate) fn in_nanos(kind: NoteKind, body: &[u8], frequency: u64) -> Cow<'_, [u8]> {
    const NANOS_PER_SECOND: u64 = 1_000_000_000;
    let times = match kind {
        NoteKind::Task => body.get(32..48),
        NoteKind::ThreadState => body.get(32..40),
        NoteKind::Event | NoteKind::Arguments => None,
    };
    let Some(times) = times.filter(|_| frequency != NANOS_PER_SECOND) else {
        return body.into();
    };
    let mut scaled = body.to_vec();
    for (nth, ticks) in times.chunks_exact(8).enumerate() {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(ticks);
        let nanos = scale::nanos(Ticks(u64::from_le_bytes(bytes)), frequency).0;
        let at = 32 + 8 * nth;
        scaled[at..at + 8].copy_from_slice(&nanos.to_le_bytes());
    }
    scaled.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_another_class_are_no_note() {
        let class = NoteClass::parse("c.0").expect("an event with a number");
        assert!(join(&class, &[Value::Unsigned(1)]).is_some());
        for values in [
            vec![],
            vec![Value::Signed(1)],
            vec![Value::Unsigned(1), Value::Unsigned(2)],
        ] {
            assert_eq!(join(&class, &values), None, "{values:?}");
        }
        let body = NoteClass::of_body(NoteKind::Task);
        assert_eq!(join(&body, &[Value::Bytes(vec![0; 56].into())]), None);
        assert_eq!(join(&body, &[Value::Text("".into())]), None);
        // A truth is 0 or 1.
        let truth = NoteClass::parse("c.300000000").expect("an event with a truth");
        assert_eq!(join(&truth, &[Value::Unsigned(2)]), None);
    }

    #[test]
    fn a_filler_is_no_part_of_a_note() {
        let zero = Field {
            name: 0,
            place: 0,
            value: FieldValue::Unsigned(0),
        };
        let counter = Note::Event {
            name: 1,
            form: 3,
            level: 0,
            span: 0,
            fields: vec![zero],
        };
        let body = counter.encode().expect("a note");
        let filled = [&body[..], &FILLER].concat();
        assert_eq!(
            split(NoteKind::Event, &filled),
            split(NoteKind::Event, &body)
        );
        let more = [&filled[..], &FILLER].concat();
        assert!(split(NoteKind::Event, &more).class.is_body());
    }

    #[test]
    fn times_of_tasks_are_in_nanoseconds() {
        let task = Note::Task {
            task: 1,
            parent: 0,
            by: 0,
            name: 2,
            state: 4,
            counted: 0,
            elapsed: 6_000_000_000,
            busy: 1,
            polls: 3,
        };
        let body = task.encode().expect("a note");
        let scaled = in_nanos(NoteKind::Task, &body, 2_000_000_000);
        let Some(Note::Task {
            elapsed,
            busy,
            polls,
            ..
        }) = Note::decode(NoteKind::Task, &scaled)
        else {
            panic!("{scaled:?}");
        };
        // Half a nanosecond goes to the even one.
        assert_eq!((elapsed, polls), (3_000_000_000, 3));
        assert!(busy <= 1);
        assert_eq!(in_nanos(NoteKind::Task, &body, 1_000_000_000), body);
        assert_eq!(in_nanos(NoteKind::Event, &body, 3), body);
    }
}
