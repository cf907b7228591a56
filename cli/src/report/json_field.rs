//! A field of an event, or an argument of a call, as JSON.

use std::borrow::Cow;

use fdr_formats::TraceInfo;
use fdr_formats::note_words;
use fdr_formats::notes::{Field, FieldValue};
use serde::Serialize;
use serde_json::Value;

/// A field of an event, or an argument of a call.
#[derive(Serialize)]
pub(crate) struct JsonField<'a> {
    name: Cow<'a, str>,
    value: Value,
    /// Of a text that was cut, its whole length in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

impl<'a> JsonField<'a> {
    pub(crate) fn list(fields: &[Field<'_>], info: &'a TraceInfo) -> Vec<JsonField<'a>> {
        let fields = fields.iter();
        fields.map(|field| JsonField::new(field, info)).collect()
    }

    fn new(field: &Field<'_>, info: &'a TraceInfo) -> JsonField<'a> {
        let value = match field.value {
            FieldValue::Unsigned(number) => number.into(),
            FieldValue::Signed(number) => number.into(),
            FieldValue::Float(number) => number.into(),
            FieldValue::Truth(truth) => truth.into(),
            FieldValue::Text(text, _) => String::from_utf8_lossy(text).into(),
            other => other.to_string().into(),
        };
        let bytes = match field.value {
            FieldValue::Text(text, whole) => Some(whole).filter(|&whole| whole > text.len() as u64),
            _ => None,
        };
        JsonField {
            name: match field.name {
                0 => note_words::result(field).into(),
                name => note_words::name(info, name),
            },
            value,
            bytes,
        }
    }
}
