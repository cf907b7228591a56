//! Bodies of events, byte by byte, and as a reader decodes them.

use fdr_formats::notes::{FieldValue, Note, NoteKind};

use super::*;
use crate::values::AsValue;

static NAME: CallSite = CallSite::new::<()>("", 0).only_name();
static EVENT: CallSite = CallSite::new::<()>("", 0).event();

fn bytes(form: Form, level: Level, fields: &[Field<'_>]) -> Vec<u8> {
    NAME.set_id(0x0102);
    EVENT.set_id(0x0304);
    let body = Body::of_event(&EVENT, form, level, fields);
    body.words()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect()
}

/// The values of fields as a reader has them.
fn with_values(fields: &[Field<'_>], check: impl FnOnce(&[FieldValue<'_>])) {
    let bytes = bytes(Form::Instant, Level::Info, fields);
    let Some(Note::Event { name, fields, .. }) = Note::decode(NoteKind::Event, &bytes) else {
        panic!("{bytes:02x?}");
    };
    assert_eq!(name, 0x0304);
    let values: Vec<FieldValue<'_>> = fields.iter().map(|field| field.value).collect();
    check(&values);
}

fn field(value: Value<'_>) -> Field<'_> {
    (Some(&NAME), value)
}

#[test]
fn bodies_are_the_documents_bytes() {
    let fields = [field(Value::Signed(-2)), (None, Value::Text("abcdefghi"))];
    let wanted: &[u8] = &[
        4, 3, 0, 0, 0, 4, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, // the head: a warning
        2, 1, 0, 0, 1, 0, 0, 0, 0xfe, 255, 255, 255, 255, 255, 255, 255, // -2
        0, 0, 0, 0, 4, 0, 9, 0, 9, 0, 0, 0, 0, 0, 0, 0, // a text of nine bytes
        b'a', b'b', b'c', b'd', b'e', b'f', b'g', b'h', b'i', 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(bytes(Form::Instant, Level::Warn, &fields), wanted);
    let wanted: &[u8] = &[4, 3, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(bytes(Form::Counter, Level::NotKnown, &[]), wanted);
    assert_eq!(bytes(Form::Begin, Level::NotKnown, &[])[4], 1);
}

#[test]
fn values_have_types() {
    let (place, debug, owned) = (7_u8, Some("x"), String::from("owned"));
    let address = &raw const place;
    let fields = [
        u64::MAX.as_value(),
        (-1_i8).as_value(),
        1.5_f32.as_value(),
        true.as_value(),
        address.as_value(),
        "\u{202e}\0\x1b[31m".as_value(),
        owned.as_value(),
        'c'.as_value(),
        u128::MAX.as_value(),
        Value::Debug(&debug),
        Value::Display(&1.5),
    ];
    let fields = fields.map(field);
    with_values(&fields, |values| {
        let text = |text: &'static str| FieldValue::Text(text.as_bytes(), text.len() as u64);
        let wanted = [
            FieldValue::Unsigned(u64::MAX),
            FieldValue::Signed(-1),
            FieldValue::Float(1.5),
            FieldValue::Truth(true),
            FieldValue::Address(address.addr() as u64),
            text("\u{202e}\0\x1b[31m"),
            text("owned"),
            text("c"),
            text("340282366920938463463374607431768211455"),
            text("Some(\"x\")"),
            text("1.5"),
        ];
        assert_eq!(values, wanted);
    });
}

#[test]
fn long_texts_leave_room_for_later_fields() {
    let long = "ä".repeat(32 * 1024);
    let mut fields = vec![field(Value::Text(&long)); MAX_FIELDS - 1];
    fields.push(field(Value::Unsigned(7)));
    with_values(&fields, |values| {
        assert_eq!(values.len(), MAX_FIELDS);
        let FieldValue::Text(first, whole) = values[0] else {
            panic!("{values:?}");
        };
        assert_eq!((first.len(), whole), (MAX_TEXT, 64 * 1024));
        let texts: usize = values
            .iter()
            .map(|value| match value {
                FieldValue::Text(text, 65536) if std::str::from_utf8(text).is_ok() => text.len(),
                FieldValue::Unsigned(7) => 0,
                other => panic!("{other:?}"),
            })
            .sum();
        assert_eq!(texts, (WORDS - HEAD - MAX_FIELDS * FIELD) * 8);
    });
    // One more is left out.
    fields.push(field(Value::Unsigned(8)));
    with_values(&fields, |values| assert_eq!(values.len(), MAX_FIELDS));
}

/// A text that is printed in parts is cut once, and its whole length is known.
#[test]
fn texts_in_parts_are_cut_once() {
    struct Parts;
    impl fmt::Display for Parts {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&"a".repeat(MAX_TEXT - 1))?;
            f.write_str("ä")?;
            f.write_str("b")
        }
    }
    with_values(&[field(Value::Display(&Parts))], |values| {
        let wanted = "a".repeat(MAX_TEXT - 1);
        let wanted = FieldValue::Text(wanted.as_bytes(), MAX_TEXT as u64 + 2);
        assert_eq!(values, [wanted]);
    });
}

#[test]
fn an_error_of_a_value_ends_its_text() {
    struct Fails;
    impl fmt::Debug for Fails {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("so far")?;
            Err(fmt::Error)
        }
    }
    let fields = [field(Value::Debug(&Fails)), field(Value::Truth(false))];
    with_values(&fields, |values| {
        assert_eq!(
            values,
            [FieldValue::Text(b"so far", 6), FieldValue::Truth(false)]
        );
    });
}

#[test]
fn values_one_by_one_give_the_same_bytes() {
    let values = [
        Value::Signed(-2),
        Value::Text("abcdefghi"),
        Value::Debug(&"x"),
    ];
    let fields = values.map(field);
    let wanted = bytes(Form::Begin, Level::Warn, &fields);
    // Values may be missing.
    for most in [3, 5, 100] {
        let mut note = EventNote::new(&EVENT, Form::Begin, Level::Warn, most);
        assert!(!note.has_fields());
        values.iter().for_each(|value| note.put(&NAME, *value));
        assert!(note.has_fields());
        let bytes = note.words().iter().flat_map(|word| word.to_le_bytes());
        assert_eq!(bytes.collect::<Vec<u8>>(), wanted, "{most}");
    }
    // A note has at most `most` fields, and at most the maximum of a note.
    for (most, wanted) in [(2, 2), (0, 0), (100, 32)] {
        let mut note = EventNote::new(&EVENT, Form::Begin, Level::Warn, most);
        (0..40).for_each(|number| note.put(&NAME, Value::Unsigned(number)));
        let bytes = note.words().iter().flat_map(|word| word.to_le_bytes());
        let bytes: Vec<u8> = bytes.collect();
        let Some(Note::Event { fields, .. }) = Note::decode(NoteKind::Event, &bytes) else {
            panic!("{bytes:02x?}");
        };
        assert_eq!(fields.len(), wanted);
    }
}
